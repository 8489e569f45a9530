// Runs one head of the CPU backend on arrays of any type and layout, for the tests that compare it with plain loops.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <vector>

#include "nixie/apps/benchmark/checks/terms.h"
#include "nixie/backends/cpu/contract/contract.h"

namespace nixie::cpu_test {

/// Calls `visit(position)` for each position of a shape in row-major order.
template <class Visit>
void for_each_position(const Shape& shape, const Visit& visit) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(shape.rank()));
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    std::int64_t rest = i;
    for (std::size_t a = at.size(); a-- > 0; rest /= shape.sizes()[a]) at[a] = rest % shape.sizes()[a];
    visit(at);
  }
}

/// An array's layout in memory.
enum class Layout { dense, reversed_axes, gaps, negative, broadcast_first };
inline constexpr Layout kLayouts[] = {Layout::dense, Layout::reversed_axes, Layout::gaps, Layout::negative,
                                      Layout::broadcast_first};

/// Small whole numbers, so that sums are exact in every type and any order.
struct Array {
  Dtype dtype;
  Shape shape;
  Strides strides;
  std::int64_t origin = 0;  ///< of position 0, in elements
  std::vector<std::byte> bytes;

  Array(Dtype dtype, Shape shape_, Layout layout, unsigned seed, int low = -3, int high = 3)
      : dtype(dtype), shape(std::move(shape_)), strides(shape.row_major()) {
    const int rank = shape.rank();
    std::int64_t room = 1;
    if (layout == Layout::reversed_axes) {
      for (int a = 0; a < rank; ++a) {
        strides[static_cast<std::size_t>(a)] = room;
        room *= shape[a];
      }
    } else if (layout != Layout::dense) {
      for (int a = rank - 1; a >= 0; --a) {
        strides[static_cast<std::size_t>(a)] = room;
        room = room * shape[a] + 3;
      }
    }
    if (layout == Layout::broadcast_first && rank > 0) strides[0] = 0;
    std::int64_t low_end = 0, high_end = 0;
    for (int a = 0; a < rank && shape.size() > 0; ++a) {
      std::int64_t& stride = strides[static_cast<std::size_t>(a)];
      if (layout == Layout::negative) stride = -stride;
      (stride < 0 ? low_end : high_end) += stride * (shape[a] - 1);
    }
    origin = -low_end + 5;
    const std::int64_t count = origin + high_end + 1;
    bytes.resize(static_cast<std::size_t>(count * size_of(dtype)));
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> number(is_unsigned(dtype) ? 0 : low, high);
    for (std::int64_t i = 0; i < count; ++i) set(i, number(random));
  }
  void set(std::int64_t element, double value) {
    visit_dtype(dtype, [&]<class T>(T) { reinterpret_cast<T*>(bytes.data())[element] = convert<T>(value); });
  }
  std::int64_t element(const std::vector<std::int64_t>& at) const {
    std::int64_t offset = origin;
    for (std::size_t a = 0; a < at.size(); ++a) offset += at[a] * strides[a];
    return offset;
  }
  double operator()(const std::vector<std::int64_t>& at) const {
    return visit_dtype(
        dtype, [&]<class T>(T) { return convert<double>(reinterpret_cast<const T*>(bytes.data())[element(at)]); });
  }
  /// In row-major order.
  std::vector<double> values() const {
    std::vector<double> result;
    for_each_position(shape, [&](const std::vector<std::int64_t>& at) { result.push_back((*this)(at)); });
    return result;
  }
  cpu::BoundOperand bound() const { return {bytes.data() + origin * size_of(dtype), dtype, shape, strides}; }
};

/// The head's result as doubles; expects the finished pieces to cover it exactly once.
inline std::vector<double> run_head(const Head& head, const Shape& domain, const std::vector<const Array*>& arrays,
                                    int threads = 2) {
  cpu::ThreadPool pool(threads);
  std::vector<cpu::BoundOperand> operands;
  for (const Array* array : arrays) operands.push_back(array->bound());
  const Dtype type = compute_dtype(head.dtype);
  const std::size_t size = static_cast<std::size_t>(domain.size());
  std::vector<std::byte> result(size * static_cast<std::size_t>(size_of(type)) + 64, std::byte{0xff});
  std::vector<std::atomic<int>> finished(size);
  cpu::run_head(head, domain, operands,
                {result.data(),
                 [&](std::int64_t first, std::int64_t count) {
                   for (std::int64_t i = first; i < first + count; ++i) ++finished.at(static_cast<std::size_t>(i));
                 }},
                pool);
  for (std::size_t i = 0; i < size; ++i)
    if (finished[i] != 1) {
      ADD_FAILURE() << "element " << i << " was reported finished " << finished[i] << " times";
      break;
    }
  for (std::size_t i = result.size() - 64; i < result.size(); ++i)
    if (result[i] != std::byte{0xff}) {
      ADD_FAILURE() << "the head wrote behind its result";
      break;
    }
  std::vector<double> values(size);
  visit_dtype(type, [&]<class T>(T) {
    for (std::size_t i = 0; i < size; ++i) values[i] = convert<double>(reinterpret_cast<const T*>(result.data())[i]);
  });
  return values;
}

inline void expect_same(const std::vector<double>& actual, const std::vector<double>& expected,
                        const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const bool both_nan = actual[i] != actual[i] && expected[i] != expected[i];
    if (!both_nan && actual[i] != expected[i]) {
      FAIL() << what << ": element " << i << " is " << actual[i] << ", expected " << expected[i];
    }
  }
}

/// A convolution or product by plain loops in double.
template <class Op>
std::vector<double> plain_sums(const Op& op, const Array& a, const Array& b, const Shape& result) {
  const std::vector<double> left = a.values(), right = b.values();
  std::vector<double> sums(static_cast<std::size_t>(result.size()));
  for (std::size_t at = 0; at < sums.size(); ++at)
    benchmark::for_each_term(op, a.shape, b.shape, result, static_cast<std::int64_t>(at),
                             [&](std::int64_t i, std::int64_t j) {
                               sums[at] += left[static_cast<std::size_t>(i)] * right[static_cast<std::size_t>(j)];
                             });
  return sums;
}

}  // namespace nixie::cpu_test

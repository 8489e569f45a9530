// Sums the terms of elements (checks/terms.h), and compares.
#include "nixie/apps/benchmark/checks/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "nixie/apps/benchmark/checks/terms.h"
#include "nixie/core/base/random.h"
#include "nixie/core/base/threads.h"

namespace nixie::benchmark {
namespace {

constexpr double kSmallestNormalHalf = 0x1p-14;

/// Calls `work(begin, end)` for parts of [0, size) on all cores and gives what the calls return, in no order.
template <class Work>
auto in_parts(std::int64_t size, const Work& work) {
  constexpr std::int64_t kSmallest = 1 << 20;
  const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency()),
                     parts = std::clamp<std::int64_t>(size / kSmallest, 1, cores);
  std::vector<decltype(work(size, size))> results(static_cast<std::size_t>(parts));
  const auto do_part = [&](std::int64_t i) {
    results[static_cast<std::size_t>(i)] = work(size * i / parts, size * (i + 1) / parts);
  };
  if (parts == 1)
    do_part(0);
  else
    share_out("check", parts, do_part);
  return results;
}

}  // namespace

bool is_finite(const Array& array) {
  const Elements elements(array);
  const auto parts = in_parts(array.size(), [&](std::int64_t begin, std::int64_t end) {
    bool finite = true;
    for (std::int64_t i = begin; i < end; ++i) finite &= std::isfinite(elements[i]);
    return finite ? 1 : 0;
  });
  return std::count(parts.begin(), parts.end(), 0) == 0;
}

ExactSum reference_element(const Tensor& node, const Elements& a, const Elements& b, std::int64_t position) {
  ExactSum sum;
  const auto add = [&](const auto& op) {
    for_each_term(op, node.inputs()[0].shape(), node.inputs()[1].shape(), node.shape(), position,
                  [&](std::int64_t i, std::int64_t j) { sum.add(a[i] * b[j]); });
  };
  if (const auto* conv = std::get_if<Conv>(&node.node().op)) {
    add(*conv);
  } else {
    check(std::holds_alternative<Matmul>(node.node().op), "there is a reference for products and convolutions only");
    add(Matmul{});
  }
  return sum;
}

ExactSum reference_bias_grad(const Shape& shape, const Elements& output_grad, bool is_conv, std::int64_t channel,
                             double smallest) {
  const int axis = is_conv ? 1 : shape.rank() - 2;
  const std::int64_t inner = shape.row_major()[static_cast<std::size_t>(axis)], block = inner * shape[axis];
  ExactSum sum;
  for (std::int64_t start = channel * inner; start < shape.size(); start += block)
    for (std::int64_t i = start; i < start + inner; ++i) {
      const double term = output_grad[i];
      sum.add(term);
      if (std::abs(term) < kSmallestNormalHalf) sum.moved += smallest;
    }
  return sum;
}

void Deviation::add(double found, double expected) {
  max_difference = std::max(max_difference, std::abs(found - expected));
  sum_reference += std::abs(expected);
  ++samples;
}

void Deviation::add(double found, const ExactSum& expected, const Rounding& rounding) {
  add(found, expected.value);
  const double difference = std::abs(found - expected.value);
  if (difference > 0) max_share = std::max(max_share, difference / rounding.allowed(expected));
}

double Deviation::share() const {
  return is_finite && std::isfinite(max_difference) ? max_share : std::numeric_limits<double>::infinity();
}

double Deviation::error() const {
  if (!is_finite || !std::isfinite(max_difference)) return std::numeric_limits<double>::infinity();
  return max_difference == 0 ? 0 : max_difference * static_cast<double>(samples) / sum_reference;
}

void check_rounding(const Deviation& deviation, const std::string& what, const PrecisionTraits& precision,
                    const std::string& how) {
  if (!(deviation.share() <= 1))
    fail(Fault::non_finite, what, " is wrong: max|diff| / mean|ref| is ", deviation.error(), ", ", deviation.share(),
         " times the rounding error bound in ", precision.name, how);
}

Elements rounded(const Array& operand, Dtype dtype, bool transposed) {
  return Elements(operand.dtype() == dtype ? operand : operand.to(dtype).to(Dtype::f32), transposed);
}

std::vector<ExactSum> reference_elements(const Tensor& node, const Elements& a, const Elements& b,
                                         const std::vector<std::int64_t>& positions) {
  std::vector<ExactSum> elements(positions.size());
  share_out("check", static_cast<std::int64_t>(positions.size()), [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    elements[at] = reference_element(node, a, b, positions[at]);
  });
  return elements;
}

Deviation deviation_at(const Array& result, const std::vector<std::int64_t>& positions,
                       const std::vector<ExactSum>& expected, const Rounding& rounding) {
  const Elements values(result);
  Deviation deviation{.is_finite = is_finite(result)};
  // Winograd's transforms mix neighbouring elements: one whose own terms are zero errs as much as its neighbours do.
  double mean_squares = 0;
  for (const ExactSum& sum : expected) mean_squares += sum.squares / static_cast<double>(expected.size());
  for (std::size_t i = 0; i < positions.size(); ++i) {
    ExactSum sum = expected[i];
    sum.squares = std::max(sum.squares, mean_squares);
    deviation.add(values[positions[i]], sum, rounding);
  }
  return deviation;
}

Deviation compare_with_reference(const Tensor& node, const Array& a, const Array& b, const Array& result,
                                 const PrecisionTraits& precision, std::int64_t samples) {
  const std::vector<std::int64_t> positions = sampled_positions(result.size(), samples);
  const std::vector<ExactSum> expected =
      reference_elements(node, rounded(a, precision.operands), rounded(b, precision.operands), positions);
  return deviation_at(result, positions, expected, precision.rounding);
}

Deviation compare_bias_grad(const Array& output_grad, bool is_conv, const Array& result,
                            const PrecisionTraits& precision, std::int64_t samples) {
  const std::vector<std::int64_t> channels = sampled_positions(result.size(), samples);
  const Elements terms(output_grad);
  std::vector<ExactSum> expected;
  for (const std::int64_t channel : channels)
    expected.push_back(reference_bias_grad(output_grad.shape(), terms, is_conv, channel, precision.rounding.smallest));
  return deviation_at(result, channels, expected, precision.rounding);
}

double relative_distance(const Array& a, const Array& b) {
  check(a.shape() == b.shape(), "arrays of ", a.shape(), " and ", b.shape(), " are compared");
  const Elements left(a), right(b);
  double difference = 0, size = 0;
  for (const auto& [part_difference, part_size] : in_parts(a.size(), [&](std::int64_t begin, std::int64_t end) {
         std::pair<double, double> part{0, 0};
         for (std::int64_t i = begin; i < end; ++i) {
           const double expected = right[i], off = left[i] - expected;
           part.first += off * off;
           part.second += expected * expected;
         }
         return part;
       })) {
    difference += part_difference;
    size += part_size;
  }
  if (!std::isfinite(difference) || !std::isfinite(size)) return std::numeric_limits<double>::infinity();
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

std::vector<std::int64_t> sampled_positions(std::int64_t size, std::int64_t samples) {
  std::vector<std::int64_t> positions;
  if (size <= samples) {
    for (std::int64_t i = 0; i < size; ++i) positions.push_back(i);
    return positions;
  }
  positions = {0, size - 1};
  const std::uint64_t stream = random_stream(1, "sampled positions");
  for (std::uint32_t i = 0; static_cast<std::int64_t>(positions.size()) < samples; ++i) {
    const auto words = philox({i, 0, 0, 0}, stream);
    const std::uint64_t draw = (std::uint64_t{words[0]} << 32) | words[1];
    positions.push_back(static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(size)));
  }
  return positions;
}

}  // namespace nixie::benchmark

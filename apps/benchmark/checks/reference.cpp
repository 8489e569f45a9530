// Plain loops over what one element is made of. Convolutions with fewer than three spatial axes get axes of size 1.
#include "nixie/apps/benchmark/checks/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "nixie/core/base/random.h"
#include "nixie/core/base/threads.h"

namespace nixie::benchmark {
namespace {

using Sizes = std::array<std::int64_t, 5>;  // N, C, depth, height, width

struct Geometry {
  Sizes x, w, y;
  std::array<std::int64_t, 3> stride{1, 1, 1}, pad{0, 0, 0}, dilation{1, 1, 1};
  std::int64_t groups = 1;
};

Sizes five(const Shape& shape) {
  Sizes sizes{shape[0], shape[1], 1, 1, 1};
  for (int i = 2; i < shape.rank(); ++i) sizes[static_cast<std::size_t>(i + 5 - shape.rank())] = shape[i];
  return sizes;
}

std::int64_t at(const Sizes& sizes, std::int64_t n, std::int64_t c, const std::array<std::int64_t, 3>& p) {
  return (((n * sizes[1] + c) * sizes[2] + p[0]) * sizes[3] + p[1]) * sizes[4] + p[2];
}

Sizes split(const Sizes& sizes, std::int64_t position) {
  Sizes index{};
  for (std::size_t i = 5; i-- > 0; position /= sizes[i]) index[i] = position % sizes[i];
  return index;
}

template <class Visit>
void for_each_position(const Sizes& sizes, Visit&& visit) {
  std::array<std::int64_t, 3> p{};
  for (p[0] = 0; p[0] < sizes[2]; ++p[0])
    for (p[1] = 0; p[1] < sizes[3]; ++p[1])
      for (p[2] = 0; p[2] < sizes[4]; ++p[2]) visit(p);
}

/// Where filter tap t of output position p reads the input; false outside.
bool input_position(const Geometry& g, const std::array<std::int64_t, 3>& p, const std::array<std::int64_t, 3>& t,
                    std::array<std::int64_t, 3>& in) {
  for (std::size_t i = 0; i < 3; ++i) {
    in[i] = p[i] * g.stride[i] - g.pad[i] + t[i] * g.dilation[i];
    if (in[i] < 0 || in[i] >= g.x[i + 2]) return false;
  }
  return true;
}

/// Which output position reads input position `in` with filter tap t; false where none does.
bool output_position(const Geometry& g, const std::array<std::int64_t, 3>& in, const std::array<std::int64_t, 3>& t,
                     std::array<std::int64_t, 3>& p) {
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t from = in[i] + g.pad[i] - t[i] * g.dilation[i];
    if (from < 0 || from % g.stride[i] != 0) return false;
    p[i] = from / g.stride[i];
    if (p[i] >= g.y[i + 2]) return false;
  }
  return true;
}

constexpr double kSmallestNormalHalf = 0x1p-14;

double product(const Elements& a, std::int64_t i, const Elements& b, std::int64_t j) { return a[i] * b[j]; }

ExactSum output_element(const Geometry& g, const Elements& x, const Elements& w, const Sizes& e) {
  const std::int64_t first = e[1] / (g.w[0] / g.groups) * g.w[1];  // channel of the group
  ExactSum sum;
  std::array<std::int64_t, 3> in;
  for_each_position(g.w, [&](const auto& t) {
    if (!input_position(g, {e[2], e[3], e[4]}, t, in)) return;
    for (std::int64_t c = 0; c < g.w[1]; ++c) sum.add(product(x, at(g.x, e[0], first + c, in), w, at(g.w, e[1], c, t)));
  });
  return sum;
}

ExactSum input_grad_element(const Geometry& g, const Elements& dy, const Elements& w, const Sizes& e) {
  const std::int64_t per_group = g.w[0] / g.groups, first = e[1] / g.w[1] * per_group;  // filter of the group
  ExactSum sum;
  std::array<std::int64_t, 3> p;
  for_each_position(g.w, [&](const auto& t) {
    if (!output_position(g, {e[2], e[3], e[4]}, t, p)) return;
    for (std::int64_t k = first; k < first + per_group; ++k)
      sum.add(product(dy, at(g.y, e[0], k, p), w, at(g.w, k, e[1] % g.w[1], t)));
  });
  return sum;
}

ExactSum filter_grad_element(const Geometry& g, const Elements& dy, const Elements& x, const Sizes& e) {
  const std::int64_t channel = e[0] / (g.w[0] / g.groups) * g.w[1] + e[1];
  ExactSum sum;
  std::array<std::int64_t, 3> in;
  for (std::int64_t n = 0; n < g.x[0]; ++n)
    for_each_position(g.y, [&](const auto& p) {
      if (input_position(g, p, {e[2], e[3], e[4]}, in))
        sum.add(product(dy, at(g.y, n, e[0], p), x, at(g.x, n, channel, in)));
    });
  return sum;
}

Geometry geometry(const Conv& conv, const Shape& x, const Shape& w, const Shape& y) {
  Geometry g{.x = five(x), .w = five(w), .y = five(y), .groups = conv.groups};
  const std::size_t axes = conv.stride.size(), skipped = 3 - axes;
  for (std::size_t i = 0; i < axes; ++i) {
    g.stride[skipped + i] = conv.stride[i];
    g.pad[skipped + i] = conv.pad[i];
    g.dilation[skipped + i] = conv.dilation[i];
  }
  return g;
}

ExactSum conv_element(const Conv& conv, const Tensor& node, const Elements& a, const Elements& b,
                      std::int64_t position) {
  const Shape &own = node.shape(), &first = node.inputs()[0].shape(), &second = node.inputs()[1].shape();
  switch (conv.role) {
    case ConvRole::output: {
      const Geometry g = geometry(conv, first, second, own);
      return output_element(g, a, b, split(g.y, position));
    }
    case ConvRole::input_grad: {
      const Geometry g = geometry(conv, own, second, first);
      return input_grad_element(g, a, b, split(g.x, position));
    }
    case ConvRole::filter_grad:
      break;
  }
  const Geometry g = geometry(conv, second, own, first);
  return filter_grad_element(g, a, b, split(g.w, position));
}

ExactSum matmul_element(const Tensor& node, const Elements& a, const Elements& b, std::int64_t position) {
  const std::int64_t m = node.shape()[-2], n = node.shape()[-1], k = node.inputs()[0].shape()[-1];
  const std::int64_t batch = position / (m * n), row = position / n % m, column = position % n;
  ExactSum sum;
  for (std::int64_t i = 0; i < k; ++i) sum.add(product(a, (batch * m + row) * k + i, b, (batch * k + i) * n + column));
  return sum;
}

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
  if (const auto* conv = std::get_if<Conv>(&node.node().op)) return conv_element(*conv, node, a, b, position);
  check(std::holds_alternative<Matmul>(node.node().op), "there is a reference for products and convolutions only");
  return matmul_element(node, a, b, position);
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

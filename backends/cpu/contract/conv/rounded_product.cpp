// Products and convolutions whose sums are rounded on the way: a block of results at a time, its terms group by group.
#include <array>
#include <cmath>
#include <vector>

#include "nixie/backends/cpu/contract/operand.h"
#include "nixie/backends/cpu/lanes/lanes.h"
#include "nixie/core/ops/elementwise.h"

namespace nixie::cpu {
namespace {

constexpr std::int64_t kRows = 64, kColumns = 64, kResults = kRows * kColumns;  // of a block
static_assert(kResults % kLaneBlock == 0);

/// Sums::merge on a block of results.
class Merge {
 public:
  explicit Merge(const Formula& formula) : formula_(formula), registers_(formula.body.size()) {
    for (std::size_t i = 0; i < formula.body.size(); ++i)
      if (const Instruction& in = formula.body[i]; in.primitive == Primitive::constant)
        registers_[i].assign(kResults, static_cast<float>(in.value));
      else if (in.primitive != Primitive::parameter)
        registers_[i].resize(kResults);
  }
  /// sum = merge(sum, group).
  void operator()(std::vector<float>& sum, const std::vector<float>& group) {
    const auto values = [&](int reg) -> const void* {
      if (reg < 0) return nullptr;
      const Instruction& in = formula_.body[static_cast<std::size_t>(reg)];
      if (in.primitive == Primitive::parameter) return in.index == 0 ? sum.data() : group.data();
      return registers_[static_cast<std::size_t>(reg)].data();
    };
    for (std::size_t i = 0; i < formula_.body.size(); ++i) {
      const Instruction& in = formula_.body[i];
      if (in.primitive == Primitive::parameter || in.primitive == Primitive::constant) continue;
      lane_function(in.primitive, Dtype::f32, Dtype::f32)(values(in.args[0]), values(in.args[1]), values(in.args[2]),
                                                          registers_[i].data(), kResults);
    }
    sum = registers_.back();
  }

 private:
  const Formula& formula_;
  std::vector<std::vector<float>> registers_;
};

/// The terms of matrices. Offsets are -1 where a term is 0.
class MatmulTerms {
 public:
  MatmulTerms(const Strided<float>& a, const Strided<float>& b, const Shape& domain) : a_(a), b_(b), domain_(domain) {
    rows = domain[-2], columns = domain[-1], terms = a.size(-1);
    products = domain.size() / (rows * columns);
  }
  std::int64_t rows, columns, terms, products;

  struct Line {
    std::int64_t base;
  };
  Line row(std::int64_t product, std::int64_t i) const { return {base(a_, product) + i * a_.stride(-2)}; }
  Line column(std::int64_t product, std::int64_t i) const { return {base(b_, product) + i * b_.stride(-1)}; }
  std::int64_t term(std::int64_t i) const { return i; }
  std::int64_t left(const Line& row, std::int64_t term) const { return row.base + term * a_.stride(-1); }
  std::int64_t right(std::int64_t term, const Line& column) const { return column.base + term * b_.stride(-2); }
  std::int64_t result(std::int64_t product, std::int64_t row, std::int64_t column) const {
    return (product * rows + row) * columns + column;
  }

 private:
  std::int64_t base(const Strided<float>& x, std::int64_t product) const {
    std::int64_t offset = 0;
    for (int axis = domain_.rank() - 3; axis >= 0; product /= domain_[axis], --axis)
      offset += product % domain_[axis] * x.stride(axis);
    return offset;
  }
  const Strided<float>&a_, &b_;
  const Shape& domain_;
};

/// Those of a convolution in each of its roles. A row, a column and a term each know some of: an image, a filter, a
/// channel, a pixel of x or y, a position in the window.
class ConvTerms {
 public:
  using Place = std::array<std::int64_t, 3>;
  struct Part {
    std::int64_t image = 0, filter = 0, channel = 0;
    Place pixel{}, tap{};
  };

  ConvTerms(const Conv& conv, const Strided<float>& a, const Strided<float>& b, const Shape& domain)
      : conv_(conv), a_(a), b_(b), axes_(domain.rank() - 2) {
    const bool output = conv.role == ConvRole::output, filter_grad = conv.role == ConvRole::filter_grad;
    x_ = output ? a.shape() : filter_grad ? b.shape() : domain;
    w_ = filter_grad ? domain : b.shape();
    y_ = output ? domain : a.shape();
    filters_ = w_[0] / conv.groups, channels_ = w_[1], products = conv.groups;
    const std::int64_t window = pixels(w_);
    rows = output ? y_[0] * pixels(y_) : filter_grad ? filters_ : x_[0] * pixels(x_);
    columns = output ? filters_ : filter_grad ? window * channels_ : channels_;
    terms = output ? window * channels_ : filter_grad ? y_[0] * pixels(y_) : window * filters_;
  }
  std::int64_t rows, columns, terms, products;

  Part row(std::int64_t group, std::int64_t i) const {
    if (conv_.role == ConvRole::filter_grad) return {.filter = group * filters_ + i};
    Part part = of_pixel(i, conv_.role == ConvRole::output ? y_ : x_);
    part.filter = group * filters_, part.channel = group * channels_;
    return part;
  }
  Part column(std::int64_t group, std::int64_t i) const {
    if (conv_.role == ConvRole::output) return {.filter = group * filters_ + i};
    if (conv_.role == ConvRole::input_grad) return {.filter = group * filters_, .channel = i};
    return {.channel = group * channels_ + i % channels_, .tap = place(i / channels_, w_)};
  }
  Part term(std::int64_t i) const {
    if (conv_.role == ConvRole::output) return {.channel = i % channels_, .tap = place(i / channels_, w_)};
    if (conv_.role == ConvRole::input_grad) return {.filter = i % filters_, .tap = place(i / filters_, w_)};
    return of_pixel(i, y_);
  }
  std::int64_t left(const Part& row, const Part& term) const {
    if (conv_.role == ConvRole::output) return x_offset(a_, row.image, row.channel + term.channel, row.pixel, term.tap);
    if (conv_.role == ConvRole::filter_grad) return offset(a_, term.image, row.filter, term.pixel);
    Place out{};
    for (int axis = 0; axis < axes_; ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      const std::int64_t from = row.pixel[at] + conv_.pad[at] - term.tap[at] * conv_.dilation[at];
      out[at] = from / conv_.stride[at];
      if (from < 0 || from % conv_.stride[at] != 0 || out[at] >= y_[axis + 2]) return -1;
    }
    return offset(a_, row.image, row.filter + term.filter, out);
  }
  std::int64_t right(const Part& term, const Part& column) const {
    if (conv_.role == ConvRole::output) return offset(b_, column.filter, term.channel, term.tap);
    if (conv_.role == ConvRole::input_grad) return offset(b_, column.filter + term.filter, column.channel, term.tap);
    return x_offset(b_, term.image, column.channel, term.pixel, column.tap);
  }
  std::int64_t result(std::int64_t group, std::int64_t row, std::int64_t column) const {
    if (conv_.role == ConvRole::filter_grad)
      return ((group * filters_ + row) * channels_ + column % channels_) * pixels(w_) + column / channels_;
    const Shape& of = conv_.role == ConvRole::output ? y_ : x_;
    const std::int64_t channel = group * columns + column, count = pixels(of);
    return (row / count * of[1] + channel) * count + row % count;
  }

 private:
  static std::int64_t pixels(const Shape& shape) {
    return shape.size() / std::max<std::int64_t>(1, shape[0] * shape[1]);
  }
  Place place(std::int64_t i, const Shape& shape) const {
    Place place{};
    for (int axis = axes_ - 1; axis >= 0; i /= shape[axis + 2], --axis)
      place[static_cast<std::size_t>(axis)] = i % shape[axis + 2];
    return place;
  }
  Part of_pixel(std::int64_t i, const Shape& images) const {
    return {.image = i / pixels(images), .pixel = place(i % pixels(images), images)};
  }
  std::int64_t offset(const Strided<float>& from, std::int64_t first, std::int64_t second, const Place& place) const {
    std::int64_t offset = first * from.stride(0) + second * from.stride(1);
    for (int axis = 0; axis < axes_; ++axis) offset += place[static_cast<std::size_t>(axis)] * from.stride(axis + 2);
    return offset;
  }
  std::int64_t x_offset(const Strided<float>& x, std::int64_t image, std::int64_t channel, const Place& out,
                        const Place& tap) const {
    Place in{};
    for (int axis = 0; axis < axes_; ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      in[at] = out[at] * conv_.stride[at] - conv_.pad[at] + tap[at] * conv_.dilation[at];
      if (in[at] < 0 || in[at] >= x_[axis + 2]) return -1;
    }
    return offset(x, image, channel, in);
  }

  const Conv& conv_;
  const Strided<float>&a_, &b_;
  int axes_;
  Shape x_, w_, y_;
  std::int64_t filters_, channels_;
};

/// A block of the results of one product.
template <class Terms>
class Block {
 public:
  Block(const Terms& terms, const Sums& sums, const float* a, const float* b, std::int64_t product, std::int64_t row,
        std::int64_t column)
      : terms_(terms),
        sums_(sums),
        a_(a),
        b_(b),
        product_(product),
        row_(row),
        column_(column),
        rows_(std::min(kRows, terms.rows - row)),
        columns_(std::min(kColumns, terms.columns - column)),
        merge_(sums.merge->formula) {
    for (std::int64_t i = 0; i < rows_; ++i) row_parts_.push_back(terms.row(product, row + i));
    for (std::int64_t i = 0; i < columns_; ++i) column_parts_.push_back(terms.column(product, column + i));
  }

  void run(float* to) {
    const std::int64_t parts = ceil_div(terms_.terms, Sums::kPart);
    std::vector<float> total(kResults), sum(kResults), group(kResults);
    for (std::int64_t first = 0; first < terms_.terms; first += Sums::kPart) {
      const std::int64_t last = std::min<std::int64_t>(terms_.terms, first + Sums::kPart);
      std::ranges::fill(sum, 0.0F);
      for (std::int64_t k = first; k < last; k += sums_.every) {
        add_terms(k, std::min<std::int64_t>(last, k + sums_.every), group);
        merge_(sum, group);
      }
      for (float& each : sum) each += 0.0F;  // -0 becomes 0
      if (parts > 1)
        merge_(total, sum);
      else
        total = sum;
    }
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < columns_; ++c)
        to[terms_.result(product_, row_ + r, column_ + c)] = total[at(r, c)] + 0.0F;
  }

 private:
  static std::size_t at(std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(row * kColumns + column);
  }

  void add_terms(std::int64_t first, std::int64_t last, std::vector<float>& group) {
    std::array<float, kColumns> right{};
    std::ranges::fill(group, 0.0F);
    for (std::int64_t k = first; k < last; ++k) {
      const auto term = terms_.term(k);
      for (std::int64_t c = 0; c < columns_; ++c)
        right[static_cast<std::size_t>(c)] = value(b_, terms_.right(term, column_parts_[static_cast<std::size_t>(c)]));
      for (std::int64_t r = 0; r < rows_; ++r) {
        const float left = value(a_, terms_.left(row_parts_[static_cast<std::size_t>(r)], term));
        float* sums = group.data() + r * kColumns;
        for (std::size_t c = 0; c < kColumns; ++c) sums[c] = std::fma(left, right[c], sums[c]);
      }
    }
  }
  static float value(const float* from, std::int64_t offset) { return offset < 0 ? 0.0F : from[offset]; }

  const Terms& terms_;
  const Sums& sums_;
  const float *a_, *b_;
  std::int64_t product_, row_, column_, rows_, columns_;
  Merge merge_;
  std::vector<decltype(terms_.row(0, 0))> row_parts_;
  std::vector<decltype(terms_.column(0, 0))> column_parts_;
};

template <class Terms>
void run_blocks(const Terms& terms, const Sums& sums, const float* a, const float* b, float* to, ThreadPool& pool) {
  const std::int64_t down = ceil_div(terms.rows, kRows), across = ceil_div(terms.columns, kColumns);
  pool.parallel_for(terms.products * down * across, [&](std::int64_t i) {
    Block<Terms>(terms, sums, a, b, i / (down * across), i / across % down * kRows, i % across * kColumns).run(to);
  });
}

}  // namespace

void run_rounded_product(const RoundedProduct& op, std::span<const BoundOperand> operands, const Shape& domain,
                         const HeadSink& sink, ThreadPool& pool) {
  const Strided<float> a(operands[0], pool), b(operands[1], pool);
  auto* to = reinterpret_cast<float*>(sink.result);
  if (const auto* conv = std::get_if<Conv>(&op.product))
    run_blocks(ConvTerms(*conv, a, b, domain), op.sums, a.data(), b.data(), to, pool);
  else
    run_blocks(MatmulTerms(a, b, domain), op.sums, a.data(), b.data(), to, pool);
  finish_all(sink, domain.size(), pool);
}

}  // namespace nixie::cpu

// Measures tensors by a few reductions of each, which fuse with the kernels around them; all totals are set at once.
#include "nixie/models/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "nixie/core/base/check_fields.h"
#include "nixie/core/base/wildcard.h"
#include "nixie/core/ops/elementwise.h"

namespace nixie {
namespace {

enum Count : std::int64_t { kZeros, kSaturated, kInfinite, kNan, kCounts };
enum Mean : std::int64_t { kMean, kEnergy, kZeroShare };  // the last two with shadow formats

Dtype operand_dtype(PrecisionPolicy precision) {
  using enum PrecisionPolicy;
  if (precision == fp16 || precision == fp16_pure) return Dtype::f16;
  return precision == bf16 || precision == bf16_pure ? Dtype::bf16 : Dtype::f32;
}

// One op for each reduction: what two reductions share would be stored where a product's kernel makes it. Rare numbers
// are counted only where a magnitude is not below `usual`.
const ElementwiseTraits kFlag = {.result = ResultType::boolean, .domain = {}, .is_listed = false};
const ElementwiseTraits kNumber = {.domain = {}, .is_listed = false};
const Elementwise vanishes{"vanishes", [](auto x, auto most) { return abs(x) <= most; }, NoGradient{}, kFlag};
const Elementwise reaches{
    "reaches", [](auto x, auto usual, auto least) { return where(abs(x) < usual, 0, where(abs(x) >= least, 1, 0)); },
    NoGradient{}, kNumber};
const Elementwise has_no_value{"has_no_value",
                               [](auto x, auto usual) { return where(abs(x) < usual, 0, where(is_nan(x), 1, 0)); },
                               NoGradient{}, kNumber};
const auto finite_magnitude = [](auto x, auto beyond) { return where(abs(x) < beyond, abs(x), 0); };
const Elementwise height{"height", finite_magnitude, NoGradient{}, kNumber};
const Elementwise share_of_mean{"share_of_mean", finite_magnitude, NoGradient{}, kNumber};
const Elementwise is_at_least{"is_at_least", [](auto x, auto least) { return where(is_finite(x), abs(x), 0) >= least; },
                              NoGradient{}, kFlag};

/// How many numbers are 1 in place of 0, or flags set, i64 with all axes kept. Kernels count in 32 bits where these
/// suffice.
Tensor count_of(const Tensor& flags) {
  const bool is_short = flags.shape().size() < std::int64_t{1} << 31;
  return cast(sum(cast(flags, is_short ? Dtype::i32 : Dtype::i64), all_axes(flags.shape()), true), Dtype::i64);
}

Tensor total(const Tensor& x) { return sum(x, all_axes(x.shape()), true); }
Tensor share_of(const Tensor& flags) {
  return total(cast(flags, Dtype::f32)) * (1 / static_cast<double>(std::max<std::int64_t>(flags.shape().size(), 1)));
}

/// a / b, and 0 where b is 0.
Tensor ratio(const Tensor& a, const Tensor& b) { return where(b > 0, a / where(b > 0, b, 1.0), 0.0); }

/// At most kSampled of the elements, evenly spread over the longest axes, as a view; all of them along axis `whole`.
Tensor sample_of(const Tensor& x, int whole = -1) {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(x.rank()), 1), sizes = x.shape().sizes();
  const auto length = [&](std::int64_t& size) { return &size - sizes.data() == whole ? 1 : size; };
  while (Shape(sizes).size() > Statistics::kSampled) {
    const auto longest = std::ranges::max_element(sizes, {}, length);
    if (length(*longest) == 1) break;
    const auto axis = static_cast<std::size_t>(longest - sizes.begin());
    steps[axis] *= 2;
    sizes[axis] = (x.shape()[static_cast<int>(axis)] + steps[axis] - 1) / steps[axis];
  }
  std::vector<Index> indices;
  for (const std::int64_t step : steps) indices.push_back(Index::range({}, {}, step));
  return x.rank() == 0 ? x : slice(x, indices);
}

/// i32 [kExponents]: how many of the finite magnitudes of a sample are at least each power of two.
Tensor counts_from_below(const Tensor& x) {
  using Row = TensorStatistics;
  std::vector<float> powers;
  for (int i = 0; i < Row::kExponents; ++i) powers.push_back(std::ldexp(1.0F, Row::kLowestExponent + i));
  powers[0] = std::numeric_limits<float>::denorm_min();
  const Tensor sample = sample_of(x);
  std::vector<std::int64_t> one_each = sample.shape().sizes();  // a last axis for the powers; all else stays a view
  one_each.push_back(1);
  const Tensor reach = is_at_least(reshape(sample, one_each), Array::from(powers, {Row::kExponents}));
  return sum(cast(reach, Dtype::i32), all_axes(sample.shape()));
}

/// What becomes of magnitudes when they are stored: rounding keeps their order, so that limits before it say what they
/// are behind it.
struct Limits {
  double zero = 0;                                            ///< up to here 0
  double saturated = std::numeric_limits<float>::max();       ///< from here on the largest number, or infinity
  double infinite = std::numeric_limits<double>::infinity();  ///< from here on infinity
};

Limits limits_of(Dtype dtype) {
  if (dtype == Dtype::f16) return {std::ldexp(1.0, -25), 65488 + std::ldexp(1.0, -8), 65520};
  if (dtype != Dtype::bf16) return {};
  const auto number = [](std::uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); };
  return {std::ldexp(1.0, -134), number(0x7f7e8001), number(0x7f7f8000)};
}

/// A parameter as products read it: in halves, which its update has stored.
Tensor as_read(const Tensor& x, Dtype stored) {
  const Node* from = x.id();
  while (std::holds_alternative<Permute>(from->op) || std::holds_alternative<Reshape>(from->op))
    from = from->inputs[0].id();
  const auto* input = std::get_if<Input>(&from->op);
  return input && input->variable && x.dtype() == Dtype::f32 ? cast(x, stored) : x;
}

/// The rows of all observations in one Tensor [observations, columns]; `parts` has `columns` for each.
Tensor rows_of(const std::vector<std::vector<Tensor>>& parts) {
  // Tensors of one rank are joined first: a kernel writes its result right into its place.
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < parts.size();) {
    const int rank = parts[i][0].rank();
    std::vector<Tensor> same;
    std::int64_t rows = 0;
    for (; i < parts.size() && parts[i][0].rank() == rank; ++i, ++rows)
      for (const Tensor& part : parts[i]) same.push_back(rank == 0 ? reshape(part, {1}) : part);
    all.push_back(reshape(same.size() == 1 ? same[0] : concat(same, 0), {rows, -1}));
  }
  return all.size() == 1 ? all[0] : concat(all, 0);
}

/// A Variable's numbers by row and column; counts are exact up to 2^53.
class Table {
 public:
  explicit Table(const Variable& variable)
      : values_(variable.array().to_vector<double>()), columns_(static_cast<std::size_t>(variable.shape()[1])) {}
  double operator()(std::size_t row, std::size_t column) const { return values_[row * columns_ + column]; }

 private:
  std::vector<double> values_;
  std::size_t columns_;
};

/// Adds what is between each power of two and the next. Nothing where the row has no histogram.
void add_exponents(const Table& from_below, std::size_t row, std::vector<std::int64_t>& counts) {
  constexpr std::size_t kCount = TensorStatistics::kExponents;
  if (from_below(row, 0) == 0) return;
  counts.resize(kCount);
  for (std::size_t e = 0; e < kCount; ++e)
    counts[e] += static_cast<std::int64_t>(from_below(row, e) - (e + 1 < kCount ? from_below(row, e + 1) : 0));
}

Tensor column(const Tensor& rows, std::int64_t at) { return slice(rows, {Index::all(), Index::range(at, at + 1)}); }

}  // namespace

const TensorStatistics* first_overflow(const std::vector<TensorStatistics>& rows) {
  const TensorStatistics* first = nullptr;
  for (const TensorStatistics& row : rows)
    if (row.first_overflow > 0 && (!first || row.first_overflow < first->first_overflow)) first = &row;
  return first;
}

Measured measured_after(const StatisticsOptions& options, std::int64_t step) {
  if (options.every == 0 || step % options.every != 0) return Measured::nothing;
  return options.histograms > 0 && step % options.histograms == 0 ? Measured::histograms : Measured::figures;
}

Statistics::Statistics(const StatisticsOptions& options, PrecisionPolicy precision,
                       std::optional<OperandFormats> formats)
    : options_(options),
      scaling_{.scale = options.scale, .block = options.block},
      stored_(operand_dtype(precision)),
      declared_(std::move(formats)) {
  check_fields(options);
  check(options.shadow.size() <= kMostFormats, "shadow names ", options.shadow.size(), " formats, expected at most ",
        kMostFormats);
  check(options.every == 0 ? options.histograms == 0 : options.histograms % options.every == 0, "histograms is ",
        options.histograms, " and every ", options.every, "; expected a multiple of it");
  for (const std::string& name : options.shadow) formats_.push_back(format_named(name));
}

OperandRule Statistics::operands(Measured what) {
  what_ = what;
  observed_.clear();  // of a trace that threw
  operands_.clear();
  return [this](const Tensor& x, OperandRole role, const std::string& layer) {
    if (!is_floating(x.dtype()) || !matches_wildcard(layer, options_.layers)) return x;
    const std::string role_name(to_string(role));
    const int number = operands_[{layer, role_name}]++;
    measure(x, stored_, layer, role_name, role, declared_ ? declared_->saturated(x, role, layer, number) : Tensor{});
    return x;
  };
}

void Statistics::observe(const Tensor& x, const std::string& layer, const std::string& role) {
  check(is_floating(x.dtype()), "statistics: ", layer, " (", role, ") is ", x.dtype(), ", expected a floating type");
  if (matches_wildcard(layer, options_.layers))
    measure(x, x.dtype() == Dtype::f32 ? stored_ : x.dtype(), layer, role, OperandRole::activations);
}

void Statistics::observe_update(const Variable& parameter, const Tensor& before) {
  const std::string& name = parameter.name();
  const std::string layer = name.substr(0, name.rfind('.'));
  if (!is_floating(parameter.dtype()) || !matches_wildcard(layer, options_.layers)) return;
  measure(cast(parameter, Dtype::f32) - cast(before, Dtype::f32), parameter.dtype(), layer, "updates",
          OperandRole::weights);
}

void Statistics::measure(const Tensor& x, Dtype stored, const std::string& layer, const std::string& role,
                         OperandRole axes, const Tensor& saturated) {
  Observation now{{.layer = layer, .role = role, .place = observed_.size()}};
  const Limits limits = limits_of(stored);
  const Tensor value = as_read(x, stored);
  now.elements = x.shape().size();
  const double usual = limits.saturated;
  const Tensor at_largest = saturated.has_value() ? saturated : reaches(value, usual, limits.saturated);
  now.counts = {count_of(vanishes(value, limits.zero)), count_of(at_largest),
                count_of(reaches(value, usual, limits.infinite)), count_of(has_no_value(value, usual))};
  now.largest = cast(cast(max(height(value, limits.infinite), all_axes(x.shape()), true), stored), Dtype::f32);
  const Tensor sizes = total(share_of_mean(cast(value, Dtype::f32), limits.infinite));
  const auto elements = static_cast<double>(std::max<std::int64_t>(now.elements, 1));
  now.means = {minimum(sizes * (1 / elements), now.largest)};  // a sum beyond f32 says nothing else
  if (!formats_.empty()) measure_formats(x, axes, now);
  if (what_ == Measured::histograms) now.exponents = counts_from_below(x);
  observed_.push_back(std::move(now));
}

void Statistics::measure_formats(const Tensor& x, OperandRole axes, Observation& now) const {
  const Scaling scaling = scaling_of(scaling_, x, axes);
  const bool by_block = scaling.group == ScaleGroup::block, by_tensor = scaling.group == ScaleGroup::tensor;
  const Tensor value = cast(sample_of(x, by_block ? x.shape().normal_axis(scaling.axis) : -1), Dtype::f32);
  // A tensor's scale is that of all its elements; one that an infinity or NaN makes NaN.
  const Tensor largest = where(now.counts[kInfinite] + now.counts[kNan] > 0, NAN, now.largest);
  now.means.push_back(total(square(value)));
  now.means.push_back(share_of(vanishes(value, 0.0)));
  for (const Format& format : formats_) {
    const Tensor scale = scaling.group == ScaleGroup::none ? Tensor(1.0F)
                         : by_tensor                       ? scale_for(largest, format)
                         : by_block                        ? Tensor{}
                                                           : scale_of(value, format, scaling);
    const Tensor rounded = by_tensor ? quantized_by(value, scale, format) : scaled_quantized(value, format, scaling);
    now.errors.push_back(total(square(value - rounded)));
    if (!fits()) now.beyond.push_back(share_of(saturates(value, format, scaling)));
    // Another reduction of the rounded values could take another kernel, for which they would be stored.
    const bool has_limit = format.subnormals && !by_block;
    now.vanished.push_back(share_of(has_limit ? vanishes(value, scale * (format.quantum() / 2)) : rounded == 0));
  }
}

void Statistics::record_formats(const std::vector<Observation>& now, const Tensor& infinite) {
  std::vector<std::vector<Tensor>> means, errors, beyond, vanished;
  std::vector<float> one_of_all;
  for (const Observation& each : now) {
    means.push_back(each.means);
    errors.push_back(each.errors);
    beyond.push_back(each.beyond);
    vanished.push_back(each.vanished);
    one_of_all.push_back(1 / static_cast<float>(each.elements));
  }
  const Tensor energy = column(rows_of(means), kEnergy), zeros = column(rows_of(means), kZeroShare);
  const Tensor share =
      fits() ? cast(infinite, Dtype::f32) * Array::from(one_of_all, {std::ssize(now), 1}) : rows_of(beyond);
  totals_->errors.set(totals_->errors + ratio(rows_of(errors), energy));
  totals_->beyond.set(totals_->beyond + share);
  totals_->lost.set(totals_->lost + ratio(maximum(rows_of(vanished) - zeros, 0), 1 - zeros));
}

void Statistics::make_totals(const std::vector<Observation>& now) {
  for (const Observation& each : now) keys_.push_back({each.layer, each.role, each.place});
  const auto zeros = [&](const char* name, Dtype dtype, std::size_t columns) {
    return Variable(fmt::format("statistics.{}", name),
                    Array(dtype, {std::ssize(keys_), static_cast<std::int64_t>(columns)}), false);
  };
  totals_ = Totals{.counts = zeros("counts", Dtype::i64, kCounts),
                   .elements = zeros("elements", Dtype::i64, 2),
                   .largest = zeros("largest", Dtype::f32, 1),
                   .mean = zeros("mean", Dtype::f32, 1),
                   .first = zeros("first", Dtype::i32, 1),
                   .exponents = zeros("exponents", Dtype::i64, TensorStatistics::kExponents),
                   .errors = zeros("errors", Dtype::f32, formats_.size()),
                   .beyond = zeros("beyond", Dtype::f32, formats_.size()),
                   .lost = zeros("lost", Dtype::f32, formats_.size())};
}

void Statistics::record(const Tensor& step) {
  std::vector<Observation> now = std::exchange(observed_, {});
  operands_.clear();
  // One after the other by rank, as rows_of joins them.
  std::ranges::stable_sort(now, {}, [](const Observation& each) { return each.largest.rank(); });
  if (!totals_) make_totals(now);
  const bool same = std::ranges::equal(now, keys_, {}, [](const Observation& each) -> const Key& { return each; });
  check(same, "statistics: this step measures ", now.size(), " tensors, an earlier one ", keys_.size(),
        " or others; measure the same tensors in each, or take another Statistics");
  if (now.empty()) return;
  std::vector<std::int64_t> elements;
  std::vector<std::vector<Tensor>> counts, largest, means, exponents;
  for (const Observation& each : now) {
    elements.insert(elements.end(), {each.elements, 1});
    counts.push_back(each.counts);
    largest.push_back({each.largest});
    means.push_back(each.means);
    exponents.push_back({each.exponents});
  }
  const Tensor count = rows_of(counts);
  const Tensor overflows = column(count, kInfinite) + column(count, kNan) > 0;
  totals_->counts.set(totals_->counts + count);
  totals_->elements.set(totals_->elements + Array::from(elements, totals_->elements.shape()));
  totals_->largest.set(maximum(totals_->largest, rows_of(largest)));
  totals_->mean.set(totals_->mean + column(rows_of(means), kMean));
  if (!formats_.empty()) record_formats(now, column(count, kInfinite));
  totals_->first.set(where(totals_->first == 0 && overflows, step + 1, totals_->first));
  if (what_ == Measured::histograms) totals_->exponents.set(totals_->exponents + cast(rows_of(exponents), Dtype::i64));
}

std::vector<TensorStatistics> Statistics::results() const {
  std::vector<TensorStatistics> rows;
  if (!totals_ || keys_.empty()) return rows;
  const Table counts(totals_->counts), elements(totals_->elements), largest(totals_->largest), means(totals_->mean),
      first(totals_->first), exponents(totals_->exponents), errors(totals_->errors), beyond(totals_->beyond),
      lost(totals_->lost);
  std::vector<std::size_t> order(keys_.size());  // as a step computes
  for (std::size_t i = 0; i < keys_.size(); ++i) order[keys_[i].place] = i;
  std::vector<double> times;  // that a row was measured
  for (const std::size_t i : order) {
    const double own_elements = elements(i, 0), own_times = elements(i, 1);
    if (own_times == 0) continue;
    const Key& key = keys_[i];
    const auto found =
        std::ranges::find_if(rows, [&](const auto& row) { return row.layer == key.layer && row.role == key.role; });
    const auto at = static_cast<std::size_t>(found - rows.begin());
    if (found == rows.end()) {
      rows.push_back({.layer = key.layer, .role = key.role, .formats = std::vector<FormatError>(formats_.size())});
      times.push_back(0);
    }
    TensorStatistics& row = rows[at];
    times[at] += own_times;
    row.elements += static_cast<std::int64_t>(own_elements);
    row.zeros += static_cast<std::int64_t>(counts(i, kZeros));
    row.saturated += static_cast<std::int64_t>(counts(i, kSaturated));
    row.infinite += static_cast<std::int64_t>(counts(i, kInfinite));
    row.nan += static_cast<std::int64_t>(counts(i, kNan));
    row.largest = std::max(row.largest, largest(i, 0));
    row.mean += means(i, 0) / own_times * own_elements;
    if (const auto step = static_cast<std::int64_t>(first(i, 0)); step > 0)
      row.first_overflow = row.first_overflow == 0 ? step : std::min(row.first_overflow, step);
    for (std::size_t f = 0; f < formats_.size(); ++f) {
      row.formats[f].error += errors(i, f);
      row.formats[f].saturated += beyond(i, f);
      row.formats[f].lost += lost(i, f);
    }
    add_exponents(exponents, i, row.exponents);
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    rows[r].mean /= static_cast<double>(rows[r].elements);
    for (FormatError& each : rows[r].formats) each.error /= times[r], each.saturated /= times[r], each.lost /= times[r];
  }
  return rows;
}

void Statistics::clear() {
  if (!totals_) return;
  const auto& [counts, elements, largest, mean, first, exponents, errors, beyond, lost] = *totals_;
  for (const Variable& total : {counts, elements, largest, mean, first, exponents, errors, beyond, lost})
    total.set(Array(total.dtype(), total.shape()));
}

}  // namespace nixie

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

enum Count : std::size_t { kZeros, kSaturated, kInfinite, kNan, kCounts };
enum Sum : std::size_t { kMean, kOwnSums };
enum FormatSum : std::size_t { kError, kFormatSaturated, kLost, kFormatSums };

Dtype operand_dtype(PrecisionPolicy precision) {
  using enum PrecisionPolicy;
  if (precision == fp16 || precision == fp16_pure) return Dtype::f16;
  return precision == bf16 || precision == bf16_pure ? Dtype::bf16 : Dtype::f32;
}

// One op for each reduction: what two reductions share would be stored where a product's kernel makes it.
const ElementwiseTraits kFlag = {.result = ResultType::boolean, .domain = {}, .is_listed = false};
const ElementwiseTraits kNumber = {.domain = {}, .is_listed = false};
const Elementwise reaches{"reaches", [](auto x, auto least) { return abs(x) >= least; }, NoGradient{}, kFlag};
const Elementwise vanishes{"vanishes", [](auto x, auto most) { return abs(x) <= most; }, NoGradient{}, kFlag};
const Elementwise has_no_value{"has_no_value", [](auto x) { return is_nan(x); }, NoGradient{}, kFlag};
const auto finite_magnitude = [](auto x, auto beyond) { return where(abs(x) < beyond, abs(x), 0); };
const Elementwise height{"height", finite_magnitude, NoGradient{}, kNumber};
const Elementwise share_of_mean{"share_of_mean", finite_magnitude, NoGradient{}, kNumber};

/// How many flags are set, i64 with all axes kept. Kernels count in 32 bits where these suffice.
Tensor count_of(const Tensor& flags) {
  const bool is_short = flags.shape().size() < std::int64_t{1} << 31;
  return cast(sum(cast(flags, is_short ? Dtype::i32 : Dtype::i64), all_axes(flags.shape()), true), Dtype::i64);
}

Tensor total(const Tensor& x) { return sum(x, all_axes(x.shape()), true); }
Tensor share_of(const Tensor& flags) { return mean(cast(flags, Dtype::f32), all_axes(flags.shape()), true); }

/// a / b, and 0 where b is 0.
Tensor ratio(const Tensor& a, const Tensor& b) { return where(b > 0, a / where(b > 0, b, 1.0), 0.0); }

/// At most kSampled of the elements, evenly spread over the longest axes.
Tensor sample_of(const Tensor& x) {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(x.rank()), 1), sizes = x.shape().sizes();
  const auto count = [&] {
    std::int64_t elements = 1;
    for (const std::int64_t size : sizes) elements *= size;
    return elements;
  };
  while (count() > Statistics::kSampled) {
    const auto axis = static_cast<std::size_t>(std::ranges::max_element(sizes) - sizes.begin());
    steps[axis] *= 2;
    sizes[axis] = (x.shape()[static_cast<int>(axis)] + steps[axis] - 1) / steps[axis];
  }
  std::vector<Index> indices;
  for (const std::int64_t step : steps) indices.push_back(Index::range({}, {}, step));
  return reshape(slice(x, indices), {-1});
}

/// i32 [1, kExponents]: how many of the finite magnitudes of a sample are at least each power of two.
Tensor counts_from_below(const Tensor& x) {
  using Row = TensorStatistics;
  std::vector<float> powers;
  for (int i = 0; i < Row::kExponents; ++i) powers.push_back(std::ldexp(1.0F, Row::kLowestExponent + i));
  powers[0] = std::numeric_limits<float>::denorm_min();
  const Tensor size = abs(reshape(sample_of(x), {-1, 1}));
  const Tensor reach = where(is_finite(size), size, 0.0) >= Array::from(powers, {1, Row::kExponents});
  return sum(cast(reach, Dtype::i32), {0});
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
  const Axes all = all_axes(x.shape());
  now.elements = x.shape().size();
  const Tensor at_largest = saturated.has_value() ? saturated : reaches(x, limits.saturated);
  now.counts = {count_of(vanishes(x, limits.zero)), count_of(at_largest), count_of(reaches(x, limits.infinite)),
                count_of(has_no_value(x))};
  now.largest = cast(cast(max(height(x, limits.infinite), all, true), stored), Dtype::f32);
  now.sums = {mean(share_of_mean(cast(x, Dtype::f32), limits.infinite), all, true)};
  if (!formats_.empty()) {
    const Tensor value = cast(x, Dtype::f32), energy = total(square(value)), not_zero = share_of(value != 0);
    for (const Format& format : formats_) {
      const Scaling scaling = scaling_of(scaling_, value, axes);
      const Tensor rounded = scaled_quantized(value, format, scaling);
      now.sums.push_back(ratio(total(square(value - rounded)), energy));
      now.sums.push_back(share_of(saturates(value, format, scaling)));
      now.sums.push_back(ratio(share_of(rounded == 0 && value != 0), not_zero));
    }
  }
  if (what_ == Measured::histograms) now.exponents = counts_from_below(x);
  observed_.push_back(std::move(now));
}

std::size_t Statistics::sums_of_each() const { return kOwnSums + kFormatSums * formats_.size(); }

void Statistics::make_totals(const std::vector<Observation>& now) {
  for (const Observation& each : now) keys_.push_back({each.layer, each.role, each.place});
  const auto zeros = [&](const char* name, Dtype dtype, std::size_t columns) {
    return Variable(fmt::format("statistics.{}", name),
                    Array(dtype, {std::ssize(keys_), static_cast<std::int64_t>(columns)}), false);
  };
  totals_ = Totals{.counts = zeros("counts", Dtype::i64, kCounts),
                   .elements = zeros("elements", Dtype::i64, 2),
                   .largest = zeros("largest", Dtype::f32, 1),
                   .sums = zeros("sums", Dtype::f32, sums_of_each()),
                   .first = zeros("first", Dtype::i32, 1),
                   .exponents = zeros("exponents", Dtype::i64, TensorStatistics::kExponents)};
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
  std::vector<std::vector<Tensor>> counts, largest, sums, exponents;
  for (const Observation& each : now) {
    elements.insert(elements.end(), {each.elements, 1});
    counts.push_back(each.counts);
    largest.push_back({each.largest});
    sums.push_back(each.sums);
    exponents.push_back({each.exponents});
  }
  const Tensor count = rows_of(counts);
  const auto column = [&](std::int64_t c) { return slice(count, {Index::all(), Index::range(c, c + 1)}); };
  const Tensor overflows = column(kInfinite) + column(kNan) > 0;
  totals_->counts.set(totals_->counts + count);
  totals_->elements.set(totals_->elements + Array::from(elements, totals_->elements.shape()));
  totals_->largest.set(maximum(totals_->largest, rows_of(largest)));
  totals_->sums.set(totals_->sums + rows_of(sums));
  totals_->first.set(where(totals_->first == 0 && overflows, step + 1, totals_->first));
  if (what_ == Measured::histograms) totals_->exponents.set(totals_->exponents + cast(rows_of(exponents), Dtype::i64));
}

std::vector<TensorStatistics> Statistics::results() const {
  std::vector<TensorStatistics> rows;
  if (!totals_ || keys_.empty()) return rows;
  const auto counts = totals_->counts.array().to_vector<std::int64_t>(),
             elements = totals_->elements.array().to_vector<std::int64_t>(),
             exponents = totals_->exponents.array().to_vector<std::int64_t>();
  const auto largest = totals_->largest.array().to_vector<float>(), sums = totals_->sums.array().to_vector<float>();
  const auto first = totals_->first.array().to_vector<std::int32_t>();
  std::vector<std::size_t> order(keys_.size());  // as a step computes
  for (std::size_t i = 0; i < keys_.size(); ++i) order[keys_[i].place] = i;
  std::vector<double> times;
  for (const std::size_t i : order) {
    if (elements[2 * i + 1] == 0) continue;
    const Key& key = keys_[i];
    auto row =
        std::ranges::find_if(rows, [&](const auto& each) { return each.layer == key.layer && each.role == key.role; });
    if (row == rows.end()) {
      row = rows.insert(rows.end(),
                        {.layer = key.layer, .role = key.role, .formats = std::vector<FormatError>(formats_.size())});
      times.push_back(0);
    }
    times[static_cast<std::size_t>(row - rows.begin())] += static_cast<double>(elements[2 * i + 1]);
    const std::int64_t* count = counts.data() + kCounts * i;
    row->elements += elements[2 * i];
    row->zeros += count[kZeros];
    row->saturated += count[kSaturated];
    row->infinite += count[kInfinite];
    row->nan += count[kNan];
    row->largest = std::max<double>(row->largest, largest[i]);
    if (first[i] > 0 && (row->first_overflow == 0 || first[i] < row->first_overflow)) row->first_overflow = first[i];
    // A mean of each observation, all with the number of elements that its first step had.
    const float* sum = sums.data() + sums_of_each() * i;
    row->mean += static_cast<double>(sum[kMean]) * static_cast<double>(elements[2 * i]) /
                 static_cast<double>(elements[2 * i + 1]);
    for (std::size_t f = 0; f < formats_.size(); ++f) {
      const float* of = sum + kOwnSums + kFormatSums * f;
      row->formats[f].error += of[kError], row->formats[f].saturated += of[kFormatSaturated],
          row->formats[f].lost += of[kLost];
    }
    const std::int64_t* reaching = exponents.data() + TensorStatistics::kExponents * i;
    if (reaching[0] == 0) continue;
    row->exponents.resize(TensorStatistics::kExponents);
    for (std::size_t e = 0; e < row->exponents.size(); ++e)
      row->exponents[e] += reaching[e] - (e + 1 < row->exponents.size() ? reaching[e + 1] : 0);
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    rows[r].mean /= static_cast<double>(rows[r].elements);
    for (FormatError& each : rows[r].formats) each.error /= times[r], each.saturated /= times[r], each.lost /= times[r];
  }
  return rows;
}

void Statistics::clear() {
  if (!totals_) return;
  for (const Variable& total :
       {totals_->counts, totals_->elements, totals_->largest, totals_->sums, totals_->first, totals_->exponents})
    total.set(Array(total.dtype(), total.shape()));
}

}  // namespace nixie

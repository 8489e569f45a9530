// Measures operands in the graph that trains: a few sums beside each product, added up over the steps.
#include "nixie/apps/trainer/study/format_study.h"

#include <algorithm>
#include <map>

#include "nixie/core/ops/ops.h"

namespace nixie {
namespace {

// An entry's sums: the number of steps, those of the operand, then those of each format.
enum Sum : std::size_t { kSteps, kMagnitude, kZeros, kNotFinite, kOwnSums };
enum FormatSum : std::size_t { kError, kSaturated, kLost, kFormatSums };

Tensor share_of(const Tensor& flags) { return mean(cast(flags, Dtype::f32)); }

/// a / b, and 0 where b is 0.
Tensor ratio(const Tensor& a, const Tensor& b) { return where(b > 0, a / where(b > 0, b, 1.0), 0.0); }

std::string& format_in(FormatRule& rule, OperandRole role) {
  if (role == OperandRole::weights) return rule.weights;
  return role == OperandRole::activations ? rule.activations : rule.gradients;
}

}  // namespace

FormatStudy::FormatStudy(std::vector<Format> formats, FormatRule scaling)
    : formats_(std::move(formats)), scaling_(std::move(scaling)) {}

FormatStudy::Entry& FormatStudy::entry(OperandRole role, const std::string& layer) {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& e) { return e.layer == layer && e.role == role; });
  if (found != entries_.end()) return *found;
  const std::string name = fmt::format("study.{}.{}", layer, to_string(role));
  const auto count = static_cast<std::int64_t>(kOwnSums + kFormatSums * formats_.size());
  entries_.push_back({layer, role, Variable(name, Array(Dtype::f32, {count}), false),
                      Variable(name + ".largest", Array(Dtype::f32, Shape{}), false)});
  return entries_.back();
}

OperandRule FormatStudy::rule() {
  return [this](const Tensor& x, OperandRole role, const std::string& layer) { return measure(x, role, layer); };
}

Tensor FormatStudy::measure(const Tensor& x, OperandRole role, const std::string& layer) {
  if (!is_floating(x.dtype())) return x;
  const Tensor value = stop_gradient(cast(x, Dtype::f32)), size = abs(value), energy = sum(square(value));
  std::vector<Tensor> sums = {1.0F, mean(size), share_of(value == 0), share_of(!is_finite(value))};
  const Tensor not_zero = 1 - sums[kZeros];
  for (const Format& format : formats_) {
    const Scaling scaling = scaling_of(scaling_, x, role);
    const Tensor rounded = scaled_quantized(value, format, scaling);
    sums.push_back(ratio(sum(square(value - rounded)), energy));
    sums.push_back(share_of(saturates(value, format, scaling)));
    sums.push_back(ratio(share_of(rounded == 0 && value != 0), not_zero));
  }
  for (Tensor& each : sums) each = broadcast_to(cast(each, Dtype::f32), {});
  const Entry& to = entry(role, layer);
  to.sums.set(to.sums + stack(sums));
  to.largest.set(maximum(to.largest, max(size)));
  return x;
}

std::vector<OperandErrors> FormatStudy::results() const {
  std::vector<OperandErrors> rows;
  for (const Entry& entry : entries_) {
    const std::vector<float> sums = entry.sums.array().to_vector<float>();
    const double steps = sums[kSteps];
    if (steps == 0) continue;
    OperandErrors row{.layer = entry.layer, .role = entry.role, .largest = entry.largest.array().item()};
    row.magnitude = sums[kMagnitude] / steps;
    row.zeros = sums[kZeros] / steps;
    row.not_finite = sums[kNotFinite] / steps;
    for (std::size_t i = 0; i < formats_.size(); ++i) {
      const float* of = sums.data() + kOwnSums + kFormatSums * i;
      row.formats.push_back({of[kError] / steps, of[kSaturated] / steps, of[kLost] / steps});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<FormatRule> narrowest_formats(const FormatStudy& study, const std::vector<OperandErrors>& results,
                                          double threshold) {
  std::vector<FormatRule> rules;
  for (const OperandErrors& row : results) {
    auto rule = std::ranges::find(rules, row.layer, &FormatRule::layers);
    if (rule == rules.end()) rule = rules.insert(rules.end(), FormatRule{.layers = row.layer});
    const Format* best = nullptr;
    double error = 0;
    for (std::size_t i = 0; i < row.formats.size(); ++i) {
      const Format& format = study.formats()[i];
      if (!(row.formats[i].error <= threshold)) continue;
      if (best && (format.bits() > best->bits() || (format.bits() == best->bits() && row.formats[i].error >= error)))
        continue;
      best = &format;
      error = row.formats[i].error;
    }
    if (best) format_in(*rule, row.role) = best->name;
  }
  // What most layers have comes last and for all.
  const auto key = [](const FormatRule& rule) { return rule.weights + " " + rule.activations + " " + rule.gradients; };
  std::map<std::string, int> counts;
  for (const FormatRule& rule : rules) ++counts[key(rule)];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; });
  if (most == counts.end() || most->second < 2) return rules;
  FormatRule all = *std::ranges::find(rules, most->first, key);
  all.layers = "*";
  std::erase_if(rules, [&](const FormatRule& rule) { return key(rule) == most->first; });
  rules.push_back(all);
  return rules;
}

}  // namespace nixie

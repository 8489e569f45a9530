// The format that most layers have becomes one rule for all.
#include "nixie/apps/trainer/study/narrowest_formats.h"

#include <algorithm>
#include <map>

namespace nixie {
namespace {

/// The format of a role in a rule; null where rules have none.
std::string FormatRule::*field_of(const std::string& role) {
  if (role == to_string(OperandRole::weights)) return &FormatRule::weights;
  if (role == to_string(OperandRole::activations)) return &FormatRule::activations;
  return role == to_string(OperandRole::gradients) ? &FormatRule::gradients : nullptr;
}

}  // namespace

std::vector<FormatRule> narrowest_formats(const std::vector<Format>& formats, const std::vector<TensorStatistics>& rows,
                                          double threshold) {
  std::vector<FormatRule> rules;
  for (const TensorStatistics& row : rows) {
    std::string FormatRule::*const field = field_of(row.role);
    if (!field) continue;
    auto rule = std::ranges::find(rules, row.layer, &FormatRule::layers);
    if (rule == rules.end()) rule = rules.insert(rules.end(), FormatRule{.layers = row.layer});
    const Format* best = nullptr;
    double error = 0;
    for (std::size_t i = 0; i < row.formats.size(); ++i) {
      const Format& format = formats[i];
      if (!(row.formats[i].error <= threshold)) continue;
      if (best && (format.bits() > best->bits() || (format.bits() == best->bits() && row.formats[i].error >= error)))
        continue;
      best = &format;
      error = row.formats[i].error;
    }
    if (best) (*rule).*field = best->name;
  }
  // The rule for all comes last.
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

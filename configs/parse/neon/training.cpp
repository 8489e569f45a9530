// neon/optimizers/optimizer.py: its rules with their defaults. Rates change from epoch to epoch.
#include "nixie/configs/parse/neon/layers.h"

#include <algorithm>

namespace nixie {
namespace {

constexpr int kMostRates = 200;  // of a schedule that is written epoch by epoch

/// `{rate: 0.1, ...}` of a schedule.
Fields behind_rate(Tree rate, Fields others) {
  others.insert(others.begin(), field_of("rate", std::move(rate)));
  return others;
}

class Training {
 public:
  Training(NeonSource& source, const std::vector<ConvertedLayer>& layers, int epochs)
      : source_(source), layers_(layers), epochs_(epochs) {}

  Fields convert() {
    const Tree& optimizer = source_.need(source_.root(), "optimizer");
    if (source_.type_of(optimizer) == "MultiOptimizer") return of_groups(optimizer);
    Fields fields = of_rule(optimizer);
    const std::string type = source_.type_of(optimizer);
    if (type == "Adadelta") return fields;
    const double largest = source_.number(optimizer, "gradient_clip_value", 0);
    if (largest != 0)
      fields.push_back(field_of("clip_value", source_.number_tree(optimizer, "gradient_clip_value", 0)));
    if (type != "GradientDescentMomentum") return fields;  // others scale their steps, not the gradients
    if (source_.number(optimizer, "gradient_clip_norm", 0) == 0) return fields;
    if (largest != 0)
      refuse(optimizer,
             "gradient_clip_value and gradient_clip_norm together: neon takes the norm before it clips "
             "values, which has no counterpart; take one of them out");
    fields.push_back(field_of("clip_norm", source_.number_tree(optimizer, "gradient_clip_norm", 0)));
    return fields;
  }

 private:
  Fields of_rule(const Tree& rule) {
    ConvertedType converted = source_.converted("optimizer", rule);
    source_.skip(rule, {"name", "stochastic_round"});
    if (converted.kind == "adam")
      source_.note(
          "neon adds Adam's epsilon before it corrects the second moment, eps is added behind that: in the first steps "
          "an epsilon that is not small beside the gradients weighs more in neon, up to 1 / sqrt(1 - beta_2) times");
    const Tree rate = std::move(converted.fields.back().value);
    converted.fields.pop_back();
    return {field_of("optimizer", choice_tree(rule.place, converted.kind, std::move(converted.fields))),
            field_of("schedule", schedule_tree(rule, rate))};
  }

  Tree schedule_tree(const Tree& rule, const Tree& rate) {
    const std::string type = source_.type_of(rule);
    const double first = number_of(rate, "learning_rate");
    const bool has_schedule = type == "GradientDescentMomentum" || type == "RMSProp";
    const Tree* schedule = has_schedule ? source_.find(rule, "schedule") : nullptr;
    if (!schedule) return choice_tree(rule.place, "constant", behind_rate(rate, {}));
    const std::string kind = source_.type_of(*schedule);
    source_.skip(*schedule, {"name"});
    if (kind == "ExpSchedule") return decaying(*schedule, rate);
    if (kind == "PolySchedule") {
      source_.note("PolySchedule falls with every step, as its documentation has it; neon's code keeps the first rate");
      return choice_tree(schedule->place, "polynomial",
                         behind_rate(rate, {field_of("power", source_.need(*schedule, "power")),
                                            field_of("epochs", source_.need(*schedule, "total_epochs"))}));
    }
    if (kind != "Schedule" && kind != "StepSchedule" && kind != "PowerSchedule")
      refuse(*schedule, fmt::format("schedule {} has no counterpart that this converter knows", kind));
    const Tree* steps = source_.find(*schedule, "step_config");
    const Tree* change = source_.find(*schedule, "change");
    const bool are_rates = steps && steps->is_list() && change && change->is_list();
    if ((kind == "StepSchedule" && !are_rates) || (kind == "PowerSchedule" && steps && steps->is_list()))
      refuse(*schedule, fmt::format("{}, expected {}", kind,
                                    kind == "StepSchedule" ? "lists of the same length as step_config and change"
                                                           : "a number of epochs as step_config"));
    if (!steps) return choice_tree(schedule->place, "constant", behind_rate(rate, {}));
    if (are_rates) return by_rates(*steps, *change, rate, first);
    const Tree factor = source_.number_tree(*schedule, "change", 1);
    if (!steps->is_list()) {
      integer_of(*steps, "step_config");
      return choice_tree(schedule->place, "step",
                         behind_rate(rate, {field_of("factor", factor), field_of("every", *steps)}));
    }
    for (const Tree& step : steps->items) integer_of(step, "step_config");
    return choice_tree(schedule->place, "multistep",
                       behind_rate(rate, {field_of("factor", factor), field_of("milestones", *steps)}));
  }

  /// From each step on another rate.
  static Tree by_rates(const Tree& steps, const Tree& rates, const Tree& rate, double before) {
    if (steps.items.size() != rates.items.size())
      refuse(rates, fmt::format("change has {} rates for {} steps, expected one for each", rates.items.size(),
                                steps.items.size()));
    std::vector<Tree> factors;
    for (std::size_t i = 0; i < rates.items.size(); ++i) {
      const double next = number_of(rates.items[i], "change");
      if (i > 0 && integer_of(steps.items[i], "step_config") <= integer_of(steps.items[i - 1], "step_config"))
        refuse(steps.items[i], "step_config, expected later epochs in later places");
      if (!(next > 0) || !(before > 0)) refuse(rates.items[i], "change, expected rates above 0");
      factors.push_back(scalar_tree(rates.items[i].place, next / before));
      before = next;
    }
    return choice_tree(steps.place, "multistep",
                       behind_rate(rate, {field_of("milestones", steps),
                                          field_of("factors", list_tree(rates.place, std::move(factors)))}));
  }

  /// rate / (1 + decay epoch), as a factor for each epoch.
  Tree decaying(const Tree& schedule, const Tree& rate) {
    const double decay = number_of(source_.need(schedule, "decay"), "decay", {0});
    if (epochs_ > kMostRates)
      refuse(schedule,
             fmt::format("an ExpSchedule over {} epochs, expected {} or fewer: it is converted epoch by epoch", epochs_,
                         kMostRates));
    std::vector<Tree> milestones, factors;
    for (int epoch = 1; epoch < epochs_; ++epoch) {
      milestones.push_back(scalar_tree(schedule.place, std::to_string(epoch)));
      factors.push_back(scalar_tree(schedule.place, (1 + decay * (epoch - 1)) / (1 + decay * epoch)));
    }
    return choice_tree(schedule.place, "multistep",
                       behind_rate(rate, {field_of("milestones", list_tree(schedule.place, std::move(milestones))),
                                          field_of("factors", list_tree(schedule.place, std::move(factors)))}));
  }

  /// The patterns of the parameters of which `holds` is true.
  template <class Holds>
  std::vector<std::string> patterns(Holds&& holds) const {
    std::vector<std::string> found;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      for (const NeonParameters& each : layers_[i].parameters)
        if (holds(each))
          found.push_back(
              fmt::format("{}.{}", layers_[i].name.empty() ? std::to_string(i) : layers_[i].name, each.match));
    return found;
  }

  Fields of_groups(const Tree& optimizer) {
    source_.skip(optimizer, {"name"});
    const Tree* mapping = source_.find(optimizer, "optimizer_mapping");
    const Tree& rules = mapping ? *mapping : optimizer;
    Fields fields = of_rule(source_.need(rules, "default"));
    std::vector<Tree> by_name, by_class;  // a name counts before a class, in nixie the first group that matches
    for (const Tree::Entry& entry : rules.entries) {
      const std::string& key = entry.key;
      if (key == "default" || (!mapping && (key == "type" || key == "name" || key == "config"))) continue;
      const Tree* rule = source_.find(rules, key);
      if (!rule) refuse(entry.value, fmt::format("{}, expected an optimizer", key));
      const std::vector<std::string> named = patterns([&](const NeonParameters&each) { return each.name == key; }),
                                     typed = patterns([&](const NeonParameters&each) {
                                       return std::ranges::find(each.classes, key) != each.classes.end();
                                     });
      if (named.empty() && typed.empty()) source_.note(fmt::format("no layer is {}, whose optimizer is left out", key));
      const Fields own = of_rule(*rule);
      for (const auto& [found, groups] : {std::pair(&named, &by_name), std::pair(&typed, &by_class)})
        for (const std::string& pattern : *found) {
          Fields group = own;
          Tree match = scalar_tree(entry.place, pattern);
          match.quoted = true;
          group.insert(group.begin(), field_of("match", std::move(match)));
          groups->push_back(map_tree(entry.place, std::move(group)));
        }
    }
    by_name.insert(by_name.end(), by_class.begin(), by_class.end());
    if (!by_name.empty()) fields.push_back(field_of("parameter_groups", list_tree(rules.place, std::move(by_name))));
    return fields;
  }

  NeonSource& source_;
  const std::vector<ConvertedLayer>& layers_;
  int epochs_;
};

}  // namespace

Fields training_of_neon(NeonSource& source, const std::vector<ConvertedLayer>& layers, int epochs) {
  return Training(source, layers, epochs).convert();
}

}  // namespace nixie

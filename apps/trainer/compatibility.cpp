// Keys are checked one after another, so that the first that does not fit is named with its place.
#include "nixie/apps/trainer/compatibility.h"

namespace nixie {
namespace {

/// Whether output and targets go together; checked here, since the loss only sees them when the run begins.
void check_objective(const TrainConfig& config, const Model& model, const Splits& data) {
  const SampleTarget target = data.train->target();
  const Objective objective(config, target);
  at_key(config.places, "loss", [&] { objective.check_loss(model.input_shape()); });
  at_key(config.places, config.places.outputs_key(),
         [&] { objective.check_output(model.output_shape(), model.input_shape(), data); });
  if (config.model.layers().adds_loss())
    at_key(config.places, "model", [&] { objective.check_auxiliary(model, data); });
  at_key(config.places, "loss", [&] {
    const std::string kind = config.loss.kind();
    const bool could_ignore = config.loss.text().find("ignore_index: ") != std::string::npos;
    for (const std::int32_t label : data.train->labels_without_class()) {
      const std::string remedy = kind == LossSum::name
                                     ? fmt::format("set ignore_index: {} in each of its losses", label)
                                 : could_ignore ? fmt::format("set loss: {{{}: {{ignore_index: {}}}}}", kind, label)
                                                : "set a loss that may: cross_entropy, focal or dice";
      check(config.target == "input" || config.loss.ignored_label() == label, "the masks hold ", label,
            ", which is no class, but the loss ignores ",
            config.loss.ignored_label() ? std::to_string(*config.loss.ignored_label()) : "none", "; ", remedy,
            ", or number the classes from 0 on");
    }
  });
  at_key(config.places, "mixing", [&] {
    const bool mixes = config.mixing.mixup > 0 || config.mixing.cutmix > 0;
    check(!mixes || (config.target == "labels" && target.shape.rank() <= 1),
          "mixing shares a loss between two labels; these targets are ", to_string(target), "; take mixing out");
  });
  at_key(config.places, "schedule", [&] {
    check(objective.accuracy() || !config.schedule.maximizes(),
          "schedule: the plateau watches the accuracy, but these targets have none; set maximize to false");
  });
}

/// Refuses what waits for evaluations where there are none.
void check_evaluations(const TrainConfig& config, const Splits& data) {
  if (data.test) return;
  constexpr const char* kRemedy = ", but nothing is held out (holdout: 0), so there are none; hold a part out, or ";
  at_key(config.places, "patience",
         [&] { check(config.patience == 0, "patience counts evaluations", kRemedy, "take patience out"); });
  at_key(config.places, "schedule", [&] {
    check(config.schedule.kind() != PlateauRate::name, "the plateau watches evaluations", kRemedy,
          "take another schedule");
  });
}

}  // namespace

void check_goes_together(const TrainConfig& config, const Model& model, const Splits& data) {
  check_objective(config, model, data);
  check_evaluations(config, data);
}

}  // namespace nixie

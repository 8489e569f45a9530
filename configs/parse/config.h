// TrainConfig: a whole training run as one struct, read from YAML: the top-level keys, their defaults
// and meaning. The keys below them are fields of options structs (layers/*.h, data/*.h, optimizers/*.h).
//
//   model: {lenet: {}}
//   optimizer: {sgd: {momentum: 0.9}}
//   schedule: {cosine: {rate: 0.05}}
//   data: {glyphs: {batch: 128}}
//   epochs: 3
#pragma once

#include <filesystem>

#include "nixie/configs/parse/places.h"
#include "nixie/configs/parse/values.h"
#include "nixie/core/base/fields.h"
#include "nixie/core/graph/precision_policy.h"
#include "nixie/data/loader.h"
#include "nixie/models/statistics_options.h"

namespace nixie {

/// With fractions drawn from Beta(a, a): mixup (Zhang et al. 2018) blends, cutmix (Yun et al. 2019) pastes a box. If
/// both are on, each batch uses one of them.
struct MixingOptions {
  double mixup = 0, cutmix = 0, probability = 1;

  static constexpr const char* name = "mixing";
  static constexpr auto fields() {
    return field_list(
        field("mixup", &MixingOptions::mixup, "a of mixup's Beta(a, a), 0 = off", {0, 100}),
        field("cutmix", &MixingOptions::cutmix, "a of cutmix's Beta(a, a), 0 = off", {0, 100}),
        field("probability", &MixingOptions::probability, "fraction of the batches that are mixed", {0, 1}));
  }
};
inline std::string field_text(const MixingOptions& mixing) { return fields_text(mixing); }

inline std::string field_text(const LoaderOptions& loader) { return fields_text(loader); }

struct TrainConfig {
  AnyModel model = {};
  std::string init_from = {};
  std::vector<std::string> freeze = {};
  AnyLoss loss = {};
  std::string target = "labels";
  AnyOptimizer optimizer = {};
  AnySchedule schedule = {};
  std::vector<ParameterGroup> parameter_groups = {};
  double clip_value = 0, clip_norm = 0, loss_scale = 0;
  AnyDataset data = {};
  MixingOptions mixing = {};
  std::vector<FormatRule> formats = {};
  StatisticsOptions statistics = {};
  LoaderOptions loader = {};
  std::vector<AnyMetric> metrics = {};
  double ema = 0;
  bool mirror_average = false;
  std::string best_by = "accuracy";
  int patience = 0;
  std::int64_t epochs = 0, steps = 0;
  std::uint64_t seed = 0;
  std::string backend = "auto";
  int threads = 0;
  std::string precision = "fp32";
  std::string non_finite = "stop";
  std::string reduction = "fast";
  std::int64_t log_every = 50, save_every = 0, evaluate_every = 0;
  std::int64_t accumulate = 1, keep = 0;
  bool noise_scale = false, report_detail = false;
  Places places = {};  ///< no field: places of the values in the file

  static constexpr const char* name = "config";
  static constexpr auto fields() {
    using C = TrainConfig;
    return field_list(
        field("model", &C::model, "a net by name, or a list of layers"),
        field("init_from", &C::init_from,
              "file of initial weights: a checkpoint or safetensors; arrays that match by name and shape are loaded"),
        field("freeze", &C::freeze,
              "full names of parameters that are not trained; * matches any text; batch norms among them still measure "
              "running means and variances"),
        field("loss", &C::loss, "the loss to minimise"),
        field("target", &C::target,
              "target of the loss: labels, the dataset's targets, or input, the samples themselves (an autoencoder)",
              one_of("labels input")),
        field("optimizer", &C::optimizer, "the update rule"),
        field("schedule", &C::schedule,
              "the learning rate over the run; without this key it is constant: 0.001 for adam and adamw, 1 for "
              "adadelta, else 0.01"),
        field("parameter_groups", &C::parameter_groups,
              "parameters with their own rate, weight decay, rule or schedule"),
        field("clip_value", &C::clip_value, "largest gradient element, 0 = no limit; applied first", {0}),
        field("clip_norm", &C::clip_norm, "largest norm of all gradients together, 0 = no limit", {0}),
        field("data", &C::data, "the dataset and its batch"),
        field("mixing", &C::mixing, "mixup and cutmix of training batches"),
        field("loader", &C::loader, "decoding in the background"),
        field("metrics", &C::metrics, "metrics of an evaluation besides accuracy and loss"),
        field("ema", &C::ema,
              "decay of the moving average of the weights, such as 0.999; evaluations use the average; 0 = none",
              {0, 1}),
        field("mirror_average", &C::mirror_average,
              "evaluations and predictions use the mean of the outputs for a sample and for its mirror image; an "
              "exported net, too"),
        field("best_by", &C::best_by,
              "metric that selects best.h5: accuracy (loss, if there is none), loss or the name of one of the metrics"),
        field("patience", &C::patience, "evaluations in a row without improvement after which the run ends, 0 = never",
              {0}),
        field("epochs", &C::epochs, "length of the run; 0 = steps decide", {0, 1e9}),
        field("steps", &C::steps, "the run ends after so many steps; 0 = epochs decide", {0, 2147483647}),
        field("seed", &C::seed, "random seed of weights, order, augmentation and dropout"),
        field("backend", &C::backend, "where it runs; auto uses a GPU if there is one", one_of("auto cpu cuda")),
        field("threads", &C::threads, "threads of the CPU backend, 0 = all cores", {0, 4096}),
        field("precision", &C::precision,
              "ieee, fp32, tf32, fp16, bf16, fp16_pure or bf16_pure: how values are stored and multiplied"),
        field("formats", &C::formats,
              "number formats of the operands of products, by layer; the first rule that holds a layer counts "
              "(docs/numerics.md)"),
        field("statistics", &C::statistics,
              "magnitudes, zeros and overflows of weights, activations, gradients and updates, layer by layer "
              "(docs/numerics.md)"),
        field("loss_scale", &C::loss_scale, "loss scale of fp16 and fp16_pure; 0 = dynamic", {0}),
        field("non_finite", &C::non_finite,
              "on a non-finite loss or gradient: stop the run, skip the step (20 or more in a row end the run), or "
              "roll_back to the last checkpoint with half the rate, five times at most",
              one_of("stop skip roll_back")),
        field("log_every", &C::log_every,
              "steps of a log line; the last before an evaluation covers half of that or more", {1, 1e9}),
        field("save_every", &C::save_every, "steps between two checkpoints besides those of evaluations, 0 = none",
              {0, 1e9}),
        field("evaluate_every", &C::evaluate_every,
              "steps between two evaluations, each with a checkpoint; 0 = one at the end of each epoch", {0, 1e9}),
        field("accumulate", &C::accumulate, "batches whose gradients make one step", {1, 1e6}),
        field("reduction", &C::reduction,
              "fast, or ordered: 8 shards of each batch are computed by themselves and added up by one tree, so that a "
              "CPU run ends with the same bits on 1, 2, 4 and 8 ranks (docs/scaling.md)",
              one_of("fast ordered")),
        field("noise_scale", &C::noise_scale,
              "log lines show the gradient noise scale, the batch size beyond which more samples help little; needs "
              "accumulate of 2 or more"),
        field("report_detail", &C::report_detail,
              "report.html also shows the time of each layer, measured when the run begins, and histograms of "
              "gradients, from one more batch at each evaluation"),
        field("keep", &C::keep, "keep checkpoints of the last n evaluations as step-N.h5, 0 = none", {0, 1e6}));
  }

  /// The paths below which a key may be that is none at the top: `data.image_folder` for `holdout`.
  static std::vector<std::string> places_of(const std::string& key);
  PrecisionPolicy policy() const { return precision_named(precision); }
  /// The steps of the whole run from the steps of an epoch.
  std::int64_t total_steps(std::int64_t steps_per_epoch) const;
};

/// The configuration's model for inputs [N, C, H, W]. An error names the line of the layer that does not fit.
Model built_model(const TrainConfig& config, const Shape& input);
/// The same net for the moving averages of its weights: parameters are f32 also under fp16_pure and bf16_pure, since
/// halves round most of an average's small steps away.
Model averaged_model(const TrainConfig& config, const Shape& input);
/// Reads a whole configuration. Throws a usage Error with every problem of the tree.
TrainConfig read_config(const Tree& tree);
/// Where a configuration is: a relative path that does not exist is looked for among the files that were installed with
/// the program (`share/nixie`) or are with the sources that it was built from. Returns a path that is found nowhere.
std::filesystem::path found_config(const std::filesystem::path& file, const std::filesystem::path& program);
/// The names of the configurations that came with the program: `configs/photos.yaml` ...
std::vector<std::string> shipped_configs(const std::filesystem::path& program);
/// The end of the message that there is no such configuration: the near name of one that is shipped or beside it.
std::string config_advice(const std::filesystem::path& file, const std::filesystem::path& program);
/// Reads a file, `configs/NAME.yaml` also from another folder (found_config), with `--set` assignments (key.path=value)
/// applied in order.
TrainConfig load_config(const FilePlace& file, const std::vector<std::string>& assignments = {});
/// Reads a text like a file of this name.
TrainConfig parse_config(const std::string& text, const std::string& name,
                         const std::vector<std::string>& assignments = {});
/// The configuration with the assignments of a flag such as --data, which `why` names. Its file's places stay.
TrainConfig with_assignments(const TrainConfig& config, const std::string& why,
                             const std::vector<std::string>& assignments);
/// The configuration as YAML with every field; reading it gives an equal configuration.
std::string config_text(const TrainConfig& config);

}  // namespace nixie

// Puts a model together from its checkpoint.
#include "nixie/apps/trainer/trained_model.h"

#include <algorithm>

#include "nixie/apps/trainer/evaluator.h"
#include "nixie/apps/trainer/non_finite.h"
#include "nixie/apps/trainer/record/run_state.h"
#include "nixie/apps/trainer/snapshot.h"
#include "nixie/models/io/checkpoint_state.h"
#include "nixie/models/io/weights.h"

namespace nixie {
namespace {

Preparation preparation_of(const Checkpoint& checkpoint, const std::filesystem::path& file) {
  const std::vector<double>& shape = checkpoint.input_shape;
  if (shape.size() != 3 || checkpoint.short_side < 1)
    fail(Fault::checkpoint, file.string(),
         ": does not say how its inputs are prepared (an older nixie wrote it); resume its run, which saves it again");
  const auto size = [&](std::size_t axis) {
    const double value = shape[axis];
    if (!(value >= 1 && value <= 65536))
      fail(Fault::checkpoint, file.string(), ": its input_shape holds ", value, ", expected sizes");
    return static_cast<std::int64_t>(value);
  };
  return {.channels = size(0),
          .height = size(1),
          .width = size(2),
          .short_side = checkpoint.short_side,
          .mean = checkpoint.mean,
          .deviation = checkpoint.deviation,
          .upright = checkpoint.upright};
}

/// The preparation of files to predict, from the options of the run's data.
void add_options(const TrainConfig& config, Preparation& preparation) {
  const Tree data = parse_yaml(config.data.text(), "data");
  const Tree& options = data.entries.front().value;
  if (config.data.kind() == Arrays::name) preparation.layout = options.find("layout")->text;
  if (config.data.kind() == ImageFolder::name) preparation.megapixels = std::stod(options.find("megapixels")->text);
}

bool gives_classes_of_pixels(const Model& model) { return model.output_shape().rank() == 3; }

Outputs forward(const Model& model, const AnyLoss& loss, const Inputs& in) {
  Pass pass{.training = false};
  const Tensor output = model(in["images"], pass);
  const bool is_dense = gives_classes_of_pixels(model);
  return {{"output", is_dense ? argmax(output, {1}, false) : cast(class_scores(output, loss), Dtype::f32)},
          {"finite", finite_samples(output)}};
}

}  // namespace

TrainedModel load_trained(const std::filesystem::path& file, const std::vector<std::string>& assignments) {
  TrainConfig own;
  Preparation preparation;
  Shape input;
  LoadOptions options;
  options.accept = [&](const Checkpoint& header) {
    if (header.config.empty())
      fail(Fault::checkpoint, file.string(), ": has no configuration; it was not written by a training run");
    own = saved_config(header, file);
    check_run_header(file, header);
    preparation = preparation_of(header, file);
    input = {1, preparation.channels, preparation.height, preparation.width};
    options.model = forms_of(built_model(own, input));  // as it was trained, whatever is assigned
  };
  Checkpoint checkpoint = load_checkpoint(file, options);
  check_run_averages(file, checkpoint, own.ema);
  const TrainConfig config =
      assignments.empty() ? own : with_assignments(own, file.string() + ": configuration", assignments);
  add_options(config, preparation);
  const Model model = checkpoint.ema.empty() ? built_model(config, input) : averaged_model(config, input);
  const NamedArrays& weights = checkpoint.ema.empty() ? checkpoint.model : checkpoint.ema;
  const WeightReport report = set_weights(model.parameters(), weights, file);
  if (!report.is_complete())
    fail(Fault::checkpoint, file.string(), ": does not hold the model of its configuration: ",
         (report.missing.empty() ? report.reshaped : report.missing)[0]);
  const auto names = static_cast<std::int64_t>(checkpoint.class_names.size());
  if (const Shape out = model.output_shape(); config.target == "labels" && names > out[0])
    fail(Fault::checkpoint, file.string(), ": names ", names, " classes, its model has ", out[0],
         " outputs; use another checkpoint");
  return {config, model, preparation, checkpoint.class_names, value_or<std::int64_t>(checkpoint.state, "step", 0)};
}

TrainedModel model_from_weights(const TrainConfig& config) {
  check(!config.init_from.empty(), "the configuration names no weights; add --set init_from=FILE");
  const Splits data = config.data.open();
  Preparation preparation = data.test_or_train()->preparation();
  add_options(config, preparation);
  const Model model = built_model(config, {1, preparation.channels, preparation.height, preparation.width});
  const WeightReport report = set_weights(model.parameters(), first_weights(config.init_from), config.init_from);
  if (!report.is_complete()) {
    const std::size_t lacking = report.missing.size() + report.reshaped.size();
    fail(Fault::checkpoint, config.init_from, ": does not fit ", lacking, " of the model's arrays, the first ",
         (report.reshaped.empty() ? report.missing : report.reshaped)[0], "; name the weights of this model, or train");
  }
  return {config, model, preparation, data.test_or_train()->class_names(), 0};
}

Checkpoint inference_checkpoint(const TrainedModel& trained) {
  Checkpoint checkpoint;
  checkpoint.state = {{"step", trained.step}};
  describe(trained.config, trained.preparation, trained.class_names, checkpoint);
  for (const Variable& variable : trained.model.parameters().all())
    checkpoint.model[variable.name()] = variable.array();
  return checkpoint;
}

bool Predictor::is_dense() const { return gives_classes_of_pixels(model_); }

Predictor::Predictor(const TrainedModel& trained, Backend& backend, std::int64_t batch)
    : backend_(backend),
      precision_(trained.config.policy()),
      model_(trained.model),
      loss_(trained.config.loss),
      class_names_(trained.class_names),
      is_ranked_(!class_names_.empty() || is_dense()),
      sample_shape_(trained.preparation.sample_shape()),
      batch_(batch),
      step_(
          backend, [model = model_, loss = loss_](const Inputs& in) { return forward(model, loss, in); }, precision_) {
  const Shape out = model_.output_shape();
  check(out.rank() == 1 || out.rank() == 3, "the model's output is ", out,
        " for a sample, expected one number per class, or [classes, height, width]");
  for (std::int64_t c = static_cast<std::int64_t>(class_names_.size()); c < out[0]; ++c)
    class_names_.push_back((is_ranked_ ? "" : "output ") + std::to_string(c));
}

void Predictor::fail_non_finite(const Array& images, std::int64_t row, const std::string& name) const {
  Array sample(Dtype::f32, images.shape());  // alone in its batch: the others are zeros
  const Array pixels = row_of(images, row);
  std::ranges::copy(pixels.data<float>(), sample.data<float>().begin());
  Batch batch;
  batch.images = sample;
  batch.indices.resize(static_cast<std::size_t>(batch_));
  const NonFinite found = first_non_finite(backend_, precision_, batch, "", {{"images", sample}},
                                           [&](const Inputs& in, const auto& observe) {
                                             Pass pass{.training = false, .observe = observe};
                                             return model_(in["images"], pass);
                                           });
  fail(Fault::non_finite, name, ": the model's output is not finite", found.text(), "; ",
       found.remedy.empty() ? "take another checkpoint" : found.remedy);
}

std::vector<Array> Predictor::outputs(const std::vector<Array>& samples, const std::vector<std::string>& names) {
  std::vector<Array> results;
  std::vector<std::int64_t> sizes = {batch_};
  sizes.insert(sizes.end(), sample_shape_.begin(), sample_shape_.end());
  const auto stride = static_cast<std::size_t>(sample_shape_.size());
  for (std::size_t first = 0; first < samples.size(); first += static_cast<std::size_t>(batch_)) {
    const std::size_t count = std::min(samples.size() - first, static_cast<std::size_t>(batch_));
    Array images(Dtype::f32, Shape(sizes));  // what is left of the last batch is zeros
    for (std::size_t i = 0; i < count; ++i) {
      const Array& sample = samples[first + i];
      check(sample.shape() == sample_shape_, "sample ", first + i, " is ", sample.shape(), ", expected ",
            sample_shape_);
      std::ranges::copy(sample.data<float>(), images.data<float>().begin() + static_cast<std::ptrdiff_t>(i * stride));
    }
    const Outputs computed = step_({{"images", images}});
    const auto finite = computed.at("finite").to_vector<std::uint8_t>();
    const Array batch = computed.at("output").array();
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::int64_t>(i);
      if (finite[i] == 0)
        fail_non_finite(images, row, names.empty() ? fmt::format("sample {}", first + i) : names[first + i]);
      results.push_back(row_of(batch, row));
    }
  }
  return results;
}

std::vector<std::vector<Score>> Predictor::scores(const std::vector<Array>& outputs) const {
  std::vector<std::vector<Score>> results;
  for (const Array& output : outputs) {
    std::vector<double> values(class_names_.size());
    if (is_dense())
      for (const std::int32_t pixel : output.data<std::int32_t>())
        values[static_cast<std::size_t>(pixel)] += 1 / static_cast<double>(output.size());
    else
      std::ranges::copy(output.data<float>(), values.begin());
    std::vector<Score>& scores = results.emplace_back();
    for (std::size_t c = 0; c < values.size(); ++c) scores.push_back({class_names_[c], values[c]});
    if (is_ranked_) std::ranges::stable_sort(scores, [](const Score& a, const Score& b) { return a.value > b.value; });
  }
  return results;
}

}  // namespace nixie

// Three steps for a layer: forward; forward and backward, whose difference is the backward pass; the update.
#include "nixie/apps/trainer/profile/layer_times.h"

#include <algorithm>
#include <map>

#include "nixie/apps/trainer/profile/ceiling.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/apps/trainer/report/layer_table.h"
#include "nixie/core/base/random.h"
#include "nixie/core/step.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {
namespace {

constexpr int kRuns = 5;

/// What values between layers are stored as.
Dtype stored_dtype(PrecisionPolicy precision) {
  switch (precision) {
    case PrecisionPolicy::fp16:
    case PrecisionPolicy::fp16_pure:
      return Dtype::f16;
    case PrecisionPolicy::bf16:
      return Dtype::bf16;
    case PrecisionPolicy::ieee:
    case PrecisionPolicy::fp32:
    case PrecisionPolicy::tf32:
      break;
  }
  return Dtype::f32;
}

/// A few thousand random numbers over and over: more would take longer to draw than to compute with.
Variable random_variable(const char* name, const Shape& shape, Dtype dtype) {
  const Array few = Init::uniform(-1, 1).make({4099}, random_stream(1, name));
  const auto source = few.data<float>();
  Array values(Dtype::f32, shape);
  const auto to = values.data<float>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = source[i % source.size()];
  return Variable(name, values.to(dtype));
}

/// Whether the value is another one seen in another order.
bool is_view(Tensor value) {
  while (role_of(value.node().op) == OpRole::view) value = value.inputs()[0];
  return role_of(value.node().op) == OpRole::leaf;
}

TimedWork timed(Backend& backend, const Step::Body& body, PrecisionPolicy precision) {
  Step step(backend, body, precision);
  TimedWork result{.work = work_of(step.graph({}))};
  result.ms = time_for(
                  backend, [&] { step({}); }, kRuns)
                  .median;
  return result;
}

class LayerTimer {
 public:
  LayerTimer(Backend& backend, const TrainConfig& config) : backend_(backend), config_(config) {}

  /// `target` is that of a loss.
  void time(LayerTimes& times, const Forward& forward, const Parameters& parameters, const Shape& in, bool is_first) {
    const PrecisionPolicy precision = config_.policy();
    const Dtype stored = stored_dtype(precision);
    const Variable x = random_variable("input", in, stored), slope = random_variable("slope", times.out, stored),
                   y = random_variable("output", times.out, stored), back = random_variable("back", in, stored);
    const std::vector<Variable> weights = parameters.trainable();
    std::vector<Variable> slopes;
    for (const Variable& weight : weights)
      slopes.push_back(random_variable("gradient", weight.shape(), weight.dtype()));
    const auto run = [&](const Tensor& input) {
      Pass pass{.training = true, .step = Tensor(Array::from(std::vector<std::int32_t>{1}, Shape{}))};
      return forward(input, pass);
    };
    {
      Trace trace;
      if (is_view(run(x.value()))) return;
    }
    times.forward = timed(
        backend_, [&](const Inputs&) { return y.set(cast(run(cast(x, Dtype::f32)), stored)), Outputs{}; }, precision);
    const TimedWork both = timed(
        backend_,
        [&](const Inputs&) {
          const Tensor input = cast(x, Dtype::f32), output = run(input);
          y.set(cast(output, stored));
          std::vector<Tensor> wanted(weights.begin(), weights.end());
          if (!is_first) wanted.push_back(input);
          if (wanted.empty()) return Outputs{};
          const std::vector<Tensor> found = gradients(sum(cast(output, Dtype::f32) * cast(slope, Dtype::f32)), wanted);
          for (std::size_t i = 0; i < weights.size(); ++i) slopes[i].set(cast(found[i], slopes[i].dtype()));
          if (!is_first) back.set(cast(found.back(), stored));
          return Outputs{};
        },
        precision);
    const double output_bytes = static_cast<double>(times.out.size() * size_of(stored));
    times.backward = {std::max(0.0, both.ms - times.forward.ms),
                      {both.work.flop - times.forward.work.flop, std::max(0.0, both.work.bytes - output_bytes)}};
    if (is_first && weights.empty()) times.backward = {};
    if (weights.empty()) return;
    const Optimizer optimizer(parameters, {.rule = config_.optimizer, .schedule = ConstantRate{}});
    times.update = timed(
        backend_,
        [&](const Inputs&) {
          std::vector<Gradient> all;
          for (std::size_t i = 0; i < weights.size(); ++i) all.push_back({weights[i], slopes[i]});
          optimizer.update(all);
          return Outputs{};
        },
        precision);
  }

 private:
  Backend& backend_;
  const TrainConfig& config_;
};

/// The loss as the last layer: of labels that are all 0.
Forward loss_of(const TrainConfig& config, const Shape& output) {
  std::vector<std::int64_t> sizes(output.begin(), output.end());
  if (sizes.size() > 1) sizes.erase(sizes.begin() + 1);
  const Array labels(Dtype::i32, Shape(sizes));
  return [loss = config.loss, labels](const Tensor& x, Pass&) { return loss(x, labels); };
}

}  // namespace

double MachineRates::least_ms(const Work& work) const {
  return 1e3 * std::max(work.flop / flop_per_second, work.bytes / bytes_per_second);
}

MachineRates measure_rates(Backend& backend, PrecisionPolicy precision) {
  return {1e12 * measure_matmul_ceiling(backend, precision, stored_dtype(precision)), 1e9 * measure_copy_rate(backend)};
}

double LayerTimes::roofline(const MachineRates& rates) const {
  const double least = rates.least_ms(forward.work) + rates.least_ms(backward.work) + rates.least_ms(update.work);
  return ms() > 0 ? least / ms() : 0;
}

std::vector<LayerTimes> time_layers(Backend& backend, const TrainConfig& config, const Shape& input,
                                    const std::function<void(const std::string&)>& tell) {
  LayerTimer timer(backend, config);
  std::vector<LayerTimes> all;
  std::map<std::string, LayerTimes> known;
  bool is_first = true;
  Shape last = input;
  for (const PlacedLayer& placed : placed_layers(config.model, input)) {
    LayerTimes times{
        .name = placed.name, .kind = placed.layer.kind(), .out = placed.out, .parameters = placed.parameters};
    last = placed.out;
    if (!placed.joins) {
      const std::string key = fmt::format("{} {} {}", placed.layer.text(), placed.in, is_first);
      const auto found = known.find(key);
      if (found != known.end()) {
        times.forward = found->second.forward;
        times.backward = found->second.backward;
        times.update = found->second.update;
      } else {
        if (tell) tell(placed.name);
        Scope scope(placed.name, times.kind);
        Parameters parameters(config.seed, parameter_dtype(config.policy()));
        const Forward forward = placed.layer.build(placed.in, parameters);
        timer.time(times, forward, parameters, placed.in, is_first);
        known.emplace(key, times);
      }
      is_first = is_first && times.forward.ms == 0;  // what stands before it needs no gradient either
    }
    all.push_back(times);
  }
  LayerTimes loss{.name = "loss", .kind = config.loss.kind(), .out = Shape{}};
  timer.time(loss, loss_of(config, last), Parameters(), last, false);
  all.push_back(loss);
  return all;
}

}  // namespace nixie

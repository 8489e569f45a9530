// Three steps for a layer: forward; forward and backward, whose difference is the backward pass; the update.
#include "nixie/apps/trainer/profile/profile.h"

#include <algorithm>
#include <map>

#include "nixie/apps/trainer/profile/layer_table.h"
#include "nixie/apps/trainer/profile/timing.h"
#include "nixie/core/passes/plan_too_large.h"
#include "nixie/core/step.h"
#include "nixie/optimizers/optimizer.h"

namespace nixie {
namespace {

constexpr int kRuns = 5;

/// The type in which values between layers are stored.
Dtype stored_dtype(PrecisionPolicy precision) {
  switch (precision) {
    case PrecisionPolicy::fp16:
    case PrecisionPolicy::fp16_pure:
      return Dtype::f16;
    case PrecisionPolicy::bf16:
    case PrecisionPolicy::bf16_pure:
      return Dtype::bf16;
    case PrecisionPolicy::ieee:
    case PrecisionPolicy::fp32:
    case PrecisionPolicy::tf32:
      break;
  }
  return Dtype::f32;
}

/// Whether the value is a stored one seen in another order.
bool reorders_a_leaf(Tensor value) {
  while (role_of(value.node().op) == OpRole::view) value = value.inputs()[0];
  return role_of(value.node().op) == OpRole::leaf;
}

TimedWork timed(Backend& backend, Step& step) {
  TimedWork result{.work = work_of(step.graph({}))};
  result.ms = time_for(
                  backend, [&] { step({}); }, kRuns)
                  .median;
  return result;
}

/// The facts that a layer's times depend on.
struct Subject {
  std::string name = {}, kind = {};
  std::function<Forward(Parameters&)> build = {};
  Shape in = {}, out = {};
  bool is_first = false;  ///< its input needs no gradient
};

/// The three steps of a layer. Their operands are made when they run.
class LayerSteps {
 public:
  LayerSteps(Backend& backend, const TrainConfig& config, const Subject& subject)
      : backend_(backend),
        subject_(subject),
        precision_(config.policy()),
        parameters_(config.seed, parameter_dtype(precision_)),
        forward_(build()),
        x_(noise_operand("input", stored_, subject.in)),
        slope_(noise_operand("slope", stored_, subject.out)),
        y_(result_operand("output", stored_, subject.out)),
        back_(result_operand("back", stored_, subject.in)),
        weights_(parameters_.trainable()),
        optimizer_(parameters_, {.rule = config.optimizer, .schedule = ConstantRate{}}) {
    for (const Variable& weight : weights_)
      slopes_.push_back(noise_operand("gradient", weight.dtype(), weight.shape()));
  }
  LayerSteps(const LayerSteps&) = delete;  // the steps refer to it
  LayerSteps& operator=(const LayerSteps&) = delete;

  /// Whether it only reads its input in another order.
  bool is_view() const {
    Trace trace;
    return reorders_a_leaf(run(x_.value()));
  }
  void compile() {
    forward_step_.plan({});
    both_step_.plan({});
    if (!weights_.empty()) update_step_.plan({});
  }
  void time(LayerTimes& times) {
    times.forward = timed(backend_, forward_step_);
    const TimedWork both = timed(backend_, both_step_);
    const double output_bytes = static_cast<double>(subject_.out.size() * size_of(stored_));
    times.backward = {std::max(0.0, both.ms - times.forward.ms),
                      {both.work.flop - times.forward.work.flop, std::max(0.0, both.work.bytes - output_bytes)}};
    if (subject_.is_first && weights_.empty()) times.backward = {};
    if (!weights_.empty()) times.update = timed(backend_, update_step_);
  }

 private:
  Forward build() {
    Scope scope(subject_.name, subject_.kind);
    return subject_.build(parameters_);
  }
  Tensor run(const Tensor& input) const {
    Pass pass{.training = true, .step = Tensor(Array::from(std::vector<std::int32_t>{1}, Shape{}))};
    return forward_(input, pass);
  }
  void forward() { y_.set(cast(run(cast(x_, Dtype::f32)), stored_)); }
  void forward_and_backward() {
    const Tensor input = cast(x_, Dtype::f32), output = run(input);
    y_.set(cast(output, stored_));
    std::vector<Tensor> wanted(weights_.begin(), weights_.end());
    if (!subject_.is_first) wanted.push_back(input);
    if (wanted.empty()) return;
    const std::vector<Tensor> found = gradients(sum(cast(output, Dtype::f32) * cast(slope_, Dtype::f32)), wanted);
    for (std::size_t i = 0; i < weights_.size(); ++i) slopes_[i].set(cast(found[i], slopes_[i].dtype()));
    if (!subject_.is_first) back_.set(cast(found.back(), stored_));
  }
  void update() {
    std::vector<Gradient> all;
    for (std::size_t i = 0; i < weights_.size(); ++i) all.push_back({weights_[i], slopes_[i]});
    optimizer_.update(all);
  }
  Step step(void (LayerSteps::*body)()) {
    return Step(
        backend_,
        [this, body](const Inputs&) {
          (this->*body)();
          return Outputs{};
        },
        precision_);
  }

  Backend& backend_;
  const Subject& subject_;
  PrecisionPolicy precision_;
  Dtype stored_ = stored_dtype(precision_);
  Parameters parameters_;
  Forward forward_;
  Variable x_, slope_, y_, back_;
  std::vector<Variable> weights_, slopes_;
  Optimizer optimizer_;
  Step forward_step_ = step(&LayerSteps::forward), both_step_ = step(&LayerSteps::forward_and_backward),
       update_step_ = step(&LayerSteps::update);
};

/// An error for want of memory says what it was taken for.
template <class Work>
auto with_memory_for(const std::string& name, const Work& work) try {
  return work();
} catch (const PlanTooLarge& error) {
  fail(Fault::memory, name, ": ", error.need());
} catch (const Error& error) {
  if (error.fault() != Fault::memory) throw;
  fail(Fault::memory, name, ": ", error.what());
}

/// The loss as the last layer: of labels that are all 0.
Forward loss_of(const TrainConfig& config, const Shape& output) {
  std::vector<std::int64_t> sizes(output.begin(), output.end());
  if (sizes.size() > 1) sizes.erase(sizes.begin() + 1);
  const Array labels(Dtype::i32, Shape(sizes));
  return [loss = config.loss, labels](const Tensor& x, const Pass&) { return loss(x, labels); };
}

}  // namespace

double MachineRates::least_ms(const Work& work) const {
  return 1e3 * std::max(work.flop / flop_per_second, work.bytes / bytes_per_second);
}

MachineRates measure_rates(Backend& backend, PrecisionPolicy precision) {
  return with_memory_for("the machine's rates", [&] {
    return MachineRates{1e12 * measure_matmul_ceiling(backend, precision, stored_dtype(precision)),
                        1e9 * measure_copy_rate(backend)};
  });
}

double LayerTimes::roofline(const MachineRates& rates) const {
  const double least = rates.least_ms(forward.work) + rates.least_ms(backward.work) + rates.least_ms(update.work);
  return ms() > 0 ? least / ms() : 0;
}

std::vector<LayerTimes> time_layers(Backend& backend, const TrainConfig& config, const Shape& input,
                                    const std::function<void(const std::string&)>& tell) {
  const auto say = [&](const std::string& line) {
    if (tell) tell(line);
  };
  constexpr std::size_t kNone = -1;
  std::vector<LayerTimes> all;
  std::vector<Subject> subjects;
  std::vector<std::size_t> subject_of;  // each layer's, or kNone
  std::map<std::string, std::size_t> known;
  bool is_first = true;
  Shape last = input;
  const auto add = [&](const std::string& key, const Subject& subject) {
    const auto [place, is_new] = known.emplace(key, subjects.size());
    if (is_new && LayerSteps(backend, config, subject).is_view()) place->second = kNone;
    if (is_new && place->second != kNone) subjects.push_back(subject);
    subject_of.push_back(place->second);
  };
  for (const PlacedLayer& placed : placed_layers(config.model, input)) {
    const std::string kind = placed.layer.kind();
    all.push_back({.name = placed.name, .kind = kind, .out = placed.out, .parameters = placed.parameters});
    last = placed.out;
    if (placed.joins) {
      subject_of.push_back(kNone);
      continue;
    }
    const auto build = [layer = placed.layer, in = placed.in](Parameters& parameters) {
      return layer.build(in, parameters);
    };
    add(fmt::format("{} {} {}", placed.layer.text(), placed.in, is_first),
        {placed.name, kind, build, placed.in, placed.out, is_first});
    is_first = is_first && subject_of.back() == kNone;  // layers before it need no gradient either
  }
  all.push_back({.name = "loss", .kind = config.loss.kind(), .out = Shape{}});
  const Forward loss = loss_of(config, last);
  add("loss", {"loss", config.loss.kind(), [loss](Parameters&) { return loss; }, last, Shape{}, false});

  say("compiles the layers");
  compile_ahead(backend, static_cast<std::int64_t>(subjects.size()),
                [&](std::int64_t i) { LayerSteps(backend, config, subjects[static_cast<std::size_t>(i)]).compile(); });
  std::vector<LayerTimes> times(subjects.size());
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    say("times " + subjects[i].name);
    with_memory_for(subjects[i].name + " by itself", [&] { LayerSteps(backend, config, subjects[i]).time(times[i]); });
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (subject_of[i] == kNone) continue;
    const LayerTimes& found = times[subject_of[i]];
    all[i].forward = found.forward, all[i].backward = found.backward, all[i].update = found.update;
  }
  return all;
}

}  // namespace nixie

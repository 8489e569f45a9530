// The steps of a net: fprop, fprop with bprop, training, and the probe that checks them.
#include "nixie/apps/benchmark/subjects/net_work.h"

#include <limits>
#include <random>

#include "nixie/apps/trainer/ranks/shards.h"
#include "nixie/core/base/random.h"

namespace nixie::benchmark {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr double kLossScale = 1024;
constexpr double kOpen = 2;          // standard deviations: 98 of 100 values are positive
constexpr double kNarrow = 1.0 / 8;  // of initial weights that read values near 2

Shape with_batch(const Shape& sample, int batch) {
  std::vector<std::int64_t> sizes{batch};
  sizes.insert(sizes.end(), sample.begin(), sample.end());
  return Shape(std::move(sizes));
}

OptimizerOptions with_scale(OptimizerOptions options, double scale) {
  options.loss_scale.scale = scale;
  return options;
}

std::optional<Normalization> normalization_of(const Net& net) {
  if (!net.bytes) return {};
  check(net.sample[0] == 3, net.name, ": images are ", net.sample, ", only those of three channels are made of bytes");
  return Normalization(3, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f});
}

/// One label for each sample, or for each position of outputs [C, positions...].
Shape labels_of(const Shape& output, int batch) {
  std::vector<std::int64_t> sizes(output.begin(), output.end());
  sizes.front() = batch;
  return Shape(std::move(sizes));
}

/// `3 result`
std::string probed_name(std::size_t contraction, const char* part) { return fmt::format("{} {}", contraction, part); }

/// Variables with other values for a while.
class ChangedValues {
 public:
  void change(Variable variable, const auto& value_of) {
    saved_.emplace_back(variable, variable.array().clone());
    std::vector<double> values = variable.array().to(Dtype::f64).to_vector<double>();
    for (double& each : values) each = value_of(each);
    variable.set(Array::from(values, variable.shape()).to(variable.dtype()));
  }
  void restore() {
    for (auto& [variable, values] : saved_) variable.set(values);
  }

 private:
  std::vector<std::pair<Variable, Array>> saved_;
};

Tensor noise(const Shape& shape, const char* purpose) { return uniform(shape, random_stream(kSeed, purpose)); }

}  // namespace

Passes passes_of(const Model& model, const Tensor& images, const Tensor& output_gradient) {
  Pass pass;
  Passes result{.output = model(images, pass)};
  // The gradient of this sum with respect to the output is the given one; the sum itself is never computed.
  result.gradients = gradients(sum(result.output * output_gradient), model.parameters());
  return result;
}

std::vector<Contraction> contractions_of_net(const Net& net, int batch) {
  const Model model(net.model, with_batch(net.sample, batch), kSeed);
  Trace trace;
  const Passes passes = passes_of(model, placeholder(with_batch(net.sample, batch)),
                                  placeholder(with_batch(model.output_shape(), batch)));
  return contractions_of(passes.output, passes.gradients);
}

NetWork::NetWork(Backend& backend, const Net& net, int batch, const PrecisionTraits& precision, Fusion fusion,
                 const World& world)
    : backend_(backend),
      net_(net),
      batch_(batch),
      precision_(precision),
      world_(world),
      normalization_(normalization_of(net)),
      loss_(net.loss),
      model_(net.model, with_batch(net.sample, batch), kSeed, parameter_dtype(precision.policy)),
      optimizer_(model_.parameters(), with_scale(net.training, precision.data == Dtype::f16 ? kLossScale : 1), net.run),
      fprop_(
          backend,
          [this](const Inputs& in) {
            Pass pass;
            return Outputs{{"output", cast(model_(images_of(in), pass), precision_.data)}};
          },
          precision.policy, fusion),
      total_(
          backend,
          [this](const Inputs& in) {
            const Passes passes = passes_of(model_, images_of(in), in["gradient"]);
            if (gradients_.empty()) make_gradients();
            for (std::size_t i = 0; i < gradients_.size(); ++i)
              gradients_[i].set(cast(passes.gradients[i].value, precision_.data));
            return Outputs{{"output", cast(passes.output, precision_.data)}};
          },
          precision.policy, fusion),
      train_(
          backend, [this](const Inputs& in) { return train_body(in, optimizer_); }, precision.policy, fusion),
      train_dynamic_(
          backend, [this](const Inputs& in) { return train_body(in, *dynamic_); }, precision.policy, fusion),
      exchange_(
          backend, [this](const Inputs&) { return exchange_body(); }, precision.policy, fusion) {
  if (precision.data == Dtype::f16) dynamic_.emplace(model_.parameters(), with_scale(net.training, 0), net.run);
  const Tensor pixels = noise(with_batch(net.sample, batch), "images"),
               images = net.bytes ? cast(pixels * 256, Dtype::u8) : cast(pixels, precision.data);
  const Tensor gradient =
      cast(noise(with_batch(model_.output_shape(), batch), "gradient") * net.output_gradient, precision.data);
  const int classes = std::min(net.classes, static_cast<int>(model_.output_shape()[0]));
  const Tensor labels = cast(noise(labels_of(model_.output_shape(), batch), "labels") * classes, Dtype::i32);
  const std::vector<Tensor> stored = evaluate({images, gradient, labels}, backend);
  data_ = {{"images", stored[0]}, {"gradient", stored[1]}};
  labelled_ = {{"images", stored[0]}, {"labels", stored[2]}};
}

void NetWork::make_gradients() {
  for (const Variable& parameter : model_.parameters().trainable())
    gradients_.emplace_back("d." + parameter.name(), Array(precision_.data, parameter.shape()), false);
}

std::unique_ptr<NetWork> NetWork::in(const PrecisionTraits& precision, Fusion fusion) const {
  return std::make_unique<NetWork>(backend_, net_, batch_, precision, fusion);
}

void NetWork::lower_output_gradient() {
  constexpr double kFactor = 1.0 / 16;
  net_.output_gradient *= kFactor;
  Tensor& gradient = data_.at("gradient");
  gradient = evaluate(cast(gradient * kFactor, precision_.data), backend_);
}

void NetWork::total() {
  last_.clear();  // else its memory would be another one every time
  last_ = total_(data_);
}
Outputs NetWork::results() const {
  Outputs results{{"output", last_.at("output").array()}};
  for (const Variable& gradient : gradients_) results.emplace(gradient.name(), gradient.array());
  return results;
}
std::int64_t NetWork::exchanged_bytes() const {
  std::int64_t bytes = 0;
  for (const Variable& parameter : model_.parameters().trainable())
    bytes += parameter.shape().size() * size_of(exchanged_dtype(parameter, precision_.policy));
  return bytes;
}

std::uint64_t NetWork::fingerprint() const {
  std::uint64_t hash = 0;
  for (const Variable& parameter : model_.parameters().all()) {
    const Array values = parameter.array();
    const std::string_view bytes(reinterpret_cast<const char*>(values.bytes()),
                                 static_cast<std::size_t>(values.size_bytes()));
    hash = 31 * hash + std::hash<std::string_view>{}(bytes);
  }
  return hash;
}

std::int64_t NetWork::train_bytes() {
  const Plan& plan = train_.plan(labelled_);
  std::int64_t bytes = plan.arena_bytes;
  for (const int slot : plan.externals) bytes += plan.slots[static_cast<std::size_t>(slot)].size_bytes();
  return bytes;
}

void NetWork::while_well_conditioned(const std::function<void()>& work) {
  static constexpr std::string_view kBias = "bias", kExcitation = "fc1.bias";
  ChangedValues changed;
  for (const Variable& bias : model_.parameters().all()) {
    if (!bias.name().ends_with(kBias)) continue;
    const auto weight = model_.parameters().find(bias.name().substr(0, bias.name().size() - kBias.size()) + "weight");
    const bool normalises = weight && weight->shape() == bias.shape(), excites = bias.name().ends_with(kExcitation);
    if (!normalises && !excites) continue;
    changed.change(bias, [](double) { return kOpen; });
    if (excites) changed.change(*weight, [](double each) { return kNarrow * each; });
  }
  work();
  changed.restore();
}

void NetWork::while_jittered(double most, std::uint32_t seed, const std::function<void()>& work) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> factor(1 - most, 1 + most);
  ChangedValues changed;
  for (const Variable& parameter : model_.parameters().trainable())
    changed.change(parameter, [&](double each) { return factor(random) * each; });
  work();
  changed.restore();
}

Tensor NetWork::images_of(const Inputs& in) const {
  return normalization_ ? (*normalization_)(in["images"]) : in["images"];
}

Outputs NetWork::outputs_of(const Passes& passes) const {
  Outputs outputs{{"output", cast(passes.output, precision_.data)}};
  for (const Gradient& gradient : passes.gradients)
    outputs["d." + gradient.parameter.name()] = cast(gradient.value, precision_.data);
  return outputs;
}

Outputs NetWork::train_body(const Inputs& in, const Optimizer& optimizer) const {
  Pass pass;
  const Tensor loss = loss_(model_(images_of(in), pass), in["labels"]);
  std::vector<Gradient> slopes = gradients(optimizer.scaled(loss), model_.parameters());
  if (!world_.is_alone())
    for (std::size_t i = slopes.size(); i-- > 0;)
      slopes[i].value = gradient_sum(world_, slopes[i].value, precision_.policy) * (1.0 / world_.size());
  optimizer.update(slopes);
  return {{"loss", loss}};
}

Outputs NetWork::exchange_body() const {
  const std::vector<Variable> parameters = model_.parameters().trainable();
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const auto values = [&](const char* name) {
      const Variable& of = parameters[i];
      return Variable(name + of.name(), Array(exchanged_dtype(of, precision_.policy), of.shape()), false);
    };
    values("sum.").set(all_reduce(world_, values("d.")));
  }
  return {};
}

Outputs NetWork::run_probed(std::size_t first, std::size_t most, std::vector<Contraction>& contractions) {
  Step step(
      backend_,
      [&](const Inputs& in) {
        const Passes all = passes_of(model_, images_of(in), in["gradient"]);
        Outputs outputs = outputs_of(all);
        contractions = contractions_of(all.output, all.gradients);
        for (std::size_t i = first; i < contractions.size() && i - first < most; ++i) {
          const Tensor& node = contractions[i].node;
          outputs[probed_name(i, "a")] = cast(node.inputs()[0], precision_.data);
          outputs[probed_name(i, "b")] = cast(node.inputs()[1], precision_.data);
          outputs[probed_name(i, "result")] = cast(node, precision_.data);
        }
        return outputs;
      },
      precision_.policy);
  return step(data_);
}

Outputs NetWork::probe(const std::function<void(const Probed&)>& visit) {
  Outputs outputs;
  std::size_t first = 0, most = std::numeric_limits<std::size_t>::max();  // of contractions in one run
  std::vector<Contraction> contractions;
  do {
    try {
      outputs = run_probed(first, most, contractions);
    } catch (const Error& error) {  // what does not fit beside each other is returned by several runs
      most = std::min(most, contractions.size() - first);
      if (error.fault() != Fault::memory || most <= 1) throw;
      most = (most + 1) / 2;
      continue;
    }
    for (const std::size_t begin = first; first < contractions.size() && first - begin < most; ++first) {
      Probed probed{.contraction = contractions[first]};
      for (const auto& [part, array] : {std::pair{"a", &probed.a}, {"b", &probed.b}, {"result", &probed.result}}) {
        const auto output = outputs.find(probed_name(first, part));
        *array = output->second.array();
        outputs.erase(output);
      }
      const auto bias = outputs.find("d." + probed.contraction.layer + ".bias");
      if (probed.contraction.role == Role::filter_grad && bias != outputs.end())
        probed.bias_grad = bias->second.array();
      visit(probed);
    }
  } while (first < contractions.size());
  return outputs;
}

}  // namespace nixie::benchmark

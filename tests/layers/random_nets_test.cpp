// Random nets: layers of odd sizes in any order, on the tested backend with everything fused, beside a CPU that
// computes op by op in f32. Values and gradients may differ as far as rounding takes them, which further runs on the
// CPU tell.
#include "nixie/backends/cpu/backend.h"
#include "nixie/core/ops/ops.h"
#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/layers/registry.h"
#include "nixie/tests/layers/reference.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

/// A random net grows layer by layer: what does not fit its shape is drawn again.
class Grower {
 public:
  explicit Grower(unsigned seed) : random_(seed) {
    const bool is_large = seed % 5 == 4;  // what tensor cores compute in large tiles
    most_ = is_large ? 400'000 : 60'000;
    outs_ = is_large ? std::vector<int>{16, 32, 48, 64, 72, 96, 128, 130}
                     : std::vector<int>{1, 2, 3, 5, 8, 12, 16, 20, 33, 40};
    const int rank = below(8) == 0 ? 1 : below(8) == 0 ? 3 : 2;
    std::vector<std::int64_t> sizes = {1 + below(is_large ? 40 : 6),
                                       pick(is_large ? std::vector<int>{3, 16, 32, 40, 64, 96}
                                                     : std::vector<int>{1, 2, 3, 4, 5, 7, 8, 16, 17, 24, 33})};
    for (int axis = 0; axis < rank; ++axis) sizes.push_back(rank == 3 ? 3 + below(5) : 5 + below(18));
    input_ = shape_ = Shape(sizes);
    const int layers = 2 + below(7);
    for (int i = 0; i < layers; ++i) grow(shape_.rank() > 2 ? spatial_layer() : flat_layer());
    if (shape_.rank() > 2 && below(2)) {
      if (below(2)) grow(GlobalAvgPool{});
      if (shape_.rank() > 2) grow(Flatten{});
      if (shape_.size() / shape_[0] < 20'000) grow(Linear{.out = 1 + below(40)});
    }
  }

  const Shape& input() const { return input_; }
  const Sequential& net() const { return net_; }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  int pick(const std::vector<int>& values) { return values[static_cast<std::size_t>(below(int(values.size())))]; }

  /// Adds the layer if it takes the shape and what it makes is not too large.
  bool grow(const AnyLayer& layer) try {
    Parameters parameters(0, Dtype::f32);
    const Shape after = output_shape(layer.build(shape_, parameters), shape_);
    const bool has_no_variance = after.rank() > 1 && after.size() == after[1];  // a channel of one value
    if (after.size() > most_ || after.size() == 0 || has_no_variance) return false;
    net_.add(layer);
    shape_ = after;
    return true;
  } catch (const Error&) {
    return false;  // a window larger than the input, groups that do not divide the channels
  }

  /// One number for all axes, or one for each.
  PerAxis sizes(int least, int most) {
    if (below(3)) return least + below(most - least + 1);
    std::vector<int> each;
    for (int axis = 2; axis < shape_.rank(); ++axis) each.push_back(least + below(most - least + 1));
    return PerAxis{each};
  }

  template <int spatial>
  AnyLayer convolution() {
    const int channels = static_cast<int>(shape_[1]);
    int out = pick(outs_), groups = 1;
    if (below(4) == 0) {
      groups = below(2) ? channels : 1 + below(channels);
      out = groups * (1 + below(3));
    }
    const PerAxis kernel = sizes(1, below(6) ? 4 : 7), stride = below(2) ? PerAxis(1) : sizes(1, 3);
    if (below(5) == 0)
      return DeconvLayer<spatial>{
          .out = out, .kernel = kernel, .stride = stride, .pad = sizes(0, 2), .groups = groups, .bias = below(2) > 0};
    return ConvLayer<spatial>{.out = out,
                              .kernel = kernel,
                              .stride = stride,
                              .pad = sizes(0, 3),
                              .dilation = below(4) ? PerAxis(1) : sizes(1, 3),
                              .groups = groups,
                              .bias = below(2) > 0};
  }

  template <int spatial>
  AnyLayer pooling() {
    const PerAxis window = sizes(1, 4), stride = below(2) ? PerAxis(0) : sizes(1, 3), pad = sizes(0, 1);
    switch (below(4)) {
      case 0:
        return AvgPoolLayer<spatial>{
            .window = window, .stride = stride, .pad = pad, .ceil_mode = below(2) > 0, .count_pad = below(2) > 0};
      case 1:
        return L2PoolLayer<spatial>{.window = window, .stride = stride, .pad = pad};
      default:
        return MaxPoolLayer<spatial>{.window = window, .stride = stride, .pad = pad, .ceil_mode = below(2) > 0};
    }
  }

  AnyLayer activation() {
    const AnyLayer kAll[] = {Relu{},
                             Relu{},
                             Relu{.slope = 0.2},
                             Tanh{},
                             Sigmoid{},
                             Silu{},
                             Gelu{},
                             Elu{},
                             HardSwish{},
                             Softplus{},
                             LeakyRelu{},
                             Softmax{},
                             Prelu{.per_channel = below(2) > 0},
                             ReluClipped{.cut = 1}};
    return kAll[below(int(std::size(kAll)))];
  }

  /// Branches whose results have the shape of the input.
  AnyLayer branches() {
    const int channels = static_cast<int>(shape_[1]), rank = shape_.rank();
    const auto same = [&]() -> NamedLayer {
      const int kernel = 1 + 2 * below(2), groups = below(3) ? 1 : channels;
      const AnyLayer conv =
          rank == 4   ? AnyLayer(Conv2d{.out = channels, .kernel = kernel, .pad = kernel / 2, .groups = groups})
          : rank == 3 ? AnyLayer(Conv1d{.out = channels, .kernel = kernel, .pad = kernel / 2, .groups = groups})
                      : AnyLayer(Conv3d{.out = channels, .kernel = kernel, .pad = kernel / 2, .groups = groups});
      if (below(3) == 0) return {"", conv};
      return {"", Sequential{{"", conv}, {"", below(2) ? AnyLayer(BatchNorm{}) : activation()}}};
    };
    const NamedLayer straight{"", below(2) ? AnyLayer(Identity{}) : AnyLayer(Relu{})};
    if (below(2)) return SumBranches{.branches = {straight, same()}};
    return ConcatBranches{.branches = {straight, same(), same()}};
  }

  AnyLayer spatial_layer() {
    const int rank = shape_.rank(), channels = static_cast<int>(shape_[1]);
    switch (below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return rank == 3 ? convolution<1>() : rank == 4 ? convolution<2>() : convolution<3>();
      case 5:
      case 6:
        return rank == 3 ? pooling<1>() : rank == 4 ? pooling<2>() : pooling<3>();
      case 7:
      case 8:
        return BatchNorm{.affine = below(4) > 0};
      case 9:
        return GroupNorm{.groups = 1 + below(channels)};
      case 10:
        return branches();
      case 11:
        return Upsample{.factor = 1 + below(3), .mode = below(2) ? "nearest" : "bilinear"};
      case 12:
        return below(2) ? AnyLayer(PadSides{.pad = sizes(0, 2), .mode = below(2) ? "zero" : "reflect"})
                        : AnyLayer(ChannelShuffle{.groups = 1 + below(channels)});
      case 13:
        return below(2) ? AnyLayer(SqueezeExcite{.squeeze = 1 + below(6)}) : AnyLayer(Lrn{.size = 1 + 2 * below(3)});
      case 14:
        return below(2) ? AnyLayer(Dropout{.rate = 0.3}) : AnyLayer(Maxout{.window = 1 + below(3)});
      default:
        return activation();
    }
  }

  AnyLayer flat_layer() {
    switch (below(4)) {
      case 0:
        return Linear{.out = 1 + below(50), .bias = below(2) > 0};
      case 1:
        return BatchNorm{};
      case 2:
        return LayerNorm{};
      default:
        return activation();
    }
  }

  std::mt19937 random_;
  std::int64_t most_ = 0;  // elements of a result
  std::vector<int> outs_;  // of a convolution
  Shape input_, shape_;
  Sequential net_;
};

/// Results of a training pass: the output, the gradients of input and parameters, and the buffers after it. Parameters
/// are multiplied by 1 + `jitter` times a random number.
std::map<std::string, std::vector<double>> results_of(const Grower& grower, unsigned seed, Backend& backend,
                                                      PrecisionPolicy precision, Fusion fusion, double jitter = 0,
                                                      unsigned draw = 0) {
  Parameters parameters(seed, Dtype::f32);
  const Forward forward = grower.net().build(grower.input(), parameters);
  unsigned number = 1000 * draw;
  for (const Variable& v : parameters.trainable()) {
    reference::Values values = reference::Values::of(v.array());
    const reference::Values noise = reference::draw(v.shape(), ++number);
    for (std::int64_t i = 0; i < values.size(); ++i) values[i] *= 1 + jitter * noise[i];
    v.set(reference::to_f32(values));
  }
  Step step(
      backend,
      [&](const Inputs& in) {
        Pass pass{.training = true, .step = 3, .seed = 5};
        const Tensor y = forward(in["x"], pass);
        const Tensor loss = sum(cast(y, Dtype::f32) * Tensor(reference::to_f32(reference::draw(y.shape(), 7))));
        std::vector<Tensor> wrt = {in["x"]};
        for (const Variable& v : parameters.trainable()) wrt.push_back(v);
        const std::vector<Tensor> grads = gradients(loss, wrt);
        Outputs outputs{{"y", y}, {"d.x", grads[0]}};
        for (std::size_t i = 1; i < grads.size(); ++i) outputs["d." + parameters.trainable()[i - 1].name()] = grads[i];
        return outputs;
      },
      precision, fusion);
  const Array x = reference::to_f32(reference::draw(grower.input(), 11));
  std::map<std::string, std::vector<double>> results;
  for (const auto& [name, value] : step({{"x", x}})) results[name] = value.to_vector<double>();
  for (const Variable& v : parameters.all())
    if (!v.trainable()) results[v.name()] = v.array().to_vector<double>();
  return results;
}

/// |a - b| / |b|; infinite where an element is not finite or the sizes differ.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
  const double result = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-20);
  return difference == 0 ? 0 : std::isfinite(result) ? result : INFINITY;
}

double rms(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(values.size(), 1)));
}

struct Precision {
  PrecisionPolicy policy, like;  ///< `like`: the CPU's, which rounds as much
  double jitter, bound;          ///< rounding of a parameter; a distance that needs no further look
};
Precision traits(PrecisionPolicy policy) {
  switch (policy) {
    case PrecisionPolicy::fp16:
      return {policy, policy, 0x1p-10, 4e-3};
    case PrecisionPolicy::tf32:
      return {policy, PrecisionPolicy::fp16, 0x1p-10, 4e-3};
    case PrecisionPolicy::bf16:
      return {policy, policy, 0x1p-7, 3e-2};
    default:
      return {policy, PrecisionPolicy::fp32, 0x1p-16, 1e-5};
  }
}

/// The fault of a seed's net; "" without one.
std::string mistake(unsigned seed, PrecisionPolicy policy) {
  const Grower grower(seed);
  const auto [precision, like, jitter, bound] = traits(policy);
  static const std::shared_ptr<Backend> cpu = make_cpu_backend(2);
  const auto plain = results_of(grower, seed, *cpu, PrecisionPolicy::ieee, Fusion::none);
  const auto found = results_of(grower, seed, test_backend(), precision, Fusion::full);
  std::vector<std::map<std::string, std::vector<double>>> rounded;  // made when first needed
  std::string mistakes;
  double largest = 0;  // of the gradients
  for (const auto& [name, values] : plain)
    if (name.starts_with("d.")) largest = std::max(largest, rms(values));
  for (const auto& [name, expected] : plain) {
    const double far = distance(found.at(name), expected);
    if (far <= bound) continue;
    if (rounded.empty()) {
      rounded.push_back(results_of(grower, seed, *cpu, like, Fusion::none));
      for (unsigned draw = 1; draw <= 8; ++draw)
        rounded.push_back(results_of(grower, seed, *cpu, like, Fusion::none, jitter, draw));
    }
    // One maximum that another element wins moves some gradients far and others hardly, so all but noise count.
    double explained = 0;
    for (const auto& run : rounded)
      for (const auto& [other, value] : run) {
        const bool is_alike = other.starts_with("d.") && name.starts_with("d.") && rms(plain.at(other)) > largest / 100;
        if (other == name || is_alike) explained = std::max(explained, distance(value, plain.at(other)));
      }
    if (far <= 3 * explained) continue;
    // A value that is zero but for rounding, as a bias's gradient in front of a normalisation, is noise in any run.
    if (far * rms(expected) <= jitter * (name.starts_with("d.") ? largest : 1)) continue;
    mistakes += fmt::format("\n  {} is {:.2g} of its norm away, rounding explains {:.2g}", name, far, explained);
  }
  if (mistakes.empty()) return {};
  return fmt::format("seed {}: {} of {}:{}", seed, grower.net().text(), grower.input(), mistakes);
}

using Case = std::tuple<PrecisionPolicy, int>;
class RandomNets : public testing::TestWithParam<Case> {};
class ManyRandomNets : public testing::TestWithParam<Case> {};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  return fmt::format("{}_{}", to_string(std::get<0>(info.param)), std::get<1>(info.param));
}
const auto kPrecisions = testing::Values(PrecisionPolicy::ieee, PrecisionPolicy::fp32, PrecisionPolicy::tf32,
                                         PrecisionPolicy::fp16, PrecisionPolicy::bf16);

void run_nets(const Case& param, unsigned count) {
  const auto& [policy, block] = param;
  const unsigned first = static_cast<unsigned>(block) * 100;
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(mistake(seed, policy), "") << to_string(policy);
  }
}

TEST_P(RandomNets, AreAsOpByOp) { run_nets(GetParam(), count_of_random(60, 2)); }
TEST_P(ManyRandomNets, AreAsOpByOpLong) { run_nets(GetParam(), 10); }

INSTANTIATE_TEST_SUITE_P(Every, RandomNets, testing::Combine(kPrecisions, testing::Values(0)), name_of);
INSTANTIATE_TEST_SUITE_P(Every, ManyRandomNets, testing::Combine(kPrecisions, testing::Range(1, 81)), name_of);

}  // namespace
}  // namespace nixie

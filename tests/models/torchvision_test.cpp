// The zoo beside torchvision: names, shapes and order of every array, parameter counts, and outputs in evaluation for
// weights and images that both sides draw from the arrays' names. Recorded with PyTorch 2.15 (in f64) and torchvision
// 0.29; mobilenet_v1, which torchvision lacks, with the nn.Sequential of the same layers. ConvNeXt's layer_scale is
// behind its block here, in front of it there.
#include "nixie/core/step.h"
#include "nixie/models/registry.h"
#include "nixie/tests/test_backend.h"

namespace nixie {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

/// Numbers in [0, 1) that belong to a name: the top 24 bits of two rounds of splitmix64.
std::vector<double> drawn(std::string_view name, std::int64_t size) {
  std::vector<double> values(static_cast<std::size_t>(size));
  std::uint64_t position = fnv1a(name);
  for (double& value : values) {
    std::uint64_t word = position += 0x9e3779b97f4a7c15;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    value = static_cast<double>(word >> 40) * 0x1p-24;
  }
  return values;
}

/// Weights keep activations near 1, variances and batch norm's weights are in [0.5, 1.5), the rest in [-0.1, 0.1).
void set_drawn(const Variable& v) {
  Array array(Dtype::f32, v.shape());
  const std::vector<double> u = drawn(v.name(), v.shape().size());
  const double fan_in = static_cast<double>(v.shape().size()) / static_cast<double>(v.shape()[0]);
  const bool is_positive = v.name().ends_with("weight") || v.name().ends_with("running_var");
  for (std::size_t i = 0; i < u.size(); ++i)
    array.data<float>()[i] = static_cast<float>(v.shape().rank() > 1 ? (2 * u[i] - 1) * std::sqrt(6 / fan_in)
                                                : is_positive        ? 0.5 + u[i]
                                                                     : 0.2 * (u[i] - 0.5));
  v.set(array);
}

struct Recorded {
  std::string net;
  std::int64_t side;  ///< of the images
  std::int64_t parameters;
  std::size_t arrays;           ///< parameters and running statistics
  std::uint64_t names;          ///< fnv1a of a line `name [shape]` for each array, in the state_dict's order
  double largest;               ///< of the outputs
  std::array<double, 4> found;  ///< outputs [0, 0], [0, 999], [1, 0] and [1, 500]
};

const std::vector<Recorded>& recorded() {
  static const std::vector<Recorded> nets = {
      {"alexnet",
       64,
       61100840,
       16,
       0xdaa92965c506c256u,
       4.96647281,
       {-1.27811599, -0.77535036, -1.1436908, 1.73968856}},
      {"vgg11",
       64,
       132863336,
       22,
       0xd0f95bcd62109985u,
       6.69616449,
       {-0.0115998812, -1.22963703, 0.068580722, 0.949122396}},
      {"vgg13",
       64,
       133047848,
       26,
       0x7f00c296e8f510fau,
       5.9046007,
       {-1.37873336, -0.392254034, -1.25242113, 1.05829301}},
      {"vgg16",
       64,
       138357544,
       32,
       0x8c129676128fe282u,
       4.28019289,
       {-0.446277768, -0.0846337298, -0.444115628, -0.101511825}},
      {"vgg19",
       64,
       143667240,
       38,
       0x95cb94c667c855d2u,
       3.32917322,
       {-0.721034155, -2.38820662, -0.711972358, 0.295152042}},
      {"vgg11_bn",
       64,
       132868840,
       54,
       0xd15e864d4844a04bu,
       12.5233616,
       {-4.92079954, -1.99952997, -4.82264137, 3.55995285}},
      {"vgg13_bn",
       64,
       133053736,
       66,
       0xf4fa8633d483151au,
       9.48445839,
       {-1.20481791, 0.0881538202, -1.51631043, 2.27729595}},
      {"vgg16_bn",
       64,
       138365992,
       84,
       0xe9a14fdf2dec0acfu,
       11.2212512,
       {-1.35623495, -1.46138776, -1.5405114, 1.73237746}},
      {"vgg19_bn", 64, 143678248, 102, 0x89b126f9edf8466u, 14.5148159, {-3.34524, 5.49471654, -3.88357998, 2.48654799}},
      {"resnet18",
       64,
       11689512,
       102,
       0x8d2cd3b9fcaa012au,
       90.8825874,
       {-16.447341, -22.817695, -15.3521609, 54.4176792}},
      {"resnet34",
       64,
       21797672,
       182,
       0x2bd7843beb261de4u,
       3396.95923,
       {-196.745348, -1346.52842, -161.815995, 506.483649}},
      {"resnet50",
       64,
       25557032,
       267,
       0x7132945cc6728711u,
       6500.823,
       {-331.70867, -3032.8345, -351.262987, -183.189701}},
      {"resnet101",
       64,
       44549160,
       522,
       0xce47ea09cd3bd3c2u,
       29404915.2,
       {-2988931.66, -11833884.6, -3204685.78, 2229925.89}},
      {"densenet121",
       64,
       7978856,
       606,
       0x797f864c5fb17dfbu,
       5.1889588,
       {-0.0839294436, -0.313622769, -0.115683786, -0.923471596}},
      {"mobilenet_v2",
       64,
       3504872,
       262,
       0xa5f7d42eb1cf68c9u,
       8.56119824,
       {-4.97439187, -1.70190084, -5.75444338, 0.433639286}},
      {"squeezenet1_1",
       64,
       1235496,
       52,
       0x78008db3a5504382u,
       1.46699451,
       {0.56681491, 0.0901061585, 0.54407227, 0.947464004}},
      {"googlenet_bn",
       64,
       6624904,
       287,
       0x6f4947aa4e20efdu,
       22.0516122,
       {-5.42608697, -4.03035662, -5.95796943, -3.56641171}},
      {"inception_v3",
       96,
       23834568,
       472,
       0xd6d266e0031e0fdu,
       2.69412979,
       {-0.791638633, -0.234762195, -0.729607618, 0.526815145}},
      {"mobilenet_v1",
       64,
       4231976,
       137,
       0x33599fb352b494acu,
       3.35467759,
       {-0.578530983, 0.841323309, -0.932448666, -0.725568969}},
      {"mobilenet_v3_large",
       64,
       5483032,
       266,
       0x7defd988980224a6u,
       67.8145291,
       {-3.29437718, -1.65251857, -1.10175471, 34.8117777}},
      {"mobilenet_v3_small",
       64,
       2542856,
       210,
       0x601e628b2bc85febu,
       0.753235882,
       {0.356069535, -0.0757211554, 0.351008315, 0.0411920959}},
      {"efficientnet_b0",
       64,
       5288548,
       311,
       0x77a679435641d5beu,
       0.500311322,
       {-0.117691986, 0.129340162, -0.116419174, 0.0198903821}},
      {"convnext_tiny",
       64,
       28589128,
       182,
       0x36e81773655c68e5u,
       4.61860982,
       {1.60838858, -0.178663762, 0.903204596, 0.607132345}},
      {"regnet_x_400mf",
       64,
       5495976,
       357,
       0xec7d71baf7ef20b0u,
       20078.1595,
       {-5680.61705, -7168.67088, -5664.5223, -9418.95976}},
      {"regnet_y_400mf",
       64,
       4344144,
       331,
       0x253d22b9d94797cu,
       93.5719201,
       {-26.0431174, -4.04257033, -28.5630624, 15.5494187}},
  };
  return nets;
}

const Recorded* recorded_of(const std::string& net) {
  for (const Recorded& each : recorded())
    if (each.net == net) return &each;
  return nullptr;
}

TEST(Torchvision, NamesShapesAndCountsAreItsOwn) {
  std::size_t found = 0;
  AllModels::for_each([&]<class T>() {
    const Recorded* expected = recorded_of(T::name);
    if (!expected) return;
    ++found;
    const Model model(T{}, {1, 3, 224, 224});
    std::string names;
    for (const Variable& v : model.parameters().all()) names += fmt::format("{} {}\n", v.name(), v.shape());
    EXPECT_EQ(model.parameters().count(), expected->parameters) << T::name;
    EXPECT_EQ(model.parameters().all().size(), expected->arrays) << T::name;
    EXPECT_EQ(fnv1a(names), expected->names) << T::name << " has other names or shapes:\n" << names;
  });
  EXPECT_EQ(found, recorded().size());
}

AnyModel model_named(const std::string& name) {
  std::optional<AnyModel> model;
  AllModels::for_each([&]<class T>() {
    if (name == T::name) model = T{};
  });
  return model.value();
}

class TorchvisionOutputs : public testing::TestWithParam<Recorded> {};

TEST_P(TorchvisionOutputs, AreItsOwn) {
  const Recorded& expected = GetParam();
  const Shape input{2, 3, expected.side, expected.side};
  const Model model(model_named(expected.net), input);
  for (const Variable& v : model.parameters().all()) set_drawn(v);
  Array images(Dtype::f32, input);
  const std::vector<double> u = drawn("images", input.size());
  for (std::size_t i = 0; i < u.size(); ++i) images.data<float>()[i] = static_cast<float>(u[i]);
  Step step(test_backend(), [&](const Inputs& in) {
    Pass pass{.training = false};
    return Outputs{{"y", model(in["x"], pass)}};
  });
  const Array y = step({{"x", images}}).at("y").array();
  const std::size_t positions[] = {0, 999, 1000, 1500};
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(static_cast<double>(y.data<float>()[positions[i]]), expected.found[i], 1e-5 * expected.largest) << i;
}

std::vector<Recorded> recorded_within(std::int64_t least, std::int64_t most) {
  std::vector<Recorded> nets;
  for (const Recorded& each : recorded())
    if (each.parameters >= least && each.parameters < most) nets.push_back(each);
  return nets;
}

constexpr std::int64_t kQuick = 5'000'000;
std::string name_of(const testing::TestParamInfo<Recorded>& info) { return info.param.net; }
INSTANTIATE_TEST_SUITE_P(Small, TorchvisionOutputs, testing::ValuesIn(recorded_within(0, kQuick)), name_of);
INSTANTIATE_TEST_SUITE_P(LargeLong, TorchvisionOutputs, testing::ValuesIn(recorded_within(kQuick, 1'000'000'000)),
                         name_of);

}  // namespace
}  // namespace nixie

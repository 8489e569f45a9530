// The zoo beside torchvision: names, shapes and order of every array, parameter counts, and outputs in evaluation for
// weights and images that both sides draw from the arrays' names. fixtures/torchvision.tsv was recorded with
// PyTorch 2.15 (in f64) and torchvision 0.29; mobilenet_v1, which torchvision lacks, with the nn.Sequential of the same
// layers. ConvNeXt's layer_scale is behind its block here, in front of it there.
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
  std::int64_t side = 0;  ///< of the images
  std::int64_t parameters = 0;
  std::size_t arrays = 0;            ///< parameters and running statistics
  std::uint64_t names = 0;           ///< fnv1a of a line `name [shape]` for each array, in the state_dict's order
  double largest = 0;                ///< of the outputs
  std::array<double, 4> found = {};  ///< outputs [0, 0], [0, 999], [1, 0] and [1, 500]
};

const std::vector<Recorded>& recorded() {
  static const std::vector<Recorded> nets = [] {
    std::ifstream file(fs::path(NIXIE_SOURCE_DIR) / "tests/models/fixtures/torchvision.tsv");
    std::string line;
    std::getline(file, line);  // names of the columns
    std::vector<Recorded> rows;
    while (std::getline(file, line)) {
      std::istringstream cells(line);
      Recorded& row = rows.emplace_back();
      cells >> row.net >> row.side >> row.parameters >> row.arrays >> std::hex >> row.names >> row.largest;
      for (double& output : row.found) cells >> output;
      if (!cells) throw std::runtime_error("torchvision.tsv: " + line);
    }
    return rows;
  }();
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
  EXPECT_EQ(found, 25u);
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

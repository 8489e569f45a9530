// Exchange with PyTorch and onnxruntime, where python3 (or NIXIE_PYTHON) has them: weights of torchvision's nets
// through safetensors and HDF5 in both directions, outputs equal, and the same nets through ONNX.
#include "nixie/backends/cpu/backend.h"
#include "nixie/core/step.h"
#include "nixie/models/io/onnx.h"
#include "nixie/models/io/safetensors.h"
#include "nixie/models/io/save.h"
#include "nixie/models/io/weights.h"
#include "nixie/models/registry.h"
#include "nixie/tests/models/checkpoint_samples.h"
#include "nixie/tests/models/python.h"

namespace nixie {
namespace {

AnyModel net_named(const std::string& name) {
  AnyModel net;
  AllModels::for_each([&]<class T>() {
    if (name == T::name) net = T{};
  });
  return net;
}

class ExchangeTest : public CheckpointTest {
 protected:
  /// A net with the weights of a file, all of which it takes and needs.
  Model model_of(const std::string& name, const Shape& input, const fs::path& weights) {
    const Model model(net_named(name), input);
    const WeightReport report = set_weights(model.parameters(), read_weights(weights));
    EXPECT_TRUE(report.is_complete() && report.unused.empty()) << name << ": " << to_string(report);
    return model;
  }

  void expect_outputs(const std::string& name, const Model& model, const Safetensors& batch) {
    Step step(*backend_, [&](const Inputs& in) {
      Pass pass{.training = false};
      return Outputs{{"y", model(in["x"], pass)}};
    });
    const std::vector<double> found = step({{"x", batch.arrays.at("x")}}).at("y").to_vector<double>();
    const auto expected = batch.arrays.at("y").data<float>();
    ASSERT_EQ(found.size(), expected.size());
    double error = 0, largest = 1;
    for (std::size_t i = 0; i < found.size(); ++i) {
      error = std::max(error, std::abs(found[i] - static_cast<double>(expected[i])));
      largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    }
    EXPECT_LT(error / largest, 1e-5) << name;
    RecordProperty(name, fmt::format("{:.3g}", error / largest));
  }

  void exchange(const std::vector<std::string>& names) {
    if (!python_has("torchvision, h5py, safetensors"))
      GTEST_SKIP() << "python has no torchvision, h5py and safetensors";
    const std::string all = fmt::format("{} {}", folder_.string(), fmt::join(names, " "));
    const Ran made = run_python("exchange.py make " + all);
    ASSERT_EQ(made.code, 0) << made.output;
    for (const std::string& name : names) {
      const Safetensors batch = load_safetensors(folder_ / (name + ".safetensors"));
      const Model model = model_of(name, batch.arrays.at("x").shape(), folder_ / (name + ".weights.safetensors"));
      expect_outputs(name, model, batch);
      save(model, folder_ / (name + ".h5"));
      save_onnx(model, folder_ / (name + ".onnx"));
    }
    const Ran read = run_python("exchange.py hdf5 " + all);
    EXPECT_EQ(read.code, 0) << read.output;
    for (const std::string& name : names) {  // and back, out of a file that h5py wrote
      const Safetensors batch = load_safetensors(folder_ / (name + ".safetensors"));
      expect_outputs(name, model_of(name, batch.arrays.at("x").shape(), folder_ / (name + ".plain.h5")), batch);
    }
    if (!python_has("onnxruntime")) return;
    const Ran ran = run_python("exchange.py onnx " + folder_.string());
    EXPECT_EQ(ran.code, 0) << ran.output;
    for (const std::string& name : names) EXPECT_THAT(ran.output, HasSubstr(name + " "));
  }

  std::shared_ptr<Backend> backend_ = make_cpu_backend(2);  // outlives the weights in its memory
};

TEST_F(ExchangeTest, TorchvisionsWeights) { exchange({"resnet18", "mobilenet_v2"}); }

TEST_F(ExchangeTest, TorchvisionsWeightsLong) {
  for (const char* name :
       {"alexnet", "vgg11", "vgg16_bn", "resnet50", "googlenet_bn", "inception_v3", "densenet121", "squeezenet1_1"}) {
    exchange({name});
    for (const auto& each : fs::directory_iterator(folder_)) fs::remove(each);  // up to 2 GB each
  }
}

}  // namespace
}  // namespace nixie

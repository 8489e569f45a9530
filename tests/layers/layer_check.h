// Compares a layer with a reference: values, and gradients of input and parameters with its central differences.
#pragma once

#include "nixie/core/state/autograd.h"
#include "nixie/core/step.h"
#include "nixie/layers/registry.h"
#include "nixie/tests/layers/reference.h"
#include "nixie/tests/test_backend.h"

namespace nixie {

struct LayerCase {
  std::string label;
  AnyLayer layer;
  Shape input;
  reference::Function expected;
  bool training = false;
  double step = 1e-3;  ///< of the differences: smaller than the distance to kinks and ties
};

inline LayerCase row(std::string label, AnyLayer layer, Shape input, reference::Function expected,
                     bool training = false, double step = 1e-3) {
  return {std::move(label), std::move(layer), std::move(input), std::move(expected), training, step};
}

inline void expect_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double scale = 1;
  for (double value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance * scale) << what << ", element " << i;
}

/// Parameters become uniform in [-1, 1); buffers, which may be variances, in [0.5, 1.5).
inline reference::Named fill_parameters(const Parameters& parameters) {
  reference::Named values;
  unsigned seed = 100;
  for (const Variable& v : parameters.all()) {
    const double low = v.trainable() ? -1 : 0.5;
    values[v.name()] = reference::rounded(reference::draw(v.shape(), ++seed, low, low + (v.trainable() ? 2 : 1)));
    v.set(reference::to_f32(values[v.name()]));
  }
  return values;
}

/// A layer at work on one input, with a loss that weighs every output differently.
class LayerRun {
 public:
  LayerRun(const LayerCase& c, const Array& input) : input_(input) {
    forward_ = c.layer.build(c.input, parameters_);
    named_ = fill_parameters(parameters_);
    Step step(test_backend(), [&](const Inputs& in) {
      Pass pass{.training = c.training, .step = 3, .seed = 5};
      const Tensor y = forward_(in["x"], pass);
      Outputs outputs{{"y", y}};
      weights_ = reference::rounded(reference::draw(y.shape(), 7));
      const Tensor loss = sum(y * Tensor(reference::to_f32(weights_)));
      std::vector<Tensor> wrt;
      if (is_floating(in["x"].dtype())) wrt.push_back(in["x"]);
      for (const Variable& v : parameters_.trainable()) wrt.push_back(v);
      const std::vector<Tensor> grads = gradients(loss, wrt);
      for (std::size_t i = 0; i < grads.size(); ++i) {
        const bool is_input = is_floating(in["x"].dtype()) && i == 0;
        const std::size_t at = i - (is_floating(in["x"].dtype()) ? 1 : 0);
        outputs["grad " + (is_input ? "x" : parameters_.trainable()[at].name())] = grads[i];
      }
      return outputs;
    });
    outputs_ = step({{"x", input}});
  }

  void expect(const LayerCase& c) {
    reference::Values x = reference::Values::of(input_);
    const reference::Values y = c.expected(named_, x);
    ASSERT_EQ(outputs_.at("y").shape(), y.shape);
    expect_close(outputs_.at("y").to_vector<double>(), y.data, 3e-6, "value");
    auto loss = [&] {
      const reference::Values at = c.expected(named_, x);
      double total = 0;
      for (std::int64_t i = 0; i < at.size(); ++i) total += at[i] * weights_[i];
      return total;
    };
    for (const auto& [name, grad] : outputs_) {
      if (name == "y") continue;
      reference::Values& of = name == "grad x" ? x : named_.at(name.substr(5));
      expect_close(grad.to_vector<double>(), reference::differences(of, loss, c.step), 2e-5, name);
    }
  }

  const Parameters& parameters() const { return parameters_; }
  const Outputs& outputs() const { return outputs_; }
  const reference::Named& named() const { return named_; }

 private:
  Array input_;
  Parameters parameters_;
  Forward forward_;
  reference::Named named_;
  reference::Values weights_;
  Outputs outputs_;
};

inline void check_layer(const LayerCase& c) {
  SCOPED_TRACE(c.label.empty() ? c.layer.text() : c.label);
  LayerRun(c, reference::to_f32(reference::draw(c.input, 11))).expect(c);
}

}  // namespace nixie

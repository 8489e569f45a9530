// NetWork: a net with its data in a backend's memory, and the three pieces of work that are timed.
#pragma once

#include "nixie/apps/benchmark/checks/precision.h"
#include "nixie/apps/benchmark/subjects/contractions.h"
#include "nixie/apps/benchmark/subjects/nets.h"
#include "nixie/core/step.h"
#include "nixie/data/normalization.h"

namespace nixie::benchmark {

/// A net's output for images, and the gradients of its parameters for an output gradient; nodes of a graph.
struct Passes {
  Tensor output;
  std::vector<Gradient> gradients = {};
};
Passes passes_of(const Model& model, const Tensor& images, const Tensor& output_gradient);

/// The contractions of a net's passes; nothing is computed.
std::vector<Contraction> contractions_of_net(const Net& net, int batch);

class NetWork {
 public:
  /// Random images in [0, 1) or of bytes, which ImageNet's mean and deviation normalise, a random output gradient in
  /// [0, 1), random labels, weights that keep activations near 1.
  /// Training steps take the mean of the gradients of the ranks of `world`.
  NetWork(Backend& backend, const Net& net, int batch, const PrecisionTraits& precision, Fusion fusion = Fusion::full,
          const World& world = {});

  /// The same net, numbers and backend in another precision, or without fusion.
  std::unique_ptr<NetWork> in(const PrecisionTraits& precision, Fusion fusion = Fusion::full) const;

  /// Only the output; nothing is kept for a backward pass.
  Outputs fprop() { return fprop_({{"images", data_.at("images")}}); }
  /// The output and, into their own memory, the gradients of all parameters for the random output gradient, in
  /// the type and layout of the weights that products read. The images' gradient is not computed.
  void total();
  /// The results of the last `total`: the output, and the gradients as `d.NAME`, in host memory.
  Outputs results() const;
  /// One training step: forward, loss, backward, update; in f16 with a fixed loss scale. Returns `loss`.
  Outputs train() { return train_(labelled_); }
  /// The same with a dynamic loss scale, which only f16 needs.
  Outputs train_dynamic() { return train_dynamic_(labelled_); }
  bool has_dynamic() const { return dynamic_.has_value(); }

  /// Calls `work` with other parameters, for which rounding errors do not grow from layer to layer: the biases of
  /// normalisations are 2, so that most ReLUs after them are open and the net is nearly linear; so are those of
  /// squeeze-and-excitation, whose few units switch whole channels of all samples. As initialised, a deep net with
  /// batch norm is chaotic: the 16-bit and f32 gradients of ResNet-50 differ by as much as their norm, so a comparison
  /// is meaningless. The graphs and kernels that run are the same for any parameters.
  void while_well_conditioned(const std::function<void()>& work);
  /// Calls `work` with each parameter multiplied by a random factor between 1 - `most` and 1 + `most`.
  void while_jittered(double most, std::uint32_t seed, const std::function<void()>& work);

  /// One of the contractions of `total`, computed by a graph that returns operands and results.
  struct Probed {
    Contraction contraction;
    Array a = {}, b = {}, result = {};
    Array bias_grad = {};  ///< with a filter gradient, if the layer has a bias; else empty
  };
  /// Runs `total` as such a graph, passes each contraction to `visit`, and returns the same as `results`. Where memory
  /// is wanting for all, several such graphs return some of them each.
  Outputs probe(const std::function<void(const Probed&)>& visit);

  /// Output gradients are uniform in [0, output_gradient()); `lower_output_gradient` divides them by 16.
  double output_gradient() const { return net_.output_gradient; }
  void lower_output_gradient();

  std::int64_t parameters() const { return model_.parameters().count(); }
  /// What a rank hands over of its gradients in a training step.
  std::int64_t exchanged_bytes() const;
  /// The sums over ranks of a training step, and nothing else.
  void exchange() { exchange_({}); }
  /// A number that two models of other weights do not share.
  std::uint64_t fingerprint() const;
  /// Memory of the training step's plan: its arena, the parameters, the optimizer's state and the data.
  std::int64_t train_bytes();

 private:
  void make_gradients();
  /// The net's input.
  Tensor images_of(const Inputs& in) const;
  Outputs outputs_of(const Passes& passes) const;
  /// Runs the graph that returns at most so many contractions from the first on, by probed_name; lists all.
  Outputs run_probed(std::size_t first, std::size_t most, std::vector<Contraction>& contractions);
  Outputs train_body(const Inputs& in, const Optimizer& optimizer) const;
  Outputs exchange_body() const;

  Backend& backend_;
  Net net_;
  int batch_;
  PrecisionTraits precision_;
  World world_;
  std::optional<Normalization> normalization_;  // of bytes
  AnyLoss loss_;
  Model model_;
  Optimizer optimizer_;
  std::optional<Optimizer> dynamic_;
  std::vector<Variable> gradients_;  // of the parameters, in their order; none before the first `total`
  Outputs last_;
  Step fprop_, total_, train_, train_dynamic_, exchange_;
  std::map<std::string, Tensor> data_, labelled_;  // inputs of total, and of train
};

}  // namespace nixie::benchmark

// neon's layers as nixie's: a bias joins the layer before it, and the cost takes over the last activation.
#pragma once

#include "nixie/configs/parse/neon/source.h"

namespace nixie {

/// Parameters of a layer that a MultiOptimizer of neon names together: by the class of neon's layer or by its name.
struct NeonParameters {
  std::vector<std::string> classes = {};  ///< in the versions of neon
  std::string name = {};
  const char* match = "weight";  ///< the pattern of nixie's names, behind the layer's
};

/// A layer of nixie.
struct ConvertedLayer {
  std::string kind = {}, name = {};
  const Tree* from = nullptr;  ///< its object in neon's file
  Fields fields = {};
  std::vector<NeonParameters> parameters = {};
  int outputs = 0;  ///< of a linear layer; filters of a convolution

  Tree tree() const;
};

/// The layers of neon's list, for images with so many channels.
std::vector<ConvertedLayer> layers_of_neon(NeonSource& source, const Tree& list, int channels);

/// Removes the last activation, which the cost at that place includes, and returns its object in neon's file.
const Tree& take_last(std::vector<ConvertedLayer>& layers, const char* kind, const Tree& cost);
/// Outputs of the net: neon adds the costs of all outputs, nixie takes their mean.
int outputs_of(const std::vector<ConvertedLayer>& layers, const Tree& cost);
/// Makes rows of the features that reach this object of neon's file, unless a layer above did.
void add_flatten(std::vector<ConvertedLayer>& layers, const Tree& object);

/// The keys optimizer, schedule, parameter_groups, clip_value and clip_norm. `epochs` is the length of the run.
Fields training_of_neon(NeonSource& source, const std::vector<ConvertedLayer>& layers, int epochs);

}  // namespace nixie

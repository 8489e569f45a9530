// ONNX: exports a model in evaluation to a file (opset 17) that onnxruntime and others run.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "nixie/models/model.h"

namespace nixie {

struct OnnxOptions {
  bool fold_batch_norm = false;  ///< into the convolution before it
  std::string input = "images", output = "logits";
  std::map<std::string, std::string> metadata = {};  ///< texts for the file's readers
};

/// The bytes of the file: f32 input [N, ...] and output with dynamic N, parameters under their names. The evaluation
/// graph is written op by op, so every f32 model can be exported except those with ops that ONNX lacks: throws
/// Fault::usage naming one.
std::string onnx_bytes(const Model& model, const OnnxOptions& options = {});

/// Writes the whole file or leaves the old one at `path`. Also throws Fault::storage.
void save_onnx(const Model& model, const std::filesystem::path& path, const OnnxOptions& options = {});

}  // namespace nixie

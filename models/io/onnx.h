// ONNX: a model in evaluation as a file (opset 17) that onnxruntime and others run.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "nixie/models/model.h"

namespace nixie {

struct OnnxOptions {
  bool fold_batch_norm = false;  ///< into the convolution in front of it
  std::string input = "images", output = "logits";
  std::map<std::string, std::string> metadata = {};  ///< texts for whoever reads the file
};

/// The bytes of the file: the input [N, ...] and output f32 with N free, parameters under their names. What the graph
/// computes in evaluation is written op by op, so every model of f32 that runs can be written, but for ops that ONNX
/// lacks: throws Fault::usage naming one.
std::string onnx_bytes(const Model& model, const OnnxOptions& options = {});

/// Writes the whole file or leaves what stood at `path`. Throws Fault::storage too.
void save_onnx(const Model& model, const std::filesystem::path& path, const OnnxOptions& options = {});

}  // namespace nixie

// Recognises softmax and sigmoid in the graph.
#include "nixie/layers/logits.h"

#include "nixie/core/base/error.h"
#include "nixie/core/ops/elementwise.h"

namespace nixie {
namespace {

bool is_map(const Tensor& x, const char* name) {
  const auto* map = std::get_if<Map>(&x.node().op);
  return map && map->op->name == name;
}

/// Whether it is another view of its input.
bool is_view(const Tensor& x) {
  return std::holds_alternative<Reshape>(x.node().op) || std::holds_alternative<Permute>(x.node().op) ||
         is_map(x, "cast");
}

/// e / sum(e) with e = exp(...).
bool is_softmax(const Tensor& x) {
  if (!is_map(x, "div") || !is_map(x.inputs()[0], "exp")) return false;
  Tensor total = x.inputs()[1];
  while (std::holds_alternative<Expand>(total.node().op)) total = total.inputs()[0];
  const auto* reduce = std::get_if<Reduce>(&total.node().op);
  return reduce && reduce->kind == ReduceKind::sum && total.inputs()[0].id() == x.inputs()[0].id();
}

}  // namespace

std::string squashed_by(const Tensor& output) {
  Tensor x = output;
  while (is_view(x)) x = x.inputs()[0];
  return is_map(x, "sigmoid") ? "sigmoid" : is_softmax(x) ? "softmax" : "";
}

void check_logits(const Tensor& output, const char* function) {
  const std::string found = squashed_by(output);
  check(found.empty(), "the output is a ", found, "'s, but the loss takes logits and applies ", function,
        " itself; remove the ", found);
}

}  // namespace nixie

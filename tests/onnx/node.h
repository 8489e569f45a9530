// Node: an ONNX node with the values of its inputs, and the table of functions that compute nodes by nixie's ops.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nixie/core/ops/ops.h"

namespace nixie::onnx_nodes {

/// Thrown for a node that nixie has no op for; the reason is printed beside the op type.
struct Outside {
  std::string reason;
};

class Node {
 public:
  Node(const nlohmann::json& json, std::vector<std::optional<Tensor>> inputs, std::map<std::string, Array> tensors);

  const std::string& op() const { return op_; }
  int opset() const { return opset_; }
  std::size_t outputs() const { return outputs_; }
  std::size_t size() const { return inputs_.size(); }

  bool has(std::size_t input) const { return input < inputs_.size() && inputs_[input].has_value(); }
  /// Stored; throws if it is absent.
  const Tensor& in(std::size_t input) const;
  /// An input's elements as numbers, such as axes and sizes.
  std::vector<std::int64_t> ints(std::size_t input) const { return in(input).to_vector<std::int64_t>(); }

  bool has(const std::string& attribute) const { return attributes_.contains(attribute); }
  std::int64_t integer(const std::string& attribute, std::int64_t otherwise) const;
  double number(const std::string& attribute, double otherwise) const;
  std::string text(const std::string& attribute, const std::string& otherwise) const;
  std::vector<std::int64_t> ints(const std::string& attribute, std::vector<std::int64_t> otherwise = {}) const;
  std::vector<double> numbers(const std::string& attribute) const;
  const Array& tensor(const std::string& attribute) const { return tensors_.at(attribute); }
  bool has_tensor(const std::string& attribute) const { return tensors_.contains(attribute); }

  /// Sizes or axes that newer opsets take as an input and older ones as an attribute; none if neither is there.
  std::optional<std::vector<std::int64_t>> ints(std::size_t input, const std::string& attribute) const;

 private:
  std::string op_;
  int opset_;
  std::size_t outputs_;
  nlohmann::json attributes_;
  std::vector<std::optional<Tensor>> inputs_;
  std::map<std::string, Array> tensors_;
};

using Results = std::vector<Tensor>;
using Function = std::function<Results(const Node&)>;
using Functions = std::map<std::string, Function>;

/// The number of axes, and those of an ONNX list: all if it is absent.
Axes to_axes(const std::vector<std::int64_t>& axes);
/// The nixie type of ONNX's number for it; throws Outside.
Dtype dtype_of_number(std::int64_t number);

// By subject; each adds its functions.
void add_elementwise(Functions& functions);
void add_shapes(Functions& functions);
void add_indexing(Functions& functions);
void add_reductions(Functions& functions);
void add_products(Functions& functions);
void add_normalisations(Functions& functions);

}  // namespace nixie::onnx_nodes

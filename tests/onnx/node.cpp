// Reads a node's attributes.
#include "nixie/tests/onnx/node.h"

namespace nixie::onnx_nodes {

Node::Node(const nlohmann::json& json, std::vector<std::optional<Tensor>> inputs, std::map<std::string, Array> tensors)
    : op_(json.at("op")),
      opset_(json.at("opset")),
      outputs_(json.at("outputs").size()),
      attributes_(json.at("attributes")),
      inputs_(std::move(inputs)),
      tensors_(std::move(tensors)) {}

const Tensor& Node::in(std::size_t input) const {
  check(has(input), op_, ": input ", input, " is absent");
  return *inputs_[input];
}

std::int64_t Node::integer(const std::string& attribute, std::int64_t otherwise) const {
  return attributes_.value(attribute, otherwise);
}
double Node::number(const std::string& attribute, double otherwise) const {
  return attributes_.value(attribute, otherwise);
}
std::string Node::text(const std::string& attribute, const std::string& otherwise) const {
  return attributes_.value(attribute, otherwise);
}
std::vector<std::int64_t> Node::ints(const std::string& attribute, std::vector<std::int64_t> otherwise) const {
  return has(attribute) ? attributes_.at(attribute).get<std::vector<std::int64_t>>() : std::move(otherwise);
}
std::vector<double> Node::numbers(const std::string& attribute) const {
  return attributes_.at(attribute).get<std::vector<double>>();
}
std::optional<std::vector<std::int64_t>> Node::ints(std::size_t input, const std::string& attribute) const {
  if (has(input)) return ints(input);
  if (has(attribute)) return ints(attribute);
  return {};
}

Axes to_axes(const std::vector<std::int64_t>& axes) {
  Axes result;
  for (const std::int64_t axis : axes) result.push_back(static_cast<int>(axis));
  return result;
}

Dtype dtype_of_number(std::int64_t number) {
  static const std::map<std::int64_t, Dtype> types = {
      {1, Dtype::f32},  {2, Dtype::u8},   {3, Dtype::i8},      {4, Dtype::u16},  {5, Dtype::i16},
      {6, Dtype::i32},  {7, Dtype::i64},  {9, Dtype::boolean}, {10, Dtype::f16}, {11, Dtype::f64},
      {12, Dtype::u32}, {13, Dtype::u64}, {16, Dtype::bf16}};
  const auto found = types.find(number);
  if (found == types.end()) throw Outside{"a type that nixie has not"};
  return found->second;
}

}  // namespace nixie::onnx_nodes

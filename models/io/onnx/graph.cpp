// Writes an ONNX graph as protocol buffers; field numbers are those of onnx.proto.
#include "nixie/models/io/onnx/graph.h"

#include <fmt/format.h>

namespace nixie {

OnnxType onnx_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f64:
      return OnnxType::f64;
    case Dtype::f32:
      return OnnxType::f32;
    case Dtype::f16:
      return OnnxType::f16;
    case Dtype::bf16:
      return OnnxType::bf16;
    case Dtype::f8e4m3:
    case Dtype::f8e5m2:
      fail(Fault::usage, "onnx: ", dtype, " needs opset 19, the export writes opset 17; cast to f16 before");
    case Dtype::i64:
      return OnnxType::i64;
    case Dtype::i32:
      return OnnxType::i32;
    case Dtype::i16:
      return OnnxType::i16;
    case Dtype::i8:
      return OnnxType::i8;
    case Dtype::u64:
      return OnnxType::u64;
    case Dtype::u32:
      return OnnxType::u32;
    case Dtype::u16:
      return OnnxType::u16;
    case Dtype::u8:
      return OnnxType::u8;
    case Dtype::boolean:
      break;
  }
  return OnnxType::boolean;
}

OnnxAttribute::OnnxAttribute(const char* name, std::int64_t number) {
  message_.text(1, name).number(3, number).number(20, 2);
}
OnnxAttribute::OnnxAttribute(const char* name, float number) { message_.text(1, name).real(2, number).number(20, 1); }
OnnxAttribute::OnnxAttribute(const char* name, const std::vector<std::int64_t>& numbers) {
  message_.text(1, name);
  for (const std::int64_t number : numbers) message_.number(8, number);
  message_.number(20, 7);
}

std::string OnnxGraph::add(const char* op, const std::vector<std::string>& inputs, const OnnxAttributes& attributes,
                           const std::string& as) {
  const std::string result = as.empty() ? "v" + std::to_string(names_++) : as;
  Protobuf node;
  for (const std::string& input : inputs) node.text(1, input);
  node.text(2, result).text(3, std::string(op) + "_" + result).text(4, op);
  for (const OnnxAttribute& attribute : attributes) node.message(5, attribute.message());
  graph_.message(1, node);
  return result;
}

void OnnxGraph::tensor(const std::string& name, OnnxType type, const std::vector<std::int64_t>& sizes,
                       std::string_view bytes) {
  Protobuf tensor;
  for (const std::int64_t size : sizes) tensor.number(1, size);
  graph_.message(5, tensor.number(2, static_cast<int>(type)).text(8, name).text(9, bytes));
}

void OnnxGraph::constant(const std::string& name, const Array& array) {
  tensor(name, onnx_type(array.dtype()), array.shape().sizes(),
         {reinterpret_cast<const char*>(array.bytes()), static_cast<std::size_t>(array.size_bytes())});
}

std::string OnnxGraph::numbers(const std::vector<std::int64_t>& values) {
  std::string& name = shared_[fmt::format("numbers {}", fmt::join(values, " "))];
  if (!name.empty()) return name;
  name = "v" + std::to_string(names_++);
  tensor(name, OnnxType::i64, {static_cast<std::int64_t>(values.size())},
         {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int64_t)});
  return name;
}

std::string OnnxGraph::number(double value, Dtype type) {
  std::string& name = shared_[fmt::format("{} {}", value, type)];
  if (!name.empty()) return name;
  name = "v" + std::to_string(names_++);
  constant(name, Array::from(std::vector<double>{value}, {}).to(type));
  return name;
}

Protobuf OnnxGraph::value(const std::string& name, const std::vector<std::int64_t>& sizes) {
  Protobuf shape;
  for (const std::int64_t size : sizes)
    shape.message(1, size < 0 ? Protobuf().text(2, "N") : Protobuf().number(1, size));
  const Protobuf tensor_type = Protobuf().number(1, static_cast<int>(OnnxType::f32)).message(2, shape);
  return Protobuf().text(1, name).message(2, Protobuf().message(1, tensor_type));
}

}  // namespace nixie

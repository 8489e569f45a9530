// OnnxGraph: nodes, constants and names of an ONNX graph under construction.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "nixie/core/base/array.h"
#include "nixie/models/io/protobuf.h"

namespace nixie {

/// ONNX's numbers for element types.
enum class OnnxType : int {
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16
};
OnnxType onnx_type(Dtype dtype);

/// A named attribute of a node.
class OnnxAttribute {
 public:
  OnnxAttribute(const char* name, std::int64_t number);
  OnnxAttribute(const char* name, float number);
  OnnxAttribute(const char* name, const std::vector<std::int64_t>& numbers);
  const Protobuf& message() const { return message_; }

 private:
  Protobuf message_;
};
using OnnxAttributes = std::vector<OnnxAttribute>;

class OnnxGraph {
 public:
  /// Adds a node and returns the name of its result: `as`, or a new one.
  std::string add(const char* op, const std::vector<std::string>& inputs, const OnnxAttributes& attributes = {},
                  const std::string& as = {});
  /// A constant of that name.
  void constant(const std::string& name, const Array& array);
  /// Constants without a name; equal ones are shared.
  std::string numbers(const std::vector<std::int64_t>& values);
  std::string number(double value, Dtype type);

  /// An f32 input or output; a size of -1 is N.
  void input(const std::string& name, const std::vector<std::int64_t>& sizes) {
    graph_.message(11, value(name, sizes));
  }
  void output(const std::string& name, const std::vector<std::int64_t>& sizes) {
    graph_.message(12, value(name, sizes));
  }
  /// The graph's message.
  const Protobuf& finish(const std::string& name) { return graph_.text(2, name); }

 private:
  static Protobuf value(const std::string& name, const std::vector<std::int64_t>& sizes);
  void tensor(const std::string& name, OnnxType type, const std::vector<std::int64_t>& sizes, std::string_view bytes);

  Protobuf graph_;
  int names_ = 0;
  std::map<std::string, std::string> shared_;  // constants by content
};

}  // namespace nixie

// Tensor: an immutable handle to a node of the lazy graph; and Node.
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include "nixie/core/base/array.h"
#include "nixie/core/graph/literal.h"
#include "nixie/core/graph/op.h"

namespace nixie {

struct Node;

/// A value that is not computed yet, or is stored. Copying is cheap; a Tensor never changes.
/// Building one checks shapes and types and throws Fault::usage at the line that caused the error.
class Tensor {
 public:
  Tensor() = default;  ///< no value; as a gradient: zero
  /// A number or a bool; it takes the type and shape of the other operand.
  template <class Number>
  requires std::is_arithmetic_v<Number> Tensor(Number value)
      : Tensor(static_cast<double>(value), std::is_floating_point_v<Number> ? Dtype::f32
                                           : std::is_same_v<Number, bool>   ? Dtype::boolean
                                                                            : Dtype::i32) {}
  /// The elements of a host array; they must not change afterwards.
  Tensor(const Array& array);
  /// An array of numbers: Tensor{{1, 2}, {3, 4}} is i32 [2, 2]. Fractions are f32.
  Tensor(std::initializer_list<Literal> rows) : Tensor(Literal(rows).array()) {}
  explicit Tensor(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  /// A node of the graph. The caller has checked shape and dtype.
  static Tensor make(Op op, std::vector<Tensor> inputs, Shape shape, Dtype dtype);

  bool has_value() const { return node_ != nullptr; }
  const Node& node() const;
  const Node* id() const { return node_.get(); }
  const std::shared_ptr<const Node>& handle() const { return node_; }
  const Shape& shape() const;
  Dtype dtype() const;
  int rank() const { return shape().rank(); }
  const std::vector<Tensor>& inputs() const;

  Tensor& operator+=(const Tensor& other);
  Tensor& operator-=(const Tensor& other);
  Tensor& operator*=(const Tensor& other);
  Tensor& operator/=(const Tensor& other);

  /// The elements in host memory. Only for stored values (results of `evaluate`, a Step's outputs, an Array); throws
  /// for others.
  Array array() const;
  template <class T>
  std::vector<T> to_vector() const {
    return array().template to_vector<T>();
  }
  /// The one element of a stored one-element value.
  double item() const { return array().item(); }

 private:
  Tensor(double value, Dtype dtype);
  [[noreturn]] static void fail_empty();
  std::shared_ptr<const Node> node_;
};

struct Node {
  Node(Op o, std::vector<Tensor> from, Shape sizes, Dtype type, std::int64_t count);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  /// Frees a chain of inputs in a loop: by recursion a long one would overflow the stack.
  ~Node();

  Op op;
  std::vector<Tensor> inputs;
  Shape shape;
  Dtype dtype = Dtype::f32;
  std::int64_t number = 0;  ///< order of creation in the process; a node's inputs have smaller numbers
};

/// Gradients of an op's inputs, in order; an empty Tensor is zero.
using Gradients = std::vector<Tensor>;

inline const Node& Tensor::node() const {
  if (node_ == nullptr) [[unlikely]]
    fail_empty();
  return *node_;
}
inline const Shape& Tensor::shape() const { return node().shape; }
inline Dtype Tensor::dtype() const { return node().dtype; }
inline const std::vector<Tensor>& Tensor::inputs() const { return node().inputs; }

/// The op of x if it is of this kind, else null.
template <class Kind>
const Kind* op_as(const Tensor& x) {
  return std::get_if<Kind>(&x.node().op);
}
/// Whether the op of x is of one of these kinds.
template <class... Kinds>
bool is_a(const Tensor& x) {
  return is_a<Kinds...>(x.node().op);
}
inline bool is_head(const Tensor& x) { return is_head(x.node().op); }
inline bool is_view(const Tensor& x) { return is_view(x.node().op); }

}  // namespace nixie

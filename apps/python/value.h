// Value: an array of Python, a handle to a Tensor that is computed when somebody looks at its elements.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nixie/core/graph/backend.h"
#include "nixie/core/graph/tensor.h"

namespace nixie::python {

/// A device by its name, and the backend that computes there, which is made on first use and never destroyed.
class Device {
 public:
  /// "cpu" or "cuda"; throws Fault::usage for another name.
  static Device& named(const std::string& name);
  static Device& standard() { return named("cpu"); }
  const std::string& name() const { return name_; }
  /// Throws Fault::device if there is none.
  Backend& backend() { return *shared_backend(); }
  const std::shared_ptr<Backend>& shared_backend();
  /// Waits for what runs there.
  void synchronize();

 private:
  explicit Device(std::string name) : name_(std::move(name)) {}
  std::string name_;
  std::shared_ptr<Backend> backend_;
};

bool is_stored(const Tensor& value);

/// An array. To compute one computes every expression on the way that has a name in Python, too, so that a loop that
/// prints a loss computes the weights once. The interpreter's lock is free meanwhile; all functions are called with it.
class Value {
 public:
  Value(Tensor tensor, Device& device);
  ~Value();
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  Device& device() const { return *device_; }
  const Shape& shape() const { return tensor_.shape(); }
  Dtype dtype() const { return tensor_.dtype(); }
  /// What other expressions are built from: stored as soon as it was computed, but the expression during a
  /// differentiation, whose gradient would end at a stored value.
  const Tensor& tensor();
  /// Throws Fault::usage for a value that exists only while a compiled function is traced.
  Tensor stored();
  /// Computes several at a time.
  static void compute(const std::vector<Value*>& values);
  /// Computes every array that has a name, but for those of traces, and waits for the devices.
  static void synchronize();
  /// Another value for this handle, of the same device.
  void rebind(Tensor tensor);

 private:
  void take(Tensor tensor);
  void drop();
  static void forget_histories();
  Tensor tensor_;
  Device* device_;
};

/// While it exists, this thread's Values stay expressions.
class Differentiation {
 public:
  Differentiation();
  static bool is_active();
  ~Differentiation();
  Differentiation(const Differentiation&) = delete;
  Differentiation& operator=(const Differentiation&) = delete;
};

/// While it exists, this thread traces a function: arrays made meanwhile have no value.
class Tracing {
 public:
  Tracing();
  static bool is_active();
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;
};

}  // namespace nixie::python

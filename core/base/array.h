// Array: a dense row-major N-dimensional array in host memory; the input and output of backends.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "nixie/core/base/dtype.h"
#include "nixie/core/base/shape.h"

namespace nixie {

/// The machine's memory. More never fits, though the system may promise it.
std::int64_t machine_bytes();

/// A dense row-major host array. Copies share the elements; `clone` copies them. It has no move, so no array is ever
/// left without elements.
class Array {
 public:
  /// An array of shape [0].
  Array() = default;
  Array(const Array&) = default;
  Array& operator=(const Array&) = default;
  /// Zero-filled. The elements are 64-byte aligned. Throws Fault::memory.
  Array(Dtype dtype, Shape shape);
  /// Takes the values in row-major order; throws unless there are `shape.size()` of them.
  template <class T>
  static Array from(std::span<const T> values, Shape shape) {
    return copied<T>(values, std::move(shape));
  }
  template <class T>
  static Array from(const std::vector<T>& values, Shape shape) {
    return copied<T>(values, std::move(shape));
  }

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::int64_t size() const { return shape_.size(); }
  std::int64_t size_bytes() const { return size() * size_of(dtype_); }

  std::byte* bytes() { return bytes_.get(); }
  const std::byte* bytes() const { return bytes_.get(); }
  /// The elements; throws unless T is the array's type.
  template <class T>
  std::span<T> data() {
    check_read_as(dtype_of<T>());
    return {reinterpret_cast<T*>(bytes_.get()), static_cast<std::size_t>(size())};
  }
  template <class T>
  std::span<const T> data() const {
    return const_cast<Array*>(this)->data<T>();
  }
  /// The elements converted to T, in row-major order.
  template <class T>
  std::vector<T> to_vector() const {
    const Array same = to(dtype_of<T>());
    const auto values = same.template data<T>();
    return {values.begin(), values.end()};
  }
  /// The only element of a one-element array, as a double; throws on any other size.
  double item() const;

  /// The same elements converted to another type (shared when it is the same).
  Array to(Dtype dtype) const;
  /// The same elements under another shape of equal size.
  Array reshaped(Shape shape) const;
  Array clone() const;
  /// Whether every byte of a bool array is 0 or 1 (bytes from a file may not be); true for other types.
  bool holds_bools() const;

 private:
  void check_read_as(Dtype dtype) const;
  static void check_fills(std::size_t values, const Shape& shape);
  template <class T, class Values>
  static Array copied(const Values& values, Shape shape) {
    check_fills(values.size(), shape);
    Array array(dtype_of<T>(), std::move(shape));
    std::copy(values.begin(), values.end(), array.data<T>().begin());
    return array;
  }

  Dtype dtype_ = Dtype::f32;
  Shape shape_ = Shape{0};
  std::shared_ptr<std::byte[]> bytes_;
};

}  // namespace nixie

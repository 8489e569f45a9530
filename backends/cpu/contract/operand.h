// Shared by all contractions: operands in the compute type, and the notification of finished pieces.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

#include "nixie/backends/cpu/contract/contract.h"
#include "nixie/backends/cpu/contract/scratch.h"

namespace nixie::cpu {

/// Integers multiply and add modulo 2^32, which unsigned arithmetic defines; the bits are those of i32.
using Bits = std::uint32_t;
/// The same for i64, which is gathered, scattered, sorted and scanned only.
using WideBits = std::uint64_t;

/// The Dtype of float, double, Bits or WideBits.
template <class T>
constexpr Dtype compute_type_of() {
  if constexpr (std::is_same_v<T, Bits>)
    return Dtype::i32;
  else if constexpr (std::is_same_v<T, WideBits>)
    return Dtype::i64;
  else
    return dtype_of<T>();
}

/// Copies a strided operand to a dense row-major array of `to`'s type: f32, f64 or i32.
void convert_operand(const BoundOperand& from, Dtype type, std::byte* to, ThreadPool& pool);

/// An operand's elements as T with their strides: the operand itself where the type agrees, else a dense copy.
template <class T>
class Strided {
 public:
  Strided(const BoundOperand& operand, ThreadPool& pool) : shape_(operand.shape), strides_(operand.strides) {
    if (operand.dtype == compute_type_of<T>()) {
      data_ = reinterpret_cast<const T*>(operand.data);
    } else {
      copy_.emplace(shape_.size());
      convert_operand(operand, compute_type_of<T>(), reinterpret_cast<std::byte*>(copy_->data()), pool);
      data_ = copy_->data();
      strides_ = shape_.row_major();
    }
  }
  const T* data() const { return data_; }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  std::int64_t size(int axis) const { return shape_[axis]; }
  /// In elements; negative axes count from the end.
  std::int64_t stride(int axis) const { return strides_[static_cast<std::size_t>(shape_.normal_axis(axis))]; }

 private:
  const T* data_ = nullptr;
  Shape shape_;
  Strides strides_;
  std::optional<Scratch<T>> copy_;
};

/// Tells a sink of finished pieces, neighbours joined so that no call is for a handful of elements.
class Pieces {
 public:
  explicit Pieces(const HeadSink& sink) : sink_(sink) {}
  void add(std::int64_t first, std::int64_t count) {
    if (first != first_ + count_) flush();
    if (count_ == 0) first_ = first;
    count_ += count;
    if (count_ >= kEnough) flush();
  }
  void flush() {
    if (count_ > 0 && sink_.finished) sink_.finished(first_, count_);
    count_ = 0;
  }

 private:
  static constexpr std::int64_t kEnough = 8192;
  const HeadSink& sink_;
  std::int64_t first_ = 0, count_ = 0;
};

/// Tells the sink of the whole result, cut for the pool.
inline void finish_all(const HeadSink& sink, std::int64_t size, ThreadPool& pool) {
  constexpr std::int64_t kPiece = 16384;
  if (!sink.finished || size == 0) return;
  pool.parallel_for((size + kPiece - 1) / kPiece,
                    [&](std::int64_t part) { sink.finished(part * kPiece, std::min(kPiece, size - part * kPiece)); });
}

/// The i-th of `parts` nearly equal cuts of `count`.
constexpr std::int64_t cut(std::int64_t count, std::int64_t parts, std::int64_t i) { return count * i / parts; }
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The heads, each over its operands in order; T is float, double, Bits or WideBits.
template <class T>
void run_matmul(std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink, ThreadPool& pool);
template <class T>
void run_conv(const Conv& conv, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
              ThreadPool& pool);
void run_rounded_product(const RoundedProduct& op, std::span<const BoundOperand> operands, const Shape& domain,
                         const HeadSink& sink, ThreadPool& pool);
template <class T>
void run_pool(const Pool& op, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
              ThreadPool& pool);
template <class T>
void run_gather(const Gather& gather, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
                ThreadPool& pool);
template <class T>
void run_scatter(const Scatter& scatter, std::span<const BoundOperand> operands, const Shape& domain,
                 const HeadSink& sink, ThreadPool& pool);
template <class T>
void run_scan(const Scan& scan, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
              ThreadPool& pool);
template <class T>
void run_collective(const Collective& op, std::span<const BoundOperand> operands, const Shape& domain,
                    const HeadSink& sink, ThreadPool& pool);
/// Takes operands of any type; positions are i32.
void run_argsort(const ArgSort& op, std::span<const BoundOperand> operands, const Shape& domain, const HeadSink& sink,
                 ThreadPool& pool);

}  // namespace nixie::cpu

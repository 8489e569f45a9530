// Array: allocation and conversion of host arrays.
#include "nixie/core/base/array.h"

#include <algorithm>
#include <new>

#include <unistd.h>

namespace nixie {
namespace {

constexpr std::align_val_t kAlignment{64};

std::shared_ptr<std::byte[]> allocate(Dtype dtype, const Shape& shape, std::int64_t bytes) {
  void* memory =
      bytes > machine_bytes() ? nullptr : ::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow);
  if (!memory) fail(Fault::memory, "no ", bytes, " bytes of host memory for an array ", dtype, " ", shape);
  return {static_cast<std::byte*>(memory), [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

}  // namespace

std::int64_t machine_bytes() {
  static const std::int64_t bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * std::int64_t{sysconf(_SC_PAGESIZE)};
  return bytes;
}

Array::Array(Dtype dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), bytes_(allocate(dtype, shape_, size_bytes())) {
  std::memset(bytes_.get(), 0, static_cast<std::size_t>(size_bytes()));
}

double Array::item() const {
  check(size() == 1, "item() of an array of shape ", shape_, ", expected one element");
  return to(Dtype::f64).data<double>()[0];
}

Array Array::to(Dtype dtype) const {
  if (dtype == dtype_) return *this;
  Array result(dtype, shape_);
  visit_dtype(dtype_, [&](auto from) {
    visit_dtype(dtype, [&](auto to) {
      auto source = data<decltype(from)>();
      auto target = result.data<decltype(to)>();
      for (std::size_t i = 0; i < source.size(); ++i) target[i] = convert<decltype(to)>(source[i]);
    });
  });
  return result;
}

void Array::check_read_as(Dtype dtype) const { check(dtype == dtype_, "array holds ", dtype_, ", read as ", dtype); }

void Array::check_fills(std::size_t values, const Shape& shape) {
  check(static_cast<std::int64_t>(values) == shape.size(), values, " values do not fill shape ", shape);
}

Array Array::reshaped(Shape shape) const {
  check(shape.size() == size(), "array of shape ", shape_, " does not reshape to ", shape);
  Array result = *this;
  result.shape_ = std::move(shape);
  return result;
}

Array Array::clone() const {
  Array result(dtype_, shape_);
  std::copy_n(bytes(), size_bytes(), result.bytes());  // an empty array has no address
  return result;
}

bool Array::holds_bools() const {
  const auto is_bool = [](std::byte byte) { return byte == std::byte{0} || byte == std::byte{1}; };
  return dtype_ != Dtype::boolean || std::all_of(bytes(), bytes() + size(), is_bool);
}

}  // namespace nixie

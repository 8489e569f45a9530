// Storage: moves elements between host and backend memory.
#include "nixie/core/graph/storage.h"

#include <atomic>

namespace nixie {

namespace {

// [N, C, S] as [N, S, C], or back.
template <class T>
void swap_inner(const T* from, T* to, std::int64_t n, std::int64_t c, std::int64_t s) {
  for (std::int64_t i = 0; i < n; ++i, from += c * s, to += c * s)
    for (std::int64_t j = 0; j < c; ++j)
      for (std::int64_t k = 0; k < s; ++k) to[k * c + j] = from[j * s + k];
}

// The elements in channels-last order (`back`: from there to row-major), in an array of the same shape.
Array swapped(const Array& array, bool back) {
  const std::int64_t n = array.shape()[0], c = array.shape()[1], s = n * c == 0 ? 0 : array.size() / (n * c);
  Array result(array.dtype(), array.shape());
  visit_dtype(array.dtype(), [&](auto type) {
    using T = decltype(type);
    swap_inner(array.data<T>().data(), result.data<T>().data(), n, back ? s : c, back ? c : s);
  });
  return result;
}

}  // namespace

Storage::Storage(Array host) : dtype_(host.dtype()), shape_(host.shape()), host_(std::move(host)) {}

Storage::Storage(Dtype dtype, Shape shape, Backend& backend, bool as_variable)
    : Storage(dtype, shape, backend, backend.allocate(shape.size() * size_of(dtype))) {
  of_variable_ = as_variable;
}

Storage::Storage(Dtype dtype, Shape shape, Backend& backend, std::shared_ptr<Buffer> buffer)
    : dtype_(dtype),
      shape_(std::move(shape)),
      backend_(&backend),
      backend_life_(backend.life()),
      buffer_(std::move(buffer)) {}

std::shared_ptr<Storage> Storage::for_variable(Array host) {
  auto storage = std::make_shared<Storage>(std::move(host));
  storage->of_variable_ = true;
  return storage;
}

std::uint64_t Storage::next_version() {
  static std::atomic<std::uint64_t> next = 0;
  return ++next;
}

bool Storage::reordered(const Backend& backend) const {
  return of_variable_ && backend.target().channels_last && shape_.channels_last() != shape_.row_major();
}

void Storage::upload(const Array& array) {
  const Array elements = reordered(*backend_) ? swapped(array, false) : array;
  backend_->upload(elements.bytes(), *buffer_, elements.size_bytes());
}

Array Storage::read() const {
  if (!host_) {
    check(!backend_life_.expired(), "a value of ", dtype_, " ", shape_,
          " is read after the backend that held it; keep the backend as long as its values");
    Array array(dtype_, shape_);
    backend_->download(*buffer_, array.bytes(), array.size_bytes());
    host_ = reordered(*backend_) ? swapped(array, true) : std::move(array);
  }
  return *host_;
}

void Storage::write(const Array& array) {
  check(array.shape() == shape_ && array.dtype() == dtype_, "storage of ", dtype_, " ", shape_, " is given ",
        array.dtype(), " ", array.shape());
  version_ = next_version();
  if (!buffer_ || backend_life_.expired()) {
    buffer_ = nullptr;
    host_ = array.clone();
    return;
  }
  host_.reset();
  upload(array);
}

std::shared_ptr<Buffer> Storage::on(Backend& backend) {
  if (is_on(backend)) return buffer_;
  const Array array = read();
  buffer_ = backend.allocate(array.size_bytes());
  backend_ = &backend;
  backend_life_ = backend.life();
  upload(array);
  if (of_variable_) host_.reset();  // large weights would else lie in memory twice
  return buffer_;
}

std::shared_ptr<Buffer> Storage::staged(Backend& backend, std::shared_ptr<Storage>& staging) const {
  if (is_on(backend)) return buffer_;
  if (!staging) staging = std::make_shared<Storage>(dtype_, shape_, backend, of_variable_);
  if (staging->staged_version_ != version_) staging->upload(read());
  staging->staged_version_ = version_;
  return staging->buffer_;
}

}  // namespace nixie

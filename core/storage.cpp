// Storage: moves elements between host and backend memory.
#include "core/storage.h"

namespace nixie {

Storage::Storage(Array host) : dtype_(host.dtype()), shape_(host.shape()), host_(std::move(host)) {}

Storage::Storage(Dtype dtype, Shape shape, Backend& backend)
    : dtype_(dtype),
      shape_(std::move(shape)),
      backend_(&backend),
      buffer_(backend.allocate(shape_.size() * size_of(dtype))) {}

Array Storage::read() const {
  if (!host_) {
    Array array(dtype_, shape_);
    backend_->download(*buffer_, array.bytes(), array.size_bytes());
    host_ = std::move(array);
  }
  return *host_;
}

void Storage::write(const Array& array) {
  check(array.shape() == shape_ && array.dtype() == dtype_, "storage of ", dtype_, " ", shape_, " is given ",
        array.dtype(), " ", array.shape());
  if (!buffer_) {
    host_ = array.clone();
    return;
  }
  host_.reset();
  backend_->upload(array.bytes(), *buffer_, array.size_bytes());
}

std::shared_ptr<Buffer> Storage::on(Backend& backend) {
  if (buffer_ && backend_ == &backend) return buffer_;
  const Array array = read();
  buffer_ = backend.allocate(array.size_bytes());
  backend_ = &backend;
  backend.upload(array.bytes(), *buffer_, array.size_bytes());
  host_.reset();  // large weights would else lie in memory twice
  return buffer_;
}

std::shared_ptr<Buffer> Storage::staged(Backend& backend, std::shared_ptr<Storage>& staging) const {
  if (buffer_ && backend_ == &backend) return buffer_;
  if (!staging) staging = std::make_shared<Storage>(dtype_, shape_, backend);
  const Array array = read();
  backend.upload(array.bytes(), *staging->buffer_, array.size_bytes());
  return staging->buffer_;
}

}  // namespace nixie

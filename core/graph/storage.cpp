// Storage: moves elements between host and backend memory.
#include "nixie/core/graph/storage.h"

#include <algorithm>
#include <atomic>
#include <cstring>

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
  copies_.front().is_reordered = reordered(backend);
}

Storage::Storage(Dtype dtype, Shape shape, Backend& backend, std::shared_ptr<Buffer> buffer)
    : dtype_(dtype), shape_(std::move(shape)), copies_{Copy(backend, false, std::move(buffer))} {}

std::shared_ptr<Storage> Storage::for_variable(Array host, std::string name) {
  auto storage = std::make_shared<Storage>(std::move(host));
  storage->of_variable_ = true;
  storage->name_ = std::move(name);
  return storage;
}

std::uint64_t Storage::next_version() {
  static std::atomic<std::uint64_t> next = 0;
  return ++next;
}

bool Storage::reordered(const Backend& backend) const {
  return of_variable_ && backend.target().channels_last && shape_.channels_last() != shape_.row_major();
}

std::string Storage::label() const {
  return name_.empty() ? line_of("a value of ", dtype_, " ", shape_) : line_of(name_, " ", dtype_, " ", shape_);
}

// Every run asks for each of its arrays, so the text is made only for an error.
void Storage::check_may_read() const {
  if (uses_ >= 0) return;
  fail(Fault::usage, label(), " is read while another thread changes it; read it before or after that run");
}

void Storage::check_may_change() const {
  if (uses_ == 0) return;
  fail(Fault::usage, label(), " is changed while another thread ", uses_ > 0 ? "reads" : "changes",
       " it; change it between the runs of other threads, or give each thread a Variable of its own");
}

Storage::Use::Use(std::shared_ptr<Storage> storage, Kind kind) : storage_(std::move(storage)) {
  const std::lock_guard lock(storage_->mutex_);
  if (kind == Kind::changes) {
    storage_->check_may_change();
    storage_->uses_ = -1;
  } else {
    storage_->check_may_read();
    ++storage_->uses_;
  }
}

Storage::Use::~Use() {
  if (!storage_) return;  // moved from
  const std::lock_guard lock(storage_->mutex_);
  storage_->uses_ = std::max(storage_->uses_ - 1, 0);
}

bool Storage::is_on_host() const {
  const std::lock_guard lock(mutex_);
  return host_.has_value();
}

std::uint64_t Storage::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

Storage::Copy::Copy(Backend& backend_, bool reorders, std::shared_ptr<Buffer> memory)
    : backend(&backend_),
      backend_life(backend_.life()),
      place(backend_.memory_place()),
      is_reordered(reorders),
      buffer(std::move(memory)) {}

bool Storage::Copy::serves(const Backend& other, bool is_reordered_there) const {
  if (backend == &other && !backend_life.expired()) return true;  // the usual case
  if (!place.is_shared) return false;
  const MemoryPlace there = other.memory_place();
  return there.is_shared && there.device_type == place.device_type && there.device_index == place.device_index &&
         is_reordered == is_reordered_there;
}

void Storage::Copy::upload(const Array& array) const {
  const Array elements = is_reordered ? swapped(array, false) : array;
  if (!place.is_shared)
    backend->upload(elements.bytes(), *buffer, elements.size_bytes());
  else if (elements.size_bytes() > 0)  // the backend may be gone
    std::memcpy(buffer->address(), elements.bytes(), static_cast<std::size_t>(elements.size_bytes()));
}

Array Storage::Copy::download(Dtype dtype, const Shape& shape) const {
  Array array(dtype, shape);
  if (!place.is_shared)
    backend->download(*buffer, array.bytes(), array.size_bytes());
  else if (array.size_bytes() > 0)
    std::memcpy(array.bytes(), buffer->address(), static_cast<std::size_t>(array.size_bytes()));
  return is_reordered ? swapped(array, true) : array;
}

const Storage::Copy* Storage::find(const Backend& backend) const {
  for (const Copy& copy : copies_)
    if (copy.serves(backend, reordered(backend))) return &copy;
  return nullptr;
}

Array Storage::elements() const {
  check_may_read();
  if (!host_) {
    const auto copy = std::ranges::find_if(copies_, &Copy::is_alive);
    if (copy == copies_.end())
      fail(Fault::usage, label(), " is read after the backend that held it; keep the backend as long as its values");
    host_ = copy->download(dtype_, shape_);
  }
  return *host_;
}

Array Storage::read() const {
  const std::lock_guard lock(mutex_);
  return elements();
}

void Storage::write(const Array& array) {
  check(array.shape() == shape_ && array.dtype() == dtype_, "storage of ", dtype_, " ", shape_, " is given ",
        array.dtype(), " ", array.shape());
  const std::lock_guard lock(mutex_);
  check_may_change();
  version_ = next_version();
  std::erase_if(copies_, [](const Copy& copy) { return !copy.is_alive(); });
  if (copies_.empty()) {
    host_ = array.clone();
    return;
  }
  host_.reset();
  copies_.erase(copies_.begin() + 1, copies_.end());
  copies_.front().upload(array);
}

std::shared_ptr<Buffer> Storage::on(Backend& backend) {
  const std::lock_guard lock(mutex_);
  check_may_read();
  if (const Copy* copy = find(backend)) return copy->buffer;
  const Array array = elements();
  const Copy made(backend, reordered(backend), backend.allocate(array.size_bytes()));
  made.upload(array);
  if (of_variable_) host_.reset();  // large weights would else be in memory twice
  std::erase_if(copies_, [](const Copy& copy) { return !copy.is_alive(); });
  copies_.push_back(made);
  return made.buffer;
}

std::shared_ptr<Buffer> Storage::staged(Backend& backend, std::shared_ptr<Storage>& staging) const {
  const std::lock_guard lock(mutex_);
  check_may_read();
  if (const Copy* copy = find(backend)) return copy->buffer;
  if (!staging) staging = std::make_shared<Storage>(dtype_, shape_, backend, of_variable_);
  const Copy& copy = staging->copies_.front();
  if (staging->staged_version_ != version_) copy.upload(elements());
  staging->staged_version_ = version_;
  return copy.buffer;
}

void Storage::backend_wrote(Backend& backend, const std::shared_ptr<Buffer>& buffer) {
  const std::lock_guard lock(mutex_);
  host_.reset();
  version_ = next_version();
  std::erase_if(copies_, [&](const Copy& copy) { return copy.buffer != buffer; });
  if (copies_.empty()) copies_.emplace_back(backend, reordered(backend), buffer);
}

}  // namespace nixie

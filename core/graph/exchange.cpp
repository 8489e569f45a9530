// Buffers around foreign memory, and the structs that export ours.
#include "nixie/core/graph/exchange.h"

#include <cstdint>

#include "nixie/core/graph/storage.h"

namespace nixie {
namespace {

class Foreign final : public Buffer {
 public:
  Foreign(void* memory, std::int64_t size_bytes, Backend& backend, void* stream, std::function<void()> release)
      : Buffer(size_bytes),
        memory_(memory),
        backend_(backend),
        backend_life_(backend.life()),
        stream_(stream),
        release_(std::move(release)) {}
  ~Foreign() override {
    try {
      if (!backend_life_.expired()) backend_.be_awaited_by(stream_);
    } catch (const Error&) {  // a lost device does nothing with the memory any more
    }
    if (release_) release_();
  }
  void* address() override { return memory_; }

 private:
  void* memory_;
  Backend& backend_;
  const std::weak_ptr<const void> backend_life_;
  void* stream_;
  std::function<void()> release_;
};

dlpack::Type type_of(Dtype dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  const std::uint8_t code = dtype == Dtype::bf16      ? dlpack::kBfloat
                            : dtype == Dtype::f8e4m3  ? dlpack::kF8e4m3
                            : dtype == Dtype::f8e5m2  ? dlpack::kF8e5m2
                            : is_floating(dtype)      ? dlpack::kFloat
                            : is_unsigned(dtype)      ? dlpack::kUint
                            : dtype == Dtype::boolean ? dlpack::kBool
                                                      : dlpack::kInt;
  return {code, bits, 1};
}

Dtype dtype_of(dlpack::Type type) {
  for (int i = 0; i < kDtypeCount; ++i) {
    const dlpack::Type ours = type_of(static_cast<Dtype>(i));
    if (ours.code == type.code && ours.bits == type.bits && type.lanes == 1) return static_cast<Dtype>(i);
  }
  fail(Fault::usage, "dlpack: an array of type code ", type.code, ", ", type.bits, " bits, ", type.lanes,
       " lanes; expected one of ", dtype_names());
}

bool is_dense(const dlpack::Tensor& array, const Shape& shape) {
  if (!array.strides || shape.size() == 0) return true;
  const Strides dense = shape.row_major();
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis] != 1 && array.strides[axis] != dense[static_cast<std::size_t>(axis)]) return false;
  return true;
}

// The owners of an array that was handed out, until it is released.
struct HandedOut {
  HandedOut(Tensor elements, Backend& of, void* on)
      : value(std::move(elements)), backend(of), backend_life(of.life()), stream(on) {}
  HandedOut(const HandedOut&) = delete;
  HandedOut& operator=(const HandedOut&) = delete;
  // The memory is used again behind what the stream was given meanwhile, which may read it still.
  ~HandedOut() {
    try {
      if (!backend_life.expired()) backend.wait_for(stream);
    } catch (const Error&) {  // a lost device reads nothing any more
    }
  }
  Tensor value;  // keeps a Variable's Steps off the memory
  Backend& backend;
  const std::weak_ptr<const void> backend_life;
  void* stream;
  std::shared_ptr<Buffer> buffer;
  std::vector<std::int64_t> shape, strides;
  dlpack::Managed managed;
};

}  // namespace

Tensor wrap(void* memory, const Shape& shape, Dtype dtype, Backend& backend, void* stream,
            std::function<void()> release) {
  check(memory != nullptr || shape.size() == 0, "wrap: the address is null, expected ", shape.size(), " elements of ",
        dtype);
  const auto alignment = static_cast<std::uintptr_t>(std::max(backend.memory_place().alignment, size_of(dtype)));
  check(reinterpret_cast<std::uintptr_t>(memory) % alignment == 0, "wrap: the address is no multiple of ", alignment,
        " bytes, which ", backend.name(), " needs; copy the array first");
  backend.wait_for(stream);
  const std::int64_t bytes = shape.size() * size_of(dtype);
  auto buffer = std::make_shared<Foreign>(memory, bytes, backend, stream, std::move(release));
  auto storage = std::make_shared<Storage>(dtype, shape, backend, std::move(buffer));
  return Tensor::make(Input{.storage = std::move(storage)}, {}, shape, dtype);
}

Tensor from_dlpack(dlpack::Managed* managed, Backend& backend, void* stream) {
  check(managed != nullptr, "dlpack: the array is a null pointer");
  check(managed->version.major == dlpack::kMajor, "dlpack: an array of version ", managed->version.major, ".",
        managed->version.minor, ", expected ", dlpack::kMajor, ".x");
  const dlpack::Tensor& array = managed->array;
  const MemoryPlace place = backend.memory_place();
  check(array.device.type == place.device_type && array.device.index == place.device_index,
        "dlpack: an array on device ", static_cast<int>(array.device.type), ":", array.device.index, ", the backend ",
        backend.name(), " is on ", place.device_type, ":", place.device_index, "; move it there first");
  check(array.rank >= 0 && array.rank <= Shape::kMostAxes && (array.shape != nullptr || array.rank == 0),
        "dlpack: an array of rank ", array.rank, array.shape ? "" : " without a shape", ", expected 0 to ",
        Shape::kMostAxes, " axes");
  const Shape shape(std::vector<std::int64_t>(array.shape, array.shape + array.rank));
  const Dtype dtype = dtype_of(array.type);
  check(is_dense(array, shape), "dlpack: an array of shape ", shape, " with gaps or permuted axes; make it contiguous");
  check(array.data != nullptr || shape.size() == 0, "dlpack: the address of an array of shape ", shape, " is null");
  const std::uint64_t start = reinterpret_cast<std::uintptr_t>(array.data),
                      most = std::numeric_limits<std::int64_t>::max();
  check(array.byte_offset <= most && start <= most - array.byte_offset, "dlpack: a byte offset of ", array.byte_offset,
        " leads out of memory");
  void* const memory = array.data ? static_cast<char*>(array.data) + array.byte_offset : nullptr;
  return wrap(memory, shape, dtype, backend, stream, [managed] {
    if (managed->release) managed->release(managed);
  });
}

dlpack::Managed* to_dlpack(const Tensor& value, Backend& backend, void* stream) {
  const auto* input = op_as<Input>(value);
  check(input && input->storage, "to_dlpack: the value is not computed; evaluate it first");
  auto out = std::make_unique<HandedOut>(value, backend, stream);
  out->buffer = input->storage->on(backend);
  out->shape = value.shape().sizes();
  out->strides = input->storage->strides(backend);
  const MemoryPlace place = backend.memory_place();
  out->managed = {
      .version = {dlpack::kMajor, dlpack::kMinor},
      .context = out.get(),
      .release = [](dlpack::Managed* self) { delete static_cast<HandedOut*>(self->context); },
      .flags = dlpack::kReadOnly,
      .array = {.data = out->buffer->address(),
                .device = {place.device_type, place.device_index},
                .rank = value.rank(),
                .type = type_of(value.dtype()),
                .shape = out->shape.data(),
                .strides = out->strides.data(),
                .byte_offset = 0},
  };
  backend.be_awaited_by(stream);
  return &out.release()->managed;
}

}  // namespace nixie

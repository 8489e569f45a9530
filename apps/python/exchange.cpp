// Memory shared with other libraries: the buffer protocol, numpy's arrays, and DLPack in both directions.
#include "nixie/core/graph/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "nixie/apps/python/arguments.h"
#include "nixie/core/graph/storage.h"
#include "nixie/core/step.h"

namespace nixie::python {
namespace {

// DLManagedTensor: what libraries exchanged before DLPack 1.0, and numpy before 2.1.
struct Unversioned {
  dlpack::Tensor array;
  void* context;
  void (*release)(Unversioned* self);
};

constexpr const char *kVersioned = "dltensor_versioned", *kUnversioned = "dltensor";

const char* format_of(Dtype dtype) {
  constexpr std::array<const char*, kDtypeCount> kFormats{"d", "f", "e", nullptr, "B", "B", "q", "i",
                                                          "h", "b", "Q", "I",     "H", "B", "?"};
  return kFormats[static_cast<std::size_t>(dtype)];
}

struct Release {
  void operator()(dlpack::Managed* array) const { array->release(array); }
};
using Owned = std::unique_ptr<dlpack::Managed, Release>;

// Elements that the host may read.
struct HostMemory {
  std::shared_ptr<const void> owner;
  const void* data;
  Dtype dtype;
  std::vector<py::ssize_t> shape, strides;  ///< strides in bytes
};

}  // namespace

template <>
inline constexpr bool is_class_of_python<HostMemory> = true;

namespace {

HostMemory host_memory(Value& value) {
  const Tensor stored = value.stored();
  const Dtype dtype = value.dtype();
  const auto sizes = value.shape().sizes();
  HostMemory memory{{}, nullptr, dtype, {sizes.begin(), sizes.end()}, {}};
  Strides strides;
  if (value.device().name() == "cpu") {
    const std::shared_ptr<dlpack::Managed> shared(to_dlpack(stored, value.device().backend()), Release());
    memory.data = shared->array.data;
    strides.assign(shared->array.strides, shared->array.strides + shared->array.rank);
    memory.owner = shared;
  } else {
    const auto array = std::make_shared<Array>(stored.array());
    memory.data = array->bytes();
    strides = value.shape().row_major();
    memory.owner = array;
  }
  for (const std::int64_t stride : strides) memory.strides.push_back(stride * size_of(dtype));
  return memory;
}

// The smallest and the largest of whole numbers; none of other elements, and of those that the host does not have yet.
std::optional<std::pair<std::int64_t, std::int64_t>> known_range(Value& value) {
  if (value.device().name() != "cpu" || !is_stored(value.tensor()) || value.shape().size() == 0) return {};
  const HostMemory memory = host_memory(value);
  return visit_dtype(memory.dtype, [&](auto type) -> std::optional<std::pair<std::int64_t, std::int64_t>> {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const std::span elements(static_cast<const T*>(memory.data), static_cast<std::size_t>(value.shape().size()));
      const auto [low, high] = std::ranges::minmax(elements);
      return std::pair(convert<std::int64_t>(low), convert<std::int64_t>(high));
    }
    return {};
  });
}

Tensor tensor_of(const Array& array, Device& device) {
  if (device.name() != "cpu") return array;
  return wrap(const_cast<std::byte*>(array.bytes()), array.shape(), array.dtype(), device.backend(), nullptr,
              [array] {});
}

void release_capsule(PyObject* capsule) {
  if (auto* array = PyCapsule_IsValid(capsule, kVersioned)
                        ? static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, kVersioned))
                        : nullptr)
    array->release(array);
  if (auto* array = PyCapsule_IsValid(capsule, kUnversioned)
                        ? static_cast<Unversioned*>(PyCapsule_GetPointer(capsule, kUnversioned))
                        : nullptr)
    array->release(array);
}

py::capsule to_capsule(Value& value, py::object stream, const std::optional<std::pair<int, int>>& max_version,
                       const std::optional<std::pair<int, int>>& device, std::optional<bool> copy) {
  Device& to = !device              ? value.device()
               : device->first == 1 ? Device::named("cpu")
               : device->first == 2 ? Device::named("cuda")
                                    : throw py::buffer_error("__dlpack__: expected device type 1 (CPU) or 2 (CUDA)");
  if (&to != &value.device() && copy == false)
    throw py::buffer_error("__dlpack__: an array on " + value.device().name() + " is on " + to.name() +
                           " only by a copy");
  const bool copies = copy == true || &to != &value.device();
  const Tensor stored = copies ? tensor_of(value.stored().array().clone(), to) : value.stored();
  // None is the default stream; of -1 the consumer takes care itself.
  const bool names_stream = !stream.is_none() && stream.cast<std::int64_t>() != -1;
  void* const consumer = names_stream ? PyLong_AsVoidPtr(stream.ptr()) : nullptr;
  Owned array(to_dlpack(stored, to.backend(), consumer));
  if (copies) array->flags = dlpack::kCopied;
  if (max_version && max_version->first >= 1) return py::capsule(array.release(), kVersioned, &release_capsule);
  auto* old = new Unversioned{array->array, array.get(), [](Unversioned* self) {
                                auto* managed = static_cast<dlpack::Managed*>(self->context);
                                managed->release(managed);
                                delete self;
                              }};
  static_cast<void>(array.release());
  return py::capsule(old, kUnversioned, &release_capsule);
}

// The array of a capsule, which gives it up.
Owned take(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned)) {
    Owned array(static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), kVersioned)));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    return array;
  }
  check(PyCapsule_IsValid(capsule.ptr(), kUnversioned), "from_dlpack: __dlpack__ gave no capsule of DLPack");
  auto* old = static_cast<Unversioned*>(PyCapsule_GetPointer(capsule.ptr(), kUnversioned));
  Owned array(new dlpack::Managed{.version = {dlpack::kMajor, dlpack::kMinor},
                                  .context = old,
                                  .release =
                                      [](dlpack::Managed* self) {
                                        auto* from = static_cast<Unversioned*>(self->context);
                                        if (from->release) from->release(from);
                                        delete self;
                                      },
                                  .flags = 0,
                                  .array = old->array});
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return array;
}

py::object ask_for_capsule(const py::object& object, bool on_gpu) {
  const auto ask = object.attr("__dlpack__");
  py::dict options;
  if (on_gpu) options["stream"] = 1;  // the default stream, for which our backend waits
  options["max_version"] = py::make_tuple(dlpack::kMajor, dlpack::kMinor);
  try {
    return ask(**options);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // a TypeError: it was written before max_version was
  }
  options.attr("pop")("max_version");
  return ask(**options);
}

// DLPackExchangeAPI, which a type of arrays may have since DLPack 1.3: functions that call no Python.
struct ExchangeApi {
  dlpack::Version version;
  const ExchangeApi* previous;
  void* allocate;
  int (*managed_from)(void* object, dlpack::Managed** array);
  int (*to_object)(dlpack::Managed* array, void** object);
  void* array_from;
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** stream);
};

// The type that was last found to have one, as the look-up of an attribute takes as long as the exchange.
auto& last_with_api() {
  static auto& last = *new std::pair<py::object, const ExchangeApi*>(py::none(), nullptr);
  return last;
}

// That of a type; null if it has none.
const ExchangeApi* find_exchange_api(const py::object& type) {
  if (last_with_api().first.is(type)) return last_with_api().second;
  const py::object capsule = py::getattr(type, "__dlpack_c_exchange_api__", py::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (api && api->version.major != dlpack::kMajor) api = api->previous;
  if (api) last_with_api() = {type, api};
  return api;
}

// Null for arrays without it, and for those whose gradients are asked for: their own error says what to do.
const ExchangeApi* exchange_api_of(const py::object& object) {
  static const py::str& name =
      *new py::str(py::reinterpret_steal<py::str>(PyUnicode_InternFromString("requires_grad")));
  const ExchangeApi* api = find_exchange_api(py::type::of(object));
  return api && py::bool_(py::getattr(object, name, py::bool_(false))) ? nullptr : api;
}

// The stream on which another library works now; the CPU has none.
void* stream_of(const ExchangeApi& api, int device_type, int device_index) {
  void* stream = nullptr;
  if (device_type == dlpack::kCuda && api.current_stream(device_type, device_index, &stream) != 0)
    throw py::error_already_set();
  return stream;
}

// The array as an object of another library's type, in order with what its present stream does later.
py::object to_object(py::handle given, const py::object& type) {
  Value* const value = array_of(given);
  if (!value)
    throw py::type_error(fmt::format("expected an array of nixie, found a {}", Py_TYPE(given.ptr())->tp_name));
  const ExchangeApi* api = find_exchange_api(type);
  check(api != nullptr, "the type ", std::string(py::str(type)),
        " has no __dlpack_c_exchange_api__; use its from_dlpack");
  const Tensor stored = value->stored();
  Backend& backend = value->device().backend();
  const MemoryPlace place = backend.memory_place();
  Owned array(to_dlpack(stored, backend, stream_of(*api, place.device_type, place.device_index)));
  void* made = nullptr;
  if (api->to_object(array.get(), &made) != 0) throw py::error_already_set();
  static_cast<void>(array.release());
  return py::reinterpret_steal<py::object>(static_cast<PyObject*>(made));
}

struct Given {
  Owned array;
  void* stream = nullptr;  ///< on which the array is made
};

Given ask_for_array(const py::object& object) {
  const ExchangeApi* api = exchange_api_of(object);
  if (!api) {
    const int type = py::int_(object.attr("__dlpack_device__")()[py::int_(0)]);
    return {take(ask_for_capsule(object, type == dlpack::kCuda))};
  }
  dlpack::Managed* array = nullptr;
  if (api->managed_from(object.ptr(), &array) != 0) throw py::error_already_set();
  Given given{Owned(array)};
  given.stream = stream_of(*api, array->array.device.type, array->array.device.index);
  return given;
}

// The type that an array of numpy gets: its own, or one that is asked for.
Dtype dtype_for(const py::object& array, std::optional<Dtype> asked) {
  const auto name = array.attr("dtype").attr("name").cast<std::string>();
  const auto kind = array.attr("dtype").attr("kind").cast<char>();
  const auto own = find_dtype(name);
  const bool is_real = own || kind == 'i' || kind == 'u' || kind == 'f';
  if (!is_real && !(asked && kind == 'O')) throw py::type_error("an array of " + name + " is no array of real numbers");
  if (asked) return *asked;
  if (own) return *own;
  fail(Fault::usage, "there are no arrays of ", name, " here; convert it by nixie.asarray(x, dtype=nixie.float64)");
}

// Integers that numpy would wrap around raise ValueError.
void check_fits(const py::object& array, Dtype dtype) {
  if (is_floating(dtype) || dtype == Dtype::boolean || array.attr("size").cast<std::int64_t>() == 0) return;
  const auto numpy = py::module_::import("numpy");
  if (numpy.attr("can_cast")(array.attr("dtype"), std::string(name_in_python(dtype))).cast<bool>()) return;
  const auto fitting = py::module_::import("nixie._types").attr("fitting");
  for (const char* end : {"min", "max"}) fitting(numpy.attr("asarray")(array.attr(end)()).attr("item")(), dtype);
}

}  // namespace

int get_buffer(PyObject* self, Py_buffer* view, int flags) try {
  auto& value = py::handle(self).cast<Value&>();
  if (!format_of(value.dtype())) {
    PyErr_SetString(PyExc_BufferError, "bfloat16 has no format in the buffer protocol; use astype(nixie.float32)");
    return -1;
  }
  return PyObject_GetBuffer(py::cast(host_memory(value)).ptr(), view, flags);
} catch (const py::builtin_exception& error) {
  error.set_error();
  return -1;
} catch (const std::exception& error) {
  PyErr_SetString(PyExc_BufferError, error.what());
  return -1;
}

bool has_dlpack_alone(py::handle object) {
  return last_with_api().first.is(py::type::handle_of(object)) ||
         (!is_of_numpy(object) && PyObject_HasAttrString(object.ptr(), "__dlpack__"));
}

std::unique_ptr<Value> from_dlpack_object(const py::object& object, std::optional<bool> copy,
                                          std::optional<DtypeArgument> dtype) {
  auto [array, stream] = ask_for_array(object);
  const int type = array->array.device.type;
  Device& device = Device::named(type == dlpack::kCuda ? "cuda" : "cpu");
  try {
    const Tensor tensor = from_dlpack(array.get(), device.backend(), stream);
    static_cast<void>(array.release());
    return make_value(copy == true ? evaluate(tensor, device.backend()) : tensor, device);
  } catch (const Error&) {  // it has gaps, or an address that no kernel reads
    if (copy == false || type != dlpack::kCpu) throw;
  }
  return from_numpy(py::module_::import("numpy").attr("from_dlpack")(object),
                    dtype ? std::optional(dtype->dtype) : std::nullopt, device);
}

std::unique_ptr<Value> from_numpy(py::handle object, std::optional<Dtype> dtype, Device& device) {
  const auto numpy = py::module_::import("numpy");
  py::object source = numpy.attr("ascontiguousarray")(object);
  const auto shape = py::cast<std::vector<std::int64_t>>(numpy.attr("shape")(object));  // of no axes, too
  dtype = dtype_for(source, dtype);
  check_fits(source, *dtype);
  // numpy has neither bfloat16 nor 8-bit floats. Those of ml_dtypes are taken as they are, by their bytes.
  const bool is_f8_there =
      is_f8(*dtype) && source.attr("dtype").attr("name").cast<std::string>() == name_in_python(*dtype);
  const Dtype read = is_f8_there ? *dtype : *dtype == Dtype::bf16 || is_f8(*dtype) ? Dtype::f32 : *dtype;
  source = is_f8_there ? source.attr("view")("uint8")
                       : source.attr("astype")(std::string(name_in_python(read)), py::arg("copy") = false);
  Array array(read, Shape(shape));
  const py::buffer_info info = py::buffer(source).request();
  if (array.size() > 0) std::memcpy(array.bytes(), info.ptr, static_cast<std::size_t>(array.size_bytes()));
  if (*dtype == Dtype::boolean)
    for (auto* byte = array.bytes(); byte != array.bytes() + array.size(); ++byte)
      *byte = std::byte(*byte != std::byte(0));
  return make_value(tensor_of(array.to(*dtype), device), device);
}

void bind_exchange(py::module_& module) {
  py::class_<HostMemory>(module, "HostMemory", py::buffer_protocol()).def_buffer([](const HostMemory& memory) {
    return py::buffer_info(const_cast<void*>(memory.data), size_of(memory.dtype), format_of(memory.dtype),
                           static_cast<py::ssize_t>(memory.shape.size()), memory.shape, memory.strides,
                           /*readonly=*/true);
  });
  module.def("from_numpy", [](py::handle object, std::optional<DtypeArgument> dtype, const std::string& device) {
    return from_numpy(object, dtype ? std::optional(dtype->dtype) : std::nullopt, Device::named(device));
  });
  module.def("from_dlpack", [](const py::object& object, std::optional<bool> copy, std::optional<DtypeArgument> dtype) {
    return from_dlpack_object(object, copy, dtype);
  });
  module.def("to_object", &to_object);
  module.def("known_range", &known_range);
  auto array = module.attr("Array").cast<py::class_<Value>>();
  array.def("__dlpack__", &to_capsule, py::kw_only(), py::arg("stream") = py::none(),
            py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(), py::arg("copy") = py::none());
  array.def("__dlpack_device__", [](const Value& self) {
    const MemoryPlace place = self.device().backend().memory_place();
    return py::make_tuple(place.device_type, place.device_index);
  });
}

}  // namespace nixie::python

// DLPack: the C structs by which libraries exchange arrays without a copy. Declared here as version 1.0 of
// the specification fixes them (https://dmlc.github.io/dlpack/latest/c_api.html; 1.x only adds, 1.1 the 8-bit floats);
// core/graph/exchange.h uses them.
#pragma once

#include <cstdint>

namespace nixie::dlpack {

inline constexpr std::uint32_t kMajor = 1, kMinor = 0;

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2 };
struct Device {
  std::int32_t type, index;
};

enum TypeCode : std::uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kBool = 6, kF8e4m3 = 10, kF8e5m2 = 12 };
struct Type {
  std::uint8_t code, bits;
  std::uint16_t lanes;  ///< 1, or the length of a vector
};

/// DLTensor. Strides are in elements; null means dense and row-major.
struct Tensor {
  void* data;
  Device device;
  std::int32_t rank;
  Type type;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

struct Version {
  std::uint32_t major, minor;
};

inline constexpr std::uint64_t kReadOnly = 1, kCopied = 2;

/// DLManagedTensorVersioned: an array and the function that releases it.
struct Managed {
  Version version;
  void* context;
  void (*release)(Managed* self);
  std::uint64_t flags;
  Tensor array;
};

static_assert(sizeof(Tensor) == 48 && sizeof(Managed) == 80, "the layout every other library was built with");

}  // namespace nixie::dlpack

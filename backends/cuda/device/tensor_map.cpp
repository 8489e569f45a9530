// Encodes tensor maps through the driver, which is found at run time.
#include "nixie/backends/cuda/device/tensor_map.h"

#include <fmt/format.h>

#include <cuda.h>

#include <cstring>

#include "nixie/backends/cuda/device/handle.h"

namespace nixie::cuda {
namespace {

CUtensorMapSwizzle swizzle_of(int bytes) {
  return bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                       : CU_TENSOR_MAP_SWIZZLE_NONE;
}

}  // namespace

EncodedMap encode(const TensorMap& map, void* address) {
  static const auto tiled = driver_function<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  static const auto im2col = driver_function<decltype(cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  const auto rank = static_cast<std::uint32_t>(map.sizes.size());
  const CUtensorMapDataType type = map.dtype == Dtype::f32   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                   : map.dtype == Dtype::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  std::vector<cuuint64_t> sizes(map.sizes.begin(), map.sizes.end()), pitches;  // bytes, of every axis but the first
  const auto bytes = static_cast<cuuint64_t>(size_of(map.dtype));
  cuuint64_t pitch = bytes;
  for (std::uint32_t axis = 0; axis + 1 < rank; ++axis)
    pitches.push_back(map.strides.empty() ? pitch *= sizes[axis] : map.strides[axis] * bytes);
  std::vector<cuuint32_t> steps(rank, 1), box(map.box.begin(), map.box.end());
  CUtensorMap encoded;
  CUresult result;
  if (map.im2col) {
    steps[1] = map.stride[0], steps[2] = map.stride[1];
    result = im2col(&encoded, type, rank, address, sizes.data(), pitches.data(), map.lower.data(), map.upper.data(),
                    box[0], box[1], steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map.swizzle_bytes),
                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  } else {
    result = tiled(&encoded, type, rank, address, sizes.data(), pitches.data(), box.data(), steps.data(),
                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map.swizzle_bytes), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  if (result != CUDA_SUCCESS)
    fail(Fault::device, "cuda: the driver refuses a tensor map of sizes [", fmt::to_string(fmt::join(sizes, ", ")),
         "], error ", static_cast<int>(result));
  EncodedMap words;
  static_assert(sizeof words == sizeof encoded);
  std::memcpy(&words, &encoded, sizeof words);
  return words;
}

}  // namespace nixie::cuda

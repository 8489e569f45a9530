// Exchange: another program's memory as a Tensor, and a Tensor's memory for another program, without a copy.
#pragma once

#include <functional>

#include "nixie/core/graph/backend.h"
#include "nixie/core/graph/dlpack.h"
#include "nixie/core/graph/tensor.h"

namespace nixie {

/// A stored Tensor whose elements are the caller's: dense, row-major, bools as 0 and 1, in the backend's kind of
/// memory. `stream` is the caller's (a cudaStream_t; null is the default stream; the CPU has none): the backend's later
/// work waits for the work given to it so far. The elements must not change while the Tensor or anything computed from
/// it may still be evaluated; when the last of them is destroyed, `release` is called (it must not throw), and the
/// stream's later work waits for ours. The backend must outlive the Tensor: reading it later throws, and `release` then
/// waits for nothing. Throws if the address is not aligned as the kernels need.
Tensor wrap(void* memory, const Shape& shape, Dtype dtype, Backend& backend, void* stream = nullptr,
            std::function<void()> release = {});

/// The same for a DLPack array, which the Tensor then owns and releases. Throws, and leaves the array to the caller, if
/// it is not dense and row-major, is on another device, or has a type that nixie does not support.
Tensor from_dlpack(dlpack::Managed* array, Backend& backend, void* stream = nullptr);

/// A stored Tensor's memory on the backend, read-only; the receiver calls its `release`. Later work on `stream` sees
/// the elements. A Variable's value may be exported: Steps then do not overwrite that memory.
dlpack::Managed* to_dlpack(const Tensor& value, Backend& backend, void* stream = nullptr);

}  // namespace nixie

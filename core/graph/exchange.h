// Exchange: another program's memory as a Tensor, and a Tensor's memory for another program; nothing is copied.
#pragma once

#include <functional>

#include "nixie/core/graph/backend.h"
#include "nixie/core/graph/dlpack.h"
#include "nixie/core/graph/tensor.h"

namespace nixie {

/// A stored Tensor whose elements are the caller's: dense, row-major, in the backend's kind of memory. `stream` is the
/// caller's (a cudaStream_t; null is the default stream; the CPU has none): what it was given so far comes before all
/// that the backend does from here on. The elements must not change while the Tensor or anything computed from it may
/// still be evaluated; when the last of them goes, `release` is called, and the stream's later work comes after ours.
/// The backend must outlive the Tensor. Throws where the address is not a multiple of what the kernels need.
Tensor wrap(void* memory, const Shape& shape, Dtype dtype, Backend& backend, void* stream = nullptr,
            std::function<void()> release = {});

/// The same for an array of DLPack, which is taken over: it is released with the Tensor. Throws, and leaves it to the
/// caller, when it is not dense and row-major, lies on another device, or has a type that nixie has not.
Tensor from_dlpack(dlpack::Managed* array, Backend& backend, void* stream = nullptr);

/// A stored Tensor's memory on the backend, to be read only; whoever gets it calls its `release`. Work that `stream` is
/// given from here on sees the elements. A Variable's value may be handed out: Steps then leave that memory alone.
dlpack::Managed* to_dlpack(const Tensor& value, Backend& backend, void* stream = nullptr);

}  // namespace nixie

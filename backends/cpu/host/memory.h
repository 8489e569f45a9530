// Host memory of the CPU backend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nixie/core/graph/backend.h"

namespace nixie::cpu {

/// From here on this process gets no more than free_memory_bytes() less `spare`: it finds no memory where it would take
/// what others use.
void limit_to_free_bytes(std::int64_t spare);

/// Memory aligned to cache lines, in huge pages where it is large; uninitialised.
class HostBuffer final : public Buffer {
 public:
  /// Throws Fault::memory when there is not enough.
  explicit HostBuffer(std::int64_t size_bytes);
  ~HostBuffer() override;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* address() override { return data_; }
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
};

}  // namespace nixie::cpu

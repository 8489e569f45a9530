// Staging: copies host arrays to the device while it computes.
#pragma once

#include <cstdint>
#include <vector>

#include "nixie/backends/cuda/device/handle.h"

namespace nixie::cuda {

/// Pieces of page-locked host memory, each with as much device memory. A copy crosses the bus on its own stream,
/// concurrently with kernels, and is then copied to its destination in stream order.
class Staging {
 public:
  /// Returns when `from` may be reused; work put on `stream` afterwards sees the bytes in `to`.
  void copy(const void* from, void* to, std::int64_t size_bytes, cudaStream_t stream);

 private:
  static constexpr std::int64_t kPieceBytes = 8 << 20;
  static constexpr std::size_t kMostPieces = 16;
  struct Piece {
    Handle<void*, cudaFreeHost> host;
    Handle<void*, cudaFree> device;
    Event crossed;  // the bytes are in the device's copy
    Event placed;   // the bytes are at their destination
  };
  Piece& free_piece();

  Stream bus_;
  std::vector<Piece> pieces_;
  std::size_t oldest_ = 0;
};

}  // namespace nixie::cuda

// Copies through staging memory.
#include "nixie/backends/cuda/device/staging.h"

#include <algorithm>
#include <cstring>

namespace nixie::cuda {

Staging::Piece& Staging::free_piece() {
  for (Piece& piece : pieces_)
    if (cudaEventQuery(piece.placed) == cudaSuccess) return piece;
  if (pieces_.size() == kMostPieces) {
    oldest_ = (oldest_ + 1) % kMostPieces;
    CUDA_CHECK(cudaEventSynchronize(pieces_[oldest_].placed));
    return pieces_[oldest_];
  }
  Piece piece;
  CUDA_CHECK(cudaMallocHost(piece.host.out(), kPieceBytes));
  CUDA_CHECK(cudaMalloc(piece.device.out(), kPieceBytes));
  CUDA_CHECK(cudaEventCreateWithFlags(piece.crossed.out(), cudaEventDisableTiming));
  CUDA_CHECK(cudaEventCreateWithFlags(piece.placed.out(), cudaEventDisableTiming));
  return pieces_.emplace_back(std::move(piece));
}

void Staging::copy(const void* from, void* to, std::int64_t size_bytes, cudaStream_t stream) {
  if (!bus_) CUDA_CHECK(cudaStreamCreateWithFlags(bus_.out(), cudaStreamNonBlocking));
  for (std::int64_t done = 0; done < size_bytes; done += kPieceBytes) {
    Piece& piece = free_piece();
    const auto bytes = static_cast<std::size_t>(std::min(kPieceBytes, size_bytes - done));
    std::memcpy(piece.host, static_cast<const char*>(from) + done, bytes);
    CUDA_CHECK(cudaMemcpyAsync(piece.device, piece.host, bytes, cudaMemcpyHostToDevice, bus_));
    CUDA_CHECK(cudaEventRecord(piece.crossed, bus_));
    CUDA_CHECK(cudaStreamWaitEvent(stream, piece.crossed, 0));
    CUDA_CHECK(cudaMemcpyAsync(static_cast<char*>(to) + done, piece.device, bytes, cudaMemcpyDeviceToDevice, stream));
    CUDA_CHECK(cudaEventRecord(piece.placed, stream));
  }
}

}  // namespace nixie::cuda

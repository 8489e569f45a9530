// Scratch: a thread's working memory for contractions, reused from call to call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nixie::cpu {

/// Frees what the calling thread keeps for its next calls.
void release_scratch();

/// A block of bytes, aligned for vectors, on loan from the calling thread's free list; goes back when it ends, on the
/// same thread. A few bytes behind the end may be read.
class ScratchBytes {
 public:
  explicit ScratchBytes(std::int64_t bytes);
  ~ScratchBytes();
  ScratchBytes(const ScratchBytes&) = delete;
  ScratchBytes& operator=(const ScratchBytes&) = delete;

 protected:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Uninitialised room for `count` elements and one vector more.
template <class T>
class Scratch : ScratchBytes {
 public:
  explicit Scratch(std::int64_t count) : ScratchBytes(count * static_cast<std::int64_t>(sizeof(T))) {}
  T* data() const { return reinterpret_cast<T*>(data_); }
};

}  // namespace nixie::cpu

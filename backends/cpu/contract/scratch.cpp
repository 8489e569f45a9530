// Scratch: a small free list per thread, so that a step allocates nothing once it has run.
#include "nixie/backends/cpu/contract/scratch.h"

#include <algorithm>
#include <new>
#include <vector>

namespace nixie::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::int64_t kSlack = 256;  // kernels load whole vectors over the last element
constexpr std::size_t kKept = 8;      // blocks a thread keeps

struct Block {
  std::byte* data;
  std::int64_t bytes;
};

struct FreeList {
  std::vector<Block> blocks;  // ascending by size
  void clear() {
    for (const Block& block : blocks) ::operator delete(block.data, kAlignment);
    blocks.clear();
  }
  ~FreeList() { clear(); }
};

thread_local FreeList free_list;

}  // namespace

void release_scratch() { free_list.clear(); }

ScratchBytes::ScratchBytes(std::int64_t bytes) : bytes_(bytes + kSlack) {
  std::vector<Block>& blocks = free_list.blocks;
  const auto fits = std::find_if(blocks.begin(), blocks.end(), [&](const Block& b) { return b.bytes >= bytes_; });
  // A much larger block stays for someone who needs it.
  if (fits != blocks.end() && fits->bytes <= 4 * bytes_ + 65536) {
    data_ = fits->data;
    bytes_ = fits->bytes;
    blocks.erase(fits);
    return;
  }
  data_ = static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes_), kAlignment));
}

ScratchBytes::~ScratchBytes() {
  std::vector<Block>& blocks = free_list.blocks;
  const auto place = std::find_if(blocks.begin(), blocks.end(), [&](const Block& b) { return b.bytes >= bytes_; });
  blocks.insert(place, Block{data_, bytes_});
  if (blocks.size() > kKept) {  // the smallest is the cheapest to make again
    ::operator delete(blocks.front().data, kAlignment);
    blocks.erase(blocks.begin());
  }
}

}  // namespace nixie::cpu

// A fence costs nothing, but for a copy of what lies outside of the plan's memory (stays_in_place).
#include "nixie/apps/trainer/ranks/fence.h"

#include <cstring>

namespace nixie {
namespace {

class OneRank final : public Communicator {
 public:
  OneRank() : Communicator(0, {"this machine"}) {}
  void all_to_all(const void* from, void* to, std::int64_t bytes) override { copy(from, to, bytes); }
  void all_gather(const void* mine, void* all, std::int64_t bytes) override { copy(mine, all, bytes); }
  void broadcast(void*, std::int64_t, int) override {}

 private:
  static void copy(const void* from, void* to, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
};

bool is_exchanged(Dtype dtype) { return is_floating(dtype) || dtype == Dtype::i32 || dtype == Dtype::i64; }

}  // namespace

const World& own_world() {
  static const World world(std::make_shared<OneRank>());
  return world;
}

Tensor fenced(const Tensor& x) {
  if (is_exchanged(x.dtype())) return all_reduce(own_world(), x);
  return cast(all_reduce(own_world(), cast(x, Dtype::i32)), x.dtype());  // bytes of images
}

}  // namespace nixie

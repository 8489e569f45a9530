// A sum over ranks is a tree as well, so a rank's shards are a subtree.
#include "nixie/apps/trainer/ranks/shards.h"

#include "nixie/apps/trainer/ranks/fence.h"
#include "nixie/configs/parse/places.h"

namespace nixie {

Shards::Shards(const TrainConfig& config, const World& world) : world_(world) {
  if (config.reduction != "ordered") return;
  at_key(config.places, "reduction", [&] {
    const std::int64_t batch = config.data.batch();
    check(kCount % world.size() == 0, "reduction: ordered cuts a batch into ", kCount, " shards, which ", world.size(),
          " ranks cannot share equally; start 1, 2, 4 or 8");
    check(batch % kCount == 0, "reduction: ordered cuts a batch into ", kCount, " shards, but batch is ", batch,
          "; take a multiple of ", kCount);
  });
  of_rank_ = kCount / world.size();
  are_ordered_ = true;
  if (world.is_alone()) world_ = own_world();
}

Tensor Shards::apart(const Tensor& of_shard) const { return are_ordered_ ? fenced(of_shard) : of_shard; }

Tensor Shards::rows(const Tensor& share, std::int64_t shard) const {
  const std::int64_t size = share.shape()[0] / of_rank_;
  return of_rank_ == 1 ? apart(share) : apart(slice(share, {Index::range(shard * size, (shard + 1) * size)}));
}

Tensor Shards::own_sum(std::vector<Tensor> parts) {
  for (std::size_t step = 1; step < parts.size(); step *= 2)
    for (std::size_t i = 0; i + step < parts.size(); i += 2 * step) parts[i] = parts[i] + parts[i + step];
  return parts[0];
}

Tensor Shards::sum(std::vector<Tensor> of_shards) const { return all_reduce(world_, own_sum(std::move(of_shards))); }

Tensor Shards::samples(const std::vector<Tensor>& of_shards) const {
  return all_gather(world_, of_shards.size() == 1 ? of_shards[0] : concat(of_shards, 0));
}

}  // namespace nixie

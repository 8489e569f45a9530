// What ranks exchange: sums of gradients, and under `reduction: ordered` those of a batch's shards, as many on any
// number of ranks, added up by one tree.
#pragma once

#include "nixie/configs/parse/config.h"
#include "nixie/core/graph/precision_policy.h"
#include "nixie/core/graph/world.h"
#include "nixie/core/ops/ops.h"

namespace nixie {

class Shards {
 public:
  static constexpr std::int64_t kCount = 8;  ///< of a batch

  /// The shards of a configuration's batches on these ranks; without `ordered` each rank's share is one. Throws where
  /// the batch or the ranks do not go together with the number of shards.
  Shards(const TrainConfig& config, const World& world);

  /// The ranks that the sums are over. `ordered` lets a process by itself exchange with itself, so that what is
  /// computed of a sum is computed as on several ranks.
  const World& world() const { return world_; }

  bool are_ordered() const { return are_ordered_; }
  std::int64_t of_rank() const { return of_rank_; }
  std::int64_t of_batch() const { return of_rank_ * world_.size(); }
  /// The number in the batch of the rank's shard.
  std::int64_t number(std::int64_t shard) const { return world_.rank() * of_rank_ + shard; }
  /// A value of one shard. No kernel computes it together with values of other shards or of the whole batch. Without
  /// `ordered` it is `of_shard` itself.
  Tensor apart(const Tensor& of_shard) const;
  /// The rows of the rank's shard in values of its share, apart.
  Tensor rows(const Tensor& share, std::int64_t shard) const;
  /// A parameter's slope of one shard, apart. Where it is a product that sums over samples and whose factors are fewer
  /// numbers, those of all shards together, than it has itself (a linear layer's weight), the factors stand for it.
  struct Slope {
    Tensor value;            ///< as it was made
    Tensor factors[2] = {};  ///< [samples, ...]
  };
  Slope slope(const Tensor& of_shard) const;
  /// The sum over all shards of all ranks: that of a tree, or the product of all samples, which each rank computes.
  Tensor sum(const std::vector<Slope>& of_shards) const;
  /// The sum over all shards of all ranks, from that of each of the rank's: neighbours first, so that the order is that
  /// of a tree over the batch's shards.
  Tensor sum(std::vector<Tensor> of_shards) const;
  /// The same of the rank's alone.
  static Tensor own_sum(std::vector<Tensor> of_shards);
  /// All shards' samples, in their order, on each rank.
  Tensor samples(const std::vector<Tensor>& of_shards) const;

 private:
  World world_;
  std::int64_t of_rank_ = 1;
  bool are_ordered_ = false;
};

/// The type in which a parameter's gradient travels: under fp16 and bf16 halves, where it has two axes or more; biases
/// and the like, which are few numbers, stay f32.
Dtype exchanged_dtype(const Tensor& gradient, PrecisionPolicy precision);

/// The sum over the ranks of a parameter's gradient, of its type. As halves, each rank's gradient over the number of
/// ranks is rounded, these are added in f32, and the sum is rounded. What `ordered` runs add up is f32 (Shards::sum),
/// since their sums must not depend on where they are cut.
Tensor gradient_sum(const World& world, const Tensor& gradient, PrecisionPolicy precision);

}  // namespace nixie

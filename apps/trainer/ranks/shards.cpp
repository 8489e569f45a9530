// A sum over ranks is a tree as well, so a rank's shards are a subtree.
#include "nixie/apps/trainer/ranks/shards.h"

#include "nixie/apps/trainer/ranks/fence.h"
#include "nixie/configs/parse/places.h"

namespace nixie {
namespace {

/// The product of matrices that a value is but for transposes; null for others.
const Tensor* matrix_product(const Tensor& x) {
  const Tensor* at = &x;
  while (std::holds_alternative<Permute>(at->node().op)) at = &at->inputs()[0];
  return std::holds_alternative<Matmul>(at->node().op) && at->rank() == 2 ? at : nullptr;
}

/// The same transposes of another product.
Tensor transposed_like(const Tensor& x, const Tensor& product) {
  if (!std::holds_alternative<Permute>(x.node().op)) return product;
  return Tensor::make(x.node().op, {transposed_like(x.inputs()[0], product)}, x.shape(), x.dtype());
}

}  // namespace

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

Shards::Slope Shards::slope(const Tensor& of_shard) const {
  const Tensor* product = are_ordered_ ? matrix_product(of_shard) : nullptr;
  if (product) {
    const Tensor &left = product->inputs()[0], &right = product->inputs()[1];
    const std::int64_t samples = right.shape()[0] * of_batch();
    if (samples * (left.shape()[0] + right.shape()[1]) < product->shape().size())
      return {of_shard, {apart(transpose(left)), apart(right)}};
  }
  return {apart(of_shard)};
}

Tensor Shards::sum(const std::vector<Slope>& of_shards) const {
  const auto parts = [&](const auto& member) {
    std::vector<Tensor> values;
    for (const Slope& slope : of_shards) values.push_back(member(slope));
    return values;
  };
  const Tensor& first = of_shards[0].value;
  if (!of_shards[0].factors[0].has_value()) return sum(parts([](const Slope& slope) { return slope.value; }));
  const Tensor left = samples(parts([](const Slope&slope) { return slope.factors[0]; })),
               right = samples(parts([](const Slope&slope) { return slope.factors[1]; }));
  const Node& product = matrix_product(first)->node();
  return transposed_like(first, Tensor::make(product.op, {transpose(left), right}, product.shape, product.dtype));
}

Tensor Shards::samples(const std::vector<Tensor>& of_shards) const {
  return all_gather(world_, of_shards.size() == 1 ? of_shards[0] : concat(of_shards, 0));
}

}  // namespace nixie

// A sum over ranks is a tree as well, so a rank's shards are a subtree. A mean of gradients has their size, so that f16
// holds it where it holds them.
#include "nixie/apps/trainer/ranks/shards.h"

#include <cstring>

#include "nixie/configs/parse/places.h"

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

/// A process that exchanges with itself.
const World& own_world() {
  static const World world(std::make_shared<OneRank>());
  return world;
}

/// x, as exchanged by a process with itself, which costs nothing but for a copy of what lies outside of the plan's
/// memory (stays_in_place). Exchanges run in the order in which they were made, and no kernel goes beyond one: what is
/// computed from a fenced value and ends in fenced ones shares no kernel with what lies before or behind. So no kernel
/// does the work of two shards, whose sums would then depend on how many a rank has.
Tensor fenced(const Tensor& x) {
  if (is_exchanged(x.dtype())) return all_reduce(own_world(), x);
  return cast(all_reduce(own_world(), cast(x, Dtype::i32)), x.dtype());  // bytes of images
}

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
  const auto factor = [&](std::size_t i) {
    return samples(parts([i](const Slope& slope) { return slope.factors[i]; }));
  };
  const Tensor left = factor(0), right = factor(1);
  const Node& product = matrix_product(first)->node();
  return transposed_like(first, Tensor::make(product.op, {transpose(left), right}, product.shape, product.dtype));
}

Tensor Shards::samples(const std::vector<Tensor>& of_shards) const {
  return all_gather(world_, of_shards.size() == 1 ? of_shards[0] : concat(of_shards, 0));
}

Dtype exchanged_dtype(const Tensor& gradient, PrecisionPolicy precision) {
  if (gradient.rank() < 2 || gradient.dtype() != Dtype::f32) return gradient.dtype();
  if (precision == PrecisionPolicy::fp16) return Dtype::f16;
  return precision == PrecisionPolicy::bf16 ? Dtype::bf16 : Dtype::f32;
}

Tensor gradient_sum(const World& world, const Tensor& gradient, PrecisionPolicy precision) {
  const Dtype dtype = exchanged_dtype(gradient, precision);
  if (world.is_alone() || dtype == gradient.dtype()) return all_reduce(world, gradient);
  const double ranks = world.size();
  return cast(all_reduce(world, cast(gradient * (1 / ranks), dtype)), gradient.dtype()) * ranks;
}

}  // namespace nixie

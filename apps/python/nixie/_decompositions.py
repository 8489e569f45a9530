"""Ops of torch in terms of others, where torch has none for them or loses digits; random numbers by a seed."""

import math

import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.library import custom_op

from . import _attention

aten = torch.ops.aten


# ---- random numbers: torch draws a seed, nixie the rest ----
@custom_op("nixie::drawn", mutates_args=())
def _drawn_by_seed(sizes: list[int], kind: str, seed: torch.Tensor, stream: int) -> torch.Tensor:
    """f32 of kind "uniform", in [0, 1), or "normal"."""
    return (torch.randn if kind == "normal" else torch.rand)(sizes, device=seed.device)


@_drawn_by_seed.register_fake
def _(sizes, kind, seed, stream):
    return torch.empty(sizes, device=seed.device)


def _drawn(sizes, device, kind="uniform"):
    return torch.ops.nixie.drawn(list(sizes), kind, aten.randint.low(0, 2**31 - 1, [], dtype=torch.int32, device=device), 0)


def _uniform(sizes, dtype, device):
    """Numbers in [0, 1), also as halves, which would round the largest ones to 1."""
    u, bits = _drawn(sizes, device), {torch.float16: 11, torch.bfloat16: 8}.get(dtype)
    return (u if bits is None else torch.floor(u * 2**bits) / 2**bits).to(dtype)


def _as(draw):
    """A draw in the form of an op: like a tensor or of sizes. Numbers of f64, and those by a generator, are torch's."""

    def drawn(like, *args, dtype=None, device=None, generator=None, layout=None, pin_memory=None, memory_format=None, **options):
        is_tensor = isinstance(like, torch.Tensor)
        dtype, device = dtype or (like.dtype if is_tensor else torch.get_default_dtype()), device or (like.device if is_tensor else "cpu")
        if generator is not None or dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return NotImplemented
        return draw(like.shape if is_tensor else like, dtype, device, *args, **options)

    return drawn


def _normal(sizes, dtype, device, mean=0.0, std=1.0):
    return (_drawn(sizes, device, "normal") * std + mean).to(dtype)


def _exponential(sizes, dtype, device, rate=1.0):
    return (-_drawn(sizes, device).clamp(min=2.0**-25).log() / rate).to(dtype)  # never 0, never infinite


def _bernoulli(x, p=None, generator=None):
    return NotImplemented if generator is not None else (_drawn(x.shape, x.device) < (x if p is None else p)).to(x.dtype)


def _dropout(x, p, train):
    if not train or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    is_kept = _drawn(x.shape, x.device) >= p
    return torch.where(is_kept, x / (1 - p) if p < 1 else 0.0, 0.0).to(x.dtype), is_kept


def _rrelu(x, noise, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    if generator is not None:
        return NotImplemented
    slope = lower + (upper - lower) * _drawn(x.shape, x.device).to(x.dtype) if training else torch.full_like(x, (lower + upper) / 2)
    return torch.where(x <= 0, slope * x, x), torch.where(x <= 0, slope, 1.0)


# ---- distances ----
def _sizes(difference, p):
    return difference.abs().amax(-1) if p == math.inf else torch.linalg.vector_norm(difference, p, -1)


def _distances(a, b, p, mode=None):
    return _sizes(a.unsqueeze(-2) - b.unsqueeze(-3), p)


def _slope(difference, distances, p):
    """How distances change with differences; 0 where these are 0."""
    if p == math.inf:
        return difference.sign() * (difference.abs() == distances)
    return torch.where(difference == 0, 0.0, difference.sign() * (difference.abs() / distances) ** (p - 1)) if p else torch.zeros_like(difference)


def _distances_gradient(g, a, b, p, distances):
    return (_slope(a.unsqueeze(-2) - b.unsqueeze(-3), distances.unsqueeze(-1), p) * g.unsqueeze(-1)).sum(-2)


def _of_pairs(x):
    i, j = torch.triu_indices(x.size(0), x.size(0), 1, device=x.device)
    return i, j, x[i] - x[j]


def _pair_distances(x, p=2.0):
    return _sizes(_of_pairs(x)[2], p)


def _pair_distances_gradient(g, x, p, distances):
    i, j, difference = _of_pairs(x)
    slope = _slope(difference, distances.unsqueeze(-1), p) * g.unsqueeze(-1)
    return torch.zeros_like(x).index_add(0, i, slope).index_add(0, j, -slope)


# ---- products ----
def _weight_norm_gradient(g, v, scale, norms, axis):
    axes = [each for each in range(v.dim()) if each != axis]
    of_scale = (g * v).sum(axes, keepdim=True) / norms
    return (scale / norms * (g - v * (of_scale / norms))).to(v.dtype), of_scale.to(scale.dtype)


def _trilinear(a, b, c, expand_a, expand_b, expand_c, axes, unroll_dim=1):
    def expanded(x, new):
        for axis in sorted(new):
            x = x.unsqueeze(axis)
        return x

    return (expanded(a, expand_a) * expanded(b, expand_b) * expanded(c, expand_c)).sum(axes)


def _sum_of_products(x, a, b, beta=1, alpha=1):
    return beta * x + alpha * (a @ b).sum(0)


# ---- bags of embeddings ----
MEAN, LARGEST = 1, 2


def _bags(weight, indices, offsets, by_frequency=False, mode=0, is_sparse=False, factors=None, has_end=False, padding=-1):
    """The sum or mean of each bag, the bag of each index, and twice the sizes of bags, of which the second is for the largest."""
    if mode == LARGEST or is_sparse or by_frequency:
        return NotImplemented
    offsets = offsets[:-1] if has_end else offsets
    bags = torch.searchsorted(offsets, torch.arange(indices.size(0), dtype=offsets.dtype, device=offsets.device), right=True) - 1
    counts = indices != padding
    sizes = torch.zeros_like(offsets).index_add(0, bags, counts.to(offsets.dtype))
    rows = weight[indices] if factors is None else weight[indices] * factors.unsqueeze(1)
    sums = weight.new_zeros(offsets.size(0), weight.size(1)).index_add(0, bags, torch.where(counts.unsqueeze(1), rows, 0.0))
    return sums / sizes.clamp(min=1).unsqueeze(1) if mode == MEAN else sums, bags.to(indices.dtype), sizes, sizes


def _bags_gradient(g, indices, offsets, bags, sizes, largest, count, by_frequency, mode, is_sparse, factors, padding=-1):
    if mode == LARGEST or is_sparse or by_frequency:
        return NotImplemented
    g = (g / sizes.clamp(min=1).unsqueeze(1) if mode == MEAN else g)[bags]
    g = g if factors is None else g * factors.unsqueeze(1)
    return g.new_zeros(count, g.size(1)).index_add(0, indices, torch.where((indices != padding).unsqueeze(1), g, 0.0))


def _factors_gradient(g, weight, indices, offsets, bags, mode, padding=-1):
    return torch.where(indices != padding, (g[bags] * weight[indices]).sum(1), 0.0)


# ---- lists of tensors ----
def _for_each(function):
    def called(*args, **options):
        count = next(len(each) for each in args if isinstance(each, (list, tuple)))
        return [function(*(each[i] if isinstance(each, (list, tuple)) else each for each in args), **options) for i in range(count)]

    return called


_OF_LISTS = {**{name: getattr(torch, name) for name in "add sub mul div pow maximum minimum clamp_min clamp_max neg abs sign sqrt rsqrt reciprocal exp log lerp".split()},
             "addcmul": lambda x, a, b, value=1: x + value * a * b, "addcdiv": lambda x, a, b, value=1: x + value * (a / b), "norm": torch.linalg.vector_norm}


TABLE = {**core_aten_decompositions(), **get_decompositions([aten.addmv, aten.rrelu_with_noise_backward])}
TABLE.pop(aten.native_batch_norm_backward.default, None)  # one kernel from the whole, several from its parts
TABLE.update(_attention.DECOMPOSITIONS)
TABLE.update({
    aten.rand.default: _as(_uniform), aten.rand_like.default: _as(_uniform),
    aten.randn.default: _as(_normal), aten.randn_like.default: _as(_normal), aten.normal_functional.default: _as(_normal),
    aten.exponential.default: _as(_exponential), aten.bernoulli.default: _bernoulli, aten.bernoulli.p: _bernoulli,
    aten.native_dropout.default: _dropout, aten.rrelu_with_noise_functional.default: _rrelu,
    aten._cdist_forward.default: _distances, aten._cdist_backward.default: _distances_gradient,
    aten._pdist_forward.default: _pair_distances, aten._pdist_backward.default: _pair_distances_gradient,
    aten._weight_norm_interface_backward.default: _weight_norm_gradient, aten.addbmm.default: _sum_of_products, aten._trilinear.default: _trilinear,
    aten._embedding_bag.default: _bags, aten._embedding_bag_backward.default: _bags_gradient, aten._embedding_bag_per_sample_weights_backward.default: _factors_gradient,
})
for _name, _function in _OF_LISTS.items():
    _op = getattr(aten, f"_foreach_{_name}")
    TABLE.update({getattr(_op, overload): _for_each(_function) for overload in _op.overloads() if not overload.endswith("out")})

"""The ops of core aten that take elements from positions or put them there: indexing, parts of axes, gather and scatter, order."""

import functools
import math

import nixie as nx

from ._aten import OPS, gradients_of, op, slice_of


def _is_row_major(sizes, strides):
    expected = 1
    for size, stride in reversed(list(zip(sizes, strides))):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _numbers(x, axis):
    """0, 1, ... along an axis, of a shape that broadcasts to x's."""
    return nx._core.coordinate([size if each == axis % x.ndim else 1 for each, size in enumerate(x.shape)], axis % x.ndim, x.device)


def _put(x, read, values, scatter=nx._core.scatter):
    """x with values in place of the elements that `read` takes from it."""
    positions = read(nx.reshape(nx.arange(x.size, device=x.device), x.shape))
    values = nx.reshape(nx.broadcast_to(values, positions.shape), (-1,))
    return nx.reshape(scatter(nx.reshape(x, (-1,)), nx.reshape(positions, (-1,)), values.astype(x.dtype), 0), x.shape)


def _add(x, read, values):
    """x with values added to the elements that `read` takes from it, as often as it takes them."""
    if nx.isdtype(x.dtype, "real floating"):  # a row that is taken as a whole is added as a whole
        return x + gradients_of(read, values, x)[0]
    return _put(x, read, values, lambda x, positions, values, axis: x + nx._core.scatter_add(list(x.shape), positions, values, axis))


# ---- indexing ----
def _masks(node):
    return [each.meta["val"] for each in node.args[1] if each is not None and each.meta["val"].dtype.itemsize == 1]


def _indexed(x, indices):
    return x[tuple(slice(None) if each is None else each for each in indices)]


op("index.Tensor", when=lambda node: not _masks(node))(_indexed)


def _puts(node):
    """Whether a list of indices has no masks, or is one mask, for whose elements there is one value."""
    x, indices, values, *accumulate = node.args
    masks = _masks(node)
    return not masks or len(indices) == 1 and not any(accumulate) and values.meta["val"].dim() <= x.meta["val"].dim() - masks[0].dim()


@op("index_put.default", when=_puts)
def index_put(x, indices, values, accumulate=False):
    arrays = {axis: each for axis, each in enumerate(indices) if each is not None}
    axis, each = next(iter(arrays.items()))
    if each.dtype == nx.bool:
        return nx.where(nx.reshape(each, each.shape + (1,) * (x.ndim - each.ndim)), values, x)
    if not accumulate and len(arrays) == 1:
        return nx._core.scatter(x, each, values, axis)
    return (_add if accumulate else _put)(x, lambda x: _indexed(x, indices), values)


@op("put.default")
def put(x, indices, values, accumulate=False):
    return (_add if accumulate else _put)(x, lambda x: nx.take(x, indices), values)


@op("index_select.default")
def index_select(x, axis, indices):
    return nx.take(x, nx.reshape(indices, (-1,)), axis=axis)


@op("embedding.default")
def embedding(weight, indices, padding_index=-1, scales_gradient=False, is_sparse=False):
    return weight[indices]


@op("masked_scatter.default", when=lambda node: node.args[2].meta["val"].numel() > 0)
def masked_scatter(x, mask, values):
    mask = nx.broadcast_to(mask, x.shape)
    counts = nx.cumulative_sum(nx.reshape(mask, (-1,)).astype("int32"), axis=0)
    return nx.where(mask, nx.reshape(nx.take(values, nx.maximum(counts - 1, 0)), x.shape), x)


@op("masked_scatter_backward.default", when=lambda node: node.meta["val"].numel() > 0)
def masked_scatter_backward(g, mask, sizes):
    return gradients_of(lambda values: masked_scatter(g, mask, values), g, nx.zeros(tuple(sizes), dtype=g.dtype, device=g.device))[0]


# ---- parts of axes ----
def _on_diagonal(x, offset, a, b):
    """x with two axes as the last one, the range of this that is their diagonal, and the order that the axes had."""
    order = [axis for axis in range(x.ndim) if axis not in (a % x.ndim, b % x.ndim)] + [a % x.ndim, b % x.ndim]
    x = nx.permute_dims(x, tuple(order))
    rows, columns = x.shape[-2:]
    count, first = min(rows + min(offset, 0), columns - max(offset, 0)), max(offset, -offset * columns)
    along = slice(first, first + (count - 1) * (columns + 1) + 1, columns + 1) if count > 0 else slice(0, 0, 1)
    return nx.reshape(x, (*x.shape[:-2], rows * columns)), along, order


@op("diagonal.default")
def diagonal(x, offset=0, a=0, b=1):
    flat, along, _ = _on_diagonal(x, offset, a, b)
    return flat[..., along]


@op("diagonal_scatter.default")
def diagonal_scatter(x, values, offset=0, a=0, b=1):
    flat, along, order = _on_diagonal(x, offset, a, b)
    changed = nx._core.update(flat, [*[slice(None)] * (flat.ndim - 1), along], values)
    return nx.permute_dims(nx.reshape(changed, tuple(x.shape[axis] for axis in order)), tuple(order.index(axis) for axis in range(x.ndim)))


@op("unfold.default")
def unfold(x, axis, size, step):
    axis %= x.ndim
    starts = nx.arange((x.shape[axis] - size) // step + 1, device=x.device) * step
    return nx.moveaxis(nx.take(x, nx.expand_dims(starts, 1) + nx.arange(size, device=x.device), axis=axis), axis + 1, -1)


def _is_dense(node):
    x = node.args[0].meta["val"]
    return x.storage_offset() == 0 and _is_row_major(x.shape, x.stride())


def _strided(x, sizes, strides, start):
    flat = nx.reshape(x, (-1,))
    if _is_row_major(sizes, strides):
        return nx.reshape(flat[start or 0 : (start or 0) + math.prod(sizes)], tuple(sizes))
    positions = nx.full((), start or 0, dtype=nx.int32, device=x.device)
    for axis, stride in enumerate(strides):
        positions = positions + stride * nx._core.coordinate(list(sizes), axis, x.device)
    return nx.take(flat, positions)


@op("as_strided.default", when=_is_dense)
def as_strided(x, sizes, strides, start=0):
    return _strided(x, sizes, strides, start)


@op("as_strided_scatter.default", when=_is_dense)
def as_strided_scatter(x, values, sizes, strides, start=0):
    return nx.reshape(values, x.shape) if values.size == x.size and _is_row_major(sizes, strides) else _put(x, lambda x: _strided(x, sizes, strides, start), values)


# ---- gather and scatter ----
@op("gather.default", when=lambda node: not node.kwargs.get("sparse_grad"))
def gather(x, axis, indices, sparse_grad=False):
    places = tuple(slice(0, size) if each != axis % x.ndim else slice(None) for each, size in enumerate(indices.shape))
    return nx.take_along_axis(x[places], indices, axis=axis)


def _scattered(indices, values):
    """Those of the values that have an index."""
    return values[tuple(slice(0, size) for size in indices.shape)] if hasattr(values, "shape") else values


@op("scatter.value", "scatter.src")
def scatter(x, axis, indices, values):
    values = _scattered(indices, values)
    if indices.shape == tuple(1 if each == axis % x.ndim else size for each, size in enumerate(x.shape)):
        return nx.where(_numbers(x, axis) == indices, values, x)
    return _put(x, lambda x: gather(x, axis, indices), values)


@op("scatter_add.default")
def scatter_add(x, axis, indices, values):
    return _add(x, lambda x: gather(x, axis, indices), _scattered(indices, values))


@op("scatter_reduce.two")
def scatter_reduce(x, axis, indices, values, kind, include_self=True):
    def read(x):
        return gather(x, axis, indices)

    values = _scattered(indices, values)
    if not include_self:
        x = _put(x, read, {"sum": 0, "mean": 0, "prod": 1}.get(kind, values))
    if kind in ("sum", "mean"):
        sums = _add(x, read, values)
        counts = _add(nx.full_like(x, int(include_self)), read, nx.ones(indices.shape, dtype=x.dtype, device=x.device))
        divide = nx.divide if nx.isdtype(x.dtype, "real floating") else nx.floor_divide
        return sums if kind == "sum" else divide(sums, nx.maximum(counts, 1))
    return _put(x, read, values, {"prod": nx._core.scatter_mul, "amax": nx._core.scatter_max, "amin": nx._core.scatter_min}[kind])


# ---- order ----
@op("sort.default")
def sort(x, axis=-1, descending=False):
    order = nx.argsort(x, axis=axis, descending=descending)
    return nx.take_along_axis(x, order, axis=axis), order


@op("sort.stable")
def stable_sort(x, stable=None, dim=-1, descending=False):
    return sort(x, dim, descending)


@op("topk.default")
def topk(x, count, axis=-1, largest=True, is_sorted=True):
    return tuple(slice_of(each, axis, 0, count) for each in sort(x, axis, largest))


def _ordered(x, axis, place, keepdims):
    """The element at a place, or at one of each row, of the order along an axis, and its position."""
    order = nx.argsort(x, axis=axis)
    shape = tuple(1 if each == axis % x.ndim else size for each, size in enumerate(x.shape))
    position = nx.take_along_axis(order, nx.broadcast_to(place, shape).astype("int32"), axis=axis)
    found = nx.take_along_axis(x, position, axis=axis), position
    return found if keepdims else tuple(nx.squeeze(each, axis) for each in found)


@op("kthvalue.default")
def kthvalue(x, k, axis=-1, keepdims=False):
    return _ordered(x, axis, k - 1, keepdims)


@op("median.dim")
def median(x, axis, keepdims=False):
    size = x.shape[axis]
    return _ordered(x, axis, nx.where(nx.any(nx.isnan(x), axis=axis, keepdims=True), size - 1, (size - 1) // 2), keepdims)  # NaNs come last


@op("nanmedian.dim")
def nanmedian(x, axis, keepdims=False):
    count = nx.sum((~nx.isnan(x)).astype("int32"), axis=axis, keepdims=True)
    return _ordered(x, axis, nx.floor_divide(nx.maximum(count - 1, 0), 2), keepdims)


op("median.default")(lambda x: median(nx.reshape(x, (-1,)), 0)[0])
op("nanmedian.default")(lambda x: nanmedian(nx.reshape(x, (-1,)), 0)[0])


def _declare_scan(name, scan):
    @op(f"{name}.default")
    def scanned(x, axis):
        values = scan(x, axis)
        return values, nx._core.cummax(nx.where((x == values) | (x != x), _numbers(x, axis), 0), axis)


_declare_scan("cummax", nx._core.cummax)
_declare_scan("cummin", nx._core.cummin)


@op("searchsorted.Tensor", when=lambda node: node.args[0].meta["val"].dim() == 1 and not node.kwargs.get("sorter"))
def searchsorted(ordered, x, out_int32=False, right=False, side=None, sorter=None):
    return nx.searchsorted(ordered, x, side="right" if right or side == "right" else "left")


@op("bucketize.Tensor")
def bucketize(x, boundaries, out_int32=False, right=False):
    return searchsorted(boundaries, x, right=right)


# ---- numbers: along axis 0 they are arrays of one element ----
def _with_numbers(function):
    @functools.wraps(function)
    def called(x, *args, **options):
        if x.ndim > 0:
            return function(x, *args, **options)
        found = function(*(nx.expand_dims(each) if isinstance(each, nx.Array) else each for each in (x, *args)), **options)
        return tuple(nx.reshape(each, ()) for each in found) if isinstance(found, tuple) else nx.reshape(found, ())

    return called


for _name in ("_softmax.default _log_softmax.default cumsum.default cumprod.default cummax.default cummin.default sort.default sort.stable topk.default kthvalue.default "
              "median.dim nanmedian.dim gather.default scatter.value scatter.src scatter_add.default scatter_reduce.two index_select.default sum.dim_IntList mean.dim "
              "amax.default amin.default max.dim min.dim argmax.default argmin.default prod.dim_int var.correction var_mean.correction linalg_vector_norm.default "
              "any.dim any.dims all.dim all.dims squeeze.dim squeeze.dims").split():
    OPS[_name] = _with_numbers(OPS[_name])

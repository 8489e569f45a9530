"""Functions of numpy that the Array API lacks."""

import math

from . import _core, linalg
from ._creation import array_of
from ._manipulation import broadcast_to, concat, flip, moveaxis, normal_axis, pad, permute_dims, reshape
from ._reductions import sort
from ._types import finfo, isdtype


def split(x, parts, /, axis=0):
    """The parts of x along an axis: so many equal ones, or those between positions.

    >>> [part.tolist() for part in nixie.split(nixie.arange(5), [2, 3])]
    [[0, 1], [2], [3, 4]]
    """
    x = array_of(x)
    axis = normal_axis(axis, x.ndim, "split")
    size = x.shape[axis]
    if isinstance(parts, int):
        if parts < 1 or size % parts:
            raise ValueError(f"split: an axis of {size} elements has no {parts} equal parts; give positions")
        parts = range(size // parts, size, size // parts) if size else [0] * (parts - 1)
    ends = [0, *parts, size]
    return [_core.slice(x, [slice(None)] * axis + [slice(first, last)]) for first, last in zip(ends, ends[1:])]


def atleast_1d(x, /):
    """x with an axis at least.

    >>> nixie.atleast_1d(3).shape
    (1,)
    """
    x = array_of(x)
    return x if x.ndim > 0 else reshape(x, 1)


def atleast_2d(x, /):
    """x with two axes at least; a vector is a row.

    >>> nixie.atleast_2d([1, 2]).shape
    (1, 2)
    """
    x = array_of(x)
    return x if x.ndim > 1 else reshape(x, (1, -1))


def vstack(arrays, /):
    """Arrays below each other; vectors are rows.

    >>> nixie.vstack([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return concat([atleast_2d(each) for each in arrays])


def hstack(arrays, /):
    """Arrays beside each other: along the second axis, vectors along their only one.

    >>> nixie.hstack([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    arrays = [atleast_1d(each) for each in arrays]
    return concat(arrays, axis=0 if arrays and arrays[0].ndim == 1 else 1)


def ravel(x, /):
    """The elements as a vector.

    >>> nixie.ravel([[1, 2], [3, 4]]).tolist()
    [1, 2, 3, 4]
    """
    return reshape(x, -1)


def transpose(x, /, axes=None):
    """The axes in reverse or in another order.

    >>> nixie.transpose(nixie.zeros((1, 2, 3))).shape
    (3, 2, 1)
    """
    x = array_of(x)
    return permute_dims(x, tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))


def swapaxes(x, first, second, /):
    """x with two axes in each other's place.

    >>> nixie.swapaxes(nixie.zeros((1, 2, 3)), 0, 2).shape
    (3, 2, 1)
    """
    return array_of(x).swapaxes(first, second)


def fliplr(x, /):
    """x with the second axis in reverse order.

    >>> nixie.fliplr([[1, 2]]).tolist()
    [[2, 1]]
    """
    return flip(x, axis=1)


def flipud(x, /):
    """x with the first axis in reverse order.

    >>> nixie.flipud([1, 2]).tolist()
    [2, 1]
    """
    return flip(x, axis=0)


def dot(a, b, /):
    """The product of two numbers, vectors or matrices; of more axes the sums over the last one of a and the last but one of b.

    >>> nixie.dot([1, 2], [3, 4]).item()
    11
    """
    a, b = array_of(a), array_of(b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return a @ b if b.ndim <= 2 else linalg.tensordot(a, b, axes=([-1], [-2]))


def inner(a, b, /):
    """The sums of products over the last axes.

    >>> nixie.inner([1, 2], [3, 4]).item()
    11
    """
    a, b = array_of(a), array_of(b)
    return a * b if a.ndim == 0 or b.ndim == 0 else linalg.tensordot(a, b, axes=([-1], [-1]))


def outer(a, b, /):
    """All products of the elements of two arrays, which are flattened.

    >>> nixie.outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    return linalg.outer(ravel(a), ravel(b))


def kron(a, b, /):
    """The Kronecker product: b times each element of a, in its place.

    >>> nixie.kron([1, 10], [1, 2]).tolist()
    [1, 2, 10, 20]
    """
    a, b = array_of(a), array_of(b)
    rank = max(a.ndim, b.ndim)
    a, b = (reshape(x, (1,) * (rank - x.ndim) + x.shape) for x in (a, b))
    apart = [reshape(x, [size for each in x.shape for size in (each, 1)[::step]]) for x, step in ((a, 1), (b, -1))]
    return reshape(apart[0] * apart[1], [m * n for m, n in zip(a.shape, b.shape)])


def diag(x, /, k=0):
    """The k-th diagonal of a matrix, or a matrix with this one.

    >>> nixie.diag([1, 2], 1).tolist()
    [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    """
    x = array_of(x)
    if x.ndim == 2:
        return linalg.diagonal(x, offset=k)
    if x.ndim != 1:
        raise ValueError(f"diag: an array of shape {x.shape}, expected 1 or 2 axes")
    square = _core.where(_core.eye(x.size, x.size, 0, _core.bool, x.device), reshape(x, (-1, 1)), 0)
    return pad(square, ((max(-k, 0), max(k, 0)), (max(k, 0), max(-k, 0))))


def trace(x, /, offset=0):
    """The sum of the diagonal of the first two axes.

    >>> nixie.trace([[1, 2], [3, 4]]).item()
    5
    """
    x = array_of(x)
    return linalg.trace(moveaxis(x, (0, 1), (-2, -1)), offset=offset)


def ptp(x, /, axis=None):
    """The largest element less the smallest.

    >>> nixie.ptp([1, 5, 3]).item()
    4
    """
    x = array_of(x)
    if x.size == 0:
        raise ValueError("ptp: no elements")
    return x.max(axis) - x.min(axis)


def quantile(x, q, /, axis=None):
    """What the part q, a number from 0 to 1, of the elements is below, between two elements on the line through them.

    >>> nixie.quantile([1.0, 2.0, 4.0], 0.75).item()
    3.0
    """
    if not 0 <= q <= 1:
        raise ValueError(f"quantile: {q}, expected 0 to 1")
    x = array_of(x)
    x = sort(ravel(x) if axis is None else moveaxis(x, axis, 0), axis=0)
    if x.shape[0] == 0:
        raise ValueError("quantile: no elements")
    place = q * (x.shape[0] - 1)
    low, part = int(place), place % 1
    found = x[low] * 1.0 if part == 0 else x[low] * (1 - part) + x[low + 1] * part  # infinity times 0 is NaN
    return _core.where(x[-1] == x[-1], found, math.nan)  # NaN is the largest


def percentile(x, q, /, axis=None):
    """The `quantile` of q percent.

    >>> nixie.percentile([1.0, 2.0, 4.0], 75).item()
    3.0
    """
    return quantile(x, q / 100, axis=axis)


def median(x, /, axis=None):
    """The element in the middle, or the mean of the two there.

    >>> nixie.median([3.0, 1.0, 2.0, 9.0]).item()
    2.5
    """
    return quantile(x, 0.5, axis=axis)


def average(x, /, axis=None, weights=None):
    """The mean, by weights of the shape of x or of the axis.

    >>> nixie.average([1.0, 4.0], weights=[2, 1]).item()
    2.0
    """
    x = array_of(x)
    if weights is None:
        return x.mean(axis)
    weights = array_of(weights)
    if weights.shape != x.shape:
        if axis is None or weights.shape != (x.shape[axis],):
            raise ValueError(f"average: weights of shape {weights.shape} for an array of shape {x.shape} along axis {axis}")
        weights = reshape(weights, [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    weights = broadcast_to(weights, x.shape)
    return (x * weights).sum(axis) / weights.sum(axis)


def nan_to_num(x, /, nan=0.0, posinf=None, neginf=None):
    """x with numbers in place of NaN and infinities: by default 0 and the largest ones.

    >>> nixie.nan_to_num([1.0, math.nan]).tolist()
    [1.0, 0.0]
    """
    x = array_of(x)
    if not isdtype(x.dtype, "real floating"):
        return x
    x = _core.where(x == x, x, nan)
    x = _core.where(x == math.inf, finfo(x.dtype).max if posinf is None else posinf, x)
    return _core.where(x == -math.inf, finfo(x.dtype).min if neginf is None else neginf, x)


def nansum(x, /, axis=None):
    """The sum of the elements that are no NaN.

    >>> nixie.nansum([1.0, math.nan]).item()
    1.0
    """
    x = array_of(x)
    return _core.where(x == x, x, 0).sum(axis)


def nanmean(x, /, axis=None):
    """The mean of the elements that are no NaN.

    >>> nixie.nanmean([1.0, math.nan]).item()
    1.0
    """
    x = array_of(x)
    return _core.where(x == x, x, 0).sum(axis) / (x == x).sum(axis)


def array_equal(a, b, /):
    """Whether shapes and elements are the same: a bool of Python.

    >>> nixie.array_equal([1, 2], [1, 2])
    True
    """
    a, b = array_of(a), array_of(b)
    return a.shape == b.shape and bool((a == b).all())


def interp(x, at, values, /):
    """The line through points (at, values), where `at` rises, at x; beyond its ends the first and the last value.

    >>> nixie.interp([0.5, 3.0], [0.0, 1.0], [10.0, 20.0]).tolist()
    [15.0, 20.0]
    """
    x, at, values = array_of(x), array_of(at), array_of(values)
    shape = x.shape
    if at.ndim != 1 or at.shape != values.shape or at.size < 1:
        raise ValueError(f"interp: points of shapes {at.shape} and {values.shape}, expected two vectors as long")
    last = at.size - 1
    right = _core.maximum(_core.minimum(_core.searchsorted(at, ravel(x), True), last), min(1, last))
    x = _core.maximum(_core.minimum(ravel(x), at[-1]), at[0])
    a, b, low, high = (_core.take(y, i, 0) for y in (at, values) for i in (_core.maximum(right - 1, 0), right))
    part = _core.where(a == b, 0.0, (x - a) / _core.where(a == b, 1, b - a))
    return reshape(low + (high - low) * part, shape)

"""Functions of numpy that the Array API lacks."""

import math

from typing import Any, NamedTuple

from . import _core, linalg
from ._creation import array_of, asarray
from ._elementwise import named
from ._indexing import elements_of, nonzero
from ._manipulation import broadcast_to, concat, expand_dims, flip, moveaxis, normal_axis, pad, permute_dims, reshape, stack
from ._reductions import FUNCTIONS as REDUCTIONS, mean, searchsorted, sort, sum
from ._types import WIDE, finfo, isdtype, result_type, wrapped


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


def array_split(x, parts, /, axis=0):
    """`split` into so many parts, of which the first may be longer by one.

    >>> [part.tolist() for part in nixie.array_split(nixie.arange(3), 2)]
    [[0, 1], [2]]
    """
    x = array_of(x)
    if isinstance(parts, int) and parts > 0:
        short, longer = divmod(x.shape[axis], parts)
        parts = [i * short + min(i, longer) for i in range(1, parts)]
    return split(x, parts, axis)


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


def column_stack(arrays, /):
    """Vectors as the columns of a matrix, beside matrices.

    >>> nixie.column_stack([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    return concat([reshape(each, (-1, 1)) if each.ndim < 2 else each for each in map(array_of, arrays)], axis=1)


def append(x, values, /, axis=None):
    """x and values behind it; without an axis both flattened.

    >>> nixie.append([1, 2], 3).tolist()
    [1, 2, 3]
    """
    return concat([array_of(x), array_of(values)], axis=axis)


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


def diagonal(x, /, offset=0, axis1=0, axis2=1):
    """The elements of two axes at positions i and i + offset, as the last axis.

    >>> nixie.diagonal([[1, 2], [3, 4]], 1).tolist()
    [2]
    """
    return linalg.diagonal(moveaxis(x, (axis1, axis2), (-2, -1)), offset=offset)


def trace(x, /, offset=0, axis1=0, axis2=1):
    """The sum of `diagonal`.

    >>> nixie.trace([[1, 2], [3, 4]]).item()
    5
    """
    return diagonal(x, offset, axis1, axis2).sum(-1)


def ptp(x, /, axis=None):
    """The largest element less the smallest.

    >>> nixie.ptp([1, 5, 3]).item()
    4
    """
    x = array_of(x)
    if x.size == 0:
        raise ValueError("ptp: no elements")
    return x.max(axis) - x.min(axis)


def quantile(x, q, /, axis=None, keepdims=False):
    """What the part q of the elements over axes is below, between two elements on the line through them. q is a number from 0 to 1; of
    several the results are beside each other along a new first axis.

    >>> nixie.quantile([1.0, 2.0, 4.0], [0.5, 0.75]).tolist()
    [2.0, 3.0]
    """
    if not isinstance(q, (int, float)):
        return stack([quantile(x, each, axis, keepdims) for each in array_of(q).tolist()])
    if not 0 <= q <= 1:
        raise ValueError(f"quantile: {q}, expected 0 to 1")
    x = array_of(x)
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = [normal_axis(each, x.ndim, "quantile") for each in axes]
    moved = permute_dims(x, [*axes, *(i for i in range(x.ndim) if i not in axes)])
    count = math.prod(x.shape[i] for i in axes)
    if count == 0:
        raise ValueError("quantile: no elements")
    ordered = sort(reshape(moved, (count, *moved.shape[len(axes) :])), axis=0)
    place = q * (count - 1)
    low, part = int(place), place % 1
    found = ordered[low] * 1.0 if part == 0 else ordered[low] * (1 - part) + ordered[low + 1] * part  # infinity times 0 is NaN
    found = _core.where(ordered[-1] == ordered[-1], found, math.nan)  # NaN is the largest
    return expand_dims(found, sorted(axes)) if keepdims else found


def percentile(x, q, /, axis=None, keepdims=False):
    """The `quantile` of q percent.

    >>> nixie.percentile([1.0, 2.0, 4.0], 75).item()
    3.0
    """
    return quantile(x, (q if isinstance(q, (int, float)) else array_of(q)) / 100, axis, keepdims)


def median(x, /, axis=None, keepdims=False):
    """The element in the middle, or the mean of the two there.

    >>> nixie.median([3.0, 1.0, 2.0, 9.0]).item()
    2.5
    """
    return quantile(x, 0.5, axis, keepdims)


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


def _of_numbers(name, found):
    def reduce(x, /, axis=None, *, keepdims=False):
        x = array_of(x)
        return found(x, x == x, axis, keepdims)

    example = f"nixie.nan{name}([2.0, math.nan]).item()"
    return named(reduce, f"nan{name}", f"`{name}` of the elements that are no NaN.", example, "0.0" if name in ("var", "std") else "2.0")


def _nanvar(x, known, axis, keepdims):
    away = _core.where(known, x - mean(x, axis, keepdims=True, where=known), 0)
    return mean(away * away, axis, keepdims=keepdims, where=known)


def _nan_extreme(name, end):
    def found(x, known, axis, keepdims):
        some = known.any(axis, keepdims=keepdims)
        return _core.where(some, REDUCTIONS[name](x, axis, keepdims=keepdims, where=known, initial=end), math.nan)

    return found


NAN_FUNCTIONS = {f"nan{name}": _of_numbers(name, found) for name, found in {
    "max": _nan_extreme("max", -math.inf),
    "mean": lambda x, known, axis, keepdims: mean(x, axis, keepdims=keepdims, where=known),
    "min": _nan_extreme("min", math.inf),
    "std": lambda *args: _core.sqrt(_nanvar(*args)),
    "sum": lambda x, known, axis, keepdims: sum(x, axis, keepdims=keepdims, where=known),
    "var": _nanvar,
}.items()}


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


def convolve(a, v, /, mode="full"):
    """The sums of products of a with v in reverse, at each place of v beside a: `full` all, `same` as many as the longer has elements,
    `valid` those where all of the shorter lies beside the longer.

    >>> nixie.convolve([1, 2, 3], [0, 1]).tolist()
    [0, 1, 2, 3]
    """
    a, v = array_of(a), array_of(v)
    if a.ndim != 1 or v.ndim != 1 or a.size == 0 or v.size == 0:
        raise ValueError(f"convolve: shapes {a.shape} and {v.shape}, expected two vectors with elements")
    a, v = (a, v) if a.size >= v.size else (v, a)
    ends = {"full": (v.size - 1, v.size - 1), "same": ((v.size - 1) - (v.size - 1) // 2, (v.size - 1) // 2), "valid": (0, 0)}
    if mode not in ends:
        raise ValueError(f"convolve: mode is {mode!r}, expected full, same or valid")
    dtype = result_type(a, v)
    if dtype in WIDE:  # which no convolution has
        a = pad(a, ends[mode])
        shape = [a.size - v.size + 1, v.size]
        return _core.take(a, _core.coordinate(shape, 0, a.device) + _core.coordinate(shape, 1, a.device), 0) @ flip(v)
    image, kernel = (reshape(_core.cast(each, _core.uint8) if dtype == _core.bool else each, (1, 1, 1, -1)) for each in (a, flip(v)))
    image = pad(image, [(0, 0)] * 3 + [ends[mode]])
    found = reshape(_core.conv(image, kernel, [1, 1], [0, 0], [1, 1], 1), -1)
    return wrapped(found, dtype)


def correlate(a, v, /, mode="valid"):
    """The sums of products of a with v at each place of v beside a; modes as those of `convolve`.

    >>> nixie.correlate([1, 2, 3], [0, 1]).tolist()
    [2, 3]
    """
    a, v = array_of(a), array_of(v)
    return convolve(a, flip(v), mode) if a.size >= v.size else flip(convolve(v, flip(a), mode))


def cov(x, /, ddof=1):
    """The covariances of the rows, which are variables, by n - ddof.

    >>> nixie.cov([[1.0, 3.0], [2.0, 6.0]]).tolist()
    [[2.0, 4.0], [4.0, 8.0]]
    """
    x = atleast_2d(x)
    away = x - x.mean(-1, keepdims=True)
    return (away @ away.T / (x.shape[1] - ddof)).squeeze()


def isin(x, values, /):
    """Whether each element is one of `values`.

    >>> nixie.isin([1, 2, 3], [3, 1]).tolist()
    [True, False, True]
    """
    x, values = array_of(x), sort(ravel(values))
    if values.size == 0:
        return x != x
    return _core.take(values, _core.minimum(searchsorted(values, x), values.size - 1), 0) == x


# ---- shapes that depend on values: these look at the elements ----
def argwhere(x, /):
    """The positions of the elements that are not 0, a row for each.

    >>> nixie.argwhere([[0, 5], [7, 0]]).tolist()
    [[0, 1], [1, 0]]
    """
    return stack(nonzero(x), axis=-1)


def flatnonzero(x, /):
    """The positions in the flattened array of the elements that are not 0.

    >>> nixie.flatnonzero([[0, 5], [7, 0]]).tolist()
    [1, 2]
    """
    return nonzero(ravel(x))[0]


def unique(x, /, return_index=False, return_inverse=False, return_counts=False, *, equal_nan=True):
    """The elements in order, each once; after them the positions of their first ones, for each element the position of its equal among
    them, and how often each is there, if asked for.

    >>> nixie.unique([3, 1, 3])
    array([1, 3], dtype=int32)
    """
    import numpy

    x = array_of(x)
    found, first, inverse, counts = numpy.unique(elements_of(x, "unique"), return_index=True, return_inverse=True, return_counts=True, equal_nan=equal_nan)
    positions = [asarray(each, dtype=_core.int32, device=x.device) for each in (first, inverse.reshape(x.shape), counts)]
    values = _core.take(ravel(x), positions[0], 0)
    asked = [each for each, is_asked in zip(positions, (return_index, return_inverse, return_counts)) if is_asked]
    return (values, *asked) if asked else values


class UniqueAll(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    values: Any
    inverse_indices: Any


def unique_all(x, /):
    """`unique` with all that it finds; every NaN is another.

    >>> nixie.unique_all([3, 1, 3]).counts.tolist()
    [1, 2]
    """
    return UniqueAll(*unique(x, True, True, True, equal_nan=False))


def unique_counts(x, /):
    """`unique` with counts; every NaN is another.

    >>> nixie.unique_counts([3, 1, 3]).counts.tolist()
    [1, 2]
    """
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x, /):
    """`unique` with the position of each element's equal; every NaN is another.

    >>> nixie.unique_inverse([3, 1, 3]).inverse_indices.tolist()
    [1, 0, 1]
    """
    return UniqueInverse(*unique(x, return_inverse=True, equal_nan=False))


def unique_values(x, /):
    """`unique`; every NaN is another.

    >>> nixie.unique_values([3, 1, 3]).tolist()
    [1, 3]
    """
    return unique(x, equal_nan=False)

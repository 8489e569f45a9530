"""Functions that make fewer elements of many, and those of their order."""

import math
import operator

from . import _core
from ._creation import array_of
from ._elementwise import named
from ._manipulation import normal_axis
from ._types import as_dtype, isdtype, wrapped


def _sum_type(x, dtype):
    if dtype is not None:
        return as_dtype(dtype)
    if x.dtype == _core.bool or not isdtype(x.dtype, "integral") or x.dtype.itemsize == 8:
        return None  # of bool int64, as the ops have it
    return _core.uint32 if isdtype(x.dtype, "unsigned integer") else _core.int32


def _chosen(x, where, neutral):
    """x with what changes no result in place of the elements that `where` leaves out."""
    x = array_of(x)
    return x if where is None else _core.cast(_core.where(where, x, neutral), x.dtype)


def _accumulate(op, together, neutral):
    def reduce(x, axis, dtype, keepdims, initial, where):
        x = _chosen(x, where, neutral)
        found = plain(x, axis, dtype, keepdims)
        return found if initial is None else _core.cast(together(found, initial), found.dtype)

    def plain(x, axis, dtype, keepdims):
        to = _sum_type(x, dtype)
        return op(x, axis, keepdims) if to is None else wrapped(op(wrapped(x, to), axis, keepdims), to)

    return reduce


_sum, _prod = _accumulate(_core.sum, operator.add, 0), _accumulate(_core.prod, operator.mul, 1)


def sum(x, /, axis=None, *, dtype=None, keepdims=False, initial=None, where=None):
    """The sum over axes, by default over all, of the elements where `where` is true, and of `initial`. Its type is int64 for bool,
    int32 and uint32 for narrower integers, else x's.

    >>> nixie.sum(nixie.array([[1, 2], [3, 4]]), axis=0)
    array([4, 6], dtype=int32)
    """
    return _sum(x, axis, dtype, keepdims, initial, where)


def prod(x, /, axis=None, *, dtype=None, keepdims=False, initial=None, where=None):
    """The product over axes; arguments and its type are those of `sum`.

    >>> nixie.prod(nixie.array([2, 3])).item()
    6
    """
    return _prod(x, axis, dtype, keepdims, initial, where)


def mean(x, /, axis=None, *, dtype=None, keepdims=False, where=None):
    """The mean, of the elements where `where` is true; of integers float32, of nothing NaN. `dtype` is the type to compute in.

    >>> nixie.mean([1.0, 2.0]).item()
    1.5
    """
    x = array_of(x) if dtype is None else _core.cast(x, as_dtype(dtype))
    if where is None:
        return _core.mean(x, axis, keepdims)
    chosen = _core.cast(_core.broadcast_to(where, list(x.shape)), _core.int32)
    return _sum(x, axis, None, keepdims, None, where) / _core.sum(chosen, axis, keepdims)


# name: what it gives over axes, by default over all; an example and its result
TABLE = {
    "all": ("Whether no element is 0.", "[True, False]", "False"),
    "any": ("Whether any element is not 0.", "[False, True]", "True"),
    "argmax": ("The position, int32, of the first largest element; over several axes that in the flattened array.", "[1, 3, 3]", "1"),
    "argmin": ("The position, int32, of the first smallest element; over several axes that in the flattened array.", "[1, 0]", "1"),
    "max": ("The largest element; NaN if there is one.", "[2, 3]", "3"),
    "min": ("The smallest element; NaN if there is one.", "[2, 3]", "2"),
}


def _reduction(name, sentence, elements, result):
    op = getattr(_core, name)

    def position(x, /, axis=None, *, keepdims=False):
        return op(x, axis, keepdims)

    def truth(x, /, axis=None, *, keepdims=False, where=None):
        return op(_chosen(x, where, name == "all"), axis, keepdims)

    def extreme(x, /, axis=None, *, keepdims=False, initial=None, where=None):
        if where is not None and initial is None:
            raise ValueError(f"{name}: `where` may leave out all elements; give `initial`, too")
        x = _chosen(x, where, initial)
        found = op(x, axis, keepdims)
        if initial is not None:
            return _core.cast((_core.maximum if name == "max" else _core.minimum)(found, initial), found.dtype)
        if x.size == 0 and found.size > 0:
            raise ValueError(f"{name}: no elements; give `initial`")
        return found

    reduce = {"argmax": position, "argmin": position, "max": extreme, "min": extreme}.get(name, truth)
    return named(reduce, name, sentence, f"nixie.{name}(nixie.array({elements})).item()", result)


FUNCTIONS = {name: _reduction(name, *row) for name, row in TABLE.items()}


def var(x, /, axis=None, *, dtype=None, correction=0.0, keepdims=False, ddof=0):
    """The mean square distance from the mean, of n elements divided by n - correction; numpy calls that ddof. `dtype` is the type to
    compute in.

    >>> nixie.var(nixie.array([1.0, 3.0]), correction=1).item()
    2.0
    """
    x = array_of(x) if dtype is None else _core.cast(x, as_dtype(dtype))
    found = _core.variance(x, axis, keepdims)
    return found if (by := _corrected(x, found, correction or ddof)) == 1 else found * by


def _corrected(x, found, correction):
    """n / (n - correction), for n elements of x to each one that was found."""
    count = x.size // found.size if found.size else 0
    return 1 if correction == 0 else count / (count - correction) if count > correction else math.nan


def std(x, /, axis=None, *, dtype=None, correction=0.0, keepdims=False, ddof=0):
    """The square root of `var`, whose gradient is 0 where all elements are equal.

    >>> nixie.std(nixie.array([1.0, 3.0])).item()
    1.0
    """
    x = array_of(x) if dtype is None else _core.cast(x, as_dtype(dtype))
    found = _core.stddev(x, axis, keepdims)
    return found if (by := _corrected(x, found, correction or ddof)) == 1 else found * math.sqrt(by)


def count_nonzero(x, /, axis=None, *, keepdims=False):
    """How many elements over axes are not 0, int32.

    >>> nixie.count_nonzero(nixie.array([0, 5])).item()
    1
    """
    return _core.sum(_core.cast(array_of(x) != 0, _core.int32), axis, keepdims)


def _scan(x, axis, initial, dtype, scan, neutral):
    x = array_of(x)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"a cumulative function of an array of shape {x.shape} wants an axis")
        axis = 0
    axis = normal_axis(axis, x.ndim, "cumulative function")
    to = _sum_type(x, dtype)
    result = scan(x, axis) if to is None else wrapped(scan(wrapped(x, to), axis), to)
    if initial:
        shape = list(result.shape[:axis]) + [1] + list(result.shape[axis + 1 :])
        result = _core.concat([_core.full(shape, neutral, result.dtype, x.device), result], axis)
    return result


def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    """The sums of the elements so far along an axis.

    >>> nixie.cumulative_sum(nixie.arange(4))
    array([0, 1, 3, 6], dtype=int32)
    """
    return _scan(x, axis, include_initial, dtype, _core.cumsum, 0)


def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    """The products of the elements so far along an axis.

    >>> nixie.cumulative_prod(nixie.array([1, 2, 3]), include_initial=True)
    array([1, 1, 2, 6], dtype=int32)
    """
    return _scan(x, axis, include_initial, dtype, _core.cumprod, 1)


def cumsum(x, /, axis=None, dtype=None):
    """numpy's `cumulative_sum`: without an axis of the flattened array.

    >>> nixie.cumsum([[1, 2], [3, 4]]).tolist()
    [1, 3, 6, 10]
    """
    x, axis = _along(x, axis)
    return cumulative_sum(x, axis=axis, dtype=dtype)


def cumprod(x, /, axis=None, dtype=None):
    """numpy's `cumulative_prod`: without an axis of the flattened array.

    >>> nixie.cumprod([[1, 2], [3, 4]]).tolist()
    [1, 2, 6, 24]
    """
    x, axis = _along(x, axis)
    return cumulative_prod(x, axis=axis, dtype=dtype)


def diff(x, /, n=1, axis=-1, prepend=None, append=None):
    """Differences of neighbours along an axis, n times.

    >>> nixie.diff(nixie.array([1, 4, 9]))
    array([3, 5], dtype=int32)
    """
    x = array_of(x)
    shape = list(x.shape)
    shape[normal_axis(axis, x.ndim, "diff")] = 1
    ends = [each if each is None or array_of(each).ndim else _core.broadcast_to(each, shape) for each in (prepend, append)]
    return _core.diff(_core.concat([each for each in (ends[0], x, ends[1]) if each is not None], axis), n, axis)


def _along(x, axis):
    """x and an axis; without one the flattened array."""
    return (_core.reshape(x, [-1]), 0) if axis is None else (x, axis)


def sort(x, /, axis=-1, *, descending=False, stable=True):
    """The elements in order along an axis; NaN is larger than every number; without an axis of the flattened array. Always stable.

    >>> nixie.sort(nixie.array([3, 1, 2]))
    array([1, 2, 3], dtype=int32)
    """
    return _core.sort(*_along(x, axis), descending)


def argsort(x, /, axis=-1, *, descending=False, stable=True):
    """The positions, int32, of the elements in order along an axis. Always stable.

    >>> nixie.argsort(nixie.array([3, 1, 2]))
    array([1, 2, 0], dtype=int32)
    """
    return _core.argsort(*_along(x, axis), descending)


def topk(x, k, /, *, axis=-1):
    """The k largest elements along an axis, largest first, and their positions.

    >>> nixie.topk(nixie.array([1, 3, 2]), 2)[0]
    array([3, 2], dtype=int32)
    """
    return _core.topk(x, k, axis)


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where to insert the elements of x2 into x1, which is sorted (or sorted by `sorter`), int32.

    >>> nixie.searchsorted(nixie.array([1, 3]), nixie.array([0, 2, 4]))
    array([0, 1, 2], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is {side!r}, expected 'left' or 'right'")
    if sorter is not None:
        x1 = _core.take(x1, sorter, 0)
    return _core.searchsorted(x1, x2, side == "right")

"""numpy's indexing: x[key], and x[key] = value, which gives the name x a new value."""

import math

from . import _core
from ._core import Array
from ._creation import array_of, asarray
from ._types import fitting, isdtype


def elements_of(x, what):
    """The elements as numpy's, since the shape of a result depends on them."""
    try:
        return x._with_numpy()
    except ValueError:
        if not _core.is_tracing():
            raise
        raise ValueError(f"{what}: the shape depends on values, which exist only while the compiled function runs; use nixie.where") from None


def nonzero(x, /):
    """The positions, int32, of the elements that are not 0: an array for each axis. It looks at the elements.

    >>> nixie.nonzero([0, 5, 7])
    (array([1, 2], dtype=int32),)
    """
    x = array_of(x)
    if x.ndim == 0:
        raise ValueError("nonzero: a number, expected an array with axes")
    return tuple(_core.from_numpy(each, _core.int32, x.device) for each in elements_of(x, "nonzero").nonzero())


def _parts(x, key):
    """The key as a number, a slice or an array for each axis, and None for each new one; and whether arrays come apart."""
    key = [_known_mask(_ours(each)) for each in (key if isinstance(key, tuple) else (key,))]
    used = sum(_axes_of(each) for each in key)
    if used > x.ndim:
        raise IndexError(f"{used} indices for an array of {x.ndim} axes")
    if (ellipses := sum(each is ... for each in key)) > 1:
        raise IndexError("an index has one ... at most")
    at = next((i for i, each in enumerate(key) if each is ...), len(key))
    missing = [slice(None)] * (x.ndim - used)
    key[at : at + ellipses] = missing or [...] * ellipses  # one that stands for no axis keeps arrays apart, too
    axis, parts = 0, []
    for each in key:
        parts += [each] if each is None or each is ... else _positions(x, each, axis) if _is_mask(each) else [_entry(x, each, axis)]
        axis += _axes_of(each)
    return [each for each in parts if each is not ...], _are_apart(parts)


def _ours(each):
    """Arrays that only DLPack reads as ours, or as numpy's where the host knows their values."""
    if isinstance(each, Array) or hasattr(each, "__array_interface__") or not hasattr(each, "__dlpack__"):
        return each
    each = asarray(each)
    return each.numpy() if each.device == "cpu" else each


def _known_mask(each):
    """A mask as numpy's, since the result's shape depends on its values; other parts of a key as they are."""
    if isinstance(each, Array) and each.dtype == _core.bool and each.ndim > 0:
        return elements_of(each, "x[mask]")
    if isinstance(each, (list, tuple)) or hasattr(each, "__array_interface__") and each.ndim > 0:
        import numpy

        array = numpy.asarray(each)
        return array if array.dtype == bool else each
    return each


def _is_mask(each):
    return not isinstance(each, Array) and getattr(each, "dtype", None) == bool and each.ndim > 0


def _axes_of(each):
    return 0 if each is None or each is ... else each.ndim if _is_mask(each) else 1


def _positions(x, mask, axis):
    sizes = x.shape[axis : axis + mask.ndim]
    if not all(size in (own, 0) for size, own in zip(mask.shape, sizes)):  # the standard lets a mask be empty
        raise IndexError(f"a mask of shape {mask.shape} for axes of shape {sizes}")
    return [_core.from_numpy(each, _core.int32, x.device) for each in mask.nonzero()]


def _entry(x, each, axis):
    if isinstance(each, slice):
        return each
    if isinstance(each, (list, tuple)) or hasattr(each, "__array_interface__") and each.ndim > 0:
        return asarray(checked(asarray(each), x.shape[axis]), device=x.device)
    if _is_truth(each):
        raise IndexError("True and False are indices only alone; expected a number, a slice, None, ... or an array")
    if isinstance(each, Array):
        return checked(each, x.shape[axis])
    if hasattr(each, "__index__"):
        return each.__index__()
    raise IndexError(f"a {type(each).__name__} is no index; expected a number, a slice, None, ... or an array of integers")


def checked(indices, size):
    """Indices into an axis, which are looked at where the host has them."""
    if indices.size == 0:
        return _core.cast(indices, _core.int32)
    low, high = _core.known_range(indices) or (0, size - 1)
    if not (-size <= low and high < size):
        raise IndexError(f"index {low if low < -size else high} of an axis of {size} elements")
    return indices


def _sliced(x, key):
    """The view by numbers, slices and None, with arrays taken as whole axes."""
    plain = [slice(None) if isinstance(each, Array) else each for each in key if each is not None]
    try:
        result = _core.slice(x, plain)
    except ValueError as error:
        raise IndexError(str(error)) from None
    place, new = 0, []
    for each in key:
        if each is None:
            new.append(place)
        place += not isinstance(each, int)
    return _core.expand_dims(result, new) if new else result


def _is_truth(key):
    """Whether a key is True or False: a mask of no axes."""
    return isinstance(key, bool) or getattr(key, "dtype", None) == bool and key.ndim == 0


def get(x, key):
    key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if _is_truth(key):
        return get(_core.expand_dims(x, [0]), slice(0, int(elements_of(asarray(key), "x[mask]"))))
    key, are_apart = _parts(x, key)
    result = _sliced(x, key)
    kept = [each for each in key if not isinstance(each, int)]
    arrays = {axis: each for axis, each in enumerate(kept) if isinstance(each, Array)}
    return _taken(result, arrays, are_apart) if arrays else result


def _taken(x, arrays, are_apart):
    """x with arrays of indices along axes, as numpy broadcasts them."""
    for each in arrays.values():
        if not isdtype(each.dtype, "integral"):
            raise IndexError(f"an array of {each.dtype} is no index; expected integers")
    axes = list(arrays)
    if len(axes) == 1 and not are_apart:
        return _core.take(x, arrays[axes[0]], axes[0])
    # Several arrays: one axis in place of theirs, one position in place of their indices.
    sizes = [x.shape[axis] for axis in axes]
    position, outside = 0, False
    for axis, size in zip(axes, sizes):
        index = arrays[axis]
        outside = outside | (index < -size) | (index >= size)
        position = position * size + _core.cast(_core.where(index < 0, index + size, index), _core.int64)
    position = _core.where(outside, math.prod(sizes), position)
    others = [axis for axis in range(x.ndim) if axis not in arrays]
    flat = _core.reshape(_core.permute(x, axes + others), [math.prod(sizes)] + [x.shape[axis] for axis in others])
    result = _core.take(flat, position, 0)
    first = 0 if are_apart else axes[0]
    rank = len(position.shape)
    order = list(range(rank, rank + first)) + list(range(rank)) + list(range(rank + first, len(result.shape)))
    return _core.permute(result, order)


def _are_apart(parts):
    """Whether a slice, ... or None separates arrays and numbers: their axes come first in the result then."""
    places = [i for i, each in enumerate(parts) if isinstance(each, (Array, int))]
    return any(isinstance(each, Array) for each in parts) and places != list(range(places[0], places[-1] + 1))


def set(x, key, value):
    """Binds the handle x to its array with x[key] replaced."""
    value = fitting(value, x.dtype) if isinstance(value, (bool, int, float)) else asarray(value, device=x.device)
    if isinstance(value, Array) and value.dtype != x.dtype:
        if isdtype(value.dtype, "real floating") and not isdtype(x.dtype, "real floating"):
            raise TypeError(f"an array of {x.dtype} cannot hold {value.dtype}; use astype")
        value = _core.cast(value, x.dtype)
    key = asarray(key) if isinstance(key, bool) else _ours(key)
    mask = asarray(key, device=x.device) if hasattr(key, "__array_interface__") or isinstance(key, Array) else None
    if mask is not None and mask.dtype == _core.bool and _rank(value) <= x.ndim - mask.ndim:
        return x._rebind(_masked(x, mask, value))
    parts, _ = _parts(x, key)
    if any(isinstance(each, Array) for each in parts):
        return x._rebind(_scattered(x, key, value))
    plain = [each for each in parts if each is not None]
    if any(each is None for each in parts) and isinstance(value, Array):
        value = _core.reshape(_core.broadcast_to(value, list(_sliced(x, parts).shape)), list(_core.slice(x, plain).shape))
    try:
        x._rebind(_core.update(x, plain, value))
    except ValueError as error:
        raise (IndexError if "position" in str(error) else ValueError)(str(error)) from None


def _rank(value):
    return value.ndim if isinstance(value, Array) else 0


def _masked(x, mask, value):
    if mask.ndim > x.ndim or mask.shape != x.shape[: mask.ndim]:
        raise IndexError(f"a mask of shape {mask.shape} for an array of shape {x.shape}")
    if isinstance(value, Array):
        value = _core.broadcast_to(value, list(x.shape[mask.ndim :]))
    wide = _core.reshape(mask, list(mask.shape) + [1] * (x.ndim - mask.ndim))
    return _core.cast(_core.where(wide, value, x), x.dtype)


def _scattered(x, key, value):
    """Arrays of indices: the positions that x[key] reads, in the flattened array."""
    size = math.prod(x.shape)
    wide = _core.int32 if size < 2**31 else _core.int64
    numbers = _core.cast(_core.coordinate([size], 0, x.device), wide)
    positions = get(_core.reshape(numbers, list(x.shape)), key)
    if not isinstance(value, Array):
        value = _core.full([], value, x.dtype, x.device)
    values = _core.reshape(_core.broadcast_to(value, list(positions.shape)), [-1])
    return _core.reshape(_core.scatter(_core.reshape(x, [-1]), _core.reshape(positions, [-1]), values, 0), list(x.shape))

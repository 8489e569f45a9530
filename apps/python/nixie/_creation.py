"""Arrays from numbers, lists, other libraries' arrays, and from nothing."""

import builtins
import math

from . import _core
from ._core import Array
from ._types import DEFAULTS, FLOAT8, as_dtype, fitting, isdtype


def _device(device):
    return "cpu" if device is None else device


def asarray(obj, /, dtype=None, *, device=None, copy=None):
    """An array of a number, nested lists, or an array of nixie, numpy or another library. Numbers of Python become
    bool, int32 or float32 (int64 or uint64 where int32 is too small), arrays keep their type. What another
    library holds is copied; to share its memory use `from_dlpack`. Raises ValueError where `copy=False` asks for the impossible.

    >>> nixie.asarray([[1, 2], [3, 4]], dtype=nixie.float32)
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    dtype = as_dtype(dtype)
    if isinstance(obj, Array):
        to = obj if device is None else obj.to_device(device)
        if dtype is not None and dtype != obj.dtype:
            to = _core.cast(to, dtype)
        if copy is False and to is not obj and to.dtype != obj.dtype:
            raise ValueError(f"asarray: {obj.dtype} becomes {dtype} only by a copy")
        return +to if copy else to
    if isinstance(obj, complex):
        raise TypeError("asarray: there are no complex numbers here; give real and imaginary parts as two arrays")
    if isinstance(obj, (bool, int, float)) and not hasattr(obj, "dtype"):
        if copy is False:
            raise ValueError("asarray: a number becomes an array only by a copy")
        dtype = _type_of_number(obj) if dtype is None else dtype
        return _core.from_numpy(fitting(obj, dtype), dtype, _device(device))
    if hasattr(obj, "__dlpack__") and not hasattr(obj, "__array_interface__") or copy is False:
        return asarray(_from_dlpack(obj, None, copy is not False, dtype), dtype=dtype, device=device, copy=False if copy is False else None)
    if not hasattr(obj, "__array_interface__"):
        obj, dtype = _numbers(obj, dtype)
    return _core.from_numpy(obj, dtype, _device(device))


def array_of(x):
    """x, or the array of what Python or another library holds."""
    return x if isinstance(x, Array) else asarray(x)


def _type_of_number(*numbers):
    """The type of numbers of one type of Python."""
    if type(numbers[0]) is not int:
        return DEFAULTS[type(numbers[0])]
    low, high = min(numbers), max(numbers)
    return _core.int32 if -(2**31) <= low and high < 2**31 else _core.uint64 if low >= 0 and high >= 2**63 else _core.int64


def _numbers(obj, dtype):
    """Nested lists as an array of numpy, and the type that they become."""
    import numpy

    found = numpy.asarray(obj)
    if found.dtype.kind not in "biuf":
        raise TypeError(f"asarray: a {type(obj).__name__} of {found.dtype} is no array of real numbers")
    if found.dtype.kind == "f" and dtype is not None and isdtype(dtype, "integral") and found.size and abs(found).max() >= 2**53:
        return numpy.asarray(obj, object), dtype  # of whole numbers below 0 and from 2^63 on numpy makes doubles
    if dtype is None and not _has_buffer(obj):
        dtype = _type_of_number(found.min().item(), found.max().item()) if found.size else DEFAULTS[float if found.dtype.kind == "f" else int]
    return found, dtype


def _has_buffer(obj):
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def array(obj, /, dtype=None, *, device=None):
    """A new array, as `asarray(..., copy=True)`.

    >>> nixie.array([1.5, 2.5])
    array([1.5, 2.5], dtype=float32)
    """
    return asarray(obj, dtype=dtype, device=device, copy=True)


def from_dlpack(x, /, *, device=None, copy=None):
    """An array in the memory of another library, by DLPack: CuPy, JAX, numpy, PyTorch. Nothing is copied where the
    elements are dense and of a type that nixie has; they must not change while the array, or one computed from it, is
    in use. Raises BufferError or ValueError where `copy=False` asks for the impossible.

    >>> import numpy
    >>> nixie.from_dlpack(numpy.arange(3.0))
    array([0., 1., 2.], dtype=float64)
    """
    return _from_dlpack(x, device, copy, None)


def _from_dlpack(x, device, copy, dtype):
    """`dtype` is for elements of a type that only numpy has."""
    found = _core.from_dlpack(x, copy, dtype)
    if device is None or device == found.device:
        return found
    if copy is False:
        raise ValueError(f"from_dlpack: an array on {found.device} comes to {device} only by a copy")
    return found.to_device(device)


def full(shape, fill_value, dtype=None, *, device=None):
    """An array of one number.

    >>> nixie.full(3, 7)
    array([7, 7, 7], dtype=int32)
    """
    dtype = as_dtype(dtype)
    if not isinstance(fill_value, (builtins.bool, int, float)):
        fill_value = asarray(fill_value, dtype=dtype)
        return _core.full(shape, fill_value, fill_value.dtype, _device(device))
    dtype = _type_of_number(fill_value) if dtype is None else dtype
    return _core.full(shape, fitting(fill_value, dtype), dtype, _device(device))


def zeros(shape, dtype=None, *, device=None):
    """An array of zeros, float32 by default.

    >>> nixie.zeros(2)
    array([0., 0.], dtype=float32)
    """
    return full(shape, 0, dtype=_core.float32 if dtype is None else dtype, device=device)


def ones(shape, dtype=None, *, device=None):
    """An array of ones, float32 by default.

    >>> nixie.ones((2, 2), dtype=nixie.int8)
    array([[1, 1],
           [1, 1]], dtype=int8)
    """
    return full(shape, 1, dtype=_core.float32 if dtype is None else dtype, device=device)


def empty(shape, dtype=None, *, device=None):
    """An array of zeros: nothing here is left as it was found.

    >>> nixie.empty(2)
    array([0., 0.], dtype=float32)
    """
    return zeros(shape, dtype=dtype, device=device)


def full_like(x, /, fill_value, dtype=None, *, device=None):
    """`full` of the shape, type and device of x.

    >>> nixie.full_like(nixie.zeros(2), 3)
    array([3., 3.], dtype=float32)
    """
    x = array_of(x)
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def zeros_like(x, /, dtype=None, *, device=None):
    """Zeros of the shape, type and device of x.

    >>> nixie.zeros_like(nixie.array([True]))
    array([False], dtype=bool)
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x, /, dtype=None, *, device=None):
    """Ones of the shape, type and device of x.

    >>> nixie.ones_like(nixie.array([5, 6]))
    array([1, 1], dtype=int32)
    """
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x, /, dtype=None, *, device=None):
    """`empty` of the shape, type and device of x.

    >>> nixie.empty_like(nixie.ones(1))
    array([0.], dtype=float32)
    """
    return zeros_like(x, dtype=dtype, device=device)


def _positions(count, start, step, dtype, device):
    whole = isinstance(start, int) and isinstance(step, int)
    steps = _core.cast(_core.coordinate([count], 0, _device(device)), _core.int64 if whole else _core.float64) * step
    if whole and dtype == _core.uint64:  # the start may be beyond int64
        steps = _core.wrapped(steps, dtype)
    return _core.cast(steps + start, dtype)


def arange(start, /, stop=None, step=1, dtype=None, *, device=None):
    """Numbers from start up to, not including, stop: int32 if all are integers (int64 or uint64 where that is too small),
    else float32.

    >>> nixie.arange(1, 10, 3)
    array([1, 4, 7], dtype=int32)
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: the step is 0")
    if all(isinstance(each, int) for each in (start, stop, step)):
        count = max(-((start - stop) // step), 0)
        default = _type_of_number(+start, start + count * step)
    else:
        count, default = max(math.ceil((stop - start) / step), 0), _core.float32
    return _positions(count, start, step, default if dtype is None else as_dtype(dtype), device)


def linspace(start, stop, /, num=50, *, dtype=None, device=None, endpoint=True):
    """`num` numbers from start to stop, which is the last one if `endpoint`.

    >>> nixie.linspace(0, 1, 3)
    array([0. , 0.5, 1. ], dtype=float32)
    """
    dtype = _core.float32 if dtype is None else as_dtype(dtype)
    parts = num - 1 if endpoint else num
    at = _core.cast(_core.coordinate([num], 0, _device(device)), _core.float64)
    if parts == 0:
        return _core.cast(at + start, dtype)
    found = at * ((stop - start) / parts) + start
    return _core.cast(_core.where(at == parts, float(stop), found), dtype)


def eye(n_rows, n_cols=None, /, k=0, dtype=None, *, device=None):
    """Ones on a diagonal, zeros elsewhere.

    >>> nixie.eye(2)
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    n_cols = n_rows if n_cols is None else n_cols
    k = max(-n_rows, min(k, n_cols))  # beyond 64 bits, too
    return _core.eye(n_rows, n_cols, k, _core.float32 if dtype is None else dtype, _device(device))


def tril(x, /, k=0):
    """x with zeros above a diagonal of the last two axes.

    >>> nixie.tril(nixie.ones((2, 2)))
    array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _core.tril(x, k)


def triu(x, /, k=0):
    """x with zeros below a diagonal of the last two axes.

    >>> nixie.triu(nixie.ones((2, 2)))
    array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return _core.triu(x, k)


def meshgrid(*arrays, indexing="xy"):
    """Coordinates of a grid, an array for each axis.

    >>> [x.shape for x in nixie.meshgrid(nixie.arange(2), nixie.arange(3))]
    [(3, 2), (3, 2)]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is {indexing!r}, expected 'xy' or 'ij'")
    arrays = [array_of(each) for each in arrays]
    count = len(arrays)
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[:2] = [1, 0]
    sizes = [0] * count
    for i, each in enumerate(arrays):
        sizes[order[i]] = each.size
    return [_core.broadcast_to(_core.reshape(each, [-1 if axis == order[i] else 1 for axis in range(count)]), sizes)
            for i, each in enumerate(arrays)]

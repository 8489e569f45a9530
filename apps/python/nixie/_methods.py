"""Methods of Array: indexing, numpy, and the functions that numpy has as methods."""

import operator
import sys

from . import _core, _creation, _elementwise, _indexing, _manipulation, _numpy, _reductions
from ._core import Array
from ._types import FLOAT8, as_dtype, astype


def numpy(self):
    """The elements as an array of numpy: read-only, and without a copy where they are in the host's memory. 8-bit floats
    have the types of ml_dtypes where that is installed, else they are bytes.

    >>> nixie.array([1, 2]).numpy()
    array([1, 2], dtype=int32)
    """
    import numpy

    if self.dtype == _core.bfloat16:
        raise TypeError("numpy has no bfloat16; use astype(nixie.float32).numpy()")
    elements = numpy.asarray(memoryview(self.compute()))
    if self.dtype.name not in FLOAT8:
        return elements
    try:
        import ml_dtypes
    except ImportError:
        return elements
    return elements.view(getattr(ml_dtypes, self.dtype.name))


def get(self):
    """A copy of the elements as an array of numpy, by the name that CuPy, PyCUDA and nervanagpu give it.

    >>> nixie.ones(2).get()
    array([1., 1.], dtype=float32)
    """
    return numpy(self).copy()


def __array__(self, dtype=None, copy=None):
    found = numpy(self)
    if dtype is not None and found.dtype != dtype:
        if copy is False:
            raise ValueError(f"an array of {found.dtype} becomes {dtype} only by a copy")
        return found.astype(dtype)
    return found.copy() if copy else found


def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
    """numpy's functions of elements, and its operators with an array of numpy on the left: ours of the same name, or numpy's
    where the result goes into an array of numpy."""
    if out is not None and not any(isinstance(each, Array) for each in out):
        return getattr(ufunc, method)(*(numpy(each) if isinstance(each, Array) else each for each in inputs), out=out, **options)
    name = ufunc.__name__
    inputs = [_creation.asarray(each) if hasattr(each, "__array_interface__") else each for each in inputs]
    if name == "divmod":
        return tuple(function(*inputs) for function in (operator.floordiv, operator.mod))
    ours = getattr(sys.modules["nixie"], name, None)
    if ours is None or method != "__call__" or options or out is not None:
        what = name if method == "__call__" else f"{name}.{method}"
        raise TypeError(f"numpy.{what} takes no array of nixie here; give it x.numpy()")
    return ours(*inputs)


def _with_numpy(self):
    """The elements as numpy holds them: bfloat16 and 8-bit floats as float32."""
    return numpy(astype(self, _core.float32) if self.dtype.name in ("bfloat16", *FLOAT8) else self)


def __repr__(self):
    import numpy

    shape = f", shape={self.shape}" if self.size == 0 and self.shape != (0,) else ""
    return f"array({numpy.array2string(_with_numpy(self), separator=', ', prefix='array(')}{shape}, dtype={self.dtype})"


def tolist(self):
    """The elements as nested lists.

    >>> nixie.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _with_numpy(self).tolist()


def __array_namespace__(self, *, api_version=None):
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"the Array API of version {api_version}; nixie follows 2024.12")
    return sys.modules["nixie"]


def __iter__(self):
    if self.ndim == 0:
        raise TypeError("an array of no axes has nothing to iterate over")
    return (self[i] for i in range(self.shape[0]))


def _restored(elements, dtype, device):
    return _core.from_numpy(elements, dtype, device)


def __reduce__(self):
    return _restored, (_with_numpy(self).copy(), self.dtype.name, self.device)


def _reshape(self, *shape, copy=None):
    return _manipulation.reshape(self, shape[0] if len(shape) == 1 else shape, copy=copy)


def _transpose(self, *axes):
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return _manipulation.permute_dims(self, tuple(order) if order else tuple(range(self.ndim))[::-1])


def _swapaxes(self, first, second):
    order = list(range(self.ndim))
    order[first], order[second] = order[second], order[first]
    return _manipulation.permute_dims(self, order)


def _item(self, *index):
    """One element as a number: of an array of one, or at an index, of one number that in the flattened array."""
    index = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
    return _element(self.reshape(-1)[index] if len(index) == 1 else self[index] if index else self)


def _format(self, form):
    return format(self.item() if form and self.ndim == 0 else self.__str__(), form)


def _in_place(function):
    """What numpy changes in place, by the array's next value."""
    return lambda self, *args, **options: self._rebind(function(self, *args, **options))


def _reducing(name, function):
    def method(self, axis=None, dtype=None, out=None, **options):
        if out is not None:
            raise TypeError(f"{name}: an array is written by `out[...] = {name}(x)`, not by an argument")
        return function(self, axis, **options if dtype is None else {"dtype": dtype, **options})

    method.__name__, method.__doc__ = name, f"nixie.{name}(self, axis), by numpy's arguments."
    return method


_element = Array.item


Array.__doc__ = """An array: its shape, dtype and device, and elements that are computed when somebody looks at them. Made by
`nixie.array` and the other functions; operators, indexing and methods are numpy's. `x[...] = y` and `x += y` give the
array another value; arrays that were made of it stay as they were.

>>> x = nixie.array([1.0, 2.0])
>>> y = x * 2
>>> x[0] = 5
>>> x, y
(array([5., 2.], dtype=float32), array([2., 4.], dtype=float32))
"""

METHODS = {
    "__array__": __array__,
    "__array_namespace__": __array_namespace__,
    "__array_ufunc__": __array_ufunc__,
    "__contains__": lambda self, value: bool(_reductions.FUNCTIONS["any"](self == value)),
    "__divmod__": lambda self, other: (self // other, self % other),
    "__format__": _format,
    "__getitem__": lambda self, key: _indexing.get(self, key),
    "__iter__": __iter__,
    "__pos__": lambda self: _core.alias(self),
    "__rdivmod__": lambda self, other: (other // self, other % self),
    "__reduce__": __reduce__,
    "__repr__": __repr__,
    "__round__": lambda self, digits=None: round(self.item(), digits),
    "__str__": lambda self: str(_with_numpy(self)),
    "_with_numpy": _with_numpy,
    "_set": _indexing.set,
    "T": property(_transpose, doc="The array with its axes in reverse order."),
    "mT": property(_manipulation.matrix_transpose, doc="The array with its last two axes swapped."),
    "astype": lambda self, dtype, copy=True: astype(self, as_dtype(dtype), copy=copy),
    "clip": _elementwise.clip,
    "argsort": _reductions.argsort,
    "conj": lambda self: _core.alias(self),
    "copy": lambda self: _core.alias(self),
    "cumprod": _reductions.cumprod,
    "cumsum": _reductions.cumsum,
    "diagonal": lambda self, offset=0, axis1=0, axis2=1: _numpy.diagonal(self, offset, axis1, axis2),
    "dot": lambda self, other: self @ other,
    "get": get,
    "fill": _in_place(lambda self, value: _creation.full_like(self, value)),
    "flatten": lambda self: _manipulation.reshape(self, -1),
    "item": _item,
    "nonzero": _indexing.nonzero,
    "numpy": numpy,
    "ptp": lambda self, axis=None: _numpy.ptp(self, axis),
    "ravel": lambda self: _manipulation.reshape(self, -1),
    "repeat": _manipulation.repeat,
    "reshape": _reshape,
    "round": _elementwise.round,
    "searchsorted": _reductions.searchsorted,
    "sort": _in_place(_reductions.sort),
    "squeeze": _manipulation.squeeze,
    "swapaxes": _swapaxes,
    "take": lambda self, indices, axis=None: _manipulation.take(self if axis is not None else self.reshape(-1), indices, axis),
    "tolist": tolist,
    "trace": lambda self, offset=0, axis1=0, axis2=1: _numpy.trace(self, offset, axis1, axis2),
    "transpose": _transpose,
}
METHODS |= {name: _reducing(name, getattr(_reductions, name)) for name in ("mean", "prod", "std", "sum", "var")}
METHODS |= {name: _reducing(name, function) for name, function in _reductions.FUNCTIONS.items()}
for _name, _method in METHODS.items():
    setattr(Array, _name, _method)

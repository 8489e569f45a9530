"""CuPy's names: `import nixie.compat.cupy as cp`. Numbers and new arrays are float64 and int64, as CuPy's are.

>>> import nixie.compat.cupy as cp
>>> x = cp.ones((2, 2))
>>> x *= 5
>>> cp.cuda.Stream.null.synchronize()
>>> x.get().tolist()
[[5.0, 5.0], [5.0, 5.0]]
"""

import numpy as _numpy

import nixie as _nixie

from . import DEVICE, Draws as _Draws, to_device as _to_device

ndarray = _nixie.Array


def array(obj, dtype=None, copy=True):
    """An array of what numpy would make of it."""
    return +asarray(obj, dtype) if copy else asarray(obj, dtype)


def asarray(obj, dtype=None):
    return _to_device(obj if isinstance(obj, ndarray) else _numpy.asarray(obj), dtype)


def asnumpy(x):
    return x.get() if isinstance(x, ndarray) else _numpy.asarray(x)


def _made(function, default="float64"):
    def make(*args, dtype=None, **options):
        return function(*args, dtype=default if dtype is None else dtype, device=DEVICE, **options)

    make.__name__ = function.__name__
    return make


empty, eye, linspace, ones, zeros = map(_made, (_nixie.empty, _nixie.eye, _nixie.linspace, _nixie.ones, _nixie.zeros))


def arange(*args, dtype=None):
    return _to_device(_numpy.arange(*args), dtype)


def full(shape, value, dtype=None):
    return _nixie.full(shape, value, dtype=_numpy.asarray(value).dtype if dtype is None else dtype, device=DEVICE)


def dot(a, b):
    return a @ b


class _Random:
    def __init__(self):
        self.seed()

    def seed(self, seed=0):
        self._draws = _Draws(seed)

    def rand(self, *shape):
        return self._draws.uniform(shape).astype("float64")

    def randn(self, *shape):
        return self._draws.normal(shape).astype("float64")

    def random(self, size=()):
        return self.rand(*(size if isinstance(size, tuple) else (size,)))


random = _Random()


class _Stream:
    def synchronize(self):
        _nixie.synchronize()


_Stream.null = _Stream()


class cuda:
    """Streams and devices, as far as programs wait for them."""

    Stream = _Stream

    class Device(_Stream):
        def __init__(self, number=0):
            self.id = number


def __getattr__(name):
    return getattr(_nixie, name)

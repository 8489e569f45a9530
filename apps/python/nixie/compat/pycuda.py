"""PyCUDA's arrays, and scikits.cuda's product of them: `from nixie.compat.pycuda import autoinit, cumath, gpuarray`. What
compiles C (`SourceModule`, `ElementwiseKernel`) is missing.

>>> import numpy
>>> from nixie.compat.pycuda import autoinit, cumath, gpuarray
>>> cumath.exp(gpuarray.to_gpu(numpy.zeros(2))).get()
array([1., 1.])
"""

import time as _time

import nixie as _nixie

from . import DEVICE, Draws as _Draws, to_device as _to_device

_draws = _Draws()


class autoinit:
    """Importing it is all that programs do."""


class gpuarray:
    GPUArray = _nixie.Array
    max, maximum, min, minimum, sum = map(staticmethod, (_nixie.max, _nixie.maximum, _nixie.min, _nixie.minimum, _nixie.sum))

    @staticmethod
    def to_gpu(x):
        return _to_device(x)

    @staticmethod
    def zeros(shape, dtype):
        return _nixie.zeros(shape, dtype=dtype, device=DEVICE)

    empty = zeros

    @staticmethod
    def empty_like(x):
        return _nixie.zeros_like(x)

    zeros_like = empty_like

    @staticmethod
    def dot(a, b):
        return (a * b).sum()


class _Functions:
    """Functions of elements by their names in C: fabs, exp and so on."""

    def __getattr__(self, name):
        return getattr(_nixie, "abs" if name == "fabs" else name)


cumath = _Functions()


class curandom:
    @staticmethod
    def rand(shape, dtype="float32"):
        return _draws.uniform(shape).astype(dtype)


class driver:
    class Context:
        synchronize = staticmethod(_nixie.synchronize)

    class Event:
        """A point in time, when all that was asked for before is done."""

        def record(self, stream=None):
            _nixie.synchronize()
            self.seconds = _time.perf_counter()
            return self

        def synchronize(self):
            return self

        def time_till(self, later):
            return 1e3 * (later.seconds - self.seconds)

        def time_since(self, earlier):
            return earlier.time_till(self)


class linalg:
    """scikits.cuda.linalg, later skcuda.linalg."""

    @staticmethod
    def init():
        pass

    @staticmethod
    def dot(a, b, transa="N", transb="N"):
        return (a if transa in "nN" else a.T) @ (b if transb in "nN" else b.T)

"""gnumpy's names: `import nixie.compat.gnumpy as gnumpy`. Arrays are float32, also those of comparisons: 0 and 1.

>>> import nixie.compat.gnumpy as gnumpy
>>> x = gnumpy.garray([[1.0, -1.0]])
>>> p = gnumpy.dot(x, x.T).logistic()
>>> p.as_numpy_array()
array([[0.880797]], dtype=float32)
"""

import functools as _functools

import nixie as _nixie

from . import Draws as _Draws, to_device as _to_device


class garray(_nixie.Array):
    """An array of float32 of numbers, lists, or another array."""

    def __init__(self, x):
        super().__init__(_to_device(x, "float32"))

    def as_numpy_array(self):
        return self.get()

    asarray = as_numpy_array


def _of_garrays(function):
    """The function, whose arrays become garrays."""

    @_functools.wraps(function)
    def call(*args, **options):
        found = function(*args, **options)
        return garray(found) if isinstance(found, _nixie.Array) and not isinstance(found, garray) else found

    return call


_OPERATORS = "add sub mul truediv pow matmul eq ne lt le gt ge radd rsub rmul rtruediv rpow neg abs getitem"
for _name in [*(f"__{each}__" for each in _OPERATORS.split()), *"sum mean max min std var reshape dot transpose".split()]:
    setattr(garray, _name, _of_garrays(getattr(_nixie.Array, _name)))
for _name in ("exp", "log", "sqrt", "tanh", "abs"):
    setattr(garray, _name, _of_garrays(getattr(_nixie, _name)))
garray.logistic = _of_garrays(_nixie.sigmoid)
garray.T = property(garray.transpose)

_draws = _Draws()


def as_garray(x):
    return x if isinstance(x, garray) else garray(x)


def as_numpy_array(x):
    return x.get() if isinstance(x, _nixie.Array) else x


def seed_rand(seed=0):
    global _draws
    _draws = _Draws(seed)


def _shape(sizes):
    return tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes


def rand(*sizes):
    return garray(_draws.uniform(_shape(sizes)))


def randn(*sizes):
    return garray(_draws.normal(_shape(sizes)))


def zeros(*sizes):
    return garray(_nixie.zeros(_shape(sizes)))


def ones(*sizes):
    return garray(_nixie.ones(_shape(sizes)))


def dot(a, b):
    return as_garray(a) @ as_garray(b)


logistic = _of_garrays(_nixie.sigmoid)


def __getattr__(name):
    return _of_garrays(getattr(_nixie, name))

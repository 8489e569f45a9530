"""The names of other array libraries for programs that were written for them: change the import line, keep the rest.

Arrays are nixie's: they are computed when somebody looks, and those libraries' calls that wait compute them. They are on
the GPU where there is one.
"""

import numpy as _numpy

from .. import _core
from .._creation import asarray
from ..random import normal, uniform

DEVICE = "cuda" if _core.has_device("cuda") else "cpu"


def to_device(x, dtype=None):
    """An array on the device, of a number, lists or an array; the elements are rounded to a type."""
    if dtype is not None and not isinstance(x, _core.Array):
        x = _numpy.asarray(x).astype(_core.dtype_of(dtype).name)
    return asarray(x, dtype=dtype, device=DEVICE)


class Draws:
    """Random numbers from a stream that goes on with each call, as those libraries have it."""

    def __init__(self, seed=0):
        self.seed, self.step = seed, 0

    def _draw(self, function, shape):
        self.step += 1
        step = to_device(self.step, "int32")  # an array, so that all draws of a shape have one plan
        return function(self.seed, shape, step=step, device=DEVICE)

    def uniform(self, shape=()):
        return self._draw(uniform, shape)

    def normal(self, shape=()):
        return self._draw(normal, shape)

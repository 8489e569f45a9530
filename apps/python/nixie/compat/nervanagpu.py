"""nervanagpu's names: `from nixie.compat.nervanagpu import NervanaGPU`. An expression that is assigned is one plan.

>>> from nixie.compat.nervanagpu import NervanaGPU
>>> ng = NervanaGPU(stochastic_round=False)
>>> a = ng.empty((2, 3))
>>> a[:] = ng.rand()
>>> c = ng.empty((2, 2), dtype="float32")
>>> ng.dot(a, a.T, c, relu=True).get().shape
(2, 2)
"""

import nixie as _nixie

from . import DEVICE, Draws as _Draws, to_device as _to_device
from .. import _indexing

_REDUCTIONS = ("argmax", "argmin", "max", "mean", "min", "std", "sum", "var")
_NAMES = {"fabs": "abs", "sgn": "sign", "sig": "sigmoid"}


class _Rand:
    """Random numbers of the shape that they are assigned to."""


class GPUTensor(_nixie.Array):
    """An array that was made by a NervanaGPU, which decides how what is assigned to it is rounded."""

    def __init__(self, x, ng):
        super().__init__(x)
        self.ng = ng

    def __setitem__(self, key, value):
        if isinstance(value, _Rand):
            value = self.ng.draws.uniform(self[key].shape)
        _indexing.set(self, key, self.ng.rounded(value, self.dtype))

    def fill(self, value):
        self[...] = value
        return self


class NervanaGPU:
    """Arrays of `default_dtype`. With `stochastic_round`, a number of bits of the mantissa or True for 10, elements that are assigned
    to 16-bit arrays are rounded to one of their two neighbours, so that their means stay."""

    def __init__(self, stochastic_round=False, default_dtype="float16", seed=0):
        self.mantissa = min(10, 10 if stochastic_round is True else int(stochastic_round))
        self.default_dtype, self.draws = default_dtype, _Draws(seed)

    def rounded(self, value, dtype):
        if not self.mantissa or dtype != _nixie.float16 or not isinstance(value, _nixie.Array):
            return value
        return _nixie.nn.quantized(value, f"e5m{self.mantissa}", self.draws.uniform(value.shape))

    def array(self, x, dtype=None):
        return GPUTensor(_to_device(x, dtype or self.default_dtype), self)

    def empty(self, shape, dtype=None):
        return self.zeros(shape, dtype)

    def zeros(self, shape, dtype=None):
        return GPUTensor(_nixie.zeros(shape, dtype=dtype or self.default_dtype, device=DEVICE), self)

    def ones(self, shape, dtype=None):
        return GPUTensor(_nixie.ones(shape, dtype=dtype or self.default_dtype, device=DEVICE), self)

    def rand(self):
        """Numbers in [0, 1), to assign."""
        return _Rand()

    def dot(self, a, b, c, alpha=1.0, beta=0.0, relu=False):
        """c[:] = alpha * a @ b + beta * c, and where relu is true 0 for what is negative; returns c."""
        product = (a.astype("float32") if self.mantissa else a) @ b
        product = product if alpha == 1 else alpha * product
        product = product if beta == 0 else product + beta * c
        c[...] = _nixie.nn.relu(product) if relu else product
        return c

    def __getattr__(self, name):
        function = getattr(_nixie, _NAMES.get(name, name))
        if name not in _REDUCTIONS:
            return function

        def reduce(x, axis=None, **options):
            return function(x, axis=axis, keepdims=True, **options)

        return reduce

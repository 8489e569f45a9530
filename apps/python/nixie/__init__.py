"""Arrays of nixie for users of numpy: computed when somebody looks, compiled to few kernels, on CPUs and GPUs."""

import math as _math

from . import _core, _methods, linalg, models, nn, random, training
from ._core import Array, Error, __version__, dtype
from ._core import bfloat16, bool, float8_e4m3fn, float8_e5m2, float16, float32, float64, int8, int16, int32, int64
from ._core import uint8, uint16, uint32, uint64
from ._creation import (arange, array, asarray, empty, empty_like, eye, from_dlpack, full, full_like, linspace, meshgrid, ones,
                        ones_like, tril, triu, zeros, zeros_like)
from ._elementwise import FUNCTIONS as _FUNCTIONS, allclose, clip, isclose, round, where
from ._indexing import nonzero
from ._manipulation import (broadcast_arrays, broadcast_shapes, broadcast_to, concat, expand_dims, flip, matrix_transpose, moveaxis,
                            pad, permute_dims, repeat, reshape, roll, squeeze, stack, take, take_along_axis, tile, unstack)
from ._numpy import (NAN_FUNCTIONS as _NAN_FUNCTIONS, append, argwhere, array_equal, array_split, atleast_1d, atleast_2d, average, column_stack,
                     convolve, correlate, cov, diag, diagonal, dot, flatnonzero, fliplr, flipud, hstack, inner, interp, isin, kron, median, nan_to_num,
                     outer, percentile, ptp, quantile, ravel, split, swapaxes, trace, transpose, unique, unique_all, unique_counts, unique_inverse,
                     unique_values, vstack)
from ._reductions import (FUNCTIONS as _REDUCTIONS, argsort, count_nonzero, cumprod, cumsum, cumulative_prod, cumulative_sum, diff, mean, prod,
                          searchsorted, sort, std, sum, topk, var)
from ._transforms import compile, compute, grad, synchronize, tree_map, value_and_grad
from ._types import __array_namespace_info__, astype, can_cast, finfo, iinfo, isdtype, missing as _missing, result_type
from .linalg import cross, einsum, matmul, tensordot, vecdot
from .training import Classifier, Regressor, Trainer

__array_api_version__ = "2024.12"
e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi
globals().update(_FUNCTIONS | _REDUCTIONS | _NAN_FUNCTIONS)

# numpy's older names of the standard's functions
_OLDER = {"absolute": "abs", "amax": "max", "amin": "min", "around": "round", "concatenate": "concat", "degrees": "rad2deg", "fabs": "abs",
          "fix": "trunc", "invert": "bitwise_invert", "left_shift": "bitwise_left_shift", "mod": "remainder", "power": "pow", "radians": "deg2rad",
          "right_shift": "bitwise_right_shift", "rint": "round", "true_divide": "divide"}
_OLDER |= {f"arc{name[1:]}": name for name in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh")}
globals().update({older: globals()[name] for older, name in _OLDER.items()})
__getattr__ = _missing("nixie", "numpy")

"""Functions of each element, by the Array API's names: a line of a table gives name, function, sentence and example."""

import math
import operator

from . import _core
from ._core import Array
from ._creation import array_of, asarray
from ._indexing import nonzero
from ._types import finfo, isdtype, result_type

_LOG2 = math.log(2)


def _number(x):
    """What an op takes: an array or a number; lists become arrays."""
    return x if isinstance(x, (Array, bool, int, float)) else asarray(x)


def _alike(function):
    """A function of arrays that takes a number beside an array, too."""

    def alike(a, b):
        if not isinstance(a, Array):
            a = asarray(a, dtype=result_type(a, b), device=b.device)
        elif not isinstance(b, Array):
            b = asarray(b, dtype=result_type(a, b), device=a.device)
        return function(a, b)

    return alike


def _keeps_integers(function):
    return lambda x: function(x) if isdtype(x.dtype, "real floating") else x


def _signbit(x):
    return _core.where(x == 0, 1 / x < 0, x < 0)


# Gradients go through the arguments alone, not through what scales them.
def _hypot(a, b):
    largest = _core.stop_gradient(_core.maximum(abs(a), abs(b)))
    scale = _core.where(largest == 0, 1, largest)
    root = scale * _core.sqrt(_core.square(a / scale) + _core.square(b / scale))
    return _core.where(_core.logical_or(_core.is_inf(a), _core.is_inf(b)), math.inf, root)


def _logaddexp(a, b):
    largest = _core.stop_gradient(_core.maximum(a, b))
    scale = _core.where(_core.is_finite(largest), largest, 0)
    return scale + _core.log(_core.exp(a - scale) + _core.exp(b - scale))


def _odd(function):
    """An odd function, by its values for positive numbers."""

    def odd(x):
        negative = _signbit(x)
        found = function(_core.where(negative, -x, x))
        return _core.where(negative, -found, found)

    return odd


@_odd
def _asinh(x):
    near = _core.log1p(x + x * x / (1 + _core.sqrt(x * x + 1)))
    return _core.where(x > 1e9, _core.log(x) + _LOG2, near)


@_odd
def _atanh(x):
    return 0.5 * _core.log1p(2 * x / (1 - x))


def _acosh(x):
    return _core.where(x > 1e9, _core.log(x) + _LOG2, _core.log1p(x - 1 + _core.sqrt(x - 1) * _core.sqrt(x + 1)))


def _copysign(x, sign):
    x = _core.cast(x, result_type(x, sign))
    return _core.where(_signbit(x) == _signbit(sign), x, -x)


# Half the distance to the next number, and a little more, rounds to it; at least the smallest number above 0.
_STEPS = {"float16": (11, 24), "bfloat16": (8, 133), "float32": (24, 149), "float64": (53, 1074)}


def _nextafter(x, to):
    dtype = result_type(x, to)
    x, to = _core.cast(x, dtype), _core.cast(to, dtype)
    bits, least = _STEPS[dtype.name]
    step = _core.maximum(abs(x) * (2.0**-bits * (1 + 2.0**-8)), 2.0**-least)
    moved = _core.where(to > x, x + step, x - step)
    moved = _core.where(_core.is_inf(x), _copysign(_core.full([], finfo(dtype).max, dtype, x.device), x), moved)
    return _core.where(_core.logical_or(x == to, to != to), to, moved)


def _atan2(y, x):
    return _core.where(_core.logical_and(y == 0, x == 0), _copysign(_core.where(_signbit(x), math.pi, 0.0), y), _core.atan2(y, x))


def _numbers_first(function):
    return _alike(lambda a, b: _core.where(a == a, _core.where(b == b, function(a, b), a), b))


def _sign(x):
    return _core.where(x == 0, 0, _core.sign(x))  # of -0.0, too


def _log10(x):
    return _core.log(x) * (1 / math.log(10))


# name: function, what it gives, an argument of an example and its result
UNARY = {
    "abs": (operator.abs, "The size of a number.", "-2.0", "2.0"),
    "acos": (_core.acos, "The angle, in [0, pi], whose cosine is x.", "1.0", "0.0"),
    "acosh": (_acosh, "The number, at least 0, whose hyperbolic cosine is x.", "1.0", "0.0"),
    "asin": (_core.asin, "The angle, in [-pi/2, pi/2], whose sine is x.", "0.0", "0.0"),
    "asinh": (_asinh, "The number whose hyperbolic sine is x.", "0.0", "0.0"),
    "atan": (_core.atan, "The angle, in [-pi/2, pi/2], whose tangent is x.", "0.0", "0.0"),
    "atanh": (_atanh, "The number whose hyperbolic tangent is x.", "0.0", "0.0"),
    "bitwise_invert": (operator.invert, "The other bits; of bool the other truth.", "5", "-6"),
    "ceil": (_keeps_integers(_core.ceil), "The smallest whole number that is not less.", "1.2", "2.0"),
    "conj": (operator.pos, "x itself: there are no complex numbers.", "1.0", "1.0"),
    "cbrt": (lambda x: _copysign(abs(x) ** (1 / 3), x), "The cube root.", "-1.0", "-1.0"),
    "cos": (_core.cos, "The cosine of an angle in radians.", "0.0", "1.0"),
    "cosh": (_core.cosh, "The hyperbolic cosine.", "0.0", "1.0"),
    "deg2rad": (lambda x: x * (math.pi / 180), "Degrees as radians.", "0.0", "0.0"),
    "erf": (_core.erf, "The error function.", "0.0", "0.0"),
    "exp": (_core.exp, "e to the power of x.", "0.0", "1.0"),
    "exp2": (_core.exp2, "2 to the power of x.", "3.0", "8.0"),
    "expm1": (_core.expm1, "exp(x) - 1, with all its digits near 0.", "0.0", "0.0"),
    "floor": (_keeps_integers(_core.floor), "The largest whole number that is not larger.", "1.8", "1.0"),
    "imag": (lambda x: x * 0, "0: there are no complex numbers.", "1.0", "0.0"),
    "isfinite": (_core.is_finite, "Whether x is no infinity and no NaN.", "1.0", "True"),
    "isinf": (_core.is_inf, "Whether x is an infinity.", "1.0", "False"),
    "isnan": (_core.is_nan, "Whether x is no number.", "1.0", "False"),
    "log": (_core.log, "The natural logarithm.", "1.0", "0.0"),
    "log10": (_log10, "The logarithm to base 10.", "1.0", "0.0"),
    "log1p": (_core.log1p, "log(1 + x), with all its digits near 0.", "0.0", "0.0"),
    "log2": (_core.log2, "The logarithm to base 2.", "8.0", "3.0"),
    "logical_not": (_core.logical_not, "Whether x is 0.", "True", "False"),
    "negative": (operator.neg, "-x.", "2", "-2"),
    "positive": (operator.pos, "x.", "2", "2"),
    "rad2deg": (lambda x: x * (180 / math.pi), "Radians as degrees.", "0.0", "0.0"),
    "real": (operator.pos, "x itself: there are no complex numbers.", "1.0", "1.0"),
    "reciprocal": (_core.reciprocal, "1 / x.", "2.0", "0.5"),
    "rsqrt": (_core.rsqrt, "1 / sqrt(x).", "4.0", "0.5"),
    "sigmoid": (_core.sigmoid, "1 / (1 + exp(-x)).", "0.0", "0.5"),
    "sign": (_sign, "-1, 0 or 1; NaN of NaN.", "-3.0", "-1.0"),
    "signbit": (_signbit, "Whether the sign is minus, that of -0.0 included; a NaN has none here.", "-0.0", "True"),
    "sin": (_core.sin, "The sine of an angle in radians.", "0.0", "0.0"),
    "sinh": (_core.sinh, "The hyperbolic sine.", "0.0", "0.0"),
    "sqrt": (_core.sqrt, "The square root; NaN of negative numbers.", "4.0", "2.0"),
    "square": (_core.square, "x times x.", "3", "9"),
    "stop_gradient": (_core.stop_gradient, "x, through which no gradient goes.", "3.0", "3.0"),
    "tan": (_core.tan, "The tangent of an angle in radians.", "0.0", "0.0"),
    "tanh": (_core.tanh, "The hyperbolic tangent.", "0.0", "0.0"),
    "trunc": (_keeps_integers(_core.trunc), "The whole number next to it toward 0.", "-1.8", "-1.0"),
}
BINARY = {
    "add": (operator.add, "x1 + x2.", "1, 2", "3"),
    "atan2": (_alike(_atan2), "The angle of the point (x2, x1), in [-pi, pi].", "0.0, 1.0", "0.0"),
    "bitwise_and": (operator.and_, "The bits of both; of bools and.", "6, 3", "2"),
    "bitwise_left_shift": (operator.lshift, "Bits moved to the left.", "1, 3", "8"),
    "bitwise_or": (operator.or_, "The bits of either; of bools or.", "6, 3", "7"),
    "bitwise_right_shift": (operator.rshift, "Bits moved to the right, with copies of the sign.", "8, 3", "1"),
    "bitwise_xor": (operator.xor, "The bits of one alone; of bools exclusive or.", "6, 3", "5"),
    "copysign": (_alike(_copysign), "The size of x1 with the sign of x2.", "1.0, -2.0", "-1.0"),
    "divide": (operator.truediv, "x1 / x2; of integers float32.", "3.0, 2.0", "1.5"),
    "equal": (operator.eq, "Whether both are equal.", "1, 1", "True"),
    "floor_divide": (operator.floordiv, "The largest whole number that is not larger than x1 / x2.", "-7, 2", "-4"),
    "fmax": (_numbers_first(_core.maximum), "The larger one that is a number.", "math.nan, 2.0", "2.0"),
    "fmin": (_numbers_first(_core.minimum), "The smaller one that is a number.", "1.0, math.nan", "1.0"),
    "fmod": (_core.fmod, "The remainder with the sign of x1, as in C.", "-7, 2", "-1"),
    "greater": (operator.gt, "x1 > x2.", "1, 1", "False"),
    "greater_equal": (operator.ge, "x1 >= x2.", "1, 1", "True"),
    "hypot": (_alike(_hypot), "The root of the sum of both squares, which does not overflow.", "3.0, 4.0", "5.0"),
    "less": (operator.lt, "x1 < x2.", "1, 2", "True"),
    "less_equal": (operator.le, "x1 <= x2.", "2, 1", "False"),
    "logaddexp": (_alike(_logaddexp), "log(exp(x1) + exp(x2)).", "-math.inf, 1.0", "1.0"),
    "logical_and": (_core.logical_and, "Whether neither is 0.", "True, False", "False"),
    "logical_or": (_core.logical_or, "Whether either is not 0.", "True, False", "True"),
    "logical_xor": (lambda a, b: _core.cast(a, _core.bool) ^ _core.cast(b, _core.bool), "Whether one alone is not 0.",
                    "True, False", "True"),
    "maximum": (_core.maximum, "The larger one; NaN if either is.", "1, 2", "2"),
    "minimum": (_core.minimum, "The smaller one; NaN if either is.", "1, 2", "1"),
    "multiply": (operator.mul, "x1 * x2.", "2, 3", "6"),
    "nextafter": (_alike(_nextafter), "The number of its type next to x1 in the direction of x2.", "1.0, 2.0", "1.0000001192092896"),
    "not_equal": (operator.ne, "Whether they differ.", "1, 1", "False"),
    "pow": (operator.pow, "x1 to the power of x2.", "2, 3", "8"),
    "remainder": (operator.mod, "x1 - floor(x1 / x2) * x2: the sign of x2.", "-7, 2", "1"),
    "subtract": (operator.sub, "x1 - x2.", "3, 2", "1"),
}


def _unary(name, function, sentence, argument, result):
    def op(x, /):
        return function(array_of(x))

    return named(op, name, sentence, f"nixie.{name}(nixie.asarray({argument})).item()", result)


def _binary(name, function, sentence, arguments, result):
    def op(x1, x2, /):
        if not isinstance(x1, Array):
            x1 = _number(x1) if isinstance(x2, Array) else asarray(x1)
        return function(x1, x2 if isinstance(x2, Array) else _number(x2))

    return named(op, name, sentence, f"nixie.{name}({arguments}).item()", result)


def named(op, name, sentence, example, result):
    op.__name__ = op.__qualname__ = name
    op.__module__ = "nixie"
    op.__doc__ = f"{sentence}\n\n    >>> {example}\n    {result}\n    "
    return op


FUNCTIONS = {name: _unary(name, *row) for name, row in UNARY.items()}
FUNCTIONS |= {name: _binary(name, *row) for name, row in BINARY.items()}


def round(x, /, decimals=0):
    """The nearest number of so many decimals, the even one of two.

    >>> nixie.round([2.5, 0.125, 17.0], 2).tolist()
    [2.5, 0.11999999731779099, 17.0]
    """
    x = array_of(x)
    if isdtype(x.dtype, "real floating"):
        return _core.round(x * 10.0**decimals) / 10.0**decimals if decimals else _core.round(x)
    if decimals >= 0:
        return x
    return _core.cast(_core.round(_core.cast(x, _core.float64) / 10**-decimals) * 10**-decimals, x.dtype)


def clip(x, /, min=None, max=None):
    """x, at least min and at most max, of its own type unless a bound of integers is a fraction; None is no bound.

    >>> nixie.clip(nixie.arange(5), 1, 3)
    array([1, 1, 2, 3, 3], dtype=int32)
    """
    x = array_of(x)
    for op, bound in ((_core.maximum, min), (_core.minimum, max)):
        if bound is not None:
            found = op(x, bound)
            x = found if isdtype(found.dtype, "real floating") > isdtype(x.dtype, "real floating") else _core.cast(found, x.dtype)
    return x


def where(condition, x1=None, x2=None, /):
    """x1 where the condition is true, else x2; without both the positions where it is, as `nonzero` gives them.

    >>> nixie.where(nixie.arange(3) > 1, 1.0, 0.0)
    array([0., 0., 1.], dtype=float32)
    """
    if x1 is None is x2:
        return nonzero(condition)
    return _core.where(condition, x1, x2)


def isclose(a, b, /, rtol=1e-5, atol=1e-8, *, equal_nan=False):
    """Whether a and b differ by no more than atol + rtol * abs(b); infinities by nothing.

    >>> nixie.isclose(nixie.array([1.0, 2.0]), nixie.array([1.0, 2.1]))
    array([ True, False], dtype=bool)
    """
    a, b = array_of(a), array_of(b)
    near = _core.logical_and(abs(a - b) <= atol + rtol * abs(b), _core.is_finite(b))
    same = _core.logical_or(a == b, _core.logical_and(a != a, b != b)) if equal_nan else a == b
    return _core.logical_or(near, same)


def allclose(a, b, /, rtol=1e-5, atol=1e-8, *, equal_nan=False):
    """Whether `isclose` is true of all elements: a bool of Python.

    >>> nixie.allclose(nixie.arange(3), [0.0, 1.0, 2.0])
    True
    """
    return bool(_core.all(isclose(a, b, rtol, atol, equal_nan=equal_nan), None, False))

"""Element types: promotion, limits, and which functions of the Array API ask for them."""

import math
from typing import NamedTuple

from . import _core
from ._core import Array, dtype

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")  # as ml_dtypes names them; arithmetic on them gives float32
SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
FLOATS = (*FLOAT8, "float16", "bfloat16", "float32", "float64")
NAMES = ("bool", *SIGNED, *UNSIGNED, *FLOATS)
DTYPES = {name: getattr(_core, name) for name in NAMES}
KINDS = {
    "bool": ("bool",),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": FLOATS,
    "complex floating": (),
    "numeric": SIGNED + UNSIGNED + FLOATS,
}
WIDE = (_core.int64, _core.uint32, _core.uint64)  # computed in 64 bits, as no matrix product or convolution is
DEFAULTS = {bool: _core.bool, int: _core.int32, float: _core.float32}


def as_dtype(value):
    """The nixie.dtype of a nixie.dtype, a name, numpy's type, or bool, int and float; None stays None."""
    return value if value is None or isinstance(value, dtype) else _core.dtype_of(value)


def kind_of(of):
    """The smallest kind of a type: bool, signed integer, unsigned integer or real floating."""
    return next(kind for kind, names in KINDS.items() if of.name in names)


class finfo_object(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtype


class iinfo_object(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: dtype


# Bits of the fraction, and the exponents of the largest and the smallest normal number.
_FLOATS = {"float16": (10, 15, -14), "bfloat16": (7, 127, -126), "float32": (23, 127, -126), "float64": (52, 1023, -1022)}
_FLOATS |= {"float8_e4m3fn": (3, 8, -6), "float8_e5m2": (2, 15, -14)}


def fitting(number, type):
    """A number of Python for elements of a type: those of integers hold the whole numbers between their limits, and fractions are cut off."""
    if isdtype(type, "integral") and not iinfo(type).min - 1 < number < iinfo(type).max + 1:
        raise ValueError(f"the number {number} does not fit {type}")
    return number


def wrapped(x, type):
    """The elements as another type, of integers their last bits: arithmetic wraps around, where a conversion takes the nearest number."""
    return x if x.dtype == type else (_core.wrapped if isdtype(type, "integral") else _core.cast)(x, type)


def _type_of(type):
    return type.dtype if isinstance(type, Array) else as_dtype(type)


def finfo(type, /):
    """Limits of a floating type: bits, eps, max, min, smallest_normal.

    >>> nixie.finfo(nixie.float32).eps
    1.1920928955078125e-07
    """
    of = _type_of(type)
    if of.name not in _FLOATS:
        raise TypeError(f"finfo: {of} is no floating type; use iinfo")
    fraction, most, least = _FLOATS[of.name]
    reserved = 2 if of.name == "float8_e4m3fn" else 1  # the code above its largest number is NaN
    largest = math.ldexp(2 - math.ldexp(reserved, -fraction), most)
    return finfo_object(8 * of.itemsize, math.ldexp(1, -fraction), largest, -largest, math.ldexp(1, least), of)


def iinfo(type, /):
    """Limits of an integer type: bits, max, min.

    >>> nixie.iinfo(nixie.int8).max
    127
    """
    of = _type_of(type)
    if of.name not in KINDS["integral"]:
        raise TypeError(f"iinfo: {of} is no integer type; use finfo")
    bits = 8 * of.itemsize
    signed = of.name.startswith("i")
    return iinfo_object(bits, 2 ** (bits - signed) - 1, -(2 ** (bits - 1)) if signed else 0, of)


def isdtype(dtype, kind):
    """Whether a type is of a kind: its name, a type, or a tuple of these.

    >>> nixie.isdtype(nixie.int8, "integral")
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str) and kind in KINDS:
        return dtype.name in KINDS[kind]
    if isinstance(kind, str):
        raise ValueError(f"isdtype: kind {kind!r} is unknown, expected one of {', '.join(KINDS)}")
    return dtype == kind


def result_type(*arrays_and_dtypes):
    """The type of arithmetic on these arrays, types and numbers; numbers take the type of the others.

    >>> nixie.result_type(nixie.int32, nixie.float16)
    nixie.float16
    """
    strong = [_type_of(each) for each in arrays_and_dtypes if not isinstance(each, (bool, int, float))]
    if not strong:
        raise ValueError("result_type: expected at least one array or type")
    result = strong[0]
    for each in strong:
        result = _core.promote(result, each)
    for each in arrays_and_dtypes:
        if isinstance(each, float) and not isdtype(result, "real floating"):
            result = _core.float32
        elif type(each) is int and result == _core.bool:
            result = _core.int32
    return result


def can_cast(from_, to, /):
    """Whether every value of one type is a value of another.

    >>> nixie.can_cast(nixie.float64, nixie.float32)
    False
    """
    given, wanted = _type_of(from_), as_dtype(to)
    return given == wanted or _core.promote(given, wanted) == wanted


def astype(x, dtype, /, *, copy=True, device=None):
    """The elements as another type: to integers toward zero and saturating (NaN gives 0).

    >>> nixie.astype(nixie.array([1.9, -1.9]), nixie.int32)
    array([ 1, -1], dtype=int32)
    """
    from ._creation import array_of

    x, to = array_of(x), as_dtype(dtype)
    result = x if x.dtype == to and not copy else _core.cast(x, to)
    return result if device is None else result.to_device(device)


def missing(module, of_numpy):
    """A module's __getattr__, which says where numpy has what is missing."""

    def find(name):
        import importlib

        there = not name.startswith("__") and callable(getattr(importlib.import_module(of_numpy), name, None))
        hint = f"; {of_numpy}.{name} takes arrays of nixie where they are on the CPU" if there else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")

    return find


class Info:
    """What __array_namespace_info__ gives: devices and types."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return "cpu"

    def devices(self):
        return ["cpu", "cuda"] if _core.has_device("cuda") else ["cpu"]

    def default_dtypes(self, *, device=None):
        return {"real floating": _core.float32, "complex floating": None, "integral": _core.int32, "indexing": _core.int32}

    def dtypes(self, *, device=None, kind=None):
        standard = {name: DTYPES[name] for name in NAMES if name not in ("float16", "bfloat16", *FLOAT8)}
        return standard if kind is None else {name: each for name, each in standard.items() if isdtype(each, kind)}


def __array_namespace_info__():
    """Devices and types, as the Array API asks for them.

    >>> nixie.__array_namespace_info__().default_dtypes()["integral"]
    nixie.int32
    """
    return Info()

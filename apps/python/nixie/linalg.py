"""Products and norms of matrices: the Array API's extension, without decompositions."""

import math

from . import _core, _reductions
from ._creation import array_of as _array_of
from ._manipulation import matrix_transpose, normal_axis as _normal_axis  # the standard has the first here, too
from ._types import WIDE as _WIDE, missing as _missing, result_type as _result_type, wrapped as _wrapped

__getattr__ = _missing("nixie.linalg", "numpy.linalg")


def matmul(x1, x2, /):
    """[..., m, k] times [..., k, n]; leading axes broadcast; a vector is a row on the left, a column on the right.

    >>> nixie.matmul(nixie.ones((2, 3)), nixie.ones(3))
    array([3., 3.], dtype=float32)
    """
    return _array_of(x1) @ x2


def tensordot(x1, x2, /, axes=2):
    """Sums of products over pairs of axes: the last ones of x1 and the first ones of x2, or two lists of axes.

    >>> nixie.tensordot(nixie.ones((2, 3)), nixie.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    x1, x2 = _array_of(x1), _array_of(x2)
    if isinstance(axes, int):
        axes = (range(x1.ndim - axes, x1.ndim), range(axes))
    first, second = ([_normal_axis(each, x.ndim, "tensordot") for each in along] for x, along in zip((x1, x2), axes))
    rows, columns = ([axis for axis in range(x.ndim) if axis not in along] for x, along in ((x1, first), (x2, second)))
    if [x1.shape[axis] for axis in first] != [x2.shape[axis] for axis in second]:
        raise ValueError(f"tensordot: axes {first} of shape {x1.shape} and {second} of {x2.shape} differ")
    shape = [x1.shape[axis] for axis in rows] + [x2.shape[axis] for axis in columns]
    inner = math.prod(x1.shape[axis] for axis in first)
    left = _core.reshape(_core.permute(x1, rows + first), [math.prod(x1.shape[axis] for axis in rows), inner])
    right = _core.reshape(_core.permute(x2, second + columns), [inner, math.prod(x2.shape[axis] for axis in columns)])
    return _core.reshape(left @ right, shape)


def vecdot(x1, x2, /, axis=-1):
    """The sum of products along an axis.

    >>> nixie.vecdot(nixie.arange(3), nixie.arange(3)).item()
    5
    """
    x1, x2 = _array_of(x1), _array_of(x2)
    size = x1.shape[axis], x2.shape[axis]
    if size[0] != size[1]:
        raise ValueError(f"vecdot: axes of {size[0]} and {size[1]} elements")
    return _reductions.sum(x1 * x2, axis=axis, dtype=_result_type(x1, x2))


def outer(x1, x2, /):
    """All products of the elements of two vectors.

    >>> nixie.linalg.outer(nixie.arange(2), nixie.arange(3)).shape
    (2, 3)
    """
    x1, x2 = _array_of(x1), _array_of(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"outer: shapes {x1.shape} and {x2.shape}, expected two vectors")
    return _core.expand_dims(x1, 1) * _core.expand_dims(x2, 0)


def cross(x1, x2, /, axis=-1):
    """The cross product of vectors of three elements along an axis.

    >>> nixie.linalg.cross(nixie.array([1, 0, 0]), nixie.array([0, 1, 0]))
    array([0, 0, 1], dtype=int32)
    """
    x1, x2 = _array_of(x1), _array_of(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"cross: axes of {x1.shape[axis]} and {x2.shape[axis]} elements, expected 3")
    left, right = _normal_axis(axis, x1.ndim, "cross"), _normal_axis(axis, x2.ndim, "cross")
    turn = lambda x, along, by: _core.roll(x, by, along)
    return turn(x1, left, -1) * turn(x2, right, 1) - turn(x1, left, 1) * turn(x2, right, -1)


def diagonal(x, /, *, offset=0):
    """The elements [..., i, i + offset].

    >>> nixie.linalg.diagonal(nixie.eye(2))
    array([1., 1.], dtype=float32)
    """
    x = _array_of(x)
    rows, columns = x.shape[-2:]
    row, column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - row, columns - column), 0)
    flat = _core.reshape(x, list(x.shape[:-2]) + [rows * columns])
    start, step = row * columns + column, columns + 1
    whole = [slice(None)] * (x.ndim - 2)
    return _core.slice(flat, whole + [slice(start, start + step * count, step) if count else slice(0, 0)])


def trace(x, /, *, offset=0, dtype=None):
    """The sum of `diagonal`.

    >>> nixie.linalg.trace(nixie.eye(3)).item()
    3.0
    """
    return _reductions.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def matrix_power(x, n, /):
    """x times itself, n times; n is not negative, since there are no inverses.

    >>> nixie.linalg.matrix_power(nixie.array([[1.0, 1.0], [0.0, 1.0]]), 3)
    array([[1., 3.],
           [0., 1.]], dtype=float32)
    """
    from ._creation import eye

    x = _array_of(x)
    if n < 0:
        raise ValueError(f"matrix_power: the power is {n}, expected 0 or more: there are no inverses here")
    result = _core.broadcast_to(eye(x.shape[-1], dtype=x.dtype, device=x.device), list(x.shape))
    while n:
        result = result @ x if n & 1 else result
        x, n = x @ x if n > 1 else x, n >> 1
    return result


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """The norm of order `ord` over axes, by default over all: any number, inf or -inf.

    >>> nixie.linalg.vector_norm(nixie.array([3.0, 4.0])).item()
    5.0
    """
    x = _array_of(x)
    if ord == 2:
        return _core.norm(x, axis, keepdims)
    size = abs(x)
    if ord == math.inf:
        return _core.max(size, axis, keepdims)
    if ord == -math.inf:
        return _core.min(size, axis, keepdims)
    if ord == 0:
        return _core.sum(_core.cast(x != 0, x.dtype), axis, keepdims)
    return _core.sum(size ** float(ord), axis, keepdims) ** (1 / ord)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """The norm of the matrices of the last two axes: "fro", 1, -1, inf or -inf; 2 and "nuc" want singular values.

    >>> nixie.linalg.matrix_norm(nixie.eye(4)).item()
    2.0
    """
    if ord == "fro":
        return _core.norm(x, [-2, -1], keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"matrix_norm: order {ord!r}, expected fro, 1, -1, inf or -inf: there are no singular values here")
    sums = _core.sum(abs(_array_of(x)), -2 if abs(ord) == 1 else -1, True)
    found = (_core.max if ord > 0 else _core.min)(sums, [-2, -1], True)
    return found if keepdims else _core.squeeze(found, [-2, -1])


def norm(x, /, ord=None, axis=None, keepdims=False):
    """numpy's norm: `vector_norm` along one axis or of a vector, `matrix_norm` over two or of a matrix; without an order the root
    of the sum of squares.

    >>> nixie.linalg.norm([3.0, 4.0]).item()
    5.0
    """
    x = _array_of(x)
    if ord is None or isinstance(axis, int) or (axis is None and x.ndim == 1):
        return vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)
    if axis is None and x.ndim != 2:
        raise ValueError(f"norm: order {ord!r} of an array of shape {x.shape} wants an axis, or two")
    rows, columns = (0, 1) if axis is None else axis
    found = matrix_norm(_core.moveaxis(x, (rows, columns), (-2, -1)), ord=ord)
    return _core.expand_dims(found, sorted(each % x.ndim for each in (rows, columns))) if keepdims else found


def einsum(subscripts, /, *operands):
    """numpy's einsum with letters and `...`.

    >>> nixie.linalg.einsum("ij,kj->ik", nixie.ones((2, 3)), nixie.ones((4, 3))).shape
    (2, 4)
    """
    arrays = [_array_of(each) for each in operands]
    to = _result_type(*arrays)
    if to in _WIDE and len(arrays) > 1 and "..." not in subscripts:
        return _wrapped(_sum_of_products(subscripts.replace(" ", ""), arrays), to)
    return _wrapped(_core.einsum(subscripts, arrays), to)  # of narrow integers and bools int32


def _sum_of_products(subscripts, arrays):
    """einsum with every product in memory: matrix products are not computed in integers of 64 bits."""
    terms, arrow, out = subscripts.partition("->")
    labels = sorted(set(terms) - {","})
    product = 1
    for term, x in zip(terms.split(","), arrays):
        own = [each for each in labels if each in term]
        x = _core.einsum(f"{term}->{''.join(own)}", [x])
        sizes = dict(zip(own, x.shape))
        product = product * _core.reshape(x, [sizes.get(each, 1) for each in labels])
    out = out if arrow else [each for each in labels if terms.count(each) == 1]
    return _core.einsum(f"{''.join(labels)}->{''.join(out)}", [product])

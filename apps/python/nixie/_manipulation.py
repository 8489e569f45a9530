"""Functions that put elements elsewhere."""

import operator

from . import _core
from ._creation import array_of
from ._indexing import checked


def _tuple(axes):
    return tuple(axes) if isinstance(axes, (tuple, list)) else (operator.index(axes),)


def normal_axis(axis, rank, what):
    """The axis as a number in [0, rank)."""
    if not -rank <= axis < rank:
        raise IndexError(f"{what}: axis {axis} of an array of {rank} axes")
    return axis % rank


def reshape(x, /, shape, *, copy=None):
    """The same elements in row-major order under another shape, of which one size may be -1.

    >>> nixie.reshape(nixie.arange(4), (2, -1))
    array([[0, 1],
           [2, 3]], dtype=int32)
    """
    return _core.reshape(x, shape)


def permute_dims(x, /, axes):
    """Axis i of the result is axis axes[i] of x.

    >>> nixie.permute_dims(nixie.zeros((1, 2, 3)), (2, 0, 1)).shape
    (3, 1, 2)
    """
    return _core.permute(x, axes)


def matrix_transpose(x, /):
    """Swaps the last two axes.

    >>> nixie.matrix_transpose(nixie.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    x = array_of(x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: an array of shape {x.shape}, expected at least 2 axes")
    return _core.permute(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def moveaxis(x, source, destination, /):
    """Moves axes to other positions; the others stay in order.

    >>> nixie.moveaxis(nixie.zeros((1, 2, 3)), 0, -1).shape
    (2, 3, 1)
    """
    return _core.moveaxis(x, source, destination)


def expand_dims(x, /, axis=0):
    """New axes of size 1 at these positions of the result.

    >>> nixie.expand_dims(nixie.zeros(3), axis=1).shape
    (3, 1)
    """
    x, axes = array_of(x), _tuple(axis)
    rank = x.ndim + len(axes)
    return _core.expand_dims(x, [normal_axis(each, rank, "expand_dims") for each in axes])


def squeeze(x, /, axis=None):
    """Drops axes of size 1, by default all.

    >>> nixie.squeeze(nixie.zeros((3, 1)), 1).shape
    (3,)
    """
    x = array_of(x)
    return _core.squeeze(x, [i for i, size in enumerate(x.shape) if size == 1] if axis is None else axis)


def broadcast_to(x, /, shape):
    """Repeats axes of size 1.

    >>> nixie.broadcast_to(nixie.arange(2), (2, 2))
    array([[0, 1],
           [0, 1]], dtype=int32)
    """
    return _core.broadcast_to(x, shape)


def broadcast_arrays(*arrays):
    """All arrays of one shape.

    >>> [x.shape for x in nixie.broadcast_arrays(nixie.zeros(3), nixie.zeros((2, 1)))]
    [(2, 3), (2, 3)]
    """
    arrays = [array_of(each) for each in arrays]
    shape = broadcast_shapes(*(each.shape for each in arrays))
    return [broadcast_to(each, shape) for each in arrays]


def broadcast_shapes(*shapes):
    """The shape of arithmetic on arrays of these shapes.

    >>> nixie.broadcast_shapes((3,), (2, 1))
    (2, 3)
    """
    import numpy

    return numpy.broadcast_shapes(*shapes)


def concat(arrays, /, axis=0):
    """Arrays side by side; along axis None each is flattened first.

    >>> nixie.concat([nixie.arange(2), nixie.arange(1)])
    array([0, 1, 0], dtype=int32)
    """
    if axis is None:
        arrays, axis = [_core.reshape(each, [-1]) for each in arrays], 0
    return _core.concat(list(arrays), axis)


def stack(arrays, /, axis=0):
    """Arrays side by side along a new axis.

    >>> nixie.stack([nixie.arange(2), nixie.arange(2)]).shape
    (2, 2)
    """
    return _core.stack(list(arrays), axis)


def unstack(x, /, *, axis=0):
    """The parts of x along an axis, without it.

    >>> [part.item() for part in nixie.unstack(nixie.arange(3))]
    [0, 1, 2]
    """
    x = array_of(x)
    axis = normal_axis(axis, x.ndim, "unstack")
    return tuple(_core.slice(x, [slice(None)] * axis + [i]) for i in range(x.shape[axis]))


def flip(x, /, axis=None):
    """The elements in reverse order along axes, by default along all.

    >>> nixie.flip(nixie.arange(3))
    array([2, 1, 0], dtype=int32)
    """
    x = array_of(x)
    return _core.flip(x, list(range(x.ndim)) if axis is None else axis)


def roll(x, /, shift, axis=None):
    """Moves elements cyclically along axes; without an axis along the flattened array.

    >>> nixie.roll(nixie.arange(4), 1)
    array([3, 0, 1, 2], dtype=int32)
    """
    x = array_of(x)
    if axis is None:
        return _core.reshape(_core.roll(_core.reshape(x, [-1]), sum(_tuple(shift)), 0), list(x.shape))
    axes = _tuple(axis)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    for by, along in zip(shifts, axes):
        x = _core.roll(x, by, along)
    return x


def tile(x, repetitions, /):
    """Repeats the array along axes.

    >>> nixie.tile(nixie.arange(2), (2,))
    array([0, 1, 0, 1], dtype=int32)
    """
    return _core.tile(x, repetitions)


def repeat(x, repeats, /, axis=None):
    """Repeats each element; without an axis those of the flattened array. `repeats` is one number, or a number for
    each element, of which the host must know the values: the result's shape depends on them.

    >>> nixie.repeat(nixie.arange(2), 2)
    array([0, 0, 1, 1], dtype=int32)
    """
    x = array_of(x)
    if axis is None:
        x, axis = _core.reshape(x, [-1]), 0
    import numpy

    counts = numpy.asarray(repeats)
    if counts.ndim == 0:
        return _core.repeat(x, int(counts), axis)
    order = numpy.repeat(numpy.arange(x.shape[axis]), counts)
    return _core.take(x, _core.from_numpy(order, _core.int32, x.device), axis)


def pad(x, pad_width, /, mode="constant", *, constant_values=0):
    """Elements before and after each axis: a number of them, a pair, or a pair for each axis. They have one value, or in numpy's other
    modes that copy elements (edge, reflect, symmetric, wrap) theirs.

    >>> nixie.pad(nixie.ones(2), 1)
    array([0., 1., 1., 0.], dtype=float32)
    """
    x = array_of(x)
    pair = (pad_width, pad_width) if isinstance(pad_width, int) else tuple(pad_width)
    pairs = [pair] * x.ndim if all(isinstance(each, int) for each in pair) else list(pair)
    if mode != "constant":
        if mode not in ("edge", "reflect", "symmetric", "wrap"):
            raise ValueError(f"pad: mode is {mode!r}, expected constant, edge, reflect, symmetric or wrap")
        import numpy

        for axis, pair in enumerate(pairs):
            x = _core.take(x, _core.from_numpy(numpy.pad(numpy.arange(x.shape[axis]), pair, mode), _core.int32, x.device), axis)
        return x
    return _core.pad(x, [low for low, _ in pairs], [high for _, high in pairs], float(constant_values))


def take(x, indices, /, axis=None):
    """x[.., indices, ..] along an axis, by default of the flattened array; negative indices count from the end. An index out of range
    raises IndexError if it is known here; one that is computed reads NaN, or the largest integer.

    >>> nixie.take(nixie.arange(3) * 10, nixie.array([2, 0]))
    array([20,  0], dtype=int32)
    """
    x = array_of(x)
    x, axis = (_core.reshape(x, [-1]), 0) if axis is None else (x, normal_axis(axis, x.ndim, "take"))
    return _core.take(x, checked(array_of(indices), x.shape[axis]), axis)


def take_along_axis(x, indices, /, axis=-1):
    """result[i, j] = x[i, indices[i, j]] for the last axis of two.

    >>> nixie.take_along_axis(nixie.array([[3, 1]]), nixie.array([[1, 0]]))
    array([[1, 3]], dtype=int32)
    """
    x = array_of(x)
    return _core.take_along_axis(x, checked(array_of(indices), x.shape[normal_axis(axis, x.ndim, "take_along_axis")]), axis)

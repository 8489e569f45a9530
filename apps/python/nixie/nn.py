"""Functions of neural networks, by the names of the C++ library."""

from . import _core
from ._elementwise import FUNCTIONS

sigmoid = FUNCTIONS["sigmoid"]


def relu(x, /, slope=0.0):
    """x where it is positive, else slope * x.

    >>> nixie.nn.relu(nixie.array([-1.0, 2.0]))
    array([0., 2.], dtype=float32)
    """
    return _core.relu(x, slope)


def elu(x, /, alpha=1.0):
    """x where it is positive, else alpha * (exp(x) - 1).

    >>> nixie.nn.elu(nixie.array([0.0, 2.0]))
    array([0., 2.], dtype=float32)
    """
    return _core.elu(x, alpha)


def gelu(x, /):
    """x times the normal distribution's Phi(x), by erf.

    >>> nixie.nn.gelu(nixie.zeros(1))
    array([0.], dtype=float32)
    """
    return _core.gelu(x)


def softplus(x, /):
    """log(1 + exp(x)).

    >>> nixie.nn.softplus(nixie.zeros(1))
    array([0.6931472], dtype=float32)
    """
    return _core.softplus(x)


def softmax(x, /, axis=-1):
    """exp(x), divided by its sum over axes.

    >>> nixie.nn.softmax(nixie.zeros(4))
    array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return _core.softmax(x, axis)


def log_softmax(x, /, axis=-1):
    """The logarithm of `softmax`.

    >>> nixie.nn.log_softmax(nixie.zeros(1))
    array([0.], dtype=float32)
    """
    return _core.log_softmax(x, axis)


def logsumexp(x, /, axis=-1, keepdims=False):
    """log(sum(exp(x))) over axes.

    >>> nixie.nn.logsumexp(nixie.zeros(1)).item()
    0.0
    """
    return _core.logsumexp(x, axis, keepdims)


def quantized(x, format, /, random=None):
    """The nearest number of a format for each element: f16, bf16, tf32, e4m3, int8, e5m10 and so on. With `random`, numbers
    in [0, 1) of x's shape, one of the two neighbours, so that the mean is the element itself.

    >>> nixie.nn.quantized(nixie.array([1.1, 300.0]), "e4m3")
    array([  1.125, 288.   ], dtype=float32)
    """
    return _core.quantized(x, format) if random is None else _core.quantized_stochastically(x, format, random)


def one_hot(x, classes, /, *, dtype=None):
    """1 where the class is the index, along a new last axis.

    >>> nixie.nn.one_hot(nixie.array([1]), 3)
    array([[0., 1., 0.]], dtype=float32)
    """
    return _core.one_hot(x, classes, _core.float32 if dtype is None else dtype, -1)


def conv(x, w, /, *, stride=1, pad=0, dilation=1, groups=1):
    """x [N, C, spatial...] and w [K, C / groups, window...] give [N, K, out...]; options are one number, or one for
    each spatial axis.

    >>> nixie.nn.conv(nixie.ones((1, 3, 8, 8)), nixie.ones((4, 3, 3, 3)), pad=1).shape
    (1, 4, 8, 8)
    """
    return _core.conv(x, w, stride, pad, dilation, groups)


def deconv(x, w, /, *, stride=1, pad=0, dilation=1, output_pad=0, groups=1):
    """The transposed convolution: x [N, K, spatial...] and w [K, C / groups, window...] give [N, C, out...].

    >>> nixie.nn.deconv(nixie.ones((1, 4, 8, 8)), nixie.ones((4, 3, 2, 2)), stride=2).shape
    (1, 3, 16, 16)
    """
    return _core.deconv(x, w, stride, pad, dilation, groups, output_pad)


def max_pool(x, /, window, *, stride=(), pad=0, dilation=1, ceil_mode=False):
    """The largest element of each window over the spatial axes; the stride is the window's by default. With ceil_mode the last
    window may extend past the input.

    >>> nixie.nn.max_pool(nixie.ones((1, 3, 8, 8)), 2).shape
    (1, 3, 4, 4)
    """
    return _core.max_pool(x, window, stride, pad, dilation, ceil_mode)


def average_pool(x, /, window, *, stride=(), pad=0, ceil_mode=False, count_pad=False):
    """The mean of each window; padding counts with count_pad alone, and the last window may extend past the input with ceil_mode.

    >>> nixie.nn.average_pool(nixie.ones((1, 3, 8, 8)), 2).shape
    (1, 3, 4, 4)
    """
    return _core.average_pool(x, window, stride, pad, ceil_mode, count_pad)

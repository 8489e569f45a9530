"""The layers of core aten by functions of nixie: products, convolutions, poolings, resizing, random numbers and normalisation."""

import functools
import itertools
import math

import numpy as np

import nixie as nx

from ._aten import _argument, gradients_of, op, pairs_of
from ._positions import scatter_add


def _wide(x):
    return x.astype("float32") if x.dtype in (nx.float16, nx.bfloat16) else x


# ---- products ----
@op("mm.default", "bmm.default")
def mm(a, b):
    return a @ b


@op("addmm.default")
def addmm(c, a, b, beta=1, alpha=1):
    product = a @ b if alpha == 1 else alpha * (a @ b)
    return product + (c if beta == 1 else beta * c)


def _convolved(x, w, stride, padding, dilation, transposed, output_padding, groups):
    if transposed:
        return nx.nn.deconv(x, w, stride=stride, pad=padding, dilation=dilation, output_pad=output_padding, groups=groups)
    return nx.nn.conv(x, w, stride=stride, pad=padding, dilation=dilation, groups=groups)


@op("convolution.default")
def convolution(x, w, bias, *options):
    y = _convolved(x, w, *options)
    return y if bias is None else y + nx.reshape(bias, (-1,) + (1,) * (y.ndim - 2))


@op("convolution_backward.default")
def convolution_backward(g, x, w, bias_sizes, *options):
    *options, mask = options
    of_x, of_w = gradients_of(lambda x, w: _convolved(x, w, *options), g, x, w, wanted=mask[:2]) if mask[0] or mask[1] else (None, None)
    return of_x, of_w, nx.sum(g, axis=(0, *range(2, g.ndim))) if mask[2] else None


def _of_images(pool, axes=2):
    """A pooling of images [N, C, H, W], of one image [C, H, W], too; with three axes of volumes."""

    @functools.wraps(pool)
    def pooled(x, *args, **options):
        return pool(x, *args, **options) if x.ndim == axes + 2 else pool(x[None], *args, **options)[0]

    return pooled


def _max_pool(x, window, stride, padding, dilation, ceil_mode):
    return nx.nn.max_pool(x, window, stride=stride, pad=padding, dilation=dilation, ceil_mode=ceil_mode)


def _average_pool(x, window, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor=None):
    y = nx.nn.average_pool(x, window, stride=stride, pad=padding, ceil_mode=ceil_mode, count_pad=count_include_pad or divisor is not None)
    return y if divisor is None else y * (math.prod(window) / divisor)


def _for_axes(option, axes):
    return list(option) * (axes // len(option)) if isinstance(option, (list, tuple)) else [option] * axes


def _windows(size, window, stride, pad, dilation, ceil_mode):
    """The positions along an axis that a pooling's windows take, a row for each; the first one again for those outside."""
    steps, rest = divmod(size + 2 * pad - dilation * (window - 1) - 1, stride)
    count = steps + 1 + (ceil_mode and rest > 0 and (steps + 1) * stride < size + pad)
    rows = np.arange(count)[:, None] * stride - pad + dilation * np.arange(window)
    is_inside = (rows >= 0) & (rows < size)
    return np.where(is_inside, rows, np.take_along_axis(rows, is_inside.argmax(1)[:, None], 1))


def _adaptive_windows(size, count):
    """Windows that cover an axis evenly, the last position again in smaller ones."""
    numbers = np.arange(count)[:, None]
    starts, stops = numbers * size // count, -((numbers + 1) * size // -count)
    return np.minimum(starts + np.arange((stops - starts).max(initial=1)), stops - 1)


def _largest(x, windows):
    """The largest element of each window and its position in the flattened image."""
    sizes, first = x.shape[-len(windows) :], x.ndim - len(windows)
    windows = [nx.asarray(each.astype(np.int32), device=x.device) for each in windows]
    for i, window in enumerate(windows):
        x = nx.take(x, window, axis=first + 2 * i)
    x = nx.permute_dims(x, (*range(first), *range(first, x.ndim, 2), *range(first + 1, x.ndim, 2)))
    x = nx.reshape(x, (*x.shape[: first + len(windows)], math.prod(window.shape[1] for window in windows)))
    rest, position, stride = nx.argmax(x, axis=-1), 0, 1
    for i, window in reversed(list(enumerate(windows))):
        number = nx._core.coordinate(list(rest.shape), first + i, x.device)
        position = position + stride * nx.take(window, number * window.shape[1] + rest % window.shape[1])
        rest, stride = rest // window.shape[1], stride * sizes[i]
    return nx.max(x, axis=-1), position


def _has_no_divisor(place):
    return lambda node: _argument(node, place, "divisor_override") is None or not _argument(node, place - 2, "ceil_mode", False)


def _declare_poolings(axes):
    largest, mean = _of_images(_max_pool, axes), _of_images(_average_pool, axes)

    @op(f"max_pool{axes}d_with_indices.default")
    def max_pool(x, window, stride=(), padding=0, dilation=1, ceil_mode=False):
        options = zip(x.shape[-axes:], *(_for_axes(each, axes) for each in (window, stride or window, padding, dilation, ceil_mode)))
        return largest(x, window, stride, padding, dilation, ceil_mode), _largest(x, [_windows(*each) for each in options])[1]

    @op(f"max_pool{axes}d_backward.default")
    def max_pool_backward(g, x, *options):
        return gradients_of(lambda x: largest(x, *options), g, x)[0]

    @op(f"adaptive_max_pool{axes}d.default")
    def adaptive_max_pool(x, sizes):
        return _largest(x, [_adaptive_windows(*each) for each in zip(x.shape[-axes:], sizes)])

    @op(f"adaptive_max_pool{axes}d_backward.default")
    def adaptive_max_pool_backward(g, x, positions):
        zeros = nx.zeros((*x.shape[:-axes], math.prod(x.shape[-axes:])), dtype=g.dtype, device=g.device)
        flat = (*g.shape[:-axes], math.prod(g.shape[-axes:]))
        return nx.reshape(scatter_add(zeros, -1, nx.reshape(positions, flat), nx.reshape(g, flat)), x.shape)

    op(f"avg_pool{axes}d.default", when=_has_no_divisor(6))(mean)

    @op(f"avg_pool{axes}d_backward.default", when=_has_no_divisor(7))
    def average_pool_backward(g, x, *options):
        return gradients_of(lambda x: mean(x, *options), g, x)[0]

    @op(f"_adaptive_avg_pool{axes}d.default")
    def adaptive_average_pool(x, sizes):
        if all(size % count == 0 for size, count in zip(x.shape[-axes:], sizes)):
            return mean(x, [size // count for size, count in zip(x.shape[-axes:], sizes)])
        for axis, count in enumerate(sizes, x.ndim - axes):
            rows = _means(x.shape[axis], count, x)
            parts = x @ rows.T if axis == x.ndim - 1 else rows @ nx.reshape(x, (*x.shape[: axis + 1], math.prod(x.shape[axis + 1 :])))
            x = nx.reshape(parts, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
        return x

    @op(f"_adaptive_avg_pool{axes}d_backward.default")
    def adaptive_average_pool_backward(g, x):
        return gradients_of(lambda x: adaptive_average_pool(x, g.shape[-axes:]), g, x)[0]


_declare_poolings(2)
_declare_poolings(3)


def _means(size, count, like):
    """A matrix whose rows take the means of `count` parts of an axis, which overlap by a part of an element."""
    rows = np.zeros((count, size))
    for i, row in enumerate(rows):
        begin, end = i * size // count, -((i + 1) * size // -count)
        row[begin:end] = 1 / (end - begin)
    return nx.asarray(rows, dtype=like.dtype, device=like.device)


@op("replication_pad1d_backward.default", "replication_pad2d_backward.default", "replication_pad3d_backward.default", when=lambda node: min(node.args[2]) >= 0)
def replication_pad_backward(g, x, widths):
    return gradients_of(lambda x: nx.pad(x, pairs_of(x, widths), "edge"), g, x)[0]


# ---- images at places between pixels ----
def _reflected(x, low, high):
    """x, thrown back at low and high as often as it takes."""
    if low == high:
        return x * 0
    x = nx.abs(x - low)
    rest = x % (high - low)
    return low + nx.where(nx.floor(x / (high - low)) % 2 == 0, rest, high - low - rest)


def _at_pixels(x, places, is_zero_outside):
    """The pixels of x [N, C, spatial...] at places, a floating array [N, ...] of whole numbers for each axis: [N, ..., C]."""
    position, is_inside = nx._core.coordinate(list(places[0].shape), 0, x.device), True
    for place, size in zip(places, x.shape[2:]):
        is_inside = is_inside & (place >= 0) & (place < size)
        position = position * size + nx.clip(place, 0, size - 1).astype("int32")
    pixels = nx.reshape(nx.moveaxis(x, 1, -1), (-1, x.shape[1]))
    found = nx.take(pixels, position, axis=0)
    return nx.where(nx.expand_dims(is_inside, -1), found, 0) if is_zero_outside else found


def _cubic_weights(t):
    """Keys' kernel with a = -0.75 at t + 1, t, 1 - t and 2 - t."""
    def near(x):
        return (1.25 * x - 2.25) * x * x + 1

    def far(x):
        return ((-0.75 * x + 3.75) * x - 6) * x + 3

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _sampled(x, grid, mode, padding, align_corners):
    """mode is 0 for bilinear, 1 for nearest and 2 for bicubic, padding 0 for zeros, 1 for borders and 2 for reflection."""
    sizes, (x, grid) = x.shape[2:], map(_wide, (x, grid))

    def within(place, size):
        if padding == 2:
            place = _reflected(place, *((0, size - 1) if align_corners else (-0.5, size - 0.5)))
        return nx.clip(place, 0, size - 1) if padding else place

    places = [grid[..., len(sizes) - 1 - i] for i in range(len(sizes))]
    places = [(each + 1) * ((size - 1) / 2) if align_corners else ((each + 1) * size - 1) / 2 for each, size in zip(places, sizes)]
    if mode != 2:
        places = [within(*each) for each in zip(places, sizes)]
    starts = [nx.round(each) if mode == 1 else nx.floor(each) for each in places]
    rests = [place - start for place, start in zip(places, starts)]
    weights = [{0: lambda t: (1 - t, t), 1: lambda t: (1,), 2: _cubic_weights}[mode](rest) for rest in rests]
    total = 0
    for corner in itertools.product(range(len(weights[0])), repeat=len(sizes)):
        at = [start + (step - (mode == 2)) for start, step in zip(starts, corner)]
        pixels = _at_pixels(x, [within(*each) for each in zip(at, sizes)] if mode == 2 else at, padding == 0 or mode == 0)
        weight = math.prod(each[step] for each, step in zip(weights, corner))
        total = total + (pixels if mode == 1 else nx.expand_dims(weight, -1) * pixels)
    return nx.moveaxis(total, -1, 1)


op("grid_sampler_2d.default", "grid_sampler_3d.default")(_sampled)


@op("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def sampled_backward(g, x, grid, mode, padding, align_corners, mask):
    return gradients_of(lambda x, grid: _sampled(x, grid, mode, padding, align_corners), g, x, grid, wanted=mask)


@op("resize_images.default")
def resize(x, sizes, *options):
    return nx._core.resize(x, list(sizes), *options)


@op("resize_images_backward.default")
def resize_backward(g, sizes, *options):
    return gradients_of(lambda x: resize(x, g.shape[2:], *options), g, nx.zeros((*g.shape[:2], *sizes), dtype=g.dtype, device=g.device))[0]


@op("drawn.default")
def drawn(sizes, kind, seed, stream):
    return (nx.random.normal if kind == "normal" else nx.random.uniform)(nx.random.Key(stream), tuple(sizes), step=seed)


# ---- normalisation: statistics and results in f32, as torch has them ----
def _normalized(x, axes, epsilon):
    x = _wide(x)
    means, variances = nx.mean(x, axis=axes, keepdims=True), nx.var(x, axis=axes, keepdims=True)
    scales = 1 / nx.sqrt(variances + epsilon)
    return (x - means) * scales, means, variances, scales


def _affine(y, weight, bias, shape):
    y = y if weight is None else y * nx.reshape(weight, shape)
    return y if bias is None else y + nx.reshape(bias, shape)


def _of_channels(x):
    return (1, -1) + (1,) * (x.ndim - 2)


@op("_native_batch_norm_legit_functional.default", when=lambda node: node.args[5])
def batch_norm(x, weight, bias, running_mean, running_var, training, momentum, epsilon):
    axes, shape = (0, *range(2, x.ndim)), _of_channels(x)
    y, means, variances, scales = _normalized(x, axes, epsilon)
    count = x.size // x.shape[1]
    # In the shape of the sums, so that all is one kernel.
    running_mean, running_var = nx.reshape(running_mean, shape), nx.reshape(running_var, shape)
    means_now = running_mean + momentum * (means - running_mean)
    variances_now = running_var + momentum * (variances * (count / max(1, count - 1)) - running_var)
    return _affine(y, weight, bias, shape), *(nx.reshape(each, (-1,)) for each in (means, scales, means_now, variances_now))


@op("_native_batch_norm_legit.no_stats", when=lambda node: node.args[3])
def instance_norm(x, weight, bias, training, momentum, epsilon):
    y, means, _, scales = _normalized(x, (0, *range(2, x.ndim)), epsilon)
    return _affine(y, weight, bias, _of_channels(x)), nx.reshape(means, (-1,)), nx.reshape(scales, (-1,))


@op("native_batch_norm_backward.default")
def batch_norm_backward(g, x, weight, running_mean, running_var, means, scales, training, epsilon, mask):
    axes, shape = (0, *range(2, x.ndim)), _of_channels(x)
    wide, g = _wide(x), _wide(g)
    if not training:
        means, scales = running_mean, 1 / nx.sqrt(running_var + epsilon)
    means, scales = (nx.reshape(each, shape).astype(wide.dtype) for each in (means, scales))
    normal = (wide - means) * scales
    of_bias, of_weight = nx.sum(g, axis=axes, keepdims=True), nx.sum(g * normal, axis=axes, keepdims=True)
    count = x.size // x.shape[1]
    of_x = (g - of_bias / count - normal * (of_weight / count) if training else g) * (scales if weight is None else scales * nx.reshape(weight, shape))
    return of_x, nx.reshape(of_weight, (-1,)), nx.reshape(of_bias, (-1,))


@op("_native_batch_norm_legit_no_training.default", when=lambda node: all(user.args[1] == 0 for user in node.users))
def batch_norm_in_evaluation(x, weight, bias, running_mean, running_var, momentum, epsilon):
    shape = _of_channels(x)
    y = (_wide(x) - nx.reshape(running_mean, shape)) * (1 / nx.sqrt(nx.reshape(running_var, shape) + epsilon))
    nothing = nx.zeros((0,), device=x.device)
    return _affine(y, weight, bias, shape), nothing, nothing


@op("native_layer_norm.default")
def layer_norm(x, sizes, weight, bias, epsilon):
    axes = tuple(range(x.ndim - len(sizes), x.ndim))
    y, means, _, scales = _normalized(x, axes, epsilon)
    return _affine(y, weight, bias, tuple(sizes)), means, scales


@op("native_group_norm.default")
def group_norm(x, weight, bias, samples, channels, pixels, groups, epsilon):
    y, means, _, scales = _normalized(nx.reshape(x, (samples, groups, channels // groups * pixels)), (2,), epsilon)
    return (_affine(nx.reshape(y, x.shape), weight, bias, _of_channels(x)), nx.reshape(means, (samples, groups)), nx.reshape(scales, (samples, groups)))

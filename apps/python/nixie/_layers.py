"""The layers of core aten by functions of nixie: products, convolutions, poolings, dropout and normalisation."""

import functools

import numpy as np

import nixie as nx

from ._aten import _argument, gradients_of, op

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
    return nx.nn.average_pool(x, window, stride=stride, pad=padding, ceil_mode=ceil_mode, count_pad=count_include_pad)


def _declare_poolings(axes):
    largest, mean = _of_images(_max_pool, axes), _of_images(_average_pool, axes)

    @op(f"max_pool{axes}d_with_indices.default", when=lambda node: all(user.args[1] == 0 for user in node.users))  # not where results come from
    def max_pool(x, window, stride=(), padding=0, dilation=1, ceil_mode=False):
        return largest(x, window, stride, padding, dilation, ceil_mode), None

    @op(f"max_pool{axes}d_backward.default")
    def max_pool_backward(g, x, *options):
        return gradients_of(lambda x: largest(x, *options), g, x)[0]

    op(f"avg_pool{axes}d.default", when=lambda node: _argument(node, 6, "divisor_override") is None)(mean)

    @op(f"avg_pool{axes}d_backward.default", when=lambda node: _argument(node, 7, "divisor_override") is None)
    def average_pool_backward(g, x, *options):
        return gradients_of(lambda x: mean(x, *options), g, x)[0]


_declare_poolings(2)
_declare_poolings(3)


def _means(size, count, like):
    """A matrix whose rows take the means of `count` parts of an axis, which overlap by a part of an element."""
    rows = np.zeros((count, size), np.float32)
    for i, row in enumerate(rows):
        begin, end = i * size // count, -((i + 1) * size // -count)
        row[begin:end] = 1 / (end - begin)
    return nx.asarray(rows, device=like.device).astype(like.dtype)


@op("_adaptive_avg_pool2d.default")
@_of_images
def adaptive_average_pool(x, sizes):
    if tuple(sizes) == x.shape[-2:]:
        return x
    windows = [size // count for size, count in zip(x.shape[-2:], sizes)]
    if all(size == count * window for size, count, window in zip(x.shape[-2:], sizes, windows)):
        return nx.nn.average_pool(x, windows, stride=windows)
    rows, columns = (_means(size, count, x) for size, count in zip(x.shape[-2:], sizes))
    return rows @ (x @ columns.T)


@op("_adaptive_avg_pool2d_backward.default")
def adaptive_average_pool_backward(g, x):
    return gradients_of(lambda x: adaptive_average_pool(x, g.shape[-2:]), g, x)[0]


@op("resize_images.default")
def resize(x, sizes, mode, align_corners):
    return nx._core.resize(x, list(sizes), mode, align_corners)


@op("resize_images_backward.default")
def resize_backward(g, sizes, mode, align_corners):
    return gradients_of(lambda x: resize(x, g.shape[2:], mode, align_corners), g, nx.zeros((*g.shape[:2], *sizes), dtype=g.dtype, device=g.device))[0]


@op("dropout.default")
def dropout(x, p, seed, stream):
    is_kept = nx.random.uniform(nx.random.Key(stream), x.shape, step=seed) >= p
    return nx.where(is_kept, x / (1 - p), 0), is_kept


# ---- normalisation: statistics and results in f32, as torch has them ----
def _normalized(x, axes, epsilon):
    x = x.astype("float32") if x.dtype in (nx.float16, nx.bfloat16) else x
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
    wide, g = (each.astype("float32") if each.dtype in (nx.float16, nx.bfloat16) else each for each in (x, g))
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
    wide = x.astype("float32") if x.dtype in (nx.float16, nx.bfloat16) else x
    y = (wide - nx.reshape(running_mean, shape)) * (1 / nx.sqrt(nx.reshape(running_var, shape) + epsilon))
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

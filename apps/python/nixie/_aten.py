"""The ops of torch's graphs, core aten, by functions of nixie: `OPS` by name, and for which nodes they hold. Those of layers are in
_layers, those of positions in _positions."""

import functools
import math

import nixie as nx

OPS = {}
CHECKS = {}  # name: whether the op's options are among those that its function takes


def op(*names, when=None):
    def declare(function):
        for name in names:
            OPS[name] = function
            if when:
                CHECKS[name] = when
        return function

    return declare


def _argument(node, position, name, default=None):
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


for _name, _function in {**{each: each for each in ("abs exp exp2 expm1 log log1p log2 sqrt rsqrt reciprocal sigmoid tanh sin cos floor ceil round trunc erf erfc signbit "
                                                     "logical_not isnan isinf tan asin acos atan sinh cosh asinh acosh atanh log10").split()}, "neg": "negative", "bitwise_not": "bitwise_invert"}.items():
    OPS[_name + ".default"] = getattr(nx, _function, None) or getattr(nx._core, _function)


def gradients_of(function, g, *arrays, wanted=None):
    """The gradients of sum(function(arrays) * g), None for those that are not wanted. g and the arrays may be expressions of each
    other, as where two layers share a weight: only what the function does with them counts."""
    places = [i for i in range(len(arrays)) if wanted is None or wanted[i]]

    def gradients():
        given, arguments = nx._core.arguments(arrays)
        return nx._core.gradients((function(*given) * g).sum(), [arguments[i] for i in places])

    found = iter(nx._core.differentiate(gradients))
    return tuple(next(found) if i in places else None for i in range(len(arrays)))


OPS["relu.default"] = nx.nn.relu
for _name, _function in {"mul": "multiply", "maximum": "maximum", "minimum": "minimum", "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal",
                         "gt": "greater", "ge": "greater_equal", "logical_and": "logical_and", "logical_or": "logical_or", "bitwise_and": "bitwise_and",
                         "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor", "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift", "atan2": "atan2"}.items():
    for _overload in ("default", "Tensor", "Scalar"):
        OPS[f"{_name}.{_overload}"] = getattr(nx, _function)


@op("add.Tensor", "add.Scalar")
def add(a, b, alpha=1):
    return a + (b if alpha == 1 else alpha * b)


@op("sub.Tensor", "sub.Scalar")
def sub(a, b, alpha=1):
    return a - (b if alpha == 1 else alpha * b)


def _of_floats(node):
    dtypes = [getattr(getattr(each, "meta", {}).get("val"), "dtype", None) for each in node.args]
    return any(each is not None and each.is_floating_point for each in dtypes)


@op("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(a, b):
    return a / b


@op("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(a, b):
    return a**b


@op("where.self")
def where(condition, a, b):
    return nx.where(condition, a, b)


@op("clamp.default", "clamp.Tensor")
def clamp(x, low=None, high=None):
    return nx.clip(x, low, high)


@op("hardtanh.default")
def hardtanh(x, low=-1.0, high=1.0):
    return nx.clip(x, low, high)


@op("sign.default")
def sign(x):
    """0 for NaN, as in torch."""
    return nx.where(x != x, 0, nx.sign(x))


@op("leaky_relu.default")
def leaky_relu(x, slope=0.01):
    return nx.nn.relu(x, slope)


@op("elu.default")
def elu(x, alpha=1, scale=1, input_scale=1):
    return nx.where(x > 0, scale * x, scale * alpha * nx.expm1(input_scale * x))


@op("gelu.default")
def gelu(x, approximate="none"):
    if approximate == "none":
        return nx.nn.gelu(x)
    return 0.5 * x * (1 + nx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _by_whole_number(node):
    return type(node.args[1]) is int and node.args[1] != 0


@op("remainder.Tensor", "remainder.Scalar", when=lambda node: _of_floats(node) or _by_whole_number(node))
def remainder(a, b):
    return nx.remainder(a, b)


@op("div.Tensor_mode", "div.Scalar_mode", when=_by_whole_number)
def whole_quotient(a, b, rounding_mode):
    if rounding_mode == "floor":
        return nx.floor_divide(a, b)
    return nx.where(a < 0, -1, 1) * nx.floor_divide(nx.abs(a), abs(b)) * (1 if b > 0 else -1)


@op("fmod.Scalar", when=lambda node: not _of_floats(node) and _by_whole_number(node))
def fmod(a, b):
    rest = nx.remainder(a, abs(b))
    return nx.where((a < 0) & (rest != 0), rest - abs(b), rest)


@op("alias.default", "clone.default", "detach.default", "_to_copy.default", "lift_fresh_copy.default", "convert_element_type.default")
def same(x, *options, **others):
    return x


# ---- shapes ----
@op("view.default", "_unsafe_view.default", "reshape.default")
def view(x, shape):
    return nx.reshape(x, tuple(shape))


@op("permute.default")
def permute(x, axes):
    return nx.permute_dims(x, tuple(axis % x.ndim for axis in axes))


@op("t.default")
def t(x):
    return x.T


@op("transpose.int")
def transpose(x, a, b):
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return nx.permute_dims(x, tuple(order))


@op("expand.default")
def expand(x, shape, implicit=False):
    sizes = (1,) * (len(shape) - x.ndim) + x.shape
    return nx.broadcast_to(x, tuple(own if size == -1 else size for size, own in zip(shape, sizes)))


@op("unsqueeze.default")
def unsqueeze(x, axis):
    return nx.expand_dims(x, axis=axis)


@op("squeeze.dims", "squeeze.dim")
def squeeze(x, axes):
    axes = [axis % x.ndim for axis in ([axes] if isinstance(axes, int) else axes)]
    return nx.squeeze(x, tuple(axis for axis in axes if x.shape[axis] == 1))


@op("cat.default")
def cat(arrays, axis=0):
    most = max(each.ndim for each in arrays)  # torch also takes empty vectors, whatever the others are
    return nx.concat([each for each in arrays if each.ndim == most], axis=axis)


@op("split_with_sizes.default")
def split_with_sizes(x, sizes, axis=0):
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return tuple(slice_of(x, axis, end - size, end) for end, size in zip(ends, sizes))


def pairs_of(x, widths):
    """A pair of widths for each axis, from torch's, which begin with the last axis."""
    return [(0, 0)] * (x.ndim - len(widths) // 2) + list(zip(widths[::2], widths[1::2]))[::-1]


@op("constant_pad_nd.default")
def constant_pad(x, widths, value=0):
    """Negative widths cut off."""
    pairs = pairs_of(x, widths)
    x = x[tuple(slice(max(0, -before), size - max(0, -after)) for size, (before, after) in zip(x.shape, pairs))]
    return nx.pad(x, [(max(0, before), max(0, after)) for before, after in pairs], constant_values=value)


@op("flip.default")
def flip(x, axes):
    return nx.flip(x, axis=tuple(axes))


def _range(x, axis, start, stop, step):
    """A key for a range of an axis."""
    key = [slice(None)] * x.ndim
    key[axis] = slice(start, None if stop is not None and stop >= 2**62 else stop, step)
    return tuple(key)


@op("slice.Tensor")
def slice_of(x, axis=0, start=None, stop=None, step=1):
    return x[_range(x, axis, start, stop, step)]


@op("slice_scatter.default")
def slice_scatter(x, values, axis=0, start=None, stop=None, step=1):
    return nx._core.update(x, list(_range(x, axis, start, stop, step)), values)


@op("select.int")
def select(x, axis, index):
    key = [slice(None)] * x.ndim
    key[axis] = index
    return x[tuple(key)]


@op("full_like.default")
def full_like(x, value, **options):
    return nx.full_like(x, value)


def _kind_of(device):
    return str(device or "cpu").split(":")[0]


def _zeros(shape, dtype=None, device=None, **options):
    """For arrays whose elements are undefined."""
    return nx.zeros(tuple(shape), dtype=dtype, device=_kind_of(device))


OPS["empty.memory_format"] = OPS["_efficientzerotensor.default"] = _zeros
OPS["empty_permuted.default"] = lambda shape, order, **options: _zeros(shape, **options)
OPS["new_empty_strided.default"] = lambda x, shape, strides, dtype=None, **options: _zeros(shape, dtype or x.dtype, x.device)


def _has_numbers(node):
    """Whether all arguments are numbers, or sizes, which have plans of their own."""
    given = [getattr(each, "meta", {"val": each})["val"] for each in node.args]
    return all(isinstance(each, (bool, int, float)) or type(each).__name__ == "SymInt" for each in given)


@op("scalar_tensor.default", when=_has_numbers)
def scalar_tensor(value, **options):
    return full((), value, **options)


@op("full.default", when=lambda node: isinstance(node.args[1], (bool, int, float)))
def full(shape, value, dtype=None, device=None, **options):
    """A number in f64 has all its digits."""
    return nx.full(tuple(shape), value, dtype=dtype if dtype and dtype.is_floating_point else None, device=_kind_of(device))


@op("copy.default")
def copy(x, values):
    return nx.broadcast_to(values, x.shape)


@op("repeat.default")
def repeat(x, counts):
    return nx.tile(x, tuple(counts))


@op("arange.start_step", when=_has_numbers)
def arange(start, stop, step=1, dtype=None, device=None, **options):
    return nx.arange(start, stop, step, dtype=nx.int64 if all(isinstance(each, int) for each in (start, stop, step)) else None, device=_kind_of(device))


# ---- sums ----
def _axes(x, axes):
    if axes is None or (not isinstance(axes, int) and len(axes) == 0):
        return tuple(range(x.ndim))
    return axes if isinstance(axes, int) else tuple(axes)


def _summable(x, dtype):
    """What is added up: of the type that is asked for, else integers and truths as int64."""
    if dtype is None and nx.isdtype(x.dtype, "real floating"):
        return x
    return x.astype("int64" if dtype is None else str(dtype).removeprefix("torch."))


@op("sum.default", "sum.dim_IntList")
def sum_of(x, axes=None, keepdims=False, dtype=None):
    return nx.sum(_summable(x, dtype), axis=_axes(x, axes), keepdims=keepdims)


@op("mean.default", "mean.dim")
def mean(x, axes=None, keepdims=False, dtype=None):
    return nx.mean(_summable(x, dtype), axis=_axes(x, axes), keepdims=keepdims)


@op("amax.default")
def amax(x, axes=(), keepdims=False):
    return nx.max(x, axis=_axes(x, axes), keepdims=keepdims)


@op("amin.default")
def amin(x, axes=(), keepdims=False):
    return nx.min(x, axis=_axes(x, axes), keepdims=keepdims)


@op("max.dim")
def largest(x, axis, keepdims=False):
    return nx.max(x, axis=axis, keepdims=keepdims), nx.argmax(x, axis=axis, keepdims=keepdims)


@op("min.dim")
def smallest(x, axis, keepdims=False):
    return nx.min(x, axis=axis, keepdims=keepdims), nx.argmin(x, axis=axis, keepdims=keepdims)


OPS["max.default"], OPS["min.default"] = nx.max, nx.min
for _name in ("any", "all"):
    for _overload in ("default", "dim", "dims"):
        OPS[f"{_name}.{_overload}"] = functools.partial(lambda test, x, axes=None, keepdims=False: test(x, axis=_axes(x, axes), keepdims=keepdims), getattr(nx, _name))
OPS["argmax.default"] = lambda x, axis=None, keepdims=False: nx.argmax(x, axis=axis, keepdims=keepdims)
OPS["argmin.default"] = lambda x, axis=None, keepdims=False: nx.argmin(x, axis=axis, keepdims=keepdims)


@op("prod.dim_int")
def prod(x, axis, keepdims=False, dtype=None):
    return nx.prod(_summable(x, dtype), axis=axis, keepdims=keepdims)


OPS["prod.default"] = lambda x, dtype=None: nx.prod(_summable(x, dtype))
OPS["cumsum.default"] = lambda x, axis, dtype=None: nx.cumulative_sum(_summable(x, dtype), axis=axis)
OPS["cumprod.default"] = lambda x, axis, dtype=None: nx.cumulative_prod(_summable(x, dtype), axis=axis)


@op("linalg_vector_norm.default")
def vector_norm(x, order=2, axes=None, keepdims=False, dtype=None):
    x = x.astype("float32") if x.dtype in (nx.float16, nx.bfloat16) else _summable(x, dtype)
    if abs(order) == math.inf:
        return (nx.max if order > 0 else nx.min)(nx.abs(x), axis=_axes(x, axes), keepdims=keepdims)
    powers = (x != 0).astype(x.dtype) if order == 0 else x * x if order == 2 else nx.abs(x) ** order
    sums = nx.sum(powers, axis=_axes(x, axes), keepdims=keepdims)
    return sums if order in (0, 1) else nx.sqrt(sums) if order == 2 else sums ** (1 / order)


@op("var.correction")
def var(x, axes=None, *, correction=None, keepdim=False):
    return nx.var(x, axis=_axes(x, axes), correction=1 if correction is None else correction, keepdims=keepdim)


@op("var_mean.correction")
def var_mean(x, axes=None, *, correction=None, keepdim=False):
    return var(x, axes, correction=correction, keepdim=keepdim), mean(x, axes, keepdim)


@op("_softmax.default")
def softmax(x, axis, half_to_float):
    return nx.nn.softmax(x.astype("float32") if half_to_float else x, axis)


@op("_log_softmax.default")
def log_softmax(x, axis, half_to_float):
    return nx.nn.log_softmax(x.astype("float32") if half_to_float else x, axis)


OPS["getitem"] = lambda values, i: values[i]

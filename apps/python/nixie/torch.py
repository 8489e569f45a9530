"""nixie in PyTorch: functions of nixie on torch's tensors with gradients, `replace` for the modules of a net, and
`torch.compile(model, backend="nixie")`. Plans read and write the tensors' memory, on torch's current stream, channels-last or not.
"""

import logging

import torch
from torch import nn

from . import _core, nn as _nn
from ._core import Array
from ._aten import gradients_of
from ._manipulation import pad as _padded, reshape as _reshape
from ._plan import LAST, Function, is_channels_last

_log = logging.getLogger("nixie.torch")


def tensor(x):
    """An array as a tensor in the same memory, which must not be written to: torch.from_dlpack with less on the way.

    >>> nixie.torch.tensor(nixie.from_dlpack(torch.ones(2)) * 2)
    tensor([2., 2.])
    """
    return _core.to_object(x, torch.Tensor)


# ---- functions with gradients ----
class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx, plans, options, *tensors):
        ctx.plans, ctx.options = plans, options
        ctx.save_for_backward(*tensors)
        return plans.forward(options, tensors)[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        wanted = tuple(ctx.needs_input_grad[2:])
        found = iter(ctx.plans.backward(ctx.options, wanted, (g, *ctx.saved_tensors)))
        return (None, None, *(next(found) if each else None for each in wanted))


class _Plans:
    def __init__(self, function, precision):
        self.function, self.precision, self.known = function, precision, {}

    def run(self, key, trace, tensors):
        """Results are channels-last if an argument is."""
        key, is_last = list(key), False
        for x in tensors:
            key += (x.dtype, x.device)
            is_last = is_last or is_channels_last(x)
        key = (*key, is_last)
        if key not in self.known:

            def function(arrays):
                results = trace(arrays)
                for x in results:
                    if not isinstance(x, Array):
                        raise TypeError(f"the function returns a {type(x).__name__}, expected one array")
                return results, [LAST if key[-1] and x.ndim == 4 else tuple(range(x.ndim)) for x in results], {}

            self.known[key] = Function(function, tensors[0].device, precision=self.precision)
        return self.known[key](tensors)

    def forward(self, options, tensors):
        return self.run((_frozen(options),), lambda arrays: [self.function(*arrays, **options)], tensors)

    def backward(self, options, wanted, tensors):
        def trace(arrays):
            found = gradients_of(lambda *given: self.function(*given, **options), *arrays, wanted=wanted)
            return [each for each in found if each is not None]

        return self.run((_frozen(options), wanted), trace, tensors)


def _frozen(option):
    """An option as a key."""
    if isinstance(option, dict):
        return tuple((name, _frozen(each)) for name, each in option.items())
    return tuple(map(_frozen, option)) if isinstance(option, (list, tuple)) else option


def function(of_arrays, *, precision="fp32"):
    """A function of torch's tensors, with gradients, from one of nixie's arrays that returns one array; further arguments
    are named.

    >>> swish = nixie.torch.function(lambda x: x * nixie.sigmoid(x))
    >>> x = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> swish(x).sum().backward()
    >>> x.grad
    tensor([0.5000, 0.9277])
    """
    plans = _Plans(of_arrays, precision)

    def call(*tensors, **options):
        needs_gradients = False
        for x in tensors:
            if not isinstance(x, torch.Tensor):
                raise TypeError(f"a function of nixie.torch is given a {type(x).__name__}, expected a tensor; further arguments are named")
            needs_gradients = needs_gradients or x.requires_grad
        if needs_gradients and torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():  # whose error says what they want
            return _Call.apply(plans, options, *tensors)
        return plans.forward(options, tensors)[0]

    return call


def _pair(value):
    return [value, value] if isinstance(value, int) else list(value) * 2 if len(value) == 1 else list(value)


def _conv(x, weight, bias=None, *, pad, **options):
    if pad == "same":  # an even window has one row more behind the image
        widths = [d * (size - 1) for d, size in zip(_pair(options["dilation"]), weight.shape[2:])]
        x, pad = _padded(x, [(0, 0), (0, 0), *((width // 2, width - width // 2) for width in widths)]), 0
    y = _nn.conv(x, weight, pad=0 if pad == "valid" else pad, **options)
    return y if bias is None else y + _reshape(bias, (-1, 1, 1))


def _linear(x, weight, bias=None):
    y = x @ weight.T
    return y if bias is None else y + bias


def _under_autocast(tensors):
    """Operands of products in the type that torch.autocast asks for."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return [x.to(dtype) if x.is_floating_point() and x.dtype != torch.float64 else x for x in tensors]


_conv2d, _linear_of, _relu, _gelu, _softmax = map(function, (_conv, _linear, _nn.relu, _nn.gelu, _nn.softmax))
_max_pool, _average_pool = map(function, (_nn.max_pool, _nn.average_pool))


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """torch.nn.functional.conv2d.

    >>> nixie.torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), padding=1)[0, 0, 1]
    tensor([6., 9., 6.])
    """
    if padding == "same" and any(each != 1 for each in _pair(stride)):
        raise ValueError(f"conv2d: padding 'same' with stride {stride}, expected 1")
    if x.dim() == 3:
        return conv2d(x[None], weight, bias, stride, padding, dilation, groups)[0]
    given = _under_autocast((x, weight) if bias is None else (x, weight, bias))
    return _conv2d(*given, stride=stride, pad=padding, dilation=dilation, groups=groups)


def linear(x, weight, bias=None):
    """torch.nn.functional.linear.

    >>> nixie.torch.linear(torch.ones(1, 2), torch.ones(3, 2))
    tensor([[2., 2., 2.]])
    """
    return _linear_of(*_under_autocast((x, weight) if bias is None else (x, weight, bias)))


def relu(x):
    """torch.nn.functional.relu.

    >>> nixie.torch.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _relu(x)


def gelu(x):
    """torch.nn.functional.gelu, by erf.

    >>> nixie.torch.gelu(torch.zeros(1))
    tensor([0.])
    """
    return _gelu(x)


def softmax(x, dim=-1):
    """torch.nn.functional.softmax.

    >>> nixie.torch.softmax(torch.zeros(4))
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return _softmax(x, axis=dim)


def max_pool2d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """torch.nn.functional.max_pool2d.

    >>> nixie.torch.max_pool2d(torch.arange(4.0).reshape(1, 1, 2, 2), 2)
    tensor([[[[3.]]]])
    """
    if x.dim() == 3:
        return max_pool2d(x[None], kernel_size, stride, padding, dilation, ceil_mode)[0]
    return _max_pool(x, window=kernel_size, stride=kernel_size if stride is None else stride, pad=padding, dilation=dilation, ceil_mode=ceil_mode)


def avg_pool2d(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """torch.nn.functional.avg_pool2d.

    >>> nixie.torch.avg_pool2d(torch.arange(4.0).reshape(1, 1, 2, 2), 2)
    tensor([[[[1.5000]]]])
    """
    if x.dim() == 3:
        return avg_pool2d(x[None], kernel_size, stride, padding, ceil_mode, count_include_pad)[0]
    return _average_pool(x, window=kernel_size, stride=kernel_size if stride is None else stride, pad=padding, ceil_mode=ceil_mode, count_pad=count_include_pad)


class _Conv2d(nn.Conv2d):
    def forward(self, x):
        return conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _Linear(nn.Linear):
    def forward(self, x):
        return linear(x, self.weight, self.bias)


def replace(model):
    """Lets nixie run the convolutions and linear layers of a model, in place; returns the model. Parameters and their names
    stay. Convolutions whose padding is other than zeros stay torch's.

    >>> nixie.torch.replace(torch.nn.Sequential(torch.nn.Linear(2, 3)))[0](torch.zeros(1, 2)).shape
    torch.Size([1, 3])
    """
    for module in model.modules():
        if type(module) is nn.Conv2d and module.padding_mode == "zeros":
            module.__class__ = _Conv2d
        elif type(module) is nn.Linear:
            module.__class__ = _Linear
    return model


def backend(module, inputs):
    """The backend "nixie" of torch.compile. AOTAutograd's graphs of core aten become plans of nixie; ops that nixie lacks stay
    in torch. The logger "nixie.torch" names these at level INFO.

    >>> net = torch.compile(torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()), backend="nixie")
    >>> net(torch.zeros(1, 2)).shape
    torch.Size([1, 3])
    """
    from ._backend import backend

    return backend(module, inputs)


if "nixie" not in torch._dynamo.list_backends():  # an installed package is found by its entry point
    torch._dynamo.register_backend(name="nixie")(backend)

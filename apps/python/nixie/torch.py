"""nixie in PyTorch: functions of nixie on torch's tensors with gradients, `replace` for the modules of a net, and
`torch.compile(model, backend="nixie")`. Memory is shared by DLPack, on torch's current stream, channels-last or not.
"""

import logging

import torch
from torch import nn

from . import _aten, nn as _nn
from ._creation import from_dlpack as _from_dlpack
from ._manipulation import permute_dims as _permute, reshape as _reshape
from ._transforms import compile as _compile

_log = logging.getLogger("nixie.torch")


# ---- tensors as arrays ----
def _is_channels_last(x):
    return x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)


def _array(x):
    try:
        return _from_dlpack(x)
    except ValueError:  # a part of a tensor that begins where no kernel reads
        return _from_dlpack(x.clone())


def _arrays(tensors):
    """Arrays that share the tensors' memory, with None and numbers as they are, and which of them are channels-last."""
    arrays, last = [], []
    for x in tensors:
        if not isinstance(x, torch.Tensor):
            arrays.append(x), last.append(False)
            continue
        x, is_last = x.detach(), _is_channels_last(x)
        arrays.append(_array(x.permute(0, 2, 3, 1) if is_last else x.contiguous()))
        last.append(is_last)
    return arrays, tuple(last)


def _logical(arrays, last):
    return [_permute(x, (0, 3, 1, 2)) if is_last else x for x, is_last in zip(arrays, last)]


def _stored(results, last):
    """Results as they are stored."""
    return [_permute(x, (0, 2, 3, 1)) if is_last else x for x, is_last in zip(results, last)]


def _tensors(results, last):
    """Tensors that share the results' memory."""
    tensors = [torch.from_dlpack(x) if hasattr(x, "__dlpack__") else x for x in results]
    return [x.permute(0, 3, 1, 2) if is_last else x for x, is_last in zip(tensors, last)]


def _like_inputs(results, last):
    """Which results of a function are channels-last: images, if an input is."""
    return tuple(any(last) and x.ndim == 4 for x in results)


# ---- functions with gradients ----
class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx, plans, options, *tensors):
        ctx.plans, ctx.options = plans, options
        ctx.save_for_backward(*tensors)
        arrays, last = _arrays(tensors)
        found = plans.forward(arrays, last, options)
        return _tensors(found, _like_inputs(found, last))[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        arrays, last = _arrays((g, *ctx.saved_tensors))
        wanted = tuple(ctx.needs_input_grad[2:])
        found = ctx.plans.backward(arrays, last, ctx.options, wanted)
        found = iter(_tensors(found, _like_inputs(found, last)))
        return (None, None, *(next(found) if each else None for each in wanted))


class _Plans:
    def __init__(self, function, precision):
        def forward(arrays, last, options):
            found = [function(*_logical(arrays, last), **options)]
            return _stored(found, _like_inputs(found, last))

        def backward(arrays, last, options, wanted):
            g, *arrays = _logical(arrays, last)
            found = _aten.gradients_of(lambda *given: function(*given, **options), g, *arrays, wanted=wanted)
            found = [each for each in found if each is not None]
            return _stored(found, _like_inputs(found, last))

        self.forward, self.backward = _compile(forward, precision=precision), _compile(backward, precision=precision)


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
        return _Call.apply(plans, options, *tensors)

    return call


def _conv(x, weight, bias=None, **options):
    y = _nn.conv(x, weight, **options)
    return y if bias is None else y + _reshape(bias, (-1, 1, 1))


def _linear(x, weight, bias=None):
    y = x @ weight.T
    return y if bias is None else y + bias


_conv2d, _linear_of, _relu, _gelu, _softmax = map(function, (_conv, _linear, _nn.relu, _nn.gelu, _nn.softmax))
_max_pool, _average_pool = map(function, (_nn.max_pool, _nn.average_pool))


def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """torch.nn.functional.conv2d.

    >>> nixie.torch.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3), padding=1)[0, 0, 1]
    tensor([6., 9., 6.])
    """
    given = (x, weight) if bias is None else (x, weight, bias)
    return _conv2d(*given, stride=stride, pad=padding, dilation=dilation, groups=groups)


def linear(x, weight, bias=None):
    """torch.nn.functional.linear.

    >>> nixie.torch.linear(torch.ones(1, 2), torch.ones(3, 2))
    tensor([[2., 2., 2.]])
    """
    return _linear_of(x, weight) if bias is None else _linear_of(x, weight, bias)


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


def max_pool2d(x, kernel_size, stride=None, padding=0):
    """torch.nn.functional.max_pool2d.

    >>> nixie.torch.max_pool2d(torch.arange(4.0).reshape(1, 1, 2, 2), 2)
    tensor([[[[3.]]]])
    """
    return _max_pool(x, window=kernel_size, stride=kernel_size if stride is None else stride, pad=padding)


def avg_pool2d(x, kernel_size, stride=None):
    """torch.nn.functional.avg_pool2d without padding.

    >>> nixie.torch.avg_pool2d(torch.arange(4.0).reshape(1, 1, 2, 2), 2)
    tensor([[[[1.5000]]]])
    """
    return _average_pool(x, window=kernel_size, stride=kernel_size if stride is None else stride)


class _Conv2d(nn.Conv2d):
    def forward(self, x):
        return conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _Linear(nn.Linear):
    def forward(self, x):
        return linear(x, self.weight, self.bias)


def replace(model):
    """Lets nixie run the convolutions and linear layers of a model, in place; returns the model. Parameters and their names
    stay. Convolutions whose padding is a word or other than zeros stay torch's.

    >>> nixie.torch.replace(torch.nn.Sequential(torch.nn.Linear(2, 3)))[0](torch.zeros(1, 2)).shape
    torch.Size([1, 3])
    """
    for module in model.modules():
        if type(module) is nn.Conv2d and module.padding_mode == "zeros" and not isinstance(module.padding, str):
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

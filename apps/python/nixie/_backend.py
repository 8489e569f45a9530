"""The backend "nixie" of torch.compile: AOTAutograd's graphs of core aten, whose parts that nixie has become plans."""

import operator

import torch
from functorch.compile import default_partition, make_boxed_func
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from . import _aten
from ._transforms import compile as _compile
from ._types import NAMES
from .torch import _arrays, _is_channels_last, _log, _logical, _stored, _tensors

aten = torch.ops.aten


# Pooling's gradient by its input: the positions of the largest elements, which torch keeps for it, are not needed.
@torch.library.custom_op("nixie::max_pool2d_backward", mutates_args=())
def _max_pool2d_backward(g: torch.Tensor, x: torch.Tensor, window: list[int], stride: list[int], padding: list[int]) -> torch.Tensor:
    _, indices = aten.max_pool2d_with_indices(x, window, stride, padding)
    return aten.max_pool2d_with_indices_backward(g, x, window, stride, padding, [1, 1], False, indices)


@_max_pool2d_backward.register_fake
def _(g, x, window, stride, padding):
    return torch.empty_like(x)


def _partition(joint, inputs, **options):
    for node in joint.graph.find_nodes(op="call_function", target=aten.max_pool2d_with_indices_backward.default):
        g, x, window, stride, padding, dilation, ceil_mode, _ = node.args
        if not ceil_mode and all(each == 1 for each in dilation):
            with joint.graph.inserting_before(node):
                new = joint.graph.call_function(torch.ops.nixie.max_pool2d_backward.default, (g, x, window, stride, padding))
            new.meta = dict(node.meta)
            node.replace_all_uses_with(new)
            joint.graph.erase_node(node)
    joint.graph.eliminate_dead_code()
    joint.recompile()
    return default_partition(joint, inputs, **options)


def _name(node):
    """The op's name in _aten.OPS: `add.Tensor`."""
    if node.target is operator.getitem:
        return "getitem"
    return str(node.target).split(".", 1)[1] if isinstance(node.target, torch._ops.OpOverload) else ""


def _values(node):
    found = node.meta.get("val")
    return found if isinstance(found, (tuple, list)) else [found]


class _Supported(OperatorSupportBase):
    """Whether a node becomes part of a plan."""

    def __init__(self):
        self.missing = {}

    def is_node_supported(self, submodules, node):
        if node.op != "call_function":
            return False
        reason = self.reason_against(node)
        if reason:
            self.missing.setdefault(str(node.target), reason)
        return not reason

    def reason_against(self, node):
        name = _name(node)
        if name == "getitem":  # goes with what it is taken from
            return self.reason_against(node.args[0]) if node.args[0].op == "call_function" else "no op of nixie"
        if name not in _aten.OPS:
            return "no op of nixie"
        devices = set()
        for each in [node, *node.all_input_nodes]:
            for value in _values(each):
                if isinstance(value, torch.Tensor):
                    if str(value.dtype).removeprefix("torch.") not in NAMES:
                        return f"{value.dtype}"
                    devices.add(value.device)
        if len(devices) != 1:
            return f"{len(devices)} devices"
        if name in _aten.CHECKS and not _aten.CHECKS[name](node):
            return "other options"
        return ""


class _Plan(torch.nn.Module):
    """A part of a graph as a function of nixie, traced for each combination of shapes."""

    def __init__(self, graph):
        super().__init__()
        found = graph.output_node().args[0]
        self.graph, self.is_tuple = graph, isinstance(found, (tuple, list))
        # torch's layout of each result: what stays in torch may ask for strides
        self.last = tuple(isinstance(node, torch.fx.Node) and _is_channels_last(node.meta["val"]) for node in (found if self.is_tuple else [found]))
        self.run = _compile(self.interpret)

    def interpret(self, arrays, last):
        values, given = {}, iter(_logical(arrays, last))
        for node in self.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "output":
                found = torch.fx.map_arg(node.args[0], values.get)
                return _stored(found if self.is_tuple else [found], self.last)
            else:
                args, options = torch.fx.map_arg((node.args, node.kwargs), values.get)
                values[node] = self.of_its_type(node, _aten.OPS[_name(node)](*args, **options))

    @staticmethod
    def of_its_type(node, found):
        """torch's types of results, as its rules of promotion have them."""
        several = isinstance(found, tuple)
        typed = [x if x is None or value is None or str(x.dtype) == str(value.dtype)[6:] else x.astype(str(value.dtype)[6:])
                 for x, value in zip(found if several else [found], _values(node))]
        return tuple(typed) if several else typed[0]

    def forward(self, *tensors):
        arrays, last = _arrays(tensors)
        found = _tensors(self.run(arrays, last), self.last)
        return tuple(found) if self.is_tuple else found[0]


def _compiled(module, inputs):
    supported = _Supported()
    partitioner = CapabilityBasedPartitioner(module, supported, allows_single_node_partition=True)
    module = partitioner.fuse_partitions(partitioner.propose_partitions())
    parts = [name for name, _ in module.named_children() if name.startswith("fused_")]
    for name in parts:
        setattr(module, name, _Plan(getattr(module, name).graph))
    _log.info("%d plans; in torch: %s", len(parts), ", ".join(f"{name} ({reason})" for name, reason in supported.missing.items()) or "nothing")
    return make_boxed_func(module.forward)


backend = aot_autograd(fw_compiler=_compiled, partition_fn=_partition, decompositions=core_aten_decompositions())


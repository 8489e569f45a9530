"""The backend "nixie" of torch.compile: AOTAutograd's graphs of core aten, whose parts that nixie has become plans."""

import operator

import torch
from functorch.compile import default_partition, make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

import nixie as nx

from . import _aten, _decompositions, _layers, _rewrites  # noqa: F401, which declare further ops
from ._plan import LAST, Function, order_of
from ._types import NAMES
from .torch import _log

aten = torch.ops.aten
IMAGE_GRADIENTS = (aten.convolution_backward.default, aten.native_batch_norm_backward.default, aten.avg_pool2d_backward.default,
                   torch.ops.nixie.max_pool2d_backward.default)


def _readers(node):
    """What reads a node, or a slice of it."""
    return [each for user in node.users for each in (user, *(_readers(user) if user.target is aten.slice.Tensor else ()))]


def _partition(joint, inputs, *, num_fwd_outputs, **options):
    """The forward and the backward graph. What only the backward pass gets is marked as saved, and as images where all that asks for
    it is ours and one of these asks for images: then its layout is ours, too."""
    _rewrites.rewrite_joint(joint.graph)
    joint.recompile()
    forward, backward = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
    outputs = forward.graph.output_node().args[0]
    users = {node.name: _readers(node) for node in backward.graph.nodes if node.op == "placeholder"}
    supported = _Supported()
    for node in set(outputs[num_fwd_outputs:]) - set(outputs[:num_fwd_outputs]):
        if isinstance(node, torch.fx.Node):
            node.meta["is_saved"] = True
            readers = users.get(node.name, [])
            node.meta["is_images"] = any(each.target in IMAGE_GRADIENTS for each in readers) and all(
                supported.is_node_supported(None, each) for each in readers)
    return forward, backward


def _name(node):
    """The op's name in _aten.OPS: `add.Tensor`."""
    if node.target is operator.getitem:
        return "getitem"
    return str(node.target).split(".", 1)[1] if isinstance(node.target, torch._ops.OpOverload) else ""


def _is_set(node):
    return node.target is aten.copy_.default


def _is_constant(node):
    """Whether torch can compute a node beforehand."""
    tags = getattr(node.target, "tags", (torch.Tag.nondeterministic_seeded,))
    return not node.all_input_nodes and torch.Tag.nondeterministic_seeded not in tags


def _constant(node):
    return nx.asarray(node.target(*node.args, **{**node.kwargs, "device": "cpu"}), device=node.meta["val"].device.type)


def _values(node):
    found = node.meta.get("val")
    return found if isinstance(found, (tuple, list)) else [found]


def _numbers_fit(node):
    """Whether whole numbers beside integers are of their type; torch lets others wrap around."""
    dtype = node.meta["val"].dtype
    return dtype.is_floating_point or dtype == torch.bool or all(
        type(each) is not int or torch.iinfo(dtype).min <= each <= torch.iinfo(dtype).max for each in node.args)


class _Supported(OperatorSupportBase):
    """Whether a node becomes part of a plan."""

    def __init__(self):
        self.missing = {}

    def is_node_supported(self, submodules, node):
        if node.op != "call_function" or "is_view" in node.meta:
            return False
        reason = self.reason_against(node)
        if reason and any(isinstance(value, torch.Tensor) for value in _values(node)):
            self.missing.setdefault(str(node.target), reason)
        return not reason

    def reason_against(self, node):
        name = _name(node)
        if name == "getitem":  # goes with what it is taken from
            return self.reason_against(node.args[0]) if node.args[0].op == "call_function" else "no op of nixie"
        if name not in _aten.OPS and not _is_set(node) and not _is_constant(node):
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
        if (device := devices.pop()).type not in ("cpu", "cuda") or device.index:
            return f"on {device}"
        if _is_set(node) and (node.args[0].op != "placeholder" or node.args[0].meta["val"].shape != node.args[1].meta["val"].shape):
            return "no whole argument"
        if torch.Tag.pointwise in getattr(node.target, "tags", ()) and not _numbers_fit(node):
            return "a number beyond its type"
        if name in _aten.CHECKS and not _aten.CHECKS[name](node):
            return "other options"
        return ""


class _Part(torch.nn.Module):
    """A part of a graph as plans."""

    def __init__(self, graph):
        super().__init__()
        found = graph.output_node().args[0]
        self.is_tuple = isinstance(found, (tuple, list))
        self.graph, self.outputs = graph, list(found) if self.is_tuple else [] if found is None else [found]
        self.placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        self.values = {self.placeholders.index(node.args[0]): node.args[1] for node in graph.nodes if _is_set(node)}
        # torch's layout of each result: what stays in torch may ask for strides
        self.orders = [_order(node) for node in self.outputs]
        kept = [i for i, node in enumerate(self.outputs) if node.meta.get("is_saved")]
        device = next(value.device for node in self.outputs + self.placeholders for value in _values(node) if isinstance(value, torch.Tensor))
        self.function = Function(self.interpret, device, tuple(self.values), kept)

    def interpret(self, arguments):
        values = dict(zip(self.placeholders, arguments))
        for node in self.graph.nodes:
            if _is_set(node):
                values[node] = values[node.args[1]]
            elif node.op == "call_function":
                args, options = torch.fx.map_arg((node.args, node.kwargs), values.get)
                function = _aten.OPS.get(_name(node))
                values[node] = self.of_its_type(node, function(*args, **options) if function else _constant(node))
        return [values[node] for node in self.outputs], self.orders, {place: values[node] for place, node in self.values.items()}

    @staticmethod
    def of_its_type(node, found):
        """torch's types of results, as its rules of promotion have them."""
        several = isinstance(found, tuple)
        typed = [x if x is None or value is None or str(x.dtype) == str(value.dtype)[6:] else x.astype(str(value.dtype)[6:])
                 for x, value in zip(found if several else [found], _values(node))]
        return tuple(typed) if several else typed[0]

    def forward(self, *arguments):
        found = self.function(arguments)
        return found[0] if len(found) == 1 and not self.is_tuple else tuple(found)


def _order(node):
    """The order in which torch stores a node's value, gaps left out; channels-last for images that a GPU's plans alone read."""
    x = node.meta["val"]
    if node.meta.get("is_images") and x.dim() == 4 and x.device.type == "cuda":
        return LAST
    sizes, strides = ([each if isinstance(each, int) else each.node.hint or 2 for each in form] for form in (x.shape, x.stride()))
    x = torch.empty_strided(sizes, strides, device="meta")
    return order_of(x) or tuple(sorted(range(x.dim()), key=lambda axis: -x.stride(axis) if all(x.stride()) else axis))


def _leave_sets(partition, missing):
    """torch sets what is read elsewhere, too, when that is done. A part that only sets tensors leaves the smallest one to torch, since torch makes no
    module of a part without results."""
    for node in filter(_is_set, list(partition.nodes)):
        if not all(user in partition.nodes or user.op == "output" for user in node.args[0].users):
            missing.setdefault(str(node.target), "its old value is read elsewhere")
            partition.remove_node(node)
    while partition.nodes and all(user in partition.nodes for node in partition.nodes for user in node.users):
        partition.remove_node(min(filter(_is_set, partition.nodes), key=lambda node: node.meta["val"].numel()))


def _compiled(module, inputs):
    _rewrites.rewrite(module.graph)
    supported = _Supported()
    partitioner = CapabilityBasedPartitioner(module, supported, allows_single_node_partition=True)
    partitions = partitioner.propose_partitions()
    for each in partitions:
        _leave_sets(each, supported.missing)
    module = partitioner.fuse_partitions([each for each in partitions if each.nodes])
    parts = [name for name, _ in module.named_children() if name.startswith("fused_")]
    for name in parts:
        setattr(module, name, _Part(getattr(module, name).graph))
    _log.info("%d plans; in torch: %s", len(parts), ", ".join(f"{name} ({reason})" for name, reason in supported.missing.items()) or "nothing")
    return make_boxed_func(module.forward)


def _compiled_forward(module, inputs):
    _rewrites.view_results(module.graph)
    return _compiled(module, inputs)


_by_graphs = aot_autograd(fw_compiler=_compiled_forward, bw_compiler=_compiled, partition_fn=_partition, decompositions=_decompositions.TABLE,
                          keep_inference_input_mutations=True)


def backend(module, inputs, **options):
    _rewrites.rewrite_called(module.graph)
    module.recompile()
    return _by_graphs(module, inputs, **options)

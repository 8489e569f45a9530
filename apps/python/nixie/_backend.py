"""The backend "nixie" of torch.compile: AOTAutograd's graphs of core aten, whose parts that nixie has become plans."""

import operator

import torch
from functorch.compile import default_partition, make_boxed_func
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from . import _aten, _layers  # noqa: F401, which declares further ops
from ._plan import LAST, Function, is_channels_last, order_of
from ._types import NAMES
from .torch import _log

aten = torch.ops.aten
VIEWS = (aten.view.default, aten.permute.default, aten.t.default, aten.transpose.int, aten.expand.default, aten.unsqueeze.default, aten.squeeze.dims)


# Pooling's gradient by its input: the positions of the largest elements, which torch keeps for it, are not needed.
@torch.library.custom_op("nixie::max_pool2d_backward", mutates_args=())
def _max_pool2d_backward(
    g: torch.Tensor, x: torch.Tensor, window: list[int], stride: list[int], padding: list[int], ceil_mode: bool
) -> torch.Tensor:
    options = window, stride, padding, [1, 1], ceil_mode
    return aten.max_pool2d_with_indices_backward(g, x, *options, aten.max_pool2d_with_indices(x, *options)[1])


@_max_pool2d_backward.register_fake
def _(g, x, window, stride, padding, ceil_mode):
    return torch.empty_like(x)


def _pool_without_positions(graph):
    for node in graph.find_nodes(op="call_function", target=aten.max_pool2d_with_indices_backward.default):
        *given, dilation, ceil_mode, _ = node.args
        if all(each == 1 for each in dilation):
            node.target, node.args = torch.ops.nixie.max_pool2d_backward.default, (*given, ceil_mode)


# Dropout by a seed that torch draws once for a graph; `stream` is the number of the dropout.
@torch.library.custom_op("nixie::dropout", mutates_args=())
def _dropout(x: torch.Tensor, p: float, seed: torch.Tensor, stream: int) -> tuple[torch.Tensor, torch.Tensor]:
    return aten.native_dropout(x, p, True)


@_dropout.register_fake
def _(x, p, seed, stream):
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)


def _seed_dropout(graph):
    dropouts = [node for node in graph.find_nodes(op="call_function", target=aten.native_dropout.default) if node.args[2] and node.args[1] < 1]
    for stream, node in enumerate(dropouts):
        x, p, _ = node.args
        if stream == 0:
            with graph.inserting_before(node):
                options = {"dtype": torch.int32, "device": x.meta["val"].device}
                seed = graph.call_function(aten.randint.low, (0, 2**31 - 1, []), options)
            with x.meta["val"].fake_mode:
                seed.meta = {**node.meta, "val": torch.empty((), **options)}
        node.target, node.args = torch.ops.nixie.dropout.default, (x, p, seed, stream)


def _constant(node):
    """The value of a node that is computed from numbers alone, else None."""
    if node.op != "call_function" or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return None
    given = {each: _constant(each) for each in node.all_input_nodes}
    if any(each is None for each in given.values()):
        return None
    args, options = torch.fx.map_arg((node.args, node.kwargs), given.get)
    return node.target(*args, **options | ({"device": "cpu"} if "device" in options else {}))


def _is_nearest(places, small, large):
    """Whether rows and columns of an image are numbered as its resizing to the nearest pixel has them."""
    with unset_fake_temporarily():
        found = [_constant(each) for each in places]
        return all(each is not None and torch.equal(each, (torch.arange(out) * size // out).reshape(form))
                   for each, size, out, form in zip(found, small, large, ((-1, 1), (-1,))))


def _resize_nearest(graph):
    """torch takes rows and columns by computed numbers where it resizes to the nearest pixel: one op again."""
    for node in graph.find_nodes(op="call_function", target=aten.index.Tensor) + graph.find_nodes(op="call_function", target=aten.index_put.default):
        x, places = node.args[:2]
        is_gradient = node.target is aten.index_put.default
        if len(places) != 4 or any(places[:2]) or not all(places[2:]):
            continue
        small, large = (list(each.meta["val"].shape) for each in (x, node.args[2] if is_gradient else node))
        if not _is_nearest(places[2:], small[2:], large[2:]):
            continue
        if not is_gradient:
            node.target, node.args = aten.upsample_nearest2d.default, (x, large[2:])
        elif node.args[3:] == (True,) and x.target is aten.full.default and x.args[1] == 0:
            node.target, node.args = aten.upsample_nearest2d_backward.default, (node.args[2], large[2:], small)


def _is_backward(node):
    return node.meta.get("partitioner_tag") == "is_backward"


def _partition(joint, inputs, *, num_fwd_outputs, **options):
    """The forward and the backward graph. What only the backward pass gets is marked as saved."""
    _pool_without_positions(joint.graph)
    _seed_dropout(joint.graph)
    _resize_nearest(joint.graph)
    for node in joint.graph.find_nodes(op="call_function", target=aten.native_batch_norm_backward.default):
        if node.args[7]:  # in training the running statistics do not matter, so none are saved
            node.args = (*node.args[:3], None, None, *node.args[5:])
    for target in (aten.alias.default, aten.detach.default, aten.clone.default):  # a value is saved once, under one name
        for node in joint.graph.find_nodes(op="call_function", target=target):
            x = node.args[0]
            if target is not aten.clone.default or (x.op != "placeholder" and x.meta["val"].stride() == node.meta["val"].stride()):
                node.replace_all_uses_with(x, delete_user_cb=lambda user: user.op != "output")
    for node in joint.graph.find_nodes(op="call_function", target=aten.hardtanh.default):
        for user in list(node.args[0].users):  # its gradient asks which elements it cut off, and its result tells it as well
            asks = list(user.users) if user.target is aten._to_copy.default else [user]
            if all(_is_backward(each) and each.target in (aten.le.Scalar, aten.ge.Scalar) and each.args[1] in node.args[1:] for each in asks):
                user.replace_input_with(node.args[0], node)
    for node in list(joint.graph.nodes):  # the backward pass views what is saved anyway, or is a parameter
        for user in list(node.users) if node.target in VIEWS and not _is_backward(node) else ():
            if _is_backward(user):
                with joint.graph.inserting_before(user):
                    again = joint.graph.node_copy(node)
                again.meta["partitioner_tag"] = user.meta["partitioner_tag"]
                user.replace_input_with(node, again)
    joint.graph.eliminate_dead_code()
    joint.recompile()
    forward, backward = default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **options)
    outputs = forward.graph.output_node().args[0]
    for node in set(outputs[num_fwd_outputs:]) - set(outputs[:num_fwd_outputs]):
        if isinstance(node, torch.fx.Node):
            node.meta["is_saved"] = True
    return forward, backward


def _name(node):
    """The op's name in _aten.OPS: `add.Tensor`."""
    if node.target is operator.getitem:
        return "getitem"
    return str(node.target).split(".", 1)[1] if isinstance(node.target, torch._ops.OpOverload) else ""


def _is_set(node):
    return node.target is aten.copy_.default


def _is_set_last(node):
    """Whether a plan may write what torch changes in place: the new value is made of all that reads the old one."""
    changed, left = node.args[0], [node.args[1]]
    if changed.op != "placeholder" or changed.meta["val"].shape != left[0].meta["val"].shape:
        return False
    sources = set()
    while left:
        if (at := left.pop()) not in sources:
            sources.add(at)
            left += at.all_input_nodes
    return set(changed.users) - {node} <= sources


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
        if name not in _aten.OPS and not _is_set(node):
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
        if _is_set(node) and not _is_set_last(node):
            return "its old value is read elsewhere"
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
            if node.op == "call_function" and not _is_set(node):
                args, options = torch.fx.map_arg((node.args, node.kwargs), values.get)
                values[node] = self.of_its_type(node, _aten.OPS[_name(node)](*args, **options))
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
    """The order in which torch stores a node's value."""
    x = node.meta["val"]
    symbolic = not all(isinstance(each, int) for each in (*x.shape, *x.stride()))
    order = (LAST if is_channels_last(x) else None) if symbolic else order_of(x)
    return order or tuple(range(x.dim()))


def _is_pointwise(node):
    return node.op == "call_function" and (torch.Tag.pointwise in getattr(node.target, "tags", ()) or node.target is aten._to_copy.default)


def _is_of_rows(view):
    """Whether a node views a matrix, whose columns stay, as an array of more axes."""
    if view.target is not aten.view.default:
        return False
    matrix, shape = view.args[0].meta["val"].shape, view.meta["val"].shape
    return len(matrix) == 2 and len(shape) > 2 and matrix[1] == shape[-1]


def _keep_rows(graph):
    """Elementwise ops on views of products are computed on matrices, so that a product and what follows can be one kernel. Ops that
    share operands move together, or not at all."""
    groups = {}  # of views and of ops on nothing else
    for node in graph.nodes:
        given = node.all_input_nodes if _is_pointwise(node) else []
        if not given or not all(each in groups or _is_of_rows(each) for each in given):
            continue
        if len({each.meta["val"].shape for each in (node, *given)}) == 1:
            group = {node}.union(*(groups.get(each, {each}) for each in given))
            groups.update(dict.fromkeys(group, group))
    matrices = {}
    for node, group in list(groups.items()):
        views = [each for each in group if _is_of_rows(each)]
        if any(each.args[0].target in (aten.mm.default, aten.addmm.default) for each in views):
            matrices.update((view, view.args[0]) for view in views)
    for node in graph.nodes:
        if node in groups and node not in matrices and all(each in matrices for each in node.all_input_nodes):
            view = node.all_input_nodes[0]  # of a matrix or, by now, of what one became
            with graph.inserting_before(node):
                inner = graph.node_copy(node, matrices.get)
            inner.meta["val"] = node.meta["val"].reshape(matrices[view].meta["val"].shape)
            matrices[node] = inner
            node.target, node.args, node.kwargs = aten.view.default, (inner, view.args[1]), {}


def _compiled(module, inputs):
    _resize_nearest(module.graph)
    _keep_rows(module.graph)
    module.graph.eliminate_dead_code()
    supported = _Supported()
    partitioner = CapabilityBasedPartitioner(module, supported, allows_single_node_partition=True)
    module = partitioner.fuse_partitions(partitioner.propose_partitions())
    parts = [name for name, _ in module.named_children() if name.startswith("fused_")]
    for name in parts:
        setattr(module, name, _Part(getattr(module, name).graph))
    _log.info("%d plans; in torch: %s", len(parts), ", ".join(f"{name} ({reason})" for name, reason in supported.missing.items()) or "nothing")
    return make_boxed_func(module.forward)


_decompositions = core_aten_decompositions()
_decompositions.pop(aten.native_batch_norm_backward.default, None)  # one kernel from the whole, several from its parts
backend = aot_autograd(fw_compiler=_compiled, partition_fn=_partition, decompositions=_decompositions, keep_inference_input_mutations=True)

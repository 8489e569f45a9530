"""Rewrites of torch's graphs before parts of them become plans: `rewrite_called` of what a function calls, `rewrite_joint` of forward and
backward pass together, so that less is saved between them, and `rewrite` of each pass."""

import inspect
import operator

import torch
from torch.nn import functional
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.library import custom_op

aten = torch.ops.aten
VIEWS = (aten.view.default, aten.permute.default, aten.t.default, aten.transpose.int, aten.expand.default, aten.unsqueeze.default, aten.squeeze.dims)


# Pooling's gradient by its input: the positions of the largest elements, which torch keeps for it, are not needed.
def _declare_max_pool_backward(name, pool, backward):
    @custom_op(name, mutates_args=())
    def declared(
        g: torch.Tensor, x: torch.Tensor, window: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil_mode: bool
    ) -> torch.Tensor:
        options = window, stride, padding, dilation, ceil_mode
        return backward(g, x, *options, pool(x, *options)[1])

    @declared.register_fake
    def _(g, x, window, stride, padding, dilation, ceil_mode):
        return torch.empty_like(x)


_declare_max_pool_backward("nixie::max_pool2d_backward", aten.max_pool2d_with_indices, aten.max_pool2d_with_indices_backward)
_declare_max_pool_backward("nixie::max_pool3d_backward", aten.max_pool3d_with_indices, aten.max_pool3d_with_indices_backward)


def _pool_without_positions(graph):
    for target, ours in ((aten.max_pool2d_with_indices_backward.default, torch.ops.nixie.max_pool2d_backward.default),
                         (aten.max_pool3d_with_indices_backward.default, torch.ops.nixie.max_pool3d_backward.default)):
        for node in graph.find_nodes(op="call_function", target=target):
            node.target, node.args = ours, node.args[:-1]


# Resizing as one op, which torch takes apart into many before there is a graph to look at.
@custom_op("nixie::resize_images", mutates_args=())
def _resize(x: torch.Tensor, sizes: list[int], mode: str, align_corners: bool, antialias: bool) -> torch.Tensor:
    return functional.interpolate(x, sizes, mode=mode, align_corners=None if mode == "nearest" else align_corners, antialias=antialias)


@custom_op("nixie::resize_images_backward", mutates_args=())
def _resize_backward(g: torch.Tensor, sizes: list[int], mode: str, align_corners: bool, antialias: bool) -> torch.Tensor:
    backward = getattr(aten, f"_upsample_{mode}2d_aa_backward" if antialias else f"upsample_{mode}2d_backward")
    return backward(g, g.shape[2:], [*g.shape[:2], *sizes], *([] if mode == "nearest" else [align_corners]))


@_resize.register_fake
@_resize_backward.register_fake
def _(x, sizes, *options):
    return functional.interpolate(x, sizes)


_resize.register_autograd(lambda ctx, g: (torch.ops.nixie.resize_images_backward(g, *ctx.options), *[None] * 4),
                          setup_context=lambda ctx, inputs, output: setattr(ctx, "options", (list(inputs[0].shape[2:]), *inputs[2:])))


def _options_of(node):
    """What a call of interpolate is given, by name."""
    bound = inspect.signature(functional.interpolate).bind(*node.args, **node.kwargs)
    bound.apply_defaults()
    return bound.arguments


def _is_nearest(own, new):
    """Whether torch, which multiplies by a rounded quotient, takes the same pixels as whole numbers do."""
    with unset_fake_temporarily():
        places = torch.arange(new)
        return torch.equal((places.float() * (own / new)).long(), places * own // new)


def rewrite_called(graph):
    """Before AOTAutograd: resizing of images, whose scale is the quotient of the sizes, as one op."""
    for node in graph.find_nodes(op="call_function", target=functional.interpolate):
        given = _options_of(node)
        x, y, mode = given["input"].meta.get("example_value"), node.meta.get("example_value"), given["mode"]
        if x is None or y is None or x.dim() != 4 or mode not in ("nearest", "bilinear", "bicubic") or x.dtype != y.dtype:
            continue
        scale = None if given["recompute_scale_factor"] else given["scale_factor"]
        scales = list(scale) if isinstance(scale, (list, tuple)) else [scale] * 2
        sizes = list(zip(x.shape[2:], y.shape[2:], scales))
        if all(isinstance(own, int) and isinstance(new, int) and (by is None or new == own * by) and (mode != "nearest" or _is_nearest(own, new))
               for own, new, by in sizes):
            node.target, node.kwargs = torch.ops.nixie.resize_images.default, {}
            node.args = given["input"], [new for _, new, _ in sizes], mode, bool(given["align_corners"]), given["antialias"]


def _share_seed(graph):
    """torch draws one seed for all random numbers of a graph, of which each array is another stream."""
    drawn = graph.find_nodes(op="call_function", target=torch.ops.nixie.drawn.default)
    if len({node.args[2] for node in drawn}) > 1:
        for stream, node in enumerate(drawn):
            node.args = (*node.args[:2], drawn[0].args[2], stream)


def _is_backward(node):
    return node.meta.get("partitioner_tag") == "is_backward"


def _save_few_statistics(graph):
    """Batch norm's gradient reads those of the batch in training, the running ones in evaluation."""
    for node in graph.find_nodes(op="call_function", target=aten.native_batch_norm_backward.default):
        node.args = (*node.args[:3], None, None, *node.args[5:]) if node.args[7] else (*node.args[:5], None, None, *node.args[7:])


def _without_aliases(graph):
    """A value is saved once, under one name."""
    for target in (aten.alias.default, aten.detach.default, aten.clone.default):
        for node in graph.find_nodes(op="call_function", target=target):
            x = node.args[0]
            if target is not aten.clone.default or (x.op != "placeholder" and x.meta["val"].stride() == node.meta["val"].stride()):
                node.replace_all_uses_with(x, delete_user_cb=lambda user: user.op != "output")


def _gate_by_result(graph):
    """hardtanh's gradient asks which elements it cut off; its result says so as well as its input."""
    for node in graph.find_nodes(op="call_function", target=aten.hardtanh.default):
        cut_off = tuple(zip((aten.le.Scalar, aten.ge.Scalar), node.args[1:]))  # the gradient of clamp asks for the others, which all results fulfil
        for user in list(node.args[0].users):
            asks = list(user.users) if user.target is aten._to_copy.default else [user]
            if all(_is_backward(each) and (each.target, *each.args[1:]) in cut_off for each in asks):
                user.replace_input_with(node.args[0], node)


def _view_again(graph):
    """The backward pass views what is saved anyway, or is a parameter, in place of saved views."""
    for node in list(graph.nodes):
        for user in list(node.users) if node.target in VIEWS and not _is_backward(node) else ():
            if _is_backward(user):
                with graph.inserting_before(user):
                    again = graph.node_copy(node)
                again.meta["partitioner_tag"] = user.meta["partitioner_tag"]
                user.replace_input_with(node, again)


def _read_part(part, whole, axis, start):
    """The backward pass reads a part of a concatenation where that holds it; but convolutions in groups read dense images."""
    stop, readers = start + part.meta["val"].shape[axis], list(filter(_is_backward, part.users))
    if part.op == "placeholder" or any(user.target is aten.convolution_backward.default and user.args[9] > 1 for user in readers):
        return
    for user in readers:
        with whole.graph.inserting_before(user), whole.meta["val"].fake_mode:
            found = whole.graph.call_function(aten.slice.Tensor, (whole, axis, start, stop))
            found.meta = {**user.meta, "val": whole.meta["val"].narrow(axis, start, stop - start)}
        user.replace_input_with(part, found)


def _parts_of_concatenations(graph):
    """A concatenation that the backward pass reads is saved alone: not what it holds, nor others of neighbours among its parts. Parts that
    are concatenations stand for theirs."""
    wholes, known = [], {}
    for node in graph.find_nodes(op="call_function", target=aten.cat.default):
        x = node.meta["val"]
        axis = (node.args[1] if len(node.args) > 1 else 0) % x.dim()
        # torch also takes empty vectors, whatever the others are: a cache of keys begins as one.
        given = [part for part in node.args[0] if part.meta["val"].dim() == x.dim()]
        parts = [part for each in given for part in known.get((each, axis), [each])]
        sizes = [part.meta["val"].shape[axis] for part in parts]
        # Multiples of 8 channels are read in place.
        if not _is_backward(node) and all(isinstance(size, int) and size % 8 == 0 for size in sizes) and all(
                part.meta["val"].dtype == x.dtype for part in parts):
            wholes.append((node, axis, parts, sizes))
            known[node, axis] = parts
    for whole, axis, parts, sizes in sorted(wholes, key=lambda each: -len(each[2])):
        if any(map(_is_backward, whole.users)):
            for other, *form in wholes:
                for first in range(len(parts)):
                    if other is not whole and form[:2] == [axis, parts[first : first + len(form[1])]]:
                        _read_part(other, whole, axis, sum(sizes[:first]))
            for i, part in enumerate(parts):
                _read_part(part, whole, axis, sum(sizes[:i]))


def rewrite_joint(graph):
    for each in (_pool_without_positions, _share_seed, _save_few_statistics, _without_aliases, _gate_by_result, _view_again, _parts_of_concatenations):
        each(graph)
    graph.eliminate_dead_code()


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
        if len({str(each.meta["val"].shape) for each in (node, *given)}) == 1:  # sizes may be symbols
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


def _is_view(node):
    return _is_view(node.args[0]) if node.target is operator.getitem else getattr(node.target, "is_view", False)


def view_results(graph):
    """A result that is a view of an argument or of another result becomes torch's view of that: it costs nothing, and torch, which makes
    such results anew by their strides, finds its own. What is saved for the backward pass alone is dense, in a layout of ours."""
    output = graph.output_node()
    results = [each for each in output.all_input_nodes if "is_saved" not in each.meta]
    for result in results:
        views, source = [], result
        while _is_view(source) and (not views or source not in results):
            views.append(source)
            source = source.args[0]
        if views and (source.op == "placeholder" or source in results):
            for view in reversed(views):
                with graph.inserting_before(output):
                    viewed = graph.node_copy(view)
                viewed.replace_input_with(view.args[0], source)
                viewed.meta["is_view"] = True
                source = viewed
            output.replace_input_with(result, source)


def rewrite(graph):
    _share_seed(graph)
    _keep_rows(graph)
    graph.eliminate_dead_code()

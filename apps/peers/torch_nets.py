#!/usr/bin/env python3
"""The nets of `benchmark compare` in PyTorch: eager, in a CUDA graph, and compiled and then in a CUDA graph.

A net that torchvision has is torchvision's own (dropout and auxiliary heads off); any other is built from its layers.
bprop gives the gradient of every parameter for a random output gradient, not the images' gradient. A training step has
cross entropy and the fused SGD (momentum 0.9, weight decay 5e-4) on fp32 weights, with autocast in halves and without a
loss scale. cudnn.benchmark is on; images are channels-last, in fp32 on a GPU also row-major.
"""
import os, time
from peer import DECAY, MOMENTUM, RATE, check_parameters, layer_of, not_expressed, per_axis, serve, summary, time_row
import torch
from torch import nn

CUDA = torch.cuda.is_available() and os.environ.get("PEER_DEVICE") != "cpu"
DEVICE = "cuda" if CUDA else "cpu"
WARMUP, SECONDS = 5, 0.2
HEADS_OFF = dict(aux_logits=False, init_weights=False)
TORCHVISION = {
    **{kind: (kind, dict(dropout=0)) for kind in
       ["alexnet", "mobilenet_v2", *(f"vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn"))]},
    **{kind: (kind, {}) for kind in ("resnet18", "resnet34", "resnet50", "resnet101", "densenet121")},
    "squeezenet1_1": ("squeezenet1_1", dict(dropout=0)),
    "googlenet_bn": ("googlenet", dict(dropout=0, **HEADS_OFF)),
    "inception_v3": ("inception_v3", dict(dropout=0, **HEADS_OFF)),
}


def engines():
    if not CUDA:
        return {"fp32": ["eager", "eager nchw"], "bf16": ["eager"]}
    halves = ["eager", "graph", "compile", "max-autotune"]
    return {"fp16": halves, "bf16": halves, "tf32": ["eager", "graph", "compile"],
            "fp32": ["eager nchw", "graph nchw", "compile", "graph"]}


class Branches(nn.ModuleList):
    """Modules that read the same input; their results are joined along an axis, or added."""

    def __init__(self, branches, axis=None):
        super().__init__(branches)
        self.axis = axis

    def forward(self, x):
        results = [branch(x) for branch in self]
        return sum(results[1:], results[0]) if self.axis is None else torch.cat(results, self.axis)


def windows(f, axes):
    return dict(kernel_size=per_axis(f["window"], axes), stride=per_axis(f["stride"] or f["window"], axes),
                padding=per_axis(f["pad"], axes), ceil_mode=f["ceil_mode"])


class SqueezeExcite(nn.Module):
    """Channels scaled by gates that are computed from their means."""

    def __init__(self, squeeze):
        super().__init__()
        self.squeeze, self.fc1, self.fc2 = squeeze, nn.LazyConv2d(squeeze, 1), None

    def forward(self, x):
        if self.fc2 is None:
            self.fc2 = nn.Conv2d(self.squeeze, x.shape[1], 1)
        means = nn.functional.adaptive_avg_pool2d(x, 1)
        return x * self.fc2(nn.functional.relu(self.fc1(means))).sigmoid()


class ForInput(nn.Module):
    """A module that is made for the shape of the first input that it meets."""

    def __init__(self, make):
        super().__init__()
        self.make, self.made = make, None

    def forward(self, x):
        if self.made is None:
            self.made = self.make(x.shape)
        return self.made(x)


class Reshape(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def forward(self, x):
        return x.reshape(x.shape[0], *self.sizes)


def of_rank(name, shape):
    """`BatchNorm2d` for images; vectors have the module for signals."""
    return getattr(nn, f"{name}{max(len(shape) - 2, 1)}d")


def layer_norm(f, shape):
    if f["last"] not in (-1, len(shape) - 1):
        raise not_expressed("layer_norm that ends before the last axis")
    return nn.LayerNorm(shape[f["first"]:], f["eps"], f["affine"])


def of_axes(axes):
    """Convolutions and poolings over 1, 2 or 3 axes."""
    each = lambda value: per_axis(value, axes)
    named = lambda name: getattr(nn, f"{name}{axes}d")
    return {
        f"conv{axes}d": lambda f: named("LazyConv")(f["out"], each(f["kernel"]), each(f["stride"]), each(f["pad"]),
                                                    each(f["dilation"]), f["groups"], f["bias"]),
        f"deconv{axes}d": lambda f: named("LazyConvTranspose")(
            f["out"], each(f["kernel"]), each(f["stride"]), each(f["pad"]), each(f["output_pad"]), f["groups"], f["bias"],
            each(f["dilation"])),
        f"max_pool{axes}d": lambda f: named("MaxPool")(**windows(f, axes)),
        f"avg_pool{axes}d": lambda f: named("AvgPool")(**windows(f, axes), count_include_pad=f["count_pad"]),
    }


MODULES = {
    **of_axes(1), **of_axes(2), **of_axes(3),
    "linear": lambda f: nn.LazyLinear(f["out"], f["bias"]),
    "batch_norm": lambda f: ForInput(
        lambda shape: of_rank("BatchNorm", shape)(shape[1], f["eps"], f["momentum"], f["affine"])),
    "layer_norm": lambda f: ForInput(lambda shape: layer_norm(f, shape)),
    "group_norm": lambda f: ForInput(lambda shape: nn.GroupNorm(f["groups"], shape[1], f["eps"], f["affine"])),
    "reshape": lambda f: Reshape(f["sizes"]),
    "softmax": lambda f: nn.Softmax(f["axis"]),
    "squeeze_excite": lambda f: SqueezeExcite(f["squeeze"]),
    "channel_shuffle": lambda f: nn.ChannelShuffle(f["groups"]),
    "upsample": lambda f: nn.Upsample(scale_factor=f["factor"], mode=f["mode"]),
    "relu": lambda f: nn.LeakyReLU(f["slope"], inplace=True) if f["slope"] else nn.ReLU(inplace=True),
    "relu_clipped": lambda f: nn.Hardtanh(0, f["cut"], inplace=True),
    "sigmoid": lambda f: nn.Sigmoid(),
    "tanh": lambda f: nn.Tanh(),
    "gelu": lambda f: nn.GELU(),
    "elu": lambda f: nn.ELU(f["alpha"]),
    "leaky_relu": lambda f: nn.LeakyReLU(f["slope"], inplace=True),
    "silu": lambda f: nn.SiLU(inplace=True),
    "hard_swish": lambda f: nn.Hardswish(inplace=True),
    "softplus": lambda f: nn.Softplus(f["beta"]),
    "adaptive_avg_pool2d": lambda f: nn.AdaptiveAvgPool2d(per_axis(f["out"], 2)),
    "global_avg_pool": lambda f: ForInput(lambda shape: of_rank("AdaptiveAvgPool", shape)(1)),
    "global_max_pool": lambda f: ForInput(lambda shape: of_rank("AdaptiveMaxPool", shape)(1)),
    "lrn": lambda f: nn.LocalResponseNorm(f["size"], f["alpha"], f["beta"], f["bias"]),
    "flatten": lambda f: nn.Flatten(f["first"]),
    "identity": lambda f: nn.Identity(),
    "dropout": lambda f: nn.Dropout(f["rate"]),
    "dropout2d": lambda f: nn.Dropout2d(f["rate"]),
    "concat": lambda f: Branches([module(branch) for branch in f["branches"]], f["axis"]),
    "sum": lambda f: Branches([module(branch) for branch in f["branches"]]),
    "sequential": lambda layers: nn.Sequential(*[module(layer) for layer in layers]),
}


def module(item):
    kind, fields = layer_of(item)
    if kind not in MODULES:
        raise not_expressed(kind)
    return MODULES[kind](fields)


def torchvision_net(request):
    """None where torchvision is missing or has no such net."""
    try:
        import torchvision
    except ImportError:
        return None
    if request["kind"] not in TORCHVISION:
        return None
    name, options = TORCHVISION[request["kind"]]
    return getattr(torchvision.models, name)(weights=None, num_classes=request["classes"], **options)


def build(request):
    with torch.device(DEVICE):
        net = torchvision_net(request)
        if net is None:
            net = module({"sequential": request["layers"]})
            with torch.no_grad():
                net(torch.zeros(2, *request["sample"]))  # the layers' inputs are found out by a run
    check_parameters(sum(p.numel() for p in net.parameters()), request)
    return net


def laid_out(model, layout):
    """Filters of volumes have a layout of their own."""
    ranks = {p.dim() for p in model.parameters()}
    if layout == torch.channels_last and 5 in ranks:
        layout = torch.contiguous_format if 4 in ranks else torch.channels_last_3d
    return model.to(memory_format=layout)


def synchronize():
    if CUDA:
        torch.cuda.synchronize()


def time_in_turn(pieces, runs, warm_seconds=SECONDS):
    """Milliseconds of each piece, round after round, without waiting in between (device events on a GPU)."""
    for piece in pieces:
        start, count = time.perf_counter(), 0
        while count < WARMUP or time.perf_counter() - start < warm_seconds:
            piece()
            synchronize()
            count += 1
    marks = []

    def mark():
        if CUDA:
            marks.append(torch.cuda.Event(enable_timing=True))
            marks[-1].record()
        else:
            marks.append(time.perf_counter())

    mark()
    for _ in range(runs):
        for piece in pieces:
            piece()
            mark()
    synchronize()
    between = lambda a, b: a.elapsed_time(b) if CUDA else (b - a) * 1e3
    intervals = [between(a, b) for a, b in zip(marks, marks[1:])]
    return [summary(intervals[i::len(pieces)]) for i in range(len(pieces))]


def graphed(piece):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(11):
            piece()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        piece()
    return graph.replay


def compiled(model, engine):
    if engine == "compile":
        return torch.compile(model)
    return torch.compile(model, mode="max-autotune-no-cudagraphs") if engine == "max-autotune" else model


def prepare(requests):
    """Starts the compiler, which takes seconds, by a function that is nobody's."""
    if CUDA and requests:
        x = torch.ones(1024, device=DEVICE, requires_grad=True)
        torch.compile(lambda x: (x * 2 + 1).relu().sum())(x).backward()


def time_net(request):
    torch.manual_seed(0)
    torch._dynamo.reset()
    precision, runs = request["precision"], request["runs"]
    engine, *layout = request["engine"].split()
    layout = torch.contiguous_format if layout else torch.channels_last
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    capture = graphed if engine != "eager" else lambda piece: piece
    images = torch.rand(request["batch"], *request["sample"], device=DEVICE).contiguous(memory_format=layout)
    labels = torch.randint(0, request["classes"], (request["batch"],), device=DEVICE)
    try:
        fprop, total = passes(request, images.to(dtype), dtype, layout, engine, capture, runs)
        if CUDA:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        train = training(request, images, labels, dtype, layout, engine, capture, runs)
        peak = torch.cuda.max_memory_allocated() / 1e6 if CUDA else None
    finally:
        if CUDA:
            torch.cuda.empty_cache()
    return dict(fprop_ms=fprop, total_ms=total, train_ms=train, peak_mb=peak)


def passes(request, images, dtype, layout, engine, capture, runs):
    model = laid_out(build(request).to(dtype), layout)
    for each in model.modules():
        if isinstance(each, nn.modules.batchnorm._BatchNorm):
            each.float()  # as autocast keeps them
    parameters = list(model.parameters())
    forward = compiled(model, engine)
    with torch.no_grad():
        gradient = torch.rand_like(model(images))
    fprop = capture(lambda: forward(images))
    total = capture(lambda: torch.autograd.grad(forward(images), parameters, gradient))
    return time_in_turn([fprop, total], runs)


def training(request, images, labels, dtype, layout, engine, capture, runs):
    model = laid_out(build(request), layout)
    forward = compiled(model, engine)
    sgd = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, fused=True)
    losses = []

    def step():
        sgd.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=dtype, enabled=dtype != torch.float32, cache_enabled=False):
            loss = nn.functional.cross_entropy(forward(images).float(), labels)
        loss.backward()
        sgd.step()
        losses[:] = [loss]

    figures = time_in_turn([capture(step)], runs)[0]
    if not torch.isfinite(losses[0]).item():
        raise RuntimeError(f"the loss is {losses[0].item()}")
    return figures


def name_of_program():
    name = torch.cuda.get_device_name() if CUDA else f"{torch.get_num_threads()} threads"
    cudnn = f", cuDNN {torch.backends.cudnn.version()}" if CUDA else ""
    return f"PyTorch {torch.__version__}{cudnn}, {name}"


if __name__ == "__main__":
    serve(name_of_program(), engines(), time_row(time_net, prepare))

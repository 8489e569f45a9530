#!/usr/bin/env python3
"""The nets of `benchmark nets` in PyTorch: eager, in a CUDA graph, and compiled and then in a CUDA graph.

The same work: biases, ReLU on all but the last layer, no dropout or softmax; bprop of a random output gradient to every
weight and bias, not to the images. A training step has cross entropy and the fused SGD (momentum 0.9, weight decay 5e-4)
on fp32 weights, with autocast in halves. cudnn.benchmark is on; images are channels-last, in fp32 on a GPU also row-major.
"""
import os, time
from peer import CLASSES, NETS, branches, main, summary
import torch
from torch import nn

CUDA = torch.cuda.is_available() and os.environ.get("PEER_DEVICE") != "cpu"
DEVICE = "cuda" if CUDA else "cpu"
WARMUP, SECONDS = 5, 0.2


def engines():
    if not CUDA:
        return {"fp32": ["eager", "eager nchw"], "bf16": ["eager"]}
    halves = ["eager", "graph", "compile", "max-autotune"]
    return {"fp16": halves, "bf16": halves, "tf32": ["eager", "graph", "compile"],
            "fp32": ["eager nchw", "graph nchw", "compile", "graph"]}


def conv_layers(channels, layers):
    """Modules of convolutions and poolings, and the channels that come out."""
    modules = []
    for kind, *sizes in layers:
        if kind == "conv":
            modules += [nn.Conv2d(channels, *sizes), nn.ReLU(inplace=True)]
            channels = sizes[0]
        elif kind == "pool":
            modules.append(nn.MaxPool2d(*sizes))
        elif kind == "mean":
            modules.append(nn.AdaptiveAvgPool2d(1))
        else:
            modules.append(Inception(channels, sizes))
            channels = modules[-1].channels
    return modules, channels


class Inception(nn.Module):
    def __init__(self, channels, sizes):
        super().__init__()
        made = [conv_layers(channels, layers) for layers in branches(*sizes)]
        self.branches = nn.ModuleList(nn.Sequential(*modules) for modules, _ in made)
        self.channels = sum(out for _, out in made)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def build(net):
    (channels, height, width), layers = NETS[net]
    linear = [sizes[0] for kind, *sizes in layers if kind == "fc"]
    modules, _ = conv_layers(channels, [layer for layer in layers if layer[0] != "fc"])
    with torch.device("meta"):
        flat = nn.Sequential(*conv_layers(channels, [layer for layer in layers if layer[0] != "fc"])[0])(
            torch.empty(1, channels, height, width)).numel()
    modules.append(nn.Flatten())
    for i, out in enumerate(linear):
        modules += [nn.Linear(flat, out)] + ([nn.ReLU(inplace=True)] if i != len(linear) - 1 else [])
        flat = out
    return nn.Sequential(*modules)


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


def time_net(net, precision, batch, runs, engine):
    torch.manual_seed(0)
    torch._dynamo.reset()
    engine, *layout = engine.split()
    layout = torch.contiguous_format if layout else torch.channels_last
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    capture = graphed if engine != "eager" else lambda piece: piece
    images = torch.rand(batch, *NETS[net][0], device=DEVICE).contiguous(memory_format=layout)
    labels = torch.randint(0, CLASSES, (batch,), device=DEVICE)
    try:
        fprop, total = passes(net, images.to(dtype), dtype, layout, engine, capture, runs)
        train = training(net, images, labels, dtype, layout, engine, capture, runs)
    finally:
        if CUDA:
            torch.cuda.empty_cache()
    return dict(fprop_ms=fprop, total_ms=total, train_ms=train)


def passes(net, images, dtype, layout, engine, capture, runs):
    with torch.device(DEVICE):
        model = build(net).to(dtype=dtype, memory_format=layout)
    parameters = list(model.parameters())
    forward = compiled(model, engine)
    with torch.no_grad():
        gradient = torch.rand_like(model(images))
    fprop = capture(lambda: forward(images))
    total = capture(lambda: torch.autograd.grad(forward(images), parameters, gradient))
    return time_in_turn([fprop, total], runs)


def training(net, images, labels, dtype, layout, engine, capture, runs):
    with torch.device(DEVICE):
        model = build(net).to(memory_format=layout)
    forward = compiled(model, engine)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4, fused=True)
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
    main(__doc__, name_of_program(), engines(), time_net, prepare)

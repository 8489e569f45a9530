#!/usr/bin/env python3
"""Nets of torchvision and timm by torch.compile(backend="nixie"), beside inductor with CUDA graphs and beside eager torch: a row
for each net. Times are those of a training step (forward, cross entropy, backward, SGD with momentum) and of a forward pass under
no_grad, on channels-last images, with autocast and a loss scale in fp16. Dropout is off. `--check` compares losses and
gradients with eager's instead, as torch's own benchmarks do: by the distance of both from float64.
"""
import argparse
import contextlib
import copy
import fcntl
import gc
import logging
import statistics
import sys
import time
import traceback

import torch
from torch import nn
from torch.nn import functional

import nixie.torch

TORCHVISION = ["resnet18", "resnet50", "mobilenet_v2", "densenet121", "vgg16", "googlenet"]
TIMM = ["efficientnet_b0", "convnext_tiny", "resnext50_32x4d", "regnety_004", "mobilenetv3_large_100", "ghostnet_100", "res2net50_26w_4s",
        "dla34", "cspdarknet53", "repvgg_a2", "hrnet_w18_small", "mixnet_s", "seresnet50", "xception41", "mobileone_s0"]
ENGINES = {"nixie": {"backend": "nixie"}, "inductor": {"mode": "reduce-overhead"}, "eager": None}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def net_named(name):
    if name in TORCHVISION:
        import torchvision

        options = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
        net = getattr(torchvision.models, name)(weights=None, **options)
    else:
        import timm

        net = timm.create_model(name, drop_rate=0.0)
    for each in net.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
        if hasattr(each, "drop_prob"):  # timm's DropPath
            each.drop_prob = 0.0
    return net.to(DEVICE, memory_format=torch.channels_last)


def samples(batch, size):
    x = torch.randn(batch, 3, size, size, device=DEVICE).to(memory_format=torch.channels_last)
    return x, torch.randint(1000, (batch,), device=DEVICE)


class Log(logging.Handler):
    """How many plans each graph has, and what stays in torch."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.plans, self.in_torch = 0, set()

    def emit(self, record):
        plans, in_torch = record.args
        self.plans = max(self.plans, plans)
        self.in_torch |= {in_torch} - {"nothing"}


class Work:
    """A net under an engine."""

    def __init__(self, net, engine, x, labels, precision):
        self.net, self.x, self.labels = copy.deepcopy(net), x, labels
        options = ENGINES[engine]
        self.run = self.net if options is None else torch.compile(self.net, **options)
        self.cast = {"device_type": DEVICE, "dtype": getattr(torch, precision), "enabled": precision != "float32"}
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=1e-3, momentum=0.9, fused=DEVICE == "cuda")
        self.scaler = torch.amp.GradScaler(DEVICE, init_scale=128.0, growth_interval=10**6, enabled=precision == "float16")

    def step(self):
        self.net.train()
        self.optimizer.zero_grad()
        with torch.autocast(**self.cast):
            loss = functional.cross_entropy(self.run(self.x), self.labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach().clone()

    def forward(self):
        self.net.eval()
        with torch.no_grad(), torch.autocast(**self.cast):
            return self.run(self.x)


def free_memory():
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


def milliseconds(work, rounds=5, seconds=0.05):
    """The median time."""
    times = []
    for _ in range(rounds + 1):
        count, start = 0, time.perf_counter()
        while count < 2 or time.perf_counter() - start < seconds:
            work()
            count += 1
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start) / count)
    return statistics.median(times[1:])


@contextlib.contextmanager
def turn(path):
    """Programs that share a GPU compile at the same time and measure one at a time."""
    if path is None:
        yield
        return
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def measured(name, engines, options, log):
    """A row: times by engine, the first losses' largest distance from eager's."""
    x, labels = samples(options.batch, options.size)
    net, losses, training, forward = net_named(name), {}, {}, {}
    for engine in (each for each in ENGINES if each in engines):
        work = Work(net, engine, x, labels, options.precision)
        losses[engine] = torch.stack([work.step() for _ in range(4)])
        work.forward()
        with turn(options.turns):
            training[engine], forward[engine] = milliseconds(work.step), milliseconds(work.forward)
        print(f"{name} by {engine}: training step {training[engine]:.2f} ms, forward {forward[engine]:.2f} ms", file=sys.stderr, flush=True)
        del work
        torch._dynamo.reset()
        free_memory()
    distance = ((losses["nixie"] / losses["eager"] - 1).abs().max().item()) if {"nixie", "eager"} <= set(losses) else float("nan")
    cells = [f"{name:22}"]
    for times in (training, forward):
        others = [times[each] for each in times if each != "nixie"]
        cells += [*(f"{times[each]:8.2f}" if each in times else f"{'-':>8}" for each in ENGINES),
                  f"{min(others) / times['nixie']:6.2f}" if others and "nixie" in times else f"{'-':>6}"]
    return " ".join(cells) + f"  {100 * distance:6.2f} %  {log.plans} plans, in torch: {', '.join(log.in_torch) or 'nothing'}"


def checked(name, options, log):
    """A row: whether loss, gradients and results in evaluation are as near to float64's as eager's are."""
    x, labels = samples(options.batch, options.size)
    net, found = net_named(name), {}
    for engine, dtype in (("eager", torch.float64), ("eager", torch.float32), ("nixie", torch.float32)):
        work = Work(net.to(dtype), engine, x.to(dtype), labels, "float32")
        results = work.forward()
        work.net.train()
        loss = functional.cross_entropy(work.run(work.x), labels)
        loss.backward()
        found[engine, dtype] = [loss.detach(), results, *(each.grad for each in work.net.parameters() if each.grad is not None)]
    exact, theirs, ours = found.values()
    is_same = torch._dynamo.utils.same(theirs, ours, fp64_ref=exact, tol=1e-2)
    distances = [(sum((a.double() - b).square().sum() for a, b in zip(each, exact)) / sum(b.square().sum() for b in exact)).sqrt().item() for each in (ours, theirs)]
    row = f"{name:22} {'same' if is_same else 'DIFFERS'}: {distances[0]:.1e} from float64, eager {distances[1]:.1e}"
    return row + f"; {log.plans} plans, in torch: {', '.join(log.in_torch) or 'nothing'}", is_same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="NET", help=f"torchvision's {', '.join(TORCHVISION)}, or any of timm's; by default these and {', '.join(TIMM)}")
    parser.add_argument("--engines", default=",".join(ENGINES), help="which of nixie,inductor,eager are timed")
    parser.add_argument("--batch", type=int, help="images (128; on a CPU or with --check 8)")
    parser.add_argument("--size", type=int, help="their height and width (224; on a CPU or with --check 96)")
    parser.add_argument("--precision", choices=["float16", "bfloat16", "float32"], help="of autocast (float16; on a CPU float32)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begins no net after this time")
    parser.add_argument("--turns", metavar="FILE", help="for several of these programs on one GPU: a file that they lock while they measure")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    is_small = DEVICE == "cpu" or options.check
    options.batch, options.size = options.batch or (8 if is_small else 128), options.size or (96 if is_small else 224)
    options.precision = options.precision or ("float32" if DEVICE == "cpu" else "float16")
    engines = options.engines.split(",")
    if unknown := set(engines) - set(ENGINES):
        parser.error(f"engine \"{unknown.pop()}\" is unknown, expected {', '.join(ENGINES)}")
    torch.backends.cudnn.benchmark = True
    logger, start, failed = logging.getLogger("nixie.torch"), time.perf_counter(), False
    logger.setLevel(logging.INFO)
    if not options.check:
        print(f"{'net, ms':22} {'nixie':>8} {'inductor':>8} {'eager':>8} {'ratio':>6} {'forward':>8} {'inductor':>8} {'eager':>8} {'ratio':>6}  {'losses':>8}", flush=True)
    for name in options.nets or TORCHVISION + TIMM:
        if time.perf_counter() - start > options.seconds:
            print(f"{name:22} not begun: {options.seconds:g} s are over", flush=True)
            continue
        torch.manual_seed(0)
        torch._dynamo.reset()
        logger.addHandler(log := Log())
        try:
            if options.check:
                row, is_same = checked(name, options, log)
                failed |= not is_same
            else:
                row = measured(name, engines, options, log)
            print(row, flush=True)
        except Exception as error:  # a net that fails is a row, too
            failed = True
            traceback.print_exc(limit=-4)
            print(f"{name:22} FAILED: {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True)
        logger.removeHandler(log)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()

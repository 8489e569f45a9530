#!/usr/bin/env python3
"""The workloads of `benchmark arrays` in CuPy and PyTorch (eager and compiled) on a GPU, whichever are installed.

Times are medians of device events, several calls between two events where a call is short.
"""
import argparse, json, math
from peer import summary


def workloads(largest):
    for size in (50, 100, 200, 1000, 10000):
        if size * size <= largest:
            yield f"matmul {size} x {size}", ("matmul", size), size * size
    yield "exp(x)", ("exp", min(largest, 10**7)), min(largest, 10**7)
    for m, k, n in ((512, 784, 256), (4096, 2048, 256)):
        yield f"sigmoid(W X + b) and sample, {m}x{k}x{n}", ("boltzmann", m, k, n), m * n
    for rows, columns in ((128, 32), (387200, 64), (802816, 128)):
        for name in ("variance", "batch norm"):
            yield f"{name} fp16 {rows}x{columns}", (name, rows, columns), rows * columns
    size = 1000
    while size <= largest:
        if size * 10 > largest:
            yield "ones", ("ones", size), size
        yield "x *= 5", ("scale", size), size
        yield "x *= 5; x *= x; x += x", ("chain", size), size
        size *= 10


class Torch:
    def __init__(self, device="cuda"):
        import torch
        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.device = torch, device
        self.synchronize = torch.cuda.synchronize
        self.event = lambda: torch.cuda.Event(enable_timing=True)
        self.milliseconds = lambda a, b: a.elapsed_time(b)
        self.single, self.half = torch.Tensor.float, torch.Tensor.half
        self.matmul, self.exp, self.sigmoid, self.rsqrt = torch.mm, torch.exp, torch.sigmoid, torch.rsqrt
        self.fill = torch.Tensor.fill_

    def uniform(self, *shape):
        return self.torch.rand(*shape, device=self.device)

    def other_ways(self, kind, work):
        """Of work that several kernels do."""
        return [] if kind in ("matmul", "exp", "ones", "scale") else [("torch compile", self.torch.compile(work))]


class Cupy:
    def __init__(self):
        import cupy
        self.cupy = cupy
        self.synchronize = cupy.cuda.Device().synchronize
        self.event, self.milliseconds = cupy.cuda.Event, cupy.cuda.get_elapsed_time
        self.single, self.half = (lambda x: x.astype(cupy.float32)), (lambda x: x.astype(cupy.float16))
        self.matmul, self.exp = cupy.matmul, cupy.exp
        self.sigmoid, self.rsqrt = (lambda x: 1 / (1 + cupy.exp(-x))), (lambda x: 1 / cupy.sqrt(x))
        self.fill = lambda x, value: x.fill(value)

    def uniform(self, *shape):
        return self.cupy.random.rand(*shape, dtype=self.cupy.float32)

    def other_ways(self, kind, work):
        if kind != "chain":
            return []
        fused = self.cupy.ElementwiseKernel("float32 x", "float32 y", "float a = x * 5; y = a * a * 2", "fused_chain")
        return [("cupy kernel by hand", lambda x: fused(x, x))]


def work_of(library, kind, sizes):
    """The function that is timed, and what it is called with."""
    noise = lambda *shape: library.uniform(*shape) - 0.5
    if kind == "matmul":
        a, b, c = (noise(sizes[0], sizes[0]) for _ in range(3))
        return lambda a, b, c: library.matmul(a, b, out=c), (a, b, c)
    if kind == "exp":
        return lambda x, y: library.exp(x, out=y), (noise(sizes[0]), noise(sizes[0]))
    if kind == "boltzmann":
        m, k, n = sizes

        def layer(w, x, b):
            h = library.sigmoid(w @ x + b)
            return h, library.single(library.uniform(*h.shape) < h)
        return layer, (noise(m, k), noise(k, n), noise(m, 1))
    if kind in ("variance", "batch norm"):
        def statistics(x):
            wide = library.single(x)
            away = wide - wide.mean(0)
            variance = (away * away).mean(0)
            return library.half(variance if kind == "variance" else away * library.rsqrt(variance + 1e-3))
        return statistics, (library.half(noise(*sizes)),)
    x = noise(sizes[0])
    if kind == "ones":
        return lambda x: library.fill(x, 1), (x,)

    def scale(x):
        x *= 5

    def chain(x):
        x *= 5
        x *= x
        x += x
    return scale if kind == "scale" else chain, (x,)


def time_work(library, work, operands, runs):
    def measure(inner):
        a, b = library.event(), library.event()
        a.record()
        for _ in range(inner):
            work(*operands)
        b.record()
        library.synchronize()
        return library.milliseconds(a, b) / inner
    for _ in range(5):
        work(*operands)
    library.synchronize()
    inner = max(1, min(100, math.ceil(1 / max(measure(3), 1e-3))))
    return summary([measure(inner) for _ in range(runs)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10**9, help="elements of the largest array")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", help="a file to write to as well")
    options = parser.parse_args()
    rows = []
    for name, open_library in (("torch", Torch), ("cupy", Cupy)):
        try:
            library = open_library()
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        for workload, (kind, *sizes), elements in workloads(options.largest):
            work, operands = work_of(library, kind, sizes)
            for way, function in [(name, work), *library.other_ways(kind, work)]:
                ms = time_work(library, function, operands, options.runs)
                rows.append(dict(workload=workload, elements=elements, peer=way, ms=ms))
                print(f"{workload:44s} {elements:>11} {way:20s} {ms['median']:10.4f} ms", flush=True)
            del operands
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(command="arrays", rows=rows), file, indent=2)


if __name__ == "__main__":
    main()

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


def torch_pieces(kind, *sizes):
    """Name and function of each way to do it."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    rand = lambda *shape, dtype=torch.float32: torch.rand(*shape, device="cuda").sub_(0.5).to(dtype)
    if kind == "matmul":
        a, b = rand(sizes[0], sizes[0]), rand(sizes[0], sizes[0])
        c = torch.empty_like(a)
        return [("torch", lambda: torch.mm(a, b, out=c))]
    if kind == "exp":
        x = rand(sizes[0])
        y = torch.empty_like(x)
        return [("torch", lambda: torch.exp(x, out=y))]
    if kind == "boltzmann":
        m, k, n = sizes
        w, x, b = rand(m, k), rand(k, n), rand(m, 1)

        def layer():
            h = torch.sigmoid(w @ x + b)
            return h, (torch.rand_like(h) < h).float()
        return [("torch", layer), ("torch compile", torch.compile(layer))]
    if kind in ("variance", "batch norm"):
        x = rand(*sizes, dtype=torch.float16)

        def statistics():
            wide = x.float()
            mean = wide.mean(0)
            variance = (wide - mean).square().mean(0)
            return variance.half() if kind == "variance" else ((wide - mean) * torch.rsqrt(variance + 1e-3)).half()
        return [("torch", statistics), ("torch compile", torch.compile(statistics))]
    x = torch.ones(sizes[0], device="cuda")
    if kind == "ones":
        return [("torch", lambda: x.fill_(1))]
    if kind == "scale":
        return [("torch", lambda: x.mul_(5))]

    def chain():
        x.mul_(5)
        x.mul_(x)
        x.add_(x)
    return [("torch", chain), ("torch compile", torch.compile(chain))]


def cupy_pieces(kind, *sizes):
    import cupy
    rand = lambda *shape: cupy.random.rand(*shape, dtype=cupy.float32) - cupy.float32(0.5)
    if kind == "matmul":
        a, b = rand(sizes[0], sizes[0]), rand(sizes[0], sizes[0])
        return [("cupy", lambda: cupy.matmul(a, b))]
    if kind == "exp":
        x = rand(sizes[0])
        y = cupy.empty_like(x)
        return [("cupy", lambda: cupy.exp(x, out=y))]
    if kind == "boltzmann":
        m, k, n = sizes
        w, x, b = rand(m, k), rand(k, n), rand(m, 1)

        def layer():
            h = 1 / (1 + cupy.exp(-(w @ x + b)))
            return h, (cupy.random.rand(*h.shape, dtype=cupy.float32) < h).astype(cupy.float32)
        return [("cupy", layer)]
    if kind in ("variance", "batch norm"):
        x = rand(*sizes).astype(cupy.float16)

        def statistics():
            wide = x.astype(cupy.float32)
            mean = wide.mean(0)
            variance = cupy.square(wide - mean).mean(0)
            return (variance if kind == "variance" else (wide - mean) / cupy.sqrt(variance + 1e-3)).astype(cupy.float16)
        return [("cupy", statistics)]
    x = cupy.ones(sizes[0], dtype=cupy.float32)
    if kind == "ones":
        return [("cupy", lambda: x.fill(1))]
    if kind == "scale":
        return [("cupy", lambda: cupy.multiply(x, cupy.float32(5), out=x))]
    fused = cupy.ElementwiseKernel("float32 x", "float32 y", "float a = x * 5; y = a * a * 2", "fused_chain")

    def chain():
        cupy.multiply(x, cupy.float32(5), out=x)
        cupy.multiply(x, x, out=x)
        cupy.add(x, x, out=x)
    return [("cupy", chain), ("cupy kernel by hand", lambda: fused(x, x))]


def time_piece(library, piece, runs):
    if library == "torch":
        import torch
        event, synchronize = lambda: torch.cuda.Event(enable_timing=True), torch.cuda.synchronize
        between = lambda a, b: a.elapsed_time(b)
    else:
        import cupy
        event, synchronize = cupy.cuda.Event, cupy.cuda.Device().synchronize
        between = cupy.cuda.get_elapsed_time

    def measure(inner):
        a, b = event(), event()
        a.record()
        for _ in range(inner):
            piece()
        b.record()
        synchronize()
        return between(a, b) / inner
    for _ in range(5):
        piece()
    synchronize()
    inner = max(1, min(100, math.ceil(1 / max(measure(3), 1e-3))))
    return summary([measure(inner) for _ in range(runs)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10**9, help="elements of the largest array")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", help="a file to write to as well")
    options = parser.parse_args()
    rows = []
    for library, pieces in (("torch", torch_pieces), ("cupy", cupy_pieces)):
        try:
            __import__(library)
        except ImportError as error:
            print(f"{library} is left out: {error}")
            continue
        for name, (kind, *sizes), elements in workloads(options.largest):
            for way, piece in pieces(kind, *sizes):
                rows.append(dict(workload=name, elements=elements, peer=way, ms=time_piece(library, piece, options.runs)))
                print(f"{name:44s} {elements:>11} {way:20s} {rows[-1]['ms']['median']:10.4f} ms", flush=True)
            del piece
    if options.json:
        with open(options.json, "w") as file:
            json.dump(dict(command="arrays", rows=rows), file, indent=2)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Array programs of numpy's and CuPy's users in nixie, with their times beside numpy's: `arrays.py [cpu|cuda] [scale]`.

A product over sizes, an exponential, a layer with bias, sigmoid and a random sample, ones times five and a chain of three,
a transposed product with ReLU, variance and batch normalisation. Each is compared with numpy before it is timed.
"""

import sys
import time

import numpy as np

import nixie as nx


def layer(x, w, b):
    """A product, a bias, a sigmoid, and whether a random number is below it."""
    p = nx.sigmoid(x @ w + b)
    return p, (nx.random.uniform(7, p.shape, device=p.device) < p).astype(nx.float32)


def batch_norm(x, scale, shift):
    return (x - x.mean(axis=0)) / nx.sqrt(x.var(axis=0) + 1e-5) * scale + shift


def sigmoid(x):
    return 1 / (1 + np.exp(-np.maximum(x, -80)))


def cases(scale):
    """Name, function of nixie, function of numpy, and the shapes of their arguments."""
    for n in (50, 500, 1000):
        n = max(1, int(n * scale))
        yield f"{n} x {n} product", lambda a, b: a @ b, lambda a, b: a @ b, [(n, n)] * 2
    n, rows = max(1, int(1_000_000 * scale)), max(2, int(4096 * scale))
    yield "exp(x)", nx.exp, np.exp, [(n,)]
    yield "ones, * 5", lambda: nx.ones(n) * 5, lambda: np.ones(n, np.float32) * 5, []
    yield "(x * 2 + y) ** 2", lambda x, y: (x * 2 + y) ** 2, lambda x, y: (x * 2 + y) ** 2, [(n,)] * 2
    yield "sigmoid layer", lambda *given: layer(*given)[0], lambda x, w, b: sigmoid(x @ w + b), [(rows, 784), (784, 256), (256,)]
    yield "max(a.T @ b, 0)", lambda a, b: nx.maximum(a.T @ b, 0), lambda a, b: np.maximum(a.T @ b, 0), [(rows, 256), (rows, 128)]
    yield "variance", lambda x: x.var(axis=0), lambda x: x.var(axis=0), [(rows, 256)]
    yield ("batch norm", batch_norm, lambda x, s, b: (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * s + b, [(rows, 256), (256,), (256,)])


def milliseconds(function, times=5):
    """The fastest of several runs."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return 1e3 * min(found)


def main(device="cpu", scale=1.0):
    random = np.random.default_rng(1)
    print(f"{'on ' + device:24} {'nixie ms':>10} {'numpy ms':>10}")
    for name, ours, theirs, shapes in cases(scale):
        given = [random.standard_normal(shape, np.float32) for shape in shapes]
        arrays = [nx.asarray(each, device=device) for each in given]
        compiled = nx.compile(ours) if shapes else lambda: ours().to_device(device)
        wait = lambda x: x.reshape(-1)[0].item()  # of a GPU
        np.testing.assert_allclose(compiled(*arrays).numpy(), theirs(*given), rtol=2e-4, atol=2e-4, err_msg=name)
        print(f"{name:24} {milliseconds(lambda: wait(compiled(*arrays))):10.3f} {milliseconds(lambda: theirs(*given)):10.3f}")
    sample = layer(nx.zeros((1000, 1), device=device), nx.zeros((1, 1), device=device), nx.zeros(1, device=device))[1]
    print(f"samples of probability 0.5: {sample.mean().item():.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(float, sys.argv[2:3]))

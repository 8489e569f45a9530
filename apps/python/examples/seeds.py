#!/usr/bin/env python3
"""Programs of PyCUDA's, gnumpy's, CuPy's and nervanagpu's users with only the import lines changed, and the time that each
prints beside that of the same lines in numpy, and of CuPy where it is installed: `seeds.py [scale of sizes]`.

Each seed is compared with numpy before it is timed, and waits for the device before its clock stops.
"""

import sys
import time

import numpy as np

import nixie
from nixie.compat import DEVICE, cupy as cp, gnumpy
from nixie.compat.nervanagpu import NervanaGPU
from nixie.compat.pycuda import autoinit, cumath, driver, gpuarray, linalg

try:
    import cupy
except ImportError:
    cupy = None

random = np.random.default_rng(1)


def products(scale):
    """scikits.cuda: linalg.dot(a_gpu, b_gpu), as numbapro's Blas().gemm, over sizes."""
    linalg.init()
    for n in (50, 500, 1000, 2000, 5000, 10_000):
        n = max(1, int(n * scale))
        if n > 2000 and DEVICE == "cpu":
            return
        a, b = (random.standard_normal((n, n), np.float32) for _ in range(2))
        a_gpu, b_gpu = gpuarray.to_gpu(a), gpuarray.to_gpu(b)

        def run():
            c_gpu = linalg.dot(a_gpu, b_gpu)
            driver.Context.synchronize()
            return c_gpu.get

        yield f"scikits.cuda: {n} x {n} product", run, lambda: a @ b, cupy and gpu_of(lambda x, y: x @ y, a, b)


def exponential(scale):
    """pycuda: cumath.exp beside numpy's exp by timeit."""
    a = random.standard_normal(max(1, int(1_000_000 * scale))).astype(np.float32)
    a_gpu = gpuarray.to_gpu(a)

    def run():
        b_gpu = cumath.exp(a_gpu)
        driver.Context.synchronize()
        return b_gpu.get

    yield "pycuda: cumath.exp", run, lambda: np.exp(a), cupy and gpu_of(cupy.exp, a)


def layers(scale):
    """gnumpy: a product, a bias, a logistic and a sample."""
    for rows, inputs in ((512, 784), (4096, 2048)):
        rows = max(1, int(rows * scale))
        x, w, b = (random.standard_normal(shape, np.float32) for shape in ((rows, inputs), (inputs, 256), (256,)))
        gx, gw, gb = gnumpy.garray(x), gnumpy.garray(w / inputs), gnumpy.garray(b)

        def run():
            p = (gnumpy.dot(gx, gw) + gb).logistic()
            sample = p > gnumpy.rand(rows, 256)
            nixie.compute(p, sample)
            nixie.synchronize()
            return p.as_numpy_array

        def in_numpy():
            p = 1 / (1 + np.exp(-(x @ (w / inputs) + b)))
            p > random.random((rows, 256), np.float32)
            return p

        yield f"gnumpy: {rows} x {inputs} layer, sample", run, in_numpy, None


def elements(scale):
    """CuPy: ones, *= 5, and a chain of three, in float32, over sizes."""
    for n in (10_000, 1_000_000, 100_000_000, 1_000_000_000):
        n = max(1, int(n * scale))
        if n > 10_000_000 and DEVICE == "cpu":
            return

        def times(cp):
            x = cp.ones(n, dtype="float32")
            x *= 5
            x *= x
            x += x
            return x

        def run():
            x = times(cp)
            cp.cuda.Stream.null.synchronize()
            return x.get

        yield f"cupy: {n:,} ones, three steps", run, lambda: times(np), cupy and gpu_of(lambda: times(cupy))


def nervana(scale):
    """nervanagpu: a transposed product, variance and batch normalisation."""
    ng = NervanaGPU(stochastic_round=False)
    rows, columns = max(2, int(1024 * scale)), 256
    a, b = (random.standard_normal((rows, columns)).astype(np.float16).astype(np.float32) for _ in range(2))
    devA, devB = ng.array(a, dtype=np.float32), ng.array(b, dtype=np.float32)
    devC, devV = ng.empty((columns, columns), dtype=np.float32), ng.empty((rows, 1), dtype=np.float32)
    devN = ng.empty((rows, columns), dtype=np.float32)

    def dot():
        ng.dot(devA.T, devB, devC, relu=False)
        driver.Context.synchronize()
        return devC.get

    def variance():
        devV[:] = ng.mean(ng.square(devA - ng.mean(devA, axis=1)), axis=1)
        driver.Context.synchronize()
        return devV.get

    def batch_norm():
        devN[:] = (devA - ng.mean(devA, axis=1)) / ng.sqrt(ng.var(devA, axis=1) + 0.001)
        driver.Context.synchronize()
        return devN.get

    yield "nervanagpu: dot(A.T, B)", dot, lambda: a.T @ b, cupy and gpu_of(lambda a, b: a.T @ b, a, b)
    yield "nervanagpu: variance", variance, lambda: a.var(axis=1, keepdims=True), cupy and gpu_of(lambda a: a.var(axis=1), a)
    yield "nervanagpu: batch norm", batch_norm, lambda: (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 0.001), None


def gpu_of(function, *given):
    """The same in CuPy."""
    arrays = [cupy.asarray(each) for each in given]

    def run():
        function(*arrays)
        cupy.cuda.Stream.null.synchronize()

    return run


def milliseconds(function, times=5):
    """The fastest of several runs, for a second at most."""
    found = []
    while len(found) < times and sum(found) < 1:
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return 1e3 * min(found)


def main(scale=1.0):
    print(f"{'on ' + DEVICE:40} {'nixie ms':>10} {'numpy ms':>10} {'cupy ms' if cupy else '':>10}")
    for seeds in (products, exponential, layers, elements, nervana):
        for name, run, in_numpy, in_cupy in seeds(scale):
            ours, theirs = (each.reshape(-1)[:10_000_000] for each in (run()(), in_numpy()))
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max(), err_msg=name)
            in_cupy_ms = f"{milliseconds(in_cupy):10.3f}" if in_cupy else ""
            print(f"{name:40} {milliseconds(run):10.3f} {milliseconds(in_numpy):10.3f} {in_cupy_ms}".rstrip(), flush=True)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]))

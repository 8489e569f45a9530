"""Programs of other array libraries with only the import lines changed."""

import contextlib
import io
import pathlib
import runpy
import timeit
import unittest

import numpy as np

import nixie
from nixie.compat import cupy as cp, gnumpy, nervanagpu
from nixie.compat.pycuda import autoinit, cumath, curandom, driver, gpuarray, linalg

EXAMPLES = pathlib.Path(__file__).parents[2] / "apps/python/examples"


class Compat(unittest.TestCase):
    def test_seeds(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            runpy.run_path(str(EXAMPLES / "seeds.py"))["main"](0.02)
        lines = out.getvalue().splitlines()
        self.assertGreaterEqual(len(lines), 12)
        for line in lines[1:]:
            self.assertRegex(line, r"[a-z.]+: .* +\d+\.\d{3} +\d+\.\d{3}")

    def test_cupy(self):
        x = cp.arange(6).reshape(2, 3)
        self.assertEqual((str(x.dtype), str(cp.ones(2).dtype), str(cp.array([1.0]).dtype)), ("int64", "float64", "float64"))
        np.testing.assert_allclose(cp.asnumpy(cp.exp(x) @ cp.ones((3, 1))), np.exp(np.arange(6).reshape(2, 3)) @ np.ones((3, 1)))
        x = cp.ones((10, 10))
        x *= 5
        x *= x
        x += x
        cp.cuda.Stream.null.synchronize()
        self.assertEqual(cp.sum(x).item(), 5000)
        cp.random.seed(3)
        first = cp.random.rand(4).get()
        self.assertFalse((first == cp.random.rand(4).get()).all())
        cp.random.seed(3)
        self.assertTrue((first == cp.random.rand(4).get()).all())

    def test_pycuda(self):
        a = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)
        a_gpu = gpuarray.to_gpu(a)
        np.testing.assert_allclose(cumath.exp(a_gpu).get(), np.exp(a), rtol=1e-6)
        np.testing.assert_allclose(cumath.fabs(a_gpu).get(), np.abs(a))
        np.testing.assert_allclose(linalg.dot(a_gpu, a_gpu, transb="T").get(), a @ a.T, rtol=1e-4, atol=1e-5)
        self.assertGreater(timeit.timeit(lambda: cumath.exp(a_gpu).get(), number=3), 0)
        start, end = driver.Event().record(), driver.Event()
        r = curandom.rand((5, 5))
        end.record().synchronize()
        self.assertGreaterEqual(start.time_till(end), 0)
        self.assertTrue(0 <= gpuarray.min(r).item() and gpuarray.max(r).item() < 1)

    def test_gnumpy(self):
        random = np.random.default_rng(0)
        x, w, b = random.standard_normal((8, 5)), random.standard_normal((5, 3)), random.standard_normal(3)
        p = (gnumpy.dot(gnumpy.garray(x), gnumpy.garray(w)) + gnumpy.garray(b)).logistic()
        np.testing.assert_allclose(p.as_numpy_array(), 1 / (1 + np.exp(-(x @ w + b))), rtol=1e-5)
        gnumpy.seed_rand(1)
        sample = gnumpy.ones((1000, 2)) * 0.25 > gnumpy.rand(1000, 2)
        self.assertAlmostEqual(sample.mean().item(), 0.25, delta=0.05)

    def test_nervanagpu(self):
        ng = nervanagpu.NervanaGPU(stochastic_round=False)
        random = np.random.default_rng(0)
        cpu_a, cpu_b = random.standard_normal((10, 10)), random.standard_normal((10, 20))
        dev_a, dev_b = ng.array(cpu_a, dtype=np.float16), ng.array(cpu_b, dtype=np.float16)
        dev_c = ng.empty((10, 20), dtype=np.float16)
        ng.dot(dev_a.T, dev_b, dev_c, relu=False)
        expected = dev_a.get().T.astype(np.float32) @ dev_b.get().astype(np.float32)
        np.testing.assert_allclose(dev_c.get(), expected, rtol=2e-3, atol=2e-3)
        ng.dot(dev_a.T, dev_b, dev_c, alpha=2, beta=1, relu=True)
        np.testing.assert_allclose(dev_c.get(), np.maximum(3 * expected, 0), rtol=4e-3, atol=1e-2)
        a = ng.empty((128, 32), dtype=np.float16)
        a[:] = ng.rand()
        values = a.get().astype(np.float32)
        self.assertGreater(values.std(), 0.2)
        a[:] = (a - ng.mean(a, axis=1)) / ng.sqrt(ng.var(a, axis=1) + 0.001)
        expected = (values - values.mean(1, keepdims=True)) / np.sqrt(values.var(1, keepdims=True) + 0.001)
        np.testing.assert_allclose(a.get(), expected, atol=1e-2)
        self.assertTrue((ng.ones(3).fill(2).get() == 2).all())

    def test_stochastic_rounding(self):
        ng = nervanagpu.NervanaGPU(stochastic_round=True)
        x = ng.empty(20_000)
        x[:] = nixie.full(20_000, 1 + 2.0**-12, device=x.device)  # a quarter of the way to the next number
        found = x.get().astype(np.float64)
        self.assertEqual(set(found.tolist()), {1.0, 1 + 2.0**-10})
        self.assertAlmostEqual(found.mean(), 1 + 2.0**-12, delta=2e-5)

    def test_synchronize(self):
        x = nixie.ones(3) * 5
        nixie.synchronize()
        self.assertTrue(nixie._core.is_stored(x))

        @nixie.compile
        def function(x):
            nixie.synchronize()
            return x + 1

        self.assertEqual(function(x).tolist(), [6, 6, 6])
        nixie.synchronize()


if __name__ == "__main__":
    unittest.main()

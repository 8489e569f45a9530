"""What is computed when, compiled functions, gradients and random numbers."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import typing
import unittest

import numpy as np

import nixie as nx


class Pair(typing.NamedTuple):
    first: typing.Any
    second: typing.Any


class Compile(unittest.TestCase):
    def test_traces_once_for_shapes_types_and_constants(self):
        traced = []

        @nx.compile
        def f(x, power, scale=1.0, *, plus=None):
            """A power."""
            traced.append(x.shape)
            return x**power * scale + (0 if plus is None else plus["b"])

        x = nx.array([1.0, 2.0])
        for _ in range(3):
            self.assertEqual(f(x, 2).tolist(), [1, 4])
        self.assertEqual(f(x, 2, 3.0).tolist(), [3, 12])
        self.assertEqual(f(x, 2, 4.0).tolist(), [4, 16])  # a float is an input
        self.assertEqual(len(traced), 2)
        self.assertEqual(f(x, 3).tolist(), [1, 8])  # an integer is a constant
        self.assertEqual(f(nx.array([[1.0]]), 2).tolist(), [[1]])
        self.assertEqual(f(nx.array([3], dtype=nx.int32), 2).tolist(), [9])
        self.assertEqual(f(np.array([3.0], np.float32), 2, plus={"b": nx.array(1.0)}).tolist(), [10])
        self.assertEqual((len(traced), f.plans), (6, 6))
        self.assertEqual((f.__name__, f.__doc__), ("f", "A power."))

    def test_nested_results(self):
        f = nx.compile(lambda x, y: {"a": [x + y, (x * y, None)], "b": Pair(x - y, "c")})
        found = f(nx.array(3.0), nx.array(2.0))
        self.assertEqual((found["a"][0].item(), found["a"][1][0].item(), found["a"][1][1]), (5, 6, None))
        self.assertEqual((found["b"].first.item(), found["b"].second), (1, "c"))
        many = nx.compile(lambda *arrays: arrays[::-1])(*[nx.array(i) for i in range(30)])
        self.assertEqual([each.item() for each in many], list(range(30))[::-1])

    def test_agrees_with_the_plain_function(self):
        def f(x):
            x = x.reshape(4, 5)
            x[1:3] = x[0] * 2
            return nx.nn.softmax(x @ x.T).sum(axis=0), x[[0, 2]].mean()

        x = nx.linspace(0, 1, 20)
        for plain, compiled in zip(f(x), nx.compile(f)(x)):
            np.testing.assert_allclose(compiled, plain, rtol=1e-6)
        self.assertEqual(x.shape, (20,))

    def test_errors(self):
        x = nx.ones(2)
        for function, error, text in (
            (lambda x: x if x.sum() > 0 else -x, ValueError, "only while the compiled function runs"),
            (lambda x: print(x), ValueError, "only while the compiled function runs"),
            (lambda x: x[x > 0], ValueError, "depends on values"),
            (lambda x: nx.unique(x), ValueError, "depends on values"),
            (lambda x: None, ValueError, "returns no array"),
            (lambda x: x + nx.ones(3), ValueError, "shapes"),
            (lambda x: 1 / 0, ZeroDivisionError, "division"),
        ):
            with self.assertRaisesRegex(error, text):
                nx.compile(function)(x)
        again = nx.compile(lambda x: again(x))
        with self.assertRaises((ValueError, RecursionError)):
            again(x)
        with self.assertRaisesRegex(TypeError, "unhashable"):
            nx.compile(lambda x, y: x)(x, {1})

    def test_within_others(self):
        square = nx.compile(lambda x: x * x)
        self.assertEqual(nx.compile(lambda x: square(x) + square(x + 1))(nx.array(2.0)).item(), 13)
        self.assertEqual(nx.grad(square)(nx.array(3.0)).item(), 6)
        self.assertEqual(nx.compile(nx.grad(square))(nx.array(3.0)).item(), 6)

        class Model:
            @nx.compile
            def scaled(self, x):
                return x * 2

        self.assertEqual(Model().scaled(nx.array(2.0)).item(), 4)

    def test_threads(self):
        f = nx.compile(lambda x: (x @ x).sum())
        x, wrong = nx.ones((50, 50)), []

        def work():
            for _ in range(50):
                if f(x).item() != 125000:
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_the_interpreter_is_free_meanwhile(self):
        x = nx.ones((1300, 1300))
        ticks, done = [], threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        start = time.perf_counter()
        (x @ x @ x @ x).compute()
        end = time.perf_counter()
        done.set()
        thread.join()
        self.assertGreater(sum(start < each < end for each in ticks), 2)

    def test_ctrl_c_ends_a_loop(self):
        program = ("import nixie as nx\nf = nx.compile(lambda x: x * 1.5 - x)\nx = f(nx.ones(1000))\nprint('runs', flush=True)\n"
                   "while True: x = f(x)")
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        self.assertIn(b"KeyboardInterrupt", process.communicate(timeout=20)[1])


class Import(unittest.TestCase):
    def test_needs_no_numpy(self):
        run = subprocess.run([sys.executable, "-c", "import nixie, sys; print('numpy' in sys.modules)"], capture_output=True, text=True)
        self.assertEqual(run.stdout, "False\n", run.stderr)


class Laziness(unittest.TestCase):
    def test_what_has_a_name_is_computed_along(self):
        w, total = nx.zeros(3), nx.array(0.0)
        for _ in range(30):  # without the names of w each loss would repeat all steps before it
            w = w * 0.5 + 1
            loss = (w * w).sum()
            total = total + loss
            self.assertGreater(loss.item(), 0)
        np.testing.assert_allclose(w, 2, rtol=1e-6)
        np.testing.assert_allclose(total, sum(3 * (2 - 2 ** (-i)) ** 2 for i in range(30)), rtol=1e-5)

    def test_what_is_computed_forgets_its_history(self):
        w, total = nx.zeros(1_000_000), nx.array(0.0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(100):
            w = w * 0.5 + 1
            loss = w.mean()
            total = total + loss  # of an expression that is computed only now:
            loss.item()
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 100_000)  # KiB, of 400,000 of all w
        self.assertAlmostEqual(total.item(), 198, delta=1e-3)

    def test_old_values_stay(self):
        x = nx.ones(3)
        y = x * 2
        x[0] = 5
        z = x + y
        self.assertEqual((y.tolist(), z.tolist(), x.tolist()), ([2, 2, 2], [7, 3, 3], [5, 1, 1]))

    def test_a_long_chain(self):
        x = nx.array(0.0)
        for _ in range(2000):
            x = x + 1
        self.assertEqual(x.item(), 2000)


class Gradients(unittest.TestCase):
    def test_against_formulas(self):
        x = nx.array([0.5, 1.0, 2.0], dtype=nx.float64)
        for function, slope in ((lambda x: (x**3).sum(), 3 * x**2), (lambda x: nx.sin(x).sum(), nx.cos(x)), (lambda x: nx.log(x).mean(), 1 / x / 3),
                                (lambda x: x[1] * x[0], nx.array([1.0, 0.5, 0.0])), (lambda x: (x[[0, 0]]).sum(), nx.array([2.0, 0.0, 0.0])),
                                (lambda x: (x[x > 0.7] ** 2).sum(), nx.where(x > 0.7, 2 * x, 0)), (lambda x: nx.unique(x).sum(), nx.ones(3)),
                                (lambda x: nx.convolve(x, [1.0, 2.0]).sum(), nx.full(3, 3.0)),
                                (lambda x: nx.asinh(x).sum(), 1 / nx.sqrt(x * x + 1)), (lambda x: nx.hypot(x, 1.0).sum(), x / nx.sqrt(x * x + 1))):
            np.testing.assert_allclose(nx.grad(function)(x), slope, rtol=1e-6)

    def test_of_arrays_with_other_values(self):
        """The gradient is by what was given, whatever the function gives the array later."""
        def scaled(x):
            x *= 2
            return (x * x).sum()

        def cut(x):
            x[x > 1.5] = x[0]
            x[1] -= x[0]
            return (x * nx.arange(1.0, 4.0)).sum()

        x = nx.array([0.5, 1.0, 2.0])
        self.assertEqual((nx.grad(scaled)(x).tolist(), nx.grad(cut)(x).tolist(), x.tolist()), ([4, 8, 16], [2, 2, 0], [0.5, 1, 2]))
        self.assertEqual(nx.compile(nx.grad(scaled))(x).tolist(), [4, 8, 16])

    def test_of_equal_elements(self):
        for function in (lambda x: x.std(), lambda x: x.std(ddof=1), lambda x: x.std(axis=0).sum(), lambda x: nx.linalg.norm(x - 1)):
            self.assertEqual(nx.grad(function)(nx.ones((2, 2))).tolist(), [[0, 0], [0, 0]])

    def test_arguments(self):
        f = lambda p, q: ((p["w"] * q + p["b"]) ** 2).sum()
        p, q = {"w": nx.array([1.0, 2.0]), "b": nx.array(1.0), "name": "layer"}, nx.array([3.0, 4.0])
        value, (dp, dq) = nx.value_and_grad(f, (0, 1))(p, q)
        self.assertEqual((value.item(), dp["w"].tolist(), dp["b"].item(), dp["name"], dq.tolist()), (97, [24, 72], 26, None, [8, 36]))
        new = nx.tree_map(lambda p, g: p - 0.5 * g, {"w": p["w"]}, {"w": dp["w"]})
        self.assertEqual(new["w"].tolist(), [-11, -34])
        self.assertEqual(nx.grad(lambda x: (x * x, "aux"), has_aux=True)(nx.array(2.0))[1], "aux")
        self.assertEqual(nx.grad(lambda x: x * q.sum())(2.0).item(), 7)
        x = nx.array(3.0)
        self.assertEqual(nx.grad(lambda y: x * y)(x).item(), 3)  # x itself is no argument

    def test_a_look_at_a_value_does_not_cut_it_off(self):
        def f(x):
            y = x * x
            self.assertEqual(y.item(), 4)
            return y * x if y > 0 else y

        self.assertEqual(nx.grad(f)(nx.array(2.0)).item(), 12)
        self.assertEqual(nx.grad(nx.grad(f))(nx.array(2.0)).item(), 12)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "loss"):
            nx.grad(lambda x: x)(nx.ones(2))
        with self.assertRaisesRegex(TypeError, "expected an array of one element"):
            nx.grad(lambda x: 1.0)(nx.ones(2))


class Random(unittest.TestCase):
    def test_functions_of_key_step_and_element(self):
        key = nx.random.Key(3)
        first = nx.random.uniform(key, 5).tolist()
        self.assertEqual(nx.random.uniform(3, (5,)).tolist(), first)
        self.assertNotEqual(nx.random.uniform(key.named("other"), 5).tolist(), first)
        self.assertNotEqual(nx.random.uniform(key, 5, step=1).tolist(), first)
        draw = nx.compile(lambda step: nx.random.uniform(key, 5, step=step))
        for step in range(3):
            self.assertEqual(draw(nx.array(step)).tolist(), nx.random.uniform(key, 5, step=step).tolist())
        self.assertEqual(draw.plans, 1)
        many = nx.random.normal(key, 100_000)
        self.assertLess(abs(many.mean().item()), 0.02)
        self.assertLess(abs(many.std().item() - 1), 0.02)
        self.assertEqual(set(nx.random.integers(key, -1, 2, 100).tolist()), {-1, 0, 1})
        for wrong in ("a", 1.5, -1, 2**64):
            with self.assertRaisesRegex(ValueError, f"the seed is {wrong!r}, expected a whole number"):
                nx.random.uniform(wrong, 3)
        with self.assertRaisesRegex(ValueError, "the probability is 2, expected 0 to 1"):
            nx.random.bernoulli(key, 2, 3)
        self.assertAlmostEqual(nx.mean(nx.random.bernoulli(key, 0.3, 100_000).astype(nx.float32)).item(), 0.3, delta=0.01)


if __name__ == "__main__":
    unittest.main()

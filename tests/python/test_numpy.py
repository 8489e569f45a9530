"""nixie against numpy: the same expressions of both, a line each."""

import itertools
import math
import unittest

import numpy as np

import nixie as nx

NUMBERS = np.array([[3.0, 1.0, 4.0], [1.5, -5.0, 9.0]], np.float32)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
WHOLE = np.array([[3, 1, 4], [1, -5, 9]], np.int32)
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

# Expressions that read x (NUMBERS), i (WHOLE) and c (CUBE); xp is numpy or nixie.
SAME = """
x + 1; 2 - x; x * x; x / 2; 1 / x; x // 2; x % 2; x ** 2; 2.0 ** x; -x; abs(x); +x
i + 1; i * i; i // 2; i % 3; i ** 2; i & 3; i | 4; i ^ 1; i << 2; i >> 1; ~i; i == 1; i != 1; i < 3; i >= 3
x > 2; (x > 2) & (x < 4); (x > 2) | (i == 1); (x > 2) ^ (i == 1); ~(x > 2)
x @ x.T; i @ i.T; x @ x[0]; c @ xp.ones((4, 2), dtype=xp.float32); x.dot(x.T)
x[0]; x[1, 2]; x[:, 1]; x[-1]; x[::-1]; x[:, ::-2]; x[..., 0]; x[None]; x[:, None, 1]; c[1, ..., ::3]; c[0, 1:, None]
x[[1, 0]]; x[:, [0, 2]]; x[[0, 1], [2, 0]]; c[:, [0, 2], [1, 3]]; c[[0, 1], :, [1, 3]]; c[[[0], [1]], [0, 2]]; c[1, [0, 2]]
c[0, :, [1, 2]]; c[:, :, [1, 2]][..., None]; x[[]]; x[1:1]; c[..., [3, 0]]; c[..., [3, 0], None]; c[0, [1, 0], ..., 2]; c[:, [1, 0], ..., 2]; c[1:, 2, ..., [1, 3]]; c[None, [1], ..., [0, 2], 1]; c[None, ..., [2], 3]; c[0, ..., [-4, 3]]; c[[1], ..., 3]; c[-1, [-1, 0], -2:]
x.sum(); x.sum(axis=0); x.sum(axis=(0, 1)); x.sum(axis=1, keepdims=True); x.mean(axis=0); x.max(axis=1); x.min(); x.prod(axis=1)
x.std(axis=0); x.var(); x.argmax(axis=1); x.argmin(); (x > 3).any(axis=0); (x > 3).all(); i.sum(axis=0)
xp.exp(x); xp.log(abs(x)); xp.sqrt(abs(x)); xp.sin(x); xp.cos(x); xp.tanh(x); xp.expm1(x); xp.log1p(abs(x)); xp.floor(x); xp.round(x)
xp.sign(x); xp.square(x); xp.reciprocal(x); xp.isnan(x); xp.maximum(x, 2.0); xp.minimum(x, i); xp.hypot(x, x); xp.log10(abs(x))
xp.where(x > 2, x, 0.0); xp.clip(x, 0.0, 3.0); xp.copysign(x, -1.0); xp.signbit(x); xp.fmod(x, 2.0); xp.floor_divide(i, 2)
x.reshape(3, 2); x.reshape(-1); x.T; c.transpose(2, 0, 1); x.flatten(); c.transpose(); xp.expand_dims(x, axis=1); x[None].squeeze()
xp.stack([x, x]); xp.flip(x); xp.roll(x, 1); xp.roll(x, (1, 1), axis=(0, 1)); xp.tile(x, (2, 1)); xp.repeat(x, 2)
xp.repeat(x, 2, axis=0); xp.broadcast_to(x[0], (2, 3)); xp.moveaxis(c, 0, -1); xp.pad(x, 1); xp.pad(x, ((0, 1), (2, 0)))
xp.sort(x); xp.argsort(x, stable=True) if xp is not np else np.argsort(x, kind="stable"); xp.sort(x, axis=0)
xp.searchsorted(xp.sort(x[0]), x[1]); xp.diff(x); xp.diff(x, n=2); xp.count_nonzero(x > 1); x.cumsum(axis=1)
xp.take(x, xp.asarray([2, 0]), axis=1); xp.take_along_axis(x, xp.asarray([[2], [0]]), axis=1)
xp.zeros((2, 2)); xp.ones(3); xp.full((2,), 7); xp.eye(3); xp.eye(2, 3, k=1); xp.eye(2, k=-100);  xp.arange(5); xp.arange(5, 1, -2); xp.linspace(0, 1, 5)
xp.linspace(0, 1, 4, endpoint=False); xp.arange(0.0, 1.0, 0.25); xp.zeros_like(i); xp.ones_like(x); xp.full_like(x, 3); xp.tril(x); xp.triu(x)
xp.tensordot(x, x, axes=([0, 1], [0, 1])); xp.tensordot(c, c, axes=([1, 2], [1, 2])); xp.einsum("ij,kj->ik", x, x)
xp.linalg.outer(x[0], x[1]); xp.linalg.trace(x @ x.T); xp.linalg.diagonal(x); xp.linalg.cross(x, x[::-1])
xp.linalg.matrix_power(x @ x.T, 3); xp.linalg.matrix_norm(x); xp.linalg.vector_norm(x, ord=1)
x.ravel(); x.copy(); c.swapaxes(0, 2); x.repeat(2); x.repeat(2, axis=0); x.take([0, 3]); x.take([2, 0], axis=1); x.argsort(axis=0); x.round(1); x.round()
x.std(ddof=1); x.var(axis=0, ddof=1); x.cumsum(); x.diagonal(); x.diagonal(1); x.trace(); x.item(2); x.item(1, 2); x.item((1, 0)); divmod(x, 2)[1]; divmod(7, i)[0]; 4.0 in x; 7 in x
x + [1, 2, 3]; [1.0, 2.0, 3.0] * x; x == [3, 1, 4]; [[0], [1]] - i; (1, 2, 3) @ x.T; xp.where([[True], [False]], x, 0.0); xp.maximum([1, 5], i[:, :2])
xp.take(x, [2, 0], axis=1); xp.sum([1, 2]); xp.mean([1.0, 2.0]); xp.max([[1], [2]], axis=0); xp.reshape([1, 2, 3, 4], (2, 2)); xp.concatenate([x, [[7, 8, 9]]])
xp.sum(x, 1); xp.mean(x, 0); xp.max(x, 1); xp.any(x > 3, 0); xp.squeeze(x[None]); xp.sum(x, axis=np.int64(1)); xp.zeros(np.int64(3)); x.reshape(np.int64(6))
np.sum(x); np.mean(x, axis=0); np.max(x); np.std(x, axis=1); xp.power(x, 2); xp.absolute(x); xp.arctan2(x, x); xp.concatenate([x, x], axis=1)
x[[True, False]]; x[:, [True, False, True]]; x[np.array([False, True]), 1]; c[np.array([[True, False, True], [False, True, False]])]; x[[False, False]]
c[..., np.array([True, False, False, True])]; c[[0, 1], :, [True, False, False, True]]; x[NUMBERS > 2]
xp.isclose(x, x + 1e-7); xp.isclose([np.inf, 1], [np.inf, 2]); xp.allclose(x, x); xp.allclose(x, x + 1); xp.isclose([np.nan, 1], [np.nan, 1], equal_nan=True)
xp.flip([1, 2]); xp.expand_dims([1, 2], axis=0); xp.squeeze([[1], [2]]); xp.roll([1, 2, 3], 1); xp.pad([1, 2], 1); xp.take([3, 1], [1, 1]); xp.cumsum([1, 2]); xp.clip([1, 5], 2, 3)
xp.zeros_like([1, 2]); xp.full_like([1.0], 2); xp.tensordot([[1, 2]], [[3], [4]], axes=1); xp.matmul([[1, 2]], [[3], [4]]); xp.meshgrid([1, 2], [3])[0]; xp.linalg.matrix_norm([[1.0, 2.0]])
xp.linalg.outer([1, 2], [3, 4]); xp.linalg.cross([1, 2, 3], [0, 1, 0]); xp.linalg.vector_norm([3.0, -4.0], ord=1); xp.linalg.trace([[1, 2], [3, 4]]); xp.linalg.matrix_power([[1, 2], [3, 4]], 2)
xp.split(x, 3, axis=1)[2]; xp.split(i, [1])[1]; xp.split(x[0], [2, 9])[2]; xp.atleast_1d(3.0); xp.atleast_2d(x[0]); xp.vstack([x, x[0]]); xp.hstack([x, x]); xp.hstack([x[0], [1.0]])
xp.ravel(c); xp.transpose(c); xp.transpose(c, (1, 2, 0)); xp.swapaxes(c, 0, -1); xp.fliplr(x); xp.flipud(x); xp.dot(x, 3); xp.dot(x, x[0]); xp.dot(c, c.transpose(0, 2, 1)); xp.inner(x, x)
xp.inner(x[0], 2); xp.outer(x, i); xp.kron(x[:, :2], i); xp.kron(x[0], c); xp.diag(x); xp.diag(x, -1); xp.diag(i[0], 2); xp.diag(x[0] / 0, -1); xp.trace(x); xp.trace(c, 1); xp.ptp(x); xp.ptp(i, axis=0)
xp.quantile(x, 0.3); xp.quantile(i, 0.7, axis=0); xp.quantile(x, 1, axis=1); xp.quantile([1, np.nan], 0.5); xp.percentile(x, 35); xp.median(x); xp.median([1.0, np.inf, np.inf]); xp.quantile([-np.inf, 0.0, 2.0], 0.5); xp.median(i, axis=-1); xp.average(x)
xp.average(x, weights=abs(x)); xp.average(x, axis=0, weights=[1, 2]); xp.average(x, axis=-1, weights=[1, 2, 3]); xp.nan_to_num(i); xp.nan_to_num([np.nan, 1.0], nan=2.0)
xp.nan_to_num(np.float32([np.inf, -np.inf, np.nan])); xp.nansum([1, np.nan]); xp.nanmean([[1, np.nan], [3, 4]], axis=0); xp.array_equal(x, x); xp.array_equal(x, i); xp.array_equal(x, c)
xp.interp(x, [0.0, 2.0, 5.0], [1.0, 0.0, 7.0]); xp.interp([0.0, 1.0, 1.5], [0.0, 1.0, 1.0, 2.0], [0.0, 1.0, 5.0, 6.0]); xp.interp(0.5, [0.0], [7.0])
xp.linalg.norm(x); xp.linalg.norm(x, axis=1); xp.linalg.norm(x[0], 1); xp.linalg.norm(x, "fro"); xp.linalg.norm(x, -np.inf); xp.linalg.norm(c, 1, axis=(2, 0), keepdims=True); xp.linalg.norm(x, 3, axis=0)
x[x > 2]; x[x > 100]; x[True]; x[False]; x[x[0, 0] > 2]; x[0, 0][x[0, 0] > 9]; x[~(x > 2)].sum(); x[(x > 2) & (x < 9)]; x[x > 2, None]; x[0, x[1] > 2]; x[x[:, 0] > 2, 1]; c[x > 2]; c[:, c[0, :, 0] > 3]; c[x > 2, 1:3]; c[x > 2, [0, 1, 2]]; c[..., c[0, 0] > 1]
xp.count_nonzero([0, 1, 2]); xp.count_nonzero([[0, 1], [2, 0]], axis=0); round(x[0, 0]); x[: 10**30, -(10**30) :]
xp.nonzero(x > 2)[1]; xp.where(x > 2)[0]; (x > 2).nonzero()[0]; x[xp.nonzero(x > 2)]; xp.argwhere(x > 2); xp.flatnonzero(x > 2); x[xp.argmax(x, axis=0), xp.arange(3)]; x[xp.arange(2)[:, None], xp.argsort(x, axis=1)]
xp.unique(i); xp.unique(i, return_index=True)[1]; xp.unique(i, return_inverse=True)[1].reshape(-1); xp.unique(i, return_counts=True)[1]; xp.unique([np.nan, 1.0, np.nan]); xp.unique(x > 2); xp.isin(i, [1, 9]); xp.isin(x, [])
xp.convolve(x[0], x[1]); xp.convolve(x[0], [1.0, 0.5], mode="same"); xp.convolve([1.0, 0.5], x[0], mode="same"); xp.convolve(i[0], i[1], mode="valid"); xp.convolve(i[0], [2, 1]); xp.correlate(x[0], x[1], "full"); xp.correlate(x[0], x[1, :2]); xp.correlate(x[0, :2], x[1], "same")
x.mean(dtype=xp.float64); xp.mean(i, dtype=xp.float16); x.sum(dtype=xp.int32); xp.sum(i, dtype=xp.float64); xp.std(x, dtype=xp.float64); x.var(axis=0, dtype=xp.float64); x.cumsum(dtype=xp.float64)
x.sum(where=x > 2); xp.sum(x, axis=1, where=x > 2, keepdims=True); xp.mean(x, where=x > 2); x.mean(axis=0, where=x[:, :1] > 2); xp.max(x, where=x > 2, initial=0.0); xp.max(x, axis=0, initial=2.0); x.min(initial=-9); xp.sum(x, initial=5.0); xp.prod(i, initial=2); xp.any(x > 2, where=x < 2); xp.all(x > 2, axis=0, where=x > 1); xp.sum(x > 2, where=x < 4)
x[:0].sum(axis=0); x[:0].max(axis=1); x[:0] @ x.T; x[:, :0] @ x.T[:0]; xp.sort(x[:0]); xp.concatenate([x[:0], x]); c.sum(axis=()); c.max(axis=(0, 2)); c.std(axis=(1, 2), keepdims=True); c.argmax(axis=1, keepdims=True); xp.sum(c, axis=(0, -1))
xp.nanmax([1, np.nan]); xp.nanmin([[np.nan, 2], [np.nan, np.nan]], axis=1); xp.nanvar([[1, np.nan, 3], [4, 5, 8]], axis=1); xp.nanstd([1, np.nan, 3]); xp.nanmean([[1, np.nan]], axis=0); xp.nansum(x, axis=1, keepdims=True)
xp.sort(x, axis=None); xp.argsort(x, axis=None); xp.cumsum(x); xp.cumprod(x); x.cumprod(axis=0); xp.cumsum(x, 0); xp.diff(x, 1, 0); xp.diff(i, append=0); xp.diff(x, axis=0, prepend=1.0); xp.roll(x, (1, 2)); xp.tril(x, -1); xp.triu(c, 1); xp.eye(3, 3, 1); xp.take(x, [0, 5]); xp.take_along_axis(x, xp.argsort(x, axis=0), 0)
xp.round(x / 3, 2); xp.around(x / 3, 1); x.round(2); xp.round(i, -1); xp.round(i, 2); xp.rint(x / 2); xp.fix(x / 2); xp.exp2(x); xp.cbrt(x); xp.radians(x); xp.degrees(x); xp.fabs(x); xp.fmax(x, [np.nan, 2.0, 3.0]); xp.fmin([1.0, np.nan], [np.nan, np.nan]); xp.clip(i, 0.5, 2); xp.clip(i, 0, 2.0)
xp.pad(x, 1, mode="edge"); xp.pad(x, 1, "reflect"); xp.pad(i, (2, 3), mode="wrap"); xp.pad(c, ((0, 0), (1, 2), (0, 1)), mode="symmetric"); xp.append(x, i); xp.append(x, x, axis=0); xp.column_stack([x[0], i[1], x.T]); xp.array_split(x, 2, axis=1)[1]; xp.array_split(x[0], 5)[4]; xp.array_split(x, [1], axis=1)[0]
xp.cross(x[0], x[1]); xp.diagonal(c); xp.diagonal(c, 1, 1, 2); c.diagonal(0, 1, 2); c.trace(0, 1, 2); xp.trace(c, 1, 0, 2); xp.cov(x); xp.cov(x[0]); x.ptp(axis=1) if xp is nx else np.ptp(x, axis=1); x[0].searchsorted(2.0)
xp.median(c, axis=(0, 2)); xp.median(x, axis=1, keepdims=True); xp.quantile(x, [0.25, 0.5]); xp.percentile(x, [25, 50], axis=0); xp.quantile(c, 0.3, axis=(0, 1), keepdims=True); xp.tensordot(x, x, 0); xp.linspace(1, 0); xp.zeros((2, 3), xp.int32); xp.array([1, 2], xp.float32); xp.full(2, 3, xp.float32)
x.astype(xp.int32); i.astype(xp.float64); x.astype("float16"); (x * 2).astype(bool)
"""


class Numpy(unittest.TestCase):
    def compare(self, expression, found, expected):
        found, expected = np.asarray(found), np.asarray(expected)
        self.assertEqual(found.shape, expected.shape, expression)
        self.assertEqual(found.dtype.kind, expected.dtype.kind, expression)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6, err_msg=expression)

    def test_expressions(self):
        count = 0
        for expression in SAME.replace("\n", ";").split(";"):
            expression = expression.strip()
            lacks = expression.startswith("xp.linalg") and not hasattr(np.linalg, expression[len("xp.linalg.") :].split("(")[0])
            if not expression or lacks:
                continue
            given = {"x": NUMBERS, "i": WHOLE, "c": CUBE}
            ours = {name: nx.asarray(value) for name, value in given.items()}
            with self.subTest(expression):
                names = {"np": np, "nx": nx, "NUMBERS": NUMBERS}
                self.compare(expression, eval(expression, {"xp": nx, **names, **ours}), eval(expression, {"xp": np, **names, **given}))
            count += 1
        self.assertGreater(count, 150)

    def test_assignments(self):
        for key in ("0", "1, 2", "slice(None), 1", "slice(None, None, -1)", "..., 0", "[1, 0]", "[0, 1], [2, 0]",
                    "slice(None), [0, 2]", "None, 0", "[[0], [1]], [0, 2]", "x > 2", "x[:, 0] > 2", "[True, False]", "[False, False]",
                    "slice(None), [True, False, True]", "True", "False", "np.array([True, False]), 1"):
            for value in (7, NUMBERS[:1, :1]):
                if isinstance(value, np.ndarray) and "> 2" in key:
                    continue  # how many values there are depends on the mask
                with self.subTest(key):
                    expected, found = NUMBERS.copy(), nx.asarray(NUMBERS)
                    expected[eval(key, {"x": expected, "np": np})] = value if isinstance(value, int) else value.ravel()[0]
                    found[eval(key, {"x": found, "np": np})] = value if isinstance(value, int) else nx.asarray(value).reshape(())
                    self.compare(key, found, expected)

    def test_values_of_a_known_mask(self):
        expected, found = NUMBERS.copy(), nx.asarray(NUMBERS)
        expected[NUMBERS > 2] = found[NUMBERS > 2] = [7, 8, 9]
        self.compare("a value for each", found, expected)

    def test_in_place(self):
        for statement in ("x += 1", "x -= x", "x *= 2.5", "x /= 2", "x **= 2", "x //= 2", "x @= e", "x.sort()", "x.fill(3)", "x[x > 2] *= -1", "x[x > 2] -= x[x > 2].mean()",
                          "x[x > 2] = x[x > 2][::-1]", "x[~(x > 9)] *= x[0, 0]", "x[x > 1e9] += 1", "x[x[:, 0] > 2] += [1, 2]", "x[:, x[0] > 9] = 0", "x[0, x[1] > 2] += 1", "x[[0, 0]] += 1",
                          "x[:, ::-1] += x", "x[0] += x[1]", "x[:, 0] -= x[:, 1]", "x[..., None] *= 4", "x[[1], [0]] *= 3", "x *= x > 2", "x += x.astype('float64')"):
            with self.subTest(statement):
                ours = {"x": nx.asarray(NUMBERS @ NUMBERS.T), "e": nx.eye(2)}
                theirs = {"x": NUMBERS @ NUMBERS.T, "e": np.eye(2, dtype=np.float32)}
                same = ours["x"]
                exec(statement, {}, ours)
                exec(statement.replace("@= e", "= x @ e"), {}, theirs)
                self.compare(statement, ours["x"], theirs["x"])
                self.assertIs(ours["x"], same)
        held = [nx.asarray(NUMBERS)]
        held[0][0] = held[-1][1, 0] = 7  # a list holds the array
        held[0].__setitem__((1, 1), -5)
        (held[0] if held else None).sort()
        self.assertEqual(held[0].tolist(), [[7, 7, 7], [-5, 7, 9]])
        for types in itertools.product(("bool", *INTEGERS, "float16", "float32", "float64"), repeat=2):
            x, y = ((200 * WHOLE).astype(np.int64).astype(dtype) for dtype in types)
            for name in ("add", "mul"):
                with self.subTest(name, types=types):
                    self.same_in_place(f"__i{name}__", x, y)

    def same_in_place(self, name, x, y):
        """The same numbers, wrapped around, or both raise TypeError."""
        found, expected = nx.asarray(x), x.copy()
        try:
            getattr(expected, name)(y)
        except TypeError:
            with self.assertRaisesRegex(TypeError, f"{found.dtype} cannot hold"):
                getattr(found, name)(nx.asarray(y))
        else:
            getattr(found, name)(nx.asarray(y))
            self.assertEqual((found.dtype.name, found.tolist()), (expected.dtype.name, expected.tolist()))

    def test_types(self):
        for found, expected in ((nx.array(1), nx.int32), (nx.array(1.0), nx.float32), (nx.array(True), nx.bool),
                                (nx.array([2**40]), nx.int64), (nx.array(np.arange(3)), nx.int64), (nx.array(np.float64(1)) + 1, nx.float64),
                                (nx.array([1], dtype=np.uint8) + 1, nx.uint8), (nx.array([1]) + 0.5, nx.float32),
                                (nx.array([1], dtype="float16") * 2.0, nx.float16), (nx.array([1.0]) + nx.array([1], dtype=nx.float64), nx.float64),
                                (nx.array([1]) / 2, nx.float32), (nx.array([True]) + 1, nx.int32)):
            self.assertEqual(found.dtype, expected)
        x = nx.float16([1, 2])
        self.assertEqual((x.dtype, x.tolist()), (nx.float16, [1, 2]))
        for other in (nx.float16, "float16", np.float16, np.dtype("float16")):
            self.assertTrue(x.dtype == other)
        for other in (nx.float32, "float32", np.float32, "no type", None, 3):
            self.assertFalse(x.dtype == other)
        for dtype in INTEGERS:  # arithmetic wraps around
            x = np.array([[100, 90, 80], [7, 120, 55]], dtype) + np.array(np.iinfo(dtype).max // 3, dtype)
            ours = nx.asarray(x)
            for function in (lambda xp, x: x @ x.T, lambda xp, x: x[0] @ x[1], lambda xp, x: xp.tensordot(x, x), lambda xp, x: xp.einsum("ij,kj->ik", x, x), lambda xp, x: xp.sum(x, dtype=x.dtype),
                             lambda xp, x: xp.prod(x, dtype=x.dtype, axis=0), lambda xp, x: x * x + x):
                found, expected = function(nx, ours), function(np, x)
                self.assertEqual((found.dtype.name, found.tolist()), (expected.dtype.name, expected.tolist()))
            self.assertEqual(nx.vecdot(ours, ours).tolist(), (x * x).sum(axis=1, dtype=dtype).tolist())
        for dtype in ("bool", *INTEGERS, "float32"):
            x = WHOLE.astype(dtype)
            for subscripts in ("ij,kj->ik", "ij,ij", "ij,ik->", "ij,ij->ij", "ij, lj -> li", "ij->j", "ii->i", "ij,jj"):
                given = [x[:, : len(x)] if term in ("ii", "jj") or subscripts[-2:] == "jj" else x for term in subscripts.split("->")[0].split(",")]
                found, expected = nx.einsum(subscripts, *map(nx.asarray, given)), np.einsum(subscripts, *given)
                self.assertEqual((found.dtype.name, found.tolist()), (expected.dtype.name, expected.tolist()), subscripts)
        for number in (-3, 300, 2**40, -(2**40)):  # comparisons know every number
            ours = nx.array([0, 5, 255], dtype=nx.uint8)
            found = [ours < number, ours >= number, number == ours, nx.not_equal(ours, number), nx.asarray(WHOLE) > 2**40 if number > 300 else ours > number]
            self.assertEqual([each.tolist()[0] for each in found[:4]], [number > 0, number < 0, False, True])
            self.assertFalse(bool(found[4].all()) and number > 0)
            np.testing.assert_allclose((ours / number).numpy(), np.array([0, 5, 255]) / number, rtol=1e-6)
            np.testing.assert_allclose((number / (ours + 0)).numpy()[1:], number / np.array([5, 255]), rtol=1e-6)
        self.assertEqual((nx.array([2**60], dtype=nx.int64) + (2**60 + 1)).item(), 2**61 + 1)
        self.assertEqual((nx.array([2**60], dtype=nx.uint64) + (2**63 + 1)).item(), 2**60 + 2**63 + 1)
        self.assertEqual(nx.maximum(nx.array([1, 2**64 - 1], dtype=nx.uint64), 2**63 + 1).tolist(), [2**63 + 1, 2**64 - 1])
        large, signed = nx.array([0, 2**64 - 1], dtype=nx.uint64), nx.array([-1, 2**63 - 1])
        self.assertEqual([(large > -1).tolist(), (large == 2**64 - 1).tolist(), (signed < 2**63).tolist()], [[True, True], [False, True], [True, True]])
        for start, stop, step in ((2**63 + 5, 2**63, -2), (2**64 - 3, 2**64, 1), (2**32 - 2, 2**32 + 2, 3)):
            found, expected = nx.arange(start, stop, step, dtype=nx.uint64), np.arange(start, stop, step, dtype=np.uint64) if stop < 2**64 else np.array([2**64 - 3, 2**64 - 2, 2**64 - 1], np.uint64)
            self.assertEqual(found.tolist(), expected.tolist())
        for wrong in (lambda: large + -1, lambda: signed + 2**63, lambda: nx.ones(1, dtype=nx.uint16) + 2**16, lambda: nx.ones(1, dtype=nx.int16) * -(2**15 + 1)):
            with self.assertRaisesRegex(ValueError, "does not fit"):
                wrong()
        self.assertEqual((nx.array([2**40 + 1]) @ nx.array([2**20])).item(), (2**40 + 1) * 2**20)

    def test_integers(self):
        positions = ("xp.argsort(x)", "xp.argmax(x)", "xp.argmin(x)", "xp.searchsorted(xp.sort(x), y)", "xp.count_nonzero(x)")
        same = ("x + y", "x - y", "x * y", "x // y", "x % y", "x**2", "x & y", "x | y", "x ^ y", "x < y", "y <= x", "x == y", "x >> 3", "x << 2", "x + 7", "-x", "~x", "abs(x)",
                "xp.sign(x)", "xp.maximum(x, y)", "xp.where(x > y, x, y)", "xp.clip(x, 1, 100)", "xp.sort(x)", "xp.unique(x)", "xp.max(x)", "xp.min(x, axis=0)", "xp.diff(x)",
                "xp.cumsum(x, dtype=x.dtype)", "xp.sum(x, dtype=x.dtype)", "xp.prod(y, dtype=x.dtype)", "xp.take(x, [4, 0])", "x[x > y]", "x[::-2]", "x.astype('float64')",
                "xp.concatenate([x, y])", "xp.reshape(x, (2, 4)).T", "x @ y", "xp.any(x)", "xp.square(x)", "xp.zeros_like(x) + 1", "xp.full(3, xp.iinfo(x.dtype).max, dtype=x.dtype)")
        for dtype in INTEGERS:
            info = np.iinfo(dtype)
            given = {"x": np.array([5, 1, info.max - 1, info.min, info.max, 0, info.max // 2 + 1, 7], dtype), "y": np.array([3, 1, 2, 7, 5, 1, info.max, 9], dtype)}
            ours = {name: nx.asarray(value) for name, value in given.items()}
            for expression in same + positions:
                with self.subTest(expression, dtype=dtype), np.errstate(all="ignore"):
                    found, expected = eval(expression, {"xp": nx, **ours}), np.asarray(eval(expression, {"xp": np, **given}))
                    self.assertEqual((found.tolist(), found.shape), (expected.tolist(), expected.shape))
                    self.assertEqual(found.dtype.name, "int32" if expression in positions else expected.dtype.name)

    def test_next_numbers(self):
        for dtype in (np.float32, np.float64, np.float16):
            info = np.finfo(dtype)
            x = np.array([0, -0.0, 1, -1, 1.5, 0.1, info.tiny, info.tiny / 2, info.max, -info.max, np.inf, -np.inf, np.nan, 2**-10], dtype)
            for to in (np.inf, -np.inf, 0, 1, np.nan):
                found = nx.nextafter(nx.asarray(x), nx.asarray(np.array(to, dtype))).numpy()
                np.testing.assert_array_equal(found, np.nextafter(x, dtype(to)))

    def test_errors(self):
        x = nx.asarray(NUMBERS)
        for what, error, text in (
            (lambda: x + nx.ones(2), ValueError, "shapes"),
            (lambda: x @ x, ValueError, "inner sizes"),
            (lambda: x[2], IndexError, "2"),
            (lambda: x[[2]], IndexError, "index 2 of an axis of 2"),
            (lambda: x[..., [3]], IndexError, "index 3 of an axis of 3"),
            (lambda: x[..., ...], IndexError, "one ..."),
            (lambda: x[[0.5]], IndexError, "float32"),
            (lambda: x[0, 0, 0], IndexError, "3 indices"),
            (lambda: x[x[0] > 2], IndexError, "a mask of shape (3,) for axes of shape (2,)"),
            (lambda: x[0, True], IndexError, "only alone"),
            (lambda: exec("x[0][1] = 5", {"x": x}), ValueError, "x[i][j] = value changes nothing"),
            (lambda: exec("x.reshape(-1)[::2] *= 2", {"x": x}), ValueError, "changes nothing"),
            (lambda: exec("x.T[0] = 5", {"x": x}), ValueError, "changes nothing"),
            (lambda: exec("del x[0]", {"x": x}), ValueError, "no element is deleted"),
            (lambda: x[nx.array([1, 5])], IndexError, "index 5 of an axis of 2"),
            (lambda: x.__setitem__(nx.array([-3]), 1), IndexError, "index -3 of an axis of 2"),
            (lambda: nx.take(x, nx.array([3]), axis=1), IndexError, "index 3 of an axis of 3"),
            (lambda: nx.take_along_axis(x, nx.array([[3]]), 1), IndexError, "index 3 of an axis of 3"),
            (lambda: x.__setitem__(x > 2, [1, 2]), ValueError, "[2]"),
            (lambda: x.__setitem__(x[:, 0] > 2, [1, 2]), ValueError, "[2]"),
            (lambda: nx.nonzero(1), ValueError, "expected an array with axes"),
            (lambda: nx.convolve(x, x[0]), ValueError, "expected two vectors"),
            (lambda: nx.convolve(x[0], x[0], mode="all"), ValueError, "expected full, same or valid"),
            (lambda: nx.pad(x, 1, mode="linear"), ValueError, "expected constant, edge"),
            (lambda: nx.max(x, where=x > 2), ValueError, "give `initial`"),
            (lambda: x[:0].max(), ValueError, "no elements"),
            (lambda: x[:0].min(axis=0), ValueError, "no elements"),
            (lambda: -(x > 2), TypeError, "bool has no minus"),
            (lambda: (x > 2) - (x > 3), TypeError, "bool has no minus"),
            (lambda: nx.asarray(WHOLE) ** -1, ValueError, "to the power -1"),
            (lambda: x[0.5:], TypeError, "'float' object"),
            (lambda: x[2**70], IndexError, "index-sized"),
            (lambda: nx.split(x[0], [1.5]), TypeError, "'float' object"),
            (lambda: nx.linalg.svd(x), AttributeError, "numpy.linalg.svd takes arrays of nixie"),
            (lambda: nx.histogram(x), AttributeError, "numpy.histogram takes arrays of nixie"),
            (lambda: x["a"], IndexError, "a str is no index"),
            (lambda: x + "a", TypeError, "unsupported operand"),
            (lambda: nx.reshape(x, "ab"), TypeError, "expected"),
            (lambda: nx.exp("a"), TypeError, "no array of real numbers"),
            (lambda: nx.array(1j), TypeError, "complex"),
            (lambda: nx.array([1], dtype=nx.uint8) + 300, ValueError, "300 does not fit uint8"),
            (lambda: nx.array([1, 300], dtype=nx.uint8), ValueError, "300 does not fit uint8"),
            (lambda: nx.array(-1, dtype=nx.uint8), ValueError, "-1 does not fit uint8"),
            (lambda: nx.full(2, 2**31, dtype=nx.int32), ValueError, "2147483648 does not fit int32"),
            (lambda: nx.array(math.nan, dtype=nx.int32), ValueError, "nan does not fit int32"),
            (lambda: nx.array([2**63], dtype=nx.int64), ValueError, "9223372036854775808 does not fit int64"),
            (lambda: nx.asarray(WHOLE).__setitem__(0, 2**40), ValueError, "1099511627776 does not fit int32"),
            (lambda: x[[True, False, True]], IndexError, "a mask of shape (3,) for axes of shape (2,)"),
            (lambda: x.sum(out=x), TypeError, "out[...] = sum(x)"),
            (lambda: nx.zeros(2.5), TypeError, "a float, expected int"),
            (lambda: nx.split(x, 2, axis=1), ValueError, "3 elements has no 2 equal parts"),
            (lambda: nx.median([]), ValueError, "no elements"),
            (lambda: nx.ptp([]), ValueError, "no elements"),
            (lambda: nx.average(x, weights=[1, 2, 3]), ValueError, "weights of shape (3,)"),
            (lambda: nx.diag(nx.ones((1, 1, 1))), ValueError, "expected 1 or 2 axes"),
            (lambda: nx.interp([1.0], [1.0], [1.0, 2.0]), ValueError, "two vectors as long"),
            (lambda: nx.linalg.norm(nx.asarray(CUBE), 1), ValueError, "wants an axis"),
            (lambda: nx.flip("a"), TypeError, "no array of real numbers"),
            (lambda: nx.concatenated, AttributeError, "no attribute 'concatenated'"),
            (lambda: nx.zeros(3, dtype="int4"), ValueError, "int4 is unknown, expected one of"),
            (lambda: nx.zeros(3, device="tpu"), ValueError, "tpu"),
            (lambda: bool(x), ValueError, "single number"),
            (lambda: nx.zeros((2**20, 2**27)).numpy(), MemoryError, ""),
            (lambda: len(nx.array(1)), TypeError, "no axes"),
        ):
            with self.assertRaises(error) as raised:
                what()
            self.assertIn(text, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))

    def test_objects_without_init(self):
        stateless = ("__array_namespace__", "__array_ufunc__", "__get__", "__init__", "clip")  # they read nothing of the object
        classes = [each for each in vars(nx._core).values() if type(each) is type(nx.Array)]
        self.assertEqual(len(classes), 8)
        for each in classes:
            made = each.__new__(each)
            for name, member in vars(each).items():
                if name in stateless or not (callable(member) or isinstance(member, property)):
                    continue
                errors = []
                for arguments in ((), (made,), (1, 2), (nx.float32,), ([], [], 0)):
                    with self.assertRaises(TypeError) as raised:
                        getattr(made, name)(*arguments)
                    errors.append(str(raised.exception))
                self.assertTrue(any("has no value yet: its __init__ was not called" in error for error in errors), (each, name, errors))
        with self.assertRaisesRegex(TypeError, "no value yet"):
            memoryview(nx.Array.__new__(nx.Array))

    def test_prints_as_numpy(self):
        for value in (NUMBERS, WHOLE, WHOLE > 1, CUBE / 7, NUMBERS[0], np.float32(2), np.zeros((0, 3), np.float32)):
            self.assertEqual(str(nx.asarray(value)), str(value))
            self.assertEqual(repr(nx.asarray(np.float16(1.5))), "array(1.5, dtype=float16)")
        self.assertEqual(repr(nx.zeros((0, 3))), "array([], shape=(0, 3), dtype=float32)")
        self.assertEqual(f"{nx.array(2.0) / 3:.3f} {nx.array(7):03d} {nx.array([1, 2])}", "0.667 007 [1 2]")

    def test_diagonals_far_away(self):
        for k in (2**63, -(2**63) - 1):
            self.assertEqual(nx.eye(2, k=k).tolist(), [[0, 0], [0, 0]])

    def test_numbers(self):
        self.assertEqual((int(nx.array(3)), float(nx.array(2.5)), bool(nx.array(True)), complex(nx.array(1.0))), (3, 2.5, True, 1))
        self.assertEqual([10, 20, 30][nx.array(1)], 20)
        self.assertEqual([row.tolist() for row in nx.asarray(WHOLE)], WHOLE.tolist())
        self.assertTrue(math.isnan(nx.array(math.nan).item()))


if __name__ == "__main__":
    unittest.main()

"""Memory shared with numpy, by the buffer protocol and by DLPack, and what copies."""

import copy
import pickle
import sys
import unittest

import numpy as np

import nixie as nx


def address(x):
    return np.asarray(x).__array_interface__["data"][0]


class Exchange(unittest.TestCase):
    def test_numpy_reads_without_a_copy(self):
        x = (nx.arange(6, dtype=nx.float32) * 2).reshape(2, 3)
        for read in (np.asarray, nx.Array.numpy, memoryview, np.from_dlpack):
            found = read(x)
            self.assertEqual(address(found), address(x))
            self.assertEqual(np.asarray(found).tolist(), [[0, 2, 4], [6, 8, 10]])
        with self.assertRaises(ValueError):
            x.numpy()[0] = 1

    def test_bytes(self):
        self.assertEqual(bytes(nx.array([1, 2], dtype=nx.uint8)), b"\1\2")

    def test_a_view_outlives_the_array(self):
        x = nx.ones(1000) * 3
        view = x.numpy()
        x[...] = 5
        del x
        nx.compute(nx.zeros(1000) + 1)
        self.assertTrue((view == 3).all())

    def test_dlpack_of_every_type(self):
        for dtype in ("float64", "float32", "float16", "int64", "int32", "int8", "uint8"):
            theirs = np.arange(6).astype(dtype).reshape(2, 3)
            ours = nx.from_dlpack(theirs)
            self.assertEqual((ours.dtype.name, ours.shape), (dtype, (2, 3)))
            self.assertEqual(address(ours), address(theirs))
            self.assertEqual(address(np.from_dlpack(ours)), address(theirs))
        again = nx.from_dlpack(nx.array([1.0, 2.0], dtype=nx.bfloat16))
        self.assertEqual((again.dtype, again.tolist()), (nx.bfloat16, [1, 2]))

    def test_dlpack_copies(self):
        gaps = np.arange(6.0)[::2]
        self.assertEqual(nx.from_dlpack(gaps).tolist(), [0, 2, 4])
        with self.assertRaisesRegex(ValueError, "make it contiguous"):
            nx.from_dlpack(gaps, copy=False)
        theirs = np.arange(3.0)
        self.assertNotEqual(address(nx.from_dlpack(theirs, copy=True)), address(theirs))
        self.assertEqual(address(nx.asarray(theirs, copy=False)), address(theirs))
        ours = nx.asarray(theirs)
        theirs[0] = 9
        self.assertEqual(ours.tolist(), [0, 1, 2])
        for options in ({}, {"copy": True}, {"max_version": (1, 0)}, {"dl_device": (1, 0), "max_version": (1, 1)}, {"stream": None}):
            capsule = ours.__dlpack__(**options)
            self.assertIn("dltensor_versioned" if "max_version" in options else '"dltensor"', repr(capsule))
        self.assertEqual(ours.__dlpack_device__(), (1, 0))

    def test_memory_is_given_back(self):
        theirs = np.arange(3.0)
        ours = nx.from_dlpack(theirs)
        held = sys.getrefcount(theirs)
        del ours
        self.assertLess(sys.getrefcount(theirs), held)

    def test_foreign_operands(self):
        x = nx.array([1.0, 2.0])
        for found in (np.float32(2) * x, x * np.array([2, 2], np.float32), np.array([2, 2], np.float32) * x):
            self.assertIsInstance(found, nx.Array)
            self.assertEqual(found.tolist(), [2, 4])
        self.assertEqual(np.sum(np.asarray(x)), 3)
        self.assertEqual(np.array(x, dtype=np.float64).dtype, np.float64)
        theirs = np.array([3, 5], np.float32)
        for found, expected in ((np.sqrt(x * x), [1, 2]), (np.maximum(theirs, x), [3, 5]), (np.add(x, x), [2, 4]), (theirs - x, [2, 3]), (theirs > x, [True, True]),
                                (theirs @ x, 13), (theirs**x, [3, 25]), (divmod(theirs, x)[1], [0, 1]), (np.absolute(-x), [1, 2]), (np.float64(2) ** x, [2, 4])):
            self.assertIsInstance(found, nx.Array)
            self.assertEqual(found.tolist(), expected)
        same = theirs
        theirs += x
        np.multiply(x[1:], x[1:], out=theirs[1:])
        self.assertEqual((type(theirs), theirs is same, theirs.tolist()), (np.ndarray, True, [4, 4]))
        for use in (lambda: np.add.reduce(x), lambda: np.spacing(x), lambda: np.exp(x, where=[True, False]), lambda: np.exp(theirs, out=x)):
            with self.assertRaisesRegex(TypeError, r"^numpy\..* takes no array of nixie here; give it x.numpy\(\)$"):
                use()

    def test_arrays_that_only_dlpack_reads(self):
        class Other:
            def __init__(self, numbers):
                self.numbers = np.array(numbers, np.float32)
                self.__dlpack__, self.__dlpack_device__ = self.numbers.__dlpack__, self.numbers.__dlpack_device__

        x, whole = nx.array([1.0, 2.0]), nx.zeros(2)
        for use in (lambda y: x + y, lambda y: y + x, lambda y: nx.where(x > 0, y + x * 0, x), lambda y: nx.maximum(x * 0, y), nx.abs, nx.asarray, nx.array,
                    lambda y: whole.__setitem__(slice(None), y) or whole, nx.compile(lambda y: y), nx.compile(lambda y: {"a": (y + 0,)})):
            other = Other([3, 4])
            found = use(other)
            other.numbers[:] = 0  # which was copied
            found = found["a"][0] if isinstance(found, dict) else found
            self.assertIn(found.tolist(), ([3, 4], [4, 6]))
        other = Other([3, 4])
        shared = nx.asarray(other, copy=False)
        other.numbers[0] = 5
        self.assertEqual(shared.tolist(), [5, 4])
        traced = []
        f = nx.compile(lambda y, word: traced.append(word) or y * 2)
        self.assertEqual([f(Other([i]), "a").item() for i in range(3)], [0, 2, 4])
        self.assertEqual(traced, ["a"])

    def test_what_numpy_has_not(self):
        x = nx.array([1.5], dtype=nx.bfloat16)
        self.assertEqual((x.tolist(), repr(x)), ([1.5], "array([1.5], dtype=bfloat16)"))
        with self.assertRaisesRegex(TypeError, "astype"):
            x.numpy()

    def test_types_that_only_numpy_has(self):
        theirs = np.arange(3).astype("longdouble")
        for use in (nx.array, nx.exp, nx.compile(nx.exp), lambda x: nx.ones(3) + x, lambda x: nx.ones(3) * x[0]):
            with self.assertRaisesRegex(ValueError, rf"^there are no arrays of {theirs.dtype} here; .*\(x, dtype=nixie.float64\)$"):
                use(theirs)
        for dtype in ("uint8", "int32", "float32", "float64"):
            found = nx.array(theirs, dtype=dtype)
            self.assertEqual((found.dtype.name, found.tolist()), (dtype, [0, 1, 2]))
        for theirs in ([1j], ["a"], [b"a"], np.array([None]), np.array(["2020-01-01"], "datetime64")):
            for dtype in (None, nx.int32):
                with self.assertRaises(TypeError):
                    nx.array(np.array(theirs), dtype=dtype)
        self.assertEqual(nx.array(np.array([2, 3], dtype=object), dtype=nx.int32).tolist(), [2, 3])

    def test_integers_go_both_ways(self):
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
            ends = [0, 1, np.iinfo(name).min, np.iinfo(name).max - 1, np.iinfo(name).max]
            theirs = np.array(ends, name)
            for ours in (nx.array(theirs), nx.from_dlpack(theirs), nx.array(ends, dtype=name), pickle.loads(pickle.dumps(nx.array(theirs)))):
                self.assertEqual((ours.dtype.name, ours.tolist()), (name, ends))
                for back in (ours.numpy(), np.from_dlpack(ours), np.asarray(memoryview(ours.compute()))):
                    self.assertEqual((back.dtype.name, back.tolist()), (name, ends))
            self.assertEqual([int(each) for each in ours], ends)
            self.assertEqual(repr(nx.array([ends[-1]], dtype=name)), f"array([{ends[-1]}], dtype={name})")
            self.assertEqual((nx.iinfo(name).min, nx.iinfo(name).max), (ends[2], ends[4]))
        self.assertEqual([nx.array([each]).dtype.name for each in (2**31 - 1, 2**31, 2**63)], ["int32", "int64", "uint64"])

    def test_numbers_that_do_not_fit(self):
        for value, name, dtype in ((2**40, "uint64", "int32"), (2**63, "uint64", "int64"), (300, "int64", "uint8"), (-1, "int16", "uint8"),
                                   (2**70, "object", "int64"), (300.5, "float64", "uint8"), (np.nan, "float32", "int32"), (np.inf, "float16", "int64")):
            with self.assertRaisesRegex(ValueError, f"the number {value} does not fit {dtype}"):
                nx.array(np.array([1, value], dtype=name), dtype=dtype)
        self.assertEqual(nx.array(np.zeros(0), dtype=nx.int8).shape, (0,))
        self.assertEqual(nx.array(np.array([255.9, -0.9]), dtype=nx.uint8).tolist(), [255, 0])

    def test_8_bit_floats(self):
        for name, largest in (("float8_e4m3fn", 448), ("float8_e5m2", 57344)):
            x = nx.array([1.06, -3.3, 1e9, 0], dtype=name)
            self.assertEqual((x.dtype.name, x.itemsize), (name, 1))
            values = x.tolist()
            self.assertEqual((values[0], values[2:]), (1, [largest, 0]))
            self.assertEqual((nx.finfo(name).max, (x + x).dtype, (x @ x).dtype), (largest, nx.float32, nx.float32))
            self.assertEqual(x[1:3].dtype.name, name)
            raw = x.numpy()
            self.assertEqual((raw.dtype.itemsize, raw.tobytes()), (1, bytes(memoryview(x.compute()))))
            self.assertEqual(nx.from_dlpack(x).tolist(), values)
            self.assertEqual(nx.array([[0.5]], dtype=name).tolist(), [[0.5]])
            if raw.dtype.name == name:  # ml_dtypes is there
                self.assertEqual(raw.astype(np.float32).tolist(), values)
                self.assertEqual((nx.array(raw).dtype.name, nx.array(raw).tolist()), (name, values))

    def test_pickle(self):
        for x in (nx.arange(3), nx.ones((2, 2), dtype=nx.bfloat16), nx.ones(3, dtype=nx.float8_e5m2)):
            for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
                self.assertEqual((again.dtype, again.tolist()), (x.dtype, x.tolist()))


    def test_no_gpu(self):
        if "cuda" in nx.__array_namespace_info__().devices():
            self.skipTest("a GPU")
        with self.assertRaisesRegex(nx.Error, "cuda"):
            nx.ones(2, device="cuda").numpy()
        with self.assertRaisesRegex(nx.Error, "cuda"):
            nx.ones(2).to_device("cuda")


class Gpu(unittest.TestCase):
    def setUp(self):
        if "cuda" not in nx.__array_namespace_info__().devices():
            self.skipTest("no GPU")

    def test_computes_where_the_arrays_are(self):
        x = nx.linspace(0, 1, 1000, device="cuda")
        y = nx.compile(lambda x: nx.exp(x) * 2)(x)
        self.assertEqual(y.device, "cuda")
        np.testing.assert_allclose(y.numpy(), 2 * np.exp(x.numpy()), rtol=1e-6)
        self.assertEqual(nx.from_dlpack(y).device, "cuda")
        self.assertEqual(y.to_device("cpu").tolist(), y.tolist())
        with self.assertRaisesRegex(ValueError, "to_device"):
            x + nx.ones(1000)


if __name__ == "__main__":
    unittest.main()

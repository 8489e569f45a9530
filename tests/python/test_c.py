"""The C library by ctypes: a checkpoint of the trainer, run on numpy's memory, against the same net in Python."""

import ctypes
import os
import pathlib
import tempfile
import unittest

import numpy as np

import nixie

LIBRARY = os.environ.get("NIXIE_C_LIBRARY")


@unittest.skipUnless(LIBRARY, "NIXIE_C_LIBRARY names no libnixie_c.so")
class CLibrary(unittest.TestCase):
    def setUp(self):
        self.c = ctypes.CDLL(LIBRARY)
        self.c.nixie_last_error.restype = self.c.nixie_class_name.restype = ctypes.c_char_p
        self.c.nixie_load.restype = ctypes.c_void_p
        self.c.nixie_class_name.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        self.c.nixie_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)]
        self.c.nixie_free.argtypes = [ctypes.c_void_p]

    def test_run(self):
        name = b"dltensor_versioned"
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

        class Result:
            def __dlpack__(self, **options):
                return make(scores, name, None)

            def __dlpack_device__(self):
                return 1, 0

        with tempfile.TemporaryDirectory() as folder:
            config = {"model": {"lenet": {"classes": 10}}, "data": {"glyphs": {"train": 64, "test": 32, "batch": 32}}, "epochs": 1}
            nixie.Trainer(config, run=folder).train()
            path = pathlib.Path(folder) / "last.h5"
            net, python_net = self.c.nixie_load(str(path).encode(), b"cpu"), nixie.models.load_trained(path)
        self.assertTrue(net, self.c.nixie_last_error())
        self.assertEqual([self.c.nixie_class_name(net, i).decode() for i in range(10)], python_net.class_names)
        sizes = (ctypes.c_int64 * 3)()
        self.c.nixie_sample_shape(ctypes.c_void_p(net), sizes)
        images = nixie.random.normal(1, (5, *sizes)).compute()
        capsule = images.__dlpack__(max_version=(1, 0))
        scores = ctypes.c_void_p()
        self.assertEqual(self.c.nixie_run(net, pointer_of(capsule, name), ctypes.byref(scores)), 0, self.c.nixie_last_error())
        rename(capsule, b"used_dltensor_versioned")
        found = nixie.from_dlpack(Result())
        np.testing.assert_allclose(found.numpy(), nixie.nn.softmax(python_net(images)).numpy(), rtol=1e-5, atol=1e-6)
        self.c.nixie_free(net)

    def test_errors(self):
        self.assertIsNone(self.c.nixie_load(b"missing.h5", b"cpu"))
        self.assertIn(b"missing.h5", self.c.nixie_last_error())


if __name__ == "__main__":
    unittest.main()

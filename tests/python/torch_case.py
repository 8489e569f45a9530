"""The tests with torch: on the CPU and, where there is one, on a GPU. Where torch is missing, NIXIE_TEST_TORCH may name the Python of
an environment that has it; else they are skipped."""

import os
import subprocess
import unittest

import nixie

try:
    import torch
    from torch import nn
    from torch.nn import functional

    import nixie.torch as nt
except ImportError:
    torch = nn = functional = nt = None

DEVICES = ["cpu", "cuda"] if torch and torch.cuda.is_available() and nixie._core.has_device("cuda") else ["cpu"]


def list_of(found):
    return [found] if isinstance(found, torch.Tensor) else list(found)


def in_an_environment(file):
    """A test that runs those of a file by the Python of NIXIE_TEST_TORCH."""

    @unittest.skipUnless(torch is None and os.environ.get("NIXIE_TEST_TORCH"), "torch is here, or NIXIE_TEST_TORCH names no Python")
    class InAnEnvironment(unittest.TestCase):
        def test_torch(self):
            run = subprocess.run([os.environ["NIXIE_TEST_TORCH"], file], capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stderr)

    return InAnEnvironment


@unittest.skipIf(torch is None, "torch is missing")
class TorchCase(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        torch.backends.cudnn.allow_tf32 = False  # by default its f32 convolutions round their operands to it

    def close(self, ours, theirs, name="", tolerance=1e-3):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance, msg=lambda text: f"{name}: {text}")

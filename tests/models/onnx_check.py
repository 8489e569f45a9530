# Runs onnx files beside the inputs and outputs that nixie computed, and prints how far the results are apart.
#   onnx_check.py FOLDER: for each NAME.onnx in it NAME.safetensors holds x and y
import pathlib
import sys

import numpy
import onnxruntime
from safetensors.numpy import load_file

try:
    import onnx
except ImportError:  # its checker and shape inference are a bonus
    onnx = None

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.onnx")):
    if onnx is not None:
        onnx.checker.check_model(str(path), full_check=True)
    arrays = load_file(path.with_suffix(".safetensors"))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (name,) = [value.name for value in session.get_inputs()]
    y = session.run(None, {name: arrays["x"]})[0]
    single = session.run(None, {name: arrays["x"][:1]})[0]  # the batch is free
    assert y.shape == arrays["y"].shape, (path.stem, y.shape, arrays["y"].shape)
    scale = max(1.0, float(numpy.abs(arrays["y"]).max()))
    error = max(float(numpy.abs(y - arrays["y"]).max()), float(numpy.abs(single - arrays["y"][:1]).max())) / scale
    print(f"{path.stem} {error:.3g}")
    assert error < 1e-5, path.stem

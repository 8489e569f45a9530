"""The other side of the exchange tests: torchvision's nets with random weights, and what other programs make of nixie's files.

exchange.py make FOLDER NET...  writes NET.weights.safetensors, a state_dict of torchvision's NET, and x and y = NET(x), computed in
                                f64, in NET.safetensors
exchange.py hdf5 FOLDER NET...  sets torchvision's NET from nixie's NET.h5 by h5py, compares its outputs with y, and writes the
                                state_dict as h5py does to NET.plain.h5
exchange.py onnx FOLDER         runs each NAME.onnx on x of NAME.safetensors and compares with y
Every comparison prints its largest difference over the largest output, and fails at 1e-5.
"""
import pathlib
import sys

import numpy
from safetensors.numpy import load_file, save_file

SIDES = {"inception_v3": 96}  # of the images; 64 for the others


def net_of(name):
    import torch
    import torchvision

    heads = dict(aux_logits=False, init_weights=False) if name in ("googlenet_bn", "inception_v3") else {}
    torch.manual_seed(sum(map(ord, name)))
    net = getattr(torchvision.models, name.replace("googlenet_bn", "googlenet"))(weights=None, **heads)
    for part in net.modules():  # fresh running statistics would say little
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return net.eval()


def state_of(net):
    return {name: value for name, value in net.state_dict().items() if value.is_floating_point()}  # no num_batches_tracked


def outputs_of(net, x):
    import torch

    with torch.no_grad():
        return net.double()(torch.from_numpy(x).double()).numpy()


def compare(name, found, expected):
    assert found.shape == expected.shape, (name, found.shape, expected.shape)
    error = float(numpy.abs(found - expected).max()) / max(1.0, float(numpy.abs(expected).max()))
    print(f"{name} {error:.3g}")
    assert error < 1e-5, name


def make(folder, names):
    for name in names:
        net, side = net_of(name), SIDES.get(name, 64)
        save_file({key: value.contiguous().numpy() for key, value in state_of(net).items()}, folder / f"{name}.weights.safetensors")
        x = numpy.random.default_rng(1).standard_normal((2, 3, side, side), numpy.float32)
        save_file({"x": x, "y": outputs_of(net, x).astype(numpy.float32)}, folder / f"{name}.safetensors")


def hdf5(folder, names):
    import h5py
    import torch

    for name in names:
        net, arrays = net_of(name), load_file(folder / f"{name}.safetensors")
        for parameter in net.parameters():
            torch.nn.init.zeros_(parameter)
        with h5py.File(folder / f"{name}.h5") as file:
            state = {key: torch.from_numpy(data[()]) for key, data in file["model"].items()}
        missing, unexpected = net.load_state_dict(state, strict=False)
        assert not unexpected and all(key.endswith("num_batches_tracked") for key in missing), (name, missing, unexpected)
        with h5py.File(folder / f"{name}.plain.h5", "w") as file:
            for key, value in state_of(net).items():
                file[key] = value.numpy()
        compare(name, outputs_of(net, arrays["x"]), arrays["y"])


def onnx_files(folder):
    import onnxruntime

    try:
        import onnx
    except ImportError:  # its checker and shape inference are a bonus
        onnx = None
    for path in sorted(folder.glob("*.onnx")):
        if onnx is not None:
            onnx.checker.check_model(str(path), full_check=True)
        arrays = load_file(path.with_suffix(".safetensors"))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        (name,) = [value.name for value in session.get_inputs()]
        y = session.run(None, {name: arrays["x"]})[0]
        single = session.run(None, {name: arrays["x"][:1]})[0]  # the batch is free
        compare(path.stem, numpy.concatenate([y, single]), numpy.concatenate([arrays["y"], arrays["y"][:1]]))


command, folder, *names = sys.argv[1:]
{"make": make, "hdf5": hdf5, "onnx": lambda folder, _: onnx_files(folder)}[command](pathlib.Path(folder), names)

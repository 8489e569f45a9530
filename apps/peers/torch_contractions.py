#!/usr/bin/env python3
"""Single products and convolutions in PyTorch (cuBLAS, cuDNN) for `benchmark gemm`, `layers` and `sweep`.

Answers JSON lines (see peer.py). A request holds op ("matmul" or "conv"), precision, runs, operands a and b (a product
with beta: c too), each with a file of row-major elements, their type and shape, and whether it is read transposed, or
with a shape alone, for random values;
alpha and beta; of a convolution role, stride, pad, dilation, groups and the result's shape. The answer has `ms`, of a CUDA graph that is
launched back to back (the best of the layouts), and `values`, the result's elements at the row-major `positions`.
"""
import math
from peer import serve
import numpy, torch
from torch_nets import CUDA, DEVICE, graphed, name_of_program, time_in_turn

STORED = {"f16": (numpy.int16, torch.float16), "bf16": (numpy.int16, torch.bfloat16), "f32": (numpy.int32, torch.float32)}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp16_pure": torch.float16}
WARM_SECONDS, MEASUREMENT_MS = 0.01, 0.3


def in_layout(values, channels_last):
    if not channels_last or values.dim() not in (4, 5):
        return values.contiguous()
    return values.contiguous(memory_format=torch.channels_last if values.dim() == 4 else torch.channels_last_3d)


def operand(given, dtype, channels_last):
    if "file" in given:
        bits, stored = STORED[given["dtype"]]
        values = torch.from_numpy(numpy.fromfile(given["file"], bits)).to(DEVICE).view(stored).to(dtype)
        values = values.reshape(given["shape"])
    else:
        values = torch.rand(given["shape"], device=DEVICE).sub_(0.5).to(dtype)
    values = in_layout(values, channels_last)
    return values.mT if given.get("transposed") else values


def matmul(request, a, b, c):
    if request.get("beta", 0) == 0 and request.get("alpha", 1) == 1:
        return lambda: torch.matmul(a, b)
    return lambda: torch.addmm(c, a, b, beta=request["beta"], alpha=request["alpha"])


def conv(request, a, b, dtype, channels_last):
    options = [request[key] for key in ("stride", "pad", "dilation")]
    zeros = [0] * len(request["stride"])
    if request["role"] == "output":
        return lambda: torch.ops.aten.convolution(a, b, None, *options, False, zeros, request["groups"])
    like = in_layout(torch.empty(request["shape"], dtype=dtype, device=DEVICE), channels_last)
    of_input = request["role"] == "input_grad"
    x, w = (like, b) if of_input else (b, like)
    return lambda: torch.ops.aten.convolution_backward(a, x, w, None, *options, False, zeros, request["groups"],
                                                       [of_input, not of_input, False])[0 if of_input else 1]


def time_piece(piece, runs):
    replay = graphed(piece) if CUDA else piece
    once = time_in_turn([replay], 1, WARM_SECONDS)[0]["median"]
    inner = max(1, min(50, math.ceil(MEASUREMENT_MS / once)))
    figures = time_in_turn([lambda: [replay() for _ in range(inner)]], runs, WARM_SECONDS)[0]
    return {key: value if key == "runs" else value / inner for key, value in figures.items()}


def time_contraction(request):
    precision = request["precision"]
    dtype = DTYPES.get(precision, torch.float32)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    best = None
    for channels_last in [True, False] if request["op"] == "conv" else [False]:
        a, b = operand(request["a"], dtype, channels_last), operand(request["b"], dtype, channels_last)
        c = operand(request["c"], dtype, channels_last) if "c" in request else None
        with torch.no_grad():
            piece = matmul(request, a, b, c) if request["op"] == "matmul" else conv(request, a, b, dtype, channels_last)
            found = piece().contiguous().flatten()[torch.tensor(request["positions"], dtype=torch.long, device=DEVICE)].double().tolist()
            figures = time_piece(piece, request["runs"])
        if best is None or figures["median"] < best["ms"]["median"]:
            best = dict(ms=figures, values=[value if math.isfinite(value) else None for value in found])
    return best


if __name__ == "__main__":
    serve(name_of_program(), {}, time_contraction)

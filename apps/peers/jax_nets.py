#!/usr/bin/env python3
"""The nets of `benchmark compare` in JAX: fprop, fprop with bprop, and a training step, each one jitted function.

A net is built from its layers, for images in NHWC. The training step casts fp32 weights to halves; statistics
of batch norm are computed and kept in fp32.
"""
import os
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import math, time
from concurrent.futures import ThreadPoolExecutor
from peer import DECAY, MOMENTUM, RATE, check_parameters, layer_of, not_expressed, per_axis, serve, summary, time_row
import jax, jax.numpy as jnp
from jax import lax

WARMUP, INNER, SECONDS = 3, 5, 0.2


def engines():
    return {precision: ["jit"] for precision in ("fp16", "bf16", "tf32", "fp32")}


class Run:
    """A run of a net on given parameters and running statistics, which it replaces."""

    def __init__(self, parameters, statistics):
        self.parameters, self.statistics, self.kept = iter(parameters), iter(statistics), []

    def weight(self, shape, fan_in):
        return next(self.parameters)

    def ones(self, size):
        return next(self.parameters)

    zeros = ones

    def running(self, size):
        return next(self.statistics)


class Making:
    """A run that makes the parameters and statistics that it meets, in the order in which they are met."""

    def __init__(self, key, dtype):
        self.key, self.dtype, self.parameters, self.statistics, self.kept = key, dtype, [], [], []

    def made(self, value):
        self.parameters.append(value)
        return value

    def weight(self, shape, fan_in):
        self.key, own = jax.random.split(self.key)
        return self.made(jax.random.normal(own, shape, self.dtype) * (2 / fan_in) ** 0.5)

    def ones(self, size):
        return self.made(jnp.ones(size, self.dtype))

    def zeros(self, size):
        return self.made(jnp.zeros(size, self.dtype))

    def running(self, size):
        self.statistics.append((jnp.zeros(size), jnp.ones(size)))
        return self.statistics[-1]


def conv(run, f, x):
    (height, width), channels = per_axis(f["kernel"], 2), x.shape[-1] // f["groups"]
    weight = run.weight((height, width, channels, f["out"]), height * width * channels)
    y = lax.conv_general_dilated(x, weight, per_axis(f["stride"], 2), [(p, p) for p in per_axis(f["pad"], 2)],
                                 rhs_dilation=per_axis(f["dilation"], 2), feature_group_count=f["groups"],
                                 dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + run.zeros(f["out"]) if f["bias"] else y


def linear(run, f, x):
    y = x @ run.weight((x.shape[1], f["out"]), x.shape[1])
    return y + run.zeros(f["out"]) if f["bias"] else y


def batch_norm(run, f, x):
    axes, wide = tuple(range(x.ndim - 1)), x.astype(jnp.float32)
    mean, variance = wide.mean(axes), wide.var(axes)
    count = x.size // x.shape[-1]
    momentum = f["momentum"]
    run.kept.append(tuple(lax.stop_gradient((1 - momentum) * old + momentum * new) for old, new in
                          zip(run.running(x.shape[-1]), (mean, variance * (count / (count - 1))))))
    y = (wide - mean) * lax.rsqrt(variance + f["eps"])
    if f["affine"]:
        y = y * run.ones(x.shape[-1]).astype(jnp.float32) + run.zeros(x.shape[-1]).astype(jnp.float32)
    return y.astype(x.dtype)


def window_of(f, shape):
    """Window, stride and padding of each axis; with ceil_mode a last window may end outside, but not begin there."""
    window, pad = per_axis(f["window"], 2), per_axis(f["pad"], 2)
    stride, padding = per_axis(f["stride"] or f["window"], 2), []
    for size, w, s, p in zip(shape[1:3], window, stride, pad):
        count = (math.ceil if f["ceil_mode"] else math.floor)((size + 2 * p - w) / s) + 1
        if (count - 1) * s >= size + p:
            count -= 1
        padding.append((p, max(p, (count - 1) * s + w - size - p)))
    return (1, *window, 1), (1, *stride, 1), [(0, 0), *padding, (0, 0)]


def max_pool(run, f, x):
    return lax.reduce_window(x, -jnp.inf, lax.max, *window_of(f, x.shape))


def avg_pool(run, f, x):
    window, stride, padding = window_of(f, x.shape)
    total = lax.reduce_window(x, 0.0, lax.add, window, stride, padding)
    if f["count_pad"] and not f["ceil_mode"]:
        return total / (window[1] * window[2])
    raise not_expressed("avg_pool2d that counts its window's pixels")


def adaptive_avg_pool(run, f, x):
    out = per_axis(f["out"], 2)
    if any(size % parts for size, parts in zip(x.shape[1:3], out)):
        raise not_expressed(f"adaptive_avg_pool2d of {x.shape[1:3]} to {out}")
    n, height, width, channels = x.shape
    return x.reshape(n, out[0], height // out[0], out[1], width // out[1], channels).mean((2, 4))


def relu(run, f, x):
    return jnp.where(x > 0, x, f["slope"] * x) if f["slope"] else jnp.maximum(x, 0)


def flatten(run, f, x):
    if f["first"] != 1:
        raise not_expressed("flatten that keeps axes")
    return x.reshape(x.shape[0], -1)


def concat(run, f, x):
    if f["axis"] != 1:
        raise not_expressed("concat along another axis than the channels")
    return jnp.concatenate([layer(run, branch, x) for branch in f["branches"]], -1)


def sequential(run, layers, x):
    for each in layers:
        x = layer(run, each, x)
    return x


LAYERS = {
    "conv2d": conv, "linear": linear, "batch_norm": batch_norm, "max_pool2d": max_pool, "avg_pool2d": avg_pool,
    "adaptive_avg_pool2d": adaptive_avg_pool, "relu": relu, "flatten": flatten, "concat": concat, "sequential": sequential,
    "global_avg_pool": lambda run, f, x: x.mean((1, 2), keepdims=True),
    "relu_clipped": lambda run, f, x: jnp.clip(x, 0, f["cut"]),
    "sigmoid": lambda run, f, x: jax.nn.sigmoid(x),
    "tanh": lambda run, f, x: jnp.tanh(x),
    "gelu": lambda run, f, x: jax.nn.gelu(x, approximate=False),
    "elu": lambda run, f, x: jax.nn.elu(x, f["alpha"]),
    "identity": lambda run, f, x: x,
    "sum": lambda run, f, x: sum(layer(run, branch, x) for branch in f["branches"]),
}


def layer(run, item, x):
    kind, fields = layer_of(item)
    if kind == "dropout" and fields["rate"] == 0:
        return x
    if kind not in LAYERS:
        raise not_expressed(kind)
    return LAYERS[kind](run, fields, x)


def initial(request, key, dtype):
    """Parameters, and the running statistics of batch norm."""
    channels, height, width = request["sample"]

    def make(key):
        making = Making(key, dtype)
        sequential(making, request["layers"], jnp.zeros((2, height, width, channels), dtype))
        return making.parameters, making.statistics
    return jax.jit(make)(key)


def forward(request, parameters, statistics, x):
    run = Run(parameters, statistics)
    return sequential(run, request["layers"], x), run.kept


def figures(piece, runs):
    """Wall time of INNER calls in a row: JAX has no device events."""
    start, count = time.perf_counter(), 0
    while count < WARMUP or time.perf_counter() - start < SECONDS:
        jax.block_until_ready(piece())
        count += 1
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(INNER):
            result = piece()
        jax.block_until_ready(result)
        times.append((time.perf_counter() - start) / INNER * 1e3)
    return summary(times)


def pieces(request):
    """Functions by name, each with the shapes of its arguments."""
    dtype = {"fp16": jnp.float16, "bf16": jnp.bfloat16}.get(request["precision"], jnp.float32)
    channels, height, width = request["sample"]
    batch = request["batch"]
    images = jax.ShapeDtypeStruct((batch, height, width, channels), dtype)
    gradient = jax.ShapeDtypeStruct((batch, request["classes"]), dtype)
    labels = jax.ShapeDtypeStruct((batch,), jnp.int32)
    (parameters, statistics), (weights, _) = (
        jax.eval_shape(lambda: initial(request, jax.random.PRNGKey(0), t)) for t in (dtype, jnp.float32))

    def loss(weights, statistics, images, labels):
        halves = jax.tree_util.tree_map(lambda w: w.astype(dtype), weights)
        logits, kept = forward(request, halves, statistics, images)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), labels[:, None], axis=1)
        return -jnp.mean(picked), kept

    def step(weights, momenta, statistics, images, labels):
        (value, kept), gradients = jax.value_and_grad(loss, has_aux=True)(weights, statistics, images, labels)
        momenta = jax.tree_util.tree_map(lambda m, g, w: MOMENTUM * m + g + DECAY * w, momenta, gradients, weights)
        return jax.tree_util.tree_map(lambda w, m: w - RATE * m, weights, momenta), momenta, kept, value

    def total(p, s, x, dy):
        _, pull, kept = jax.vjp(lambda q: forward(request, q, s, x), p, has_aux=True)
        return pull(dy), kept

    return {"fprop": (jax.jit(lambda p, s, x: forward(request, p, s, x)), (parameters, statistics, images)),
            "total": (jax.jit(total), (parameters, statistics, images, gradient)),
            "train": (jax.jit(step, donate_argnums=(0, 1, 2)), (weights, weights, statistics, images, labels))}


COMPILED = {}  # by net, precision and batch


def key_of(request):
    return request["net"], request["precision"], request["batch"]


def compiled(requests):
    """Compiles all that they need, side by side: XLA takes turns where it times kernels."""
    def compile_piece(request, name):
        matmul = {"tf32": "tensorfloat32", "fp32": "highest"}.get(request["precision"], "default")
        with jax.default_matmul_precision(matmul):
            function, arguments = pieces(request)[name]
            return key_of(request), name, function.lower(*arguments).compile()

    wanted = {key_of(request): request for request in requests if key_of(request) not in COMPILED}
    with ThreadPoolExecutor(max_workers=8) as pool:
        jobs = [pool.submit(compile_piece, request, name) for request in wanted.values()
                for name in ("fprop", "total", "train")]
        for job in jobs:
            if len(requests) > 1 and job.exception():  # it fails again where it is timed
                continue
            key, name, executable = job.result()
            COMPILED.setdefault(key, {})[name] = executable


def random_like(shapes, key, classes):
    """Values in [0, 1); integers are classes."""
    if jnp.issubdtype(shapes.dtype, jnp.integer):
        return jax.random.randint(key, shapes.shape, 0, classes)
    return jax.random.uniform(key, shapes.shape, shapes.dtype)


def time_net(request):
    if len(COMPILED.get(key_of(request), {})) < 3:
        COMPILED.pop(key_of(request), None)
        compiled([request])
    run, runs, classes = COMPILED[key_of(request)], request["runs"], request["classes"]
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    _, _, images, gradient = (pieces(request)["total"])[1]
    images, gradient = random_like(images, keys[0], classes), random_like(gradient, keys[2], classes)
    parameters, statistics = initial(request, keys[1], images.dtype)
    check_parameters(sum(p.size for p in parameters), request)
    row = dict(fprop_ms=figures(lambda: run["fprop"](parameters, statistics, images), runs),
               total_ms=figures(lambda: run["total"](parameters, statistics, images, gradient), runs))
    labels, (weights, _) = jax.random.randint(keys[3], (request["batch"],), 0, classes), initial(request, keys[1], jnp.float32)
    state = [weights, jax.tree_util.tree_map(jnp.zeros_like, weights), statistics, None]

    def step():
        state[:] = run["train"](*state[:3], images, labels)
        return state[3]

    row["train_ms"] = figures(step, runs)
    if not bool(jnp.isfinite(state[3])):
        raise RuntimeError(f"the loss is {state[3]}")
    return row


if __name__ == "__main__":
    serve(f"JAX {jax.__version__}, {jax.devices()[0].device_kind}", engines(), time_row(time_net, compiled))

#!/usr/bin/env python3
"""The nets of `benchmark nets` in JAX: fprop, fprop with bprop, and a training step, each one jitted function."""
import os
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import time
from concurrent.futures import ThreadPoolExecutor
from peer import CLASSES, NETS, branches, main, summary
import jax, jax.numpy as jnp
from jax import lax

WARMUP, INNER, SECONDS = 3, 5, 0.2
RATE, MOMENTUM, DECAY = 1e-3, 0.9, 5e-4


def engines():
    return {precision: ["jit"] for precision in ("fp16", "bf16", "tf32", "fp32")}


def convolve(x, sizes, parameter):
    _, _, stride, pad = sizes
    weight, bias = parameter
    return jnp.maximum(lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad), (pad, pad)],
                                                dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias, 0)


def pooled(x, window, stride, pad):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1),
                             [(0, 0), (pad, pad), (pad, pad), (0, 0)])


def run_layers(layers, x, take):
    """`take` gives the parameters of a layer that has some, for the shape and fan-in of its weight."""
    last = len(layers) - 1
    for i, (kind, *sizes) in enumerate(layers):
        if kind == "conv":
            out, window, *_ = sizes
            x = convolve(x, sizes, take((window, window, x.shape[-1], out), window * window * x.shape[-1]))
        elif kind == "pool":
            x = pooled(x, *sizes)
        elif kind == "mean":
            x = x.mean((1, 2))
        elif kind == "inception":
            x = jnp.concatenate([run_layers(branch, x, take) for branch in branches(*sizes)], -1)
        else:
            x = x.reshape(x.shape[0], -1)
            weight, bias = take((x.shape[1], sizes[0]), x.shape[1])
            x = x @ weight + bias
            if i != last:
                x = jnp.maximum(x, 0)
    return x


def initial(net, key, dtype):
    sizes = []

    def note(shape, fan_in):
        sizes.append((shape, fan_in))
        return jnp.zeros(shape, dtype), jnp.zeros(shape[-1:], dtype)

    channels, height, width = NETS[net][0]
    images = jax.ShapeDtypeStruct((1, height, width, channels), dtype)
    jax.eval_shape(lambda x: run_layers(NETS[net][1], x, note), images)
    return [(jax.random.normal(own, shape, dtype) * (2 / fan_in) ** 0.5, jnp.zeros(shape[-1:], dtype))
            for own, (shape, fan_in) in zip(jax.random.split(key, len(sizes)), sizes)]


def forward(net, parameters, x):
    at = iter(parameters)
    return run_layers(NETS[net][1], x, lambda shape, fan_in: next(at))


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


def pieces(net, precision, batch):
    """Functions by name, each with the shapes of its arguments."""
    dtype = {"fp16": jnp.float16, "bf16": jnp.bfloat16}.get(precision, jnp.float32)
    channels, height, width = NETS[net][0]
    images = jax.ShapeDtypeStruct((batch, height, width, channels), dtype)
    gradient = jax.ShapeDtypeStruct((batch, CLASSES), dtype)
    labels = jax.ShapeDtypeStruct((batch,), jnp.int32)
    parameters, weights = (jax.eval_shape(lambda: initial(net, jax.random.PRNGKey(0), t)) for t in (dtype, jnp.float32))

    def loss(weights, images, labels):
        halves = jax.tree_util.tree_map(lambda w: w.astype(dtype), weights)
        logits = forward(net, halves, images).astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))

    def step(weights, momenta, images, labels):
        value, gradients = jax.value_and_grad(loss)(weights, images, labels)
        momenta = jax.tree_util.tree_map(lambda m, g, w: MOMENTUM * m + g + DECAY * w, momenta, gradients, weights)
        return jax.tree_util.tree_map(lambda w, m: w - RATE * m, weights, momenta), momenta, value

    return {"fprop": (jax.jit(lambda p, x: forward(net, p, x)), (parameters, images)),
            "total": (jax.jit(lambda p, x, dy: jax.vjp(lambda q: forward(net, q, x), p)[1](dy)),
                      (parameters, images, gradient)),
            "train": (jax.jit(step, donate_argnums=(0, 1)), (weights, weights, images, labels))}


COMPILED = {}  # by net, precision and batch


def compiled(requests):
    """Compiles all that they need, side by side: XLA takes turns where it times kernels."""
    wanted = {(r["net"], r["precision"], r["batch"]) for r in requests} - COMPILED.keys()

    def compile_piece(key, name):
        matmul = {"tf32": "tensorfloat32", "fp32": "highest"}.get(key[1], "default")
        with jax.default_matmul_precision(matmul):
            function, arguments = pieces(*key)[name]
            return key, name, function.lower(*arguments).compile()

    with ThreadPoolExecutor(max_workers=8) as pool:
        jobs = [pool.submit(compile_piece, key, name) for key in sorted(wanted) for name in ("fprop", "total", "train")]
        for job in jobs:
            key, name, executable = job.result()
            COMPILED.setdefault(key, {})[name] = executable


def random_like(shapes, key):
    """Values in [0, 1); integers are classes."""
    if jnp.issubdtype(shapes.dtype, jnp.integer):
        return jax.random.randint(key, shapes.shape, 0, CLASSES)
    return jax.random.uniform(key, shapes.shape, shapes.dtype)


def time_net(net, precision, batch, runs, engine):
    compiled([dict(net=net, precision=precision, batch=batch)])
    run = COMPILED[net, precision, batch]
    shapes = {name: arguments for name, (_, arguments) in pieces(net, precision, batch).items()}
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    _, images, gradient = shapes["total"]
    images, gradient = random_like(images, keys[0]), random_like(gradient, keys[2])
    parameters = initial(net, keys[1], images.dtype)
    row = dict(fprop_ms=figures(lambda: run["fprop"](parameters, images), runs),
               total_ms=figures(lambda: run["total"](parameters, images, gradient), runs))
    labels, weights = random_like(shapes["train"][3], keys[3]), initial(net, keys[1], jnp.float32)
    state = [weights, jax.tree_util.tree_map(jnp.zeros_like, weights), None]

    def step():
        state[:] = run["train"](state[0], state[1], images, labels)
        return state[2]

    row["train_ms"] = figures(step, runs)
    if not bool(jnp.isfinite(state[2])):
        raise RuntimeError(f"the loss is {state[2]}")
    return row


if __name__ == "__main__":
    main(__doc__, f"JAX {jax.__version__}, {jax.devices()[0].device_kind}", engines(), time_net, compiled)

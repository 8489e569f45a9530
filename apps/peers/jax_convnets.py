#!/usr/bin/env python3
"""The nets of `benchmark nets` in JAX: fprop, fprop with bprop, and a training step, each one jitted function."""
import os
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import time
from peer import CLASSES, NETS, main, out_size, summary
import jax, jax.numpy as jnp
from jax import lax

WARMUP, INNER, SECONDS = 3, 5, 0.2
RATE, MOMENTUM, DECAY = 1e-3, 0.9, 5e-4


def engines():
    return {precision: ["jit"] for precision in ("fp16", "bf16", "tf32", "fp32")}


def initial(net, key, dtype):
    (channels, size, _), layers = NETS[net]
    parameters, flat = [], None

    def add(shape, fan_in):
        nonlocal key
        key, own = jax.random.split(key)
        parameters.append((jax.random.normal(own, shape, dtype) * (2 / fan_in) ** 0.5, jnp.zeros(shape[-1:], dtype)))

    for kind, *sizes in layers:
        if kind == "conv":
            out, window, stride, pad = sizes
            add((window, window, channels, out), window * window * channels)
            channels, size = out, out_size(size, window, stride, pad)
        elif kind == "pool":
            size = out_size(size, sizes[0], 2, 0)
        else:
            flat = flat or channels * size * size
            add((flat, sizes[0]), flat)
            flat = sizes[0]
    return parameters


def forward(net, parameters, x):
    layers, at = NETS[net][1], iter(parameters)
    for i, (kind, *sizes) in enumerate(layers):
        if kind == "pool":
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, sizes[0], sizes[0], 1), (1, 2, 2, 1), "VALID")
            continue
        weight, bias = next(at)
        if kind == "conv":
            _, _, stride, pad = sizes
            x = lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad), (pad, pad)],
                                         dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias
        else:
            x = x.reshape(x.shape[0], -1) @ weight + bias
        if i != len(layers) - 1:
            x = jnp.maximum(x, 0)
    return x


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


def time_net(net, precision, batch, runs, engine):
    dtype = {"fp16": jnp.float16, "bf16": jnp.bfloat16}.get(precision, jnp.float32)
    matmul = {"tf32": "tensorfloat32", "fp32": "highest"}.get(precision, "default")
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    channels, height, width = NETS[net][0]
    with jax.default_matmul_precision(matmul):
        images = jax.random.uniform(keys[0], (batch, height, width, channels), dtype)
        parameters = initial(net, keys[1], dtype)
        fprop = jax.jit(lambda p, x: forward(net, p, x))
        gradient = jax.random.uniform(keys[2], (batch, CLASSES), dtype)
        total = jax.jit(lambda p, x, dy: jax.vjp(lambda q: forward(net, q, x), p)[1](dy))
        row = dict(fprop_ms=figures(lambda: fprop(parameters, images), runs),
                   total_ms=figures(lambda: total(parameters, images, gradient), runs))
        labels = jax.random.randint(keys[3], (batch,), 0, CLASSES)
        row["train_ms"] = training(net, initial(net, keys[1], jnp.float32), images, labels, dtype, runs)
    return row


def training(net, weights, images, labels, dtype, runs):
    def loss(weights):
        halves = jax.tree_util.tree_map(lambda w: w.astype(dtype), weights)
        logits = forward(net, halves, images).astype(jnp.float32)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))

    def step(weights, momenta):
        value, gradients = jax.value_and_grad(loss)(weights)
        momenta = jax.tree_util.tree_map(lambda m, g, w: MOMENTUM * m + g + DECAY * w, momenta, gradients, weights)
        return jax.tree_util.tree_map(lambda w, m: w - RATE * m, weights, momenta), momenta, value

    jitted = jax.jit(step, donate_argnums=(0, 1))
    state = [weights, jax.tree_util.tree_map(jnp.zeros_like, weights), None]

    def piece():
        state[:] = jitted(state[0], state[1])
        return state[2]

    result = figures(piece, runs)
    if not bool(jnp.isfinite(state[2])):
        raise RuntimeError(f"the loss is {state[2]}")
    return result


if __name__ == "__main__":
    main(__doc__, f"JAX {jax.__version__}, {jax.devices()[0].device_kind}", engines(), time_net)

"""Programs that spend their time in matrix products, convolutions and large arrays, which XLA computes fast."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from user_program import UserProgram

__all__ = ["LARGER"]

f32 = np.float32


def lstm(cell: Any, hidden: Any, inputs: Any, weights: Any, bias: Any) -> Any:
    """Run a long short-term memory cell (Hochreiter and Schmidhuber, 1997) over a hundred steps."""

    def step(carry: Any, x: Any) -> Any:
        cell, hidden = carry
        gates = x + hidden @ weights + bias
        keep, write, read, new = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(read) * jnp.tanh(cell)
        return (cell, hidden), hidden

    return jax.lax.scan(step, (cell, hidden), inputs)[1]


def convolutional_loss(first: Any, second: Any, last: Any, images: Any, labels: Any) -> Any:
    """Compute the cross entropy of a network with two strided convolutions and a dense layer.

    The function of one image is mapped over the batch.
    """

    def one(image: Any, label: Any) -> Any:
        x = image[None, None]
        for kernel in (first, second):
            x = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME")
            x = jax.nn.relu(x)
        return -jax.nn.log_softmax(x.reshape(-1) @ last)[label]

    return jax.vmap(one)(images, labels).mean()


def transformer(tokens: Any, blocks: Any) -> Any:
    """Run four transformer blocks, each with attention of eight heads and two dense layers."""

    def normal(x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def attend(x: Any, weights: Any, out: Any) -> Any:
        batch, length, width = x.shape
        query, key, value = jnp.split(x @ weights, 3, axis=-1)
        query, key, value = [y.reshape(batch, length, 8, -1) for y in (query, key, value)]
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(width // 8).astype(f32)
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, f32(-1e9))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
        return mixed.reshape(batch, length, width) @ out

    for weights, out, wide, narrow in blocks:
        tokens = tokens + attend(normal(tokens), weights, out)
        tokens = tokens + jax.nn.gelu(normal(tokens) @ wide) @ narrow
    return tokens


def adamw_step(weights: Any, first: Any, second: Any, count: Any, x: Any, y: Any) -> Any:
    """Make one AdamW step (Loshchilov and Hutter, 2019) that updates the weights of a network of three layers."""

    def loss(weights: Any) -> Any:
        z = x
        for weight in weights[:-1]:
            z = jnp.tanh(z @ weight)
        return ((z @ weights[-1] - y) ** 2).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    count = count + 1
    first = jax.tree.map(lambda m, g: f32(0.9) * m + f32(0.1) * g, first, gradient)
    second = jax.tree.map(lambda v, g: f32(0.999) * v + f32(0.001) * g * g, second, gradient)

    def updated(w: Any, m: Any, v: Any) -> Any:
        m, v = m / (1 - f32(0.9) ** count), v / (1 - f32(0.999) ** count)
        return w - f32(1e-3) * (m / (jnp.sqrt(v) + f32(1e-8)) + f32(1e-4) * w)

    return jax.tree.map(updated, weights, first, second), first, second, count, value


def roughness_gradient(x: Any) -> Any:
    """Compute the gradient of a roughness: the sum of squared differences between neighbours along three axes."""
    return jax.grad(lambda x: sum((jnp.diff(x, axis=axis) ** 2).sum() for axis in range(3)))(x)


def chain_of_products(matrices: Any, vector: Any) -> Any:
    """Compute the pose at the end of a chain of 35 joints, as an unrolled product of 4 x 4 matrices."""
    y = jnp.eye(4)
    for number in range(35):
        angle = vector[number]
        c, s = jnp.cos(angle), jnp.sin(angle)
        zero, one = jnp.zeros(()), jnp.ones(())
        iteration = jnp.stack(
            [
                jnp.stack([c, -s, zero, zero]),
                jnp.stack([s, c, zero, zero]),
                jnp.stack([zero, zero, one, zero]),
                jnp.stack([zero, zero, zero, one]),
            ]
        )
        y = y @ matrices[number] @ iteration
    return y


def chain_jacobian(matrices: Any, vector: Any) -> Any:
    """Compute the Jacobian of `chain_of_products` with respect to the joint angles, by forward mode."""
    return jax.jacfwd(chain_of_products, 1)(matrices, vector)


def weighted_histogram(values: Any, weights: Any) -> Any:
    """Compute a weighted histogram with 64 bins."""
    return jnp.histogram(values, 64, (0.0, 1.0), weights=weights)[0]


def wave(e: Any, hx: Any, hy: Any) -> Any:
    """Simulate an electromagnetic wave for fifty steps by the finite-difference time-domain method (Yee, 1966).

    The grid has 113 x 113 cells.
    """

    def step(fields: Any, number: Any) -> Any:
        e, hx, hy = fields
        hx = hx.at[:, :-1].add(-0.5 * (e[:, 1:] - e[:, :-1]))
        hy = hy.at[:-1, :].add(0.5 * (e[1:, :] - e[:-1, :]))
        curl = (hy[1:-1, 1:-1] - hy[:-2, 1:-1]) - (hx[1:-1, 1:-1] - hx[1:-1, :-2])
        e = e.at[1:-1, 1:-1].add(0.5 * curl)
        e = e.at[56, 56].add(jnp.sin(0.1 * number))
        return (e, hx, hy), None

    return jax.lax.scan(step, (e, hx, hy), jnp.arange(50.0))[0]


def collocation(weights: Any, points: Any) -> Any:
    """Compute the residual loss, and its gradient, of a network that solves a third-order differential equation."""

    def network(weights: Any, x: Any) -> Any:
        z = x[None]
        for weight, bias in weights[:-1]:
            z = jnp.tanh(z @ weight + bias)
        return (z @ weights[-1][0] + weights[-1][1])[0]

    def forward(function: Any) -> Any:
        return lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    def loss(weights: Any) -> Any:
        def residual(x: Any) -> Any:
            def u(x: Any) -> Any:
                return network(weights, x)

            return forward(forward(forward(u)))(x) + u(x) * forward(u)(x)

        return (jax.vmap(residual)(points) ** 2).mean()

    return jax.value_and_grad(loss)(weights)


def normal(rng: np.random.Generator, *shape: int) -> Any:
    """Draw a weight matrix, scaled so that the product with an array has elements of about the array's magnitude."""
    return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(f32)


def network_weights(rng: np.random.Generator) -> Any:
    return tuple([normal(rng, 256, 256) for _ in range(3)])


def adamw_inputs(rng: np.random.Generator) -> Any:
    weights = network_weights(rng)
    zeros = tuple([np.zeros_like(w) for w in weights])
    batch = rng.standard_normal((2, 64, 256)).astype(f32)
    return weights, zeros, zeros, f32(0), batch[0], batch[1]


def transformer_inputs(rng: np.random.Generator) -> Any:
    shapes = (256, 768), (256, 256), (256, 1024), (1024, 256)
    blocks = tuple([tuple([normal(rng, *shape) for shape in shapes]) for _ in range(4)])
    return rng.standard_normal((4, 64, 256)).astype(f32), blocks


def collocation_inputs(rng: np.random.Generator) -> Any:
    widths = (1, 32, 32, 1)
    weights = tuple([
        (rng.standard_normal(pair) * 0.5, np.zeros(pair[1])) for pair in pairwise(widths)
    ])  # fmt: skip
    return weights, np.linspace(-1, 1, 256)


LARGER = (
    UserProgram(
        "LSTM of 128 over 100 steps",
        "Hochreiter and Schmidhuber 1997, as flax writes it",
        lambda rng: (
            np.zeros((8, 128), f32),
            np.zeros((8, 128), f32),
            normal(rng, 100, 8, 512),
            normal(rng, 128, 512),
            np.zeros(512, f32),
        ),
        lstm,
        gradient=(3,),
        tolerance=1e-4,
    ),
    UserProgram(
        "small convolutional network, gradient",
        "LeCun 1998, under vmap",
        lambda rng: (
            normal(rng, 8, 1, 3, 3),
            normal(rng, 16, 8, 3, 3),
            normal(rng, 784, 10),
            normal(rng, 16, 28, 28),
            rng.integers(0, 10, 16),
        ),
        jax.value_and_grad(convolutional_loss, (0, 1, 2)),
        tolerance=1e-4,
    ),
    UserProgram(
        "four transformer blocks",
        "Vaswani et al. 2017",
        transformer_inputs,
        transformer,
        tolerance=1e-4,
    ),
    UserProgram(
        "AdamW step", "Loshchilov and Hutter 2019", adamw_inputs, adamw_step, tolerance=1e-4
    ),
    UserProgram(
        "differences along three axes, gradient",
        "total variation of a volume",
        lambda rng: (rng.standard_normal((128, 128, 128)).astype(f32),),
        roughness_gradient,
        tolerance=1e-4,
    ),
    UserProgram(
        "35 products of 4 x 4",
        "forward kinematics",
        lambda rng: (rng.standard_normal((35, 4, 4)) / 2, rng.standard_normal(35)),
        chain_of_products,
    ),
    UserProgram(
        "35 products of 4 x 4, Jacobian",
        "forward kinematics",
        lambda rng: (rng.standard_normal((35, 4, 4)) / 2, rng.standard_normal(35)),
        chain_jacobian,
    ),
    UserProgram(
        "histogram with weights",
        "jax.numpy.histogram",
        lambda rng: (rng.random(100_000), rng.random(100_000)),
        weighted_histogram,
    ),
    UserProgram(
        "finite differences in the time domain",
        "Yee 1966",
        lambda rng: tuple([np.zeros((113, 113)) for _ in range(3)]),
        wave,
    ),
    UserProgram(
        "third derivative of a network, gradient",
        "physics-informed collocation",
        collocation_inputs,
        collocation,
    ),
)

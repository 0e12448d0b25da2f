"""Calls that have the same meaning in `tenferro.nn` and in jax.nn, and values of activations at special points.

A call is a function of the module, tenferro.nn or jax.nn, and of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np

RNG = np.random.default_rng(3)


class Call(NamedTuple):
    """A call, its arguments, and whether its result can be differentiated with respect to every argument."""

    call: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    is_smooth: bool = True


X = RNG.standard_normal((3, 4)) * 2
MASK = np.array([[True, False, True, True], [True, True, True, True], [False, False, True, False]])
Q, K, V = (RNG.standard_normal((2, n, h, 3)) for n, h in ((4, 4), (5, 2), (5, 2)))
ATTENDED = RNG.random((2, 1, 4, 5)) > 0.4
ACTIVATIONS = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "swish",
    "tanh",
]
OVER_AXES = ["softmax", "log_softmax", "logsumexp", "logmeanexp", "standardize"]


def _named(name: str, **options: Any) -> Callable[..., Any]:
    return lambda m, *xs: getattr(m, name)(*xs, **options)


SCALES = np.array([[[2.0, 2.0, 3.0, 3.0], [1.0, 1.0, 0.5, 0.5]]])
CALLS = {
    **{name: Call(_named(name), (X,)) for name in ACTIVATIONS},
    "gelu-exact": Call(_named("gelu", approximate=False), (X,)),
    "glu-axis": Call(_named("glu", axis=1), (X,)),
    "elu-alpha": Call(lambda m, x, a: m.elu(x, a), (X, np.array(1.5))),
    "celu-alpha": Call(lambda m, x, a: m.celu(x, a), (X, np.array(1.5))),
    "leaky_relu-slope": Call(lambda m, x, a: m.leaky_relu(x, a), (X, np.array(0.3))),
    "squareplus-b": Call(lambda m, x, b: m.squareplus(x, b), (X, np.array(2.0))),
    **{name: Call(_named(name, axis=0), (X,)) for name in OVER_AXES},
    **{f"{name}-where": Call(_named(name, where=MASK), (X,)) for name in ("softmax", "logmeanexp", "standardize")},
    "log_softmax-where": Call(
        lambda m, x: m.relu(m.log_softmax(x, where=MASK) + 9), (X,)
    ),
    "logsumexp-b": Call(lambda m, x, b: m.logsumexp(x, 1, b), (X, np.abs(X) + 0.1)),
    "logsumexp-sign": Call(lambda m, x, b: m.logsumexp(x, b=b, return_sign=True)[0], (X, X + 0.1)),
    "logsumexp-kept": Call(lambda m, x: m.logsumexp(x, (0, 1), keepdims=True, where=MASK), (X,)),
    "standardize-stable": Call(_named("standardize", axis=(0, 1), algorithm="stable"), (X,)),
    "standardize-known": Call(lambda m, x, a, b: m.standardize(x, mean=a, variance=b), (X, X[:, :1], X[:, 1:2] ** 2)),
    "log1mexp": Call(_named("log1mexp"), (np.abs(X) + 0.01,)),
    "scaled_matmul": Call(
        lambda m, x, y: m.scaled_matmul(x, y, *(np.array([[[2.0, 3.0], [1.0, 0.5]]]),) * 2, preferred_element_type="float64")
        if m.__name__[:3] != "jax" else (x * SCALES) @ (y * SCALES).swapaxes(1, 2),
        (X[None, :2], X[None, 1:]),
    ),
    "one_hot": Call(_named("one_hot", num_classes=3), (np.array([[0, 2], [-1, 3]]),), False),
    "one_hot-axis": Call(_named("one_hot", num_classes=3, axis=0, dtype="int8"), (np.array([[0, 2], [-1, 3]]),), False),
    "attention": Call(lambda m, q, k, v: m.dot_product_attention(q, k, v), (Q, K, V)),
    "attention-bias": Call(
        lambda m, q, k, v, b: m.dot_product_attention(q, k, v, b, ATTENDED, scale=0.3), (Q, K, V, RNG.standard_normal((1, 4, 4, 5)))
    ),
    "attention-causal": Call(
        lambda m, q, k, v: m.dot_product_attention(q, k, v, is_causal=True, local_window_size=(2, 1)), (Q, K, V), False
    ),
    "attention-lengths": Call(
        lambda m, q, k, v: m.dot_product_attention(
            q, k, v, query_seq_lengths=np.array([3, 4], np.int32), key_value_seq_lengths=np.array([5, 2], np.int32)
        ),
        (Q, K, V),
        False,
    ),
    "attention-single": Call(lambda m, q, k, v: m.dot_product_attention(q, k, v, local_window_size=1), (Q[0], K[0], V[0]), False),
}  # fmt: skip


# ---- special points: definitions in mpmath, and derivatives by limits --------------------------------

mp = mpmath.mp.clone()
mp.dps = 400


def _piecewise(below: Any, above: Any) -> Callable[[Any], Any]:
    return lambda x: above(x) if x > 0 else below(x)


DEFINITIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3))),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "log_sigmoid": lambda x: -mp.log1p(mp.exp(-x)),
    "mish": lambda x: x * mp.tanh(mp.log1p(mp.exp(x))),
    "squareplus": lambda x: (x + mp.sqrt(x * x + 4)) / 2,
    "soft_sign": lambda x: x / (1 + abs(x)),
    "tanh": lambda x: mp.tanh(x),
    "elu": _piecewise(mp.expm1, lambda x: x),
    "celu": _piecewise(mp.expm1, lambda x: x),
}
POINTS = (-1000.0, -100.0, -30.5, -20.0, -5.0, -1e-8, 1e-8, 5.0, 20.0, 30.5, 100.0, 1000.0)
INF = np.inf
AT_INFINITIES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "relu": ((0, INF), (0, 1)), "relu6": ((0, 6), (0, 0)), "sigmoid": ((0, 1), (0, 0)),
    "silu": ((0, INF), (0, 1)), "gelu": ((0, INF), (0, 1)), "gelu-exact": ((0, INF), (0, 1)),
    "softplus": ((0, INF), (0, 1)), "log_sigmoid": ((-INF, 0), (1, 0)), "mish": ((0, INF), (0, 1)),
    "elu": ((-1, INF), (0, 1)), "celu": ((-1, INF), (0, 1)), "selu": ((-1.7580993408473766, INF), (0, 1.0507009873554805)),
    "leaky_relu": ((-INF, INF), (0.01, 1)), "hard_tanh": ((-1, 1), (0, 0)), "hard_sigmoid": ((0, 1), (0, 0)),
    "hard_silu": ((0, INF), (0, 1)), "soft_sign": ((-1, 1), (0, 0)), "squareplus": ((0, INF), (0, 1)),
    "sparse_plus": ((0, INF), (0, 1)), "sparse_sigmoid": ((0, 1), (0, 0)), "tanh": ((-1, 1), (0, 0)),
    "identity": ((-INF, INF), (1, 1)),
}  # fmt: skip
"""Values and derivatives of each activation at -inf and at inf. The second derivatives are 0 there."""
AT_ZERO: dict[str, tuple[float, float, float]] = {
    "relu": (0, 0, 0), "relu6": (0, 0, 0), "sigmoid": (0.5, 0.25, 0), "silu": (0, 0.5, 0.5),
    "gelu": (0, 0.5, np.sqrt(2 / np.pi)), "gelu-exact": (0, 0.5, np.sqrt(2 / np.pi)),
    "softplus": (np.log(2), 0.5, 0.25), "log_sigmoid": (-np.log(2), 0.5, -0.25), "mish": (0, 0.6, 0.64),
    "elu": (0, 1, 1), "celu": (0, 1, 1), "selu": (0, 1.7580993408473766, 1.7580993408473766),
    "leaky_relu": (0, 1, 0), "hard_tanh": (0, 1, 0), "hard_sigmoid": (0.5, 1 / 6, 0), "hard_silu": (0, 0.5, 1 / 3),
    "soft_sign": (0, 1, 0), "squareplus": (1, 0.5, 0.25), "sparse_plus": (0.25, 0.5, 0.5),
    "sparse_sigmoid": (0.5, 0.5, 0), "tanh": (0, 1, 0), "identity": (0, 1, 0),
}  # fmt: skip
"""Value, derivative and second derivative of each activation at 0.

At a corner, the derivatives are those of one side.
"""
AT_CORNERS: dict[str, dict[float, float]] = {
    "relu6": {6.0: 0, 5.9: 1, 6.1: 0}, "hard_tanh": {-1.0: 1, 1.0: 1, 1.1: 0},
    "hard_sigmoid": {-3.0: 0, 3.0: 0, 2.9: 1 / 6}, "hard_silu": {-3.0: 0, 3.0: 1},
    "sparse_plus": {-1.0: 0, 1.0: 1}, "sparse_sigmoid": {-1.0: 0, 1.0: 0},
}  # fmt: skip
"""Derivatives at corners other than 0, and near them."""

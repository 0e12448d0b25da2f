"""Activation functions of `tenferro.nn` whose errors are measured.

Functions such as relu, which only select a value, are absent: they round nothing.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import scipy.special as sp

import tenferro as tnf
from tools.accuracy.function import INF, Function

__all__ = ["ACTIVATIONS"]

SELU = ("1.0507009873554804934193349852946", "1.6732632423543772848170429916717")


def ndtr(x: Any) -> Any:
    """Return the distribution function of the standard normal distribution."""
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def gelu(x: Any) -> Any:
    """Return gelu(x) = x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3).

    It is evaluated as x / (1 + e^(-2 u)), because 1 + tanh(u) would cancel for negative u.
    """
    u = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x * logistic(2 * u)


def elu(x: Any, alpha: Any = 1, width: Any = 1) -> Any:
    return x if x > 0 else alpha * mpmath.expm1(x / width)


def selu(x: Any) -> Any:
    scale, alpha = map(mpmath.mpf, SELU)
    return scale * elu(x, alpha)


def squareplus(x: Any) -> Any:
    root = mpmath.sqrt(x * x + 4)
    return (root + x) / 2 if x > 0 else 2 / (root - x)


def squareplus_of_floats(x: Any) -> Any:
    root = np.hypot(x, 2.0)
    return np.where(x > 0, (root + x) / 2, 2 / (root - x))


def elu_of_floats(x: Any, alpha: float = 1.0, width: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) / width))


ACTIVATIONS: dict[str, Function] = {
    "nn.softplus": Function(
        tnf.nn.softplus, lambda x: mpmath.log1p(mpmath.exp(x)), lambda x: np.logaddexp(x, 0), (-1e4, 1e4)
    ),
    "nn.log_sigmoid": Function(
        tnf.nn.log_sigmoid,
        lambda x: -mpmath.log1p(mpmath.exp(-x)),
        lambda x: -np.logaddexp(-x, 0),
        (-1e4, 1e4),
    ),
    "nn.silu": Function(
        tnf.nn.silu, lambda x: x * logistic(x), lambda x: x * sp.expit(x), (-1e4, 1e4)
    ),
    "nn.mish": Function(
        tnf.nn.mish,
        lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
        lambda x: x * np.tanh(np.logaddexp(x, 0)),
        (-1e4, 1e4),
    ),
    "nn.gelu": Function(
        tnf.nn.gelu,
        gelu,
        lambda x: x * sp.expit(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
        (-40.0, 1e4),
        (-21.5, -10.5),
        16.0,
    ),
    "nn.gelu, by erf": Function(
        lambda x: tnf.nn.gelu(x, approximate=False),
        lambda x: x * ndtr(x),
        lambda x: x * sp.ndtr(x),
        (-40.0, 1e4),
        (-12.7, -35.0, -37.5, -38.5),
        16.0,
    ),
    "nn.elu": Function(tnf.nn.elu, elu, elu_of_floats),
    "nn.celu(x, 2)": Function(
        lambda x: tnf.nn.celu(x, 2.0),
        lambda x: elu(x, 2, 2),
        lambda x: elu_of_floats(x, 2.0, 2.0),
    ),
    "nn.selu": Function(tnf.nn.selu, selu, lambda x: float(SELU[0]) * elu_of_floats(x, float(SELU[1]))),
    "nn.leaky_relu": Function(
        tnf.nn.leaky_relu, lambda x: x if x > 0 else x / 100, lambda x: np.where(x > 0, x, x / 100)
    ),
    "nn.soft_sign": Function(
        tnf.nn.soft_sign, lambda x: x / (1 + abs(x)), lambda x: x / (1 + np.abs(x))
    ),
    "nn.squareplus": Function(tnf.nn.squareplus, squareplus, squareplus_of_floats),
    "nn.hard_sigmoid": Function(
        tnf.nn.hard_sigmoid,
        lambda x: min(max(x + 3, 0), 6) / mpmath.mpf(6),
        lambda x: np.clip(x + 3, 0, 6) / 6,
        points=(3.0,),
    ),
    "nn.hard_silu": Function(
        tnf.nn.hard_silu,
        lambda x: x * min(max(x + 3, 0), 6) / 6,
        lambda x: x * (np.clip(x + 3, 0, 6) / 6),
        (-INF, INF),
        (3.0,),
    ),
    "nn.sparse_plus": Function(
        tnf.nn.sparse_plus,
        lambda x: x if x > 1 else max(x + 1, mpmath.mpf(0)) ** 2 / 4,
        lambda x: np.where(x > 1, x, np.clip(x + 1, 0, 2) ** 2 / 4),
        points=(1.0,),
    ),
    "nn.sparse_sigmoid": Function(
        tnf.nn.sparse_sigmoid,
        lambda x: min(max(x + 1, mpmath.mpf(0)), 2) / mpmath.mpf(2),
        lambda x: np.clip(x + 1, 0, 2) / 2,
        points=(1.0,),
    ),
}  # fmt: skip

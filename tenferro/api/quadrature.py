"""Integrals of functions with tensor parameters from 0 to infinity, by the double exponential formula.

After the substitution w = c e^(t - e^-t), an integrand that decays like e^-w decays doubly exponentially as t goes to
plus and minus infinity. For such integrands the trapezoidal rule converges exponentially. If the sign of the integrand
does not change, no digits are lost. The rule can be differentiated with respect to parameters: the derivative of the
rule is the rule applied to the derivative of the integrand.

Source: Takahasi and Mori, Publications of RIMS 9 (1974), 721-741.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tenferro.api.elementwise import divide, multiply
from tenferro.api.manipulation import expand_dims
from tenferro.api.reductions import sum as sum_over
from tenferro.dispatch import spec_of, stop_gradient
from tenferro.types import Tensor

__all__ = ["along_nodes", "integral"]

COUNT = 96
"""Number of nodes. Incomplete gamma functions have a relative error of up to 4e-11 with 64 nodes, and 3e-15 with 96."""
STEPS = np.linspace(-4.0, 5.0, COUNT)
NODES = np.exp(STEPS - np.exp(-STEPS))
WEIGHTS = (STEPS[1] - STEPS[0]) * NODES * (1 + np.exp(-STEPS))


def along_nodes(*operands: Tensor) -> list[Any]:
    """Add a last axis of extent 1 to the operands, so that they broadcast with the nodes."""
    return [expand_dims(x, axis=-1) for x in operands]


def integral(integrand: Callable[..., Any], rate: Tensor, *operands: Tensor) -> Any:
    """Integrate `integrand(w, *operands)` over w > 0.

    Args:
        rate: the approximate decay rate of the integrand, as in e^(-rate w). It is positive, and treated as a constant.
        operands: parameters of the integrand, which are passed with an additional last axis.
    """
    dtype = spec_of(rate).dtype.dtype
    (scale,) = along_nodes(divide(1.0, stop_gradient(rate)))
    nodes, weights = NODES.astype(dtype), WEIGHTS.astype(dtype)
    values = integrand(multiply(scale, nodes), *along_nodes(*operands))
    return sum_over(multiply(multiply(scale, weights), values), axis=-1)

"""Error bounds (radii) of matrix products and convolutions of A and B.

For operands with radii r and s, the exact result changes by at most |A| s + r |B| + r s. Rounding of n terms adds
gamma_n |A| |B|, where gamma_n = n u / (1 - n u) and u is half a unit in the last place of 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tenferro.ops import StdTensorOp
from tenferro.ops import contraction as co
from xla_peer.parity.balls.operands import Operands, Rule, outward, rounded
from xla_peer.parity.balls.reduction import integer_sum_radius, sum_error
from xla_peer.parity.rounding import ROUNDING
from xla_peer.parity.ulps import modulus

__all__ = ["ROWS"]


def _bilinear(operands: Operands) -> Sequence[Any]:
    (result,), op = operands.results, _in_float64(operands.op)
    x, y = (_finite_size(x) for x in operands.values)
    a, b = operands.radii
    combined = ROUNDING[type(operands.op)].combined
    terms = float(combined(operands.op, operands.specs)) if combined else 1.0
    spread: Any = np.zeros(result.shape)
    if not operands.are_exact:
        for left, right in ((x, b), (a, y), (a, b)):
            if left.any() and right.any():
                spread = spread + _product(operands, op, left, right)
        spread = outward(spread, 16.0 + terms)
    if not operands.dtype.is_inexact:
        return (integer_sum_radius(operands, spread),)
    size = operands.run(op, x, y)
    error = sum_error(operands, op, terms, size, spread, products=True)
    return (rounded(operands, result, spread, error, elementwise=False),)


def _product(operands: Operands, op: StdTensorOp, x: Any, y: Any) -> Any:
    """Apply a contraction to magnitudes or radii; an element that depends on an infinite radius is infinite."""
    infinite = [np.where(np.isinf(z), 1.0, 0.0) for z in (x, y)]
    if not (infinite[0].any() or infinite[1].any()):
        return operands.run(op, x, y)
    numbers = [np.where(np.isinf(z), 0.0, z) for z in (x, y)]
    ones = [np.where(z > 0, 1.0, 0.0) for z in (x, y)]
    reached = operands.run(op, infinite[0], ones[1]) + operands.run(op, ones[0], infinite[1])
    return np.where(reached > 0, np.inf, operands.run(op, *numbers))


def _in_float64(op: StdTensorOp) -> StdTensorOp:
    """Return the op without its accumulation dtype, so that it can be applied to arrays of float64."""
    return replace(op, accumulate_dtype=None) if isinstance(op, co.DotGeneral) else op


def _finite_size(x: Any) -> Any:
    size = modulus(x)
    return np.where(np.isfinite(size), size, 0.0)


ROWS: Mapping[type[StdTensorOp], Rule] = {co.DotGeneral: _bilinear, co.Convolution: _bilinear}

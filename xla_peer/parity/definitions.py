"""Judgement of an op at one element by the exact value of its mathematical definition, which mpmath computes.

Both paths apply the function to the same operands, so errors of earlier ops have no influence.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np

from tenferro.definitions import DEFINITIONS
from tenferro.ops import StdTensorOp
from tenferro.types import DType
from xla_peer.parity.divergence import Divergence, maker, values_of
from xla_peer.parity.opinion import NATIVE, PEER, Opinion
from xla_peer.parity.ulps import spacing

__all__ = ["by_definition"]

DIGITS = 60
CLEAR = 4.0
"""Minimum ratio of the errors of the two paths for the less accurate path to be called wrong."""


class _Element(NamedTuple):
    """One element of an op's result on both paths, and its operands."""

    op: StdTensorOp
    operands: list[float]
    native: Any
    peer: Any


def by_definition(divergence: Divergence) -> Opinion | None:
    """Judge the divergent op at its worst element by the definition of the function.

    Return None for ops without a definition, for complex or infinite operands, at poles, and for an op that diverges
    only together with earlier ops.
    """
    element = _element(divergence)
    if element is None:
        return None
    try:
        mpmath = importlib.import_module("mpmath")
    except ImportError:
        return Opinion(
            f"the definition of {element.op.name} has no opinion: mpmath is not installed"
        )
    errors = _errors(mpmath, element)
    if errors is None:
        return None
    words = (
        f"by its definition {element.op.name} at {', '.join(map(repr, element.operands))} is "
        f"{errors.exact}: native is {errors.native:.3g} units in the last place off, PJRT {errors.peer:.3g}"
    )
    near, far = sorted((errors.native, errors.peer))
    if not far > CLEAR * max(near, 0.5):
        return Opinion(words)
    return Opinion(words, NATIVE if errors.native > errors.peer else PEER)


def _element(divergence: Divergence) -> _Element | None:
    step, output = maker(divergence.program, divergence.output), divergence.output
    is_alone = len(divergence.program.instructions) == 1 and output.worst is not None
    if step is None or not is_alone or type(step.op) not in DEFINITIONS:
        return None
    arrays = values_of(divergence.program, step.inputs, divergence.leaves)
    if any(DType.of(x.dtype).kind in "biuc" for x in arrays) or output.spec.dtype.is_complex:
        return None
    operands = [float(x[output.worst]) for x in arrays]
    if not np.isfinite(operands).all():
        return None
    return _Element(step.op, operands, output.native, output.xla)


class _Errors(NamedTuple):
    """The exact value as text, and the errors of both paths in units in the last place."""

    exact: str
    native: float
    peer: float


def _errors(mpmath: Any, element: _Element) -> _Errors | None:
    with mpmath.workdps(DIGITS):
        try:
            exact = DEFINITIONS[type(element.op)](
                mpmath, element.op, *map(mpmath.mpf, element.operands)
            )
        except (ValueError, ZeroDivisionError, NotImplementedError):
            return None  # the operand is a pole
        if isinstance(exact, mpmath.mpc) or not mpmath.isfinite(exact):
            return None
        native, peer = (_error(mpmath, exact, y) for y in (element.native, element.peer))
        return _Errors(mpmath.nstr(exact, 20), native, peer)


@np.errstate(all="ignore")
def _error(mpmath: Any, exact: Any, y: Any) -> float:
    array = np.asarray(y)
    rounded = np.asarray(float(exact)).astype(array.dtype)
    if not np.isfinite(array.astype(np.float64)):
        return 0.0 if rounded == array else float("inf")
    unit = float(spacing(rounded if np.isfinite(rounded.astype(np.float64)) else array))
    return float(abs(mpmath.mpf(float(array)) - exact) / mpmath.mpf(unit))

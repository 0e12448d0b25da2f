"""`error_bound`, which proves how far the result of any right implementation may be from the native result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.program import GraphProgram
from tenferro.table import aligned
from tenferro.types import DType, TensorSpec, unflatten
from xla_peer.json_values import json_value
from xla_peer.parity.balls.enclosure import enclosed
from xla_peer.parity.balls.operands import Ball
from xla_peer.parity.ulps import modulus, spacing
from xla_peer.tracing import traced

__all__ = ["ErrorBound", "OpenStep", "OutputBound", "error_bound"]

MOST_LINES = 10


@dataclass(frozen=True)
class OpenStep:
    """Op that computes elements without a bound, or elements that are decisions which rounding may flip.

    Attributes:
        op: the op.
        line: the line of the user's source.
        count: the number of such elements, summed over all iterations of a loop.
    """

    op: str
    line: str
    count: int

    def __str__(self) -> str:
        elements = "1 element" if self.count == 1 else f"{self.count} elements"
        return f"{self.op}{f' at {self.line}' if self.line else ''}: {elements}"


@dataclass(frozen=True)
class OutputBound:
    """Summary of the bounds of one output.

    Attributes:
        name, spec: name and type of the output.
        largest: the largest finite radius.
        max_ulps, median_ulps: maximum and median of finite radii, in units in the last place of the value.
        unbounded: the number of elements without a bound.
    """

    name: str
    spec: TensorSpec
    largest: float
    max_ulps: float
    median_ulps: float
    unbounded: int


@dataclass(frozen=True)
class ErrorBound:
    """Native values with proven error bounds; `print` shows a table.

    Attributes:
        name: name of the program.
        values: the results of a run op by op, in the structure of the function's result.
        radii: float64 arrays in the same structure. The result of every right implementation, and the exact result for
            exact arguments, are at most this distance from `values`; for complex numbers, in the plane.
        outputs: a summary of each output.
        unbounded: the ops whose results have elements without a bound.
        undecided: comparisons, indices and orders that rounding may change; the bound includes both outcomes.
    """

    name: str
    values: Any
    radii: Any
    outputs: tuple[OutputBound, ...]
    unbounded: tuple[OpenStep, ...]
    undecided: tuple[OpenStep, ...]

    @property
    def is_finite(self) -> bool:
        """Whether every element has a bound."""
        return not any(output.unbounded for output in self.outputs)

    def __repr__(self) -> str:
        without = sum(output.unbounded for output in self.outputs)
        return f"<ErrorBound {self.name}: {len(self.outputs)} outputs, {without} elements without a bound>"

    def __str__(self) -> str:
        head = ("output", "type", "largest", "max ulps", "median ulps", "without a bound")
        rows = [
            (y.name, str(y.spec), f"{y.largest:.3g}", f"{y.max_ulps:.3g}", f"{y.median_ulps:.3g}",
             str(y.unbounded))
            for y in self.outputs
        ]  # fmt: skip
        lines = [f"{self.name}: proven bounds around the native values", *aligned([head, *rows])]
        for title, steps in (("no bound after", self.unbounded), ("left open", self.undecided)):
            if steps:
                lines += [f"{title}:", *[f"  {step}" for step in steps[:MOST_LINES]]]
                if len(steps) > MOST_LINES:
                    lines.append(f"  and {len(steps) - MOST_LINES} more")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Convert the summary to JSON-compatible values."""
        return json_value({
            "name": self.name,
            "outputs": [vars(output) | {"spec": str(output.spec)} for output in self.outputs],
            "unbounded": [vars(step) for step in self.unbounded],
            "undecided": [vars(step) for step in self.undecided],
        })  # fmt: skip


def error_bound(fn_or_program: Callable[..., Any] | GraphProgram, *arrays: Any) -> ErrorBound:
    """Compute, for each element, a distance from the native value that no right implementation exceeds.

    The program runs on balls: a ball is the native value with a radius. The radius of a result is computed from the
    radii of the operands and the op's declared accuracy (`xla_peer.parity.ROUNDING`), and rounded up. The radii of sums
    and products hold for every order of terms, with and without contraction, and if subnormal numbers are flushed.
    If the balls do not decide a comparison, an index or a trip count, the bound covers all outcomes.

    Args:
        fn_or_program: a program, or a function, which is traced for the shapes and dtypes of the arrays. To
            bound gradients, pass a function that computes them, such as `tnf.grad(fn)`.
        arrays: the arguments, which are assumed to be exact.

    Raises:
        ArityError, DTypeError, ShapeError: the arrays do not fit.
        BackendFailureError: a kernel failed.

    >>> bound = error_bound(lambda x: (x + 1.0) * x, np.array([0.1, 3.0]))
    >>> bound.is_finite, bool((bound.radii < 1e-14).all()), float(bound.radii[1])
    (True, True, 0.0)

    Source: J. H. Wilkinson, running error analysis; N. J. Higham, Accuracy and Stability of Numerical Algorithms,
    2nd ed., section 3.3.
    """
    program = traced(fn_or_program, *arrays)
    balls, remarks = enclosed(program, program.check_arguments(arrays))
    return ErrorBound(
        name=program.name,
        values=unflatten(program.out_tree, [ball.value for ball in balls]),
        radii=unflatten(program.out_tree, [ball.radius for ball in balls]),
        outputs=tuple(map(_summary, program.output_names, balls)),
        unbounded=_steps(remarks.unbounded),
        undecided=_steps(remarks.undecided),
    )


def _steps(counts: Mapping[tuple[str, str], int]) -> tuple[OpenStep, ...]:
    return tuple([OpenStep(op, line, count) for (op, line), count in counts.items()])


def _summary(name: str, ball: Ball) -> OutputBound:
    value, radius = ball.value, ball.radius
    is_finite = np.isfinite(radius)
    finite: Any = radius[is_finite]
    units = np.ones(value.shape) if DType.of(value.dtype).kind in "biu" else spacing(value)
    with np.errstate(
        over="ignore"
    ):  # the spacing of floats is tiny near zero, so the quotient may overflow
        in_units = np.where(np.isfinite(modulus(value)), radius / units, 0.0)[is_finite]
        median = float(np.median(in_units)) if in_units.size else 0.0
    return OutputBound(
        name,
        TensorSpec.of(value.shape, DType.of(value.dtype)),
        _largest(finite),
        _largest(in_units),
        median,
        int(np.count_nonzero(~is_finite)),
    )


def _largest(x: Any) -> float:
    return float(x.max()) if x.size else 0.0

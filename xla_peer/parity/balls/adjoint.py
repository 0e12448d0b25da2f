"""Error bounds (radii) of outputs by the mean value theorem: the sum over all steps of rounding error times adjoint.

Balls treat the errors of different operands as independent, so x - x has a radius, and the radius of a loop's carry
grows in each iteration. A second bound takes correlations into account. An output y is a function of the rounding
errors d_i of all steps, and changes by at most sum_i |dy/dd_i| |d_i|, with derivatives anywhere in the balls. The
derivatives are balls, too: `Pullbacks` computes them step by step in reverse.

Reductions, contractions, loop carries and functions other than arithmetic are computed once, with one rounding error
for all uses. A compiler may recompute arithmetic for each use, and contract a product into an FMA in one use only.
Each use then has a separate error, and the magnitudes of the adjoints are added.

Sources: S. M. Rump, Verification methods, Acta Numerica 19, 2010, section 11 (mean value forms); S. Linnainmaa, Taylor
expansion of the accumulated rounding error, BIT 16, 1976.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tenferro.ext.linalg import families as fam
from tenferro.facts import Fact, ops_with
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops import structural as st
from tenferro.ops.extension import Extension
from tenferro.types import DType, TensorSpec
from xla_peer.parity.balls import BALL_RULES
from xla_peer.parity.balls.analytic import operand_error
from xla_peer.parity.balls.indexing import hits
from xla_peer.parity.balls.operands import EPSILON, Ball, Operands, flushed, outward
from xla_peer.parity.balls.pullbacks import Pullbacks
from xla_peer.parity.balls.tape import Entry, Narrowed, Row, Stack, Step, Tape
from xla_peer.parity.rounding import ROUNDING
from xla_peer.parity.ulps import modulus

__all__ = ["tightened"]

FUNCTIONS = tuple(set(an.CARDS) - {an.Polygamma})
CHOICES = tuple(ops_with(Fact.CHOOSES) - {el.Select})
"""Ops whose result is one of their operands, or zero if that operand is subnormal."""
EXACT = tuple(
    {op for op, row in ROUNDING.items() if not row.rounds}
    - ops_with(Fact.JUMPS | Fact.HIDES_JUMPS)
    - {*CHOICES, re.CumMax, re.CumMin}
)
"""Ops without rounding whose results change continuously with their operands."""
ARITHMETIC = (
    el.Add, el.Subtract, el.Multiply, el.Negate, el.Abs, el.Conj, el.Real, el.Imag, el.Select, el.Convert,
    ix.Gather, ix.DynamicSlice, ix.DynamicUpdateSlice, *CHOICES, *st.CARDS,
)  # fmt: skip
"""Ops that a compiler may compute again for every use of the result."""
LARGEST_BATCH = 1 << 19
"""Maximum number of elements of a batch of cotangents."""


def tightened(tape: Tape, outputs: Sequence[Ball]) -> list[Ball]:
    """Return the outputs, with the mean value bound in place of each radius that is larger than this bound."""
    sizes = [ball.value.size for entry in tape.entries for ball in _results(entry)]
    if not sizes:
        return list(outputs)
    pullbacks, batch = Pullbacks(), max(1, LARGEST_BATCH // max(1, max(sizes)))
    return [_tightened(tape, output, pullbacks, batch) for output in outputs]


def _tightened(tape: Tape, output: Ball, pullbacks: Pullbacks, batch: int) -> Ball:
    if output.value.dtype.kind in "biu":
        return output
    (places,) = np.nonzero((output.radius > 0).ravel() & np.isfinite(output.value).ravel())
    radius = output.radius.ravel().copy()
    for start in range(0, len(places), batch):
        part = places[start : start + batch]
        limit = _of_one_output(tape, output, part, 1.0, pullbacks)
        if output.value.dtype.kind == "c":
            limit = np.hypot(limit, _of_one_output(tape, output, part, 1j, pullbacks))
        radius[part] = np.fmin(radius[part], outward(limit))
    return replace(output, radius=radius.reshape(output.radius.shape))


def _of_one_output(
    tape: Tape, output: Ball, places: Any, direction: complex, pullbacks: Pullbacks
) -> Any:
    """Bound the change of some elements of an output by a reverse sweep.

    Args:
        places: the row-major positions of the elements.
        direction: 1 or 1j, to bound the change of the real or of the imaginary part of an element.
    """
    seeds = np.zeros((len(places), output.value.size), _wide_dtype(output))
    seeds[np.arange(len(places)), places] = direction
    seeds = seeds.reshape(len(places), *output.value.shape)
    reverse = _Reverse(tape, pullbacks, np.zeros(len(places)))
    reverse.add(output, seeds, np.zeros(seeds.shape), modulus(seeds))
    for entry in reversed(tape.entries):
        reverse.visit(entry)
    reverse.leave_out_nothing()
    return reverse.limit


@dataclass(eq=False)
class _Adjoint:
    """Cotangents of one ball for a batch of outputs, as balls.

    Attributes:
        value, radius: the centres and radii of the cotangents.
        size: the sum of the magnitudes of the cotangents over all uses of the ball.
    """

    value: Any
    radius: Any
    size: Any

    def add(self, value: Any, radius: Any, size: Any) -> None:
        """Add the cotangents of one more use of the ball."""
        self.value = self.value + value
        self.radius = outward(self.radius + radius + EPSILON * modulus(self.value))
        self.size = outward(self.size + size)

    @property
    def reach(self) -> Any:
        """The largest modulus of each cotangent within its ball."""
        return outward(modulus(self.value) + self.radius)


@dataclass
class _Reverse:
    """State of a reverse sweep over a tape.

    Attributes:
        tape: the recorded run.
        pullbacks: the cache of the derivatives of single ops.
        limit: for each output of the batch, a bound on its change by the errors of all steps that have been visited.
        adjoints: the cotangents of balls whose steps have not been visited yet.
    """

    tape: Tape
    pullbacks: Pullbacks
    limit: Any
    adjoints: dict[Ball, _Adjoint] = field(default_factory=dict)

    def add(self, ball: Ball, value: Any, radius: Any, size: Any) -> None:
        """Add the cotangents of one use of a ball to its adjoint."""
        if ball in self.adjoints:
            self.adjoints[ball].add(value, radius, size)
        else:
            self.adjoints[ball] = _Adjoint(value, radius, size)

    def visit(self, entry: Entry) -> None:
        """Propagate the adjoints of one entry's results to its operands."""
        for result in _results(entry):
            adjoint = self.adjoints.pop(result, None)
            if adjoint is None:
                continue
            if (
                isinstance(entry, Stack | Narrowed)
                or result in self.tape.carried
                or not _is_arithmetic(entry)
            ):
                adjoint.size = adjoint.reach
            if isinstance(entry, Step):
                self._step(entry, result, adjoint)
            elif isinstance(entry, Row):
                self._row(entry, adjoint)
            elif isinstance(entry, Narrowed):
                self.add(entry.source, *_parts(adjoint))
            else:
                for number, row in enumerate(entry.rows):
                    self.add(row, *[part[:, number] for part in _parts(adjoint)])

    def leave_out_nothing(self) -> None:
        """Add to `limit` the effect of the balls that no step computes, such as inputs.

        The elements of these balls vary independently.
        """
        for ball, adjoint in self.adjoints.items():
            self._move(adjoint.size, ball.radius)

    def _row(self, entry: Row, adjoint: _Adjoint) -> None:
        shape = (len(self.limit), *entry.source.value.shape)
        if entry.source not in self.adjoints:
            value = np.zeros(shape, _wide_dtype(entry.source))
            self.adjoints[entry.source] = _Adjoint(value, np.zeros(shape), np.zeros(shape))
        whole = self.adjoints[entry.source]
        at = (slice(None), entry.index)
        row = _Adjoint(*[part[at] for part in _parts(whole)])
        row.add(*_parts(adjoint))
        whole.value, whole.radius, whole.size = (part.copy() for part in _parts(whole))
        whole.value[at], whole.radius[at], whole.size[at] = _parts(row)

    def _step(self, step: Step, result: Ball, adjoint: _Adjoint) -> None:
        own = _own_error(step, result) if len(step.results) == 1 else None
        if own is None:
            self._move(adjoint.size, result.radius)
            return
        stays = _is_cut(step, result)
        cotangents = self._pulled(step, stays, adjoint)
        if cotangents is None:
            self._move(adjoint.size, result.radius)
            return
        self._move(adjoint.size, np.where(stays, result.radius, own))
        for ball, shift, (value, radius, size) in cotangents:
            self._move(size, shift)
            self.add(ball, value, radius, size)

    def _pulled(
        self, step: Step, stays: Any, adjoint: _Adjoint
    ) -> list[tuple[Ball, Any, tuple[Any, Any, Any]]] | None:
        """Compute the adjoints of the operands of a step from the adjoint of its result.

        Return a list of operands, each with its backward error and its adjoint. Return None if a derivative has no
        bound.

        Args:
            stays: mask of the elements of the result through which no adjoint is propagated.
        """
        value, radius, size = (np.where(stays, 0, part) for part in _parts(adjoint))
        if isinstance(step.op, el.Convert):
            return [(step.operands[0], 0.0, (value, radius, size))]
        shifts = _backward_errors(step)
        balls = [
            replace(ball, radius=outward(ball.radius + shift))
            for ball, shift in zip(step.operands, shifts, strict=True)
        ]
        active = tuple([
            number for number, ball in enumerate(balls)
            if ball.value.dtype.kind not in "biu" and ball.radius.any()
        ])  # fmt: skip
        if not active:
            return []
        again = _is_arithmetic(step)
        if again:
            y_bar = Ball(np.concatenate([value, size]), np.concatenate([radius, 0.0 * size]))
        else:
            y_bar = Ball(value, radius)
        pulled = self.pullbacks.pull(step.op, balls, active, y_bar)
        if not all(np.isfinite(x.value).all() and np.isfinite(x.radius).all() for x in pulled):
            return None
        count = len(self.limit)
        cotangents: list[tuple[Ball, Any, tuple[Any, Any, Any]]] = []
        for number, x_bar in zip(active, pulled, strict=True):
            reach = outward(modulus(x_bar.value) + x_bar.radius)
            first = x_bar.radius[:count]
            if again:  # each copy of a recomputed op may have another derivative within the ball
                first = outward(first + x_bar.radius[count:])
            sizes = reach[count:] if again else reach
            parts = (x_bar.value[:count], first, sizes)
            cotangents.append((step.operands[number], shifts[number], parts))
        return cotangents

    def _move(self, size: Any, error: Any) -> None:
        """Add the sum of |adjoint| times error to `limit`; an adjoint of 0 contributes 0 even for an infinite error."""
        size = size.reshape(len(self.limit), -1)
        error = np.broadcast_to(error, (size.shape[1],) if not np.ndim(error) else np.shape(error))
        moved = np.where((size == 0) | (error.ravel() == 0), 0.0, size * error.ravel())
        self.limit = outward(self.limit + moved.sum(axis=1), 8.0 + moved.shape[1])


def _parts(adjoint: _Adjoint) -> tuple[Any, Any, Any]:
    return adjoint.value, adjoint.radius, adjoint.size


def _results(entry: Entry) -> tuple[Ball, ...]:
    if isinstance(entry, Step):
        return entry.results
    return (entry.row,) if isinstance(entry, Row) else (entry.result,)


def _wide_dtype(ball: Ball) -> Any:
    return np.complex128 if ball.value.dtype.kind == "c" else np.float64


def _sets(op: Any) -> bool:
    """Return whether an op is a scatter that sets elements, without combining them."""
    return isinstance(op, ix.Scatter) and op.combiner == "set"


def _is_arithmetic(entry: Entry) -> bool:
    return isinstance(entry, Row) or (isinstance(entry, Step) and isinstance(entry.op, ARITHMETIC))


def _is_cut(step: Step, result: Ball) -> Any:
    """Return the mask of the elements of a result through which no adjoint is propagated.

    These elements have a radius of 0 or infinity, or an undecided predicate or update selects them.
    """
    cut = (result.radius == 0) | ~np.isfinite(result.radius)
    if isinstance(step.op, el.Select):
        cut = cut | (step.operands[0].radius > 0)
    if _sets(step.op):  # if several updates set an element, any of them may be the last
        cut = cut | (hits(_operands(step)) > 1)
    return cut


def _operands(step: Step) -> Operands:
    values = [ball.value for ball in step.operands]
    specs = tuple([TensorSpec.of(x.shape, DType.of(x.dtype)) for x in values])
    results = tuple([ball.value for ball in step.results])
    return Operands(step.op, step.operands, specs, results, is_local=True)


def _own_error(step: Step, result: Ball) -> Any:
    """Bound the change of a result by the roundings of its own step.

    Return None for a step through which no adjoint can be propagated.
    """
    op = step.op
    integers = [ball for ball in step.operands if ball.value.dtype.kind in "biu"]
    if any(ball.radius.any() for ball in integers) and not isinstance(op, el.Select):
        return None
    kinds = {ball.value.dtype.kind == "c" for ball in step.operands if ball not in integers}
    is_complex = result.value.dtype.kind == "c"
    if isinstance(op, el.Abs):
        return None if True in kinds else np.zeros(result.value.shape)
    if isinstance(op, EXACT) or _sets(op):
        return np.zeros(result.value.shape)
    if isinstance(op, CHOICES):
        return flushed(result.value, DType.of(result.value.dtype))
    if isinstance(op, Extension):
        follows = isinstance(op.op, fam.Solve | fam.TriangularSolve)
    elif isinstance(op, ix.Scatter):
        follows = op.combiner == "add"
    elif isinstance(op, el.Convert):
        follows = kinds == {is_complex} and not integers
    else:
        follows = ROUNDING[type(op)].rounds and not isinstance(op, an.Polygamma | el.Sign)
    if not follows:
        return None
    (own,) = BALL_RULES[type(op)](_operands(step))
    return np.fmin(own, result.radius)


def _backward_errors(step: Step) -> list[Any]:
    """Return the backward error of each operand.

    An implementation returns the exact result for an argument near the operand. The backward error is the largest
    distance of this argument from the operand.
    """
    zeros: list[Any] = [0.0 for _ in step.operands]
    if isinstance(step.op, FUNCTIONS) and len(step.operands) == 1:
        zeros[0] = operand_error(_operands(step), step.operands[0].value)
    return zeros

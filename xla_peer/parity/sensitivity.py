"""Measurement of how much the results of a program change if every op rounds a little differently.

The program runs natively, op by op, a few times. In each run the result of every op is changed up or down at random,
by at most the units in the last place that `ROUNDING` allows. Roundings that another implementation may omit are
omitted at random. Sums and products of many terms are changed by the error that was measured on their terms; in one
more run all of them are changed in the same direction.

The change of the outputs shows the effect of rounding, including cancellation, ill conditioning and comparisons that
flip. If a run meets subnormal numbers, one more run flushes them to zero, as XLA does on a CPU. If ops distinguish the
signs of zeros, one more run changes the sign of each zero that a sum returned, because implementations may return
either sign. The result is a first-order estimate from samples, not a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.exec.interpreter import interpret
from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.facts import Fact, ops_with
from tenferro.ops import StdTensorOp
from tenferro.ops import elementwise as el
from tenferro.ops.control import ControlOp
from tenferro.program import GraphProgram, Instruction, native_executor
from tenferro.types import DType, TensorSpec
from xla_peer.parity.accumulation import accumulated_error
from xla_peer.parity.budget import spend_time
from xla_peer.parity.candidates import CARRIERS
from xla_peer.parity.pending import (
    ADDITIVE,
    DISCRETE,
    EXACT_TERMS,
    WHOLE,
    Pending,
    divides_by_reciprocal,
    pending_roundings,
    unit,
)
from xla_peer.parity.rounding import ROUNDING, TRANSCENDENTAL, Rounding, rounding_of
from xla_peer.parity.ulps import are_small_whole, modulus

__all__ = [
    "Moved",
    "Operands",
    "Plain",
    "Record",
    "Together",
    "changed_run",
    "decides",
    "moved_outputs",
    "subnormal",
]

AS_GOOD_AS_EQUAL = 4.0
"""Maximum distance of two numbers that may become equal by rounding; the unit is the error of a function."""
REORDERED = 2.0
"""Maximum change of a sum or product in the carry of a loop; the unit is one rounding.

The change simulates a compiler that combines the iterations in another order.
"""
LARGEST_RECORD = 1 << 28
"""Maximum size in bytes of the recorded operands and results of decisions."""
Kernel = Callable[..., Any]
DISTINGUISHES_ZEROS = ops_with(Fact.DISTINGUISHES_ZEROS)
EITHER_ZERO = ops_with(Fact.EITHER_ZERO)


class Record:
    """Record of the operands and results of decisions in a run with ordinary rounding, in order.

    A decision is an op on floats that returns integers, bools or whole numbers; see `decides`.

    Attributes:
        entries: the operands and the result of each decision.
        is_complete: whether the record contains all decisions; `LARGEST_RECORD` limits its size.
        has_flipped: whether a decision had another result in another run.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[list[Any], Any]] = []
        self.is_complete, self.has_flipped, self._nbytes = True, False, 0

    def add(self, arrays: Sequence[Any], result: Any) -> None:
        """Append a decision, unless the record is full."""
        self._nbytes += result.nbytes + sum([x.nbytes for x in arrays])
        if self._nbytes > LARGEST_RECORD:
            self.is_complete = False
            self.entries.clear()
        if self.is_complete:
            self.entries.append((list(arrays), result))

    def watch(self, position: int, result: Any) -> None:
        """Compare the result of a decision in another run with the recorded result, and set `has_flipped` if they differ."""
        if not self.is_complete or self.has_flipped:
            return
        if position >= len(self.entries):
            self.has_flipped = True
            return
        expected = self.entries[position][1]
        self.has_flipped = result.shape != expected.shape or bool((result != expected).any())


def moved_outputs(
    program: GraphProgram,
    leaves: Sequence[Any],
    runs: int,
    platform: str = "cpu",
    record: Record | None = None,
) -> list[list[Any]]:
    """Return the outputs of a run with ordinary rounding, and of runs that round differently.

    In `runs` runs every op is rounded at random, with fixed seeds. One more run rounds all sums in the same direction.
    If there are subnormal numbers, a further run flushes them; if ops distinguish the signs of zeros, a further run
    changes the signs of zeros that may differ.

    Args:
        runs: the number of runs with random rounding.
        platform: the platform whose rounding is simulated.
        record: a record that receives the decisions of the first run, and whether other runs decide differently.
    """
    plain = Plain() if record is None else Recorder(record)
    moved = [Moved(np.random.default_rng(seed), platform, record) for seed in range(runs)]
    changes = [plain, *moved]
    static, run = changed_run(program, leaves, platform)
    with numpy_state():
        outputs = [run(change=change) for change in changes]
        if plain.met_subnormals:
            outputs.append(run(change=Flushed()))
        if any(_adds_up(step) for step in static.instructions):
            outputs.append(run(change=Together(np.random.default_rng(runs), platform)))
        if any(type(step.op) in DISTINGUISHES_ZEROS for step in static.instructions):
            outputs.append(run(change=FlippedZeros()))
        return outputs


def changed_run(
    program: GraphProgram, leaves: Sequence[Any], platform: str = "cpu"
) -> tuple[GraphProgram, Callable[..., list[Any]]]:
    """Return the program with static shapes, and a function `run(change=)` that runs it op by op.

    The argument `change` is an instance of `Plain` or of a subclass. Its methods replace arguments and results of ops.
    """
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    schedule = replace(native_executor().binder, passes=(), plan=()).bind(static)
    return static, partial(_run, schedule, leaves, pending=_pending(schedule, static, platform))


@dataclass(frozen=True)
class Operands:
    """Operands of an op in a run.

    Attributes:
        arrays, specs: the operands and their types.
        pending: the pending roundings of each operand.
        dtypes: the dtypes of the results.
        step: the step of the schedule that applies the op.
    """

    arrays: list[Any]
    specs: tuple[TensorSpec, ...]
    pending: list[Pending]
    dtypes: list[DType]
    step: ExecInstruction

    @property
    def is_inexact(self) -> bool:
        """Whether the first result is float or complex."""
        return self.dtypes[0].is_inexact

    @property
    def roundings(self) -> list[float]:
        """The pending rounding of each operand; 0 for whole numbers so small that no sum or product of them rounds."""
        return [
            0.0 if value.is_whole and are_small_whole(x, x.dtype) else value.rounding
            for x, value in zip(self.arrays, self.pending, strict=True)
        ]

    @property
    def is_windowed(self) -> bool:
        """Whether the operands of an addition are sums of slices of one array, with more than two terms together."""
        x, y = self.pending
        return -1 < x.window == y.window and x.terms + y.terms > EXACT_TERMS

    @property
    def is_complex(self) -> bool:
        """Whether an operand or a result is complex."""
        dtypes = (*[spec.dtype for spec in self.specs], *self.dtypes)
        return any(dtype.is_complex for dtype in dtypes)


class Plain:
    """Modified execution that leaves all values unchanged, and records whether any element was subnormal.

    Subclasses replace the results of ops, to simulate other implementations.
    """

    met_subnormals = False

    def leaf(self, x: Any) -> Any:
        """Return the array to use in place of the argument or constant x."""
        self.met_subnormals = self.met_subnormals or bool(subnormal(x).any())
        return x

    def results(self, op: StdTensorOp, kernel: Kernel, operands: Operands) -> list[Any]:
        """Compute the results of an op, and return the arrays to use in their place.

        Args:
            kernel: a function that runs the op.
        """
        return [self.leaf(y) for y in _all_of(op, kernel(op, *operands.arrays))]


class Recorder(Plain):
    """Modified execution that leaves all values unchanged, and records the operands and results of decisions."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def results(self, op: StdTensorOp, kernel: Kernel, operands: Operands) -> list[Any]:
        results = super().results(op, kernel, operands)
        if decides(op, operands):
            self.record.add(operands.arrays, results[0])
        return results


class Moved(Plain):
    """Modified execution that adds random rounding errors to the results of ops, as large as the platform's may be."""

    def __init__(
        self, generator: np.random.Generator, platform: str = "cpu", record: Record | None = None
    ) -> None:
        self.generator, self.platform, self.watched = generator, platform, record
        self.position = 0

    def leaf(self, x: Any) -> Any:
        return x

    def results(self, op: StdTensorOp, kernel: Kernel, operands: Operands) -> list[Any]:
        arrays, specs = operands.arrays, operands.specs
        rounding = rounding_of(op, specs, self.platform)
        before = operands.roundings
        is_carried = any([value.is_carried for value in operands.pending])
        if isinstance(op, el.Add) and operands.is_inexact and operands.is_windowed:
            return [self._windowed(operands)]
        if isinstance(op, ADDITIVE) and (any(before) or (is_carried and operands.is_inexact)):
            return [self._sum(op, arrays, before, is_carried)]
        if rounding.combined is not None:
            return [self._accumulated(op, kernel, arrays, max(before))]
        if rounding.output(operands.is_complex):
            return self._approximated(op, kernel, operands, rounding)
        if type(op) in DISCRETE or _to_integers(op):
            results = self._decided(op, kernel, operands, self._before_a_decision(operands))
            if self.watched is not None and decides(op, operands):
                self.watched.watch(self.position, results[0])
                self.position += 1
            return results
        results = _all_of(op, kernel(op, *arrays))
        if divides_by_reciprocal(op, operands.pending, operands.specs):
            return [self._moved(y, 2 * unit(specs[0].dtype)) for y in results]
        if is_carried and isinstance(op, el.Multiply) and operands.is_inexact:
            moved = self._moved(results[0], REORDERED * unit(specs[0].dtype))
            return [np.where(_is_exact(*arrays), results[0], moved)]
        return results

    def _before_a_decision(self, operands: Operands) -> list[Any]:
        """Apply the pending roundings to a decision's operands; an operand that occurs twice is changed only once."""
        moved: dict[int, Any] = {}
        slots = operands.step.input_slots
        for slot, x, spec, value, rounding in zip(
            slots,
            operands.arrays,
            operands.specs,
            operands.pending,
            operands.roundings,
            strict=True,
        ):
            if slot not in moved and value.differs and rounding:
                x = self._moved(x, max(rounding, 2 * unit(spec.dtype)))
            moved.setdefault(slot, x)
        return [moved[slot] for slot in slots]

    def _decided(
        self, op: StdTensorOp, kernel: Kernel, operands: Operands, arrays: Sequence[Any]
    ) -> list[Any]:
        results = _all_of(op, kernel(op, *arrays))
        if isinstance(op, el.Compare) and any([each.differs for each in operands.pending]):
            return [self._compared(op, arrays, *results)]
        return results

    def _compared(self, op: el.Compare, arrays: Sequence[Any], result: Any) -> Any:
        """Return the result of a comparison in which some pairs of numbers that nearly agree count as equal.

        Random changes of the operands would hardly ever make two numbers equal.
        """
        if op.direction not in ("EQ", "NE") or DType.of(arrays[0].dtype).kind in "biu":
            return result
        x, y = arrays
        share = AS_GOOD_AS_EQUAL * TRANSCENDENTAL.output(x.dtype.kind == "c")
        share *= float(ml_dtypes.finfo(x.real.dtype).eps)
        with np.errstate(all="ignore"):
            is_near = modulus(x - y) < share * modulus(
                x
            )  # the difference x - y of close numbers is exact
        is_near &= self.generator.random(x.shape, np.float32) < 0.5
        return np.where(is_near, op.direction == "EQ", result)

    def _approximated(
        self, op: StdTensorOp, kernel: Kernel, operands: Operands, rounding: Rounding
    ) -> list[Any]:
        """Return the results of an approximate function, changed by some ulps of the dtype in which it is computed."""
        arrays: list[Any] = []
        ulps = rounding.operand(op, operands.specs)
        for x, spec, value in zip(operands.arrays, operands.specs, operands.pending, strict=True):
            if spec.dtype.is_inexact:
                work = spec.dtype.accumulator
                share = 2 * unit(work) * ulps
                if value.rounding:
                    share += max(value.rounding / 4, 2 * unit(work))
                x = self._moved(x.astype(work.dtype, copy=False), share)
            arrays.append(x)
        results: list[Any] = []
        values = _all_of(op, kernel(op, *arrays))
        if rounding.argument:
            values = self._of_rounded_argument(op, kernel, arrays, values, rounding.argument)
        for y, dtype in zip(values, operands.dtypes, strict=True):
            if dtype.is_inexact:
                share = 2 * unit(dtype.accumulator) * rounding.output(operands.is_complex)
                y = self._moved(y, share)
            results.append(y.astype(dtype.dtype, copy=False))
        return results

    def _of_rounded_argument(
        self,
        op: StdTensorOp,
        kernel: Kernel,
        arrays: Sequence[Any],
        values: Sequence[Any],
        ulps: float,
    ) -> list[Any]:
        """Return the results for operands that are changed by a fraction of a unit in the last place.

        The changed operands are not representable as floats. So each result is interpolated between the result for the
        operands and the result for adjacent floats.
        """
        beside = [self._moved(x, float(ml_dtypes.finfo(x.dtype).eps)) for x in arrays]
        return [
            np.where(np.isfinite(z), y + ulps * (z - y), z).astype(y.dtype)
            for y, z in zip(values, _all_of(op, kernel(op, *beside)), strict=True)
        ]

    def _sum(
        self,
        op: StdTensorOp,
        arrays: Sequence[Any],
        before: Sequence[float],
        is_carried: bool = False,
    ) -> Any:
        """Compute a sum or difference, rounded once, with some pending roundings of its terms omitted at random.

        If a compiler may combine iterations in another order (`is_carried`), the sum is also changed by roundings of
        partial sums about as large as the terms. A sum without rounding error is the same in every order, and is not
        changed.

        Args:
            before: the pending rounding of each term.
        """
        dtype = arrays[0].dtype
        wide = np.complex128 if dtype.kind == "c" else np.float64
        x, y = (array.astype(wide, copy=False) for array in arrays)
        y = y if isinstance(op, el.Add) else -y
        away = sum(
            self._away(z, share / 4) for z, share in zip((x, y), before, strict=True) if share
        )
        total = x + y
        if dtype == wide:
            rest = total - x
            error = (x - (total - rest)) + (y - rest)  # the exact rounding error of `total`
            away += error
        else:
            error = total - total.astype(dtype)
        if is_carried:
            size = np.maximum(np.abs(x), np.abs(y)) * (REORDERED * unit(DType.of(dtype)))
            reordered = np.where(np.isfinite(size), size, 0) * self._signs(total.shape, wide)
            away = away + np.where((error != 0) & (error == error), reordered, 0)
        moved = total + away
        return np.where(np.isfinite(moved), moved, total).astype(dtype)

    def _windowed(self, operands: Operands) -> Any:
        """Compute a partial sum over a window, changed by roundings of partial sums about as large as the larger term.

        The bound is eight times the change, so it includes two roundings for each term. Sums of small whole numbers are
        exact, and are not changed.
        """
        x, y = operands.arrays
        value, other = operands.pending
        total = x + y
        rounded_to = value.narrow or DType.of(x.dtype)
        if all(are_small_whole(z, rounded_to.dtype) for z in (x, y, total)):
            return total
        roundings = max(REORDERED, (value.terms + other.terms) / 4)
        size = np.maximum(modulus(x), modulus(y)) * roundings * unit(rounded_to)
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        away = np.where(np.isfinite(size), size, 0) * self._signs(total.shape, wide)
        return np.where(np.isfinite(total), total.astype(wide) + away, total).astype(x.dtype)

    def _accumulated(
        self, op: StdTensorOp, kernel: Kernel, arrays: Sequence[Any], pending: float
    ) -> Any:
        y = np.asarray(kernel(op, *arrays))
        error = accumulated_error(op, kernel, arrays, y, pending)
        wide = np.complex128 if y.dtype.kind == "c" else np.float64
        away = np.where(np.isfinite(error), error, 0) * self._signs(y.shape, wide)
        return np.where(error > 0, y.astype(wide) + away, y.astype(wide)).astype(y.dtype)

    def _moved(self, x: Any, share: float) -> Any:
        """Change each element of x by plus or minus `share` times its size, at random."""
        if not share or DType.of(x.dtype).kind in "biu" or not x.size:
            return x
        if x.dtype.kind == "c":
            return np.asarray(x + self._away(x, share), x.dtype)
        wide = x if x.dtype.itemsize > 2 else x.astype(np.float32)
        signs = self.generator.integers(0, 2, x.shape, np.int8).astype(wide.dtype)
        signs *= 2 * share
        signs += 1 - share
        return np.asarray(wide * signs).astype(x.dtype, copy=False)

    def _away(self, x: Any, share: float) -> Any:
        """Return random changes of the elements of x, with magnitudes of up to `share` times |x|.

        Rounding errors of a part of a complex number are relative to its modulus, but a zero part remains zero.
        """
        size = np.abs(x) * share
        away = np.where(np.isfinite(size), size, 0) * self._signs(x.shape, x.dtype)
        if x.dtype.kind != "c":
            return away
        return np.where(x.real == 0, 0, away.real) + 1j * np.where(x.imag == 0, 0, away.imag)

    def _signs(self, shape: Sequence[int], dtype: Any) -> Any:
        """Draw numbers with magnitudes between 1/2 and 1 and random signs; for complex dtypes, in each part."""
        drawn = self.generator.random(shape, np.float32)
        signs = drawn - (drawn < 0.5)
        if np.dtype(dtype).kind != "c":
            return signs
        other = self.generator.random(shape, np.float32)
        return signs + 1j * (other - (other < 0.5))


class Together(Moved):
    """Modified execution that increases the results of all sums and products of many terms, but of no other op."""

    def results(self, op: StdTensorOp, kernel: Kernel, operands: Operands) -> list[Any]:
        if rounding_of(op, operands.specs).combined is None:
            return _all_of(op, kernel(op, *operands.arrays))
        return super().results(op, kernel, operands)

    def _signs(self, shape: Sequence[int], dtype: Any) -> Any:
        return np.ones(shape)


class Flushed(Plain):
    """Modified execution that replaces subnormal operands by zeros of the same sign, except for ops that copy bits."""

    def leaf(self, x: Any) -> Any:
        return _by_part(lambda a: np.where(subnormal(a), np.copysign(0 * a, a), a), x)

    def results(self, op: StdTensorOp, kernel: Kernel, operands: Operands) -> list[Any]:
        if type(op) in {el.BitcastConvert, *CARRIERS}:
            return _all_of(op, kernel(op, *operands.arrays))
        values = _all_of(op, kernel(op, *map(self.leaf, operands.arrays)))
        return list(map(self.leaf, values))


class FlippedZeros(Plain):
    """Modified execution that reverses the sign of each zero that a sum returns, because either sign is right."""

    def leaf(self, x: Any) -> Any:
        return x

    def results(self, op: StdTensorOp, kernel: Kernel, operands: Operands) -> list[Any]:
        results = super().results(op, kernel, operands)
        if type(op) not in EITHER_ZERO:
            return results
        return [_by_part(lambda a: np.where(a == 0, -a, a), y) for y in results]


def subnormal(x: Any) -> Any:
    """Return a mask of the subnormal elements; a complex number counts as subnormal if one of its parts is."""
    if DType.of(x.dtype).kind in "biu":
        return np.zeros((), bool)
    if x.dtype.kind == "c":
        return subnormal(x.real) | subnormal(x.imag)
    return (np.abs(x) < ml_dtypes.finfo(x.dtype).smallest_normal) & (x != 0)


@np.errstate(all="ignore")
def _is_exact(x: Any, y: Any) -> Any:
    """Return a mask of the products of x and y that are exact.

    A product is exact if a factor is a power of two, or if both factors are whole numbers with a small product.
    """
    if x.dtype.kind == "c":
        return np.zeros(np.broadcast_shapes(x.shape, y.shape), bool)
    x, y = (array if array.itemsize > 2 else array.astype(np.float32) for array in (x, y))
    are_powers = [np.isin(np.frexp(array)[0], (0.0, 0.5, -0.5)) for array in (x, y)]
    is_small = np.abs(x * y) < 1 / ml_dtypes.finfo(x.dtype).eps
    return are_powers[0] | are_powers[1] | (is_small & (x == np.rint(x)) & (y == np.rint(y)))


def _by_part(change: Callable[[Any], Any], x: Any) -> Any:
    """Apply `change` to an array of floats, or to the real and imaginary parts of complex numbers."""
    if DType.of(x.dtype).kind in "biu":
        return x
    if x.dtype.kind != "c":
        return change(x).astype(x.dtype, copy=False)
    y = np.empty_like(x)
    y.real, y.imag = change(x.real), change(x.imag)
    return y


def _adds_up(step: Instruction) -> bool:
    return isinstance(step.op, ControlOp) or ROUNDING[type(step.op)].combined is not None


def decides(op: StdTensorOp, operands: Operands) -> bool:
    """Return whether an op is a decision that rounding may flip: it maps floats to integers, bools or whole numbers."""
    if op.output_count > 1 or not (operands.specs and operands.specs[0].dtype.is_inexact):
        return False
    if type(op) not in DISCRETE and not _to_integers(op):
        return False
    return type(op) in WHOLE or not operands.dtypes[0].is_inexact


def _to_integers(op: StdTensorOp) -> bool:
    return isinstance(op, el.Convert) and not op.to.is_inexact


def _all_of(op: StdTensorOp, results: Any) -> list[Any]:
    """Return the results of a kernel as a list; a kernel returns a single result as an array."""
    return list(map(np.asarray, results if op.output_count > 1 else (results,)))


def _pending(
    schedule: ExecProgram, program: GraphProgram, platform: str
) -> Mapping[ExecProgram, Sequence[Pending]]:
    """Compute the pending roundings of the values of a schedule, and of the bodies of its loops and conditionals."""
    pending = {schedule: pending_roundings(program, platform=platform)}
    parts = _parts(schedule)
    while parts:
        schedule, program = parts.pop()
        pending[schedule] = pending_roundings(program, is_body=True, platform=platform)
        parts += _parts(schedule)
    return pending


def _parts(schedule: ExecProgram) -> list[tuple[ExecProgram, GraphProgram]]:
    """Return the schedules inside loops and conditionals, and their programs."""
    return [
        (part, body.program)
        for step in schedule.instructions
        if isinstance(step.source_op, ControlOp)
        for part, body in zip(step.bodies, step.source_op.parts, strict=True)
    ]


def _run(
    schedule: ExecProgram,
    leaves: Sequence[Any],
    change: Plain,
    pending: Mapping[ExecProgram, Sequence[Pending]],
) -> list[Any]:
    """Run a schedule op by op, also in the bodies of loops, with the results of each op replaced by `change`."""

    def around(
        program: ExecProgram, step: ExecInstruction, arrays: Sequence[Any], call: Callable[..., Any]
    ) -> Sequence[Any]:
        spend_time()
        op: Any = step.source_op
        types = program.types

        def kernel(op: StdTensorOp, *arrays: Any) -> Any:
            if not step.bodies:
                return step.kernel(op, *arrays)
            results = call(arrays)
            return results if op.output_count > 1 else results[0]

        operands = Operands(
            list(arrays),
            tuple([
                TensorSpec.of(x.shape, types[slot].dtype)
                for x, slot in zip(arrays, step.input_slots, strict=True)
            ]),
            [pending[program][slot] for slot in step.input_slots],
            [types[slot].dtype for slot in step.output_slots],
            step,
        )  # fmt: skip
        return list(map(np.asarray, change.results(op, kernel, operands)))

    return interpret(schedule, [np.asarray(change.leaf(leaf)) for leaf in leaves], around)

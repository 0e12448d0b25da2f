"""Reader of counted loops: a `while` whose trip count can be computed is read as a scan.

The trip count can be computed if the loop's condition compares a constant with an element of the carry to which each
iteration adds a constant. If iteration t reads only slice t of a tensor, the tensor becomes a scanned input. If
iteration t writes only slice t, the tensor becomes a stacked output. So a lowered scan is read as a scan again, and has
reverse-mode derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lowering.read.reader import Reader
from tenferro.ops import elementwise as el
from tenferro.ops.control import Scan, While
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice
from tenferro.ops.source import Constant
from tenferro.ops.structural import Reshape
from tenferro.program import GraphProgram, Instruction, ProgramBuilder, makers, readers
from tenferro.types import DType, TensorSpec

__all__ = ["counted_loop"]


class Line(NamedTuple):
    """Value of an integer that is an affine function of the iteration number t: slope * t + first."""

    slope: int
    first: int


@dataclass(frozen=True)
class InductionVariable:
    """Induction variable of a loop, with the loop's trip count.

    Attributes:
        counter: slot of the induction variable.
        line: the value of the induction variable as a function of the iteration number.
        count: the number of iterations.
    """

    counter: int
    line: Line
    count: int


def counted_loop(r: Reader, loop: While, operands: Sequence[int]) -> Sequence[int] | None:
    """Append a scan that computes the same as `loop`, and return the final carry.

    Return None if the trip count cannot be computed.
    """
    constants = [r.constant_array(value) for value in operands]
    body = _body_of(loop)
    n = loop.num_consts
    unchanged = {*range(n), *[n + j for j, slot in enumerate(body.output_slots) if slot == n + j]}
    numbers = {
        i: int(x)
        for i, x in enumerate(constants)
        if i in unchanged and x is not None and x.ndim == 0 and x.dtype.kind in "biu"
    }
    variable = _induction_variable(loop, constants, numbers)
    if variable is None:
        return None
    op, inputs, changed = _as_scan(loop, variable, unchanged, numbers)
    results = r.apply(op, *[operands[i] for i in inputs])
    outputs = dict(zip(changed, results, strict=True))
    return [outputs.get(slot, operands[slot]) for slot in range(n, n + len(body.output_slots))]


def _body_of(loop: While) -> GraphProgram:
    """Return the program of the loop's body, with marks for differentiation if the loop keeps them.

    Marks may hide instructions on floats, but never on integers. So induction variables are found in both cases.
    """
    return loop.body if loop.body.is_kept else loop.body.program


# ---- trip count ---------------------------------------------------------------------------------------


def _induction_variable(
    loop: While, constants: Sequence[Any], numbers: Mapping[int, int]
) -> InductionVariable | None:
    """Find the induction variable and the trip count, from a condition that compares the variable with a constant.

    Return None if the condition does anything else.

    Args:
        constants: the loop's operands, or None for operands that are not constants.
        numbers: operands that are constant integers and that the loop does not change, by slot.
    """
    test = loop.cond.program
    (asked,) = test.output_slots
    producers = makers(test.instructions)
    compared = producers.get(asked)
    if compared is None or not isinstance(compared.op, el.Compare):
        return None
    fixed = {**numbers, **_constants(test)}
    for (x, y), flipped in ((compared.inputs, False), (compared.inputs[::-1], True)):
        start = constants[x] if x < len(constants) else None
        if (
            y not in fixed
            or start is None
            or x in numbers
            or start.ndim
            or not DType.of(start.dtype).is_integer
        ):
            continue
        step = _step(loop, x)
        if step is None:
            continue
        first, bound = int(start), fixed[y]
        direction = _FLIPPED[compared.op.direction] if flipped else compared.op.direction
        count = _count(direction, first, step, bound)
        low, high = DType.of(start.dtype).extremes
        if count is not None and low <= first + step * count <= high:
            return InductionVariable(x, Line(step, first), count)
    return None


_FLIPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}


def _count(direction: str, first: int, step: int, bound: int) -> int | None:
    """Return how many leading terms of first, first + step, .. satisfy the comparison `direction` with `bound`.

    Return None if all terms satisfy it, so that the loop never ends.
    """
    if direction in ("LE", "GE"):
        direction, bound = direction[0] + "T", bound + (1 if direction == "LE" else -1)
    if (direction, step > 0) in (("LT", True), ("GT", False)):
        return max(0, -((first - bound) // step))
    if direction == "NE" and (bound - first) % step == 0 and (bound - first) // step >= 0:
        return (bound - first) // step
    return None


def _step(loop: While, counter: int) -> int | None:
    """Return the nonzero constant that the body adds to the carry in slot `counter`; None if it does anything else."""
    body = _body_of(loop)
    if counter < loop.num_consts:
        return None
    maker = makers(body.instructions).get(body.output_slots[counter - loop.num_consts])
    if maker is None or not isinstance(maker.op, el.Add | el.Subtract):
        return None
    fixed = _constants(body)
    x, y = maker.inputs
    if x == counter and y in fixed:
        return (fixed[y] if isinstance(maker.op, el.Add) else -fixed[y]) or None
    if y == counter and x in fixed and isinstance(maker.op, el.Add):
        return fixed[x] or None
    return None


def _constants(program: GraphProgram) -> dict[int, int]:
    """Return a dictionary from slots to the values of constants of rank 0 that are integers or bools."""
    return {
        step.outputs[0]: int(step.op.array)
        for step in program.instructions
        if isinstance(step.op, Constant)
        and step.op.array.ndim == 0
        and step.op.array.dtype.kind in "biu"
    }


# ---- where the iterations read and write ------------------------------------------------------------------


def _lines(
    program: GraphProgram, variable: InductionVariable, numbers: Mapping[int, int]
) -> dict[int, Line]:
    """Return the scalars of the loop's body that are affine functions of the iteration number, by slot."""
    affine = {slot: Line(0, number) for slot, number in numbers.items()}
    affine[variable.counter] = variable.line
    for step in program.instructions:
        spec = program.types[step.outputs[0]]
        if spec.rank or spec.dtype.kind not in "biu":
            continue
        if isinstance(step.op, Constant):
            affine[step.outputs[0]] = Line(0, int(step.op.array))
        elif isinstance(step.op, el.Convert) and spec.dtype.is_bool:
            if (x := affine.get(step.inputs[0])) is not None and not x.slope:
                affine[step.outputs[0]] = Line(0, int(x.first != 0))
        elif type(step.op) in _RULES and all([slot in affine for slot in step.inputs]):
            line = _RULES[type(step.op)](step.op, variable, *[affine[slot] for slot in step.inputs])
            if line is not None and _fits(line, variable, spec.dtype):
                affine[step.outputs[0]] = line
        elif isinstance(step.op, el.Select) and step.inputs[0] in affine:
            # If the predicate is constant, only the selected operand has to be affine.
            chosen = step.inputs[1 if affine[step.inputs[0]].first else 2]
            if affine[step.inputs[0]].slope == 0 and chosen in affine:
                affine[step.outputs[0]] = affine[chosen]
    return affine


def _ends(line: Line, variable: InductionVariable) -> tuple[int, int]:
    """Return the least and the greatest value of an affine function over all iterations of the loop."""
    last = line.slope * max(variable.count - 1, 0) + line.first
    return min(line.first, last), max(line.first, last)


def _fits(line: Line, variable: InductionVariable, dtype: DType) -> bool:
    if dtype.is_bool:
        return line.slope == 0
    low, high = _ends(line, variable)
    least, largest = dtype.extremes
    return least <= low and high <= largest


def _compared(op: el.Compare, variable: InductionVariable, x: Line, y: Line) -> Line | None:
    """Return the result of a comparison, 0 or 1, if it is the same in all iterations; else None."""
    low, high = _ends(Line(x.slope - y.slope, x.first - y.first), variable)
    always = {"LT": high < 0, "LE": high <= 0, "GT": low > 0, "GE": low >= 0,
              "EQ": low == high == 0, "NE": high < 0 or low > 0}[op.direction]  # fmt: skip
    never = {"LT": low >= 0, "LE": low > 0, "GT": high <= 0, "GE": high < 0,
             "EQ": high < 0 or low > 0, "NE": low == high == 0}[op.direction]  # fmt: skip
    return Line(0, int(always)) if always or never else None


def _least(op: Any, variable: InductionVariable, x: Line, y: Line) -> Line | None:
    low, high = _ends(Line(x.slope - y.slope, x.first - y.first), variable)
    return x if high <= 0 else y if low >= 0 else None


def _greatest(op: Any, variable: InductionVariable, x: Line, y: Line) -> Line | None:
    low, high = _ends(Line(x.slope - y.slope, x.first - y.first), variable)
    return x if low >= 0 else y if high <= 0 else None


def _clamped(op: Any, variable: InductionVariable, low: Line, x: Line, high: Line) -> Line | None:
    above = _greatest(op, variable, low, x)
    return None if above is None else _least(op, variable, above, high)


def _multiplied(op: Any, variable: InductionVariable, x: Line, y: Line) -> Line | None:
    if x.slope and y.slope:
        return None
    return Line(x.slope * y.first + y.slope * x.first, x.first * y.first)


_RULES: dict[Any, Callable[..., Line | None]] = {
    el.Add: lambda op, variable, x, y: Line(x.slope + y.slope, x.first + y.first),
    el.Subtract: lambda op, variable, x, y: Line(x.slope - y.slope, x.first - y.first),
    el.Negate: lambda op, variable, x: Line(-x.slope, -x.first),
    el.Multiply: _multiplied,
    el.Convert: lambda op, variable, x: x,
    el.Compare: _compared,
    el.Minimum: _least,
    el.Maximum: _greatest,
    el.Clamp: _clamped,
}


@dataclass(frozen=True)
class _Windows:
    """Search for tensors from which each iteration of a loop reads, or to which it writes, exactly one slice.

    Attributes:
        program: the loop's body.
        lines: the scalars that are affine functions of the iteration, by slot.
        readers: the instructions that use each slot.
        handed: the slots of the body's outputs that become changed elements of the carry.
    """

    program: GraphProgram
    variable: InductionVariable
    lines: Mapping[int, Line]
    readers: Mapping[int, list[Instruction]]
    handed: Sequence[int]

    def direction(self, starts: Sequence[int], extent: Any) -> int | None:
        """Return 1 if iteration t accesses slice t, -1 if it accesses the t-th slice from the end, else None.

        Args:
            starts: slots of the first indices of the slice that an iteration accesses.
            extent: the extent of the tensor's leading axis.
        """
        at = [self.lines.get(slot) for slot in starts]
        if extent != self.variable.count or at[0] is None or any(line != (0, 0) for line in at[1:]):
            return None
        last = self.variable.count - 1
        ends = at[0].first, at[0].slope * max(last, 0) + at[0].first
        return 1 if ends == (0, max(last, 0)) else -1 if ends == (last, 0) else None

    def read(self, slot: int) -> int | None:
        """Return the direction in which iterations read the slices of the input `slot`: 1 or -1; see `direction`.

        Return None if the iterations read anything else of the input.
        """
        if slot in self.handed:
            return None
        spec = self.program.types[slot]
        directions = {
            self.direction(step.inputs[1:], spec.shape[0])
            if isinstance(step.op, DynamicSlice)
            and slot not in step.inputs[1:]
            and spec.rank
            and tuple(step.op.sizes) == (1, *spec.shape[1:])
            else None
            for step in self.readers.get(slot, ())
        }
        return directions.pop() if len(directions) == 1 else None

    def written(self, slot: int, output: int, maker: Instruction | None) -> int | None:
        """Return the direction in which iterations overwrite the slices of the carry `slot`: 1 or -1; see `direction`.

        Return None if the iterations do anything else with the carry.

        The instruction `maker`, which overwrites a slice, must be the only one that uses the carry.
        """
        spec = self.program.types[slot]
        if maker is None or not isinstance(maker.op, DynamicUpdateSlice) or not spec.rank:
            return None
        x, update, *starts = maker.inputs
        alone = (
            x == slot
            and self.readers.get(slot) == [maker]
            and not self.readers.get(output)
            and slot not in self.handed
            and self.handed.count(output) == 1
            and slot not in (update, *starts)
        )
        if not alone or self.program.types[update].shape != (1, *spec.shape[1:]):
            return None
        return self.direction(starts, spec.shape[0])


def _as_scan(
    loop: While, variable: InductionVariable, unchanged: set[int], numbers: Mapping[int, int]
) -> tuple[Scan, list[int], list[int]]:
    """Convert a loop to a scan; return the scan, the slots of its operands, and the slots of its final carry."""
    body, n = _body_of(loop), loop.num_consts
    handed = [slot for j, slot in enumerate(body.output_slots) if n + j not in unchanged]
    windows = _Windows(
        body, variable, _lines(body, variable, numbers), readers(body.instructions), handed
    )
    maker_of = makers(body.instructions)
    reads = {slot: windows.read(slot) for slot in sorted(unchanged)}
    writes = {
        n + j: windows.written(n + j, slot, maker_of.get(slot))
        for j, slot in enumerate(body.output_slots)
        if n + j not in unchanged
    }
    ways = [way for way in (*reads.values(), *writes.values()) if way is not None]
    way = 1 if not ways or 1 in ways else -1
    xs = [slot for slot, direction in reads.items() if direction == way]
    stacked = [slot for slot, direction in writes.items() if direction == way]
    consts = [slot for slot in sorted(unchanged) if slot not in xs]
    carry = [slot for slot in writes if slot not in stacked]
    part = _body(body, n, consts, carry, xs, stacked)
    op = Scan(part, variable.count, len(consts), len(carry), way < 0)
    return op, [*consts, *carry, *xs], [*carry, *stacked]


def _body(
    body: GraphProgram,
    n: int,
    consts: Sequence[int],
    carry: Sequence[int],
    xs: Sequence[int],
    stacked: Sequence[int],
) -> Any:
    """Write the body of the scan from the body of the loop.

    The scan's body has slices of scanned tensors as inputs, and slices of stacked tensors as outputs.

    Args:
        body: the loop's body.
        n: the number of the loop's constants.
        consts, carry, xs, stacked: slots of the scan's constants, carry, scanned tensors and stacked tensors.
    """
    builder = ProgramBuilder(trusted=body.trusted)
    values = {slot: builder.input(body.types[slot]) for slot in (*consts, *carry)}
    slices = {
        slot: builder.input(TensorSpec.of(body.types[slot].shape[1:], body.types[slot].dtype))
        for slot in xs
    }
    inputs = [*values.values(), *slices.values()]
    placed = {body.output_slots[slot - n] for slot in stacked}
    cuts = {
        step.outputs[0]: step
        for step in body.instructions
        if isinstance(step.op, DynamicSlice)
        and step.inputs[0] in slices
        and placed.isdisjoint(step.outputs)
    }
    for slot, (_, (x, *_), _, _, source) in cuts.items():
        (values[slot],) = builder.apply(Reshape(body.types[slot].shape), slices[x], source=source)
    replaced = {*placed, *cuts}
    rest = [step for step in body.instructions if replaced.isdisjoint(step.outputs)]
    builder.copy(rest, values)
    maker_of = makers(body.instructions)
    rows: list[int] = []
    for slot in stacked:
        _, (_, update, *_), (whole,), _, source = maker_of[body.output_slots[slot - n]]
        shape = body.types[whole].shape[1:]
        rows += builder.apply(Reshape(shape), values[update], source=source)
    after = [values[body.output_slots[slot - n]] for slot in carry]
    return builder.part(inputs, [*after, *rows])

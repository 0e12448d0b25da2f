"""Roll repeated sequences of ops into scans.

Law: the bits of results do not change.

A Python loop that runs while a function is traced writes the same sequence of ops in each iteration. The pass replaces
the repetitions by a scan, which computes the same values by the same ops in the same order. Values of the preceding
iteration become carries. Operands that differ between iterations become input slices (xs). Values that are read after
the loop become stacked outputs (ys).

Source: maximal repetitions by k-gram fingerprints, as in Karp, Miller, Rosenberg, "Rapid identification of repeated
patterns in strings, trees and arrays" (STOC 1972).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from tenferro.dims import is_static
from tenferro.facts import Fact, facts_of
from tenferro.graph import Graph, Instruction
from tenferro.ops.control import Scan
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim, Concatenate, Reshape, Reverse, Slice, Transpose
from tenferro.passes.join_padded_sums import join_padded_sums
from tenferro.program import GraphProgram, Subprogram, makers
from tenferro.program.rewrite import fresh_arena, written_again

__all__ = ["roll"]

MIN_REPETITIONS = 4
"""Minimum number of iterations of a scan that the pass writes."""
MIN_SAVED = 32
"""Minimum number of instructions that a scan must save. It saves the instructions of all iterations except one."""
MAX_LAG = 8
"""Maximum number of iterations between the iteration that computes a carried value and the iteration that uses it."""
MAX_EMBEDDED = 16
"""Maximum number of elements of a constant that is copied into the body."""
PERIODS_PER_LENGTH = 8
"""Number of candidate periods to try for each length of repeated sequences; see `_periods`."""
MAX_BOUNDS = 8
"""Maximum number of times that a sequence of steps is shortened until all operands from outside precede it."""
MAX_EXAMINED = 64
"""Maximum number of times that a step is examined, as an average over all steps. It bounds the time of the pass."""


def roll(program: GraphProgram) -> GraphProgram:
    """Return the program with scans in place of repeated ops. Return the program itself if that saves nothing."""
    code = _Code(join_padded_sums(program))
    stretches = sorted(_stretches(code), key=lambda stretch: stretch.start)
    if not stretches:
        return program
    rolled = _Writer(code, stretches).written()
    if len(rolled.instructions) >= len(program.instructions):
        return (
            program  # because stacking and unstacking needs more instructions than the scans save
        )
    return replace(rolled, marked=program.marked)


class _Code:
    """Instructions of a program, split into steps and instructions that are written before all loops.

    Attributes:
        steps: the instructions in order, except the instructions in `first`.
        first: instructions that only move elements of inputs and constants. They are written before all steps.
        tokens: an array with a number for each step. Equal ops on operands of equal types have equal numbers.
        place: for each slot, the number of the step that computes it; -1 for inputs, constants and their views.
        maker: a map from each slot to the instruction that computes it.
    """

    def __init__(self, program: GraphProgram) -> None:
        self.program = program
        self.maker = makers(program.instructions)
        self.place = [-1] * program.n_slots
        self.steps: list[Instruction] = []
        self.first: list[Instruction] = []
        numbers: dict[Any, int] = {}
        tokens: list[int] = []
        types = program.types
        for step in program.instructions:
            if _is_view(step) and not step.op.has_effects and self._is_before(step):
                self.first.append(step)
                continue
            key = (step.op.token, *[types[slot] for slot in step.inputs])
            if step.op.has_effects:
                key = (object(),)
            tokens.append(numbers.setdefault(key, len(numbers)))
            for slot in step.outputs:
                self.place[slot] = len(self.steps)
            self.steps.append(step)
        self.tokens = np.array(tokens, np.int64)

    def _is_before(self, step: Instruction) -> bool:
        return all([self.place[slot] < 0 for slot in step.inputs])


def _is_view(step: Instruction) -> bool:
    """Return whether an instruction has no operands, or only moves the elements of its single operand.

    Such an instruction is written before all loops if it reads only inputs and constants.
    """
    moves = facts_of(step.op) & (Fact.MOVES | Fact.CARRIES)
    return not step.inputs or (len(step.inputs) == 1 and bool(moves))


# ---- finding -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Stretch:
    """Sequence of `count` repetitions of `period` steps, which begins at step `start`.

    Attributes:
        lags: the number of steps between the computation of an operand and its use. A key consists of a step within the
            period and the position of an operand. Only operands that an iteration computes have a lag; others are
            computed before the stretch.
        is_carried: whether an iteration reads a value that an earlier iteration computes.
    """

    start: int
    period: int
    count: int
    lags: dict[tuple[int, int], int]
    is_carried: bool

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count

    @property
    def saved(self) -> int:
        return self.period * (self.count - 1)


def _stretches(code: _Code) -> list[_Stretch]:
    """Return stretches that do not overlap. A stretch that saves more instructions is chosen first."""
    queue = [(-(stop - start - period), period, start, stop) for period, start, stop in _runs(code)]
    heapq.heapify(queue)
    taken: list[_Stretch] = []
    read_by: dict[int, list[int]] = {}
    for position, step in enumerate(code.steps):
        for slot in step.inputs:
            read_by.setdefault(slot, []).append(position)
    is_taken = np.zeros(len(code.steps), bool)
    examined = 0
    while queue and examined <= MAX_EXAMINED * len(code.steps):
        _, period, start, stop = heapq.heappop(queue)
        free = list(_free(is_taken, start, stop))
        if free != [(start, stop)]:
            examined += period
            for a, b in free:
                if b - a - period >= MIN_SAVED:
                    heapq.heappush(queue, (-(b - a - period), period, a, b))
            continue
        examined += stop - start
        stretch = _longest(code, period, start, stop)
        if stretch is None or not (
            stretch.is_carried or _is_worth_it(code, stretch, is_taken, read_by)
        ):
            continue
        is_shorter = (stretch.start, stretch.stop) != (start, stop)
        if is_shorter and queue and stretch.saved < -queue[0][0] - period:
            # Another stretch may save more than the shortened stretch, so the shortened stretch goes back into the
            # queue.
            heapq.heappush(queue, (-stretch.saved, period, stretch.start, stretch.stop))
            continue
        taken.append(stretch)
        is_taken[stretch.start : stretch.stop] = True
        for a, b in ((start, stretch.start), (stretch.stop, stop)):
            if b - a - period >= MIN_SAVED:
                heapq.heappush(queue, (-(b - a - period), period, a, b))
    return taken


def _is_worth_it(
    code: _Code, stretch: _Stretch, is_taken: Any, read_by: dict[int, list[int]]
) -> bool:
    """Return whether a scan of independent iterations saves instructions.

    Each input slice takes an instruction that stacks it, and each output slice one that unstacks it. Values that
    another scan stacks, or that a concatenation reads, take none.
    """
    outside: set[int] = set()
    outputs = set(code.program.output_slots)
    for position in range(stretch.start, stretch.stop):
        step = code.steps[position]
        outside.update(
            [
                slot
                for slot in step.inputs
                if 0 <= code.place[slot] < stretch.start and not is_taken[code.place[slot]]
            ]
        )
        for slot in step.outputs:
            readers = [
                i
                for i in read_by.get(slot, ())
                if not stretch.start <= i < stretch.stop
                and not isinstance(code.steps[i].op, Concatenate)
            ]
            if slot in outputs or not all([is_taken[i] for i in readers]):
                outside.add(slot)
    return stretch.saved - 2 * len(outside) >= MIN_SAVED


def _free(is_taken: Any, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the intervals between steps `start` and `stop` that are in no chosen stretch."""
    position = start
    for taken, group in groupby(is_taken[start:stop].tolist()):
        length = len(list(group))
        if not taken:
            yield position, position + length
        position += length


def _runs(code: _Code) -> Iterator[tuple[int, int, int]]:
    """Yield (period, start, stop) for each longest run of steps in which the ops repeat with that period."""
    tokens = code.tokens
    for period in _periods(tokens):
        same = tokens[period:] == tokens[:-period]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]])))
        for start, stop in edges.reshape(-1, 2).tolist():
            saved = stop - start
            if saved >= MIN_SAVED and saved >= (MIN_REPETITIONS - 1) * period:
                yield period, start, stop + period


def _periods(tokens: Any) -> list[int]:
    """Return candidate periods: the most frequent distances between equal sequences of 1, 2, 4, .. steps."""
    periods: dict[int, None] = {}
    ids, width = tokens, 1
    while len(ids) > width:
        order = np.argsort(ids, kind="stable")
        is_equal = ids[order][1:] == ids[order][:-1]
        votes = Counter(np.diff(order)[is_equal].tolist())
        if not votes:
            break
        periods.update(dict.fromkeys(p for p, _ in votes.most_common(PERIODS_PER_LENGTH)))
        pairs = np.stack([ids[:-width], ids[width:]], axis=1)
        ids = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
        width *= 2
    return list(periods)


def _longest(code: _Code, period: int, start: int, stop: int) -> _Stretch | None:
    """Return the longest stretch among the steps from `start` to `stop`; None if no stretch saves enough."""
    steps, place = code.steps, code.place
    operands: list[tuple[int, int]] = [(-1, -1)] * (stop - start)
    parts: list[tuple[int, int]] = []
    begin = start
    for i in range(start + period, stop):
        at, before = operands[i - start] = _external(steps[i], steps[i - period], period, place)
        if at > i - period:
            # The step computes one operand within its iteration. The corresponding operand one period earlier was
            # computed before its iteration. Such an operand can at best be carried from the first iteration to the
            # second.
            parts.append((begin, i))
            begin = max(start, before + 1, i - 2 * period + 1)
    parts.append((begin, stop))
    best: _Stretch | None = None
    for a, b in sorted(parts, key=lambda part: part[0] - part[1]):
        if b - a - period < max(MIN_SAVED, 0 if best is None else best.saved + 1):
            break
        # The second iteration may read a value of the first iteration where the first reads a value from before the
        # loop. Such an operand is carried.
        for carried in (period, 0):
            bounds = _bounded(operands, start, a, b, period, carried)
            stretch = None if bounds is None else _stretch(code, period, *bounds)
            if stretch is not None and (best is None or stretch.saved > best.saved):
                best = stretch
                break
    return best


def _bounded(
    operands: Sequence[tuple[int, int]], start: int, a: int, b: int, period: int, carried: int
) -> tuple[int, int] | None:
    """Shorten the range of steps from a to b until its external operands are computed before it; None if that fails.

    Args:
        operands: a pair of steps for each step from `start` on. A stretch that contains the step must begin after the
            first of the pair. If it also contains the step one period earlier, it must also begin after the second.
        carried: the number of steps of the second iteration that may read values of the first iteration.
    """
    for _ in range(MAX_BOUNDS):
        late = [
            i
            for i, (at, before) in enumerate(operands[a + period - start : b - start], a + period)
            if before >= a or (at >= a and i >= a + period + carried)
        ]
        if not late:
            return a, b
        beyond = max(max(operands[i - start]) for i in late) + 1
        a, b = (beyond, b) if b - beyond > late[0] - a else (a, late[0])
    return None


def _external(
    step: Instruction, earlier: Instruction, period: int, place: Sequence[int]
) -> tuple[int, int]:
    """Return the numbers of the last steps that compute external operands of `step` and of `earlier`; -1 for none.

    The step `earlier` precedes `step` by one period. An operand is external if it is not computed exactly one period
    after the corresponding operand of `earlier`.
    """
    last = last_before = -1
    for slot, other in zip(step.inputs, earlier.inputs, strict=True):
        at, before = place[slot], place[other]
        if slot == other or before < 0 or at - before != period:
            last, last_before = max(last, at), max(last_before, before)
    return last, last_before


def _stretch(code: _Code, period: int, start: int, stop: int) -> _Stretch | None:
    """Return a stretch among the steps from `start` to `stop`; None if it saves too little.

    The step at which iterations begin is chosen so that as few values as possible are carried.
    """
    count = (stop - start) // period
    if count < MIN_REPETITIONS or period * (count - 1) < MIN_SAVED:
        return None
    place, steps = code.place, code.steps
    reach = [0] * period
    for k in range(period):
        position = start + (count - 1) * period + k
        for slot in steps[position].inputs:
            if place[slot] >= start:
                maker = (place[slot] - start) % period
                reach[maker] = max(reach[maker], position - place[slot])
    crossing = [0] * (2 * period + 1)
    for k, distance in enumerate(reach):
        full, rest = divmod(distance, period)
        for shift in range(period):
            crossing[shift] += full
        for shift in range(k + 1, k + rest + 1):
            crossing[shift % period] += 1
    slack = stop - start - period * count
    shifts = sorted(range(period), key=lambda shift: (crossing[shift], shift > slack, shift))
    for shift in dict.fromkeys([shifts[0], 0]):
        repetitions = (stop - start - shift) // period
        stretch = _checked(code, period, start + shift, repetitions)
        if stretch is not None:
            return stretch
    return None


def _checked(code: _Code, period: int, start: int, count: int) -> _Stretch | None:
    """Return the stretch if each operand is inside, carried or external in all iterations alike; else None."""
    if count < MIN_REPETITIONS or period * (count - 1) < MIN_SAVED:
        return None
    steps, place, types = code.steps, code.place, code.program.types
    lags: dict[tuple[int, int], int] = {}
    is_carried = False
    for k in range(period):
        last = start + (count - 1) * period + k
        for j, slot in enumerate(steps[last].inputs):
            slots = [steps[start + t * period + k].inputs[j] for t in range(count)]
            places = [place[each] for each in slots]
            if max(places) < start:
                continue
            lag = last - place[slot]
            behind = -((k - lag) // period)
            number = steps[place[slot]].outputs.index(slot)
            if behind > MAX_LAG or behind >= count:
                return None
            for t, (each, at) in enumerate(zip(slots, places, strict=True)):
                position = start + t * period + k
                if t < behind:
                    if at >= start or types[each] != types[slot]:
                        return None
                elif at != position - lag or steps[at].outputs[number] != each:
                    return None
            is_carried = is_carried or behind > 0
            lags[k, j] = lag
    return _Stretch(start, period, count, lags, is_carried)


# ---- writing -------------------------------------------------------------------------------------------


class _Writer:
    """Writer of the new program, in which scans replace the stretches."""

    def __init__(self, code: _Code, stretches: Sequence[_Stretch]) -> None:
        self.code, self.stretches = code, stretches
        self.graph, self.values = fresh_arena(code.program)
        # A map from each value that a scan has stacked to its stack and its index in the stack.
        self.stacked: dict[int, tuple[int, int]] = {}
        self.needed = self._read_elsewhere()

    def _read_elsewhere(self) -> set[int]:
        """Return the slots that are outputs of the program, or are read outside the stretch that computes them."""
        program, place = self.code.program, self.code.place
        owner = np.full(len(self.code.steps), -1)
        for number, stretch in enumerate(self.stretches):
            owner[stretch.start : stretch.stop] = number
        owners = owner.tolist()
        result = set(program.output_slots)
        for position, step in enumerate(self.code.steps):
            mine = owners[position]
            result.update(
                [
                    slot
                    for slot in step.inputs
                    if place[slot] >= 0 and (mine < 0 or owners[place[slot]] != mine)
                ]
            )
        return result

    def written(self) -> GraphProgram:
        """Write the new program and return it.

        It consists of the instructions before, between and after the stretches, and of one scan for each stretch.
        """
        steps, position = self.code.steps, 0
        for step in self.code.first:
            self._copy(step)
        for stretch in self.stretches:
            for step in steps[position : stretch.start]:
                self._copy(step)
            self._write(stretch)
            position = stretch.stop
        for step in steps[position:]:
            self._copy(step)
        program = self.code.program
        for slot in program.output_slots:
            self.value(slot)
        return written_again(program, self.graph, self.values)

    def _copy(self, step: Instruction) -> None:
        op = step.op
        if isinstance(op, Concatenate):
            inputs = tuple(self._pieces(step.inputs, op.axis))
            op = Concatenate(op.axis, len(inputs))
        else:
            inputs = tuple([self.value(slot) for slot in step.inputs])
        for slot, value in zip(step.outputs, self.graph.add(op, inputs, step.source), strict=True):
            self.values[slot] = value

    def _pieces(self, operands: Sequence[int], axis: int) -> list[int]:
        """Return the values to concatenate in place of `operands`: consecutive elements of a stack become one value."""
        types = self.code.program.types
        pieces: list[int] = []

        def kind(slot: int) -> Any:
            return types[slot].shape if self.values[slot] < 0 else None

        for shape, group in groupby(operands, kind):
            slots = list(group)
            if shape is None or len(slots) == 1:
                pieces += [self.value(slot) for slot in slots]
                continue
            stack = self._joined([self.stacked[slot] for slot in slots])
            if axis or shape[axis] != 1:
                # Move the axis of the stack behind the axis of the concatenation, because Reshape merges axes in
                # column-major order.
                perm = (*range(1, axis + 2), 0, *range(axis + 2, len(shape) + 1))
                stack = self._add(Transpose(perm), stack)
            extent = len(slots) * shape[axis]
            pieces.append(self._add(Reshape((*shape[:axis], extent, *shape[axis + 1 :])), stack))
        return pieces

    def value(self, slot: int) -> int:
        """Return the new value of a slot. If it exists only as an element of a stack, emit the slice of the stack."""
        if self.values[slot] < 0:
            stack, index = self.stacked[slot]
            shape = self.code.program.types[slot].shape
            self.values[slot] = self._add(Reshape(shape), self._sliced(stack, index, index + 1))
        return self.values[slot]

    def _add(self, op: Any, *values: int) -> int:
        source = self.code.steps[0].source
        return self.graph.add(op, values, source)[0]

    def _sliced(self, stack: int, start: int, stop: int, step: int = 1) -> int:
        shape = self.graph.types[stack].shape
        if (start, stop, step) == (0, shape[0], 1):
            return stack
        rest = shape[1:]
        op = Slice((start, *[0] * len(rest)), (stop, *rest), (step, *[1] * len(rest)))
        return self._add(op, stack)

    def _write(self, stretch: _Stretch) -> None:
        """Emit the scan that replaces a stretch, and record its results."""
        body = _Body(self, stretch)
        results = self.graph.add(*body.scan(), self.code.steps[stretch.start].source)
        for slot, number in body.final.items():
            self.values[slot] = results[number]
        for slots, stack in zip(body.stacks, results[len(body.carries) :], strict=True):
            for index, slot in enumerate(slots):
                self.stacked.setdefault(slot, (stack, index))

    def stack(self, slots: Sequence[int]) -> int:
        """Emit the values of `slots`, stacked along a new leading axis."""
        makers = [self.code.maker.get(slot) for slot in slots]
        constants = [maker.op.array for maker in makers if maker and isinstance(maker.op, Constant)]
        if len(constants) == len(slots):
            return self._add(Constant.of(np.stack(constants)))
        return self._joined([self._element(slot) for slot in slots])

    def stack_of_rows(self, rows: Sequence[_Row]) -> int:
        """Emit the slices `rows`, stacked along a new leading axis."""
        return self._joined([(self._by_rows(row), row.index) for row in rows])

    def _by_rows(self, row: _Row) -> int:
        """Emit an array whose element i along the leading axis is row i of the operand of `row`."""
        value, axis, end = self.value(row.operand), row.axis, row.end
        shape = self.graph.types[value].shape
        if row.extent > 1:
            blocks = (shape[axis] - row.offset) // row.extent
            edges = row.offset, row.offset + blocks * row.extent
            if edges != (0, shape[axis]):
                starts, limits = [0] * len(shape), list(shape)
                starts[axis], limits[axis] = edges
                cut = Slice(tuple(starts), tuple(limits), (1,) * len(shape))
                value = self._add(cut, value)
            # In the split shape, the axis inside a block comes first, because Reshape is column-major.
            split = (*shape[:axis], row.extent, blocks, *shape[axis + 1 :])
            value, shape, axis, end = self._add(Reshape(split), value), split, axis + 1, axis + 2
        if end > axis + 1:
            merged = (*shape[:axis], prod(shape[axis:end]), *shape[end:])
            value = self._add(Reshape(merged), value)
        if axis:
            rest = [i for i in range(len(self.graph.types[value].shape)) if i != axis]
            value = self._add(Transpose((axis, *rest)), value)
        return value

    def _element(self, slot: int) -> tuple[int, int]:
        """Return the stack that contains the value of a slot, and the value's index; or the value itself and -1."""
        return self.stacked.get(slot) or (self.value(slot), -1)

    def _joined(self, elements: Sequence[tuple[int, int]]) -> int:
        pieces: list[int] = []
        position = 0
        while position < len(elements):
            stack, index = elements[position]
            count = 1
            if index < 0:
                shape = self.graph.types[stack].shape
                pieces.append(self._add(Reshape((1, *shape)), stack))
            else:
                step = 0
                while position + count < len(elements):
                    other, following = elements[position + count]
                    distance = following - elements[position + count - 1][1]
                    if (
                        other != stack
                        or following < 0
                        or distance == 0
                        or distance != (step or distance)
                    ):
                        break
                    step, count = distance, count + 1
                low = min(index, index + (count - 1) * step)
                high = max(index, index + (count - 1) * step)
                piece = self._sliced(stack, low, high + 1, abs(step) or 1)
                pieces.append(self._add(Reverse((0,)), piece) if step < 0 else piece)
            position += count
        return pieces[0] if len(pieces) == 1 else self._add(Concatenate(0, len(pieces)), *pieces)


class _Body:
    """One iteration of a stretch, written as the body of a scan.

    Attributes:
        carries: the initial values of the carries, as values outside the loop.
        final: a map from slots to the carry that contains the slot's value after the last iteration.
        stacks: for each stacked output, the slots that its elements replace, one per iteration.
    """

    def __init__(self, writer: _Writer, stretch: _Stretch) -> None:
        self.writer, self.stretch, self.code = writer, stretch, writer.code
        self.graph = Graph(self.code.program.trusted)
        self.consts: dict[int, int] = {}  # maps values outside the loop to values of the body
        self.xs: list[tuple[int, int]] = []
        self.carries: list[int] = []
        self.registers: list[int] = []  # values of the body, one for each carry
        self.final: dict[int, int] = {}
        self.stacks: list[list[int]] = []
        self._index: dict[int, int] = {}  # maps values of the body to their carries
        self._inside: dict[tuple[int, ...], int] = {}
        self._carried: dict[tuple[Any, ...], list[int]] = {}

    def _slots(self, k: int, j: int) -> list[int]:
        """Return the slots that operand j of step k has in the iterations, one per iteration."""
        steps, s = self.code.steps, self.stretch
        return [steps[s.start + t * s.period + k].inputs[j] for t in range(s.count)]

    def scan(self) -> tuple[Scan, tuple[int, ...]]:
        """Write the body. Return the scan and the values that are its operands."""
        s, steps = self.stretch, self.code.steps
        made: list[tuple[int, ...]] = []
        pending: list[tuple[list[int], int, int]] = []
        for k in range(s.period):
            step = steps[s.start + k]
            inputs: list[int] = []
            for j in range(len(step.inputs)):
                lag = s.lags.get((k, j))
                if lag is None:
                    inputs.append(self._from_outside(self._slots(k, j)))
                    continue
                last = s.start + (s.count - 1) * s.period + k
                slot = steps[last].inputs[j]
                maker = (k - lag) % s.period
                number = steps[last - lag].outputs.index(slot)
                behind = -((k - lag) // s.period)
                if behind == 0:
                    inputs.append(made[maker][number])
                    continue
                first = tuple(self._slots(k, j)[:behind])
                registers = self._carried.get((maker, number, first))
                if registers is None:
                    registers = self._registers(first)
                    self._carried[maker, number, first] = registers
                    pending.append((registers, maker, number))
                inputs.append(registers[-1])
            made.append(self.graph.add(step.op, tuple(inputs), step.source))
        following: dict[int, int] = {}
        for registers, maker, number in pending:
            following.update(zip(registers, [made[maker][number], *registers[:-1]], strict=True))
            last = steps[s.start + (s.count - 1) * s.period + maker].outputs[number]
            self.final.setdefault(last, self._index[registers[0]])
        outputs = [following[register] for register in self.registers]
        outputs += self._stacked(made)
        consts, xs = list(self.consts), [outside for outside, _ in self.xs]
        inside = [*self.consts.values(), *self.registers, *[value for _, value in self.xs]]
        body = Subprogram.of(self.graph, inside, outputs)
        op = Scan(body, s.count, len(consts), len(self.carries))
        return op, (*consts, *self.carries, *xs)

    def _registers(self, first: Sequence[int]) -> list[int]:
        """Add carries that delay a value by as many iterations as `first` has slots. Return them, the newest first."""
        registers: list[int] = []
        for slot in reversed(first):
            value = self.graph.add_input(self.code.program.types[slot])
            self._index[value] = len(self.carries)
            self.carries.append(self.writer.value(slot))
            self.registers.append(value)
            registers.append(value)
        return registers

    def _stacked(self, made: Sequence[tuple[int, ...]]) -> list[int]:
        """Record and return the values of the body that must be stacked, because they are read after the loop."""
        s, steps = self.stretch, self.code.steps
        results: list[int] = []
        for k in range(s.period):
            for number, value in enumerate(made[k]):
                slots = [steps[s.start + t * s.period + k].outputs[number] for t in range(s.count)]
                wanted = [slot for slot in slots if slot in self.writer.needed]
                if wanted and not (len(wanted) == 1 and wanted[0] in self.final):
                    self.stacks.append(slots)
                    results.append(value)
        return results

    def _from_outside(self, slots: Sequence[int]) -> int:
        """Return the value in the body that stands for an operand computed before the loop.

        `slots` are the slots of the operand, one per iteration.
        """
        key = tuple(slots)
        if key not in self._inside:
            self._inside[key] = self._resolved(slots)
        return self._inside[key]

    def _resolved(self, slots: Sequence[int]) -> int:
        writer, types = self.writer, self.code.program.types
        makers = [self.code.maker.get(slot) for slot in slots]
        maker = makers[0]
        if len(set(slots)) == 1:
            constant = self._constant(maker)
            if constant is not None:
                return constant
            outside = writer.value(slots[0])
            if outside not in self.consts:
                self.consts[outside] = self.graph.add_input(types[slots[0]])
            return self.consts[outside]
        are_views = all([m and m.inputs and self.code.place[m.outputs[0]] < 0 for m in makers])
        if maker and are_views and all([m and m.op == maker.op for m in makers]):
            operand = self._from_outside([m.inputs[0] for m in makers if m])
            return self.graph.add(maker.op, (operand,), maker.source)[0]
        rows = [_row_of(m, types) for m in makers] if are_views else []
        slices = [row for row in rows if row is not None]
        if maker and rows and len(slices) == len(rows):
            row = self._x(writer.stack_of_rows(slices))
            if self.graph.types[row].shape == types[slots[0]].shape:
                return row
            return self.graph.add(Reshape(types[slots[0]].shape), (row,), maker.source)[0]
        return self._x(writer.stack(slots))

    def _constant(self, maker: Instruction | None) -> int | None:
        """Return a copy, inside the body, of a small or broadcast constant; None for any other instruction."""
        if maker is None:
            return None
        if isinstance(maker.op, Constant) and maker.op.array.size <= MAX_EMBEDDED:
            return self.graph.add(maker.op, (), maker.source)[0]
        if isinstance(maker.op, BroadcastInDim):
            operand = self._constant(self.code.maker.get(maker.inputs[0]))
            return (
                None if operand is None else self.graph.add(maker.op, (operand,), maker.source)[0]
            )
        return None

    def _x(self, stack: int) -> int:
        """Add `stack` to the input slices of the scan. Return the value in the body that stands for one slice."""
        spec = self.writer.graph.types[stack]
        inside = self.graph.add_input(type(spec).of(spec.shape[1:], spec.dtype))
        self.xs.append((stack, inside))
        return inside


@dataclass(frozen=True)
class _Row:
    """Slice that an iteration reads: one element or block along some axes, and all elements along the others.

    Attributes:
        operand: the value that is sliced.
        axis, end: the sliced axes, from `axis` up to but not including `end`. The slice has extent 1 along these axes,
            or there is one sliced axis and the slice is a block of it.
        index: the position of the element along the sliced axes in column-major order, or the number of earlier blocks.
        extent: the number of elements of a block; 1 for an element.
        offset: the position at which the first block begins.
    """

    operand: int
    axis: int
    end: int
    index: int
    extent: int = 1
    offset: int = 0


def _row_of(maker: Instruction | None, types: Sequence[Any]) -> _Row | None:
    """Return the row that a slice reads; None if the instruction is not a slice, or its result is no row."""
    if maker is None or not isinstance(maker.op, Slice):
        return None
    op, (operand,) = maker.op, maker.inputs
    shape = types[operand].shape
    edges = (*op.starts, *op.limits)
    if not shape or not all(map(is_static, (*shape, *edges))) or set(op.strides) - {1}:
        return None
    ends = list(zip(op.starts, op.limits, strict=True))
    cut = [i for i, n in enumerate(shape) if ends[i] != (0, n)] or [0]
    axis, end = cut[0], cut[-1] + 1
    extent = op.limits[axis] - op.starts[axis]
    if len(cut) == 1 and extent > 1:
        index, offset = divmod(op.starts[axis], extent)
        return _Row(operand, axis, end, index, extent, offset)
    if any([stop - start != 1 for start, stop in ends[axis:end]]):
        return None
    index = np.ravel_multi_index(op.starts[axis:end], shape[axis:end], order="F")
    return _Row(operand, axis, end, int(index))

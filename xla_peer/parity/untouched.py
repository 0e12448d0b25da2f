"""Outcomes of decisions that the arguments of a check do not reach, and a search for arguments that reach them.

A check misses faults in branches that are not taken, at bounds of a clip that no element reaches, and in comparisons
that have the same result for all elements. So the program runs once, op by op, and the outcomes of each decision are
recorded, in every iteration of loops. The code calls an outcome a side of the decision. Decisions that no argument can
change are omitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.errors import TenferroError
from tenferro.exec.interpreter import interpret
from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.ops import StdTensorOp
from tenferro.ops import elementwise as el
from tenferro.ops.control import Cond, ControlOp, While
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, Instruction, makers, native_executor
from xla_peer.json_values import json_value
from xla_peer.parity.divergence import shown

__all__ = ["Untouched", "reaching", "untouched"]

SCALES = (-1.0, 10.0, -10.0, 0.1, 1000.0, -1000.0, 1e-6)
"""Factors by which the search scales an argument."""

LINE = re.compile(r"^<stablehlo>:(\d+)")
NAME = re.compile(r"^\s*(%[\w$.-]+)")


@dataclass(frozen=True)
class Untouched:
    """Outcome of a decision that did not occur at any element in any iteration.

    Attributes:
        op: the instruction, with types.
        side: the missing outcome in words, such as `is never true` or `never takes branch 1`.
        line: the user's line of code, if known; for an imported module the line of its text.
        name: the value's name in the text of an imported module; empty for any other program.
        place: the enclosing loops and branches, outermost first; empty at the top level.
    """

    op: str
    side: str
    line: str = ""
    place: str = ""
    name: str = ""
    key: tuple[int, ...] = field(default=(), repr=False, compare=False)

    def to_dict(self) -> dict[str, str]:
        """Convert to JSON-compatible values."""
        return json_value(
            {
                "op": self.op,
                "side": self.side,
                "line": self.line,
                "place": self.place,
                "name": self.name,
            }
        )

    def __str__(self) -> str:
        line = f" at {self.line}" if self.line else ""
        place = f" in {self.place}" if self.place else ""
        name = f"{self.name} = " if self.name else ""
        return f"{name}{self.op} {self.side}{line}{place}"


@dataclass(frozen=True)
class _Site:
    """Decision of a program.

    Attributes:
        program: the program, or the body of a loop or branch, that contains the decision.
        step, at: the instruction of the decision, and the step of the schedule that runs the instruction.
        sides: the outcomes in words, as they are reported if they are missing.
        place: the enclosing loops and branches.
        condition: the comparison that computes the condition of a select; None for other decisions.
    """

    program: GraphProgram
    step: Instruction
    at: ExecInstruction
    sides: tuple[str, ...]
    place: str
    condition: Instruction | None = None


def untouched(program: GraphProgram, leaves: Sequence[Any]) -> tuple[Untouched, ...]:
    """Return the outcomes of decisions that the arguments do not reach, in the order of the program.

    Args:
        program: a program with static shapes.

    >>> import tenferro as tnf
    >>> x = np.arange(3.0)
    >>> program = tnf.compile(lambda x: tnf.where(x < 5, x, x * 2), x)
    >>> [(each.op.split()[0], each.side) for each in untouched(program, [x])]
    [("Compare(direction='LT')", 'is never false')]
    """
    schedule = replace(native_executor().binder, passes=(), plan=()).bind(program)
    sites = list(_sites(schedule, program))
    if not sites:
        return ()
    touched: dict[int, set[int]] = {}
    watched = {id(site.at): len(site.sides) for site in sites}

    def around(
        _: ExecProgram, step: ExecInstruction, arrays: Sequence[Any], call: Callable[..., Any]
    ) -> Sequence[Any]:
        results = list(map(np.asarray, call(arrays)))
        if id(step) in watched:
            taken = touched.setdefault(id(step), set())
            if len(taken) < watched[id(step)]:
                taken.update(_reached_sides(step.source_op, list(map(np.asarray, arrays)), results))
        return results

    with numpy_state():
        interpret(schedule, [np.asarray(leaf) for leaf in leaves], around)
    text = [] if program.origin is None else program.origin.plain_text.splitlines()
    missing: list[Untouched] = []
    for number, site in enumerate(sites):
        taken = touched.get(id(site.at))
        if taken is None:
            continue  # the enclosing branch was not taken; that is reported instead
        step = site.step if site.condition is None else site.condition
        for side, words in enumerate(site.sides):
            if side not in taken:
                op, line = shown(site.program, step), str(step.source or "")
                name = _name(text, line)
                missing.append(Untouched(op, words, line, site.place, name, (number, side)))
    return tuple(missing)


def _name(text: Sequence[str], line: str) -> str:
    """Return the name of the value that is defined in the given line of a module's text; empty if there is none."""
    at = LINE.search(line)
    if at is None or not 0 < int(at[1]) <= len(text):
        return ""
    named = NAME.match(text[int(at[1]) - 1])
    return named[1] if named else ""


def reaching(
    program: GraphProgram, leaves: Sequence[Any], tries: int, seed: int = 0
) -> Iterator[tuple[Untouched, list[Any]]]:
    """Yield sets of arguments that reach new outcomes of decisions, each with one of these outcomes.

    To find them, arrays are scaled, drawn at random, or set to constants of the program and adjacent numbers, in all
    elements or in one element. The same seed always produces the same sequence.

    Args:
        leaves: the arguments from which the search starts.
        tries: the maximum number of sets of arguments that are tried.
    """
    missing = {each.key: each for each in untouched(program, leaves)}
    rng = np.random.default_rng(seed)
    constants = _constants(program)
    arrays = [np.asarray(leaf) for leaf in leaves]
    starts = [arrays]
    for number in range(tries):
        if not missing:
            return
        candidate = _mutated(starts[int(rng.integers(len(starts)))], constants, rng, number)
        try:
            still = {each.key for each in untouched(program, candidate)}
        except TenferroError:
            continue  # a `tenferro.check` in the program rejects the arguments
        reached = [key for key in missing if key not in still]
        if reached:
            starts.append(candidate)
            yield missing[reached[0]], candidate
        for key in reached:
            del missing[key]


def _sites(schedule: ExecProgram, program: GraphProgram) -> Iterator[_Site]:
    """Yield every decision that depends on an argument, including decisions in bodies."""
    waiting: list[tuple[ExecProgram, GraphProgram, str]] = [(schedule, program, "")]
    while waiting:
        steps, part, place = waiting.pop(0)
        maker_of, independent = makers(part.instructions), _independent(part)
        for at in steps.instructions:
            step = part.instructions[at.origin[0]] if at.origin else None
            if step is None:
                continue
            sides, deciding = _sides(step.op), step.inputs[: _deciding(step.op)]
            if sides and not independent.issuperset(deciding):
                maker = maker_of.get(step.inputs[0]) if isinstance(step.op, el.Select) else None
                is_compared = maker is not None and isinstance(maker.op, el.Compare)
                yield _Site(part, step, at, sides, place, maker if is_compared else None)
            if isinstance(step.op, ControlOp):
                name = f"{step.op.name} at {step.source}" if step.source else step.op.name
                inner = f"{place}, {name}" if place else name
                parts = zip(at.bodies, step.op.parts, strict=True)
                waiting += [(body, each.program, inner) for body, each in parts]


def _independent(program: GraphProgram) -> set[int]:
    """Return slots that depend on no input."""
    independent = set[int]()
    for step in program.instructions:
        if all(slot in independent for slot in step.inputs):
            independent.update(step.outputs)
    return independent


def _deciding(op: StdTensorOp) -> int | None:
    """Return the number of leading operands that determine the decision; None if all operands do."""
    return 1 if isinstance(op, el.Select | Cond) else None


def _sides(op: StdTensorOp) -> tuple[str, ...]:
    """Return the outcomes of a decision in words, as they are reported if they are missing; empty for other ops."""
    match op:
        case el.Select():
            return ("is never false", "is never true")
        case el.Clamp():
            return (
                "never meets its lower bound",
                "never meets its upper bound",
                "is never between",
            )
        case el.Maximum() | el.Minimum():
            return ("never takes its first operand", "never takes its second operand")
        case Cond():
            return tuple([f"never takes branch {number}" for number in range(len(op.parts))])
        case While():
            return ("never runs its body",)
        case _:
            return ()


@np.errstate(all="ignore")
def _reached_sides(op: StdTensorOp, arrays: Sequence[Any], results: Sequence[Any]) -> set[int]:
    """Return the indices, in the tuple that `_sides` returns, of the outcomes that occur in a run of the op."""
    match op:
        case el.Select():
            return {int(each) for each in np.unique(arrays[0])}
        case el.Clamp():
            x, low, high = arrays
            each = np.where(x < low, 0, np.where(x > high, 1, 2))
            return set(np.unique(each).tolist())
        case el.Maximum() | el.Minimum():
            x, y = arrays
            return {number for number, z in enumerate((x, y)) if bool(np.any(results[0] == z))}
        case Cond():
            index, count = int(arrays[0]), len(op.parts)
            return {index if 0 <= index < count else count - 1}
        case While():
            carry = arrays[op.num_consts :]
            same = [np.array_equal(x, y) for x, y in zip(carry, results, strict=True)]
            return set() if all(same) else {0}
        case _:
            return set()


def _constants(program: GraphProgram) -> list[float]:
    """Return the distinct finite numbers in the program's constants, including those in bodies."""
    numbers: dict[float, None] = {0.0: None, 1.0: None}
    waiting = [program]
    while waiting:
        part = waiting.pop()
        for step in part.instructions:
            if isinstance(step.op, Constant) and step.op.array.dtype.kind not in "bc":
                small = step.op.array.ravel()[:8].astype(np.float64)
                numbers |= dict.fromkeys(small[np.isfinite(small)].tolist())
            if isinstance(step.op, ControlOp):
                waiting += [each.program for each in step.op.parts]
    return list(numbers)


def _mutated(
    arrays: Sequence[Any], constants: Sequence[float], rng: np.random.Generator, number: int
) -> list[Any]:
    """Return the arrays, with one array or all arrays changed at random; `number` determines the kind of change."""
    chosen = int(rng.integers(len(arrays) + 1)) if arrays else 0
    kind = number % 5
    return [
        _changed(x, constants, rng, kind) if chosen in (at, len(arrays)) else x
        for at, x in enumerate(arrays)
    ]


@np.errstate(all="ignore")
def _changed(x: Any, constants: Sequence[float], rng: np.random.Generator, kind: int) -> Any:
    """Scale an array, draw it at random, or set all elements or one element to a constant or an adjacent number.

    Args:
        constants: numbers that occur in the program.
        kind: 0 or 1 to scale, 2 to draw, 3 to set all elements, 4 to set one element.
    """
    if not x.size:
        return x
    if x.dtype.kind == "b":
        return rng.random(x.shape) < rng.choice([0.0, 0.5, 1.0])
    number = constants[int(rng.integers(len(constants)))] + float(rng.choice([-1, 0, 0, 1]))
    number *= float(rng.choice([1, -1]))
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    if kind in (0, 1):
        wide = wide * rng.choice(SCALES)
    elif kind == 2:
        wide = rng.standard_normal(x.shape) * rng.choice([1.0, 10.0, 100.0]) + number
    elif kind == 3:
        wide = np.full(x.shape, number)
    else:
        wide.ravel()[int(rng.integers(x.size))] = number
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        least, most = max(info.min, -(1 << 53)), min(info.max, 1 << 53)
        return np.clip(np.rint(wide), least, most).astype(x.dtype)
    largest = float(ml_dtypes.finfo(x.real.dtype).max)
    return np.where(np.abs(wide) <= largest, wide, 0.0).astype(x.dtype)

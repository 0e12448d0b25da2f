"""Elementwise groups, tile by tile: values in the middle stay in cache and are never whole arrays.

A group is a run of elementwise instructions over one shape. It becomes one generated function of tiles,
which threads call on parts of their own; a ufunc releases Python's lock. What an element becomes does not
depend on tiles or threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.exec.workers import Workers
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el

if TYPE_CHECKING:
    from tenferro.exec.exec_program import ExecProgram

__all__ = ["ELEMENTWISE", "Group", "grouped"]

ELEMENTWISE = frozenset({*el.CARDS, *an.CARDS} - {el.BitcastConvert})
SMALLEST = 1 << 16
"""Elements of a shape whose instructions are worth grouping."""
TILE_BYTES = 1 << 18
"""Of one operand's tile: a handful of them lie in a core's cache."""
ALONE = 1 << 17
"""Elements below which one thread does it all."""


@dataclass(frozen=True)
class Group:
    """Instructions that run tile by tile.

    Attributes:
        instructions: their numbers.
        takes, gives: slots from outside, and those that are needed outside.
        shape: of every value in the group.
    """

    instructions: tuple[int, ...]
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    shape: tuple[int, ...]


def grouped(program: ExecProgram, skipped: Sequence[bool]) -> Iterator[int | Group]:
    """The instructions in an order that keeps what depends on what, elementwise runs as groups.

    An instruction that needs nothing of the run before it goes ahead of it, so that runs are long.
    """
    readers: dict[int, list[int]] = {}
    for index, step in enumerate(program.instructions):
        for slot in step.input_slots:
            readers.setdefault(slot, []).append(index)
    for slot in program.output_slots:
        readers.setdefault(slot, []).append(-1)
    run: list[int] = []
    made: dict[int, None] = {}
    shape: tuple[Any, ...] = ()

    def flushed() -> Iterator[int | Group]:
        if len(run) > 1:
            inside = set(run)
            taken = dict.fromkeys(s for i in run for s in program.instructions[i].input_slots)
            yield Group(
                tuple(run),
                tuple([slot for slot in taken if slot not in made]),
                tuple([s for s in made if not inside.issuperset(readers.get(s, ()))]),
                shape,
            )
        else:
            yield from run
        run.clear()
        made.clear()

    for index, step in enumerate(program.instructions):
        if skipped[index]:
            continue
        first = step.output_types[0]
        fits = type(step.op) in ELEMENTWISE and first.size >= SMALLEST
        joins = fits and (not run or first.shape == shape)
        if not joins and not made.keys().isdisjoint(step.input_slots):
            yield from flushed()
            joins = fits
        if joins:
            shape = first.shape
            run.append(index)
            made.update(dict.fromkeys(step.output_slots))
        else:
            yield index
    yield from flushed()


@dataclass(frozen=True)
class Fused:
    """A group as a function of whole arrays.

    Attributes:
        tiles: generated; works on rows from one number to another.
        source: of `tiles`.
        file: its name in tracebacks.
        places: numbers of instructions by the line of `tiles`.
        dtypes: of the results.
    """

    tiles: Callable[..., None]
    source: str
    file: str
    places: dict[int, int]
    shape: tuple[int, ...]
    dtypes: tuple[Any, ...]
    widest: int
    workers: Workers

    def __call__(self, *arrays: Any) -> Any:
        turned = sum(map(_is_column_major, arrays)) > sum(map(_is_row_major, arrays))
        shape = self.shape[::-1] if turned else self.shape
        results = [np.empty(shape, dtype) for dtype in self.dtypes]
        views = [x.T if turned else x for x in arrays]
        outs = results
        flat = [_flat(x) for x in views]
        if all(x is not None for x in flat):
            views, outs = flat, [y.reshape(-1) for y in results]
        rows, rest = outs[0].shape[0], outs[0].shape[1:]
        step = max(1, TILE_BYTES // self.widest // max(prod(rest), 1))

        def work(start: int, stop: int) -> None:
            with np.errstate(all="ignore"):
                self.tiles(start, stop, step, rest, *views, *outs)

        self.workers.share(work, rows, step, outs[0].size < ALONE)
        given = [y.T for y in results] if turned else results
        return given[0] if len(given) == 1 else given


def _is_row_major(x: Any) -> bool:
    return x.flags.c_contiguous and not x.flags.f_contiguous


def _is_column_major(x: Any) -> bool:
    return x.flags.f_contiguous and not x.flags.c_contiguous


def _flat(x: Any) -> Any:
    """One axis over the elements of x in row-major order, without a copy; None where there is none."""
    if x.flags.c_contiguous:
        return x.reshape(-1)
    if not any(x.strides):
        return np.broadcast_to(x[(0,) * x.ndim], (x.size,))
    return None


def select(pred: Any, on_true: Any, on_false: Any, out: Any) -> Any:
    """np.where into a buffer."""
    np.copyto(out, on_false)
    np.copyto(out, on_true, where=pred)
    return out


INTO_A_BUFFER: dict[Any, Callable[..., Any]] = {np.where: select}
"""Functions with the same meaning that take `out`."""


def fused(
    program: ExecProgram,
    group: Group,
    functions: Sequence[Callable[..., Any]],
    known: dict[int, Any],
    workers: Workers,
) -> tuple[Fused, tuple[int, ...]]:
    """The function of a group, and the slots that it takes.

    Args:
        functions: of every instruction of the program.
        known: values of slots that constants decide.
    """
    writer = _TileWriter(program, group, functions, known)
    source = writer.write()
    file = f"<tenferro tiles {id(program):x}, {group.instructions[0]}>"
    exec(compile(source, file, "exec"), writer.names)
    dtypes = [writer.dtypes[slot] for slot in group.gives]
    found = Fused(
        tiles=writer.names["tiles"],
        source=source,
        file=file,
        places=writer.places,
        shape=group.shape,
        dtypes=tuple(dtypes),
        widest=max(dtype.itemsize for dtype in writer.dtypes.values()),
        workers=workers,
    )
    return found, tuple(writer.takes)


class _TileWriter:
    """Writes the loop over tiles; scratch is used again where a value dies."""

    def __init__(
        self,
        program: ExecProgram,
        group: Group,
        functions: Sequence[Callable[..., Any]],
        known: dict[int, Any],
    ) -> None:
        self.program, self.group, self.functions = program, group, functions
        self.names: dict[str, Any] = {"empty": np.empty}
        self.scalars = {s for s in group.takes if s in known and not any(known[s].strides)}
        for slot in self.scalars:
            array = known[slot]
            self.names[f"c{slot}"] = array[(0,) * array.ndim]
        self.takes = [slot for slot in group.takes if slot not in self.scalars]
        self.dtypes: dict[int, Any] = {}
        self.places: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for index in group.instructions:
            step = program.instructions[index]
            self.dtypes[step.output_slots[0]] = step.output_types[0].dtype.dtype
            self.last.update(dict.fromkeys(step.input_slots, index))

    def write(self) -> str:
        body, scratch = self._body()
        given = ", ".join(
            ["start", "stop", "step", "rest", *[f"v{s}" for s in self.takes],
             *[f"o{s}" for s in self.group.gives]]
        )  # fmt: skip
        lines = [f"def tiles({given}):"]
        for number, dtype in enumerate(scratch):
            self.names[f"d{number}"] = dtype
            lines.append(f"    s{number} = empty((step, *rest), d{number})")
        lines.append("    for i in range(start, stop, step):")
        lines.append("        j = min(i + step, stop)")
        if scratch:
            lines.append("        if j - i < step:")
            lines += [
                f"            s{number} = s{number}[: j - i]" for number in range(len(scratch))
            ]
        lines += [f"        v{slot}_ = v{slot}[i:j]" for slot in self.takes]
        lines += [f"        o{slot}_ = o{slot}[i:j]" for slot in self.group.gives]
        for index, line in body:
            lines.append(f"        {line}")
            self.places[len(lines)] = index
        return "\n".join(lines)

    def _body(self) -> tuple[list[tuple[int, str]], list[Any]]:
        """A line per instruction, and the dtypes of the scratch they need."""
        lines: list[tuple[int, str]] = []
        scratch: list[Any] = []
        free: list[int] = []
        held: dict[int, int] = {}
        given = set(self.group.gives)
        for index in self.group.instructions:
            step = self.program.instructions[index]
            (slot,) = step.output_slots
            function = self.functions[index]
            function = INTO_A_BUFFER.get(function, function)
            takes_out = isinstance(function, np.ufunc) or function is select
            name = self._named(function, index)
            arguments = [self._name(s) for s in step.input_slots]
            # A select writes its result before it has read all of its operands.
            if function is not select:
                self._release(step.input_slots, index, held, free)
            if takes_out and slot in given:
                target = f"o{slot}_"
            elif takes_out:
                number = next((n for n in free if scratch[n] == self.dtypes[slot]), None)
                if number is None:
                    number = len(scratch)
                    scratch.append(self.dtypes[slot])
                else:
                    free.remove(number)
                held[slot] = number
                target = f"s{number}"
            else:
                target = ""
            if function is select:
                self._release(step.input_slots, index, held, free)
            if target:
                lines.append((index, f"v{slot}_ = {name}({', '.join(arguments)}, out={target})"))
            else:
                lines.append((index, f"v{slot}_ = {name}({', '.join(arguments)})"))
                if slot in given:
                    lines.append((index, f"o{slot}_[...] = v{slot}_"))
        return lines, scratch

    def _release(
        self, slots: Sequence[int], index: int, held: dict[int, int], free: list[int]
    ) -> None:
        for slot in dict.fromkeys(slots):
            if self.last[slot] == index and slot in held:
                free.append(held.pop(slot))

    def _name(self, slot: int) -> str:
        return f"c{slot}" if slot in self.scalars else f"v{slot}_"

    def _named(self, function: Any, index: int) -> str:
        name = f"{self.program.instructions[index].op.name.lower()}_{index}"
        self.names[name] = function
        return name

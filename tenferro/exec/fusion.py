"""Groups, tile by tile: values in the middle stay in cache and are never whole arrays.

A group becomes one generated function of tiles, which threads call on parts of their own; a ufunc releases
Python's lock. What a row becomes does not depend on tiles or threads. A reduction over rows is the
reduction of each tile's, in the order of the tiles, whose size the shapes alone decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.aligned import ALIGNMENT
from tenferro.exec.grouping import LONGEST_ROW, REDUCTIONS, Group
from tenferro.exec.kernels import bound, into_a_buffer, is_elementwise, may_view
from tenferro.exec.kernels.row_sums import has_row_sums, sum_of_products
from tenferro.exec.quiet import BUFFER, buffer_for
from tenferro.exec.workers import Workers
from tenferro.ops.elementwise import Multiply
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.structural import BroadcastInDim, Reshape
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.exec_program import ExecInstruction, ExecProgram

__all__ = ["Fused", "fused"]

TILE_BYTES = 1 << 20
"""Of one array's tile, at most: below, the calls cost more than the work, the more so on threads, which wait
for each other between calls."""
ROW_TILE_BYTES = 1 << 21
"""The same where rows stay whole: sums, and what repeats along a row, gain less from a near cache."""
ALONE_TILE_BYTES = 1 << 19
"""The same where one thread does it all."""
CACHE_BYTES = 3 << 19
"""Of all the tiles that are worked on at once."""
TURNED_ROWS = 128
"""Of a tile that is turned: so many neighbours are written to each column."""
PAGE = 1 << 12
"""Bytes of a row, or a multiple, that make all rows fall into the same places of a cache."""
ALONE = 1 << 17
"""Elements below which one thread does it all."""
WALKS = 8
"""Kept for one group: programs are run on arrays of one layout, nearly always."""
Strides = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Fused:
    """A group as a function of whole arrays.

    Attributes:
        source: of `tiles(i, j, tile, scratch.., operands.., results.., shares..)`.
        function: of tiles, for values whose leading axes are so many; with True, what is wanted column-major
            is written through scratch.
        scratch, gives, totals: types of buffers, results, and reductions over rows.
        columns: whether each result is wanted column-major.
        folds: combine the shares of each total.
    """

    group: Group
    source: str
    function: Callable[[int, bool], Callable[..., None]]
    scratch: dict[bool, tuple[TensorSpec, ...]]
    gives: tuple[TensorSpec, ...]
    totals: tuple[TensorSpec, ...]
    columns: tuple[bool, ...]
    folds: tuple[Callable[[Any], Any], ...]
    widest: int
    workers: Workers
    _functions: dict[tuple[int, bool], Callable[..., None]] = field(default_factory=dict)
    _walks: dict[Strides, Callable[..., Any]] = field(default_factory=dict)

    def __call__(self, *arrays: Any, into: Sequence[Any] | None = None) -> Any:
        """The results.

        Args:
            into: for each result the bytes that it is written to, or None for memory of its own.
        """
        strides = tuple([x.strides for x in arrays])
        walk = self._walks.get(strides)
        if walk is None:
            if len(self._walks) >= WALKS:
                self._walks.clear()
            walk = self._walks[strides] = self._walk(arrays)
        return walk(arrays, into)

    def _walk(self, arrays: Sequence[Any]) -> Callable[..., Any]:
        """The function of arrays that lie in memory as these do."""
        layout, turns = self._layout(arrays)
        extents = layout.shape(self.group.shape)
        row = self.widest * max(prod(extents[1:]), 1)
        walked = [x for x in arrays if all(x.strides)]
        arrays_at_once = max(1, len(walked) + self._written + len(self.scratch[turns]))
        rows, alone = extents[0], prod(extents) < ALONE
        shared_tile = (
            ROW_TILE_BYTES
            if self.group.lead < len(self.group.shape)
            else min(TILE_BYTES, max(TILE_BYTES // 2, CACHE_BYTES // arrays_at_once))
        )
        step = max(1, (ALONE_TILE_BYTES if alone else shared_tile) // row)
        if turns:
            step = max(step, min(TURNED_ROWS, 4 * TILE_BYTES // row))
        orders = [COLUMNS if turns and column else layout for column in self.columns]
        made = [
            (order.empty, spec.shape, spec.dtype.dtype)
            for order, spec in zip(orders, self.gives, strict=True)
        ]
        counts = [((-(-rows // step), *spec.shape), spec.dtype.dtype) for spec in self.totals]
        buffers = [
            _Buffer((step, *layout.shape(spec.shape)[1:]), spec.dtype.dtype, layout.scratch, turns)
            for spec in self.scratch[turns]
        ]
        sizes = [buffer.size for buffer in buffers]
        elements = buffer_for(extents[-1])
        tiles = self._functions.get((layout.lead, turns))
        if tiles is None:
            tiles = self._functions[layout.lead, turns] = self.function(layout.lead, turns)
        view, share, scratch_of = layout.view, self.workers.share, self.workers.scratch

        def walk(arrays: Sequence[Any], into: Sequence[Any] | None) -> Any:
            results = [
                empty(shape, dtype, place)
                for (empty, shape, dtype), place in zip(made, into or repeat(None), strict=False)
            ]
            shares = [np.empty(shape, dtype) for shape, dtype in counts]
            taken = [view(x) for x in (*arrays, *results)]

            def work(start: int, stop: int) -> None:
                pieces = scratch_of(sizes) if sizes else ()
                scratch = [buffer.of(piece) for buffer, piece in zip(buffers, pieces, strict=True)]
                for i in range(start, stop, step):
                    j = min(i + step, stop)
                    if j - i < step:
                        scratch = [s[: j - i] for s in scratch]
                    tiles(i, j, i // step, *scratch, *taken, *shares)

            def quiet(start: int, stop: int) -> None:
                with np.errstate(all="ignore"):
                    np.setbufsize(elements)  # until the end of this block
                    work(start, stop)

            if alone:
                # Whoever runs the program has seen to all but the buffers.
                (work if elements == BUFFER else quiet)(0, rows)
            else:
                share(quiet, rows, step)
            found = [fold(share) for fold, share in zip(self.folds, shares, strict=True)]
            given = [*results, *found]
            return given[0] if len(given) == 1 else given

        return walk

    @cached_property
    def _written(self) -> int:
        """How many results are of the group's size, or nearly."""
        return sum(2 * spec.size > prod(self.group.shape) for spec in self.gives)

    def _layout(self, arrays: Sequence[Any]) -> tuple[Layout, bool]:
        """How the arrays are walked: by memory where they agree, else along their leading axis.

        And whether results that are wanted column-major are turned tile by tile.
        """
        group = self.group
        lead, rank = group.lead, len(group.shape)
        perm = _common_order(arrays, rank)
        is_rows = perm == tuple(range(rank))
        turns = any(self.columns) and is_rows and prod(group.shape[1:]) <= LONGEST_ROW
        if lead == rank and not turns:
            inner = Layout(rank) if is_rows else Permuted(perm)
            flat = Flat(inner)
            return (flat if all([flat.fits(x) for x in arrays]) else inner), False
        if perm == tuple(range(rank))[::-1] and not is_rows:
            return Columns(lead), False
        merged = Merged(lead)
        fits = lead > 1 and not turns and all([merged.fits(x) for x in arrays])
        return (merged if fits else Layout(lead)), turns


class _Buffer:
    """Scratch for tiles; if they are turned, with gaps between rows that would displace each other."""

    def __init__(self, shape: Sequence[int], dtype: Any, order: Any, turns: bool) -> None:
        *outer, last = shape
        collides = turns and outer and prod(shape[1:]) * dtype.itemsize % PAGE == 0
        self.last, gap = last, ALIGNMENT // dtype.itemsize if collides else 0
        self.shape, self.dtype, self.order = (*outer, last + gap), dtype, order
        self.size = prod(self.shape) * dtype.itemsize

    def of(self, piece: Any) -> Any:
        """The array in these bytes."""
        return np.ndarray(self.shape, self.dtype, piece, order=self.order)[..., : self.last]


def _common_order(arrays: Sequence[Any], rank: int) -> tuple[int, ...]:
    """The order of axes in which most arrays lie in memory, slowest first; rows where none prevails.

    What repeats itself along an axis is small, and has no say.
    """
    rows = tuple(range(rank))
    found: dict[tuple[int, ...], int] = {rows: 0}
    for x in arrays:
        if x.ndim < rank or not all(x.strides) or (x.flags.c_contiguous and x.flags.f_contiguous):
            continue
        strides = x.strides
        order = (
            rows if x.flags.c_contiguous else tuple(sorted(rows, key=lambda i: -abs(strides[i])))
        )
        found[order] = found.get(order, 0) + 1
    return max(found, key=lambda order: found[order])


class Layout:
    """Arrays as they are, tiled along the first axis.

    Args:
        lead: how many leading axes the views have.

    Attributes:
        scratch: order of scratch.
    """

    scratch: Any = "C"

    def __init__(self, lead: int) -> None:
        self.lead = lead

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of the view of an array of this shape."""
        return shape

    def view(self, x: Any) -> Any:
        """Of an array; it shares its memory."""
        return x

    def empty(self, shape: tuple[int, ...], dtype: Any, place: Any) -> Any:
        """A new array whose view lies in order, in these bytes or in memory of its own."""
        return np.ndarray(shape, dtype, place)


class Columns(Layout):
    """Column-major arrays, tiled along the first axis, where rows must stay whole."""

    scratch = "F"

    def empty(self, shape: tuple[int, ...], dtype: Any, place: Any) -> Any:
        return np.ndarray(shape, dtype, place, order="F")


COLUMNS = Columns(0)


class Permuted(Layout):
    """Arrays whose axes lie in another order, slowest first."""

    def __init__(self, perm: tuple[int, ...]) -> None:
        super().__init__(len(perm))
        self.perm = perm
        self.inverse = sorted(range(len(perm)), key=perm.__getitem__)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([shape[axis] for axis in self.perm])

    def view(self, x: Any) -> Any:
        return x.transpose(self.perm)

    def empty(self, shape: tuple[int, ...], dtype: Any, place: Any) -> Any:
        return np.ndarray(self.shape(shape), dtype, place).transpose(self.inverse)


class Flat(Layout):
    """Elements one after the other, in the order of memory.

    Args:
        inner: the layout in which they are so.
    """

    def __init__(self, inner: Layout) -> None:
        super().__init__(1)
        self.inner = inner

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (prod(shape),)

    def fits(self, x: Any) -> bool:
        """Whether the elements are so, or all the same one."""
        return self.inner.view(x).flags.c_contiguous or not any(x.strides)

    def view(self, x: Any) -> Any:
        x = self.inner.view(x)
        if x.flags.c_contiguous:
            return x.reshape(-1)
        return np.broadcast_to(x[(0,) * x.ndim], (x.size,))

    def empty(self, shape: tuple[int, ...], dtype: Any, place: Any) -> Any:
        return self.inner.empty(shape, dtype, place)


class Merged(Layout):
    """Row-major arrays with their leading axes as one."""

    def __init__(self, count: int) -> None:
        super().__init__(1)
        self.count = count

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (prod(shape[: self.count]), *shape[self.count :])

    def fits(self, x: Any) -> bool:
        """Whether the leading axes step as one."""
        steps = [*zip(x.strides, x.strides[1:], x.shape[1:], strict=False)]
        return all([outer == inner * n for outer, inner, n in steps[: self.count - 1]])

    def view(self, x: Any) -> Any:
        return x.reshape(self.shape(x.shape))


def fused(
    program: ExecProgram,
    group: Group,
    functions: Sequence[Callable[..., Any]],
    specs: Sequence[Any],
    known: dict[int, Any],
    columns: Collection[int],
    places: dict[str, dict[int, int]],
) -> tuple[Fused, tuple[int, ...]]:
    """The function of a group, and the slots that it takes.

    Args:
        functions: of every instruction of the program.
        specs: types of all slots.
        known: values of slots that constants decide.
        columns: slots that are wanted column-major.
        places: is told the numbers of instructions, by the file and line of generated code.
    """
    steps = [program.instructions[index] for index in group.instructions]
    turned = {slot for slot in group.gives if slot in columns and specs[slot].rank > 1}
    writers = {
        turns: _TileWriter(program, group, functions, specs, known)
        for turns in ((False, True) if turned else (False,))
    }
    sources = {turns: writer.write(turned if turns else ()) for turns, writer in writers.items()}

    def function(lead: int, turns: bool) -> Callable[..., None]:
        names = writers[turns].names(lead)
        file = f"<tenferro tiles {id(program):x}, {group.instructions[0]}, {lead}, {turns}>"
        places[file] = writers[turns].places
        exec(compile(sources[turns], file, "exec"), names)
        return names["tiles"]

    found = Fused(
        group=group,
        source=sources[False],
        function=function,
        scratch={turns: tuple(writer.scratch) for turns, writer in writers.items()},
        gives=tuple([specs[slot] for slot in group.gives]),
        totals=tuple([specs[slot] for slot in group.totals]),
        columns=tuple([slot in turned for slot in group.gives]),
        folds=tuple([_fold(step, specs) for step in steps if step.output_slots[0] in group.totals]),
        widest=max(specs[slot].dtype.itemsize for step in steps for slot in step.output_slots),
        workers=program.resources.workers,
    )
    return found, tuple(writers[False].takes)


def _fold(step: ExecInstruction, specs: Sequence[Any]) -> Callable[[Any], Any]:
    """What combines the shares of a total: the reduction itself, over the first axis."""
    y: TensorSpec = specs[step.output_slots[0]]
    op: Any = replace(step.op, axes=(0,))
    fold = bound(step.kernel, op, (TensorSpec((1, *y.shape), y.dtype),))
    return lambda shares: np.asarray(fold(shares))


class _TileWriter:
    """Writes what happens to one tile; scratch is used again where a value dies."""

    def __init__(
        self,
        program: ExecProgram,
        group: Group,
        functions: Sequence[Callable[..., Any]],
        specs: Sequence[Any],
        known: dict[int, Any],
    ) -> None:
        self.group, self.specs = group, specs
        self.steps = [program.instructions[index] for index in group.instructions]
        self.functions = [functions[index] for index in group.instructions]
        moved = {s for step in self.steps if not is_elementwise(step.op) for s in step.input_slots}
        scalars = {s for s in group.takes if s in known and not any(known[s].strides)} - moved
        self.scalars = {slot: known[slot][(0,) * known[slot].ndim] for slot in scalars}
        self.takes = [slot for slot in group.takes if slot not in scalars]
        self.scratch: list[TensorSpec] = []
        self.places: dict[int, int] = {}
        self.last: dict[int, int] = {}
        # Slots whose tile has extents of one where the value repeats itself.
        self.thin: set[int] = set()
        # The slot whose memory a view of a tile is.
        self.root: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            if may_view(step.op):
                (slot,) = step.input_slots
                self.root[step.output_slots[0]] = self.root.get(slot, slot)
            self.last.update(dict.fromkeys(self._roots(step.input_slots), number))
        self.sums = self._sums_of_products()
        self.summed = set(self.sums.values())

    def write(self, turned: Collection[int]) -> str:
        """The function's source.

        Args:
            turned: results that are column-major where all else is row-major.
        """
        self.turned = turned
        body = self._body()
        given = ", ".join([
            "i", "j", "tile",
            *[f"s{number}" for number in range(len(self.scratch))],
            *[f"v{s}" for s in self.takes],
            *[f"o{s}" for s in self.group.gives],
            *[f"t{s}" for s in self.group.totals],
        ])  # fmt: skip
        lines = [f"def tiles({given}):"]
        lines += [f"    v{slot} = v{slot}[i:j]" for slot in self.takes]
        lines += [f"    o{slot} = o{slot}[i:j]" for slot in self.group.gives]
        for number, line in body:
            lines.append(f"    {line}")
            self.places[len(lines)] = self.group.instructions[number]
        return "\n".join(lines)

    def _body(self) -> list[tuple[int, str]]:
        lines: list[tuple[int, str]] = []
        free: list[int] = []
        held: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            if number in self.sums:
                made = self._sum_of_products(number, step, held, free)
            elif number in self.summed:
                made = []
            elif is_elementwise(step.op):
                made = self._elementwise(number, step, held, free)
            else:
                made = self._other(number, step)
                self._release(step.input_slots, number, held, free)
            lines += [(number, line) for line in made]
        return lines

    def _elementwise(
        self, number: int, step: ExecInstruction, held: dict[int, int], free: list[int]
    ) -> list[str]:
        """A line that writes into a result or scratch where the function can."""
        (slot,) = step.output_slots
        function = self.functions[number]
        name = self._name(number)
        reads_first = isinstance(function, np.ufunc)
        if into_a_buffer(step.op, function) is None:
            operands = [self._whole(s) for s in step.input_slots]
            self._release(step.input_slots, number, held, free)
            lines = [f"v{slot} = {name}({', '.join(operands)})"]
            if slot in self.group.gives:
                lines.append(f"o{slot}[...] = v{slot}")
            return lines
        operands = [self._operand(s) for s in step.input_slots]
        if reads_first:
            self._release(step.input_slots, number, held, free)
        if slot in self.group.gives and slot not in self.turned:
            target = f"o{slot}"
        else:
            held[slot] = self._buffer(slot, free)
            target = f"s{held[slot]}"
        if not reads_first:
            self._release(step.input_slots, number, held, free)
        lines = [f"v{slot} = {name}({', '.join(operands)}, out={target})"]
        if slot in self.turned:
            lines.append(f"o{slot}[...] = v{slot}")
        return lines

    def _sum_of_products(
        self, number: int, step: ExecInstruction, held: dict[int, int], free: list[int]
    ) -> list[str]:
        """The line of the sum where its product would be; scratch holds the product if that is needed."""
        buffer = self._buffer(step.output_slots[0], free)
        operands = ", ".join([*map(self._whole, step.input_slots), f"s{buffer}"])
        free.append(buffer)
        self._release(step.input_slots, number, held, free)
        return self._folded(self.sums[number], operands)

    def _sums_of_products(self) -> dict[int, int]:
        """For each product that nothing but a sum reads the number of the sum."""
        found: dict[int, int] = {}
        readers = Counter(slot for step in self.steps for slot in step.input_slots)
        numbers = {step.output_slots[0]: number for number, step in enumerate(self.steps)}
        for number, step in enumerate(self.steps):
            (slot, *_) = step.input_slots
            made = numbers.get(slot)
            if (
                type(step.op) is ReduceSum
                and made is not None
                and type(self.steps[made].op) is Multiply
                and has_row_sums(self.specs[slot].dtype)
                and readers[slot] == 1
                and slot not in self.group.gives
                and self.scalars.keys().isdisjoint(self.steps[made].input_slots)
            ):
                found[made] = number
        return found

    def _buffer(self, slot: int, free: list[int]) -> int:
        """The number of scratch for a value: that of one which died, or more."""
        spec = self.specs[slot]
        buffer = next((n for n in free if self.scratch[n] == spec), None)
        if buffer is None:
            self.scratch.append(spec)
            return len(self.scratch) - 1
        free.remove(buffer)
        return buffer

    def _other(self, number: int, step: ExecInstruction) -> list[str]:
        """A reduction, or a view of a tile."""
        if isinstance(step.op, BroadcastInDim):
            self.thin.add(step.output_slots[0])
        return self._folded(number, self._whole(step.input_slots[0]))

    def _folded(self, number: int, operands: str) -> list[str]:
        """The line of a step that is not elementwise."""
        (slot,) = self.steps[number].output_slots
        call = f"{self._name(number)}({operands})"
        if slot in self.group.totals:
            return [f"t{slot}[tile] = {call}"]
        lines = [f"v{slot} = {call}"]
        if slot in self.group.gives:
            lines.append(f"o{slot}[...] = v{slot}")
        return lines

    def _release(
        self, slots: Sequence[int], number: int, held: dict[int, int], free: list[int]
    ) -> None:
        for slot in self._roots(slots):
            if self.last[slot] == number and slot in held:
                free.append(held.pop(slot))

    def _roots(self, slots: Sequence[int]) -> dict[int, None]:
        return dict.fromkeys([self.root.get(slot, slot) for slot in slots])

    def _operand(self, slot: int) -> str:
        return f"c{slot}" if slot in self.scalars else f"v{slot}"

    def _whole(self, slot: int) -> str:
        """The operand with every element there, if only as a view."""
        return f"whole_{slot}(v{slot}, j - i)" if slot in self.thin else self._operand(slot)

    def _name(self, number: int) -> str:
        return f"{self.steps[number].op.name.lower()}_{self.group.instructions[number]}"

    def names(self, lead: int) -> dict[str, Any]:
        """What the source calls, where the leading axes of tiles are so many."""
        found: dict[str, Any] = {f"c{slot}": value for slot, value in self.scalars.items()}
        found |= {f"whole_{slot}": self._widened(slot, lead) for slot in self.thin}
        for number, step in enumerate(self.steps):
            function = self.functions[number]
            found[self._name(number)] = (
                into_a_buffer(step.op, function) or function
                if is_elementwise(step.op)
                else self._of_tiles(number, lead)
            )
        return found

    def _tail(self, slot: int, lead: int) -> tuple[int, ...]:
        """Extents of a slot's tile after the first."""
        merged = self.group.lead - lead + 1
        return self.specs[slot].shape[merged:]

    def _widened(self, slot: int, lead: int) -> Callable[..., Any]:
        tail = self._tail(slot, lead)
        return lambda x, rows: np.broadcast_to(x, (rows, *tail))

    def _of_tiles(self, number: int, lead: int) -> Callable[..., Any]:
        """The function of an op that moves or folds axes, with its axes counted in a tile."""
        step = self.steps[number]
        op: Any = step.op
        all_lead = self.group.lead
        (slot,) = step.input_slots
        y = step.output_types[0]
        if isinstance(op, REDUCTIONS):
            first = tuple(range(lead)) if 0 in op.axes else ()
            axes = (*first, *[axis - all_lead + lead for axis in op.axes if axis >= all_lead])
            x = TensorSpec((1, *self._tail(slot, lead)), self.specs[slot].dtype)
            if number in self.summed:
                return sum_of_products(axes, x.rank, x.dtype)
            return bound(step.kernel, replace(op, axes=axes), (x,))
        if isinstance(op, Reshape):
            tail = y.shape[all_lead:]
            return lambda x: x.reshape((*x.shape[:lead], *tail), order="F")
        assert isinstance(op, BroadcastInDim)
        rank = self.specs[slot].rank
        order = sorted(range(all_lead, rank), key=op.dims.__getitem__)
        perm = (*range(lead), *[axis - all_lead + lead for axis in order])
        extents = {op.dims[axis]: self.specs[slot].shape[axis] for axis in order}
        aligned = tuple([extents.get(axis, 1) for axis in range(all_lead, y.rank)])
        return lambda x: x.transpose(perm).reshape((*x.shape[:lead], *aligned))

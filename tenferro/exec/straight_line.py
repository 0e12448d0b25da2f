"""A program as one Python function: locals for slots, buffers written again where they die.

An interpreter's loop costs several times what NumPy's own call does on small arrays. The function that is
generated here has one line per instruction, with the kernel's own function called by name; `del` at the
last use lets NumPy take the memory again at once. Programs that are too long for one function are cut, and
where they repeat themselves, in steps of what repeats: functions that read alike are compiled once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from types import CodeType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tenferro.collector import without_collections
from tenferro.exec.fusion import fused
from tenferro.exec.grouping import Group, grouped
from tenferro.exec.kernels import may_view
from tenferro.exec.kernels.dot_general import Contraction
from tenferro.exec.memory import plan_memory
from tenferro.exec.repeats import Repeats
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim
from tenferro.program.memory_plan import Block, MemoryPlan
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.exec_program import ExecInstruction, ExecProgram

__all__ = ["StraightLine", "straight_line"]

LONGEST = 1000
"""Instructions of one function; Python compiles several of this size faster than a long one."""
STEP = 250
"""Instructions of one function where the program repeats itself: short ones are compiled sooner, and the same
code is run again and again.
"""
LARGEST_FOLDED = 1 << 16
"""Elements of a value that is computed once, when the program is compiled."""
SMALLEST_BLOCK = 1 << 17
"""Bytes of a value that is given a place; smaller ones stay with the process when they are freed."""
FOREIGN = -1
"""Owns the memory of arguments and constants."""
NEVER = -1
"""Where a slot is last read that is not."""
FREE = (Constant, BroadcastInDim)
"""Ops that take no memory, however large the result."""


@dataclass(frozen=True)
class StraightLine:
    """The generated functions, run one after the other.

    Attributes:
        parts: each takes the values it needs and gives those that later ones need.
        source: of all of them.
        shared: for each output, whether its memory may be another's: an argument's, a constant's or that
            of another output.
        places: numbers of instructions, by the file and line of generated code.
        memory: where values in the middle live.
    """

    parts: tuple[Part, ...]
    source: str
    shared: tuple[bool, ...]
    input_slots: tuple[int, ...]
    output_slots: tuple[int, ...]
    known: dict[int, Any]
    places: dict[str, dict[int, int]]
    memory: MemoryPlan

    def run(self, leaves: Sequence[Any], piece: Any = None) -> list[Any]:
        """Results as the kernels left them.

        Args:
            piece: memory of the plan's size, if that is not zero.

        Raises:
            whatever a kernel raises; `failed` tells at which instruction.
        """
        first = () if piece is None else (piece,)
        if len(self.parts) == 1:
            return self.parts[0].function(*first, *leaves)
        values = dict(zip(self.input_slots, leaves, strict=True)) | self.known
        for part in self.parts:
            found = part.function(*first, *[values[slot] for slot in part.takes])
            for slot in part.drops:
                del values[slot]
            values.update(zip(part.gives, found, strict=True))
        return [values[slot] for slot in self.output_slots]

    def failed(self, traceback: TracebackType | None) -> int | None:
        """The number of the instruction at which an exception was raised."""
        found = None
        while traceback is not None:
            places = self.places.get(traceback.tb_frame.f_code.co_filename)
            if places is not None:
                # A handler of signals may raise where a function begins, which is no instruction's line.
                found = places.get(traceback.tb_lineno, found)
            traceback = traceback.tb_next
        return found


@dataclass(frozen=True)
class Part:
    """One generated function.

    Attributes:
        takes, gives: slots.
        drops: slots of values that nothing needs afterwards.
    """

    function: Callable[..., Any]
    source: str
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    drops: tuple[int, ...]


@without_collections
def straight_line(program: ExecProgram) -> StraightLine:
    """Generate and compile the functions of a program."""
    writer = _Writer(program)
    parts = tuple(writer.parts())
    return StraightLine(
        parts=parts,
        source="\n\n".join([*[part.source for part in parts], *writer.tiles]),
        shared=writer.shared(),
        input_slots=program.input_slots,
        output_slots=program.output_slots,
        known=writer.known,
        places=writer.places,
        memory=writer.memory,
    )


class _Text(NamedTuple):
    """A function as it is written, without `def` and name.

    Attributes:
        first: the line of the first unit.
        functions: names of what the units call, as they come.
    """

    source: str
    code: CodeType
    first: int
    functions: tuple[str, ...]


class _Locals:
    """Names of values in one function. A name whose value dies goes to the next value, which frees it.

    Few names are quick to compile, and `del` is left for those that nothing takes over at once.
    """

    def __init__(self, slots: Sequence[int]) -> None:
        self.of = {slot: f"v{number}" for number, slot in enumerate(slots)}
        self._count = len(slots)
        self._free: list[str] = []

    def statement(self, makes: Sequence[int], call: str, dying: Sequence[int]) -> str:
        """The call's results in locals, and the locals that go with it, some of the results perhaps."""
        freed = [self.of.pop(slot) for slot in dying if slot in self.of]
        targets: list[str] = []
        for slot in makes:
            if freed:
                name = freed.pop()
            elif self._free:
                name = self._free.pop()
            else:
                name = f"v{self._count}"
                self._count += 1
            self.of[slot] = name
            targets.append(name)
        freed += [self.of.pop(slot) for slot in makes if slot in dying]
        self._free += freed
        gone = f"; del {', '.join(freed)}" if freed else ""
        return f"{', '.join(targets)} = {call}{gone}"


def _period(kinds: Sequence[Any]) -> int:
    """The smallest number of places after which a sequence repeats itself, by the prefix function.

    Source: Knuth, Morris and Pratt, "Fast pattern matching in strings", 1977.
    """
    borders = [0]
    for kind in kinds[1:]:
        length = borders[-1]
        while length and kinds[length] is not kind:
            length = borders[length - 1]
        borders.append(length + (kinds[length] is kind))
    return len(kinds) - borders[-1]


def _is_elementwise(function: Any) -> bool:
    """A ufunc of elements, which takes scalars and a buffer; np.matmul is one of matrices."""
    return isinstance(function, np.ufunc) and function.signature is None


class _Writer:
    """What is known of the slots while the program is written down."""

    def __init__(self, program: ExecProgram) -> None:
        self.program = program
        self.known: dict[int, Any] = {}
        # Of the function being written: its locals, its globals, and what these are called.
        self.locals = _Locals(())
        self.names: dict[str, Any] = {}
        self.functions: dict[int, str] = {}
        self.constants: dict[int, str] = {}
        self.compiled: dict[str, CodeType] = {}
        self.written: dict[Hashable, _Text] = {}
        self.inputs = set(program.input_slots)
        self.specs: list[TensorSpec | None] = [None] * program.n_slots
        for slot, spec in zip(program.input_slots, program.input_types, strict=True):
            self.specs[slot] = spec
        for step in program.instructions:
            for slot, spec in zip(step.output_slots, step.output_types, strict=True):
                self.specs[slot] = spec
        self.columns = set(program.output_slots) if program.resources.order == "F" else set[int]()
        self.bound = program.functions
        self.folded = [self._fold(i) for i in range(len(program.instructions))]
        self.is_ufunc = [_is_elementwise(function) for function in self.bound]
        self.units = list(grouped(program, self.specs, self.folded))
        self.reads = [self._reads(unit) for unit in self.units]
        self.makes = [self._makes(unit) for unit in self.units]
        self.places: dict[str, dict[int, int]] = {}
        self.tiles: list[str] = []
        self.last_read = self._last_reads()
        # For a slot, whose memory it may be: slots that made some, or FOREIGN; absent is foreign too.
        # For a slot that made memory in the function being written, how many living slots may look at it.
        self.owners: dict[int, tuple[int, ...]] = {}
        self.lookers: dict[int, int] = {}
        self.scalar_ok = self._scalars()
        self.leaving = set[int]()
        self.memory = self._plan()
        self.blocks = {block.slot: block for block in self.memory.blocks}

    def _fold(self, index: int) -> bool:
        """Compute it now, where every operand is known and the result is small or a view."""
        step = self.program.instructions[index]
        for slot in step.input_slots:
            if slot not in self.known:
                return False
        small = all([spec.is_static and spec.size <= LARGEST_FOLDED for spec in step.output_types])
        if isinstance(step.op, Extension | ControlOp) or not (small or isinstance(step.op, FREE)):
            return False
        try:
            with np.errstate(all="ignore"):
                found = self.bound[index](*[self.known[slot] for slot in step.input_slots])
        except (ValueError, MemoryError):
            return False  # because the run says which line asked for it, if it comes there at all
        made = (found,) if len(step.output_slots) == 1 else found
        for slot, value in zip(step.output_slots, made, strict=True):
            array = np.asarray(value)
            array.flags.writeable = False
            self.known[slot] = array
        return True

    def _last_reads(self) -> list[int]:
        """The last unit that reads each slot: one past the end for outputs and what is known, NEVER where
        none does.
        """
        found = [NEVER] * self.program.n_slots
        for position, slots in enumerate(self.reads):
            for slot in slots:
                found[slot] = position
        for slot in (*self.program.output_slots, *self.known):
            found[slot] = len(self.units)
        return found

    def _reads(self, unit: int | Group) -> tuple[int, ...]:
        return (
            unit.takes if isinstance(unit, Group) else self.program.instructions[unit].input_slots
        )

    def _makes(self, unit: int | Group) -> tuple[int, ...]:
        return (
            unit.makes if isinstance(unit, Group) else self.program.instructions[unit].output_slots
        )

    def _scalars(self) -> set[int]:
        """Rank-0 slots that only ufuncs read: they may be NumPy scalars, which are faster there."""
        found = {
            slot for slot, spec in enumerate(self.specs) if spec is not None and not spec.shape
        }
        found -= set(self.program.output_slots)
        if found:
            for step, is_ufunc, folded in zip(
                self.program.instructions, self.is_ufunc, self.folded, strict=True
            ):
                if not folded and not is_ufunc:
                    found.difference_update(step.input_slots)
        return found

    def parts(self) -> Iterator[Part]:
        """The functions, one if the program is not too long."""
        count = len(self.units)
        if count <= LONGEST:
            yield self.part(0, count, whole=True)
            return
        steps = self.program.instructions
        kinds = [None if isinstance(unit, Group) else type(steps[unit].op) for unit in self.units]
        repeats = self._repeats()
        start = 0
        while start < count:
            period = _period(kinds[start : start + min(2 * STEP, LONGEST)])
            repeating = 2 * period <= STEP
            length = min(STEP, LONGEST) if repeating else LONGEST
            stop = min(start + length - length % period, count)
            yield self.part(start, stop, False, repeats if repeating else None)
            start = stop

    def part(self, start: int, stop: int, whole: bool, repeats: Repeats | None = None) -> Part:
        """The function of some units; of the whole program, it takes the arguments."""
        made = set[int]().union(*self.makes[start:stop])
        read = set[int]().union(*self.reads[start:stop])
        taken = sorted([slot for slot in read - made if slot not in self.known])
        takes = self.program.input_slots if whole else tuple(taken)
        gives = (
            self.program.output_slots
            if whole
            else tuple(sorted([slot for slot in made if self.last_read[slot] >= stop]))
        )
        if not whole:
            self.lookers = {}  # because the caller holds what it hands over
        key = None if repeats is None else repeats.key(start, stop)
        text = None if key is None else self.written.get(key)
        if text is None:
            text = self._text(start, stop, takes, gives)
            if key is not None:
                self.written[key] = text
        else:
            self._read_again(text, start, stop)
        name, file = f"run_{start}", f"<tenferro program {id(self.program):x}, from {start}>"
        numbers = [u.instructions[0] if isinstance(u, Group) else u for u in self.units[start:stop]]
        self.places[file] = dict(enumerate(numbers, text.first))
        drops = tuple([slot for slot in taken if self.last_read[slot] < stop])
        function = FunctionType(text.code.replace(co_name=name, co_filename=file), self.names)
        return Part(function, f"def {name}{text.source}", tuple(takes), tuple(gives), drops)

    def _text(self, start: int, stop: int, takes: Sequence[int], gives: Sequence[int]) -> _Text:
        """Write the function down."""
        self.locals = _Locals(takes)
        self.names, self.functions, self.constants = {"asarray": np.asarray}, {}, {}
        names = self.locals.of
        parameters = [*(["arena"] if self.blocks else []), *[names[slot] for slot in takes]]
        lines = [f"({', '.join(parameters)}):"]
        # Arguments that are numbers to ufuncs, as numbers.
        lines += [
            f"    {names[slot]} = {names[slot]}[()]"
            for slot in takes
            if slot in self.scalar_ok and slot in self.inputs
        ]
        first = len(lines) + 1
        for position in range(start, stop):
            is_group = isinstance(self.units[position], Group)
            lines.append(f"    {(self._group_line if is_group else self._line)(position)}")
        given = ", ".join(self._name(slot) for slot in gives)
        lines.append(f"    return [{given}]")
        source = "\n".join(lines)
        return _Text(source, self._compiled(source), first, tuple(self.functions.values()))

    def _read_again(self, text: _Text, start: int, stop: int) -> None:
        """Give the names of a text that fits to what these units call, and note what they make."""
        units: Any = self.units[start:stop]
        functions = {id(self.bound[index]): self.bound[index] for index in units}
        self.names = dict(zip(text.functions, functions.values(), strict=True))
        self.names["asarray"] = np.asarray
        self.constants = {}
        for slot in chain.from_iterable(self.reads[start:stop]):
            if slot in self.known:
                self._constant(slot)
        for index in units:
            self._own(self.program.instructions[index], self.is_ufunc[index])

    def _repeats(self) -> Repeats | None:
        """What stretches of the program are compared by; None if some have places in memory, or tiles, of their own."""
        if self.blocks or self.leaving or any([isinstance(unit, Group) for unit in self.units]):
            return None
        units: Any = self.units
        steps = [self.program.instructions[index] for index in units]
        functions = [self.bound[index] for index in units]
        words = [
            (step.op.name, may_view(step.op), len(step.input_slots), is_ufunc and function)
            for step, function, is_ufunc in zip(
                steps, functions, [self.is_ufunc[index] for index in units], strict=True
            )
        ]
        marks = [
            (id(spec), slot in self.scalar_ok, slot in self.inputs, slot in self.known)
            for slot, spec in enumerate(self.specs)
        ]
        return Repeats(words, functions, self.reads, self.makes, self.last_read, marks)

    def _compiled(self, source: str) -> CodeType:
        """The code of a function, given without `def` and name."""
        code = self.compiled.get(source)
        if code is None:
            module = compile(f"def run{source}", "<tenferro program>", "exec")
            (code,) = [each for each in module.co_consts if isinstance(each, CodeType)]
            self.compiled[source] = code
        return code

    def _dying(self, position: int) -> list[int]:
        """Slots that this unit is the last to read."""
        last_read = self.last_read
        found = [slot for slot in self.reads[position] if last_read[slot] == position]
        return found if len(found) < 2 else list(dict.fromkeys(found))

    def _group_line(self, position: int) -> str:
        """A group: one call."""
        group: Any = self.units[position]
        function, takes = fused(
            self.program, group, self.bound, self.specs, self.known, self.columns, self.places
        )
        name = f"tiles_{group.instructions[0]}"
        self.tiles.append(function.source.replace("def tiles(", f"def {name}("))
        self.names[name] = function
        dying = self._dying(position)
        for slot in group.makes:
            self.owners[slot] = (slot,)
            self.lookers[slot] = 1
        for slot in dying:
            self._die(slot)
        arguments = [self._name(slot) for slot in takes]
        if any([self._has_place(slot) for slot in group.gives]):
            places = [
                self._place(slot) if self._has_place(slot) else "None" for slot in group.gives
            ]
            arguments.append(f"into=[{', '.join(places)}]")
        return self.locals.statement(group.makes, f"{name}({', '.join(arguments)})", dying)

    def _line(self, position: int) -> str:
        """One instruction: the call, and the names that die with it."""
        index: Any = self.units[position]
        step, function = self.program.instructions[index], self.bound[index]
        dying = self._dying(position)
        arguments = [self._name(slot) for slot in step.input_slots]
        is_ufunc = self.is_ufunc[index]
        buffer = self._buffer(step, dying) if dying and is_ufunc else None
        if buffer is not None:
            arguments.append(f"out={self.locals.of[buffer]}")
        if self._has_place(step.output_slots[0]):
            arguments.append(f"into={self._place(step.output_slots[0])}")
        self._own(step, is_ufunc)
        call = f"{self._function(function, step.op)}({', '.join(arguments)})"
        if len(step.output_slots) == 1:
            (slot,) = step.output_slots
            spec = self.specs[slot]
            if spec is not None and not spec.shape and slot not in self.scalar_ok:
                call = f"asarray({call})"
        dying += [slot for slot in step.output_slots if self.last_read[slot] == NEVER]
        for slot in dying:
            self._die(slot)
        return self.locals.statement(step.output_slots, call, dying)

    def _name(self, slot: int) -> str:
        return self.locals.of.get(slot) or self._constant(slot)

    def _constant(self, slot: int) -> str:
        name = self.constants.get(slot)
        if name is None:
            name = self.constants[slot] = f"c{len(self.constants)}"
            value = self.known[slot]
            self.names[name] = value[()] if slot in self.scalar_ok else value
        return name

    def _function(self, function: Any, op: StdTensorOp) -> str:
        name = self.functions.get(id(function))
        if name is None:
            plain = re.sub(r"\W", "_", op.name)  # because families have dots in their names
            name = function.__name__ if isinstance(function, np.ufunc) else plain
            if name in self.names:
                name = f"{name}_{len(self.functions)}"
            self.functions[id(function)] = name
            self.names[name] = function
        return name

    # ---- memory for values in the middle -------------------------------------------------------

    def _plan(self) -> MemoryPlan:
        """Places for large values that stay inside, and that their makers can write into a place."""
        if not any([self._placeable(unit) for unit in self.units]):
            return plan_memory(())
        roots: dict[int, set[int]] = {}
        spans: dict[int, tuple[int, int]] = {}
        leaving: set[int] = set()
        for position, unit in enumerate(self.units):
            read = {root for slot in self.reads[position] for root in roots.get(slot, ())}
            spans |= {root: (spans[root][0], position) for root in read}
            placed = self._placeable(unit)
            for slot in self.makes[position]:
                spec: Any = self.specs[slot]
                if slot in placed and spec.is_static and spec.nbytes >= SMALLEST_BLOCK:
                    roots[slot] = {slot}
                    spans[slot] = (position, position)
                elif not isinstance(unit, Group) and may_view(self.program.instructions[unit].op):
                    roots[slot] = read
            if not isinstance(unit, Group) and isinstance(
                self.program.instructions[unit].op, Extension
            ):
                leaving |= read  # because a runtime may keep what it is given
        for slot in self.program.output_slots:
            leaving |= roots.get(slot, set())
        self.leaving = leaving & spans.keys()
        return plan_memory([
            Block(slot, self.specs[slot].nbytes, *span)  # pyright: ignore[reportOptionalMemberAccess]  # because every slot has been written
            for slot, span in spans.items()
            if slot not in leaving
        ])  # fmt: skip

    def _placeable(self, unit: int | Group) -> tuple[int, ...]:
        """Slots whose maker takes `into`."""
        if isinstance(unit, Group):
            return unit.gives
        takes = isinstance(self.bound[unit], Contraction)
        return self.program.instructions[unit].output_slots if takes else ()

    def _has_place(self, slot: int) -> bool:
        return slot in self.blocks or slot in self.leaving

    def _place(self, slot: int) -> str:
        """Bytes in the arena; for what leaves the program, such as its executor has of results that died."""
        if slot in self.leaving:
            self.names["result"] = self.program.resources.results.take
            spec: Any = self.specs[slot]
            return f"result({spec.nbytes})"
        block = self.blocks[slot]
        return f"arena[{block.offset}:{block.offset + block.size}]"

    # ---- whose memory is whose -----------------------------------------------------------------

    def _buffer(self, step: ExecInstruction, dying: Iterable[int]) -> int | None:
        """A dying operand of the result's type whose memory nobody else looks at."""
        (output,) = step.output_types
        if not output.shape:
            return None
        for slot in dying:
            alone = self.lookers.get(slot) == 1 and self.owners[slot] == (slot,)
            if alone and slot not in self.blocks and self.specs[slot] == output:
                return slot
        return None

    def _own(self, step: ExecInstruction, is_ufunc: bool) -> None:
        """Note whose memory the results are."""
        if is_ufunc or not may_view(step.op):
            for slot in step.output_slots:
                # A buffer that is written again is owned by the slot that it is now known by.
                self.owners[slot] = (slot,)
                self.lookers[slot] = 1
            return
        owners = {o for s in step.input_slots for o in self.owners.get(s, (FOREIGN,))}
        if not owners:
            owners.add(FOREIGN)
        for slot in step.output_slots:
            self.owners[slot] = tuple(sorted(owners))
            for owner in owners & self.lookers.keys():
                self.lookers[owner] += 1

    def _die(self, slot: int) -> None:
        for owner in self.owners.get(slot, ()):
            if owner in self.lookers:
                self.lookers[owner] -= 1

    def shared(self) -> tuple[bool, ...]:
        """Which outputs may share memory with an argument, a constant or another output."""
        outputs = self.program.output_slots
        owners = [self.owners.get(slot, (FOREIGN,)) for slot in outputs]
        times = Counter([owner for several in owners for owner in several])
        return tuple([
            any([owner == FOREIGN or times[owner] > 1 for owner in several]) for several in owners
        ])  # fmt: skip

"""Loops that are not compiled, as printed Python: one function for all turns, loops inside of it included.

It decides nothing: what is done once, what is written over and what is a number stands in the schedules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from tenferro.exec.claims import own
from tenferro.exec.interpreter import located
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.exec.statements import Locals, Names, Writer
from tenferro.ops.control import Scan, While
from tenferro.tracebacks import line_number
from tenferro.types import DType

__all__ = ["Loop", "LoopFunction"]

MAX_NESTED_LOOPS = 16
"""Maximum number of loops inside each other in one function; Python compiles 20."""


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop as a function of its operands.

    Attributes:
        op: the loop.
        parts: the schedules of its body, and before it that of a condition.
        once: the number of the body's first steps that are the same in every turn.
        counters: carries that are Python's integers, by their number.
        copied: carries that are written over: the order in which the first value is copied.
        settled: carries that end in memory of their own.
    """

    op: Scan | While
    parts: tuple[ExecProgram, ...]
    once: int
    counters: frozenset[int]
    copied: Mapping[int, str]
    settled: frozenset[int]

    @property
    def consts(self) -> int:
        """The number of operands that are the same in every turn."""
        return self.op.num_consts

    @property
    def carries(self) -> int:
        """The number of operands that are the results of the turn before."""
        return self.op.num_carry if isinstance(self.op, Scan) else len(self.body.output_slots)

    @property
    def body(self) -> ExecProgram:
        """The schedule of a turn."""
        return self.parts[-1]

    def __str__(self) -> str:
        return self.op.name


class LoopFunction:
    """A loop as a function of arrays, printed when it is first called.

    Attributes:
        loop: what is printed.
    """

    def __init__(self, step: ExecInstruction, loop: Loop) -> None:
        self.step, self.loop = step, loop
        self._function: Any = None
        self._steps: dict[int, tuple[ExecInstruction, ...]] = {}
        self._file = ""

    def __call__(self, *arrays: Any) -> Any:
        """The results.

        Raises:
            BackendFailureError: a kernel failed, with op and user line.
        """
        function = self._function or self._printed()
        try:
            return function(*arrays)
        except Exception as error:
            laid = error
            for step in self._failed(error):
                laid = located(step, laid)
            if laid is error:
                raise
            raise laid from error

    def source(self, name: str = "run") -> str:
        """The function."""
        return self._printer().source(name)

    def _printer(self) -> _Printer:
        count = len(self.step.input_slots)
        outputs = range(count, count + len(self.step.output_slots))
        slots = {"input_slots": tuple(range(count)), "output_slots": tuple(outputs)}
        return _Printer(self.step._replace(**slots, frees=()), self.loop)

    def _printed(self) -> Any:
        printer = self._printer()
        module = compile(printer.source("turn"), "<tenferro program>", "exec")
        (code,) = [each for each in module.co_consts if isinstance(each, CodeType)]
        self._file = f"<tenferro program {id(self):x}, {self.loop}>"
        self._steps = printer.steps
        self._function = FunctionType(code.replace(co_filename=self._file), printer.names.values)
        return self._function

    def _failed(self, error: Exception) -> tuple[ExecInstruction, ...]:
        """The step at which an exception was raised, and the loops around it, from inside out."""
        steps: tuple[ExecInstruction, ...] = ()
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self._file:
                steps = self._steps.get(line_number(traceback), ())
            traceback = traceback.tb_next
        return steps


class _Printer:
    """Prints a loop as a function.

    Attributes:
        steps: by the line, the step that it runs, and the loops around.
    """

    def __init__(self, step: ExecInstruction, loop: Loop) -> None:
        outer = ExecProgram(
            instructions=(step,),
            input_slots=step.input_slots,
            output_slots=step.output_slots,
            types=(),
            resources=loop.body.resources,
        )
        writer = Writer(outer, Names(outer), Locals(step.input_slots))
        self.names = writer.names
        self.steps: dict[int, tuple[ExecInstruction, ...]] = {}
        self._around: list[ExecInstruction] = []
        self._indent = 1
        head = ", ".join([writer.name_of(slot) for slot in step.input_slots])
        self._lines = [f"({head}):"]
        self._loop(writer, step, loop)
        self._add(f"return {', '.join(map(writer.name_of, step.output_slots))}")

    def source(self, name: str) -> str:
        """The text."""
        return "\n".join([f"def {name}{self._lines[0]}", *self._lines[1:]])

    def _add(self, text: str, *step: ExecInstruction) -> None:
        """Lines of a step, or of the innermost loop itself."""
        for line in text.split("\n"):
            self._lines.append("    " * self._indent + line)
            self.steps[len(self._lines)] = (*step, *reversed(self._around))

    def _steps(self, writer: Writer, steps: Sequence[ExecInstruction]) -> None:
        for step in steps:
            if isinstance(step.function, LoopFunction):
                self._around.append(step)
                if len(self._around) < MAX_NESTED_LOOPS:
                    self._loop(writer, step, step.function.loop)
                else:
                    self._call(writer, step)
                self._around.pop()
            else:
                self._add(writer.statement(step), step)

    def _loop(self, outer: Writer, step: ExecInstruction, loop: Loop) -> None:
        body = loop.body
        writers = [
            Writer(part, self.names, outer.locals.inner(), outer.locals.new())
            for part in loop.parts
        ]
        writer, steps = writers[-1], body.instructions
        values = writer.locals
        memory = body.resources.memory
        self.names.values.update(take=memory.take, give=memory.give)
        arenas = [
            (each.arena, each.program.memory.size) for each in writers if each.program.memory.size
        ]
        for name, size in arenas:
            self._add(f"{name} = take({size})")
        n, m = loop.consts, loop.carries
        operands = [
            (outer.name_of(slot), slot in outer.program.numbers) for slot in step.input_slots
        ]
        for slot, (name, is_number) in zip(body.input_slots[:n], operands[:n], strict=True):
            writer.pinned[slot] = self._kept(
                values, _form(name, is_number, slot in body.numbers, body.types[slot].dtype)
            )
        carries: list[str] = []
        for number, slot in enumerate(body.input_slots[n : n + m]):
            name, is_number = operands[n + number]
            order = loop.copied.get(number)
            form = (
                f"int({name})" if number in loop.counters
                else f"{name}.copy({order!r})" if order
                else _form(name, is_number, slot in body.numbers, body.types[slot].dtype)
            )  # fmt: skip
            carries.append(values.new())
            values.of[slot] = carries[-1]
            self._add(f"{carries[-1]} = {form}")
        rows = self._rows(values, loop)
        self._steps(writer, steps[: loop.once])
        results = [slot for each in steps[: loop.once] for slot in each.output_slots]
        writer.pinned.update([(slot, values.of.pop(slot)) for slot in results if slot in values.of])
        xs = list(zip(body.input_slots[n + m :], operands[n + m :], strict=True))
        turn = values.new()
        self._add(self._head(loop.op, turn))
        self._indent += 1
        if isinstance(loop.op, While):
            self._condition(writers[0], writer, carries)
        for slot, (name, _) in xs:
            values.of[slot] = values.new()
            spec = body.types[slot]
            form = (
                _element(name, turn, spec.dtype) if slot in body.numbers
                else f"{name}[{turn}]" if spec.shape
                else f"{name}[{turn}, ...]"
            )  # fmt: skip
            self._add(f"{values.of[slot]} = {form}")
        self._steps(writer, steps[loop.once :])
        for row, slot in zip(rows, body.output_slots[m:], strict=True):
            self._add(f"{row}[{turn}] = {writer.name_of(slot)}")
        self._turned(writer, carries, loop)
        self._indent -= 1
        self._ends(outer, step, loop, carries, rows)
        for name, _ in arenas:
            self._add(f"give({name})")

    def _call(self, outer: Writer, step: ExecInstruction) -> None:
        """The call of a loop that is a function of its own, of arrays and with arrays as results."""
        types, numbers = outer.program.types, outer.program.numbers
        arguments = [
            _form(outer.name_of(slot), slot in numbers, False, types[slot].dtype)
            for slot in step.input_slots
        ]
        call = f"{self.names.value(step.op.name, step.function)}({', '.join(arguments)})"
        results = [outer.locals.new() for _ in step.output_slots]
        self._add(f"{', '.join(results)} = {call}" if results else call)
        forms = [
            _form(result, False, slot in numbers, types[slot].dtype)
            for result, slot in zip(results, step.output_slots, strict=True)
        ]
        self._add(outer.locals.statement(step.output_slots, ", ".join(forms), step.frees))
        if results:
            self._add(f"del {', '.join(results)}")

    def _kept(self, values: Locals, form: str) -> str:
        """A name for a value that is the same in every turn."""
        if form.isidentifier():
            return form
        name = values.new()
        self._add(f"{name} = {form}")
        return name

    def _rows(self, values: Locals, loop: Loop) -> list[str]:
        """Arrays for the results of turns."""
        if not isinstance(loop.op, Scan):
            return []
        names: list[str] = []
        for slot in loop.body.output_slots[loop.carries :]:
            spec = loop.body.types[slot]
            empty = self.names.value("empty", np.empty)
            dtype = self.names.value(spec.dtype.short.rstrip("[]"), spec.dtype.dtype)
            names.append(values.new())
            self._add(f"{names[-1]} = {empty}({(loop.op.length, *spec.shape)}, {dtype})")
        return names

    def _head(self, op: Scan | While, turn: str) -> str:
        if isinstance(op, While):
            return "while True:"
        last = op.length - 1
        return f"for {turn} in range({f'{last}, -1, -1' if op.reverse else op.length}):"

    def _condition(self, condition: Writer, body: Writer, carries: Sequence[str]) -> None:
        """The steps of a condition, and the way out."""
        program, inputs = body.program, body.program.input_slots
        names = [body.pinned[slot] for slot in inputs[: len(inputs) - len(carries)]]
        for slot, mine, name in zip(
            condition.program.input_slots, inputs, [*names, *carries], strict=True
        ):
            dtype = program.types[mine].dtype
            form = _form(name, mine in program.numbers, slot in condition.program.numbers, dtype)
            condition.pinned[slot] = self._kept(condition.locals, form)
        self._steps(condition, condition.program.instructions)
        (slot,) = condition.program.output_slots
        self._add(f"if not {condition.name_of(slot)}: break")

    def _turned(self, writer: Writer, carries: Sequence[str], loop: Loop) -> None:
        """The results of a turn become the operands of the next."""
        program = writer.program
        inputs = program.input_slots[loop.consts :]
        pairs: list[tuple[str, str]] = []
        gone: list[str] = []
        for name, slot, output in zip(carries, inputs, program.output_slots, strict=False):
            result = writer.name_of(output)
            dtype = program.types[slot].dtype
            form = _form(result, output in program.numbers, slot in program.numbers, dtype)
            pairs.append((name, form))
            if output in writer.locals.of and result not in carries and program.types[output].shape:
                gone.append(result)
        pairs = [(name, form) for name, form in pairs if name != form]
        if pairs:
            targets, forms = (", ".join(each) for each in zip(*pairs, strict=True))
            dropped = f"; del {', '.join(dict.fromkeys(gone))}" if gone else ""
            self._add(f"{targets} = {forms}{dropped}")
        elif not loop.body.instructions:
            self._add("pass")

    def _ends(
        self,
        outer: Writer,
        step: ExecInstruction,
        loop: Loop,
        carries: Sequence[str],
        rows: Sequence[str],
    ) -> None:
        """The results in the names around, in memory of their own."""
        body = loop.body
        slots = body.input_slots[loop.consts :]
        unsettled = [
            name for number, (name, slot) in enumerate(zip(carries, slots, strict=False))
            if slot not in body.numbers and number not in loop.settled
        ]  # fmt: skip
        if unsettled:
            arrays = [slot for slot in step.input_slots if slot not in outer.program.numbers]
            beside = ", ".join(map(outer.name_of, arrays))
            listed = ", ".join(unsettled)
            self._add(f"{listed}, = {self.names.value('own', own)}([{listed}], [{beside}])")
        forms: list[str] = []
        for number, output in enumerate(step.output_slots):
            to_number = output in outer.program.numbers
            if number in loop.counters:
                dtype = body.types[slots[number]].dtype
                number_of = self.names.value(dtype.value, dtype.dtype.type)
                forms.append(_form(f"{number_of}({carries[number]})", True, to_number, dtype))
            elif number < len(carries):
                is_number = slots[number] in body.numbers
                dtype = body.types[slots[number]].dtype
                forms.append(_form(carries[number], is_number, to_number, dtype))
            else:
                forms.append(rows[number - len(carries)])
        self._add(outer.locals.statement(step.output_slots, ", ".join(forms), step.frees))
        if names := [*carries, *rows]:
            self._add(f"del {', '.join(names)}")


def _form(name: str, is_number: bool, to_number: bool, dtype: DType) -> str:
    """A value of rank 0 as a number or as an array; all others as they are."""
    if is_number == to_number:
        return name
    return _element(name, "", dtype) if to_number else f"asarray({name})"


def _element(name: str, subscript: str, dtype: DType) -> str:
    """An element of an array as a number, which is Python's if it is float64."""
    return f"{name}.item({subscript})" if dtype is DType.F64 else f"{name}[{subscript or '()'}]"

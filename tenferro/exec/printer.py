"""Printer of schedules as Python functions with one local variable per slot. It makes no planning decisions.

The first run of a schedule is interpreted, because printing and compiling Python take longer than one run.
Later runs use the printed code.

On small arrays the interpreter's loop takes several times as long as the NumPy calls. The printed source has
one line per step, which calls the kernel's function by name. Each local is deleted after its last use, so that
NumPy can reuse the memory at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType, TracebackType
from typing import Any

from tenferro.exec.interpreter import interpret, located
from tenferro.exec.schedule import ExecInstruction, ExecProgram, InPlace, Place, Pooled
from tenferro.tracebacks import line_number

__all__ = ["Names", "Runner", "failed_step", "printed", "source_of"]


class Runner:
    """Function that runs a schedule, whatever NumPy's error state and buffer size.

    Args:
        prints: use printed code from the second run on; the results are the same.
    """

    __slots__ = ("_function", "_has_run", "_prints", "program")

    def __init__(self, program: ExecProgram, prints: bool = True) -> None:
        self.program = program
        self._prints = prints
        self._has_run = False
        self._function: Callable[..., list[Any]] | None = None

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the results.

        Raises:
            BackendFailureError: a kernel failed, with op and user line.
        """
        if self._function is None:
            if not (self._prints and self._has_run):
                self._has_run = True
                return interpret(self.program, leaves)
            self._function = printed(self.program)
        size = self.program.memory.size
        arena = (self.program.resources.memory.acquire(size),) if size else ()
        try:
            return self._function(*arena, *leaves)
        except Exception as error:
            step = failed_step(self.program, error.__traceback__)
            laid = error if step is None else located(step, error)
            if laid is error:
                raise
            raise laid from error
        finally:
            if arena:
                self.program.resources.memory.release(*arena)


def printed(program: ExecProgram) -> Callable[..., list[Any]]:
    """Return the schedule as a compiled function of an arena, if it has one, and of the leaves."""
    source, names = _text(program)
    module = compile(f"def run{source}", _file(program), "exec")
    (code,) = [each for each in module.co_consts if isinstance(each, CodeType)]
    return FunctionType(code, names)


def failed_step(program: ExecProgram, traceback: TracebackType | None) -> ExecInstruction | None:
    """Return the step of the printed function that raised an exception."""
    steps, failed = program.instructions, None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _file(program):
            number = line_number(traceback) - 2  # behind the parameters
            # A signal handler may raise on the function's first line, which belongs to no step.
            failed = steps[number] if 0 <= number < len(steps) else failed
        traceback = traceback.tb_next
    return failed


def _file(program: ExecProgram) -> str:
    return f"<tenferro program {id(program):x}>"


def source_of(program: ExecProgram, name: str = "run") -> str:
    """Return the schedule as Python, with the bodies of groups and loops."""
    sources = [f"def {name}{_text(program)[0]}"]
    for number, step in enumerate(program.instructions):
        kind = step.op.name.partition("(")[0].partition(" ")[0].lower()
        sources += [
            source_of(body, f"{kind}_{number}_{number_of_body}")
            for number_of_body, body in enumerate(step.bodies)
        ]
    return "\n\n".join(sources)


def _text(program: ExecProgram) -> tuple[str, dict[str, Any]]:
    """Return the text after `def` and the name, and the objects that it refers to by name.

    The first line has the parameters, and each step has one line.
    """
    names = Names(program)
    parameters = [
        *(["arena"] if program.memory.size else []),
        *map(names.slot, program.input_slots),
    ]
    lines = [f"({', '.join(parameters)}):"]
    lines += [f"    {names.statement(step)}" for step in program.instructions]
    lines.append(f"    return [{', '.join(map(names.slot, program.output_slots))}]")
    return "\n".join(lines), names.values


class Names:
    """Names of objects in the text of a schedule.

    Attributes:
        values: functions and constants by name.
    """

    def __init__(self, program: ExecProgram) -> None:
        self.program = program
        self.values: dict[str, Any] = {"asarray": program.resources.as_array}
        self._of: dict[int, str] = {}

    def function(self, step: ExecInstruction) -> str:
        """Return the name of a step's function."""
        plain = step.function.__name__ if step.is_ufunc else step.op.name.partition("(")[0]
        return self.value(re.sub(r"\W", "_", plain), step.function)  # because ids have dots

    def value(self, name: str, value: Any) -> str:
        """Return the name of a value: `name`, with a number appended if another value has it."""
        name_of_value = self._of.get(id(value))
        if name_of_value is None:
            name_of_value = f"{name}_{len(self._of)}" if name in self.values else name
            self._of[id(value)] = name_of_value
            self.values[name_of_value] = value
        return name_of_value

    def slot(self, slot: int) -> str:
        """Return the name of a slot's value."""
        constants = self.program.constants
        return self.value("c", constants[slot]) if slot in constants else f"v{slot}"

    def statement(self, step: ExecInstruction) -> str:
        """Return the statement of a step, followed by the deletion of the values that it uses last."""
        arguments = list(map(self.slot, step.input_slots))
        if step.out is not None:
            arguments.append(f"out={self.slot(step.out)}")
        elif step.places:
            arguments.append(f"into=[{', '.join(map(self._memory, step.places))}]")
        text = f"{self.function(step)}({', '.join(arguments)})"
        # A kernel may return NumPy scalars instead of arrays of rank 0.
        if not all([spec.shape for spec in step.output_types]):
            text = f"asarray({text})" if len(step.output_types) == 1 else f"map(asarray, {text})"
        if step.output_slots:
            text = f"{', '.join(map(self.slot, step.output_slots))} = {text}"
        return f"{text}; del {', '.join(map(self.slot, step.frees))}" if step.frees else text

    def _memory(self, place: Place | None) -> str:
        if isinstance(place, InPlace):
            return self.slot(place.slot)
        if isinstance(place, Pooled):
            self.values["allocate"] = self.program.resources.memory.allocate
            return f"allocate({place.size})"
        return str(place)  # bytes of the arena, or None

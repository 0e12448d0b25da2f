"""Printer of schedules as Python functions, in which each slot is a local variable.

On small arrays, the interpreter takes several times as long as NumPy. The printed function has one line for each step,
which calls the kernel's function by name. A variable is deleted after its last use, so that NumPy can reuse its memory.

The first run of a schedule is interpreted, because printing and compiling take longer than one run. Later runs call
the printed function. The printer makes no planning decisions.
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
    """Function that runs a schedule; it does not set NumPy's error state and buffer size.

    Args:
        prints: whether runs after the first call the printed function.
    """

    __slots__ = ("_function", "_has_run", "_prints", "program")

    def __init__(self, program: ExecProgram, prints: bool = True) -> None:
        self.program = program
        self._prints = prints
        self._has_run = False
        self._function: Callable[..., list[Any]] | None = None

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        """Return the list of results.

        Raises:
            BackendFailureError: a kernel failed; the error names the op and the user's line.
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
    """Return the printed function. Its parameters are the arena, if the schedule has one, and the inputs."""
    source, names = _text(program)
    module = compile(f"def run{source}", _file(program), "exec")
    (code,) = [each for each in module.co_consts if isinstance(each, CodeType)]
    return FunctionType(code, names)


def failed_step(program: ExecProgram, traceback: TracebackType | None) -> ExecInstruction | None:
    """Return the step in the printed function that raised an exception; None if no step did."""
    steps, failed = program.instructions, None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _file(program):
            number = line_number(traceback) - 2  # because the first line contains the parameters
            # If a signal handler raised the exception on the first line, there is no step.
            failed = steps[number] if 0 <= number < len(steps) else failed
        traceback = traceback.tb_next
    return failed


def _file(program: ExecProgram) -> str:
    return f"<tenferro program {id(program):x}>"


def source_of(program: ExecProgram, name: str = "run") -> str:
    """Return the text of the schedule's Python function and of the functions of its bodies."""
    sources = [f"def {name}{_text(program)[0]}"]
    for number, step in enumerate(program.instructions):
        kind = step.op.name.partition("(")[0].partition(" ")[0].lower()
        sources += [
            source_of(body, f"{kind}_{number}_{number_of_body}")
            for number_of_body, body in enumerate(step.bodies)
        ]
    return "\n\n".join(sources)


def _text(program: ExecProgram) -> tuple[str, dict[str, Any]]:
    """Return the text of the printed function after its name, and the objects that the text names.

    The first line contains the parameters. Each step has one line.
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
    """Names in the text of a printed function; `values` contains the functions and constants by name."""

    def __init__(self, program: ExecProgram) -> None:
        self.program = program
        self.values: dict[str, Any] = {"asarray": program.resources.as_array}
        self._of: dict[int, str] = {}

    def function(self, step: ExecInstruction) -> str:
        plain = step.function.__name__ if step.is_ufunc else step.op.name.partition("(")[0]
        return self.value(re.sub(r"\W", "_", plain), step.function)  # ids of families have dots

    def value(self, name: str, value: Any) -> str:
        """Return the name of a value: `name`, followed by a number if another value has this name."""
        name_of_value = self._of.get(id(value))
        if name_of_value is None:
            name_of_value = f"{name}_{len(self._of)}" if name in self.values else name
            self._of[id(value)] = name_of_value
            self.values[name_of_value] = value
        return name_of_value

    def slot(self, slot: int) -> str:
        """Return the name of the variable or constant for a slot."""
        constants = self.program.constants
        return self.value("c", constants[slot]) if slot in constants else f"v{slot}"

    def statement(self, step: ExecInstruction) -> str:
        """Return the line of a step, which also deletes the variables that the step frees."""
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
        return str(place)  # a slice of the arena, or None

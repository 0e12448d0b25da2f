"""The printer: a schedule as Python functions, with locals for slots. It decides nothing.

An interpreter's loop costs several times what NumPy's own call does on small arrays. The printed source has
one line per step, with the kernel's function called by name. After the last use of its value a local is reused
or deleted, so that NumPy can use the memory at once.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, TracebackType
from typing import Any

from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.exec.statements import Locals, Names, Writer
from tenferro.tracebacks import line_number

__all__ = ["Printed", "source_of"]


class Printed:
    """The function, compiled.

    Attributes:
        function: of an arena, if the schedule has one, and of the leaves; it returns the results.
        run: function of the leaves that returns the results; exceptions of kernels pass through.
    """

    def __init__(self, program: ExecProgram) -> None:
        source, names = _text(program)
        self.program, self._file = program, f"<tenferro program {id(program):x}>"
        module = compile(f"def run{source}", self._file, "exec")
        (code,) = [each for each in module.co_consts if isinstance(each, CodeType)]
        self.function: Callable[..., list[Any]] = FunctionType(code, names)
        self.run = self._run_in_arena if program.memory.size else self.function

    def _run_in_arena(self, *leaves: Any) -> list[Any]:
        memory = self.program.resources.memory
        arena = memory.acquire(self.program.memory.size)
        try:
            return self.function(arena, *leaves)
        finally:
            memory.release(arena)

    def failed(self, traceback: TracebackType | None) -> ExecInstruction | None:
        """Return the step that raised an exception."""
        steps, found = self.program.instructions, None
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self._file:
                number = line_number(traceback) - 2  # behind the parameters
                # A handler of signals may raise where the function begins, which is not a step's line.
                found = steps[number] if 0 <= number < len(steps) else found
            traceback = traceback.tb_next
        return found


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
    """Return the text without `def` and name, a line for the parameters and one for each step, and the objects that it names."""
    writer = Writer(program, Names(program), Locals(program.input_slots))
    name_of, inputs = writer.name_of, program.input_slots
    parameters = [*(["arena"] if program.memory.size else []), *map(name_of, inputs)]
    lines = [f"({', '.join(parameters)}):"]
    lines += [f"    {writer.statement(step)}" for step in program.instructions]
    lines.append(f"    return [{', '.join(map(name_of, program.output_slots))}]")
    return "\n".join(lines), writer.names.values

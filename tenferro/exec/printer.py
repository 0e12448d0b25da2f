"""The printer: a schedule as Python functions, with locals for slots. It decides nothing.

An interpreter's loop costs several times what NumPy's own call does on small arrays. The printed source has
one line per step, with the kernel's function called by name. After the last use of its value a local is reused
or deleted, so that NumPy can use the memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from types import CodeType, FunctionType, TracebackType
from typing import Any

from tenferro.exec.periods import cuts
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.exec.statements import Locals, Names, Writer
from tenferro.tracebacks import line_number

__all__ = ["Printed", "source_of"]

LONGEST = 1000
"""Steps of one function; Python compiles several of this size faster than a long one."""
STEP = 250
"""Steps of one function in a repetitive program: short functions compile sooner, and the same code is reused.
"""


@dataclass(frozen=True)
class Text:
    """A printed function: steps from `start` to `stop`.

    Attributes:
        source: without `def` and name, so that functions that read alike are the same text.
        head: how many lines come before the first step.
        names: the objects that the source names.
        takes, gives: slots.
        drops: slots of values that nothing needs afterwards.
    """

    start: int
    stop: int
    source: str
    head: int
    names: dict[str, Any]
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    drops: tuple[int, ...]


class Printed:
    """The functions, compiled, to be run one after the other.

    Attributes:
        run: function of the leaves that returns the results; exceptions of kernels pass through.
    """

    def __init__(self, program: ExecProgram) -> None:
        self.program = program
        self.texts = tuple(_texts(program))
        self._first: dict[str, tuple[int, int]] = {}
        codes: dict[str, CodeType] = {}
        self.functions = tuple([self._compiled(text, codes) for text in self.texts])
        is_whole = len(self.functions) == 1 and not program.memory.size
        self.run = self.functions[0] if is_whole else self._run

    def _compiled(self, text: Text, codes: dict[str, CodeType]) -> Callable[..., Any]:
        code = codes.get(text.source)
        if code is None:
            module = compile(f"def run{text.source}", "<tenferro program>", "exec")
            (code,) = [each for each in module.co_consts if isinstance(each, CodeType)]
            codes[text.source] = code
        file = f"<tenferro program {id(self.program):x}, from {text.start}>"
        self._first[file] = (text.start, text.head + 1)
        return FunctionType(code.replace(co_name=f"run_{text.start}", co_filename=file), text.names)

    def _run(self, *leaves: Any) -> list[Any]:
        """Run all functions with an arena, and return the results."""
        memory, size = self.program.resources.memory, self.program.memory.size
        first = (memory.acquire(size),) if size else ()
        values = dict(zip(self.program.input_slots, leaves, strict=True))
        try:
            for text, function in zip(self.texts, self.functions, strict=True):
                results = function(*first, *[values[slot] for slot in text.takes])
                for slot in text.drops:
                    del values[slot]
                values.update(zip(text.gives, results, strict=True))
        finally:
            for arena in first:
                memory.release(arena)
        values.update(self.program.constants)
        return [values[slot] for slot in self.program.output_slots]

    def failed(self, traceback: TracebackType | None) -> ExecInstruction | None:
        """Return the step that raised an exception."""
        number = None
        while traceback is not None:
            start, first = self._first.get(traceback.tb_frame.f_code.co_filename, (0, 0))
            line = line_number(traceback) - first
            # A handler of signals may raise where a function begins, which is not a step's line.
            if first and 0 <= line < len(self.program.instructions) - start:
                number = start + line
            traceback = traceback.tb_next
        return None if number is None else self.program.instructions[number]


def source_of(program: ExecProgram, name: str = "run") -> str:
    """Return the schedule as Python, with the bodies of groups and loops."""
    sources = [f"def {name}_{text.start}{text.source}" for text in _texts(program)]
    for number, step in enumerate(program.instructions):
        kind = step.op.name.partition("(")[0].partition(" ")[0].lower()
        sources += [
            source_of(body, f"{kind}_{number}_{number_of_body}")
            for number_of_body, body in enumerate(step.bodies)
        ]
    return "\n\n".join(sources)


def _texts(program: ExecProgram) -> Iterator[Text]:
    """Return the texts of the functions, one unless the program is too long."""
    steps = program.instructions
    if len(steps) <= LONGEST:
        yield _text(program, 0, len(steps), program.input_slots, program.output_slots)
        return
    last: dict[int, int] = dict.fromkeys(program.output_slots, len(steps))
    for number, step in enumerate(steps):
        last.update(dict.fromkeys(step.frees, number))
    for start, stop in cuts([type(step.op) for step in steps], STEP, LONGEST):
        inside = steps[start:stop]
        results = dict.fromkeys(chain.from_iterable([step.output_slots for step in inside]))
        read = dict.fromkeys(chain.from_iterable([step.input_slots for step in inside]))
        takes = [slot for slot in read if slot not in results and slot not in program.constants]
        gives = [slot for slot in results if last.get(slot, -1) >= stop]
        yield _text(program, start, stop, takes, gives)


def _text(
    program: ExecProgram, start: int, stop: int, takes: Sequence[int], gives: Sequence[int]
) -> Text:
    """Return the text of a function of some steps."""
    writer = Writer(program, Names(program), Locals(takes))
    name_of = writer.name_of
    parameters = [*(["arena"] if program.memory.size else []), *[name_of(slot) for slot in takes]]
    lines = [f"({', '.join(parameters)}):"]
    lines += [
        f"    {name_of(slot)} = {name_of(slot)}[()]"
        for slot in takes
        if slot in program.numbers and slot in program.input_slots
    ]
    head = len(lines)
    lines += [f"    {writer.statement(step)}" for step in program.instructions[start:stop]]
    lines.append(f"    return [{', '.join(map(name_of, gives))}]")
    drops = tuple([slot for slot in takes if slot not in writer.locals.names])
    names = writer.names.values
    return Text(start, stop, "\n".join(lines), head, names, tuple(takes), tuple(gives), drops)

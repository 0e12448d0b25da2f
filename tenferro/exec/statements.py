"""Statements of printed functions: a step as a line of Python, with locals for slots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any

from tenferro.exec.schedule import Arena, ExecInstruction, ExecProgram, InPlace, Pooled

__all__ = ["Locals", "Names", "Writer"]


class Locals:
    """Names of values in one function. After its last use a value's name goes to the next value, which frees its memory.

    Few names compile quickly; `del` remains for names that are not reused at once.
    """

    def __init__(self, slots: Sequence[int]) -> None:
        self._numbers = count()
        self.names = {slot: self.new() for slot in slots}
        self._free: list[str] = []

    def new(self) -> str:
        """Return an unused name."""
        return f"v{next(self._numbers)}"

    def statement(self, results: Sequence[int], call: str, frees: Sequence[int]) -> str:
        """Return the assignment of a call's results, and the deletion of values after their last use."""
        freed = [self.names.pop(slot) for slot in frees if slot in self.names]
        targets: list[str] = []
        for slot in results:
            name = freed.pop() if freed else self._free.pop() if self._free else self.new()
            self.names[slot] = name
            targets.append(name)
        freed += [self.names.pop(slot) for slot in results if slot in frees]
        self._free += freed
        gone = f"; del {', '.join(freed)}" if freed else ""
        return f"{', '.join(targets)} = {call}{gone}" if targets else f"{call}{gone}"


class Names:
    """Names in a function's text beside its locals.

    Attributes:
        values: values by name.
    """

    def __init__(self, program: ExecProgram) -> None:
        self.values: dict[str, Any] = {"asarray": program.resources.as_array}
        self._of: dict[int, str] = {}

    def function(self, step: ExecInstruction) -> str:
        """Return the name of a step's function."""
        plain = step.function.__name__ if step.is_ufunc else step.op.name.partition("(")[0]
        return self.value(re.sub(r"\W", "_", plain), step.function)  # because families have dots

    def value(self, name: str, value: Any) -> str:
        """Return the name of a value: the given one, or that with a number."""
        name_of_value = self._of.get(id(value))
        if name_of_value is None:
            name_of_value = f"{name}_{len(self._of)}" if name in self.values else name
            self._of[id(value)] = name_of_value
            self.values[name_of_value] = value
        return name_of_value


class Writer:
    """Writer of the steps of a schedule as statements."""

    def __init__(self, program: ExecProgram, names: Names, values: Locals) -> None:
        self.program, self.names, self.locals = program, names, values

    def name_of(self, slot: int) -> str:
        """Return the name of a value."""
        name = self.locals.names.get(slot)
        return self.names.value("c", self.program.constants[slot]) if name is None else name

    def statement(self, step: ExecInstruction) -> str:
        """Return the statement of a step, and the deletion of values after their last use."""
        return self.locals.statement(step.output_slots, self._call(step), step.frees)

    def _call(self, step: ExecInstruction) -> str:
        arguments = list(map(self.name_of, step.input_slots))
        if step.out is not None:
            arguments.append(f"out={self.name_of(step.out)}")
        elif step.places:
            arguments.append(f"into=[{', '.join(map(self._bytes, step.places))}]")
        call = f"{self.names.function(step)}({', '.join(arguments)})"
        # A kernel gives numbers for arrays of rank 0.
        if all([spec.shape for spec in step.output_types]):
            return call
        return f"asarray({call})" if len(step.output_types) == 1 else f"map(asarray, {call})"

    def _bytes(self, target: Any) -> str:
        if isinstance(target, Arena):
            return f"arena[{target.offset}:{target.offset + target.size}]"
        if isinstance(target, Pooled):
            self.names.values["allocate"] = self.program.resources.memory.allocate
            return f"allocate({target.size})"
        if isinstance(target, InPlace):
            return self.name_of(target.slot)
        return "None"

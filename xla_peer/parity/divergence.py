"""Search for the first op on which two executors diverge: the op's inputs agree, and its output does not.

The op is found by bisection: prefixes of the program run on both paths. Each prefix is compiled as a separate
    program, which XLA fuses like the whole program. If the op is a loop, its body runs with the native values of each
    iteration, and the first iteration that diverges is bisected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lowering import PLATFORMS, lower_to_stablehlo
from tenferro.graph import Graph
from tenferro.ops.control import ControlOp
from tenferro.program import GraphProgram, Instruction, copy_into, makers
from xla_peer.executor import XlaExecutor
from xla_peer.isolated import IsolatedExecutor
from xla_peer.parity.budget import Budget, SearchTimeoutError
from xla_peer.parity.comparison import OutputParity
from xla_peer.parity.iterations import iterations_of, native_outputs
from xla_peer.parity.opinion import Opinion
from xla_peer.parity.reproduction import save_reproduction

__all__ = [
    "Divergence",
    "Paths",
    "alone",
    "first_divergence",
    "first_failing",
    "maker_numbers",
    "prefix",
    "shown",
    "values_of",
]


@dataclass(frozen=True)
class Divergence:
    """First divergence of the paths.

    Attributes:
        op: the op, as printed in the program.
        line: the user's source line, if it is known.
        output: the comparison of the op's own output.
        verdict: a sentence that says which path the reference interpreter contradicts, or why the interpreter did not
            run.
        iterations: the iteration of each enclosing loop, outermost first, such as "iteration 3 of Scan at model.py:7".
        other: the corresponding op if two programs are compared; empty if both paths run the same program.
        sides: the names of both paths.
        program: a program that reproduces the divergence: the op alone, with its operands as arguments, if it diverges
            alone; otherwise the prefix up to the op, or the whole program.
        leaves: the arguments of `program`.
        platform: platform of the peer.
        isolated: whether the peer runs in a separate process.
        text: the StableHLO text that diverges, if the lowered program does not; otherwise empty.
    """

    op: str
    line: str
    output: OutputParity
    verdict: str
    program: GraphProgram = field(repr=False)
    leaves: tuple[Any, ...] = field(repr=False)
    iterations: tuple[str, ...] = ()
    other: str = ""
    sides: tuple[str, str] = ("native", "PJRT")
    platform: str = "cpu"
    isolated: bool = False
    text: str = field(default="", repr=False)

    def executor(self, options: Mapping[str, bool | int | str] | None = None) -> Any:
        """Create an executor for the peer's platform, with these debug options of XLA."""
        executor_class = IsolatedExecutor if self.isolated else XlaExecutor
        return executor_class(self.platform, options=options, notices=False)

    @property
    def name(self) -> str:
        """The name of the op's output."""
        return self.output.name

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values."""
        return {
            "op": self.op,
            "line": self.line,
            "iterations": list(self.iterations),
            "other": self.other,
            "verdict": self.verdict,
            "output": self.output.to_dict(),
        }

    def save(self, folder: Any) -> Path:
        """Write a reproduction; see `save_reproduction`.

        Raises:
            OSError: the folder cannot be created or written.
        """
        platform = self.platform if self.platform in PLATFORMS else "cpu"
        # The text has no locations: lines of the user's files are noise in an issue, and may be private.
        text = self.text or lower_to_stablehlo(self.program, platform).plain_text
        worst, output = list(self.output.worst or ()), self.output
        said = f"{output.name}{worst}: {output.xla!s}, expected {output.native!s}, {output.ulps:.3g} ulps apart"
        return save_reproduction(folder, self.program, self.leaves, text, self.platform, said)

    def __repr__(self) -> str:
        return f"<Divergence at {self.op:.120}>"

    def __str__(self) -> str:
        line = "".join([f"\n  at {self.line}"] * bool(self.line))
        line += "".join([f"\n  in {iteration}" for iteration in reversed(self.iterations)])
        line += f"\n  {self.other}" if self.other else ""
        return f"first divergence: {self.op}{line}{self._difference()}\n  {self.verdict}"

    def _difference(self) -> str:
        """Return a line about the element with the largest difference; empty if the values were not compared."""
        if not self.output.outside:
            return ""
        one, other = self.sides
        return (
            f"\n  element {list(self.output.worst or ())}: {one} {self.output.native!s}, {other} {self.output.xla!s}, "
            f"{f'{self.output.ulps:.3g} ulps apart' if self.other else self.output.distance}"
        )


class Paths(Protocol):
    """Protocol of two ways to run a program that are compared: native execution, and another path."""

    @property
    def platform(self) -> str:
        """The platform of the other path."""
        ...

    @property
    def is_isolated(self) -> bool:
        """Whether the other path runs in a separate process."""
        ...

    def compared(self, program: GraphProgram, leaves: Sequence[Any]) -> tuple[OutputParity, ...]:
        """Compare the outputs of both paths."""
        ...

    def agree(self, program: GraphProgram, leaves: Sequence[Any]) -> bool:
        """Return whether no output is wrong on either side."""
        ...

    def opinion(self, program: GraphProgram, leaves: Sequence[Any]) -> Opinion:
        """Return which path the reference interpreter's result contradicts, for a program on these arguments."""
        ...


class _Parting(NamedTuple):
    """Program on which the paths diverge at one instruction.

    Attributes:
        program, leaves: the program and its arguments.
        output: the comparison of the output that diverges.
        instruction: the instruction that computes this output.
        where: a remark for the report, if the instruction diverges only within the whole program; else empty.
    """

    program: GraphProgram
    leaves: Sequence[Any]
    output: OutputParity
    instruction: Instruction
    where: str


def first_divergence(
    program: GraphProgram, leaves: Sequence[Any], paths: Paths, budget: Budget | None = None
) -> Divergence | None:
    """Find the first op that diverges when it runs alone, or else the first op that diverges within the whole program.

    Args:
        program: a program with static shapes whose paths disagree.
        budget: the time for the search. If it is over, the first op that is known to diverge is returned.
    """
    budget = budget or Budget()
    iterations: list[str] = []
    parting = _parting(program, leaves, paths, budget)
    while parting is not None and not budget.is_exhausted:
        inside = _inside(parting, paths, budget)
        inner = None if inside is None else _parting(*inside[1:], paths, budget)
        if inside is None or inner is None:
            break
        line = f" at {parting.instruction.source}" if parting.instruction.source else ""
        iterations.append(f"{inside[0]}{line}")
        parting = inner
    if parting is None:
        return None
    return Divergence(
        op=shown(parting.program, parting.instruction) + parting.where,
        line=str(parting.instruction.source or ""),
        output=parting.output,
        verdict="the search ended before the reference interpreter was asked"
        if budget.is_exhausted
        else paths.opinion(parting.program, parting.leaves).words,
        program=parting.program,
        leaves=tuple(parting.leaves),
        iterations=tuple(iterations),
        platform=paths.platform,
        isolated=paths.is_isolated,
    )


def shown(program: GraphProgram, instruction: Instruction) -> str:
    """Return the text of an instruction, with the types of its operands and results."""
    operands = ", ".join(str(program.types[slot]) for slot in instruction.inputs)
    results = ", ".join(str(program.types[slot]) for slot in instruction.outputs)
    return f"{instruction.op} ({operands}) -> {results}"


def _parting(
    program: GraphProgram, leaves: Sequence[Any], paths: Paths, budget: Budget
) -> _Parting | None:
    index = _bisected(program, leaves, paths, budget)
    candidates = [(program, leaves)]
    if index is not None:
        candidates = [(prefix(program, program.instructions[index].outputs), leaves)]
        if not budget.is_exhausted:
            candidates.insert(0, alone(program, index, leaves))
    for candidate, arguments in candidates:
        outputs = paths.compared(candidate, arguments)
        worst = next((output for output in outputs if output.outside), None)
        if worst is not None:
            break
    else:
        return None
    instruction = maker(candidate, worst)
    if instruction is None:
        return None
    where = (
        "" if index is not None or budget.is_exhausted else ", and only within the whole program"
    )
    return _Parting(candidate, arguments, worst, instruction, where)


def _inside(
    parting: _Parting, paths: Paths, budget: Budget
) -> tuple[str, GraphProgram, list[Any]] | None:
    """Find the first iteration of a loop whose body diverges on native values.

    Return the name of the iteration, the body and its arguments. Return None if the instruction is not a loop or a
    conditional, if each iteration agrees, or if the time is over.
    """
    program, leaves, _, instruction, _ = parting
    if not isinstance(instruction.op, ControlOp):
        return None
    operands = values_of(program, instruction.inputs, leaves)
    with contextlib.suppress(SearchTimeoutError):
        for name, _, body, arguments in iterations_of(instruction.op, operands):
            with budget.step():
                agrees = paths.agree(body, arguments)
            if not agrees:
                return name, body, arguments
    return None


def maker(program: GraphProgram, output: OutputParity) -> Instruction | None:
    """Return the instruction that computes an output, or None if the output is an argument."""
    slot = program.output_slots[program.output_names.index(output.name)]
    return makers(program.instructions).get(slot)


def _bisected(
    program: GraphProgram, leaves: Sequence[Any], paths: Paths, budget: Budget
) -> int | None:
    """Return the index of the first instruction whose inputs agree on both paths and whose outputs do not, or None."""

    def agrees(index: int) -> bool:
        with budget.step():
            return paths.agree(prefix(program, program.instructions[index].outputs), leaves)

    numbers = maker_numbers(program)
    wrong = [numbers[slot] for slot in program.output_slots if slot in numbers]
    return first_failing(program, wrong, agrees)


def first_failing(
    program: GraphProgram, wrong: Sequence[int], goes_well: Callable[[int], bool]
) -> int | None:
    """Return the number of the first instruction that fails although its operands are right; None if there is none.

    Args:
        wrong: indices of the instructions that compute the wrong outputs.
        goes_well: a function of the index of an instruction. It returns whether a program that returns only the outputs
            of this instruction succeeds. It is called at most once for each instruction. If it raises
            `SearchTimeoutError`, the first instruction that is known to fail is returned.
    """
    known: dict[int, bool] = {}
    try:
        return _first_failing(program, wrong, goes_well, known)
    except SearchTimeoutError:
        return min([index for index, is_well in known.items() if not is_well], default=None)


def _first_failing(
    program: GraphProgram,
    wrong: Sequence[int],
    goes_well: Callable[[int], bool],
    known: dict[int, bool],
) -> int | None:
    """Find what `first_failing` returns, and add the results of `goes_well` to `known`."""

    def is_well(index: int) -> bool:
        if index not in known:
            known[index] = goes_well(index)
        return known[index]

    numbers = maker_numbers(program)
    failing = [index for index in wrong if not is_well(index)]
    if not failing:
        return None
    low, high = -1, min(failing)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_well(middle) else (low, middle)
    while True:
        inputs = [numbers[slot] for slot in program.instructions[high].inputs if slot in numbers]
        failed = [index for index in inputs if not is_well(index)]
        if not failed:
            return high
        high = min(failed)


def prefix(program: GraphProgram, slots: Sequence[int]) -> GraphProgram:
    """Return the part of `program` that computes the given slots, with the same inputs and the slots as outputs."""
    graph, values = program.to_graph()
    return GraphProgram.from_graph(
        graph,
        [values[slot] for slot in slots],
        name=program.name,
        inputs=[values[slot] for slot in program.input_slots],
        input_names=program.input_names,
        guards=(),
    )


def values_of(program: GraphProgram, slots: Sequence[int], leaves: Sequence[Any]) -> list[Any]:
    """Compute the native values of the given slots."""
    return native_outputs(prefix(program, slots), leaves)


def maker_numbers(program: GraphProgram) -> dict[int, int]:
    """Return the number of the instruction that computes each slot."""
    return {
        slot: number for number, step in enumerate(program.instructions) for slot in step.outputs
    }


def alone(
    program: GraphProgram, index: int, leaves: Sequence[Any]
) -> tuple[GraphProgram, list[Any]]:
    """Return a program that consists of the instruction of this index alone, and its operands, computed natively."""
    instruction = program.instructions[index]
    slots = list(dict.fromkeys(instruction.inputs))
    values = values_of(program, slots, leaves)
    graph = Graph()
    graph.trusted = program.trusted
    carried = {slot: graph.add_input(program.types[slot]) for slot in slots}
    copy_into(graph, [instruction], carried)
    outputs = [carried[slot] for slot in instruction.outputs]
    return GraphProgram.from_graph(graph, outputs, name=instruction.op.name), values

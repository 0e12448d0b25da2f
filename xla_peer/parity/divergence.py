"""The first op on which the paths part: its inputs agree, and its output does not.

Prefixes of the program are run on both paths, and bisected: each is compiled as a program of its own, so
that XLA fuses it as it fused the whole.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lowering import lower_to_stablehlo
from tenferro.extension.saving import save
from tenferro.files import replacing
from tenferro.graph import Graph
from tenferro.program import GraphProgram, Instruction, copy_into, makers
from tenferro.types import flatten
from xla_peer.parity.comparison import OutputParity

__all__ = ["Divergence", "first_divergence", "prefix"]

SCRIPT = """import numpy as np, tenferro as tnf, xla_peer
inputs = [value for _, value in sorted(np.load("repro.npz").items())]
program = tnf.load("repro.tnf")
print(xla_peer.check_parity(program, *inputs))
"""


@dataclass(frozen=True)
class Divergence:
    """Where the paths part.

    Attributes:
        op: as printed in the program.
        line: the user's, where it is known.
        output: the comparison of the op's own output.
        verdict: who is alone, by the reference interpreter; or why it was not asked.
        program: the op alone, on the values it had, where that is enough to part; else what leads to it, or
            the whole.
        leaves: its arguments.
    """

    op: str
    line: str
    output: OutputParity
    verdict: str
    program: GraphProgram = field(repr=False)
    leaves: tuple[Any, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """The name of the op's output."""
        return self.output.name

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "op": self.op,
            "line": self.line,
            "verdict": self.verdict,
            "output": self.output.to_dict(),
        }

    def save(self, folder: Any) -> Path:
        """Write a reproduction: `repro.mlir`, `repro.npz`, `repro.tnf`, and `repro.py`, four lines.

        Raises:
            OSError: the folder cannot be made or written.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        save(self.program, place / "repro.tnf")
        buffer = io.BytesIO()
        np.savez(buffer, **{f"x{i:03}": leaf for i, leaf in enumerate(self.leaves)})
        files = {
            "repro.mlir": lower_to_stablehlo(self.program).text.encode(),
            "repro.npz": buffer.getvalue(),
            "repro.py": SCRIPT.encode(),
        }
        for name, content in files.items():
            with replacing(place / name) as file:
                file.write(content)
        return place

    def __repr__(self) -> str:
        return f"<Divergence at {self.op:.120}>"

    def __str__(self) -> str:
        place = f"\n  at {self.line}" if self.line else ""
        worst = list(self.output.worst or ())
        return (
            f"they part at {self.op}{place}\n"
            f"  element {worst}: native {self.output.native!s}, PJRT {self.output.xla!s}, "
            f"{self.output.ulps:.3g} ulps apart, {self.output.allowed:.3g} allowed\n"
            f"  {self.verdict}"
        )


Compared = Callable[[GraphProgram, Sequence[Any]], tuple[OutputParity, ...]]
"""The outputs of a program on both paths."""
Judged = Callable[[GraphProgram, Sequence[Any]], str]
"""What the interpreter says of it."""


def first_divergence(
    program: GraphProgram, leaves: Sequence[Any], compared: Compared, judged: Judged
) -> Divergence | None:
    """The first op that parts; where each does well on its own, the one whose output parts in the whole
    program.

    Args:
        program: with numbers for extents, whose paths disagree.
    """
    found = _bisected(program, leaves, compared)
    candidates = [(program, leaves)]
    if found is not None:
        whole = prefix(program, program.instructions[found].outputs)
        candidates = [_alone(program, found, leaves), (whole, leaves)]
    for candidate, arguments in candidates:
        outputs = compared(candidate, arguments)
        worst = next((output for output in outputs if not output.ok), None)
        if worst is not None:
            break
    else:
        return None
    instruction = maker(candidate, worst)
    if instruction is None:
        return None
    types = ", ".join(str(candidate.types[slot]) for slot in instruction.inputs)
    made = ", ".join(str(candidate.types[slot]) for slot in instruction.outputs)
    where = "" if found is not None else ", and only within the whole program"
    return Divergence(
        op=f"{instruction.op} ({types}) -> {made}{where}",
        line=str(instruction.source or ""),
        output=worst,
        verdict=judged(candidate, arguments),
        program=candidate,
        leaves=tuple(arguments),
    )


def maker(program: GraphProgram, output: OutputParity) -> Instruction | None:
    """The instruction that made an output; None for one that is an argument."""
    slot = program.output_slots[program.output_names.index(output.name)]
    return makers(program.instructions).get(slot)


def _bisected(program: GraphProgram, leaves: Sequence[Any], compared: Compared) -> int | None:
    """The number of the first instruction whose inputs agree and whose outputs do not."""
    known: dict[int, bool] = {}

    def agrees(index: int) -> bool:
        if index not in known:
            outputs = compared(prefix(program, program.instructions[index].outputs), leaves)
            known[index] = all(output.ok for output in outputs)
        return known[index]

    makers = {slot: index for index, i in enumerate(program.instructions) for slot in i.outputs}
    wrong = [makers[slot] for slot in program.output_slots if slot in makers]
    wrong = [index for index in wrong if not agrees(index)]
    if not wrong:
        return None
    low, high = -1, min(wrong)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if agrees(middle) else (low, middle)
    while True:
        inputs = [makers[slot] for slot in program.instructions[high].inputs if slot in makers]
        parted = [index for index in inputs if not agrees(index)]
        if not parted:
            return high
        high = min(parted)


def prefix(program: GraphProgram, slots: Sequence[int]) -> GraphProgram:
    """The program that computes these slots, of the same inputs."""
    graph, values = program.to_graph()
    return GraphProgram.from_graph(
        graph,
        [values[slot] for slot in slots],
        name=program.name,
        inputs=[values[slot] for slot in program.input_slots],
        input_names=program.input_names,
        guards=(),
    )


def _alone(
    program: GraphProgram, index: int, leaves: Sequence[Any]
) -> tuple[GraphProgram, list[Any]]:
    """The instruction as a program, and its operands, computed natively."""
    instruction = program.instructions[index]
    slots = list(dict.fromkeys(instruction.inputs))
    values, _ = flatten(prefix(program, slots).run(*leaves))
    graph = Graph()
    graph.trusted = program.trusted
    known = {slot: graph.add_input(program.types[slot]) for slot in slots}
    copy_into(graph, [instruction], known)
    outputs = [known[slot] for slot in instruction.outputs]
    return GraphProgram.from_graph(graph, outputs, name=instruction.op.name), values

"""Search for a decision, such as a comparison or a rounding to an integer, that rounding errors flip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tenferro.ops import elementwise as el
from tenferro.program import GraphProgram, Instruction
from tenferro.types import DType
from xla_peer.json_values import json_value
from xla_peer.parity.comparison import OutputParity
from xla_peer.parity.divergence import prefix, shown
from xla_peer.parity.pending import DISCRETE
from xla_peer.parity.sensitivity import moved_outputs

__all__ = ["Decision", "decisions"]

RUNS = 16
"""Number of runs with random rounding that search for flipped decisions."""


@dataclass(frozen=True)
class Decision:
    """Decision that rounding flips, at one element of the result of an op.

    Attributes:
        op: the instruction, with types.
        line: the user's line of code, if it is known.
        index: the index of the element in the result.
        operands: the elements of the operands on which the decision depends, from one run, as text.
        results: the results of two runs that decided differently, as text.
    """

    op: str
    line: str
    index: tuple[int, ...]
    operands: tuple[str, ...]
    results: tuple[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values."""
        return json_value(asdict(self))

    def __str__(self) -> str:
        line = f" at {self.line}" if self.line else ""
        of = f" of {', '.join(self.operands)}" if self.operands else ""
        one, other = self.results
        return f"unstable: element {list(self.index)} of {self.op}{line}{of} is {one} or {other}, as rounding has it"


def decisions(
    program: GraphProgram, leaves: Sequence[Any], outputs: Sequence[OutputParity], platform: str
) -> tuple[Decision, ...]:
    """Find the first decision that random rounding flips; empty if no output is unstable, or none was found."""
    if not any([output.verdict == "unstable" for output in outputs]):
        return ()
    steps = [step for step in program.instructions if _decides(step)]
    slots = [slot for step in steps for slot in (step.outputs[0], *step.inputs)]
    if not slots:
        return ()
    runs = moved_outputs(prefix(program, slots), leaves, RUNS, platform)
    first = 0
    for step in steps:
        operands = [run[first + 1 : first + 1 + len(step.inputs)] for run in runs]
        flip = _flipped([run[first] for run in runs])
        if flip is not None:
            index, one, other = flip
            sizes = [np.asarray(x) for x in operands[0]]
            return (
                Decision(
                    op=shown(program, step),
                    line=str(step.source or ""),
                    index=index,
                    operands=tuple(
                        [str(x[index]) for x in sizes if x.ndim == len(index) and _has(x, index)]
                    ),
                    results=(str(one), str(other)),
                ),
            )
        first += 1 + len(step.inputs)
    return ()


def _decides(step: Instruction) -> bool:
    is_rounding = isinstance(step.op, el.Convert) and not step.op.to.is_inexact
    return is_rounding or type(step.op) in DISCRETE


def _has(x: Any, index: tuple[int, ...]) -> bool:
    return all(i < n for i, n in zip(index, x.shape, strict=True))


def _flipped(results: Sequence[Any]) -> tuple[tuple[int, ...], Any, Any] | None:
    """Return the index of the first element that differs between runs, and two of its values; None if all runs agree.

    Floats count as different if they differ by more than a thousandth.
    """
    one = np.asarray(results[0])
    for result in results[1:]:
        other = np.asarray(result)
        with np.errstate(all="ignore"):
            if DType.of(one.dtype).kind in "biu":
                apart = one != other
            else:
                apart = np.abs(other - one) > 1e-3 * np.maximum(np.abs(one), np.abs(other))
        if apart.any():
            index = tuple(map(int, np.unravel_index(int(np.argmax(apart)), apart.shape)))
            return index, one[index], other[index]
    return None

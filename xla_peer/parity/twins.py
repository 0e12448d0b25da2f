"""Search for public reports whose modules have the same or a similar structure as a program.

The structure of a program is described by its form: a set of digests, one per value. The digest of a value is computed
from the name of the op and the digests of its operands, which are sorted if the op commutes. All inputs have the same
digest. All constants and their broadcasts also have the same digest. Types, attributes and elements do not matter. The
similarity of two modules is the share of digests that both forms contain.

A failing case that was shrunk has arguments in place of some values of a report's module. So a report is also named if
its module applies the ops of the case to any values.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import tenferro as tnf
from lowering import import_stablehlo
from tenferro.errors import TenferroError
from tenferro.facts import Fact, ops_with
from tenferro.ops.control import ControlOp
from tenferro.ops.source import Constant
from tenferro.ops.structural import BroadcastInDim, Reshape
from tenferro.program import GraphProgram, Instruction

__all__ = ["Twin", "form_of", "public_reports", "twins"]

COMMUTES = ops_with(Fact.COMMUTES)
TRANSPARENT = (BroadcastInDim, Reshape)
"""Ops that a form ignores."""
FEWEST = 2
"""Minimum number of ops of a case that may be found as a part of a report's module."""
NEAR = 0.5
"""Minimum share of common digests for a report to be named as similar."""
MOST = 3
"""Maximum number of similar reports that are named."""
HALLS = ("xla_peer.hall", "tests.hall.reports")
"""Python modules with the public reports in REPORTS; the first module that can be imported is used."""


@dataclass(frozen=True)
class Twin:
    """Public report about a module of similar structure.

    Attributes:
        name: name of the issue, such as `jax-ml/jax 39103`.
        words: a description of the wrong behaviour in the report.
        share: the share of digests that both forms contain; 1 for equal structures.
        has_part: whether the report's module contains the ops of the whole program.
    """

    name: str
    words: str
    share: float
    has_part: bool = False

    def __str__(self) -> str:
        project, _, number = self.name.partition(" ")
        url = f"https://github.com/{project}/issues/{number}"
        same = (
            "the same structure as"
            if self.share == 1
            else "a part of the module in"
            if self.has_part
            else f"{self.share:.0%} of the structure of"
        )
        return f"{same} {self.name}, {self.words} ({url})"


def form_of(program: GraphProgram) -> frozenset[str]:
    """Compute the form of a program: the set of the digests of its values, including those in bodies.

    >>> one, other = (tnf.compile(lambda x, n=n: tnf.exp(x) * n, 1.0) for n in (2.0, 3.0))
    >>> form_of(one) == form_of(other)
    True
    """
    forms: dict[int, frozenset[str]] = {}
    order, waiting = list[GraphProgram](), [program]
    while (
        waiting
    ):  # a program precedes the bodies of its loops, so the reverse order has bodies first
        part = waiting.pop()
        order.append(part)
        waiting += [
            each.program
            for step in part.instructions
            if isinstance(step.op, ControlOp)
            for each in step.op.parts
        ]
    for part in reversed(order):
        forms[id(part)] = _form(part, forms)
    return forms[id(program)]


def _form(program: GraphProgram, forms: dict[int, frozenset[str]]) -> frozenset[str]:
    digests = dict.fromkeys(program.input_slots, "input")
    seen: list[str] = []
    for step in program.instructions:
        operands = [digests[slot] for slot in step.inputs]
        if isinstance(step.op, Constant) or set(operands) == {"constant"}:
            digests |= dict.fromkeys(step.outputs, "constant")
            continue
        if isinstance(step.op, TRANSPARENT):
            digests[step.outputs[0]] = operands[0]
            continue
        if type(step.op) in COMMUTES:
            operands.sort()
        words = [step.op.name, *operands]
        if isinstance(step.op, ControlOp):
            for each in step.op.parts:
                words += sorted(forms[id(each.program)])
                seen += forms[id(each.program)]
        for number, slot in enumerate(step.outputs):
            digests[slot] = hashlib.sha256(f"{number} {' '.join(words)}".encode()).hexdigest()[:16]
            seen.append(digests[slot])
    results = " ".join(digests[slot] for slot in program.output_slots)
    return frozenset([*seen, hashlib.sha256(f"results {results}".encode()).hexdigest()[:16]])


def public_reports() -> tuple[Any, ...]:
    """Return the public reports of `xla_peer.hall`; empty if this package is not installed."""
    for name in HALLS:
        try:
            return tuple(importlib.import_module(name).REPORTS)
        except (ImportError, AttributeError):
            continue
    return ()


def twins(program: GraphProgram, reports: Iterable[Any] | None = None) -> tuple[Twin, ...]:
    """Return the public reports whose modules are most similar to a program, the most similar first.

    Args:
        reports: objects with `name`, `words`, `function`, which is a function or StableHLO text, and `arrays`.
            By default the reports of the hall.
    """
    form, part, near = form_of(program), _Values(program), list[Twin]()
    for report, other in _programs(public_reports() if reports is None else reports):
        theirs = form_of(other)
        share = len(form & theirs) / len(form | theirs)
        has_part = part.count >= FEWEST and _occurs(part, _Values(other))
        if share >= NEAR or has_part:
            near.append(Twin(report.name, report.words, share, has_part))
    return tuple(sorted(near, key=lambda twin: (-twin.share, not twin.has_part))[:MOST])


class _Values:
    """Values of a program for the search for its ops in another program.

    Attributes:
        maker_of: the instruction that computes each slot, without transparent ops and constants.
        origin_of: for each slot, the slot that it equals except for transparent ops; -1 for constants.
        output: the slot of the first output.
        count: the number of instructions in `maker_of`.
    """

    def __init__(self, program: GraphProgram) -> None:
        self.maker_of: dict[int, Instruction] = {}
        self.origin_of = {slot: slot for slot in program.input_slots}
        self.count = 0
        for step in program.instructions:
            operands = [self.origin_of[slot] for slot in step.inputs]
            if isinstance(step.op, Constant) or set(operands) == {-1}:
                self.origin_of |= dict.fromkeys(step.outputs, -1)
            elif isinstance(step.op, TRANSPARENT):
                self.origin_of[step.outputs[0]] = operands[0]
            else:
                self.count += 1
                self.origin_of |= {slot: slot for slot in step.outputs}
                self.maker_of |= dict.fromkeys(step.outputs, step)
        self.output = self.origin_of[program.output_slots[0]]

    def operands(self, step: Instruction) -> list[int]:
        """Return the origins of the operands of an instruction."""
        return [self.origin_of[slot] for slot in step.inputs]


def _occurs(part: _Values, whole: _Values) -> bool:
    """Return whether a value of `whole` is computed as the output of `part`, from any values as its arguments."""
    return any(_matches(part, whole, slot) for slot in whole.maker_of)


def _matches(part: _Values, whole: _Values, root: int) -> bool:
    bound: dict[int, int] = {}
    waiting = [(part.output, root)]
    while waiting:
        slot, other = waiting.pop()
        if slot < 0 or slot in bound:
            if other != bound.get(slot, -1):
                return False
            continue
        bound[slot] = other
        step, there = part.maker_of.get(slot), whole.maker_of.get(other)
        if step is None:
            continue  # an argument
        if there is None or not _are_alike(step, slot, there, other):
            return False
        pairs = list(zip(part.operands(step), whole.operands(there), strict=True))
        if type(step.op) in COMMUTES and not all(_may_match(part, whole, *pair) for pair in pairs):
            pairs = list(zip(part.operands(step), whole.operands(there)[::-1], strict=True))
        waiting += pairs
    return True


def _are_alike(step: Instruction, slot: int, there: Instruction, other: int) -> bool:
    """Return whether two instructions apply the same op to as many operands, and compute the slots at the same place."""
    return (
        step.op.name == there.op.name
        and not isinstance(step.op, ControlOp)
        and len(step.inputs) == len(there.inputs)
        and step.outputs.index(slot) == there.outputs.index(other)
    )


def _may_match(part: _Values, whole: _Values, slot: int, other: int) -> bool:
    """Return whether two operands are both constants, or computed by the same op; an argument matches any value."""
    if slot < 0 or other < 0:
        return slot == other or (slot >= 0 and slot not in part.maker_of)
    step, there = part.maker_of.get(slot), whole.maker_of.get(other)
    return step is None or (there is not None and step.op.name == there.op.name)


def _programs(reports: Iterable[Any]) -> Iterator[tuple[Any, GraphProgram]]:
    """Yield the reports whose modules are supported, with their programs."""
    for report in reports:
        try:
            if isinstance(report.function, str):
                program = import_stablehlo(report.function)
            else:
                program = tnf.compile(report.function, *report.arrays)
        except TenferroError:
            continue  # because the module of a report may be unsupported
        yield report, program

"""Search for public reports whose modules have the same or a similar structure as a program.

The structure of a program is described by its form: a set of digests, one per value. The digest of a value is computed
from the name of the op and the digests of its operands, which are sorted if the op commutes. All inputs have the same
digest. All constants and their broadcasts also have the same digest. Types, attributes and elements do not matter. The
similarity of two modules is the share of digests that both forms contain.
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
from tenferro.program import GraphProgram

__all__ = ["Twin", "form_of", "public_reports", "twins"]

COMMUTES = ops_with(Fact.COMMUTES)
NEAR = 0.5
"""Minimum share of common digests from which on a report is named as similar."""
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
    """

    name: str
    words: str
    share: float

    def __str__(self) -> str:
        project, _, number = self.name.partition(" ")
        url = f"https://github.com/{project}/issues/{number}"
        same = (
            "the same structure as" if self.share == 1 else f"{self.share:.0%} of the structure of"
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
        if isinstance(step.op, BroadcastInDim | Reshape):
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
    form = form_of(program)
    near = [
        Twin(report.name, report.words, share)
        for report, other in _forms(public_reports() if reports is None else reports)
        if (share := len(form & other) / len(form | other)) >= NEAR
    ]
    return tuple(sorted(near, key=lambda twin: -twin.share)[:MOST])


def _forms(reports: Iterable[Any]) -> Iterator[tuple[Any, frozenset[str]]]:
    for report in reports:
        try:
            if isinstance(report.function, str):
                program = import_stablehlo(report.function)
            else:
                program = tnf.compile(report.function, *report.arrays)
        except TenferroError:
            continue  # because the module of a report may be unsupported
        yield report, form_of(program)

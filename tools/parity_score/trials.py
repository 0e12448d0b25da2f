"""Trials of the parity check, each of an edited module against the original.

They run in child processes, because XLA may end its process.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from lowering import import_stablehlo
from tenferro.errors import TenferroError
from tenferro.types import flatten
from tools.parity_score.faults import Edit
from tools.parity_score.programs import Subject
from tools.parity_score.references import eps_of, outputs, wide_outputs
from tools.parity_score.rewrites import FEWER_BITS
from xla_peer import XlaExecutor, check_parity, judge

__all__ = ["fault_trial", "rewrite_trial"]

LINE = re.compile(r"<stablehlo>:(\d+)")


def fault_trial(subject: Subject, edit: Edit, peer: XlaExecutor) -> dict[str, Any]:
    """Check a module with a fault; return the outcome, such as `caught` or `escaped`.

    The outcome is `equal` if the fault changes the outputs by no more than rounding would.
    """
    start = time.perf_counter()
    program = subject.program
    try:
        mutant = import_stablehlo(edit.text, trusted=True)
    except TenferroError as error:
        return {"outcome": "invalid", "words": str(error).splitlines()[0][:200]}
    if _indistinguishable(subject, edit):
        return {"outcome": "equal"}
    report = check_parity(program, *subject.leaves, against=mutant, executor=peer)
    as_text = [output.verdict for output in report.outputs]
    caught = any(word.startswith("wrong") for word in as_text)
    blamed = caught and any(word == "wrong: program" for word in as_text)
    first = report.first_divergence
    shown = "" if first is None else f"{first.line} {' '.join(first.iterations)} {first.other}"
    named = not places_of(subject.text, edit.line).isdisjoint(map(int, LINE.findall(shown)))
    return {
        "outcome": "caught" if caught else "escaped",
        "blamed": blamed,
        "named": named,
        "verdicts": sorted(set(as_text)),
        "found": shown[:300],
        "seconds": round(time.perf_counter() - start, 3),
    }


def places_of(text: str, line: int) -> set[int]:
    """Return the numbers of the lines that the check may name as the location of a fault in `line`.

    These are `line` itself, the operation whose region contains it, and all calls that lead from `main` to its
    function.
    """
    lines = text.splitlines()
    places = {line, *statement_of(lines, line)}
    waiting = list(places)
    constant = re.match(r"\s*(%\w+) = stablehlo\.constant", lines[line - 1])
    if constant:
        # For a faulty constant, the check may name an operation that uses it, such as the condition that reads a trip
        # count.
        reads = re.compile(re.escape(constant[1]) + r"(?!\w)")
        rest = enumerate(lines[line:], line + 1)
        here = itertools.takewhile(lambda item: "func.func" not in item[1], rest)
        places |= {number for number, written in here if reads.search(written)}
    while waiting:
        number = waiting.pop()
        head = next(
            n for n in range(number - 1, -1, -1) if lines[n].lstrip().startswith("func.func")
        )
        name = lines[head].split("@")[1].split("(")[0]
        for call, written in enumerate(lines, 1):
            if f"@{name}(" in written and "func.func" not in written:
                # The call may be inside an operation of several lines. Search backward for the first line of the
                # operation, which is indented like the function's body.
                start = next(n for n in range(call, 0, -1) if re.match(r"    [%\"s]", lines[n - 1]))
                waiting += {start} - places
                places |= {start, call}
    return places


REGION = re.compile(r'"stablehlo\.(?:reduce|sort|scatter|reduce_window|select_and_scatter)"\(')
"""Pattern of an operation whose region is imported with it, as one op."""


def statement_of(lines: Sequence[str], line: int) -> set[int]:
    """Return the line of the operation whose region contains `line`; empty unless both are imported as one op."""
    for number in range(line, 0, -1):
        text = lines[number - 1]
        if REGION.search(text):
            end = next(n for n in range(number, len(lines) + 1) if "})" in lines[n - 1])
            return {number} if end >= line else set()
        if text.lstrip().startswith("func.func"):
            break
    return set()


def rewrite_trial(subject: Subject, text: str, peer: XlaExecutor, kind: str = "") -> dict[str, Any]:
    """Check a rewrite that keeps the meaning.

    Return the outcome: `accepted`, or `accused` if the check reports an error.
    """
    start = time.perf_counter()
    program = subject.program
    try:
        rewritten = import_stablehlo(text, trusted=True)
        if kind == FEWER_BITS:
            return _judged(subject, program, _AsWritten(rewritten, peer), peer)
        report = check_parity(
            program, *subject.leaves, against=_AsWritten(rewritten, peer), executor=peer, locate=False,
            interpreter=False,
        )  # fmt: skip
    except TenferroError as error:
        return {"outcome": "invalid", "words": str(error).splitlines()[0][:200]}
    verdicts = sorted({output.verdict for output in report.outputs})
    accused = any(word.startswith("wrong") for word in verdicts)
    return {
        "outcome": "accused" if accused else "accepted",
        "verdicts": verdicts,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _judged(
    subject: Subject, program: Any, rewritten: Callable[..., Any], peer: XlaExecutor
) -> dict[str, Any]:
    """Check a rewrite that lowers the precision of a matrix product, as the module allows; return the outcome."""
    start = time.perf_counter()
    pairs = [flatten(run(*subject.leaves))[0] for run in (program.run, rewritten)]
    report = judge(program, subject.leaves, *pairs, executor=peer, locate=False, interpreter=False)
    verdicts = sorted({output.verdict for output in report.outputs})
    return {
        "outcome": "accepted" if report.ok else "accused",
        "verdicts": verdicts,
        "seconds": round(time.perf_counter() - start, 3),
    }


class _AsWritten:
    """Callable that runs a module through PJRT without changing it."""

    def __init__(self, program: Any, peer: XlaExecutor) -> None:
        self.program, self.peer = program, peer

    def __call__(self, *leaves: Any) -> Any:
        module = self.program.origin.refined([leaf.shape for leaf in leaves])
        results = self.peer.compile_module(module).run_leaves(
            [np.asarray(x, order="C") for x in leaves]
        )
        return results[0] if len(results) == 1 else tuple(results)


def _indistinguishable(subject: Subject, edit: Edit) -> bool:
    """Tell whether the outputs of both modules agree within what rounding may change.

    The outputs are computed in float64. They may differ by rounding errors of the module's dtypes, or by a few times
    the change in the original's outputs if its arguments are perturbed in the last place. Integers may differ, too: a
    sum of quantised values changes by whole numbers if one value is at a tie.
    """
    results = [subject.results, outputs(edit.text, subject.leaves)]
    if all(y.tobytes() == z.tobytes() for y, z in zip(*results, strict=True)):
        return True
    narrow = any(x.dtype == np.float32 for x in subject.leaves) or "f32>" in subject.text
    eps = float(ml_dtypes.finfo("float32" if narrow else "float64").eps)
    ours, beside = subject.wide_results, subject.perturbed_results
    theirs = wide_outputs(edit.text, subject.leaves)
    return all(
        _are_same(y, z, 64 * max(eps, eps_of(of_plain.dtype)), [run[number] for run in beside])
        for number, (y, z, of_plain) in enumerate(zip(ours, theirs, results[0], strict=True))
    )


@np.errstate(all="ignore")
def _are_same(y: Any, z: Any, share: float, beside: Sequence[Any]) -> bool:
    if y.dtype.kind == "b":
        return bool((y == z).all())
    if y.dtype.kind in "iu":
        y, z, share = y.astype(np.float64), z.astype(np.float64), 0.0
        beside = [x.astype(np.float64) for x in beside]
    kinds = [np.where(np.isfinite(x), 0, x) for x in (y, z)]
    if not np.array_equal(*kinds, equal_nan=True):
        return False
    finite = np.isfinite(y)
    apart = np.abs(np.where(finite, y - z, 0))
    size = np.maximum(np.abs(np.where(finite, y, 0)), np.abs(np.where(finite, z, 0)))
    noise = np.maximum.reduce([np.abs(np.where(finite & np.isfinite(x), x - y, 0)) for x in beside])
    return bool((apart <= np.maximum(share * size, 4 * noise)).all())

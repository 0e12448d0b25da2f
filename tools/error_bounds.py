"""Measure proven error bounds: whether correct results are within them, how wide they are, and how many are missing.

python -m tools.error_bounds            measures, and writes the table of docs/parity.md
python -m tools.error_bounds --print    measures, and prints a line for each output

The bounds are compared with several correct results. For a sample of an op, they are its NumPy definition and XLA's
result. For a module, they are runs of its rewrites, natively and by XLA, and for float32 also a run in float64. A
rewrite keeps the meaning of the module, but for example sums in another order.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from lowering import import_stablehlo
from tenferro.errors import TenferroError
from tenferro.program import GraphProgram
from tenferro.types import flatten
from tests.ops.test_parity import is_compiled, program_of
from tests.samples import SAMPLES
from tools.parity_score.faults import Edit
from tools.parity_score.programs import Subject, subjects
from tools.parity_score.rewrites import rewrites
from xla_peer import XlaExecutor, error_bound
from xla_peer.parity.ulps import modulus, spacing

PAGE = Path(__file__).resolve().parent.parent / "docs" / "parity.md"
HEAD = "| programs | outputs | exceeded by a right result | within 100 times | median | without a bound |"
NATIVE_REWRITES, XLA_REWRITES = 12, 3
"""Number of rewrites of a module that run natively, and number that also run by XLA.

The rewrites are spread evenly over the kinds of rewrites.
"""
WIDE = 100.0


@dataclass(frozen=True)
class Outcome:
    """The bound of one output of one program, compared with reference results.

    Attributes:
        kind: sample, network, loop or gradient.
        ratio: the largest radius of the bound, divided by the largest of three numbers: the observed error, half an
            ulp of the largest element, and the smallest normal number.
        is_unbounded: whether an element of the output has no bound.
        left: number of elements of the correct results that are outside the bound.
    """

    kind: str
    name: str
    ratio: float
    is_unbounded: bool
    left: int


def main() -> int:
    """Measure the bounds, and write the table; return 1 if a correct result is outside its bound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--print", action="store_true", help="a line for each output; no table")
    prints = parser.parse_args().print
    outcomes = sorted([*_samples(), *_modules()], key=lambda outcome: outcome.kind)
    if prints:
        for outcome in outcomes:
            ratio = "none" if outcome.is_unbounded else f"{outcome.ratio:.3g}"
            print(f"{outcome.kind:9} {ratio:>10} {outcome.left:4} {outcome.name}")
    table = [HEAD, "| --- | --- | --- | --- | --- | --- |"]
    for kind, group in groupby(outcomes, key=lambda outcome: outcome.kind):
        table.append(_row(f"{kind}s", list(group)))
    table.append(_row("all", outcomes))
    print("\n".join(table))
    if not prints:
        text = PAGE.read_text()
        start = text.index(HEAD)
        PAGE.write_text(text[:start] + "\n".join(table) + text[text.index("\n\n", start) :])
    return int(any(outcome.left for outcome in outcomes))


def _row(title: str, outcomes: Sequence[Outcome]) -> str:
    bounded = [outcome.ratio for outcome in outcomes if not outcome.is_unbounded]
    narrow = sum(ratio <= WIDE for ratio in bounded) / len(outcomes)
    without = 1 - len(bounded) / len(outcomes)
    left = sum(outcome.left > 0 for outcome in outcomes)
    median = float(np.median(bounded)) if bounded else float("inf")
    return f"| {title} | {len(outcomes)} | {left} | {narrow:.1%} | {median:.2g} times | {without:.1%} |"


def _samples() -> Iterator[Outcome]:
    """Measure every sample against its definition and XLA's result.

    All samples of an op are compiled together, to one or two programs.
    """
    peer = XlaExecutor(notices=False)
    for samples in SAMPLES.values():
        compiled = [sample for sample in samples if sample.xla and is_compiled(sample)]
        others = [sample for sample in samples if not (sample.xla and is_compiled(sample))]
        for part in (compiled, others):
            if not part:
                continue
            program = program_of(list(part), False)
            arrays = [x for sample in part for x in sample.inputs]
            definitions = [y for sample in part for y in sample.expected]
            results = flatten(peer.run(program, *arrays))[0] if part is compiled else []
            names = [str(sample) for sample in part for _ in sample.expected]
            yield from _outcomes(
                "sample", names, program, arrays, [results] if len(results) else [], definitions
            )


def _modules() -> Iterator[Outcome]:
    """Measure loops, their gradients, and networks. The correct results are runs of their rewrites."""
    peer = XlaExecutor(notices=False)
    for subject in subjects():
        if subject.kind == "random":
            continue
        program = import_stablehlo(subject.text, trusted=True)
        names = [f"{subject.name} {name}" for name in program.output_names]
        others = list(_right_results(subject, program, peer))
        yield from _outcomes(subject.kind, names, program, subject.leaves, others)


def _right_results(
    subject: Subject, program: GraphProgram, peer: XlaExecutor
) -> Iterator[Sequence[Any]]:
    yield flatten(peer.run(program, *subject.leaves))[0]
    edits = list(rewrites(subject.text))
    for number, edit in enumerate(_spread(edits, NATIVE_REWRITES)):
        try:
            rewritten = import_stablehlo(edit.text, trusted=True)
        except TenferroError:  # because the rewritten line may be invalid
            continue
        yield flatten(rewritten.run(*subject.leaves))[0]
        if number < XLA_REWRITES:
            yield flatten(peer.run(rewritten, *subject.leaves))[0]
    if "f32>" in subject.text:
        wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in subject.leaves]
        text = subject.text.replace("f32>", "f64>")
        yield flatten(import_stablehlo(text, trusted=True).run(*wide))[0]


def _spread(edits: Sequence[Edit], count: int) -> list[Edit]:
    """Choose `count` edits, as evenly as possible from each kind."""
    by_kind: dict[str, list[Edit]] = {}
    for edit in edits:
        by_kind.setdefault(edit.kind, []).append(edit)
    each = max(1, -(-count // max(len(by_kind), 1)))
    chosen = [
        edits[number]
        for edits in by_kind.values()
        for number in sorted({int(n) for n in np.linspace(0, len(edits) - 1, each)})
    ]
    return chosen[:: max(1, len(chosen) // count)]


def _outcomes(
    kind: str,
    names: Sequence[str],
    program: GraphProgram,
    leaves: Sequence[Any],
    others: Sequence[Sequence[Any]],
    definitions: Sequence[Any] = (),
) -> Iterator[Outcome]:
    """Yield an outcome for each output: its bound, compared with the correct results in `others` and `definitions`."""
    bound = error_bound(program, *leaves)
    values, radii = flatten(bound.values)[0], flatten(bound.radii)[0]
    for number, (name, value, radius) in enumerate(zip(names, values, radii, strict=True)):
        value, radius = np.asarray(value), np.asarray(radius)
        apart = [_distance(value, np.asarray(other[number])) for other in others]
        left = sum(int(np.count_nonzero(distance > radius)) for distance in apart)
        if definitions:
            expected = np.asarray(definitions[number])
            slack = 0.0 if expected.dtype.kind in "biu" else 0.51 * spacing(expected)
            apart.append(_distance(value, expected))
            left += int(np.count_nonzero(apart[-1] > radius + slack))
        yield Outcome(kind, name, _ratio(value, radius, apart), bool(np.isinf(radius).any()), left)


@np.errstate(all="ignore")
def _distance(value: Any, other: Any) -> Any:
    x, y = (z.astype(np.complex128 if z.dtype.kind == "c" else np.float64) for z in (value, other))
    same = (x == y) | ((x != x) & (y != y))
    distance = np.where(same, 0.0, modulus(x - y))
    return np.where(np.isnan(distance), np.inf, distance)


def _ratio(value: Any, radius: Any, apart: Sequence[Any]) -> float:
    largest = float(np.max(radius, initial=0.0, where=np.isfinite(radius)))
    if not largest:
        return 0.0
    seen = max([float(np.max(x, initial=0.0, where=np.isfinite(x))) for x in apart], default=0.0)
    if value.dtype.kind in "biu":
        return largest / max(seen, 1.0)
    size = np.where(np.isfinite(modulus(value)), modulus(value), 0.0)
    top = np.asarray(size.max(initial=0.0)).astype(value.real.dtype)
    smallest = float(ml_dtypes.finfo(value.real.dtype).smallest_normal)
    return largest / max(seen, float(spacing(top)) / 2, smallest)


if __name__ == "__main__":
    raise SystemExit(main())

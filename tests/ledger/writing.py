"""Writing of the ledger's file: its entries, the exemptions from checks, and the counts."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.ad.rules import AD_RULES
from tenferro.ops import STD_OPS
from tenferro.types import DType
from tests.ad.cases import SKIPPED
from tests.ledger.ledger import COLUMNS
from tests.samples import SAMPLES
from tests.samples.families import FAMILIES, FAMILY_SAMPLES, FamilySample
from tests.samples.sample import COMMON, OpSample

Sample = OpSample | FamilySample

LOWERED = ("PJRT", "interpreter", "import", "export")
DERIVED = ("jvp", "vjp")


@dataclass(frozen=True)
class Entry:
    """An op in the ledger, with its name, family, dtypes and samples."""

    op: str
    family: str
    dtypes: tuple[DType, ...]
    samples: Sequence[Sample]


OPS = [
    Entry(
        card.__name__,
        card.__module__.rpartition(".")[2],
        tuple(dtype for dtype in COMMON if dtype in card.accepts),
        SAMPLES[card],
    )
    for card in STD_OPS
]
EXTENSIONS = [
    Entry(family.__name__, family.__module__.split(".")[-2], (), FAMILY_SAMPLES[family])
    for family in FAMILIES
]
NUMBERS = {
    id(sample): number
    for entry in (*OPS, *EXTENSIONS)
    for number, sample in enumerate(entry.samples)
}


# ---- exemptions ----------------------------------------------------------------------------------


def exemption(column: str, sample: Sample) -> str | None:
    """Return why a check does not apply to a sample; None if it applies.

    The result is "" if the reason is obvious and needs no note.
    """
    if column in sample.exempt:
        return sample.exempt[column]
    if isinstance(sample, FamilySample):
        return "" if column in DERIVED and not sample.is_differentiable else None
    if column in LOWERED and not sample.xla:
        return sample.because
    return _underived(sample) if column in DERIVED else None


def _underived(sample: OpSample) -> str | None:
    """Return why a sample has no derivative; None if it has a derivative."""
    card = type(sample.op)
    if AD_RULES[card].jvp is None:
        return AD_RULES[card].reason
    if card in SKIPPED:
        return SKIPPED[card]
    sides = (sample.inputs, sample.expected)
    varies = all(any(DType.of(x.dtype).is_inexact for x in side) for side in sides)
    return None if varies else ""


# ---- the file ------------------------------------------------------------------------------------


def digest() -> str:
    """Return a hash of everything that determines the entries: ops, dtypes, samples and exemptions."""
    lines = [
        f"{entry.op} {entry.family} {sample} {sample.dtype.short} "
        f"{[exemption(column, sample) for column in COLUMNS]}"
        for entry in (*OPS, *EXTENSIONS)
        for sample in entry.samples
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def document(said: Iterable[str]) -> dict[str, Any]:
    """Create the ledger's JSON document from the records of all tests."""
    counts = Counter(tuple(words.split()[:3]) for words in set(said))
    return {
        "samples": digest(),
        "ops": {entry.op: _entry(entry, counts) for entry in OPS},
        "extensions": {entry.op: _entry(entry, counts) for entry in EXTENSIONS},
    }


def _entry(entry: Entry, counts: Counter[Any]) -> dict[str, Any]:
    by_dtype: dict[DType, list[Sample]] = {dtype: [] for dtype in entry.dtypes}
    for sample in entry.samples:
        by_dtype.setdefault(sample.dtype, []).append(sample)
    return {
        "family": entry.family,
        "counts": {
            dtype.short: [
                _count(by_dtype[dtype], column, counts[column, entry.op, dtype.short])
                for column in COLUMNS
            ]
            for dtype in DType
            if dtype in by_dtype
        },
        "notes": _notes(entry),
    }


def _count(samples: Sequence[Sample], column: str, passed: int) -> int | None:
    """Return the number of samples that passed a check.

    The result is None if the check applies to no sample.
    """
    exempt = samples and all(exemption(column, sample) is not None for sample in samples)
    return None if exempt else passed


def _notes(entry: Entry) -> list[dict[str, Any]]:
    """Return the exemptions that have a reason.

    Exemptions with equal reasons and equal counts are merged.
    """
    found: Counter[tuple[str, str]] = Counter()
    for sample in entry.samples:
        for column in COLUMNS:
            if reason := exemption(column, sample):
                found[reason, column] += 1
    together: dict[tuple[str, int], list[str]] = {}
    for (reason, column), samples in found.items():
        together.setdefault((reason, samples), []).append(column)
    return [
        {"columns": columns, "samples": samples, "because": reason}
        for (reason, samples), columns in together.items()
    ]


def as_text(ledger: dict[str, Any]) -> str:
    """Format the document as JSON, with one op per line, so that diffs are readable."""

    def section(entries: dict[str, Any]) -> str:
        lines = [f"  {json.dumps(op)}: {json.dumps(entry)}" for op, entry in entries.items()]
        return "{\n" + ",\n".join(lines) + "\n }"

    return (
        f'{{\n "samples": "{ledger["samples"]}",\n'
        f' "ops": {section(ledger["ops"])},\n'
        f' "extensions": {section(ledger["extensions"])}\n}}\n'
    )

"""The ledger: the checks that the tests ran for each op and dtype.

`make coverage` runs the tests and writes the ledger. Nothing in it is written by hand. A number counts the samples
that passed. An empty entry means that the check does not apply, and a zero is a gap in the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenferro.types import DType

__all__ = ["COLUMNS", "LEDGER", "Ledger", "Line", "Note", "Row", "lines_of", "shortened"]

COLUMNS = {
    "native": "values of native execution equal those of the definition",
    "PJRT": "values through PJRT on the CPU equal the native values",
    "interpreter": "values of StableHLO's reference interpreter equal the native values",
    "jvp": "tangents agree with finite differences, the complex step, or a wider dtype",
    "vjp": "cotangents are adjoint to tangents",
    "import": "the StableHLO text, imported again, gives the same values",
    "export": "MLIR parses and verifies the StableHLO text",
}
"""Description of what each check compares."""

LEDGER = Path(__file__).with_name("ledger.json")
GAP = "GAP"


@dataclass(frozen=True)
class Row:
    """The checks of one op at one dtype.

    Attributes:
        family: the name of the file that defines the op; for an extension, the name of its package.
        counts: the number of passed samples of each check; None if the check does not apply.
    """

    op: str
    family: str
    dtype: str
    counts: tuple[int | None, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """Mark of each check: `x` if a sample passed, `-` if the check does not apply, else the mark of a gap."""
        return tuple("-" if count is None else "x" if count else GAP for count in self.counts)

    @property
    def shown(self) -> tuple[str, ...]:
        """Number of samples that passed each check; the check's mark if there are none."""
        return tuple(
            str(count) if count else mark
            for count, mark in zip(self.counts, self.marks, strict=True)
        )


@dataclass(frozen=True)
class Note:
    """The reason why some samples of an op are exempt from certain checks."""

    op: str
    columns: tuple[str, ...]
    samples: int
    because: str

    def __str__(self) -> str:
        count = f"{self.samples} sample" + "s" * (self.samples > 1)
        return f"{self.op}: not checked by {', '.join(self.columns)} ({count}): {self.because}"


@dataclass(frozen=True)
class Line:
    """An op with those of its dtypes that have equal marks. They share a row of the page."""

    op: str
    family: str
    dtypes: tuple[str, ...]
    marks: tuple[str, ...]


@dataclass(frozen=True)
class Ledger:
    """All checks that the tests passed.

    Attributes:
        samples: a hash of all samples. If it differs from that of the present samples, the ledger is outdated.
        ops: the rows of tenferro's ops, in the order of their definition.
        extensions: the rows of tenferro's own extension families.
    """

    samples: str
    ops: tuple[Row, ...]
    extensions: tuple[Row, ...]
    notes: tuple[Note, ...]

    @classmethod
    def load(cls, path: Path = LEDGER) -> Ledger:
        """Read the ledger from its file."""
        return cls.of(json.loads(path.read_text()))

    @classmethod
    def of(cls, document: Any) -> Ledger:
        """Create a ledger from its JSON document."""
        sections = [document["ops"], document["extensions"]]
        ops, extensions = (tuple(_rows(section)) for section in sections)
        notes = tuple(note for section in sections for note in _notes(section))
        return cls(document["samples"], ops, extensions, notes)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows of tenferro's ops, followed by the rows of the extension families."""
        return self.ops + self.extensions

    def only(
        self, ops: Sequence[str] = (), dtypes: Sequence[str] = (), gaps: bool = False
    ) -> Ledger:
        """Return a ledger with only these ops and dtypes, and with `gaps` only rows that have a gap.

        Without `ops` or `dtypes`, all of them remain.

        >>> Ledger.load().only(["Sin"], ["f32"]).rows[0].op
        'Sin'
        """

        def wanted(row: Row) -> bool:
            return (
                (not ops or row.op in ops)
                and (not dtypes or row.dtype in dtypes)
                and (not gaps or GAP in row.marks)
            )

        kept = [tuple(filter(wanted, section)) for section in (self.ops, self.extensions)]
        left = {row.op for section in kept for row in section}
        return Ledger(
            self.samples, *kept, notes=tuple(note for note in self.notes if note.op in left)
        )

    def to_markdown(self) -> str:
        """Return the ledger in Markdown: the table of ops, the table of extension families, and the notes."""
        titled = [("Operations", self.ops), ("Extension families", self.extensions)]
        parts = [f"## {title}\n\n{_table(rows)}" for title, rows in titled if rows]
        if self.notes:
            parts.append("## Notes\n\n" + "\n".join(f"- {note}." for note in self.notes))
        return "\n\n".join(parts)


def lines_of(rows: Iterable[Row]) -> list[Line]:
    """Merge the rows of an op that have equal marks."""
    grouped: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for row in rows:
        grouped.setdefault((row.op, row.family, row.marks), []).append(row.dtype)
    return [
        Line(op, family, tuple(dtypes), marks) for (op, family, marks), dtypes in grouped.items()
    ]


def shortened(dtypes: Iterable[str]) -> str:
    """Format dtypes as text; consecutive dtypes are written as the first and the last of them.
    'bool i8..i64 f16 f32 c64 c128'
    """
    given = set(dtypes)
    kinds: dict[str, list[str]] = {}
    for dtype in DType:
        if dtype.is_narrow and dtype.short not in given:
            continue
        kinds.setdefault(dtype.kind, []).append(dtype.short)
    words: list[str] = []
    for members in kinds.values():
        found = [name for name in members if name in given]
        words += [f"{found[0]}..{found[-1]}"] if found == members and len(found) > 2 else found
    return " ".join(words)


def _rows(section: Any) -> Iterator[Row]:
    for op, entry in section.items():
        for dtype, counts in entry["counts"].items():
            yield Row(op, entry["family"], dtype, tuple(counts))


def _notes(section: Any) -> Iterator[Note]:
    for op, entry in section.items():
        for note in entry["notes"]:
            yield Note(op, tuple(note["columns"]), note["samples"], note["because"])


def _table(rows: Sequence[Row]) -> str:
    header = ("op", "family", "dtypes", *COLUMNS)
    cells = [(line.op, line.family, shortened(line.dtypes), *line.marks) for line in lines_of(rows)]
    ruled = [header, ("---",) * len(header), *cells]
    return "\n".join("| " + " | ".join(row) + " |" for row in ruled)

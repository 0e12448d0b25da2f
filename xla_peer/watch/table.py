"""Table of outcomes, with a row for each test case and a column for each compiler, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tenferro.errors import InvalidConfigError

__all__ = ["STATES", "Entry", "Row", "Table"]

STATES = ("right", "undecided", "refused", "wrong", "ended")
"""States of an entry; `ended` means a crash or a hang."""
RED = ("wrong", "ended")
"""States that count as failures."""


@dataclass(frozen=True)
class Entry:
    """Outcome of a case with one compiler.

    Attributes:
        state: `right`; `wrong`; `ended` for a crash or a hang; `refused` if the compiler rejects the module; or
            `undecided` if another right implementation may compute the same values.
        words: the verdict of the parity check, the signal, or the refusal.
        op: the first op whose result differs from the native result; empty if it was not determined.
        fault: the pass at fault, or the option that corrects the result if it is changed; empty if unknown.
    """

    state: str
    words: str = ""
    op: str = ""
    fault: str = ""

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise InvalidConfigError(
                f"an entry's state must be one of {', '.join(STATES)}, got {self.state!r}"
            )

    @property
    def is_red(self) -> bool:
        """Whether the outcome is a wrong value, a crash or a hang."""
        return self.state in RED

    def __str__(self) -> str:
        if self.state in ("right", "undecided"):
            return self.state
        words = f": {self.words}" if self.words and self.words != "wrong" else ""
        op = f", at {self.op.partition(' (')[0]}" if self.op else ""
        fault = f", by {self.fault}" if self.fault else ""
        return f"**{self.state}**{words}{op}{fault}" if self.is_red else f"{self.state}{words}"


@dataclass(frozen=True)
class Row:
    """Row of a table: a test case, with an entry for each compiler.

    Attributes:
        name, words, link, compiler: attributes of the case.
        entries: entries by the compiler's name and version.
    """

    name: str
    words: str
    link: str
    compiler: str
    entries: dict[str, Entry]


@dataclass(frozen=True)
class Table:
    """Outcomes of cases with several compilers.

    Attributes:
        compilers: names of the compilers with their versions, in the order of the columns.
        rows: one row per case.
    """

    compilers: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def red(self) -> list[tuple[str, str]]:
        """Pairs of a case's name and a compiler's name, for each wrong value, crash and hang."""
        return [
            (row.name, compiler)
            for row in self.rows
            for compiler, entry in row.entries.items()
            if entry.is_red
        ]

    def worse_than(self, before: Table) -> list[tuple[str, str]]:
        """Return case and compiler of each entry that fails in this table, but is right in the table `before`.

        Compilers are matched by name and version. A version that `before` lacks is compared with the last column of
        the same compiler.
        """
        known = {row.name: row for row in before.rows}
        last = {compiler.rpartition(" ")[0]: compiler for compiler in before.compilers}
        worse: list[tuple[str, str]] = []
        for name, compiler in self.red:
            then = {} if name not in known else known[name].entries
            earlier = (
                compiler
                if compiler in before.compilers
                else last.get(compiler.rpartition(" ")[0], "")
            )
            if earlier in then and then[earlier].state == "right":
                worse.append((name, compiler))
        return worse

    def to_json(self) -> str:
        """Write the table as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Convert the table to JSON-compatible values."""
        return {
            "compilers": list(self.compilers),
            "cases": [
                {
                    "name": row.name,
                    "words": row.words,
                    "link": row.link,
                    "compiler": row.compiler,
                    "entries": {name: asdict(entry) for name, entry in row.entries.items()},
                }
                for row in self.rows
            ],
        }

    @classmethod
    def from_dict(cls, document: Any) -> Table:
        """Read the table that `to_dict` wrote.

        Raises:
            InvalidConfigError: the document is not a table.
        """
        try:
            rows = [
                Row(
                    *[str(case[key]) for key in ("name", "words", "link", "compiler")],
                    entries={
                        str(name): Entry(
                            *[str(entry[key]) for key in ("state", "words", "op", "fault")]
                        )
                        for name, entry in case["entries"].items()
                    },
                )
                for case in document["cases"]
            ]
            return cls(tuple(map(str, document["compilers"])), tuple(rows))
        except (AttributeError, KeyError, TypeError) as error:
            raise InvalidConfigError(f"no table of `tenferro watch`: {error!r}") from None

    @classmethod
    def from_json(cls, text: str) -> Table:
        """Read the table that `to_json` wrote.

        Raises:
            InvalidConfigError: the text is not a table.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise InvalidConfigError(f"no table of `tenferro watch`: {error}") from None
        return cls.from_dict(document)

    def counts(self) -> list[tuple[str, dict[str, int]]]:
        """Count the entries in each state, for each compiler."""
        return [
            (compiler, {state: self._count(compiler, state) for state in STATES})
            for compiler in self.compilers
        ]

    def _count(self, compiler: str, state: str) -> int:
        entries = [row.entries.get(compiler) for row in self.rows]
        return sum([entry is not None and entry.state == state for entry in entries])

    def to_markdown(self, sections: Mapping[str, str] | None = None) -> str:
        """Write Markdown: a table of the counts, then a table of cases for each compiler that has reports about it.

        Args:
            sections: the titles of the latter tables, by the name of the compiler that the reports are about.
        """
        titles = dict(sections or {})
        lines = [_line(["compiler", *STATES]), _line(["---"] * (1 + len(STATES)))]
        for compiler, counts in self.counts():
            name = f"**{compiler}**" if counts["wrong"] or counts["ended"] else compiler
            lines.append(_line([name, *[str(counts[state]) for state in STATES]]))
        for kind in dict.fromkeys(row.compiler for row in self.rows):
            title = titles.get(kind) or (f"Reports on {kind}" if kind else "Ordinary programs")
            lines += ["", f"## {title}", ""]
            lines += [
                _line(["case", "what", *self.compilers]),
                _line(["---"] * (2 + len(self.compilers))),
            ]
            for row in self.rows:
                if row.compiler == kind:
                    name = f"[{row.name}]({row.link})" if row.link else row.name
                    cells = [str(row.entries.get(compiler, "")) for compiler in self.compilers]
                    lines.append(_line([name, row.words, *cells]))
        return "\n".join(lines) + "\n"

    def __str__(self) -> str:
        red = len(self.red)
        return f"{len(self.rows)} cases by {len(self.compilers)} compilers: {red} red"


def _line(cells: list[str]) -> str:
    """Format a row in Markdown."""
    return f"| {' | '.join([cell.replace('|', chr(92) + '|') for cell in cells])} |"

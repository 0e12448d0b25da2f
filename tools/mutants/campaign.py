"""Campaign of mutants, each of which edits one line of the sources.

The tests of a mutant run in three stages, until one fails: the tests of the edited folder, the tests of its layer,
and the remaining tests.
"""

from __future__ import annotations

import json
import os
import re
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.mutants.columns import FOLDERS, is_of_column, is_of_floor
from tools.mutants.edits import Edit, edits_of, is_another_program
from tools.mutants.readers import functions_about, readers_elsewhere
from tools.mutants.trials import Trial, tried

if TYPE_CHECKING:
    from tools.mutants.tests_of_lines import Recorded  # it imports coverage.py

__all__ = ["Campaign", "Mutant", "equivalents", "mutants_of"]

STAGE_SECONDS = 45.0
"""Maximum recorded time of the tests of each of the first two stages, in seconds. The fastest tests are chosen."""
MOST_FILES = 8
"""Maximum number of test files in the second stage: to collect a file takes pytest as long as many tests take."""
REST_SECONDS = 90.0
"""Maximum recorded time of the tests of the third stage, in seconds.

It may be long, because few mutants reach this stage.
"""
ALLOWANCE = 30.0
"""Additional processor time of a stage, in seconds.

The limit of a stage is four times the recorded time of its tests, plus this time.
"""


class Mutant(NamedTuple):
    """An edit of a file in one of the mutated folders."""

    folder: str
    path: str
    edit: Edit

    def record(self, source: str) -> dict[str, Any]:
        """Return the record of this mutant for the log and the report; `source` is the file before the edit."""
        before, after = self.edit.difference(source)
        return {"folder": self.folder, "path": self.path, "line": self.edit.lines[0], "kind": self.edit.kind,
                "before": before, "after": after}  # fmt: skip


def mutants_of(tree: Path, folders: Sequence[str], seed: int) -> Iterator[Mutant]:
    """Yield one edit for each line that has possible edits; the seed determines the edits and their order."""
    random = Random(seed)
    lines: list[tuple[str, str, int]] = []
    offered: dict[tuple[str, int], list[Edit]] = {}
    for folder in folders:
        for path in sorted((tree / folder).rglob("*.py")):
            name = str(path.relative_to(tree))
            for edit in edits_of(path.read_text()):
                offered.setdefault((name, edit.lines[0]), []).append(edit)
            lines += [(folder, name, line) for path, line in offered if path == name]
    random.shuffle(lines)
    for folder, name, line in lines:
        edits = offered[name, line]
        random.shuffle(edits)
        source = (tree / name).read_text()
        edit = next((edit for edit in edits if is_another_program(source, edit)), None)
        if edit is not None:
            yield Mutant(folder, name, edit)


def equivalents(file: Path) -> dict[tuple[str, str, str], str]:
    """Return the edits that are proven to have no visible effect, each with its proof.

    A key consists of the path, the line before the edit, and the line after it.

    Raises:
        ValueError: an edit has no proof.
    """
    proofs = {}
    for row in tomllib.loads(file.read_text()).get("mutant", ()):
        if not row["because"]:
            raise ValueError(f"{row['path']}: {row['after']} has no proof in {file}")
        proofs[row["path"], row["before"], row["after"]] = row["because"]
    return proofs


class Campaign:
    """Outcomes of mutants.

    The file `log` has a line for each outcome, so that an interrupted campaign is resumed.

    Args:
        tree:      a copy of the tree, which is edited and restored
        recorded:  the tests that run each line
        log:       the file of outcomes
        proofs:    the result of `equivalents`
    """

    def __init__(
        self, tree: Path, recorded: Recorded, log: Path, proofs: dict[tuple[str, str, str], str]
    ) -> None:
        self.tree = tree
        self.recorded = recorded
        self.log = log
        self.proofs = proofs
        lines = log.read_text().splitlines() if log.exists() else []
        self.outcomes: dict[int, dict[str, Any]] = {
            record["number"]: record for record in map(json.loads, lines)
        }

    def run(self, mutants: Sequence[Mutant], numbers: Iterable[int]) -> Iterator[dict[str, Any]]:
        """Test each mutant in `numbers` that has no outcome yet, and yield its outcome."""
        for number in numbers:
            if number >= len(mutants):
                break
            mutant = mutants[number]
            source = (self.tree / mutant.path).read_text()
            facts = mutant.record(source)
            known = self.outcomes.get(number)
            if known is not None and all(known[name] == fact for name, fact in facts.items()):
                continue
            record = {"number": number, **facts, **self.outcome(mutant)}
            self.outcomes[number] = record
            with self.log.open("a") as log:
                log.write(json.dumps(record) + "\n")
            yield record

    def outcome(self, mutant: Mutant) -> dict[str, Any]:
        """Run the tests of a mutant, stage by stage.

        Return the outcome, the test that decided it, its stage, the number of tests, and the processor time.
        """
        path = self.tree / mutant.path
        source, stamp = path.read_text(), path.stat().st_mtime
        stages = zip(("column", "floor", "rest"), self.stages(mutant), strict=True)
        used, count = 0.0, 0
        try:
            path.write_text(mutant.edit.applied(source))
            # The new modification time is later than that of any cached bytecode, so that Python compiles the file
            # again.
            moment = time.time() + 10
            os.utime(path, (moment, moment))
            for stage, names in stages:
                if not names:
                    continue
                trial = self._tried(names)
                used, count = used + trial.seconds, count + len(names)
                if trial.outcome != "passed":
                    return {"outcome": "killed", "by": trial.outcome, "stage": stage, "test": trial.test,
                            "seconds": round(used, 2)}  # fmt: skip
        finally:
            path.write_text(source)
            os.utime(path, (stamp, stamp))
        return {"outcome": "survived", "by": f"{count} tests", "stage": "", "test": "", "seconds": round(used, 2)}  # fmt: skip

    def _tried(self, names: Sequence[str]) -> Trial:
        files = list(dict.fromkeys(map(_file_of, names)))
        seconds = sum(self.recorded.seconds[name] for name in names)
        return tried(self.tree, files, names, seconds=ALLOWANCE + 4 * seconds)

    def stages(self, mutant: Mutant) -> tuple[list[str], list[str], list[str]]:
        """Return the tests of the three stages, in the order of execution: folder, layer, and others.

        Tests that run the edited lines come first, the fastest first. If no test runs these lines, or if they run
        only on import, the following tests come first:

        - tests that have the name of a class in these lines in their own names, or run a function that the lines name;
        - tests that run a function that uses the assigned names, in the same file and then in other files;
        - the other tests.
        """
        seconds, edit = self.recorded.seconds, mutant.edit
        running = set() if edit.at_import else self.recorded.tests(mutant.path, *edit.lines)
        if running:
            ranks = [running]
        else:
            source = (self.tree / mutant.path).read_text()
            words = set(re.findall(r"[A-Z]\w+", edit.difference(source)[0]))
            named = {name for name in seconds if not words.isdisjoint(re.findall(r"\w+", name))}
            first, second = (
                {name for span in spans for name in self.recorded.tests(mutant.path, *span)}
                for spans in functions_about(source, *edit.lines)
            )
            elsewhere = {
                name
                for path, spans in readers_elsewhere(self.tree, mutant.path, *edit.lines)
                for span in spans
                for name in self.recorded.tests(path, *span)
            }
            ranks = [named | first, second - first - named, elsewhere - second - first - named]
        ordered = [
            name for rank in ranks for name in sorted(rank, key=lambda name: (seconds[name], name))
        ]
        floor = [name for name in ordered if is_of_floor(name, mutant.folder)]
        those_who_run = [name for name in ordered if is_of_column(name, mutant.folder)] + floor
        if not running:
            ordered += sorted(seconds.keys() - set(ordered), key=lambda name: (seconds[name], name))
        column = [name for name in ordered if is_of_column(name, mutant.folder)]
        first = self._within(STAGE_SECONDS, column)
        second = self._within(STAGE_SECONDS, _of_few_files(floor))
        rest = sorted(
            set(those_who_run) - {*first, *second}, key=lambda name: (seconds[name], name)
        )
        return first, second, self._within(REST_SECONDS, rest)

    def _within(self, most: float, names: Sequence[str]) -> list[str]:
        """Return the longest prefix of `names` whose recorded times add up to at most `most` seconds."""
        seconds = self.recorded.seconds
        kept, total = [], 0.0
        for name in names:
            total += seconds[name] + 0.002
            if total > most:
                break
            kept.append(name)
        return kept

    def verdict(self, record: dict[str, Any]) -> str:
        """Return the outcome of a mutant.

        If a mutant survived but is proven to have no visible effect, the outcome is `equivalent`.
        """
        is_proven = (record["path"], record["before"], record["after"]) in self.proofs
        return "equivalent" if record["outcome"] == "survived" and is_proven else record["outcome"]

    def report(self) -> str:
        """Return the number of mutants by folder and outcome, and each survivor's lines before and after the edit."""
        records = [self.outcomes[number] for number in sorted(self.outcomes)]
        counts = Counter((record["folder"], self.verdict(record)) for record in records)
        columns = ("killed", "survived", "equivalent")
        rows = [f"{'':20}" + "".join(f"{name:>12}" for name in columns) + f"{'score':>9}"]
        for folder in [*FOLDERS, ""]:
            row = [sum(n for (one, verdict), n in counts.items() if verdict == name and folder in ("", one))
                   for name in columns]  # fmt: skip
            if sum(row):
                score = row[0] / max(1, row[0] + row[1])
                rows.append(
                    f"{folder or 'all':20}" + "".join(f"{n:12}" for n in row) + f"{score:9.1%}"
                )
        seconds = sum(record["seconds"] for record in records) / max(1, len(records))
        rows.append(f"{seconds:.1f} s of processor time a mutant")
        for record in records:
            if self.verdict(record) == "survived":
                rows += ["", "{path}:{line} {kind}, number {number}".format(**record), f"- {record['before']}", f"+ {record['after']}"]  # fmt: skip
        return "\n".join(rows)


def _of_few_files(names: Sequence[str]) -> list[str]:
    """Return the tests of at most `MOST_FILES` files, namely those with the most of these tests."""
    counts = Counter(_file_of(name) for name in names)
    files = {file for file, _ in counts.most_common(MOST_FILES)}
    return [name for name in names if _file_of(name) in files]


def _file_of(name: str) -> str:
    return name.partition("::")[0]

"""Campaign that reads damaged files (mutants) in child processes.

It records each outcome, and saves each failure as a test.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tools.hostile.edits import edited
from tools.hostile.seeds import Seed

__all__ = ["FAILURES", "Campaign", "Mutant", "Reader", "mutant_of", "shrunk"]

FAILURES = ("foreign", "signal", "time", "memory")
SECONDS = 5.0
"""Maximum processor time for reading one mutant, in seconds."""
PATIENCE = 30.0
"""Maximum time to wait for a child process, in seconds.

This time is longer than `SECONDS`, because the child shares the processor with other processes.
"""
MOST_READ = 500
"""Maximum number of mutants that a child process reads before a new child replaces it."""
TEST = '''"""{kind}, mutant {number} of seed {seed}: {outcome}."""

from pathlib import Path

from tools.hostile.doors import DOORS
from tools.hostile.reader import outcome_of


def test_it_is_loaded_or_refused() -> None:
    outcome, words = outcome_of(DOORS[{kind!r}], Path(__file__).with_name("files") / {main!r})
    assert outcome in ("loaded", "ours"), words
'''


class Mutant(NamedTuple):
    """A valid seed file with edits. Each edit is a pair: the name of a file of the seed, and the number of the edit."""

    seed: Seed
    edits: tuple[tuple[str, int], ...]

    def write(self, folder: Path) -> Path:
        """Write the mutant's files into a new folder; return the path of the main file."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        files = dict(self.seed.files)
        for name, number in self.edits:
            files[name] = edited(name, files[name], number)
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return folder / self.seed.main


def mutant_of(seeds: Sequence[Seed], seed: int, number: int) -> Mutant:
    """Return the mutant with this number in the campaign with this seed.

    Consecutive numbers belong to different kinds of files, so that every range of numbers contains all kinds.
    """
    random = Random(f"{seed}/{number}")
    kinds = sorted({one.kind for one in seeds})
    chosen = random.choice([one for one in seeds if one.kind == kinds[number % len(kinds)]])
    names = [name for name in chosen.files if name != "types.json"]
    count = random.choice((1, 1, 1, 2, 3, 6))
    weights = [3 if name == chosen.main else 1 for name in names]
    files = random.choices(names, weights, k=count)
    return Mutant(chosen, tuple((name, random.randrange(1 << 60)) for name in files))


def shrunk(mutant: Mutant, fails: Callable[[Mutant], bool]) -> Mutant:
    """Remove edits from a failing mutant, one by one, as long as the mutant still fails."""
    place = 0
    while place < len(mutant.edits) > 1:
        smaller = mutant._replace(edits=mutant.edits[:place] + mutant.edits[place + 1 :])
        if fails(smaller):
            mutant = smaller
        else:
            place += 1
    return mutant


class Reader:
    """A child process that reads mutants. If it ends, the next call of `read` starts another."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None
        self._count = 0

    def read(self, kind: str, path: Path) -> tuple[str, str]:
        """Let the child process read a file; return the outcome, such as `loaded`, and the message of an error."""
        if self._child is None or self._count >= MOST_READ:
            self.close()
            self._child = self._started()
        self._count += 1
        child = self._child
        assert child.stdin
        assert child.stdout
        child.stdin.write(json.dumps([kind, str(path)]) + "\n")
        child.stdin.flush()
        begin, used = time.monotonic(), _processor_seconds(child.pid)
        while not select.select([child.stdout], [], [], 0.1)[0]:
            seconds = _processor_seconds(child.pid) - used
            if seconds > SECONDS or time.monotonic() - begin > PATIENCE:
                self.close()
                return "time", f"{seconds:.1f} s of processor time"
        answer = child.stdout.readline()
        if answer:
            outcome, words = json.loads(answer)
            return outcome, words
        status = child.wait()
        self._child = None
        return "signal", signal.Signals(-status).name if status < 0 else f"status {status}"

    def _started(self) -> subprocess.Popen[str]:
        self._count = 0
        return subprocess.Popen(
            [sys.executable, "-m", "tools.hostile.reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def close(self) -> None:
        """End the child process and its descendants, by SIGKILL."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.communicate()
            self._child = None


def _processor_seconds(pid: int) -> float:
    """Return the processor time, in seconds, of a process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class Campaign:
    """Outcomes of reading mutants.

    `outcomes.jsonl` in `folder` contains a line for each mutant. The subfolder `failures` contains the files of each
    failing mutant.

    Raises:
        ValueError: `folder` has the outcomes of a campaign with another seed.
    """

    def __init__(self, folder: Path, seeds: Sequence[Seed], seed: int) -> None:
        self.folder = folder
        self.seeds = seeds
        self.seed = seed
        self.outcomes: dict[int, dict[str, Any]] = {}
        self._log = folder / "outcomes.jsonl"
        for line in self._log.read_text().splitlines() if self._log.exists() else []:
            record = json.loads(line)
            if record["seed"] != seed:
                raise ValueError(
                    f"{self._log} is of seed {record['seed']}; give it, or another folder"
                )
            self.outcomes[record["number"]] = record

    def run(
        self, numbers: Sequence[int], kinds: Sequence[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Read each mutant in `numbers` that has no outcome yet, and yield its outcome."""
        reader = Reader()
        try:
            with self._log.open("a") as log:
                for number in numbers:
                    mutant = mutant_of(self.seeds, self.seed, number)
                    if number in self.outcomes or (kinds and mutant.seed.kind not in kinds):
                        continue
                    record = self._outcome(reader, mutant, number)
                    self.outcomes[number] = record
                    log.write(json.dumps(record) + "\n")
                    log.flush()
                    yield record
        finally:
            reader.close()

    def _outcome(self, reader: Reader, mutant: Mutant, number: int) -> dict[str, Any]:
        kind, scratch = mutant.seed.kind, self.folder / "scratch"

        def read(one: Mutant) -> tuple[str, str]:
            return reader.read(kind, one.write(scratch))

        begin = time.monotonic()
        outcome, words = read(mutant)
        # Try again in a new child: earlier files may have used up the time or memory of this child.
        if outcome in ("time", "memory"):
            reader.close()
            outcome, words = read(mutant)
        record = {"seed": self.seed, "number": number, "kind": kind, "outcome": outcome, "words": words,
                  "seconds": round(time.monotonic() - begin, 3)}  # fmt: skip
        if outcome in FAILURES:
            small = shrunk(mutant, lambda one: read(one)[0] == outcome)
            self._save(small, record)
        return record

    def _save(self, mutant: Mutant, record: dict[str, Any]) -> None:
        """Save the files of a failing mutant, and a test that reads them."""
        place = self.folder / "failures" / f"{record['kind']}_{record['number']}"
        mutant.write(place / "files")
        text = TEST.format(main=mutant.seed.main, **record)
        (place / f"test_{record['kind']}_{record['number']}.py").write_text(text)
        (place / "case.json").write_text(json.dumps(record | {"edits": mutant.edits}, indent=1))

    def table(self) -> str:
        """Return a table that counts the outcomes of each kind of file."""
        counts = Counter((r["kind"], r["outcome"]) for r in self.outcomes.values())
        columns = ("loaded", "ours", *FAILURES)
        rows = [f"{'':14}" + "".join(f"{name:>9}" for name in columns)]
        for kind in sorted({kind for kind, _ in counts}):
            rows.append(f"{kind:14}" + "".join(f"{counts[kind, name]:9}" for name in columns))
        return "\n".join(rows)

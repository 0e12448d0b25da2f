"""Damaged files must be rejected by errors.

The tests run a sample of the campaign, and its driver with a reader that fails.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.hostile.campaign import FAILURES, Campaign, Mutant, mutant_of, shrunk
from tools.hostile.doors import DOORS
from tools.hostile.edits import edited
from tools.hostile.reader import outcome_of
from tools.hostile.seeds import Seed, written_seeds

IN_PROCESS = ("program", "manifest", "inputs", "vectors", "cache")
"""Kinds of files that are read without MLIR. MLIR could crash the process of the test."""


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: Any) -> list[Seed]:
    return written_seeds(tmp_path_factory.mktemp("seeds"))


def test_seeds_of_every_kind_are_read(seeds: list[Seed], tmp_path: Path) -> None:
    assert {seed.kind for seed in seeds} == set(DOORS)
    for seed in seeds:
        if seed.kind != "bytecode":  # bytecode must be read in a child process
            path = Mutant(seed, ()).write(tmp_path / "files")
            assert outcome_of(DOORS[seed.kind], path) == ("loaded", "")


@pytest.mark.parametrize("kind", IN_PROCESS)
def test_damaged_files_are_loaded_or_refused(seeds: list[Seed], kind: str, tmp_path: Path) -> None:
    own = [seed for seed in seeds if seed.kind == kind]
    outcomes = []
    for number in range(30):
        path = mutant_of(own, 7, number).write(tmp_path / "files")
        outcome, words = outcome_of(DOORS[kind], path)
        assert outcome not in FAILURES, f"{number}: {words}"
        outcomes.append(outcome)
    assert kind == "cache" or "ours" in outcomes


def test_edits_are_decided_by_their_number(seeds: list[Seed]) -> None:
    for seed in seeds:
        content = seed.files[seed.main]
        assert edited(seed.main, content, 3) == edited(seed.main, content, 3)
        assert any(edited(seed.main, content, number) != content for number in range(5))


FAKE = Seed("manifest", "manifest.json", {"manifest.json": b'{"format": 1}'})


class Failing:
    """Reader that fails on purpose if the first bytes of a file are damaged."""

    reads = 0

    def read(self, kind: str, path: Path) -> tuple[str, str]:
        Failing.reads += 1
        return (
            ("loaded", "") if path.read_bytes().startswith(b'{"f') else ("foreign", "KeyError: 1")
        )

    def close(self) -> None:
        """Do nothing: this reader has started no child process."""


def test_failures_are_shrunk_and_saved_and_a_campaign_goes_on(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tools.hostile.campaign.Reader", Failing)
    first = Campaign(tmp_path, [FAKE], 4)
    outcomes = [record["outcome"] for record in first.run(range(40))]
    assert set(outcomes) == {"loaded", "foreign"}
    failures = sorted((tmp_path / "failures").iterdir())
    assert len(failures) == outcomes.count("foreign")
    assert {p.name for p in failures[0].iterdir()} == {
        "files",
        "case.json",
        f"test_{failures[0].name}.py",
    }
    again = Campaign(tmp_path, [FAKE], 4)
    Failing.reads = 0
    assert [record["number"] for record in again.run(range(41))] == [40]
    assert Failing.reads >= 1
    assert "manifest" in again.table()
    with pytest.raises(ValueError, match="is of seed 4"):
        Campaign(tmp_path, [FAKE], 5)


def test_what_is_not_needed_to_fail_goes() -> None:
    mutant = Mutant(FAKE, tuple(("manifest.json", number) for number in range(6)))
    small = shrunk(mutant, lambda one: ("manifest.json", 4) in one.edits)
    assert small.edits == (("manifest.json", 4),)


def test_a_saved_failure_is_a_test(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tools.hostile.campaign.Reader", Failing)
    list(Campaign(tmp_path, [FAKE], 4).run(range(10)))
    (case, *_) = sorted((tmp_path / "failures").glob("*/test_*.py"))
    namespace: dict[str, Any] = {"__file__": str(case)}
    exec(compile(case.read_text(), str(case), "exec"), namespace)
    namespace["test_it_is_loaded_or_refused"]()  # here the real reader runs, and rejects the file
    assert "mutant" in namespace["__doc__"]


def test_the_reading_process_has_limits(tmp_path: Path) -> None:
    script = (
        "import json, sys, io\n"
        "from tools.hostile import reader\n"
        "reader.DOORS = {'large': lambda path: bytes(2 << 30), 'ends': lambda path: __import__('os').abort()}\n"
        "reader.main()\n"
    )
    lines = '["large", "x"]\n["ends", "x"]\n'
    ended = subprocess.run(
        [sys.executable, "-c", script], input=lines, capture_output=True, text=True, check=False
    )
    assert ended.returncode == -6
    assert ended.stdout.startswith('["memory", "MemoryError')

"""The pytest plugin, tested by separate runs of pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tenferro.pytest_plugin import write_watch

TESTS = """
import numpy as np
import tenferro as tnf

X, W = np.linspace(-1, 1, 12).reshape(4, 3), np.eye(3)

def layer(x, w):
    return tnf.sum(tnf.tanh(x @ w) ** 2)

def test_layer(assert_parity, check_grads):
    assert_parity(layer, X, W, grad=True)
    check_grads(layer, (X, W), order=2)
"""
WRONG = """
class Off:
    platform = "abacus"
    def run(self, program, *arrays):
        y = program.run(*arrays)
        return tuple([x * (1 + 1e-9) for x in y]) if isinstance(y, tuple) else y * (1 + 1e-9)

def test_wrong(assert_parity):
    assert_parity(layer, X, W, executor=Off())

def test_wrong_gradient(check_grads):
    @tnf.custom_jvp
    def f(x):
        return x * x
    f.defjvp(lambda p, t: (p[0] * p[0], p[0] * t[0]))
    check_grads(f, (X,))
"""


def run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "test_it.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *options,
        "test_it.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_fixtures_pass_are_counted_and_fail_with_words_and_a_reproduction(tmp_path: Path) -> None:
    status, said = run(tmp_path, TESTS + WRONG, f"--basetemp={tmp_path / 'temp'}")
    assert status == 1
    assert "tenferro: 2 parity checks, 1 gradient check on cpu; the nearest to its bound" in said
    assert "native and abacus DISAGREE" in said
    assert "2 failed, 1 passed" in said
    assert list(tmp_path.rglob("repro.py"))
    assert list(tmp_path.rglob("report.txt"))
    message = said.partition("DISAGREE")[2].partition("files: ")[0].splitlines()
    assert len(message) < 15
    # The first lines of the message must name the op, the user's line, and the size of the error.
    assert message[1].startswith("wrong")
    assert "Tanh" in message[1] or "DotGeneral" in message[1] or "ReduceSum" in message[1]
    assert "ulps apart" in message[2]
    assert "to do: " in message[2]


def test_what_did_not_change_is_not_checked_again(tmp_path: Path) -> None:
    options = ("--tenferro-cache", "kept", "--tenferro-watch=watch.md")
    text = TESTS.replace("    check_grads(layer, (X, W), order=2)\n", "")
    status, said = run(tmp_path, text, *options)
    assert status == 0, said
    assert "unchanged" not in said
    (entry,) = (tmp_path / "kept").iterdir()
    assert "1 of them unchanged" in run(tmp_path, text, *options)[1]
    assert "unchanged" not in run(tmp_path, text.replace("** 2", "** 3"), *options)[1]
    assert "unchanged" not in run(tmp_path, text.replace("(-1, 1, 12)", "(-1, 2, 12)"), *options)[1]
    entry.write_text("{")  # now the file is damaged
    assert "unchanged" not in run(tmp_path, text, *options)[1]
    table = json.loads((tmp_path / "watch.json").read_text())["versions"]
    ((version, column),) = table.items()
    assert column == {"test_it.py::test_layer": column["test_it.py::test_layer"]}
    assert f"jaxlib {version}" in (tmp_path / "watch.md").read_text()


def test_the_table_keeps_the_columns_of_other_versions(tmp_path: Path) -> None:
    path = tmp_path / "watch.md"
    path.with_suffix(".json").write_text(
        '{"versions": {"0.0.10": {"t": "equal"}, "0.0.9": {"u": "wrong"}}}'
    )
    write_watch(path, {"t": "rounding"})
    head, _, first, second = path.read_text().splitlines()
    assert head.startswith("| test | jaxlib 0.0.9 | jaxlib 0.0.10 | jaxlib ")
    assert first == "| `t` |  | equal | rounding |"
    assert second == "| `u` | wrong |  |  |"
    path.with_suffix(".json").write_text("damaged")
    write_watch(path, {"t": "equal"})
    assert len(path.read_text().splitlines()) == 3


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    caching = pytest.importorskip("xla_peer.parity.verdict_cache")
    for folder in (None, tmp_path):
        cache = caching.VerdictCache(folder, most=3)
        for number in range(5):
            cache.put(str(number), caching.CachedVerdict(("equal",), 0.0, "y"))
        assert cache.counts().entries == 3
        assert cache.get("4") is not None
        cache.clear()
        assert cache.get("4") is None
        assert cache.counts() == (1, 1, 0)


def test_a_platform_that_is_not_there(tmp_path: Path) -> None:
    status, said = run(tmp_path, TESTS, "--tenferro-platform", "abacus")
    assert status == 1
    assert "PlatformUnavailableError" in said
    assert "abacus" in said


def test_runs_without_the_fixtures_say_nothing(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    status, said = run(tmp_path, "def test_nothing(): pass")
    assert status == 0
    assert "tenferro:" not in said
    assert pytestconfig.getoption("--tenferro-platform") == "cpu"

"""The plugin, in pytest runs of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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

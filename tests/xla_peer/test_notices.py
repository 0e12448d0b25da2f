"""Slow operations must print a notice to the error stream, unless notices are disabled."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tenferro as tnf
import xla_peer
from xla_peer import notices, pjrt
from xla_peer.cli import app

X = np.ones(3)


def loss(x: Any) -> Any:
    return tnf.sum(x * x)


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delay each compilation by 0.2 seconds, twenty times the threshold for a notice."""
    compiled = pjrt.compile_module

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.2)
        return compiled(*arguments)

    monkeypatch.setattr(notices, "PATIENCE", 0.01)
    monkeypatch.setattr(pjrt, "compile_module", slowly)
    monkeypatch.delenv(notices.NOTICES_VARIABLE, raising=False)


def test_a_long_compilation_says_so_while_it_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly, said_meanwhile = pjrt.compile_module, []

    def listened(*arguments: Any) -> Any:
        executable = slowly(*arguments)
        said_meanwhile.append(capsys.readouterr().err)
        return executable

    monkeypatch.setattr(pjrt, "compile_module", listened)
    xla_peer.XlaExecutor().run(tnf.compile(loss, X), X)
    assert said_meanwhile == ["tenferro: compiling loss for cpu: 0.01 s so far ..\n"]
    printed = capsys.readouterr()
    assert printed.err.startswith("tenferro: compiled loss for cpu in ")
    assert printed.err.endswith(" s\n")
    assert not printed.out


def test_without_a_thread_the_end_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with notices.noticed("compiling", "compiled"):
        time.sleep(0.1)
    assert capsys.readouterr().err.startswith("tenferro: compiled in 0.1")


def test_a_short_one_says_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "PATIENCE", 60.0)
    xla_peer.XlaExecutor().run(tnf.compile(loss, X), X)
    assert not capsys.readouterr().err


def test_an_executor_without_notices(capsys: pytest.CaptureFixture[str]) -> None:
    xla_peer.XlaExecutor(notices=False).run(tnf.compile(loss, X), X)
    assert not capsys.readouterr().err


def test_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(notices.NOTICES_VARIABLE, "off")
    xla_peer.XlaExecutor().run(tnf.compile(loss, X), X)
    assert not capsys.readouterr().err


def test_a_failure_is_not_said_to_be_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: Any) -> Any:
        time.sleep(0.2)
        raise tnf.errors.BackendFailureError("no")

    monkeypatch.setattr(pjrt, "compile_module", failing)
    with pytest.raises(tnf.errors.BackendFailureError):
        xla_peer.XlaExecutor().run(tnf.compile(loss, X), X)
    assert capsys.readouterr().err == "tenferro: compiling loss for cpu: 0.01 s so far ..\n"


def test_the_search_for_the_first_op(capsys: pytest.CaptureFixture[str]) -> None:
    class Wrong:
        platform, native = "wrong", tnf.GraphExecutor()

        def run(self, program: Any, *arrays: Any) -> Any:
            time.sleep(0.02)
            results = self.native.run(program, *arrays)
            return (
                tuple([y + 1.0 for y in results]) if isinstance(results, tuple) else results + 1.0
            )

    report = xla_peer.check_parity(loss, X, executor=Wrong(), interpreter=False)
    assert not report.ok
    lines = capsys.readouterr().err.splitlines()
    assert "tenferro: searching for the first op of loss that diverges: 0.01 s so far .." in lines
    assert any(line.startswith("tenferro: searched for it in ") for line in lines)


@pytest.mark.parametrize("json", [True, False])
def test_the_command_line(json: bool, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import tenferro as tnf\ndef f(x):\n    return tnf.sum(x)\n")
    command = ["run", f"{tmp_path}/model.py:f", "3xf64", "--platform", "cpu"]
    done = CliRunner().invoke(app, [*command, "--json"] if json else command)
    assert done.exit_code == 0
    assert ("compiling f for cpu" in done.stderr) is not json

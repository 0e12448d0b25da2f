"""The doctor: what works, what is missing, and what ends its process, told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenferro import errors
from xla_peer import XlaExecutor, doctor
from xla_peer.__main__ import main


def test_the_cpu_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is True
    (cpu,) = found["platforms"]
    assert cpu["status"] == "works"
    assert cpu["devices"]
    assert found["versions"]["jaxlib"]
    assert found["stablehlo"][0] == "0.9.0"


def test_what_is_missing_comes_with_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "rocm"]) == 1
    assert "rocm   missing  pip install" in capsys.readouterr().out


def test_a_plugin_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "plugin.so"
    report = doctor([str(path)])
    assert report.platforms[0].status == "fails"
    assert "no such file" in report.platforms[0].advice
    path.write_bytes(b"\x7fELF but no more")
    assert "Failed to open" in doctor([str(path)]).platforms[0].advice
    with pytest.raises(errors.PlatformUnavailableError, match=r"plugin .*plugin\.so"):
        XlaExecutor(str(path))


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("os.abort()", "status -6"),
        ("time.sleep(60)", "no answer"),
        ("os._exit(3)", "status 3"),
        ("print('no json', flush=True); os._exit(0)", "status 0"),
    ],
)
def test_a_plugin_that_takes_its_process_along(
    ending: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import os, sys, time\n{ending}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("xla_peer.diagnosis.SECONDS", 3)
    report = doctor(["cpu"])
    assert report.platforms[0].status == "fails"
    assert words in report.platforms[0].advice
    assert not report.ok


def test_misuse() -> None:
    for arguments in ([], ["cure"], ["doctor", "--loud"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2

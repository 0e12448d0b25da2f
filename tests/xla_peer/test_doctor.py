"""The doctor must distinguish installations that work, that are missing, and that crash."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from tenferro import errors
from tenferro.exec.llvm import link
from xla_peer import XlaExecutor, diagnosis, doctor
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


def test_loops_are_compiled() -> None:
    pytest.importorskip("llvmlite.binding")
    report = doctor(["cpu"])
    assert report.loops == "compiled"
    assert report.versions["llvmlite"]
    assert "loops and fused groups: compiled" in str(report)


WITHOUT_LLVMLITE = """
import importlib.metadata, json, sys
sys.modules["llvmlite"] = None  # an import of it raises ImportError
installed = importlib.metadata.version
def version(name):
    if name == "llvmlite":
        raise importlib.metadata.PackageNotFoundError(name)
    return installed(name)
importlib.metadata.version = version
import numpy as np, tenferro as tnf, xla_peer

def loop(x):
    return tnf.fori_loop(0, 1000, lambda i, y: tnf.sin(y) + x, x)

def group(x):
    return tnf.sum(tnf.exp(x) * 2.0 + tnf.sin(x) / 3.0)

schedules, results = [], []
for f, x in ((loop, np.ones(3)), (group, np.linspace(0.0, 1.0, 200_000))):
    executor = tnf.GraphExecutor()
    program = tnf.compile(f, x)
    schedules.append(str(executor.compile(program)))
    results.append(np.asarray(executor.run(program, x)).ravel()[0])
try:
    tnf.GraphExecutor(compiled=True)
except tnf.errors.InvalidConfigError as error:
    refusal = str(error)
report = xla_peer.doctor(["cpu"])
print(json.dumps([schedules, results, refusal, report.to_dict(), str(report)]))
"""


def test_without_llvmlite_everything_is_interpreted_and_the_doctor_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LLVMLITE], capture_output=True, text=True, check=True
    )
    schedules, results, refusal, found, shown = json.loads(done.stdout.splitlines()[-1])
    assert not any("compiled" in schedule for schedule in schedules)
    x = y = 1.0
    for _ in range(1000):
        y = np.sin(y) + x
    z = np.linspace(0.0, 1.0, 200_000)
    expected = [y, np.sum(np.exp(z) * 2.0 + np.sin(z) / 3.0)]
    np.testing.assert_allclose(results, expected, rtol=1e-12)
    assert refusal.endswith("needs llvmlite 0.45 or later; pip install 'llvmlite>=0.45'")
    advice = "interpreted: llvmlite is not installed; pip install 'llvmlite>=0.45'"
    assert found["loops"] == advice
    assert found["ok"] is True
    assert "llvmlite" not in found["versions"]
    assert f"loops and fused groups: {advice}" in shown


def test_an_llvmlite_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")

    def refuse() -> None:
        raise OSError("libllvmlite.so: cannot open shared object file")

    monkeypatch.setattr(link, "processor", refuse)
    version = metadata.version("llvmlite")
    assert doctor(["cpu"]).loops == (
        "interpreted, because LLVM fails: program by LLVM: OSError: libllvmlite.so: cannot open "
        f"shared object file (llvmlite {version})"
    )


def test_an_older_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "is_installed", lambda: False)
    monkeypatch.setattr(diagnosis, "_version", {"llvmlite": "0.44.0"}.get)
    monkeypatch.setattr(diagnosis, "_examined", lambda name: None)
    advice = "interpreted: llvmlite 0.44.0 is older than 0.45; pip install 'llvmlite>=0.45'"
    assert doctor(["cpu"]).loops == advice

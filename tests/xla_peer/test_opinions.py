"""Adapters for other compilers.

Each call runs in a new process, with this Python interpreter or with another one.
"""

from __future__ import annotations

import shutil
import stat
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro.errors import (
    BackendFailureError,
    InvalidConfigError,
    PeerEndedError,
    PlatformUnavailableError,
    RegistrationError,
    ShapeError,
)
from tests.xla_peer import adapters
from xla_peer.opinions import (
    Adapter,
    AdapterExecutor,
    Environments,
    jaxlib_adapter,
    register,
    registered,
    registry,
)

X = np.array([[1.0, -2.0, 3.0]])
TEXT = "func.func @main // stablehlo"


def executor(function: Any, **options: Any) -> AdapterExecutor:
    return AdapterExecutor(Adapter.of("mine", function), **options)


@pytest.mark.parametrize("name", ["IREE", "onnxruntime", "torch", "tvm"])
def test_compilers_that_are_there_by_name(name: str) -> None:
    """If a compiler is requested but not installed, the error must name the package to install."""
    (adapter,) = registered([name])
    assert adapter not in registered()
    package = name.lower()
    w = X[:, ::-1].T.copy()
    with AdapterExecutor(adapter, timeout=300.0) as theirs:
        if find_spec(package) is None:
            with pytest.raises(
                PlatformUnavailableError, match=f"{name}: .*No module named '{package}"
            ):
                theirs.run(tnf.compile(tnf.tanh, X), X)
            return
        report = xla_peer.check_parity(
            lambda x: (tnf.tanh(x @ w), x - 1), X, executor=theirs, interpreter=False
        )
        assert report.ok
        assert theirs.version


def test_an_adapter_is_an_executor() -> None:
    with executor(adapters.doubled) as mine:
        assert mine.version == "7"
        for x in (X, np.array(2, np.int8), np.zeros((0, 3)), X.astype(ml_dtypes.bfloat16)):
            (y,) = mine.outputs(TEXT, [x])
            assert y.dtype == x.dtype
            assert y.shape == x.shape
            np.testing.assert_array_equal(y, x + x)
        assert xla_peer.check_parity(lambda x: x + x, X, executor=mine, interpreter=False).ok
        report = xla_peer.check_parity(lambda x: x * x, X, executor=mine, interpreter=False)
        assert report.outputs[0].verdict == "wrong"
        assert report.first_divergence is not None
        assert report.first_divergence.op.startswith("Multiply")
        assert mine.text("names", "abc") == "ABC"
        with pytest.raises(ShapeError, match="mine: result is"):
            mine.run(tnf.compile(lambda x: tnf.sum(x), X), X)


def test_errors_crashes_and_hangs() -> None:
    with (
        executor(adapters.refused) as mine,
        pytest.raises(
            BackendFailureError, match="mine: NotImplementedError: it takes no such module"
        ),
    ):
        mine.outputs(TEXT, [X])
    with executor(adapters.objects) as mine, pytest.raises(BackendFailureError, match="numbers"):
        mine.outputs(TEXT, [X])
    with executor(adapters.crashed) as mine:
        for _ in range(2):
            with pytest.raises(PeerEndedError, match=r"mine ended its process.*SIGSEGV") as caught:
                mine.outputs(TEXT, [X])
            assert caught.value.module == TEXT
    with (
        executor(adapters.left) as mine,
        pytest.raises(PeerEndedError, match="exit status 7: about to leave"),
    ):
        mine.outputs(TEXT, [X])
    with executor(adapters.slow, timeout=0.5) as mine:
        for _ in range(2):
            with pytest.raises(PeerEndedError, match="timeout"):
                mine.outputs(TEXT, [X])


def test_what_cannot_be_imported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_module\n")
    with (
        AdapterExecutor(Adapter.of("mine", f"{broken}:run")) as mine,
        pytest.raises(PlatformUnavailableError, match="no_such_module"),
    ):
        mine.outputs(TEXT, [X])
    adapter = Adapter.of("mine", f"{broken}:run", python=str(tmp_path / "python"))
    with AdapterExecutor(adapter) as mine, pytest.raises(PlatformUnavailableError, match="start"):
        mine.outputs(TEXT, [X])


def test_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    mine = register("mine", adapters.doubled)
    assert register("mine", adapters.doubled) == mine
    assert registered(["mine"]) == [mine]
    assert mine in registered()
    with pytest.raises(RegistrationError, match="registered"):
        register("mine", adapters.slow)
    for function in (lambda module, arrays: arrays, "adapters.py", f"{tmp_path}/none.py:run", 3):
        with pytest.raises(RegistrationError):
            register("other", function)  # type: ignore[arg-type]
    with pytest.raises(InvalidConfigError, match="no opinion none"):
        registered(["none"])


def test_the_installed_jaxlib_and_its_passes() -> None:
    text = """func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
  %0 = stablehlo.exponential %x : tensor<1xf32>
  %1 = stablehlo.log %0 : tensor<1xf32>
  return %1 : tensor<1xf32>
}"""
    x = np.array([89], np.float32)
    with AdapterExecutor(jaxlib_adapter()) as xla:
        assert xla.version.count(".") >= 2
        disabled = {"xla_disable_hlo_passes": "algsimp"}
        np.testing.assert_array_equal(xla.outputs(text, [x], disabled)[0], np.float32(np.inf))
        with pytest.raises(BackendFailureError, match="No such compile option"):
            xla.outputs(text, [x], {"xla_no_such_option": True})


FAKE = """#!/bin/sh
case "$*" in
  *"version_info"*) echo 3.11 ;;
  *"-m venv"*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
  *"index versions"*) echo "jaxlib (0.3)"; echo "Available versions: 0.3, 0.2, 0.1" ;;
  *"install"*"9.9.9") echo "ERROR: No matching distribution found for jaxlib==9.9.9" >&2; exit 1 ;;
esac
"""


def test_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    fake = tmp_path / "python"
    fake.write_text(FAKE)
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    environments = Environments(tmp_path / "made", str(fake))
    python = Path(environments.python(["jaxlib==0.3"]))
    assert python == tmp_path / "made" / "jaxlib-0.3-py3.11" / "bin" / "python"
    marked = python.stat().st_mtime_ns
    assert environments.python(["jaxlib==0.3"]) == str(python)
    assert python.stat().st_mtime_ns == marked
    with pytest.raises(PlatformUnavailableError, match="No matching distribution"):
        environments.python(["jaxlib==9.9.9"])
    with pytest.raises(PlatformUnavailableError, match="No matching distribution"):
        environments.python(["jaxlib==9.9.9"])
    for package in ("jaxlib", "../jaxlib==1", "jaxlib==1/..", "jaxlib==1 --index-url"):
        with pytest.raises(InvalidConfigError, match="NAME==VERSION"):
            environments.python([package])
    assert environments.versions("jaxlib") == ["0.1", "0.2", "0.3"]
    environments.clear()
    assert not python.exists()
    with pytest.raises(PlatformUnavailableError):
        Environments(tmp_path / "made", str(tmp_path / "none")).python(["jaxlib==0.3"])
    monkeypatch.setenv("TENFERRO_ENVIRONMENTS", str(tmp_path / "named"))
    assert Environments().folder == tmp_path / "named"
    assert f"py{sys.version_info[0]}.{sys.version_info[1]}" in str(Environments().path(["a==1"]))

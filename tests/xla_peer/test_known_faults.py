"""Versions of jaxlib that compute wrong results.

They must be excluded, and a report that was made with one must name its fault.
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from xla_peer import known_faults, notices
from xla_peer.diagnosis import PlatformReport
from xla_peer.isolated import IsolatedExecutor

VERSION = metadata.version("jaxlib")
WORDS = f"jaxlib {VERSION}: some sums are wrong"
MODULE = """func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = stablehlo.add %x, %x : tensor<2xf64>
  return %0 : tensor<2xf64>
}"""
X = np.ones(2)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the installed version of jaxlib to the faulty ones, and forget that a warning was printed."""
    monkeypatch.setattr(known_faults, "KNOWN_FAULTS", {VERSION: "some sums are wrong"})
    monkeypatch.setattr(notices, "_notified", set())
    monkeypatch.delenv(notices.NOTICES_VARIABLE, raising=False)


@pytest.fixture
def faultless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another version of jaxlib be the only faulty one, so that the installed version is not."""
    monkeypatch.setattr(known_faults, "KNOWN_FAULTS", {VERSION + "1": "some sums are wrong"})


def test_each_is_excluded_from_what_is_installed() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    named = [r for r in extras["xla"] if re.match(r"jax(lib)?\b", r)]
    assert len(named) == 2
    for requirement in named:
        assert re.findall(r"!=([\d.]+)", requirement) == list(known_faults.KNOWN_FAULTS)
    for extra in ("cuda12", "cuda13", "tpu"):
        assert extras[extra][0] == "tenferro[xla]"


def test_each_names_its_report() -> None:
    for version, fault in known_faults.KNOWN_FAULTS.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version)
        assert re.search(r"github\.com/jax-ml/jax/issues/\d+", fault)


@pytest.mark.usefixtures("faulty")
def test_only_where_it_is() -> None:
    assert known_faults.known_fault("cpu").startswith(WORDS)
    assert known_faults.known_fault("cuda") == ""


@pytest.mark.usefixtures("faulty")
def test_no_jaxlib_has_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(known_faults.metadata, "version", missing)
    assert known_faults.known_fault("cpu") == ""


@pytest.mark.usefixtures("faulty")
def test_the_first_executor_says_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    xla_peer.XlaExecutor(notices=False)
    assert capsys.readouterr().err == ""
    for _ in range(2):
        xla_peer.XlaExecutor()
    said = capsys.readouterr()
    assert said.err.count("tenferro: ") == 1
    assert said.err.startswith(f"tenferro: {WORDS}")
    assert "pip install" in said.err
    assert not said.out


@pytest.mark.usefixtures("faulty")
def test_the_environment_silences_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(notices.NOTICES_VARIABLE, "off")
    xla_peer.XlaExecutor()
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("faultless")
def test_an_executor_says_nothing_of_other_versions(capsys: pytest.CaptureFixture[str]) -> None:
    xla_peer.XlaExecutor()
    assert capsys.readouterr().err == ""


def reports() -> dict[str, xla_peer.ParityReport]:
    """Return one report of each kind. The keys are the names of the kinds."""
    double = tnf.compile(lambda x: x + x, X)
    with IsolatedExecutor() as child:
        return {
            "check_parity": xla_peer.check_parity(double, X),
            "a child": xla_peer.check_parity(double, X, executor=child),
            "against": xla_peer.check_parity(double, X, against=lambda x: 2 * x),
            "judge": xla_peer.judge(MODULE, [X], [2 * X], [2 * X]),
        }


@pytest.mark.usefixtures("faulty")
def test_reports_say_it() -> None:
    for name, report in reports().items():
        assert report.ok
        assert str(report).count(WORDS) == 1, name
        assert report.to_html().count(WORDS) == 1, name
        assert json.loads(report.to_json())["notes"][0].startswith(WORDS), name


@pytest.mark.usefixtures("faultless")
def test_reports_say_nothing_of_other_versions() -> None:
    assert [report.notes for report in reports().values()] == [()] * 4


@pytest.mark.usefixtures("faulty")
def test_reports_say_nothing_of_other_peers() -> None:
    class Native:
        def run(self, program: Any, *arrays: Any) -> Any:
            return program.run(*arrays)

    assert xla_peer.check_parity(lambda x: x + x, X, executor=Native()).notes == ()


@pytest.mark.usefixtures("faulty")
def test_the_doctor_says_it() -> None:
    report = xla_peer.doctor(["cpu"])
    (cpu,) = report.platforms
    assert cpu.status == "wrong"
    assert cpu.devices
    assert cpu.advice.startswith(WORDS)
    assert not report.ok
    assert WORDS in str(report)


def test_a_platform_with_a_fault_is_not_well() -> None:
    states = [PlatformReport(name, state) for name, state in [("cpu", "wrong"), ("cuda", "works")]]
    assert not xla_peer.DoctorReport({}, None, {}, tuple(states)).ok
    assert xla_peer.DoctorReport({}, None, {}, tuple(states[1:])).ok

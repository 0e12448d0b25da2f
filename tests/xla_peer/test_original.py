"""If only the original text of a module has wrong results or ends the peer, the compiler is blamed at an operation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jax import lax

from lowering import import_stablehlo
from lowering.mlir_bindings import parse_and_verify
from tenferro.errors import PeerEndedError
from xla_peer import XlaExecutor, check_parity, export, from_jax, judge

TEXT = """func.func public @main(%x: tensor<3xf64>) -> (tensor<3xf64>, tensor<2x3xf64>) {
  %0 = stablehlo.exponential %x : tensor<3xf64>
  %1 = stablehlo.negate %0 : tensor<3xf64>
  %2 = stablehlo.tanh %1 : tensor<3xf64>
  %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<3xf64>) -> tensor<2x3xf64>
  return %1, %3 : tensor<3xf64>, tensor<2x3xf64>
}
"""
X = np.array([0.5, -0.25, 1.0])


class Faulty:
    """Peer that runs lowered programs correctly, and fails on texts that contain `word` and are compiled unchanged."""

    platform, notices = "cpu", False

    def __init__(self, word: str, *, ends: bool = False) -> None:
        self.peer, self.word, self.ends = XlaExecutor("cpu", notices=False), word, ends

    def run(self, program: Any, *arrays: Any) -> Any:
        return self.peer.run(program, *arrays)

    def compile_module(self, module: Any) -> Any:
        is_faulty = self.word in module.text
        if is_faulty and self.ends:
            raise PeerEndedError("SIGABRT", "compiling", "", module.text)
        return _Compiled(self.peer.compile_module(module), is_faulty)


class _Compiled:
    def __init__(self, compiled: Any, is_faulty: bool) -> None:
        self.compiled, self.is_faulty = compiled, is_faulty

    def run_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        *rest, last = self.compiled.run_leaves(leaves)
        return [*rest, last + self.is_faulty]


def test_the_compiler_is_blamed_at_the_operation(tmp_path: Path) -> None:
    report = check_parity(import_stablehlo(TEXT), X, executor=Faulty("stablehlo.tanh"))
    assert report.outputs[0].ok
    assert report.outputs[1].verdict == "wrong: cpu", str(report)
    first = report.first_divergence
    assert first is not None
    assert (first.op.split()[:3], first.line) == (["%2", "=", "stablehlo.tanh"], "<stablehlo>:4")
    assert "broadcast" not in first.text
    saved = report.save(tmp_path)
    assert saved is not None
    assert (saved / "module.mlir").read_text() == first.text
    assert "the reference interpreter agrees with native" in str(report)


def test_no_side_is_blamed_if_the_interpreter_is_not_asked() -> None:
    report = check_parity(
        import_stablehlo(TEXT), X, executor=Faulty("stablehlo.tanh"), interpreter=False
    )
    assert report.outputs[0].ok
    assert report.outputs[1].verdict == "wrong", str(report)


def test_the_operation_that_ends_the_peer_is_named() -> None:
    report = check_parity(import_stablehlo(TEXT), X, executor=Faulty("stablehlo.tanh", ends=True))
    assert report.ended is not None
    assert (report.ended.how, report.ended.line) == ("SIGABRT", "<stablehlo>:4")
    assert "stablehlo.tanh" in report.ended.op
    assert "broadcast" not in report.ended.module


@pytest.mark.parametrize("number", range(4))
def test_a_text_is_cut_after_an_operation(number: int) -> None:
    program = import_stablehlo(TEXT)
    assert program.origin is not None
    text = program.origin.until(number)
    parse_and_verify(text)
    e = np.exp(X)
    values = [e, -e, np.tanh(-e), np.broadcast_to(np.tanh(-e), (2, 3))]
    np.testing.assert_allclose(import_stablehlo(text).run(X), values[number], rtol=1e-14)


class EndsOnce(Faulty):
    """Peer whose process ends once, on the first lowered program or on the first text that contains `word`."""

    is_over = False

    def run(self, program: Any, *arrays: Any) -> Any:
        if self.word == "lowered":
            self._end_once()
        return super().run(program, *arrays)

    def compile_module(self, module: Any) -> Any:
        if self.word in module.text:
            self._end_once()
        return super().compile_module(module)

    def _end_once(self) -> None:
        if not self.is_over:
            self.is_over = True
            raise PeerEndedError("SIGKILL", "running", "", TEXT)


@pytest.mark.parametrize("word", ["lowered", "stablehlo.tanh"])
def test_an_ending_that_does_not_recur_is_said_to_come_from_outside(word: str) -> None:
    report = check_parity(import_stablehlo(TEXT), X, executor=EndsOnce(word))
    assert report.ended is not None
    assert (report.ended.how, report.ended.recurs, report.ended.op) == ("SIGKILL", False, "")
    assert "it did not end again on the same program" in str(report)
    assert "to do: check again" in str(report)


def test_the_right_side_is_blamed_for_a_window_that_is_partly_out_of_bounds(tmp_path: Path) -> None:
    """The search must read an artifact's module as JAX does, which ignores the whole window."""
    numbers = lax.ScatterDimensionNumbers((0,), (), (0,))

    def f(x: Any, index: Any, updates: Any) -> Any:
        mode = lax.GatherScatterMode.FILL_OR_DROP
        return 2 * lax.scatter(x, index, updates, numbers, mode=mode)

    arguments = np.arange(6, dtype="f4"), np.array([5], "i4"), np.array([50, 60], "f4")
    program = from_jax(f, *arguments)
    assert program.origin is not None
    assert program.origin.drops_windows
    artifact = export(program, path=tmp_path / "scatter.mlir")
    right = artifact.run(*arguments)
    np.testing.assert_array_equal(right, 2 * arguments[0])
    wrong = right.copy()
    wrong[5] = 100
    assert "wrong: b" in str(judge(artifact, arguments, [right], [wrong]))

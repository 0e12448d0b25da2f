"""Verdicts: comparison with other programs, judgement of two sets of outputs, and faults of the import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import lowering
import lowering.importing
import lowering.lower
import tenferro as tnf
import xla_peer
from lowering.emit import EMITTERS
from lowering.read import READERS
from tenferro import errors
from tenferro.exec.backend import NUMPY
from tenferro.exec.kernels import KERNELS
from tenferro.ops import elementwise as el
from tenferro.ops import structural as st
from tenferro.ops.analytic import Cos, Sin, Tan
from tenferro.program import native_executor
from xla_peer import check_parity, judge
from xla_peer.cli import app
from xla_peer.parity import judging

X = np.linspace(0.1, 2.0, 6)


def loss(x: Any) -> Any:
    return tnf.sum(tnf.exp(tnf.sin(x) * 2) + x)


LOSS = lowering.lower_to_stablehlo(tnf.compile(loss, X)).plain_text


def verdicts(report: Any) -> list[str]:
    return [output.verdict for output in report.outputs]


# ---- comparison with other programs ----------------------------------------------------------------


def jitted(sign: float) -> Any:
    jax = pytest.importorskip("jax")
    return jax.jit(lambda x: jax.numpy.sum(jax.numpy.exp(jax.numpy.sin(x) * 2) + sign * x))


def artifact(tmp_path: Path, fn: Any) -> Any:
    xla_peer.export(fn, X, path=tmp_path / "loss.mlir")
    return xla_peer.load(tmp_path / "loss.mlir")


@pytest.mark.parametrize(
    "other",
    [
        lambda _: tnf.compile(loss, X),
        lambda _: loss,
        lambda _: LOSS,
        lambda _: lowering.lower_to_stablehlo(tnf.compile(loss, X)),
        lambda _: lambda x: np.sum(np.exp(np.sin(x) * 2) + x),
        lambda folder: artifact(folder, loss),
        lambda _: jitted(1.0),
    ],
    ids=["program", "function", "text", "module", "NumPy", "artifact", "JAX"],
)
def test_the_same_by_others(other: Callable[[Path], Any], tmp_path: Path) -> None:
    report = check_parity(loss, X, against=other(tmp_path))
    assert report.ok, str(report)
    assert verdicts(report)[0] in ("equal", "rounding")


def wrong_loss(x: Any) -> Any:
    return tnf.sum(tnf.exp(tnf.cos(x) * 2) + x)


@pytest.mark.parametrize(
    ("other", "side", "op"),
    [
        (lambda _: tnf.compile(wrong_loss, X), "program", "Sin"),
        (lambda _: wrong_loss, "other", "Sin"),
        (lambda _: LOSS.replace("stablehlo.sine", "stablehlo.cosine"), "module", "Sin"),
        (lambda _: LOSS.replace("dense<2.0>", "dense<2.002>"), "module", "Constant"),
        (lambda folder: artifact(folder, wrong_loss), "artifact", "Sin"),
        (lambda _: jitted(-1.0), "other", "Add"),
        (lambda _: lambda x: np.sum(np.exp(np.sin(np.asarray(x)) * 2) - x), "other", ""),
    ],
    ids=["program", "function", "text", "constant", "artifact", "JAX", "NumPy"],
)
def test_a_fault_of_others_is_theirs(
    other: Callable[[Path], Any], side: str, op: str, tmp_path: Path
) -> None:
    report = check_parity(loss, X, against=other(tmp_path))
    assert verdicts(report) == [f"wrong: {side}"], str(report)
    if op:
        assert report.first_divergence is not None
        assert report.first_divergence.op.startswith(op), str(report)
        assert "test_verdicts.py" in report.first_divergence.line


def test_a_fault_of_the_native_run_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**KERNELS, Tan: lambda op, x: np.tan(x) * (1 + 1e-9)}
    native: Any = native_executor()
    monkeypatch.setattr(
        native, "binder", replace(native.binder, backend=replace(NUMPY, kernels=wrong))
    )
    native.cache_clear()  # so that programs with the right kernel are forgotten
    by_numpy = lambda x: np.tan(np.asarray(x))
    report = check_parity(lambda x: tnf.tan(x), X, against=by_numpy, locate=False)
    native.cache_clear()
    assert verdicts(report) == ["wrong: native"], str(report)


def test_the_turn_of_a_loop_in_which_two_programs_begin_to_differ() -> None:
    def scanned(at: float) -> Any:
        def body(c: Any, t: Any) -> Any:
            return tnf.where(t > at, tnf.cos(c), tnf.sin(c)) + t, c * 2

        return lambda x: tnf.scan(body, x[0], x)

    report = check_parity(scanned(5.0), X, against=scanned(1.0))
    assert report.first_divergence is not None
    (step,) = report.first_divergence.iterations
    assert step.startswith("iteration 3 of Scan at "), step  # X[3] is the first element above 1


def test_the_turn_of_a_loop_in_which_the_paths_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowered cosine is wrong above 2.

    For both loops, the report must name the first iteration in which the argument exceeds 2.
    """

    def off(op: Any, w: Any, x: Any) -> Any:
        y = w.op("cosine", x, result=x.spec)
        is_above = w.compare("GT", x, w.full(2, x.spec))
        return w.op("select", is_above, w.full(0.5, x.spec), y, result=x.spec)

    def fn(x: Any) -> Any:
        outer = lambda c: (
            c[0] + 1,
            tnf.fori_loop(0, 2, lambda _, v: v + 0.3 + 0 * tnf.cos(v), c[1]),
        )
        return tnf.while_loop(lambda c: c[0] < 6, outer, (0, x))[1] + 0.0

    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, Cos: off})
    ok = check_parity(lambda x: fn(x), np.float64(0.1), interpreter=False)
    assert ok.ok  # the wrong cosine is multiplied by zero

    def used(x: Any) -> Any:
        body = lambda c: (
            c[0] + 1,
            tnf.fori_loop(0, 2, lambda _, v: v + 0.3 + 1e-3 * tnf.cos(v), c[1]),
        )
        return tnf.while_loop(lambda c: c[0] < 6, body, (0, x))[1]

    report = check_parity(used, np.float64(0.1), interpreter=False)
    first = report.first_divergence
    assert first is not None
    assert first.op.startswith("Cos"), str(first)
    assert [step.split(" at ")[0] for step in first.iterations] == [
        "iteration 3 of While",
        "iteration 1 of Scan",
    ], first.iterations


def test_what_cannot_be_compared() -> None:
    with pytest.raises(errors.InvalidConfigError, match="against= takes a program"):
        check_parity(loss, X, against=3)
    with pytest.raises(errors.ShapeError, match="result"):
        check_parity(loss, X, against=lambda x: np.zeros(2))
    with pytest.raises(errors.DTypeError, match="float32"):
        check_parity(loss, X, against=lambda x: np.float32(0))
    with pytest.raises(errors.ArityError, match="2"):
        check_parity(loss, X, against=lambda x: (x, x))
    with pytest.raises(errors.InvalidConfigError, match="pass both gradients"):
        check_parity(loss, X, against=loss, grad=True)


# ---- faults of the import --------------------------------------------------------------------------


def swapped(r: Any, operation: Any, operands: Any) -> Any:
    return READERS["stablehlo.subtract"](r, operation, operands[::-1])


def with_attribute(name: str, change: Callable[[Any], Any]) -> Any:
    def read(r: Any, operation: Any, operands: Any) -> Any:
        changed = {**operation.attributes, name: change(operation.attributes[name])}
        return READERS[operation.name](r, replace(operation, attributes=changed), operands)

    return read


FAULTS: dict[str, tuple[str, Any, Callable[[Any], Any]]] = {
    "swapped operands": ("subtract", swapped, lambda x: x - tnf.exp(x)),
    "maximum for minimum": ("maximum", READERS["stablehlo.minimum"], lambda x: tnf.maximum(x, 1.0)),
    "less for less or equal": (
        "compare",
        with_attribute("comparison_direction", lambda word: {"LT": "LE"}.get(word, word)),
        lambda x: tnf.where(x < X[2], x, -x),
    ),
    "dropped conjugate": (
        "imag",
        READERS["stablehlo.real"],
        lambda x: tnf.imag(tnf.exp(x * (1 + 1j))),
    ),
    "wrong axis": (
        "reduce",
        with_attribute("dimensions", lambda axes: [1 - axis for axis in axes]),
        lambda x: tnf.sum(tnf.reshape(tnf.concat([x, x, x * 2]), (3, 6))[:, :3], axis=1),
    ),
    "slice off by one": (
        "slice",
        lambda r, operation, operands: r.apply_one(st.Slice((1,), (5,), (1,)), operands[0]),
        lambda x: tnf.sum(x[2:]),
    ),
    "dropped reverse": ("reverse", lambda r, operation, operands: operands[0], lambda x: tnf.flip(x)),
    "exp for expm1": (
        "exponential_minus_one", READERS["stablehlo.exponential"], lambda x: tnf.expm1(x),
    ),
    "wrong order of axes": (
        "transpose",
        lambda r, operation, operands: r.apply_one(
            st.Reshape(operation.spec.shape), operands[0]
        ),
        lambda x: tnf.reshape(x, (2, 3)).T,
    ),
    "dropped cast": (
        "convert",
        lambda r, operation, operands: r.apply_one(
            el.Convert(operation.spec.dtype),
            operands[0] if r.spec(operands[0]).dtype.is_inexact
            else r.apply_one(el.Abs(), operands[0]),
        ),
        lambda x: tnf.astype(tnf.astype(x * 4 - 4, "int32"), "float64"),
    ),
    "select turned": (
        "select",
        lambda r, operation, operands: r.apply_one(
            el.Select(), operands[0], operands[2], operands[1]
        ),
        lambda x: tnf.where(x > 1, x, 0.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_the_import_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operation, reader, fn = FAULTS[name]
    text = lowering.lower_to_stablehlo(tnf.compile(fn, X)).plain_text
    right = check_parity(lowering.import_stablehlo(text), X, interpreter=False)
    assert right.ok, str(right)
    key = f"stablehlo.{operation}"
    assert key in text
    monkeypatch.setattr(lowering.importing, "READERS", {**READERS, key: reader})
    program = lowering.import_stablehlo(text)
    report, unasked = check_parity(program, X), check_parity(program, X, interpreter=False)
    monkeypatch.undo()
    assert verdicts(report) == ["wrong: import"], str(report)
    assert "the original text has another result than its import" in str(report)
    assert verdicts(unasked) == ["wrong"], str(unasked)


def test_a_program_keeps_the_text_it_was_read_from() -> None:
    program = lowering.import_stablehlo(LOSS)
    assert program.origin.plain_text == LOSS
    assert tnf.compile(loss, X).origin is None
    assert program == tnf.compile(loss, X) or program.fingerprint  # `==` must ignore the origin
    without = replace(program, origin=None)
    assert without == program


# ---- two sets of outputs ---------------------------------------------------------------------------

MODULE = lowering.lower_to_stablehlo(
    tnf.compile(lambda x: (tnf.sqrt(x), tnf.sum(tnf.exp(x)), tnf.argmax(tnf.sin(x))), X)
).plain_text
RIGHT = [np.sqrt(X), np.sum(np.exp(X)), np.int64(np.argmax(np.sin(X)))]


def test_a_judgement_of_each_kind() -> None:
    off = [RIGHT[0] * (1 + 1e-12), RIGHT[1] * (1 + 1e-15), RIGHT[2]]
    report = judge(MODULE, [X], RIGHT, off)
    assert verdicts(report) == ["wrong: b", "rounding", "equal"]
    assert verdicts(judge(MODULE, [X], off, RIGHT)) == ["wrong: a", "rounding", "equal"]
    both = [RIGHT[0] * (1 - 1e-12), RIGHT[1], RIGHT[2]]
    assert verdicts(judge(MODULE, [X], both, off))[0] == "wrong: a and b"
    assert "a and b DISAGREE" in str(report)
    assert verdicts(judge(MODULE, [X], RIGHT, off, rtol=1e-9)) == ["rounding", "rounding", "equal"]


@pytest.mark.parametrize("third", ["native", "PJRT"])
@pytest.mark.parametrize("first", ["native", "PJRT"])
def test_the_reference_interpreter_decides_between_native_and_pjrt(
    first: str, third: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In PJRT, the sine is a cosine.

    Of the two compared outputs, one is native and the other is PJRT's. The reference interpreter must decide.
    """
    wrong = {Sin: lambda op, w, x: w.op("cosine", x, result=x.spec)}
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, **wrong})
    has = {"native": [np.sin(X)], "PJRT": [np.cos(X)]}
    second = "PJRT" if first == "native" else "native"
    monkeypatch.setattr(judging, "interpreted", lambda program, leaves: has[third])
    program = tnf.compile(tnf.sin, X)
    report = judge(program, [X], has[first], has[second], locate=False)
    right = "a" if third == first else "b"
    assert verdicts(report) == [f"wrong: {'b' if right == 'a' else 'a'}"], str(report)
    assert f"the reference interpreter agrees with {right}" in str(report)


def test_the_wrong_op_of_pjrt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {Sin: lambda op, w, x: w.op("cosine", x, result=x.spec)}
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, **wrong})
    right, wrong_result = [np.sin(X) * 3.0], [np.cos(X) * 3.0]
    monkeypatch.setattr(judging, "interpreted", lambda program, leaves: right)
    program = tnf.compile(lambda x: tnf.sin(x) * 3.0, X)
    report = judge(program, [X], right, wrong_result)
    assert verdicts(report) == ["wrong: b"]
    assert report.first_divergence is not None
    assert "Sin (f64[" in str(report.first_divergence)


def test_an_unstable_decision_is_named_with_both_sides() -> None:
    x = np.array([[1.0, 3.0]])

    def fn(x: Any) -> Any:
        y = tnf.exp(tnf.log(x[:, :1]) * 1.0)
        return tnf.argmax(tnf.concat([y, x[:, :1]], axis=1), axis=1)

    module = lowering.lower_to_stablehlo(tnf.compile(fn, x))
    report = judge(module, [x], [np.array([0])], [np.array([1])])
    assert verdicts(report) == ["unstable"], str(report)
    assert report.ok


def test_a_comparison_that_tips_is_shown() -> None:
    x = np.array([0.3])
    fn = lambda x: tnf.where(tnf.exp(tnf.log(x)) >= 0.3, 1.0, -1.0)
    module = lowering.lower_to_stablehlo(tnf.compile(fn, x))
    report = judge(module, [x], [np.array([1.0])], [np.array([-1.0])])
    assert verdicts(report) == ["unstable"], str(report)
    (decision,) = report.decisions
    assert decision.op.startswith("Compare(direction='GE')")
    assert set(decision.results) == {"True", "False"}


def test_what_no_bound_decides() -> None:
    x = np.array([1e16, 1.0, -1e16, 3.0] * 5)
    module = lowering.lower_to_stablehlo(tnf.compile(lambda x: tnf.sum(x), x))
    report = judge(module, [x], [np.float64(12.0)], [np.float64(20.0)])
    assert verdicts(report) == ["not decidable here"], str(report)
    assert not report.ok
    assert "not decidable here" in report.verdict


def test_outputs_that_are_not_those_of_the_module() -> None:
    with pytest.raises(errors.ArityError, match="3 outputs, got 2 of b"):
        judge(MODULE, [X], RIGHT, RIGHT[:2])
    with pytest.raises(errors.DTypeError, match="of a"):
        judge(MODULE, [X], [np.float32(0), *RIGHT[1:]], RIGHT)
    with pytest.raises(errors.ShapeError, match=r"shape \[2\] of b"):
        judge(MODULE, [X], RIGHT, [np.zeros(2), *RIGHT[1:]])


def test_the_command(tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.npz" for name in "xabp"}
    (tmp_path / "m.mlir").write_text(MODULE)
    np.savez(paths["x"], X)
    np.savez(paths["a"], *RIGHT)
    np.savez(paths["b"], RIGHT[0] + 1e-6, *RIGHT[1:])
    np.savez(paths["p"], np.array([{}, 1, 2], dtype=object), allow_pickle=True)
    words = ["judge", str(tmp_path / "m.mlir"), "--inputs", str(paths["x"]), str(paths["a"])]
    for other, status, said in (("b", 1, "wrong: b"), ("a", 0, "equal"), ("p", 2, "never read")):
        result = CliRunner().invoke(app, [*words, str(paths[other])])
        assert (result.exit_code, said in result.output) == (status, True), result.output

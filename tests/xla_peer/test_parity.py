"""The parity check must accept agreement within rounding, and find and name planted faults."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowering.lower
import tenferro as tnf
from lowering.emit import EMITTERS
from tenferro import errors
from tenferro.exec.backend import NUMPY
from tenferro.exec.kernels import KERNELS
from tenferro.ops.analytic import Sin, Tanh
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.elementwise import Multiply
from tenferro.program import native_executor
from tenferro.types import DType, flatten
from xla_peer import XlaExecutor, check_parity, judge
from xla_peer.parity.budget import Budget, SearchTimeoutError, spend_time
from xla_peer.parity.comparison import Tolerance, compare, explained, granted
from xla_peer.parity.divergence import first_divergence
from xla_peer.parity.interpreter import interpreted
from xla_peer.parity.opinion import Opinion
from xla_peer.parity.paths import limits
from xla_peer.parity.reproduction import save_reproduction

RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((6, 4)), RNG.standard_normal((4, 4))


def network(x: Any, w: Any) -> Any:
    h = x
    for _ in range(6):
        h = tnf.tanh(h @ w) + tnf.sin(h) * 0.5
    return {"h": h, "p": tnf.softmax(h), "i": tnf.argmax(h, axis=1)}


# ---- agreement -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "bfloat16", "float16"])
def test_programs_agree_and_the_bound_is_near(dtype: str) -> None:
    kind = tnf.DType.of(dtype)

    def fn(x: Any, w: Any) -> Any:
        h = tnf.tanh(x @ w) * 0.5 + x
        return tnf.exp(h) / (2 + h * h), tnf.sum(h, axis=0)

    report = check_parity(fn, X.astype(kind.dtype), W.astype(kind.dtype))
    assert report.ok, str(report)
    assert all(output.allowed < 1e6 for output in report.outputs)


def test_gradients_are_compared() -> None:
    report = check_parity(network, X, W, grad=True)
    assert report.ok, str(report)
    names = {output.name for output in report.outputs}
    assert {"result['gradient']['x']", "result['value']['i']"} <= names


def test_cancellation_is_explained_and_nothing_more() -> None:
    big = np.array([1e16, 1.0, -1e16, 3.0] * 50)
    report = check_parity(lambda x: tnf.sum(x), big)
    assert report.outputs[0].verdict in ("equal", "not decidable here"), str(report)
    exact = check_parity(lambda x: x * 2 + 1, big)
    assert exact.ok
    assert exact.outputs[0].allowed < 50


def test_an_index_that_rounding_tips_over_is_unstable() -> None:
    x = np.array([[1.0, 3.0]])

    def fn(x: Any) -> Any:
        y = tnf.exp(tnf.log(x[:, :1]) * 1.0)
        return tnf.argmax(tnf.concat([y, x[:, :1]], axis=1), axis=1)

    report = check_parity(fn, x)
    assert report.ok
    assert report.outputs[0].unstable in (0, 1)


def test_user_tolerances() -> None:
    class Off(XlaExecutor):
        def run(self, program: Any, *arrays: Any) -> Any:
            return super().run(program, *arrays) * (1 + 1e-6)

    fn, executor = lambda x: x + 1.0, Off()
    assert not check_parity(fn, X, executor=executor, locate=False).ok
    assert check_parity(fn, X, executor=executor, rtol=1e-5).ok
    assert check_parity(fn, X, executor=executor, atol=1e-4).ok
    assert check_parity(fn, X, executor=executor, ulps=1e11).ok
    assert not check_parity(fn, X, executor=executor, ulps=1, locate=False).ok
    with pytest.raises(errors.InvalidConfigError, match="rtol"):
        check_parity(fn, X, rtol=-1)


# ---- comparing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "complex128"])
def test_ways_to_differ(dtype: str) -> None:
    kind = DType.of(dtype).dtype
    tiny = float(ml_dtypes.finfo(DType.of(dtype).real.dtype).smallest_subnormal)
    a = np.array([1.0, np.nan, np.inf, np.nan, 0.0, tiny, np.inf], kind)
    b = np.array([1.0, np.nan, np.inf, 2.0, -0.0, 0.0, -np.inf], kind)
    found = compare("y", a, b, *granted(a, Tolerance()))
    assert (found.nan, found.flushed) == (1, 1)
    assert found.zero_sign >= 1
    assert found.outside == 2
    assert found.worst in ((3,), (6,))
    assert compare("y", a, a, *granted(a, Tolerance())).ok


def test_integers_and_bools_are_equal_or_not() -> None:
    a = np.array([1, 2, 3])
    assert compare("y", a, a, *explained(a, [a])).ok
    found = compare("y", a, np.array([1, 2, 4]), *explained(a, [a]))
    assert (found.outside, found.worst, found.native, found.xla) == (1, (2,), 3, 4)
    assert compare("y", a, np.array([1, 2, 4]), *explained(a, [a, np.array([1, 2, 4])])).ok
    assert compare("y", a[:0], a[:0], *explained(a[:0], [a[:0]])).ok
    assert not compare("y", np.array(True), np.array(False), np.zeros(())).ok


# ---- planted faults ----------------------------------------------------------------------------------


def plant_emitter(monkeypatch: pytest.MonkeyPatch, card: Any, rule: Any) -> None:
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, card: rule})


def test_a_wrong_emitter_is_found_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant_emitter(monkeypatch, Sin, lambda op, w, x: w.op("cosine", x, result=x.spec))
    report = check_parity(network, X, W)
    assert not report.ok
    found = report.first_divergence
    assert found is not None
    assert found.op.startswith("Sin")
    assert "test_parity.py" in found.line
    assert "in network" in found.line
    assert found.verdict == "the reference interpreter agrees with PJRT: native is alone"
    assert len(found.program.instructions) == 1
    place = found.save(tmp_path / "repro")
    assert sorted(path.name for path in place.iterdir()) == [
        "about.json", "expected.npz", "inputs.npz", "module.mlir", "repro.py", "repro.tnf", "repro_jax.py",
    ]  # fmt: skip
    assert "cosine" in (place / "module.mlir").read_text()
    assert len((place / "repro.py").read_text().splitlines()) == 4
    done = subprocess.run(
        [sys.executable, "repro.py"], cwd=place, capture_output=True, text=True, check=True
    )
    assert "Sin: native and cpu agree" in done.stdout  # a new process has no planted fault


def test_a_reproduction_has_arguments_of_every_dtype(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    leaves = [np.zeros(2, dtype.dtype) for dtype in tnf.DType]
    program = tnf.compile(lambda *xs: xs, *leaves)
    place = save_reproduction(tmp_path / "repro", program, leaves, None)
    monkeypatch.chdir(place)
    variables: dict[str, Any] = {}
    text = (place / "repro.py").read_text()
    exec(text[: text.rindex("print")], variables)  # this defines `inputs`
    assert [x.dtype for x in variables["inputs"]] == [x.dtype for x in leaves]


def test_a_wrong_kernel_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**KERNELS, Tanh: lambda op, x: np.tanh(x) * (1 + 1e-9)}
    native: Any = native_executor()
    monkeypatch.setattr(
        native, "binder", replace(native.binder, backend=replace(NUMPY, kernels=wrong))
    )
    native.cache_clear()  # so that programs with the right kernel are forgotten
    report = check_parity(network, X, W, interpreter=True)
    found = report.first_divergence
    assert found is not None
    assert found.op.startswith("Tanh")
    assert found.verdict == "the reference interpreter agrees with PJRT: native is alone"
    assert report.interpreter == "the reference interpreter agrees with PJRT: native is alone"
    native.cache_clear()


def test_a_change_of_precision_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(op: Any, w: Any, lhs: Any, rhs: Any) -> Any:
        narrow = [w.convert(w.convert(x, DType.BF16), x.dtype) for x in (lhs, rhs)]
        return EMITTERS[DotGeneral](op, w, *narrow)

    plant_emitter(monkeypatch, DotGeneral, rounded)
    report = check_parity(network, X.astype("f4"), W.astype("f4"))
    assert report.first_divergence is not None
    assert report.first_divergence.op.startswith("DotGeneral")


def test_a_fault_of_a_few_ulps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(op: Any, w: Any, x: Any, y: Any) -> Any:
        z = w.op("multiply", x, y, result=x.spec)
        return w.op("multiply", z, w.full(1 + 2.0**-44, x.spec), result=x.spec)

    plant_emitter(monkeypatch, Multiply, off)
    report = check_parity(lambda x: (x + 1.0) * (x - 2.0), X)
    assert report.first_divergence is not None
    assert report.first_divergence.op.startswith("Multiply")


def test_a_fault_in_gradients_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from tenferro.ops.analytic import Cos

    plant_emitter(monkeypatch, Cos, lambda op, w, x: w.op("sine", x, result=x.spec))
    assert check_parity(lambda x: tnf.sin(x), X).ok
    report = check_parity(lambda x: tnf.sin(x), X, grad=True)
    assert report.first_divergence is not None
    assert report.first_divergence.op.startswith("Cos")


def test_what_parts_only_in_the_whole_program() -> None:
    program = tnf.compile(lambda x: (tnf.sin(x), tnf.tanh(tnf.sin(x))), X)

    class Shifted:
        platform = "cpu"
        is_isolated = False

        def compared(self, candidate: Any, leaves: Any) -> Any:
            outputs = flatten(candidate.run(*leaves))[0]
            whole = len(candidate.instructions) == 2 and len(outputs) == 2
            limit = granted(outputs[-1], Tolerance())
            shifted = [y + (whole and i == 1) for i, y in enumerate(outputs)]
            return tuple([
                compare(name, y, z, *limit)
                for name, y, z in zip(candidate.output_names, outputs, shifted, strict=True)
            ])  # fmt: skip

        def agree(self, candidate: Any, leaves: Any) -> bool:
            return all(output.ok for output in self.compared(candidate, leaves))

        def opinion(self, candidate: Any, leaves: Any) -> Opinion:
            return Opinion("")

    found = first_divergence(program, [X], Shifted())
    assert found is not None
    assert found.op == "Tanh (f64[6,4]) -> f64[6,4], and only within the whole program"
    assert found.program is program


class Steps(Budget):
    """Budget of a number of steps, in place of a time."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def spend(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            self.is_exhausted = True
            raise SearchTimeoutError


class Doubled:
    """Paths on which each sine and each value after it are twice as large."""

    platform = "cpu"
    is_isolated = False

    def compared(self, candidate: Any, leaves: Any) -> Any:
        outputs = flatten(candidate.run(*leaves))[0]
        factor = 1 + ("Sin" in str(candidate))
        return tuple([
            compare(name, y, y * factor, *granted(y, Tolerance()))
            for name, y in zip(candidate.output_names, outputs, strict=True)
        ])  # fmt: skip

    def agree(self, candidate: Any, leaves: Any) -> bool:
        return all(output.ok for output in self.compared(candidate, leaves))

    def opinion(self, candidate: Any, leaves: Any) -> Opinion:
        return Opinion("")


def test_a_search_that_ends_early_returns_an_op_that_is_known_to_diverge() -> None:
    def in_loop(x: Any) -> Any:
        y = tnf.scan(lambda c, _: (tnf.tanh(tnf.sin(c) + 1.0), None), tnf.cos(x), None, length=5)[0]
        return tnf.tanh(tnf.exp(tnf.cosh(y)))

    program = tnf.compile(in_loop, X)
    named: list[str] = []
    for steps in range(20):
        budget = Steps(steps)
        divergence = first_divergence(program, [X], Doubled(), budget)
        assert divergence is not None
        assert divergence.output.outside
        assert "only within" not in divergence.op
        named.append(divergence.op.split()[0].partition("(")[0])
        assert bool(budget.notes) == budget.is_exhausted == (not divergence.op.startswith("Sin"))
        if not budget.is_exhausted:
            break
    assert named[0] == "Tanh"
    assert "Scan" in named
    assert named[-1] == "Sin"


def test_a_check_says_that_its_search_ended_early(monkeypatch: pytest.MonkeyPatch) -> None:
    plant_emitter(monkeypatch, Sin, lambda op, w, x: w.op("cosine", x, result=x.spec))
    fn = lambda x: tnf.tanh(tnf.sin(x) + 1.0)
    report = check_parity(fn, X, locate_seconds=0)
    assert not report.ok
    assert "locate_seconds=" in " ".join(report.notes)
    assert report.first_divergence is not None
    assert report.first_divergence.op.startswith("Tanh")
    report = check_parity(fn, X, locate_seconds=float("inf"))
    assert "locate_seconds=" not in " ".join(report.notes)
    assert report.first_divergence is not None
    assert report.first_divergence.op.startswith("Sin")


def test_a_search_ends_inside_a_comparison() -> None:
    program = tnf.compile(network, X, W)
    budget = Steps(30)
    with pytest.raises(SearchTimeoutError), budget.step():
        limits(program, [X, W], flatten(program.run(X, W))[0])
    assert budget.is_exhausted
    spend_time()  # outside of a step, nothing ends


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_time_that_is_no_time_is_an_error(seconds: float) -> None:
    with pytest.raises(errors.InvalidConfigError, match="locate_seconds"):
        check_parity(lambda x: x, X, locate_seconds=seconds)
    with pytest.raises(errors.InvalidConfigError, match="locate_seconds"):
        judge(tnf.compile(lambda x: x, X), [X], [X], [X], locate_seconds=seconds)


# ---- the interpreter ---------------------------------------------------------------------------------


def test_the_interpreter_in_every_dtype() -> None:
    xs = [np.arange(1, 7).reshape(2, 3).astype(dtype.dtype) for dtype in tnf.DType]
    flipped = tnf.compile(lambda *xs: [tnf.flip(x, axis=1) for x in xs], *xs)
    same = tnf.compile(lambda *xs: [x == x for x in xs], *xs)
    for program in (flipped, same):
        results = interpreted(program, xs)
        assert not isinstance(results, str), results
        for x, y in zip(xs, results, strict=True):
            wanted = x[:, ::-1] if program is flipped else np.ones((2, 3), bool)
            assert y.dtype == wanted.dtype
            np.testing.assert_array_equal(y.astype(complex), wanted.astype(complex))


def test_what_the_interpreter_does_not_do_is_said() -> None:
    program = tnf.compile(lambda x: x @ x, np.ones((400, 400)))
    assert "elements" in str(interpreted(program, [np.ones((400, 400))]))


# ---- reports -------------------------------------------------------------------------------------------


def test_reports_for_every_reader(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    plant_emitter(monkeypatch, Sin, lambda op, w, x: w.op("cosine", x, result=x.spec))
    report = check_parity(network, X, W)
    assert json.loads(json.dumps(report.to_dict()))["first_divergence"]["op"].startswith("Sin")
    page = report.to_html()
    assert page == report._repr_html_()
    assert "DISAGREE" in page
    assert "&#x27;h&#x27;" in page  # the quotes of the name are escaped
    report.print()
    shown = capsys.readouterr().out
    assert "DISAGREE" in shown
    assert "first divergence: Sin" in shown
    assert "beyond what rounding explains" in shown


def test_several_dtypes() -> None:
    x = np.linspace(-2, 2, 12).reshape(3, 4)
    report = check_parity(
        lambda x: {"i": tnf.argmax(x, axis=1), "b": x > 0, "f": tnf.tanh(x) @ x.T}, x
    )
    assert report.ok, str(report)
    assert [output.allowed == 0 for output in report.outputs] == [True, False, True]


def test_the_sign_of_a_zero_that_a_sum_makes_explains_what_follows_from_it() -> None:
    x = np.array([-0.0, -0.0])
    report = check_parity(
        lambda x, y: tnf.atan2(tnf.cumulative_sum(x), y), x, np.array([-1.0, 2.0])
    )
    assert report.ok, str(report)
    assert check_parity(lambda x: 1 / x, x).outputs[0].allowed < 100


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "complex128"])
def test_flushed_subnormals_explain_what_follows_from_them(dtype: str) -> None:
    kind = DType.of(dtype)
    tiny = float(ml_dtypes.finfo(kind.real.dtype).smallest_subnormal)
    x = np.array([tiny, 1.0]).astype(kind.dtype)
    report = check_parity(lambda x: (1 / x, x == 0, tnf.sign(x) + x), x)
    assert report.ok, str(report)


# ---- platforms -------------------------------------------------------------------------------------


class ElsewhereRounded:
    """Executor that reports the given platform. It changes all of XLA's results by `ulps` ulps."""

    def __init__(self, platform: str, ulps: int) -> None:
        self.platform, self.ulps = platform, ulps

    def run(self, program: Any, *arguments: Any) -> Any:
        y = program.run(*arguments)
        return y + (self.ulps * np.spacing(np.abs(y))).astype(y.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_gpu_divides_and_takes_roots_in_float32_less_exactly(dtype: str) -> None:
    """On GPUs, float32 quotients may differ by 2 ulps (PTX's div.full), and square roots by 1 ulp (sqrt.approx)."""
    x, y = np.linspace(1.0, 7.0, 50).astype(dtype), np.linspace(2.0, 3.0, 50).astype(dtype)
    quotient = lambda x, y: x / y
    for platform, ulps in (("cuda", 2), ("rocm", 2), ("cpu", 1)):
        report = check_parity(
            quotient,
            x,
            y,
            executor=ElsewhereRounded(platform, ulps),
            locate=False,
            interpreter=False,
        )
        assert report.ok == (platform != "cpu" and dtype == "float32")
    assert not check_parity(
        quotient, x, y, executor=ElsewhereRounded("cuda", 40), locate=False, interpreter=False
    ).ok
    for platform in ("cuda", "cpu"):
        one_off = ElsewhereRounded(platform, 1)
        report = check_parity(
            lambda x: tnf.sqrt(x), x, executor=one_off, locate=False, interpreter=False
        )
        assert report.ok == (platform == "cuda" and dtype == "float32")


def test_a_reproduction_runs_on_the_platform_where_it_parted(tmp_path: Path) -> None:
    program = tnf.compile(lambda x: x + x, np.ones(2))
    place = save_reproduction(tmp_path / "repro", program, [np.ones(2)], None, "cuda")
    assert "executor=xla_peer.XlaExecutor('cuda'))" in (place / "repro.py").read_text()

"""The fuzzer: random programs, the differences that it finds, how it shrinks them, and reasons for differences."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import lowering.lower
import tenferro as tnf
from lowering.emit import EMITTERS
from tenferro import errors
from tenferro.dispatch import apply_one
from tenferro.graph import Graph
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram
from tenferro.types import flatten
from tests.levels import version_of
from xla_peer.cli import app
from xla_peer.fuzz import EXPLANATIONS, fuzz, random_case
from xla_peer.fuzz.failures import saved_failure, smallest_failure
from xla_peer.fuzz.forms import FORMS, formed
from xla_peer.fuzz.program import CARDS
from xla_peer.isolated import IsolatedExecutor
from xla_peer.parity import Divergence, check_parity, paths
from xla_peer.parity.comparison import compare
from xla_peer.parity.explanations import Parting, explain
from xla_peer.parity.sensitivity import moved_outputs
from xla_peer.parity.shrinking import Case, shrunk
from xla_peer.peer_process import PeerProcess

CASES = [random_case(0, number) for number in range(400)]


def test_the_stream_has_every_op_and_dtype_and_values_of_every_kind() -> None:
    steps = [step for case in CASES for step in case.program.instructions]
    assert {step.op.name for step in steps} >= {card.__name__ for card in CARDS}
    types = {spec.dtype for case in CASES for spec in case.program.types}
    assert types == {dtype for dtype in tnf.DType if not dtype.is_narrow}
    floats = [x for case in CASES for x in case.leaves if x.dtype.kind == "f"]
    assert any(np.isnan(x).any() for x in floats)
    assert any((np.signbit(x) & (x == 0)).any() for x in floats)
    assert any(step.op.name == "Constant" for step in steps)
    assert any(case.leaves for case in CASES)
    assert {0, 1, 2, 3} <= {spec.rank for case in CASES for spec in case.program.types}


def test_native_results_are_of_the_declared_types() -> None:
    for case in CASES[:200]:
        for y, spec in zip(
            flatten(case.program.run(*case.leaves))[0], case.program.output_specs, strict=True
        ):
            assert (y.shape, y.dtype) == (spec.shape, spec.dtype.dtype), case.program


def test_a_case_is_the_same_in_every_process() -> None:
    code = "from xla_peer.fuzz import random_case; print(random_case(3, 5).program.fingerprint)"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        for _ in range(2)
    }
    assert said == {random_case(3, 5).program.fingerprint}


def test_both_paths_agree_on_a_short_stream() -> None:
    report = fuzz(programs=12, seed=2)
    assert report.ok, str(report)
    assert (report.programs, report.interpreted) == (12, 1)
    assert report.gradients >= 3
    assert "no unexplained divergence" in str(report)


def test_a_planted_fault_is_found_shrunk_and_saved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = {el.Maximum: lambda op, w, x, y: w.op("minimum", x, y, result=x.spec)}
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, **wrong})
    guilty = [
        number
        for number, case in enumerate(CASES)
        if any(step.op.name == "Maximum" for step in case.program.instructions)
    ]
    report = fuzz(programs=guilty[1] - guilty[0] + 1, start=guilty[0], folder=tmp_path)
    assert not report.ok
    (group, *_) = report.unexplained
    assert group.op == "Maximum"
    assert "native is alone" in group.told or "PJRT is alone" in group.told
    assert {"repro.py", "module.mlir"} <= {path.name for path in Path(group.folder).iterdir()}
    assert json.loads(json.dumps(report.to_dict()))["ok"] is False


def test_errors_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(op: Any, w: Any, *operands: Any) -> Any:
        raise RuntimeError("emitter is broken")

    rows = dict.fromkeys([card for card in EMITTERS if card.__name__ != "Constant"], broken)
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, **rows})
    report = fuzz(programs=1)
    assert not report.ok
    assert "emitter is broken" in str(report)


def test_shrinking_cuts_the_program_and_plains_the_arrays() -> None:
    graph = Graph()
    x = graph.add_input(tnf.TensorSpec((4, 3), "float64"))
    (a,) = graph.add(an.Sin(), (x,))
    (b,) = graph.add(an.Exp(), (a,))
    (y,) = graph.add(re.ReduceSum((0,)), (b,))
    case = Case(GraphProgram.from_graph(graph, [y]), (np.full((4, 3), 0.25),))

    def parts(candidate: Case) -> bool:
        last = candidate.program.instructions[-1].op
        return isinstance(last, re.ReduceSum) and candidate.leaves[0].reshape(-1)[7] != 1

    found = shrunk(case, parts)
    assert [step.op.name for step in found.program.instructions] == ["ReduceSum"]
    assert np.count_nonzero(found.leaves[0] != 1) == 1


class NoSines:
    """Executor for a platform on which the sine is not supported."""

    def __init__(self, platform: str) -> None:
        self.platform = platform

    def run(self, program: Any, *arrays: Any) -> Any:
        raise errors.UnsupportedError("Sin: f64 on it: it has none")


def test_what_a_platform_refuses_is_counted_and_on_the_cpu_a_finding() -> None:
    elsewhere = fuzz(programs=3, seed=1, executor=NoSines("cuda"))
    assert (elsewhere.refused, elsewhere.ok) == (3, True)
    assert "refused by the platform: 3" in str(elsewhere)
    assert elsewhere.to_dict()["refused"] == 3
    here = fuzz(programs=1, seed=1, executor=NoSines("cpu"))
    assert (here.refused, here.ok) == (0, False)


def test_a_platform_that_is_not_here_is_no_finding() -> None:
    with pytest.raises(errors.PlatformUnavailableError, match="'tpu' is not available"):
        fuzz(programs=1, platform="tpu")


# ---- reasons ---------------------------------------------------------------------------------------


MENDED = {"exp of a NaN known at compile time": (0, 11, 2), "windows that XLA moves once": (0, 12)}
"""First version of jaxlib in which the example of a known reason no longer differs from native results."""
UNDEFINED = {"exp of a NaN known at compile time"}
"""Reasons about undefined values. The values depend on the processor, and on whether the op is compiled alone."""


def reason_of(fn: Any, *arrays: Any) -> str:
    report = check_parity(fn, *arrays, interpreter=False)
    if report.ok:
        return ""
    if report.first_divergence is None:
        return "no single op"
    explanation = explain(report.first_divergence)
    return explanation.name if explanation else ""


def holes(x: Any, w: Any) -> Any:
    """Return a convolution of `x` with dilation.

    The kernel's elements are also multiplied by the zeros that dilation inserts.
    """
    return tnf.lax.conv_general_dilated(x, w, (1,), "VALID", lhs_dilation=(2,))


def windows(x: Any, i: Any, j: Any, column: Any) -> Any:
    """Gather a column from a dynamic slice of `x`. Both ops clamp their start indices."""
    gather = ix.Gather((0, 1), (), (), (), (1,), 1, (4, 1))
    return apply_one(gather, apply_one(ix.DynamicSlice((4, 3)), x, i, j), column)


@pytest.mark.sweep
def test_each_reason_has_an_example() -> None:
    big = 1e308
    examples = {
        "bits within rounding": lambda: reason_of(
            lambda x: apply_one(el.BitcastConvert(tnf.DType.I64), tnf.tanh(x)),
            np.linspace(0.1, 0.9, 99),
        ),
        "complex numbers that are not finite": lambda: reason_of(
            lambda z: tnf.sign(z), np.array([complex(0.0, np.inf)])
        ),
        "branch cuts of complex functions": lambda: reason_of(
            lambda z: tnf.sqrt(z), np.array([complex(-2.0, -0.0)])
        ),
        "zeros that convolutions leave out": lambda: reason_of(
            holes, np.ones((1, 1, 3)), np.array([[[1.0, np.nan]]])
        ),
        "exp of a NaN known at compile time": lambda: reason_of(
            lambda x: tnf.exp(x / np.float32(np.nan)), np.ones(1, np.float32)
        ),
        "partial results that overflow": lambda: reason_of(
            lambda x: tnf.sum(x), np.array([big, -big] * 128)
        ),
        "subnormal numbers on the way": lambda: reason_of(
            lambda y, x: tnf.atan2(y, x), np.array([1e-308, 1.0]), np.array([-0.25, 1.0])
        ),
        "windows that XLA moves once": lambda: reason_of(
            windows, np.eye(4, 5, 2, np.int8), np.int32(1), np.int32(-2), np.array([[3]], np.int32)
        ),
        "algebra rewritten by XLA": lambda: reason_of(
            lambda x: tnf.log(tnf.power(x, 2.5)), np.array([1e200, 1.0])
        ),
    }
    for name, example in examples.items():
        is_mended = version_of("jaxlib") >= MENDED.get(name, (99,))
        expected = {"" if is_mended else name}
        if name in UNDEFINED:
            expected |= {"", "no single op"}
        assert example() in expected, name


def test_a_subnormal_argument_is_on_the_way() -> None:
    """XLA's cube root of a subnormal number may be negative, so that `rsqrt` returns NaN.

    The reason must name the subnormal number.
    """
    x = np.array([5.9e-39, 1.0], np.float32).astype(tnf.DType.BF16.dtype)
    assert reason_of(lambda x: tnf.rsqrt(tnf.cbrt(x)), x) == "subnormal numbers on the way"


@pytest.mark.parametrize(
    ("last", "of_the_other_sign"), [(an.Rsqrt(), np.nan), (an.Polygamma(2), np.inf)]
)
def test_a_subnormal_constant_is_on_the_way(last: Any, of_the_other_sign: float) -> None:
    """XLA's cube root of a subnormal constant may be negative.

    Then `rsqrt` returns NaN, and polygamma changes its sign. The reason must name subnormal numbers.
    """
    x = np.array([5.9e-39 if isinstance(last, an.Rsqrt) else 9e-41, 1.0], np.float32)
    x = x.astype(tnf.DType.BF16.dtype)
    graph = Graph()
    (value,) = graph.add(Constant.of(x), ())
    for op in (an.Cbrt(), last):
        (value,) = graph.add(op, (value,))
    program = GraphProgram.from_graph(graph, [value])
    (native,) = flatten(program.run())[0]
    peer = native.copy()
    peer[0] = of_the_other_sign
    output = compare("y0", native, peer, np.zeros(2))
    explanation = explain(Divergence("", "", output, "", program, ()))
    assert explanation is not None
    assert explanation.name == "subnormal numbers on the way"


def test_a_subnormal_term_of_a_product_is_on_the_way() -> None:
    """The real part is 6e-308 - 1e-308.

    XLA flushes the second product to zero, because it is subnormal.
    """
    x, y = np.array([3e-154 + 1e-154j, 1.0]), np.array([2e-154 + 1e-154j, 1.0])
    assert (
        reason_of(lambda x, y: tnf.tensordot(x, y, axes=0), x, y) == "subnormal numbers on the way"
    )


def test_a_choice_that_few_roundings_leave_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check must accept a flipped comparison, even if no random run flips it.

    At 1, lgamma is 0, and XLA's is positive.
    """

    def few(program: Any, leaves: Any, runs: int, platform: str, record: Any = None) -> Any:
        every = moved_outputs(program, leaves, 4, platform, record)
        return [every[0], every[3]]  # in neither of the two runs, the comparison is flipped

    monkeypatch.setattr(paths, "moved_outputs", few)
    x = np.array([1.0, 2.0], np.float32)
    report = check_parity(lambda x: tnf.lgamma(x) > 0, x, interpreter=False)
    assert report.ok, str(report)


def test_a_wrong_choice_has_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {an.Sin: lambda op, w, x: w.op("cosine", x, result=x.spec)}
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, **wrong})
    assert reason_of(lambda x: tnf.argmax(tnf.sin(x)), np.array([0.3, 0.4])) == ""


def test_wrong_bits_have_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def off(op: Any, w: Any, x: Any) -> Any:
        bits = w.bitcast(x, op.to)
        return w.op("add", bits, w.full(1, bits.spec), result=bits.spec)

    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, el.BitcastConvert: off})
    assert (
        reason_of(
            lambda x: apply_one(el.BitcastConvert(tnf.DType.I64), x * 3), np.array([0.3, 0.4])
        )
        == ""
    )


def test_a_wrong_result_has_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {an.Sin: lambda op, w, x: w.op("cosine", x, result=x.spec)}
    monkeypatch.setattr(lowering.lower, "EMITTERS", {**EMITTERS, **wrong})
    for dtype in ("float32", "complex128"):
        x = np.array([0.3, 0.4]).astype(dtype)
        assert reason_of(lambda x: tnf.sin(x) * 2, x) == ""


def reason_of_result(fn: Any, x: Any, native: Any, peer: Any) -> str:
    """Return the name of a known reason, or "".

    The reason must explain that the other executor returns `peer` for an element.
    """
    program = tnf.compile(fn, x)
    output = compare(program.output_names[0], np.array([native]), np.array([peer]), np.zeros(1))
    explanation = explain(Divergence("", "", output, "", program, (x,)))
    return explanation.name if explanation else ""


def test_one_of_several_updates_may_stay() -> None:
    fn = lambda x: tnf.at(tnf.zeros(1))[np.array([0, 0])].set(x)
    name = "several updates of one element"
    assert reason_of_result(fn, np.array([1.0, 2.0]), 2.0, 1.0) == name
    assert reason_of_result(fn, np.array([np.nan, 2.0]), 2.0, np.nan) == name
    assert reason_of_result(fn, np.array([1.0, 2.0]), 2.0, 0.5) != name
    assert reason_of_result(fn, np.array([1.0, 2.0]), 2.0, np.nan) != name
    added = lambda x: tnf.at(tnf.zeros(1))[np.array([0, 0])].add(x)
    assert reason_of_result(added, np.array([1.0, 2.0]), 3.0, 1.0) != name


def test_convolutions_of_a_gpu_that_are_not_finite() -> None:
    fn = lambda x: tnf.lax.conv(x, np.ones((1, 1, 2)), (1,), "SAME")
    program = tnf.compile(fn, np.ones((1, 1, 3)))
    native, peer = np.full((1, 1, 3), 3.0), np.full((1, 1, 3), np.nan)
    output = compare(program.output_names[0], native, peer, np.zeros((1, 1, 3)))
    name = "convolutions that are not finite on a GPU"
    for x, platform, is_known in (
        (np.inf, "cuda", True),
        (1.0, "cuda", False),
        (np.inf, "cpu", False),
    ):
        leaves = (np.array([[[1.0, x, 2.0]]]),)
        parted = Divergence("", "", output, "", program, leaves, platform=platform)
        conv = next(e for e in EXPLANATIONS if e.name == name)
        assert conv.applies(Parting(parted)) == is_known


@pytest.mark.parametrize(
    ("kernel", "native", "peer", "is_known"),
    [
        ([2.0, np.nan], np.nan, 2.0, True),  # hole * NaN is NaN, but XLA may omit this product
        ([2.0, np.inf], np.nan, 2.0, True),
        ([2.0, np.nan], np.nan, 3.0, False),
        # XLA does not omit the product of NaN and an element of x.
        ([np.nan, 2.0], np.nan, 0.0, False),
        # The product of inf and an inserted zero is NaN, but XLA may omit this product.
        ([-np.inf, np.inf], np.nan, -np.inf, True),
        ([-np.inf, np.inf], np.nan, np.inf, False),
        ([-np.inf, np.inf], np.nan, 2.0, False),
        ([2.0, 3.0], 2.0, np.nan, False),
    ],
)
def test_a_convolution_leaves_out_zeros_alone(
    kernel: list[float], native: float, peer: float, is_known: bool
) -> None:
    x, w = np.ones((1, 1, 3)), np.array([[kernel]])
    program = tnf.compile(holes, x, w)
    results = [np.array([[[value, 0.0, 0.0, 0.0]]]) for value in (native, peer)]
    output = compare(program.output_names[0], *results, np.zeros((1, 1, 4)))
    explanation = explain(Divergence("", "", output, "", program, (x, w)))
    name = "zeros that convolutions leave out"
    assert (explanation is not None and explanation.name == name) == is_known


def test_exp_of_a_nan_that_is_an_argument_has_no_reason() -> None:
    x = np.full(1, np.nan, np.float32)
    assert reason_of_result(lambda x: tnf.exp(x), x, np.float32(np.nan), np.float32(3.0)) == ""
    exp_of_nan = lambda x: tnf.exp(x / np.float32(np.nan))
    name = "exp of a NaN known at compile time"
    assert reason_of_result(exp_of_nan, x, np.float32(np.nan), np.float32(3.0)) == name
    assert reason_of_result(exp_of_nan, x, np.float32(3.0), np.float32(np.nan)) != name


def test_products_of_updates_may_overflow_on_the_way() -> None:
    fn = lambda x: tnf.at(tnf.ones(1))[np.zeros(16, int)].multiply(x)
    x = np.array([1e200, 1e-200] * 8)
    name = "partial results that overflow"
    assert reason_of_result(fn, x, np.inf, 3.0) == name
    assert reason_of_result(fn, np.full(16, 2.0), np.inf, 3.0) != name


@pytest.mark.parametrize(
    ("fn", "x", "right", "wrong"),
    [
        (tnf.sum, [1e308, -1e308] * 128, np.nan, 3.0),
        (tnf.prod, [1e200, 1e-200] * 8, np.inf, 3.0),
        (tnf.sum, [1.0, 2.0, 3.0], None, np.nan),
        (tnf.sum, [np.inf, 2.0, 3.0], None, np.nan),
        (tnf.prod, [2.0, 0.5, 0.0], None, np.inf),
    ],
)
def test_partial_results_overflow_where_terms_are_that_large(
    fn: Any, x: list[float], right: float | None, wrong: float
) -> None:
    """An overflow of partial sums may explain an infinite or NaN result only if some order of the terms overflows."""
    array = np.array(x)
    program = tnf.compile(fn, array)
    native = np.asarray(program.run(array) if right is None else right)
    output = compare(program.output_names[0], native, np.array(wrong), np.zeros(()))
    explanation = explain(Divergence("Sum", "", output, "", program, (array,)))
    assert (explanation.name if explanation else "") == (
        "" if right is None else "partial results that overflow"
    )


@pytest.mark.parametrize(
    ("fn", "result", "is_explained"),
    [
        (tnf.sin, 0.0, True),
        (tnf.sin, 1.0, False),
        (tnf.sin, np.nan, False),
        (lambda x: tnf.sqrt(-x), np.nan, True),
        (lambda x: 1.0 / x, np.inf, True),
        (lambda x: 1.0 / x, 3.0, False),
        (lambda x: x > 0.0, False, True),
        (tnf.exp, 1.1, False),
    ],
)
def test_a_subnormal_argument_explains_only_what_it_reaches(
    fn: Any, result: Any, is_explained: bool
) -> None:
    x = np.array([4e-310])
    program = tnf.compile(fn, x)
    native = np.asarray(program.run(x))
    output = compare(program.output_names[0], native, np.array([result], native.dtype), np.zeros(1))
    explanation = explain(Divergence("", "", output, "", program, (x,)))
    assert (
        explanation is not None and explanation.name == "subnormal numbers on the way"
    ) == is_explained


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (complex(1.7e308, -1.7e308), "branch cuts of complex functions"),
        (complex(1.7e308, -1.5e308), ""),
        (complex(0.0, 0.0), ""),
    ],
)
def test_complex_numbers_whose_modulus_overflows(other: complex, reason: str) -> None:
    z = np.array([complex(1.0, 2.0)])
    program = tnf.compile(lambda z: tnf.exp(z), z)
    native, xla = np.array([complex(1.7e308, 1.7e308)]), np.array([other])
    output = compare(program.output_names[0], native, xla, np.zeros(1))
    explanation = explain(Divergence("Exp", "", output, "", program, (z,)))
    assert (explanation.name if explanation else "") == reason


def test_the_reasons_are_told_in_the_documents() -> None:
    page = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text()
    for explanation in EXPLANATIONS:
        assert explanation.reason in page, explanation.name


# ---- misuse ----------------------------------------------------------------------------------------


def test_misuse_and_the_command() -> None:
    with pytest.raises(errors.InvalidConfigError, match="minutes"):
        fuzz()
    with pytest.raises(errors.InvalidConfigError, match="at least 0"):
        fuzz(-1.0)
    assert fuzz(programs=0).ok
    done = CliRunner().invoke(app, ["fuzz", "--programs", "3", "--seed", "4"])
    assert done.exit_code == 0
    assert "3 programs" in done.output


DYING = """
import os, sys
sys.path[:] = {path!r}
import xla_peer.peer_server as server
compiled = server.Server._compile
def dying(self, request):
    if "stablehlo.sine" in request["plain_text"]:
        os._exit(7)
    return compiled(self, request)
server.Server._compile = dying
server.serve({requests}, {answers}, {memory}, {parent})
"""
"""Code of a child process that ends abruptly as soon as it computes a sine."""


def test_a_crash_is_shrunk_and_saved(tmp_path: Path) -> None:
    def fn(x: Any, y: Any) -> Any:
        return tnf.sin(tnf.cos(x) * y)

    x, y = np.array([2.0]), np.array([3.0])
    case = Case(tnf.compile(fn, x, y), (x, y))
    with IsolatedExecutor(process=PeerProcess(DYING)) as executor:
        smallest = smallest_failure(case, errors.PeerEndedError("SIGSEGV", "running"), executor)
    assert [step.op.name for step in smallest.program.instructions].count("Cos") == 0
    assert "Sin" in [step.op.name for step in smallest.program.instructions]
    folder = Path(saved_failure(smallest, tmp_path / "sin"))
    assert "stablehlo.sine" in (folder / "module.mlir").read_text()


@pytest.mark.parametrize("form", sorted(FORMS))
def test_forms_compute_what_the_program_does(form: str) -> None:
    def fn(x: Any, y: Any) -> Any:
        return x * 2 + y, tnf.sum(y)

    arrays = (np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    case = formed(Case(tnf.compile(fn, *arrays), arrays), form)
    assert case is not None
    results = flatten(case.program.run(*case.leaves))[0]
    ops = {step.op.name for step in case.program.instructions}
    if form == "loop":
        assert ops & {"Scan", "While"}
        x, y = arrays
        for _ in range(3):  # the second value of an iteration depends on its first result
            x, y = x * 2 + y, x * 2 + y
        np.testing.assert_array_equal(results[0], x)
    elif form == "symbolic":
        assert not case.program.is_static
        np.testing.assert_array_equal(results[0], np.stack([arrays[0] * 2 + arrays[1]] * 2))
    else:
        np.testing.assert_array_equal(results[0], arrays[0] * 2 + arrays[1])
        assert (case.program.origin is not None) == (form == "imported")


def test_a_form_that_a_program_does_not_have_is_counted_as_plain() -> None:
    program = tnf.compile(lambda x: tnf.sum(x), np.ones(3))
    assert formed(Case(program, (np.ones(3),)), "loop") is None
    report = fuzz(programs=3, seed=1)
    assert sum(report.forms.values()) == 3
    assert report.forms["imported"] == 1


def test_a_wrong_rewrite_of_integers_has_no_reason() -> None:
    def fn(x: Any) -> Any:
        product = x * x
        return tnf.where(product < 0, tnf.abs(product), product)

    report = check_parity(fn, np.array([12, 7], np.int8), interpreter=False)
    if report.ok:
        pytest.skip("this XLA keeps the absolute value")
    assert report.first_divergence is not None
    assert explain(report.first_divergence) is None

"""Every sample of an extension family must have the values of its definition.

Its derivatives and its StableHLO must be right, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro import errors
from tenferro.ext.einsum.families import Einsum
from tenferro.ext.fft.families import Fft
from tenferro.ext.lapack import families as lapack
from tenferro.ext.linalg import families as linalg
from tenferro.program import GraphProgram
from tenferro.types import DType
from tests.ad.cases import direction_like, inner
from tests.ledger.recording import Passes
from tests.ledger.writing import exemption
from tests.samples.families import FAMILIES, FAMILY_SAMPLES, FamilySample
from xla_peer import XlaExecutor
from xla_peer.parity.interpreter import interpreted

STEP = 1e-6
each_family = pytest.mark.parametrize("family", FAMILY_SAMPLES, ids=lambda family: family.__name__)
Run = Callable[[GraphProgram, list[Any]], Sequence[Any]]


def samples_for(column: str, family: Any) -> list[FamilySample]:
    """Return the samples of a family to which the checks of a column apply.

    Without such a sample, the test is skipped.
    """
    found = [s for s in FAMILY_SAMPLES[family] if exemption(column, s) is None]
    return found or pytest.skip(f"all are exempt from {column}")


def together(samples: Sequence[FamilySample]) -> tuple[GraphProgram, list[Any]]:
    """Return one program that computes all samples, and the concatenated inputs of the samples."""

    def fn(*arrays: Any) -> list[Any]:
        rest = iter(arrays)
        return [y for s in samples for y in s.fn(*[next(rest) for _ in s.inputs])]

    inputs = [x for sample in samples for x in sample.inputs]
    return tnf.compile(fn, *inputs), inputs


def are_right(samples: Sequence[FamilySample], run: Run) -> None:
    """Run the samples as one program, and require that each result agrees with its definition."""
    results = iter(run(*together(samples)))
    for sample in samples:
        found = [np.asarray(next(results)) for _ in sample.expected]
        sample.assert_right(found, sample.expected)


def test_every_family_has_samples() -> None:
    assert set(FAMILY_SAMPLES) == set(FAMILIES)


@each_family
def test_values(family: Any, ledger: Passes) -> None:
    for sample in FAMILY_SAMPLES[family]:
        sample.assert_right([np.asarray(y) for y in sample.fn(*sample.inputs)], sample.expected)
        ledger.passed("native", sample)


@each_family
def test_export_and_values_through_pjrt(family: Any, ledger: Passes) -> None:
    samples = samples_for("PJRT", family)

    def through_pjrt(program: GraphProgram, inputs: list[Any]) -> Any:
        lowering.lower_to_stablehlo(program).verify()
        return XlaExecutor("cpu", optimization_level=0).run(program, *inputs)

    are_right(samples, through_pjrt)
    for sample in samples:
        ledger.passed("export", sample)
        ledger.passed("PJRT", sample)


@each_family
def test_plain_stablehlo_comes_back(family: Any, ledger: Passes) -> None:
    samples = samples_for("import", family)

    def read_again(program: GraphProgram, inputs: list[Any]) -> Any:
        module = lowering.lower_to_stablehlo(program, linalg="inline")
        return lowering.import_stablehlo(module).run(*inputs)

    are_right(samples, read_again)
    for sample in samples:
        ledger.passed("import", sample)


@each_family
def test_what_is_exempt_from_coming_back_is_refused(family: Any) -> None:
    exempt = [s for s in FAMILY_SAMPLES[family] if "import" in s.exempt]
    for sample in exempt[:1]:
        program, _ = together([sample])
        with pytest.raises((errors.UnsupportedError, errors.ExtensionLoweringError)):
            lowering.import_stablehlo(lowering.lower_to_stablehlo(program, linalg="inline"))


@pytest.mark.sweep
@each_family
def test_the_reference_interpreter(family: Any, ledger: Passes) -> None:
    samples = samples_for("interpreter", family)

    def evaluated(program: GraphProgram, inputs: list[Any]) -> Any:
        results = interpreted(program, inputs)
        assert not isinstance(results, str), results
        return results

    are_right(samples, evaluated)
    for sample in samples:
        ledger.passed("interpreter", sample)


# ---- derivatives -----------------------------------------------------------------------------------


def derivatives(sample: FamilySample) -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    """Return a random direction of the inputs, the tangents of the outputs, and the inexact outputs."""
    directions = [direction_like(x, 1) for x in sample.inputs]
    y, y_dots = tnf.jvp(in_floats(sample), sample.inputs, directions)
    return directions, y_dots, y


def in_floats(sample: FamilySample) -> Callable[..., tuple[Any, ...]]:
    """Return the sample's function without its integer outputs, because integers have no derivative."""
    kept = [DType.of(y.dtype).is_inexact for y in sample.expected]

    def fn(*inputs: Any) -> tuple[Any, ...]:
        return tuple(y for y, keep in zip(sample.fn(*inputs), kept, strict=True) if keep)

    return fn


def doubled(x: Any) -> Any:
    """Return x converted to double precision."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@each_family
def test_tangents(family: Any, ledger: Passes) -> None:
    """In double precision, tangents must equal central differences.

    In single precision, they must equal those in double precision.
    """
    for sample in samples_for("jvp", family):
        directions, y_dots, _ = derivatives(sample)
        wide = replace(sample, inputs=tuple(map(doubled, sample.inputs)))
        along = [doubled(v) for v in directions]
        after, before = (
            in_floats(sample)(*[x + step * v for x, v in zip(wide.inputs, along, strict=True)])
            for step in (STEP, -STEP)
        )
        tolerance = max(1e-7, 200 * max(tnf.finfo(y.dtype).eps for y in y_dots))
        for y_dot, a, b in zip(y_dots, after, before, strict=True):
            expected = (a - b) / (2 * STEP)
            size = 1 + np.max(np.abs(expected), initial=0)
            assert np.max(np.abs(doubled(y_dot) - expected), initial=0) < tolerance * size, sample
        ledger.passed("jvp", sample)


@each_family
def test_cotangents_are_the_adjoint(family: Any, ledger: Passes) -> None:
    for sample in samples_for("vjp", family):
        directions, y_dots, y = derivatives(sample)
        y_bars = tuple(direction_like(np.asarray(leaf), 2) for leaf in y)
        x_bars = tnf.vjp(in_floats(sample), *sample.inputs)[1](y_bars)
        for x_bar, x in zip(x_bars, sample.inputs, strict=True):
            assert (x_bar.dtype, x_bar.shape) == (x.dtype, x.shape)
        left = sum(inner(bar, dot) for bar, dot in zip(y_bars, y_dots, strict=True))
        right = sum(inner(bar, dot) for bar, dot in zip(x_bars, directions, strict=True))
        size = sum(
            float(np.sum(np.abs(doubled(bar) * doubled(v))))
            for bar, v in zip((*x_bars, *y_bars), (*directions, *y_dots), strict=True)
        )
        epsilon = max(tnf.finfo(y_dot.dtype).eps for y_dot in y_dots)
        assert abs(left - right) <= 100 * epsilon * (1 + size), sample
        ledger.passed("vjp", sample)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: linalg.Qr(full=1), "Qr: full must be True or False, got 1"),  # type: ignore[arg-type]
        (lambda: linalg.Svd(full=None), "Svd: full must be True or False"),  # type: ignore[arg-type]
        (lambda: linalg.Svd(degenerate="one"), "Svd: degenerate must be one of"),
        (lambda: linalg.Eigh(degenerate="one"), "Eigh: degenerate must be one of"),
        (lambda: linalg.Solve("H"), r"Solve: transpose must be one of \('N', 'T', 'C'\), got 'H'"),
        (lambda: linalg.LuSolve("H"), "LuSolve: transpose must be one of"),
        (
            lambda: linalg.TriangularSolve(transpose="H"),
            "TriangularSolve: transpose must be one of",
        ),
        (lambda: linalg.TriangularSolve(lower="L"), "TriangularSolve: lower must be True or False"),  # type: ignore[arg-type]
        (lambda: lapack.Sytrd(lower="L"), "Sytrd: lower must be True or False"),  # type: ignore[arg-type]
        (
            lambda: lapack.PivotsToPermutation(-1),
            "PivotsToPermutation: size must be at least 0, got -1",
        ),
        (lambda: Fft("dct", (4,)), "Fft: kind must be one of"),
        (lambda: Fft("fft", ()), "Fft: lengths must have one to three axes, got 0"),
        (lambda: Fft("fft", (1, 1, 1, 1)), "Fft: lengths must have one to three axes, got 4"),
        (lambda: Fft("fft", (-1,)), "Fft: lengths must be at least 0"),
        (lambda: Fft("rfft", (None,)), "Fft: rfft needs its lengths"),
        (lambda: Fft("irfft", (4, None)), "Fft: irfft needs its lengths"),
        (lambda: Einsum(("i", 3), "i"), "Einsum: inputs and output must be labels"),  # type: ignore[arg-type]
        (lambda: Einsum(("i",), "i", "best"), ".*got 'best'"),
        (lambda: Einsum(("i", "i"), "i", ((0, 7),)), ".*does not name some of 2 operands"),
    ],
)
def test_payloads_that_mean_nothing(make: Callable[[], Any], words: str) -> None:
    """An invalid payload must raise an error whose message begins with the name of the family."""
    with pytest.raises(errors.InvalidConfigError, match=f"^{words}"):
        make()


def test_fields_that_are_no_sequences() -> None:
    for make, words in (
        (lambda: Fft("fft", 4), "Fft: lengths must be a sequence"),  # type: ignore[arg-type]
        (lambda: Einsum(3, "i"), "Einsum: inputs must be a sequence"),  # type: ignore[arg-type]
    ):
        with pytest.raises(errors.ShapeError, match=f"^{words}"):
            make()


SWITCHES = [
    (family, field.name)
    for family in FAMILIES
    if is_dataclass(family)
    for field in fields(family)
    if field.type in (bool, "bool")
]


@pytest.mark.parametrize(("family", "name"), SWITCHES, ids=lambda x: getattr(x, "__name__", x))
def test_a_switch_is_true_or_false(family: Any, name: str) -> None:
    for wrong in ("no", 2, 1, None):
        with pytest.raises(errors.InvalidConfigError) as error:
            family(**{name: wrong})
        expected = f"{family.__name__}: {name} must be True or False, got {wrong!r}"
        assert str(error.value).startswith(expected)
    for right in (True, False):
        assert getattr(family(**{name: right}), name) is right


def test_which_families_have_switches() -> None:
    """At least eight families must have options, so that the tests above are not empty."""
    assert len(SWITCHES) >= 8


def test_a_solver_of_two_dtypes_says_which() -> None:
    with pytest.raises(errors.DTypeError, match="float64, float32"):
        linalg.Solve("N").infer_output_meta([DType.F64, DType.F32], [(3, 3), (3, 2)])

"""LAPACK's packed representations must satisfy their definitions on both peers.

For example, a packed Q is a product of reflections.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro import errors
from tenferro.ext.lapack import families as fam
from tenferro.extension import apply, check_extension
from tests.samples.matrices import DTYPES, adjoint, general
from xla_peer import XlaExecutor

XLA = XlaExecutor("cpu")


def near(found: Any, wanted: Any) -> None:
    tolerance = 300 * max(np.finfo(x.dtype).eps for x in (found, wanted))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def on_both(op: Any, *arrays: Any) -> tuple[Any, ...]:
    """Run an op natively and through PJRT, and return the native results.

    Both must be equal, because both call LAPACK.
    """
    program = tnf.compile(lambda *xs: apply(op, *xs), *arrays)
    native, other = (
        y if isinstance(y, tuple) else (y,)
        for y in (program.run(*arrays), XLA.run(program, *arrays))
    )
    for y, z in zip(native, other, strict=True):
        assert (y.shape, y.dtype) == (z.shape, z.dtype)
        np.testing.assert_allclose(y, z, rtol=1e-4, atol=1e-4)
    return native


def reflections(packed: Any, factors: Any) -> Any:
    """Return the product H_1 H_2 .. of the reflections that LAPACK stores in packed form.

    The reflection i is H_i = 1 - tau_i v_i v_i^H. The factors tau_i are in `factors`, and v_i is below the diagonal
    of column i.
    """
    m = packed.shape[0]
    q = np.eye(m)
    for i, factor in enumerate(factors):
        v = np.concatenate([np.zeros(i), [1], packed[i + 1 :, i]])
        q = q @ (np.eye(m) - factor * np.outer(v, v.conj()))
    return q


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 1), (0, 3)])
def test_swaps_and_factors(shape: Any, dtype: str) -> None:
    a = general(*shape, dtype=dtype)
    packed, pivots, info = on_both(fam.Getrf(), a)
    k = min(shape)
    swapped = a.copy()
    for i, pivot in enumerate(pivots):
        swapped[[i, pivot - 1]] = swapped[[pivot - 1, i]]
    low = np.tril(packed[:, :k], -1) + np.eye(*shape[:1], k, dtype=dtype)
    near(low @ np.triu(packed[:k]), swapped)
    assert (info, pivots.dtype, info.dtype) == (0, np.int32, np.int32)
    (perm,) = on_both(fam.PivotsToPermutation(shape[0]), pivots - 1)
    np.testing.assert_array_equal(a[perm], swapped)


def test_a_zero_pivot_is_told() -> None:
    assert on_both(fam.Getrf(), np.diag([1.0, 0.0, 2.0]))[2] == 2
    for middle in (np.array([1.0, 0, 1]), np.zeros(1)):
        zero = np.zeros(len(middle))
        assert apply(fam.Gtsv(), zero, middle, zero, np.ones((len(middle), 1)))[1] != 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (1, 1), (3, 0)])
def test_reflectors(shape: Any, dtype: str) -> None:
    a = general(*shape, dtype=dtype)
    packed, factors = on_both(fam.Geqrf(), a)
    q = reflections(packed, factors)
    near(q @ np.triu(packed), a)
    columns = min(shape)
    if columns:
        near(on_both(fam.HouseholderProduct(), packed[:, :columns], factors)[0], q[:, :columns])
    ordered, order, again = on_both(fam.Geqp3(), a)
    near(reflections(ordered, again) @ np.triu(ordered), a[:, order - 1])
    falling = np.abs(np.diag(ordered))
    assert (np.diff(falling) <= 1e-6).all()


def test_a_product_of_no_reflections() -> None:
    (q,) = on_both(fam.HouseholderProduct(), general(4, 3), np.zeros(0))
    np.testing.assert_array_equal(q, np.eye(4, 3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvectors_of_both_sides(dtype: str) -> None:
    a = general(2, 5, 5, dtype=dtype)
    w, left, right = on_both(fam.Geev(), a)
    near(a @ right, right * w[:, None])
    near(adjoint(left) @ a, w[..., None] * adjoint(left))
    near(np.linalg.norm(left, axis=-2).astype(w.real.dtype), np.ones((2, 5), w.real.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_three_diagonals(n: int, dtype: str) -> None:
    below, above = general(2, n, dtype=dtype), general(2, n, dtype=dtype)[::-1]
    middle, b = general(2, n, dtype=dtype) + 4, general(2, n, 3, dtype=dtype)
    x, info = on_both(fam.Gtsv(), below, middle, above, b)
    for i in range(2):
        t = np.diag(middle[i]) + np.diag(below[i, 1:], -1) + np.diag(above[i, :-1], 1)
        near(t @ x[i], b[i])
    assert not info.any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_simpler_similar_matrices(dtype: str) -> None:
    a = general(5, 5, dtype=dtype)
    h = a + adjoint(a)
    packed, diagonal, off_diagonal, factors = on_both(fam.Sytrd(), np.tril(h))
    q = np.eye(5, dtype=dtype)
    q[1:, 1:] = reflections(packed[1:, :4], factors)
    near(
        q
        @ (np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)).astype(dtype)
        @ adjoint(q),
        h,
    )
    upper = on_both(fam.Sytrd(lower=False), np.triu(h))
    tridiagonal = np.diag(upper[1]) + np.diag(upper[2], 1) + np.diag(upper[2], -1)
    near(np.linalg.eigvalsh(tridiagonal), np.linalg.eigvalsh(h))
    packed, factors = on_both(fam.Gehrd(), a)
    q[1:, 1:] = reflections(packed[1:, :4], factors)
    near(q @ np.triu(packed, -1) @ adjoint(q), a)
    form, z, values, info = on_both(fam.Gees(), a)
    near(z @ form @ adjoint(z), a)
    near(adjoint(z) @ z, np.eye(5, dtype=dtype))
    near(np.sort_complex(values), np.sort_complex(np.linalg.eigvals(form).astype(values.dtype)))
    assert info == 0


def spread(n: int, dtype: Any) -> Any:
    """Return a matrix with real, well separated eigenvalues.

    It is almost diagonal, so that the phases of its eigenvectors are determined.
    """
    return np.diag(3.0 * np.arange(n)).astype(dtype) + 0.1 * general(n, n)


GRADIENTS: list[tuple[Any, tuple[Any, ...]]] = [
    (op, tuple(general(*shape, dtype=dtype) for shape in shapes))
    for dtype in ("float64", "complex128")
    for op, shapes in (
        (fam.Getrf(), [(4, 4)]),
        (fam.Getrf(), [(2, 5, 3)]),
        (fam.Getrf(), [(3, 5)]),
        (fam.Geqrf(), [(4, 4)]),
        (fam.Geqrf(), [(2, 5, 3)]),
        (fam.Geqrf(), [(3, 5)]),
        (fam.Geqp3(), [(5, 3)]),
        (fam.HouseholderProduct(), [(2, 5, 4), (2, 3)]),
        (fam.HouseholderProduct(), [(4, 4), (4,)]),
        (fam.Gtsv(), [(2, 4), (2, 4), (2, 4), (2, 4, 3)]),
    )
] + [(fam.Geev(), (spread(3, "float64"),))]


@pytest.mark.parametrize(("op", "inputs"), GRADIENTS, ids=lambda x: str(x)[:30])
def test_derivatives_and_laws(op: Any, inputs: Any) -> None:
    report = check_extension(op, inputs, executor=[XLA, XlaExecutor("cpu", extensions="composite")])
    assert [check for check in report.checks if check.ok is False] == [], str(report)


def test_forms_without_derivatives_say_so() -> None:
    for op in (fam.Sytrd(), fam.Gehrd(), fam.Gees()):
        with pytest.raises(errors.ADRuleUnsupportedError, match="no linearize rule"):
            tnf.grad(lambda a, op=op: tnf.sum(apply(op, a)[0]))(general(3, 3))


def test_operands_that_do_not_fit() -> None:
    a, d = general(3, 3), general(3)
    for op, arrays, kind, match in (
        (fam.Getrf(), (a.astype(int),), errors.DTypeError, "accepted"),
        (fam.HouseholderProduct(), (a[:2], d[:2]), errors.ShapeError, "2 rows and 3 columns"),
        (fam.HouseholderProduct(), (a, d.astype("f4")), errors.DTypeError, "one dtype"),
        (fam.HouseholderProduct(), (a, a), errors.ShapeError, "one batch shape"),
        (fam.Gtsv(), (d, d, d[:2], a), errors.ShapeError, "x2 must have shape"),
        (fam.Gtsv(), (d, d.astype("f4"), d, a), errors.DTypeError, "x1 and x3"),
        (fam.PivotsToPermutation(3), (d,), errors.DTypeError, "integers"),
        (fam.PivotsToPermutation(3), (np.int32(1),), errors.ShapeError, "an axis"),
    ):
        with pytest.raises(kind, match=match):
            tnf.compile(lambda *xs, op=op: apply(op, *xs), *arrays)


def test_calls_are_laid_out_by_columns() -> None:
    text = lower_to_stablehlo(tnf.compile(lambda a: apply(fam.Geqrf(), a), general(2, 4, 3))).text
    assert "@lapack_dgeqrf_ffi" in text
    assert "dense<[1, 2, 0]>" in text


@pytest.mark.parametrize("name", ["cholesky", "qr", "svd", "eigh", "eig", "lu", "solve"])
def test_vmap_is_a_batch(name: str) -> None:
    a = general(3, 4, 4)
    a = a @ adjoint(a) + 4 * np.eye(4)
    function = getattr(tnf.linalg, name)
    arguments = (a, general(3, 4, 2)) if name == "solve" else (a,)
    found, wanted = tnf.vmap(function)(*arguments), function(*arguments)
    for y, z in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, z, rtol=1e-12)


@pytest.mark.parametrize("name", ["svd", "eigh", "eig"])
def test_a_matrix_that_fails_is_nan_and_spoils_no_other(name: str) -> None:
    a = np.stack([np.diag([1.0, 2.0]), np.full((2, 2), np.nan)])
    for y in getattr(tnf.linalg, name)(a):
        assert np.isfinite(y[0]).all()
        assert np.isnan(y[1]).all()


def test_a_count_of_factors_that_waits() -> None:
    from tenferro.ext.lapack import families

    op, k = families.HouseholderProduct(), tnf.SymDim("k")
    of = [tnf.DType.F64] * 2
    assert op.infer_output_meta(of, [(5, 3), (k,)]) == [(tnf.DType.F64, (5, 3))]
    assert op.infer_output_meta(of, [(k, 3), (3,)]) == [(tnf.DType.F64, (k, 3))]
    with pytest.raises(tnf.errors.ShapeError, match="x1 4 factors"):
        op.infer_output_meta(of, [(5, 3), (4,)])


def test_loops_call_some_of_lapack_from_inside() -> None:
    from tenferro.ext.lapack import families, runtime
    from tenferro.program import ExtensionRuntime

    its: ExtensionRuntime = runtime.LapackRuntime("any")
    routine = its.compiled_routine(families.Getrf())
    assert routine is not None
    assert routine.name == "getrf"
    assert its.compiled_routine(families.Gehrd()) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_are_finite_and_infinities_are_not(dtype: str) -> None:
    step, zero = np.array([[0, 1], [-1, 0]], dtype), np.zeros((2, 2), dtype)
    spoilt = [np.full((2, 2), np.inf, dtype), np.diag([np.nan, 1]).astype(dtype)]
    for a in (step, zero):
        w, left, right = tnf.compile(lambda a: apply(fam.Geev(), a), a).run(a)
        near(a @ right, right * w)
        near(adjoint(left) @ a, w[:, None] * adjoint(left))
        assert np.isfinite(w).all()
    np.testing.assert_allclose(np.sort(w.imag), [0, 0])
    for a in spoilt:
        assert all(np.isnan(y).all() for y in tnf.compile(lambda a: apply(fam.Geev(), a), a).run(a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [fam.Geev(), fam.Gees()], ids=str)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_spoils_its_own_matrix(op: Any, dtype: str, bad: float) -> None:
    """A matrix with NaN or an infinity must have NaN results and an error flag.

    LAPACK itself would return finite numbers.
    """
    a = general(3, 3, 3, dtype=dtype)
    a[1, 1, 0] = bad
    for y in on_both(op, a):
        if y.dtype.kind == "i":
            np.testing.assert_array_equal(y != 0, [False, True, False])
        else:
            assert np.isnan(y[1]).all()
            assert np.isfinite(y[[0, 2]]).all()

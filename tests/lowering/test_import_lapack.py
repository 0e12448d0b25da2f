"""LAPACK calls in JAX's modules must have the values of the same library.

Their gradients, flags and layouts must be right.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
import scipy.linalg as sl
from jax._src.lax import linalg as raw

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, lower_to_stablehlo
from lowering.read.lapack import LAPACK
from lowering.read.lapack import TPU as TARGETS
from tenferro import errors
from tests.pairs import in_turn
from tests.samples.matrices import DTYPES, adjoint, general

ll = jax.lax.linalg
XLA = xla_peer.XlaExecutor()


def definite(x: Any) -> Any:
    return x @ adjoint(x) + 3 * jnp.eye(x.shape[-1], dtype=x.dtype)


CALLS: dict[str, Any] = {
    "cholesky": lambda x: (ll.cholesky(definite(x)), jsl.cholesky(definite(x))),
    "not definite": lambda x: ll.cholesky(-definite(x)),
    "lu": lambda x: (*ll.lu(x), *ll.lu(x[..., :3, :])),
    "solve": lambda x: jnp.linalg.solve(definite(x), x[..., :2]),
    "inv, det": lambda x: (jnp.linalg.inv(definite(x)), *jnp.linalg.slogdet(x)),
    "qr": lambda x: (*jnp.linalg.qr(x[..., :3]), *jnp.linalg.qr(x[..., :3, :], mode="complete")),
    "qr, pivots": lambda x: ll.qr(x[..., :3], pivoting=True, full_matrices=False),
    "raw": lambda x: raw.geqrf(x),
    "product": lambda x: ll.householder_product(x[..., :3], x[..., 0, :2]),
    "values": lambda x: (jnp.linalg.svd(x, compute_uv=False), jnp.linalg.eigvalsh(definite(x))),
    "triangular": lambda x: [
        ll.triangular_solve(x + 4 * jnp.eye(5, dtype=x.dtype), x, left_side=left, lower=lower,
                            transpose_a=turned, conjugate_a=turned and left, unit_diagonal=left and lower)
        for left in (True, False) for lower in (True, False) for turned in (True, False)
    ],
    "tridiagonal": lambda x: ll.tridiagonal_solve(
        x[..., 0], x[..., 1] + 4, x[..., 2], x[..., 3:]
    ),
    "reduced": lambda x: (*ll.tridiagonal(definite(x)), *ll.tridiagonal(definite(x), lower=False)),
    "reduced, by one triangle": lambda x: (*ll.tridiagonal(x)[1:], *ll.tridiagonal(x, lower=False)[1:]),
    "hessenberg": lambda x: ll.hessenberg(x),
    "schur": lambda x: (ll.schur(x), ll.schur(x, compute_schur_vectors=False)),
    "by the other routine": lambda x: ll.svd(x, compute_uv=False, algorithm=ll.SvdAlgorithm.QR),
}  # fmt: skip


@in_turn("name", CALLS, "dtype", DTYPES)
def test_what_jax_calls(name: str, dtype: str) -> None:
    for shape in [(5, 5)] if DTYPES.index(dtype) % 2 else [(2, 5, 5)]:
        x = general(*shape, dtype=dtype)
        with jax.enable_x64(True):
            wanted = jax.tree_util.tree_leaves(jax.jit(CALLS[name])(x))
        program = xla_peer.from_jax(CALLS[name], x)
        found = jax.tree_util.tree_leaves(program.run(x))
        on_peer = jax.tree_util.tree_leaves(XLA.run(program, x))
        tolerance = 3000 * np.finfo(dtype).eps
        for a, b, c in zip(found, wanted, on_peer, strict=True):
            assert (a.shape, str(a.dtype)) == (b.shape, str(b.dtype))
            for y in (a, c):
                np.testing.assert_allclose(y, b, rtol=tolerance, atol=tolerance)


TPU: dict[str, Any] = {
    "lu": ll.lu,
    "qr": lambda x: ll.qr(x[..., :3], full_matrices=False),
    "product": lambda x: ll.householder_product(x[..., :3], x[..., 0, :2]),
    "eigh": lambda x: ll.eigh(x + adjoint(x)),
    "eigh, by the upper triangle": lambda x: ll.eigh(x, lower=False, symmetrize_input=False),
    "solve": lambda x: jnp.linalg.solve(x, x[..., :2]),
}


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", TPU)
def test_what_jax_calls_on_a_tpu(name: str, dtype: str) -> None:
    """A module that JAX lowered for a TPU must have NumPy's values.

    Lowered for a TPU again, it must contain the same custom calls. Eigenvectors and singular vectors are compared up
    to phases.
    """
    x = general(2, 5, 5, dtype=dtype)
    text = jax.jit(TPU[name]).trace(x).lower(lowering_platforms=("tpu",)).as_text()
    program = import_stablehlo(text)
    targets = {target for target in TARGETS if f"@{target}" in text}
    assert targets
    again = lower_to_stablehlo(program, "tpu").text
    assert {target for target in TARGETS if f"@{target}" in again} == targets
    results, expected_results = map(jax.tree_util.tree_leaves, (program.run(x), TPU[name](x)))
    for y, expected in zip(results, expected_results, strict=True):
        assert str(y.dtype) == str(expected.dtype)
        y, expected = (abs(y), abs(expected)) if "eigh" in name else (y, expected)
        np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_reflections_of_a_matrix(dtype: str, left: bool, transpose: bool) -> None:
    if not hasattr(raw, "ormqr"):
        pytest.skip("this JAX has no ormqr")
    packed, c = general(5, 3, dtype=dtype), general(5, 5, dtype=dtype)
    with jax.enable_x64(True):
        packed, factors = (np.asarray(y) for y in raw.geqrf(packed))

        def call(packed: Any, factors: Any, c: Any) -> Any:
            return raw.ormqr(packed, factors, c, left=left, transpose=transpose)

        wanted = call(packed, factors, c)
    program = xla_peer.from_jax(call, packed, factors, c)
    np.testing.assert_allclose(program.run(packed, factors, c), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_of_either_side(dtype: str) -> None:
    a = general(2, 4, 4, dtype=dtype)
    for left in (True, False):
        for right in (True, False):

            def call(x: Any, left: bool = left, right: bool = right) -> Any:
                return ll.eig(x, compute_left_eigenvectors=left, compute_right_eigenvectors=right)

            w, *vectors = xla_peer.from_jax(call, a).run(a)
            tolerance = 1000 * np.finfo(dtype).eps
            if left:
                u = vectors[0]
                assert np.isfinite(u).all()
                np.testing.assert_allclose(
                    adjoint(u) @ a, w[..., None] * adjoint(u), atol=tolerance
                )
            if right:
                assert np.isfinite(vectors[-1]).all()
                np.testing.assert_allclose(
                    a @ vectors[-1], vectors[-1] * w[:, None], atol=tolerance
                )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [True, False])
def test_one_triangle_of_a_hermitian_matrix_is_read(dtype: str, lower: bool) -> None:
    a = general(5, 5, dtype=dtype)
    part = np.tril(a) if lower else np.triu(a)
    h = part + adjoint(part) - np.diag(np.diag(part).real)

    def call(x: Any) -> Any:
        return ll.eigh(x, lower=lower, symmetrize_input=False)

    v, w = xla_peer.from_jax(call, a).run(a)
    tolerance = 500 * np.finfo(dtype).eps
    np.testing.assert_allclose(h @ v, v * w, atol=tolerance)


SCALARS: dict[str, Any] = {
    "qr": lambda x, m: m.abs(m.linalg.qr(x[:, :3])[1]).sum() + m.real(m.linalg.qr(x[:, :3])[0][1, 2]),
    "cholesky": lambda x, m: m.real(m.linalg.cholesky(definite_by(x, m))[2, 1]),
    "solve": lambda x, m: m.abs(m.linalg.solve(x, x[:, 0])).sum(),
    "svd": lambda x, m: m.linalg.svd(x, full_matrices=False)[1][1],
    "eigh": lambda x, m: m.linalg.eigh(definite_by(x, m))[0][1],
    "slogdet": lambda x, m: m.linalg.slogdet(x)[1],
}  # fmt: skip


def definite_by(x: Any, m: Any) -> Any:
    return x @ m.conj(x).T + 3 * m.eye(x.shape[0])


@in_turn("name", SCALARS, "dtype", ["float64", "complex128"])
def test_gradients_of_what_was_read(name: str, dtype: str) -> None:
    x = general(4, 4, dtype=dtype)

    def loss(x: Any) -> Any:
        return SCALARS[name](x, jnp)

    with jax.enable_x64(True):
        # By JAX's convention, a gradient is the conjugate of tenferro's.
        wanted = np.asarray(jax.grad(loss)(x)).conj()
    program = xla_peer.from_jax(loss, x)
    np.testing.assert_allclose(tnf.grad(program)(x), wanted, rtol=1e-8, atol=1e-9)


def module(target: str, operands: str, results: str, config: str, more: str = "") -> str:
    """Return a module that makes one custom call. `more` is the text of further attributes."""
    given = operands.split(" | ")
    made = results.split(" | ")
    head = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(given))
    names = ", ".join(f"%a{i}" for i in range(len(given)))
    count = len(made)
    shown = [f"%0#{i}" for i in range(count)] if count > 1 else ["%0"]
    return (
        f"func.func @main({head}) -> ({', '.join(made)}) {{\n"
        f"  %0{f':{count}' if count > 1 else ''} = stablehlo.custom_call @{target}({names}) "
        f"{{api_version = 4 : i32, backend_config = {{{config}}}{more}}} : "
        f"({', '.join(given)}) -> ({', '.join(made)})\n"
        f"  return {', '.join(shown)} : {', '.join(made)}\n}}"
    )


BY_COLUMNS = (
    ", operand_layouts = [dense<[0, 1]> : tensor<2xindex>], "
    "result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]"
)


@pytest.mark.parametrize("lower", [True, False])
def test_the_other_triangle_of_potrf_stays(lower: bool) -> None:
    a = general(4, 4)
    h = a @ a.T
    given = np.tril(h) + np.triu(a, 1) if lower else np.triu(h) + np.tril(a, -1)
    text = module(
        "lapack_dpotrf_ffi",
        "tensor<4x4xf64>",
        "tensor<4x4xf64> | tensor<i32>",
        f"uplo = {ord('L' if lower else 'U')} : ui8",
        BY_COLUMNS,
    )
    program = import_stablehlo(text)
    packed, info = program.run(given)
    factor = sl.cholesky(h, lower=lower)
    wanted = np.tril(factor) + np.triu(a, 1) if lower else np.triu(factor) + np.tril(a, -1)
    np.testing.assert_allclose(packed, wanted, rtol=1e-12)
    assert info == 0
    assert program.run(-h)[1] > 0
    assert program.run(np.full((4, 4), np.nan))[1] > 0


def test_memory_by_rows_is_the_transpose_to_the_routine() -> None:
    """A call without layouts is row-major.

    LAPACK reads column-major matrices, so it must factorise the transpose.
    """
    text = module("lapack_dgeqrf_ffi", "tensor<3x3xf64>", "tensor<3x3xf64> | tensor<3xf64>", "")
    a = general(3, 3)
    packed, factors = import_stablehlo(text).run(a)
    (wanted, wanted_factors), _ = sl.qr(a.T, mode="raw")
    np.testing.assert_allclose(packed, wanted.T, rtol=1e-12)
    np.testing.assert_allclose(factors, wanted_factors, rtol=1e-12)
    wide = module("lapack_dgeqrf_ffi", "tensor<2x3xf64>", "tensor<2x3xf64> | tensor<2xf64>", "")
    b = general(2, 3)
    packed, _ = import_stablehlo(wide).run(b)
    (wanted, _), _ = sl.qr(b.ravel().reshape(2, 3, order="F"), mode="raw")
    np.testing.assert_allclose(packed.ravel(), np.ravel(wanted, order="F"), rtol=1e-12)
    np.testing.assert_allclose(packed, XLA.run(import_stablehlo(wide), b)[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("target", "operands", "results", "config", "match"),
    [
        ("lapack_dgesdd_ffi", "tensor<2x2xf64>",
         "tensor<2x2xf64> | tensor<2xf64> | tensor<2x2xf64> | tensor<2x2xf64> | tensor<i32>",
         f"mode = {ord('O')} : ui8", "mode = 'O'"),
        ("lapack_dgehrd_ffi", "tensor<3x3xf64>", "tensor<3x3xf64> | tensor<2xf64> | tensor<i32>",
         "low = 2 : i32, high = 3 : i32", "low = 2"),
        ("lapack_dgeqp3_ffi", "tensor<3x3xf64> | tensor<3xi32>",
         "tensor<3x3xf64> | tensor<3xi32> | tensor<3xf64>", "", "fixed in advance"),
    ],
)  # fmt: skip
def test_flags_without_a_counterpart(
    target: str, operands: str, results: str, config: str, match: str
) -> None:
    with pytest.raises(errors.UnsupportedError, match=match):
        import_stablehlo(module(target, operands, results, config))


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("raw", "geqrf"),
        ("lu", "getrf"),
        ("qr", "orgqr"),
        ("tridiagonal", "gtsv"),
        ("schur", "gees"),
    ],
)
def test_lowered_again_it_is_the_same_call(name: str, target: str) -> None:
    program = xla_peer.from_jax(CALLS[name], general(5, 5))
    assert f"@lapack_d{target}_ffi" in lower_to_stablehlo(program).text


MATRIX, VALUES, INFO = "tensor<4x4xf64>", "tensor<4xf64>", "tensor<i32>"


@pytest.mark.parametrize(
    ("target", "results", "config", "unwritten", "values"),
    [
        ("lapack_dsyevd_ffi", [MATRIX, VALUES, INFO], "mode = 78 : ui8, uplo = 76 : ui8", [0], 1),
        ("lapack_dgesdd_ffi", ["tensor<4x3xf64>", VALUES, "tensor<4x2xf64>", "tensor<2x4xf64>", INFO],
         "mode = 78 : ui8", [0, 2, 3], 1),
        ("lapack_dgeev_ffi", [VALUES, VALUES, "tensor<4x2xcomplex<f64>>", "tensor<4x3xcomplex<f64>>", INFO],
         "compute_left = 78 : ui8, compute_right = 78 : ui8", [2, 3], 0),
        ("lapack_dgees_ffi", [MATRIX, "tensor<4x2xf64>", VALUES, VALUES, INFO, INFO],
         "mode = 78 : ui8, sort = 78 : ui8", [1], 2),
    ],
)  # fmt: skip
def test_vectors_that_are_not_asked_for_have_the_declared_type(
    target: str, results: list[str], config: str, unwritten: list[int], values: int
) -> None:
    a = general(4, 4)
    h = a + a.T
    program = import_stablehlo(module(target, MATRIX, " | ".join(results), config))
    outputs = program.run(h)
    for i, (y, kind) in enumerate(zip(outputs, results, strict=True)):
        extents = kind[7:-1].split("x", 2)
        assert list(y.shape) == [int(extent) for extent in extents if extent.isdigit()]
        assert np.isnan(y).all() == (i in unwritten)
    wanted = sl.svdvals(h) if "gesdd" in target else sl.eigvalsh(h)
    found = outputs[values] if "gesdd" in target else np.sort(outputs[values])
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_reflections_of_each_matrix_of_a_batch(dtype: str, left: bool, transpose: bool) -> None:
    """The product of each matrix of a batch with Q = H_1 .. H_k must be right, in column-major memory.

    The factors are H_i = 1 - tau_i v_i v_i^H.
    """
    packed, c = general(2, 5, 3, dtype=dtype), general(2, 5, 4, dtype=dtype)
    c = c if left else c.swapaxes(1, 2).copy()
    factors = general(2, 3, dtype=dtype)
    element = "complex<f64>" if dtype == "complex128" else "f64"
    kinds = [f"tensor<{'x'.join(map(str, x.shape))}x{element}>" for x in (packed, factors, c)]
    by_columns, by_rows = "dense<[1, 2, 0]> : tensor<3xindex>", "dense<[1, 0]> : tensor<2xindex>"
    text = module(
        f"lapack_{'zunmqr' if dtype == 'complex128' else 'dormqr'}_ffi",
        " | ".join(kinds),
        kinds[2],
        f"left = {str(left).lower()}, transpose = {str(transpose).lower()}",
        f", operand_layouts = [{by_columns}, {by_rows}, {by_columns}], result_layouts = [{by_columns}]",
    )
    found = import_stablehlo(text).run(packed, factors, c)
    for n in range(2):
        q = np.eye(5, dtype=dtype)
        for i in range(3):
            v = np.where(np.arange(5) > i, packed[n, :, i], np.arange(5) == i)
            q = q @ (np.eye(5) - factors[n, i] * np.outer(v, v.conj()))
        q = adjoint(q) if transpose else q
        np.testing.assert_allclose(found[n], q @ c[n] if left else c[n] @ q, atol=1e-12, rtol=1e-12)


def by_columns(*operands: int, results: tuple[int, ...]) -> str:
    """Return attributes with column-major layouts.

    `operands` and `results` are the ranks of the operands and results.
    """

    def layout(rank: int) -> str:
        order = list(range(rank))[::-1]
        order[:2] = order[:2][::-1]
        return f"dense<{order if rank else ''}> : tensor<{rank}xindex>"

    shown = [", ".join(map(layout, ranks)) for ranks in (operands, results)]
    return f", operand_layouts = [{shown[0]}], result_layouts = [{shown[1]}]"


def test_every_routine_of_the_four_kinds_has_its_name() -> None:
    real = ["gees", "geev", "gehrd", "geqp3", "geqrf", "gesdd", "gesvd", "getrf", "gtsv", "orgqr", "ormqr",
            "potrf", "syevd", "sytrd", "trsm"]  # fmt: skip
    own = {"orgqr": "ungqr", "ormqr": "unmqr", "syevd": "heevd", "sytrd": "hetrd"}
    names = [f"lapack_{letter}{name}_ffi" for name in real for letter in "sd"]
    names += [f"lapack_{letter}{own.get(name, name)}_ffi" for name in real for letter in "cz"]
    assert sorted(LAPACK) == sorted(names)


@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("trans", "NTC")
@pytest.mark.parametrize("diag", "NU")
def test_flags_of_triangular_solves(side: str, uplo: str, trans: str, diag: str) -> None:
    a, b = general(3, 3, dtype="complex128") + 3 * np.eye(3), general(3, 2, dtype="complex128")
    b = b if side == "L" else b.T.copy()
    kinds = [f"tensor<{'x'.join(map(str, x.shape))}xcomplex<f64>>" for x in (a, b)]
    flags = {"side": side, "uplo": uplo, "trans_x": trans, "diag": diag}
    # By default, the triangular matrix is on the left, lower and not transposed, and its diagonal is read.
    plain = {"side": "L", "uplo": "L", "trans_x": "N", "diag": "N"}
    others = {name: letter for name, letter in flags.items() if letter != plain[name]}
    t = np.tril(a) if uplo == "L" else np.triu(a)
    t = t * (1 - np.eye(3)) + np.eye(3) if diag == "U" else t
    t = {"N": t, "T": t.T, "C": t.conj().T}[trans]
    for said in (flags, others):
        config = ", ".join(f"{name} = {ord(letter)} : ui8" for name, letter in said.items())
        program = import_stablehlo(
            module(
                "lapack_ztrsm_ffi",
                " | ".join(kinds),
                kinds[1],
                config,
                by_columns(2, 2, results=(2,)),
            )
        )
        x = program.run(a, b)
        np.testing.assert_allclose(t @ x if side == "L" else x @ t, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("exponent", [470, 1000, -470, -1060])
def test_eigenvalues_of_large_and_small_matrices(exponent: int) -> None:
    """Eigenvalues of matrices with very large or very small elements must be right.

    LAPACK scales such matrices, and OpenBLAS does not undo the scaling.
    """
    results = f"{VALUES} | {VALUES} | tensor<4x4xcomplex<f64>> | tensor<4x4xcomplex<f64>> | {INFO}"
    config = "compute_left = 86 : ui8, compute_right = 86 : ui8"
    program = import_stablehlo(module("lapack_dgeev_ffi", MATRIX, results, config))
    a = np.diag([11.0, 5.0, 2.0, 1.0])
    a[0, 1:] = 3.0
    re, im, _, _, info = program.run(np.ldexp(a, exponent))
    assert info == 0
    np.testing.assert_allclose(
        np.sort(np.ldexp(re, -exponent)), [1, 2, 5, 11], rtol=1e-3 if exponent < -1022 else 1e-13
    )
    np.testing.assert_array_equal(im, 0)


PAIR, ROWS = "tensor<2x3x3xf64>", "tensor<2x3xf64>"
FAILING: dict[str, tuple[list[str], tuple[int, ...], str]] = {
    "potrf": ([PAIR, "tensor<2xi32>"], (3, 1), ""),
    "syevd": ([PAIR, ROWS, "tensor<2xi32>"], (3, 2, 1), ""),
    "gesdd": ([PAIR, ROWS, PAIR, PAIR, "tensor<2xi32>"], (3, 2, 3, 3, 1), ""),
    "gesvd": ([PAIR, ROWS, PAIR, PAIR, "tensor<2xi32>"], (3, 2, 3, 3, 1), ""),
    "geev": (
        [ROWS, ROWS, "tensor<2x3x3xcomplex<f64>>", "tensor<2x3x3xcomplex<f64>>", "tensor<2xi32>"],
        (2, 2, 3, 3, 1),
        "compute_left = 78 : ui8, compute_right = 86 : ui8",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
def test_each_matrix_of_a_batch_fails_by_itself(name: str) -> None:
    """In a batch, the factorisation may fail only for the matrix that contains NaN or infinity."""
    results, ranks, config = FAILING[name]
    layouts = by_columns(3, results=ranks)
    program = import_stablehlo(
        module(f"lapack_d{name}_ffi", PAIR, " | ".join(results), config, layouts)
    )
    good = general(3, 3)
    good = good @ good.T + np.eye(3)
    for bad_first in (True, False):
        both = [np.full((3, 3), np.nan), good]
        info = program.run(np.array(both if bad_first else both[::-1]))[-1]
        assert info.dtype == np.int32
        assert (info != 0).tolist() == [bad_first, not bad_first]
    assert not program.run(np.array([good, good]))[-1].any()


def test_flags_that_are_not_said() -> None:
    """Without flags, the lower triangle must be read, and the reduced set of vectors be computed."""
    a = general(4, 4)
    h = np.tril(a) + np.tril(a, -1).T
    layouts = by_columns(2, results=(2, 1, 0))
    program = import_stablehlo(
        module("lapack_dsyevd_ffi", MATRIX, f"{MATRIX} | {VALUES} | {INFO}", "", layouts)
    )
    v, w, info = program.run(a)
    np.testing.assert_allclose(h @ v, v * w, atol=1e-12)
    assert info == 0
    wide = "tensor<3x5xf64>"
    parts = ["tensor<3xf64>", "tensor<3x3xf64>", wide, INFO]
    layouts = by_columns(2, results=(2, 1, 2, 2, 0))
    text = module("lapack_dgesdd_ffi", wide, " | ".join([wide, *parts]), "", layouts)
    x = general(3, 5)
    left_over, s, u, vh, info = import_stablehlo(text).run(x)
    np.testing.assert_allclose((u * s) @ vh, x, atol=1e-12)
    assert np.isnan(left_over).all()
    positive = h @ h.T + np.eye(4)
    layouts = by_columns(2, results=(2, 0))
    text = module("lapack_dpotrf_ffi", MATRIX, f"{MATRIX} | {INFO}", "", layouts)
    factor, info = import_stablehlo(text).run(np.tril(positive) + np.triu(a, 1))
    np.testing.assert_allclose(
        factor, np.linalg.cholesky(positive) + np.triu(a, 1), rtol=1e-10, atol=1e-12
    )
    results = [MATRIX, MATRIX, VALUES, VALUES, INFO, INFO]
    layouts = by_columns(2, results=(2, 2, 1, 1, 0, 0))
    text = module("lapack_dgees_ffi", MATRIX, " | ".join(results), "", layouts)
    form, q, real, imaginary, selected, info = import_stablehlo(text).run(a)
    np.testing.assert_allclose(q @ form @ q.T, a, atol=1e-12)
    values = np.sort_complex(real + 1j * imaginary)
    np.testing.assert_allclose(values, np.sort_complex(np.linalg.eigvals(a)), atol=1e-12)
    assert selected == info == 0


def test_the_diagonals_of_a_tridiagonal_solve_are_left_undefined() -> None:
    vector, column = "tensor<4xf64>", "tensor<4x1xf64>"
    kinds = [vector, vector, vector, column]
    layouts = by_columns(1, 1, 1, 2, results=(1, 1, 1, 2, 0))
    text = module("lapack_dgtsv_ffi", " | ".join(kinds), " | ".join([*kinds, INFO]), "", layouts)
    low, middle, high = general(4, 3).T.copy()
    middle += 5
    low[0] = high[-1] = 0
    b = general(4, 1)
    *diagonals, x, info = import_stablehlo(text).run(low, middle, high, b)
    matrix = np.diag(middle) + np.diag(low[1:], -1) + np.diag(high[:-1], 1)
    np.testing.assert_allclose(matrix @ x, b, atol=1e-12)
    assert np.isnan(diagonals).all()
    assert info == 0


@pytest.mark.parametrize(
    ("target", "results", "config", "message"),
    [
        ("gesdd", [MATRIX, VALUES, MATRIX, MATRIX, INFO], "mode = 79 : ui8", "gesdd: mode = 'O'; read are 'A', 'S', 'N'"),
        ("gees", [MATRIX, MATRIX, VALUES, VALUES, INFO, INFO], "sort = 83 : ui8", "gees: sort = 'S'; read are 'N'"),
        ("gehrd", [MATRIX, "tensor<3xf64>", INFO], "low = 0 : i32", "gehrd: low = 0; read are 1"),
        ("gehrd", [MATRIX, "tensor<3xf64>", INFO], "high = 3 : i32", "gehrd: high = 3; read are 4"),
    ],
)  # fmt: skip
def test_what_a_flag_may_be(target: str, results: list[str], config: str, message: str) -> None:
    text = module(f"lapack_d{target}_ffi", MATRIX, " | ".join(results), config)
    with pytest.raises(errors.UnsupportedError) as caught:
        import_stablehlo(text)
    assert str(caught.value).splitlines()[0] == f"custom_call {message}"

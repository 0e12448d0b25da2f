"""Chapter about public functions, and the ops that their traces contain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "surface",
    "Surface functions",
    "Functions have the names of NumPy and the Array API standard, and are traced as standard ops. "
    "They broadcast and promote their arguments, by explicit ops in the trace.",
)
A = np.array([[1.0, 2.0, -3.0], [4.0, -5.0, 6.0], [0.5, 0.25, 9.0]])
V = np.array([1.0, -2.0, 3.0])


def written(function: Any, *arrays: Any) -> list[str]:
    """Return the names of the ops in a function's trace.

    Constants and broadcasts are omitted.
    """
    program = tnf.compile(function, *arrays)
    return [
        i.op.name for i in program.instructions if i.op.name not in ("Constant", "BroadcastInDim")
    ]


@chapter.table(
    "function, arrays, ops, expected",
    {
        1: Row("`sum` is traced as `ReduceSum`.", lambda x: tnf.sum(x, axis=0), (A,), ["ReduceSum"], A[0] + A[1] + A[2]),
        2: Row("`mean` is traced as `ReduceSum` and a division, not as a product with 1/n.", lambda x: tnf.mean(x), (V,), ["ReduceSum", "Divide"], 2.0 / 3.0, because="the quotient is rounded once, as in NumPy"),
        3: Row("`subtract` is traced as `Subtract`, not as a sum with a negation.", tnf.subtract, (A, A.T), ["Subtract"], A + (-A.T), because="StableHLO and processors have a subtraction"),
        4: Row("`square` is traced as a product of the operand with itself.", tnf.square, (V,), ["Multiply"], np.array([1.0, 4.0, 9.0])),
        5: Row("`reciprocal` is traced as a division of one.", tnf.reciprocal, (V,), ["Divide"], np.array([1.0, -0.5, 1 / 3])),
        6: Row("`where` is traced as `Select`.", lambda x: tnf.where(x > 0, x, -x), (V,), ["Compare", "Negate", "Select"], np.array([1.0, 2.0, 3.0])),
        7: Row("`greater` is traced as `Compare`.", tnf.greater, (A, A.T), ["Compare"], np.array([[False, False, False], [True, False, True], [True, False, False]])),
        8: Row("`greater_equal` is traced as `Compare`.", tnf.greater_equal, (V, V), ["Compare"], np.ones(3, bool)),
        9: Row("`trace` is traced as `ExtractDiag` and `ReduceSum`.", tnf.trace, (A,), ["ExtractDiag", "ReduceSum"], 5.0),
        10: Row("`extract_diag` is traced as `ExtractDiag`.", tnf.extract_diag, (A,), ["ExtractDiag"], np.array([1.0, -5.0, 9.0])),
        11: Row("`diagonal` is traced as `ExtractDiag`.", tnf.diagonal, (A,), ["ExtractDiag"], np.array([1.0, -5.0, 9.0])),
        12: Row("`embed_diag` is traced as `EmbedDiag`.", tnf.embed_diag, (V,), ["EmbedDiag"], np.array([[1.0, 0, 0], [0, -2.0, 0], [0, 0, 3.0]])),
        13: Row("`einsum` traces a matrix product as one `DotGeneral`.", lambda a: tnf.einsum("ij,jk->ik", a, a), (A,), ["DotGeneral"], np.array([[7.5, -8.75, -18.0], [-13.0, 34.5, 12.0], [6.0, 2.0, 81.0]])),
        14: Row("`einsum` takes the diagonal if a label is repeated in one operand.", lambda a: tnf.einsum("ii->i", a), (A,), ["ExtractDiag"], np.array([1.0, -5.0, 9.0])),
        15: Row("`einsum` does not repeat a label in the result; `embed_diag` does this.", tnf.embed_diag, (V,), ["EmbedDiag"], np.diag(V), because="NumPy rejects repeated labels in the result, too, and a typing error is not taken for an intention"),
        16: Row("`reshape` in row-major order is traced as the op between two transposes that reverse the axes.", lambda a: tnf.reshape(a, (9,)), (A,), ["Transpose", "Reshape"], A.ravel()),
        17: Row("`reshape` in column-major order is traced as the op alone.", lambda a: tnf.reshape(a, (9,), order="F"), (A,), ["Reshape"], A.ravel("F")),
    },
)  # fmt: skip
def test_lowering_of_functions(function: Any, arrays: Any, ops: list[str], expected: Any) -> None:
    assert written(function, *arrays) == ops
    np.testing.assert_allclose(tnf.compile(function, *arrays).run(*arrays), expected, rtol=1e-15)


@chapter.works(
    18, "`clamp_min` and `clamp_max` are cases of `Clamp`, with its derivative at the bound."
)
def test_clamps() -> None:
    np.testing.assert_array_equal(tnf.clamp_min(V, 1.0), [1.0, 1.0, 3.0])
    np.testing.assert_array_equal(tnf.clamp_max(V, 1.0), [1.0, -2.0, 1.0])
    for function, slope in ((tnf.clamp_min, [0, 0, 1]), (tnf.clamp_max, [0, 1, 0])):
        gradient = tnf.grad(lambda x, function=function: tnf.sum(function(x, 1.0)))(V)
        np.testing.assert_array_equal(gradient, slope)


@chapter.works(19, "Broadcasting is traced as `BroadcastInDim`.")
def test_broadcasting() -> None:
    program = tnf.compile(lambda a, v: a + v, A, V)
    assert [i.op.name for i in program.instructions] == ["BroadcastInDim", "Add"]
    np.testing.assert_array_equal(program.run(A, V), [row + V for row in A])


@chapter.works(20, "Dtype promotion is traced as `Convert`.")
def test_promotion() -> None:
    program = tnf.compile(lambda a, v: a + v, A, V.astype("i4"))
    assert next(i.op.name for i in program.instructions) == "Convert"
    assert program.output_specs[0].dtype is tnf.DType.F64


@chapter.works(21, "`einsum` is not an op: it is traced as contractions, in the order of a plan.")
def test_einsum() -> None:
    program = tnf.compile(lambda a: tnf.einsum("ij,jk,k->i", a, a, a[0]), A)
    assert "DotGeneral" in [i.op.name for i in program.instructions]
    assert not program.families
    np.testing.assert_allclose(program.run(A), A @ (A @ A[0]), rtol=1e-14)


@chapter.works(22, "`svd` returns U, S and the conjugate transpose of V, in this order.")
def test_svd() -> None:
    u, s, vh = tnf.linalg.svd(A, full_matrices=False)
    np.testing.assert_allclose((u * s) @ vh, A, atol=1e-14)
    np.testing.assert_allclose(vh @ vh.T, np.eye(3), atol=1e-14)
    assert np.all(np.diff(s) <= 0)


@chapter.works(23, "`qr` returns the reduced factors Q and R, in this order.")
def test_qr() -> None:
    q, r = tnf.linalg.qr(A[:, :2])
    assert (q.shape, r.shape) == ((3, 2), (2, 2))
    np.testing.assert_allclose(q @ r, A[:, :2], atol=1e-14)
    assert r[1, 0] == 0.0


@chapter.works(
    24, "`eigh` returns the eigenvalues in ascending order, and the eigenvectors as columns."
)
def test_eigh() -> None:
    symmetric = A + A.T
    values, vectors = tnf.linalg.eigh(symmetric)
    np.testing.assert_allclose(symmetric @ vectors, vectors * values, atol=1e-13)
    assert np.all(np.diff(values) >= 0)


@chapter.works(25, "`solve` solves A X = B.")
def test_solve() -> None:
    np.testing.assert_allclose(A @ tnf.linalg.solve(A, V), V, atol=1e-14)


@chapter.works(26, "`cholesky` returns the lower factor, or on request the upper one.")
def test_cholesky() -> None:
    spd = A @ A.T + np.eye(3)
    lower, upper = tnf.linalg.cholesky(spd), tnf.linalg.cholesky(spd, upper=True)
    np.testing.assert_allclose(lower @ lower.T, spd, rtol=1e-14)
    np.testing.assert_allclose(upper, lower.T, rtol=1e-14)
    assert lower[0, 2] == 0.0


@chapter.works(27, "Derivatives of linear algebra consist of ops that have derivatives themselves.")
def test_linear_algebra() -> None:
    spd = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.0]])
    for function in (tnf.linalg.inv, tnf.linalg.cholesky, tnf.linalg.svdvals, tnf.linalg.eigvalsh):
        loss = lambda a, function=function: tnf.sum(function(a) ** 2)
        assert tnf.check_grads(loss, (spd,), order=2).ok


@chapter.differs(
    28,
    "Linear algebra, Fourier transforms and einsum are extension families, not standard ops.",
    because="a decomposition from another package has the same interface and the same possibilities",
)
def test_families() -> None:
    program = tnf.compile(lambda a: tnf.linalg.inv(a), A)
    assert program.families
    assert all(family.startswith("tenferro.") for family in program.families)


@chapter.differs(
    29,
    "Batch axes come first in linear algebra and contractions.",
    because="NumPy, JAX and PyTorch put them there",
)
def test_batch_axes() -> None:
    many = np.stack([A, 2 * A])
    np.testing.assert_allclose(tnf.linalg.inv(many)[1] @ A, np.eye(3) / 2, atol=1e-13)
    product = tnf.dot_general(many, many, ((2,), (1,)), ((0,), (0,)))
    np.testing.assert_allclose(product, [A @ A, 4 * A @ A], rtol=1e-14)


@chapter.works(30, "A function computes the same on arrays, on eager tensors and in traces.")
def test_three_ways() -> None:
    function = lambda x: tnf.sum(tnf.exp(x) * x)
    expected = np.sum(np.exp(V) * V)
    eager = function(tnf.EagerRuntime().constant(V)).numpy()
    for value in (function(V), eager, tnf.compile(function, V).run(V)):
        np.testing.assert_allclose(value, expected, rtol=1e-15)


@chapter.differs(
    31,
    "Derivatives are function transforms, such as `grad(f)`; eager tensors have `backward` as well.",
    because="transforms compose with one another, with `jit` and with `vmap`",
)
def test_transforms_are_functions() -> None:
    assert not hasattr(tnf.TracedTensor, "grad")
    np.testing.assert_array_equal(tnf.jit(tnf.vmap(tnf.grad(lambda x: x * x)))(V), 2 * V)


@chapter.works(
    32, "`truncated_svd` truncates to a rank that depends on data, and is differentiable."
)
def test_truncated_svd() -> None:
    low = np.outer(V, V) + 1e-9 * np.eye(3)
    u, s, vh, rank = tnf.linalg.truncated_svd(low, max_rank=3, rtol=1e-6)
    assert (s.shape, int(rank)) == ((1,), 1)
    np.testing.assert_allclose((u * s) @ vh, np.outer(V, V), atol=1e-8)
    gradient = tnf.grad(lambda a: tnf.sum(tnf.linalg.truncated_svd(a, max_rank=3, rtol=1e-6)[1]))(
        low
    )
    np.testing.assert_allclose(gradient, np.outer(V, V) / 14.0, atol=1e-8)


@chapter.works(33, "A Fourier transform accepts an axis whose extent is a symbol.")
def test_symbolic_lengths() -> None:
    program = tnf.compile(tnf.fft.fft, tnf.TensorSpec(("n",), "float64"))
    np.testing.assert_allclose(program.run(V), np.fft.fft(V), rtol=1e-15)


@chapter.works(34, "If NumPy has a name that tenferro lacks, the error gives the counterpart.")
def test_missing_names() -> None:
    with pytest.raises(AttributeError, match="exp"):
        tnf.expp  # noqa: B018  # reading it must raise


@chapter.works(
    35, "`einsum` accepts symbolic extents, and records guards for symbols that must be equal."
)
def test_symbolic_einsum() -> None:
    product = lambda a, b: tnf.einsum("ij,jk->ik", a, b)
    specs = [tnf.TensorSpec(("n", "m"), "float64"), tnf.TensorSpec(("p", "q"), "float64")]
    program = tnf.compile(product, *specs)
    gradient = tnf.compile(tnf.grad(lambda a, b: tnf.sum(product(a, b))), *specs)
    np.testing.assert_allclose(program.run(A[:2], A), A[:2] @ A, rtol=1e-15)
    np.testing.assert_allclose(gradient.run(A[:2], A), np.stack([A.sum(1)] * 2), rtol=1e-15)
    with pytest.raises(tnf.errors.GuardError, match="m == p"):
        program.run(A[:, :2], A)


@chapter.works(
    36, "Factors truncated to a rank that depends on data can be decomposed again, with a gradient."
)
def test_second_decomposition() -> None:
    def loss(a: Any) -> Any:
        u, s, _, _ = tnf.linalg.truncated_svd(a, max_rank=2, rtol=1e-6)
        return tnf.sum(tnf.linalg.svdvals(u * s))

    u, _, vh = np.linalg.svd(A)
    np.testing.assert_allclose(tnf.grad(loss)(A), u[:, :2] @ vh[:2], rtol=1e-10)


@chapter.works(
    37,
    "Columns and rows can be appended to a QR decomposition without decomposing the whole matrix again.",
)
def test_appended_factors() -> None:
    q, r = tnf.linalg.qr(A[:, :1])
    for axis, b in ((-1, A[:, 1:]), (-2, A[:1, :1])):
        wider, taller = tnf.linalg.qr_append(q, r, b, axis=axis)
        whole = np.concatenate([A[:, :1], b], axis)
        np.testing.assert_allclose(wider @ taller, whole, atol=1e-14)
        np.testing.assert_allclose(wider.T @ wider, np.eye(wider.shape[1]), atol=1e-14)


@chapter.works(
    38, "A contraction with integer labels can be planned once, printed, and called with tensors."
)
def test_planned_contractions() -> None:
    plan = tnf.einsum_plan((3, 3), [0, 1], (3, 3), [1, 2], [0, 2])
    assert "27 multiplications" in str(plan)
    np.testing.assert_allclose(plan(A, A), A @ A, rtol=1e-15)
    np.testing.assert_allclose(tnf.jit(plan)(A, A), A @ A, rtol=1e-15)

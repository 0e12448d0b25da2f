"""Sparse derivatives.

Patterns must equal those of dense Jacobians, and it must be possible to recover the matrix from groups of columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tenferro as tnf
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError, UnsupportedError
from tenferro.ops import contraction, dynamic, indexing, reduction, structural
from tenferro.sparsity import coloring, cover_of, propagation, symmetric_cover_of
from tenferro.types import DType
from tests.ad.cases import Case, cases

RANDOM = np.random.default_rng(0)

STRUCTURAL = {
    *structural.CARDS,
    contraction.DotGeneral,
    contraction.Convolution,
    reduction.ReduceSum,
    reduction.ReduceProd,
    reduction.CumSum,
    *(set(indexing.CARDS)),
}
"""Ops whose Jacobian at a random point has no zeros within the pattern."""

SAMPLES = [
    case
    for case in cases({DType.F64}, 2)
    if all(DType.of(y.dtype).is_float for y in case.expected)
    and not isinstance(case.sample.op, dynamic.DynamicTruncate)
]


def dense(fn: Any, args: tuple[Any, ...], argnums: tuple[int, ...]) -> Any:
    """Return the Jacobian of all results with respect to all arguments as one dense matrix. `jacfwd` computes it."""
    leaves = [np.asarray(args[i]) for i in argnums]
    rows = [
        np.hstack([np.reshape(b, (y.size, x.size)) for b, x in zip(row, leaves, strict=True)])
        for row, y in zip(tnf.jacfwd(fn, argnums=argnums)(*args), fn(*args), strict=True)
    ]
    return np.vstack(rows)


@pytest.mark.parametrize("case", SAMPLES, ids=str)
def test_the_pattern_contains_every_nonzero_of_a_sample(case: Case) -> None:
    xs = case.primals
    positions = tuple(range(len(xs)))
    pattern = tnf.sparse_jacobian(case.fn, *xs, argnums=positions).pattern.toarray()
    nonzero = dense(case.fn, xs, positions) != 0
    assert not (nonzero & ~pattern).any()
    if type(case.sample.op) in STRUCTURAL:
        assert (nonzero == pattern).all()


@pytest.mark.parametrize(
    "case", [c for c in SAMPLES if type(c.sample.op) in indexing.CARDS], ids=str
)
def test_positions_that_are_arguments_may_be_any(case: Case) -> None:
    from tenferro.dispatch import apply

    def fn(*inputs: Any) -> Any:
        ys = apply(case.sample.op, *inputs)
        return tuple(ys[i] for i in case.outputs)

    pattern = tnf.sparse_jacobian(fn, *case.inputs, argnums=case.active).pattern.toarray()
    assert not ((dense(fn, case.inputs, case.active) != 0) & ~pattern).any()


def test_an_index_that_is_data_reaches_its_axis_alone() -> None:
    x, i = np.ones((3, 4)), np.array(1)
    rows = tnf.sparse_jacobian(lambda x, i: x[i], x, i).pattern.toarray().reshape(4, 3, 4)
    assert (rows == np.eye(4, dtype=bool)[:, None, :]).all()
    written = tnf.sparse_jacobian(lambda y, i: tnf.at(np.zeros((3, 4)))[i].set(y), np.ones(4), i)
    assert (written.pattern.toarray().reshape(3, 4, 4) == np.eye(4, dtype=bool)).all()


# ---- stencils ----------------------------------------------------------------------------------------


def shifted(u: Any, offsets: list[tuple[int, ...]]) -> Any:
    """Return a nonlinear term plus the sum of copies of u.

    Each copy is shifted by an offset, with zero padding.
    """
    padded, total = tnf.pad(u, 10), u**3
    for offset in offsets:
        total = (
            total
            + padded[tuple(slice(10 + k, 10 + k + n) for k, n in zip(offset, u.shape, strict=True))]
        )
    return total


FIVE = [(0, 1), (1, 0), (0, -1), (-1, 0)]
NINE = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
SEVEN = [tuple(s * e for e in row) for row in np.eye(3, dtype=int) for s in (1, -1)]
STENCILS = {
    "5 points": ((17, 23), FIVE, 5),
    "9 points": ((17, 23), NINE, 9),
    "7 points": ((7, 8, 9), SEVEN, 7),
    "tridiagonal": ((60,), [(1,), (-1,)], 3),
    "banded": ((60,), [(k,) for k in range(-4, 5)], 9),
    "one-sided": ((60,), [(k,) for k in range(6)], 6),
}


@pytest.mark.parametrize("name", STENCILS)
def test_stencils_need_as_few_products_as_their_points(name: str) -> None:
    shape, offsets, best = STENCILS[name]
    u = RANDOM.normal(size=shape)
    jacobian = tnf.sparse_jacobian(lambda u: shifted(u, offsets), u)
    assert jacobian.count == best
    wanted = np.diag(3 * np.ravel(u) ** 2)
    places = np.arange(u.size).reshape(shape)
    for offset in offsets:
        for at in np.ndindex(*shape):
            there = tuple(np.add(at, offset))
            if all(0 <= k < n for k, n in zip(there, shape, strict=True)):
                wanted[places[at], places[there]] += 1
    np.testing.assert_allclose(jacobian(u).toarray(), wanted, rtol=1e-14)
    assert (jacobian.pattern.toarray() == (wanted != 0)).all()


def test_a_lattice_that_fails_beyond_the_sample_is_found() -> None:
    rows = [[i, i + 1] for i in range(2000)]
    rows[999] = [0, 2]  # an even distance, for which both columns would have the same colour
    pattern = sp.csr_array(
        (np.ones(4000, bool), (np.repeat(np.arange(2000), 2), np.ravel(rows))), (2000, 2001)
    )
    colors = coloring.colors_of_columns(pattern, [(2001,)])
    assert all(colors[a] != colors[b] for a, b in rows)


# ---- covers ------------------------------------------------------------------------------------------


def recovered(matrix: Any, cover: Any) -> Any:
    """Return the matrix that is recovered from its products with the groups of a cover."""
    parts: list[Any] = []
    for colors, count, factor in (
        (cover.columns, cover.forward, matrix),
        (cover.rows, cover.reverse, matrix.T),
    ):
        if count:
            parts += [factor @ (colors == c).astype(float) for c in range(count)]
    data = cover.nonzeros(np.concatenate(parts) if parts else np.zeros(0))
    result = matrix.copy()
    result.data = data
    return result


def random_matrix(rows: int, columns: int, density: float) -> Any:
    matrix = sp.random_array((rows, columns), density=density, rng=RANDOM, format="csr")
    matrix.sort_indices()
    return matrix


def arrow(n: int) -> Any:
    matrix = sp.lil_array((n, n))
    matrix[0, :] = RANDOM.normal(size=n)
    matrix[:, 0] = RANDOM.normal(size=(n, 1))
    matrix.setdiag(RANDOM.normal(size=n))
    return matrix.tocsr()


MATRICES = {
    "sparse": random_matrix(70, 50, 0.04),
    "denser": random_matrix(40, 90, 0.2),
    "empty": random_matrix(4, 5, 0.0),
    "no rows": sp.csr_array((0, 3)),
    "full": random_matrix(6, 5, 1.0),
    "arrow": arrow(80),
    "many colours": random_matrix(20, 90, 0.7),
}


@pytest.mark.parametrize("kind", ["auto", "forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("name", MATRICES)
def test_a_cover_recovers_the_matrix(name: str, kind: str) -> None:
    matrix = MATRICES[name]
    cover = cover_of(matrix.astype(bool), kind, [(matrix.shape[1],)])
    difference = recovered(matrix, cover) - matrix
    assert abs(difference).max() < 1e-14 if matrix.nnz else cover.count <= 1


@pytest.mark.parametrize("kind", ["auto", "star", "acyclic", "forward"])
@pytest.mark.parametrize("name", [*MATRICES, "grid", "cycle"])
def test_a_symmetric_cover_recovers_the_matrix(name: str, kind: str) -> None:
    if name == "grid":
        line = sp.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(9, 9))
        matrix = sp.kronsum(line, line, format="csr")
    elif name == "cycle":
        matrix = sp.csr_array(np.roll(np.eye(11), 1, 0) + np.roll(np.eye(11), -1, 0))
    else:
        matrix = sp.csr_array(MATRICES[name].T @ MATRICES[name])
    matrix.data = RANDOM.normal(size=matrix.nnz)
    matrix = sp.csr_array(matrix + matrix.T)
    matrix.sort_indices()
    shapes = [(9, 9)] if name == "grid" else [(matrix.shape[0],)]
    cover = symmetric_cover_of(matrix.astype(bool), kind, shapes)
    assert not matrix.nnz or abs(recovered(matrix, cover) - matrix).max() < 1e-11
    if name == "grid":
        assert cover.count == {"acyclic": 3}.get(kind, 5)
    if name == "arrow" and kind in ("auto", "star", "acyclic"):
        assert cover.count <= matrix.shape[0]


def test_an_arrow_needs_three_products_in_both_directions() -> None:
    def fn(x: Any) -> Any:
        return tnf.concat([tnf.sum(x**2)[None], x[1:] * x[0]])

    x = RANDOM.normal(size=40)
    jacobian = tnf.sparse_jacobian(fn, x)
    assert (jacobian.mode, jacobian.count) == ("bidirectional", 3)
    wanted = np.diag(np.full(40, x[0]))
    wanted[:, 0] = x
    wanted[0] = 2 * x
    np.testing.assert_allclose(jacobian(x).toarray(), wanted, rtol=1e-14)


# ---- programs ----------------------------------------------------------------------------------------


def cascade(x: Any) -> Any:
    return tnf.fori_loop(0, 9, lambda i, c: tnf.at(c)[i].set(c[i] * c[i + 1]), x)


def rolled(x: Any) -> Any:
    return tnf.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, tnf.roll(c[1], 1)), (0, x))[1]


def running(x: Any) -> Any:
    return tnf.scan(lambda c, y: (0.5 * c + y, c + y), 0.0, x, reverse=True)[1]


def each(x: Any) -> Any:
    return tnf.map(lambda y: tnf.sin(y), x)


@pytest.mark.parametrize("fn", [cascade, rolled, running, each], ids=lambda f: f.__name__)
def test_loops_are_exact_when_unrolled_and_contain_it_as_fixpoints(
    fn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = RANDOM.normal(size=10)
    nonzero = np.asarray(tnf.jacfwd(fn)(x)) != 0
    assert (tnf.sparse_jacobian(fn, x).pattern.toarray() == nonzero).all()
    monkeypatch.setattr(propagation, "MAX_UNROLLED_STEPS", 0)
    bound = tnf.sparse_jacobian(fn, x).pattern.toarray()
    assert not (nonzero & ~bound).any()
    assert (bound == nonzero).all() == (fn is each)


def test_a_loop_by_data_is_a_fixpoint() -> None:
    def grown(x: Any) -> Any:
        return tnf.while_loop(lambda c: tnf.sum(c) < 500, lambda c: 2 * c, x)

    assert (tnf.sparse_jacobian(grown, np.ones(6)).pattern.toarray() == np.eye(6)).all()

    def spread(x: Any) -> Any:
        return tnf.while_loop(lambda c: tnf.sum(c) < 500, lambda c: c + tnf.roll(c, 1), x)

    many = propagation.MAX_ROUNDS + 20
    assert tnf.sparse_jacobian(spread, np.ones(many)).pattern.nnz == many**2


def test_branches_are_united_where_data_decide() -> None:
    def fn(x: Any, turned: Any) -> Any:
        return tnf.cond(turned, lambda x: x[::-1] * 2, lambda x: x**2, x)

    x = np.arange(1.0, 5.0)
    both = tnf.sparse_jacobian(fn, x, np.array(True))
    assert (both.pattern.toarray() == (np.eye(4) + np.eye(4)[::-1] > 0)).all()
    np.testing.assert_allclose(both(x, np.array(False)).toarray(), np.diag(2 * x))
    np.testing.assert_allclose(both(x, np.array(True)).toarray(), 2 * np.eye(4)[::-1])


def test_zeros_of_constants_count() -> None:
    matrix = np.triu(RANDOM.normal(size=(5, 5)))
    jacobian = tnf.sparse_jacobian(lambda x: tnf.sin(matrix @ x), np.ones(5))
    assert (jacobian.pattern.toarray() == (matrix != 0)).all()
    mask = np.array([1.0, 0.0, 1.0])
    assert tnf.sparse_jacobian(lambda x: x * mask, np.ones(3)).pattern.nnz == 2
    assert tnf.sparse_jacobian(lambda x: tnf.where(mask > 0, x, 0.0), np.ones(3)).pattern.nnz == 2


def test_batches_of_matrices_are_separate() -> None:
    a = RANDOM.normal(size=(3, 2, 2)) + 3 * np.eye(2)
    b = RANDOM.normal(size=(3, 2, 1))
    jacobian = tnf.sparse_jacobian(tnf.linalg.solve, a, b, argnums=1)
    assert (jacobian.pattern.toarray() == np.kron(np.eye(3), np.ones((2, 2)))).all()
    wanted = np.zeros((6, 6))
    for i, inverse in enumerate(np.linalg.inv(a)):
        wanted[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = inverse
    np.testing.assert_allclose(jacobian(a, b).toarray(), wanted, rtol=1e-12)


def test_custom_rules_are_followed() -> None:
    @tnf.custom_jvp
    def straight(x: Any) -> Any:
        return tnf.round(x)

    straight.defjvp(lambda primals, dots: (straight(primals[0]), dots[0]))
    assert tnf.sparse_jacobian(straight, np.ones(3)).pattern.nnz == 3
    assert tnf.sparse_jacobian(tnf.round, np.ones(3)).pattern.nnz == 0

    @tnf.custom_vjp
    def backward(x: Any) -> Any:
        return tnf.sin(x)

    backward.defvjp(lambda x: (tnf.sin(x), x), lambda x, y_bar: (tnf.cos(x) * y_bar,))
    x = np.arange(4.0)
    jacobian = tnf.sparse_jacobian(backward, x)
    assert (jacobian.mode, jacobian.count) == ("reverse", 1)
    np.testing.assert_allclose(jacobian(x).toarray(), np.diag(np.cos(x)), rtol=1e-14)
    with pytest.raises(UnsupportedError, match="use 'reverse'"):
        tnf.sparse_jacobian(backward, x, mode="forward")


def test_trees_and_data() -> None:
    def fn(p: Any, i: Any) -> Any:
        return p["a"][i] * p["b"], tnf.sum(p["a"])

    p, i = {"a": np.arange(1.0, 5.0), "b": np.array([2.0, 3.0, 5.0])}, np.array([0, 1, 1])
    jacobian = tnf.sparse_jacobian(fn, p, i)
    wanted = np.zeros((4, 7))
    wanted[[0, 1, 2], i] = p["b"]
    wanted[[0, 1, 2], [4, 5, 6]] = p["a"][i]
    wanted[3, :4] = 1
    np.testing.assert_allclose(jacobian(p, i).toarray(), wanted)
    with pytest.raises(ShapeError, match="has shape"):
        jacobian(p, np.array([0, 1]))


def test_a_hessian_has_no_linear_part() -> None:
    def energy(p: Any) -> Any:
        return tnf.sum(p["a"] ** 3) + tnf.sum(p["b"]) + p["a"][0] * p["b"][1]

    p = {"a": np.arange(1.0, 5.0), "b": np.ones(3)}
    hessian = tnf.sparse_hessian(energy, p)
    wanted = np.zeros((7, 7))
    wanted[:4, :4] = np.diag(6 * p["a"])
    wanted[0, 5] = wanted[5, 0] = 1
    for mode in ("auto", "star", "acyclic", "forward"):
        hessian = tnf.sparse_hessian(energy, p, mode=mode)
        np.testing.assert_allclose(hessian(p).toarray(), wanted, atol=1e-14)
        assert hessian.pattern.nnz == 6


def test_jax_functions_and_xla() -> None:
    jax = pytest.importorskip("jax")
    xla_peer = pytest.importorskip("xla_peer")

    def fn(u: Any) -> Any:
        p = jax.numpy.pad(u, 1)
        return p[2:] + p[:-2] - 2 * u + jax.numpy.exp(u)

    u = RANDOM.normal(size=12).astype(np.float32)
    wanted = jax.jacfwd(fn)(u)
    imported = xla_peer.from_jax(fn, u)
    for executor in (None, xla_peer.XlaExecutor()):
        jacobian = tnf.sparse_jacobian(imported, u, executor=executor)
        assert jacobian.count == 3
        assert jacobian(u).dtype == np.float32
        np.testing.assert_allclose(jacobian(u).toarray(), wanted, rtol=1e-5)


def test_given_patterns() -> None:
    x = np.arange(1.0, 5.0)
    jacobian = tnf.sparse_jacobian(lambda x: x * x, x, pattern=np.eye(4))
    np.testing.assert_allclose(jacobian(x).toarray(), np.diag(2 * x))
    with pytest.raises(ShapeError, match="the pattern has shape"):
        tnf.sparse_jacobian(lambda x: x * x, x, pattern=np.eye(3))
    with pytest.raises(InvalidConfigError, match="not symmetric"):
        tnf.sparse_hessian(lambda x: tnf.sum(x**2), x, pattern=np.triu(np.ones((4, 4))))


def test_refusals() -> None:
    x = np.ones(3)
    with pytest.raises(InvalidConfigError, match="mode must be one of auto, forward"):
        tnf.sparse_jacobian(tnf.sin, x, mode="columns")
    with pytest.raises(DTypeError, match=r"argument.*is i64"):
        tnf.sparse_jacobian(tnf.sin, np.arange(3))
    with pytest.raises(DTypeError, match="real and imaginary part"):
        tnf.sparse_jacobian(tnf.sin, x + 1j)
    with pytest.raises(DTypeError, match="the result is i64"):
        tnf.sparse_jacobian(tnf.argsort, x)
    with pytest.raises(UnsupportedError, match="outside of traces"):
        tnf.jit(lambda x: tnf.sparse_jacobian(tnf.sin, x)(x))(x)
    with pytest.raises(UnsupportedError, match="outside of traces"):
        tnf.jit(tnf.sparse_jacobian(tnf.sin, x))(x)
    with pytest.raises(ShapeError, match="one scalar"):
        tnf.sparse_hessian(tnf.sin, x)
    with pytest.raises(InvalidConfigError, match="expected a function"):
        tnf.sparse_hessian(3, x)  # pyright: ignore[reportArgumentType]  # wrong on purpose
    with pytest.raises(UnsupportedError, match="nonzeros"):
        tnf.sparse_jacobian(lambda x: tnf.sum(x) + x, np.ones(100_000))


def test_nothing_depends_on_anything() -> None:
    jacobian = tnf.sparse_jacobian(lambda x: tnf.zeros(3), np.ones(2))
    assert jacobian(np.ones(2)).toarray().tolist() == [[0, 0]] * 3
    assert tnf.sparse_jacobian(lambda x: x, np.ones(0))(np.ones(0)).shape == (0, 0)
    assert repr(jacobian).startswith("<sparse_jacobian of")

"""Einstein summation must equal loops over every index.

The extents are numbers or symbols.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import opt_einsum as oe
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.ext.einsum import NOTATIONS, PLANS, Einsum
from tenferro.extension import ExtensionCacheKey
from tests.levels import LEVELS, peer_of
from xla_peer import XlaExecutor


@pytest.fixture(scope="module", params=LEVELS)
def xla(request: pytest.FixtureRequest) -> XlaExecutor:
    return peer_of(request)


CASES: dict[str, tuple[tuple[int, ...], ...]] = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "ij,jk,kl->il": ((2, 3), (3, 4), (4, 5)),
    "ij,jk,kl,lm->mi": ((2, 3), (3, 4), (4, 5), (5, 2)),
    "ij->ji": ((2, 3),),
    "ijk->j": ((2, 3, 4),),
    "ijk->": ((2, 3, 4),),
    "ii->i": ((3, 3),),
    "iij->ji": ((3, 3, 2),),
    "i->ii": ((3,),),
    "ij->iji": ((2, 3),),
    "ij,k->iijk": ((2, 3), (4,)),
    "ij,ij->": ((2, 3), (2, 3)),
    "ij,ji->ij": ((2, 3), (3, 2)),
    "i,i,i->i": ((3,), (3,), (3,)),
    "bij,bjk,bk->bi": ((2, 3, 4), (2, 4, 5), (2, 5)),
    "iij,jk,kk->ik": ((3, 3, 2), (2, 4), (4, 4)),
    "ij,kl->il": ((2, 3), (4, 5)),
    "i,j,k->kji": ((2,), (3,), (4,)),
    "ij,jk->ki": ((0, 3), (3, 4)),
    "ij,jk->k": ((2, 0), (0, 4)),
    ",i->i": ((), (3,)),
    ",->": ((), ()),
}


def summed(subscripts: str, *operands: Any) -> Any:
    """Call `einsum`, or apply the op if the output repeats a label.

    The public function `einsum` rejects repeated labels.
    """
    left, _, output = subscripts.partition("->")
    if len(set(output)) == len(output):
        return tnf.einsum(subscripts, *operands)
    return tnf.extension.apply(Einsum(tuple(left.split(",")), output), *operands)


def by_definition(subscripts: str, operands: Any) -> Any:
    """Compute the sum by a loop over all values of all labels."""
    left, _, output = subscripts.partition("->")
    terms = left.split(",")
    extents = {
        label: extent
        for term, x in zip(terms, operands, strict=True)
        for label, extent in zip(term, x.shape, strict=True)
    }
    result = np.zeros([extents[label] for label in output], np.result_type(*operands))
    for values in itertools.product(*map(range, extents.values())):
        at = dict(zip(extents, values, strict=True))
        product = 1
        for term, x in zip(terms, operands, strict=True):
            product = product * x[tuple(at[label] for label in term)]
        result[tuple(at[label] for label in output)] += product
    return result


def operands_of(subscripts: str, dtype: Any) -> list[Any]:
    generator = np.random.default_rng(7)
    operands = []
    for shape in CASES[subscripts]:
        x = generator.integers(-4, 5, shape) + 0.5
        if np.dtype(dtype).kind in "fc":
            x = x / 3  # a number that every dtype rounds
        operands.append(np.asarray(x * (1 - 0.5j) if np.dtype(dtype).kind == "c" else x, dtype))
    return operands


def symbolic(subscripts: str, dtype: Any) -> list[Any]:
    return [
        tnf.TensorSpec(tuple(f"n_{label}" for label in term), dtype)
        for term in subscripts.partition("->")[0].split(",")
    ]


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex128"])
@pytest.mark.parametrize("subscripts", CASES)
def test_values(subscripts: str, dtype: str, xla: XlaExecutor) -> None:
    operands = operands_of(subscripts, dtype)
    expected = by_definition(subscripts, operands)

    def fn(*xs: Any) -> Any:
        return summed(subscripts, *xs)

    results = [fn(*operands), tnf.compile(fn, *operands).run(*operands)]
    program = tnf.compile(fn, *symbolic(subscripts, dtype))
    results += [program.run(*operands), xla.run(program, *operands)]
    is_float = np.dtype(dtype).kind in "fc"
    tolerance = 16 * np.finfo(dtype).eps * np.abs(expected).max(initial=1) if is_float else 0
    for result in results:
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("subscripts", CASES)
def test_gradients_with_and_without_shapes(subscripts: str, xla: XlaExecutor) -> None:
    operands = operands_of(subscripts, "complex128")

    def loss(*xs: Any) -> Any:
        y = summed(subscripts, *xs)
        return tnf.sum(tnf.real(y * tnf.conj(y)))

    tnf.check_grads(loss, operands, order=2)
    argnums = tuple(range(len(operands)))
    known = tnf.grad(loss, argnums)(*operands)
    program = tnf.compile(tnf.grad(loss, argnums), *symbolic(subscripts, "complex128"))
    for executor in (tnf.GraphExecutor(), xla):
        for mine, other in zip(executor.run(program, *operands), known, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-9)


def test_family_is_batched() -> None:
    x, y, z = operands_of("ij,jk,kl->il", "float64")

    def family(x: Any) -> Any:
        return tnf.extension.apply(Einsum(("ij", "jk", "kl"), "il"), x, y, z)

    forward, backward = tnf.jacfwd(family)(x), tnf.jacrev(family)(x)
    expected = np.einsum("ia,bl->ilab", np.eye(2), y @ z)
    np.testing.assert_allclose(forward, expected, atol=1e-12)
    np.testing.assert_allclose(backward, expected, atol=1e-12)


@pytest.mark.parametrize(
    "optimize",
    [
        True,
        False,
        "optimal",
        "greedy",
        ("greedy", 100),
        [(0, 1), (0, 1)],
        ["einsum_path", (1, 2), (0, 1)],
        [(0, 1, 2)],
        [],
    ],
    ids=str,
)
def test_any_path_gives_the_same(optimize: Any) -> None:
    operands = operands_of("ij,jk,kl->il", "float64")
    expected = by_definition("ij,jk,kl->il", operands)

    def fn(*xs: Any) -> Any:
        return tnf.einsum("ij,jk,kl->il", *xs, optimize=optimize)

    np.testing.assert_allclose(fn(*operands), expected)
    np.testing.assert_allclose(tnf.compile(fn, *operands).run(*operands), expected)
    program = tnf.compile(fn, *symbolic("ij,jk,kl->il", "float64"))
    np.testing.assert_allclose(program.run(*operands), expected)


def dense_network(count: int) -> tuple[str, list[Any]]:
    """Return an equation and its operands.

    The equation has `count` operands, and each pair of operands shares a label.
    """
    labels: list[str] = [""] * count
    for number, (i, j) in enumerate(itertools.combinations(range(count), 2)):
        labels[i] += oe.get_symbol(number)
        labels[j] += oe.get_symbol(number)
    return ",".join(labels) + "->", [np.ones((2,) * (count - 1)) for _ in range(count)]


@pytest.mark.parametrize(
    ("name", "count"),
    [("optimal", 9), ("branch-all", 9), ("branch-2", 21), ("dp", 12), ("auto-hq", 12)],
)
@pytest.mark.parametrize("limit", [None, 1000])
def test_optimisers_that_would_not_end_are_refused(
    name: str, count: int, limit: int | None
) -> None:
    subscripts, operands = dense_network(min(count, 14))
    if count > 14:  # a dense network of so many operands would be too large
        subscripts, operands = ",".join(["ab"] * count) + "->", [np.ones((2, 2))] * count
    optimize: Any = name if limit is None else (name, limit)
    for call in (tnf.einsum, tnf.einsum_path):
        with pytest.raises(errors.InvalidConfigError, match=f"'{name}'.*write 'auto' or"):
            call(subscripts, *operands, optimize=optimize)
    with pytest.raises(errors.InvalidConfigError, match=f"'{name}'"):
        Einsum(tuple(subscripts.removesuffix("->").split(",")), "", optimize)


def test_optimisers_that_end_soon_are_not_refused() -> None:
    chain = [np.full((2, 2), 0.5)] * 40
    labels = [oe.get_symbol(i) + oe.get_symbol(i + 1) for i in range(40)]
    subscripts = ",".join(labels) + "->" + labels[0][0] + labels[-1][-1]
    for optimize in ("dp", "auto", "greedy", "random-greedy"):
        result = tnf.einsum(subscripts, *chain, optimize=optimize)
        np.testing.assert_allclose(result, np.full((2, 2), 0.5), rtol=1e-12)
    nine = ",".join(labels[:9]) + "->" + labels[0][0] + labels[8][-1]
    one_by_one = oe.paths.BranchBound(nbranch=1)
    result = tnf.einsum(nine, *chain[:9], optimize=one_by_one)
    np.testing.assert_allclose(result, np.full((2, 2), 0.5), rtol=1e-12)


def test_derivatives_of_the_largest_network_of_an_optimiser() -> None:
    """A label that occurs in only one operand and is summed needs an additional operand of ones in the derivative.

    The derivative then has one operand more than the optimiser supports.
    """
    x = np.arange(4.0).reshape(2, 2)
    labels = ["az", *[oe.get_symbol(30 + i) for i in range(7)]]
    operands = [np.full(2, 1.0 + i) for i in range(7)]

    def total(x: Any) -> Any:
        return tnf.einsum(",".join(labels) + "->a", x, *operands, optimize="optimal")

    expected = np.zeros((2, 2, 2))
    expected[0, 0] = expected[1, 1] = np.prod([y.sum() for y in operands])
    np.testing.assert_allclose(tnf.jacrev(total)(x), expected)


def test_derivatives_of_a_chain_with_open_legs() -> None:
    """The derivative of a chain contracts the cotangent with the other operands.

    The cotangent shares a label with each of them, which an optimiser for chains must allow.
    """
    count = 13
    bonds, legs = oe.get_symbol, [oe.get_symbol(100 + i) for i in range(count)]
    labels = [bonds(i) + legs[i] + bonds(i + 1) for i in range(count)]
    rng = np.random.default_rng(0)
    operands = [rng.normal(size=(2, 1 + (i == 4), 2)) for i in range(count)]
    op = Einsum(tuple(labels), bonds(0) + "".join(legs) + bonds(count), "dp")

    def total(x: Any) -> Any:
        return tnf.sum(tnf.extension.apply(op, *operands[:4], x, *operands[5:]))

    left = np.linalg.multi_dot([x[:, 0] for x in operands[:4]]).sum(0)
    right = np.linalg.multi_dot([x[:, 0] for x in operands[5:]]).sum(1)
    expected = np.einsum("a,l,b->alb", left, np.ones(2), right)
    np.testing.assert_allclose(tnf.grad(total)(operands[4]), expected, rtol=1e-12)


def test_path_is_taken_and_told() -> None:
    shapes = [(2, 50), (50, 50), (50, 3)]
    x, y, z = (np.ones(shape) for shape in shapes)
    path, info = tnf.einsum_path("ij,jk,kl->il", x, y, z)
    assert path == ["einsum_path", (0, 1), (0, 1)]
    assert path == np.einsum_path("ij,jk,kl->il", x, y, z)[0]
    assert "Largest intermediate" in str(info)
    assert info.opt_cost < info.naive_cost
    program = tnf.compile(lambda *xs: tnf.einsum("ij,jk,kl->il", *xs, optimize=path), x, y, z)
    sizes = [program.types[i.outputs[0]].size for i in program.instructions]
    assert max(sizes) == info.largest_intermediate == 2 * 50
    left_to_right = tnf.compile(
        lambda *xs: tnf.einsum("ij,jk,kl->il", *xs, optimize=[(1, 2), (0, 1)]), x, y, z
    )
    assert max(left_to_right.types[i.outputs[0]].size for i in left_to_right.instructions) == 150


def test_interleaved_form_and_ellipsis() -> None:
    generator = np.random.default_rng(3)
    x, y = generator.normal(size=(2, 3, 4)), generator.normal(size=(4, 5))
    np.testing.assert_allclose(tnf.einsum(x, [..., 0], y, [0, 1], [..., 1]), x @ y)
    np.testing.assert_allclose(tnf.einsum(x, [..., 7], y, [7, 60]), x @ y)
    z = y[:, :3]
    np.testing.assert_allclose(tnf.einsum("...j,j...", x, z), np.einsum("abj,jb->ab", x, z))
    np.testing.assert_allclose(tnf.einsum(x, [2, 1, 0]), np.einsum("cba", x))


def test_any_character_is_a_label() -> None:
    x, y = np.random.default_rng(4).normal(size=(2, 3, 3))
    expected = x @ y
    for label in [
        "1",
        "×",
        "÷",
        "\u03a2",
        "\u1680",
        "_",
        "$",
        "日",
        *map(oe.get_symbol, range(150, 153)),
    ]:
        np.testing.assert_allclose(tnf.einsum(f"a{label},{label}b->ab", x, y), expected)
    assert tnf.einsum("×_->_×", x[:2]).shape == (3, 2)
    assert tnf.einsum("×a", x[:2]).shape == (
        3,
        2,
    )  # NumPy orders the labels of an implicit output by code points


def test_more_operands_than_letters() -> None:
    matrices = np.random.default_rng(5).normal(size=(120, 2, 2))
    labels = [oe.get_symbol(i) for i in range(121)]
    equation = ",".join(map("".join, itertools.pairwise(labels))) + f"->{labels[0]}{labels[-1]}"
    expected = np.linalg.multi_dot(matrices)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(tnf.einsum(equation, *matrices), expected, atol=1e-12 * scale)
    interleaved = [part for i, m in enumerate(matrices) for part in (m, (i + 900, i + 901))]
    result = tnf.einsum(*interleaved, (900, 1020))
    np.testing.assert_allclose(result, expected, atol=1e-12 * scale)


def test_labels_are_sequences() -> None:
    x, y = np.ones((2, 3)), np.ones((3, 4))
    expected = np.einsum(x, [0, 1], y, [1, 2], [0, 2])
    for labels in ((range(2), range(1, 3), (0, 2)), (np.array([0, 1]), np.array([1, 2]), [0, 2])):
        assert np.array_equal(tnf.einsum(x, labels[0], y, labels[1], labels[2]), expected)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,ij->ij", ((1, 3), (4, 3))),
        ("ij,ij->", ((1, 3), (4, 1))),
        ("ij,jk->ik", ((2, 1), (3, 4))),
        ("ij,jk,kl->il", ((2, 3), (1, 4), (4, 1))),
        ("ii,i->i", ((1, 1), (3,))),
        ("...i,...i->...", ((2, 1, 3), (1, 4, 1))),
        ("i,i->i", ((1,), (0,))),
    ],
)
def test_extents_of_one_broadcast(subscripts: str, shapes: Any) -> None:
    operands = [np.random.default_rng(6).normal(size=shape) for shape in shapes]
    expected = np.einsum(subscripts, *operands)

    def fn(*xs: Any) -> Any:
        return tnf.einsum(subscripts, *xs)

    np.testing.assert_allclose(fn(*operands), expected)
    np.testing.assert_allclose(tnf.compile(fn, *operands).run(*operands), expected)
    tnf.check_grads(fn, operands, order=2)


def test_dtypes_promote_and_bools_are_any() -> None:
    x = np.array([[True, False], [False, False]])
    result = tnf.einsum("ij,jk->ik", x, x)
    assert result.dtype == bool
    assert result.tolist() == [[True, False], [False, False]]
    assert tnf.einsum("i,i->", np.ones(2, "float32"), np.ones(2, "int16")).dtype == np.float32


def test_who_owns_the_plans() -> None:
    x, y, z = operands_of("ij,jk,kl->il", "float64")
    specs = symbolic("ij,jk,kl->il", "float64")

    def fn(*xs: Any) -> Any:
        return tnf.einsum("ij,jk,kl->il", *xs)

    compiler = tnf.GraphCompiler()
    for _ in range(3):
        compiler.compile(fn, x, y, z)
    stats = compiler.extension_caches.stats()
    assert (stats[NOTATIONS].hits, stats[PLANS].hits, stats[PLANS].misses) == (2, 2, 1)

    program, executor = compiler.compile(fn, *specs), tnf.GraphExecutor()
    for _ in range(3):
        executor.run(program, x, y, z)
    caches = executor.extensions.caches
    programs = ExtensionCacheKey(Einsum.family_id, "programs")
    assert caches.stats()[PLANS].hits == 2
    assert caches.stats()[programs].hits == 2
    assert caches.stats()[PLANS].capacity == 256
    caches.clear()
    assert len(caches) == 0

    context = tnf.AdContext()
    gradient = tnf.grad(lambda *xs: tnf.sum(fn(*xs)), context=context)
    gradient(x, y, z)
    gradient(x, y, z)
    assert context.extension_caches.stats()[PLANS].hits == 1


def test_saved_and_loaded(tmp_path: Any) -> None:
    operands = operands_of("ij,jk,kl->il", "float64")
    program = tnf.compile(
        lambda *xs: tnf.einsum("ij,jk,kl->il", *xs, optimize=("greedy", 50)),
        *symbolic("ij,jk,kl->il", "float64"),
    )
    tnf.save(program, tmp_path / "p.tnf")
    again = tnf.load(tmp_path / "p.tnf")
    assert again.fingerprint == program.fingerprint
    np.testing.assert_array_equal(again.run(*operands), program.run(*operands))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: tnf.einsum("ij"), errors.InvalidConfigError, "at least one operand"),
        (lambda x: tnf.einsum("ij,jk", x), errors.InvalidConfigError, "names 2 operands, got 1"),
        (lambda x: tnf.einsum("i", x), errors.InvalidConfigError, "does not label"),
        (lambda x: tnf.einsum("i...jk", x), errors.InvalidConfigError, "does not label"),
        (lambda x: tnf.einsum("i.->i", x), errors.InvalidConfigError, "is not labels"),
        (lambda x: tnf.einsum("ij->ii", x), errors.InvalidConfigError, "'i' occurs 2 times"),
        (lambda x: tnf.einsum("......", x), errors.InvalidConfigError, "is not labels"),
        (lambda x: tnf.einsum("ij->k", x), errors.InvalidConfigError, "'k' is in no operand"),
        (lambda x: tnf.einsum("ii", x), errors.ShapeError, "extents 2 and 3"),
        (lambda x: tnf.einsum("ii", x[:1]), errors.ShapeError, "extents 1 and 3"),
        (lambda x: tnf.einsum("ij,ij->", x, x.T), errors.ShapeError, "extents 2 and 3"),
        (lambda x: tnf.einsum(x, [0, True]), errors.InvalidConfigError, "labels must be integers"),
        (lambda x: tnf.einsum(x, "ij"), errors.InvalidConfigError, "a list after each"),
        (
            lambda x: tnf.einsum("ij", x, optimize="best"),
            errors.InvalidConfigError,
            "optimize must be one of",
        ),
        (lambda x: tnf.einsum("ij", x, optimize=3), errors.InvalidConfigError, "optimize must be"),
        (
            lambda x: tnf.einsum("ij,kj,kl", x, x, x, optimize=oe.paths.optimal),
            errors.InvalidConfigError,
            "optimize must be",
        ),
        (
            lambda x: tnf.einsum("ij,jk,kl", x, x.T, x, optimize=[(0, 5), (0, 1)]),
            errors.InvalidConfigError,
            "step \\(0, 5\\)",
        ),
        (
            lambda x: tnf.einsum("ij,jk,kl", x, x.T, x, optimize=[(0, 0)]),
            errors.InvalidConfigError,
            "step \\(0, 0\\)",
        ),
    ],
)
def test_refusals(call: Any, error: Any, message: str) -> None:
    x = np.ones((2, 3))
    with pytest.raises(error, match=message):
        call(x)
    with pytest.raises(error, match=message):
        tnf.compile(call, x) if not message.startswith("labels must be") else call(x)


@pytest.mark.parametrize(
    ("subscripts", "optimize", "waits"),
    [("ij,jk->ik", True, False), ("ij,jk->ik", "optimal", False), ("ij,jk,kl->il", True, True),
     ("ij,jk,kl->il", ("greedy", 50), True), ("ij,jk,kl->il", False, False),
     ("ij,jk,kl->il", [(1, 2), (0, 1)], False)],
)  # fmt: skip
def test_only_what_extents_decide_waits_for_them(
    subscripts: str, optimize: Any, waits: bool
) -> None:
    specs = symbolic(subscripts, "float64")
    program = tnf.compile(lambda *xs: tnf.einsum(subscripts, *xs, optimize=optimize), *specs)
    names = [step.op.name for step in program.instructions]
    assert (names == ["tenferro.einsum.v1"]) == waits
    assert ("DotGeneral" in names) == (not waits)


def test_spaces_are_ignored_and_paths_are_completed() -> None:
    x, y, z = (np.arange(4.0).reshape(2, 2) + k for k in range(3))
    np.testing.assert_array_equal(tnf.einsum(" i j , jk -> k i ", x, y), (x @ y).T)
    path, info = tnf.einsum_path("ij,jk,kl->il", x, y, z, optimize=[(0, 2)])
    assert path == ["einsum_path", (0, 2), (0, 1)]
    assert info.opt_cost > 0
    for optimize in ([(0, 1), 2], ((0, 1), 1e6), (["greedy"], 100), (True, 100)):
        with pytest.raises(errors.InvalidConfigError, match="optimize"):
            tnf.einsum("ij,jk,kl->il", x, y, z, optimize=optimize)


def test_labels_are_numbers_below_a_million() -> None:
    x = np.arange(3.0)
    assert tnf.einsum(x, [999_999], x, [999_999], []) == 5.0
    for label in (1_000_000, -1, True, 0.5):
        with pytest.raises(
            errors.InvalidConfigError, match="labels must be integers from 0 to 999999"
        ):
            tnf.einsum(x, [label], x, [label], [])

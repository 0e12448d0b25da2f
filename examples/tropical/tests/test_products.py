"""Tropical products equal explicit loops, natively and through PJRT, and pass the conformance checks of extensions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import tenferro_ext_tropical as tropical

import tenferro as tnf
from tenferro import errors
from tenferro.extension import check_extension
from xla_peer import XlaExecutor

ALGEBRAS = (tropical.MAX_PLUS, tropical.MIN_PLUS, tropical.MAX_TIMES)
PLUS = {"max_plus": max, "min_plus": min, "max_times": max}
TIMES = {
    "max_plus": lambda a, b: a + b,
    "min_plus": lambda a, b: a + b,
    "max_times": lambda a, b: a * b,
}
XLA = XlaExecutor("cpu")

each_algebra = pytest.mark.parametrize("algebra", ALGEBRAS, ids=lambda algebra: algebra.name)


def random(*shape: int, dtype: str = "float64") -> Any:
    return np.random.default_rng(list(shape)).uniform(0.1, 3.0, shape).astype(dtype)


def by_definition(algebra: Any, subscripts: str, *operands: Any) -> Any:
    left, _, output = subscripts.partition("->")
    terms = left.split(",")
    extents = {
        label: n
        for term, x in zip(terms, operands, strict=True)
        for label, n in zip(term, x.shape, strict=True)
    }
    result = np.full([extents[label] for label in output], algebra.zero)
    for values in itertools.product(*map(range, extents.values())):
        at = dict(zip(extents, values, strict=True))
        product = algebra.one
        for term, x in zip(terms, operands, strict=True):
            product = TIMES[algebra.name](product, x[tuple(at[label] for label in term)])
        place = tuple(at[label] for label in output)
        result[place] = PLUS[algebra.name](result[place], product)
    return result


@each_algebra
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_matmul(algebra: Any, dtype: str) -> None:
    kind = tnf.DType.of(dtype).dtype
    x, y = random(2, 3, 4).astype(kind), random(2, 4, 5).astype(kind)
    expected = by_definition(algebra, "bij,bjk->bik", x.astype("f8"), y.astype("f8"))
    program = tnf.compile(lambda x, y: tropical.matmul(x, y, algebra), x, y)
    rounding = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15}[dtype]
    for product in (tropical.matmul(x, y, algebra), program.run(x, y), XLA.run(program, x, y)):
        assert product.dtype == kind
        np.testing.assert_allclose(product.astype("f8"), expected, rtol=rounding)


@each_algebra
@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ki", ((2, 3), (3, 4))),
        ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
        ("bij,jk->bk", ((2, 3, 4), (4, 5))),
        ("i,j->ij", ((2,), (3,))),
        ("ij,kl->i", ((2, 3), (4, 2))),
        ("ij->j", ((2, 3),)),
        ("abc,bcd->ad", ((2, 3, 4), (3, 4, 5))),
    ],
)
def test_einsum(algebra: Any, subscripts: str, shapes: Any) -> None:
    operands = [random(*shape) for shape in shapes]
    expected = by_definition(algebra, subscripts, *operands)

    def fn(*xs: Any) -> Any:
        return tropical.einsum(subscripts, *xs, algebra=algebra)

    program = tnf.compile(fn, *operands)
    for result in (fn(*operands), program.run(*operands), XLA.run(program, *operands)):
        np.testing.assert_allclose(result, expected, rtol=1e-15)


@each_algebra
@pytest.mark.parametrize("rules", [None, tropical.shared_ties()], ids=["first", "shared"])
def test_conformance(algebra: Any, rules: Any) -> None:
    report = check_extension(
        tropical.FusedMatmul(algebra.name),
        [random(2, 3, 4), random(2, 4, 5)],
        rules=rules,
        executor=[XLA, XlaExecutor("cpu", extensions="composite")],
    )
    assert report.ok, str(report)
    unchecked = [check.law for check in report.checks if not check.ok]
    assert unchecked == ["where nothing reads some outputs, the others stay the same"]


def test_ties_go_to_the_first_or_are_shared() -> None:
    x, y = np.zeros((1, 3)), np.array([[1.0], [1.0], [0.0]])

    def gradient(context: tnf.AdContext | None) -> Any:
        return tnf.grad(lambda x: tropical.matmul(x, y)[0, 0], context=context)(x)

    np.testing.assert_array_equal(gradient(None), [[1, 0, 0]])
    shared = tnf.AdContext(tropical.shared_ties())
    np.testing.assert_array_equal(gradient(shared), [[0.5, 0.5, 0]])


@each_algebra
def test_fused_and_composed_agree(algebra: Any) -> None:
    kinds = {c.algebra.name: c for c in (tropical.MaxPlus, tropical.MinPlus, tropical.MaxTimes)}
    kind = kinds[algebra.name]
    x, y = random(3, 4), random(4, 2)
    composed = kind(x[:, :, None]) * kind(y[None])
    np.testing.assert_array_equal(composed.sum(axis=1).value, (kind(x) @ kind(y)).value)
    np.testing.assert_array_equal((kind(x) @ kind.eye(4)).value, x)
    np.testing.assert_array_equal((kind(x) + kind.zero()).value, x)
    np.testing.assert_array_equal((kind(x) * kind.one()).value, x)
    np.testing.assert_allclose((kind(x) ** 2).value, (kind(x) * kind(x)).value)
    with pytest.raises(TypeError):
        kind(x) + x


def test_infinities_and_nan() -> None:
    inf = np.inf
    x = np.array([[-inf, -inf], [0.0, -inf]])
    np.testing.assert_array_equal(tropical.matmul(x, x), [[-inf, -inf], [-inf, -inf]])
    y = np.array([[np.nan, 1.0], [2.0, 3.0]])
    program = tnf.compile(tropical.matmul, y, y)
    np.testing.assert_array_equal(XLA.run(program, y, y), tropical.matmul(y, y))


def test_refusals() -> None:
    x = np.ones((2, 3))
    for call, error, message in (
        (lambda: tropical.matmul(x, x), errors.ShapeError, "inner extent"),
        (lambda: tropical.matmul(x, x.T.astype("f4")), errors.DTypeError, "one dtype"),
        (lambda: tropical.matmul(x[0], x[0]), errors.ShapeError, "needs matrices"),
        (
            lambda: tropical.matmul(x[:, :0], x[:0]),
            errors.ShapeError,
            "the inner extent needs 0 >= 1",
        ),
        (lambda: tropical.einsum("ij,jk", x, x.T), errors.InvalidConfigError, "needs an arrow"),
        (lambda: tropical.einsum("ii->i", x), errors.InvalidConfigError, "once"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_a_saved_program_comes_back_by_the_entry_point(tmp_path: Any) -> None:
    x = random(3, 3)
    program = tnf.compile(tropical.matmul, x, x)
    tnf.save(program, tmp_path / "product.tnf")
    again = tnf.load(tmp_path / "product.tnf")
    assert again.fingerprint == program.fingerprint
    np.testing.assert_array_equal(again.run(x, x), program.run(x, x))


@each_algebra
def test_symbols(algebra: Any) -> None:
    specs = [tnf.TensorSpec((m, n), "float64") for m, n in (("m", "k"), ("l", "n"))]
    product = lambda a, b: tropical.matmul(a, b, algebra)
    a, b = random(2, 3), random(3, 4)
    program = tnf.compile(product, *specs)
    expected = by_definition(algebra, "ik,kj->ij", a, b)
    np.testing.assert_allclose(program.run(a, b), expected, rtol=1e-15)
    gradient = tnf.compile(tnf.grad(lambda a, b: tnf.sum(product(a, b))), *specs)
    with_numbers = tnf.compile(tnf.grad(lambda a, b: tnf.sum(product(a, b))), a, b)
    np.testing.assert_array_equal(gradient.run(a, b), with_numbers.run(a, b))
    with pytest.raises(errors.GuardError, match="the inner extent needs k == l, got 3 and 2"):
        program.run(a, b[:2])
    with pytest.raises(errors.GuardError, match="the inner extent needs k >= 1"):
        program.run(a[:, :0], b[:0])

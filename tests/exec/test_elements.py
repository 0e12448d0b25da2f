"""Small values of a turn as their elements: what is, what it reads as, and that the bits are those of the arrays."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.plan import group
from tenferro.ops.control import Scan

EXECUTOR = tnf.GraphExecutor("K", compiled=False)
BY_STEPS = tnf.GraphExecutor("K", compiled=False, segmented=False)
lax: Any = tnf.lax
X, Y = np.array([0.5, -2.0]), np.array([3.0, 0.25])
M = np.array([[1.0, 2.0], [-3.0, 0.5]])
LONG = np.linspace(0.0, 1.0, 100)
Case = tuple[Callable[..., Any], tuple[Any, ...]]


def turn_of(function: Callable[..., Any], *arrays: Any) -> str:
    """The text of the turns of a loop, and what comes after it."""
    texts = EXECUTOR.source(tnf.compile(function, *arrays)).split("\n\n")
    text = next(text for text in texts if text.startswith(("def scan", "def while")))
    return re.split(r"\n    (?:for|while) .*:\n", text, maxsplit=1)[1]


def is_on_numbers(text: str) -> bool:
    """Whether it calls nothing, makes no array and reads no element, but of rows by the turn."""
    turns = text.partition("\n    v")[0]
    return re.search(r"\b(?!abs|range|item\(v)\w+\(|\[\d", turns) is None


def scanned(turn: Callable[..., Any], x: Any, xs: Any = None, length: int | None = 40) -> Any:
    return tnf.scan(turn, x, xs, length=length)


ON_NUMBERS: dict[str, Case] = {
    "arithmetic": (lambda x, y: scanned(lambda c, _: (c * 0.5 + y / 3.0 - c, None), x), (X, Y)),
    "a matrix": (lambda x, a: scanned(lambda c, _: (tnf.sum(a * c, axis=1) * 0.5, None), x), (X, M)),
    "a transposed matrix": (lambda x, a: scanned(lambda c, _: (tnf.sum(a.T * c, axis=0), None), x), (X, M)),
    "three by three": (
        lambda x, a: scanned(lambda c, _: (((a * 0.5 + a.T) * tnf.concatenate([c, c, c]).reshape((3, 3)))[1] + c, None), x),
        (LONG[1:4], LONG[1:10].reshape(3, 3)),
    ),
    "choices": (lambda x, y: scanned(lambda c, _: (tnf.where(c < y, c * y, abs(c)), None), x), (X, Y)),
    "structure": (lambda x: scanned(lambda c, _: (tnf.flip(tnf.concatenate([c[1:], c[:1]])) + 1.0, None), x), (X,)),
    "places that are known": (lambda x: scanned(lambda c, _: (c[np.array([1, 0])].at[0].set(c[1]) * 2.0, None), x), (X,)),
    "rows that go in and come out": (lambda x, xs: scanned(lambda c, row: (c + row, c - row), x, xs), (X, np.ones((40, 2)))),
    "integers": (lambda x: scanned(lambda c, _: (c * 3 + tnf.sum(c), None), x), (np.arange(4),)),
    "one element": (lambda x: scanned(lambda c, _: (c * c + 1.0, None), x), (X[:1],)),
    "a loop in a loop": (
        lambda x, y: tnf.fori_loop(0, 5, lambda _, c: tnf.fori_loop(0, 3, lambda _, u: u * y + 1.0, c - y), x),
        (X, Y),
    ),
    "until a value": (lambda x: tnf.while_loop(lambda c: c[1] < 1.0, lambda c: c * 0.5 + 2.0, x), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_NUMBERS)
def test_small_values_are_numbers(name: str) -> None:
    function, arrays = ON_NUMBERS[name]
    text = turn_of(function, *arrays)
    assert is_on_numbers(text), text
    agrees(function, arrays)


ON_ARRAYS: dict[str, Case] = {
    "ten elements": (lambda x: scanned(lambda c, _: (c * 0.5 + 1.0, None), x), (LONG[:10],)),
    "nine of NumPy's numbers": (lambda x: scanned(lambda c, _: (c * c + c, None), x), (LONG[:9].astype("f4"),)),
    "halves": (lambda x: scanned(lambda c, _: (c * 0.5 + 1.0, None), x), (X.astype("f2"),)),
    "complex numbers": (lambda x: scanned(lambda c, _: (c * 0.5 + 1.0, None), x), (X + 1j,)),
    "a sum of three floats": (lambda x: scanned(lambda c, _: (x[:3] * tnf.sum(x[:3] * c), None), x[3:]),
                              (np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),)),
    "powers": (lambda x, y: scanned(lambda c, _: (tnf.pow(abs(c), y) + c, None), x), (X, Y)),
    "what functions read and give": (lambda x: scanned(lambda c, _: (tnf.exp(-c), None), x), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", ON_ARRAYS)
def test_what_does_not_pay_or_has_no_operators_stays_arrays(name: str) -> None:
    function, arrays = ON_ARRAYS[name]
    assert not is_on_numbers(turn_of(function, *arrays))
    agrees(function, arrays)


def test_powers_of_rows_are_numpys() -> None:
    """NumPy takes roots and squares for one exponent, and not for several."""
    function, arrays = ON_ARRAYS["powers"]
    assert " if " not in turn_of(function, *arrays)


def test_an_array_is_made_where_a_step_needs_one() -> None:
    def turn(c: Any, _: Any) -> Any:
        y = (c * 0.5 + 1.0) * (c - 2.0) / 3.0 + c * c
        return y, tnf.exp(y)

    text = turn_of(lambda x: scanned(turn, x), X)
    assert text.count("array([") == 1
    assert "multiply" not in text
    agrees(lambda x: scanned(turn, x), (X,))


def test_elements_are_read_where_an_array_is_there() -> None:
    def turn(c: Any, _: Any) -> Any:
        y = tnf.exp(c)
        return (y * 0.5 + y) * (y - 2.0) + y / 3.0 - y, None

    text = turn_of(lambda x: scanned(turn, x), X)
    (name,) = re.findall(r"(\w+) = exp\(", text)
    assert f"= {name}.item(0)" in text
    assert f"= {name}.item(1)" in text
    assert "multiply" not in text
    agrees(lambda x: scanned(turn, x), (X,))


def test_steps_of_a_group_read_numbers_that_have_other_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a group that is none any more."""
    monkeypatch.setattr(group, "SMALLEST", 1)

    def turn(c: Any, _: Any) -> Any:
        y = c / (tnf.sum(tnf.abs(c)) / c.size + 1.0)
        z = tnf.maximum(y, c)
        means = tnf.mean(tnf.abs(z)) + tnf.mean(tnf.abs(tnf.sin(z)))
        return tnf.tanh(c * 0.9 + means * 0.01), None

    x = np.full((1, 1, 1), 0.3)
    fn = lambda x: tnf.sum(scanned(turn, x, length=2)[0] ** 2)
    np.testing.assert_allclose(EXECUTOR.run(tnf.compile(fn, x), x), fn(x), rtol=1e-14)


def test_a_matrix_that_is_needed_as_an_array_stays_one() -> None:
    """Its rows could lie beside each other, or its columns, and products round accordingly."""
    turn = lambda c, _: ((c * 0.5 + 1.0 - c) @ c, None)
    assert "array([" not in turn_of(lambda x: scanned(turn, x), M)
    agrees(lambda x: scanned(turn, x), (M,))


def test_a_row_with_gaps_that_is_needed_as_an_array_stays_one() -> None:
    def turn(c: Any, _: Any) -> Any:
        y = tnf.concatenate([c, c])[::2]
        return y * 0.5 + c, tnf.exp(y)

    assert "[::2]" in turn_of(lambda x: scanned(turn, x), X) or "key]" in turn_of(
        lambda x: scanned(turn, x), X
    )
    agrees(lambda x: scanned(turn, x), (X,))


ANY: dict[str, Case] = {
    "no turns": (lambda x: scanned(lambda c, _: (c * 0.5, c + 1.0), x, length=0), (X,)),
    "backwards": (lambda x, xs: tnf.scan(lambda c, row: (c * row, c - row), x, xs, reverse=True), (X, LONG.reshape(50, 2))),
    "rows of matrices": (lambda x, xs: tnf.scan(lambda c, a: (c + a[0] * a[1], a * 2.0), x, xs), (X, LONG.reshape(25, 2, 2))),
    "rows that are known": (lambda x: tnf.scan(lambda c, row: (c * row, None), x, LONG.reshape(50, 2)), (X,)),
    "what is the same in every turn comes out": (lambda x, y: scanned(lambda c, _: (c * y, (y, c)), x), (X, Y)),
    "values that change places": (lambda x, y: scanned(lambda c, _: ((c[1], c[0] + c[1]), c[1]), (x, y)), (X, Y)),
    "one value in two carries": (lambda x: scanned(lambda c, _: ((c[0] * 2.0, c[0] * 2.0), None), (x, x)), (X,)),
    "a sum at a place": (lambda x: scanned(lambda c, _: (c.at[1].add(c[0]) * 0.25, None), x), (X,)),
    "a carry that stays": (lambda x, y: scanned(lambda c, _: ((c[0] * c[1], c[1]), None), (x, y)), (X, Y)),
    "a carry that ends as an operand": (lambda x, y: scanned(lambda c, _: (y, c * 0.5 - y), x), (X, Y)),
    "a matrix that is carried": (lambda a: scanned(lambda c, _: (c.T * 0.5 + 1.0, tnf.sum(c, axis=0)), a), (M,)),
    "a matrix by columns": (lambda a, x: scanned(lambda c, _: (tnf.sum(a * c, axis=1), None), x), (np.asfortranarray(M), X)),
    "a carry that counts": (
        lambda x: scanned(lambda c, _: ((c[0] + np.array([1, 2]), c[1] + tnf.take(LONG[:9], c[0][0] % 9)), None), (np.array([0, 5]), x)),
        (X,),
    ),
    "a condition of elements": (
        lambda x: tnf.while_loop(lambda c: tnf.logical_and(c[0][0] < 20.0, ~(c[1] > 7.0)), lambda c: (c[0] * 1.5, c[1] + c[0][1]), (x, 0.0)),
        (np.array([0.5, 0.1]),),
    ),
    "a condition of an array": (lambda x: tnf.while_loop(lambda c: tnf.sum(tnf.exp(c)) < 90.0, lambda c: c * 1.25 + 0.1, x), (abs(X),)),
    "a choice": (lambda x, y: scanned(lambda c, _: (tnf.cond(c[0] > 0, lambda c: c * y, lambda c: c - y, c), None), x), (X, Y)),
    "rows of loops in loops": (
        lambda x: tnf.fori_loop(0, 3, lambda _, c: c + tnf.scan(lambda u, _: (u * 0.5, u), c, None, length=4)[1][2], x), (X,),
    ),
    "gradient": (
        lambda x, y: tnf.grad(lambda x: tnf.sum(scanned(lambda c, _: (c * y - 0.1 * c * c, None), x)[0]))(x), (0.1 * X, Y),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANY)
def test_loops_of_small_values(name: str) -> None:
    function, arrays = ANY[name]
    before = [x.copy() for x in arrays]
    agrees(function, arrays)
    for x, unchanged in zip(arrays, before, strict=True):
        assert x.tobytes() == unchanged.tobytes()


@pytest.mark.parametrize(("size", "short", "long"), [(2, 1, 4), (9, 8, 40)])
def test_a_line_for_each_element_pays_in_a_hundred_runs(size: int, short: int, long: int) -> None:
    function = lambda n: lambda x: scanned(lambda c, _: (c * c + c, None), x, length=n)
    assert not is_on_numbers(turn_of(function(short), LONG[:size]))
    assert is_on_numbers(turn_of(function(long), LONG[:size]))


def test_known_numbers_of_float64_are_pythons() -> None:
    function = lambda x: scanned(lambda c, _: (c * 0.5 + c, None), x)
    for dtype, kind in (("f8", float), ("f4", np.float32)):
        (loop,) = [
            step for step in EXECUTOR.compile(tnf.compile(function, X.astype(dtype))).instructions
            if isinstance(step.op, Scan)
        ]  # fmt: skip
        assert {type(value) for value in loop.parts[-1].constants.values()} == {kind}


def test_many_numbers_beside_arrays_that_change_places() -> None:
    def inner(c: Any, w: Any) -> Any:
        return (c[0] * w + w, c[2], c[1]), None

    def turn(_: Any, c: Any) -> Any:
        small, w, *large = c
        y, *large = tnf.scan(lambda c, _: inner(c, w), (small, *large), None, length=3)[0]
        return y, w + y, *large

    arrays = (LONG[:9], LONG[9:18], LONG[:20], LONG[20:40])
    agrees(lambda *xs: tnf.fori_loop(0, 4, turn, xs), arrays)


def agrees(function: Callable[..., Any], arrays: Iterable[Any]) -> None:
    """Require the bits that the kernels of its ops give one by one, without a warning, in each of three runs."""
    arrays = tuple(arrays)
    program = tnf.compile(function, *arrays)
    expected = list(map(np.asarray, tnf.tree.leaves(BY_STEPS.run(program, *arrays))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs = [tnf.tree.leaves(EXECUTOR.run(program, *arrays)) for _ in range(3)]
    for results in runs:
        for y, exact in zip(map(np.asarray, results), expected, strict=True):
            assert (y.dtype, y.shape) == (exact.dtype, exact.shape)
            assert (np.isnan(y) == np.isnan(exact)).all()
            assert y[~np.isnan(y)].tobytes() == exact[~np.isnan(exact)].tobytes()


FLOATS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.5, 1e300, -1e-310, 0.1]
INTEGERS = [0, 1, -1, 7, -3, 2**31 - 1, -(2**31), 5, 2, -100]
OPS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y, "negate": lambda x, _: -x, "abs": lambda x, _: abs(x),
    "sqrt": lambda x, _: tnf.sqrt(x), "maximum": tnf.maximum, "minimum": tnf.minimum,
    "select": lambda x, y: lax.select(lax.lt(x, y), y, x),
    "masks": lambda x, y: lax.select((lax.ge(x, y) & ~lax.eq(x, y)) | lax.ne(y, y), x, y),
    "sum": lambda x, y: tnf.stack([tnf.sum(tnf.stack([x[0], y[1]]), dtype=x.dtype), tnf.sum(x, dtype=x.dtype)]),
    "sum of an axis": lambda x, y: tnf.sum(tnf.stack([x, y]), axis=0, dtype=x.dtype),
    "sum of squares": lambda x, y: tnf.sum(tnf.stack([x * x, y * y]), axis=1, dtype=x.dtype),
    "sum of one": lambda x, y: tnf.stack([tnf.sum(x[:1], dtype=x.dtype), tnf.sum(y[1:], dtype=x.dtype)]),
    "sign": lambda x, _: lax.sign(x), "clamp": lambda x, y: lax.clamp(y, x, x[::-1]),
    "power": lambda x, y: tnf.pow(x, y),
    "numbers": lambda x, y: tnf.stack([tnf.pow(x[0], y[0]), lax.sign(x[0]) + lax.clamp(x[0], y[0], x[1])]),
    "functions of numbers": lambda x, y: tnf.stack([tnf.exp(x[0]) / y[0], tnf.sqrt(y[1]) / tnf.sin(x[1])]),
    "repeated": lambda x, y: tnf.broadcast_to(x[:, None], (2, 2))[:, 1] * y,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "c16"])
@pytest.mark.parametrize("name", OPS)
def test_the_bits_of_arrays(name: str, dtype: str) -> None:
    """Each op between others, at zeros of both signs, infinities, NaN, and where integers wrap."""
    if dtype == "c16" and name in ("maximum", "minimum", "select", "masks", "clamp", "numbers"):
        pytest.skip("complex numbers have no order")
    if dtype[0] == "i" and name in ("divide", "sqrt", "functions of numbers"):
        pytest.skip("of floats")
    with np.errstate(all="ignore"):
        values = np.array(INTEGERS if dtype[0] == "i" else FLOATS).astype(dtype)
    pairs = np.stack(np.meshgrid(values, values), -1).reshape(-1, 2)
    rows = np.concatenate([pairs, pairs[::-1]], 1)  # two by two

    def turn(c: Any, row: Any) -> Any:
        y = OPS[name](row[::2], row[1::2])
        return c + (y + y) - y, (y, -y)

    function = lambda x, xs: tnf.scan(turn, x, xs)
    agrees(function, (np.zeros(2, dtype), rows))

"""Extents and specs as text.

It must be possible to parse printed text again, and parsing any text must end in a short time.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import TensorSpec, errors
from tenferro.dims import UNKNOWN, DimExpr, Symbol, SymDim, UpperBound, dim_max, dim_min, parse_dim
from tenferro.dims.polynomial import DEEPEST, HIGHEST_DEGREE, LARGEST_BITS, total
from tests.counting import at_most

NAMES = ("n", "m", "k2", "batch_size", "x", "x0", "min", "max", "if", "None", "_", "größe", "ﬁ")
LEAVES = [*map(SymDim, NAMES), SymDim.input_axis(0, 1), SymDim.input_axis(12, 3)]


def any_dim(random: Random) -> Any:
    """Return a random extent: an expression of a few symbols and numbers."""
    dims: list[Any] = random.choices(LEAVES, k=3)
    for _ in range(random.randrange(8)):
        lhs, rhs = random.choices([*dims, random.randrange(1, 10**6), 2], k=2)
        kind = random.choice(["+", "-", "*", "//", "%", "min", "max"])
        combine = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "//": lambda a, b: a // b if b != 0 else a,
            "%": lambda a, b: a % b if b != 0 else a,
            "min": dim_min,
            "max": dim_max,
        }[kind]
        dims.append(combine(lhs, rhs))
    return dims[-1]


def test_every_printed_extent_is_read_again() -> None:
    random = Random(5)
    for _ in range(600):
        dim = any_dim(random)
        assert parse_dim(str(dim)) == dim
        spec = TensorSpec.of((dim, 3, UpperBound(dim), UNKNOWN), TensorSpec((), "f4").dtype)
        assert TensorSpec.parse(str(spec)) == spec


def test_operations_inside_each_other_in_a_spec() -> None:
    n, m, k = map(SymDim, "nmk")
    spec = TensorSpec((dim_max(n, dim_min(m, k * 2)), 3, dim_min(dim_max(n, m), k)), "f8")
    assert TensorSpec.parse(str(spec)) == spec


def test_the_largest_extents_are_read_again() -> None:
    symbols = [SymDim(f"n{number}") for number in range(1000)]
    sum_, product = total(symbols), symbols[0]
    for symbol in symbols[1:HIGHEST_DEGREE]:
        product = product * symbol
    nested: Any = symbols[0]
    for symbol in symbols[1 : DEEPEST + 1]:
        nested = (nested + 1) // symbol
    for dim in (sum_, product, nested, symbols[0] * (2**LARGEST_BITS - 1)):
        assert parse_dim(str(dim)) == dim


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(n+1)*(n-1)", lambda n: n * n - 1),
        ("-n^2+3*n", lambda n: 3 * n - n * n),
        ("n - (2 - n)", lambda n: 2 * n - 2),
        ("7//2*n % 5", lambda n: 3 * n % 5),
        ("--n", lambda n: n),
        ("(n+2)^3", lambda n: (n + 2) ** 3),
        ("2^10*n", lambda n: 1024 * n),
        ("max (n, 3)", lambda n: max(n, 3)),
    ],
)
def test_arithmetic_of_text(text: str, value: Any) -> None:
    dim = parse_dim(text)
    for n in (4, 9):
        assert (dim if isinstance(dim, int) else dim.evaluate({Symbol("n"): n})) == value(n)


@pytest.mark.parametrize(
    "name", [3, True, 1.5, None, b"n", SymDim("n"), ["n"], "", "n m", "3n", "?"]
)
def test_a_symbol_is_named_by_an_identifier(name: Any) -> None:
    with pytest.raises(
        errors.InvalidConfigError, match="a symbol's name must be an identifier, got "
    ):
        SymDim(name)


def test_a_number_is_no_symbol() -> None:
    with pytest.raises(
        errors.InvalidConfigError, match="got 3; a known extent is written as an int"
    ):
        tnf.SymDim(3)  # pyright: ignore[reportArgumentType]  # because it raises


@pytest.mark.parametrize("place", [("a", 0), (0, 1.5), (-1, 0), (0, -1), (None, 0)])
@pytest.mark.parametrize("kind", [SymDim, DimExpr])
def test_an_axis_of_an_input_is_two_numbers(kind: Any, place: Any) -> None:
    with pytest.raises(errors.InvalidConfigError, match=r"input_axis: .* from 0, got "):
        kind.input_axis(*place)


HOSTILE = [
    "(n+m+k+l+p+q)^40",
    "((((n+1)^100)^10)^10)",
    "(((99999^9999)^9999)^9999)",
    "n^9999*m^9999",
    "99999^5000",
    "(n+m+k)^20",
    "n^-1",
    "n^m",
    "9" * 5000,
    "(" * 5000 + "n" + ")" * 5000,
    "max(a," * 3000 + "n" + ")" * 3000,
    "//".join(["n"] * 3000),
    "*".join(["n"] * 3000),
    "+".join([f"n{number}" for number in range(30_000)]),
    "-" * 20_000 + "n",
]
FOREIGN = ["", "n**2", "0x10", "1_0", "1.5", "1e3", "1j", "n,m", "(n", "n)", "n n", "3n", "+n", "n//0",
           "f(n)", "min(n)", "max(n, m, k)", "[n]", "n=3", "n if m else k", "'n'", "n.m", "n\x00"]  # fmt: skip


@pytest.mark.parametrize("text", [*HOSTILE, *FOREIGN])
def test_what_is_no_extent_is_refused_soon(text: str) -> None:
    with at_most(1_000_000), pytest.raises(errors.InvalidConfigError):
        parse_dim(text)


def test_the_work_is_in_proportion_to_the_text() -> None:
    with at_most(10_000_000):
        for number in range(300):
            with pytest.raises(errors.InvalidConfigError):
                parse_dim(f"(a{number}+b)^256")


@pytest.mark.parametrize(
    ("grown", "words"),
    [
        (lambda n, m: (n + m) * (n + 1), "degree|terms|parts"),
        (lambda n, m: n * m, "degree"),
        (lambda n, m: n * 10**9, "bits"),
        (lambda n, m: (n + 1) // m, "inside each other"),
        (lambda n, m: n // 3 * (n // 5), "parts"),
    ],
)
def test_arithmetic_without_end_is_refused(grown: Any, words: str) -> None:
    def grow() -> None:
        n, m = SymDim("n"), SymDim("m")
        for _ in range(400):
            n = grown(n, m)

    refusal = pytest.raises(
        errors.InvalidConfigError, match=f"symbolic extent is too large.*({words})"
    )
    with at_most(2_000_000), refusal:
        grow()


def test_axes_are_counted_before_they_are_read() -> None:
    assert TensorSpec.parse(f"f64[{','.join('1' * 64)}]").rank == 64
    for count in (65, 100_000):
        refusal = pytest.raises(errors.InvalidConfigError, match="axes; a tensor has at most 64")
        with at_most(2_000_000), refusal:
            TensorSpec.parse(f"f64[{','.join('1' * count)}]")


@pytest.mark.parametrize(
    ("extent", "actual", "n"),
    [("2*n", 6, 3), ("2*n", 2, 1), ("3*n - 1", 5, 2), ("2*n + 1", 7, 3), ("7 - n", 4, 3), ("n + 2", 5, 3),
     ("2*n", 5, None), ("3*n - 1", 6, None), ("2*n + 1", 8, None)],
)  # fmt: skip
def test_a_linear_extent_decides_its_symbol(extent: str, actual: int, n: int | None) -> None:
    program = tnf.compile(lambda x: tnf.ones((tnf.SymDim("n"),)) + x[0], tnf.TensorSpec((extent,), "float64"))  # fmt: skip
    x = np.zeros(actual)
    if n is None:
        with pytest.raises(errors.ShapeError):
            program.run(x)
    else:
        assert program.run(x).shape == (n,)


# ---- extents in arithmetic -------------------------------------------------------------------------

FUNCTIONS: dict[str, Any] = {
    "times": lambda x: x * x.shape[0],
    "before times": lambda x: x.shape[0] * x,
    "divided": lambda x: x / tnf.size(x),
    "minus": lambda x: x.shape[0] - x.shape[1] - x,
    "rest": lambda x: x * (x.shape[0] % 2 + x.shape[1] // 2),
    "before rest": lambda x: x.shape[1] % (x + 1),
    "power": lambda x: x ** x.shape[0],
    "less": lambda x: x < x.shape[0],
    "before less": lambda x: x.shape[0] < x,
    "root": lambda x: tnf.sqrt(x.shape[0]),
    "float32": lambda x: tnf.astype(x, "float32") / x.shape[0],
    "int8": lambda x: tnf.astype(x, "int8") * x.shape[0],
    "choice": lambda x: tnf.where(x > 2, x, x.shape[0]),
    "array": lambda x: tnf.asarray(x.shape[0] * x.shape[1] + 1),
    "average": lambda x: tnf.average(x, axis=0),
    "weights": lambda x: tnf.average(x, axis=0, returned=True)[1],
    "last": lambda x: tnf.at(x)[-1].add(1.0),
    "last ones": lambda x: tnf.at(x)[-2:, 1].set(7.0),
    "gradient": tnf.grad(lambda x: tnf.sum(x**2 * x.shape[0]) / tnf.size(x)),
    "each": lambda x: tnf.vmap(lambda row: row / row.shape[0])(x),
    "turn": lambda x: tnf.scan(lambda c, row: (c + row / x.shape[0], None), x[0], x)[0],
    "choices": lambda x: tnf.cond(x[0, 0] > 0, lambda y: y * x.shape[0], lambda y: y, x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_extents_are_operands(name: str) -> None:
    """Arithmetic with symbolic extents must have the values and dtypes of arithmetic with Python integers."""
    f = FUNCTIONS[name]
    program = tnf.compile(f, TensorSpec(("n", "m"), "float64"))
    for shape in ((2, 3), (5, 2)):
        x = np.arange(1.0, 1.0 + shape[0] * shape[1]).reshape(shape)
        wanted = tnf.compile(f, x).run(x)
        result = program.run(x)
        assert result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=1e-12)


def test_extents_in_a_list_say_what_to_write() -> None:
    spec = TensorSpec(("n", "m"), "float64")
    with pytest.raises(errors.DTypeError, match=r"tenferro\.stack"):
        tnf.compile(lambda x: tnf.asarray(list(x.shape)), spec)
    np.testing.assert_array_equal(
        tnf.compile(lambda x: tnf.stack(x.shape), spec).run(np.ones((2, 3))), [2, 3]
    )


def test_an_extent_outside_a_trace_is_no_operand() -> None:
    with pytest.raises(errors.NonStaticShapeError, match="extent n is a number in a trace only"):
        tnf.add(SymDim("n"), 1)


def test_comparisons_of_extents_have_the_answer_of_all_values() -> None:
    n, m = SymDim("n"), SymDim("m")
    assert all([n >= 0, n + 1 > n, n <= n + m, n < n + 1, n > -1, 0 <= n])  # noqa: SIM300  # because the extent is rhs
    assert not any([n < n, n > n + m, n + m < m, n < 0, 0 > n])  # noqa: SIM300


@pytest.mark.parametrize(
    "compare",
    [lambda n: n > 3, lambda n: n >= 1, lambda n: n < 3, lambda n: n <= 3, lambda n: max(n, 3)],
)
def test_a_comparison_of_extents_without_one_answer(compare: Any) -> None:
    with pytest.raises(errors.ConcretizationError, match="is unknown until the program runs"):
        compare(SymDim("n"))

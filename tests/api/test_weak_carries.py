"""Loop carries that start as Python numbers: the number of calls of the body, the resulting dtypes, and errors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.errors import DTypeError
from tests.levels import version_of

jax.config.update("jax_enable_x64", True)

SINGLE = np.ones(3, np.float32)
DOUBLE = np.ones(3)


class Counted:
    """Loop body that counts its calls."""

    def __init__(self, body: Callable[..., Any]) -> None:
        self.body = body
        self.calls = 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        return self.body(*arguments)


ONE_CALL: dict[str, tuple[Any, Any, Any]] = {
    "a float that meets doubles": (lambda c, x: (c + x, c), 0.0, DOUBLE),
    "a float alone": (lambda c, x: (2.0 * c + 1, c), 0.0, DOUBLE),
    "a counter beside singles": (lambda c, x: (c + 1, c * x), 0, SINGLE),
    "a counter beside an array": (lambda c, x: ((c[0] + 1, c[1] + x), None), (0, np.ones(())), DOUBLE),
    "a flag": (lambda c, x: (c & (x > 0), c), True, DOUBLE),
    "a complex number": (lambda c, x: (c * x, c), 1j, DOUBLE),
    "a number that is not read": (lambda c, x: (c, x), 1.5, SINGLE),
    "a shape and a dtype": (lambda c, x: (c + x.astype(c.dtype), c.shape), 0.0, DOUBLE),
}  # fmt: skip


@pytest.mark.parametrize(("body", "init", "xs"), ONE_CALL.values(), ids=ONE_CALL)
def test_a_body_is_called_once(body: Any, init: Any, xs: Any) -> None:
    counted = Counted(body)
    tnf.compile(lambda xs: tnf.scan(counted, init, xs), xs)
    assert counted.calls == 1


@pytest.mark.parametrize("max_steps", [None, 6])
def test_a_while_is_called_once(max_steps: int | None) -> None:
    goes_on, body = Counted(lambda c: c[1] < 10.0), Counted(lambda c: (c[0] + 1, c[1] * 2))
    assert tnf.while_loop(goes_on, body, (0, 1.0), max_steps=max_steps) == (4, 16.0)
    assert (goes_on.calls, body.calls) == (1, 1)


@pytest.mark.parametrize(
    ("body", "init", "dtype"),
    [
        (lambda c, x: (c + x, c), 0.0, "float32"),
        (lambda c, x: (c + x, c), 0, "float32"),
        (lambda c, x: (c / 2, c * x), 1, "float64"),
        (lambda c, x: (tnf.lax.add(c, x), c), 0.0, "float32"),
        (lambda c, x: (c + x, (c * 2 - 1) * tnf.lax.mul(c, 3.0)), 0.0, "float32"),
    ],
)
def test_a_body_whose_number_takes_another_dtype_is_called_twice(
    body: Any, init: Any, dtype: str
) -> None:
    counted = Counted(body)
    last, steps = tnf.scan(counted, init, SINGLE)
    assert (last.dtype, steps.dtype) == (dtype, dtype)
    assert counted.calls == 2


def test_a_number_that_comes_back_as_a_tensor_decides_as_one() -> None:
    """If a carry starts as a number and is float64 after one step, it must be float64 in all steps.

    Products with it are float64, too.
    """
    counted = Counted(lambda c, x: (c + np.float64(1), c * x))
    last, products = tnf.scan(counted, 0.0, SINGLE)
    assert (last.dtype, products.dtype) == ("float64", "float64")
    assert counted.calls == 2


def test_an_inner_loop_tells_the_outer_one_how_it_decided() -> None:
    products = tnf.scan(
        lambda c, _: (c + np.float64(1), tnf.scan(lambda d, x: (d, d * x), c, SINGLE)[1]),
        0.0,
        length=2,
    )[1]
    assert products.dtype == "float64"


BODIES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a sum": lambda n, c, x: (c + x, c),
    "numbers alone": lambda n, c, x: (2 * c + 1, c * x),
    "a wider number": lambda n, c, x: (c * 0.5, c * x),
    "a function": lambda n, c, x: (n.sin(c) + x, c),
    "a choice": lambda n, c, x: (n.where(c > 0, c, 1), n.where(c > 0, c, x)),
    "integers": lambda n, c, x: (c // 2, (c // 2) * x + c**2),
    "an extremum": lambda n, c, x: (n.maximum(c, 2.0), n.maximum(c, 1) * x),
    "a modulus": lambda n, c, x: (abs(c), abs(-c) + x),
    "a number": lambda n, c, x: (3.0, c + x),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("init", [1.5, 2])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_types_are_jaxs(body: Any, init: Any, dtype: str) -> None:
    if body is BODIES["integers"] and version_of("jax") < (0, 10, 2):
        pytest.skip("a weak number divided by // is weak since jax 0.10.2")
    xs = np.ones(3, dtype)
    theirs = jax.eval_shape(lambda xs: jax.lax.scan(partial(body, jnp), init, xs), xs)
    ours = tnf.eval_shape(lambda xs: tnf.scan(partial(body, tnf), init, xs), xs)
    assert [str(x.dtype) for x in ours] == [str(x.dtype) for x in theirs]


OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]


@pytest.mark.parametrize("apply", OPERATORS)
@pytest.mark.parametrize("number", [3, 0.5])
@pytest.mark.parametrize("init", [2, 1.5])
def test_arithmetic_on_numbers_gives_numbers(apply: Any, number: Any, init: Any) -> None:
    """Arithmetic on a weakly typed carry must equal Python's.

    The result must be weakly typed, too, so that its product with a float16 is float16.
    """
    half = np.float16(1)
    for left, right in [(lambda c: c, lambda c: number), (lambda c: number, lambda c: c)]:
        steps = tnf.scan(
            lambda c, _, one=left, other=right: (c, apply(one(c), other(c)) * half), init, length=1
        )[1]
        expected = apply(left(init), right(init)) * half
        assert steps.dtype == np.float16
        np.testing.assert_allclose(steps[0], expected, rtol=1e-3)


@pytest.mark.parametrize("apply", [operator.neg, operator.pos, abs])
def test_signs_of_numbers_are_numbers(apply: Any) -> None:
    steps = tnf.scan(lambda c, _: (c, apply(c) + np.float16(1)), -2.0, length=1)[1]
    assert (steps.dtype, steps[0]) == (np.float16, apply(-2.0) + 1)


def test_a_cast_ends_a_number() -> None:
    for cast in (lambda c: c.astype("float64"), lambda c: tnf.lax.convert_element_type(c, "f8")):
        steps = tnf.scan(lambda c, x, cast=cast: (c, cast(c) + x), 0.0, SINGLE)[1]
        assert steps.dtype == "float64"


def test_numbers_of_an_outer_loop_are_numbers_in_an_inner_one() -> None:
    inner = Counted(lambda c, x: (c + x, None))
    outer = Counted(lambda i, c: tnf.scan(inner, c, SINGLE)[0])
    total = tnf.fori_loop(0, 2, outer, 0.0)
    assert (total, total.dtype) == (6.0, "float32")
    assert outer.calls == 2
    branch = tnf.fori_loop(
        0, 2, lambda i, c: tnf.cond(i > 0, lambda: c, lambda: c + SINGLE[0]), 0.0
    )
    assert (branch, branch.dtype) == (1.0, "float32")


def test_an_error_of_the_first_call_is_the_users() -> None:
    """An error in the body's first call must reach the user, whatever its class.

    This holds even if a second trace of the body would succeed.
    """
    for kind in (ValueError, TypeError, AttributeError, errors.ShapeError):
        counted = Counted(lambda c, kind=kind: (_ for _ in ()).throw(kind("mine")))
        with pytest.raises(kind, match="mine"):
            tnf.while_loop(lambda c: c < 3, counted, 0)
        assert counted.calls == 1


def test_a_decision_by_the_number_is_refused_at_once() -> None:
    counted = Counted(lambda c: c + 1 if c > 0 else c - 1)
    with pytest.raises(errors.ConcretizationError, match="where"):
        tnf.while_loop(lambda c: c < 3, counted, 1)
    assert counted.calls == 1


def test_numbers_are_not_cut_to_integers() -> None:
    assert tnf.fori_loop(0, 3, lambda i, c: 0.5, 0) == 0.5
    for fraction in (lambda c: 0.5, lambda c: c * 0.5):
        with pytest.raises(DTypeError, match=r"f64\[\].*i64\[\]"):
            tnf.fori_loop(0, 3, lambda i, c, fraction=fraction: fraction(c), np.int64(1))

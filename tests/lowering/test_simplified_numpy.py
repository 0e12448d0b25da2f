"""Exported NumPy files must be as short as a person would write them, and their results must not change."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering.to_numpy import to_numpy
from tenferro.dispatch import apply
from tenferro.ops.indexing import DynamicSlice, Scatter
from tenferro.types import flatten
from tests.lowering.test_to_numpy import function_of
from xla_peer.numpy_simplification import simplified

RNG = np.random.default_rng(3)
X, V = RNG.normal(size=(4, 4)), RNG.normal(size=4)
POSITION = np.int32(2)


def element(x: Any, i: Any) -> Any:
    """Return x[i] for an index that is clipped to be in bounds."""
    return tnf.reshape(apply(DynamicSlice((1,)), x, i)[0], ())


def with_row(combiner: str) -> Callable[..., Any]:
    """Return a function that combines a row of x at a position with v."""
    op = Scatter((0,), (0,), (), (), (0,), 0, combiner)
    return lambda x, v, i: apply(op, x, tnf.broadcast_to(i, (1,)), v)[0]


def counted(x: Any) -> Any:
    return tnf.fori_loop(0, 4, lambda i, c: c * x[i] + i, 1.0)


def recurrence(p: Any, x: Any) -> Any:
    """Return rows h + p for the states h of a linear recurrence."""

    def step(h: Any, r: Any) -> Any:
        h = h * p["h_2"] + r
        return h, h + p["h_2"]

    return tnf.scan(step, x[0], x)[1]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "a rotation": (lambda x: tnf.roll(x, 1, axis=1), (X,), ["return np.roll(x, 1, axis=1)"]),
    "a mask": (
        lambda x: tnf.where(tnf.arange(4)[:, None] >= tnf.arange(4), x, 0.0),
        (X,),
        ["return np.where(np.tri(4, dtype=np.bool_), x, 0.0)"],
    ),
    "an identity": (
        lambda x: x + tnf.astype(tnf.arange(4)[:, None] == tnf.arange(4), "float64"),
        (X,),
        ["return x + np.eye(4)"],
    ),
    "an element at a computed position": (
        lambda x, i: element(x, i) * 2.0,
        (V, POSITION),
        ["return take(x, i) * 2.0"],
    ),
    "an element at a constant position": (
        lambda x: element(x, np.int32(7)),
        (V,),
        ["return x[-1]"],
    ),
    "a row that is replaced": (
        with_row("set"),
        (X, V, POSITION),
        ["return np.where((np.arange(4) == i)[:, None], v, x)"],
    ),
    "a row to which another is added": (
        with_row("add"),
        (X, V, POSITION),
        ["return np.where((np.arange(4) == i)[:, None], x + v, x)"],
    ),
    "a diagonal": (
        lambda x: x[tnf.arange(4), tnf.arange(4)],
        (X,),
        ["return x[np.arange(4), np.arange(4)]"],
    ),
    "one iteration": (
        lambda x: tnf.scan(lambda c, r: (c + r, c * r), x[0], x[1:2])[1],
        (X,),
        ["return (x[0] * x[1])[None]"],
    ),
    "a softmax": (lambda x: tnf.softmax(x), (X,), ["return softmax(x, axis=1)"]),
    "a logarithm of a softmax": (
        lambda x: tnf.log_softmax(x, axis=0),
        (X,),
        ["return x - logsumexp(x, axis=0, keepdims=True)"],
    ),
    "a logarithm of a sum": (
        lambda x: tnf.logsumexp(x, axis=1) * tnf.logsumexp(x[0]),
        (X,),
        ["return logsumexp(x, axis=1) * logsumexp(x[0])"],
    ),
    "a derivative of a logarithm of a sum": (
        tnf.grad(lambda x: tnf.sum(tnf.logsumexp(x, axis=1))),
        (X,),
        ["shares_value = shares(x, axis=1)"],
    ),
    "a derivative of tanh": (
        tnf.grad(lambda x: tnf.sum(tnf.tanh(x))),
        (X,),
        ["return sech_squared(x, np.tanh(x))"],
    ),
    "a derivative of the logistic function": (
        tnf.grad(lambda x: tnf.sum(tnf.nn.sigmoid(x))),
        (X,),
        ["return logistic_slope(x)"],
    ),
    "a row that reads the new state": (
        recurrence,
        ({"h_2": np.int64(2)}, np.arange(4)),
        ['h = h * p["h_2"] + x[t]', 'rows.append(h + p["h_2"])'],
    ),
    "a square": (lambda x: tnf.sum((x - 1.0) ** 2), (X,), ["return np.sum((x - 1.0)**2)"]),
    "a square of a number": (
        lambda x: (x[0] - 1.0) ** 2,
        (V,),
        ["subtract = x[0] - 1.0", "return subtract * subtract"],
    ),
    "a counter": (counted, (V,), ["for t in np.arange(4):", "carry = carry * take(x, t) + t"]),
}


def exported(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the exported file of a function, after a comparison of its results with native ones."""
    program = tnf.compile(function, *arguments)
    source = xla_peer.export(program, format="numpy")
    expected = flatten(program.run(*arguments))[0]
    results = flatten(function_of(source)(*arguments))[0]
    for y, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(y, other)
        assert np.asarray(y).dtype == other.dtype
    return source


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_expressions_are_those_of_a_person(case: Any) -> None:
    function, arguments, texts = case
    source = exported(function, *arguments)
    for text in texts:
        assert text in source.text
    again = function_of(source)
    for y, expected in zip(
        flatten(tnf.compile(again, *arguments).run(*arguments))[0],
        flatten(tnf.compile(function, *arguments).run(*arguments))[0],
        strict=True,
    ):
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("position", [-5, -1, 0, 3, 4, 9])
def test_positions_out_of_bounds_are_those_of_the_ops(position: int) -> None:
    i = np.int32(position)
    exported(element, V, i)
    exported(with_row("set"), X, V, i)


def flow(y: Any, p: Any) -> Any:
    a = y[1] * p[0] + tnf.sin(y[0])
    return tnf.stack([a * y[0], y[1] - a * a])


def steps(y: Any, p: Any) -> Any:
    for h in (0.1, 0.2, 0.3):
        y = y + h * flow(y, p)
    return tnf.sum(flow(y, p))


def test_repeated_calls_of_a_function_are_calls_of_one_function(tmp_path: Path) -> None:
    y, p = RNG.normal(size=2), RNG.normal(size=1)
    for function in (steps, lambda y, p: tnf.scan(lambda c, _: (steps(c, p) * c, c), y, None, 3)):
        source = exported(function, y, p)
        assert source.text.count("def flow(") == 1
        assert source.text.count(" flow(") == 5
        path = tmp_path / "f.py"
        path.write_text(source.text)
        written = runpy.run_path(str(path))[source.name]
        total = lambda f: lambda y, p: sum(map(tnf.sum, flatten(f(y, p))[0]))
        for mine, theirs in zip(
            tnf.grad(total(function), (0, 1))(y, p),
            tnf.grad(total(written), (0, 1))(y, p),
            strict=True,
        ):
            np.testing.assert_allclose(theirs, mine, rtol=1e-13)


def test_equal_branches_are_written_once() -> None:
    branches = [lambda x: x * 2.0, lambda x: x * 2.0, lambda x: x + 1.0]
    for i in (-1, 0, 1, 2, 5):
        source = exported(lambda x, i: tnf.lax.switch(i, branches, x), V, np.int32(i))
        assert "(clamp == 0) | (clamp == 1)" in source.text


def test_simplified_programs_have_the_same_symbols() -> None:
    program = tnf.compile(lambda x: tnf.sum(tnf.sin(x) * 2.0), tnf.TensorSpec(("n",), "float64"))
    assert simplified(program).input_specs == program.input_specs


def test_long_chains_that_move_elements_are_outlined() -> None:
    """A function must not recurse along a chain of ops, because the stack of Python is limited."""

    def mixed(x: Any) -> Any:
        for _ in range(520):
            x = tnf.reshape(tnf.transpose(x), (3, 4))
        y = tnf.exp(tnf.sin(x) * 2.0) + x
        return tnf.tanh(y) - x

    x = RNG.normal(size=(3, 4))
    program = tnf.compile(lambda x: mixed(mixed(mixed(x))), x)
    shorter = simplified(program)
    assert len(shorter.instructions) < 10
    np.testing.assert_array_equal(shorter.run(x), program.run(x))


def formula_and_call(function: Callable[..., Any], x: Any) -> None:
    """Compare the results of a file that contains the formulas with those of a file that calls functions."""
    program = tnf.compile(function, x)
    source = xla_peer.export(program, format="numpy")
    assert source.text.count("def ") > 1
    expected, result = function_of(to_numpy(program))(x), function_of(source)(x)
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == expected.dtype


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_calls_of_library_functions_have_the_bits_of_their_formulas(dtype: str) -> None:
    """A call must replace a formula at infinities, NaN, signed zeros and large numbers, too."""
    x = np.full((6, 4), 0.25, dtype)
    x[0], x[1], x[2, 1], x[3, :2], x[4] = np.inf, -np.inf, np.nan, np.inf, [0.0, -0.0, 800.0, -90.0]
    for axis in (0, 1, None):
        for function in (tnf.softmax, tnf.log_softmax, tnf.logsumexp):
            one = lambda x, f=function, axis=axis: f(x, axis=axis)
            formula_and_call(one, x)
            formula_and_call(tnf.grad(lambda x, f=one: tnf.sum(f(x) ** 2)), x)
    for slope in (tnf.tanh, tnf.nn.sigmoid):
        formula_and_call(tnf.grad(lambda x, f=slope: tnf.sum(f(x))), x)


def test_a_softmax_along_an_axis_of_a_static_extent_is_a_call_for_symbolic_shapes() -> None:
    spec = tnf.TensorSpec(("n", 4), "float64")
    source = xla_peer.export(lambda x: tnf.softmax(x), spec, format="numpy")
    assert "return softmax(x, axis=1)" in source.text
    source = xla_peer.export(lambda x: tnf.softmax(x, axis=0), spec, format="numpy")
    assert "return softmax(" not in source.text
    np.testing.assert_array_equal(function_of(source)(np.ones((0, 4))), np.ones((0, 4)))


def test_a_local_variable_with_the_name_of_a_library_function_gets_another_name() -> None:
    def weighted(x: Any) -> Any:
        softmax = tnf.softmax(x)
        return softmax * softmax

    assert "softmax_2 = softmax(x, axis=1)" in exported(weighted, X).text

"""Exceeding a limit of NumPy, of memory or of Python's stack must raise tenferro's errors.

This holds for calls on arrays and in programs.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro import errors
from tenferro.graph import SourceLine

LARGE = (1 << 33, 1 << 33)
MANY = (1,) * 65


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tnf.reshape(np.zeros(1), MANY), r"Reshape: .*f64\[1,1.*64"),
        (lambda: tnf.expand_dims(np.zeros(1), tuple(range(64))), r"f64\[1,1.*64"),
        (lambda: tnf.broadcast_to(np.zeros(1), MANY), r"BroadcastInDim: .*f64\[1,1.*64"),
        (lambda: tnf.zeros(MANY), r"full: f64\[1,1.*64"),
        (lambda: tnf.zeros(LARGE), r"full: f64\[8589934592,8589934592\]"),
        (lambda: tnf.ones((1 << 23, 1 << 23), dtype="i1"), r"full: i8\[8388608,8388608\]"),
        (lambda: tnf.broadcast_to(np.zeros(1), LARGE), r"BroadcastInDim: .*f64\[8589934592"),
        (lambda: tnf.pad(np.zeros(3), 1 << 60), r"Pad: .*f64\["),
        (lambda: tnf.eye(1 << 33), "eye: 8589934592 by 8589934592"),
        (lambda: tnf.arange(1 << 62), "arange: 0 to 4611686018427387904"),
        (lambda: tnf.linspace(0, 1, 1 << 50), "linspace: 1125899906842624 points"),
        (lambda: tnf.random.uniform(tnf.random.key(0), MANY), "64"),
    ],
)
def test_what_numpy_cannot_hold(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(errors.BackendFailureError, match=words) as told:
        call()
    assert isinstance(told.value, tnf.TenferroError)


def test_programs_and_traces_say_it_with_the_line() -> None:
    for shape in (MANY, LARGE):
        program = tnf.compile(lambda x, to=shape: tnf.broadcast_to(x, to) + 1, np.zeros(1))
        with pytest.raises(errors.BackendFailureError, match=r"test_native_limits\.py:\d+ in"):
            program.run(np.zeros(1))


FAR = 1 << 62
EMPTY = np.zeros(0)


@pytest.mark.parametrize("options", [{}, {"compiled": False}, {"segmented": False}])
@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda x: tnf.reshape(x, (-1, FAR, 4)), "Reshape"),
        (lambda x: tnf.sum(tnf.reshape(x, (0, FAR, 4)), axis=0), "Reshape"),
        (lambda x: tnf.broadcast_to(tnf.reshape(x, (0, 1)), (0, FAR)), "BroadcastInDim"),
        (lambda x: tnf.pad(tnf.reshape(x, (0, 1)), ((0, 0), (0, FAR))), "BroadcastInDim"),
        (lambda x: tnf.pad(x, ((0, FAR),)), r"Pad|BroadcastInDim"),
        (lambda x: tnf.tile(tnf.reshape(x, (0, 1)), (1, FAR)), "BroadcastInDim"),
        (lambda x: tnf.tile(x, (FAR,)), "BroadcastInDim"),
        (lambda x: tnf.repeat(tnf.reshape(x, (0, 1)), FAR, axis=1), "BroadcastInDim"),
        (lambda x: tnf.reshape(x, (0, 1 << 40, 1)) * tnf.reshape(x, (0, 1, 1 << 40)), "InDim"),
        (lambda x: tnf.matmul(tnf.reshape(x, (FAR, 0)), tnf.reshape(x, (0, FAR))), "Reshape|Dot"),
        (lambda x: tnf.full((0, FAR, 4), 1.0) + x[0], "full"),
        (lambda x: tnf.zeros((0, 1 << 70)), "full"),
        (lambda x: tnf.arange(FAR) + x[0], "arange"),
    ],
)
def test_extents_beyond_every_array_beside_empty_ones(fn: Any, words: str, options: Any) -> None:
    executor = tnf.GraphExecutor(**options)
    with pytest.raises(errors.BackendFailureError, match=words) as told:
        executor.run(tnf.compile(fn, EMPTY), EMPTY)
    assert "test_native_limits.py" in (told.value.source or "")  # the source is a string


def test_joined_extents_beyond_64_bits() -> None:
    """The sum of these extents exceeds 64 bits, and must be an error.

    NumPy's sum would wrap to 0, and the result would have the shape (0, 0).
    """
    parts = [np.zeros((0, 1 << 59))] * 32
    join = lambda parts: tnf.concat(parts, axis=1)
    for run in (join, lambda parts: tnf.compile(join, parts)):
        with pytest.raises(errors.ShapeError, match=r"axis 1 add up to 18446744073709551616"):
            run(parts)


def test_an_argument_that_numpy_does_not_have() -> None:
    program = tnf.compile(lambda x: x + 1.0, tnf.TensorSpec((0, FAR, 4), "f8"))
    assert "Add" in str(tnf.GraphExecutor().compile(program))


@pytest.mark.parametrize("order", ["C", "F", "K"])
def test_a_view_that_is_a_result_and_fits_nowhere(order: Any) -> None:
    """A broadcast view of 10**18 rows needs no memory.

    As a result it would need a copy of 3 EB, which must be an error.
    """
    program = tnf.compile(lambda x: tnf.broadcast_to(x, (10**18, 3)), np.ones(3, bool))
    executor = tnf.GraphExecutor(order=order)
    with pytest.raises(
        errors.BackendFailureError, match=r"BroadcastInDim: .*bool\[1000000000000000000,3\]"
    ) as told:
        executor.run(program, np.ones(3, bool))
    assert "test_native_limits.py" in (told.value.source or "")  # the source is a string


@pytest.mark.parametrize("triangle", [tnf.tril, tnf.triu])
def test_diagonals_beyond_every_extent(triangle: Callable[..., Any]) -> None:
    """|k| may be at most 2^62.

    The lowered module adds k and a row index in int64, which must not overflow.
    """
    x = np.ones((2, 3))
    for k in (-(1 << 62), 1 << 62):
        at_bound = tnf.compile(lambda x, k=k: triangle(x, k), x)
        is_whole = (k > 0) == (triangle is tnf.tril)
        np.testing.assert_array_equal(at_bound.run(x), x * is_whole)
        module = lowering.lower_to_stablehlo(at_bound)
        assert f"dense<{k}>" in module.text
        for beyond in (2 * k, 2 * k - 1, 10**30 * k, k + (1 if k > 0 else -1)):
            with pytest.raises(errors.InvalidConfigError, match=r"Tri[lu]: k must be at"):
                triangle(x, beyond)


Function: TypeAlias = Callable[[Any], Any]


def with_derivative(f: Function) -> Function:
    """Return a function with the values of `f` and a custom derivative, cos(x), which is that of tnf.sin."""
    function = tnf.custom_jvp(f)
    function.defjvp(lambda x, dx: (f(x[0]), tnf.cos(x[0]) * dx[0]))
    return function


NESTED: dict[str, Callable[[Function], Function]] = {
    "cond": lambda f: lambda x: tnf.cond(tnf.sum(x) > 0, f, lambda x: x, x),
    "switch": lambda f: lambda x: tnf.switch(0, [f, tnf.cos], x),
    "fori_loop": lambda f: lambda x: tnf.fori_loop(0, 1, lambda _, y: f(y), x),
    "while_loop": lambda f: (
        lambda x: tnf.while_loop(lambda y: y[1] < 1, lambda y: (f(y[0]), y[1] + 1), (x, 0))[0]
    ),
    "scan": lambda f: lambda x: tnf.scan(lambda y, _: (f(y), None), x, None, length=1)[0],
    "map": lambda f: lambda x: tnf.map(f, x[None])[0],
    "jit": tnf.jit,
    "checkpoint": tnf.checkpoint,
    "custom_jvp": lambda f: with_derivative(f),
}
SMALL = np.array([0.25, 0.5])


def nested(kind: str, depth: int) -> Function:
    """Return tnf.sin inside `depth` nested loops, branches or calls.

    The kind "mixed" alternates between the three.
    """
    kinds = [*NESTED] if kind == "mixed" else [kind]
    fn: Function = tnf.sin
    for number in range(depth):
        fn = NESTED[kinds[number % len(kinds)]](fn)
    return fn


def from_below(frames: int, call: Callable[[], Any]) -> Any:
    """Call a function from a stack with `frames` additional frames, and return its result."""
    return from_below(frames - 1, call) if frames else call()


@pytest.mark.parametrize(("depth", "frames"), [(300, 0), (60, 250)])
@pytest.mark.parametrize(
    "run",
    [
        lambda fn: tnf.compile(fn, SMALL),
        lambda fn: fn(SMALL),
        lambda fn: tnf.jit(fn)(SMALL),
        lambda fn: tnf.jvp(fn, (SMALL,), (SMALL,)),
        lambda fn: tnf.grad(lambda x: tnf.sum(fn(x)))(SMALL),
        lambda fn: tnf.vmap(fn)(SMALL[None]),
    ],
)
@pytest.mark.parametrize("kind", [*NESTED, "mixed"])
def test_nesting_beyond_the_limit(kind: str, depth: int, run: Any, frames: int) -> None:
    fn = nested(kind, depth)
    with pytest.raises(errors.UnsupportedError, match=r"nested 51 deep; the limit is 50"):
        from_below(frames, lambda: run(fn))


@pytest.mark.parametrize(
    ("kind", "frames"), [*[(kind, 0) for kind in NESTED], ("mixed", 0), ("mixed", 250)]
)
def test_nesting_up_to_the_limit(kind: str, frames: int, tmp_path: Path) -> None:
    """Nesting of 49 levels must work.

    Together with the outermost trace, there are fifty levels, which is the limit.
    """
    fn = nested(kind, 49)
    interpreter = tnf.GraphExecutor(compiled=False)
    program = from_below(frames, lambda: tnf.compile(fn, SMALL))
    derivative = tnf.compile(lambda x: tnf.jvp(fn, (x,), (x,))[1], SMALL)

    def run_all() -> None:
        np.testing.assert_array_equal(interpreter.run(program, SMALL), np.sin(SMALL))
        np.testing.assert_allclose(interpreter.run(derivative, SMALL), SMALL * np.cos(SMALL))
        for each in (program, derivative):
            assert str(each)
            assert str(interpreter.compile(each))
            assert interpreter.source(each)
            assert interpreter.memory_plan(each)
            tnf.save(each, tmp_path / "program.tnf")
            assert tnf.load(tmp_path / "program.tnf").identity == each.identity
            assert pickle.loads(pickle.dumps(each)).identity == each.identity
            assert lowering.lower_to_stablehlo(each).text
        module = lowering.lower_to_stablehlo(program)
        np.testing.assert_array_equal(
            lowering.import_stablehlo(module.text).run(SMALL), np.sin(SMALL)
        )
        if kind not in ("while_loop", "mixed"):
            tnf.compile(tnf.grad(lambda x: tnf.sum(fn(x))), SMALL)
        tnf.compile(tnf.vmap(fn), SMALL[None])

    from_below(frames, run_all)


MANY_OPERANDS = """
from tenferro.graph import Graph
from tenferro.ops.structural import Concatenate
from tenferro.types import TensorSpec
graph = Graph()
x = graph.add_input(TensorSpec.parse("f64[1]"))
(y,) = graph.add(Concatenate(0, 200_000), (x,) * 200_000)
assert graph.types[y].shape == (200_000,)
"""


def test_an_operation_of_many_operands() -> None:
    ended = subprocess.run([sys.executable, "-c", MANY_OPERANDS], check=False)
    assert ended.returncode == 0


def test_a_place_without_a_function() -> None:
    assert str(SourceLine("<stablehlo>", 1, "")) == "<stablehlo>:1"
    assert (
        str(SourceLine("<stablehlo>", 1, "").of("Sin")) == "<stablehlo>:1, in the derivative of Sin"
    )
    assert str(SourceLine("model.py", 1, "loss")) == "model.py:1 in loss"


def test_the_root_of_all_errors_is_at_the_top() -> None:
    assert tnf.TenferroError is errors.TenferroError
    assert "TenferroError" in tnf.__all__


def test_constants_of_more_axes_than_numpy_iterates_over() -> None:
    """Constants must be allowed to have more axes than 32, the maximum of NumPy's `flat`."""
    for shape in ((1,) * 50, (1,) * 49 + (2,), (1,) * 49 + (100,)):
        for constant in (np.full(shape, 2.0), np.arange(float(shape[-1])).reshape(shape)):
            program = tnf.compile(lambda x, c=constant: x * c, np.ones(shape))
            module = lowering.lower_to_stablehlo(program)
            imported = lowering.import_stablehlo(module.text)
            np.testing.assert_array_equal(imported.run(np.ones(shape)), constant)

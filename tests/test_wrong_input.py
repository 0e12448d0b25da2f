"""Wrong input must raise an error of the right class, with a helpful message and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.errors import TenferroError
from tenferro.ops import STD_OPS, StdTensorOp
from tests.samples import SAMPLES

X = np.arange(3.0)
VECTOR = tnf.TensorSpec((3,), "float64")
MATRIX = tnf.TensorSpec((2, 3), "float64")
COMPLEX = tnf.TensorSpec((3,), "complex128")
SYMBOLIC = tnf.TensorSpec(("n",), "float64")

Case = tuple[Callable[..., Any], tuple[Any, ...], type[Exception], list[str]]

TRACED: dict[str, Case] = {
    "shapes": (
        lambda x, y: x + y,
        (VECTOR, tnf.TensorSpec((4,), "float64")),
        errors.ShapeError,
        ["3", "4", "axis -1"],
    ),
    "matmul": (
        lambda x: x @ x,
        (MATRIX,),
        errors.ShapeError,
        ["DotGeneral", "f64[2,3]", "3 and 2"],
    ),
    "reshape": (
        lambda x: tnf.reshape(x, (2, 2)),
        (VECTOR,),
        errors.ShapeError,
        ["Reshape", "f64[3]", "(2, 2)"],
    ),
    "row-major reshape": (
        lambda x: tnf.reshape(x, (4, 2)),
        (MATRIX,),
        errors.ShapeError,
        ["f64[2,3]", "(4, 2)"],
    ),
    "axis": (lambda x: tnf.sum(x, axis=3), (VECTOR,), errors.AxisError, ["sum", "axis 3"]),
    "axis twice": (lambda x: tnf.sum(x, axis=(0, 0)), (VECTOR,), errors.AxisError, ["twice"]),
    "axis is IndexError": (lambda x: tnf.sum(x, axis=3), (VECTOR,), IndexError, []),
    "index": (lambda x: x[5], (VECTOR,), errors.OutOfBoundsError, ["5", "axis 0", "extent 3"]),
    "too many indices": (lambda x: x[0, 0], (VECTOR,), errors.OutOfBoundsError, ["2 indices"]),
    "float index": (lambda x: x[1.0], (VECTOR,), errors.DTypeError, ["index"]),
    "mask": (lambda x: x[x > 0], (VECTOR,), errors.DataDependentShapeError, ["where("]),
    "two dots": (lambda x: x[..., ...], (VECTOR,), errors.InvalidConfigError, ["Ellipsis"]),
    "dtype": (
        lambda x: tnf.bitwise_and(x, x),
        (VECTOR,),
        errors.DTypeError,
        ["And", "float64", "accepted"],
    ),
    "order": (lambda x: x < x, (COMPLEX,), errors.DTypeError, ["LT", "complex128"]),
    "condition": (
        lambda x: tnf.select([x], [x]),
        (VECTOR,),
        errors.DTypeError,
        ["select", "bool", "f64[3]"],
    ),
    "perm": (
        lambda x: tnf.permute_dims(x, (0, 0)),
        (MATRIX,),
        errors.ShapeError,
        ["Transpose", "(0, 0)", "f64[2,3]"],
    ),
    "broadcast": (
        lambda x: tnf.broadcast_to(x, (2, 4)),
        (VECTOR,),
        errors.ShapeError,
        ["BroadcastInDim", "3", "4"],
    ),
    "concat": (
        lambda x, y: tnf.concat([x, y]),
        (MATRIX, tnf.TensorSpec((3, 4), "float64")),
        errors.ShapeError,
        ["Concatenate", "3 and 4"],
    ),
    "text": (lambda x: x + "a", (VECTOR,), errors.DTypeError, ["'a'"]),
    "bool()": (lambda x: x if x[0] > 0 else -x, (VECTOR,), errors.ConcretizationError, ["where"]),
    "float()": (lambda x: float(x[0]), (VECTOR,), errors.ConcretizationError, ["float()"]),
    "item()": (lambda x: x[0].item(), (VECTOR,), errors.ConcretizationError, ["item()"]),
    "np.asarray": (lambda x: np.asarray(x), (VECTOR,), errors.ConcretizationError, ["NumPy"]),
    "format": (lambda x: f"{x:.3f}", (VECTOR,), errors.ConcretizationError, [".3f"]),
    "np.roots": (lambda x: np.roots(x), (VECTOR,), errors.UnsupportedError, ["np.roots", "f64[3]"]),
    "empty maximum": (
        lambda x: tnf.max(x),
        (tnf.TensorSpec((0,), "float64"),),
        errors.ShapeError,
        ["f64[0]", "identity"],
    ),
    "einsum": (
        lambda x: tnf.einsum("ij,ij->ik", x, x),
        (MATRIX,),
        errors.InvalidConfigError,
        ["'k'"],
    ),
}


@pytest.mark.parametrize("case", TRACED.values(), ids=TRACED)
def test_refused_while_tracing_with_the_line(case: Case) -> None:
    fn, specs, kind, words = case
    with pytest.raises(kind) as caught:
        tnf.compile(fn, *specs)
    assert isinstance(caught.value, TenferroError)
    for word in [*words, f"test_wrong_input.py:{fn.__code__.co_firstlineno}"]:
        assert word in str(caught.value)


AT_ONCE: dict[str, tuple[Callable[[], Any], type[Exception], list[str]]] = {
    "dtype": (lambda: tnf.TensorSpec((3,), "f9"), errors.DTypeError, ["f9", "float64"]),
    "no dtype": (lambda: tnf.TensorSpec((3,), None), errors.DTypeError, ["None"]),
    "extent": (lambda: tnf.TensorSpec((-3,), "f8"), errors.ShapeError, ["-3"]),
    "float extent": (lambda: tnf.TensorSpec((2.0,), "f8"), errors.ShapeError, ["2.0"]),
    "bool extent": (lambda: tnf.TensorSpec((True,), "f8"), errors.ShapeError, ["True"]),
    "symbol": (lambda: tnf.TensorSpec(("1n",), "f8"), errors.InvalidConfigError, ["1n"]),
    "subscripts": (lambda: tnf.einsum(3, X), errors.InvalidConfigError, ["einsum", "string"]),
    "subscripts and an operand": (
        lambda: tnf.einsum(X, np.ones((2, 2)), [0]),
        errors.InvalidConfigError,
        ["einsum", "string"],
    ),
    "shift": (lambda: tnf.roll(X, 1.5), errors.InvalidConfigError, ["roll: shift", "1.5"]),
    "shifts": (lambda: tnf.roll(X, ("a",), axis=(0,)), errors.InvalidConfigError, ["roll", "'a'"]),
    "traced shift": (
        lambda: tnf.jit(lambda x: tnf.roll(x, x[0]))(X),
        errors.ConcretizationError,
        ["f64[]"],
    ),
    "modulus": (lambda: tnf.jit(lambda x: pow(x, 2, 3))(X), errors.ArityError, ["pow(x, y) % z"]),
    "large integer": (
        lambda: tnf.asarray(2**64),
        errors.DTypeError,
        ["18446744073709551616", "uint64"],
    ),
    "large integers": (lambda: tnf.sum([1, -(2**70)]), errors.DTypeError, ["integer", "uint64"]),
    "Fraction": (lambda: tnf.asarray(Fraction(1, 2)), errors.DTypeError, ["no numbers"]),
    "object array": (lambda: tnf.add(np.array([None]), 1), errors.DTypeError, ["O"]),
    "masked array": (lambda: tnf.exp(np.ma.array([1.0], mask=[True])), errors.DTypeError, ["mask"]),
    "weak overflow": (lambda: tnf.add(np.ones(2, "i1"), 300), errors.DTypeError, ["300", "int8"]),
    "no function": (lambda: tnf.compile(3, VECTOR), errors.InvalidConfigError, ["3"]),
    "no spec": (lambda: tnf.compile(lambda x: x, "f8"), errors.DTypeError, ["x", "'f8'"]),
    "no tensor": (lambda: tnf.compile(lambda x: "a", VECTOR), errors.DTypeError, ["result"]),
    "order": (lambda: tnf.GraphExecutor(order="Z"), errors.InvalidConfigError, ["'Z'"]),
    "threads": (lambda: tnf.GraphExecutor(threads=0), errors.InvalidConfigError, ["threads"]),
    "half a thread": (
        lambda: tnf.GraphExecutor(threads=1.5),
        errors.InvalidConfigError,
        ["threads", "1.5"],
    ),
    "threads in words": (
        lambda: tnf.GraphExecutor(threads="2"),
        errors.InvalidConfigError,
        ["threads", "'2'"],
    ),
    "zeros": (lambda: tnf.zeros((-1,)), errors.ShapeError, ["-1"]),
    "step": (lambda: tnf.arange(0, 10, 0), errors.InvalidConfigError, ["step"]),
    "points": (lambda: tnf.linspace(0, 1, -1), errors.InvalidConfigError, ["-1"]),
    "operands": (
        lambda: tnf.einsum("ij", np.ones((2, 3)), np.ones(2)),
        errors.InvalidConfigError,
        ["1", "2"],
    ),
    "guard": (
        lambda: tnf.compile(lambda x: x[:2], SYMBOLIC).run(np.ones(1)),
        errors.GuardError,
        ["n >= 2", "1"],
    ),
    "symbol twice": (
        lambda: tnf.compile(lambda x, y: x + y, SYMBOLIC, SYMBOLIC).run(np.ones(1), np.ones(2)),
        errors.ShapeError,
        ["1", "2"],
    ),
    "too large": (
        lambda: tnf.compile(
            lambda x: tnf.broadcast_to(x, (2**40, 2**20)), tnf.TensorSpec((), "f8")
        ).run(1.0),
        errors.BackendFailureError,
        ["BroadcastInDim", "test_wrong_input.py"],
    ),
    "too many axes": (
        lambda: tnf.compile(lambda x: tnf.broadcast_to(x, (1,) * 70), tnf.TensorSpec((), "f8")).run(
            1.0
        ),
        errors.BackendFailureError,
        ["BroadcastInDim"],
    ),
}


@pytest.mark.parametrize("case", AT_ONCE.values(), ids=AT_ONCE)
def test_refused_at_once(case: tuple[Callable[[], Any], type[Exception], list[str]]) -> None:
    attempt, kind, words = case
    with pytest.raises(kind) as caught:
        attempt()
    assert isinstance(caught.value, TenferroError)
    for word in words:
        assert word in str(caught.value)


def test_another_trace_is_another_graph() -> None:
    kept: list[Any] = []
    tnf.compile(lambda x: kept.append(x) or x, VECTOR)
    with pytest.raises(errors.InvalidConfigError, match="another trace"):
        tnf.compile(lambda x: x + kept[0], VECTOR)


@pytest.mark.parametrize("card", STD_OPS, ids=lambda card: card.__name__)
def test_every_card_refuses_the_wrong_number_of_operands(card: type[StdTensorOp]) -> None:
    sample = SAMPLES[card][0]
    spec = tnf.TensorSpec((2,), "float64")
    with pytest.raises(errors.ArityError, match=rf"{card.__name__}: expected \d+ inputs"):
        sample.op.infer(*[spec] * (len(sample.inputs) + 1))


@pytest.mark.parametrize("card", STD_OPS, ids=lambda card: card.__name__)
def test_every_card_names_itself_and_what_it_accepts(card: type[StdTensorOp]) -> None:
    refused = [dtype for dtype in tnf.DType if dtype not in card.accepts]
    sample = SAMPLES[card][0]
    if not refused or not sample.inputs:
        pytest.skip("takes every dtype, or no operand")
    specs = [tnf.TensorSpec(x.shape, refused[0]) for x in sample.inputs]
    with pytest.raises(errors.DTypeError) as caught:
        sample.op.infer(*specs)
    assert card.__name__ in str(caught.value)


class Unreadable:
    """Object whose conversion to a NumPy array raises an exception of an unusual class."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise KeyError("no such buffer")


@pytest.mark.parametrize(
    "door",
    [
        tnf.sum, tnf.asarray, tnf.jit(lambda x: x), tnf.grad(lambda x: x), tnf.compile(lambda x: x, X).run,
        lambda x: tnf.asarray(x, dtype=float), lambda x: tnf.sum([x, 1.0]), tnf.EagerRuntime().constant,
        lambda x: tnf.jit(lambda y: y + x)(X), lambda x: tnf.compile(lambda _: x, X),
    ],
)  # fmt: skip
def test_arrays_of_others_that_fail(door: Any) -> None:
    with pytest.raises(errors.DTypeError, match="Unreadable"):
        door(Unreadable())


def _within_itself() -> list[Any]:
    entries: list[Any] = [1.0]
    entries += [entries, entries]
    return entries


def _deep(depth: int, inner: Any = 1.0) -> Any:
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    "door",
    [tnf.sum, tnf.asarray, tnf.stack, tnf.concat, lambda x: tnf.asarray(x, dtype=float),
     lambda x: tnf.add(x, 1)],
)  # fmt: skip
def test_sequences_within_themselves(door: Any) -> None:
    for entries in (_within_itself(), _deep(66), _deep(100_000)):
        with pytest.raises(errors.TenferroError):
            door(entries)


def test_sequences_of_tensors_within_themselves() -> None:
    def f(x: Any, depth: int | None) -> Any:
        entries = [x, _within_itself()] if depth is None else _deep(depth, x)
        return tnf.sum(tnf.asarray(entries))

    assert tnf.jit(lambda x: f(x, 60))(X) == tnf.sum(X)
    for depth in (None, 65, 100_000):
        with pytest.raises(errors.DTypeError, match="64"):
            tnf.jit(lambda x, depth=depth: f(x, depth))(X)


@pytest.mark.parametrize(
    "door",
    [
        tnf.grad(lambda x: x), tnf.jit(lambda x: x), tnf.vmap(lambda x: x), tnf.compile(lambda x: x, X).run,
        lambda x: tnf.compile(lambda x: x, x), lambda x: tnf.compile(lambda _: x, X), tnf.tree.leaves,
        lambda x: tnf.tree.map(abs, x), lambda x: tnf.scan(lambda c, _: (c, x), X, None, length=2),
    ],
)  # fmt: skip
def test_trees_within_themselves(door: Any) -> None:
    for tree in (_within_itself(), _deep(100_000), {"a": _within_itself()}):
        with pytest.raises(errors.InvalidConfigError, match="contains itself"):
            door(tree)

"""Ops whose payload refers to extents of their operands.

The rules of one such op must work for operands of several shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.ad import AdContext, batch_program
from tenferro.dims import DimExpr
from tenferro.dispatch import apply_one
from tenferro.ops.indexing import DynamicSlice, Gather, GatherDynamicSliceSizes
from tenferro.ops.structural import BroadcastInDim, Reshape, Slice
from tests.pairs import in_turn
from xla_peer import XlaExecutor

A, B = DimExpr.input_axis(0, 0), DimExpr.input_axis(0, 1)
PLACES = np.array([[2], [0], [1]])


def gather(sizes: tuple[Any, ...], kind: Any = Gather) -> Any:
    """Return a gather that reads windows of the given sizes, which start at given positions of the second axis."""
    return kind(
        offset_dims=(0, 2), collapsed_slice_dims=(), operand_batching_dims=(), start_indices_batching_dims=(),
        start_index_map=(1,), index_vector_dim=1, slice_sizes=sizes,
    )  # fmt: skip


def windows(x: Any, rows: int, columns: int) -> Any:
    starts = [min(place, x.shape[1] - columns) for place in PLACES[:, 0]]
    return np.stack([x[:rows, start : start + columns] for start in starts], 1)


OPS: dict[str, tuple[Any, tuple[Any, ...], Callable[[Any], Any]]] = {
    "reshape": (Reshape((B, A)), (), lambda x: x.reshape(x.shape[::-1], order="F")),
    "reshape to one": (Reshape((A * B, 1)), (), lambda x: x.reshape((-1, 1), order="F")),
    "broadcast": (
        BroadcastInDim((B, A + 1, A), (2, 0)), (),
        lambda x: np.broadcast_to(x.T[:, None], (x.shape[1], x.shape[0] + 1, x.shape[0])),
    ),
    "limits": (Slice((0, 1), (A - 1, B), (1, 2)), (), lambda x: x[:-1, 1::2]),
    "starts": (Slice((A - 2, B - 3), (A, B - 1), (1, 1)), (), lambda x: x[-2:, -3:-1]),
    "window": (DynamicSlice((A - 1, B - 2)), (1, 1), lambda x: x[1:, 1:-1]),
    "gather": (gather((A, B - 1)), (PLACES,), lambda x: windows(x, x.shape[0], x.shape[1] - 1)),
    "gather, as many as places": (
        gather((A - 1, DimExpr.input_axis(1, 0) - 1)), (PLACES,), lambda x: windows(x, x.shape[0] - 1, 2),
    ),
    "gather, told when it runs": (
        gather((A - 1, 2), GatherDynamicSliceSizes), (PLACES,), lambda x: windows(x, x.shape[0] - 1, 2),
    ),
}  # fmt: skip
SHAPES = [(3, 4), (5, 3), (2, 6)]


def operand(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape)


def program_of(op: Any, x: Any, rest: tuple[Any, ...]) -> tnf.GraphProgram:
    return tnf.compile(lambda x, *rest: apply_one(op, x, *rest), x, *rest)


@in_turn("name", OPS, "shape", SHAPES)
def test_values(name: str, shape: tuple[int, ...]) -> None:
    op, rest, definition = OPS[name]
    rest = tuple(map(np.asarray, rest))
    x = operand(*shape)
    program = program_of(op, x, rest)
    for run in (
        program.run,
        lambda *inputs: XlaExecutor().run(program, *inputs),
        partial(apply_one, op),
    ):
        np.testing.assert_array_equal(run(x, *rest), definition(x))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPS)
def test_batches(name: str, shape: tuple[int, ...]) -> None:
    op, rest, definition = OPS[name]
    rest = tuple(map(np.asarray, rest))
    x = operand(4, *shape)
    program = program_of(op, x[0], rest)
    batched = batch_program(program, (True, *[False] * len(rest)), 4, AdContext())
    result = batched.run(x, *rest)
    np.testing.assert_array_equal(result, np.stack([definition(one) for one in x]))


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [name for name in OPS if "gather" in name])
def test_batches_of_places(name: str, shape: tuple[int, ...], both: bool) -> None:
    op, (places,), definition = OPS[name]
    x = operand(2, *shape) if both else operand(*shape)
    program = program_of(op, x[0] if both else x, (places,))
    batched = batch_program(program, (both, True), 2, AdContext())
    result = batched.run(x, np.stack([places, places]))
    slices = x if both else (x, x)
    np.testing.assert_array_equal(result, np.stack([definition(one) for one in slices]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPS)
def test_cotangents(name: str, shape: tuple[int, ...]) -> None:
    """The gradient of a linear function x -> A x with the cotangent y_bar must be A^T y_bar.

    Column i of A is the function's value, by its definition, at the i-th unit array.
    """
    op, rest, definition = OPS[name]
    basis = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    matrix = np.stack([definition(one).ravel() for one in basis], 1)
    y_bar = operand(*definition(operand(*shape)).shape)
    result = tnf.grad(lambda x: tnf.sum(y_bar * apply_one(op, x, *rest)))(operand(*shape))
    np.testing.assert_allclose(result.ravel(), matrix.T @ y_bar.ravel(), rtol=1e-13)

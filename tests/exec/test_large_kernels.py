"""Kernels with another algorithm for large arrays must match the definitions of their ops."""

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.dispatch import apply_one
from tenferro.exec.kernels import KERNELS
from tenferro.exec.kernels.reduction import MIN_LAYER_ELEMENTS, accumulate
from tenferro.ops.indexing import Scatter
from tenferro.ops.reduction import CumMax, CumProd, CumSum, Sort, TopK
from tenferro.ops.structural import EmbedDiag

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int32"])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis", "batch"),
    [((50,), 0, (9000,)), ((40, 30), 0, (20, 25)), ((30, 40), 1, (400,)), ((7, 50, 3), 1, (300,))],
)
def test_layers_are_added_where_indices_say(
    dtype: str, shape: tuple[int, ...], axis: int, batch: tuple[int, ...], once: bool
) -> None:
    n = shape[axis]
    x = RNG.integers(-4, 5, shape).astype(dtype)
    indices = RNG.integers(-3, n + 3, batch)
    if once:  # no index inside the bounds occurs twice
        indices = (RNG.permutation(indices.size) - 3).reshape(batch)
    updates = RNG.integers(-4, 5, (*shape[:axis], *batch, *shape[axis + 1 :])).astype(dtype)
    window = [*range(axis), *range(axis + len(batch), updates.ndim)]
    op = Scatter(
        combiner="add",
        update_window_dims=tuple(window),
        inserted_window_dims=(axis,),
        input_batching_dims=(),
        scatter_indices_batching_dims=(),
        scatter_dims_to_operand_dims=(axis,),
        index_vector_dim=len(batch),
    )
    expected = np.moveaxis(x.copy(), axis, 0)
    layers = np.moveaxis(updates, list(range(axis, axis + len(batch))), list(range(len(batch))))
    for place in np.ndindex(*batch):
        if 0 <= indices[place] < n:
            expected[indices[place]] += layers[place]
    found = KERNELS[Scatter](op, x, indices, updates)
    assert found.dtype == x.dtype
    assert np.array_equal(found, np.moveaxis(expected, 0, axis))
    strided = np.asfortranarray(updates)
    assert np.array_equal(KERNELS[Scatter](op, np.asfortranarray(x), indices, strided), found)
    zeros = np.broadcast_to(np.zeros((), dtype), shape)
    assert np.array_equal(KERNELS[Scatter](op, zeros, indices, updates), found - x)
    assert not zeros.any()


@pytest.mark.parametrize("card", [CumSum, CumProd, CumMax])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_results_along_any_axis_of_any_order(card: Any, reverse: bool) -> None:
    x = RNG.standard_normal((40, 5, 60))
    for layout in (x, np.asfortranarray(x), x.transpose(2, 0, 1), x[::2, :, ::-1]):
        for axis in range(3):
            y = np.moveaxis(np.flip(layout, axis) if reverse else layout, axis, 0)
            expected = [y[0]]
            for z in y[1:]:
                step = {CumSum: np.add, CumProd: np.multiply, CumMax: np.maximum}[card]
                expected.append(step(expected[-1], z))
            wanted = np.moveaxis(np.stack(expected), 0, axis)
            found = KERNELS[card](card(axis, reverse), layout)
            assert np.array_equal(found, np.flip(wanted, axis) if reverse else wanted)


def test_running_results_layer_by_layer_leave_the_operand_as_it_is() -> None:
    x = np.arange(3.0 * MIN_LAYER_ELEMENTS).reshape(3, MIN_LAYER_ELEMENTS)
    before = x.copy()
    result = accumulate(np.add, x, 0)
    np.testing.assert_array_equal(result, np.cumsum(before, axis=0))
    np.testing.assert_array_equal(x, before)


def test_sorting_is_stable_with_and_without_equal_keys() -> None:
    many = RNG.standard_normal((50, 200))
    twins = np.round(many, 1)
    zeros = np.where(RNG.random(many.shape) < 0.3, np.copysign(0.0, many), many)
    strange = np.where(RNG.random(many.shape) < 0.1, np.nan, many)
    rows = np.broadcast_to(np.arange(200), many.shape)
    for x in (many, twins, zeros, strange, twins.astype("float16"), (twins * 10).astype("int8")):
        order = np.array([sorted(range(200), key=lambda i: (np.isnan(r[i]), r[i])) for r in x])
        wanted = np.take_along_axis(x, order, 1)
        keys, places = KERNELS[Sort](Sort(axis=1, count=2), x, rows)
        assert np.array_equal(places, order)
        assert keys.tobytes() == wanted.tobytes()
        alone = KERNELS[Sort](Sort(axis=1, count=1), x)
        assert alone.tobytes() == wanted.tobytes()
    values, places = KERNELS[TopK](TopK(5), twins)
    for x, top, place in zip(twins, values, places, strict=True):
        best = sorted(range(200), key=lambda i: (-x[i], i))[:5]
        assert list(place) == best
        assert np.array_equal(top, x[best])


@pytest.mark.parametrize("function", ["tril", "triu"])
@pytest.mark.parametrize("k", [-300, -2, 0, 1, 300])
@pytest.mark.parametrize("shape", [(170, 190), (190, 170), (2, 130, 140), (600, 700)])
def test_triangles_in_planned_memory(function: str, k: int, shape: tuple[int, ...]) -> None:
    """Triangles must be right in buffers with old values, even if the operand is NaN outside the triangle."""
    x = RNG.standard_normal(shape)
    x[..., 0, -1] = np.nan
    x[..., -1, 0] = np.inf
    program = tnf.compile(lambda x: getattr(tnf, function)(x * 1.0, k) + 0.0, x)
    for order in ("F", "C", "K"):
        executor = tnf.GraphExecutor(order)
        for arranged in (
            x,
            np.asfortranarray(x),
            x,
            np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2),
        ):
            result = executor.run(program, arranged)
            np.testing.assert_array_equal(result, getattr(np, function)(x, k))


def test_diagonals_in_planned_memory() -> None:
    x = RNG.standard_normal((3, 130))
    program = tnf.compile(lambda x: tnf.sin(tnf.diagonal(tnf.cos(embedded(x * 2.0)), 0, 1, 2)), x)
    large = tnf.compile(lambda x: embedded(x * 2.0) + 1.0, x)
    executor = tnf.GraphExecutor("K")
    for _ in range(3):
        np.testing.assert_allclose(executor.run(program, x), np.sin(np.cos(x * 2.0)), rtol=1e-13)
        expected = np.stack([np.diag(row) for row in x * 2.0]) + 1.0
        np.testing.assert_array_equal(executor.run(large, x), expected)


def embedded(x: Any) -> Any:
    """Return matrices whose diagonals are the rows of x."""
    return apply_one(EmbedDiag(1, 2), x)

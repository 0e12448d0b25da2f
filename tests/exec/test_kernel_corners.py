"""Kernels with unusual operands: indices of any integer dtype, overlapping matrices, sums at the end of a group."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.dispatch import apply_one
from tenferro.exec.kernels import KERNELS, bind_kernel
from tenferro.exec.kernels.elementwise import ROWS
from tenferro.exec.kernels.matrix_view import is_blas_layout, mergeable_order
from tenferro.exec.kernels.structural import broadcast_in_dim
from tenferro.exec.llvm import link
from tenferro.ops import elementwise as el
from tenferro.ops.indexing import Gather, Scatter
from tenferro.ops.structural import BroadcastInDim
from tenferro.types import DType, TensorSpec

RNG = np.random.default_rng(3)
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NOT_BY_ELEMENT = {el.BitcastConvert: "an element may become several"}
EXECUTORS = [False, True] if link.is_installed() else [False]


def run(fn: Any, *arrays: Any, **options: Any) -> Any:
    return tnf.GraphExecutor("K", **options).run(tnf.compile(fn, *arrays), *arrays)


def test_elementwise_kernels_say_so() -> None:
    """Every elementwise kernel must have the flag `elementwise`, on which fused groups rely."""
    silent = {op for op, kernel in ROWS.items() if not getattr(kernel, "elementwise", False)}
    assert silent == set(NOT_BY_ELEMENT)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_indices_of_any_integer(dtype: str) -> None:
    """Reads must clamp out-of-bounds indices, and writes must skip them, even above the range of int64."""
    x = RNG.normal(size=(5, 3))
    limits = np.iinfo(dtype)
    indices = np.array([4, 0, limits.max, 2, 1], dtype)
    taken = run(lambda x, i: tnf.take(x, i, axis=0, mode="clip"), x, indices)
    np.testing.assert_array_equal(taken, x[[4, 0, 4, 2, 1]])
    set_ = run(lambda x, i: x.at[i].set(7.0), x, indices)
    expected = x.copy()
    expected[[4, 0, 2, 1]] = 7.0
    np.testing.assert_array_equal(set_, expected)


@pytest.mark.parametrize(
    ("op", "indices", "expected"),
    [
        (Gather((1,), (0,), (), (), (0,), 1, (1, 4)), [9, -2, 1], lambda x: x[[2, 0, 1]]),
        (Gather((1,), (0,), (), (), (0,), 1, (1, 4)), [[9], [-2]], lambda x: x[[2, 0]]),
        (Gather((1,), (0,), (), (), (0,), 0, (1, 4)), [[9, -2]], lambda x: x[[2, 0]]),
        (Gather((0,), (1,), (), (), (1,), 2, (3, 1)), [[0, 9], [2, 3]], lambda x: x[:, [[0, 3], [2, 3]]]),
        (Gather((0,), (1,), (), (), (1,), 1, (3, 1)), [[[0, 9]], [[2, 3]]], lambda x: x[:, [[0, 3], [2, 3]]]),
        (Gather((0,), (0,), (), (), (0,), 1, (1, 4)), [9, 0, 1], lambda x: x[[2, 0, 1]].T),
        (Gather((1,), (1,), (), (), (1,), 1, (3, 1)), [9, 0, 1], lambda x: x[:, [3, 0, 1]].T),
        (Gather((1,), (0,), (), (), (0,), 1, (1, 2)), [9, 0, 1], lambda x: x[[2, 0, 1], :2]),
    ],
)  # fmt: skip
def test_rows_are_taken_in_their_place(op: Gather, indices: Any, expected: Any) -> None:
    """Gathers of rows must be right for each axis and each position of the index vector."""
    x, indices = RNG.normal(size=(3, 4)), np.array(indices)
    program = tnf.compile(lambda x, i: apply_one(op, x, i), x, indices)
    executor = tnf.GraphExecutor("K")
    for _ in range(2):
        np.testing.assert_array_equal(executor.run(program, x, indices), expected(x))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_windows_at_any_integer(dtype: str) -> None:
    """Reads must clamp the start of out-of-bounds windows, and writes must skip them."""
    x = RNG.normal(size=(300, 3))
    starts = np.array([[4, 0], [np.iinfo(dtype).max, 1], [100, 2]], dtype)
    places = [(min(int(row), 298), int(column)) for row, column in starts]
    gather = Gather((1,), (1,), (), (), (0, 1), 1, (2, 1))
    for _ in range(2):
        windows = run(lambda x, i: apply_one(gather, x, i), x, starts)
        np.testing.assert_array_equal(windows, [x[i : i + 2, k] for i, k in places])
    scatter = Scatter((1,), (1,), (), (), (0, 1), 1, "add")
    updates = RNG.normal(size=(3, 2))
    expected = x.copy()
    for (row, column), update in zip(starts.tolist(), updates, strict=True):
        if row <= 298:
            expected[row : row + 2, column] += update
    changed = run(lambda x, i, u: apply_one(scatter, x, i, u), x, starts, updates)
    np.testing.assert_array_equal(changed, expected)


def test_many_additions_at_pairs_of_indices() -> None:
    """Additions at pairs of indices must be right: the sparse matrix for additions along one axis has no pairs."""
    x = RNG.normal(size=(20, 30))
    rows, columns = RNG.integers(0, 20, 9000), RNG.integers(0, 30, 9000)
    updates = RNG.normal(size=9000)
    expected = x.copy()
    np.add.at(expected, (rows, columns), updates)
    got = run(lambda x, i, j, u: x.at[i, j].add(u), x, rows, columns, updates)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    expected = x.copy()
    np.add.at(expected, rows, updates[:, None] * np.ones(30))
    got = run(lambda x, i, u: x.at[i].add(u[:, None] * tnf.ones(30)), x, rows, updates)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(7,), (7, 5), (3, 7)])
@pytest.mark.parametrize("places", [[], [2], [2, 4]], ids=str)
def test_many_additions_leave_other_elements_alone(
    dtype: str, shape: tuple[int, ...], places: list[int]
) -> None:
    """Many updates of a few positions must leave all other elements unchanged, even -0.0."""
    axis = shape.index(7)
    x = np.full(shape, -np.dtype(dtype).type(0))
    indices = np.resize([*places, 7, 9], 9000)
    layer = (*shape[:axis], len(indices), *shape[axis + 1 :])
    updates = np.ones(layer, dtype)
    expected = x.copy()
    np.moveaxis(expected, axis, 0)[places] = 9000 // (len(places) + 2)
    index = (slice(None),) * axis
    y = run(lambda x, i, u: x.at[*index, i].add(u), x, indices, updates)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(np.signbit(y.real), np.signbit(expected.real))


def test_axes_are_one_in_the_order_of_memory() -> None:
    x = np.zeros((4, 3, 2))
    assert mergeable_order(x, (0, 1)) == (0, 1)
    assert mergeable_order(x.T, (0, 1)) == (1, 0)
    assert mergeable_order(x, (2, 0)) == (2, 0)  # neither of the two axes is contiguous


def test_windows_that_overlap_are_no_matrix_for_blas() -> None:
    assert is_blas_layout((8, 80), (10, 3), 8)
    assert is_blas_layout((80, 8), (3, 10), 8)
    assert not is_blas_layout((8, 8), (10, 3), 8)
    assert not is_blas_layout((16, 160), (10, 3), 8)
    signal, taps = RNG.normal(size=300), RNG.normal(size=(40, 30))
    windows = np.lib.stride_tricks.sliding_window_view(signal, 40)
    for y in (windows @ taps, run(lambda x, y: x @ y, windows, taps)):
        # BLAS may add the terms of strided rows in another order. Some sums are near zero: the tolerance is absolute.
        np.testing.assert_allclose(y, np.array(windows) @ taps, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("compiled", EXECUTORS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex128"])
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (2, 0), None], ids=str)
def test_sums_of_products_along_any_axis(axis: Any, dtype: str, compiled: bool) -> None:
    x, y = (RNG.normal(size=(40, 50, 60)).astype(dtype) for _ in range(2))
    for right in (y, y[:, :1], y[0]):
        got = run(lambda x, y: tnf.sum(x * y, axis=axis), x, right, compiled=compiled)
        wide = np.complex128 if dtype == "complex128" else np.float64
        products = (x * right).astype(wide)  # each product is rounded, as in the fused group
        size = np.abs(products).sum(axis=axis).max()
        eps = float(np.finfo(dtype).eps)
        np.testing.assert_allclose(
            got, products.sum(axis=axis), rtol=4 * eps, atol=20 * eps * float(size)
        )
        assert got.dtype == dtype


def test_memory_of_results_that_are_gone_is_used_again_without_being_asked_about() -> None:
    executor = tnf.GraphExecutor("K")
    x = RNG.normal(size=1 << 17)
    program = tnf.compile(lambda x: tnf.sqrt(tnf.abs(x)) * 2.0, x)
    for _ in range(6):
        executor.run(program, x)
    stats = executor.memory.stats()
    assert stats.reused >= 4
    assert stats.held <= 3 * 2 * x.nbytes


@pytest.mark.skipif(sys.platform != "linux", reason="cores have no numbers")
def test_a_process_on_one_core_has_one_thread() -> None:
    text = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import tenferro as tnf; "
        "print(tnf.GraphExecutor().workers.count, tnf.GraphExecutor(threads=3).workers.count)"
    )
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["1", "3"]


def test_repeated_values_lie_as_numpy_lays_them() -> None:
    """A broadcast must have NumPy's strides, accept operands in any layout, and be read-only."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        rank = int(rng.integers(0, 4))
        dims = tuple(map(int, rng.permutation(rank + rng.integers(0, 3))[:rank]))
        extents = tuple(map(int, rng.choice([1, 2, 3], rank)))
        shape = list(map(int, rng.choice([0, 1, 4], max([rank, *[axis + 1 for axis in dims]]))))
        for axis, n in zip(dims, extents, strict=True):
            shape[axis] = n if n > 1 else shape[axis]
        op = BroadcastInDim(tuple(shape), dims)
        for dtype in (DType.F32, DType.C64, DType.Bool, DType.BF16):
            x = (rng.standard_normal((*extents, 2)) * 2).astype(dtype.dtype)[..., 0]
            function = bind_kernel(KERNELS[BroadcastInDim], op, (TensorSpec.of(extents, dtype),))
            for operand in (x, np.array(x, order="C"), np.array(x, order="F"), np.array(x)[()]):
                y, wanted = function(operand), broadcast_in_dim(op, np.asarray(operand))
                assert (y.dtype, y.shape, y.tobytes()) == (
                    wanted.dtype,
                    wanted.shape,
                    wanted.tobytes(),
                )
                if y.size != x.size or [*dims] != sorted(dims) or not shape:
                    assert (y.strides, y.flags) == (wanted.strides, wanted.flags)
                    continue
                # A broadcast that only adds axes may return the operand's own memory, which may be writable.
                assert np.may_share_memory(y, operand) or not isinstance(operand, np.ndarray)
                for n, step, other in zip(y.shape, y.strides, wanted.strides, strict=True):
                    assert n == 1 or step == other

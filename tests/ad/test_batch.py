"""Batch rules of all ops: slice i of a batched result must equal the result for slice i of the operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.ad import AdContext, batch_program
from tenferro.dispatch import apply, apply_one
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.control import Cond
from tenferro.ops.dynamic import DynamicTruncate
from tenferro.ops.indexing import DynamicSlice, DynamicUpdateSlice, Gather, Scatter
from tenferro.program import Subprogram
from tenferro.types import DType
from tests.samples import SAMPLES
from tests.samples.contraction import OTHER_CONVOLUTIONS, OTHER_DOTS
from tests.samples.sample import OpSample
from xla_peer import XlaExecutor

PER_OP = 5
COVERED = [
    sample
    for samples in SAMPLES.values()
    for sample in samples[:: max(1, len(samples) // PER_OP)]
    if sample.inputs and sample.op.name != "DynamicTruncate"
]
"""Samples whose batch rules are tested.

`DynamicTruncate` is absent, because the results for different slices may have different extents. It has no batch
rule.
"""


def masks(sample: OpSample) -> list[tuple[bool, ...]]:
    count = len(sample.inputs)
    singles = [tuple(i == j for i in range(count)) for j in range(count)]
    return list(dict.fromkeys([*singles, (True,) * count]))


def variants(x: Any) -> Any:
    """Return a batch of three slices: x, x with its elements reversed, and x with its elements rotated by one."""
    flat = x.reshape(-1)
    return np.stack([x, flat[::-1].reshape(x.shape), np.roll(flat, 1).reshape(x.shape)])


@pytest.mark.parametrize("sample", COVERED, ids=str)
def test_each_slice(sample: OpSample) -> None:
    program = tnf.compile(lambda *xs: apply(sample.op, *xs), *sample.inputs)
    for mask in masks(sample):
        batched = batch_program(program, mask, 3, AdContext())
        operands = [variants(x) if here else x for x, here in zip(sample.inputs, mask, strict=True)]
        result = batched.run(*operands)
        for index in range(3):
            slices = [x[index] if here else x for x, here in zip(operands, mask, strict=True)]
            for y, expected in zip(result, program.run(*slices), strict=True):
                dtype = DType.of(expected.dtype)
                assert y.dtype == expected.dtype
                assert y[index].shape == expected.shape
                rtol = (
                    4 * float(np.finfo(dtype.real.dtype).eps)
                    if dtype in (DType.F32, DType.F64)
                    else 0
                )
                if dtype.is_inexact and not rtol:
                    rtol = 2e-2 if dtype.bits <= 16 else 1e-5 if dtype is DType.C32 else 1e-13
                np.testing.assert_allclose(
                    y[index].astype(
                        complex if dtype.is_complex else float if dtype.is_float else dtype.dtype
                    ),
                    expected.astype(
                        complex if dtype.is_complex else float if dtype.is_float else dtype.dtype
                    ),
                    rtol=rtol * 8,
                    atol=rtol * 8,
                )


WINDOWS = [
    sample
    for card in (DotGeneral, Gather, Scatter)
    for sample in SAMPLES[card]
    if sample.inputs[0].dtype == np.float64 and str(sample) not in set(map(str, COVERED))
]


@pytest.mark.parametrize("sample", [*WINDOWS, *OTHER_DOTS, *OTHER_CONVOLUTIONS], ids=str)
def test_each_slice_of_every_kind_of_window(sample: OpSample) -> None:
    test_each_slice(sample)


def test_what_depends_on_no_batched_input_is_repeated() -> None:
    program = tnf.compile(lambda x, y: (x, tnf.sin(x), y), np.ones(2), np.ones(3))
    x, sin, y = batch_program(program, (False, True), 4, AdContext()).run(
        np.ones(2), np.ones((4, 3))
    )
    assert x.shape == sin.shape == (4, 2)
    assert y.shape == (4, 3)


STARTS = [-300, -1, 0, 1, 2, 100, 2**63 + 5]
ROWS, COLUMNS = 5, 4


def places(dtype: str, roll: int = 0) -> Any:
    """Return start indices inside and outside of the operand, as far as the dtype of the indices can represent them."""
    info = np.iinfo(dtype)
    fit = [start for start in STARTS if info.min <= start <= info.max]
    return np.roll(np.array(fit, dtype), roll)


def require_each_slice(op: Any, mask: tuple[bool, ...], operands: tuple[Any, ...]) -> None:
    require_each_slice_of_all([(op, mask, operands)])


def require_each_slice_of_all(calls: list[tuple[Any, tuple[bool, ...], tuple[Any, ...]]]) -> None:
    """Compile all calls as one program, and compare its batched results with separate runs on each slice."""
    ends = np.cumsum([len(operands) for _, _, operands in calls])

    def all_of_them(*xs: Any) -> Any:
        parts = [xs[end - len(call[2]) : end] for call, end in zip(calls, ends, strict=True)]
        return [apply(op, *part)[0] for (op, _, _), part in zip(calls, parts, strict=True)]

    operands = [x for call in calls for x in call[2]]
    mask = tuple([here for call in calls for here in call[1]])
    count = next(len(x) for x, here in zip(operands, mask, strict=True) if here)
    slices = [
        [x[index] if here else x for x, here in zip(operands, mask, strict=True)]
        for index in range(count)
    ]
    program = tnf.compile(all_of_them, *slices[0])
    expected = [np.stack(ys) for ys in zip(*[program.run(*one) for one in slices], strict=True)]
    batched = batch_program(program, mask, count, AdContext())
    for results in (batched.run(*operands), XlaExecutor().run(batched, *operands)):
        for (op, _, _), result, wanted in zip(calls, results, expected, strict=True):
            assert result.dtype == wanted.dtype
            np.testing.assert_array_equal(result, wanted, err_msg=str(op))


def operand(count: int | None, shape: tuple[int, ...], dtype: str = "f8") -> Any:
    shape = shape if count is None else (count, *shape)
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7).astype(dtype)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i8", "u8"])
@pytest.mark.parametrize("is_batched", [False, True])
def test_windows_that_start_elsewhere_in_each_slice(dtype: str, is_batched: bool) -> None:
    rows, columns = places(dtype), places(dtype, 2)
    count = len(rows)
    several = count if is_batched else None
    x = operand(several, (ROWS, COLUMNS))
    calls = []
    for sizes in ((2, 3), (1, 4), (5, 1), (5, 4), (1, 1), (0, 2)):
        window = -1 - operand(None if is_batched else count, sizes)
        for both in (True, False):
            second = columns if both else columns[-1]
            mask = (is_batched, True, both)
            calls.append((DynamicSlice(sizes), mask, (x, rows, second)))
            mask = (is_batched, not is_batched, True, both)
            calls.append((DynamicUpdateSlice(2), mask, (x, window, rows, second)))
    require_each_slice_of_all(calls)


@pytest.mark.parametrize("dtype", ["?", "i4", "f4", "c16"])
def test_windows_of_every_kind_of_dtype(dtype: str) -> None:
    starts = places("i8")
    x = operand(len(starts), (ROWS,), dtype)
    window = operand(len(starts), (2,), dtype)
    require_each_slice(DynamicSlice((2,)), (True, True), (x, starts))
    require_each_slice(DynamicUpdateSlice(1), (True, True, True), (x, window, starts))
    require_each_slice(DynamicUpdateSlice(1), (False, False, True), (x[0], window[0], starts))


def test_starts_of_a_narrow_dtype_in_a_long_operand() -> None:
    x, starts = operand(4, (300,)), np.array([-5, 0, 99, 127], np.int8)
    require_each_slice(DynamicSlice((2,)), (True, True), (x, starts))
    require_each_slice(DynamicUpdateSlice(1), (True, False, True), (x, -np.ones(2), starts))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_windows_of_operands_without_elements(shape: tuple[int, int]) -> None:
    starts = places("i8")
    x = operand(None, shape)
    sizes = tuple([min(n, 2) for n in shape])
    require_each_slice(DynamicSlice(sizes), (False, True, True), (x, starts, starts))
    mask = (False, False, True, True)
    require_each_slice(DynamicUpdateSlice(2), mask, (x, np.zeros(sizes), starts, starts))


def test_a_batch_of_no_windows() -> None:
    x, none = operand(None, (ROWS,)), np.zeros(0, np.int64)
    assert tnf.vmap(lambda i: tnf.lax.dynamic_slice(x, (i,), (2,)))(none).shape == (0, 2)
    written = tnf.vmap(lambda i: tnf.lax.dynamic_update_slice(x, x[:2], (i,)))(none)
    assert written.shape == (0, ROWS)


def windows_of(x: Any, i: Any, j: Any) -> Any:
    """Read a window of x at (i, j), then write the sine of the window into x * x at (j, i)."""
    read = apply_one(DynamicSlice((2, 3)), x, i, j)
    return apply_one(DynamicUpdateSlice(2), x * x, tnf.sin(read), j, i)


def weighted(x: Any, i: Any, j: Any, weight: Any) -> Any:
    return tnf.sum(tnf.sin(windows_of(x, i, j)) * weight)


def batch_of_windows() -> tuple[Any, ...]:
    x, weight = np.random.default_rng(0).normal(size=(2, 4, ROWS, COLUMNS))
    return x, np.array([-4, 1, 9, 2]), np.array([2, -1, 0, 50]), weight


def test_derivatives_of_windows_that_start_elsewhere() -> None:
    x, i, j, weight = operands = batch_of_windows()
    expected = np.stack([tnf.grad(weighted)(*one) for one in zip(*operands, strict=True)])

    def loss(*args: Any) -> Any:
        return tnf.sum(tnf.vmap(weighted)(*args))

    program = tnf.compile(tnf.grad(loss), *operands)
    for result in (
        program.run(*operands),
        XlaExecutor().run(program, *operands),
        tnf.vmap(tnf.grad(weighted))(*operands),
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-13)
    _, pushed = tnf.jvp(lambda x: loss(x, i, j, weight), (x,), (weight,))
    np.testing.assert_allclose(pushed, np.sum(expected * weight), rtol=1e-12)
    tnf.check_grads(lambda x: loss(x, i, j, weight), (x,), order=2)


def test_windows_of_operands_with_symbolic_extents() -> None:
    x, i, j, _ = batch_of_windows()
    expected = np.stack([windows_of(*one) for one in zip(x, i, j, strict=True)])
    specs = [tnf.TensorSpec(("b", "n", "m"), "f8"), *[tnf.TensorSpec(("b",), "i8")] * 2]
    program = tnf.compile(tnf.vmap(windows_of), *specs)
    for result in (program.run(x, i, j), XlaExecutor().run(program, x, i, j)):
        np.testing.assert_allclose(result, expected, rtol=1e-13)
    inside = np.array([0, 1, 2, 1]), np.array([1, 0, 1, 1])
    slope = tnf.grad(lambda x, i, j: tnf.sum(tnf.vmap(windows_of)(x, i, j)))
    np.testing.assert_allclose(
        tnf.compile(slope, *specs).run(x, *inside), slope(x, *inside), rtol=1e-13
    )


def test_windows_of_batches_of_batches() -> None:
    x, i, j, _ = batch_of_windows()
    result = tnf.vmap(tnf.vmap(windows_of, (None, 0, None)), (0, None, 0))(x, i, j)
    for a, b in np.ndindex(4, 4):
        np.testing.assert_allclose(result[a, b], windows_of(x[a], i[b], j[a]), rtol=1e-13)


def rolled(x: Any, i: Any) -> Any:
    """Read and write windows of x in a scan, a conditional and a loop; the window's position depends on i."""

    def turn(x: Any, k: Any) -> Any:
        read = tnf.lax.dynamic_slice(x, (i + k,), (2,))
        x = tnf.cond(
            i > k, lambda x: tnf.lax.dynamic_update_slice(x, tnf.sin(read), (k,)), lambda x: x, x
        )
        return x, read

    x, read = tnf.scan(turn, x, np.arange(3))

    def body(state: Any) -> Any:
        return state[0] + 1, tnf.lax.dynamic_update_slice(state[1], state[1][:1] * 2, (state[0],))

    return tnf.while_loop(lambda state: state[0] < 3, body, (i, x))[1], read


def test_windows_inside_of_loops() -> None:
    x, i = np.random.default_rng(0).normal(size=(4, 6)), np.array([-2, 0, 1, 3])
    values, reads = tnf.vmap(rolled)(x, i)
    program = tnf.compile(tnf.vmap(rolled), x, i)
    natively, by_xla = program.run(x, i), XlaExecutor().run(program, x, i)
    for index in range(4):
        value, read = rolled(x[index], i[index])
        for result in ((values, reads), natively, by_xla):
            np.testing.assert_allclose(result[0][index], value, rtol=1e-13)
            np.testing.assert_allclose(result[1][index], read, rtol=1e-13)
    slope = tnf.grad(lambda x, i: tnf.sum(rolled(x, i)[0]))
    result = tnf.grad(lambda x: tnf.sum(tnf.vmap(rolled)(x, i)[0]))(x)
    np.testing.assert_allclose(result, [slope(*one) for one in zip(x, i, strict=True)], rtol=1e-13)


def test_a_window_of_one_row_is_a_gather_of_rows() -> None:
    """A batched read of whole rows must become a gather of rows.

    Its start index for the other axis is always 0, so the gather needs no such index.
    """
    x, i = np.ones((6, 4)), np.array([0, 2])
    read = lambda i: tnf.lax.dynamic_index_in_dim(x, i, 0, keepdims=False)
    (gather,) = gathers(tnf.compile(tnf.vmap(read), i))
    assert gather.collapsed_slice_dims == gather.start_index_map == (0,)


@pytest.mark.parametrize(
    "sample",
    [*[s for s in SAMPLES[Convolution] if s.inputs[0].dtype == np.float64], *OTHER_CONVOLUTIONS],
    ids=str,
)
def test_inputs_with_kernels_of_their_own(sample: OpSample) -> None:
    program = tnf.compile(lambda *xs: apply(sample.op, *xs), *sample.inputs)
    operands = [variants(x) for x in sample.inputs]
    (result,) = batch_program(program, (True, True), 3, AdContext()).run(*operands)
    expected = [program.run(x, w)[0] for x, w in zip(*operands, strict=True)]
    np.testing.assert_allclose(result, np.stack(expected), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("axis", [0, 1])
def test_each_slice_is_cut_at_its_axis(axis: int) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    program = tnf.compile(lambda x, n: apply(DynamicTruncate(axis), x, n)[0], x[0], np.int64(2))
    cut = batch_program(program, (True, False), 2, AdContext()).run(x, np.int64(2))
    np.testing.assert_array_equal(cut, np.take(x, [0, 1], axis + 1))


@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0)])
def test_slices_of_different_extents_are_refused(in_axes: Any) -> None:
    cut = tnf.vmap(lambda x, n: tnf.dynamic_truncate(x, n), in_axes)
    with pytest.raises(errors.UnsupportedError, match=r"DynamicTruncate: .* sizes that differ"):
        tnf.compile(cut, np.ones((3, 5)) if in_axes[0] == 0 else np.ones(5), np.array([1, 2, 3]))


def gathers(program: Any) -> list[Any]:
    return [step.op for step in program.instructions if isinstance(step.op, Gather)]


@pytest.mark.parametrize(
    ("mask", "is_sorted"), [((True, False), True), ((False, True), False), ((True, True), False)]
)
def test_indices_of_all_slices_are_not_sorted(mask: tuple[bool, ...], is_sorted: bool) -> None:
    op = Gather((), (0,), (), (), (0,), 1, (1,), indices_are_sorted=True)
    x, at = np.arange(5.0), np.array([[1], [3]])
    program = tnf.compile(lambda x, i: apply(op, x, i), x, at)
    (batched,) = gathers(batch_program(program, mask, 3, AdContext()))
    assert batched.indices_are_sorted is is_sorted


@pytest.mark.parametrize("mask", [(True, False, True), (True, True, True), (False, True, False)])
def test_a_batch_of_writes_keeps_what_is_known_of_them(mask: tuple[bool, ...]) -> None:
    op = Scatter((), (0,), (), (), (0,), 1, "add", indices_are_sorted=True, unique_indices=True)
    arrays = np.arange(5.0), np.array([[1], [3]]), np.ones(2)
    program = tnf.compile(lambda *xs: apply(op, *xs), *arrays)
    batched = batch_program(program, mask, 3, AdContext())
    (moved,) = [step.op for step in batched.instructions if isinstance(step.op, Scatter)]
    assert moved.unique_indices
    assert moved.indices_are_sorted is not mask[1]


@pytest.mark.parametrize("mask", [(True, False), (False, True), (True, True)])
def test_a_choice_between_one_branch_and_itself(mask: tuple[bool, ...]) -> None:
    x = np.arange(3.0)
    body = tnf.compile(lambda x: (x + 1.0, x * x), x)
    op = Cond((Subprogram.of_program(body),))
    program = tnf.compile(lambda i, x: apply(op, i, x), np.int32(0), x)
    batched = batch_program(program, mask, 2, AdContext())
    index = np.zeros(2, np.int32) if mask[0] else np.int32(0)
    xs = np.stack([x, x + 5.0]) if mask[1] else x
    first, second = batched.run(index, xs)
    expected = xs if mask[1] else np.stack([x, x])
    np.testing.assert_array_equal(first, expected + 1.0)
    np.testing.assert_array_equal(second, expected**2)

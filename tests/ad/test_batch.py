"""Batching: slice i of a batched program's result is the program's result on slice i."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.ad import AdContext, batch_program
from tenferro.door import apply
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.control import Cond
from tenferro.ops.dynamic import DynamicTruncate
from tenferro.ops.indexing import Gather, Scatter
from tenferro.program import Subprogram
from tenferro.types import DType
from tests.samples import SAMPLES
from tests.samples.contraction import OTHER_CONVOLUTIONS, OTHER_DOTS
from tests.samples.sample import OpSample

PER_OP = 5
COVERED = [
    sample
    for samples in SAMPLES.values()
    for sample in samples[:: max(1, len(samples) // PER_OP)]
    if sample.inputs and sample.op.name != "DynamicTruncate"
]
"""DynamicTruncate of a size that differs would give slices of different extents."""
SHARED_STARTS = {"DynamicSlice", "DynamicUpdateSlice"}


def masks(sample: OpSample) -> list[tuple[bool, ...]]:
    count = len(sample.inputs)
    singles = [tuple(i == j for i in range(count)) for j in range(count)]
    found = [*singles, (True,) * count]
    if sample.op.name in SHARED_STARTS:
        data = 1 if sample.op.name == "DynamicSlice" else 2
        found = [mask for mask in singles if not any(mask[data:])]
    return list(dict.fromkeys(found))


def variants(x: Any) -> Any:
    """Three slices that differ wherever x has elements that do."""
    flat = x.reshape(-1)
    return np.stack([x, flat[::-1].reshape(x.shape), np.roll(flat, 1).reshape(x.shape)])


@pytest.mark.parametrize("sample", COVERED, ids=str)
def test_each_slice(sample: OpSample) -> None:
    program = tnf.compile(lambda *xs: apply(sample.op, *xs), *sample.inputs)
    for mask in masks(sample):
        batched = batch_program(program, mask, 3, AdContext())
        given = [variants(x) if here else x for x, here in zip(sample.inputs, mask, strict=True)]
        found = batched.run(*given)
        for index in range(3):
            slices = [x[index] if here else x for x, here in zip(given, mask, strict=True)]
            for y, expected in zip(found, program.run(*slices), strict=True):
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


def test_windows_that_start_elsewhere_are_refused() -> None:
    program = tnf.compile(
        lambda x, i: apply(tnf.ops.indexing.DynamicSlice((2,)), x, i)[0],
        np.ones(5),
        np.int64(1),
    )
    with pytest.raises(errors.UnsupportedError, match="DynamicSlice"):
        batch_program(program, (False, True), 3, AdContext())


@pytest.mark.parametrize(
    "sample",
    [*[s for s in SAMPLES[Convolution] if s.inputs[0].dtype == np.float64], *OTHER_CONVOLUTIONS],
    ids=str,
)
def test_inputs_with_kernels_of_their_own(sample: OpSample) -> None:
    program = tnf.compile(lambda *xs: apply(sample.op, *xs), *sample.inputs)
    given = [variants(x) for x in sample.inputs]
    (found,) = batch_program(program, (True, True), 3, AdContext()).run(*given)
    expected = [program.run(x, w)[0] for x, w in zip(*given, strict=True)]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-13, atol=1e-13)


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

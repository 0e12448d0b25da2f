"""Native convolutions in every layout must equal StableHLO's definition, which the test computes term by term."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import lax
from tenferro.dispatch import apply_one
from tenferro.exec.kernels import convolution as kernels
from tenferro.exec.kernels import matrix_product, window_products
from tenferro.exec.llvm.link import is_installed
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.resources import SERIAL_RESOURCES, Resources
from tenferro.exec.runtime.threads import Workers
from tenferro.ops.contraction import Convolution


def defined(op: Convolution, x: Any, w: Any) -> Any:
    """Compute a convolution by StableHLO's definition, a sum over channels and kernel elements."""
    groups = max(op.feature_group_count, op.batch_group_count)
    sizes = w.shape[2:]
    dilated = np.zeros((*x.shape[:2], *[max(0, (n - 1) * d + 1) for n, d in zip(x.shape[2:], op.lhs_dilation, strict=True)]))  # fmt: skip
    dilated[(..., *[slice(None, None, d) for d in op.lhs_dilation])] = x
    w = np.flip(w, tuple(2 + i for i, flag in enumerate(op.window_reversal) if flag))
    extents = [
        max(0, (n + low + high - ((size - 1) * d + 1)) // stride + 1) if n + low + high >= (size - 1) * d + 1 else 0
        for n, size, d, stride, (low, high) in zip(
            dilated.shape[2:], sizes, op.rhs_dilation, op.window_strides, op.padding, strict=True
        )
    ]  # fmt: skip
    batch = x.shape[0] // op.batch_group_count
    y = np.zeros((batch, w.shape[0], *extents))
    per_group, several = w.shape[1], w.shape[0] // groups
    for n, o, c in product(range(batch), range(w.shape[0]), range(per_group)):
        g = o // several
        row = n + g * batch if op.batch_group_count > 1 else n
        channel = c + g * per_group if op.feature_group_count > 1 else c
        for place in product(*map(range, extents)):
            for tap in product(*map(range, sizes)):
                at = [
                    p * s + k * d - low
                    for p, k, s, d, (low, _) in zip(
                        place, tap, op.window_strides, op.rhs_dilation, op.padding, strict=True
                    )
                ]
                is_inside = all(0 <= i < m for i, m in zip(at, dilated.shape[2:], strict=True))
                term = dilated[(row, channel, *at)] if is_inside else 0.0
                y[(n, o, *place)] += term * w[(o, c, *tap)]
    return y


def any_case(random: Random) -> tuple[Convolution, Any, Any]:
    rank = random.choice([1, 1, 2, 2, 3])
    groups = random.choice([1, 1, 2, 3])
    by_batch = groups > 1 and random.random() < 0.4
    per_group, several = random.choice([1, 1, 2, 3]), random.choice([1, 2])
    batch = random.choice([1, 2]) * (groups if by_batch else 1)
    sizes = [random.choice([1, 2, 3]) for _ in range(rank)]
    extents = [random.choice([0, 1, 3, 4, 6]) if random.random() < 0.9 else 9 for _ in range(rank)]
    is_gradient = random.random() < 0.4
    strides = [1 if is_gradient else random.choice([1, 1, 2]) for _ in range(rank)]
    rhs = [1 if is_gradient else random.choice([1, 1, 2]) for _ in range(rank)]
    lhs = [random.choice([1, 2, 3]) if is_gradient or random.random() < 0.2 else 1 for _ in range(rank)]  # fmt: skip
    padding = [(random.choice([0, 0, 1, 2, -1]), random.choice([0, 0, 1, 2, -1])) for _ in range(rank)]  # fmt: skip
    if random.random() < 0.2:  # a kernel as large as the padded input, as in gradients
        sizes = [max(1, n + low + high - random.choice([0, 1])) for n, (low, high) in zip(extents, padding, strict=True)]  # fmt: skip
    # Negative padding must not remove more elements than the axis has.
    padding = [(max(low, -n), max(high, -n)) if low + high + n >= 0 else (0, 0) for n, (low, high) in zip(extents, padding, strict=True)]  # fmt: skip
    axes = tuple(range(2, 2 + rank))
    op = Convolution(
        window_strides=tuple(strides), padding=tuple(padding), lhs_dilation=tuple(lhs), rhs_dilation=tuple(rhs),
        window_reversal=tuple(random.random() < 0.2 for _ in range(rank)),
        input_batch=0, input_feature=1, input_spatial=axes, kernel_input_feature=1, kernel_output_feature=0,
        kernel_spatial=axes, output_batch=0, output_feature=1, output_spatial=axes,
        feature_group_count=1 if by_batch else groups, batch_group_count=groups if by_batch else 1,
    )  # fmt: skip
    rng = np.random.default_rng(random.randrange(1 << 30))
    channels = per_group if by_batch else per_group * groups
    x = rng.standard_normal((batch, channels, *extents))
    w = rng.standard_normal((groups * several, per_group, *sizes))
    return op, x, w


def channels_last(x: Any) -> Any:
    """Return a copy of an array in which axis 1, the channels, is contiguous."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


@pytest.mark.parametrize("seed", range(8))
def test_random_convolutions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results must be right for any block size, threshold, number of threads, and content of reused memory."""
    random = Random(seed)
    memory = Pool(1 << 24)
    shared = Resources(Workers(2), memory)
    monkeypatch.setattr(matrix_product, "MIN_POOLED_BYTES", 1)
    for _ in range(25):
        op, x, w = any_case(random)
        monkeypatch.setattr(window_products, "BLOCK_BYTES", random.choice([1, 400, 1 << 19]))
        monkeypatch.setattr(matrix_product, "MIN_BLOCK_EXTENT", random.choice([1, 128]))
        monkeypatch.setattr(kernels, "MIN_CHANNELS_PER_OUTPUT", random.choice([0, 4]))
        monkeypatch.setattr(matrix_product, "MIN_PARALLEL_WORK", random.choice([1, 1 << 24]))
        expected = defined(op, x, w)
        for image in (x, channels_last(x), np.asfortranarray(x)):
            for filters in (w, np.asfortranarray(w)):
                memory.release(np.full(1 << 16, 255, np.uint8))
                into = memory.allocate(max(1, expected.nbytes))
                into[...] = 255
                for convolved in (
                    kernels.CONVOLUTION.bind(op, (), shared),
                    kernels.ConvolutionFunction(op, SERIAL_RESOURCES),
                ):
                    y = convolved(image, filters, [into])
                    np.testing.assert_allclose(y, expected, 1e-12, 1e-12, err_msg=str(op))
                    assert y.size == 0 or np.may_share_memory(y, into)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_zeros_of_padding_and_holes_times_what_is_not_finite_are_nan(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products of NaN or infinity and the zeros of padding and dilation must make the right results NaN.

    The test runs each algorithm, native and compiled.
    """
    random, ways = Random(3), set[str]()
    for name in ("_write_phases", "scatter_products", "_write_groups"):
        monkeypatch.setattr(kernels, name, _noted(getattr(kernels, name), ways, name))
    for number in range(60):
        op, x, w = any_case(random)
        monkeypatch.setattr(kernels, "MIN_CHANNELS_PER_OUTPUT", random.choice([0, 4]))
        if not w.size or not x.size:
            continue
        for compiled in (False, True) if number % 4 == 0 and is_installed() else (False,):
            executor = tnf.GraphExecutor("K", compiled=compiled)
            program = tnf.compile(lambda x, w, op=op: apply_one(op, x, w), x, w)
            for place in (0, w.size - 1, None):
                kernel = w.copy()
                if place is not None:
                    kernel.flat[place] = value
                with np.errstate(invalid="ignore"):
                    expected = defined(op, x, kernel)
                y = executor.run(program, x, kernel)
                np.testing.assert_allclose(y, expected, 1e-12, 1e-12, err_msg=str(op))
    assert ways == {"_write_phases", "scatter_products", "_write_groups"}


def _noted(function: Any, ways: set[str], name: str) -> Any:
    def noted(*args: Any) -> Any:
        ways.add(name)
        return function(*args)

    return noted


@pytest.mark.parametrize("edges", [(3, 0), (0, 3), (3, 3)])
def test_blocks_that_lie_in_the_padding(
    edges: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If all windows of a block contain only padding, the block must not access the input."""
    monkeypatch.setattr(window_products, "BLOCK_BYTES", 1)
    monkeypatch.setattr(matrix_product, "MIN_BLOCK_EXTENT", 1)
    op, _, _ = any_case(Random(0))
    op = replace(
        op, window_strides=(1, 1), padding=(edges, edges), lhs_dilation=(1, 1), rhs_dilation=(1, 1),
        window_reversal=(False, False), input_spatial=(2, 3), kernel_spatial=(2, 3), output_spatial=(2, 3),
        feature_group_count=1, batch_group_count=1,
    )  # fmt: skip
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, 2, 4, 5)), rng.standard_normal((3, 2, 1, 2))
    for image in (x, channels_last(x)):
        y = kernels.CONVOLUTION(op, image, w)
        np.testing.assert_allclose(y, defined(op, x, w), 1e-12, 1e-12)


LAYERS = {
    "by rows": ((1, 30, 30, 16), (3, 3, 16, 32), (1, 1), 1),
    "by rows, with strides": ((2, 31, 29, 8), (7, 5, 8, 24), (2, 3), 1),
    "of one element": ((1, 40, 40, 32), (1, 1, 32, 64), (1, 1), 1),
    "few outputs": ((1, 24, 26, 3), (7, 7, 3, 48), (2, 2), 1),
    "few places": ((2, 5, 5, 64), (3, 3, 64, 96), (1, 1), 1),
    "in groups": ((1, 16, 16, 32), (3, 3, 8, 48), (1, 1), 4),
    "by channels": ((1, 20, 20, 48), (5, 5, 1, 48), (1, 1), 48),
}


@pytest.mark.parametrize("block", [1 << 16, 1 << 18])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_gradients_in_any_order_on_any_threads(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results must have the same bits for any layout of the result and any number of threads."""
    monkeypatch.setattr(matrix_product, "MIN_PARALLEL_WORK", 1 << 12)
    monkeypatch.setattr(window_products, "BLOCK_BYTES", block)
    extents, filters, strides, groups = LAYERS[name]
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (extents, filters))

    def loss(x: Any, w: Any) -> Any:
        y = lax.conv_general_dilated(
            x, w, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups,
        )  # fmt: skip
        return tnf.sum(y * y), y

    program = tnf.compile(tnf.value_and_grad(loss, (0, 1), has_aux=True), x, w)
    runs = [
        tnf.GraphExecutor("K", threads=1),
        tnf.GraphExecutor("K", threads=2),
        tnf.GraphExecutor("F", threads=1),
        tnf.GraphExecutor("F", threads=2),
        tnf.GraphExecutor("C", threads=2),
    ]
    results: list[list[Any]] = []
    for executor in runs:
        for _ in range(2):
            (_, y), gradients = executor.run(program, x, w)
            results.append([y, *gradients])
            assert executor.order == "K" or all([a.flags[executor.order] for a in results[-1]])
    for arrays in results[1:]:
        for array, same in zip(arrays, results[0], strict=True):
            np.testing.assert_array_equal(array, same, strict=True)
    doubles = x.astype(np.float64), w.astype(np.float64)
    monkeypatch.setattr(kernels, "MIN_CHANNELS_PER_OUTPUT", 1 << 20)
    program = tnf.compile(tnf.value_and_grad(loss, (0, 1), has_aux=True), *doubles)
    (_, y), gradients = runs[0].run(program, *doubles)
    for array, expected in zip(results[0], (y, *gradients), strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(array / scale, expected / scale, rtol=0, atol=1e-5)

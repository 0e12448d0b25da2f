"""Convolutions natively against their definition, term by term, in every layout of memory."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from tenferro.exec.kernels import convolution as kernels
from tenferro.ops.contraction import Convolution


def defined(op: Convolution, x: Any, w: Any) -> Any:
    """Y[n, o, p] as a sum over channels and elements of the kernel: StableHLO's definition for standard axes."""
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
                if all(0 <= i < m for i, m in zip(at, dilated.shape[2:], strict=True)):
                    y[(n, o, *place)] += dilated[(row, channel, *at)] * w[(o, c, *tap)]
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
    if random.random() < 0.2:  # as in gradients of kernels
        sizes = [max(1, n + low + high - random.choice([0, 1])) for n, (low, high) in zip(extents, padding, strict=True)]  # fmt: skip
    # An edge that cuts more than there is makes no sense to anybody.
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
    """The same array with its channels beside each other in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)


@pytest.mark.parametrize("seed", range(8))
def test_random_convolutions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a row each and of everything, few places and many."""
    random = Random(seed)
    for _ in range(25):
        op, x, w = any_case(random)
        monkeypatch.setattr(kernels, "BLOCK_BYTES", random.choice([1, 400, 1 << 19]))
        monkeypatch.setattr(kernels, "FEW_COLUMNS", random.choice([1, 16]))
        expected = defined(op, x, w)
        for image in (x, channels_last(x), np.asfortranarray(x)):
            for filters in (w, np.asfortranarray(w)):
                y = kernels.convolution(op, image, filters)
                np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12, err_msg=str(op))

"""The inferred types of every sample must be those of its results, and its native values must equal its definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.exec.kernels import KERNELS
from tenferro.types import DType, TensorSpec
from tests.samples.closeness import assert_close
from tests.samples.each import each_sample, each_sample_of
from tests.samples.sample import OpSample


def specs(arrays: tuple[np.ndarray, ...]) -> list[TensorSpec]:
    return [TensorSpec(array.shape, DType.of(array.dtype)) for array in arrays]


@each_sample
def test_inferred_types_are_those_of_the_definition(sample: OpSample) -> None:
    inferred = sample.op.infer(*specs(sample.inputs))
    assert [spec.dtype for spec in inferred] == [DType.of(y.dtype) for y in sample.expected]
    for spec, y in zip(inferred, sample.expected, strict=True):
        assert spec.rank == y.ndim
        for extent, actual in zip(spec.shape, y.shape, strict=True):
            assert extent == actual or not isinstance(extent, int)


@each_sample_of("native")
def test_kernel_gives_the_definition(sample: OpSample) -> None:
    for order in ("C", "F"):
        gives_the_definition(sample, order)


def gives_the_definition(sample: OpSample, order: Any) -> None:
    inputs = [np.asarray(x, order=order) for x in sample.inputs]
    kept = [x.copy() for x in inputs]
    with np.errstate(all="ignore"):
        result = KERNELS[type(sample.op)](sample.op, *inputs)
    outputs = result if len(sample.expected) > 1 else (result,)
    scales = sample.scale or (None,) * len(outputs)
    for y, expected, scale in zip(outputs, sample.expected, scales, strict=True):
        assert_close(y, expected, sample.ulps, scale)
    for x, before in zip(inputs, kept, strict=True):
        assert x.tobytes() == before.tobytes(), "the kernel wrote to its input"

"""Each kernel computes all samples of its op, with results close to NumPy's."""

from __future__ import annotations

from typing import Any

import pytest
from tenferro_torch import TORCH, analytic, contraction

import tenferro as tnf
from tenferro.errors import UnsupportedError
from tenferro.ops import analytic as ops
from tenferro.ops import elementwise, reduction
from tenferro.ops.indexing import Scatter
from tests.samples import SAMPLES
from tests.samples.closeness import assert_close
from tests.samples.sample import OpSample

NATIVE = tnf.GraphExecutor("K")
EXECUTOR = tnf.GraphExecutor("K", backend=TORCH)
OF_OPERANDS = {
    **dict.fromkeys(analytic.ROWS, 8.0),
    **dict.fromkeys(contraction.ROWS, 8.0),
    reduction.ReduceSum: 8.0,
    reduction.ReduceProd: 8.0,
    reduction.CumSum: 8.0,
    reduction.CumProd: 8.0,
    elementwise.Power: 2.0,
    ops.Digamma: 64.0,  # because digamma has a zero near 1.5
}
"""Maximum difference of results by op, in units in the last place; all other ops must give equal bits."""
COMPLEX = dict.fromkeys(
    [elementwise.Multiply, elementwise.Divide, elementwise.Abs, elementwise.Sign], 4.0
)
"""Maximum difference for complex numbers, in units in the last place: each step of their arithmetic rounds."""


def allowed(sample: OpSample) -> float:
    kind = type(sample.op)
    if isinstance(sample.op, Scatter) and sample.op.combiner == "multiply":
        return 1.0  # other roundings in float16 and complex
    return OF_OPERANDS.get(kind, COMPLEX.get(kind, 0.0) if sample.dtype.is_complex else 0.0)


def dtypes(sample: OpSample) -> set[tnf.DType]:
    return {tnf.DType.of(x.dtype) for x in (*sample.inputs, *sample.expected)}


def is_refused(sample: OpSample) -> bool:
    return any(TORCH.refuses(type(sample.op), dtype) for dtype in dtypes(sample))


def check(sample: OpSample) -> None:
    if is_refused(sample):
        with pytest.raises(UnsupportedError, match=f"{sample.name}: backend 'torch' on "):
            EXECUTOR.apply(sample.op, sample.inputs)
        return
    outputs = EXECUTOR.apply(sample.op, sample.inputs)
    scales: Any = sample.scale or [None] * len(outputs)
    for y, expected, scale in zip(
        outputs, NATIVE.apply(sample.op, sample.inputs), scales, strict=True
    ):
        assert_close(y, expected, allowed(sample), scale)


@pytest.mark.parametrize("op", TORCH.kernels, ids=lambda op: op.__name__)
def test_kernel(op: Any) -> None:
    failures: list[str] = []
    for sample in SAMPLES[op]:
        try:
            check(sample)
        except Exception as error:
            failures.append(f"{sample}: {type(error).__name__}: {error}")
    assert not failures, "\n".join([f"{len(failures)} of {len(SAMPLES[op])}", *failures[:8]])
    assert not all(map(is_refused, SAMPLES[op]))

"""Every sample through StableHLO and PJRT, as parameters and as constants, against the native result.

All samples of an op share one module, because each compilation costs tens of milliseconds.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowering
from tenferro.exec.kernels import KERNELS
from tenferro.graph import GraphBuilder
from tenferro.ops import StdTensorOp
from tenferro.program import GraphProgram
from tests.samples import SAMPLES
from tests.samples.closeness import ulps_apart
from tests.samples.sample import OpSample
from xla_peer import XlaExecutor

BATCH = 60

BATCHES = [
    pytest.param(
        rows[start : start + BATCH],
        constants,
        id=f"{'constants' if constants else 'parameters'}-{card.__name__}-{start // BATCH}",
        # Folding is asked of every op, and of every sample in the sweep.
        marks=[pytest.mark.sweep] if constants and start else [],
    )
    for constants in (False, True)
    for card, samples in SAMPLES.items()
    for rows in [[sample for sample in samples if sample.xla]]
    for start in range(0, len(rows), BATCH)
]


LEVELS = [0, pytest.param(None, marks=pytest.mark.sweep)]
"""XLA's own passes are the same at level 0, and LLVM's take most of the time; the sweep has both."""


@pytest.fixture(scope="module", params=LEVELS)
def executor(request: pytest.FixtureRequest) -> XlaExecutor:
    return XlaExecutor("cpu", optimization_level=request.param)


def program_of(samples: list[OpSample], constants: bool) -> GraphProgram:
    """One program with an output per output of each sample."""
    builder = GraphBuilder()
    outputs: list[int] = []
    for sample in samples:
        values = [
            builder.constant(x) if constants else builder.input(x.shape, x.dtype)
            for x in sample.inputs
        ]
        outputs += builder.emit_all(sample.op, *values)
    return GraphProgram.from_graph(builder.graph, outputs)


def native(op: StdTensorOp, inputs: tuple[Any, ...]) -> list[Any]:
    with np.errstate(all="ignore"):
        result = KERNELS[type(op)](op, *inputs)
    return list(map(np.asarray, result if op.output_count > 1 else (result,)))


def flushed(result: Any, expected: Any) -> Any:
    """Where XLA gives zero for a subnormal number: it runs the CPU with subnormals switched off."""
    if expected.dtype.kind in "biu":
        return np.zeros(expected.shape, bool)
    if expected.dtype.kind == "c":
        return flushed(result.real, expected.real) | flushed(result.imag, expected.imag)
    smallest = ml_dtypes.finfo(expected.dtype).smallest_normal
    with np.errstate(all="ignore"):
        return (result == 0) & (expected != 0) & (np.abs(expected) < smallest)


@pytest.mark.parametrize(("samples", "constants"), BATCHES)
def test_xla_agrees_with_native(
    samples: list[OpSample], constants: bool, executor: XlaExecutor
) -> None:
    program = program_of(samples, constants)
    lowering.lower_to_stablehlo(program).verify()
    arrays = [] if constants else [x for sample in samples for x in sample.inputs]
    results = list(executor.run(program, *arrays))
    failures: list[str] = []
    for sample in samples:
        expected = native(sample.op, sample.inputs)
        scales = sample.scale or (None,) * len(expected)
        for y, scale in zip(expected, scales, strict=True):
            result = results.pop(0)
            apart = np.where(flushed(result, y), 0, ulps_apart(result, y, scale))
            if apart.size and apart.max() > sample.xla_ulps:
                worst = np.unravel_index(np.argmax(apart), apart.shape)
                given = [x[worst] if x.shape == y.shape else "" for x in sample.inputs]
                failures.append(f"{sample}: {apart[worst]:.3g} ulps at {worst}, inputs {given}")
    assert not failures, "\n".join(failures)

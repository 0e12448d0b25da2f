"""Every sample must have its native result when it is lowered to StableHLO.

PJRT and the reference interpreter run the text. PJRT runs each sample twice: with its operands as parameters and as
constants. All samples of an op are in one module, because each compilation takes tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowering
from lowering.extensions import GPUS
from lowering.refusals import refusal
from tenferro.exec.kernels import KERNELS
from tenferro.graph import GraphBuilder
from tenferro.ops import StdTensorOp
from tenferro.ops.contraction import DotGeneral
from tenferro.ops.indexing import Scatter
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec
from tests.ledger.recording import Passes
from tests.ledger.writing import exemption
from tests.levels import HAS_FLOAT16, LEVELS, peer_of
from tests.samples import SAMPLES
from tests.samples.closeness import ulps_apart
from tests.samples.sample import OpSample
from xla_peer import XlaExecutor
from xla_peer.parity.comparison import compare
from xla_peer.parity.interpreter import interpreted
from xla_peer.parity.paths import limits
from xla_peer.parity.pending import pending_roundings
from xla_peer.parity.rounding import rounding_of
from xla_peer.parity.ulps import ulps_apart as spacings_apart

BATCH = 60


def is_compiled(sample: OpSample) -> bool:
    """Return whether XLA can compile the sample for this processor, which may lack float16 conversions."""
    return HAS_FLOAT16 or not any(x.dtype == np.float16 for x in (*sample.inputs, *sample.expected))


ROWS = {
    card: [sample for sample in samples if sample.xla and is_compiled(sample)]
    for card, samples in SAMPLES.items()
}
MOST = {False: 40, True: 12}
"""Maximum number of samples of an op in ordinary runs.

The key says whether the operands are constants. The sweep runs all samples.
"""
BATCHES = [
    pytest.param(rows[:: -(-len(rows) // most)], constants, id=f"{kind}-{card.__name__}-some")
    for constants, most in MOST.items()
    for kind in ["constants" if constants else "parameters"]
    for card, rows in ROWS.items()
    if rows
] + [
    pytest.param(
        rows[start : start + BATCH],
        constants,
        id=f"{'constants' if constants else 'parameters'}-{card.__name__}-{start // BATCH}",
        marks=pytest.mark.sweep,
    )
    for constants in MOST
    for card, rows in ROWS.items()
    for start in range(0, len(rows), BATCH)
]


@pytest.fixture(scope="module", params=LEVELS)
def executor(request: pytest.FixtureRequest) -> XlaExecutor:
    return peer_of(request)


def program_of(samples: list[OpSample], constants: bool) -> GraphProgram:
    """Return one program that computes all samples. Its outputs are the outputs of the samples, one after the other."""
    builder = GraphBuilder()
    outputs: list[int] = []
    for sample in samples:
        values = [
            builder.constant(x) if constants else builder.input(x.shape, x.dtype)
            for x in sample.inputs
        ]
        outputs += builder.apply(sample.op, *values)
    return GraphProgram.from_graph(builder.graph, outputs)


def native(op: StdTensorOp, inputs: tuple[Any, ...]) -> list[Any]:
    with np.errstate(all="ignore"):
        result = KERNELS[type(op)](op, *inputs)
    return list(map(np.asarray, result if op.output_count > 1 else (result,)))


def flushed(result: Any, expected: Any) -> Any:
    """Return a mask of the elements where XLA has flushed a subnormal number to zero."""
    if expected.dtype.kind in "biu":
        return np.zeros(expected.shape, bool)
    if expected.dtype.kind == "c":
        return flushed(result.real, expected.real) | flushed(result.imag, expected.imag)
    smallest = ml_dtypes.finfo(expected.dtype).smallest_normal
    with np.errstate(all="ignore"):
        return (result == 0) & (expected != 0) & (np.abs(expected) < smallest)


@pytest.mark.parametrize(("samples", "constants"), BATCHES)
def test_xla_agrees_with_native(
    samples: list[OpSample], constants: bool, executor: XlaExecutor, ledger: Passes
) -> None:
    samples = [sample for sample in samples if runs_on(sample, executor.platform)]
    if not samples:
        pytest.skip("none of them runs there")
    program = program_of(samples, constants)
    lowering.lower_to_stablehlo(program, executor.platform).verify()
    arrays = [] if constants else [x for sample in samples for x in sample.inputs]
    results = list(executor.run(program, *arrays))
    platform = executor.platform
    assert not (failures := list(parted(samples, results, platform))), "\n".join(failures)
    assert not (rounded := list(rounded_differently(samples, results, platform))), "\n".join(
        rounded
    )
    for sample in samples:
        ledger.passed("export", sample)
        ledger.passed("PJRT", sample)


def runs_on(sample: OpSample, platform: str) -> bool:
    """Return whether the sample can be lowered for the platform, and has a unique result there."""
    operands = sample.inputs or sample.expected
    if any(refusal(type(sample.op), DType.of(x.dtype), platform) for x in operands):
        return False
    # If several updates set the same element, a GPU applies them in any order. The result is then not unique.
    is_open = isinstance(sample.op, Scatter) and sample.op.combiner == "set"
    return not (platform in GPUS and is_open and sample.label.startswith("no axis"))


def parted(samples: list[OpSample], results: list[Any], platform: str = "cpu") -> Iterator[str]:
    """Yield the name of each sample whose result differs from the native one by more than `xla_ulps`.

    On other platforms than the CPU, the rounding that the parity check assumes for the platform is also allowed.
    """
    rest = iter(results)
    for sample in samples:
        expected = native(sample.op, sample.inputs)
        scales = sample.scale or (None,) * len(expected)
        for y, scale in zip(expected, scales, strict=True):
            result = next(rest)
            apart = np.where(flushed(result, y), 0, ulps_apart(result, y, scale))
            allowed = sample.xla_ulps
            if platform != "cpu":
                specs = tuple([TensorSpec(x.shape, x.dtype) for x in sample.inputs])
                rounding = rounding_of(sample.op, specs, platform)
                allowed = max(allowed, rounding.output(y.dtype.kind == "c"))
            if apart.size and apart.max() > allowed:
                worst = np.unravel_index(np.argmax(apart), apart.shape)
                given = [x[worst] if x.shape == y.shape else "" for x in sample.inputs]
                yield f"{sample}: {apart[worst]:.3g} ulps at {worst}, inputs {given}"


def rounded_differently(
    samples: list[OpSample], results: list[Any], platform: str
) -> Iterator[str]:
    """Yield the name of each sample whose bits differ although, by the parity check, no op of its program rounds."""
    rest = iter(results)
    for sample in samples:
        alone = program_of([sample], False)
        pending = pending_roundings(alone, platform=platform)
        for y, slot in zip(native(sample.op, sample.inputs), alone.output_slots, strict=True):
            result = next(rest)
            apart = np.where(flushed(result, y), 0, spacings_apart(result, y))
            if not pending[slot].differs and apart.any():
                yield f"{sample}: {apart.max():.3g} ulps, and nothing rounds"


@pytest.mark.sweep
@pytest.mark.parametrize("card", SAMPLES, ids=lambda card: card.__name__)
def test_the_parity_check_finds_nothing_wrong_with_any_sample(card: Any) -> None:
    executor, samples = XlaExecutor("cpu"), [sample for sample in SAMPLES[card] if sample.xla]
    for start in range(0, len(samples), BATCH):
        batch = samples[start : start + BATCH]
        arrays = [x for sample in batch for x in sample.inputs]
        rest = iter(executor.run(program_of(batch, False), *arrays))
        for sample in batch:
            expected = native(sample.op, sample.inputs)
            allowed = limits(program_of([sample], False), sample.inputs, expected)
            for y, allowance in zip(expected, allowed, strict=True):
                assert compare(str(sample), y, next(rest), *allowance).ok, sample


# ---- the reference interpreter ---------------------------------------------------------------------

INTERPRETED = {
    card: [sample for sample in samples if exemption("interpreter", sample) is None]
    for card, samples in SAMPLES.items()
}
ONE_EACH = [samples[0] for samples in INTERPRETED.values() if samples]
A_PROCESS = 30
"""Number of samples per process of the interpreter in ordinary runs.

A process takes a second to start. Ordinary runs have one sample of each op.
"""


@pytest.mark.parametrize("start", range(0, len(ONE_EACH), A_PROCESS))
def test_the_reference_interpreter_on_a_sample_of_each_op(start: int) -> None:
    agree_with_the_interpreter(ONE_EACH[start : start + A_PROCESS])


@pytest.mark.sweep
@pytest.mark.parametrize("card", INTERPRETED, ids=lambda card: card.__name__)
def test_the_reference_interpreter_on_every_sample(card: Any, ledger: Passes) -> None:
    samples = INTERPRETED[card]
    for start in range(0, len(samples), BATCH):
        agree_with_the_interpreter(samples[start : start + BATCH])
    for sample in samples:
        ledger.passed("interpreter", sample)


def agree_with_the_interpreter(samples: list[OpSample]) -> None:
    """Run samples by the reference interpreter.

    Fail if it returns no results, or results that differ from the native ones.
    """
    results = interpreted(program_of(samples, False), [x for s in samples for x in s.inputs])
    assert not isinstance(results, str), results
    assert not (failures := list(parted(samples, results))), "\n".join(failures)


def test_the_interpreter_cannot_do_what_is_exempt() -> None:
    exempt = [sample for sample in SAMPLES[DotGeneral] if sample.exempt]
    assert "ended with status" in str(interpreted(program_of(exempt[:1], False), exempt[0].inputs))

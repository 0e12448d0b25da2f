"""Type inference with symbols must be right for every sample.

The extents of a sample are replaced by symbols. If the symbols get the sample's extents, the inferred types must be
those of the sample, and all guards must hold.
"""

from __future__ import annotations

from tenferro.dims import GuardLog, Symbol, SymDim, UpperBound
from tenferro.ops import STD_OPS
from tenferro.types import TensorSpec
from tests.samples import ALL
from tests.samples.each import each_sample
from tests.samples.sample import OpSample


@each_sample
def test_inference_with_a_symbol_for_each_extent(sample: OpSample) -> None:
    bindings = {}
    specs = []
    for number, array in enumerate(sample.inputs):
        names = [f"n{number}_{axis}" for axis in range(array.ndim)]
        bindings |= {Symbol(name): n for name, n in zip(names, array.shape, strict=True)}
        specs.append(TensorSpec(tuple(names), array.dtype))
    guards = GuardLog()
    inferred = sample.op.infer(*specs, guards=guards)
    for guard in guards.guards:
        guard.check(bindings)
    for spec, y in zip(inferred, sample.expected, strict=True):
        assert spec.rank == y.ndim
        for extent, actual in zip(spec.shape, y.shape, strict=True):
            if isinstance(extent, UpperBound):
                assert actual <= SymDim.evaluate(extent.dim, bindings)
            else:
                value = extent if isinstance(extent, int) else extent.evaluate(bindings)
                assert value == actual


def test_every_card_has_samples() -> None:
    assert {type(sample.op) for sample in ALL} == set(STD_OPS)

"""Every op must be exported with symbolic extents and be right for its sample, or an error must name the op."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.dispatch import apply
from tenferro.types import DType
from tests.samples import SAMPLES
from tests.samples.sample import OpSample

PER_OP = 1
CHOSEN = [
    sample
    for samples in SAMPLES.values()
    for sample in [s for s in samples if s.inputs and s.xla and any(x.ndim for x in s.inputs)][::7][
        :PER_OP
    ]
]
REFUSED = {"CumSum", "CumProd", "CumMax", "CumMin"}
"""Names of ops that are lowered to windows. StableHLO has no windows of symbolic size."""


def symbols(sample: OpSample) -> list[tnf.TensorSpec]:
    """Return the types of a sample's inputs, with a symbol in place of each extent.

    Equal extents share a symbol, because most ops require them to be equal.
    """
    return [
        tnf.TensorSpec([f"n{extent}" for extent in x.shape], DType.of(x.dtype))
        for x in sample.inputs
    ]


@pytest.mark.parametrize("sample", CHOSEN, ids=str)
def test_symbolic(sample: OpSample) -> None:
    def fn(*xs: Any) -> Any:
        return apply(sample.op, *xs)

    try:
        program = tnf.compile(fn, *symbols(sample))
    except errors.TenferroError as error:
        pytest.skip(f"needs numbers already to be traced: {type(error).__name__}")
    try:
        artifact = xla_peer.export(program)
    except errors.NonStaticShapeError:
        assert sample.op.name in REFUSED
        return
    found = artifact.run(*sample.inputs)
    for y, expected in zip(found, program.run(*sample.inputs), strict=True):
        assert y.shape == expected.shape
        assert y.dtype == expected.dtype
        if DType.of(y.dtype).is_inexact:
            wide = complex if DType.of(y.dtype).is_complex else float
            eps = (
                64 * float(np.finfo(DType.of(y.dtype).real.dtype).eps)
                if y.dtype.itemsize > 2
                else 0.05
            )
            np.testing.assert_allclose(y.astype(wide), expected.astype(wide), rtol=eps, atol=eps)
        else:
            np.testing.assert_array_equal(y, expected)

"""Table of samples. Each op is defined by examples of its operands and results."""

from __future__ import annotations

import numpy as np

from tenferro.ops import STD_OPS, Column
from tests.samples.sample import OpSample

with np.errstate(all="ignore"):  # because some definitions overflow on purpose
    from tests.samples import (
        analytic,
        contraction,
        control,
        dynamic,
        elementwise,
        indexing,
        reduction,
        source,
        structural,
    )

SAMPLES = Column(
    "sample",
    "tests/samples",
    STD_OPS,
    source.ROWS,
    elementwise.ROWS,
    analytic.ROWS,
    structural.ROWS,
    reduction.ROWS,
    contraction.ROWS,
    indexing.ROWS,
    dynamic.ROWS,
    control.ROWS,
)
ALL: list[OpSample] = [sample for samples in SAMPLES.values() for sample in samples]

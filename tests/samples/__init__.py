"""The sample column: for each op, what it does by definition."""

from __future__ import annotations

from tests.samples import elementwise
from tests.samples.sample import OpSample, merge

SAMPLES = merge(elementwise.ROWS)
ALL: list[OpSample] = [sample for samples in SAMPLES.values() for sample in samples]

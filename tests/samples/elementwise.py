"""Samples of the elementwise family."""

from __future__ import annotations

import operator

from tenferro.ops.elementwise import Add
from tests.samples.sample import OpSample, SampleRows, dtypes_of, each, ordinary_values, wrap

ADD = [
    OpSample(
        Add(),
        (x := ordinary_values((2, 3), dtype, 1), y := ordinary_values((2, 3), dtype, 2)),
        (
            each(
                dtype,
                operator.or_
                if dtype.is_bool
                else (lambda a, b, d=dtype: wrap(a + b, d))
                if dtype.is_integer
                else operator.add,
                x,
                y,
            ),
        ),
    )
    for dtype in dtypes_of(Add)
]

ROWS: SampleRows = {Add: ADD}

"""Readers: functions that convert StableHLO operations to tenferro's ops.

The files have the same names as the files in `lowering/emit`, which convert ops to StableHLO operations.
"""

from lowering.read import (
    checks,
    contraction,
    control,
    devices,
    dynamic,
    elementwise,
    indexing,
    normalization,
    random,
    reduction,
    refused,
    structural,
)
from lowering.read.broadcasting import broadcasting_rows
from lowering.read.dynamic import note_extents
from lowering.read.reader import Read, Reader, ReadRows

__all__ = ["READERS", "Read", "Reader", "note_extents"]

_PLAIN: ReadRows = {
    **elementwise.ROWS,
    **structural.ROWS,
    **reduction.ROWS,
    **contraction.ROWS,
    **indexing.ROWS,
    **control.ROWS,
    **normalization.ROWS,
    **random.ROWS,
    **devices.ROWS,
    **dynamic.ROWS,
    **checks.ROWS,
    **refused.ROWS,
}
READERS: ReadRows = {**_PLAIN, **broadcasting_rows(_PLAIN)}
"""Readers of all supported operations, by operation name."""

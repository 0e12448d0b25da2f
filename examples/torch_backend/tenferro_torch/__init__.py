"""PyTorch's CPU tensors as a backend of tenferro's executor.

>>> import numpy as np
>>> import tenferro as tnf
>>> program = tnf.compile(lambda x: tnf.sum(x * x), tnf.TensorSpec((2,), "float64"))
>>> float(tnf.GraphExecutor(backend=TORCH).run(program, np.array([3.0, 4.0])))
25.0
"""

from __future__ import annotations

from tenferro.exec.backend import Backend
from tenferro_torch import (
    analytic,
    contraction,
    control,
    elementwise,
    indexing,
    reduction,
    source,
    structural,
)
from tenferro_torch.memory import allocate, download, upload
from tenferro_torch.refusals import refusal

__all__ = ["TORCH"]

TORCH = Backend(
    "torch",
    {
        **source.ROWS,
        **elementwise.ROWS,
        **analytic.ROWS,
        **structural.ROWS,
        **reduction.ROWS,
        **contraction.ROWS,
        **indexing.ROWS,
        **control.ROWS,
    },
    upload,
    download,
    allocate,
    refusal,
)
"""Backend with kernels for PyTorch's CPU tensors; ops without a kernel and unsupported dtypes raise errors."""

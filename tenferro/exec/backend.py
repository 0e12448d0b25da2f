"""`Backend`: a table of kernels, and how arrays are uploaded and downloaded.

NumPy's is the default. Another backend runs the same schedules by the interpreter, on arrays of its own. An op without
a kernel is refused by name: nothing falls back.

Source: docs/specification/backends.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.errors import UnsupportedError
from tenferro.exec.kernels import KERNELS
from tenferro.ops import StdTensorOp
from tenferro.ops.source import Constant
from tenferro.types import DType, TensorSpec

__all__ = ["NUMPY", "Backend"]


@dataclass(frozen=True, eq=False)
class Backend:
    """Kernels, and memory for their arrays.

    Attributes:
        name: name in errors.
        kernels: for each op a function of the op and of the backend's arrays, which returns one array, or a tuple
            with one array per output. It may have `bind(op, types, resources)`, which gives a function of the
            arrays alone. The kernel of a loop or conditional has `bind_programs(runs)`, which returns such a
            function for the op's bodies, each a function from a sequence of arrays to a list of arrays. Constants
        are uploaded, unless the backend has a kernel for constants.
        upload: converts a NumPy array to one of the backend.
        download: converts an array of the backend to NumPy's.
        allocate: returns an array of a type, with undefined elements.
        refuses: returns why an op is not computed for a dtype of operands or results, or None.

    >>> import tenferro as tnf
    >>> from tenferro.ops.elementwise import Multiply
    >>> squares = Backend("squares", {Multiply: lambda op, x, y: x * y})
    >>> program = tnf.compile(lambda x: x * x, tnf.TensorSpec((2,), "float64"))
    >>> tnf.GraphExecutor(backend=squares).run(program, np.array([2.0, 3.0]))
    array([4., 9.])
    """

    name: str
    kernels: Mapping[type[StdTensorOp], Callable[..., Any]]
    upload: Callable[[Any], Any] = np.asarray
    download: Callable[[Any], Any] = np.asarray
    allocate: Callable[[TensorSpec], Any] = lambda spec: np.empty(spec.shape, spec.dtype.dtype)
    refuses: Callable[[type[StdTensorOp], DType], str | None] = lambda op, dtype: None

    def kernel(
        self, op: type[StdTensorOp], dtypes: tuple[DType, ...] = (), name: str | None = None
    ) -> Callable[..., Any]:
        """Return the kernel of an op, on operands or results of these dtypes.

        Args:
            name: name in errors; by default that of the op's class.

        Raises:
            UnsupportedError: there is none.
        """
        name = op.__name__ if name is None else name
        kernel = self.kernels.get(op)
        if kernel is None and op is Constant:
            return lambda op: self.upload(op.array)
        if kernel is None:
            raise UnsupportedError(
                f"{name}: backend {self.name!r} has no kernel for it; run it on another, or add one for "
                f"{op.__name__} to its table"
            )
        for dtype in dtypes:
            reason = self.refuses(op, dtype)
            if reason is not None:
                raise UnsupportedError(f"{name}: backend {self.name!r} on {dtype}: {reason}")
        return kernel


NUMPY = Backend("numpy", KERNELS)
"""NumPy and SciPy on the host, whose schedules go through all steps of planning."""

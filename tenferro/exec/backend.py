"""The seam for backends: kernels from a table, and memory from whom they belong to.

A backend is a value. NumPy's is the default; another one runs the same schedules by the interpreter, on arrays of
its own, and what it has no kernel for is refused by name: nothing falls back.

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
    """A provider of kernels and of memory for their arrays.

    Attributes:
        name: for errors.
        kernels: for each op a function of the op and of the backend's arrays, which gives one array, or a
            tuple of as many as the op has outputs. It may have `bind(op, types, resources)`, which gives a
            function of the arrays alone. That of a loop or choice has `over(runs)`, which gives such a
            function for the op's parts, each a function from a sequence of arrays to a list of them.
            Constants are uploaded, unless there is a kernel for them.
        upload: a NumPy array as one of the backend's.
        download: one of the backend's arrays as NumPy's.
        allocate: an array of a type, its elements undefined.
        refuses: what is not computed although there is a kernel, of operands and of results: why, or None.

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
        """The kernel of an op, on operands or results of these dtypes.

        Args:
            name: for errors; that of the op's class by default.

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
"""NumPy and SciPy, on the host's memory; its schedules are planned further, for how NumPy uses memory."""

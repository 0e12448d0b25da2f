"""`Backend`: kernels for one class of arrays; NumPy's backend is the default.

The schedules of other backends are interpreted. An op without a kernel raises an error that names the op; it never runs
on another backend.

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
    """Kernels for one class of arrays, and functions that allocate, upload and download such arrays.

    Attributes:
        name: the backend's name, for error messages.
        kernels: the kernel of each class of ops: a function of the op and of the backend's arrays. It returns one
            array, or a tuple with one array per output. It may have a method `bind(op, types, resources)`, which
            returns a function of the arrays alone. The kernel of a loop or conditional has a method
            `bind_programs(runs)`. The list `runs` contains a function for each body of the op, from a sequence of
            arrays to a list of arrays. Constants are uploaded, unless the backend has a kernel for constants.
        upload: converts a NumPy array to an array of the backend.
        download: converts an array of the backend to a NumPy array.
        allocate: returns a new array of a type, with undefined elements.
        refuses: returns why the backend does not support an op for a dtype, or None if it does.

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
        """Return the kernel of an op for operands or results of these dtypes.

        Args:
            name: the op's name in error messages; by default the name of its class.

        Raises:
            UnsupportedError: the backend has no kernel for the op, or does not support one of the dtypes.
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
"""Backend of NumPy and SciPy. Only its schedules are planned, compiled and fused; see `tenferro.exec.plan`."""

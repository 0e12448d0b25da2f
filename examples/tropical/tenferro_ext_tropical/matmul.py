"""The matrix product in a tropical algebra, as one fused op that never stores all combinations of elements.

Source: seed 000, section 14 (a fused tropical product as an extension).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.extension import ExtensionOp, HostReferenceRuntime, apply, extension_family, require
from tenferro.extension.ops import (
    Add,
    ArgMax,
    ArgMin,
    BroadcastInDim,
    Multiply,
    ReduceMax,
    ReduceMin,
)
from tenferro_ext_tropical.algebras import ALGEBRAS, MAX_PLUS, Algebra
from tenferro_ext_tropical.rules import ProductRule

__all__ = ["FusedMatmul", "matmul"]


@extension_family(
    "tenferro-ext-tropical",
    "fused_matmul",
    version=1,
    runtime=HostReferenceRuntime,
    rules=ProductRule,
)
@dataclass(frozen=True)
class FusedMatmul(ExtensionOp):
    """y[.., m, n] = plus over k of x1[.., m, k] times x2[.., k, n]. The second output is the first k that attains it.

    Attributes:
        algebra: "max_plus", "min_plus" or "max_times".
    """

    algebra: str = "max_plus"
    input_count = 2
    output_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        if self.algebra not in ALGEBRAS:
            raise InvalidConfigError(
                f"FusedMatmul: algebra must be one of {', '.join(ALGEBRAS)}, got {self.algebra!r}"
            )
        (dtype, other), (left, right) = input_dtypes, map(tuple, input_shapes)
        if dtype is not other or not dtype.is_float:
            raise DTypeError(f"FusedMatmul: needs floats of one dtype, got {dtype} and {other}")
        if len(left) < 2 or len(left) != len(right):
            raise ShapeError(f"FusedMatmul: needs matrices of one rank, got {left} and {right}")
        for first, second in zip(left[:-2], right[:-2], strict=True):
            require(first, "==", second, "the extent of a batch axis")
        require(left[-1], "==", right[-2], "the inner extent")
        require(left[-1], ">=", 1, "the inner extent")
        shape = (*left[:-1], right[-1])
        return [(dtype, shape), (tnf.DType.I64, shape)]

    def eager_execute(self, inputs: Any) -> Any:
        """Loop over k, keeping the best combination so far and its k; NaN counts as best, as in a maximum."""
        x1, x2 = inputs
        combine = np.multiply if self.algebra == "max_times" else np.add
        better = np.less if self.algebra == "min_plus" else np.greater
        best = winner = None
        with np.errstate(all="ignore"):
            for k in range(x1.shape[-1]):
                here = combine(x1[..., :, k, None], x2[..., k, None, :])
                if best is None or winner is None:
                    best, winner = here, np.zeros(here.shape, np.int64)
                    continue
                wins = (better(here, best) | np.isnan(here)) & ~np.isnan(best)
                np.copyto(best, here, where=wins)
                np.copyto(winner, k, where=wins)
        return [best, winner]

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        """Return the op as standard ops: all combinations [.., m, k, n], and their reduction over k."""
        left, right = map(tuple, input_shapes)
        batch = len(left) - 2
        shape = (*left, right[-1])
        x1 = builder.emit(BroadcastInDim(shape, tuple(range(batch + 2))), inputs[0])
        x2 = builder.emit(BroadcastInDim(shape, (*range(batch), batch + 1, batch + 2)), inputs[1])
        every = builder.emit(Multiply() if self.algebra == "max_times" else Add(), x1, x2)
        reduce, find = (ReduceMin, ArgMin) if self.algebra == "min_plus" else (ReduceMax, ArgMax)
        return builder.emit(reduce((batch + 1,)), every), builder.emit(find(batch + 1), every)


def matmul(x1: Any, x2: Any, algebra: Algebra = MAX_PLUS) -> Any:
    """Return the matrix product over the last two axes of x1 and x2; the leading axes must be equal.

    >>> matmul(np.array([[0.0, 5.0]]), np.array([[1.0], [2.0]]))
    array([[7.]])
    """
    return apply(FusedMatmul(algebra.name), x1, x2)[0]

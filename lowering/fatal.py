"""Ops over which a platform's compiler ends its process: refused before it sees them.

Seen with libtpu 0.0.42; `make platforms` finds those that are missing here.
"""

from __future__ import annotations

from tenferro.errors import UnsupportedError
from tenferro.ops import StdTensorOp
from tenferro.ops.analytic import Cos, Expm1, Logistic, Rsqrt, Sin, Tan, Tanh
from tenferro.ops.elementwise import Abs, BitcastConvert, Convert, Divide, Power
from tenferro.ops.indexing import Scatter
from tenferro.ops.source import Iota
from tenferro.types import DType, TensorSpec

__all__ = ["refuse_what_is_fatal"]

MOST_BYTES = (1 << 63) - 1
"""Of a value, which XLA counts in 64 bits with a sign."""
COMPLEX128_ON_TPU = frozenset(
    {Abs, Convert, Cos, Divide, Expm1, Iota, Logistic, Power, Rsqrt, Scatter, Sin, Tan, Tanh}
)


def refuse_what_is_fatal(op: StdTensorOp, platform: str, types: list[TensorSpec]) -> None:
    """Raise where compiling the op would end the process.

    Raises:
        UnsupportedError: op, type and platform.
    """
    for spec in types:
        if spec.is_static and spec.size * spec.dtype.itemsize > MOST_BYTES:
            raise UnsupportedError(
                f"{op.name}: {spec} takes more bytes than 64 bits count, where XLA ends the process"
            )
    if platform != "tpu":
        return
    for spec in types:
        fatal = type(op) in COMPLEX128_ON_TPU and spec.dtype is DType.C64
        fatal |= type(op) is BitcastConvert and spec.dtype.is_complex
        if fatal:
            raise UnsupportedError(
                f"{op.name}: {spec} on tpu: its compiler ends the process over it; use complex64, or the "
                "real and the imaginary part"
            )

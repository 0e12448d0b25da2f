"""Table of ops that a platform's compiler cannot compile, or on which it crashes; lowering raises an error for them.

The entries for TPU were observed with libtpu 0.0.42; `make platforms` reports missing entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lowering.extensions import GPUS, has_lowering
from lowering.types import element_type
from tenferro.errors import UnsupportedError
from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import elementwise as el
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.ops.dynamic import DynamicTruncate
from tenferro.ops.indexing import Scatter
from tenferro.ops.reduction import Sort, TopK
from tenferro.ops.source import Iota
from tenferro.ops.structural import Concatenate
from tenferro.types import DType, TensorSpec

__all__ = ["refusal", "refuse", "refuse_types"]


MOST_BYTES = (1 << 63) - 1
"""Maximum size of a value in bytes; XLA uses signed 64-bit integers for sizes."""


class Refused(NamedTuple):
    """Ops that are not lowered for some dtypes on some platforms.

    Attributes:
        dtypes: a predicate, true for these dtypes.
        reason: why the ops are not lowered, and an alternative.
    """

    ops: tuple[type[StdTensorOp], ...]
    dtypes: Callable[[DType], bool]
    platforms: tuple[str, ...]
    reason: str


REFUSED = (
    Refused(
        (DynamicTruncate,),
        lambda dtype: True,
        ("cpu", "cuda", "rocm", "tpu"),
        "it cuts to a size that is data, and StableHLO text needs numbers; run it natively, or keep the full "
        "extent and mask what is beyond the size with Select",
    ),
    Refused(
        (
            el.Abs,
            el.Convert,
            an.Cos,
            el.Divide,
            an.Expm1,
            Iota,
            an.Logistic,
            el.Power,
            an.Rsqrt,
            Scatter,
            an.Sin,
            an.Tan,
            an.Tanh,
        ),
        lambda dtype: dtype is DType.C64,
        ("tpu",),
        "its compiler ends the process over it; use complex64, or the real and the imaginary part",
    ),
    Refused(
        (el.BitcastConvert,),
        lambda dtype: dtype.is_complex,
        ("tpu",),
        "its compiler ends the process over it; use complex64, or the real and the imaginary part",
    ),
    Refused(
        (Convolution,),
        lambda dtype: not dtype.is_inexact,
        GPUS,
        "its library convolves floats only; convert to float64, which is exact up to 2**53",
    ),
    Refused(
        (Concatenate, Sort, TopK),
        lambda dtype: dtype.is_integer and dtype.bits == 2,
        ("cpu",),
        "XLA ends the process over 2-bit integers there, or moves wrong ones; convert to int8",
    ),
    Refused(
        (DotGeneral, Convolution),
        lambda dtype: dtype is DType.F4E2M1FN,
        ("cpu", *GPUS),
        "XLA has no products of 4-bit floats; convert to float8_e4m3fn, which has all of their values",
    ),
)
"""Ops that emitters can write as StableHLO, but that a platform cannot compile."""


NOT_IN_XLA = (DType.F6E2M3FN, DType.F6E3M2FN)
"""Dtypes of StableHLO that XLA lacks; some modules with these dtypes abort XLA's process."""


def refuse_types(text: str, platform: str) -> None:
    """Raise an error if a module's text contains an element type that XLA lacks.

    Raises:
        UnsupportedError: the text contains such a type; the error names the dtype and the platform.
    """
    for dtype in NOT_IN_XLA:
        if f"{element_type(dtype)}>" in text:
            raise UnsupportedError(f"{dtype} on {platform}: {_without(dtype)}")


def _without(dtype: DType) -> str:
    return (
        f"XLA has no {element_type(dtype)}; run it natively, or convert to float8_e4m3fn or float16"
    )


def refusal(op: type[StdTensorOp] | str, dtype: DType, platform: str) -> str | None:
    """Return the reason why an op is not lowered for a dtype on a platform; None if it is lowered.

    Args:
        op: a class of ops, or the id of an extension family.
    """
    if isinstance(op, str):
        if not has_lowering(op, platform):
            return (
                f"extension: {op}: has no lowering of its own for {platform}; its expansion decides"
            )
        return None
    if dtype in NOT_IN_XLA:
        return f"{op.__name__}: {dtype.value} on {platform}: {_without(dtype)}"
    for row in REFUSED:
        if op in row.ops and platform in row.platforms and row.dtypes(dtype):
            return f"{op.__name__}: {dtype.value} on {platform}: {row.reason}"
    return None


def refuse(op: StdTensorOp, platform: str, types: list[TensorSpec]) -> None:
    """Raise an error if the platform does not support the op on values of these types.

    Raises:
        UnsupportedError: the platform does not support the op for one of the types; the error names all three.
    """
    for spec in types:
        if spec.is_static and spec.size * spec.dtype.itemsize > MOST_BYTES:
            raise UnsupportedError(
                f"{op.name}: {spec} takes more bytes than 64 bits count, where XLA ends the process"
            )
    for row in REFUSED:
        if type(op) not in row.ops or platform not in row.platforms:
            continue
        for spec in types:
            if row.dtypes(spec.dtype):
                raise UnsupportedError(f"{op.name}: {spec} on {platform}: {row.reason}")

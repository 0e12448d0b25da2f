"""Kernels of the elementwise ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tenferro import DType
from tenferro.ops import elementwise as ops
from tenferro_torch.memory import DTYPES, LOW

__all__ = ["ROWS", "in_float32", "maximum", "minimum"]

Tensor = torch.Tensor


def in_float32(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a version of `function` that computes float16 and bfloat16 in float32, and rounds once at the end."""

    def computed(*tensors: Tensor) -> Tensor:
        dtype = tensors[0].dtype
        if dtype not in LOW:
            return function(*tensors)
        return function(*[tensor.float() for tensor in tensors]).to(dtype)

    return computed


def of_tensors(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the kernel of an op that has no payload: it ignores the op."""
    return lambda op, *tensors: function(*tensors)


def is_integer(x: Tensor) -> bool:
    """Return whether the dtype of x is an integer dtype; bool is not one."""
    return not (x.is_floating_point() or x.is_complex() or x.dtype is torch.bool)


def divide(x: Tensor, y: Tensor) -> Tensor:
    """Divide x by y; truncate quotients of integers towards zero, and set all bits of the result if y is 0.

    The processor traps if an integer divisor is 0, or if it is -1 and x is the least integer. Both divisors are
    replaced first.
    """
    if not is_integer(x):
        return torch.div(x, y)
    is_trap = (y == 0) | (y == -1) if x.dtype.is_signed else y == 0
    quotient = torch.div(x, torch.where(is_trap, 1, y), rounding_mode="trunc")
    quotient = torch.where(y == 0, torch.bitwise_not(torch.zeros_like(x)), quotient)
    return torch.where(y == -1, -x, quotient) if x.dtype.is_signed else quotient


def remainder(x: Tensor, y: Tensor) -> Tensor:
    """Return the remainder of two integers; if y is 0, return x."""
    is_trap = (y == 0) | (y == -1) if x.dtype.is_signed else y == 0
    rest = torch.fmod(x, torch.where(is_trap, 1, y))
    return torch.where(y == 0, x, rest)


def maximum(x: Tensor, y: Tensor) -> Tensor:
    """Return the maximum; of 0.0 and -0.0 it is 0.0, which PyTorch does not guarantee."""
    larger = torch.maximum(x, y)
    return torch.where((x == 0) & (y == 0), x + y, larger) if x.is_floating_point() else larger


def minimum(x: Tensor, y: Tensor) -> Tensor:
    """Return the minimum; of 0.0 and -0.0 it is -0.0, which PyTorch does not guarantee."""
    smaller = torch.minimum(x, y)
    return (
        torch.where((x == 0) & (y == 0), -(-x + -y), smaller) if x.is_floating_point() else smaller
    )


def sign(x: Tensor) -> Tensor:
    """Return the sign of x; zeros and NaN are returned unchanged, and complex numbers divided by their modulus."""
    if x.is_complex():
        modulus = torch.abs(x)
        return torch.where(modulus == 0, 0, x / torch.where(modulus == 0, 1, modulus)).to(x.dtype)
    if is_integer(x):
        return torch.sign(x)
    return torch.where((x == 0) | x.isnan(), x, torch.copysign(torch.ones_like(x), x))


def round_away(x: Tensor) -> Tensor:
    """Round to the nearest integer, and halves away from zero."""
    whole = torch.trunc(x)
    outwards = whole + torch.copysign(torch.ones_like(x), x)
    return torch.where(torch.abs(x - whole) >= 0.5, outwards, whole)


COMPARISONS = {"EQ": torch.eq, "NE": torch.ne, "LT": torch.lt, "LE": torch.le, "GT": torch.gt,
               "GE": torch.ge}  # fmt: skip


def convert(op: ops.Convert, x: Tensor) -> Tensor:
    """Convert x to the dtype `op.to`.

    Floats are truncated to integers, out-of-range values saturate, and complex numbers lose their imaginary parts.
    """
    if op.to.is_bool:
        return x != 0
    if x.is_complex() and not op.to.is_complex:
        x = x.real
    if x.is_floating_point() and op.to.is_integer:
        return saturate(x, DTYPES[op.to])
    return x.to(DTYPES[op.to])


def saturate(x: Tensor, dtype: Any) -> Tensor:
    """Convert floats to an integer dtype: truncate towards zero, clamp to the dtype's range, and convert NaN to 0.

    float64 rounds the upper limit of 64-bit integers up to a power of two, so values are compared with the limits by
    >=.
    """
    info, wide = torch.iinfo(dtype), x.double()
    above, below = wide >= float(info.max), wide <= float(info.min)
    kept = torch.where(above | below | wide.isnan(), 0.0, wide).to(dtype)
    return torch.where(above, info.max, torch.where(below, info.min, kept)).to(dtype)


def imag(x: Tensor) -> Tensor:
    """Return the imaginary part of x; zeros if x is real."""
    return x.imag if x.is_complex() else torch.zeros_like(x)


def complex_(x: Tensor, y: Tensor) -> Tensor:
    """Return complex numbers with the real parts x and the imaginary parts y, converted to float32 or wider."""
    part = DTYPES[DType.of(str(x.dtype).removeprefix("torch.")).complex.real]
    return torch.complex(x.to(part), y.to(part))


ROWS = {
    ops.Add: of_tensors(torch.add),
    ops.Subtract: of_tensors(torch.sub),
    ops.Multiply: of_tensors(torch.mul),
    ops.Divide: of_tensors(divide),
    ops.Remainder: of_tensors(remainder),
    ops.Power: of_tensors(in_float32(torch.pow)),
    ops.Maximum: of_tensors(maximum),
    ops.Minimum: of_tensors(minimum),
    ops.Negate: of_tensors(torch.neg),
    ops.Abs: of_tensors(torch.abs),
    ops.Sign: of_tensors(sign),
    ops.Clamp: of_tensors(lambda x, lower, upper: minimum(maximum(x, lower), upper)),
    ops.Compare: lambda op, x, y: COMPARISONS[op.direction](x, y),
    ops.Select: of_tensors(torch.where),
    ops.And: of_tensors(torch.bitwise_and),
    ops.Or: of_tensors(torch.bitwise_or),
    ops.Xor: of_tensors(torch.bitwise_xor),
    ops.Not: of_tensors(torch.bitwise_not),
    ops.Floor: of_tensors(torch.floor),
    ops.Ceil: of_tensors(torch.ceil),
    ops.RoundNearestEven: of_tensors(torch.round),
    ops.RoundNearestAfz: of_tensors(in_float32(round_away)),
    ops.IsFinite: of_tensors(torch.isfinite),
    ops.Convert: convert,
    ops.Conj: of_tensors(torch.conj_physical),
    ops.Real: of_tensors(lambda x: x.real if x.is_complex() else x),
    ops.Imag: of_tensors(imag),
    ops.Complex: of_tensors(complex_),
}

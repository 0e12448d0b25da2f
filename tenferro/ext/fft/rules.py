"""Derivatives of Fourier transforms, which are linear. Each transpose is again a Fourier transform.

If n elements are transformed, the adjoints are fft^H = n ifft and ifft^H = fft / n. A real transform returns half of a
symmetric spectrum. Each of its elements also represents its mirror image, unless it is its own mirror image.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tenferro.ext.fft.families import Fft
from tenferro.extension import ExtensionAdRule
from tenferro.extension.algebra import (
    Value,
    apply_one,
    broadcast,
    complex_,
    constant_like,
    convert,
    real,
    scalar,
    zeros,
)
from tenferro.extension.ops import Pad, ShapeOf

__all__ = ["FftRule"]


class FftRule(ExtensionAdRule):
    """Derivative rule of a Fourier transform F, which is linear: y_dot = F x_dot."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return builder.apply(op, tangents[0])

    def transpose_rule(
        self, op: Any, builder: Any, inputs: Any, linear: Any, cotangents: Any
    ) -> Any:
        (y_bar,) = cotangents
        if None in op.lengths:
            return of_own_lengths(op, builder, y_bar)
        count = math.prod(op.lengths)
        if op.kind == "fft":
            return builder.apply(Fft("ifft", op.lengths), y_bar) * count
        if op.kind == "ifft":
            return builder.apply(Fft("fft", op.lengths), y_bar) * (1 / max(count, 1))
        if op.kind == "rfft":
            # "rfft" computes "fft" and drops the second half of the spectrum. Therefore its adjoint appends zeros to
            # the spectrum, and then applies the adjoint of "fft".
            missing = op.lengths[-1] - (op.lengths[-1] // 2 + 1)
            rank = y_bar.rank
            high = (*([0] * (rank - 1)), missing)
            zero = scalar(y_bar, 0)
            whole = apply_one(Pad((0,) * rank, high, (0,) * rank), y_bar, zero)
            return real(builder.apply(Fft("ifft", op.lengths), whole) * count)
        spectrum = builder.apply(Fft("rfft", op.lengths), y_bar)
        return spectrum * mirrored(op.lengths[-1], spectrum, count)

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, inputs[0])


def of_own_lengths(op: Fft, builder: Any, y_bar: Value) -> Value:
    """Compute the adjoint of "fft" or "ifft" if extents are symbolic: the program counts the elements when it runs."""
    x_bar = builder.apply(Fft("ifft" if op.kind == "fft" else "fft", op.lengths), y_bar)
    axes = range(y_bar.rank - len(op.lengths), y_bar.rank)
    for axis in axes:
        count = broadcast(convert(apply_one(ShapeOf(axis), y_bar), y_bar.dtype), y_bar, ())
        x_bar = x_bar * count if op.kind == "fft" else x_bar / count
    return x_bar


def mirrored(length: int, like: Value, count: int) -> Value:
    """Return the weight of each element of a half spectrum, divided by `count`.

    The weight is 2 if the element also represents its mirror image in the full spectrum, and otherwise 1.
    """
    half = length // 2 + 1
    weights = np.full(half, 2.0)
    weights[0] = 1.0
    if length % 2 == 0:
        weights[-1] = 1.0
    parts = constant_like(like, (weights / max(count, 1)).astype(like.dtype.real.dtype))
    return broadcast(complex_(parts, zeros(parts)), like, (like.rank - 1,))

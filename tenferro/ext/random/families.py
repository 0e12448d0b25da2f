"""Threefry-2x32: a keyed bijection of pairs of 32-bit words, which maps a counter to random bits.

The words x0 and x1 pass through 5 groups of four rounds. A round with rotation distance r computes
x0 += x1; x1 = rotl(x1, r) ^ x0. The key consists of the words k0, k1 and k2 = k0 ^ k1 ^ 0x1BD11BDA. Before the first
group, k0 is added to x0, and k1 to x1. After group g, k_(g+1) is added to x0, and k_(g+2) + g + 1 to x1, where the
indices of k are modulo 3.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), whose
known-answer vectors are in the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenferro.errors import DTypeError, ShapeError
from tenferro.extension import ExtensionOp, extension_family
from tenferro.extension.algebra import apply_one, scalar
from tenferro.extension.ops import (
    BroadcastInDim,
    Or,
    Reshape,
    ShiftLeft,
    ShiftRightLogical,
    Slice,
    Xor,
)
from tenferro.types import DType

__all__ = ["PARITY", "ROTATIONS", "Threefry2x32"]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Rotation distances of the four rounds, in bits, of an even group and of an odd group."""
PARITY = 0x1BD11BDA
GROUPS = 5


@extension_family("tenferro", "threefry2x32", version=1)
@dataclass(frozen=True)
class Threefry2x32(ExtensionOp):
    """(y0, y1) = threefry(key, (x0, x1)), elementwise.

    The key is uint32[B.., 2], and the words are uint32[B.., S..]. There is one key for each index of the axes B.
    """

    input_count = 3
    output_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        if any(dtype is not DType.U32 for dtype in input_dtypes):
            raise DTypeError(
                f"Threefry2x32: takes a key and two words, uint32, got {', '.join(map(str, input_dtypes))}"
            )
        key, x0, x1 = map(tuple, input_shapes)
        batch = key[:-1]
        if not key or key[-1] != 2 or x0 != x1 or x0[: len(batch)] != batch:
            raise ShapeError(
                f"Threefry2x32: takes a key [B.., 2] and words of one shape [B.., S..], got {key}, {x0}, {x1}"
            )
        return [(DType.U32, x0), (DType.U32, x1)]

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        key, x0, x1 = map(builder.value, inputs)
        batch, shape = tuple(input_shapes[0][:-1]), tuple(input_shapes[1])
        lead = tuple(range(len(batch)))

        def word(number: int) -> Any:
            return apply_one(BroadcastInDim(batch, ()), scalar(key, number))

        def spread(of_key: Any) -> Any:
            return apply_one(BroadcastInDim(shape, lead), of_key)

        def key_word(index: int) -> Any:
            start, limit = (0,) * len(batch), (*batch, index + 1)
            column = apply_one(Slice((*start, index), limit, (1,) * len(limit)), key)
            return apply_one(Reshape(batch), column)

        k0, k1 = key_word(0), key_word(1)
        k2 = apply_one(Xor(), apply_one(Xor(), k0, k1), word(PARITY))
        keys = (k0, k1, k2)
        x0 = x0 + spread(k0)
        x1 = x1 + spread(k1)
        for group in range(GROUPS):
            for rotation in ROTATIONS[group % 2]:
                x0 = x0 + x1
                high = apply_one(ShiftLeft(), x1, spread(word(rotation)))
                low = apply_one(ShiftRightLogical(), x1, spread(word(32 - rotation)))
                x1 = apply_one(Xor(), apply_one(Or(), high, low), x0)
            x0 = x0 + spread(keys[(group + 1) % 3])
            x1 = x1 + spread(keys[(group + 2) % 3] + word(group + 1))
        return x0, x1

"""Emission of sorts in IEEE 754's total order of floats.

No op of tenferro compares floats in the total order. So the reader `lowering.read.total_order` converts the bits of the
floats to integer keys, and compares the keys. If a program sorts by such keys, the functions here write the sort by the
floats again.

Source: StableHLO spec, "compare" with TOTALORDER.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lowering.operations import Operation
from lowering.writer import Value, Writer
from tenferro.types import DType, TensorSpec

__all__ = ["sort_in_total_order"]

FLOATS = (DType.F16, DType.BF16, DType.F32, DType.F64)
"""Dtypes that XLA compares in the total order."""


def sort_in_total_order(
    w: Writer, operands: Sequence[Value], axis: int, stable: bool
) -> tuple[Value, ...] | None:
    """Emit a sort in the total order, and return the sorted operands.

    Return None unless the first operand contains the integer keys that are computed from another operand, which has a
    float dtype. The sorted keys are then computed from the sorted floats, and omitted from the module if nothing uses
    them.
    """
    ordered, *moved = operands
    if ordered.dtype not in (DType.I16, DType.I32, DType.I64):
        return None
    if not any(x.dtype in FLOATS for x in moved):
        return None
    made = {result: operation for operation in w.operations for result in operation.results}
    flipped = _of(made, ordered, "not")
    bits = _ordered_bits(made, ordered if flipped is None else flipped[0])
    cast = None if bits is None else _of(made, bits, "bitcast_convert")
    if bits is None or cast is None or cast[0].dtype not in FLOATS or cast[0] not in moved:
        return None
    place = moved.index(cast[0])
    direction = "LT" if flipped is None else "GT"
    results = w.operation(
        "stablehlo.sort",
        moved,
        [x.spec for x in moved],
        {"dimension": axis, "is_stable": stable},
        [w.region(*_comparator(moved, place, direction))],
    )
    word = w.bitcast(results[place], bits.dtype)
    sign = w.op("shift_right_arithmetic", word, w.full(8 * bits.dtype.itemsize - 1, word.spec))
    largest = w.full(np.iinfo(bits.dtype.dtype).max, word.spec)
    integers = w.op("xor", word, w.op("and", sign, largest))
    return (integers if flipped is None else w.op("not", integers), *results)


def _comparator(
    moved: Sequence[Value], place: int, direction: str
) -> tuple[Mapping[str, TensorSpec], Callable[..., Value]]:
    """Return the types of a comparator's arguments by name, and the function that writes its body.

    The comparator's body compares elements of `moved[place]`, the operand that contains the floats.
    """
    scalars = [TensorSpec.of((), x.dtype) for x in moved]
    names = {f"{side}{i}": scalar for i, scalar in enumerate(scalars) for side in "ab"}

    def write(inner: Writer, *pairs: Value) -> Value:
        a, b = pairs[2 * place : 2 * place + 2]
        how = {"comparison_direction": direction, "compare_type": "TOTALORDER"}
        return inner.op("compare", a, b, result=TensorSpec.of((), DType.Bool), **how).called(
            "before"
        )

    return names, write


def _ordered_bits(made: Mapping[Value, Operation], value: Value) -> Value | None:
    """Return the value b if `value` is computed as b ^ ((b >> (width - 1)) & largest), else None.

    This formula maps the bits b of floats to integers in the total order. `width` is the number of bits of the dtype,
    and `largest` the largest integer of the dtype.
    """
    pair = _of(made, value, "xor")
    mask = None if pair is None else _of(made, pair[1], "and")
    shift = None if mask is None else _of(made, mask[0], "shift_right_arithmetic")
    if pair is None or mask is None or shift is None or shift[0] is not pair[0]:
        return None
    width = 8 * value.dtype.itemsize
    is_order = _number(made, shift[1]) == width - 1
    return pair[0] if is_order and _number(made, mask[1]) == (1 << (width - 1)) - 1 else None


def _of(made: Mapping[Value, Operation], value: Value, name: str) -> Sequence[Value] | None:
    """Return the operands of the operation that computes `value` if it is `stablehlo.<name>`, else None.

    `made` is a dictionary from each value to the operation that computes it.
    """
    operation = made.get(value)
    if operation is None or operation.name != f"stablehlo.{name}":
        return None
    return operation.operands


def _number(made: Mapping[Value, Operation], value: Value) -> int | None:
    """Return the integer that all elements of `value` equal, if `value` is such a constant, else None."""
    spread = _of(made, value, "broadcast_in_dim")
    operation = made.get(value if spread is None else spread[0])
    if operation is None or operation.name != "stablehlo.constant":
        return None
    array = np.asarray(operation.attributes["value"])
    return int(array.flat[0]) if array.size and (array == array.flat[0]).all() else None

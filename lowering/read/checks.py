"""Readers of the checks and probes of StableHLO's reference interpreter.

The module is read without arguments. A check whose values do not depend on arguments is performed during reading. Any
other check is an error: it is not imported as an op of the program.

Source: StableHLO's reference documentation, dialects `check` and `interpreter`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowering.module_tree import Operation
from lowering.read.reader import Read, Reader, ReadRows
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.types import DType

__all__ = ["ROWS"]

TOLERANCE = 1e-3
"""Default absolute tolerance of `expect_almost_eq`."""
FARTHEST = (1 << 64) - 1
"""Difference in units in the last place between unequal elements if one is infinite or NaN.

The reference interpreter defines this value.
"""
ULPS = 3
"""Default tolerance of `expect_close`, in units in the last place."""


def equal(operation: Operation, x: Any, y: Any) -> Any:
    """Return whether each element of x equals the element of y; NaN equals NaN."""
    return (x == y) | ((x != x) & (y != y))


def almost_equal(operation: Operation, x: Any, y: Any) -> Any:
    """Return whether elements differ by at most the operation's tolerance; infinities of equal sign are equal."""
    tolerance = float(operation.attributes.get("tolerance", TOLERANCE))
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    return equal(operation, x, y) | (np.abs(x.astype(wide) - y.astype(wide)) <= tolerance)


def close(operation: Operation, x: Any, y: Any) -> Any:
    """Return whether the differences of elements, in units in the last place, are within the operation's bounds.

    The difference of an infinity or NaN from an unequal element is `FARTHEST`.
    """
    least = int(operation.attributes.get("min_ulp_difference", 0))
    most = int(operation.attributes.get("max_ulp_difference", ULPS))
    if x.dtype.kind == "c":
        return close(operation, x.real, y.real) & close(operation, x.imag, y.imag)
    if not DType.of(x.dtype).is_float:
        return equal(operation, x, y)
    numbers = np.isfinite(x.astype(np.float64)) & np.isfinite(y.astype(np.float64))
    same = np.where(equal(operation, x, y), np.array(0, object), np.array(FARTHEST, object))
    apart = np.where(numbers, np.abs(_order_number(x) - _order_number(y)), same)
    return (least <= apart) & (apart <= most)


def _order_number(x: Any) -> Any:
    """Convert floats to integers such that adjacent floats differ by 1, and zero is mapped to 0."""
    bits = x.view(f"u{x.dtype.itemsize}").astype(object)
    dtype = DType.of(x.dtype)
    if dtype is DType.F8E8M0FNU:
        return bits  # this dtype has no sign bit
    sign = 1 << (dtype.bits - 1)
    magnitude = bits & (sign - 1)
    return np.where((bits & sign) != 0, -magnitude, magnitude)


def expected(holds: Callable[[Operation, Any, Any], Any]) -> Read:
    """Return the reader of a check that compares two operands, or an operand and a constant attribute.

    Args:
        holds: the comparison; a function of the operation and two arrays, which returns an array of bools.
    """

    def read(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
        arrays = [r.evaluated(value) for value in operands]
        if "value" in operation.attributes:
            arrays.append(operation.attributes["value"])
        if any([array is None for array in arrays]):
            raise UnsupportedError(
                f"{operation.name}: its operands depend on arguments, but it is checked during the import"
            )
        x, y = map(np.asarray, arrays)
        if x.shape != y.shape or x.dtype != y.dtype:
            raise InvalidConfigError(
                f"{operation.name}: {x.dtype}{list(x.shape)} and {y.dtype}{list(y.shape)}"
            )
        with np.errstate(all="ignore"):
            agree = np.asarray(holds(operation, x, y), bool)
        if not agree.all():
            at = np.argwhere(~agree)[0].tolist()
            raise InvalidConfigError(
                f"{operation.name} does not hold at {at}: {x[tuple(at)]} and {y[tuple(at)]}, "
                f"and at {(~agree).sum() - 1} other places"
            )
        return []

    return read


def probe(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """Record the operand's elements under the probe's id, or None if they depend on arguments; return the operand.

    StableHLO's interpreter writes the elements to a file instead.
    """
    r.probed.setdefault(operation.attributes["probe_id"], []).append(r.evaluated(operands[0]))
    return operands[0]


def serialized(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Compare the operand with the elements that a probe recorded when it ran for the `iter`-th time, counted from 0.

    Raises:
        InvalidConfigError: the values differ, or no probe with this id precedes the operation.
        UnsupportedError: one of the values depends on arguments, or the probe is in a loop.
    """
    name, place = operation.attributes["probe_id"], int(operation.attributes.get("iter", 0))
    seen = r.probed.get(name, [])
    if not 0 <= place < max(len(seen), 1):
        raise UnsupportedError(
            f"{operation.name}: probe {name!r} is in a loop, or runs {len(seen)} times"
        )
    if not seen:
        raise InvalidConfigError(f"{operation.name}: there is no probe {name!r} before it")
    x, y = r.evaluated(operands[0]), seen[place]
    if x is None or y is None:
        raise UnsupportedError(
            f"{operation.name}: probe {name!r} sees values that depend on arguments or on a loop"
        )
    if x.shape != y.shape or x.dtype != y.dtype or not equal(operation, x, y).all():
        raise InvalidConfigError(f"{operation.name} does not hold: {x} and {y}")
    return []


ROWS: ReadRows = {
    "check.expect_almost_eq": expected(almost_equal),
    "check.expect_almost_eq_const": expected(almost_equal),
    "check.expect_close": expected(close),
    "check.expect_eq": expected(equal),
    "check.expect_eq_const": expected(equal),
    "check.expect_serialized_eq": serialized,
    "interpreter.probe": probe,
}

"""Expected derivatives of each function at each point, computed from formulas."""

from __future__ import annotations

import math
from typing import Any

import mpmath

from tests.points.binary import BINARY, Binary
from tests.points.limits import DIGITS, as_float, complex_limit, limit, slack
from tests.points.unary import COMPLEX_POINTS, UNARY, Unary, points

__all__ = ["Entry", "binary_points", "binary_table", "unary_table"]

EITHER_SIGN = "infinite, with either sign at -0"
Entry = list[Any]
"""Derivatives at a point.

Each is followed by its sensitivity to a relative change of x. The last element is the name of a convention.
"""


def real_entry(record: Unary, x: float) -> Entry:
    if repr(x) in record.conventions:
        first, second, name = record.conventions[repr(x)]
        return [first, 0.0, second, 0.0, name]
    entry: Entry = []
    for formula in (record.first, record.second):
        size = max(slack(formula, x), terms_at(record, x))
        entry += [as_float(limit(formula, x, record.domain)), size]
    at_the_end = x == 0 and 0 in record.domain and math.copysign(1, x) < 0
    return [*entry, EITHER_SIGN if at_the_end and math.isinf(entry[0]) else ""]


def terms_at(record: Unary, x: float) -> float:
    """Return the size of the terms that cancel in a derivative at x.

    The result is 0 at zero, at infinities and at NaN.
    """
    if not callable(record.terms):
        return record.terms
    if x == 0 or not math.isfinite(x):
        return 0.0
    with mpmath.workdps(DIGITS):
        return float(f"{as_float(abs(record.terms(mpmath.mpf(x)))):.3g}")


def complex_entry(record: Unary, z: complex) -> Entry:
    entry: Entry = []
    for formula in (record.first, record.second):
        value = complex_limit(formula, z)
        size = slack(formula, mpmath.mpc(z))
        entry += [[as_float(value.real), as_float(value.imag)], size]
    return [*entry, ""]


def unary_table() -> dict[str, dict[str, Entry]]:
    """Return the expected values by function and point. A point is written as Python prints the number."""
    table: dict[str, dict[str, Entry]] = {}
    for name, record in UNARY.items():
        reals = dict.fromkeys([*points(record, "float32"), *points(record, "float64")])
        table[name] = {x: real_entry(record, float(x)) for x in reals}
        if record.is_complex:
            table[name].update({repr(z): complex_entry(record, z) for z in COMPLEX_POINTS})
    return table


def binary_entry(record: Binary, x: float, y: float) -> Entry:
    """Return the five partial derivatives at (x, y), each followed by its sensitivity.

    The last element is the name of a convention.
    """
    if (x, y) in record.conventions and convention_meant(record, x, y):
        values, name = record.conventions[x, y]
        return [*[part for value in values for part in (value, 0.0)], name]
    with mpmath.workdps(DIGITS):
        exact = [mpmath.mpf(value) for value in record.partials(mpmath.mpf(x), mpmath.mpf(y))]
        entry: Entry = []
        for index, value in enumerate(exact):
            by_x = slack(lambda x: record.partials(x, mpmath.mpf(y))[index], mpmath.mpf(x))
            by_y = slack(lambda y: record.partials(mpmath.mpf(x), y)[index], mpmath.mpf(y))
            entry += [as_float(value), max(by_x + by_y, record.terms)]
    return [*entry, ""]


def convention_meant(record: Binary, x: float, y: float) -> bool:
    """Return whether the record has a convention for exactly these arguments.

    The signs of zeros are compared separately, because 0.0 and -0.0 are the same key.
    """
    return any(repr(key) == repr((x, y)) for key in record.conventions)


def binary_points(record: Binary) -> list[tuple[float, float]]:
    return [*record.points, *record.conventions]


def binary_table() -> dict[str, dict[str, Entry]]:
    return {
        name: {repr(point): binary_entry(record, *point) for point in binary_points(record)}
        for name, record in BINARY.items()
    }

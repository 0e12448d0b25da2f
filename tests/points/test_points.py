"""Every derivative at every exceptional point must equal the limit of its exact formula."""

from __future__ import annotations

import zlib
from typing import Any

import mpmath
import pytest

from tests.points.binary import BINARY
from tests.points.cells import CASES, EXPECTED, cells, excuse, is_as_expected
from tests.points.excused import EXCUSED
from tests.points.expected import binary_entry, binary_points, complex_entry, real_entry
from tests.points.unary import COMPLEX_POINTS, UNARY
from xla_peer import XlaExecutor


def a_tenth(values: Any) -> list[Any]:
    """Return all values, nine tenths of them marked to run only in the sweep."""
    return [
        value
        if zlib.crc32(repr(value).encode()) % 10 == 0
        else pytest.param(value, marks=pytest.mark.sweep)
        for value in values
    ]


def runs_on_peers(case: tuple[str, str]) -> bool:
    return not (UNARY.get(case[0]) or BINARY[case[0]]).is_native


def assert_right(name: str, dtype: str, peer: str, executor: Any) -> None:
    wrong = [
        f"{cell.kind} {cell.which} at {cell.point}: {cell.got}, not {cell.entry}"
        for cell in cells(name, dtype, executor)
        if not is_as_expected(cell, peer) and not excuse(cell, peer)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_natively(name: str, dtype: str) -> None:
    assert_right(name, dtype, "native", None)


@pytest.mark.parametrize("case", a_tenth(filter(runs_on_peers, CASES)), ids=str)
def test_through_pjrt(case: tuple[str, str]) -> None:
    assert_right(*case, "PJRT", XlaExecutor())


@pytest.mark.parametrize("name", UNARY)
def test_formulas_are_the_derivatives_of_their_definitions(name: str) -> None:
    record = UNARY[name]
    with mpmath.workdps(60):
        for x in (mpmath.mpf("0.6"), mpmath.mpf("1.7")):
            if record.domain[0] < x < record.domain[1]:
                for order, formula in ((1, record.first), (2, record.second)):
                    right = mpmath.diff(record.definition, x, order)
                    assert abs(formula(x) - right) < mpmath.mpf(10) ** -20 * (1 + abs(right))


@pytest.mark.parametrize("name", BINARY)
def test_partial_formulas_are_the_derivatives_of_their_definitions(name: str) -> None:
    record = BINARY[name]
    with mpmath.workdps(60):
        x, y = mpmath.mpf("1.7"), mpmath.mpf("0.6")
        orders = ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
        for order, formula in zip(orders, record.partials(x, y), strict=True):
            right = mpmath.diff(record.definition, (x, y), order)
            assert abs(formula - right) < mpmath.mpf(10) ** -15 * (1 + abs(right))


def near(a: Any, b: Any) -> bool:
    return str(a) == str(b) or a == pytest.approx(b, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", a_tenth([*UNARY, *BINARY]))
def test_the_file_of_expected_values_is_what_the_formulas_give(name: str) -> None:
    if name in BINARY:
        record = BINARY[name]
        entries = {repr(p): binary_entry(record, *p) for p in binary_points(record)}
    else:
        entries = {x: real_entry(UNARY[name], float(x)) for x in EXPECTED[name] if "j" not in x}
        if UNARY[name].is_complex:
            entries |= {repr(z): complex_entry(UNARY[name], z) for z in COMPLEX_POINTS}
    assert entries.keys() == EXPECTED[name].keys()
    for point, entry in entries.items():
        assert all(map(near, entry, EXPECTED[name][point])), point


def test_every_native_excuse_is_needed() -> None:
    for name in {e.function for e in EXCUSED if "native" in e.peers}:
        wrong = [
            cell
            for dtype in ("float32", "float64")
            for cell in cells(name, dtype)
            if not is_as_expected(cell, "native")
        ]
        for e in EXCUSED:
            if e.function == name and "native" in e.peers:
                assert any(e.covers(name, "native", c.dtype, c.point) for c in wrong), e


def test_excused_cells_are_one_in_a_hundred_at_most() -> None:
    everything = [cell for case in CASES for cell in cells(*case)]
    excused = [cell for cell in everything if excuse(cell, "native")]
    assert len(excused) <= len(everything) / 100

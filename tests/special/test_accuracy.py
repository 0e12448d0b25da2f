"""The accuracy of every special function must be measured, and must be within the declared bound for a sample."""

from __future__ import annotations

import re

import pytest

from tenferro import special
from tools.accuracy import special as table


def test_every_function_is_measured_or_has_a_reason() -> None:
    measured = {re.match(r"\w+", name)[0] for name in table.SPECIAL}  # pyright: ignore[reportOptionalSubscript]  # names begin so
    assert measured | table.OTHERS.keys() == set(special.__all__)
    assert not measured & table.OTHERS.keys()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", table.SPECIAL)
def test_a_sample_is_within_the_declared_bound(name: str, dtype: str) -> None:
    error, at = table.largest_error(name, dtype, 8)
    assert error <= table.SPECIAL[name].ulps, at


def test_the_page_has_every_function() -> None:
    page = table.PAGE.read_text()
    for name, function in table.SPECIAL.items():
        ranges = ", ".join(f"{low:g} to {high:g}" for low, high in function.ranges)
        assert f"| {name} | {ranges} | {function.ulps:g}" in page

"""Values without -0.0, by looking at all results of small operands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.plan.zeros import has_negative_zeros, without_negative_zeros

EXECUTOR = tnf.GraphExecutor("K", compiled=False, segmented=False, passes=())
FREE, ANY = [0.0, 1.5, -2.0, np.inf], [0.0, -0.0, -1.5, 2.0]
ORDER: Any = np.array([1, 0])

CASES: dict[str, tuple[Callable[..., Any], str, bool]] = {
    "sum with one": (lambda x, y: x + y, "fa", True),
    "sum with the other": (lambda x, y: x + y, "af", True),
    "sum of any": (lambda x, y: x + y, "aa", False),
    "product": (lambda x, y: x * y, "ff", False),
    "modulus": (lambda x, y: abs(x), "aa", True),
    "opposite": (lambda x, y: -x, "ff", False),
    "choice": (lambda x, y: tnf.where(ORDER > 0, x, y), "ff", True),
    "choice of any": (lambda x, y: tnf.where(ORDER > 0, x, y), "fa", False),
    "rows": (lambda x, y: x[ORDER], "fa", True),
    "rows of any": (lambda x, y: x[ORDER], "af", False),
    "added": (lambda x, y: x.at[ORDER].add(y), "fa", True),
    "added to any": (lambda x, y: x.at[ORDER].add(y), "aa", False),
    "set": (lambda x, y: x.at[ORDER].set(y), "ff", True),
    "set to any": (lambda x, y: x.at[ORDER].set(y), "fa", False),
    "multiplied": (lambda x, y: x.at[ORDER].multiply(y), "ff", False),
    "beside each other": (lambda x, y: tnf.concatenate([x[::-1], y]), "ff", True),
    "beside any": (lambda x, y: tnf.concatenate([x[::-1], y]), "fa", False),
    "narrower": (lambda x, y: tnf.astype(x * 1e-300, "float32"), "ff", False),
}


@pytest.mark.parametrize("name", CASES)
def test_what_may_be_a_negative_zero(name: str) -> None:
    function, kinds, expected = CASES[name]
    schedule = EXECUTOR.compile(tnf.compile(function, np.ones(2), np.ones(2)))
    inputs = [slot for slot, kind in zip(schedule.input_slots, kinds, strict=True) if kind == "f"]
    slots = without_negative_zeros(schedule, inputs)
    (output,) = schedule.output_slots
    assert (output in slots) == expected
    program = tnf.compile(function, np.ones(2), np.ones(2))
    elements = [FREE if kind == "f" else ANY for kind in kinds]
    with np.errstate(all="ignore"):
        results = [
            EXECUTOR.run(program, np.array(x), np.array(y))
            for x in product(elements[0], repeat=2)
            for y in product(elements[1], repeat=2)
        ]  # fmt: skip
    assert any(map(has_negative_zeros, results)) == (not expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([0.0, -1.0]), False), (np.array([1.0, -0.0]), True), (np.array(-0.0), True),
        (np.broadcast_to(np.array(-0.0), (3, 2)), True), (np.zeros((0, 3)), False),
        (np.array([0, -1]), False), (np.array([False]), False),
        (np.array([complex(0.0, -0.0)]), True), (np.array([complex(-0.0, 0.0)]), True), (np.array([1j + 0.0]), False),
        (np.array([-0.0], "f2"), True), (np.array([-np.nan]), False),
    ],
)  # fmt: skip
def test_a_constant(value: Any, expected: bool) -> None:
    assert has_negative_zeros(value) == expected

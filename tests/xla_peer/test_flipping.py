"""Decisions near ties must be judged element by element.

The iterations of recurrences may be combined in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from lowering import import_stablehlo
from xla_peer.parity.comparison import compare
from xla_peer.parity.iterations import native_outputs
from xla_peer.parity.paths import limits

TIES = (3, 9, 17)
WEIGHTS = np.linspace(-1.0, 1.0, 24).reshape(8, 3)


def near_ties(dtype: str) -> Any:
    """Return x for which some elements of 40 tanh(x) are near ties.

    They are integers plus 1/2 at the indices `TIES`, and integers plus 1/4 elsewhere.
    """
    halves = np.full(32, 0.25)
    halves[list(TIES)] = 0.5
    return np.arctanh((np.linspace(-30, 30, 32).round() + halves) / 40).astype(dtype)


def quantised_product(q: Any) -> Any:
    return q.reshape(4, 8) @ WEIGHTS.astype(q.dtype)


def quantised_sum(q: Any) -> Any:
    return (q.clip(-28, 28) * q.dtype.type(0.025)).sum()


PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "product": (
        lambda x: tnf.reshape(tnf.round(tnf.tanh(x) * 40), (4, 8)) @ WEIGHTS.astype(str(x.dtype)),
        quantised_product,
    ),
    "sum of few": (
        lambda x: tnf.sum(tnf.clip(tnf.round(tnf.tanh(x) * 40), -28, 28)[8:14] * 0.025),
        lambda q: quantised_sum(q[8:14]),
    ),
    "cast": (
        lambda x: tnf.astype(tnf.round(tnf.tanh(x) * 40), "int32") * 3,
        lambda q: q.astype(np.int32) * 3,
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_only_elements_near_a_tie_may_be_a_quantum_off(name: str, dtype: str) -> None:
    fn, rest = PROGRAMS[name]
    x = near_ties(dtype)
    program = tnf.compile(fn, x)
    (native,) = native_outputs(program, [x])
    (allowed,) = limits(program, [x], [native])
    before = np.tanh(x.astype(np.float64)) * 40
    quanta, down = np.round(before).astype(dtype), np.round(before).astype(dtype)
    quanta[list(TIES)], down[list(TIES)] = np.ceil(before)[list(TIES)], np.floor(before)[list(TIES)]

    def outside(q: Any) -> int:
        return compare("y", native, rest(q), *allowed).outside

    one_each = [np.where(np.arange(32) == tie, down, quanta) for tie in TIES]
    assert [outside(q) for q in (quanta, down, *one_each)] == [0] * 5
    for place in {10, 12} if name == "sum of few" else {0, 5, 10, 12, 20, 30}:
        for step in (1, -1) if name != "sum of few" else (2, -2):
            wrong = quanta.copy()
            wrong[place] += step
            assert outside(wrong) > 0, (place, step)


def scaled(x: Any) -> Any:
    """Return the elements as fractions of the largest one, which is 127."""
    return x / (tnf.max(tnf.abs(x)) / 127)


def zero_point(x: Any) -> Any:
    """Quantise to the numbers from 0 to 255."""
    scale = (tnf.max(x) - tnf.min(x)) / 255
    shifted = tnf.round(x / scale) + tnf.round(-tnf.min(x) / scale)
    return tnf.astype(tnf.clip(shifted, 0.0, 255.0), "uint8")


CLIPPED = """func.func @main(%x: tensor<6x8xf32>) -> tensor<6x8xi8> {
  %step = stablehlo.constant dense<7.9e-3> : tensor<6x8xf32>
  %0 = stablehlo.divide %x, %step : tensor<6x8xf32>
  %1 = stablehlo.round_nearest_even %0 : tensor<6x8xf32>
  %low = stablehlo.constant dense<-127> : tensor<6x8xi64>
  %high = stablehlo.constant dense<127.0> : tensor<6x8xf64>
  %2 = stablehlo.convert %low : (tensor<6x8xi64>) -> tensor<6x8xf32>
  %3 = stablehlo.convert %high : (tensor<6x8xf64>) -> tensor<6x8xf32>
  %4 = stablehlo.clamp %2, %1, %3 : tensor<6x8xf32>
  %5 = stablehlo.convert %4 : (tensor<6x8xf32>) -> tensor<6x8xi8>
  return %5 : tensor<6x8xi8>
}"""
"""A quantiser whose bounds are converted to float32, as the bounds of `jax.numpy.clip` are."""

QUANTISERS: dict[str, Callable[[Any], Any] | str] = {
    "zero point": zero_point,
    "converted bounds": CLIPPED,
    "sum": lambda x: tnf.astype(tnf.sum(tnf.round(scaled(x)), axis=0), "int32"),
    "product": lambda x: tnf.astype(tnf.round(scaled(x)) @ tnf.round(scaled(x)).T, "int32"),
    "floor of sum": lambda x: tnf.floor(tnf.round(scaled(x)) * 2.0 + 1.0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", QUANTISERS)
def test_sums_and_bounds_of_whole_numbers_do_not_flip(name: str, dtype: str) -> None:
    # The elements times 127 are far from ties and from whole numbers.
    x = ((np.arange(-30, 33) * 37 % 126 + 0.25) / 127)[:48].reshape(6, 8).astype(dtype)
    x[0, 0] = 1
    fn = QUANTISERS[name]
    if isinstance(fn, str):
        program, x = import_stablehlo(fn), x.astype("float32")
    else:
        program = tnf.compile(fn, x)
    (y,) = native_outputs(program, [x])
    (allowance,) = limits(program, [x], [y])
    for step in (-1, 1):
        moved = (y.astype("int64") + step).astype(y.dtype)
        assert compare("", y, moved, *allowance).outside == y.size


def test_more_ties_than_are_flipped_one_by_one() -> None:
    x = np.arctanh((np.arange(-79.0, 80) / 2 + 0.25 * (np.arange(159) % 2)) / 40)
    program = tnf.compile(lambda x: tnf.round(tnf.tanh(x) * 40) / 3, x)
    (native,) = native_outputs(program, [x])
    (allowed,) = limits(program, [x], [native])
    before = np.tanh(x) * 40
    is_near = np.abs(before - np.floor(before) - 0.5) < 1e-9
    assert np.count_nonzero(is_near) > 64
    for step in (1e-9, -1e-9):
        honest = np.round(before + step) / 3
        assert compare("y", native, honest, *allowed).outside == 0
    place = int(np.flatnonzero(~is_near)[20])
    wrong = native.copy()
    wrong[place] += 1 / 3
    assert compare("y", native, wrong, *allowed).outside == 1


def test_a_comparison_far_from_equality_may_not_flip() -> None:
    x = np.linspace(-1, 1, 33).astype("float32")
    threshold = float(np.tanh(x[20].astype(np.float64)))
    program = tnf.compile(
        lambda x: tnf.sum(tnf.where(tnf.tanh(x) >= threshold, tnf.exp(x), 0.0)), x
    )
    (native,) = native_outputs(program, [x])
    (allowed,) = limits(program, [x], [native])
    terms = np.exp(x[20:].astype(np.float64))
    for honest in (terms.sum(), terms[1:].sum()):
        assert compare("y", native, np.float32(honest), *allowed).outside == 0
    for wrong in (terms[2:].sum(), terms.sum() + np.exp(x[19]), terms[:-1].sum()):
        assert compare("y", native, np.float32(wrong), *allowed).outside == 1


def test_a_value_is_equal_to_itself_however_it_is_rounded() -> None:
    """`x != x` is true only for NaN, so that rounding cannot flip it."""

    def fn(x: Any) -> Any:
        y = tnf.log(tnf.exp(x) * 3.0) + x
        return tnf.where(y != y, 1e30, y)

    x = np.linspace(0.1, 1.0, 9)
    program = tnf.compile(fn, x)
    (native,) = native_outputs(program, [x])
    (allowed,) = limits(program, [x], [native])
    wrong = native.copy()
    wrong[4] = 1e30
    assert compare("y", native, wrong, *allowed).outside == 1
    assert allowed.limit.max() < 1e-12


def test_the_first_of_exactly_equal_keys_wins() -> None:
    """Integers are exact. Of several equal integers, only the first is therefore a right answer of argmax.

    Rounded floats may differ.
    """
    keys = np.array([[-2, 5, 5, 1], [7, 7, 7, 7]])
    program = tnf.compile(lambda x: tnf.argmax(x * 3, axis=1), keys)
    (native,) = native_outputs(program, [keys])
    assert native.tolist() == [1, 0]
    (allowed,) = limits(program, [keys], [native])
    assert compare("y", native, np.array([2, 0]), *allowed).outside == 1
    assert compare("y", native, np.array([1, 3]), *allowed).outside == 1
    program = tnf.compile(lambda x: tnf.argmin(tnf.exp(x), axis=1), np.zeros((1, 4)))
    (native,) = native_outputs(program, [np.zeros((1, 4))])
    (allowed,) = limits(program, [np.zeros((1, 4))], [native])
    assert compare("y", native, np.array([2]), *allowed).outside == 0


def scanned(a: Any, b: Any) -> Any:
    def step(carry: Any, each: Any) -> Any:
        carry = each[0] * carry + each[1]
        return carry, carry

    return tnf.scan(step, b[0] * 0, (a, b))[1]


def by_halves(a: Any, b: Any) -> tuple[Any, Any]:
    """Return all prefixes of the composition of the maps c -> a c + b.

    They are combined in the order of an associative scan.
    """
    if len(a) == 1:
        return a, b
    half = len(a) // 2
    first, second = by_halves(a[:half], b[:half]), by_halves(a[half:], b[half:])
    a = np.concatenate([first[0], first[0][-1] * second[0]])
    return a, np.concatenate([first[1], second[0] * first[1][-1] + second[1]])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("least", [-1.0, 0.5])
def test_an_associative_scan_of_a_recurrence_is_no_fault(dtype: str, least: float) -> None:
    rng = np.random.default_rng(1)
    a = rng.uniform(least, 1, (120, 5)).astype(dtype)
    b = rng.normal(size=(120, 5)).astype(dtype)
    program = tnf.compile(scanned, a, b)
    (native,) = native_outputs(program, [a, b])
    (allowed,) = limits(program, [a, b], [native])
    assert compare("c", native, by_halves(a, b)[1], *allowed).outside == 0
    lost = a.copy()
    lost[60] *= 1 + 1e-4 if dtype == "float32" else 1 + 1e-12
    assert compare("c", native, by_halves(lost, b)[1], *allowed).outside > 0


def test_a_counter_of_a_loop_does_not_round() -> None:
    def step(carry: Sequence[Any]) -> Sequence[Any]:
        return carry[0] + 1.0, carry[1] + tnf.astype(carry[0] > 20.0, "int32")

    program = tnf.compile(
        lambda x: tnf.while_loop(lambda carry: carry[0] < 40.0, step, (x, tnf.astype(x, "int32"))),
        np.float32(0),
    )
    native = native_outputs(program, [np.float32(0)])
    for allowance in limits(program, [np.float32(0)], native):
        assert len(allowance.alternatives.places) == 0

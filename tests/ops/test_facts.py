"""Facts that are declared about ops must hold for all samples.

The results of samples come from definitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tenferro.dispatch import apply
from tenferro.facts import FACTS, Fact, ops_with
from tenferro.ops import StdTensorOp
from tenferro.ops import elementwise as el
from tenferro.types import DType
from tests.samples import SAMPLES

SIGNS = Fact.KEEPS_SIGN | Fact.KEEPS_NONNEGATIVE | Fact.NONNEGATIVE


def each(facts: Fact) -> Any:
    cards = sorted(ops_with(facts) & SAMPLES.keys(), key=lambda card: card.__name__)
    assert cards
    return pytest.mark.parametrize("card", cards, ids=lambda card: card.__name__)


def values(x: Any) -> np.ndarray:
    """Convert elements to numbers that == compares exactly: float64, complex128, or Python's integers."""
    if x.dtype.kind in "biu":
        return x.astype(object)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def same(x: Any, y: Any) -> Any:
    """Return a mask of the elements that are equal in x and y. NaN counts as equal to NaN."""
    x, y = values(x), values(y)
    return (x == y) | ((x != x) & (y != y))


def real_samples(card: type[StdTensorOp]) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Yield the float operands and the float results of each sample of real numbers.

    Samples without float operands or without float results are skipped.
    """
    for sample in SAMPLES[card]:
        results = [y for y in sample.expected if y.dtype.kind not in "biuc"]
        operands = [x for x in sample.inputs if x.dtype.kind not in "biuc"]
        if results and operands and not any(x.dtype.kind == "c" for x in sample.inputs):
            yield list(map(values, operands)), list(map(values, results))


@each(Fact.MOVES | Fact.CARRIES)
def test_what_moves_elements_makes_none(card: type[StdTensorOp]) -> None:
    for sample in SAMPLES[card]:
        for x, y in zip(sample.inputs, sample.expected, strict=True):
            had, has = set(map(repr, values(x).flat)), set(map(repr, values(y).flat))
            assert has <= had
            if FACTS[card] & Fact.CARRIES and y.size:
                assert has == had


@each(Fact.CHOOSES)
def test_a_choice_is_an_operand_of_its_place(card: type[StdTensorOp]) -> None:
    for sample in SAMPLES[card]:
        (result,) = sample.expected
        choices = sample.inputs[1:] if card is el.Select else sample.inputs
        matches = np.stack(
            [
                np.broadcast_to(same(np.broadcast_to(x, result.shape), result), result.shape)
                for x in choices
            ]
        )
        is_nan = values(result) != values(result)
        assert (matches.any(0) | is_nan).all()


@each(Fact.COMMUTES)
def test_operands_may_be_exchanged(card: type[StdTensorOp]) -> None:
    for sample in SAMPLES[card]:
        if (
            sample.expected[0].dtype.kind == "c"
        ):  # because an infinite complex number has several representations
            continue
        with np.errstate(all="ignore"):
            (exchanged,) = apply(sample.op, *sample.inputs[::-1])
        assert same(exchanged, sample.expected[0]).all()


@pytest.mark.parametrize(
    "card", [el.Subtract, el.Divide, el.Remainder, el.Power, el.ShiftLeft], ids=lambda x: x.__name__
)
def test_operands_of_others_may_not(card: type[StdTensorOp]) -> None:
    assert card not in ops_with(Fact.COMMUTES)
    with np.errstate(all="ignore"):
        exchanged = [apply(sample.op, *sample.inputs[::-1])[0] for sample in SAMPLES[card]]
    pairs = zip(exchanged, SAMPLES[card], strict=True)
    assert any([not same(y, sample.expected[0]).all() for y, sample in pairs])


@each(SIGNS)
def test_signs_of_results(card: type[StdTensorOp]) -> None:
    facts = FACTS[card]
    for operands, results in real_samples(card):
        nonnegative = all([not (x < 0).any() for x in operands])
        nonpositive = all([not (x > 0).any() for x in operands])
        if facts & Fact.NONNEGATIVE or nonnegative:
            assert not any([((y < 0) & np.isfinite(y)).any() for y in results])
        if facts & Fact.KEEPS_SIGN and nonpositive:
            assert not any([((y > 0) & np.isfinite(y)).any() for y in results])


@each(SIGNS)
def test_signs_of_results_of_operands_of_one_sign(card: type[StdTensorOp]) -> None:
    """The declared signs of results must hold if the float operands of a sample are replaced by |x|, and by -|x|."""
    facts = FACTS[card]
    signs = [-1, 1] if facts & (Fact.KEEPS_SIGN | Fact.NONNEGATIVE) else [1]
    for sample in SAMPLES[card]:
        if any([x.dtype.kind == "c" for x in (*sample.inputs, *sample.expected)]):
            continue
        for sign in signs:
            operands = [
                x if x.dtype.kind in "biu" else (sign * abs(x)).astype(x.dtype)
                for x in sample.inputs
            ]
            with np.errstate(all="ignore"):
                results = [y for y in apply(sample.op, *operands) if y.dtype.kind not in "biu"]
            expected = 1 if facts & Fact.NONNEGATIVE else sign
            finite = [values(y)[np.isfinite(values(y))] for y in results]
            assert not any([(y * expected < 0).any() for y in finite])


@each(Fact.WHOLE)
def test_results_are_whole_numbers(card: type[StdTensorOp]) -> None:
    for _, results in real_samples(card):
        assert all([((np.floor(y) == y) | ~np.isfinite(y)).all() for y in results])


def test_holomorphic_ops_take_complex_numbers() -> None:
    """Holomorphic ops must accept complex numbers.

    The reverse does not hold: for example, Conj and Abs accept complex numbers, but are not holomorphic.
    """
    for card in ops_with(Fact.HOLOMORPHIC):
        assert DType.C64 in card.accepts, card.__name__
    for card in (el.Conj, el.Real, el.Imag, el.Abs, el.Sign, el.Compare, el.BitcastConvert):
        assert card not in ops_with(Fact.HOLOMORPHIC)


def test_reductions_are_the_ops_whose_results_lack_the_axes_of_the_payload() -> None:
    found = set()
    for card, samples in SAMPLES.items():
        for sample in samples:
            axes = getattr(sample.op, "axes", None)
            if axes and all([isinstance(x, np.ndarray) for x in sample.inputs]):
                (x, *_), (y, *_) = sample.inputs, apply(sample.op, *sample.inputs)
                if y.shape == tuple([n for axis, n in enumerate(x.shape) if axis not in axes]):
                    found.add(card)
    assert found == ops_with(Fact.REDUCES)


def test_what_iterates_has_programs_and_what_is_external_has_none() -> None:
    assert {card.__name__ for card in ops_with(Fact.ITERATES)} == {"Scan", "While"}
    assert all([SAMPLES[card][0].op.parts for card in ops_with(Fact.ITERATES)])
    assert {card.__name__ for card in ops_with(Fact.EXTERNAL)} == {"Extension"}

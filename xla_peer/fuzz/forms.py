"""Forms in which a random program is run: unchanged, in a loop, with a symbolic extent, and as imported text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import tenferro as tnf
from lowering import import_stablehlo, lower_to_stablehlo
from tenferro.errors import TenferroError
from tenferro.types import flatten
from xla_peer.parity.shrinking import Case

__all__ = ["FORMS", "form_of", "formed"]

TURNS = 3
ORDER = ("plain", "plain", "imported", "loop", "plain", "symbolic")
"""The forms of consecutive cases, repeated."""


def looped(case: Case) -> Case:
    """Return a case with a loop whose body is the program.

    The carry of the loop consists of arguments that have the type of a result.
    """
    program = case.program
    results = list(enumerate(program.output_specs))
    carried: dict[int, int] = {}
    for number, spec in enumerate(program.input_specs):
        fitting = [
            j for j, result in results if result.dtype is spec.dtype and result.shape == spec.shape
        ]
        if fitting:
            carried[number] = fitting[number % len(fitting)]

    def fn(*arrays: Any) -> Any:
        def body(_: Any, carry: Any) -> Any:
            values, _ = flatten(program(*carry))
            return tuple([
                values[carried[i]] if i in carried else value for i, value in enumerate(carry)
            ])  # fmt: skip

        return tnf.fori_loop(0, TURNS, body, tuple(arrays))

    if not carried:
        raise LookupError("no argument has the type of a result")
    return Case(tnf.compile(fn, *case.leaves, name=program.name), case.leaves)


def symbolic(case: Case) -> Case:
    """Return a case with the program batched over a leading axis of symbolic extent, and arguments of two rows."""
    specs = [
        tnf.TensorSpec(("n", *spec.shape), spec.dtype.value) for spec in case.program.input_specs
    ]
    if not specs:
        raise LookupError("no arguments")

    def fn(*arrays: Any) -> Any:
        return tnf.vmap(lambda *rows: case.program(*rows))(*arrays)

    program = tnf.compile(fn, *specs, name=case.program.name)
    return Case(program, tuple([np.stack([leaf, leaf]) for leaf in case.leaves]))


def imported(case: Case) -> Case:
    """Return a case with the program that was lowered to StableHLO text and imported again."""
    return Case(
        import_stablehlo(lower_to_stablehlo(case.program).plain_text, drops_windows=True),
        case.leaves,
    )


FORMS: Mapping[str, Callable[[Case], Case]] = {
    "plain": lambda case: case,
    "loop": looped,
    "symbolic": symbolic,
    "imported": imported,
}


def form_of(number: int) -> str:
    """Return the name of the form that case number `number` of the stream gets."""
    return ORDER[number % len(ORDER)]


def formed(case: Case, form: str) -> Case | None:
    """Return a case rewritten in a form; None if that is impossible, for example for an op without a batch rule."""
    try:
        return FORMS[form](case)
    except (TenferroError, LookupError):
        return None

"""Readers of calls, composites, custom calls, and control flow.

A loop whose condition does not depend on the arguments is written out. A choice is a choice between the
results of all branches, which have no effects.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.module_tree import Operation
from lowering.read.composites import composite, rebound
from lowering.read.custom_calls import CUSTOM_CALLS, unknown_targets
from lowering.read.reader import Reader, ReadRows
from tenferro.errors import UnsupportedError
from tenferro.ops.elementwise import Compare, Select

__all__ = ["ROWS"]


def call(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    return r.call(operation.attributes["callee"], operands)


def custom_call(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """By its target; or as the family that its attributes name."""
    a = operation.attributes
    target = a["call_target_name"]
    read = CUSTOM_CALLS.get(target)
    if read is not None:
        found = read(r, operation, operands)
        return (found,) if isinstance(found, int) else found
    attributes = a.get("backend_config")
    named = attributes if isinstance(attributes, dict) else {}
    made = rebound(r, operation, operands, target, named)
    if made is None:
        raise UnsupportedError(unknown_targets(r.tree))
    return made


def nothing(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Tokens order effects, and there are none here."""
    return [r.constant(False) for _ in operation.results]


MOST_TURNS = 1024


def while_(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    condition, body = operation.regions
    outer = dict(r.surroundings)
    values = list(operands)
    for _ in range(MOST_TURNS):
        (goes_on,) = r.block(condition, values, outer)
        known = r.evaluated(goes_on)
        if known is None:
            raise UnsupportedError("while: its condition depends on the arguments")
        if not known:
            return values
        values = r.block(body, values, outer)
    raise UnsupportedError(f"while: more than {MOST_TURNS} turns")


def if_(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    outer = dict(r.surroundings)
    (predicate,) = operands
    chosen, other = (r.block(region, (), outer) for region in operation.regions)
    return [_either(r, predicate, a, b) for a, b in zip(chosen, other, strict=True)]


def case(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """An index outside the branches takes the last."""
    outer = dict(r.surroundings)
    (index,) = operands
    branches = [r.block(region, (), outer) for region in operation.regions]
    found = branches[-1]
    for place, branch in reversed(list(enumerate(branches[:-1]))):
        here = r.emit(Compare("EQ"), index, r.full(place, r.spec(index)))
        found = [_either(r, here, a, b) for a, b in zip(branch, found, strict=True)]
    return found


def _either(r: Reader, predicate: int, a: int, b: int) -> int:
    return a if a == b else r.emit(Select(), r.spread(predicate, r.spec(a).shape), a, b)


ROWS: ReadRows = {
    "func.call": call,
    "stablehlo.after_all": nothing,
    "stablehlo.case": case,
    "stablehlo.composite": composite,
    "stablehlo.create_token": nothing,
    "stablehlo.custom_call": custom_call,
    "stablehlo.if": if_,
    "stablehlo.while": while_,
}

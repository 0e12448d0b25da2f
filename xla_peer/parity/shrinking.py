"""Reduction of failing cases to smaller programs and simpler arrays on which they still fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.errors import PeerEndedError, TenferroError
from tenferro.graph import Graph
from tenferro.program import GraphProgram, copy_into
from tenferro.types import DType, TensorSpec, flatten, unflatten
from xla_peer.isolated import IsolatedExecutor
from xla_peer.parity.divergence import Divergence, prefix
from xla_peer.parity.endings import Ending, text_of
from xla_peer.parity.paths import NativeAndPeer

__all__ = ["Case", "shrunk", "shrunk_divergence", "shrunk_ending"]

TRIES = 80
"""Maximum number of programs that are run."""
DIGITS = (1, 2, 3, 4)
"""Numbers of significant decimal digits to which elements of arguments are rounded, tried in this order."""


@dataclass(frozen=True)
class Case:
    """Program with the leaves of its arguments; both are to be shrunk."""

    program: GraphProgram
    leaves: tuple[Any, ...]


def shrunk(case: Case, parts: Callable[[Case], bool], seconds: float | None = None) -> Case:
    """Shrink a case as long as the predicate `parts` is true for the smaller case.

    First, all outputs but one are dropped. Then intermediate values are replaced by arguments, from the last value to
    the first. Then an intermediate value is returned instead of the output, the earliest one possible. Then arrays
    are replaced by ones or small whole numbers, or rounded to few digits. Finally, parts of arrays are replaced by
    ones, beginning with halves.

    Args:
        parts: a function that returns whether the paths diverge on a case, or the peer's process ends.
        seconds: the time after which no smaller case is tried; None for no limit.
    """
    tries, end = [TRIES], None if seconds is None else time.monotonic() + seconds

    def holds(candidate: Case) -> bool:
        tries[0] -= 1
        if tries[0] < 0 or (end is not None and time.monotonic() > end):
            return False
        try:
            return parts(candidate)
        except TenferroError:
            return False

    case = next(filter(holds, _single(case)), case)
    slots = [slot for step in case.program.instructions for slot in step.outputs]
    for _ in range(len(slots)):
        smaller = next(filter(holds, _cuts(case)), None)
        if smaller is None:
            break
        case = smaller
    case = next(filter(holds, _ends(case)), case)
    for number in range(len(case.leaves)):
        case = next(filter(holds, _of_few_digits(case, number)), case)
        case = _plainer(case, number, holds)
    return case


def shrunk_divergence(divergence: Divergence, seconds: float) -> Divergence:
    """Shrink a divergence to a smaller program and simpler arrays.

    A divergence of two different programs, or of an original text alone, is returned unchanged.
    """
    if divergence.other or divergence.text:
        return divergence
    try:
        paths = NativeAndPeer(divergence.executor())
    except TenferroError:
        return divergence  # the caller passed an executor that cannot be created again from its platform

    def worst(case: Case) -> Any:
        outputs = paths.compared(case.program, case.leaves)
        return next((output for output in outputs if output.outside), None)

    case = shrunk(
        Case(divergence.program, tuple(divergence.leaves)),
        lambda case: worst(case) is not None,
        seconds,
    )
    output = worst(case)
    if output is None:
        return divergence  # the shrunk case now agrees: XLA may not be deterministic
    return replace(divergence, program=case.program, leaves=case.leaves, output=output)


def shrunk_ending(ending: Ending, seconds: float) -> Ending:
    """Shrink the module that ends the peer's process to a smaller program and simpler arrays.

    Timeouts are not shrunk, because each attempt would take as long.
    """
    if ending.how == "timeout":
        return ending
    peer = IsolatedExecutor(ending.platform, notices=False)

    def ends(case: Case) -> bool:
        try:
            peer.run(case.program, *unflatten(case.program.in_tree, case.leaves))
        except PeerEndedError as error:
            return error.ending == ending.how
        return False

    start = Case(ending.program, tuple(ending.leaves))
    case = shrunk(start, ends, seconds)
    if case is start:
        return ending
    module = text_of(case.program, ending.platform) or ending.module
    return replace(ending, program=case.program, leaves=case.leaves, module=module)


def _single(case: Case) -> Iterator[Case]:
    """Yield, for each output of a case with several outputs, the case with only this output."""
    slots = list(dict.fromkeys(case.program.output_slots))
    if len(slots) > 1:
        yield from (_used(prefix(case.program, [slot]), case.leaves) for slot in slots)


def _ends(case: Case) -> Iterator[Case]:
    """Yield cases that return one intermediate value instead of the outputs, from the first value on."""
    outputs = set(case.program.output_slots)
    for step in case.program.instructions:
        for slot in step.outputs if step.inputs else ():
            if slot not in outputs:
                yield _used(prefix(case.program, [slot]), case.leaves)


def _used(program: GraphProgram, leaves: Sequence[Any]) -> Case:
    """Return the case without the arguments that no instruction reads."""
    graph, renumbered, arrays = Graph(), dict[int, int](), list[Any]()
    graph.trusted = program.trusted
    read = {slot for step in program.instructions for slot in step.inputs}
    read.update(program.output_slots)
    for slot, leaf in zip(program.input_slots, leaves, strict=True):
        if slot in read:
            renumbered[slot] = graph.add_input(program.types[slot])
            arrays.append(leaf)
    inputs = list(renumbered.values())
    copy_into(graph, program.instructions, renumbered)
    outputs = [renumbered[slot] for slot in program.output_slots]
    smaller = GraphProgram.from_graph(graph, outputs, name=program.name, inputs=inputs, guards=())
    return Case(smaller, tuple(arrays))


def _cuts(case: Case) -> Iterator[Case]:
    """Yield cases in which one intermediate value is an argument instead, from the last value on."""
    outputs = set(case.program.output_slots)
    inner = [
        step.outputs
        for step in case.program.instructions
        if step.inputs and outputs.isdisjoint(step.outputs)
    ]
    return (_cut(case, slots) for slots in reversed(inner))


def _cut(case: Case, slots: Sequence[int]) -> Case:
    program = case.program
    values, _ = flatten(prefix(program, slots).run(*case.leaves))
    graph, renumbered, leaves, inputs = Graph(), {}, [], []
    graph.trusted = program.trusted

    def parameter(slot: int, array: Any) -> None:
        renumbered[slot] = graph.add_input(TensorSpec.of(array.shape, DType.of(array.dtype)))
        inputs.append(renumbered[slot])
        leaves.append(array)

    for slot, leaf in zip(program.input_slots, case.leaves, strict=True):
        parameter(slot, leaf)
    for slot, value in zip(slots, map(np.asarray, values), strict=True):
        parameter(slot, value)
    copy_into(
        graph, [i for i in program.instructions if i.outputs[0] not in renumbered], renumbered
    )
    outputs = [renumbered[slot] for slot in program.output_slots]
    operands = {value for step in graph.instructions for value in step.inputs} | set(outputs)
    used_inputs = [(v, leaf) for v, leaf in zip(inputs, leaves, strict=True) if v in operands]
    smaller = GraphProgram.from_graph(
        graph, outputs, name=program.name, inputs=[v for v, _ in used_inputs], guards=()
    )
    return Case(smaller, tuple([leaf for _, leaf in used_inputs]))


def _replaced(case: Case, number: int, array: Any) -> Case:
    leaves = list(case.leaves)
    leaves[number] = array
    return Case(case.program, tuple(leaves))


def _of_few_digits(case: Case, number: int) -> Iterator[Case]:
    """Yield cases in which one argument is replaced by ones or small whole numbers, or rounded to few digits."""
    x = case.leaves[number]
    if x.dtype.kind not in "fV" or not x.size:
        return
    if not (x == 1).all():
        yield _replaced(case, number, np.ones_like(x))
    yield _replaced(case, number, (np.arange(x.size).reshape(x.shape) % 5).astype(x.dtype))
    for digits in DIGITS:
        yield _replaced(case, number, _rounded(x, digits))


@np.errstate(all="ignore")
def _rounded(x: Any, digits: int) -> Any:
    """Round the elements to `digits` significant decimal digits; zeros, infinities and NaN are kept."""
    wide = x.astype(np.float64)
    exponent = np.floor(np.log10(np.abs(np.where(wide == 0, 1, wide))))
    scale = 10.0 ** (exponent - digits + 1)
    near = np.where(np.isfinite(wide) & (scale > 0), np.rint(wide / scale) * scale, wide)
    largest = float(ml_dtypes.finfo(x.dtype).max)
    return np.where(np.abs(near) <= largest, near, wide).astype(x.dtype)


def _plainer(case: Case, number: int, holds: Callable[[Case], bool]) -> Case:
    """Set ranges of the elements of one argument to ones as long as `holds` is true for the case.

    The whole array is tried first, then halves, quarters and so on.
    """
    ranges = [(0, case.leaves[number].size)]
    while ranges:
        start, stop = ranges.pop()
        flat = case.leaves[number].ravel().copy()
        if stop <= start or (flat[start:stop] == 1).all():
            continue
        flat[start:stop] = 1
        candidate = _replaced(case, number, flat.reshape(case.leaves[number].shape))
        if holds(candidate):
            case = candidate
        elif stop - start > 1:
            middle = (start + stop) // 2
            ranges += [(start, middle), (middle, stop)]
    return case

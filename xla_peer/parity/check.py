"""`check_parity`: do both paths agree?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.ad import AdContext
from tenferro.errors import InvalidConfigError
from tenferro.program import GraphProgram
from tenferro.types import flatten, unflatten
from xla_peer.executor import XlaExecutor
from xla_peer.parity.comparison import OutputParity, Tolerance, compare, explained, granted
from xla_peer.parity.divergence import first_divergence
from xla_peer.parity.interpreter import interpreted
from xla_peer.parity.report import ParityReport
from xla_peer.parity.sensitivity import moved_outputs
from xla_peer.pullback import active, float_vjp

__all__ = ["check_parity", "limits"]


def check_parity(
    fn_or_program: Callable[..., Any] | GraphProgram,
    *arrays: Any,
    executor: Any = None,
    grad: bool = False,
    ulps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    interpreter: bool | None = None,
    locate: bool = True,
    context: AdContext | None = None,
) -> ParityReport:
    """Run natively and through PJRT, and compare every element of every output.

    What may be apart is what rounding explains: each op may round a little differently
    (`xla_peer.parity.ROUNDING`), and how far that moves the results is measured on the program and the
    arrays at hand. Integers and bools must be equal, unless rounding tips them over.

    Args:
        fn_or_program: a function is traced on the arrays' shapes and dtypes.
        executor: where to run the other path; the CPU by default.
        grad: compare the gradients too, of the real part of the sum of the outputs, each weighted by
            numbers around one; a program without float inputs or outputs has none.
        ulps, rtol, atol: what is allowed in place of what rounding explains; any of those given suffices.
        interpreter: ask StableHLO's reference interpreter for a third opinion, in a process of its own;
            by default where the paths disagree and the program is small.
        locate: where the paths disagree, find the first op that parts.
        context: whose rules differentiate for `grad`.

    Raises:
        ArityError, DTypeError, ShapeError: arrays that do not fit.
        InvalidConfigError: a tolerance below zero.

    >>> report = check_parity(lambda x: x * 2, np.arange(3.0))
    >>> report.ok, report.outputs[0].max_ulps
    (True, 0.0)
    """
    tolerance = _tolerance(ulps, rtol, atol)
    program = (
        fn_or_program
        if isinstance(fn_or_program, GraphProgram)
        else tnf.compile(fn_or_program, *arrays)
    )
    if grad:
        program = _with_gradient(program, arrays, context)
    peer = XlaExecutor() if executor is None else executor
    leaves = program.check_arguments(arrays)
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))

    def compared(part: GraphProgram, given: Sequence[Any]) -> tuple[OutputParity, ...]:
        arguments = unflatten(part.in_tree, given)
        native, _ = flatten(part.run(*arguments))
        other, _ = flatten(peer.run(part, *arguments))
        allowed = limits(part, given, native, tolerance)
        return tuple(map(compare, part.output_names, native, other, allowed))

    def judged(part: GraphProgram, given: Sequence[Any]) -> str:
        return _opinion(part, given, peer, tolerance)

    outputs = compared(static, leaves)
    agree = all(output.ok for output in outputs)
    asked = interpreter if interpreter is not None else not agree
    parted = first_divergence(static, leaves, compared, judged) if locate and not agree else None
    platform = getattr(peer, "platform", type(peer).__name__)
    return ParityReport(
        program=program.name,
        platform=platform,
        outputs=outputs,
        interpreter=judged(static, leaves) if asked else "",
        first_divergence=parted,
    )


def limits(
    program: GraphProgram,
    leaves: Sequence[Any],
    outputs: Sequence[Any],
    tolerance: Tolerance | None = None,
) -> list[Any]:
    """How far each element of each output may be apart."""
    arrays = list(map(np.asarray, outputs))
    if tolerance is not None:
        return [granted(y, tolerance) for y in arrays]
    moved = moved_outputs(program, leaves)
    return [explained(y, [run[i] for run in moved]) for i, y in enumerate(arrays)]


def _tolerance(ulps: float | None, rtol: float | None, atol: float | None) -> Tolerance | None:
    given = {"ulps": ulps, "rtol": rtol, "atol": atol}
    for name, value in given.items():
        if value is not None and not value >= 0:
            raise InvalidConfigError(f"check_parity: {name} is at least 0, got {value!r}")
    if ulps is rtol is atol is None:
        return None
    return Tolerance(*[0.0 if value is None else value for value in given.values()])


def _opinion(
    program: GraphProgram, leaves: Sequence[Any], peer: Any, tolerance: Tolerance | None
) -> str:
    """With whom the reference interpreter agrees."""
    third = interpreted(program, leaves)
    if isinstance(third, str):
        return f"the reference interpreter has no opinion: {third}"
    arguments = unflatten(program.in_tree, leaves)
    sides = {
        "native": flatten(program.run(*arguments))[0],
        "PJRT": flatten(peer.run(program, *arguments))[0],
    }
    allowed = limits(program, leaves, sides["native"], tolerance)
    with_side = [
        name
        for name, results in sides.items()
        if all(
            compare("", y, z, limit).ok for y, z, limit in zip(results, third, allowed, strict=True)
        )
    ]
    if len(with_side) == 1:
        alone = "PJRT" if with_side[0] == "native" else "native"
        return f"the reference interpreter agrees with {with_side[0]}: {alone} is alone"
    return f"the reference interpreter agrees with {'both' if with_side else 'neither'}"


def _with_gradient(
    program: GraphProgram, arrays: tuple[Any, ...], context: AdContext | None
) -> GraphProgram:
    """The program's result, and the gradient with respect to every float argument."""
    leaves = program.check_arguments(arrays)
    chosen = active(program.input_specs)
    seeds = np.random.default_rng(0)
    specs = program.specialize(program.bind([leaf.shape for leaf in leaves])).output_specs
    seeded = [specs[number] for number in active(specs)]
    if not chosen or not seeded:
        return program
    bars = [seeds.uniform(0.5, 1.5, spec.shape).astype(spec.dtype.dtype) for spec in seeded]

    def fn(*arguments: Any) -> Any:
        results, pull = float_vjp(program, flatten(arguments)[0], context)
        names = [program.input_names[number] for number in chosen]
        gradient = dict(zip(names, pull(tuple(bars)), strict=True))
        return {"value": unflatten(program.out_tree, results), "gradient": gradient}

    return tnf.compile(fn, *unflatten(program.in_tree, leaves), name=program.name)

"""Pending roundings: roundings of intermediate values that a compiler may omit, derived from the program alone.

Every implementation rounds a single sum or product in the same way. But if another operation uses the result, a
compiler may omit the rounding: it may contract a product and a sum to one operation, combine constants, or skip
the conversion to a narrow dtype between two steps. So a rounding is called pending until an operation uses the value.
    The size of a pending rounding is relative to the rounded value, even if the later result is much smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from tenferro.facts import Fact, ops_with
from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import contraction as co
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops import structural as st
from tenferro.ops.control import ControlOp
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, Instruction
from tenferro.types import DType, TensorSpec
from xla_peer.parity.rounding import Rounding, rounding_of

__all__ = [
    "ADDITIVE",
    "DISCRETE",
    "EXACT_TERMS",
    "WHOLE",
    "Pending",
    "divides_by_reciprocal",
    "may_jump",
    "nested_instructions",
    "pending_roundings",
    "unit",
]

LEAST_ULPS = 4.0
LEAST_NARROW_ULPS = 2.0
"""Difference in ulps that is always allowed for float16 and bfloat16, which are computed in float32 and rounded once.
"""
ADDITIVE = (el.Add, el.Subtract)
EXACT_TERMS = 2
"""Maximum number of terms whose sum every implementation rounds in the same way."""
MULTIPLICATIVE = (el.Multiply, el.Divide, el.Convert)
CHOICES = ops_with(Fact.CHOOSES)
DISCRETE = ops_with(Fact.JUMPS)
"""Ops whose result may jump if an operand changes by rounding; a `Convert` to integers may jump, too."""
WHOLE = ops_with(Fact.WHOLE)
JUMPING = ops_with(Fact.JUMPS | Fact.HIDES_JUMPS)
ELEMENT_BY_ELEMENT = (*el.CARDS, *an.CARDS, *st.CARDS)
KEEPS_WHOLE = (
    *(
        el.Add,
        el.Subtract,
        el.Multiply,
        el.Negate,
        el.Abs,
        el.Maximum,
        el.Minimum,
        el.Clamp,
        el.Select,
        el.Convert,
    ),
    *(*st.CARDS, *re.CARDS, co.DotGeneral, ix.Gather),
)
"""Ops that return whole numbers if all float operands are whole numbers."""


def unit(dtype: DType) -> float:
    """Return the largest relative error of one rounding to a float dtype: half the spacing at 1."""
    return float(ml_dtypes.finfo(dtype.real.dtype).eps) / 2


@dataclass(frozen=True)
class Pending:
    """Pending roundings and related properties of a value.

    Attributes:
        rounding: the sum of the roundings that another implementation may omit, relative to the value.
        product: the part of `rounding` from products, which may be contracted with a sum also in a later iteration.
        differs: whether implementations may compute different values, even if the value is an output.
        is_constant: whether the value depends on no input.
        is_repeated: whether the value is a broadcast that repeats elements, possibly followed by elementwise ops.
        is_carried: whether the value depends on an argument of a loop's body, which an earlier iteration may have
            computed. A compiler may combine iterations in another order, as an associative scan does.
        is_whole: whether the ops alone show that all finite elements are whole numbers.
        window: for a sum of slices of one array, the slot of this array; -1 for other values. A sum over windows is
            imported as such a sum, and may be added in any order.
        terms: the number of slices in this sum; 1 for a slice.
        narrow: the dtype to which each partial sum over a window may be rounded, if the import computes in a wider one.
    """

    rounding: float = 0.0
    differs: bool = False
    is_constant: bool = False
    product: float = 0.0
    is_repeated: bool = False
    is_carried: bool = False
    is_whole: bool = False
    window: int = -1
    terms: int = 0
    narrow: DType | None = None

    def least_ulps(self, dtype: DType) -> float:
        """Return the difference that is always allowed, in units in the last place; 0 if the value may not differ.

        The result is a few units, or the pending roundings if they are larger.
        """
        if not self.differs or not dtype.is_inexact:
            return 0.0
        least = LEAST_ULPS if dtype.accumulator is dtype else LEAST_NARROW_ULPS
        return max(least, self.rounding / unit(dtype))


def pending_roundings(
    program: GraphProgram, is_body: bool = False, platform: str = "cpu"
) -> list[Pending]:
    """Compute the pending roundings of each slot for the compiler of a platform.

    Args:
        is_body: whether the program is the body of a loop, whose arguments an earlier iteration has rounded. A compiler
            that unrolls the loop may contract a product of one iteration with a sum of the next iteration, but omits no
            other rounding between iterations.
    """
    pending = _pending(program, [Pending()] * len(program.input_slots), platform)
    if not is_body:
        return pending
    product = max([pending[slot].product for slot in program.output_slots], default=0.0)
    inputs = [
        Pending(min(product, unit(program.types[slot].dtype)), differs=True, is_carried=True)
        if program.types[slot].dtype.is_inexact
        else Pending()
        for slot in program.input_slots
    ]
    return _pending(program, inputs, platform)


def _pending(program: GraphProgram, inputs: Sequence[Pending], platform: str) -> list[Pending]:
    pending = [Pending()] * program.n_slots
    narrow: dict[Any, DType] = {}
    for slot, value in zip(program.input_slots, inputs, strict=True):
        pending[slot] = value
    for step in program.instructions:
        operands = [pending[slot] for slot in step.inputs]
        specs = tuple([program.types[slot] for slot in step.inputs])
        is_carried = any(operand.is_carried for operand in operands)
        if (
            step.source
            and isinstance(step.op, el.Convert)
            and specs[0].dtype.accumulator is step.op.to
        ):
            narrow[step.source] = specs[0].dtype
        window, terms = _summed_slices(step, operands)
        for slot in step.outputs:
            value = _result(step, operands, specs, program.types[slot], platform)
            pending[slot] = replace(
                value,
                differs=value.differs or terms > EXACT_TERMS,
                window=window,
                terms=terms,
                narrow=narrow.get(step.source),
                is_repeated=_repeats(step.op, operands, specs, program.types[slot]),
                is_carried=is_carried and program.types[slot].dtype.is_inexact,
                is_whole=_is_whole(step.op, operands, program.types[slot]),
            )
    return pending


def _result(
    step: Instruction,
    operands: Sequence[Pending],
    specs: tuple[TensorSpec, ...],
    spec: TensorSpec,
    platform: str,
) -> Pending:
    is_constant = all(operand.is_constant for operand in operands)
    if not spec.dtype.is_inexact:
        return Pending(is_constant=is_constant)
    op, rounding = step.op, rounding_of(step.op, specs, platform)
    before = [operand.rounding for operand in operands]
    differs = any(operand.differs for operand in operands)
    own = unit(spec.dtype)
    if isinstance(op, ControlOp):
        differs = differs or any(before) or _rounds(op)
        return Pending(own if differs else 0.0, differs)
    product = max([operand.product for operand in operands], default=0.0)
    if type(op) in CHOICES:
        # Only the roundings of products stay pending: a product may still be contracted with a later sum. Compilers
        # omit no other rounding of the operands, because the choice is made between rounded values.
        return Pending(product, differs or any(before), is_constant, product)
    if type(op) in WHOLE and not spec.dtype.is_complex:
        return Pending(0.0, differs or any(before), is_constant)
    if not rounding.rounds or combines_one(op, rounding, specs):
        return Pending(max(before, default=0.0), differs, is_constant, product)
    if isinstance(op, ADDITIVE):
        return Pending(own, differs or any(before), is_constant)
    if isinstance(op, MULTIPLICATIVE) and not spec.dtype.is_complex:
        differs = differs or any(before) or divides_by_reciprocal(op, operands, specs)
        differs = differs or rounding.real > 0
        # A conversion from integers cannot be contracted with a sum.
        is_product = specs[0].dtype.is_inexact
        product = sum(before) + own if is_product else 0.0
        return Pending(sum(before) + own, differs, is_constant, product)
    is_complex = any(x.dtype.is_complex for x in (spec, *specs))
    if not (rounding.output(is_complex) or rounding.combined):
        return Pending(own, differs or any(before), is_constant)
    # float16 and bfloat16 are computed in float32. A small difference there may round to adjacent narrow numbers.
    is_narrow = spec.dtype.accumulator is not spec.dtype
    return Pending(2 * own if is_narrow else own, True, is_constant)


def _summed_slices(step: Instruction, operands: Sequence[Pending]) -> tuple[int, int]:
    """Return `Pending.window` and `Pending.terms` of the result of a step."""
    first = operands[0] if operands else Pending()
    if isinstance(step.op, st.Slice):
        return (first.window, first.terms) if first.terms > 1 else (step.inputs[0], 1)
    if not isinstance(step.op, el.Add) or not -1 < first.window == operands[1].window:
        return -1, 0
    return first.window, first.terms + operands[1].terms


def _is_whole(op: StdTensorOp, operands: Sequence[Pending], spec: TensorSpec) -> bool:
    """Return whether a step returns whole numbers for any operands of which the `is_whole` ones are whole numbers."""
    if not spec.dtype.is_inexact or (type(op) in WHOLE and not spec.dtype.is_complex):
        return True
    if isinstance(op, Constant):
        array = np.asarray(op.array)
        return not spec.dtype.is_complex and bool(
            ((array == np.rint(array)) | (array != array)).all()
        )
    return isinstance(op, KEEPS_WHOLE) and all(operand.is_whole for operand in operands)


def may_jump(program: GraphProgram) -> bool:
    """Return whether the program has an op whose result rounding may change abruptly.

    Such an op selects, counts, truncates to whole numbers, or has a branch cut.
    """
    for step in program.instructions:
        types = [program.types[slot] for slot in (*step.inputs, *step.outputs)]
        if isinstance(step.op, el.Sign) and types[0].dtype.is_complex:
            continue  # the sign of a complex number is continuous except at 0
        if type(step.op) in JUMPING:
            return True
        if isinstance(step.op, (*an.CARDS, el.Power)) and any(x.dtype.is_complex for x in types):
            return True
        if isinstance(step.op, el.Convert) and not step.op.to.is_inexact:
            return True
    return False


def combines_one(op: StdTensorOp, rounding: Rounding, specs: tuple[TensorSpec, ...]) -> bool:
    """Return whether a sum or product has a single term, so that nothing is rounded."""
    if rounding.combined is None or not isinstance(op, re.Reduction | re.Scan):
        return False
    return specs[0].is_static and rounding.combined(op, specs) <= 1


def divides_by_reciprocal(
    op: StdTensorOp, operands: Sequence[Pending], specs: tuple[TensorSpec, ...]
) -> bool:
    """Return whether XLA may replace a division by a multiplication with the reciprocal.

    XLA makes this replacement for constant divisors and for divisors that several quotients share, but not for
    bfloat16.
    """
    if not isinstance(op, el.Divide):
        return False
    if not (operands[1].is_constant or operands[1].is_repeated):
        return False
    return specs[0].dtype.is_inexact and specs[0].dtype is not DType.BF16


def _repeats(
    op: StdTensorOp, operands: Sequence[Pending], specs: tuple[TensorSpec, ...], spec: TensorSpec
) -> bool:
    """Return whether a step is a broadcast to more elements, or an elementwise op on such a broadcast.

    XLA moves such elementwise ops before the broadcast, so each of their results is shared by several elements.
    """
    if isinstance(op, st.BroadcastInDim):
        return operands[0].is_repeated or not spec.is_static or spec.size > specs[0].size
    if not isinstance(op, ELEMENT_BY_ELEMENT) or not any(x.is_repeated for x in operands):
        return False
    return all(x.is_repeated or x.is_constant for x in operands)


def _rounds(op: ControlOp) -> bool:
    """Return whether any op in the bodies of a loop or conditional rounds."""
    for step, program in nested_instructions(op):
        if not isinstance(step.op, ControlOp):
            specs = tuple([program.types[slot] for slot in step.inputs])
            if rounding_of(step.op, specs).rounds:
                return True
    return False


def nested_instructions(op: ControlOp) -> Iterator[tuple[Instruction, GraphProgram]]:
    """Yield every instruction in the bodies of a loop or conditional, also nested ones, with the body's program."""
    programs = [part.program for part in op.parts]
    while programs:
        program = programs.pop()
        for step in program.instructions:
            yield step, program
            if isinstance(step.op, ControlOp):
                programs += [part.program for part in step.op.parts]

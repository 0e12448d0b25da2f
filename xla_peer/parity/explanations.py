"""Known reasons why the paths diverge although neither is wrong, or why the peer departs from StableHLO.

For each reason, a predicate returns whether the reason explains a divergence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from lowering.extensions import GPUS
from tenferro.errors import PeerEndedError
from tenferro.graph import Graph
from tenferro.ops import StdTensorOp
from tenferro.ops import analytic as an
from tenferro.ops import contraction as co
from tenferro.ops import elementwise as el
from tenferro.ops import indexing as ix
from tenferro.ops import reduction as re
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram, Instruction, copy_into
from tenferro.types import DType
from xla_peer.parity.confidence import CONFIDENCE, decision_runs
from xla_peer.parity.divergence import Divergence, alone, maker, prefix, values_of
from xla_peer.parity.iterations import native_outputs
from xla_peer.parity.paths import NativeAndPeer
from xla_peer.parity.rounding import ROUNDING
from xla_peer.parity.sensitivity import moved_outputs, subnormal
from xla_peer.parity.ulps import modulus

__all__ = ["EXPLANATIONS", "Explanation", "Parting", "explain"]

REWRITES_OFF = {"xla_disable_hlo_passes": "algsimp"}
"""XLA's debug option that disables its algebraic simplifier."""


@dataclass(frozen=True)
class Parting:
    """A divergence, with properties that the predicates of explanations test."""

    divergence: Divergence

    @cached_property
    def step(self) -> Instruction:
        """The first instruction on which the paths diverge."""
        step = maker(self.divergence.program, self.divergence.output)
        assert step is not None
        return step

    @property
    def op(self) -> StdTensorOp:
        """The op of the step."""
        return self.step.op

    @property
    def is_complex(self) -> bool:
        """Whether an operand or the result is complex."""
        program = self.divergence.program
        slots = (*self.step.inputs, *self.step.outputs)
        return any(program.types[slot].dtype.is_complex for slot in slots)

    @cached_property
    def operands(self) -> list[Any]:
        """The op's operands in the native run."""
        program = self.divergence.program
        slots = list(dict.fromkeys(self.step.inputs))
        return values_of(program, slots, self.divergence.leaves)

    @cached_property
    def alone(self) -> tuple[GraphProgram, list[Any]]:
        """The op as a program, and its operands in the native run."""
        divergence = self.divergence
        number = divergence.program.instructions.index(self.step)
        return alone(divergence.program, number, divergence.leaves)

    @property
    def results(self) -> tuple[Any, Any]:
        """The native value and PJRT's value of the worst element."""
        output = self.divergence.output
        return output.native, output.xla

    @property
    def has_special_result(self) -> bool:
        """Whether one of the two values is NaN or infinite."""
        return not all(np.isfinite(np.asarray(y).astype(complex)) for y in self.results)

    def agrees_without_rewrites(self) -> bool:
        """Return whether the paths agree if XLA's algebraic rewrites are disabled."""
        plain = self.divergence.executor(REWRITES_OFF)
        return NativeAndPeer(plain).agree(self.divergence.program, self.divergence.leaves)

    def agrees_before_the_last(self) -> bool:
        """Return whether the paths agree on the operands of the last op, in a program with more than one op."""
        divergence = self.divergence
        if len(divergence.program.instructions) < 2:
            return False
        before = prefix(divergence.program, list(dict.fromkeys(self.step.inputs)))
        peer = divergence.executor()
        return NativeAndPeer(peer).agree(before, divergence.leaves)

    def is_an_update(self) -> bool:
        """Return whether PJRT's value of the worst element is one of the updates of a scatter."""
        divergence, (_, peer) = self.divergence, self.results
        (updates,) = values_of(divergence.program, self.step.inputs[2:], divergence.leaves)
        return bool(np.any((updates == peer) | ((updates != updates) & (peer != peer))))

    def flips_decision(self) -> bool:
        """Return whether the worst element is a decision that rounding may flip to PJRT's value.

        A decision is an index, a bool or a count.
        """
        divergence, output = self.divergence, self.divergence.output
        if output.spec.dtype.is_inexact:
            return False
        position = divergence.program.output_names.index(output.name)
        runs, platform = decision_runs(CONFIDENCE), divergence.platform
        moved = moved_outputs(divergence.program, divergence.leaves, runs, platform)
        return any(bool(run[position][output.worst] == output.xla) for run in moved)


@dataclass(frozen=True)
class Explanation:
    """Known reason for a difference.

    Attributes:
        name: name of the reason.
        reason: sentences about the reason, for reports.
        applies: a function that returns whether the reason explains a divergence.
        excuses: whether neither path is wrong: StableHLO does not specify the value, or XLA deviates in a documented
            way. An algebraic rewrite that changes values is not excused, so the verdict remains `wrong`.
    """

    name: str
    reason: str
    applies: Callable[[Parting], bool]
    excuses: bool = True


def _special(x: Any) -> bool:
    return DType.of(x.dtype).kind not in "biu" and not np.isfinite(x.astype(complex)).all()


def _mirrored(parting: Parting) -> bool:
    """Return whether the real parts, and the imaginary parts, of the two results are equal up to their signs."""
    a, b = (complex(y) for y in parting.results)
    near = 1e-3 * max(map(_size, parting.results))
    return abs(abs(a.real) - abs(b.real)) <= near and abs(abs(a.imag) - abs(b.imag)) <= near


def _size(y: Any) -> float:
    """Compute the modulus without overflow."""
    return float(modulus(np.asarray(y)))


def _meets_subnormals(parting: Parting) -> bool:
    """Return whether subnormal numbers explain the difference at the worst element, in one of three ways.

    - An operand is subnormal at this element, or depends on a subnormal argument or constant. If the subnormal number
      is replaced by other numbers of its size, the native result equals the result of the other path. Complex numbers
      may be somewhat larger, because formulas halve and square their parts.
    - The difference of the two results is a subnormal number, for example one term of a product.
    - One result is zero, and the other is within a few powers of two of the smallest normal number; or the op is a
      complex power, whose factors may be subnormal.
    """
    divergence = parting.divergence
    program, leaves = divergence.program, list(map(np.asarray, divergence.leaves))
    if _reached_from_subnormals(
        parting, *_with_constants_as_arguments(program, leaves), _position(divergence)
    ):
        return True
    place = parting.step.outputs.index(_slot(divergence))
    if _reached_from_subnormals(parting, *parting.alone, place):
        return True
    dtype = divergence.output.spec.dtype
    if not dtype.is_inexact:
        return False
    smallest = float(ml_dtypes.finfo(dtype.real.dtype).smallest_normal)
    a, b = (complex(y) for y in parting.results)
    if max(abs(a.real - b.real), abs(a.imag - b.imag)) <= smallest:
        return True
    sizes = sorted(map(_size, parting.results))
    may_meet = sizes[1] < 64 * smallest or (isinstance(parting.op, el.Power) and parting.is_complex)
    return sizes[0] == 0 and may_meet


def _with_constants_as_arguments(
    program: GraphProgram, leaves: Sequence[Any]
) -> tuple[GraphProgram, list[Any]]:
    """Return the program with additional arguments in place of its constants, and all its arguments."""
    graph, arrays = Graph(), list(leaves)
    graph.trusted = program.trusted
    values = {slot: graph.add_input(program.types[slot]) for slot in program.input_slots}
    others: list[Instruction] = []
    for step in program.instructions:
        if isinstance(step.op, Constant):
            (slot,) = step.outputs
            values[slot] = graph.add_input(program.types[slot])
            arrays.append(step.op.array)
        else:
            others.append(step)
    inputs = list(values.values())
    copy_into(graph, others, values)
    outputs = [values[slot] for slot in program.output_slots]
    return GraphProgram.from_graph(graph, outputs, inputs=inputs), arrays


def _reached_from_subnormals(
    parting: Parting, program: GraphProgram, leaves: Sequence[Any], position: int
) -> bool:
    """Return whether native runs with replaced subnormal numbers reach PJRT's value of the worst element.

    In each run, all subnormal arguments are replaced: by the smallest normal number, by zero, or by numbers of the same
    magnitude. The signs are either kept or changed. PJRT's value must be within the range of the results of these runs.

    Args:
        position: the index of the output.
    """
    index, spec = parting.divergence.output.worst, parting.divergence.output.spec
    scale = 4 if parting.is_complex else 1
    if not any(x.shape == spec.shape and subnormal(x[index] / scale).any() for x in leaves):
        return False
    _, peer = parting.results
    for sign in (1.0, -1.0):
        reached: list[Any] = []
        for size in (0.0, None, 1.0):
            replaced = [_with_smallest(x, sign, size, scale) for x in leaves]
            reached.append(native_outputs(program, replaced)[position][index])
        if _is_among(peer, np.array(reached)):
            return True
    return False


def _position(divergence: Divergence) -> int:
    return divergence.program.output_names.index(divergence.output.name)


def _slot(divergence: Divergence) -> int:
    return divergence.program.output_slots[_position(divergence)]


@np.errstate(all="ignore")
def _with_smallest(x: Any, sign: float, size: float | None, scale: int) -> Any:
    """Replace subnormal numbers in x by `size` times the smallest normal number, and multiply their sign by `sign`.

    If `size` is None, the numbers keep their magnitude. Numbers below `scale` times the smallest normal number count
    as subnormal. Real and imaginary parts are replaced separately.
    """
    if DType.of(x.dtype).kind in "biu":
        return x
    if x.dtype.kind == "c":
        parts = [_with_smallest(part, sign, size, scale) for part in (x.real, x.imag)]
        return parts[0] + 1j * parts[1]
    smallest = ml_dtypes.finfo(x.dtype).smallest_normal
    near = x if size is None else np.copysign(x.dtype.type(size * float(smallest)), x)
    return np.where(subnormal(x / scale), near * x.dtype.type(sign), x).astype(x.dtype)


def _is_among(y: Any, values: Any) -> bool:
    """Return whether y is equal to one of the values, or within their range, up to rounding.

    Complex numbers are compared by parts.
    """
    if values.dtype.kind == "c":
        return _is_among(y.real, values.real) and _is_among(y.imag, values.imag)
    if DType.of(values.dtype).kind in "biu":
        return bool((values == y).any())
    number, wide = float(y), values.astype(np.float64)
    if np.isnan(number):
        return bool(np.isnan(wide).any())
    wide = wide[~np.isnan(wide)]
    smallest = float(ml_dtypes.finfo(values.dtype).smallest_normal)
    slack = 1e-2 * np.abs(wide[np.isfinite(wide)]).max(initial=0.0) + smallest
    return bool(wide.size) and wide.min() - slack <= number <= wide.max() + slack


@np.errstate(all="ignore")
def _may_overflow(parting: Parting) -> bool:
    """Return whether a result is NaN or infinite, and a partial sum or product may overflow in some order of terms.

    A partial sum may overflow if the sum of the absolute finite terms overflows. A partial product may overflow if
    the product of all finite factors above 1 overflows.
    """
    if ROUNDING[type(parting.op)].combined is None or not parting.has_special_result:
        return False
    multiplies = isinstance(parting.op, re.ReduceProd | re.CumProd)
    multiplies |= isinstance(parting.op, ix.Scatter) and parting.op.combiner == "multiply"
    program, operands = parting.alone
    position = parting.step.outputs.index(_slot(parting.divergence))
    largest = native_outputs(program, [_largest_term(x, multiplies) for x in operands])[position]
    return not np.isfinite(largest[parting.divergence.output.worst].astype(complex))


def _largest_term(x: Any, multiplies: bool) -> Any:
    """Return |x| where it is finite, and 0 elsewhere; for factors of a product, return at least 1."""
    if DType.of(x.dtype).kind in "biu":
        return x
    size = np.abs(x)
    size = np.where(np.isfinite(size), size, 0)
    return (np.maximum(size, 1) if multiplies else size).astype(x.dtype)


def _leaves_zeros_out(parting: Parting) -> bool:
    """Return whether PJRT's convolution omits the products of the kernel with zeros of the padding and the dilation.

    By definition, such a product is NaN if the kernel element is infinite or NaN. PJRT's value of the worst element is
    compared with the sum without these products.
    """
    if not isinstance(parting.op, co.Convolution):
        return False
    program, operands = parting.alone
    if len(operands) < 2 or not _special(operands[1]):
        return False
    x, kernel = operands
    is_special, worst = ~np.isfinite(kernel.astype(complex)), parting.divergence.output.worst
    (meetings,) = native_outputs(program, [np.ones_like(x), is_special.astype(kernel.dtype)])
    (others,) = native_outputs(program, [x, np.where(is_special, 0, kernel)])
    _, peer = parting.results
    if meetings[worst] == 0:
        return _is_among(peer, others[worst].reshape(1))
    if parting.is_complex:
        return False
    # The sum of infinite products is infinite if all products have the same sign, and NaN otherwise.
    signs = np.where(np.isinf(kernel), np.sign(kernel), 0).astype(kernel.dtype)
    (of_signs,) = native_outputs(program, [np.sign(x), signs])
    is_infinite = np.abs(of_signs[worst]) == meetings[worst]
    return bool(peer == np.copysign(np.inf, of_signs[worst]) if is_infinite else peer != peer)


def _is_folded_nan(parting: Parting) -> bool:
    """Return whether PJRT's exp of a NaN is a number because the NaN comes from a constant.

    The reason applies only if both paths agree when the operand is an argument of the program instead.
    """
    native, peer = parting.results
    if not isinstance(parting.op, an.Exp) or native == native or peer != peer:
        return False
    divergence = parting.divergence
    ops = [step.op for step in divergence.program.instructions]
    if not any(isinstance(op, Constant) and _special(op.array) for op in ops):
        return False
    return NativeAndPeer(divergence.executor()).agree(*parting.alone)


def _leaves_a_range(parting: Parting) -> bool:
    """Return whether an intermediate value may overflow or underflow.

    This is assumed if the program has several ops, and an operand of the last op or one of the two results is zero,
    infinite or NaN.
    """
    program = parting.divergence.program
    floats = [x for x in parting.operands if DType.of(x.dtype).kind not in "biu"]
    if len(program.instructions) < 2 or not floats:
        return False
    if any(_special(x) or not x.all() for x in floats):
        return True
    return parting.has_special_result or any(_size(y) == 0 for y in parting.results)


EXPLANATIONS = (
    Explanation(
        "bits of NaN",
        "NaN has many bit patterns, of either sign, and no operation specifies which one it returns; "
        "BitcastConvert makes it visible.",
        lambda p: isinstance(p.op, el.BitcastConvert) and any(map(_special, p.operands)),
    ),
    Explanation(
        "bits within rounding",
        "Results that differ within rounding become different integers by BitcastConvert.",
        lambda p: isinstance(p.op, el.BitcastConvert) and p.agrees_before_the_last(),
    ),
    Explanation(
        "complex numbers that are not finite",
        "Infinity times a complex number is NaN + NaN i by the formula and an infinity by C99's annex G. "
        "NumPy follows the annex in some functions and XLA in others. A real or imaginary part that overflows "
        "causes the same difference.",
        lambda p: p.is_complex and p.has_special_result,
    ),
    Explanation(
        "branch cuts of complex functions",
        "On a cut, the sign of a zero selects the side. XLA's formulas contain sums and products that lose this "
        "sign.",
        lambda p: p.is_complex and _mirrored(p),
    ),
    Explanation(
        "several updates of one element",
        "If several updates set one element, StableHLO does not define which one wins. Natively it is the last "
        "one; on a GPU it may be any, and may differ from run to run.",
        lambda p: isinstance(p.op, ix.Scatter) and p.op.combiner == "set" and p.is_an_update(),
    ),
    Explanation(
        "convolutions that are not finite on a GPU",
        "cuDNN leaves padding out or multiplies it, and transforms tiles of the input. Therefore an infinity "
        "or NaN may reach different or fewer elements than the definition says.",
        lambda p: (
            p.divergence.platform in GPUS
            and isinstance(p.op, co.Convolution)
            and any(map(_special, p.operands))
        ),
    ),
    Explanation(
        "zeros that convolutions leave out",
        "By the definition, padding and the elements that dilation inserts are zeros. An infinity or NaN of the "
        "kernel times such a zero is NaN; if XLA writes the loops itself, it omits these products.",
        _leaves_zeros_out,
    ),
    Explanation(
        "exp of a NaN known at compile time",
        "Up to jaxlib 0.11.1, XLA's exp in float32 rounds its operand to an integer. If LLVM finds that the "
        "operand is a constant NaN, for which this integer is undefined, it chooses any integer: the result is a "
        "number that may differ between compilations.",
        _is_folded_nan,
    ),
    Explanation(
        "partial results that overflow",
        "A sum or product in another order may overflow in an intermediate result, which is then combined with "
        "the opposite infinity or a zero.",
        _may_overflow,
    ),
    Explanation(
        "subnormal numbers on the way",
        "XLA runs the CPU with subnormal numbers flushed to zero, also within an operation that is "
        "computed in several steps. Sometimes their sign is lost too.",
        _meets_subnormals,
    ),
    Explanation(
        "decisions that rounding flips",
        "Where two candidates are within rounding of each other, the last bit of an earlier result decides an index or "
        "a comparison. The check tries only a few random roundings, and did not find the rarer rounding that flips "
        "the decision.",
        Parting.flips_decision,
    ),
    Explanation(
        "windows that XLA moves once",
        "A window that would reach outside of its operand is shifted back inside. For a window of a window, the "
        "definition shifts each; up to jaxlib 0.11, XLA's algebraic simplifier adds the two starts and shifts only "
        "once. With the simplifier disabled both paths agree.",
        lambda p: (
            isinstance(p.op, ix.Gather | ix.DynamicSlice)
            and any(
                isinstance(step.op, ix.DynamicSlice) for step in p.divergence.program.instructions
            )
            and p.agrees_without_rewrites()
        ),
        excuses=False,
    ),
    Explanation(
        "algebra rewritten by XLA",
        "XLA's algebraic simplifier rewrites exp(a) exp(b) as exp(a + b), log(x^y) as y log x and the "
        "like. The forms differ where one overflows; with the simplifier disabled both paths agree.",
        lambda p: _leaves_a_range(p) and p.agrees_without_rewrites(),
        excuses=False,
    ),
)


def explain(divergence: Divergence) -> Explanation | None:
    """Return the first reason that applies to a divergence; None if no reason applies.

    Return None also if the peer's process ends while a reason is tested.
    """
    parting = Parting(divergence)
    try:
        matching = (explanation for explanation in EXPLANATIONS if explanation.applies(parting))
        return next(matching, None)
    except PeerEndedError:
        return None

"""Recognition of products that were computed with fewer bits than their dtype has, as the module permits.

StableHLO's `precision_config` permits products of float32 numbers to omit bits. DEFAULT, which also applies to
ops without a configuration, is "the fastest calculation, but the least accurate". HIGH is slower and more
accurate, and HIGHEST omits no bits. Compilers use bfloat16 or TF32 for DEFAULT, and TF32 or three products of
bfloat16 for HIGH.

Source: StableHLO specification, dot_general; JAX, `jax.lax.Precision`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tenferro.errors import InvalidConfigError
from tenferro.ops import StdTensorOp
from tenferro.ops.contraction import Convolution, DotGeneral
from tenferro.program import GraphProgram
from tenferro.types import DType
from xla_peer.parity.comparison import Allowance, compare
from xla_peer.parity.confidence import SAFETY
from xla_peer.parity.pending import nested_instructions
from xla_peer.parity.sensitivity import Kernel, Moved, Operands, Plain, changed_run
from xla_peer.parity.ulps import modulus

__all__ = ["LEAST_BITS", "LowerPrecision", "granted_precision", "required_precision"]

LEAST_BITS = {"default": 8, "high": 11}
"""Minimum number of significant bits of operands for each precision: bfloat16 has 8, and TF32 has 11."""
NAMES = (("bfloat16", 6.5, 9.5), ("TF32", 9.5, 12.5), ("bf16x3", 13.5, 19.0))
"""Names of algorithms, each with the range of the measured number of bits."""
TYPICAL = 0.4
"""Root mean square of the relative error of rounding to p bits, in units of 2^-p.

The error is 1/sqrt(3) times half a unit in the last place, and numbers are on average 1.44 times a power of two.
"""
SLACK = 1.25
"""Number of bits by which the measured number of bits may be too low.

If a compiler truncates operands instead of rounding them, they lose one bit more.
"""
RUNS = 9
"""Number of runs that measure the effect of operands with fewer bits."""


def required_precision(caller: str, precision: str | None) -> str | None:
    """Check the argument `precision` of a public function, and return it.

    The value None accepts products with fewer bits, as far as the module permits.

    Raises:
        InvalidConfigError: the precision is neither None nor "highest".
    """
    if precision not in (None, "highest"):
        raise InvalidConfigError(
            f'{caller}: precision must be "highest", or None for what the module permits, got {precision!r}'
        )
    return precision


def granted_precision(program: GraphProgram, peer: Any) -> str:
    """Return the precision of products whose op states no precision.

    For an imported program the precision is "default", as StableHLO specifies. Otherwise it is the executor's setting.
    """
    if program.origin is not None:
        return "default"
    settings = getattr(peer, "settings", None)
    return str(getattr(settings, "precision", "highest")).lower()


class LowerPrecision:
    """Effect on the outputs of a program if its products use fewer bits of their operands.

    Args:
        program: a program with static shapes.
        leaves: the leaves of the program's arguments.
        granted: the precision of products whose op states no precision.
    """

    def __init__(
        self, program: GraphProgram, leaves: Sequence[Any], granted: str, platform: str = "cpu"
    ) -> None:
        self.program, self.leaves = program, leaves
        self.granted, self.platform = granted, platform

    @cached_property
    def bits(self) -> int:
        """The number of significant bits that the least precise product must keep of its operands.

        It is 0 if every product of the program must keep all bits.
        """
        steps = [step for each in self.program.instructions for step in _inside(each, self.program)]
        least = [_bits(op, dtype, self.granted) for op, dtype in steps]
        return min([bits for bits in least if bits], default=0)

    @cached_property
    def _deviations(self) -> tuple[list[Any], list[Any]]:
        """The largest change and the mean square change of each element of the outputs, if operands lose bits."""
        _, run = changed_run(self.program, self.leaves, self.platform)
        with np.errstate(all="ignore"):
            plain = run(change=Plain())
            largest = [np.zeros(y.shape) for y in plain]
            squares = [np.zeros(y.shape) for y in plain]
            for seed in range(RUNS):
                moved = run(change=Shortened(np.random.default_rng(seed), self.granted))
                for number, (y, z) in enumerate(zip(plain, moved, strict=True)):
                    away = _distance(y, z)
                    largest[number] = np.maximum(largest[number], away)
                    squares[number] += away**2 / RUNS
        return largest, squares

    def explains(self, number: int, native: Any, other: Any, allowance: Allowance) -> str | None:
        """Return the precision with which an output was computed, such as "TF32, 11 bits".

        Return "" if rounding alone explains the difference, and None if fewer bits do not explain it either.
        """
        if not compare("", native, other, *allowance).outside:
            return ""
        if not self.bits or DType.of(native.dtype).kind in "biu":
            return None
        largest, squares = (part[number] for part in self._deviations)
        # A compiler may truncate operands, and the error of truncation is twice the error of rounding.
        scale = 2.0 / TYPICAL
        wide = allowance._replace(limit=allowance.limit + SAFETY * scale * largest)
        if compare("", native, other, *wide).outside:
            return None
        away = _distance(native, other)
        mean, median = (
            [float(measure(x)) for x in (away**2, squares)] for measure in (np.mean, np.median)
        )
        if not (all(mean) and all(median)):
            return None  # only few elements differ; with fewer bits, most elements would differ
        # The runs change the operands by TYPICAL * 2^-self.bits; the measured change gives the number of bits.
        bits, typical = (self.bits - float(np.log2(x / y)) / 2 for x, y in (mean, median))
        if bits < self.bits - SLACK or abs(bits - typical) > 2 * SLACK:
            return None
        name = next((f"{name}, " for name, low, high in NAMES if low <= bits < high), "")
        return f"{name}{bits:.0f} bits"


class Shortened(Moved):
    """Modified execution that perturbs the operands of products by the bits that the precision permits to omit.

    All other ops are unchanged.
    """

    def __init__(self, generator: np.random.Generator, granted: str) -> None:
        super().__init__(generator)
        self.granted = granted

    def results(self, op: StdTensorOp, kernel: Kernel, operands: Operands) -> list[Any]:
        bits = _bits(op, operands.specs[0].dtype, self.granted) if operands.specs else 0
        if not bits:
            return Plain.results(self, op, kernel, operands)
        share = TYPICAL * 2.0**-bits
        return [np.asarray(kernel(op, *[self._moved(x, share) for x in operands.arrays]))]


def _bits(op: StdTensorOp, dtype: DType, granted: str) -> int:
    """Return the minimum number of bits that an op must keep of its operands; 0 if it must keep all bits."""
    if not isinstance(op, DotGeneral | Convolution) or not dtype.is_inexact:
        return 0
    if dtype.real is not DType.F32:
        return 0
    return LEAST_BITS.get(op.precision or granted, 0)


def _inside(step: Any, program: GraphProgram) -> list[tuple[StdTensorOp, DType]]:
    """Return the ops of an instruction and of its bodies, each with the dtype of its first operand."""
    uses = [(step.op, program.types[step.inputs[0]].dtype)] if step.inputs else []
    if hasattr(step.op, "parts"):
        uses += [
            (inner.op, part.types[inner.inputs[0]].dtype)
            for inner, part in nested_instructions(step.op)
            if inner.inputs
        ]
    return uses


def _distance(y: Any, z: Any) -> Any:
    """Return |y - z|, and 0 where the difference is not finite."""
    if DType.of(y.dtype).kind in "biu":
        return np.zeros(y.shape)
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    away = modulus(z.astype(wide) - y.astype(wide))
    return np.where(np.isfinite(away), away, 0.0)

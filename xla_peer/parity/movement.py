"""Relative changes of values between runs that round differently, recorded op by op."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenferro.errors import InvalidConfigError
from tenferro.exec.schedule import ExecInstruction
from tenferro.types import DType
from xla_peer.parity.pending import unit
from xla_peer.parity.sensitivity import Moved, Operands, Plain

__all__ = [
    "Record",
    "RecordedMoves",
    "RecordedValues",
    "StepMoves",
    "movement",
    "significant_digits",
]

MOST_ELEMENTS = 1 << 24
"""Maximum total number of elements of the values that are kept from one run."""
SHARE = 0.9
"""Quantile of the movements of the elements that is used as the movement of the whole array.

If sums are near zero by chance, only few elements lose digits. If the user's formula cancels, most elements lose
digits.
"""


class StepMoves:
    """Execution of an op: its operands and results, and the largest movement of each element.

    A movement is the change of an element between two runs that round differently, relative to its size.
    """

    def __init__(
        self, step: ExecInstruction, operands: Sequence[Any], results: Sequence[Any]
    ) -> None:
        self.step = step
        self.values = [np.array(x) for x in (*operands, *results)]
        self.moves = [np.zeros(x.shape) for x in self.values]
        self.operand_count = len(operands)

    def note(self, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Compare the operands and results with the same execution in another run, and update the largest movements."""
        for moves, x, y in zip(self.moves, self.values, (*operands, *results), strict=True):
            np.maximum(moves, movement(x, y), out=moves)

    def loss(self) -> tuple[float, float] | None:
        """Return the number of decimal digits that the op loses, and the number of significant digits of its result.

        Return None if the result consists of integers or is empty.
        """
        results = range(self.operand_count, len(self.values))
        losses = [self._loss_of(n) for n in results if _has_digits(self.values[n])]
        return max(losses, default=None)

    def _loss_of(self, result: int) -> tuple[float, float]:
        y, y_moves = self.values[result], self.moves[result]
        least = _least(y)
        after = np.maximum(y_moves, least)
        operands = [
            (x, np.maximum(moves, least))
            for x, moves in zip(self.values[: self.operand_count], self.moves, strict=False)
            if _has_digits(x)
        ]
        before = max([float(moves.max()) for _, moves in operands], default=least)
        lost = math.log10(max(_norm_movement(y, y_moves), least) / before)
        if self.step.is_elementwise:
            own = np.full(y.shape, least)
            for _, moves in operands:
                own = np.maximum(own, moves)
            lost = max(lost, math.log10(_quantile(after / own)))
        return max(lost, 0.0), -math.log10(_quantile(after))


class Record:
    """Record of the executions of ops, in the order of the first run."""

    def __init__(self) -> None:
        self.steps: list[StepMoves] = []
        self._at = 0
        self._size = 0

    def restart(self) -> None:
        """Start another run: the next execution is compared with the first recorded execution."""
        self._at = 0

    def note_first(
        self, step: ExecInstruction, operands: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Record the operands and results of a step in the run with ordinary rounding.

        Raises:
            InvalidConfigError: the values have too many elements to keep.
        """
        self._size += sum(x.size for x in (*operands, *results))
        if self._size > MOST_ELEMENTS:
            raise InvalidConfigError(
                f"digits: the intermediate values have more than {MOST_ELEMENTS} elements; use smaller arrays"
            )
        self.steps.append(StepMoves(step, operands, results))

    def note(self, step: ExecInstruction, operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Record an execution in a run that rounds differently; ignore it if this run took another branch."""
        number, self._at = self._at, self._at + 1
        if number < len(self.steps) and self.steps[number].step is step:
            self.steps[number].note(operands, results)


class RecordedValues(Plain):
    """Modified execution that leaves values unchanged, but records the operands and results of each op."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def results(self, op: Any, kernel: Any, operands: Operands) -> list[Any]:
        results = super().results(op, kernel, operands)
        self.record.note_first(operands.step, operands.arrays, results)
        return results


class RecordedMoves(Moved):
    """Modified execution that rounds randomly, and records the movements of the operands and results of each op."""

    def __init__(self, generator: np.random.Generator, record: Record) -> None:
        super().__init__(generator)
        self.record = record

    def results(self, op: Any, kernel: Any, operands: Operands) -> list[Any]:
        results = super().results(op, kernel, operands)
        self.record.note(operands.step, operands.arrays, results)
        return results


@np.errstate(all="ignore")
def movement(x: Any, y: Any) -> Any:
    """Compute the movement from x to y, min(|y - x| / |x|, 1), for each element.

    Where x is zero, the movement is relative to the largest |x|. Where the movement is not finite, the result is 0.
    """
    if not _has_digits(x) or x.shape != y.shape:
        return np.zeros(x.shape)
    away, size = _away_and_size(x, y)
    moves = away / np.where(size == 0, size.max(), size)
    return np.where(np.isfinite(moves), np.minimum(moves, 1.0), 0.0)


def significant_digits(runs: Sequence[Any]) -> float:
    """Return the number of significant digits of an array: -log10 of its largest movement from the first run.

    Args:
        runs: the array in the run with ordinary rounding, and then in runs that round differently.
    """
    first = np.asarray(runs[0])
    if not _has_digits(first):
        return math.inf
    moves = np.max([movement(first, np.asarray(run)) for run in runs], axis=0)
    return -math.log10(max(_quantile(moves), _least(first)))


def _away_and_size(x: Any, y: Any) -> tuple[Any, Any]:
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    away, size = np.abs(y.astype(wide) - x.astype(wide)), np.abs(x.astype(wide))
    return np.where(np.isfinite(away), away, 0.0), np.where(np.isfinite(size), size, 0.0)


@np.errstate(all="ignore")
def _norm_movement(y: Any, moves: Any) -> float:
    """Return max |y' - y| / max |y|, from the relative movements of the elements."""
    size = np.abs(y.astype(np.complex128 if y.dtype.kind == "c" else np.float64))
    size = np.where(np.isfinite(size), size, 0.0)
    largest = float(size.max())
    return float((moves * np.where(size == 0, largest, size)).max()) / largest if largest else 0.0


def _quantile(moves: Any) -> float:
    return float(np.quantile(moves, SHARE, method="higher"))


def _has_digits(x: Any) -> bool:
    return DType.of(x.dtype).kind not in "biu" and bool(x.size)


def _least(x: Any) -> float:
    """Return the relative distance between adjacent floats of the dtype of x."""
    return 2 * unit(DType.of(x.dtype))

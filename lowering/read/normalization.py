"""Readers of batch normalisation, as the formulas of the specification.

Means and sums are over all axes except the feature axis.

Source: StableHLO spec #batch_norm_inference, #batch_norm_training, #batch_norm_grad.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.module_tree import Operation
from lowering.read.reader import Reader, ReadRows
from tenferro.ops import elementwise as el
from tenferro.ops.analytic import Sqrt
from tenferro.ops.reduction import ReduceSum
from tenferro.ops.structural import BroadcastInDim

__all__ = ["ROWS"]


class Features:
    """Builder of arithmetic between a tensor and vectors with one element per feature."""

    def __init__(self, r: Reader, operation: Operation, x: int) -> None:
        self.r = r
        self.shape = r.spec(x).shape
        self.axis = operation.attributes["feature_index"]
        self.epsilon = operation.attributes["epsilon"]
        self.rest = tuple([axis for axis in range(len(self.shape)) if axis != self.axis])

    def spread(self, value: int) -> int:
        return self.r.apply_one(BroadcastInDim(self.shape, (self.axis,)), value)

    def mean(self, x: int) -> int:
        total = self.r.apply_one(ReduceSum(self.rest), x)
        count = 1
        for axis in self.rest:
            count *= self.shape[axis]
        return self.r.apply_one(el.Divide(), total, self.r.full(count, self.r.spec(total)))

    def deviation(self, variance: int) -> int:
        """Return sqrt(variance + epsilon), broadcast to the tensor's shape."""
        shifted = self.r.apply_one(
            el.Add(), variance, self.r.full(self.epsilon, self.r.spec(variance))
        )
        return self.spread(self.r.apply_one(Sqrt(), shifted))


def _normalized(f: Features, x: int, scale: int, offset: int, mean: int, variance: int) -> int:
    r = f.r
    centered = r.apply_one(el.Subtract(), x, f.spread(mean))
    normal = r.apply_one(el.Divide(), centered, f.deviation(variance))
    return r.apply_one(
        el.Add(), r.apply_one(el.Multiply(), f.spread(scale), normal), f.spread(offset)
    )


def inference(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    x, scale, offset, mean, variance = operands
    return _normalized(Features(r, operation, x), x, scale, offset, mean, variance)


def training(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    x, scale, offset = operands
    f = Features(r, operation, x)
    mean = f.mean(x)
    centered = r.apply_one(el.Subtract(), x, f.spread(mean))
    variance = f.mean(r.apply_one(el.Multiply(), centered, centered))
    return [_normalized(f, x, scale, offset, mean, variance), mean, variance]


def gradient(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    x, scale, mean, variance, y_bar = operands
    f = Features(r, operation, x)
    deviation = f.deviation(variance)
    normal = r.apply_one(el.Divide(), r.apply_one(el.Subtract(), x, f.spread(mean)), deviation)
    scale_bar = r.apply_one(ReduceSum(f.rest), r.apply_one(el.Multiply(), y_bar, normal))
    offset_bar = r.apply_one(ReduceSum(f.rest), y_bar)
    of_mean = r.apply_one(el.Subtract(), y_bar, f.spread(f.mean(y_bar)))
    along = f.spread(f.mean(r.apply_one(el.Multiply(), y_bar, normal)))
    left = r.apply_one(el.Subtract(), of_mean, r.apply_one(el.Multiply(), normal, along))
    factor = r.apply_one(el.Divide(), f.spread(scale), deviation)
    return [r.apply_one(el.Multiply(), factor, left), scale_bar, offset_bar]


ROWS: ReadRows = {
    "stablehlo.batch_norm_grad": gradient,
    "stablehlo.batch_norm_inference": inference,
    "stablehlo.batch_norm_training": training,
}

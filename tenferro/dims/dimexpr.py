"""`DimExpr`: expressions for extents in the payload of an op, in terms of the shapes of the op's inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenferro.dims.polynomial import Polynomial
from tenferro.dims.symdim import InputAxis

__all__ = ["DimExpr", "resolve_shape"]


class DimExpr(Polynomial):
    """Extent that an op computes from the shapes of its inputs, such as `DimExpr.input_axis(0, 1) * 2`.

    If the payload of an op contains a `DimExpr`, the op can be applied to inputs of any extents.

    >>> rows = DimExpr.input_axis(0, 0)
    >>> (rows * 2 + 1).resolve([(3, 4)])
    7
    """

    __slots__ = ()

    @classmethod
    def input_axis(cls, index: int, axis: int) -> DimExpr:
        """Return the extent of axis number `axis` of the op's input number `index`."""
        return cls._leaf(InputAxis(index, axis))

    def resolve(self, input_shapes: Sequence[Sequence[Any]]) -> Any:
        """Evaluate this extent for inputs of these shapes. The entries may be numbers, symbols or bounds."""
        return self.substitute(lambda leaf: input_shapes[leaf.input][leaf.axis])


def resolve_shape(shape: Sequence[Any], input_shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Evaluate each `DimExpr` in a shape of an op's payload, for inputs of the shapes `input_shapes`.

    >>> resolve_shape((2, DimExpr.input_axis(0, 0)), [(5,)])
    (2, 5)
    """
    return tuple(dim.resolve(input_shapes) if type(dim) is DimExpr else dim for dim in shape)

"""`einsum_plan`: parses and plans a contraction once. The plan can be called on tensors any number of times.

Source: opt_einsum's `contract_expression`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tenferro.api.contraction import einsum, positions_of_ones, subscripts_and_operands
from tenferro.api.promotion import broadcast_shapes
from tenferro.dims import is_static
from tenferro.dispatch import as_operand
from tenferro.errors import ArityError, InvalidConfigError, ShapeError
from tenferro.types import ArrayLike, DTypeLike, TensorSpec

if TYPE_CHECKING:
    from tenferro.ext.einsum import Notation

__all__ = ["EinsumPlan", "EinsumStep", "einsum_plan"]

Shape = tuple[Any, ...]


class EinsumStep(NamedTuple):
    """Step of a contraction.

    The operands form a list. A step removes the operands at `positions` from the list, contracts them, and appends the
    result to the list.

    Attributes:
        positions: the positions of the operands in the list.
        equation: the labels of the operands and of the result.
        multiplications: the number of multiplications: one for each term of each sum.
        elements: the number of elements of the result.
    """

    positions: tuple[int, ...]
    equation: str
    multiplications: int
    elements: int


@dataclass(frozen=True)
class EinsumPlan:
    """A contraction with a fixed path, to be called with operands of the planned shapes.

    The operands are arrays or traced tensors. Printing the plan shows its steps and their costs.

    Attributes:
        subscripts: the contraction in NumPy's notation.
        shapes: the shapes of the operands. An extent that is a name accepts any number.
        path: for each step, the positions of the operands in the list; see `EinsumStep`.
        steps: the steps with their estimated costs. In the estimates, an extent that is a name counts as 32.
    """

    subscripts: str
    shapes: tuple[Shape, ...]
    path: tuple[tuple[int, ...], ...]
    steps: tuple[EinsumStep, ...]

    def __call__(
        self, *operands: ArrayLike, dtype: DTypeLike | None = None, casting: str = "safe"
    ) -> Any:
        """Contract the operands by `einsum` along the path.

        Raises:
            ArityError, ShapeError: the number or a shape of the operands differs from the plan.
        """
        tensors = [as_operand(operand) for operand in operands]
        if len(tensors) != len(self.shapes):
            raise ArityError(
                f"einsum {self.subscripts}: planned for {len(self.shapes)} operands, got {len(tensors)}"
            )
        for position, (tensor, shape) in enumerate(zip(tensors, self.shapes, strict=True)):
            extents = tuple(tensor.shape)
            pairs = zip(extents, shape, strict=False)
            if len(extents) != len(shape) or any(
                [is_static(m) and is_static(n) and m != n for m, n in pairs]
            ):
                raise ShapeError(
                    f"einsum {self.subscripts}: operand {position} was planned as {_shown(shape)}, got "
                    f"{_shown(extents)}"
                )
        return einsum(self.subscripts, *tensors, dtype=dtype, casting=casting, optimize=self.path)

    @property
    def multiplications(self) -> int:
        """The number of multiplications in all steps."""
        return sum([step.multiplications for step in self.steps])

    @property
    def largest(self) -> int:
        """The number of elements of the largest result of a step."""
        return max([step.elements for step in self.steps])

    def __str__(self) -> str:
        return "\n".join(
            [
                f"einsum {self.subscripts} of {', '.join(map(_shown, self.shapes))}: "
                f"{self.multiplications} multiplications, results of up to {self.largest} elements",
                *[
                    f"  {' x '.join(map(str, step.positions))}: {step.equation}, "
                    f"{step.multiplications} multiplications, {step.elements} elements"
                    for step in self.steps
                ],
            ]
        )


def einsum_plan(
    *arguments: ArrayLike | TensorSpec | str, optimize: bool | str | Sequence[Any] = "auto"
) -> EinsumPlan:
    """Parse a contraction and plan it for operands of given shapes; the plan can be called any number of times.

    Args:
        arguments: the arguments of `einsum`, in either of its two forms. Instead of an operand, pass a shape, a
            `TensorSpec` or a tensor. Labels may be integers: `einsum_plan((2, 9), [0, 1], (9, 3), [1, 2], [0, 2])`.
        optimize: as in `einsum`.

    Raises:
        InvalidConfigError, ShapeError: as in `einsum`.

    >>> plan = einsum_plan("ij,jk,kl->il", (2, 9), (9, 9), (9, 2))
    >>> print(plan)
    einsum ij,jk,kl->il of [2,9], [9,9], [9,2]: 198 multiplications, results of up to 18 elements
      0 x 1: ij,jk->ik, 162 multiplications, 18 elements
      0 x 1: kl,ik->il, 36 multiplications, 4 elements
    >>> import numpy as np
    >>> plan(np.ones((2, 9)), np.ones((9, 9)), np.ones((9, 2)))
    array([[81., 81.],
           [81., 81.]])
    """
    from tenferro.ext import einsum as ext

    subscripts, operands = subscripts_and_operands(arguments)
    shapes = tuple([_shape(operand) for operand in operands])
    optimize = ext.checked_optimize(optimize, len(shapes))
    notation = ext.read(subscripts, tuple([len(shape) for shape in shapes]))
    full = _with_dots(notation, shapes)
    ones = positions_of_ones(notation.inputs, full)
    inputs = tuple([_without(part, drop) for part, drop in zip(notation.inputs, ones, strict=True)])
    remaining = [tuple(_without(shape, drop)) for shape, drop in zip(full, ones, strict=True)]
    labels = tuple(["".join(part) for part in inputs])
    extents = ext.Einsum(labels, notation.output).extents(remaining)
    path = ext.plan(labels, notation.output, remaining, optimize) or ((0,),)
    sizes = {x: n if isinstance(n, int) else ext.TYPICAL_EXTENT for x, n in extents.items()}
    return EinsumPlan(subscripts, shapes, path, _steps(labels, notation.output, path, sizes))


def _shape(operand: ArrayLike | TensorSpec) -> Shape:
    """Return the shape of an operand. A tuple is the shape itself."""
    if isinstance(operand, tuple):
        return TensorSpec(operand, "float64").shape
    shape = getattr(operand, "shape", None)
    if shape is None:
        raise InvalidConfigError(
            f"einsum_plan: operands must be shapes, as tuples, TensorSpecs or tensors, got {operand!r:.60}"
        )
    return tuple(shape)


def _with_dots(notation: Notation, shapes: Sequence[Shape]) -> list[Shape]:
    """Insert axes of extent 1 into the shapes, so that the ellipsis `...` stands for equally many axes in each."""
    widest = len(notation.dots)
    result: list[Shape] = []
    for part, shape, slot in zip(notation.inputs, shapes, notation.slots, strict=True):
        ones = (1,) * (len(part) - len(shape))
        result.append(shape if slot is None else (*shape[:slot], *ones, *shape[slot:]))
    dotted = [
        shape[slot : slot + widest]
        for shape, slot in zip(result, notation.slots, strict=True)
        if slot is not None
    ]
    if dotted:
        broadcast_shapes(*dotted)  # raises an error if the extents do not broadcast
    return result


def _without(entries: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    return [entry for i, entry in enumerate(entries) if i not in positions]


def _steps(
    inputs: Sequence[str], output: str, path: Sequence[tuple[int, ...]], sizes: dict[str, int]
) -> tuple[EinsumStep, ...]:
    """Return the steps of a path. The result of a step has the labels that the output or a remaining operand needs."""
    parts, steps = list(inputs), list[EinsumStep]()
    for number, positions in enumerate(path):
        operands = [parts[i] for i in positions]
        parts = _without(parts, positions)
        read = set(output).union(*parts)
        labels = "".join(dict.fromkeys("".join(operands)))
        result = output if number == len(path) - 1 else "".join([x for x in labels if x in read])
        parts.append(result)
        counts = [prod([sizes[x] for x in text]) for text in (labels, result)]
        steps.append(EinsumStep(positions, f"{','.join(operands)}->{result}", *counts))
    return tuple(steps)


def _shown(shape: Shape) -> str:
    return f"[{','.join(map(str, shape))}]"

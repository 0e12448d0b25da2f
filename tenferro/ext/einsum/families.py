"""The family of Einstein summations over labels.

Source: NumPy's `einsum`; docs/specification/caches.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.ext.einsum.expansion import expand
from tenferro.ext.einsum.plan import checked_optimize, plan, require_bounded
from tenferro.extension import ExtensionOp, extension_family
from tenferro.extension.fields import as_tuple

__all__ = ["Einsum"]


@extension_family("tenferro", "einsum", version=1)
@dataclass(frozen=True)
class Einsum(ExtensionOp):
    """y[output] = product of all x_j[inputs[j]], summed over the labels that `output` lacks.

    A label that is repeated in an operand selects its diagonal. A label that is repeated in the output writes a
    diagonal, with zeros elsewhere. Operands and result have the same dtype. For bools, a sum is true if any term is
    true.

    Attributes:
        optimize: how the order of contractions is planned when the extents are known. It is the name of an optimiser,
            or the path itself: for each step, the positions of the operands to contract. () means from left to right.
        precision: the precision of the products; see `DotGeneral`.

    >>> from tenferro.types import DType
    >>> Einsum(("ij", "jk"), "ik").infer_output_meta([DType.F64] * 2, [(2, 3), (3, 4)])
    [(DType.F64, (2, 4))]
    """

    inputs: tuple[str, ...]
    output: str
    optimize: Any = "auto"
    precision: str | None = None

    def __post_init__(self) -> None:
        labels: tuple[Any, ...] = (*as_tuple("Einsum", "inputs", self.inputs), self.output)
        if not all([isinstance(part, str) for part in labels]):
            raise InvalidConfigError(
                f"Einsum: inputs and output must be labels, got {labels!r:.80}"
            )
        checked_optimize(self.optimize, len(self.inputs))
        require_bounded(self.optimize, self.inputs, self.output)

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because it varies
        """The number of operands, which is the number of strings of labels."""
        return len(self.inputs)

    def extents(self, shapes: Sequence[Any]) -> dict[str, Any]:
        """Return the extent of each label: a number if an operand has a static extent for it, else the first symbol.

        Raises:
            ShapeError: an operand has another rank than the number of its labels, or a label has two different extents.
        """
        extents: dict[str, Any] = {}
        for part, shape in zip(self.inputs, shapes, strict=True):
            if len(part) != len(shape):
                raise ShapeError(f"einsum: {part!r} does not label the axes of {tuple(shape)}")
            for label, extent in zip(part, shape, strict=True):
                first = extents.setdefault(label, extent)
                if isinstance(first, int) and isinstance(extent, int) and first != extent:
                    raise ShapeError(
                        f"einsum: label {label!r} of {self} has extents {first} and {extent}"
                    )
                if isinstance(extent, int):
                    extents[label] = extent
        return extents

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        if not self.inputs or any(label not in "".join(self.inputs) for label in self.output):
            raise InvalidConfigError(f"einsum: {self} has an output label that is in no operand")
        if len(set(input_dtypes)) != 1:
            raise DTypeError(
                f"einsum: operands must have one dtype, got {', '.join(map(str, input_dtypes))}"
            )
        extents = self.extents(input_shapes)
        return [(input_dtypes[0], tuple([extents[label] for label in self.output]))]

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        path = plan(self.inputs, self.output, input_shapes, self.optimize)
        values = [builder.value(x) for x in inputs]
        return expand(self.inputs, self.output, path, values, self.precision)

    def __str__(self) -> str:
        return f"{','.join(self.inputs)}->{self.output}"

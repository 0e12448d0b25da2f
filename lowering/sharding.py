"""Partition of a program over a mesh of devices, and the text of Shardy's operations and attributes that describe it.

Source: Shardy's documentation of `sdy.mesh`, `sdy.sharding` and `sdy.sharding_constraint`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.errors import InvalidConfigError
from tenferro.types import PartitionSpec

__all__ = ["Partitioning", "mesh_declaration", "sharding_attribute"]


@dataclass(frozen=True)
class Partitioning:
    """The partition of a program over a mesh of devices.

    Attributes:
        mesh: the name and size of each axis of the mesh.
        inputs, outputs: a spec for each leaf of the arguments and of the result.
    """

    mesh: tuple[tuple[str, int], ...]
    inputs: tuple[PartitionSpec, ...]
    outputs: tuple[PartitionSpec, ...]

    def require_fits(
        self, inputs: Sequence[tuple[str, Any]], outputs: Sequence[tuple[str, Any]]
    ) -> None:
        """Check that each leaf has a `PartitionSpec`, and that its extents can be divided evenly among the devices.

        Args:
            inputs, outputs: the name and the type of each leaf.

        Raises:
            InvalidConfigError, ShapeError: the errors of `PartitionSpec.extents`; or the number of specs is wrong.
        """
        for specs, leaves in ((self.inputs, inputs), (self.outputs, outputs)):
            if len(specs) != len(leaves):
                raise InvalidConfigError(
                    f"partitioning: {len(specs)} specs for {len(leaves)} leaves"
                )
            for spec, (name, leaf) in zip(specs, leaves, strict=True):
                spec.extents(leaf.shape, dict(self.mesh), name)

    def to_document(self) -> dict[str, Any]:
        """Convert the partitioning to a dictionary of lists and strings, which can be stored as JSON.

        >>> cut = Partitioning((("x", 2),), (PartitionSpec(None, "x"),), (PartitionSpec(),))
        >>> cut.to_document()
        {'mesh': [['x', 2]], 'inputs': [[[], ['x']]], 'outputs': [[]]}
        >>> Partitioning.of_document(cut.to_document()) == cut
        True
        """
        inputs, outputs = (
            [[list(names) for names in spec.constrained("partitioning")] for spec in specs]
            for specs in (self.inputs, self.outputs)
        )
        return {"mesh": [list(axis) for axis in self.mesh], "inputs": inputs, "outputs": outputs}

    @classmethod
    def of_document(cls, document: Any) -> Partitioning:
        """Convert the result of `to_document` back to a partitioning.

        Raises:
            InvalidConfigError: the document is invalid.
        """
        try:
            inputs, outputs = (
                tuple([PartitionSpec(*map(tuple, entries)) for entries in document[part]])
                for part in ("inputs", "outputs")
            )
            mesh = tuple([(str(name), int(size)) for name, size in document["mesh"]])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidConfigError(f"partitioning: malformed: {error!r}") from None
        if not mesh or any(size < 1 for _, size in mesh):
            raise InvalidConfigError(f"partitioning: a mesh must have devices, got {dict(mesh)}")
        return cls(mesh, inputs, outputs)


def mesh_declaration(mesh: Sequence[tuple[str, int]]) -> str:
    """Return the text of the operation `sdy.mesh` for the names and sizes of a mesh's axes.

    >>> mesh_declaration((("x", 4), ("y", 2)))
    'sdy.mesh @mesh = <["x"=4, "y"=2]>'
    """
    axes = [f'"{name}"={size}' for name, size in mesh]
    return f"sdy.mesh @mesh = <[{', '.join(axes)}]>"


def sharding_attribute(spec: PartitionSpec, rank: int) -> str:
    """Return the text of the attribute `sdy.sharding` of a tensor of this rank.

    >>> sharding_attribute(PartitionSpec("x", PartitionSpec.UNCONSTRAINED), 3)
    '#sdy.sharding<@mesh, [{"x"}, {?}, {}]>'
    """
    entries = [*spec.entries, *[()] * (rank - len(spec.entries))]
    shown = [
        "{?}" if names is None else "{" + ", ".join(f'"{name}"' for name in names) + "}"
        for names in entries
    ]
    return f"#sdy.sharding<@mesh, [{', '.join(shown)}]>"

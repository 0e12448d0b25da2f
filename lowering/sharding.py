"""Partition of a program over a mesh of devices: partition specs, and their text in Shardy.

Source: Shardy's documentation of `sdy.mesh` and `sdy.sharding`; jax.sharding.PartitionSpec.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.errors import InvalidConfigError, ShapeError

__all__ = ["PartitionSpec", "Partitioning", "mesh_declaration", "sharding_attribute"]


class PartitionSpec:
    """The mesh axes along which each axis of a tensor is sharded: None, a name, or several names.

    Axes beyond the last entry are not sharded; `PartitionSpec()` replicates the whole tensor.

    >>> PartitionSpec("x", None, ("y", "z"))
    PartitionSpec('x', None, ('y', 'z'))

    Raises:
        InvalidConfigError: an entry is invalid, or a mesh axis occurs twice.
    """

    __slots__ = ("entries",)

    entries: tuple[tuple[str, ...], ...]

    def __init__(self, *entries: Any) -> None:
        self.entries = tuple(_names(entry) for entry in entries)
        named = [name for names in self.entries for name in names]
        if len(set(named)) < len(named):
            raise InvalidConfigError(f"{self}: a mesh axis cuts one axis of a tensor only")

    def extents(self, shape: Sequence[Any], mesh: Mapping[str, int], name: str) -> tuple[Any, ...]:
        """Compute the shape of each device's shard.

        Raises:
            InvalidConfigError: the mesh has no axis of this name.
            ShapeError: there are more entries than axes, or an extent cannot be divided evenly.
        """
        if len(self.entries) > len(shape):
            raise ShapeError(f"{name}: {self} has {len(self.entries)} entries for shape {shape}")
        local_shape = list(shape)
        for axis, names in enumerate(self.entries):
            unknown = [each for each in names if each not in mesh]
            if unknown:
                raise InvalidConfigError(
                    f"{name}: {self}: the mesh has {dict(mesh)}, no {unknown[0]!r}"
                )
            parts = math.prod(mesh[each] for each in names)
            if isinstance(local_shape[axis], int):
                if local_shape[axis] % parts:
                    raise ShapeError(
                        f"{name}: axis {axis} of extent {local_shape[axis]} cannot be cut into {parts} equal "
                        f"parts, as {self} asks; pad it"
                    )
                local_shape[axis] //= parts
        return tuple(local_shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        shown = [names[0] if len(names) == 1 else names or None for names in self.entries]
        return f"PartitionSpec({', '.join(map(repr, shown))})"


def _names(entry: Any) -> tuple[str, ...]:
    names = () if entry is None else (entry,) if isinstance(entry, str) else entry
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidConfigError(
            f"PartitionSpec: an entry is None, a name, or a tuple of names, got {entry!r}"
        )
    return names


@dataclass(frozen=True)
class Partitioning:
    """The axes of a mesh with their sizes, and a spec for each leaf of the arguments and the result."""

    mesh: tuple[tuple[str, int], ...]
    inputs: tuple[PartitionSpec, ...]
    outputs: tuple[PartitionSpec, ...]

    def require_fits(
        self, inputs: Sequence[tuple[str, Any]], outputs: Sequence[tuple[str, Any]]
    ) -> None:
        """Check that each named type has a spec, and that extents can be divided evenly.

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
        """Return the partitioning as lists and strings, for JSON.

        >>> cut = Partitioning((("x", 2),), (PartitionSpec(None, "x"),), (PartitionSpec(),))
        >>> cut.to_document()
        {'mesh': [['x', 2]], 'inputs': [[[], ['x']]], 'outputs': [[]]}
        >>> Partitioning.of_document(cut.to_document()) == cut
        True
        """
        inputs, outputs = (
            [[list(names) for names in spec.entries] for spec in specs]
            for specs in (self.inputs, self.outputs)
        )
        return {"mesh": [list(axis) for axis in self.mesh], "inputs": inputs, "outputs": outputs}

    @classmethod
    def of_document(cls, document: Any) -> Partitioning:
        """Read the result of `to_document`.

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
            raise InvalidConfigError(f"partitioning: a mesh has devices, got {dict(mesh)}")
        return cls(mesh, inputs, outputs)


def mesh_declaration(mesh: Sequence[tuple[str, int]]) -> str:
    """Write `sdy.mesh`.

    >>> mesh_declaration((("x", 4), ("y", 2)))
    'sdy.mesh @mesh = <["x"=4, "y"=2]>'
    """
    axes = [f'"{name}"={size}' for name, size in mesh]
    return f"sdy.mesh @mesh = <[{', '.join(axes)}]>"


def sharding_attribute(spec: PartitionSpec, rank: int) -> str:
    """Write the attribute `sdy.sharding` of a tensor of this rank.

    >>> sharding_attribute(PartitionSpec("x"), 2)
    '#sdy.sharding<@mesh, [{"x"}, {}]>'
    """
    entries = [*spec.entries, *[()] * (rank - len(spec.entries))]
    shown = ["{" + ", ".join(f'"{name}"' for name in names) + "}" for names in entries]
    return f"#sdy.sharding<@mesh, [{', '.join(shown)}]>"

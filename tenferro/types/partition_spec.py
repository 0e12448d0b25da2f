"""`PartitionSpec`: assigns axes of a device mesh to the axes of a tensor that they shard.

Source: jax.sharding.PartitionSpec; Shardy's documentation of `sdy.sharding`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

from tenferro.errors import InvalidConfigError, ShapeError

__all__ = ["PartitionSpec"]


class Unconstrained(Enum):
    """Type of the entry for an axis whose sharding the partitioner chooses."""

    UNCONSTRAINED = "UNCONSTRAINED"

    def __repr__(self) -> str:
        return f"PartitionSpec.{self.name}"


class PartitionSpec:
    """Assignment of mesh axes to the axes of a tensor: an entry is None, the name of a mesh axis, or a tuple of names.

    A tensor axis is sharded along the mesh axes in its entry. Axes beyond the last entry are not sharded;
    `PartitionSpec()` replicates the whole tensor. If an entry is `PartitionSpec.UNCONSTRAINED`, the partitioner chooses
    the sharding of the axis. Only `tenferro.lax.with_sharding_constraint` accepts such an entry.

    Attributes:
        entries: for each axis of the tensor, a tuple of the names of its mesh axes; None for an unconstrained axis.

    >>> PartitionSpec("x", None, ("y", "z"))
    PartitionSpec('x', None, ('y', 'z'))
    >>> PartitionSpec(PartitionSpec.UNCONSTRAINED, "x")
    PartitionSpec(PartitionSpec.UNCONSTRAINED, 'x')

    Raises:
        InvalidConfigError: an entry is invalid, or a mesh axis occurs twice.
    """

    __slots__ = ("entries",)

    UNCONSTRAINED: ClassVar[Unconstrained] = Unconstrained.UNCONSTRAINED
    entries: tuple[tuple[str, ...] | None, ...]

    def __init__(self, *entries: Any) -> None:
        self.entries = tuple(_names(entry) for entry in entries)
        named = [name for names in self.entries for name in names or ()]
        if len(set(named)) < len(named):
            raise InvalidConfigError(f"{self}: a mesh axis cuts one axis of a tensor only")

    def extents(self, shape: Sequence[Any], mesh: Mapping[str, int], name: str) -> tuple[Any, ...]:
        """Return the shape of the shard that each device stores.

        Raises:
            InvalidConfigError: the mesh lacks an axis that the spec names, or an axis is unconstrained.
            ShapeError: there are more entries than axes, or an extent cannot be divided evenly.
        """
        if len(self.entries) > len(shape):
            raise ShapeError(f"{name}: {self} has {len(self.entries)} entries for shape {shape}")
        local_shape = list(shape)
        for axis, names in enumerate(self.constrained(name)):
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

    def constrained(self, name: str) -> tuple[tuple[str, ...], ...]:
        """Return the entries, after checking that no axis is unconstrained.

        Raises:
            InvalidConfigError: an axis is unconstrained.
        """
        entries = tuple([names for names in self.entries if names is not None])
        if len(entries) < len(self.entries):
            raise InvalidConfigError(
                f"{name}: {self}: axis {self.entries.index(None)} is unconstrained, as only values inside a program "
                "can be; None leaves it whole"
            )
        return entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self.entries == other.entries

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        shown = [
            self.UNCONSTRAINED if names is None else names[0] if len(names) == 1 else names or None
            for names in self.entries
        ]
        return f"PartitionSpec({', '.join(map(repr, shown))})"


def _names(entry: Any) -> tuple[str, ...] | None:
    if entry is Unconstrained.UNCONSTRAINED:
        return None
    names = () if entry is None else (entry,) if isinstance(entry, str) else entry
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidConfigError(
            f"PartitionSpec: an entry must be None, a name, or a tuple of names, got {entry!r}"
        )
    return names

"""`ShardingConstraint`: the op that fixes how a value is sharded over a mesh of devices.

Source: jax.lax.with_sharding_constraint; Shardy's documentation of `sdy.sharding_constraint`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenferro.errors import ShapeError
from tenferro.extension import ExtensionAdRule, ExtensionOp, extension_family
from tenferro.types import PartitionSpec

__all__ = ["ShardingConstraint", "ShardingConstraintRule"]


@extension_family("tenferro", "sharding_constraint", version=1)
@dataclass(frozen=True)
class ShardingConstraint(ExtensionOp):
    """y = x, where a lowered program shards x over its mesh of devices.

    Attributes:
        entries: for each axis of x, the names of the mesh axes along which it is sharded; None lets the partitioner
            choose.
    """

    entries: tuple[tuple[str, ...] | None, ...]
    from_expansion = True
    annotates = True

    def __post_init__(self) -> None:
        _ = self.spec  # because it checks the entries

    @property
    def spec(self) -> PartitionSpec:
        """The constraint as a `PartitionSpec`."""
        unconstrained = PartitionSpec.UNCONSTRAINED
        return PartitionSpec(*[unconstrained if names is None else names for names in self.entries])

    def require_fits(self, shape: Sequence[Any], mesh: Mapping[str, int]) -> None:
        """Check that `mesh` has the axes named in `entries`, and that the devices can divide each extent evenly.

        Raises:
            InvalidConfigError, ShapeError: as for `PartitionSpec.extents`.
        """
        constrained = PartitionSpec(*[names or () for names in self.entries])
        constrained.extents(shape, mesh, "with_sharding_constraint")

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        (shape,) = input_shapes
        if len(self.entries) != len(shape):
            raise ShapeError(
                f"with_sharding_constraint: {self.spec} has {len(self.entries)} entries for shape {shape}"
            )
        return [(input_dtypes[0], shape)]

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        return inputs


class ShardingConstraintRule(ExtensionAdRule):
    """Rules of the constraint. It also applies to tangents and cotangents, and leaves a batch axis unconstrained."""

    family_id = ShardingConstraint.family_id

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        (x_dot,) = tangents
        return builder.apply(op, x_dot)

    def transpose_rule(
        self, op: Any, builder: Any, inputs: Any, linear: Any, cotangents: Any
    ) -> Any:
        (y_bar,) = cotangents
        return builder.apply(op, y_bar)

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(ShardingConstraint((None, *op.entries)), *inputs)

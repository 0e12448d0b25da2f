"""Lowering of sharding constraints: to `sdy.sharding_constraint` if the module has a mesh, else to nothing."""

from __future__ import annotations

from lowering.extensions import register_extension_lowering
from lowering.operations import Literal
from lowering.sharding import sharding_attribute
from lowering.writer import Value, Writer
from tenferro.ext.sharding.families import ShardingConstraint

__all__ = ["register"]


def constraint(op: ShardingConstraint, w: Writer, x: Value) -> Value:
    """Emit `sdy.sharding_constraint`; return x unchanged if the module has no mesh.

    Raises:
        InvalidConfigError: the mesh lacks an axis that the constraint names.
        ShapeError: an extent cannot be divided evenly among the devices of its mesh axes.
    """
    if w.mesh is None:
        return x
    op.require_fits(x.shape, w.mesh)
    attribute = Literal(sharding_attribute(op.spec, x.rank))
    return w.operation("sdy.sharding_constraint", (x,), (x.spec,), {"sharding": attribute})[0]


def register() -> None:
    """Register the family's lowering with `lower_to_stablehlo`."""
    register_extension_lowering("tenferro.sharding_constraint.v1", constraint)

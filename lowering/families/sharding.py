"""Lowering of sharding constraints: Shardy's annotation where the module has a mesh, else no operation."""

from __future__ import annotations

from lowering.extensions import register_extension_lowering
from lowering.operations import Literal
from lowering.sharding import sharding_attribute
from lowering.writer import Value, Writer
from tenferro.ext.sharding.families import ShardingConstraint

__all__ = ["register"]


def constraint(op: ShardingConstraint, w: Writer, x: Value) -> Value:
    """Write `sdy.sharding_constraint`.

    Raises:
        InvalidConfigError: the mesh has no axis of this name.
        ShapeError: an extent cannot be divided evenly.
    """
    if w.mesh is None:
        return x
    op.require_fits(x.shape, w.mesh)
    attribute = Literal(sharding_attribute(op.spec, x.rank))
    return w.operation("sdy.sharding_constraint", (x,), (x.spec,), {"sharding": attribute})[0]


def register() -> None:
    """Register the family's lowering with `lower_to_stablehlo`."""
    register_extension_lowering("tenferro.sharding_constraint.v1", constraint)

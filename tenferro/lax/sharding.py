"""Sharding of values inside a function, with jax.lax's name.

Source: jax.lax.with_sharding_constraint.
"""

from __future__ import annotations

from typing import Any

from tenferro.dispatch import apply_one, as_operand, spec_of
from tenferro.errors import ArityError, InvalidConfigError, ShapeError
from tenferro.ext.sharding.families import ShardingConstraint
from tenferro.ops.extension import Extension
from tenferro.types import PartitionSpec, PyTree, flatten, prefix_leaves, unflatten

__all__ = ["with_sharding_constraint"]


def with_sharding_constraint(x: PyTree, shardings: Any) -> Any:
    """Return x with a constraint on its sharding over the mesh of a partitioned program.

    The elements do not change. If `xla_peer.partition` sets a mesh for the program, the lowered module contains the
    constraint for XLA's partitioner. A program without a mesh ignores it. Cotangents of x get the same sharding. The
    axis that `vmap` adds is unconstrained.

    Args:
        x: a tree of tensors.
        shardings: an `xla_peer.PartitionSpec`, or a tree of specs that is a prefix of x; None adds no constraint. The
            partitioner chooses the sharding of axes whose entry is `PartitionSpec.UNCONSTRAINED`.

    Raises:
        ArityError: `shardings` is not a prefix of x.
        ShapeError: a spec has more entries than a tensor has axes; or, in lowering, an extent cannot be divided evenly.
        InvalidConfigError: a leaf of `shardings` is no `PartitionSpec`; or, in lowering, the mesh lacks an axis.

    >>> import numpy as np
    >>> from lowering import PartitionSpec
    >>> with_sharding_constraint(np.ones((4, 2)), PartitionSpec("batch")).shape
    (4, 2)
    """
    leaves, tree = flatten(x)
    try:
        specs = prefix_leaves(shardings, unflatten(tree, range(len(leaves))))
    except ValueError as error:
        raise ArityError(
            f"with_sharding_constraint: shardings is not a prefix of x: {error}"
        ) from None
    return unflatten(
        tree, [_constrained(leaf, spec) for leaf, spec in zip(leaves, specs, strict=True)]
    )


def _constrained(leaf: Any, spec: Any) -> Any:
    tensor = as_operand(leaf)
    if spec is None:
        return tensor
    if not isinstance(spec, PartitionSpec):
        raise InvalidConfigError(
            f"with_sharding_constraint: shardings holds PartitionSpecs of xla_peer, got {spec!r} of "
            f"{type(spec).__module__}"
        )
    shape = spec_of(tensor).shape
    if len(spec.entries) > len(shape):
        raise ShapeError(
            f"with_sharding_constraint: {spec} has {len(spec.entries)} entries for shape {shape}"
        )
    entries = (*spec.entries, *[()] * (len(shape) - len(spec.entries)))
    return apply_one(Extension(ShardingConstraint(entries)), tensor)

"""Sharding of values inside a function, with jax.lax's name.

Source: jax.lax.with_sharding_constraint.
"""

from __future__ import annotations

from typing import Any

from tenferro.door import apply_one, as_operand, spec_of
from tenferro.errors import ArityError, InvalidConfigError, ShapeError
from tenferro.ext.sharding.families import ShardingConstraint
from tenferro.ops.extension import Extension
from tenferro.types import PartitionSpec, PyTree, flatten, prefix_leaves, unflatten

__all__ = ["with_sharding_constraint"]


def with_sharding_constraint(x: PyTree, shardings: Any) -> Any:
    """Return x, whose sharding over the mesh of a partitioned program is given.

    The elements do not change. `xla_peer.partition` gives the program a mesh, and its module then has the constraint
    for XLA's partitioner; programs without a mesh ignore it. Cotangents are sharded as x is. The axis that `vmap`
    adds is unconstrained.

    Args:
        x: a tree of tensors.
        shardings: an `xla_peer.PartitionSpec`, or a tree of them that is a prefix of x. None constrains nothing.
            Axes whose entry is `PartitionSpec.UNCONSTRAINED` are sharded as the partitioner chooses.

    Raises:
        ArityError: shardings that are not a prefix of x.
        ShapeError: more entries than axes. Lowering raises it, too, if an extent cannot be divided evenly.
        InvalidConfigError: an entry that is no `PartitionSpec`. Lowering raises it, too, if the mesh does not have an
            axis.

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

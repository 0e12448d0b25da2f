"""Readers of collective operations, for a program on one device.

A group of one device returns its own operand; a permutation gives zeros to a device without a source.

Source: StableHLO spec #all_gather, #all_reduce, #all_to_all, #collective_broadcast, #collective_permute,
#collective_reduce, #partition_id, #reduce_scatter, #replica_id.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowering.module_tree import Operation
from lowering.read.reader import Reader, ReadRows
from tenferro.errors import UnsupportedError

__all__ = ["ROWS"]


def alone(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """The operands, of a group that is one device.

    Raises:
        UnsupportedError: a group of several.
    """
    groups = np.asarray(operation.attributes["replica_groups"])
    _require_one(operation, groups.shape[-1] if groups.size else 1)
    return list(operands)


def rooted(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """The operands, of a group that is one device, without the number of a root, which is that device."""
    return alone(r, operation, operands)[: len(operation.results)]


def permuted(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    pairs = np.asarray(operation.attributes["source_target_pairs"]).reshape(-1, 2)
    _require_one(operation, int(pairs.max(initial=0)) + 1)
    return operands[0] if len(pairs) else r.full(0, r.spec(operands[0]))


def number(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """The first of one."""
    name = operation.name.removeprefix("stablehlo.").removesuffix("_id")
    _require_one(operation, r.tree.attributes.get(f"mhlo.num_{name}s", 1))
    return r.constant(0, operation.spec.dtype)


def _require_one(operation: Operation, count: int) -> None:
    if count > 1:
        raise UnsupportedError(
            f"{operation.name} among {count} devices: a program here is one device's; import what it was "
            "before it was partitioned"
        )


def unchanged(r: Reader, operation: Operation, operands: Sequence[int]) -> int:
    """An annotation of where a value lies, which says nothing of its elements."""
    return operands[0]


def manual(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """The body, which sees whole operands on one device.

    Raises:
        UnsupportedError: the body sees parts of them.
    """
    (body,) = operation.regions
    types = tuple([r.spec(value) for value in operands])
    if body.types != types:
        raise UnsupportedError(
            f"{operation.name}: its body sees {', '.join(map(str, body.types))} of operands "
            f"{', '.join(map(str, types))}: a program here is one device's; import what it was before it was partitioned"
        )
    return r.block(body, operands, r.surroundings)


ROWS: ReadRows = {
    "sdy.manual_computation": manual,
    "sdy.sharding_constraint": unchanged,
    "stablehlo.all_gather": alone,
    "stablehlo.all_reduce": alone,
    "stablehlo.all_to_all": alone,
    "stablehlo.collective_broadcast": alone,
    "stablehlo.collective_permute": permuted,
    "stablehlo.collective_reduce": rooted,
    "stablehlo.cross-replica-sum": alone,
    "stablehlo.partition_id": number,
    "stablehlo.reduce_scatter": alone,
    "stablehlo.replica_id": number,
}

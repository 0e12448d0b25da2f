"""Custom calls whose meaning is known, by target."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.module_tree import Operation
from lowering.read.comparators import sorted_by
from lowering.read.reader import Reader, ReadRows
from tenferro.ops import reduction as re
from tenferro.types import DType

__all__ = ["CUSTOM_CALLS"]


def same(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Annotations: the operands as they are."""
    return list(operands)


def checked(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Checks of the reference interpreter's tests, which give nothing."""
    return []


def top_k(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    k = r.spec(operands[0]).shape[-1]
    for declared in operation.types[:1]:
        k = declared.shape[-1]  # type: ignore[union-attr]  # because foreign types were refused before
    values, places = r.emit_all(re.TopK(k), operands[0])
    return [values, r.convert(places, DType.I32)]


def approx_top_k(r: Reader, operation: Operation, operands: Sequence[int]) -> Sequence[int]:
    """Exactly the first k in the order of the comparator: pairs of operands, then what fills them."""
    options = operation.attributes.get("mhlo.backend_config") or {}
    k, axis = int(options["top_k"]), int(options["reduction_dim"])
    comparator = r.tree.functions[operation.attributes["called_computations"][0]]
    values = list(operands[: len(operands) // 2])
    made = sorted_by(r, comparator.body, values, axis, True)
    return [r.slice(x, axis, 0, k) for x in made]


CUSTOM_CALLS: ReadRows = {
    "ApproxTopK": approx_top_k,
    "Sharding": same,
    "SPMDFullToShardShape": same,
    "SPMDShardToFullShape": same,
    "TopK": top_k,
    "check.eq": checked,
    "check.expect_almost_eq": checked,
    "check.expect_close": checked,
    "check.expect_eq": checked,
    "mhlo.topk": top_k,
    "shape_assertion": checked,
    "annotate_device_placement": same,
}

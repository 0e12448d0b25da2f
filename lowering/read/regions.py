"""Recognition of regions of reductions and scatters that combine two elements by one operation."""

from __future__ import annotations

from lowering.module_tree import Block
from tenferro.types import DType

__all__ = ["ON_BOOL", "combiner_operation", "scatter_combiner"]

ON_BOOL = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and"}
"""Names of logical operations on bools, by the name of the arithmetic operation with the same meaning."""
SCATTERS = {"add": "add", "multiply": "multiply", "minimum": "min", "maximum": "max", "set": "set"}
"""Combiners of the op `Scatter` for numbers, by the operation of the region."""
ON_TRUTH = {"or": "add", "and": "multiply", "set": "set"}
"""Combiners of the op `Scatter` for bools, by the operation of the region."""
COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "and", "or", "xor"})


def combiner_operation(block: Block) -> tuple[str, ...] | None:
    """Return, for each pair of a region's arguments, the name of the operation that combines the pair.

    Return None if any pair is not combined by a single operation.

    The name is "set" if the region returns the second argument of the pair.
    """
    count = len(block.arguments) // 2
    firsts, seconds = block.arguments[:count], block.arguments[count:]
    producers = {
        operation.results[0]: operation for operation in block.operations[:-1] if operation.results
    }
    names: list[str] = []
    for i, result in enumerate(block.operations[-1].operands):
        pair = (firsts[i], seconds[i])
        if result == pair[1]:
            names.append("set")
            continue
        operation = producers.get(result)
        if operation is None or set(operation.operands) != set(pair) or operation.regions:
            return None
        name = operation.name.removeprefix("stablehlo.")
        if name not in COMMUTATIVE:
            return None
        names.append(name)
    is_all = len(block.operations) - 1 == sum(name != "set" for name in names)
    return tuple(names) if is_all else None


def scatter_combiner(name: str, dtype: DType) -> str | None:
    """Return the combiner of the op `Scatter` for the region's operation `name`; None if there is none for the dtype.

    >>> scatter_combiner("maximum", DType.F32), scatter_combiner("add", DType.Bool)
    ('max', 'add')
    """
    if dtype.is_bool:
        return ON_TRUTH.get(ON_BOOL.get(name, name))
    if dtype.is_complex and name in ("maximum", "minimum"):
        return None
    return SCATTERS.get(name)

"""Tuples: before a module is read, they are replaced by their elements.

A tuple that a function returns becomes several results, as in XLA.

Source: StableHLO spec #tuple, #get_tuple_element.
"""

from __future__ import annotations

from dataclasses import replace

from lowering.module_tree import Block, Function, ModuleTree

__all__ = ["without_tuples"]


def without_tuples(tree: ModuleTree) -> ModuleTree:
    """Remove tuples that are created and read, or returned, in the same function.

    Other tuples remain; readers raise an error for their types.
    """
    names = ("stablehlo.tuple", "stablehlo.get_tuple_element")
    if not tree.operation_names() & set(names):
        return tree
    functions = {name: _without(function) for name, function in tree.functions.items()}
    return replace(tree, functions=functions)


def _without(function: Function) -> Function:
    parts: dict[int, tuple[int, ...]] = {}
    body = _flat(function.body, parts, {})
    *rest, last = body.operations
    results = _leaves(last.operands, parts)
    if results == last.operands:
        return replace(function, body=body)
    # The names and types of tuples do not apply to their elements.
    body = replace(body, operations=[*rest, replace(last, operands=results)])
    return replace(function, body=body, result_names=("",) * len(results))


def _leaves(values: tuple[int, ...], parts: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the elements of tuples, including nested ones, in order."""
    leaves: list[int] = []
    waiting = list(values[::-1])
    while waiting:
        value = waiting.pop()
        if value in parts:
            waiting += parts[value][::-1]
        else:
            leaves.append(value)
    return tuple(leaves)


def _flat(block: Block, parts: dict[int, tuple[int, ...]], same: dict[int, int]) -> Block:
    """Remove tuples from the block; `parts` has the elements of tuples, and `same` the replaced values."""
    operations = []
    for operation in block.operations:
        operands = tuple([same.get(value, value) for value in operation.operands])
        if operation.name == "stablehlo.tuple":
            parts[operation.results[0]] = operands
        elif operation.name == "stablehlo.get_tuple_element" and operands[0] in parts:
            chosen = parts[operands[0]][operation.attributes["index"]]
            same[operation.results[0]] = chosen
            if chosen in parts:
                parts[operation.results[0]] = parts[chosen]
        else:
            regions = tuple([_flat(region, parts, same) for region in operation.regions])
            operations.append(replace(operation, operands=operands, regions=regions))
    return replace(block, operations=operations)

"""Rewriting of modules before they are read: tuples are replaced by their elements.

If an argument or result of a function is a tuple, it is replaced by several arguments or results, as in XLA.

Source: StableHLO spec #tuple, #get_tuple_element.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lowering.module_tree import Block, ForeignType, Function, ModuleTree, Operation, Type
from lowering.syntax.attributes import tuple_types

__all__ = ["without_tuples"]

CALLS = frozenset(["func.call", "stablehlo.composite", "stablehlo.custom_call"])
"""Operations whose results may be tuples; the reader rejects a tuple as the result of any other operation."""


def without_tuples(tree: ModuleTree) -> ModuleTree:
    """Replace the tuples in a module by their elements.

    Tuples may be arguments, results, operands and results of calls, and values within functions.
    """
    names = ("stablehlo.tuple", "stablehlo.get_tuple_element")
    types = [kind for function in tree.functions.values() for kind in function.body.types]
    if not tree.operation_names() & set(names) and not any(map(_is_tuple, types)):
        return tree
    functions = {
        name: _Flattening(function).function() for name, function in tree.functions.items()
    }
    return replace(tree, functions=functions)


def _is_tuple(kind: Type) -> bool:
    return isinstance(kind, ForeignType) and kind.text.startswith("tuple<")


def _leaf_types(kinds: Iterable[Type]) -> tuple[Type, ...]:
    """Return the types, with each tuple type replaced by the types of its elements; nested tuples are replaced too."""
    leaves: list[Type] = []
    waiting = list(kinds)[::-1]
    while waiting:
        kind = waiting.pop()
        if _is_tuple(kind):
            waiting += tuple_types(kind)[::-1]
        else:
            leaves.append(kind)
    return tuple(leaves)


class _Flattening:
    """Rewriter that removes the tuples of a function.

    Attributes:
        whole: the function with its tuples.
        free: the number of the next new value.
        parts: the value numbers of a tuple's elements, by the value number of the tuple.
        same: for each removed `get_tuple_element`, the element that replaces its result.
    """

    def __init__(self, whole: Function) -> None:
        self.whole = whole
        self.free = max(whole.body.values(), default=-1) + 1
        self.parts: dict[int, tuple[int, ...]] = {}
        self.same: dict[int, int] = {}

    def function(self) -> Function:
        """Return the function without tuples.

        If an argument is a tuple, the names of all arguments are dropped. If a result is a tuple, the names of all
        results are.
        """
        whole = self.whole
        arguments, types = self.opened(whole.body.arguments, whole.body.types)
        body = self.block(replace(whole.body, arguments=arguments, types=types))
        results = _leaf_types(whole.result_types)
        names = (
            (whole.argument_names, len(whole.body.arguments), len(arguments)),
            (whole.result_names, len(whole.result_types), len(results)),
        )
        argument_names, result_names = [
            given if before == after else ("",) * after for given, before, after in names
        ]
        return replace(
            whole,
            body=body,
            result_types=results,
            argument_names=argument_names,
            result_names=result_names,
        )

    def opened(
        self, values: tuple[int, ...], kinds: tuple[Type, ...]
    ) -> tuple[tuple[int, ...], tuple[Type, ...]]:
        """Return values and types with each tuple replaced by new values for its elements."""
        leaves: list[int] = []
        types: list[Type] = []
        waiting = list(zip(values, kinds, strict=True))[::-1]
        while waiting:
            value, kind = waiting.pop()
            if not _is_tuple(kind):
                leaves.append(value)
                types.append(kind)
                continue
            elements = tuple_types(kind)
            numbers = tuple(range(self.free, self.free + len(elements)))
            self.free += len(elements)
            self.parts[value] = numbers
            waiting += list(zip(numbers, elements, strict=True))[::-1]
        return tuple(leaves), tuple(types)

    def leaves(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """Return the values, with each tuple replaced by its elements; nested tuples are replaced too."""
        leaves: list[int] = []
        waiting = list(values[::-1])
        while waiting:
            value = waiting.pop()
            if value in self.parts:
                waiting += self.parts[value][::-1]
            else:
                leaves.append(value)
        return tuple(leaves)

    def block(self, block: Block) -> Block:
        operations: list[Operation] = []
        for operation in block.operations:
            operands = tuple([self.same.get(value, value) for value in operation.operands])
            if operation.name == "stablehlo.tuple":
                self.parts[operation.results[0]] = operands
            elif operation.name == "stablehlo.get_tuple_element" and operands[0] in self.parts:
                chosen = self.parts[operands[0]][operation.attributes["index"]]
                self.same[operation.results[0]] = chosen
                if chosen in self.parts:
                    self.parts[operation.results[0]] = self.parts[chosen]
            else:
                operations.append(self.operation(replace(operation, operands=operands)))
        return replace(block, operations=operations)

    def operation(self, operation: Operation) -> Operation:
        results, types = operation.results, operation.types
        if operation.name in CALLS:
            results, types = self.opened(results, types)
        return replace(
            operation,
            operands=self.leaves(operation.operands),
            results=results,
            types=types,
            regions=tuple(map(self.block, operation.regions)),
        )

"""Tensors that user-defined rules capture from the trace in which their function was called.

A rule is called when a derivative is computed, often in another graph: a loop's body is copied to differentiate it, and
a batch renames the values of one slice. `RuleBuilder` replaces a captured tensor by the value that stands for it there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from tenferro.api.tensor import TracedTensor, value_in
from tenferro.dispatch import is_traced
from tenferro.errors import InvalidConfigError
from tenferro.graph import ArgumentBuilder, BodyBuilder, Graph, GraphBuilder
from tenferro.program import copy_into, dependents, needed
from tenferro.types import flatten

__all__ = ["Key", "RuleBuilder", "key_of", "known_names", "names_of"]

Key = int | tuple[int, int]
"""Identity of a tensor: the `id` of its graph and its value there, or the `id` of an eager tensor or array."""


def key_of(tensor: Any) -> Key:
    """Return the identity of a tensor."""
    is_value = isinstance(tensor, TracedTensor)
    return (id(tensor.builder.graph), tensor.value) if is_value else id(tensor)


class RuleBuilder(GraphBuilder):
    """Builder of the results of a rule, in the graph that is differentiated.

    Attributes:
        names: a map from tensors that the rule may capture to values of the graph.
    """

    __slots__ = ("names",)

    def __init__(self, graph: Graph, names: Mapping[Key, int], source: Any) -> None:
        super().__init__(graph)
        self.source = source
        self.names = dict(names)

    def lift(self, array: Any) -> int:
        """Return the value that stands for an array or eager tensor, or else a constant."""
        return self.names[id(array)] if id(array) in self.names else super().lift(array)

    def value_of(self, tensor: Any) -> int:
        """Return the value that stands for a tensor. One that was computed from named tensors is computed again.

        Raises:
            InvalidConfigError: the tensor belongs to another trace, and depends on tensors without a name.
        """
        home, key = tensor.builder.graph, key_of(tensor)
        if key in self.names:
            return self.names[key]
        values = {
            key[1]: value
            for key, value in self.names.items()
            if isinstance(key, tuple) and key[0] == id(home)
        }
        part = needed(home.instructions, [tensor.value], available=values).values()
        if home is self.graph:
            moved = [value for value, new in values.items() if value != new]
            changed = dependents(home.instructions, moved) if moved else set[int]()
            part = [step for step in part if not changed.isdisjoint(step.outputs)]
            values = {value: value for step in part for value in step.inputs} | values
            values.setdefault(tensor.value, tensor.value)
        computed = {value for step in part for value in step.outputs}
        operands = {tensor.value, *[x for step in part for x in step.inputs]}
        if not operands <= values.keys() | computed:
            raise InvalidConfigError(
                f"{tensor!r} belongs to another trace, and the rule of a custom derivative reads it through an object; "
                "read it from a variable of the surrounding function, or pass it as an argument or residual"
            )
        copy_into(self.graph, list(part), values)
        self.names[key] = values[tensor.value]
        return values[tensor.value]


def names_of(functions: Iterable[Any], builder: GraphBuilder) -> dict[Key, int]:
    """Return the tensors that functions capture, and their values in a builder's graph.

    An eager tensor is omitted if the builder would make it a constant.
    """
    names = known_names(builder)
    lifts = isinstance(builder, ArgumentBuilder | BodyBuilder)
    return {
        key_of(tensor): value_in(builder, tensor)
        for tensor in captured_tensors(functions)
        if lifts or isinstance(tensor, TracedTensor) or key_of(tensor) in names
    }


def known_names(builder: GraphBuilder) -> dict[Key, int]:
    """Return the tensors and arrays from outside a builder's trace that have a value in its graph, and these values."""
    if isinstance(builder, RuleBuilder):
        return builder.names
    captured = builder.captured if isinstance(builder, BodyBuilder) else {}
    captured = builder.arguments if isinstance(builder, ArgumentBuilder) else captured
    return {key: value for key, (value, _) in captured.items()}


def captured_tensors(functions: Iterable[Any]) -> list[Any]:
    """Return the tensors in the closures and defaults of functions, and of functions that these contain."""
    queue, seen, tensors = list(functions), dict[int, Any](), list[Any]()
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        if is_traced(item):
            tensors.append(item)
        elif isinstance(item, functools.partial):
            queue += [item.func, *item.args, *item.keywords.values()]
        elif callable(item):
            queue += _contents(item)
        elif not isinstance(item, list):  # because a list may collect tensors of finished traces
            queue += flatten(item)[0]
    return tensors


def _contents(function: Any) -> list[Any]:
    """Return the values that a function's closure, its defaults and its wrapper contain."""
    contents: list[Any] = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            contents.append(cell.cell_contents)
        except ValueError:  # because the variable of the cell is not set yet
            continue
    defaults = getattr(function, "__kwdefaults__", None) or {}
    contents += [*(getattr(function, "__defaults__", None) or ()), *defaults.values()]
    wrapped = getattr(function, "__wrapped__", None)
    return [*contents, wrapped, *getattr(function, "rules", ())]

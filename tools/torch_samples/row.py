"""Rows of the table: the PyTorch operator that defines a function, and the names of its arguments.

A parameter is written `torch>ours`, as one word if both names are equal, `@name` if our function takes it by
position, and `name>` if our function does not need it. `dim>axis*`: an empty tuple means every axis in
PyTorch, and no axis in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Row", "binary", "by", "same"]


@dataclass(frozen=True)
class Row:
    """An operator of PyTorch, with the name of its variant, for a function of tenferro.

    `ours` takes the arguments as PyTorch writes them; where it is None, the function itself is
    called with the arguments renamed by `parameters`. `invariant` is applied to outputs of both
    sides: factors that are unique up to a phase are compared by their absolute values.
    """

    torch: str
    parameters: str = ""
    variant: str = ""
    ours: Callable[..., Any] | None = None
    invariant: str = ""


def same(names: str, prefix: str = "", of: str = "") -> dict[str, tuple[Row, ...]]:
    """Return rows for functions of tensors alone, whose names differ only by the prefixes of the libraries."""
    return {prefix + name: (Row(of + name),) for name in names.split()}


def binary(pairs: Mapping[str, str]) -> dict[str, tuple[Row, ...]]:
    """Return rows for functions of two tensors, by PyTorch's names."""
    return {ours: (Row(torch, "@other"),) for ours, torch in pairs.items()}


def by(function: Callable[..., Any], *operators: str, invariant: str = "") -> tuple[Row, ...]:
    """Return rows of one adapted function, for each `name` or `name/variant`."""
    names = [operator.partition("/") for operator in operators]
    return tuple(Row(name, "", variant, function, invariant) for name, _, variant in names)

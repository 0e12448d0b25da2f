"""Rows of the table: the PyTorch operator that defines a function of tenferro, and the names of its arguments.

`Row.parameters` has a word for each argument of the operator after the first. `torch>ours` has the argument's name in
PyTorch and its name in tenferro; if the names are equal, one suffices. `@name` is passed by position. `name>` is
dropped, because tenferro's function does not need the argument. In `dim>axis*`, the star converts an empty tuple to
None, because PyTorch reduces over every axis for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Row", "binary", "by", "same"]


@dataclass(frozen=True)
class Row:
    """An operator of PyTorch that defines a function of tenferro.

    `torch` and `variant` are the operator's names. `ours` is called with the arguments as PyTorch writes them. If it
    is None, tenferro's function is called, with the arguments renamed by `parameters`. `invariant` names a function
    that is applied to the outputs of both libraries before they are compared. For example, absolute values remove the
    arbitrary phase of eigenvectors.
    """

    torch: str
    parameters: str = ""
    variant: str = ""
    ours: Callable[..., Any] | None = None
    invariant: str = ""


def same(names: str, prefix: str = "", of: str = "") -> dict[str, tuple[Row, ...]]:
    """Return rows for functions with these names, whose arguments are all tensors.

    In tenferro a function is called `prefix` + name, in PyTorch `of` + name.
    """
    return {prefix + name: (Row(of + name),) for name in names.split()}


def binary(pairs: Mapping[str, str]) -> dict[str, tuple[Row, ...]]:
    """Return rows for functions of two tensors. `pairs` maps tenferro's name of each function to PyTorch's."""
    return {ours: (Row(torch, "@other"),) for ours, torch in pairs.items()}


def by(function: Callable[..., Any], *operators: str, invariant: str = "") -> tuple[Row, ...]:
    """Return a row for each PyTorch operator, written `name` or `name/variant`; all rows call `function`."""
    names = [operator.partition("/") for operator in operators]
    return tuple(Row(name, "", variant, function, invariant) for name, _, variant in names)

"""Rows of the table: the PyTorch operator that defines a function of tenferro, and the names of its arguments.

`Row.parameters` has a word for each argument of the operator after the first. `torch>ours` gives PyTorch's name and
tenferro's; one word suffices if the names are equal. `@name` is passed by position. `name>` is dropped, because
tenferro's function does not need it. After `dim>axis*`, an empty tuple becomes None: PyTorch reduces over every axis
then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Row", "binary", "by", "same"]


@dataclass(frozen=True)
class Row:
    """An operator of PyTorch that defines a function of tenferro.

    `torch` and `variant` are the operator's names. `ours` is called with the arguments as PyTorch writes them; if it
    is None, tenferro's function is called with the arguments renamed by `parameters`. `invariant` names a function
    that is applied to the outputs of both libraries: factors that are unique up to a phase are compared by their
    absolute values.
    """

    torch: str
    parameters: str = ""
    variant: str = ""
    ours: Callable[..., Any] | None = None
    invariant: str = ""


def same(names: str, prefix: str = "", of: str = "") -> dict[str, tuple[Row, ...]]:
    """Return rows for functions whose arguments are tensors only.

    The name in tenferro is `prefix` and a name, the name in PyTorch `of` and the same name.
    """
    return {prefix + name: (Row(of + name),) for name in names.split()}


def binary(pairs: Mapping[str, str]) -> dict[str, tuple[Row, ...]]:
    """Return rows for functions of two tensors; `pairs` has PyTorch's name for each of tenferro's."""
    return {ours: (Row(torch, "@other"),) for ours, torch in pairs.items()}


def by(function: Callable[..., Any], *operators: str, invariant: str = "") -> tuple[Row, ...]:
    """Return rows that all call `function`, for each PyTorch operator, written `name` or `name/variant`."""
    names = [operator.partition("/") for operator in operators]
    return tuple(Row(name, "", variant, function, invariant) for name, _, variant in names)

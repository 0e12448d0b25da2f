"""`Report`, a public report of wrong values or a crash, rebuilt as a small program with the right values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Report", "f32", "i8", "i32", "main"]


class Report(NamedTuple):
    """Public report of a miscompilation.

    Attributes:
        name: the project and the number of the issue, such as `jax-ml/jax 39103`.
        words: a description of the wrong behaviour.
        function: a function that tenferro traces, or StableHLO text.
        arrays: the arguments of the function.
        expected: the right result, computed by the definitions of the ops, each rounded to its dtype.
        rounding: whether another right implementation may round to the reported result.
        compiler: the compiler that the report is about.
    """

    name: str
    words: str
    function: Callable[..., Any] | str
    arrays: tuple[Any, ...]
    expected: Any
    rounding: bool = False
    compiler: str = "XLA"

    @property
    def url(self) -> str:
        """URL of the issue."""
        project, number = self.name.split()
        return f"https://github.com/{project}/issues/{number}"

    @property
    def link(self) -> str:
        """A link to the issue, in Markdown."""
        return f"[{self.name}]({self.url})"


def f32(*numbers: float) -> Any:
    """Create a float32 array."""
    return np.array(numbers, np.float32)


def i8(*numbers: int) -> Any:
    """Create an int8 array."""
    return np.array(numbers, np.int8)


def i32(*numbers: int) -> Any:
    """Create an int32 array."""
    return np.array(numbers, np.int32)


def main(inputs: str, outputs: str, body: str) -> str:
    """Write the text of a module with the function `main`.

    Args:
        inputs: the list of arguments with their types.
        outputs: the type or types of the results.
        body: the operations, with `return`.
    """
    return f"func.func public @main({inputs}) -> {outputs} {{{body}}}\n"

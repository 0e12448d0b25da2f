"""Fallback to the interpreter for functions that LLVM fails to compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tenferro.exec.attempts import NotCompiledError
from tenferro.exec.llvm.host_arrays import allocate_results
from tenferro.types import TensorSpec

__all__ = ["Fallback", "Interpreted"]

Interpreted: TypeAlias = Callable[[], Callable[..., Any]]
"""Function without arguments that returns the interpreter's function of operands."""
Function = TypeVar("Function")


class Fallback:
    """Fallback of one compiled function.

    Args:
        interpreted: returns the interpreter's function.
        outputs: types of its results.
        remark: remark beside the step while it is compiled.
    """

    def __init__(
        self, interpreted: Interpreted, outputs: Sequence[TensorSpec], remark: str
    ) -> None:
        self.remark = remark
        self._interpreted, self._outputs = interpreted, outputs
        self._function: Callable[..., Any] | None = None

    def unless_failed(self, link: Callable[[], Function]) -> Function | None:
        """Return the linked function, or None once LLVM has failed."""
        if self._function is not None:
            return None
        try:
            return link()
        except NotCompiledError as error:
            self._function = self._interpreted()
            self.remark = f"interpreted: {error.text()}"
            return None

    def run(self, arrays: Sequence[Any], into: Sequence[Any] | None) -> Any:
        """Run the interpreter's function and copy its results to buffers."""
        results = allocate_results(self._outputs, into)
        self.run_into(arrays, results)
        return results[0] if len(results) == 1 else tuple(results)

    def run_into(self, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        """Run the interpreter's function and copy its results to arrays."""
        assert self._function is not None
        values = self._function(*arrays)
        for y, value in zip(results, (values,) if len(results) == 1 else values, strict=True):
            np.copyto(y, value)

"""Calls of the interpreter's kernels from compiled loops, for ops that are not compiled."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.errors import TenferroError
from tenferro.exec.interpreter import failure
from tenferro.exec.llvm import python_calls
from tenferro.exec.llvm.tensor import Body, Specs, Tensors
from tenferro.facts import Fact, facts_of
from tenferro.interruption import is_interruption
from tenferro.types import TensorSpec

if TYPE_CHECKING:
    from tenferro.exec.plan.bind import Binder

__all__ = ["HostCalls", "call_kernel"]

MAX_VIEWS = 256
"""Maximum number of cached array views of a call site; iterations use the same memory."""


@dataclass
class CallSite:
    """Call site of a kernel, with cached array views of its operands and results.

    Attributes:
        source: line of the user's code.
    """

    op: Any
    source: Any
    kernel: Callable[..., Any]
    operands: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    views: dict[tuple[int, int], Any] = field(default_factory=dict)

    def __call__(self, addresses: Sequence[int]) -> None:
        count = len(self.operands)
        arrays = [
            self._view(position, address, spec)
            for position, (address, spec) in enumerate(
                zip(addresses, (*self.operands, *self.results), strict=True)
            )
        ]
        operands = arrays[:count]
        if Fact.EXTERNAL in facts_of(self.op):  # whose runtime may keep its operands
            operands = [x.copy() for x in operands]
        results = self.kernel(*operands)
        for array, y in zip(
            arrays[count:], (results,) if len(self.results) == 1 else results, strict=True
        ):
            np.copyto(array, y)

    def named(self, error: Exception) -> Exception:
        """Return the error of the kernel with the op and the line of the user's code."""
        line = str(self.source) if self.source else None
        if isinstance(error, TenferroError):
            return error.at(line)
        named = failure(self.op, self.results, error).at(line)
        named.__cause__ = error
        return named

    def _view(self, position: int, address: int, spec: TensorSpec) -> Any:
        """Return memory as an array, read-only for operands."""
        key = address, position
        view = self.views.get(key)
        if view is None:
            if len(self.views) >= MAX_VIEWS:
                self.views.clear()
            dtype, size = spec.dtype.dtype, prod(spec.shape)
            if size:
                block: Any = (ctypes.c_char * (size * dtype.itemsize)).from_address(address)
                view = np.frombuffer(block, dtype).reshape(spec.shape)
            else:
                view = np.empty(spec.shape, dtype)
            view.flags.writeable = position >= len(self.operands)
            self.views[key] = view
        return view


class HostCalls:
    """Call sites of one loop, by number."""

    def __init__(self, kernels: Binder) -> None:
        self.kernels = kernels
        self.sites: list[CallSite] = []

    @property
    def address(self) -> int:
        """Address of this object, which compiled code calls."""
        return id(self)

    def __call__(self, number: int, address: int) -> None:
        """Call a kernel with the number of its site and the address of the pointers to its arrays."""
        site = self.sites[number]
        count = len(site.operands) + len(site.results)
        try:
            site((ctypes.c_int64 * count).from_address(address)[:])
        except Exception as error:
            if is_interruption(error):
                raise
            raise site.named(error)  # noqa: B904  # because it has its cause


def call_kernel(body: Body, step: Any, operands: Tensors, types: Specs) -> Tensors:
    """Write the call of an instruction's kernel and return its results."""
    host, code = body.host, body.code
    assert host is not None
    specs = tuple([x.spec for x in operands])
    number = len(host.sites)
    kernel = host.kernels.function(step.op, specs)
    host.sites.append(CallSite(step.op, step.source, kernel, specs, tuple(types)))
    memories = [body.dense(x) for x in operands]
    results = [body.memory(spec) for spec in types]
    pointers = [memory.pointer for memory in (*memories, *results)]
    cell = code.alloca("ptr", max(1, len(pointers)))
    for position, pointer in enumerate(pointers):
        at = code.gep("ptr", cell, position, "inbounds")
        code.store_value(pointer, at, "ptr")
    python_calls.call_python(code, "%host", number, cell)
    return [body.stored(memory) for memory in results]

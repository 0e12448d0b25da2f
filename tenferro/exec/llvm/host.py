"""Calls of the interpreter's kernels from compiled loops, for ops that are not compiled."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from tenferro.errors import TenferroError
from tenferro.exec.interpreter import failure
from tenferro.exec.llvm.rows import Row
from tenferro.exec.llvm.tensor import Body, Tensor
from tenferro.interruption import is_interruption
from tenferro.ops.extension import Extension
from tenferro.types import TensorSpec

__all__ = ["FAILED", "HostCalls", "Kernels", "call"]

FAILED = -1
"""What a loop gives when a kernel has raised."""
VIEWS = 256
"""Arrays that are kept of one call: memory is at the same place in every turn."""


class Kernels(Protocol):
    """The kernels of an executor, by op and types."""

    def bound(self, op: Any, inputs: tuple[TensorSpec, ...], /) -> Callable[..., Any]:
        """The interpreter's kernel, bound to types."""
        ...

    def row(self, op: Any, inputs: tuple[TensorSpec, ...], /) -> Row | None:
        """How an extension's runtime has it compiled, if it does."""
        ...


@dataclass
class Site:
    """A call: its kernel, and arrays of the memory that it has been called with.

    Attributes:
        source: the user's line.
    """

    op: Any
    source: Any
    kernel: Callable[..., Any]
    operands: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    views: dict[int, Any] = field(default_factory=dict)

    def __call__(self, addresses: Sequence[int]) -> None:
        count = len(self.operands)
        arrays = [
            self._view(position, address, spec)
            for position, (address, spec) in enumerate(
                zip(addresses, (*self.operands, *self.results), strict=True)
            )
        ]
        operands = arrays[:count]
        if isinstance(self.op, Extension):  # whose runtime may keep what it is given
            operands = [x.copy() for x in operands]
        results = self.kernel(*operands)
        for array, y in zip(
            arrays[count:], (results,) if len(self.results) == 1 else results, strict=True
        ):
            np.copyto(array, y)

    def failure(self, error: BaseException) -> BaseException:
        """The error of the kernel, with the op and the user's line; one raised by a handler of signals, unchanged."""
        if is_interruption(error) or not isinstance(error, Exception):
            return error
        line = str(self.source) if self.source else None
        if isinstance(error, TenferroError):
            return error.at(line)
        named = failure(self.op, self.results, error).at(line)
        named.__cause__ = error
        return named

    def _view(self, position: int, address: int, spec: TensorSpec) -> Any:
        """The memory as an array; operands cannot be written."""
        count = len(self.operands) + len(self.results)
        key = address * count + position
        view = self.views.get(key)
        if view is None:
            if len(self.views) >= VIEWS:
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
    """The calls of one loop.

    Args:
        kernels: the executor's.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.sites: list[Site] = []
        self._failures: dict[int, BaseException] = {}
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
        self._function = kind(self._call)

    @property
    def address(self) -> int:
        """Of the function that compiled code calls: with a number, and where the pointers to arrays lie."""
        address = ctypes.cast(self._function, ctypes.c_void_p).value
        assert address is not None
        return address

    def failure(self) -> BaseException:
        """The exception that a kernel raised in this thread."""
        return self._failures.pop(threading.get_ident())

    def _call(self, number: int, address: int) -> int:
        site = self.sites[number]
        count = len(site.operands) + len(site.results)
        try:
            site((ctypes.c_int64 * count).from_address(address)[:])
        except BaseException as error:
            self._failures[threading.get_ident()] = site.failure(error)
            return FAILED
        return 0


def call(
    body: Body, step: Any, operands: Sequence[Tensor], types: Sequence[TensorSpec]
) -> list[Tensor]:
    """The results of an instruction's kernel, which finds its operands in memory."""
    host, code = body.host, body.code
    assert host is not None
    specs = tuple([x.spec for x in operands])
    number = len(host.sites)
    kernel = host.kernels.bound(step.op, specs)
    host.sites.append(Site(step.op, step.source, kernel, specs, tuple(types)))
    memories = [x.memory or body.copy(x) for x in operands]
    results = [body.memory(spec) for spec in types]
    pointers = [memory.pointer for memory in (*memories, *results)]
    cell = code.cell("ptr", max(1, len(pointers)))
    for position, pointer in enumerate(pointers):
        at = code.value(f"getelementptr inbounds ptr, ptr {cell}, i64 {position}")
        code.line(f"store ptr {pointer}, ptr {at}")
    where = code.value(f"ptrtoint ptr {cell} to i64")
    status = code.value(f"call i64 %host(i64 {number}, i64 {where})")
    code.leave_if(code.value(f"icmp ne i64 {status}, 0"), FAILED)
    return [body.stored(memory) for memory in results]

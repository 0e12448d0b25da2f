"""The current trace, to which ops are added while a traced function runs.

Inside a traced function, a transform, and an op that must not run during tracing, is added to the graph of that
function even if no operand is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tenferro.graph import GraphBuilder
from tenferro.ops import StdTensorOp
from tenferro.program import require_depth

__all__ = ["apply_in_trace", "current_builder", "nested_call", "recording_into"]


@dataclass(frozen=True, slots=True)
class Trace:
    """Graph builder, and a function that appends an op to the builder's graph and returns the outputs as tensors."""

    builder: GraphBuilder
    append: Callable[[GraphBuilder, StdTensorOp, Sequence[Any]], tuple[Any, ...]]


_CURRENT: ContextVar[Trace | None] = ContextVar("tenferro_trace", default=None)
_DEPTH: ContextVar[int] = ContextVar("tenferro_depth", default=0)


@contextmanager
def nested_call() -> Generator[None]:
    """Return a context in which a nested user function is called. It counts the depth of such calls.

    Raises:
        UnsupportedError: traces are nested too deeply.
    """
    depth = _DEPTH.get()
    require_depth(depth)
    token = _DEPTH.set(depth + 1)
    try:
        yield
    finally:
        _DEPTH.reset(token)


@contextmanager
def recording_into(
    builder: GraphBuilder,
    append: Callable[[GraphBuilder, StdTensorOp, Sequence[Any]], tuple[Any, ...]],
) -> Generator[None]:
    """Return a context in which `current_builder()` returns `builder`.

    Raises:
        UnsupportedError: traces and calls are nested too deeply.
    """
    with nested_call():
        token = _CURRENT.set(Trace(builder, append))
        try:
            yield
        finally:
            _CURRENT.reset(token)


def current_builder() -> GraphBuilder | None:
    """Return the builder of this thread's innermost trace, or None outside of traces."""
    trace = _CURRENT.get()
    return None if trace is None else trace.builder


def apply_in_trace(op: StdTensorOp, operands: Sequence[Any]) -> tuple[Any, ...] | None:
    """Append an op to this thread's innermost trace, and return its outputs; None outside of traces."""
    trace = _CURRENT.get()
    return None if trace is None else trace.append(trace.builder, op, operands)

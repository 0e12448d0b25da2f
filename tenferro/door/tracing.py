"""The current trace: a transform called inside a traced function writes into the function's graph.  An op without
traced operands does the same.
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

__all__ = ["apply_in_trace", "current_builder", "nested_call", "under_way"]


@dataclass(frozen=True, slots=True)
class Trace:
    """A builder, and a function that appends an op to its graph and returns the outputs as tensors."""

    builder: GraphBuilder
    append: Callable[[GraphBuilder, StdTensorOp, Sequence[Any]], tuple[Any, ...]]


_CURRENT: ContextVar[Trace | None] = ContextVar("tenferro_trace", default=None)
_DEPTH: ContextVar[int] = ContextVar("tenferro_depth", default=0)


@contextmanager
def nested_call() -> Generator[None]:
    """Count the body as a nested call of a user's function.

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
def under_way(
    builder: GraphBuilder,
    append: Callable[[GraphBuilder, StdTensorOp, Sequence[Any]], tuple[Any, ...]],
) -> Generator[None]:
    """Make this builder the `current_builder()` while the body runs.

    Raises:
        UnsupportedError: too many traces and calls are inside each other.
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

"""Which trace is under way: a transform called inside a traced function writes into its graph."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from tenferro.graph import GraphBuilder

__all__ = ["current_builder", "tracing"]

_CURRENT: ContextVar[GraphBuilder | None] = ContextVar("tenferro_trace", default=None)


@contextmanager
def tracing(builder: GraphBuilder) -> Generator[None]:
    """While the body runs, `current_builder()` is this one."""
    token = _CURRENT.set(builder)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_builder() -> GraphBuilder | None:
    """The builder of the innermost trace of this thread, or None outside all."""
    return _CURRENT.get()

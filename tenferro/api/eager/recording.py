"""Whether operations on eager tensors are recorded for `backward`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from tenferro.dispatch.tracing import current_builder
from tenferro.errors import InvalidConfigError

__all__ = ["is_recording", "no_grad"]

_IS_RECORDING = ContextVar("_IS_RECORDING", default=True)

is_recording = _IS_RECORDING.get
"""Function that returns whether operations on eager tensors are recorded in this thread or task."""


@contextmanager
def no_grad() -> Generator[None]:
    """Stop recording operations on eager tensors while the body runs, and allow variables to change.

    It is a context manager, which can also be used as a decorator.

    Raises:
        InvalidConfigError: the call is inside a function that is traced or differentiated, where nothing is recorded.

    >>> import tenferro as tnf
    >>> rt = tnf.EagerRuntime()
    >>> w = rt.variable([1.0, 2.0])
    >>> tnf.sum(w * w).backward()
    >>> with no_grad():
    ...     w -= 0.1 * w.grad
    >>> w
    EagerTensor([0.8, 1.6])

    Source: torch.no_grad.
    """
    if current_builder() is not None:
        raise InvalidConfigError(
            "no_grad is for eager tensors, and has no meaning in a function that is traced; "
            "stop_gradient(x) is a constant to differentiation"
        )
    token = _IS_RECORDING.set(False)
    try:
        yield
    finally:
        _IS_RECORDING.reset(token)

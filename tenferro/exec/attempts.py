"""Guard around attempts to compile: probes, cost estimates, code generation, linking and cache access run in it.

If an attempt raises, the interpreter runs the step, the executor's `CompileLog` counts the reason, and the process
warns once. Exceptions of the user's own code and of signal handlers pass unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from tenferro.errors import CompileWarning, UnsupportedError
from tenferro.interruption import is_interruption
from tenferro.process_warnings import warn_once

__all__ = [
    "FAILED_ATTEMPTS_VARIABLE",
    "CompileFailure",
    "CompileLog",
    "CompileStats",
    "NotCompiledError",
    "user_code",
]

FAILED_ATTEMPTS_VARIABLE = "TENFERRO_FAILED_ATTEMPTS"
"""Environment variable that makes failed attempts raise if its value is "raise"; tenferro's tests set it."""
MAX_FAILURES = 64
"""Maximum number of distinct failures in a log."""
MAX_REASON = 300
"""Maximum number of characters of a reason."""
_FROM_USER_CODE = "_tenferro_from_user_code"


class NotCompiledError(UnsupportedError):
    """Reason why a step is not compiled; the interpreter runs it instead."""


class CompileFailure(NamedTuple):
    """One kind of failed attempt: its subject, the exception, and the number of times."""

    attempt: str
    reason: str
    times: int

    def __str__(self) -> str:
        times = "" if self.times == 1 else f" ({self.times} times)"
        return f"{self.attempt}: {self.reason}{times}"


@dataclass(frozen=True)
class CompileStats:
    """Counts of an executor's compiler.

    Attributes:
        compiled: the number of compiled functions by kind, such as "loop" or "fused group".
        failures: attempts that raised, with their reasons; the steps concerned are interpreted.
    """

    compiled: Mapping[str, int]
    failures: tuple[CompileFailure, ...]

    def __str__(self) -> str:
        counts = [f"{kind}: {count} compiled" for kind, count in self.compiled.items()]
        return "\n".join([*counts, *[f"failed: {failure}" for failure in self.failures]])


class CompileLog:
    """The record of an executor's attempts to compile.

    >>> log = CompileLog()
    >>> log.count("loop")
    >>> print(log.stats())
    loop: 1 compiled
    """

    def __init__(self) -> None:
        self._compiled: dict[str, int] = {}
        self._failures: dict[tuple[str, str], int] = {}

    @contextmanager
    def attempt(self, what: str) -> Generator[None]:
        """Run the body of a `with` statement as an attempt to compile.

        Raises:
            NotCompiledError: the body refused to compile, or raised another exception. A refusal is not counted
                as a failure.
            Exception: an exception of user code in the body, or of a signal handler.
        """
        try:
            yield
        except NotCompiledError:
            raise
        except Exception as error:
            if getattr(error, _FROM_USER_CODE, False) or is_interruption(error):
                raise
            reason = _reason(error)
            key = what, reason
            if key in self._failures or len(self._failures) < MAX_FAILURES:
                self._failures[key] = self._failures.get(key, 0) + 1
            if os.environ.get(FAILED_ATTEMPTS_VARIABLE) == "raise":
                raise
            warn_once(
                f"tenferro could not compile a {what}, and interprets it, which is slower: {reason}. "
                "executor.compile_stats() counts such failures; this warning is given once in a process.",
                CompileWarning,
            )
            raise NotCompiledError(f"failed: {reason}") from error

    def count(self, kind: str) -> None:
        """Count a compiled function."""
        self._compiled[kind] = self._compiled.get(kind, 0) + 1

    def stats(self) -> CompileStats:
        """Return the counts so far."""
        failures = [CompileFailure(*key, count) for key, count in self._failures.items()]
        return CompileStats(dict(self._compiled), tuple(failures))

    def clear(self) -> None:
        """Reset the counts."""
        self._compiled.clear()
        self._failures.clear()


@contextmanager
def user_code() -> Generator[None]:
    """Mark exceptions of the body as the user's own; attempts do not catch them."""
    try:
        yield
    except Exception as error:
        setattr(error, _FROM_USER_CODE, True)
        raise


def _reason(error: Exception) -> str:
    first_line, *_ = (str(error) or "no message").splitlines()
    return f"{type(error).__name__}: {first_line}"[:MAX_REASON]

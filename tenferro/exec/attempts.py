"""`CompileLog`: a guard around attempts to compile a step, and a record of failures.

Cost estimates, code generation, linking and access to the cache run within the guard. If they raise an exception, the
interpreter runs the step, the log counts the reason, and the process warns once. Exceptions of the user's own code and
of signal handlers are not caught.
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
"""Environment variable; if its value is "raise", a failed attempt raises its exception, as in tenferro's tests."""
MAX_FAILURES = 64
"""Maximum number of distinct failures that a log records."""
MAX_REASON = 300
"""Maximum number of characters of the reason of a failure."""
_FROM_USER_CODE = "_tenferro_from_user_code"


class NotCompiledError(UnsupportedError):
    """Error: a step is not compiled, for the reason in the message; the interpreter runs it."""


class CompileFailure(NamedTuple):
    """Failure to compile a kind of step, such as "loop", for one reason.

    Attributes:
        attempt: the kind of step.
        reason: the class of the exception and the first line of its message.
        times: the number of such failures.
    """

    attempt: str
    reason: str
    times: int

    def __str__(self) -> str:
        times = "" if self.times == 1 else f" ({self.times} times)"
        return f"{self.attempt}: {self.reason}{times}"


@dataclass(frozen=True)
class CompileStats:
    """Numbers of functions that an executor has compiled, and its failed attempts.

    Attributes:
        compiled: the number of compiled functions by kind, such as "loop" or "fused group".
        failures: the attempts that raised exceptions; their steps are interpreted.
    """

    compiled: Mapping[str, int]
    failures: tuple[CompileFailure, ...]

    def __str__(self) -> str:
        counts = [f"{kind}: {count} compiled" for kind, count in self.compiled.items()]
        return "\n".join([*counts, *[f"failed: {failure}" for failure in self.failures]])


class CompileLog:
    """Record of an executor's attempts to compile.

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
            NotCompiledError: the body raised this error, which is not counted, or another exception, which is counted
                as a failure.
            Exception: user code in the body or a signal handler raised it; it is not counted. If
                `FAILED_ATTEMPTS_VARIABLE` is "raise", counted exceptions are also raised unchanged.
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
        """Count one more compiled function of this kind."""
        self._compiled[kind] = self._compiled.get(kind, 0) + 1

    def stats(self) -> CompileStats:
        """Return the counts since the start, or since the last `clear`."""
        failures = [CompileFailure(*key, count) for key, count in self._failures.items()]
        return CompileStats(dict(self._compiled), tuple(failures))

    def clear(self) -> None:
        self._compiled.clear()
        self._failures.clear()


@contextmanager
def user_code() -> Generator[None]:
    """Mark exceptions of a `with` statement's body as the user's own, so that `CompileLog` does not catch them."""
    try:
        yield
    except Exception as error:
        setattr(error, _FROM_USER_CODE, True)
        raise


def _reason(error: Exception) -> str:
    first_line, *_ = (str(error) or "no message").splitlines()
    return f"{type(error).__name__}: {first_line}"[:MAX_REASON]

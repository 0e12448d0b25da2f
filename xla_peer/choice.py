"""`Choice`: selects a native program or `jax.jit` of its function, for one set of shapes and dtypes."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from tenferro.errors import DisagreementWarning, TenferroError
from tenferro.program import GraphProgram
from tenferro.program.profile import shown_seconds
from xla_peer import pjrt
from xla_peer.flat_function import FlatFunction
from xla_peer.forking import forked
from xla_peer.from_jax import in_dtypes_of

__all__ = ["Choice", "is_close"]

Side = Literal["native", "jax.jit"]
FIRST_RESULT = 6.0
"""Estimated time of a first result of `jax.jit`, as a multiple of the time of tracing and import."""
MAX_ROUNDS = 5
"""Maximum number of times that each side runs in a comparison."""
ROUNDS_SECONDS = 0.05
"""Duration of a comparison, in seconds, after which no further round begins."""
CLOSE = 2 / 3
"""Exponent of the machine epsilon: differences below eps^CLOSE times the largest element need no verdict."""


class Choice:
    """Decision between native execution and `jax.jit`, made once, by times and results on the user's arguments.

    Native runs come first. Once their total time reaches the estimated time of a first result of `jax.jit`, both sides
    run on the arguments of one call. The comparison takes at most about the time spent before it.

    Args:
        function: a JAX function.
        program: its native program.
        run: a function that runs the program on arrays.
        import_seconds: the time that tracing and import took.
        is_jax: whether results are JAX arrays.

    Attributes:
        side: the side that runs, "native" until the decision.
        is_decided: whether the decision has been made.
        reason: the reason for the decision.
    """

    def __init__(
        self,
        function: FlatFunction,
        program: GraphProgram,
        run: Callable[[GraphProgram, Sequence[Any]], Any],
        import_seconds: float,
        is_jax: bool,
    ) -> None:
        self._function = function
        self._program = program
        self._run = run
        self._estimate = FIRST_RESULT * import_seconds
        self._is_jax = is_jax
        self._spent = 0.0
        self._lock = threading.Lock()
        self._reason = ""
        self.side: Side = "native"
        self.is_decided = False

    @property
    def reason(self) -> str:
        """The reason why this side runs."""
        if self.is_decided:
            return self._reason
        spent, estimate = shown_seconds(self._spent), shown_seconds(self._estimate)
        return f"not compared: native runs took {spent} of the {estimate} that jax.jit may need"

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Run on arrays, by the chosen side."""
        if self.side == "jax.jit" and not forked():
            return self._jitted(arrays)
        if self.is_decided:
            return self._run(self._program, arrays)
        start = time.perf_counter()
        results = self._run(self._program, arrays)
        self._spent += time.perf_counter() - start
        if self._spent >= self._estimate and self._lock.acquire(blocking=False):
            try:
                if not self.is_decided and not forked():
                    self._decide(arrays, results)
            finally:
                self._lock.release()
        return results

    def _jitted(self, arrays: Sequence[Any]) -> list[Any]:
        with in_dtypes_of(self._function.avals):
            results = self._function.fn(*arrays)
        if self._is_jax:
            return list(results)
        return [np.array(y) for y in results]  # because callers may write to results

    def _decide(self, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        """Run both sides, compare their results, and choose the faster."""
        try:
            jitted = self._jitted(arrays)  # which compiles
            ours, theirs = self._timed(arrays)
            outcome = self._disagreement(arrays, results, jitted)
        except Exception as error:  # because native runs do not need them
            first = f"{error}".strip().split("\n")[0]
            self._settle("native", f"jax.jit failed: {type(error).__name__}: {first}")
            return
        times = f"native {shown_seconds(ours)}, jax.jit {shown_seconds(theirs)}"
        if outcome is not None:
            side, verdict = outcome
            self._settle(side, f"{times}; {verdict}")
            warnings.warn(
                f"native(.., choose=True): the results of {self._function.name} and of jax.jit differ by more than "
                f"rounding, and {side} runs from now on. {verdict}",
                DisagreementWarning,
                stacklevel=2,
            )
        else:
            self._settle("native" if ours <= theirs else "jax.jit", f"{times}; results agree")

    def _settle(self, side: Side, reason: str) -> None:
        self._reason = reason
        self.side = side
        self.is_decided = True

    def _timed(self, arrays: Sequence[Any]) -> tuple[float, float]:
        """Time both sides alternately, and return the minimum time of a run for each, in seconds."""
        runs = (lambda: self._run(self._program, arrays), lambda: self._jitted(arrays))
        least = [float("inf"), float("inf")]
        stop = time.perf_counter() + ROUNDS_SECONDS
        for number in range(MAX_ROUNDS):
            if number and time.perf_counter() > stop:
                break
            for side in (0, 1) if number % 2 else (1, 0):
                start = time.perf_counter()
                runs[side]()
                least[side] = min(least[side], time.perf_counter() - start)
        return least[0], least[1]

    def _disagreement(
        self, arrays: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]
    ) -> tuple[Side, str] | None:
        """Return the side that is right, and the verdict; None if rounding explains the differences."""
        if all([is_close(np.asarray(x), np.asarray(y)) for x, y in zip(ours, theirs, strict=True)]):
            return None
        from xla_peer.parity import judge  # because most results are close

        try:
            report = judge(self._program, arrays, ours, list(map(np.asarray, theirs)))
        except TenferroError as error:
            return "native", f"no verdict: {error}"
        if report.ok:
            return None
        wrong = {output.verdict for output in report.outputs if not output.ok}
        side: Side = "jax.jit" if wrong == {"wrong: a"} else "native"
        names = {"wrong: a": "wrong: native", "wrong: b": "wrong: jax.jit"}
        return side, ", ".join([names.get(word, word) for word in sorted(wrong)])


def is_close(x: Any, y: Any) -> bool:
    """Return whether two arrays differ by so little that no verdict is needed."""
    jax, _ = pjrt.modules()
    if not jax.numpy.issubdtype(x.dtype, jax.numpy.inexact):
        return bool(np.array_equal(x, y))
    wide = np.complex128 if np.issubdtype(x.dtype, np.complexfloating) else np.float64
    a, b = x.astype(wide), y.astype(wide)
    is_finite = np.isfinite(a)
    if not np.array_equal(is_finite, np.isfinite(b)):
        return False
    if not np.array_equal(a[~is_finite], b[~is_finite], equal_nan=True):
        return False
    share = float(jax.numpy.finfo(x.dtype).eps) ** CLOSE
    largest = np.max(np.abs(b[is_finite]), initial=0.0)
    return bool(np.all(np.abs(a[is_finite] - b[is_finite]) <= share * largest))

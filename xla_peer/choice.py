"""`Choice`, which decides whether a JAX function runs natively or by `jax.jit`, for one set of shapes and dtypes."""

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
"""Estimated time of a first result of `jax.jit`, divided by the measured time of tracing and import."""
MAX_ROUNDS = 5
"""Maximum number of timed runs of the native program, and of `jax.jit`, in a comparison."""
ROUNDS_SECONDS = 0.05
"""Duration of a comparison, in seconds, after which no further pair of timed runs begins."""
CLOSE = 2 / 3
"""Exponent in the tolerance of `is_close`: eps^CLOSE times the largest element, with the machine epsilon eps."""


class Choice:
    """Decision between native execution and `jax.jit`, made once, from runs on the user's arguments.

    The first calls run natively. Once their total time reaches the estimated time of a first result of `jax.jit`, the
    arguments of one call run both natively and by `jax.jit`. This comparison takes about as long as the runs before it.

    Args:
        function: a JAX function.
        program: the native program of the function.
        run: a function that runs the program on arrays.
        import_seconds: the time that tracing and import took.
        is_jax: whether to return JAX arrays instead of NumPy arrays.

    Attributes:
        side: "native" or "jax.jit", whichever runs the next call; "native" until the decision.
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
        """The reason for `side`, with the measured times."""
        if self.is_decided:
            return self._reason
        spent, estimate = shown_seconds(self._spent), shown_seconds(self._estimate)
        return f"not compared: native runs took {spent} of the {estimate} that jax.jit may need"

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Run the function on arrays, natively or by `jax.jit`, and make the decision when it is due."""
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
        return [np.array(y) for y in results]  # a copy, because callers may write to results

    def _decide(self, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        """Run natively and by `jax.jit`, and set `side` to the faster of the two.

        If the results differ by more than rounding, set `side` to the one whose results are right.
        """
        try:
            jitted = self._jitted(arrays)  # the first call compiles, so it is not timed
            ours, theirs = self._timed(arrays)
            outcome = self._disagreement(arrays, results, jitted)
        except Exception as error:  # because native runs do not need jax.jit
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
        """Return the minimum times of a native run and of a run by `jax.jit`, in seconds, measured alternately."""
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
        """Return which results are right, "native" or "jax.jit", and the verdict; None if they differ by rounding.

        Without a clear verdict, the native results count as right.
        """
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
    """Return whether two arrays are equal up to the tolerance that `CLOSE` defines; integers must be equal."""
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

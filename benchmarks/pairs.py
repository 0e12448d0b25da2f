"""Comparison of two checkouts of tenferro by the median ratio of their times. Their runs alternate."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interleaved import limited

__all__ = ["compare", "serve"]

SHORTEST = 0.01
"""Minimum time of a measurement, in seconds; a shorter run is repeated."""
HERE = Path(__file__).resolve().parents[1]


def compare(program: Path, names: list[str], pairs: int, other: Path) -> dict[str, float]:
    """Print and return, for each name, the median ratio of this checkout's time to that of the checkout `other`.

    Two child processes run `program` of this checkout with `--serve`. Each imports the tenferro of one checkout. With
    `--serve`, the program must call `serve`.
    """
    medians: dict[str, float] = {}
    with _server(program, HERE) as here, _server(program, other) as there:
        _confirm(here, HERE)
        _confirm(there, other)
        for name in names:
            ratios: list[float] = []
            reason = None
            for iteration in range(pairs):
                # The order alternates, because the second run benefits from caches that the first run has filled.
                seconds: list[Any] = [None, None]
                for side in (0, 1) if iteration % 2 else (1, 0):
                    seconds[side] = _ask((here, there)[side], name)
                if any(isinstance(x, str) for x in seconds):
                    reason = f"here {seconds[0]}, there {seconds[1]}"
                    break
                ratios.append(seconds[0] / seconds[1])
            if reason is None:
                medians[name] = statistics.median(ratios)
                reason = f"{medians[name]:.3f}  ({min(ratios):.3f} to {max(ratios):.3f})"
            print(f"{name:34s} {reason}", flush=True)
    return medians


def serve(run_of: Callable[[str], Callable[[], Any]], limit: float) -> None:
    """Answer requests on standard input.

    First print the path of tenferro. A request is the name of a run; the answer is its time in seconds, or the reason
    why it failed.
    """
    import tenferro as tnf

    print(json.dumps(tnf.__file__), flush=True)
    held: tuple[str | None, Any] = None, None
    for line in sys.stdin:
        name = json.loads(line)
        try:
            with limited(limit):
                if held[0] != name:
                    held = name, run_of(name)
                    for _ in range(2):  # because the second run may still compile
                        held[1]()
                answer = _seconds(held[1])
        except Exception as reason:
            held = None, None
            answer = f"{type(reason).__name__}: {reason}"
        print(json.dumps(answer), flush=True)


def _seconds(run: Callable[[], Any]) -> float:
    start, runs, spent = time.perf_counter(), 0, 0.0
    while spent < SHORTEST:
        run()
        runs += 1
        spent = time.perf_counter() - start
    return spent / runs


def _server(program: Path, checkout: Path) -> subprocess.Popen[str]:
    """Start a child process that runs `program` with the tenferro of a checkout, until its standard input ends."""
    return subprocess.Popen(
        [sys.executable, str(program), "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(checkout.resolve())},
    )


def _confirm(server: subprocess.Popen[str], checkout: Path) -> None:
    """Check that the child process has imported tenferro from the checkout, and not from an installed package."""
    place = Path(_answer(server))
    if checkout.resolve() not in place.parents:
        raise SystemExit(f"--other {checkout} is not a checkout: tenferro came from {place}")


def _ask(server: subprocess.Popen[str], name: str) -> Any:
    assert server.stdin is not None
    server.stdin.write(json.dumps(name) + "\n")
    server.stdin.flush()
    return _answer(server)


def _answer(server: subprocess.Popen[str]) -> Any:
    assert server.stdout is not None
    if not (line := server.stdout.readline()):
        raise SystemExit(f"a server ended with status {server.wait()}")
    return json.loads(line)

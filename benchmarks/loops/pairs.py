"""Two checkouts in turns: a change is judged by the median of the pairs' ratios."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from cells import limited
from contestants import CONTESTANTS
from kernel import Kernel
from kernels import KERNELS
from report import geometric_mean

__all__ = ["compare", "serve"]

SHORTEST = 0.01
"""Seconds of one time."""
HERE = Path(__file__).resolve().parents[2]


def compare(kernels: list[Kernel], pairs: int, other: Path) -> None:
    """Print for each kernel the median of this checkout's time as a ratio to the other's."""
    servers = [_server(HERE), _server(other.resolve())]
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for kernel in kernels:
        for gradient in (False, True) if kernel.gradient is not None else (False,):
            each: list[float] = []
            reason = None
            for turn in range(pairs):
                # Who goes first changes: the second finds caches as the first left them.
                seconds: list[Any] = [None, None]
                for side in (0, 1) if turn % 2 else (1, 0):
                    seconds[side] = _ask(servers[side], kernel.name, gradient)
                if any(isinstance(x, str) for x in seconds):
                    reason = f"here {seconds[0]}, there {seconds[1]}"
                    break
                each.append(seconds[0] / seconds[1])
            name = f"{kernel.name}, gradient" if gradient else kernel.name
            if reason is None:
                middle = statistics.median(each)
                ratios[gradient].append(middle)
                print(f"{name:28s} {middle:.3f}  ({min(each):.3f} to {max(each):.3f})", flush=True)
            else:
                print(f"{name:28s} {reason}", flush=True)
    for gradient, what in ((False, "values"), (True, "gradients")):
        if ratios[gradient]:
            print(
                f"{what}: {geometric_mean(ratios[gradient]):.3f} in the geometric mean of {len(ratios[gradient])}"
            )
    for server in servers:
        server.communicate()


def serve(limit: float) -> None:
    """Time natively what each line of the input names; a line of JSON for each: seconds, or a reason."""
    kernels = {kernel.name: kernel for kernel in KERNELS}
    held: tuple[Any, Any] = (None, None)
    for line in sys.stdin:
        name, gradient = json.loads(line)
        kernel = kernels[name]
        try:
            with limited(limit):
                if held[0] != line:
                    run = CONTESTANTS["native"](kernel, kernel.arguments(kernel.size), gradient)
                    held = line, run
                    for _ in range(2):  # because the second run may compile what the first did not
                        run()
                answer = _seconds(held[1])
        except Exception as reason:
            held = None, None
            answer = f"{type(reason).__name__}: {reason}"
        print(json.dumps(answer), flush=True)


def _seconds(run: Any) -> float:
    start, runs, spent = time.perf_counter(), 0, 0.0
    while spent < SHORTEST:
        run()
        runs += 1
        spent = time.perf_counter() - start
    return spent / runs


def _server(checkout: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).parent), "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(checkout)},
    )


def _ask(server: subprocess.Popen[str], name: str, gradient: bool) -> Any:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps([name, gradient]) + "\n")
    server.stdin.flush()
    return json.loads(server.stdout.readline())

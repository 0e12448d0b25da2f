"""Measure a function in a dtype with all engines, on the same arguments."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tools.accuracy.arguments import CHUNK, chunks, dtype_of
from tools.accuracy.engines import Run, run_of
from tools.accuracy.errors import error_of, estimates, exact_values
from tools.accuracy.function import Function
from tools.accuracy.worst import Worst

__all__ = ["Cell", "environment", "judged", "measured"]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "NumPy": ("tenferro/exec/kernels",),
    "compiled": ("tenferro/exec/kernels", "tenferro/exec/llvm"),
    "PJRT": ("lowering/emit",),
}
"""Folders with the code of each engine. The code of the public functions is in `FOLDERS`."""
PARTS = ("tenferro/api/normal_integral.py", "tenferro/api/polynomials.py")
FOLDERS = {"nn": ("tenferro/nn", *PARTS), "special": ("tenferro/special", *PARTS)}
"""Folders and files with the code of public functions.

The key is the module, such as `nn` for the function `nn.gelu`.
"""

WORST = 100
"""Number of arguments, those with the largest estimated errors, whose exact errors mpmath computes."""
ROUNDS = 5
"""Maximum number of rounds of `WORST` arguments.

After a round in which the reference was less accurate than the result, another round follows.
"""
SAMPLE = 1000
"""Number of random float64 arguments whose exact errors mpmath computes, whatever the reference estimates."""
EACH = 16
"""Maximum number of exact errors computed per chunk, so that one inaccurate range does not hide others."""

FLUSHED = 2.0**10
"""Largest result that XLA may return as zero, in units of the smallest normal number.

XLA flushes small intermediate values to zero.
"""


@dataclass(frozen=True)
class Cell:
    """Measurements of one function in one dtype.

    Attributes:
        count: number of arguments.
        judged: number of arguments whose exact errors mpmath computed.
        error: the largest error, in units in the last place.
        arguments: the arguments with this error.
        value: the result at these arguments.
    """

    count: int
    judged: int
    error: float
    arguments: tuple[float, ...]
    value: float

    def as_record(self) -> dict[str, Any]:
        """Return the measurements as a dictionary that JSON can store."""
        return asdict(self)


def environment(engine: str, name: str = "") -> dict[str, str]:
    """Return everything that may change an engine's results.

    These are the versions of packages, the processor, and a hash of the sources.
    """
    versions = {"code": _code((*FOLDERS.get(name.partition(".")[0], ()), *SOURCES[engine]))}
    for package in ("numpy", "scipy", "jaxlib", "llvmlite"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "none"
    return {**versions, "processor": _processor()}


def _code(folders: Iterable[str]) -> str:
    """Return a hash of the Python sources in these files and folders."""
    digest = sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")) or [ROOT / folder]:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    extra = [name for name in ("avx512f", "avx2", "fma") if f" {name}" in flags]
    return " ".join([platform.machine(), *extra])


@dataclass
class Way:
    """An engine under measurement: a function that runs it, the arguments with the largest errors, and a sample."""

    run: Run
    worst: Worst
    sample: list[np.ndarray]


def measured(
    function: Function, dtype: str, engines: Sequence[str], count: int
) -> dict[str, Cell | None]:
    """Return the measurement of each engine; None for an engine that cannot run the function."""
    runs = {engine: run_of(function, engine, dtype) for engine in engines}
    ways = {
        engine: Way(run, Worst(WORST * ROUNDS, EACH), [])
        for engine, run in runs.items()
        if run is not None
    }
    looked_at = 0
    rng = np.random.default_rng(0)
    for xs in chunks(function, dtype, count) if ways else ():
        exact = exact_values(function.reference, xs)
        several = 0
        if dtype == "float64" and looked_at < CHUNK * 5:
            several = SAMPLE // 8 if looked_at else SAMPLE // 2
        picked = rng.choice(CHUNK, several)
        for engine, way in ways.items():
            y = way.run(xs)
            left_out = _flushed(xs, exact, y, dtype) if engine == "PJRT" else None
            way.worst.add(estimates(exact, y), xs, y, left_out)
            taken = picked if left_out is None else picked[~left_out[picked]]
            if several:
                columns = [np.zeros(len(taken)), *[x[taken] for x in xs], y[taken]]
                way.sample += list(np.stack(columns, axis=1))
        looked_at += CHUNK
    return {
        engine: None
        if engine not in ways
        else judged(
            function, dtype, looked_at, ways[engine].sample, ways[engine].worst.entries(), WORST
        )
        for engine in engines
    }


def _flushed(xs: Sequence[np.ndarray], exact: np.ndarray, y: np.ndarray, dtype: str) -> np.ndarray:
    """Return a mask of the elements where XLA flushes an argument, an intermediate value or the result to zero."""
    tiny = float(ml_dtypes.finfo(dtype_of(dtype)).tiny)
    sizes = [np.abs(x.astype(np.float64)) for x in xs]
    small = [(size < tiny) & (size > 0) for size in sizes]
    of_value, of_exact = np.abs(y.astype(np.float64)), np.abs(exact)
    is_lost = (of_exact < tiny * FLUSHED) & (of_value < tiny)
    return np.any([*small, is_lost, of_exact < tiny * (1 + 2.0**-7)], axis=0)


def judged(
    function: Function,
    dtype: str,
    looked_at: int,
    sample: Sequence[np.ndarray],
    worst: Sequence[np.ndarray],
    least: int,
) -> Cell:
    """Compute exact errors of a random sample and of the arguments in `worst`, and return the largest."""
    best = (0.0, (), 0.0)
    number = 0
    for number, (estimate, *xs, value) in enumerate([*sample, *worst], 1):
        if number > least + len(sample) and estimate <= best[0]:
            break
        error = error_of(function, xs, value, dtype_of(dtype))
        if error > best[0]:
            best = (error, tuple(map(float, xs)), float(value))
        if math.isinf(error):
            break
    return Cell(looked_at, number, *best)

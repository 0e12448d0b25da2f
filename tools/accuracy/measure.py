"""One cell of the table: a function, a dtype and a way of running it."""

from __future__ import annotations

import math
import platform
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tools.accuracy.arguments import CHUNK, chunks, dtype_of
from tools.accuracy.engines import run_of
from tools.accuracy.errors import error_of, estimates
from tools.accuracy.functions import Function

__all__ = ["Cell", "environment", "measured"]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "NumPy": ("tenferro/exec/kernels",),
    "compiled": ("tenferro/exec/kernels", "tenferro/exec/llvm"),
    "PJRT": ("lowering/emit",),
}
"""Folders with the code of each way of running, beyond that of the public functions."""
Judged = tuple[float, tuple[float, ...], float]
"""The estimate of an error, the arguments, and the value."""

WORST = 100
"""Arguments of the largest estimates that are judged in many digits."""
ROUNDS = 5
"""How often as many more are judged, while the reference is more wrong than what is measured."""
SAMPLE = 1000
"""Random arguments in float64 that are judged in many digits, whatever the reference says."""
EACH = 16
"""Of one run of arguments, so that one bad stretch does not hide the others."""


@dataclass(frozen=True)
class Cell:
    """What was measured.

    Attributes:
        count: arguments that were looked at.
        error: the largest error, in units in the last place.
        arguments: where it is.
        value: what came out there.
    """

    count: int
    error: float
    arguments: tuple[float, ...]
    value: float

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def environment(engine: str) -> dict[str, str]:
    """What results of an engine may depend on: packages, the processor, and our code."""
    versions = {"code": _code(engine)}
    for name in ("numpy", "scipy", "jaxlib", "llvmlite"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "none"
    return {**versions, "processor": _processor()}


def _code(engine: str) -> str:
    """A hash of the sources that compute by this engine."""
    digest = sha256()
    for folder in ("tenferro/special", *SOURCES[engine]):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    extra = [name for name in ("avx512f", "avx2", "fma") if f" {name}" in flags]
    return " ".join([platform.machine(), *extra])


def measured(function: Function, dtype: str, engine: str, count: int) -> Cell | None:
    """The cell; None where there is no such way of running it."""
    run = run_of(function, engine, dtype)
    if run is None:
        return None
    tiny = float(ml_dtypes.finfo(dtype_of(dtype)).tiny)
    looked_at = 0
    rng = np.random.default_rng(0)
    worst: list[Judged] = []
    sample: list[Judged] = []
    for xs in chunks(function, dtype, count):
        y = run(xs)
        error = estimates(function, xs, y)
        small = [np.abs(x.astype(np.float64)) < tiny for x in (*xs, y)]
        # XLA takes subnormal numbers for zero.
        is_left_out = np.any(small, axis=0) & (engine == "PJRT")
        error[is_left_out] = 0.0
        worst += [_entry(error, xs, y, i) for i in np.argsort(-error)[:EACH] if error[i] > 0]
        if dtype == "float64" and len(sample) < SAMPLE:
            several = SAMPLE // 2 if not looked_at else SAMPLE // 8
            sample += [
                _entry(error, xs, y, i) for i in rng.choice(CHUNK, several) if not is_left_out[i]
            ]
        looked_at += CHUNK
        worst = sorted(set(worst), key=lambda entry: -entry[0])[: WORST * ROUNDS]
    best = Cell(looked_at, 0.0, (), 0.0)
    for number, (estimate, xs, value) in enumerate([*sample, *worst]):
        if number >= WORST + len(sample) and estimate <= best.error:
            break
        error = error_of(function, xs, value, dtype_of(dtype))
        if error > best.error:
            best = Cell(looked_at, error, xs, value)
        if math.isinf(error):
            break
    return best


def _entry(error: np.ndarray, xs: list[np.ndarray], y: np.ndarray, i: int) -> Judged:
    return float(error[i]), tuple([float(x[i]) for x in xs]), float(y[i])

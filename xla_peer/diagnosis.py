"""Implementation of `python -m xla_peer doctor`: which platforms work or fail, and which commands repair them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform as machine
import subprocess
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tenferro
from lowering import mlir_bindings
from tenferro.compile_cache import CACHE_VARIABLE, cache_in
from tenferro.errors import CompileWarning
from tenferro.exec.llvm import OLDEST, is_installed
from xla_peer.known_faults import known_fault

__all__ = ["DoctorReport", "PlatformReport", "doctor"]

PACKAGES = ("numpy", "scipy", "ml_dtypes", "optree", "opt_einsum", "llvmlite", "jax", "jaxlib")
PLUGINS = {
    "cuda": ("jax-cuda12-plugin", "jax-cuda13-plugin"),
    "rocm": ("jax-rocm60-plugin", "jax-rocm7-plugin"),
    "tpu": ("libtpu",),
}
"""Packages that provide each platform; any one of them suffices."""
COMMANDS = {
    "cpu": "pip install '.[xla]' in tenferro's checkout",
    "cuda": "pip install '.[cuda13]' (or cuda12) in tenferro's checkout",
    "rocm": "pip install 'jax[rocm]'",
    "tpu": "pip install '.[tpu]' in tenferro's checkout",
}
HARDWARE = {
    "cuda": ("/dev/nvidia0", "an NVIDIA device"),
    "rocm": ("/dev/kfd", "an AMD device"),
    "tpu": ("/dev/accel0", "a TPU"),
}
VARIABLES = (
    "JAX_PLATFORMS",
    "XLA_FLAGS",
    "JAX_ENABLE_X64",
    "JAX_COMPILATION_CACHE_DIR",
    CACHE_VARIABLE,
    "TENFERRO_NOTICES",
    "TENFERRO_TRACEBACK",
    "PJRT_NAMES_AND_LIBRARY_PATHS",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
)
SECONDS = 120
"""Maximum time to wait for a platform's answer, in seconds."""


@dataclass(frozen=True)
class PlatformReport:
    """The state of one platform.

    Attributes:
        status: "works", "wrong" if it runs with known wrong values, "fails" if its plugin is installed but does not
            run, or "missing".
        devices: the names of the platform's devices in PJRT.
        version: the platform's version, as PJRT reports it.
        packages: the installed packages that provide the platform, with versions.
        advice: the problem, and the command that solves it; empty if there is no problem.
    """

    name: str
    status: str
    devices: tuple[str, ...] = ()
    version: str = ""
    packages: tuple[str, ...] = ()
    advice: str = ""

    def __str__(self) -> str:
        version = [self.version] if self.version not in ("", self.name) else []
        words = ", ".join([*self.devices, *self.packages, *version, *self.advice.splitlines()])
        return f"{self.name:<6} {self.status:<8} {words}".rstrip()


@dataclass(frozen=True)
class DoctorReport:
    """The result of `doctor`; `print(report)` shows it, and `to_dict()` converts it for JSON.

    `ok` is true if a platform works, and no installed platform fails or is known to compute wrong values.

    Attributes:
        cache_problem: the reason why the folder TENFERRO_CACHE_DIR is not used; empty if the folder is used.
        loops: "compiled", or "interpreted", with the reason and the command that installs llvmlite.
    """

    versions: dict[str, str]
    stablehlo: tuple[str, str] | None
    environment: dict[str, str]
    platforms: tuple[PlatformReport, ...] = field(default=())
    cache_problem: str = ""
    loops: str = "compiled"

    @property
    def ok(self) -> bool:
        """Whether a platform works, and no installed platform fails or is known to compute wrong values."""
        states = {report.status for report in self.platforms}
        return "works" in states and states.isdisjoint(("fails", "wrong"))

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to JSON-compatible values."""
        return {**asdict(self), "ok": self.ok}

    def __repr__(self) -> str:
        statuses = ", ".join([f"{report.name} {report.status}" for report in self.platforms])
        return f"<DoctorReport {statuses}>"

    def __str__(self) -> str:
        lines = ["  ".join(f"{name} {version}" for name, version in self.versions.items())]
        if self.stablehlo is not None:
            lines.append(f"StableHLO artifacts: {self.stablehlo[0]} to {self.stablehlo[1]}")
        lines.append(f"loops and fused groups: {self.loops}")
        lines += [f"{name}={value}" for name, value in self.environment.items()]
        lines += (
            [f"{CACHE_VARIABLE} is not used: {self.cache_problem}"] if self.cache_problem else []
        )
        lines += [str(report) for report in self.platforms]
        return "\n".join(lines)


def doctor(platforms: Iterable[str] = ()) -> DoctorReport:
    """Run a program on each platform, in a separate process, and report which platforms work, fail or are missing.

    Args:
        platforms: names of platforms, or paths of PJRT plugins; if empty, all known and all installed platforms.

    >>> doctor(["cpu"]).platforms[0].status
    'works'
    """
    names = list(platforms) or ["cpu", *PLUGINS, *_others()]
    versions = {"tenferro": tenferro.__version__, "Python": machine.python_version()}
    versions |= {name: version for name in PACKAGES if (version := _version(name))}
    try:
        window = mlir_bindings.version_window()
    except ImportError:
        window = None
    cache = cache_in(None)
    return DoctorReport(
        versions=versions,
        stablehlo=window,
        environment={name: os.environ[name] for name in VARIABLES if name in os.environ},
        cache_problem="" if cache is None else cache.problem,
        platforms=tuple(_examined(name) for name in names),
        loops=_loops(),
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _loops() -> str:
    """Compile a loop natively, and return "compiled", or the reason why loops and fused groups are interpreted."""
    version, oldest = _version("llvmlite"), ".".join(map(str, OLDEST))
    if not is_installed():
        reason = f"{version} is older than {oldest}" if version else "is not installed"
        return f"interpreted: llvmlite {reason}; pip install 'llvmlite>={oldest}'"
    executor = tenferro.GraphExecutor(compiled=True, cache_dir="")
    x = np.ones(3)
    loop = tenferro.compile(lambda x: tenferro.fori_loop(0, 100, lambda i, y: y * 0.5 + x, x), x)
    with suppress(Exception), warnings.catch_warnings():  # the executor logs the reason
        warnings.simplefilter("ignore", CompileWarning)
        executor.run(loop, x)
    failures = executor.compile_stats().failures
    if not failures:
        return "compiled"
    return f"interpreted, because LLVM fails: {failures[0]} (llvmlite {version})"


def _others() -> list[str]:
    """Return the names of PJRT plugins of other packages: installed, or listed in PJRT_NAMES_AND_LIBRARY_PATHS."""
    names = {point.name for point in importlib.metadata.entry_points(group="jax_plugins")}
    named = os.environ.get("PJRT_NAMES_AND_LIBRARY_PATHS", "")
    names |= {entry.partition(":")[0] for entry in named.split(",") if ":" in entry}
    return sorted(name for name in names if not name.startswith(("cuda", "rocm", "xla_", "libtpu")))


def _examined(name: str) -> PlatformReport:
    wanted = ("jaxlib",) if name == "cpu" else PLUGINS.get(name, ())
    packages = tuple(f"{package} {version}" for package in wanted if (version := _version(package)))
    if wanted and not packages:
        path, words = HARDWARE.get(name, ("", ""))
        here = f"{words} is here, and no plugin for it; " if path and Path(path).exists() else ""
        return PlatformReport(name, "missing", advice=f"{here}{COMMANDS[name]}")
    answer = _asked(name)
    if "error" in answer or not answer.get("runs"):
        advice = answer.get("error", "a program gave wrong numbers")
        return PlatformReport(name, "fails", packages=packages, advice=advice)
    fault = known_fault(name)
    status = "wrong" if fault else "works"
    return PlatformReport(
        name, status, tuple(answer["devices"]), answer["version"], packages, fault
    )


def _asked(name: str) -> dict[str, Any]:
    """Run `xla_peer.probe` for a platform in a separate process, and return the probe's answer.

    If the process gives no answer, the result has the key "error", with a description of how the process ended.
    """
    command = [sys.executable, "-m", "xla_peer.probe", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"gave no answer in {SECONDS} s"}
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        last = "\n".join(done.stderr.strip().splitlines()[-3:])
        return {"error": f"the process ended with status {done.returncode}: {last}"}

"""Output of the suite: a JSON file, a table in docs/performance.md, and a plot."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from interleaved import put_into  # noqa: E402  # because the path comes first
from limits import Limits  # noqa: E402

from tenferro.program.profile import shown_seconds  # noqa: E402

__all__ = ["write"]

Result = dict[str, Any]
BOUNDS = ("limit", "loops")
"""Columns of the table that contain lower bounds of the time, not times of contestants."""


def write(results: list[Result], limits: Limits) -> None:
    """Write the JSON file, the table and the plot."""
    every = dict.fromkeys(name for result in results for name in result["times"])
    contestants = [name for name in every if name not in BOUNDS]
    (ROOT / "build").mkdir(exist_ok=True)
    about = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "numpy": np.__version__,
        "copied bytes per second": limits.bytes_per_second,
        "flops": {dtype.name: rate for dtype, rate in limits.flops.items()},
    }
    (ROOT / "build" / "suite.json").write_text(
        json.dumps({"about": about, "results": results}, indent=1)
    )
    rates = ", ".join(f"{rate / 1e9:.0f} GF/s in {dtype}" for dtype, rate in limits.flops.items())
    put_into(
        ROOT / "docs" / "performance.md",
        "suite",
        f"{table(results, [*contestants, *BOUNDS])}\n\nCopies moved {limits.bytes_per_second / 1e9:.1f} GB/s in that run; "
        f"products made {rates}.",
    )
    plot(results, contestants, ROOT / "docs" / "images" / "suite.png")


def table(results: list[Result], names: list[str]) -> str:
    """Return a Markdown table of medians. In brackets after a contestant's time is native's time divided by this
    time.

    The last columns have the times to the first result.
    """
    lines = [
        "| case | " + " | ".join(names) + " | first: native | first: jax.jit |",
        "| --- |" + " --- |" * (len(names) + 2),
    ]
    for result in results:
        times = result["times"]
        native = times["native"]["median"]
        cells: list[str] = []
        for name in names:
            if name not in times:
                cells.append("")
                continue
            median = times[name]["median"]
            ratio = "" if name == "native" else f" ({native / median:.2f})"
            cells.append(shown_seconds(median) + ratio)
        firsts = [
            shown_seconds(times[name]["first"]) if name in times else ""
            for name in ("native", "jax.jit")
        ]
        lines.append(f"| {result['case']} | " + " | ".join([*cells, *firsts]) + " |")
    return "\n".join(lines)


def plot(results: list[Result], names: list[str], path: Path) -> None:
    """Plot, for each case, the time of each other contestant divided by native's time."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.27 * len(results) + 1.4))
    places = range(len(results), 0, -1)
    for name, mark in zip([n for n in names if n != "native"], "osD^v", strict=False):
        points = [
            (r["times"][name]["median"] / r["times"]["native"]["median"], y)
            for r, y in zip(results, places, strict=True)
            if name in r["times"]
        ]
        axes.scatter(*zip(*points, strict=True), s=22, marker=mark, label=name, zorder=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(list(places), [r["case"] for r in results], fontsize=8)
    axes.set_xlabel("time over native time: right of the line, native is faster")
    axes.grid(axis="x", alpha=0.4)
    axes.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=130)

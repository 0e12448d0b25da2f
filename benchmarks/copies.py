"""Time of transposing copies, which change the order of an array's axes, compared with NumPy.

python benchmarks/copies.py            prints the table
python benchmarks/copies.py --write    also writes it into docs/performance.md
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from interleaved import medians, show

from tenferro.exec.kernels.copying import Dense
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Workers

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
SECONDS = 1.0
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Any]] = {
    "4096 x 1024 transposed, float32": ((4096, 1024), (1, 0), np.float32),
    "2048 x 2048 transposed, float64": ((2048, 2048), (1, 0), np.float64),
    "100 x 110 x 120 rotated": ((100, 110, 120), (2, 0, 1), np.float64),
    "six axes of 10 to 15 shuffled": ((10, 11, 12, 13, 14, 15), (5, 3, 1, 4, 2, 0), np.float64),
    "20 axes of 2 reversed": ((2,) * 20, tuple(range(19, -1, -1)), np.float64),
    "2 x 1,000,000 transposed": ((2, 1_000_000), (1, 0), np.float64),
}


def table() -> str:
    """Return a table of the times of transposing copies, here and by NumPy.

    Each is divided by the time of a contiguous copy of the same array.
    """
    dense = Dense("C", Resources(Workers(None), Pool(1 << 30)))
    lines = ["| | NumPy, in plain copies | here |", "| --- | --- | --- |"]
    for name, (shape, perm, dtype) in CASES.items():
        x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        view = x.transpose(perm)
        times = medians(
            {
                "plain": x.copy,
                "numpy": lambda view=view: np.ascontiguousarray(view),
                "here": lambda view=view: dense(view),
            },
            SECONDS,
        )
        cells = [f"{times[who] / times['plain']:.1f}" for who in ("numpy", "here")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    show(table(), PAGE, "copies")

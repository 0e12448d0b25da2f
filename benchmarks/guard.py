"""Time that is spent on reading modules in a separate process for safety: `python benchmarks/guard.py`.

A small artifact and an artifact of 50 MB are imported, loaded and compiled. Runs that read in a separate process
(guarded) alternate with runs that do not (trusted).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from interleaved import medians

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo


def layer(x: Any) -> Any:
    """Compute a few operations. The small artifact contains this function."""
    return tnf.softmax(x @ tnf.tanh(x))


def table(x: Any) -> Any:
    """Add a constant to x. The artifact of 50 MB contains this function with its constant."""
    return x + tnf.asarray(np.random.default_rng(0).random(x.shape))


def compiled(path: Path, trusted: bool = False) -> Any:
    """Load an artifact, in a separate process unless `trusted`, and compile it for the CPU."""
    return xla_peer.load(path, trusted=trusted).compile(XLA)


XLA = xla_peer.XlaExecutor()


def main() -> None:
    """Print the times of importing, loading and compiling the artifacts, trusted and guarded."""
    start = time.perf_counter()
    import_stablehlo("module { func.func @main() { return } }")
    first = time.perf_counter() - start
    print(f"the first module, which starts the process: {1e3 * first:.0f} ms")
    print(f"{'':34}{'trusted':>12}{'guarded':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for fn, x, seconds in ((layer, np.ones((8, 8)), 3.0), (table, np.ones(6_250_000), 15.0)):
            for suffix in (".mlir", ".mlirbc"):
                path = Path(folder) / f"{fn.__name__}{suffix}"
                xla_peer.export(fn, x, path=path, largest_constant=1 << 30)
                for read in (xla_peer.load, compiled, import_stablehlo):
                    times = medians(
                        {
                            "trusted": lambda: read(path, trusted=True),
                            "guarded": lambda: read(path),
                        },
                        seconds,
                    )
                    trusted, guarded = times["trusted"], times["guarded"]
                    size = path.stat().st_size / 1e6
                    name = f"{read.__name__}, {suffix} of {size:.3g} MB"
                    print(
                        f"{name:34}{1e3 * trusted:9.1f} ms{1e3 * guarded:9.1f} ms{guarded / trusted:8.1f}"
                    )


if __name__ == "__main__":
    main()

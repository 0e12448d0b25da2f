"""PyTorch's compiler, Inductor, on CPUs: `torch.compile` translates NumPy source. Needs torch and tenferro."""

from __future__ import annotations

import runpy
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def version() -> str:
    """Import all that a run needs, before any fork, and return the version."""
    for name in ("torch", "lowering", "xla_peer.numpy_export"):
        import_module(name)
    return str(import_module("torch").__version__)


def run(module: str | bytes, arrays: Sequence[Any]) -> list[Any]:
    """Print a module as a NumPy function, and run it compiled by PyTorch; fail if PyTorch cannot compile it."""
    lowering, export = import_module("lowering"), import_module("xla_peer.numpy_export")
    torch = import_module("torch")
    with tempfile.TemporaryDirectory(prefix="tenferro-torch-") as folder:
        path = Path(folder) / "printed.py"
        export.save_numpy(lowering.to_numpy(lowering.import_stablehlo(module)), path)
        main = runpy.run_path(str(path))["main"].__wrapped__  # because decorators break graphs
        results = torch.compile(main, fullgraph=True)(*arrays)
    return [np.asarray(y) for y in (results if isinstance(results, tuple) else (results,))]

"""Adapter of PyTorch's compiler, Inductor, on CPUs. Needs torch and tenferro.

The module is written as NumPy source, which `torch.compile` compiles.
"""

from __future__ import annotations

import runpy
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np


def version() -> str:
    """Import the needed modules, so that forks need not import them, and return the version of PyTorch."""
    for name in ("torch", "lowering", "xla_peer.numpy_export"):
        import_module(name)
    return str(import_module("torch").__version__)


def run(module: str | bytes, arrays: Sequence[Any]) -> list[Any]:
    """Write a module as a NumPy function, and run it compiled by PyTorch; fail if PyTorch cannot compile it whole."""
    lowering, export = import_module("lowering"), import_module("xla_peer.numpy_export")
    torch = import_module("torch")
    with tempfile.TemporaryDirectory(prefix="tenferro-torch-") as folder:
        path = Path(folder) / "printed.py"
        export.save_numpy(lowering.to_numpy(lowering.import_stablehlo(module)), path)
        main = runpy.run_path(str(path))[
            "main"
        ].__wrapped__  # torch.compile cannot trace through the decorator
        results = torch.compile(main, fullgraph=True)(*arrays)
    return [np.asarray(y) for y in (results if isinstance(results, tuple) else (results,))]

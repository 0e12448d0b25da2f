"""Adapter of TVM's compiler for CPUs, which receives ONNX models. Needs the packages apache-tvm, onnx and tenferro."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np


def version() -> str:
    """Import the needed modules, so that forks need not import them, and return the version of TVM."""
    for name in ("tvm.relax.frontend.onnx", "onnx", "lowering", "xla_peer.onnx"):
        import_module(name)
    return str(import_module("tvm").__version__)


def run(module: str | bytes, arrays: Sequence[Any]) -> list[Any]:
    """Convert a module to ONNX, compile it for this processor, and run it."""
    tvm, frontend = import_module("tvm"), import_module("tvm.relax.frontend.onnx")
    lowering, onnx = import_module("lowering"), import_module("xla_peer.onnx")
    model = onnx.to_onnx(lowering.import_stablehlo(module))
    compiled = tvm.compile(frontend.from_onnx(model), target="llvm")
    machine = tvm.relax.VirtualMachine(compiled, tvm.cpu())
    results = machine["main"](*[tvm.runtime.tensor(np.ascontiguousarray(x)) for x in arrays])
    is_one = len(model.graph.output) == 1
    return [y.numpy() for y in ([results] if is_one and hasattr(results, "numpy") else results)]

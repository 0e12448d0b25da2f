"""Adapter of onnxruntime on CPUs, which receives ONNX models. Needs the packages onnxruntime, onnx and tenferro."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module, metadata
from typing import Any


def version() -> str:
    """Import the needed modules, so that forks need not import them, and return the version of onnxruntime."""
    for name in ("onnxruntime", "onnx", "lowering", "xla_peer.onnx"):
        import_module(name)
    return metadata.version("onnxruntime")


def run(module: str | bytes, arrays: Sequence[Any]) -> list[Any]:
    """Convert a module to ONNX, and run it on one thread."""
    lowering, onnx = import_module("lowering"), import_module("xla_peer.onnx")
    model = onnx.to_onnx(lowering.import_stablehlo(module))
    return list(onnx.run(model, arrays, "onnxruntime"))

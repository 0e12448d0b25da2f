"""Decomposition of ops that ONNX lacks: a NumPy function for the op is traced, and the traced ops become ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tenferro as tnf
from tenferro.types import DType, TensorSpec
from xla_peer.onnx.writer import Value, Writer

__all__ = ["decomposed", "written"]


def written(w: Writer, function: Callable[..., Any], *xs: Value) -> list[Value]:
    """Trace a NumPy function for values of these types, write the nodes of its ops, and return its results."""
    program = tnf.compile(function, *[x.spec for x in xs])
    return w.program(program, xs)


def decomposed(function: Callable[..., Any]) -> Any:
    """Return a function that writes an op as the traced ops of `function`, with float16 computed in float32."""

    def cell(op: Any, w: Writer, *xs: Value) -> Value:
        specs = w.specs
        wide = [w.cast(x, DType.F32) if x.dtype is DType.F16 else x for x in xs]
        (y,) = written(w, function, *wide)
        return w.cast(Value(y.name, TensorSpec.of(specs[0].shape, y.dtype)), specs[0].dtype)

    return cell

"""Decompositions of ops that ONNX lacks. A NumPy function for the op is traced, and its ops are written as nodes."""

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
    """Return a writer of an op that traces `function`; float16 operands are computed in float32."""

    def cell(op: Any, w: Writer, *xs: Value) -> Value:
        specs = w.specs
        wide = [w.cast(x, DType.F32) if x.dtype is DType.F16 else x for x in xs]
        (y,) = written(w, function, *wide)
        return w.cast(Value(y.name, TensorSpec.of(specs[0].shape, y.dtype)), specs[0].dtype)

    return cell

"""Extension operations that tests of several chapters of the specification use."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import tenferro as tnf
from tenferro.extension import ExtensionOp, HostReferenceRuntime, apply, extension_family

__all__ = ["PEERS", "Scale", "X", "compiled", "operation", "runs_without"]

X = np.array([1.0, 2.0, 3.0])
PEERS = {"jax", "jaxlib", "lowering", "xla_peer"}
"""Packages that only the XLA peer may import."""


@extension_family("specification", "scale", version=1, runtime=HostReferenceRuntime)
@dataclass(frozen=True)
class Scale(ExtensionOp):
    """y = factor x."""

    factor: Any = 2.0

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [self.factor * inputs[0]]


def operation(name: str, **members: Any) -> Any:
    """Return an operation of the family `specification.<name>.v1`, without a payload.

    Its class has the given members. By default, the result has the type of the input, and the runtime calls
    `eager_execute`.
    """
    parts = {"runtime": members.pop("runtime", HostReferenceRuntime)}
    parts.update({key: members.pop(key) for key in ("rules", "batch") if key in members})
    cls = type(name, (ExtensionOp,), {"infer_output_meta": Scale.infer_output_meta, **members})
    brought = {key: part for key, part in parts.items() if part is not None}
    return extension_family("specification", name, version=1, **brought)(cls)()


def runs_without(modules: set[str], code: str) -> None:
    """Run code in a new process; require that the process imports none of these modules."""
    check = f"\nimport sys\nassert not {modules!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code + check], check=True)


def compiled(op: Any, *arrays: Any) -> tnf.GraphProgram:
    """Compile a program that applies an operation once, to these arrays."""
    return tnf.compile(lambda *xs: apply(op, *xs), *(arrays or (X,)))

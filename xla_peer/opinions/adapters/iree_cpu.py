"""Adapter of IREE's compiler for CPUs. Needs the packages iree-base-compiler and iree-base-runtime."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module, metadata
from typing import Any

import numpy as np

FLAGS = ("--iree-llvmcpu-target-cpu=host", "--iree-input-demote-f64-to-f32=false")


def version() -> str:
    """Import the compiler, so that forks of this process need not import it, and return its version."""
    import_module("iree.compiler")
    import_module("iree.runtime")
    return metadata.version("iree-base-compiler")


def run(module: str, arrays: Sequence[Any]) -> list[Any]:
    """Compile a module for this processor, and run it."""
    compiler, runtime = import_module("iree.compiler"), import_module("iree.runtime")
    compiled = compiler.compile_str(
        module, target_backends=["llvm-cpu"], input_type="stablehlo", extra_args=list(FLAGS)
    )
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    loaded = runtime.VmModule.copy_buffer(context.instance, compiled)
    context.add_vm_module(loaded)
    results = context.modules[loaded.name]["main"](*arrays)
    return [np.asarray(y) for y in (results if isinstance(results, tuple | list) else [results])]

"""Adapter of the CPU compiler of jaxlib 0.8 or later, without JAX.

The file runs in an environment that contains this jaxlib. Like `xla_peer.pjrt`, it calls functions of jaxlib's private
modules.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np


def version() -> str:
    """Import jaxlib, so that forks of this process need not import it, and return its version."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # before XLA logs each client
    jaxlib: Any = import_module("jaxlib")
    import_module("jaxlib.xla_client")
    return str(jaxlib.__version__)


def run(
    module: str, arrays: Sequence[Any], options: Mapping[str, bool | int | str] | None = None
) -> list[Any]:
    """Compile a module with the given debug options of XLA, run it on arrays, and return its results."""
    from jaxlib import xla_client

    if "@lapack_" in module:
        from jaxlib.cpu import _lapack

        _lapack.initialize()
        for name, handler in _lapack.registrations().items():
            is_ffi = 1 if name.endswith("_ffi") else 0
            xla_client.register_custom_call_target(
                name, handler, platform="cpu", api_version=is_ffi
            )
    client = xla_client.make_cpu_client()
    device = client.devices()[0]
    settings = xla_client.CompileOptions()
    settings.num_replicas = settings.num_partitions = 1
    settings.env_option_overrides = list((options or {}).items())
    compiled = client.compile_and_load(module, xla_client.DeviceList((device,)), settings)
    inputs = [_buffer(np.ascontiguousarray(x).reshape(np.shape(x)), device) for x in arrays]
    results = compiled.execute_sharded(inputs).disassemble_into_single_device_arrays()
    return [_host(shards[0]) for shards in results]


def stablehlo_of(module: str) -> str:
    """Convert a module from HLO text, as XLA dumps it, to StableHLO text."""
    _jax = import_module("jaxlib._jax")
    try:
        hlo = import_module("jaxlib._hlo")
    except ImportError:  # before 0.10.2
        hlo = _jax
    parsed = hlo.hlo_module_from_text(module)
    bytecode = _jax.mlir.hlo_to_stablehlo(parsed.as_serialized_hlo_module_proto())
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import mhlo, stablehlo

    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    context.allow_unregistered_dialects = True
    stablehlo.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    with context:
        return str(ir.Module.parse(bytecode))


def _buffer(x: Any, device: Any) -> Any:
    """Put an array on the device."""
    _jax = import_module("jaxlib._jax")
    if hasattr(device.client, "buffer_from_pyval"):  # before 0.10
        return device.client.buffer_from_pyval(x, device)
    if x.dtype.kind not in "biufc":
        raise TypeError(f"arguments of {x.dtype} are not passed; convert them in the module")
    return _jax.dlpack_managed_tensor_to_buffer(x.__dlpack__(), device, None, None)


def _host(shard: Any) -> Any:
    """Copy a result to a NumPy array."""
    convert = getattr(shard, "_single_device_array_to_np_array_did_copy", None)
    return np.array(np.asarray(shard) if convert is None else convert()[0])

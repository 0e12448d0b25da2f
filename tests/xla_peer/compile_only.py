"""Script that compiles modules for a platform whose device is absent, and prints a line for each module.

    python compile_only.py tpu|cuda WHEELS < modules.json

WHEELS is a folder into which pip has installed `libtpu`, or `jax-cuda12-pjrt` and `jax-cuda12-plugin`. The input is a
JSON object from names to StableHLO texts. Each output line is a JSON list of a name and an error. The error is "" if
the module was compiled.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any

import numpy as np

H100 = """gpu_device_info { threads_per_block_limit: 1024 threads_per_warp: 32
shared_memory_per_block: 49152 shared_memory_per_core: 233472 threads_per_core_limit: 2048
core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
block_dim_limit_z: 65535 memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
device_memory_size: 84942979072 shared_memory_per_block_optin: 232448
cuda_compute_capability { major: 9 } registers_per_core_limit: 65536 registers_per_block_limit: 65536
thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64 device_address_bits: 64
device_vendor: "NVIDIA Corporation" name: "NVIDIA H100 80GB HBM3" driver_version: "12.8.0"
runtime_version: "12.8.0" compile_time_toolkit_version: "12.8.0" dnn_version: "9.10.0" }
platform_name: "CUDA" dnn_version_info { major: 9 minor: 10 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3" """
"""Description of a GPU for the compiler. The GPU itself can be absent."""


def tpu_topology(wheels: str) -> Any:
    os.environ.update(
        TPU_SKIP_MDS_QUERY="1",
        TPU_ACCELERATOR_TYPE="v5litepod-4",
        TPU_WORKER_HOSTNAMES="localhost",
        TPU_WORKER_ID="0",
    )
    from jaxlib import xla_client as xc

    api = xc.load_pjrt_plugin_dynamically("tpu", f"{wheels}/libtpu/libtpu.so")
    xc.initialize_pjrt_plugin("tpu")
    return xc.make_c_api_device_topology(api, "v5e:2x2", chips_per_host_bounds=[2, 2, 1])


def cuda_topology(wheels: str) -> Any:
    sys.path.insert(0, wheels)
    from jax_cuda12_plugin import cuda_plugin_extension
    from jaxlib import gpu_linalg, gpu_solver
    from jaxlib import xla_client as xc

    library = f"{wheels}/jax_plugins/xla_cuda12/xla_cuda_plugin.so"
    api = xc.load_pjrt_plugin_dynamically("cuda", library)
    xc.initialize_pjrt_plugin("cuda")
    register = functools.partial(cuda_plugin_extension.register_custom_call_target, api)
    xc.register_custom_call_handler("CUDA", register)
    for module in (gpu_solver, gpu_linalg):
        for platform, targets in module.registrations().items():
            for name, value, version in targets:
                xc.register_custom_call_target(name, value, platform=platform, api_version=version)
    return xc.make_c_api_device_topology(api, "", target_config=H100, topology="1x1x1")


def main(platform: str, wheels: str) -> None:
    topology = {"tpu": tpu_topology, "cuda": cuda_topology}[platform](wheels)
    devices = topology._make_compile_only_devices()
    from jaxlib import _jax
    from jaxlib import xla_client as xc
    from jaxlib.mlir import ir

    from lowering import mlir_bindings

    for name, text in json.load(sys.stdin).items():
        options = xc.CompileOptions()
        options.num_replicas = options.num_partitions = 1
        options.device_assignment = xc.DeviceAssignment.create(np.zeros((1, 1), np.int32))
        if platform == "cuda":
            options.env_option_overrides = [("xla_gpu_autotune_level", 0)]
        error = ""
        try:
            with mlir_bindings.context():
                module = ir.Module.parse(text)
            devices[0].client.compile(
                module,
                executable_devices=_jax.DeviceList(tuple(devices[:1])),
                compile_options=options,
            )
        except Exception as failure:
            error = str(failure)[:500] or repr(failure)
        print(json.dumps([name, error]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""PJRT through jaxlib: the one file with calls that jax does not promise to keep.

Each function says which call it relies on, so that a new jaxlib is one file to check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.errors import BackendFailureError, PlatformUnavailableError

__all__ = [
    "available_platforms",
    "client",
    "compile_module",
    "execute",
    "initialize_lapack",
    "put",
    "to_numpy",
]

_INSTALL = {
    "cpu": "pip install 'tenferro[xla]'",
    "cuda": "pip install 'tenferro[cuda13]' (or cuda12) on a machine with an NVIDIA driver",
    "gpu": "pip install 'tenferro[cuda13]' (or cuda12) on a machine with an NVIDIA driver",
    "tpu": "pip install 'tenferro[tpu]' on a machine with a TPU",
}


def _jax() -> Any:
    try:
        import jax
        from jax.extend import backend
    except ImportError as error:
        raise PlatformUnavailableError(f"jax is not installed; {_INSTALL['cpu']}") from error
    return jax, backend


def client(platform: str) -> Any:
    """Jax's own PJRT client of that platform, so that arrays can be shared with jax.

    Relies on jax.extend.backend.get_backend.

    Raises:
        PlatformUnavailableError: names the platforms there are, and how to install the missing one.
    """
    _, backend = _jax()
    try:
        found = backend.get_backend(platform)
    except (RuntimeError, AssertionError) as error:
        hint = _INSTALL.get(
            platform, "install its PJRT plugin, and see that JAX_PLATFORMS allows it"
        )
        raise PlatformUnavailableError(
            f"platform {platform!r} is not available; available: {available_platforms()}; "
            f"{hint}. PJRT says: {error}"
        ) from None
    return found


def available_platforms() -> list[str]:
    """The platforms jax finds here."""
    _, backend = _jax()
    try:
        return sorted(backend.backends())
    except (RuntimeError, AssertionError):
        return []


def initialize_lapack() -> None:
    """Bind scipy's LAPACK to the handlers that `import jax` registers; without it a call crashes.

    Relies on jaxlib.cpu._lapack.initialize.
    """
    from jaxlib.cpu import _lapack

    _lapack.initialize()


def compile_module(
    pjrt_client: Any, device: Any, text: str | bytes, options: Mapping[str, bool | int | str]
) -> Any:
    """Compile StableHLO for one device, with XLA debug options by name.

    Relies on jax.extend.backend.get_compile_options and Client.compile_and_load.

    Raises:
        BackendFailureError: XLA refused the module or an option.
    """
    _, backend = _jax()
    if "lapack_" in (text if isinstance(text, str) else ""):
        initialize_lapack()
    compile_options = backend.get_compile_options(
        num_replicas=1, num_partitions=1, backend=pjrt_client
    )
    compile_options.env_option_overrides = list(options.items())
    try:
        return pjrt_client.compile_and_load(text, [device], compile_options)
    except Exception as error:
        raise BackendFailureError(f"XLA could not compile the module: {error}") from error


def put(array: np.ndarray[Any, Any], device: Any) -> Any:
    """A NumPy array on the device, in its own dtype whatever jax_enable_x64 says.

    Relies on jaxlib._jax.batched_device_put, jax.core.ShapedArray and SingleDeviceSharding.
    """
    jax, _ = _jax()
    from jaxlib import _jax as jaxlib_private  # pyright: ignore[reportAttributeAccessIssue]  # because it ships no stubs

    dense = np.array(array, order="C", copy=None)
    aval = jax.core.ShapedArray(dense.shape, dense.dtype)
    sharding = jax.sharding.SingleDeviceSharding(device)
    with _wide_dtypes(jax):
        return jaxlib_private.batched_device_put(aval, sharding, [dense], [device])


def _wide_dtypes(jax: Any) -> Any:
    """64-bit dtypes allowed in this thread while the context lasts; the user's setting stays."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # pyright: ignore[reportAttributeAccessIssue]  # because only older jax has it

    return enable_x64()


def execute(executable: Any, buffers: Sequence[Any]) -> list[Any]:
    """Run on device arrays; PJRT checks only how many bytes they have, so the caller must have.

    Relies on LoadedExecutable.execute_sharded.
    """
    try:
        results = executable.execute_sharded(list(buffers))
        return [shards[0] for shards in results.disassemble_into_single_device_arrays()]
    except Exception as error:
        raise BackendFailureError(f"PJRT could not run the program: {error}") from error


def to_numpy(array: Any) -> np.ndarray[Any, Any]:
    """A device array as a fresh, writeable NumPy array."""
    return np.array(np.asarray(array))

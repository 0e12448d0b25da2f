"""`host_array`: conversion to a NumPy array that never copies from another device."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.errors import BackendFailureError, DTypeError, InvalidConfigError, TenferroError
from tenferro.interruption import is_interruption
from tenferro.types.dtype import DType

__all__ = ["has_dtype", "host_array"]

HOST_MEMORY = frozenset({1, 3, 11, 13})
"""Numbers in DLPack for devices whose memory a CPU can read: CPU, CUDA and ROCm pinned memory, CUDA managed memory."""


def host_array(value: Any, name: str) -> np.ndarray[Any, Any]:
    """Convert a value to a NumPy array, without a copy if possible.

    An array on another device is an error. NumPy itself would copy an array from a GPU, or gather a sharded array,
    without a warning.

    Args:
        name: the name of the argument or result, for the error message.

    Raises:
        BackendFailureError: the array is not on the host, or is on several devices; or NumPy cannot read an array of
            another library, such as a bfloat16 tensor of PyTorch.
        InvalidConfigError: the value is a PyTorch tensor that requires grad; its gradient would be lost.
        ValueError, TypeError: NumPy rejects the value, or its conversion to an array fails.

    >>> host_array([1.0, 2.0], "x")
    array([1., 2.])
    """
    if not isinstance(value, np.ndarray | np.generic) and not _is_on_host(value):
        raise BackendFailureError(
            f"{name}: this {type(value).__name__} is on {_device_name(value)}, and is not copied to the host "
            "unasked; pass numpy.asarray(x) or jax.device_get(x), or run on the device by XlaExecutor.compile"
        )
    if getattr(value, "requires_grad", None) is True:
        raise InvalidConfigError(
            f"{name}: this {type(value).__name__} requires grad, which would be lost "
            "here; pass x.detach()"
        )
    producer: Any = value
    cls = type(value)
    crosses = hasattr(cls, "__dlpack__") and not isinstance(value, np.ndarray | np.generic)
    try:
        if crosses and not hasattr(cls, "__array__"):
            return np.from_dlpack(producer)
        return np.asarray(producer)
    except Exception as error:
        if is_interruption(error):
            raise
        if any(base.__name__ == "Tracer" for base in cls.__mro__):
            raise BackendFailureError(
                f"{name}: this {cls.__name__} is a tracer, which has no elements; call the function outside of "
                "jax.jit and JAX's transformations, or use xla_peer.to_jax(program) inside"
            ) from None
        if crosses and isinstance(
            error, BufferError | RuntimeError | TypeError
        ):  # torch's bfloat16
            raise BackendFailureError(
                f"{name}: NumPy does not read this {cls.__name__}: {error}"
            ) from None
        if isinstance(error, TenferroError | ValueError | TypeError | MemoryError):
            raise
        raise DTypeError(
            f"{name}: NumPy does not read this {cls.__name__}: {type(error).__name__}: {error}"
        ) from None


def has_dtype(value: Any) -> bool:
    """Return whether `value` has an attribute `dtype` of NumPy or tenferro. A dtype of PyTorch does not count.

    >>> has_dtype(np.ones(2)), has_dtype(1.0)
    (True, False)
    """
    return isinstance(getattr(value, "dtype", None), np.dtype | DType | str | type)


def _is_on_host(value: Any) -> bool:
    if not hasattr(type(value), "__dlpack_device__"):
        return True  # the object has no device
    try:
        kind, _ = value.__dlpack_device__()
    except BufferError:
        return False  # JAX raises it for several devices, and for devices that DLPack does not know
    except (ValueError, TypeError, RuntimeError):
        return True  # the memory has no device, and NumPy raises by itself
    return int(kind) in HOST_MEMORY


def _device_name(value: Any) -> str:
    """Return the name of the device of an array, in the notation of the array's library."""
    if not hasattr(value, "devices"):
        return str(getattr(value, "device", "another device"))
    names = sorted(map(str, value.devices()))
    return f"{len(names)} devices ({names[0]}, ..)" if len(names) > 1 else names[0]

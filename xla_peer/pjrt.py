"""Interface to PJRT through jaxlib; no other file calls non-public functions of jax.

Each function lists the non-public names that it uses, so that only this file must be checked for a new jaxlib.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from lowering.mlir_bindings import parsed
from tenferro.errors import (
    BackendFailureError,
    InvalidConfigError,
    PlatformUnavailableError,
    ShapeError,
)
from tenferro.interruption import is_interruption
from tenferro.types import TensorSpec, TreeDef, unflatten
from xla_peer.aligned import empty
from xla_peer.forking import require_own_client

__all__ = [
    "available_platforms",
    "cache_identity",
    "client",
    "compile_module",
    "compile_options",
    "deserialized",
    "failed",
    "failures",
    "fast_call",
    "fetched",
    "initialize_hybrid",
    "initialize_lapack",
    "is_device_array",
    "is_gone",
    "is_row_major",
    "jaxlib_version",
    "knows_trees",
    "merge_module",
    "modules",
    "moved",
    "named_platform",
    "named_sharding",
    "on_one",
    "placed",
    "prepare",
    "put",
    "put_dlpack",
    "put_local",
    "put_sharded",
    "require_equal_replicas",
    "require_same_in_all_processes",
    "serialized",
    "serialized_options",
    "wide_dtypes",
]

_INSTALL = {
    "cpu": "pip install '.[xla]' in tenferro's checkout",
    "cuda": "pip install '.[cuda13]' (or cuda12) in tenferro's checkout, on a machine with an NVIDIA driver",
    "gpu": "pip install '.[cuda13]' (or cuda12) in tenferro's checkout, on a machine with an NVIDIA driver",
    "tpu": "pip install '.[tpu]' in tenferro's checkout, on a machine with a TPU",
}


@cache
def modules() -> Any:
    """Import and return jax and jax.extend.backend.

    Raises:
        PlatformUnavailableError: jax is not installed, or cannot be loaded.
    """
    try:
        import jax
        from jax.extend import backend
    except (ImportError, OSError, MemoryError) as error:
        if find_spec("jax") is None:
            raise PlatformUnavailableError(f"jax is not installed; {_INSTALL['cpu']}") from error
        raise PlatformUnavailableError(f"jax cannot be loaded: {error}") from error
    return jax, backend


def client(name: str) -> Any:
    """Return the PJRT client of a platform: JAX's own, so that arrays can be shared with JAX, or a plugin's.

    Relies on jax.extend.backend.get_backend.

    Args:
        name: a platform of jax, or the path of a PJRT plugin.

    Raises:
        PlatformUnavailableError: the platform is missing; the message names the available platforms, and the command
            that installs the missing one.
    """
    require_own_client()
    if os.path.sep in name:
        return _plugin_client(os.path.abspath(name))
    _, backend = modules()
    try:
        pjrt_client = backend.get_backend(name)
    except (RuntimeError, AssertionError) as error:
        hint = _INSTALL.get(name, "install its PJRT plugin, and see that JAX_PLATFORMS allows it")
        raise PlatformUnavailableError(
            f"platform {name!r} is not available; available: {available_platforms()}; "
            f"{hint}. PJRT says: {str(error) or 'it started no device'}"
        ) from None
    return pjrt_client


def named_platform(name: str, pjrt_client: Any) -> str:
    """Return the name of a platform; "gpu", which JAX uses for several platforms, is replaced by the client's own name.

    Relies on Client.platform_version, which begins with the client's own name.
    """
    return str(pjrt_client.platform_version).split()[0] if name == "gpu" else name


@cache  # because a plugin can be loaded only once per process
def _plugin_client(path: str) -> Any:
    """Create the client of a PJRT plugin in a shared library.

    Relies on xla_client's load_pjrt_plugin_dynamically, initialize_pjrt_plugin and make_c_api_client.
    """
    modules()
    from jaxlib import xla_client

    if not os.path.isfile(path):
        raise PlatformUnavailableError(f"plugin {path}: there is no such file")
    name = os.path.basename(path).partition(".")[0]
    try:
        xla_client.load_pjrt_plugin_dynamically(name, path)
        xla_client.initialize_pjrt_plugin(name)
        return xla_client.make_c_api_client(name, {})
    except Exception as error:
        if is_interruption(error):
            raise
        raise PlatformUnavailableError(f"plugin {path}: PJRT says: {error}") from None


def available_platforms() -> list[str]:
    """Return the names of the platforms that jax finds on this machine."""
    _, backend = modules()
    try:
        return sorted(backend.backends())
    except (RuntimeError, AssertionError):
        return []


def initialize_lapack() -> None:
    """Bind scipy's LAPACK to the handlers that `import jax` registers; an unbound handler crashes.

    Relies on jaxlib.cpu._lapack.initialize.
    """
    from jaxlib.cpu import _lapack

    _lapack.initialize()


def compile_options(
    pjrt_client: Any,
    devices: Sequence[Any],
    options: Mapping[str, bool | int | str],
    level: int | None,
) -> Any:
    """Create the options that compile one program for the given devices.

    Args:
        options: XLA's debug options, by name.
        level: XLA's optimisation level, from 0 to 3; None for the default.

    Relies on jax.extend.backend.get_compile_options, and ExecutableBuildOptions' partitioner switches.
    """
    _, backend = modules()
    assignment = np.array([[device.id for device in devices]], np.int32)
    compiled_options = backend.get_compile_options(
        num_replicas=1,
        num_partitions=len(devices),
        device_assignment=assignment,
        backend=pjrt_client,
    )
    if len(devices) > 1:
        build = compiled_options.executable_build_options
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
    overrides = dict(options)
    if level is not None:
        overrides["xla_backend_optimization_level"] = level
    compiled_options.env_option_overrides = list(overrides.items())
    return compiled_options


def compile_module(
    pjrt_client: Any,
    devices: Sequence[Any],
    text: str,
    options: Any,
    callbacks: Sequence[Callable[..., Sequence[Any]]] = (),
) -> Any:
    """Compile a StableHLO module for the given devices.

    Args:
        options: the result of `compile_options`.
        callbacks: the Python functions of arrays that the module calls by their index in this sequence.

    Relies on Client.compile_and_load, with `host_callbacks` for a module of MLIR's and a DeviceList.

    Raises:
        InvalidConfigError: XLA has no option of one of the names.
        BackendFailureError: XLA could not compile the module.
    """
    prepare(text)
    try:
        if callbacks:
            from jaxlib import _jax as jaxlib_private  # pyright: ignore[reportAttributeAccessIssue]  # because it ships no stubs

            chosen = jaxlib_private.DeviceList(tuple(devices))
            called = [_reported(function) for function in callbacks]
            return pjrt_client.compile_and_load(parsed(text), chosen, options, called)
        return pjrt_client.compile_and_load(text, list(devices), options)
    except Exception as error:
        if is_interruption(error):
            raise
        if "compile option" in str(error) or "option" in str(error).lower()[:60]:
            raise InvalidConfigError(f"options: {error}") from None
        raise BackendFailureError(f"XLA could not compile the module: {error}") from error


_RAISED: dict[int, Exception] = {}
MOST_RAISED = 100
"""Maximum number of exceptions of callbacks that are kept until the results of their runs are read."""
_NUMBERS = itertools.count()
_MARK = "exception of a tenferro.pure_callback, number "


def _reported(function: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """Return a wrapper of a callback, which PJRT calls in place of the callback.

    The wrapper passes copies of the arrays, because PJRT owns them. It records an exception under a number, and
    raises an error with that number, because PJRT keeps only the message.
    """

    def call(*arrays: Any) -> tuple[Any, ...]:
        try:
            return tuple([np.array(y, order="C") for y in function(*map(np.array, arrays))])
        except Exception as error:
            number = next(_NUMBERS)
            _RAISED[number] = error
            _RAISED.pop(number - MOST_RAISED, None)
            raise RuntimeError(f"{_MARK}{number}.") from error

    return call


def initialize_hybrid() -> None:
    """Bind LAPACK to the GPU handlers that call it on the host; an unbound handler crashes.

    Relies on jaxlib.gpu_solver.initialize_hybrid_kernels.
    """
    from jaxlib import gpu_solver

    gpu_solver.initialize_hybrid_kernels()


def prepare(text: str) -> None:
    """Initialise the libraries that a module calls, before it is compiled, loaded or run."""
    if "lapack_" in text:
        initialize_lapack()
    if "hybrid_" in text:
        initialize_hybrid()


def serialized(pjrt_client: Any, executable: Any) -> bytes:
    """Serialise an executable to bytes, which contain native code.

    Relies on Client.serialize_executable.

    Raises:
        BackendFailureError: the platform cannot serialise executables.
    """
    try:
        return bytes(pjrt_client.serialize_executable(executable))
    except Exception as error:
        if is_interruption(error):
            raise
        raise BackendFailureError(f"PJRT could not serialise the executable: {error}") from error


def serialized_options(options: Any) -> str:
    """Return compile options, serialised, in hexadecimal.

    Relies on CompileOptions.SerializeAsString.
    """
    return bytes(options.SerializeAsString()).hex()


def deserialized(pjrt_client: Any, devices: Sequence[Any], blob: bytes, options: Any) -> Any:
    """Load an executable from bytes that `serialized` must have returned on this machine.

    Relies on Client.deserialize_executable.

    Raises:
        BackendFailureError: PJRT does not accept the bytes.
    """
    from jaxlib import _jax as jaxlib_private  # pyright: ignore[reportAttributeAccessIssue]  # because it ships no stubs

    try:
        chosen = jaxlib_private.DeviceList(tuple(devices))
        return pjrt_client.deserialize_executable(blob, chosen, options)
    except Exception as error:
        if is_interruption(error):
            raise
        raise BackendFailureError(f"PJRT could not load the executable: {error}") from error


def jaxlib_version() -> str:
    """Return the version of jaxlib."""
    from jaxlib import version

    return version.__version__


def cache_identity(pjrt_client: Any, devices: Sequence[Any], options: Any) -> list[bytes]:
    """Return the parts of an executable's cache key, except the module: options, platform, devices, versions and CPU.

    Relies on CompileOptions.SerializeAsString.
    """
    parts = (
        pjrt_client.platform,
        pjrt_client.platform_version,
        getattr(devices[0], "device_kind", ""),
        ",".join(str(device.id) for device in devices),
        jaxlib_version(),
        platform.machine(),
        _cpu_features(),
    )
    return [options.SerializeAsString(), *[part.encode() for part in parts]]


def _cpu_features() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        return platform.processor()


def put(array: np.ndarray[Any, Any], device: Any, copy: bool = True) -> Any:
    """Put a NumPy array on a device; the array keeps its dtype, whatever the value of jax_enable_x64.

    XLA shares aligned memory, and reads other memory after this function has returned. So this function copies the
    array, unless `copy` is false, with which the caller guarantees not to write to the array. Relies on
    jaxlib._jax.batched_device_put, HostBufferSemantics, jax.core.ShapedArray and SingleDeviceSharding.

    Raises:
        BackendFailureError: the device has not enough memory.
    """
    jax, _ = modules()
    from jaxlib import _jax as jaxlib_private  # pyright: ignore[reportAttributeAccessIssue]  # because it ships no stubs

    try:
        if copy:
            dense = empty(array.shape, array.dtype)
            dense[...] = array
        else:
            dense = np.array(array, order="C", copy=None)
        aval = jax.core.ShapedArray(dense.shape, dense.dtype)
        sharding = jax.sharding.SingleDeviceSharding(device)
        with wide_dtypes():
            return jaxlib_private.batched_device_put(aval, sharding, [dense], [device])
    except failures() as error:
        raise _not_placed(array, error) from error


def _not_placed(array: np.ndarray[Any, Any], error: Exception) -> Exception:
    """Create the error for an exception that was raised when an array was put on a device; see `failures`."""
    if is_interruption(error):
        return error
    return BackendFailureError(f"put: {TensorSpec(array.shape, array.dtype)}: {error}")


def moved(array: Any, device: Any) -> Any:
    """Move a device array to a device, in row-major order; return it unchanged if it is already there in this order."""
    if array.devices() == {device} and is_row_major(array):
        return array
    return resharded(array, device)


def resharded(array: Any, device: Any) -> Any:
    """Move a device array to another device or sharding, in row-major order, without a copy through the host.

    Relies on jax.device_put, which takes a Format.
    """
    jax, _ = modules()
    from jax.experimental.layout import Format, Layout

    with wide_dtypes():
        array = jax.device_put(array, device)
        if is_row_major(array):
            return array
        order = Layout(major_to_minor=tuple(range(array.ndim)))
        return jax.device_put(array, Format(order, array.sharding))


def fetched(array: Any, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
    """Copy a device array to a new NumPy array, or to `out`, which must have the same type.

    The function first waits for the array, because reading the results of a failed program aborts the process. Relies
    on jax.Array's block_until_ready and is_fully_addressable.

    Raises:
        BackendFailureError: the program that computes the array failed, for example for lack of memory.
        InvalidConfigError: parts of the array belong to other processes.
    """
    try:
        array.block_until_ready()
        if out is None:
            return np.array(array)
        out[...] = array
        return out
    except failures() as error:
        raise failed(error) from error
    except RuntimeError:
        if array.is_fully_addressable:
            raise
        raise InvalidConfigError(
            f"get: {TensorSpec(array.shape, array.dtype)} is sharded over several processes, {array.sharding}; "
            "read its addressable_shards, or replicate it by out_specs=PartitionSpec()"
        ) from None


def failures() -> tuple[type[Exception], ...]:
    """Return the classes of exceptions that PJRT raises if a program fails, or memory is exhausted."""
    jax, _ = modules()
    return (jax.errors.JaxRuntimeError, MemoryError)


def failed(error: Exception) -> Exception:
    """Convert an exception of `failures` to an error; return exceptions of signal handlers and callbacks unchanged."""
    if is_interruption(error):
        return error
    raised = re.search(rf"{_MARK}(\d+)\.", str(error))
    if raised is not None and int(raised[1]) in _RAISED:
        return _RAISED.pop(int(raised[1]))
    return BackendFailureError(f"PJRT could not run the program: {error}")


def put_dlpack(producer: Any, device: Any, copy: bool) -> Any:
    """Put the elements of any DLPack producer on a device; if `copy` is false, memory is shared where possible.

    Relies on jax.dlpack.from_dlpack.

    Raises:
        BackendFailureError: PJRT does not accept the memory, for example because it is strided.
    """
    jax, _ = modules()
    try:
        with wide_dtypes():
            array = jax.dlpack.from_dlpack(producer)
    except Exception as error:
        if is_interruption(error):
            raise
        raise BackendFailureError(
            f"put: PJRT does not accept this {type(producer).__name__} by DLPack: {error}"
        ) from None
    (source,) = array.devices()
    if source.platform == "cpu" and (copy or not is_row_major(array)):
        return put(np.asarray(array), device)  # `put` copies the elements before it returns
    return moved(array, device)


def is_row_major(array: Any) -> bool:
    """Return whether a device array is row-major, the layout that programs read.

    Relies on jax.Array.format.
    """
    layout = array.format.layout
    return layout is None or tuple(layout.major_to_minor) == tuple(range(array.ndim))


def placed(array: np.ndarray[Any, Any], sharding: Any, copy: bool = True) -> Any:
    """Put a NumPy array on the devices of a sharding."""
    devices = sharding.device_set
    if len(devices) > 1:
        return put_sharded(array, sharding)
    (device,) = devices
    return put(array, device, copy)


def on_one(device: Any) -> Any:
    """Return the sharding of arrays on one device."""
    jax, _ = modules()
    return jax.sharding.SingleDeviceSharding(device)


def named_sharding(devices: Any, names: Sequence[str], entries: Sequence[tuple[str, ...]]) -> Any:
    """Return the sharding of arrays that are partitioned over a grid of devices."""
    jax, _ = modules()
    mesh = jax.sharding.Mesh(devices, tuple(names))
    return jax.sharding.NamedSharding(
        mesh, jax.sharding.PartitionSpec(*[e or None for e in entries])
    )


def put_sharded(array: np.ndarray[Any, Any], sharding: Any) -> Any:
    """Shard a NumPy array over devices, some of which may belong to other processes."""
    jax, _ = modules()
    try:
        with wide_dtypes():
            return jax.make_array_from_callback(
                array.shape, sharding, lambda index: array[index].copy()
            )
    except failures() as error:
        raise _not_placed(array, error) from error


def put_local(
    array: np.ndarray[Any, Any], sharding: Any, shape: Sequence[int] | None = None
) -> Any:
    """Put this process's part of a partitioned array on the devices of this process; the dtype is kept.

    The devices of the sharding belong to several processes, each of which passes its own part.

    Relies on jax.make_array_from_process_local_data.

    Raises:
        ShapeError: the shape of the part does not match the sharding or the shape of the whole array.
    """
    jax, _ = modules()
    part = np.array(
        array, order="C"
    )  # because PJRT reads the array after this function has returned
    whole = None if shape is None else tuple(shape)
    try:
        with wide_dtypes():
            return jax.make_array_from_process_local_data(sharding, part, whole)
    except ValueError as error:
        raise ShapeError(f"put_local: a part of shape {part.shape} does not fit: {error}") from None


def require_same_in_all_processes(arrays: Mapping[str, np.ndarray[Any, Any]], devices: Any) -> None:
    """Raise InvalidConfigError if the arrays differ among the processes of the given devices.

    Each process hashes its arrays (SHA-256), and the digests are gathered over the devices. Nothing is checked if one
    process has all devices.

    Raises:
        InvalidConfigError: names the arrays that differ.
    """
    if len({device.process_index for device in devices.flat}) == 1:
        return
    own = np.stack([_digest(array) for array in arrays.values()]) if arrays else np.zeros((0, 8))
    digests = _gathered([own] * devices.size, devices)
    differing = [name for n, name in enumerate(arrays) if (digests[:, n] != digests[0, n]).any()]
    if differing:
        raise InvalidConfigError(
            f"put: {', '.join(differing)}: not the same in every process; each process must pass the same "
            "whole array, or its own part to put_local"
        )


def require_equal_replicas(arrays: Mapping[str, Any], devices: Any) -> None:
    """Raise InvalidConfigError if replicas of a device array, on devices of several processes, differ.

    Raises:
        InvalidConfigError: names the arrays that differ.
    """
    if len({device.process_index for device in devices.flat}) == 1:
        return
    shared = {name: array for name, array in arrays.items() if _has_replicas(array)}
    if not shared:
        return
    rows: dict[Any, list[Any]] = {}
    for array in shared.values():
        for shard in array.addressable_shards:
            rows.setdefault(shard.device, []).append(_digest(np.asarray(shard.data)))
    nothing = np.zeros((len(shared), 8), np.uint32)
    own = [np.stack(rows[d]) if d in rows else nothing for d in devices.flat]
    digests = _gathered(own, devices)
    for n, (name, array) in enumerate(shared.items()):
        parts: dict[str, Any] = {}
        places = array.sharding.devices_indices_map(array.shape)
        for digest, device in zip(digests[:, n], devices.flat, strict=True):
            if (parts.setdefault(str(places[device]), digest) != digest).any():
                raise InvalidConfigError(
                    f"put_local: {name}: processes that hold the same part {places[device]} gave different "
                    "elements"
                )


def _has_replicas(array: Any) -> bool:
    """Return whether several devices store the same part of an array."""
    places = list(map(str, array.sharding.devices_indices_map(array.shape).values()))
    return len(set(places)) < len(places)


def _digest(array: np.ndarray[Any, Any]) -> Any:
    """Return the SHA-256 of an array's dtype, shape and elements, as eight 32-bit integers."""
    hashed = hashlib.sha256(f"{array.dtype} {array.shape}".encode())
    hashed.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return np.frombuffer(hashed.digest(), np.uint32)


def _gathered(rows: Sequence[Any], devices: Any) -> Any:
    """Gather the rows of digests of all devices, in every process.

    `rows` has an entry per device; the entries for devices of other processes are ignored.
    """
    jax, _ = modules()
    mesh = jax.sharding.Mesh(devices.ravel(), ("device",))
    shape = (devices.size, *rows[0].shape)
    cut, whole = (
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
        for axes in (("device",), ())
    )
    parts = jax.make_array_from_callback(
        shape, cut, lambda index: np.stack(rows[index[0]]).astype(np.uint32)
    )
    return fetched(jax.jit(_itself, out_shardings=whole)(parts))


def _itself(x: Any) -> Any:
    """Return x; the function is global, so that jax compiles it once per mesh."""
    return x


def is_device_array(value: Any) -> bool:
    """Return whether a value is a `jax.Array`."""
    jax, _ = modules()
    return isinstance(value, jax.Array)


def merge_module(context: Any, text: str, operands: Any) -> Any:
    """Add a module to the module that jax is lowering, emit a call of its `main`, and return the call's results.

    Relies on jax.interpreters.mlir's merge_mlir_modules, and on jax.extend.mlir.
    """
    from jax.extend.mlir import ir
    from jax.extend.mlir.dialects import func
    from jax.interpreters import mlir

    whole = context.module_context
    module = ir.Module.parse(text)
    (main,) = [f for f in module.body.operations if str(f.attributes["sym_name"]) == '"main"']
    types = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value).results
    name = mlir.merge_mlir_modules(whole.module, "tenferro", module, dst_symtab=whole.symbol_table)
    call = func.CallOp(types, ir.FlatSymbolRefAttr.get(name), list(operands))
    return list(call.results)


def is_gone(value: Any) -> bool:
    """Return whether a value is a device array whose memory was donated or deleted."""
    return is_device_array(value) and value.is_deleted()


def wide_dtypes() -> Any:
    """Return a context in which jax allows 64-bit dtypes in this thread, without changing the user's setting."""
    jax, _ = modules()
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # pyright: ignore[reportAttributeAccessIssue]  # because only older jax has it

    return enable_x64()


def trace_context() -> Callable[[], Any]:
    """Return a function that returns the settings of JAX on which a trace depends, as `jax.jit` compares them."""
    from jax._src import config

    return config.trace_context


def weakly_typed(arrays: Sequence[Any], is_weak: Sequence[bool]) -> list[Any]:
    """Return JAX arrays with JAX's weak type where `is_weak` is true.

    JAX has no public function that makes an array weakly typed.
    """
    if not any(is_weak):
        return list(arrays)
    from jax._src.lax import lax

    convert: Any = lax._convert_element_type  # pyright: ignore[reportPrivateUsage]
    return [
        convert(x, weak_type=True) if weak else x for x, weak in zip(arrays, is_weak, strict=True)
    ]


def emit_callback(context: Any, run: Any, operands: Sequence[Any]) -> Any:
    """Emit a call of a function of host arrays into the module that JAX is lowering.

    The function receives the host arrays; `jax.pure_callback` first puts them on a device, which may deadlock.
    """
    from jax.interpreters import mlir

    # In some versions of jax, the results include a token unless the option `returns_token` is False.
    asked = inspect.signature(mlir.emit_python_callback).parameters
    options = {"returns_token": False} if "returns_token" in asked else {}
    results, _, _ = mlir.emit_python_callback(
        context,
        run,
        None,
        operands,
        context.avals_in,
        context.avals_out,
        has_side_effect=False,
        **options,
    )
    return results


def knows_trees(*trees: TreeDef) -> bool:
    """Return whether jax flattens the trees in the same order as tenferro."""
    jax, _ = modules()
    for tree in trees:
        numbers = list(range(tree.num_leaves))
        if jax.tree_util.tree_leaves(unflatten(tree, numbers)) != numbers:
            return False
    return True


def fast_call(
    loaded: Any,
    in_shardings: Sequence[Any],
    out_shardings: Sequence[Any],
    outputs: Sequence[TensorSpec],
    leaves_of: Callable[[tuple[Any, ...]], Sequence[Any]] = lambda arguments: arguments,
    pack: Callable[[Sequence[Any]], Any] = tuple,
) -> Callable[..., Any]:
    """Return a function from arrays to device arrays, whose calls are dispatched in C++ like those of jax.jit.

    Arguments with new trees, types or devices are first passed to `leaves_of`, which must raise an error if they do
    not match the parameters: PJRT checks only the number of bytes. `pack` creates the structure of the result. jax
    must flatten both structures in the same order as tenferro.

    Relies on jaxlib._jax.pjit, MeshExecutableFastpathData, JitGlobalCppCacheKeys, cc_shard_arg,
    global_aval_to_result_handler, dispatch_registry and LoadedExecutable.execute_sharded.
    """
    jax, _ = modules()
    from jax._src import tree_util
    from jax._src.interpreters import pxla
    from jaxlib import _jax as jaxlib_private  # pyright: ignore[reportAttributeAccessIssue]  # because it ships no stubs

    avals = [jax.core.ShapedArray(spec.shape, spec.dtype.dtype) for spec in outputs]
    count = len(avals)
    handlers = [
        pxla.global_aval_to_result_handler(aval, sharding, True)
        for aval, sharding in zip(avals, out_shardings, strict=True)
    ]

    def first_time(*arguments: Any) -> Any:
        leaves = leaves_of(arguments)
        buffers = [
            x if isinstance(x, jax.Array) else placed(x, sharding, copy=False)
            for x, sharding in zip(leaves, in_shardings, strict=True)
        ]
        try:
            arrays = loaded.execute_sharded(buffers).consume_with_handlers(handlers)
        except Exception as error:
            raise failed(error) from error
        results = pack(arrays)
        tree = tree_util.tree_structure(results)
        n = len(leaves)
        data = pxla.MeshExecutableFastpathData(
            loaded,
            tree,
            list(in_shardings),
            list(out_shardings),
            avals,
            [True] * count,
            [True] * n,
            [None] * n,
            [],
        )
        return results, data, False

    return jaxlib_private.pjit(
        "tenferro",
        None,
        first_time,
        [],
        [],
        pxla.JitGlobalCppCacheKeys(),
        tree_util.dispatch_registry,
        pxla.cc_shard_arg,
    )

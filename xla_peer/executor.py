"""`XlaExecutor`, which runs programs through StableHLO and PJRT."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np

from lowering import StableHloModule
from lowering.extensions import lowerings_in, registration_count
from lowering.guarded import Limits, perform
from lowering.mlir_bindings import MlirDiagnosticError
from lowering.refusals import refuse_types
from tenferro.compile_cache import CompileCacheStats, cache_in
from tenferro.dispatch import as_operand
from tenferro.errors import BackendFailureError, InvalidConfigError, NonStaticShapeError
from tenferro.program import BoundedCache, CacheStats, GraphProgram
from tenferro.tracebacks import public, public_methods
from tenferro.types import TreeDef, flatten
from xla_peer import forking, pjrt
from xla_peer.checks import CheckedPrograms
from xla_peer.executable import Executable
from xla_peer.known_faults import known_fault
from xla_peer.lowered import LoweringSettings
from xla_peer.mesh import PartitionedProgram
from xla_peer.notices import noticed, notify_once

__all__ = ["XlaExecutor"]


class Variant(NamedTuple):
    """Properties of a call for which an executable is compiled; with the program, they are the key of the executable.

    Attributes:
        shapes: the shapes of the arguments.
        orders: the memory order of each argument, "C" or "F".
        out: the memory order of the results.
        donate: the names of the donated inputs.
        cut: the partitioned program, if it is partitioned.
    """

    shapes: tuple[Any, ...]
    orders: tuple[str, ...]
    out: str = "C"
    donate: tuple[str, ...] = ()
    cut: PartitionedProgram | None = None


class Plan(NamedTuple):
    """Executable and settings of a program's last run, which a run with arguments of the same types reuses.

    Attributes:
        program: the program; the reference keeps its `id` from being reused.
        seen: whether all arguments were NumPy arrays, followed by (shape, dtype, strides) of each leaf.
        executable: the executable.
        orders: the memory order of each argument; None if the arguments are passed unchanged.
        out: the memory order of the results.
        only: a function that runs a program with a single result directly on host arrays; None if it cannot be used.
    """

    program: GraphProgram
    seen: list[Any]
    executable: Executable
    orders: list[str] | None
    out: str
    only: Any


@public_methods
class XlaExecutor:
    """Executor that lowers a program to StableHLO, compiles it once per set of shapes, and runs it on one device.

    Args:
        platform: "cpu", "cuda", "rocm", "tpu", the name of a PJRT plugin, or the path of a plugin; "gpu" selects "cuda"
            or "rocm", whichever jax finds.
        device: index of the device among the devices of the platform.
        precision: precision of matrix products and convolutions whose op states no precision; "highest" computes
            float32 products in float32.
        linalg: "library" for the platform's own routines, or "inline" for plain StableHLO.
        extensions: "expand" or "composite"; see `lowering.lower_to_stablehlo`.
        order: memory order of the results of `run`: "C", "F", or "A". "A" is "F" if all arguments are column-major, and
            otherwise "C". Arguments of either order are passed without a transposing copy.
        optimization_level: XLA's backend level, 0 to 3; None is XLA's default.
        options: XLA's debug options by name.
        cache_size: maximum number of executables in memory.
        memory_bytes: maximum total size of the constants of all executables in memory, in bytes.
        cache_dir: a folder in which later processes find executables. None is the folder that the environment variable
            TENFERRO_CACHE_DIR names, and "" is no folder. The folder contains native code: see `CompileCache`.
        cache_bytes: maximum size of the folder in bytes.
        effects: "refuse" to run programs that print (see `tenferro.debug_print`), or "drop" the prints.
        notices: whether to print notices on the error stream: about compilations of more than two seconds, and once
            about a jaxlib that is known to compute wrong values. TENFERRO_NOTICES=off in the environment suppresses
            these notices, too.

    Intermediate results have the precision of their dtype (XLA's excess precision is off), so that results can be
    compared with native results.

    Several threads may use one executor; a program is compiled once.

    Raises:
        PlatformUnavailableError: the platform is not available; the message names the available platforms.
        InvalidConfigError: the platform has no device of this index, an option is out of range, or a folder cannot be
            used.

    >>> import numpy as np, tenferro as tnf
    >>> program = tnf.compile(lambda x: x + x, tnf.TensorSpec((2,), "float64"))
    >>> XlaExecutor("cpu").run(program, np.array([1.0, 2.0]))
    array([2., 4.])
    """

    @public
    def __init__(
        self,
        platform: str = "cpu",
        device: int = 0,
        *,
        precision: str = "highest",
        linalg: str = "library",
        extensions: str = "expand",
        order: Literal["C", "F", "A"] = "A",
        optimization_level: int | None = None,
        options: Mapping[str, bool | int | str] | None = None,
        cache_size: int = 256,
        memory_bytes: int = 1 << 30,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_bytes: int = 1 << 30,
        notices: bool = True,
        effects: Literal["refuse", "drop"] = "refuse",
    ) -> None:
        if order not in ("C", "F", "A"):
            raise InvalidConfigError(f'XlaExecutor: order must be "C", "F" or "A", got {order!r}')
        if optimization_level not in (None, 0, 1, 2, 3):
            raise InvalidConfigError(
                f"XlaExecutor: optimization_level must be 0 to 3, got {optimization_level!r}"
            )
        if effects not in ("refuse", "drop"):
            raise InvalidConfigError(
                f'XlaExecutor: effects must be "refuse" or "drop", got {effects!r}'
            )
        self.effects = effects
        self.notices = notices
        self.precision = precision
        self.linalg = linalg
        self.extensions = extensions
        self.order = order
        self.optimization_level = optimization_level
        self.options = {"xla_allow_excess_precision": False, **(options or {})}
        self._bounds = {"cache_size": cache_size, "memory_bytes": memory_bytes,
                        "cache_dir": cache_dir, "cache_bytes": cache_bytes}  # fmt: skip
        self._client = pjrt.client(platform)
        self.platform = pjrt.named_platform(platform, self._client)
        if notices:
            notify_once(known_fault(self.platform))
        devices = self._client.local_devices()
        if isinstance(device, bool) or not 0 <= device < len(devices):
            raise InvalidConfigError(
                f"device {device} of platform {platform!r}: there are {len(devices)}"
            )
        self.device = devices[device]
        self._compiled: BoundedCache[Executable] = BoundedCache(
            cache_size, memory_bytes, attrgetter("constant_bytes")
        )
        self._checks = CheckedPrograms(cache_size)
        self._registrations = registration_count()
        self.compile_cache = cache_in(cache_dir, cache_bytes)
        forking.watch(self)

    def __repr__(self) -> str:
        executables = self.cache_stats().entries
        return f"<XlaExecutor on {self.platform}:{self.device.id}: {executables} executables>"

    def __reduce__(self) -> Any:
        """Pickle the constructor's arguments; a process that unpickles them creates its own executor."""
        device = self._client.local_devices().index(self.device)
        options = {"precision": self.precision, "linalg": self.linalg, "order": self.order,
                   "extensions": self.extensions, "options": self.options,
                   "optimization_level": self.optimization_level, "notices": self.notices,
                   "effects": self.effects}  # fmt: skip
        return partial(XlaExecutor, self.platform, device, **options, **self._bounds), ()

    def abandon(self) -> None:
        """Drop all executables, because a forked child cannot use the executables of its parent process."""
        self._compiled = BoundedCache(
            self._compiled.capacity, self._compiled.max_bytes, attrgetter("constant_bytes")
        )

    # ---- running -----------------------------------------------------------------------------

    def run(self, program: GraphProgram | PartitionedProgram, *arrays: Any) -> Any:
        """Run on NumPy arrays, and return new arrays in the tree of the program's function.

        A partitioned program runs on all devices of its mesh.

        Raises:
            ArityError, DTypeError, ShapeError, GuardError: the arguments do not fit.
            NonStaticShapeError: an extent depends on data.
            BackendFailureError: XLA could not compile or run the program.
            CheckFailedError: a condition of `tenferro.check` is not true.
        """
        if isinstance(program, PartitionedProgram):
            return self._run_partitioned(program, arrays)
        if program.has_effects and (checked := self._checks.of(program)) is not None:
            return checked.verified(self.run(checked.program, *arrays))
        plain = not program.takes_extents and all([type(x) is np.ndarray for x in arrays])
        leaves: Sequence[Any] = arrays if plain else program.check_arguments(arrays)
        seen = [plain, *[(x.shape, x.dtype, x.strides) for x in leaves]]
        if self._registrations != registration_count():
            self._compiled.at_hand.clear()
            self._registrations = registration_count()
        # The arguments of the program's last run were checked. If the new arguments have the same types, the same
        # executable is reused, without checks and hashing.
        plan = self._compiled.at_hand.get(id(program))
        if plan is None or plan.seen != seen:
            plan = self._plan(program, arrays, seen)
        if plan.only is not None:
            try:
                result = plan.only(*leaves)
            except pjrt.failures() as error:
                raise pjrt.failed(error) from error
            return pjrt.fetched(result)
        if plan.orders is not None:
            leaves = [
                leaf.T if order == "F" else np.asarray(leaf, order="C")
                for leaf, order in zip(leaves, plan.orders, strict=True)
            ]
        results = plan.executable.run_leaves(leaves)
        if plan.out == "F":
            results = [result.T for result in results]
        return results[0] if plan.executable.gives_a_leaf else program.pack(results)

    def _run_partitioned(self, cut: PartitionedProgram, arrays: tuple[Any, ...]) -> Any:
        leaves = cut.program.check_arguments(arrays)
        executable = self.compile(cut, *leaves)
        placed = cut.put_leaves(leaves)
        return cut.program.pack(list(map(pjrt.fetched, executable.on_leaves(placed))))

    def _plan(self, program: GraphProgram, arrays: tuple[Any, ...], seen: list[Any]) -> Plan:
        """Find or compile the executable for the shapes, dtypes and strides of the arguments."""
        leaves = program.check_arguments(arrays)
        orders = [_order(leaf) for leaf in leaves]
        out = self._out_order(leaves, orders)
        shapes = tuple([leaf.shape for leaf in leaves])
        executable = self._executable(program, Variant(shapes, tuple(orders), out))
        as_they_are = all(leaf.flags.c_contiguous for leaf in leaves)
        simple = as_they_are and out == "C" and executable.gives_a_leaf
        plain = not (executable.wide or executable.constant_bytes)
        only = executable.from_host if simple and plain else None
        plan = Plan(program, seen, executable, None if as_they_are else orders, out, only)
        self._compiled.keep_at_hand(id(program), plan)
        return plan

    def _out_order(self, leaves: Sequence[Any], orders: Sequence[str]) -> str:
        if self.order != "A":
            return self.order
        if "F" not in orders:
            return "C"
        row_major = any(
            order == "C" and leaf.ndim > 1 and not leaf.flags.f_contiguous
            for leaf, order in zip(leaves, orders, strict=True)
        )
        return "C" if row_major else "F"

    def compile(
        self, program: GraphProgram | PartitionedProgram, *specs: Any, donate: Sequence[str] = ()
    ) -> Executable:
        """Compile the program to an executable that takes and returns arrays on the executor's device.

        Args:
            specs: concrete specs or arrays, one per input, if the program has symbolic extents.
            donate: names of inputs whose memory may be reused for results. A call of the executable deletes the arrays
                that are passed for these inputs.

        Raises:
            NonStaticShapeError: the program has symbolic extents, and there are no specs.
            InvalidConfigError: a name in `donate` is not an input.
        """
        cut = program if isinstance(program, PartitionedProgram) else None
        if isinstance(program, PartitionedProgram):
            if program.mesh.platform != self._client.platform:
                raise InvalidConfigError(
                    f"compile: {program.mesh} is not of this executor's platform, {self.platform}"
                )
            program = program.program
        static = program.specialize_to(specs) if specs else program
        shapes = tuple([spec.shape for spec in static.input_specs])
        orders = ("C",) * len(shapes)
        if not static.is_static:
            raise NonStaticShapeError(
                f"compile: {program.name} has symbolic extents; give specs or arrays, one per input"
            )
        return self._executable(program, Variant(shapes, orders, donate=tuple(donate), cut=cut))

    def compile_module(
        self,
        module: StableHloModule,
        in_tree: TreeDef | None = None,
        out_tree: TreeDef | None = None,
        constants: Sequence[Any] = (),
    ) -> Executable:
        """Compile a module for the executor's device. The executable is not cached in memory, only in `cache_dir`.

        Args:
            in_tree: structure of the arguments; by default one argument per input of the module.
            out_tree: structure of the result; by default a tuple.
            constants: arrays for the last inputs of the module, which callers do not pass.

        Raises:
            NonStaticShapeError: the module has symbolic extents; `StableHloModule.refined` binds them.
            BackendFailureError: XLA could not compile the module.
        """
        if not module.is_static:
            raise NonStaticShapeError("compile_module: the module has symbolic extents; refine it")
        n_inputs = len(module.input_specs) - len(constants)
        if in_tree is None:
            in_tree = flatten(tuple(range(n_inputs)))[1]
        if out_tree is None:
            out_tree = flatten(tuple(range(len(module.output_specs))))[1]
        loaded = self._loaded(module, [self.device], "a module")
        places, specs = self._places(module), module.output_specs
        return Executable(module, loaded, in_tree, out_tree, *places, (), specs, constants)

    def put(self, array: Any, *, copy: bool = True) -> Any:
        """Copy an array to the executor's device.

        Args:
            array: a NumPy array, an object that converts to a NumPy array, an object with `__dlpack__`, or a device
                array, which is moved from its device, or gathered from its devices.
            copy: False lets a CPU device share memory that `xla_peer.empty` or another library allocated. Programs that
                read such an array see later writes to it: do not write until the programs are done. A device array
                on the executor's device is never copied, because it is immutable.

        Raises:
            DTypeError: the object is not an array, or tenferro lacks its dtype.
            BackendFailureError: PJRT does not accept the memory of an object with `__dlpack__`, or the array is on a
                device and belongs to another library.
        """
        forking.require_own_client()
        if pjrt.is_device_array(array):
            return pjrt.moved(array, self.device)
        if hasattr(array, "__dlpack__") and not isinstance(array, np.ndarray | np.generic):
            return pjrt.put_dlpack(array, self.device, copy)
        return pjrt.put(np.asarray(as_operand(array)), self.device, copy)

    def get(self, array: Any) -> np.ndarray[Any, Any]:
        """Wait until a device array is computed, and copy it to a new NumPy array.

        `numpy.asarray(array)` returns a read-only view instead; on a CPU it does not copy. Before, call the array's
        `block_until_ready`: if the program that computes the array has failed, NumPy aborts the process.

        Raises:
            BackendFailureError: the program that computes the array failed, for example for lack of memory.
            InvalidConfigError: the array is sharded over several processes.
        """
        return pjrt.fetched(array)

    # ---- compiling ---------------------------------------------------------------------------

    def _executable(self, program: GraphProgram, variant: Variant) -> Executable:
        settings = self.settings
        rules = lowerings_in(program, settings.lowered_for, settings.linalg_routines)
        return self._compiled.get(
            (program.identity, variant, rules), lambda: self._compile(program, variant)
        )

    @property
    def settings(self) -> LoweringSettings:
        """The settings of the executor that determine the text of lowered modules."""
        return LoweringSettings(
            self.platform, self.precision, self.linalg, self.extensions, self.effects
        )

    def _compile(self, program: GraphProgram, variant: Variant) -> Executable:
        shapes, orders, out, donate, cut = variant
        on_cpu = self.platform == "cpu"
        lowered = self.settings.lower(program, shapes, orders, out, donate, cut, on_cpu)
        module, constants, specs, callbacks = lowered
        trees = program.in_tree, program.out_tree
        if cut is None:
            loaded = self._loaded(module, [self.device], program.name, callbacks)
            places, arrays = self._places(module), list(constants.values())
            return Executable(module, loaded, *trees, *places, donate, specs, arrays)
        loaded = self._loaded(module, list(cut.mesh.devices.flat), program.name)
        places = (
            [cut.mesh.sharding(spec) for spec in cut.in_specs],
            [cut.mesh.sharding(spec) for spec in cut.out_specs],
        )
        return Executable(module, loaded, *trees, *places, donate, specs)

    def _places(self, module: StableHloModule) -> tuple[list[Any], list[Any]]:
        """Return shardings for all inputs and for all outputs, which place each array on the executor's device."""
        here = pjrt.on_one(self.device)
        return [here] * len(module.input_specs), [here] * len(module.output_specs)

    def _loaded(
        self,
        module: StableHloModule,
        devices: Sequence[Any],
        name: str,
        callbacks: Sequence[Any] = (),
    ) -> Any:
        """Return the executable of a module, from the folder `cache_dir` or by compilation.

        An executable with callbacks is not stored, because the callbacks exist only in this process.
        """
        forking.require_own_client()
        options = pjrt.compile_options(self._client, devices, self.options, self.optimization_level)
        cache = self.compile_cache
        if cache is None or callbacks:
            return self._built(module, devices, options, name, callbacks)
        identity = pjrt.cache_identity(self._client, devices, options)
        key = cache.key([module.plain_text.encode(), *identity])
        serialized_entry = cache.load(key)
        if serialized_entry is not None:
            try:
                pjrt.prepare(module.text)
                return pjrt.deserialized(self._client, devices, serialized_entry, options)
            except BackendFailureError:
                cache.reject(key)
        built = self._built(module, devices, options, name)
        try:
            serialized = pjrt.serialized(self._client, built)
        except BackendFailureError:  # the platform cannot serialise executables, but can run them
            cache.count_failed_write()
        else:
            cache.store(key, serialized)
        return built

    def _built(
        self,
        module: StableHloModule,
        devices: Sequence[Any],
        options: Any,
        name: str,
        callbacks: Sequence[Any] = (),
    ) -> Any:
        what = f"{name} for {self.platform}"
        refuse_types(module.text, self.platform)
        with noticed(f"compiling {what}", f"compiled {what}", self.notices):
            if not module.trusted:
                self._try_compilation(module.text, devices, options)
            try:
                return pjrt.compile_module(self._client, devices, module.text, options, callbacks)
            except BackendFailureError as error:
                raise error.at(_blamed_line(module.text, str(error))) from error.__cause__

    def _try_compilation(self, text: str, devices: Sequence[Any], options: Any) -> None:
        """Compile an untrusted module in a separate process, because XLA aborts the process for some valid modules.

        Raises:
            BackendFailureError: the separate process ended, or exceeded its limits.
        """
        is_cpu = self._client.platform == "cpu"
        described = pjrt.serialized_options(options) if is_cpu else ""
        count = 1 + max([device.id for device in devices])
        limits = Limits.of_compilation(len(text))
        try:
            perform("compilation", text, described, count, trusted=False, limits=limits)
        except MlirDiagnosticError as error:
            message, location = error.diagnostics[0]
            raise BackendFailureError(
                f"XLA could not compile the module: {message} ({location})"
            ).at(_blamed_line(text, message)) from None

    # ---- caches ------------------------------------------------------------------------------

    def cache_stats(self) -> CacheStats:
        """Return the statistics of the cache of executables in memory."""
        return self._compiled.stats()

    def compile_cache_stats(self) -> CompileCacheStats | None:
        """Return the statistics of the folder `cache_dir`; None without a folder."""
        return None if self.compile_cache is None else self.compile_cache.stats()

    def cache_clear(self) -> None:
        """Drop all executables in memory. `compile_cache.clear` removes those in the folder `cache_dir`."""
        self._compiled.clear()
        self._checks.clear()


def _order(array: Any) -> str:
    """Return "F" for a column-major array, else "C".

    An array that is both column-major and row-major, such as a vector, counts as "C".
    """
    flags = array.flags
    return "F" if flags.f_contiguous and not flags.c_contiguous else "C"


def _blamed_line(text: str, message: str) -> str:
    """Find the user's line to which a message of XLA refers; empty if the message names none.

    XLA names a location, a custom call's target, or an instruction such as `%fft.3`.
    """
    match = re.search(r'source_file="([^"]*)" source_line=(\d+)|loc\("([^"]*)":(\d+):', message)
    if match is not None:
        file, line = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
        return f"{file}:{line}"
    names = set(re.findall(r"[\w.]{4,}", message))
    named = {name.replace("-", "_") for name in re.findall(r"%([a-z-]+)(?:\.\d+)? =", message)}
    places = {
        name: f"{file}:{line}"
        for name, file, line in re.findall(
            r'^(#loc\d+) = loc\("(.*)":(\d+):0\)$', text, re.MULTILINE
        )
    }
    for statement in text.splitlines():
        location = re.search(r"loc\((#loc\d+)\)$", statement)
        target = re.search(r"custom_call @(\w+)", statement)
        op = re.search(r'= "?stablehlo\.(\w+)', statement)
        blamed = (target is not None and target[1] in names) or (op is not None and op[1] in named)
        if location is not None and blamed:
            return places.get(location[1], "")
    return ""

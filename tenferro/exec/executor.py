"""`GraphExecutor`: runs programs natively, by NumPy's kernels and compiled code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tenferro.compilations import until_compiled
from tenferro.compile_cache import CompileCacheStats, cache_in
from tenferro.costs import MIN_BLOCK_GAIN, MIN_JIT_BLOCK_GAIN
from tenferro.dims import GuardLog
from tenferro.dispatch import is_traced
from tenferro.dispatch.replay import replay
from tenferro.errors import InvalidConfigError, TenferroError, UnsupportedError
from tenferro.exec.attempts import CompileLog, CompileStats
from tenferro.exec.backend import NUMPY, Backend
from tenferro.exec.compiler import LoopCompiler
from tenferro.exec.expansion_runtime import ExpansionRuntime
from tenferro.exec.extensions import ExtensionRegistry, ExtensionRuntime
from tenferro.exec.finite import finite_or_raise
from tenferro.exec.interpreter import failure, interpret, results_of
from tenferro.exec.kernels.aliasing import copy_aliases
from tenferro.exec.kernels.copying import Dense
from tenferro.exec.latest import Compiled, Latest, axes_of
from tenferro.exec.llvm import OLDEST, is_installed
from tenferro.exec.plan import Binder, Pass, planning
from tenferro.exec.plan.finish import finish
from tenferro.exec.plan.verify import verified
from tenferro.exec.printer import Runner, source_of
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.numpy_state import call_in_numpy_state
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Workers
from tenferro.exec.schedule import Axes, ExecProgram
from tenferro.facts import Fact, facts_of
from tenferro.interruption import is_interruption
from tenferro.ops import StdTensorOp
from tenferro.passes import NATIVE_PASSES
from tenferro.program import BoundedCache, CacheStats, GraphProgram, registered_families
from tenferro.program.memory_plan import MemoryPlan
from tenferro.tracebacks import end_at_the_caller, public
from tenferro.types import DType, TensorSpec, agree, flatten, unflatten

if TYPE_CHECKING:
    from tenferro.program.profile import Profile

__all__ = ["GraphExecutor"]

BLOCK_GAINS: Mapping[str | bool, float | None] = {
    "auto": MIN_BLOCK_GAIN,
    "loops": None,
    "jit": MIN_JIT_BLOCK_GAIN,
    True: -1e9,
    False: None,
}
"""NumPy calls that a compiled block must save in each run, by the option `compiled`; None disables blocks."""


class GraphExecutor:
    """Executor that specialises a `GraphProgram` to its input shapes, applies the passes, and calls NumPy kernels.

    Args:
        order: memory order of the results: "F" (dense column-major), "C" (dense row-major), or "K", which keeps the
            order in which the kernel wrote the result, and needs no copy.
        threads: number of threads that share large kernels and fused groups; None means one thread per core. Results
            do not depend on this number.
        segmented: run programs as generated Python code. If False, interpret one instruction at a time, with the same
            bits.
        check_finite: raise an error at the first op that computes NaN or infinity from finite operands, also in
            gradients. The error names the op, the element, its operands and the user's line. Inputs and
            constants are not checked.
        passes: the native passes; by default `tenferro.passes.NATIVE_PASSES`.
        cache_size: maximum number of cached schedules, one for each program and input shapes.
        cache_bytes: maximum total size of the constants of cached schedules, in bytes.
        compiled: which steps LLVM compiles, if llvmlite is installed. "auto" compiles loops, fused groups, and
            blocks of many steps on small values. "loops" omits the blocks. "jit" also compiles blocks of few
            steps, as `tnf.jit` does. True compiles all steps that can be compiled, and False none. Results of compiled
            functions such as exp may differ from NumPy's by one or two units in the last place. Compiled sums may add
            in a different order. Arithmetic and data movement have the same bits as in NumPy.
        cache_dir: folder that stores machine code for later processes. None means the environment variable
            TENFERRO_CACHE_DIR, and "" disables the cache. The folder contains native code, which later processes
            run; see `tenferro.compile_cache.CompileCache`.
        backend: the kernels, and the arrays that they accept; NumPy's by default. Schedules of any other backend are
            interpreted.
        memory_bytes: maximum size in bytes of the pool, which caches memory of intermediate values, of scratch buffers
            and of results that are no longer referenced.
        runtimes: runtimes of extension families, in addition to the runtimes that families define.

    Results never share memory with an argument, a constant, or each other.

    Raises:
        InvalidConfigError: an option has an invalid value.

    >>> import tenferro as tnf
    >>> double = tnf.compile(lambda x: x + x, tnf.TensorSpec((2,), "float64"))
    >>> GraphExecutor().run(double, np.array([1.0, 2.0]))
    array([2., 4.])
    """

    @public
    def __init__(
        self,
        order: Literal["F", "C", "K"] = "F",
        threads: int | None = None,
        *,
        segmented: bool = True,
        check_finite: bool = False,
        passes: Sequence[Pass] | None = None,
        cache_size: int = 256,
        cache_bytes: int = 1 << 30,
        memory_bytes: int = 1 << 30,
        backend: Backend = NUMPY,
        compiled: Literal["auto", "loops", "jit"] | bool = "auto",
        cache_dir: str | os.PathLike[str] | None = None,
        runtimes: Iterable[ExtensionRuntime] = (),
    ) -> None:
        options = {
            name: value for name, value in locals().items() if name not in ("self", "runtimes")
        }
        self._options = {name: value for name, value in options.items() if value is not NUMPY}
        _require_options(order, threads, check_finite, backend, compiled)
        compiles = backend is NUMPY and not check_finite and compiled and is_installed()
        log = CompileLog()
        self.compile_cache = cache_in(cache_dir) if compiles else None
        self.compiler = (
            LoopCompiler(compiled is True, self.compile_cache, log, BLOCK_GAINS[compiled])
            if compiles
            else None
        )
        self.order: Literal["F", "C", "K"] = order
        self.threads = threads
        self.segmented = segmented
        self.check_finite = check_finite
        self.passes = tuple(NATIVE_PASSES if passes is None else passes)
        self.extensions = ExtensionRegistry(self, cache_size, ExpansionRuntime)
        for runtime in runtimes:
            self.extensions.register(runtime)
        self.workers = Workers(threads)
        self.memory = Pool(memory_bytes)
        compiler = self.compiler
        transposer = (lambda each: compiler.transposer.function(each)) if compiler else None
        sums = (lambda *each: compiler.sums.function(*each)) if compiler else None
        as_array = np.asarray if backend is NUMPY else lambda y: y
        resources = Resources(self.workers, self.memory, as_array, transposer, sums, log)
        # Runtimes of extensions use this attribute of `caches.owner`, the executor.
        self.row_major = Dense("C", resources)
        self.binder = Binder(
            extensions=self.extensions,
            passes=self.passes,
            backend=backend,
            plan=planning(self.compiler) if backend is NUMPY and not check_finite else (),
            resources=resources,
            prints=segmented and backend is NUMPY,
            compiler=self.compiler,
        )
        self._has_layouts = backend is NUMPY
        self._compiled: BoundedCache[Compiled] = BoundedCache(
            cache_size, cache_bytes, attrgetter("schedule.constant_bytes")
        )

    def __reduce__(self) -> Any:
        """Pickle the constructor's arguments and the runtimes; unpickling builds a new executor."""
        return partial(GraphExecutor, **self._options), (), self.extensions.registered

    def __setstate__(self, runtimes: tuple[ExtensionRuntime, ...]) -> None:
        for runtime in runtimes:
            self.register_runtime(runtime, replace=True)

    def __repr__(self) -> str:
        programs = self.cache_stats().entries
        return f"<GraphExecutor order={self.order!r}, threads={self.threads}: {programs} programs>"

    def run(self, program: GraphProgram, *arrays: Any) -> Any:
        """Run a program, and return its result tree, with new NumPy arrays as leaves.

        If an argument is a tensor of a trace, the program's instructions are added to the trace, and the leaves of the
        result are tensors. Functions that are traced or differentiated can therefore call programs.

        Raises:
            ArityError, DTypeError, ShapeError, GuardError: the arguments contradict the program's inputs or guards.
            BackendFailureError: a kernel failed; the error names the op and the user's line.
            NonFiniteError: an op computed NaN or infinity, under `check_finite`.
        """
        try:
            latest = self._compiled.at_hand.get(id(program))
            if latest is not None:
                leaves = latest.leaves(arrays)
                if leaves is not None:
                    self._compiled.count_hit()
                    return self._run_checked(program, latest.compiled, leaves)
            leaves, tree = flatten(arrays)
            if agree(tree, program.in_tree):
                return self.run_leaves(program, leaves)
            return self.run_leaves(program, program.check_arguments(arrays))
        except Exception as error:
            end_at_the_caller(error)
            raise

    def run_leaves(self, program: GraphProgram, leaves: Sequence[Any]) -> Any:
        """Run a program on the leaves of its arguments, which must have the program's structure.

        Raises:
            the errors of `run`, except those about the structure of arguments.
        """
        latest = self._compiled.at_hand.get(id(program))
        if latest is not None:
            checked = latest.leaves(leaves)
            if checked is not None:
                self._compiled.count_hit()
                return self._run_checked(program, latest.compiled, checked)
        if any([is_traced(x) for x in leaves if type(x) is not np.ndarray]):
            return replay(program, unflatten(program.in_tree, leaves))
        checked = program.check_leaves(leaves)
        compiled = self._compile(program, tuple([leaf.shape for leaf in checked]), axes_of(checked))
        latest = Latest.from_arguments(program, leaves, compiled, self._has_layouts)
        if latest is not None:
            self._compiled.keep_at_hand(id(program), latest)
        return self._run_checked(program, compiled, checked)

    def _run_checked(self, program: GraphProgram, compiled: Compiled, leaves: Sequence[Any]) -> Any:
        results = call_in_numpy_state(compiled.run, (leaves,), compiled.schedule.may_call_back)
        return results[0] if program.gives_a_leaf else program.pack(results)

    @public
    def profile(self, program: GraphProgram, *arrays: Any, runs: int = 5) -> Profile:
        """Measure the time and memory of each instruction; see `GraphProgram.profile`."""
        from tenferro.exec.profiling import measure  # not imported unless a run is profiled

        if isinstance(runs, bool) or runs < 1:
            raise InvalidConfigError(f"profile: runs must be at least 1, got {runs!r}")
        if self.binder.backend is not NUMPY:
            raise InvalidConfigError(
                f"profile: measures NumPy's arrays only, not those of backend {self.binder.backend.name!r}"
            )
        leaves = program.check_arguments(arrays)
        static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
        static = self.binder.prepared(static)
        schedule = replace(self.binder, plan=()).bind(static)
        return measure(static, schedule, leaves, runs)

    @public
    def compile(self, program: GraphProgram, *specs: Any) -> ExecProgram:
        """Return the schedule for inputs of these specs, or for these arrays with their layouts; it is cached."""
        shapes = tuple(tuple(spec.shape) for spec in specs or program.input_specs)
        return self._compile(program, shapes, axes_of(specs)).schedule

    def _compile(
        self, program: GraphProgram, shapes: tuple[Any, ...], axes: tuple[Axes | None, ...]
    ) -> Compiled:
        axes = axes if self._has_layouts and any(axes) else ()

        def compiled() -> Compiled:
            with until_compiled():
                static = program.specialize(program.bind(shapes))
                schedule = self.binder.schedule(static, axes, self.order)
            if self.binder.backend is not NUMPY:
                return Compiled(schedule, partial(self._on_backend, schedule))
            schedule = verified(finish(schedule, self.order))
            if self.check_finite:
                return Compiled(schedule, partial(interpret, schedule, around=finite_or_raise))
            return Compiled(schedule, Runner(schedule, self.segmented))

        return self._compiled.get((program.identity, shapes, axes), compiled)

    def _on_backend(self, schedule: ExecProgram, leaves: Sequence[Any]) -> list[Any]:
        """Run a schedule on a backend other than NumPy's, and return NumPy arrays."""
        outputs = interpret(schedule, list(map(self.binder.backend.upload, leaves)))
        dense = None if self.order == "K" else Dense(self.order)
        return copy_aliases(list(map(self.binder.backend.download, outputs)), leaves, dense)

    def kernel(self, op: StdTensorOp) -> Callable[..., Any]:
        """Return the function that runs one op on arrays, with this executor's runtimes and passes.

        Raises:
            UnsupportedError: the op is an extension without a runtime, or the backend has no kernel for the op.
        """
        return self.binder.kernel(op)

    def apply(self, op: StdTensorOp, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Run one op on arrays, and return its results.

        Raises:
            ArityError, ShapeError, DTypeError: the op does not accept these operands.
            UnsupportedError: the backend has no kernel for the op, or the extension has no runtime.
            BackendFailureError: the kernel failed.
        """
        backend = self.binder.backend
        specs = [TensorSpec.of(array.shape, DType.of(array.dtype)) for array in arrays]
        types = op.infer(*specs, guards=GuardLog())
        try:
            calls_back = bool(op.parts) or Fact.EXTERNAL in facts_of(op)
            kernel = self.binder.kernel(op, specs, types)
            result = call_in_numpy_state(kernel, (op, *map(backend.upload, arrays)), calls_back)
            results = results_of(op, result, len(types))
        except TenferroError:
            raise
        except Exception as error:
            if is_interruption(error):
                raise
            raise failure(op, types, error) from error
        return tuple(map(backend.download, results))

    def refusal(self, op: type[StdTensorOp] | str, dtype: DType, platform: str) -> str | None:
        """Return the reason why an op is not supported for a dtype; None if it is supported.

        Args:
            op: a class of ops, or the id of an extension family.
        """
        if isinstance(op, str):
            registered = {runtime.family_id for runtime in self.extensions.registered}
            is_known = op in registered or op in registered_families()
            return None if is_known else f"extension: {op}: not registered on this executor"
        try:
            self.binder.backend.kernel(op, (dtype,))
        except UnsupportedError as error:
            return str(error)
        return None

    @public
    def register_runtime(self, runtime: ExtensionRuntime, *, replace: bool = False) -> None:
        """Register the runtime of an extension family on this executor.

        Raises:
            DuplicateFamilyError: the family already has a runtime, and `replace` is not set.
        """
        self.extensions.register(runtime, replace=replace)
        self._compiled.clear()  # cached schedules may contain code of the earlier runtime

    @public
    def source(self, program: GraphProgram, *specs: Any) -> str:
        """Return the Python source that runs the program for inputs of these shapes; see `GraphProgram.source`."""
        if specs and isinstance(specs[0], str):
            if specs[0] != "llvm":
                raise InvalidConfigError(
                    f'source: of "llvm", or Python without a name, got {specs[0]!r}'
                )
            from tenferro.exec.llvm.listing import llvm_text  # only listings need it

            return llvm_text(self.compile(program, *specs[1:]))
        return source_of(self.compile(program, *specs))

    @public
    def memory_plan(self, program: GraphProgram, *specs: Any) -> MemoryPlan:
        """Return the offsets of intermediate values; see `GraphProgram.memory_plan`."""
        return self.compile(program, *specs).memory

    def cache_stats(self) -> CacheStats:
        """Return the numbers of hits, misses, evictions and entries of the cache of schedules."""
        return self._compiled.stats()

    def compile_cache_stats(self) -> CompileCacheStats | None:
        """Return the numbers of hits and misses of this process in the cache folder; None if there is no folder."""
        return None if self.compile_cache is None else self.compile_cache.stats()

    def compile_stats(self) -> CompileStats:
        """Return the number of compiled functions by kind, and the failed attempts with their reasons.

        Only `cache_clear` resets the counts. The interpreter runs steps that failed to compile.

        >>> GraphExecutor(compiled=False).compile_stats()
        CompileStats(compiled={}, failures=())
        """
        return self.binder.resources.log.stats()

    def cache_clear(self) -> None:
        """Remove schedules, plans of extensions and machine code from the caches, and free cached memory."""
        self._compiled.clear()
        self.extensions.caches.clear()
        if self.compiler is not None:
            self.compiler.cache_clear()
        self.binder.resources.log.clear()
        self.memory.clear()


def _require_options(
    order: Any, threads: Any, check_finite: bool, backend: Backend, compiled: Any
) -> None:
    """Require that each option of an executor is valid, and that the options are compatible.

    Raises:
        InvalidConfigError: an option is invalid, or two options exclude each other.
    """
    if order not in ("F", "C", "K"):
        raise InvalidConfigError(f'GraphExecutor: order must be "F", "C" or "K", got {order!r}')
    is_count = hasattr(threads, "__index__") and not isinstance(threads, bool)
    if threads is not None and not (is_count and threads >= 1):
        raise InvalidConfigError(
            f"GraphExecutor: threads must be an integer from 1, got {threads!r}"
        )
    if check_finite and backend is not NUMPY:
        raise InvalidConfigError("GraphExecutor: check_finite looks at NumPy's arrays only")
    if compiled not in tuple(BLOCK_GAINS):  # a tuple, because `compiled` may be unhashable
        raise InvalidConfigError(
            f'GraphExecutor: compiled must be "auto", "loops", "jit", True or False, got {compiled!r}'
        )
    if compiled is True and backend is not NUMPY:
        raise InvalidConfigError(
            f"GraphExecutor: compiled=True is for NumPy's arrays only, not those of backend {backend.name!r}"
        )
    if compiled is True and not is_installed():
        oldest = ".".join(map(str, OLDEST))
        raise InvalidConfigError(
            f"GraphExecutor: compiled=True needs llvmlite {oldest} or later; pip install 'llvmlite>={oldest}'"
        )

"""`GraphExecutor`: runs programs on NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tenferro.dims import GuardLog
from tenferro.door import is_traced
from tenferro.errors import InvalidConfigError, TenferroError
from tenferro.exec.claims import Claims
from tenferro.exec.copying import dense
from tenferro.exec.exec_program import (
    ExecProgram,
    Pass,
    Resources,
    compile_std_to_exec,
    kernel_of,
)
from tenferro.exec.extensions import ExtensionRegistry, ExtensionRuntime
from tenferro.exec.kernels import KERNELS
from tenferro.exec.memory import Arena
from tenferro.exec.quiet import quietly
from tenferro.exec.replay import replay
from tenferro.exec.results import ResultMemory
from tenferro.exec.run import failure, is_foreign, result_failure, run_instructions
from tenferro.exec.workers import Workers
from tenferro.interruption import is_interruption
from tenferro.ops import StdTensorOp
from tenferro.passes import NATIVE_PASSES
from tenferro.program import BoundedCache, CacheStats, GraphProgram
from tenferro.program.memory_plan import MemoryPlan
from tenferro.tracebacks import end_at_the_caller, public
from tenferro.types import DType, TensorSpec, flatten, unflatten

if TYPE_CHECKING:
    from tenferro.program.profile import Profile

__all__ = ["GraphExecutor"]

LATEST = 64
"""Programs whose last arguments are at hand."""


class Latest(NamedTuple):
    """What a program was last run on: shapes and dtypes of its arguments, each an array or NumPy scalar.

    Attributes:
        program: is kept alive, so that its number stays its own.
    """

    program: GraphProgram
    types: list[tuple[type, tuple[int, ...], Any]]
    exec_program: ExecProgram
    has_scalars: bool

    def leaves(self, arrays: Sequence[Any]) -> Sequence[Any] | None:
        """The arguments as arrays, if they are of these types."""
        if len(arrays) != len(self.types):
            return None
        for x, (kind, shape, dtype) in zip(arrays, self.types):  # noqa: B905  # because the lengths are equal
            if type(x) is not kind or x.shape != shape or x.dtype != dtype:
                return None
        return list(map(np.asarray, arrays)) if self.has_scalars else arrays


class GraphExecutor:
    """Runs a `GraphProgram` natively: specialise to the shapes, apply the passes, call the kernels.

    Args:
        order: memory order of the results: "F" (dense column-major), "C" (dense row-major), or
            "K", whatever order the kernel produced, without the last copy.
        threads: how many work at once on large elementwise groups; None takes the machine's cores. Results do
            not depend on it.
        segmented: run programs as generated Python, or one instruction at a time; results are the
            same, but for how sums are rounded.
        check_finite: stop at the first op that makes a NaN where no operand has one, or an infinity where
            all are finite, in gradients too; the error names op, element, operands and your line.
        passes: the native passes; None takes `tenferro.passes.NATIVE_PASSES`.
        cache_size: how many specialised programs are kept.
        cache_bytes: how much their constants may hold together.
        arena_bytes: how much memory of values in the middle of programs is kept for the next run.
        result_bytes: how much memory of results that nobody holds any more is kept for the next ones.
        runtimes: of extension families, beside those that come with the package.

    Results never share memory with an argument, a constant, or each other.

    Raises:
        InvalidConfigError: an option that means nothing.

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
        arena_bytes: int = 1 << 30,
        result_bytes: int = 1 << 28,
        runtimes: Iterable[ExtensionRuntime] = (),
    ) -> None:
        if order not in ("F", "C", "K"):
            raise InvalidConfigError(f'GraphExecutor: order is "F", "C" or "K", got {order!r}')
        if threads is not None and (isinstance(threads, bool) or threads < 1):
            raise InvalidConfigError(f"GraphExecutor: threads is at least 1, got {threads!r}")
        self.order: Literal["F", "C", "K"] = order
        self.threads = threads
        self.segmented = segmented
        self.check_finite = check_finite
        self.passes = tuple(NATIVE_PASSES if passes is None else passes)
        self.extensions = ExtensionRegistry(self, cache_size)
        for runtime in runtimes:
            self.register_runtime(runtime)
        self.workers = Workers(threads)
        self.arena = Arena(arena_bytes)
        self.results = ResultMemory(result_bytes)
        self._resources = Resources(
            self.workers, self.arena, self.results, order, segmented, check_finite
        )
        self._bounds = {"cache_size": cache_size, "cache_bytes": cache_bytes,
                        "arena_bytes": arena_bytes, "result_bytes": result_bytes}  # fmt: skip
        self._generates = segmented and not check_finite
        self._compiled: BoundedCache[ExecProgram] = BoundedCache(
            cache_size, cache_bytes, attrgetter("constant_bytes")
        )
        self._latest: dict[int, Latest] = {}
        self._evictions = 0

    def __reduce__(self) -> Any:
        """What it was made by: another process makes one of its own."""
        options = {"segmented": self.segmented, "check_finite": self.check_finite,
                   "passes": self.passes}  # fmt: skip
        make = partial(GraphExecutor, self.order, self.threads, **options, **self._bounds)
        return make, (), self.extensions.registered

    def __setstate__(self, runtimes: tuple[ExtensionRuntime, ...]) -> None:
        for runtime in runtimes:
            self.register_runtime(runtime, replace=True)

    def __repr__(self) -> str:
        programs = self.cache_stats().entries
        return f"<GraphExecutor order={self.order!r}, threads={self.threads}: {programs} programs>"

    def run(self, program: GraphProgram, *arrays: Any) -> Any:
        """The tree the program's function returns, of fresh NumPy arrays.

        Given tensors of a trace, the program is written into it, and tensors come back: programs can
        be called from functions that are traced or differentiated.

        Raises:
            ArityError, DTypeError, ShapeError, GuardError: arguments that do not fit.
            BackendFailureError: a kernel failed, with op and user line.
            NonFiniteError: under `check_finite`.
        """
        try:
            latest = self._latest.get(id(program))
            if latest is not None:
                leaves = latest.leaves(arrays)
                if leaves is not None:
                    return self._run_checked(program, latest.exec_program, leaves)
            leaves, tree = flatten(arrays)
            if tree == program.in_tree:
                return self.run_leaves(program, leaves)
            return self.run_leaves(program, program.check_arguments(arrays))
        except Exception as error:
            end_at_the_caller(error)
            raise

    def run_leaves(self, program: GraphProgram, leaves: Sequence[Any]) -> Any:
        """As `run`, on the leaves of the arguments, which must have the structure that the program takes.

        Raises:
            as `run`, but for structures.
        """
        # What came last has been checked; comparing with it is cheaper than checking again.
        latest = self._latest.get(id(program))
        if latest is not None:
            checked = latest.leaves(leaves)
            if checked is not None:
                return self._run_checked(program, latest.exec_program, checked)
        if any([is_traced(x) for x in leaves if type(x) is not np.ndarray]):
            return replay(program, unflatten(program.in_tree, leaves))
        checked = program.check_leaves(leaves)
        exec_program = self._exec_program(program, tuple([leaf.shape for leaf in checked]))
        self._remember(program, leaves, exec_program)
        return self._run_checked(program, exec_program, checked, counted=True)

    def _run_checked(
        self,
        program: GraphProgram,
        exec_program: ExecProgram,
        leaves: Sequence[Any],
        counted: bool = False,
    ) -> Any:
        if not counted:
            self._compiled.count_hit()
        outputs = self.run_exec(exec_program, leaves)
        line = exec_program.generated if self._generates else None
        shared = (True,) * len(outputs) if line is None else line.shared
        results = self._finish(exec_program, outputs, leaves, shared)
        return results[0] if program.gives_a_leaf else program.pack(results)

    def _remember(self, program: GraphProgram, arrays: Any, exec_program: ExecProgram) -> None:
        if all([type(x) is np.ndarray or isinstance(x, np.generic) for x in arrays]):
            # What the cache has dropped is not to be kept here.
            if len(self._latest) >= LATEST or self._compiled.evictions != self._evictions:
                self._latest.clear()
                self._evictions = self._compiled.evictions
            types = [(type(x), x.shape, x.dtype) for x in arrays]
            has_scalars = any(isinstance(x, np.generic) for x in arrays)
            self._latest[id(program)] = Latest(program, types, exec_program, has_scalars)

    @public
    def profile(self, program: GraphProgram, *arrays: Any, runs: int = 5) -> Profile:
        """Time and memory of each instruction; see `GraphProgram.profile`."""
        from tenferro.exec.profiling import measure  # because few runs are profiled

        if isinstance(runs, bool) or runs < 1:
            raise InvalidConfigError(f"profile: runs is at least 1, got {runs!r}")
        leaves = program.check_arguments(arrays)
        static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
        for rewrite in self.passes:
            static = rewrite(static)
        return measure(static, compile_std_to_exec(static, (), self.extensions), leaves, runs)

    @public
    def compile(self, program: GraphProgram, *specs: Any) -> ExecProgram:
        """The execution IR for inputs of these shapes (specs or arrays); kept in the cache."""
        shapes = tuple(tuple(spec.shape) for spec in specs or program.input_specs)
        return self._exec_program(program, shapes)

    def _exec_program(self, program: GraphProgram, shapes: tuple[Any, ...]) -> ExecProgram:
        return self._compiled.get(
            (program.identity, shapes),
            lambda: compile_std_to_exec(
                program.specialize(program.bind(shapes)),
                self.passes,
                self.extensions,
                self._resources,
            ),
        )

    def kernel(self, op: StdTensorOp) -> Callable[..., Any]:
        """What runs one op on arrays: an extension by the runtimes here, a loop by these passes.

        Raises:
            UnsupportedError: an extension without a runtime.
        """
        return kernel_of(op, self.passes, self.extensions, self._resources)

    def apply(self, op: StdTensorOp, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of one op on arrays, outside any program.

        Raises:
            ArityError, ShapeError, DTypeError: what the op's card refuses.
            UnsupportedError: an extension without a runtime.
            BackendFailureError: the kernel failed.
        """
        specs = [TensorSpec.of(array.shape, DType.of(array.dtype)) for array in arrays]
        types = op.infer(*specs, guards=GuardLog())
        try:
            if is_foreign(op):
                result = quietly(self.kernel(op), (op, *arrays), is_foreign=True)
            else:
                result = quietly(KERNELS[type(op)], (op, *arrays), is_foreign=False)
        except TenferroError:
            raise
        except Exception as error:
            if is_interruption(error):
                raise
            raise failure(op, types, error) from error
        return (np.asarray(result),) if len(types) == 1 else tuple(map(np.asarray, result))

    @public
    def register_runtime(self, runtime: ExtensionRuntime, *, replace: bool = False) -> None:
        """Execute an extension family by this runtime.

        Raises:
            DuplicateFamilyError: the family has one already, and `replace` is not set.
        """
        self.extensions.register(runtime, replace=replace)

    def run_exec(self, program: ExecProgram, leaves: Sequence[Any]) -> list[Any]:
        """Execute the IR on arrays that fit it; results as the kernels left them."""
        return run_instructions(program, leaves, self.segmented, self.check_finite)

    def _finish(
        self,
        program: ExecProgram,
        outputs: list[Any],
        leaves: Sequence[Any],
        may_share: Sequence[bool],
    ) -> list[Any]:
        """Results in the order asked for, each with memory of its own.

        Raises:
            BackendFailureError: a view that memory does not hold once it is copied.
        """
        finished: list[Any] = []
        order = self.order
        claims = Claims(leaves) if any(may_share) else None
        for output, asked in zip(outputs, may_share, strict=True):
            array = np.asarray(output)
            flags = array.flags
            try:
                if order != "K" and not (
                    flags.f_contiguous if order == "F" else flags.c_contiguous
                ):
                    array = dense(array, order, self.workers, self.results)
                elif not flags.writeable or (asked and claims and claims.has(array)):
                    array = np.array(array, order=order, copy=True)
            except MemoryError as error:
                raise result_failure(program, len(finished), error) from error
            if claims:
                claims.add(array)
            finished.append(array)
        return finished

    @public
    def source(self, program: GraphProgram, *specs: Any) -> str:
        """The Python that runs the program for inputs of these shapes; see `GraphProgram.source`."""
        return self.compile(program, *specs).straight_line.source

    @public
    def memory_plan(self, program: GraphProgram, *specs: Any) -> MemoryPlan:
        """Where values in the middle live; see `GraphProgram.memory_plan`."""
        return self.compile(program, *specs).straight_line.memory

    def cache_stats(self) -> CacheStats:
        """What the cache of specialised programs has done."""
        return self._compiled.stats()

    def cache_clear(self) -> None:
        """Forget every specialised program and every plan of extensions, and let go of the memory that is kept."""
        self._latest.clear()
        self._compiled.clear()
        self.extensions.caches.clear()
        self.arena.clear()
        self.results.clear()

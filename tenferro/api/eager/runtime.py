"""`EagerRuntime`: runs operations at once by the native kernels, and records them for derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.ad import AdContext
from tenferro.api.eager.plan import Plan
from tenferro.api.eager.recording import is_recording
from tenferro.api.eager.tape import Operand, Record, Tape
from tenferro.api.eager.tensor import EagerTensor
from tenferro.api.planned import NotFixedError, fixed
from tenferro.api.promotion import convert
from tenferro.api.tensor import TracedTensor, tracing
from tenferro.dispatch import as_operand, spec_of
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError, TenferroError
from tenferro.exec import GraphExecutor
from tenferro.exec.plan import Binder
from tenferro.graph import Graph, GraphBuilder
from tenferro.graph.source_line import CallerFinder, SourceLine
from tenferro.ops import StdTensorOp
from tenferro.program import BoundedCache, CacheStats, ExtensionRuntime, Subprogram
from tenferro.tracebacks import public
from tenferro.types import ArrayLike, DType, TensorSpec, host_array

if TYPE_CHECKING:
    from tenferro.api.eager.namespace import EagerNamespace

__all__ = ["EagerRuntime"]


PLANS = 4096
"""Maximum number of cached plans. It is also the maximum number of cached constants for Python numbers."""


NOWHERE = SourceLine("", 0, "")
"""Placeholder for the source line of the instructions of a plan. Each recorded call has its own source line."""


OP_BY_OP = Plan(Subprogram.of(Graph(), (), ()), Binder())
"""Entry of the cache for an API function that cannot be planned as a whole.

The ops of such a function run one by one.
"""


class EagerRuntime:
    """Runtime of eager tensors. It owns the caches, and the kernels and derivative rules that operations use.

    An operation is recorded only if an operand is tracked, that is, a variable or computed from a variable.

    Args:
        ad: the derivative rules of `backward`, and the cache of its programs; by default a new `AdContext`.
        runtimes: runtimes of extension families, which replace the default runtimes of these families.
        executor: the executor of ops and programs; by default a new `GraphExecutor("K")`.

    Raises:
        InvalidConfigError: both `runtimes` and `executor` are passed; the executor has its own runtimes.

    >>> import tenferro as tnf
    >>> rt = EagerRuntime()
    >>> w = rt.variable([[1.0, 2.0], [3.0, 4.0]])
    >>> y = tnf.sum(tnf.tanh(w @ rt.constant([0.1, 0.2])))
    >>> y.backward()
    >>> w.grad.shape
    (2, 2)

    Source: docs/specification/caches.md; docs/specification/execution.md.
    """

    def __init__(
        self,
        ad: AdContext | None = None,
        *,
        runtimes: Iterable[ExtensionRuntime] = (),
        executor: GraphExecutor | None = None,
    ) -> None:
        own = tuple(runtimes)
        if executor is not None and own:
            raise InvalidConfigError(
                "EagerRuntime: give the runtimes to the executor, GraphExecutor(runtimes=..), not beside it"
            )
        self.ad = AdContext() if ad is None else ad
        self.executor = GraphExecutor("K", runtimes=own) if executor is None else executor
        self._is_plain = ad is None and not own and executor is None
        self._plans: BoundedCache[Plan] = BoundedCache(PLANS)
        self._numbers: BoundedCache[EagerTensor] = BoundedCache(PLANS)
        self._number = count()
        self._find_caller = CallerFinder()

    def __reduce__(self) -> Any:
        """Pickle the runtime as a new runtime with default arguments.

        Raises:
            InvalidConfigError: the caller passed an AdContext, an executor or extension runtimes, which cannot be
                pickled.
        """
        if not self._is_plain:
            raise InvalidConfigError(
                "an EagerRuntime with an AdContext, an executor or extension runtimes of its own is not "
                "pickled; "
                "pickle x.numpy(), and give it to such a runtime"
            )
        return EagerRuntime, ()

    def __repr__(self) -> str:
        return f"<EagerRuntime: {self.plan_stats().entries} plans>"

    # ---- tensors -----------------------------------------------------------------------------

    @public
    def variable(self, array: ArrayLike) -> EagerTensor:
        """Copy an array to a variable, with respect to which `backward` differentiates.

        Raises:
            DTypeError: the array has integers or bools, which have no derivatives.
        """
        tensor = EagerTensor(self, self._copied(array), is_variable=True)
        if not tensor.dtype.is_inexact:
            raise DTypeError(
                f"variable: {tensor.spec} has no derivatives; convert it, or use constant"
            )
        return tensor

    @public
    def constant(self, array: ArrayLike) -> EagerTensor:
        """Copy an array to a constant."""
        return EagerTensor(self, self._copied(array))

    lift = constant

    def adopt(self, array: Any) -> EagerTensor:
        """Wrap an array as a constant without a copy. If the array is changed later, the constant also changes."""
        return EagerTensor(self, array)

    @cached_property
    def namespace(self) -> EagerNamespace:
        """Array API namespace of the runtime: its creation functions return tensors of this runtime."""
        from tenferro.api.eager.namespace import EagerNamespace  # because it imports the package

        return EagerNamespace(self)

    def _copied(self, array: ArrayLike) -> Any:
        operand = as_operand(array.array if type(array) is EagerTensor else array)
        if type(operand) is not np.ndarray:
            raise DTypeError(f"{operand!r:.60} has no elements yet: it belongs to a trace")
        DType.of(operand.dtype)
        return np.array(operand)

    # ---- running -----------------------------------------------------------------------------

    def apply(self, op: StdTensorOp, operands: tuple[Any, ...]) -> tuple[EagerTensor, ...]:
        """Run an op now, and record it if an operand is tracked.

        Raises:
            ArityError, ShapeError, DTypeError: the op does not accept the operands.
            BackendFailureError: the kernel failed.
        """
        arrays: list[Any] = []
        key: list[Any] = [type(op), op]
        is_tracked = False
        for x in operands:
            if type(x) is EagerTensor:
                array = x.array
                if x.record is not None or x.is_variable:
                    is_tracked = True
            else:
                array = x if type(x) is np.ndarray else host_array(x, op.name)
            arrays.append(array)
            key += (array.dtype, array.shape)
        named = tuple(key)
        plan = self._plans.find(named)
        if plan is None:
            plan = self._plans.get(named, lambda: self._plan_of_op(op, arrays))
        outputs = plan.outputs(arrays)
        if is_tracked and plan.is_inexact:
            return self._noted(plan, operands, arrays, outputs)
        return tuple([EagerTensor(self, y, spec) for y, (_, spec, _) in zip(outputs, plan.results)])  # noqa: B905  # because the lengths are equal

    def call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Run an API function as one operation. Its plan is cached for its options and the types of its operands.

        If no plan is possible, call the function, so that its ops run one by one.
        """
        operands: list[EagerTensor] = []
        key: list[Any] = [function]
        is_tracked = False
        try:
            for x in arguments:
                if type(x) is EagerTensor:
                    if x.runtime is not self:
                        return function(*arguments, **options)
                    operands.append(x)
                    array = x.array
                    key += (array.dtype, array.shape)
                    if x.record is not None or x.is_variable:
                        is_tracked = True
                else:
                    key.append(fixed(x))
            for name, x in options.items():
                key += (name, fixed(x))
            named = tuple(key)
        except NotFixedError:
            named = None
        # The call is outside of the `except` block, so that `NotFixedError` does not become the context
        # of errors that the function raises.
        if named is None:
            return function(*arguments, **options)
        plan = self._plans.find(named)
        if plan is None:
            plan = self._plans.get(named, lambda: self._plan_of_call(function, arguments, options))
        if plan is OP_BY_OP:
            return function(*arguments, **options)
        arrays = [x.array for x in operands]
        outputs = plan.outputs(arrays)
        if is_tracked and plan.is_inexact:
            return self._noted(plan, operands, arrays, outputs)[0]
        return EagerTensor(self, outputs[0], plan.results[0].spec)

    def noted(self, part: Subprogram, operands: Sequence[Any]) -> tuple[EagerTensor, ...]:
        """Run a part of a graph on operands. Record the part, with its marks, as one operation.

        Raises:
            InvalidConfigError: an operand belongs to another runtime.
        """
        if any([type(x) is EagerTensor and x.runtime is not self for x in operands]):
            raise InvalidConfigError("operands belong to two EagerRuntimes")
        plan = Plan(part, self.executor.binder)
        arrays = [x.array if type(x) is EagerTensor else x for x in operands]
        return self._noted(plan, operands, arrays, plan.outputs(arrays))

    def _noted(
        self, plan: Plan, operands: Sequence[Any], arrays: list[Any], outputs: tuple[Any, ...]
    ) -> tuple[EagerTensor, ...]:
        """Wrap the results of an operation as eager tensors. Also record the operation, except under `no_grad`."""
        if not is_recording():
            return tuple([
                EagerTensor(self, array, spec)
                for array, (_, spec, _) in zip(outputs, plan.results)  # noqa: B905  # because the lengths are equal
            ])  # fmt: skip
        noted: list[Operand] = []
        for x, array in zip(operands, arrays):  # noqa: B905  # because the lengths are equal
            if type(x) is EagerTensor:
                noted.append(Operand(array, x.record, x.position, x if x.is_variable else None))
            else:
                noted.append(Operand(array, None, 0, None))
        record = Record(next(self._number), plan, tuple(noted), outputs, self._find_caller())
        return tuple([
            EagerTensor(self, array, spec, record if is_inexact else None, position)
            for array, (position, spec, is_inexact) in zip(outputs, plan.results)  # noqa: B905  # because the lengths are equal
        ])  # fmt: skip

    def _plan_of_op(self, op: StdTensorOp, arrays: list[Any]) -> Plan:
        specs = list(map(spec_of, arrays))
        # Infer the types before adding the op: an error of the graph would name `NOWHERE` as the line.
        op.infer(*specs)
        graph = Graph()
        inputs = tuple([graph.add_input(spec) for spec in specs])
        outputs = graph.add(op, inputs, NOWHERE)
        return Plan(_without_lines(Subprogram.of(graph, inputs, outputs)), self.executor.binder)

    def _plan_of_call(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Plan:
        """Trace a function and return its plan. Return `OP_BY_OP` if tracing adds no instruction or raises an error."""
        builder = GraphBuilder()
        builder.source = NOWHERE
        builder.caches = self.executor.extensions.caches
        graph = builder.graph
        traced = [
            TracedTensor(builder, graph.add_input(x.spec)) if type(x) is EagerTensor else x
            for x in arguments
        ]
        try:
            with tracing(builder):
                value = function(*traced, **options).value
        except TenferroError:
            return OP_BY_OP
        if value in graph.inputs:
            return OP_BY_OP
        return Plan(
            _without_lines(Subprogram.of(graph, graph.inputs, [value])), self.executor.binder
        )

    def number(self, value: ArrayLike, spec: TensorSpec) -> EagerTensor:
        """Return a constant of type `spec` whose elements all equal the Python number `value`. Constants are cached.

        Raises:
            DTypeError: the number is an integer outside the range of the dtype.
        """
        kind = type(value)
        shown = value if kind is int else repr(value)  # because 0.0 == -0.0
        key = (kind, shown, spec.dtype.dtype, spec.shape)
        constant = self._numbers.find(key)
        return (
            self._numbers.get(key, lambda: self._repeated(value, spec))
            if constant is None
            else constant
        )

    def _repeated(self, value: Any, spec: Any) -> EagerTensor:
        array = np.broadcast_to(np.asarray(convert(value, spec.dtype)), spec.shape)
        return EagerTensor(self, array, spec)

    @public
    def register_runtime(self, runtime: ExtensionRuntime, *, replace: bool = False) -> None:
        """Use `runtime` to execute its family of extensions.

        Raises:
            DuplicateFamilyError: the family already has a registered runtime, and `replace` is False.
        """
        self.executor.register_runtime(runtime, replace=replace)
        self._is_plain = False
        self._plans.clear()

    # ---- derivatives -------------------------------------------------------------------------

    @public
    def backward(self, y: EagerTensor, seed: ArrayLike | None = None) -> None:
        """Add, to the `grad` of each variable on which y depends, its cotangent; see `EagerTensor.backward`."""
        y_bar = self._seed(y, seed)
        if y.record is None:
            if not y.is_variable:
                raise InvalidConfigError(
                    "backward: no variable led to this tensor; make one with rt.variable"
                )
            self._add(y, y_bar)
            return
        tape = Tape(y)
        key = tape.key
        named = None if key is None else ("backward", key)
        derivative = self.ad.program(named, lambda: tape.derivative(self.ad))
        bars = self.executor.run(
            derivative.program, *[tape.values[index] for index in derivative.takes], y_bar
        )
        for leaf, bar in zip(tape.leaves, bars, strict=True):
            self._add(leaf, bar)

    def _seed(self, y: EagerTensor, seed: ArrayLike | None) -> Any:
        spec = y.spec
        if seed is None:
            if spec.rank or not spec.dtype.is_float:
                kind = ShapeError if spec.rank else DTypeError
                raise kind(f"backward: {spec} is not a real scalar; give its cotangent as seed")
            return np.ones((), spec.dtype.dtype)
        array = self._copied(seed)
        if type(seed) is not EagerTensor and not hasattr(seed, "dtype"):
            array = array.astype(spec.dtype.dtype)
        if array.shape != spec.shape:
            raise ShapeError(f"backward: the seed must be {spec}, got {spec_of(array)}")
        if array.dtype != spec.dtype.dtype:
            raise DTypeError(f"backward: the seed must be {spec}, got {spec_of(array)}")
        return array

    def _add(self, leaf: EagerTensor, bar: np.ndarray[Any, Any]) -> None:
        accumulated = leaf.grad
        leaf.grad = EagerTensor(self, bar if accumulated is None else accumulated.array + bar)

    def cache_stats(self) -> CacheStats:
        """Return the hits, misses and entries of the cache of backward programs."""
        return self.ad.cache_stats()

    def plan_stats(self) -> CacheStats:
        """Return the hits, misses and entries of the cache of plans: one plan per operation and operand types."""
        return self._plans.stats()

    def cache_clear(self) -> None:
        """Empty the caches of backward programs, of their schedules, and of plans."""
        self.ad.cache_clear()
        self.executor.cache_clear()
        self._plans.clear()
        self._numbers.clear()


def _without_lines(part: Subprogram) -> Subprogram:
    """Remove the source lines from the instructions, because a cached plan is used by calls on any line."""
    return replace(part, instructions=tuple([i._replace(source=None) for i in part.instructions]))

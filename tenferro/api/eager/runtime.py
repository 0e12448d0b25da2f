"""`EagerRuntime`: runs operations at once by the native kernels, and keeps what derivatives need."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tenferro.ad import AdContext
from tenferro.api.eager.tape import Operand, Record, Tape
from tenferro.api.eager.tensor import EagerTensor
from tenferro.api.promotion import convert
from tenferro.dims import GuardLog
from tenferro.errors import (
    DTypeError,
    InvalidConfigError,
    ShapeError,
    TenferroError,
)
from tenferro.exec import GraphExecutor
from tenferro.exec.dispatch import as_operand, spec_of
from tenferro.exec.extensions import ExtensionRuntime
from tenferro.exec.kernels import bound
from tenferro.exec.quiet import QUIET
from tenferro.exec.run import failure
from tenferro.graph.source_line import CallerFinder
from tenferro.ops import StdTensorOp
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.program import BoundedCache, CacheStats
from tenferro.types import DType, TensorSpec

if TYPE_CHECKING:
    from tenferro.api.eager.namespace import EagerNamespace

__all__ = ["EagerRuntime"]


PLANS = 4096
"""How many ops on types have their kernels and result types kept, and how many numbers."""


class _Plan(NamedTuple):
    """An op on arrays of known types.

    Attributes:
        types: of the results; where the data decide an extent, a bound.
        specs: the same where they are exact; None for what the array itself must tell.
    """

    op: StdTensorOp
    run: Any
    types: tuple[TensorSpec, ...]
    specs: tuple[TensorSpec | None, ...]
    is_inexact: bool

    def outputs(self, arrays: list[Any]) -> tuple[Any, ...]:
        """What the kernel makes of the arrays.

        Raises:
            BackendFailureError: the kernel failed.
        """
        try:
            if isinstance(self.op, Extension | ControlOp):
                with np.errstate(all="ignore"):
                    result = self.run(*arrays)
            else:
                result = QUIET.run(self.run, *arrays)
        except TenferroError:
            raise
        except Exception as error:
            raise failure(self.op, self.types, error) from error
        if type(result) is np.ndarray:
            return (result,)
        return (np.asarray(result),) if len(self.types) == 1 else tuple(map(np.asarray, result))


class EagerRuntime:
    """Where eager tensors live: kernels, derivative rules, and the caches of both.

    Args:
        ad: whose rules `backward` uses, and who keeps its programs; one of its own by default.
        runtimes: of extension families, beside those that come with the package.

    Nothing is noted while no operand is tracked.

    >>> import tenferro as tnf
    >>> rt = EagerRuntime()
    >>> w = rt.variable([[1.0, 2.0], [3.0, 4.0]])
    >>> y = tnf.sum(tnf.tanh(w @ rt.constant([0.1, 0.2])))
    >>> y.backward()
    >>> w.grad.shape
    (2, 2)

    Source: seed 000, section 8; seed 003, "Cache Ownership".
    """

    def __init__(
        self, ad: AdContext | None = None, *, runtimes: Iterable[ExtensionRuntime] = ()
    ) -> None:
        own = tuple(runtimes)
        self.ad = AdContext() if ad is None else ad
        self.executor = GraphExecutor("K", runtimes=own)
        self._is_plain = ad is None and not own
        self._plans: BoundedCache[_Plan] = BoundedCache(PLANS)
        self._numbers: BoundedCache[EagerTensor] = BoundedCache(PLANS)
        self._number = count()
        self._find_caller = CallerFinder()

    def __reduce__(self) -> Any:
        """A runtime anew, with the extensions of the package.

        Raises:
            InvalidConfigError: an AdContext or extension runtimes of its own, which are not pickled.
        """
        if not self._is_plain:
            raise InvalidConfigError(
                "an EagerRuntime with an AdContext or extension runtimes of its own is not pickled; "
                "pickle x.numpy(), and give it to such a runtime"
            )
        return EagerRuntime, ()

    # ---- tensors -----------------------------------------------------------------------------

    def variable(self, array: Any) -> EagerTensor:
        """A copy of an array, of which derivatives are wanted.

        Raises:
            DTypeError: an integer or bool array, which has no derivatives.
        """
        tensor = EagerTensor(self, self._copied(array), is_variable=True)
        if not tensor.dtype.is_inexact:
            raise DTypeError(
                f"variable: {tensor.spec} has no derivatives; convert it, or use constant"
            )
        return tensor

    def constant(self, array: Any) -> EagerTensor:
        """A copy of an array, of which no derivatives are wanted."""
        return EagerTensor(self, self._copied(array))

    lift = constant

    def adopt(self, array: Any) -> EagerTensor:
        """An array as a constant, without a copy: it changes with the array."""
        return EagerTensor(self, array)

    @cached_property
    def namespace(self) -> EagerNamespace:
        """The Array API: `tenferro`, whose creation functions give tensors of this runtime."""
        from tenferro.api.eager.namespace import EagerNamespace  # because it is made of the package

        return EagerNamespace(self)

    def _copied(self, array: Any) -> Any:
        operand = as_operand(array.array if type(array) is EagerTensor else array)
        if type(operand) is not np.ndarray:
            raise DTypeError(f"{operand!r:.60} has no elements yet: it belongs to a trace")
        DType.of(operand.dtype)
        return np.array(operand)

    # ---- running -----------------------------------------------------------------------------

    def apply(self, op: StdTensorOp, operands: tuple[Any, ...]) -> tuple[EagerTensor, ...]:
        """The outputs of an op, run now, and noted if an operand is tracked.

        Raises:
            ArityError, ShapeError, DTypeError: what the op's card refuses.
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
                array = np.asarray(x)
            arrays.append(array)
            key += (array.dtype, array.shape)
        named = tuple(key)
        plan = self._plans.find(named)
        if plan is None:
            plan = self._plans.get(named, lambda: self._planned(op, arrays))
        found = plan.outputs(arrays)
        if not (is_tracked and plan.is_inexact):
            return tuple([EagerTensor(self, y, spec) for y, spec in zip(found, plan.specs)])  # noqa: B905  # because the lengths are equal
        noted = tuple([
            Operand(array, x.record, x.position, x if x.is_variable else None)
            if type(x) is EagerTensor
            else Operand(array, None, 0, None)
            for x, array in zip(operands, arrays, strict=True)
        ])  # fmt: skip
        record = Record(next(self._number), op, noted, found, self._find_caller())
        return tuple([
            EagerTensor(self, array, spec, record if kind.dtype.is_inexact else None, position)
            for position, (array, spec, kind) in enumerate(
                zip(found, plan.specs, plan.types, strict=True)
            )
        ])  # fmt: skip

    def _planned(self, op: StdTensorOp, arrays: list[Any]) -> _Plan:
        inputs = tuple(map(spec_of, arrays))
        types = op.infer(*inputs, guards=GuardLog())
        kernel = self.executor.kernel(op)
        run = bound(kernel, op, inputs, self.executor.workers)
        specs = tuple([spec if spec.is_static else None for spec in types])
        return _Plan(op, run, types, specs, any([spec.dtype.is_inexact for spec in types]))

    def number(self, value: Any, spec: TensorSpec) -> EagerTensor:
        """A constant with every element equal to a Python number; kept for when it comes again.

        Raises:
            DTypeError: an integer outside the range of the dtype.
        """
        sign = math.copysign(1.0, value) if type(value) is float else 0.0
        return self._numbers.get(
            (type(value), value, sign, spec), lambda: self._repeated(value, spec)
        )

    def _repeated(self, value: Any, spec: TensorSpec) -> EagerTensor:
        array = np.broadcast_to(convert(value, spec.dtype), spec.shape)
        return EagerTensor(self, array, spec)

    def register_runtime(self, runtime: ExtensionRuntime, *, replace: bool = False) -> None:
        """Execute an extension family by this runtime.

        Raises:
            DuplicateFamilyError: the family has one already, and `replace` is not set.
        """
        self.executor.register_runtime(runtime, replace=replace)
        self._is_plain = False
        self._plans.clear()

    # ---- derivatives -------------------------------------------------------------------------

    def backward(self, y: EagerTensor, seed: Any = None) -> None:
        """Add to the `grad` of every variable that led to y its cotangent; see `EagerTensor.backward`."""
        y_bar = self._seed(y, seed)
        if y.record is None:
            if not y.is_variable:
                raise InvalidConfigError(
                    "backward: no variable led to this tensor; make one with rt.variable"
                )
            self._add(y, y_bar)
            return
        tape = Tape(y)
        made = self.ad.program(("backward", tape.key), lambda: tape.derivative(self.ad))
        bars = self.executor.run(made.program, *[tape.values[place] for place in made.takes], y_bar)
        for leaf, bar in zip(tape.leaves, bars, strict=True):
            self._add(leaf, bar)

    def _seed(self, y: EagerTensor, seed: Any) -> Any:
        spec = y.spec
        if seed is None:
            if spec.rank or not spec.dtype.is_float:
                kind = ShapeError if spec.rank else DTypeError
                raise kind(f"backward: {spec} is no real scalar; give its cotangent as seed")
            return np.ones((), spec.dtype.dtype)
        array = self._copied(seed)
        if type(seed) is not EagerTensor and not hasattr(seed, "dtype"):
            array = array.astype(spec.dtype.dtype)
        if array.shape != spec.shape:
            raise ShapeError(f"backward: the seed must be {spec}, got {spec_of(array)}")
        if array.dtype != spec.dtype.dtype:
            raise DTypeError(f"backward: the seed must be {spec}, got {spec_of(array)}")
        return array

    def _add(self, leaf: EagerTensor, bar: Any) -> None:
        known = leaf.grad
        leaf.grad = EagerTensor(self, bar if known is None else known.array + bar)

    def cache_stats(self) -> CacheStats:
        """What the cache of backward programs has done."""
        return self.ad.cache_stats()

    def plan_stats(self) -> CacheStats:
        """What the cache of kernels by op and types has done."""
        return self._plans.stats()

    def cache_clear(self) -> None:
        """Forget every backward program, what ran them, and every plan."""
        self.ad.cache_clear()
        self.executor.cache_clear()
        self._plans.clear()
        self._numbers.clear()

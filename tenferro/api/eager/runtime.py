"""`EagerRuntime`: runs operations at once by the native kernels, and keeps what derivatives need."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from tenferro.ad import AdContext
from tenferro.api.eager.tape import Record, Tape
from tenferro.api.eager.tensor import EagerTensor
from tenferro.dims import GuardLog
from tenferro.errors import (
    BackendFailureError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
    TenferroError,
)
from tenferro.exec import GraphExecutor
from tenferro.exec.dispatch import as_operand, spec_of
from tenferro.exec.extensions import ExtensionRuntime
from tenferro.exec.kernels import KERNELS
from tenferro.graph.source_line import CallerFinder
from tenferro.ops import StdTensorOp
from tenferro.ops.extension import Extension
from tenferro.program import CacheStats
from tenferro.types import DType, TensorSpec

if TYPE_CHECKING:
    from tenferro.api.eager.namespace import EagerNamespace

__all__ = ["EagerRuntime"]


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
        self.ad = AdContext() if ad is None else ad
        self.executor = GraphExecutor("K", runtimes=runtimes)
        self._number = count()
        self._find_caller = CallerFinder()

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
        arrays = [x.array if type(x) is EagerTensor else np.asarray(x) for x in operands]
        types = op.infer(*[spec_of(array) for array in arrays], guards=GuardLog())
        found = self._run(op, arrays, types)
        if not any([type(x) is EagerTensor and x.is_tracked for x in operands]):
            return tuple([EagerTensor(self, array) for array in found])
        noted = tuple([
            x if type(x) is EagerTensor else EagerTensor(self, array)
            for x, array in zip(operands, arrays, strict=True)
        ])  # fmt: skip
        record = Record(next(self._number), op, noted, found, self._find_caller())
        return tuple([
            EagerTensor(self, array, record if spec.dtype.is_inexact else None, position)
            for position, (array, spec) in enumerate(zip(found, types, strict=True))
        ])  # fmt: skip

    def _run(
        self, op: StdTensorOp, arrays: list[Any], types: tuple[TensorSpec, ...]
    ) -> tuple[Any, ...]:
        is_extension = isinstance(op, Extension)
        kernel: Any = self.executor.extensions.kernel(op) if is_extension else KERNELS[type(op)]
        try:
            with np.errstate(all="ignore"):
                result = kernel(op, *arrays)
        except TenferroError:
            raise
        except Exception as error:
            raise BackendFailureError(
                f"{op.name}: the kernel for {', '.join(map(str, types))} failed: "
                f"{type(error).__name__}: {error}"
            ) from error
        return (np.asarray(result),) if len(types) == 1 else tuple(map(np.asarray, result))

    def register_runtime(self, runtime: ExtensionRuntime, *, replace: bool = False) -> None:
        """Execute an extension family by this runtime.

        Raises:
            DuplicateFamilyError: the family has one already, and `replace` is not set.
        """
        self.executor.register_runtime(runtime, replace=replace)

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

    def cache_clear(self) -> None:
        """Forget every backward program, and what ran them."""
        self.ad.cache_clear()
        self.executor.cache_clear()

"""`TracedTensor`: the argument of a function while the function is traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NoReturn, SupportsIndex, Unpack, cast

import numpy as np

from tenferro.api.arguments import refuse
from tenferro.api.operators import Operators
from tenferro.api.promotion import broadcast_like, convert
from tenferro.dims import GuardLog
from tenferro.dispatch import as_operand
from tenferro.dispatch.tracing import current_builder, recording_into
from tenferro.errors import ConcretizationError, DataDependentShapeError
from tenferro.graph import GraphBuilder, StopGradient
from tenferro.ops import StdTensorOp, analytic, elementwise
from tenferro.program import ExtensionCaches
from tenferro.tracebacks import public_methods
from tenferro.types import ArrayLike, DType, DTypeLike, TensorSpec, UfuncOptions

__all__ = ["TracedTensor", "WeakTensor", "WeakUse", "tracing", "value_in"]


@public_methods
class TracedTensor(Operators):
    """Value of a graph that is being traced. It has a shape and a dtype, but no elements.

    Operators, indexing and NumPy's functions on a traced tensor append ops to the graph instead of computing elements.
    """

    __slots__ = ("builder", "spec", "value")

    builder: GraphBuilder
    value: int
    spec: TensorSpec
    """The shape and the dtype."""

    def __init__(self, builder: GraphBuilder, value: int) -> None:
        self.builder = builder
        self.value = value
        self.spec = builder.graph.types[value]

    @staticmethod
    def __tenferro_apply__(
        op: StdTensorOp, operands: tuple[Any, ...], like: TracedTensor
    ) -> tuple[Any, ...]:
        """Append `op` to the graph of the current trace. Operands that are arrays become constants."""
        builder = (current_builder() or like.builder) if operands else like.builder
        return append(builder, op, operands)

    def __copy__(self) -> TracedTensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TracedTensor:
        return self  # because a graph value never changes

    def __tenferro_stop__(self) -> TracedTensor:
        """Return this tensor with a mark. Differentiation treats the marked tensor as a constant."""
        graph = self.builder.graph
        return TracedTensor(self.builder, graph.add(StopGradient((0,)), (self.value,))[0])

    def lift(self, value: ArrayLike) -> TracedTensor:
        """Add an array to this tensor's graph as a constant, and return the constant as a tensor."""
        return TracedTensor(self.builder, value_in(self.builder, value))

    def __tenferro_number__(self, value: Any) -> TracedTensor:
        """Convert a Python number to this tensor's dtype and shape."""
        number = self.lift(convert(value, self.spec.dtype))
        return cast("TracedTensor", broadcast_like(number, self))

    @property
    def caches(self) -> Any:
        """The caches of plans of extensions. They belong to the compiler, or to this trace if there is no compiler."""
        if self.builder.caches is None:
            self.builder.caches = ExtensionCaches()
        return self.builder.caches

    @property
    def guards(self) -> GuardLog:
        """The conditions on symbolic extents that a program of this trace checks when it runs."""
        return self.builder.graph.guards

    def __tenferro_distrust__(self) -> None:
        """Mark the graph as untrusted, because a part of it comes from a file of unknown origin."""
        self.builder.graph.trusted = False

    # ---- type --------------------------------------------------------------------------------

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a rank-0 tensor")
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"TracedTensor({self.spec})"

    # ---- methods that need elements ------------------------------------------------------------

    def _refuse(self, asked: str, hint: str) -> NoReturn:
        raise ConcretizationError(
            f"{asked} needs the elements of {self.spec}, which are not known while tracing; {hint}"
        )

    def __tenferro_elements__(self, asked: str, hint: str) -> NoReturn:
        """Raise an error, because the shape of a result depends on elements that are unknown while tracing."""
        raise DataDependentShapeError(
            f"{asked} needs the elements of {self.spec}, which are not known while tracing; {hint}"
        )

    def __bool__(self) -> NoReturn:
        self._refuse(
            "bool()",
            "use where(cond, x, y) or cond(pred, true_fun, false_fun), or, for an argument that is known "
            "when the function is traced, jit(.., static_argnames=..)",
        )

    def __int__(self) -> NoReturn:
        self._refuse("int()", "keep it a tensor")

    def __index__(self) -> NoReturn:
        self._refuse(
            "conversion to a Python integer, as for an index or range(),",
            "use tenferro.take(sequence, i, axis=0) for sequence[i], and tenferro.fori_loop for a loop",
        )

    def __float__(self) -> NoReturn:
        self._refuse("float()", "keep it a tensor")

    def __complex__(self) -> NoReturn:
        self._refuse("complex()", "keep it a tensor")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NoReturn:
        self._refuse(
            "conversion to a NumPy array",
            "use tenferro's functions instead of NumPy's, and tenferro.take(table, i, axis=0) for table[i]",
        )

    def __dlpack__(self, **options: Unpack[UfuncOptions]) -> NoReturn:
        self._refuse("export by DLPack", "export the result of the run")

    def __dlpack_device__(self) -> NoReturn:
        self._refuse("export by DLPack", "export the result of the run")

    def __format__(self, form: str) -> str:
        return (
            self._refuse(f"format {form!r}", "print the result of the run") if form else repr(self)
        )

    def copy(self, order: str = "C") -> TracedTensor:
        """Return this tensor itself, because a graph value never changes."""
        refuse("copy", "order", order)
        return self

    def item(self, *index: SupportsIndex) -> NoReturn:
        """Raise an error, because a traced tensor has no elements yet."""
        self._refuse("item()", "keep it a tensor")

    tolist = item


class WeakUse:
    """Record of how the body of a loop uses the Python numbers in the loop's carry.

    Attributes:
        took_a_dtype: whether an operation with a tensor converted a number to the tensor's dtype. If the number were an
            ordinary tensor, the operation would have promoted both dtypes instead.
    """

    __slots__ = ("took_a_dtype",)

    def __init__(self) -> None:
        self.took_a_dtype = False


_DEFAULT_DTYPES = frozenset({DType.Bool, DType.I64, DType.F64, DType.C64})
"""Dtypes of Python's bools, ints, floats and complex numbers."""
_ELEMENTWISE = frozenset({*elementwise.CARDS, *analytic.CARDS})


class WeakTensor(TracedTensor):
    """Traced tensor for a Python number in a loop's initial carry, or for a result computed only from weak tensors.

    A weak tensor has the default dtype of its kind of number. An operation with an ordinary tensor converts the weak
    tensor to the dtype of the ordinary tensor.

    Attributes:
        uses: the records of all loops whose carries were used to compute this tensor.

    Source: JAX's weak types.
    """

    __slots__ = ("uses",)

    uses: frozenset[WeakUse]

    def __init__(self, builder: GraphBuilder, value: int, uses: frozenset[WeakUse]) -> None:
        super().__init__(builder, value)
        self.uses = uses

    @staticmethod
    def __tenferro_apply__(
        op: StdTensorOp, operands: tuple[Any, ...], like: Any
    ) -> tuple[TracedTensor, ...]:
        """Append `op` to the graph. The results are weak if `op` is elementwise and all operands are weak."""
        outputs = TracedTensor.__tenferro_apply__(op, operands, like)
        if type(op) not in _ELEMENTWISE or any([type(x) is not WeakTensor for x in operands]):
            return outputs
        uses: frozenset[WeakUse] = frozenset().union(*[x.uses for x in operands])
        if all(y.dtype in _DEFAULT_DTYPES for y in outputs):
            return tuple([WeakTensor(y.builder, y.value, uses) for y in outputs])
        for use in uses:
            use.took_a_dtype = True
        return outputs

    def __tenferro_strong__(self) -> TracedTensor:
        """Return the same graph value as a tensor that is not weak."""
        return TracedTensor(self.builder, self.value)

    def __tenferro_weak__(self, number: TracedTensor | np.ndarray) -> TracedTensor:
        """Return `number` as a weak tensor with the records of this tensor."""
        constant = number if isinstance(number, TracedTensor) else self.lift(number)
        return WeakTensor(constant.builder, constant.value, self.uses)

    def __tenferro_number__(self, value: Any) -> TracedTensor:
        """Convert a Python number for an operation with this tensor. The result is also a weak tensor."""
        return self.__tenferro_weak__(super().__tenferro_number__(value))


def append(
    builder: GraphBuilder, op: StdTensorOp, operands: Sequence[Any]
) -> tuple[TracedTensor, ...]:
    """Append an op to the graph of the trace, and return its outputs.

    Args:
        operands: tensors of the trace, and arrays, which become constants.
    """
    values: list[int] = []
    for operand in operands:
        is_ours = type(operand) is TracedTensor and operand.builder is builder
        values.append(operand.value if is_ours else value_in(builder, operand))
    outputs = builder.graph.add(op, tuple(values), builder.source)
    if len(outputs) == 1:
        return (TracedTensor(builder, outputs[0]),)
    return tuple([TracedTensor(builder, value) for value in outputs])


tracing: Callable[[GraphBuilder], AbstractContextManager[None]] = partial(
    recording_into, append=append
)
"""Context manager that makes a builder's trace the current trace."""


def value_in(builder: GraphBuilder, operand: Any) -> int:
    """Return the graph value of a tensor of the builder's trace, or of an array, which becomes a constant.

    Raises:
        InvalidConfigError: the tensor belongs to another trace, from which this builder may not capture.
    """
    if isinstance(operand, TracedTensor):
        return builder.value_of(operand)
    return builder.lift(as_operand(operand))

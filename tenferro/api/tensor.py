"""`TracedTensor`: the argument of a function while it is traced."""

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
from tenferro.door import as_operand, is_traced
from tenferro.door.tracing import current_builder, under_way
from tenferro.errors import ConcretizationError, DataDependentShapeError, InvalidConfigError
from tenferro.graph import ArgumentBuilder, BodyBuilder, GraphBuilder, StopGradient
from tenferro.ops import StdTensorOp, analytic, elementwise
from tenferro.program import ExtensionCaches
from tenferro.tracebacks import public_methods
from tenferro.types import ArrayLike, DType, DTypeLike, TensorSpec, UfuncOptions

__all__ = ["TracedTensor", "WeakTensor", "WeakUse", "tracing", "value_in"]


@public_methods
class TracedTensor(Operators):
    """A value of a graph under construction: it has a type, and no elements until the program runs.

    Operators, indexing and NumPy's own functions on it append ops to the graph instead of computing.
    """

    __slots__ = ("builder", "spec", "value")

    builder: GraphBuilder
    value: int
    spec: TensorSpec
    """Shape and dtype together."""

    def __init__(self, builder: GraphBuilder, value: int) -> None:
        self.builder = builder
        self.value = value
        self.spec = builder.graph.types[value]

    @staticmethod
    def __tenferro_apply__(
        op: StdTensorOp, operands: tuple[Any, ...], like: TracedTensor
    ) -> tuple[Any, ...]:
        """Append `op` to the graph of the current trace; arrays become constants."""
        builder = (current_builder() or like.builder) if operands else like.builder
        return append(builder, op, operands)

    def __copy__(self) -> TracedTensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> TracedTensor:
        return self  # because it is a value

    def __tenferro_stop__(self) -> TracedTensor:
        """Return this tensor as a constant to differentiation."""
        graph = self.builder.graph
        return TracedTensor(self.builder, graph.add(StopGradient((0,)), (self.value,))[0])

    def lift(self, value: ArrayLike) -> TracedTensor:
        """Lift an array into this tensor's graph, as a constant."""
        return TracedTensor(self.builder, value_in(self.builder, value))

    def __tenferro_number__(self, value: Any) -> TracedTensor:
        """Convert a Python number to this tensor's dtype and shape."""
        number = self.lift(convert(value, self.spec.dtype))
        return cast("TracedTensor", broadcast_like(number, self))

    @property
    def caches(self) -> Any:
        """The stores of extensions' plans: the compiler's, or the trace's own."""
        if self.builder.caches is None:
            self.builder.caches = ExtensionCaches()
        return self.builder.caches

    @property
    def guards(self) -> GuardLog:
        """Conditions on the trace's symbols."""
        return self.builder.graph.guards

    def __tenferro_distrust__(self) -> None:
        """Mark the graph as untrusted: its parts come from a file of unknown origin."""
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
        """Raise an error: the shape of a result depends on the elements, which are unknown."""
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
        """Return this tensor: it is a value."""
        refuse("copy", "order", order)
        return self

    def item(self, *index: SupportsIndex) -> NoReturn:
        """Raise an error: a traced tensor has no elements yet."""
        self._refuse("item()", "keep it a tensor")

    tolist = item


class WeakUse:
    """Record of how the Python numbers of one carry are used.

    Attributes:
        took_a_dtype: whether a Python number was converted to a tensor's dtype where a tensor would have been
            promoted.
    """

    __slots__ = ("took_a_dtype",)

    def __init__(self) -> None:
        self.took_a_dtype = False


_DEFAULT_DTYPES = frozenset({DType.Bool, DType.I64, DType.F64, DType.C64})
"""The kinds of Python numbers."""
_ELEMENTWISE = frozenset({*elementwise.CARDS, *analytic.CARDS})


class WeakTensor(TracedTensor):
    """A Python number in a loop's initial carry, or a result computed from such numbers only.

    It has the number's default dtype, and takes the dtype of a tensor in an operation with it.

    Attributes:
        uses: uses of the carries from which it is computed.

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
        """Apply an op as to any tensor; elementwise results of weak tensors alone are weak."""
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
        """Return a tensor with this dtype that is not weak."""
        return TracedTensor(self.builder, self.value)

    def __tenferro_weak__(self, number: TracedTensor | np.ndarray) -> TracedTensor:
        """Return a constant of this dtype, as weak as this tensor."""
        constant = number if isinstance(number, TracedTensor) else self.lift(number)
        return WeakTensor(constant.builder, constant.value, self.uses)

    def __tenferro_number__(self, value: Any) -> TracedTensor:
        """Convert a Python number for an operation with this tensor; the result is as weakly typed."""
        return self.__tenferro_weak__(super().__tenferro_number__(value))


def append(
    builder: GraphBuilder, op: StdTensorOp, operands: Sequence[Any]
) -> tuple[TracedTensor, ...]:
    """Append an op on tensors of this trace and on arrays to its graph, and return the outputs."""
    values: list[int] = []
    for operand in operands:
        is_ours = type(operand) is TracedTensor and operand.builder is builder
        values.append(operand.value if is_ours else value_in(builder, operand))
    outputs = builder.graph.add(op, tuple(values), builder.source)
    if len(outputs) == 1:
        return (TracedTensor(builder, outputs[0]),)
    return tuple([TracedTensor(builder, value) for value in outputs])


tracing: Callable[[GraphBuilder], AbstractContextManager[None]] = partial(under_way, append=append)
"""Context manager that makes this builder's trace the current one."""


def value_in(builder: GraphBuilder, operand: Any) -> int:
    """Return the value of a tensor of this trace, or of an array lifted into it."""
    if isinstance(operand, TracedTensor):
        if operand.builder.graph is not builder.graph:
            if isinstance(builder, BodyBuilder):
                key = (id(operand.builder.graph), operand.value)
                return builder.capture(key, operand, operand.spec)
            raise InvalidConfigError(
                f"{operand!r} belongs to another trace; return tensors from a traced function "
                "instead of keeping them"
            )
        return operand.value
    operand = as_operand(operand)
    if is_traced(operand) and not isinstance(builder, ArgumentBuilder | BodyBuilder):
        operand = operand.__tenferro_constant__()
    return builder.lift(operand)

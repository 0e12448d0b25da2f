"""Special functions that SciPy computes: one extension family, with a table of functions.

The table contains, for each function, its kernel, its partial derivatives as formulas in functions of the table, and
its expansion in standard ops. Peers without SciPy run the expansion. If a partial derivative has no formula, which is
usual for parameters, the expansion is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenferro.ad import derived
from tenferro.api.autodiff import jvp
from tenferro.api.compile import compile
from tenferro.api.creation import ones_like
from tenferro.api.elementwise import add, multiply
from tenferro.dispatch import spec_of
from tenferro.errors import ADRuleUnsupportedError, DTypeError, InvalidConfigError, UnsupportedError
from tenferro.extension import (
    ExtensionAdRule,
    ExtensionCaches,
    ExtensionOp,
    ExtensionRuntime,
    Family,
    apply,
    extension_family,
)
from tenferro.extension.algebra import lead_all, zeros
from tenferro.ops.extension import Extension
from tenferro.program import Subprogram
from tenferro.special.operands import in_reals, with_signature
from tenferro.types import ArrayLike, DType

__all__ = [
    "EXPANDED",
    "FAMILIES",
    "TABLE",
    "Row",
    "SpecialFunction",
    "expansion_slope",
    "function",
    "partial_of",
    "value_of",
    "written",
]

EXPANDED = "the derivative of the expansion"
"""Marker for a partial derivative without a formula. The expansion is differentiated instead."""

Partial = Callable[..., Any] | str | None


@dataclass(frozen=True)
class Row:
    """Table entry of one function.

    Attributes:
        name: the name of the function in `tnf.special`.
        parameters: the names of the function's operands.
        kernel: the name of the function in `scipy.special`, or a function of the module `scipy.special` that returns
            the kernel.
        partials: for each operand, a function of (y, *operands) that returns the partial derivative, or `EXPANDED`.
            None for an operand that must be a whole number, because no derivative exists.
        expansion: a function of the operands that computes the result by standard ops; None without an expansion.
    """

    name: str
    parameters: tuple[str, ...]
    kernel: str | Callable[[Any], Callable[..., Any]]
    partials: tuple[Partial, ...]
    expansion: Callable[..., Any] | None = None


TABLE: dict[str, Row] = {}
"""The table: the entry of each function, by name."""


@extension_family("tenferro", "special", version=1)
@dataclass(frozen=True)
class SpecialFunction(ExtensionOp):
    """Function of the table, applied elementwise to operands of one float dtype and one shape."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in TABLE:
            raise InvalidConfigError(
                f"SpecialFunction: name must be one of {', '.join(sorted(TABLE))}, got {self.name!r}"
            )

    @property
    def row(self) -> Row:
        """The table entry of the function."""
        return TABLE[self.name]

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because rows differ
        """The number of operands."""
        return len(self.row.parameters)

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        shown = ", ".join(f"{t}{list(s)}" for t, s in zip(input_dtypes, input_shapes, strict=True))
        dtype, shape = input_dtypes[0], tuple(input_shapes[0])
        if dtype not in (DType.F32, DType.F64):
            raise DTypeError(f"special.{self.name}: takes float32 or float64, got {shown}")
        if any(t is not dtype for t in input_dtypes) or any(
            tuple(s) != shape for s in input_shapes
        ):
            raise DTypeError(f"special.{self.name}: takes operands of one type, got {shown}")
        return [(dtype, shape)]

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        if self.row.expansion is None:
            raise UnsupportedError(
                f"special.{self.name}: has a kernel of SciPy's, and no expansion in standard ops; run it natively"
            )
        return self.row.expansion(*map(builder.value, inputs))


class SpecialRuntime(ExtensionRuntime):
    """Runtime that calls SciPy's functions in float64. For float32 operands, the result is rounded once to float32."""

    order = "K"

    def __init__(self, family_id: str) -> None:
        self.family_id = family_id
        self._kernels: dict[str, Callable[..., Any]] = {}

    def execute(self, op: Any, inputs: Sequence[Any], caches: ExtensionCaches) -> Any:
        """Call the kernel, and return its values in the dtype of the operands."""
        kernel = self._kernels.get(op.name)
        if kernel is None:
            from scipy import special  # because importing scipy takes long

            named = op.row.kernel
            kernel = getattr(special, named) if isinstance(named, str) else named(special)
            self._kernels[op.name] = kernel
        wide = [
            np.asarray(x, np.float64) for x in inputs
        ]  # for float32 operands, some functions of SciPy would compute in float32
        return np.asarray(kernel(*wide), inputs[0].dtype)


class SpecialRule(ExtensionAdRule):
    """Derivative rule: y_dot is the sum over all operands of the partial derivative times the operand's tangent."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        partials, (y,) = op.row.partials, outputs
        y_dot: Any = None
        for name, partial, x_dot in zip(op.row.parameters, partials, tangents, strict=True):
            if x_dot is None or partial == EXPANDED:
                continue
            if partial is None:
                raise ADRuleUnsupportedError(
                    f"special.{op.name}: no derivative in {name}, which must be whole; use stop_gradient({name})"
                )
            term = multiply(partial(y, *primals), x_dot)
            y_dot = term if y_dot is None else add(y_dot, term)
        rest = [
            x_dot if partial == EXPANDED else None
            for partial, x_dot in zip(partials, tangents, strict=True)
        ]
        if any(x_dot is not None for x_dot in rest):
            (term,) = derived.tangents(Extension(op), primals, rest)
            y_dot = term if y_dot is None or term is None else add(y_dot, term)
        return y_dot

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, *lead_all(inputs, batched))


FAMILIES = (Family(SpecialFunction, SpecialRuntime, SpecialRule),)


def value_of(name: str, *operands: Any) -> Any:
    """Apply the function `name` of the table to operands of one type."""
    return apply(SpecialFunction(name), *operands)


def expansion_slope(name: str, position: int, *operands: Any) -> Any:
    """Compute the partial derivative of a function of the table by differentiating its expansion."""
    directions = [add(zeros(x), 1.0) if i == position else None for i, x in enumerate(operands)]
    return derived.tangents(Extension(SpecialFunction(name)), operands, directions)[0]


def partial_of(formula: Callable[..., Any], position: int) -> Callable[..., Any]:
    """Return the partial derivative of `formula`, a function in standard ops, in the operand at `position`."""

    def slope(*operands: Any) -> Any:
        x = operands[position]

        def in_one(x: Any) -> Any:
            return formula(*operands[:position], x, *operands[position + 1 :])

        return jvp(in_one, (x,), (ones_like(x),))[1]

    return slope


def written(formula: Callable[..., Any], *operands: Any) -> Any:
    """Trace `formula`, which contains derivatives, to a separate program.

    Emit that program on operands of an expansion.
    """
    program = compile(formula, *map(spec_of, operands))
    return derived.written(Subprogram.of_program(program), operands[0], operands)[0]


def function(row: Row, text: str) -> Callable[..., Any]:
    """Add a function to the table. Return the public function, which also promotes and broadcasts its operands.

    Args:
        text: the docstring of the public function, to which the section "Raises" is added.
    """
    TABLE[row.name] = row

    def compute(*operands: ArrayLike) -> Any:
        return in_reals(row.name, lambda *xs: value_of(row.name, *xs), *operands)

    return with_signature(
        row.name, "tenferro.special", dict.fromkeys(row.parameters), text, compute
    )

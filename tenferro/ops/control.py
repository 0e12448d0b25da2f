"""Ops over sub-programs: conditionals, while loops, and scans over slices.

A sub-program is a `tenferro.program.Subprogram`, which reads only its inputs. If the traced body of a loop uses
variables from outside, they become ordinary operands of the op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import is_
from typing import Any, ClassVar

from tenferro.dims import GuardLog, is_exact
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from tenferro.ops.op import StdTensorOp, card, normalize
from tenferro.rules.dtypes import ANY, require_dtype
from tenferro.rules.payload import as_bool, as_dim, as_int
from tenferro.rules.shapes import same_extent
from tenferro.types import DType, TensorSpec

__all__ = ["CARDS", "Alternatives", "Cond", "ControlOp", "Scan", "While"]


@card
class ControlOp(StdTensorOp):
    """Base class of ops that run sub-programs.

    The property `parts` contains the sub-programs. The method `with_parts` returns the op with other sub-programs.
    """

    accepts: ClassVar[frozenset[DType]] = ANY

    @property
    def parts(self) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]  # because each has its own
        """The sub-programs, in order."""
        raise NotImplementedError

    @property
    def has_effects(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # because the sub-programs decide
        """Whether a sub-program contains an op with effects."""
        return any(part.has_effects for part in self.parts)

    @property
    def is_marked(self) -> bool:
        """Whether a sub-program contains marks, at any depth."""
        return any(part.is_marked for part in self.parts)

    def kept_part(self, graph: Any, inputs: Any, outputs: Any) -> Any:
        """Return the sub-program that computes `outputs` from `inputs`, with its marks."""
        return type(self.parts[0]).kept_part(graph, inputs, outputs)

    def with_parts(self, *parts: Any) -> ControlOp:
        """Return a copy of the op that has the sub-programs `parts`."""
        raise NotImplementedError

    @property
    def is_kept(self) -> bool:
        """Whether a sub-program has marks that programs keep."""
        return any([part.is_kept for part in self.parts])

    def pruned(self, needed: Sequence[bool]) -> tuple[ControlOp, tuple[int, ...], tuple[int, ...]]:
        """Return the op without outputs that are not needed, and the positions of the remaining operands and outputs.

        If all outputs are needed, the op itself is returned.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        shown = [
            f"{entry.name}={getattr(self, entry.name)!r}"
            for entry in fields(self)
            if entry.name not in ("branches", "cond", "body", "sequential", "parallel")
        ]
        return f"{self.name}({', '.join(shown)})"

    def specialize(self, bindings: Any) -> StdTensorOp:
        """Return a copy of the op, and of its sub-programs, in which numbers replace the symbols in `bindings`."""
        return self.with_parts(*[part.specialize(bindings) for part in self.parts])

    @property
    def input_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because the sub-programs decide
        """The number of operands, which follows from the inputs of the sub-programs."""
        raise NotImplementedError

    @property
    def output_count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # because the sub-programs decide
        """The number of outputs, which follows from the outputs of the sub-programs."""
        return len(self.parts[-1].output_specs)


@card
class Cond(ControlOp):
    """Conditional: y = branches[index](operands). Only the selected branch runs.

    If the index is a bool, there are two branches: true selects branch 1, false selects branch 0. If the index is an
    integer out of range, the last branch is selected.

    Shapes:  index of rank 0, then the operands of every branch -> the outputs of every branch
    Dtypes:  index bool, for two branches, or int32; operands and outputs any
    AD:      that of the branches; the residuals of the selected branch become further outputs
    Lowers:  stablehlo.if, stablehlo.case
    Errors:  InvalidConfigError without branches; ShapeError, DTypeError where branches disagree
    Source:  docs/specification/primitives.md, StableHLO spec #case, #if
    """

    branches: tuple[Any, ...]

    accepts: ClassVar[frozenset[DType]] = frozenset({DType.Bool, DType.I32})

    def __post_init__(self) -> None:
        normalize(self, branches=tuple(self.branches))
        if not self.branches:
            raise InvalidConfigError("Cond: there are no branches")

    @property
    def parts(self) -> tuple[Any, ...]:
        """The branches."""
        return self.branches

    def with_parts(self, *parts: Any) -> Cond:
        """Return a conditional that has the branches `parts`."""
        return Cond(parts)

    @property
    def input_count(self) -> int:
        """The number of operands, including the index."""
        return 1 + len(self.branches[0].input_specs)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        index, *operands = inputs
        require_dtype("Cond", "index", index.dtype, self.accepts)
        if index.rank:
            raise ShapeError(f"Cond: the index must have rank 0, got {index}")
        if index.dtype.is_bool and len(self.branches) != 2:
            raise InvalidConfigError(
                f"Cond: a bool index chooses between two branches, got {len(self.branches)}"
            )
        names = [f"branch {number}" for number in range(len(self.branches))]
        return _common_types("Cond", names, self.branches, operands, guards)

    def pruned(self, needed: Sequence[bool]) -> tuple[Cond, tuple[int, ...], tuple[int, ...]]:
        """Return the op without outputs that are not needed, and without operands that no branch then reads."""
        branches, operands, outputs = _restricted(self.branches, needed)
        op = self if all(map(is_, branches, self.branches)) else Cond(branches)
        return op, (0, *[1 + i for i in operands]), outputs


@card
class Alternatives(ControlOp):
    """y = sequential(operands) = parallel(operands): two programs for one function, of which only one runs.

    The native executor runs `sequential` if it compiles the loops in it, else `parallel`. Lowering uses `parallel`. The
    results of the two programs may differ by rounding, because sums may be added in another order.

    Shapes:  the operands of both programs -> the outputs of both programs
    Dtypes:  any
    AD:      alternatives of the derivative; each program recomputes its residuals from the operands
    Lowers:  the operations of `parallel`
    Errors:  ShapeError, DTypeError where the two disagree
    Source:  docs/control.md; Blelloch, "Prefix sums and their applications", 1990
    """

    sequential: Any
    parallel: Any

    @property
    def parts(self) -> tuple[Any, ...]:
        """The two programs."""
        return self.sequential, self.parallel

    def with_parts(self, *parts: Any) -> Alternatives:
        """Return an `Alternatives` op for the two programs `parts`."""
        return Alternatives(*parts)

    @property
    def input_count(self) -> int:
        """The number of operands."""
        return len(self.sequential.input_specs)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        return _common_types("Alternatives", ("sequential", "parallel"), self.parts, inputs, guards)

    def pruned(
        self, needed: Sequence[bool]
    ) -> tuple[Alternatives, tuple[int, ...], tuple[int, ...]]:
        """Return the op without outputs that are not needed, and without operands that neither program then reads."""
        parts, operands, outputs = _restricted(self.parts, needed)
        op = self if all(map(is_, parts, self.parts)) else Alternatives(*parts)
        return op, operands, outputs


@card
class While(ControlOp):
    """carry = body(consts, carry) while cond(consts, carry): a loop with a trip count that depends on data.

    Shapes:  consts, then the first carry -> the last carry, of the same types
    Dtypes:  any; cond gives one bool of rank 0
    AD:      the tangents are part of the carry; in reverse mode, states are recomputed from checkpoints
    Lowers:  stablehlo.while
    Errors:  ShapeError, DTypeError where body does not give the types of its carry
    Source:  docs/specification/primitives.md, StableHLO spec #while
    """

    cond: Any
    body: Any
    num_consts: int = 0

    def __post_init__(self) -> None:
        normalize(self, num_consts=as_int("While", "num_consts", self.num_consts, 0))

    @property
    def parts(self) -> tuple[Any, ...]:
        """The condition and the body."""
        return self.cond, self.body

    def with_parts(self, *parts: Any) -> While:
        """Return a copy of the loop with the condition and body in `parts`."""
        cond, body = parts
        return While(cond, body, self.num_consts)

    @property
    def length(self) -> None:
        """None, because the number of iterations depends on data."""

    @property
    def first_xs(self) -> int:
        """The number of operands: a while loop has no input slices (xs), so their position is after all operands."""
        return self.input_count

    @property
    def input_count(self) -> int:
        """The number of constants and carries."""
        return len(self.body.input_specs)

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        _takes("While", "cond", self.cond, inputs, guards)
        _takes("While", "body", self.body, inputs, guards)
        if tuple(self.cond.output_specs) != (TensorSpec.of((), DType.Bool),):
            shown = ", ".join(map(str, self.cond.output_specs))
            raise DTypeError(f"While: cond must give one bool of rank 0, got {shown or 'nothing'}")
        carry = self.body.input_specs[self.num_consts :]
        return _same("While", "body", "its carry", self.body.output_specs, carry, guards)

    def pruned(self, needed: Sequence[bool]) -> tuple[While, tuple[int, ...], tuple[int, ...]]:
        """Return the loop with only those carries on which the condition or a needed output depends."""
        n = self.num_consts
        carry = {i for i, is_needed in enumerate(needed) if is_needed}
        asked = self.cond.reads([0])
        carry |= {i - n for i in asked if i >= n}
        used, carry = _closure(self.body, n, carry)
        consts = sorted({i for i in used | asked if i < n})
        outputs = sorted(carry)
        inputs = [*consts, *[n + i for i in outputs]]
        parts = self.cond.restricted(inputs, [0]), self.body.restricted(inputs, outputs)
        op = self if all(map(is_, parts, self.parts)) else While(*parts, len(consts))
        return op, tuple(inputs), tuple(outputs)


@card
class Scan(ControlOp):
    """carry, ys[t] = body(consts, carry, xs[t]) for t = 0 .. length - 1; with `reverse`, for t in descending order.

    Shapes:  consts, then the first carry, then xs with leading extent `length`
             -> the last carry, then ys with leading extent `length`
    Dtypes:  any
    AD:      forward and reverse; residuals of each iteration are stacked, and read backward
    Lowers:  stablehlo.while with a counter, dynamic_slice and dynamic_update_slice
    Errors:  ShapeError, DTypeError where the body does not accept these, or return the types of its carry
    Source:  docs/specification/primitives.md; Haskell's mapAccumL; JAX's lax.scan
    """

    body: Any
    length: Any
    num_consts: int
    num_carry: int
    reverse: bool = False

    def __post_init__(self) -> None:
        for name in ("num_consts", "num_carry"):
            normalize(self, **{name: as_int("Scan", name, getattr(self, name), 0)})
        normalize(
            self,
            length=as_dim("Scan", "length", self.length),
            reverse=as_bool("Scan", "reverse", self.reverse),
        )

    @property
    def parts(self) -> tuple[Any, ...]:
        """The body."""
        return (self.body,)

    def with_parts(self, *parts: Any) -> Scan:
        """Return a copy of the loop with another body."""
        (body,) = parts
        return Scan(body, self.length, self.num_consts, self.num_carry, self.reverse)

    def specialize(self, bindings: Any) -> StdTensorOp:
        """Return the loop with numbers in place of symbols, in its length and in its body."""
        length = self.length if isinstance(self.length, int) else self.length.evaluate(bindings)
        body = self.body.specialize(bindings)
        return Scan(body, length, self.num_consts, self.num_carry, self.reverse)

    @property
    def input_count(self) -> int:
        """The number of constants, carries and input slices (xs)."""
        return len(self.body.input_specs)

    @property
    def first_xs(self) -> int:
        """The position of the first of the input slices (xs) among the operands."""
        return self.num_consts + self.num_carry

    def output_types(
        self, inputs: tuple[TensorSpec, ...], guards: GuardLog
    ) -> tuple[TensorSpec, ...]:
        n, first = self.num_consts, self.first_xs
        slices: list[TensorSpec] = []
        for number, spec in enumerate(inputs[first:]):
            if not spec.rank:
                raise ShapeError(
                    f"Scan: xs {number} needs a leading axis to iterate over, got {spec}"
                )
            what = f"the leading axis of xs {number}, {spec}, and the length"
            same_extent("Scan", what, spec.shape[0], self.length, guards)
            slices.append(TensorSpec.of(spec.shape[1:], spec.dtype))
        _takes("Scan", "body", self.body, [*inputs[:first], *slices], guards)
        outputs = self.body.output_specs
        wanted = self.body.input_specs[n:first]
        if len(outputs) < len(wanted):
            raise ArityError(
                f"Scan: body gives {len(outputs)} tensors, the carry has {len(wanted)}"
            )
        carry = _same("Scan", "body", "its carry", outputs[: len(wanted)], wanted, guards)
        stacked = [
            TensorSpec.of((self.length, *spec.shape), spec.dtype) for spec in outputs[len(wanted) :]
        ]
        return (*carry, *stacked)

    def pruned(self, needed: Sequence[bool]) -> tuple[Scan, tuple[int, ...], tuple[int, ...]]:
        """Return the loop without stacked outputs (ys) and carries on which no needed output depends."""
        n, m, first = self.num_consts, self.num_carry, self.first_xs
        wanted = {i for i, is_needed in enumerate(needed) if is_needed}
        used, wanted = _closure(self.body, n, wanted, m)
        outputs = sorted(wanted)
        carry = [i for i in outputs if i < m]
        consts = [i for i in sorted(used) if i < n]
        slices = [i for i in sorted(used) if i >= first]
        inputs = [*consts, *[n + i for i in carry], *slices]
        body = self.body.restricted(inputs, outputs)
        if body is self.body:
            return self, tuple(inputs), tuple(outputs)
        op = Scan(body, self.length, len(consts), len(carry), self.reverse)
        return op, tuple(inputs), tuple(outputs)


def _common_types(
    op: str,
    names: Sequence[str],
    parts: Sequence[Any],
    operands: Sequence[TensorSpec],
    guards: GuardLog,
) -> tuple[TensorSpec, ...]:
    """Check that sub-programs accept the operands and have equal output types; return the types."""
    types: Sequence[TensorSpec] | None = None
    for name, part in zip(names, parts, strict=True):
        _takes(op, name, part, operands, guards)
        outputs = part.output_specs
        types = outputs if types is None else _same(op, name, names[0], outputs, types, guards)
    return tuple(types or ())


def _restricted(
    parts: Sequence[Any], needed: Sequence[bool]
) -> tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the sub-programs without unneeded outputs, and the positions of the remaining operands and outputs."""
    outputs = [i for i, is_needed in enumerate(needed) if is_needed]
    operands = sorted(set[int]().union(*[part.reads(outputs) for part in parts]))
    return (
        tuple([part.restricted(operands, outputs) for part in parts]),
        tuple(operands),
        tuple(outputs),
    )


def _closure(
    body: Any, num_consts: int, outputs: set[int], num_carry: int | None = None
) -> tuple[set[int], set[int]]:
    """Add to `outputs` the carries on which they depend, in any iteration.

    Return the positions of the inputs that the body reads for these outputs, and the extended outputs.
    """
    while True:
        used: set[int] = body.reads(sorted(outputs))
        carry = {i - num_consts for i in used if i >= num_consts}
        if num_carry is not None:
            carry = {i for i in carry if i < num_carry}
        if carry <= outputs:
            return used, outputs
        outputs = outputs | carry


def _takes(op: str, who: str, part: Any, operands: Sequence[TensorSpec], guards: GuardLog) -> None:
    """Check that a sub-program accepts operands of these types. The guards of the sub-program are added to `guards`."""
    for guard in part.guards:
        guards.guards.setdefault(guard, guard)
    _same(op, who, "its operands", part.input_specs, operands, guards)


def _same(
    op: str,
    who: str,
    whom: str,
    actual: Sequence[TensorSpec],
    wanted: Sequence[TensorSpec],
    guards: GuardLog,
) -> tuple[TensorSpec, ...]:
    if len(actual) != len(wanted):
        raise ArityError(f"{op}: {who} has {len(actual)} tensors, {whom} {len(wanted)}")
    for number, (mine, theirs) in enumerate(zip(actual, wanted, strict=True)):
        if mine == theirs:
            continue
        what = f"{op}: tensor {number} of {who} is {mine}, of {whom} {theirs}"
        if mine.dtype is not theirs.dtype:
            raise DTypeError(f"{what}; convert it")
        if mine.rank != theirs.rank:
            raise ShapeError(f"{what}; their shapes must agree")
        for axis, (a, b) in enumerate(zip(mine.shape, theirs.shape, strict=True)):
            if not (is_exact(a) and is_exact(b)):
                raise ShapeError(f"{what}; data-dependent extents cannot be passed")
            same_extent(op, f"axis {axis} of tensor {number} of {who} and of {whom}", a, b, guards)
    return tuple(actual)


CARDS = (Cond, While, Scan, Alternatives)

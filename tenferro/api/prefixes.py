"""Prefixes of associative operations, and linear recurrences that are computed as prefixes.

A prefix combines all elements up to a position. A linear recurrence consists of steps `x[k+1] = a[k] x[k] + b[k]`, and
two steps can be combined: the step `(a, b)` followed by `(c, d)` is the step `(c a, c b + d)`. This operation is
associative.

Source: Blelloch, "Prefix sums and their applications", 1990, section 1.4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from tenferro.api.creation import arange, ones_like, zeros_like
from tenferro.api.elementwise import add, multiply, negative
from tenferro.api.manipulation import concatenate, flip, reshape, stack
from tenferro.api.vmap import vmap
from tenferro.dispatch import apply, apply_one
from tenferro.dispatch.replay import applied
from tenferro.errors import NonStaticShapeError, UnsupportedError
from tenferro.graph import Mark, Opaque
from tenferro.ops.control import Scan
from tenferro.ops.elementwise import Add, Divide, Multiply, Negate, Select, Subtract
from tenferro.program import GraphProgram
from tenferro.types import Tensor

__all__ = ["parallel_scan", "prefixes"]


def parallel_scan(op: Scan, operands: Sequence[Any], paths: Sequence[str]) -> list[Any]:
    """Compute the outputs of a scan for all iterations at once. Its carry must consist of linear recurrences.

    Args:
        paths: the paths of the tensors of the carry, for error messages.

    Raises:
        UnsupportedError: a tensor of the carry is not a linear recurrence; the error names the op.
        NonStaticShapeError: the number of iterations is symbolic.
    """
    if not isinstance(op.length, int):
        raise NonStaticShapeError(
            f"scan: parallel=True needs a number of iterations, got the length {op.length}"
        )
    if any([isinstance(step.op, Mark | Opaque) for step in op.body.instructions]):
        raise UnsupportedError(
            "scan: parallel=True takes no f with checkpoint, stop_gradient, custom_jvp or custom_vjp in it; leave "
            "parallel out"
        )
    for path, spec in zip(paths, op.body.input_specs[op.num_consts : op.first_xs], strict=True):
        if spec.dtype.is_bool:
            raise UnsupportedError(
                f"scan: parallel=True needs numbers in the carry, and carry{path} is {spec}; leave parallel out"
            )
    order = _order(op, paths)
    if not op.length:
        return list(apply(op, *operands, like=operands[0]))
    iterations = _Iterations(op, operands)
    for i in order:
        coefficients = iterations.rows(
            partial(_coefficients, op, i, one=ones_like(iterations.start[i]), path=paths[i])
        )
        factors, terms = prefixes(_composed, coefficients, (0, 0))
        iterations.solve(i, add(multiply(factors, iterations.start[i]), terms))
    part = _part(op, range(op.num_carry, len(op.body.output_slots)))
    ys = iterations.rows(lambda values: _run(part, values))
    return [*iterations.last, *[flip(y, axis=0) if op.reverse else y for y in ys]]


def _order(op: Scan, paths: Sequence[str]) -> list[int]:
    """Return the numbers of the tensors of the carry, in an order in which each follows those on which it depends.

    Raises:
        UnsupportedError: tensors depend on each other.
    """
    n, m = op.num_consts, op.num_carry
    left = {i: {j - n for j in op.body.reads([i]) if n <= j < n + m} - {i} for i in range(m)}
    order: list[int] = []
    while left:
        ready = [i for i, needs in left.items() if needs.isdisjoint(left)]
        if not ready:
            names = ", ".join([f"carry{paths[i]}" for i in left])
            raise UnsupportedError(
                f"scan: parallel=True needs tensors of the carry that do not depend on each other, as {names} do; "
                "leave parallel out, or write matrices and associative_scan"
            )
        order += ready
        for i in ready:
            del left[i]
    return order


class _Iterations:
    """Operands that have been computed for all iterations, in the order of the iterations.

    Attributes:
        start, last: the carry before the first iteration and after the last iteration.
    """

    def __init__(self, op: Scan, operands: Sequence[Any]) -> None:
        n, first = op.num_consts, op.first_xs
        self.length = op.length
        self.start, self.last = list(operands[n:first]), list(operands[n:first])
        self._num_consts = n
        self._consts = dict(enumerate(operands[:n]))
        self._slices = {
            i: flip(x, axis=0) if op.reverse else x for i, x in enumerate(operands[first:], first)
        }

    def rows(self, of_turn: Callable[[dict[int, Any]], Sequence[Any]]) -> list[Any]:
        """Call `of_turn` for each iteration, and stack its results.

        `of_turn` is called with a dict from the numbers of the operands to the operands of the iteration.
        """
        numbers, slices = list(self._slices), list(self._slices.values())

        def one(_: Any, *slices: Any) -> list[Any]:
            return list(of_turn(self._consts | dict(zip(numbers, slices, strict=True))))

        return vmap(one)(arange(self.length), *slices)

    def solve(self, i: int, states: Any) -> None:
        """Store the values of tensor i of the carry after each iteration, which are stacked in `states`."""
        before = concatenate([self.start[i][None], states[:-1]])
        self._slices[self._num_consts + i] = before
        self.last[i] = states[-1]


def _part(op: Scan, outputs: Sequence[int]) -> GraphProgram:
    """Return the program that computes the outputs of one iteration whose numbers are in `outputs`."""
    return op.body.restricted(op.body.input_slots, list(outputs)).program


def _run(program: GraphProgram, values: dict[int, Any]) -> list[Any]:
    values = dict(values)
    for _ in applied(program.instructions, values, next(iter(values.values()))):
        pass
    return [values[slot] for slot in program.output_slots]


class _Line(NamedTuple):
    """Affine function `a * x + b` of a tensor x of the carry. If b is None, it is zero."""

    a: Any
    b: Any


Operand: TypeAlias = "Tensor | _Line"


def _coefficients(
    op: Scan, i: int, values: dict[int, Any], one: Tensor, path: str
) -> tuple[Any, Any]:
    """Return the coefficients a and b of the update `a * x + b` of tensor i of the carry in one iteration.

    Args:
        values: the operands that are already known, by number.
        one: a tensor of ones with the type of the tensor.
        path: the path of the tensor, for error messages.

    Raises:
        UnsupportedError: the update is not affine.
    """
    program = _part(op, [i])
    like = next(iter(values.values()), None)
    values = values | {op.num_consts + i: _Line(one, None)}
    for step in program.instructions:
        operands = [values[slot] for slot in step.inputs]
        if not any([isinstance(x, _Line) for x in operands]):
            results = apply(step.op, *operands, like=None if operands else like)
            values.update(zip(step.outputs, results, strict=True))
            continue
        rule = LINES.get(type(step.op))
        line = None if rule is None else rule(*operands)
        if line is None:
            where = f" at {step.source}" if step.source else ""
            raise UnsupportedError(
                "scan: parallel=True needs a linear recurrence, a * carry + b with a and b that do not depend on "
                f"carry{path}, which goes through {step.op.name}{where}; leave parallel out"
            )
        values[step.outputs[0]] = line
    a, b = _line(values[program.output_slots[0]], one)
    return a, zeros_like(one) if b is None else b


def _line(x: Operand, one: Tensor) -> _Line:
    return x if isinstance(x, _Line) else _Line(zeros_like(one), x)


def _sum(x: Any, y: Any) -> _Line:
    if not isinstance(x, _Line):
        x, y = y, x
    if not isinstance(y, _Line):
        return _Line(x.a, y if x.b is None else add(x.b, y))
    terms = [b for b in (x.b, y.b) if b is not None]
    return _Line(add(x.a, y.a), add(*terms) if len(terms) == 2 else terms[0] if terms else None)


def _each(x: _Line, function: Callable[[Any], Any]) -> _Line:
    """Apply a linear function to both coefficients of an affine function."""
    return _Line(function(x.a), None if x.b is None else function(x.b))


def _negated(x: Any) -> Any:
    return _each(x, negative) if isinstance(x, _Line) else negative(x)


def _product(x: Any, y: Operand) -> _Line | None:
    if not isinstance(x, _Line):
        x, y = y, x
    return None if isinstance(y, _Line) else _each(x, lambda part: multiply(part, y))


def _quotient(x: Any, y: Operand) -> _Line | None:
    return None if isinstance(y, _Line) else _each(x, lambda part: apply_one(Divide(), part, y))


def _select(pred: Tensor, x: Any, y: Any) -> _Line:
    one = (x if isinstance(x, _Line) else y).a
    lines = [_line(part, one) for part in (x, y)]
    a, b = (
        [zeros_like(one) if part is None else part for part in parts]
        for parts in zip(*lines, strict=True)
    )
    return _Line(apply_one(Select(), pred, *a), apply_one(Select(), pred, *b))


LINES: dict[type, Callable[..., _Line | None]] = {
    Add: _sum,
    Subtract: lambda x, y: _sum(x, _negated(y)),
    Negate: _negated,
    Multiply: _product,
    Divide: _quotient,
    Select: _select,
}
"""Functions that compute the result of an op for affine operands. The result is None if it is not affine."""


def _composed(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """Compose two affine functions. The second is applied after the first."""
    (a, b), (c, d) = first, second
    return [multiply(c, a), add(multiply(c, b), d)]


def prefixes(
    combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any], axes: Sequence[int]
) -> list[Any]:
    """Compute all prefixes of xs along `axes` in 2 log2(n) steps.

    Neighbouring elements are combined in pairs. The same method computes the prefixes of the pairs, which are every
    second prefix of the elements. Each other prefix is a prefix of the pairs combined with the next element.

    Source: Blelloch, "Prefix sums and their applications", 1990.
    """
    n = xs[0].shape[axes[0]]
    if n < 2:
        return xs

    def cut(arrays: list[Any], start: int, stop: int, step: int = 1) -> list[Any]:
        return [
            x[(slice(None),) * axis + (slice(start, stop, step),)]
            for x, axis in zip(arrays, axes, strict=True)
        ]

    odd = prefixes(combine, combine(cut(xs, 0, n - 1, 2), cut(xs, 1, n, 2)), axes)
    even = cut(xs, 0, 1)
    if n > 2:
        count = (n - 1) // 2
        later = combine(cut(odd, 0, count), cut(xs, 2, n, 2))
        even = [
            concatenate(pair, axis=axis)
            for *pair, axis in zip(even, later, axes, strict=True)
        ]  # fmt: skip
    return [_interleaved(a, b, axis) for a, b, axis in zip(even, odd, axes, strict=True)]


def _interleaved(even: Tensor, odd: Tensor, axis: int) -> Any:
    """Interleave the elements of two tensors along `axis`.

    The first element is from `even`, which may have one element more.
    """
    count = odd.shape[axis]
    head = (slice(None),) * axis
    both = stack([even[(*head, slice(0, count))], odd], axis=axis + 1)
    shape = (*odd.shape[:axis], 2 * count, *odd.shape[axis + 1 :])
    merged = reshape(both, shape)
    if even.shape[axis] == count:
        return merged
    return concatenate([merged, even[(*head, slice(count, count + 1))]], axis=axis)

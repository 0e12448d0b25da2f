"""Solutions of equations, with derivatives by the implicit function theorem.

A solver, such as Newton's method or conjugate gradients in a `while_loop`, is run and never differentiated: the
equation defines the derivative of its solution. Each function of this module adds a mark to the solution.
Differentiation obeys the mark, and programs do not contain it. The equation, and the solvers that the derivative needs,
are traced together with the mark, on placeholder inputs. Values that they capture become operands of the mark.

Source: Krantz and Parks, "The Implicit Function Theorem", 2002; `jax.lax.custom_root`, `jax.lax.custom_linear_solve`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tenferro.ad import own_effects, pushed
from tenferro.ad.algebra import Value, conj, zeros
from tenferro.api import elementwise as numbers
from tenferro.api.autodiff import linearize, vjp
from tenferro.api.compile import name_of, output_value
from tenferro.api.control import while_loop
from tenferro.api.data_types import finfo
from tenferro.api.promotion import convert
from tenferro.api.reductions import max as largest
from tenferro.api.stage import noted_run
from tenferro.api.tensor import TracedTensor, tracing, value_in
from tenferro.dispatch import as_operand, is_weak, spec_of
from tenferro.dispatch.tracing import current_builder
from tenferro.errors import (
    ADRuleUnsupportedError,
    ArityError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
)
from tenferro.graph import ArgumentBuilder, GraphBuilder, Instruction, Mark
from tenferro.ops.control import ControlOp
from tenferro.program import Subprogram, copy_into, needed, pruned
from tenferro.types import (
    ArrayLike,
    PyTree,
    TensorSpec,
    TreeDef,
    agree,
    difference,
    flatten,
    leaf_paths,
    unflatten,
)

__all__ = ["custom_linear_solve", "custom_root", "fixed_point"]


# ---- vectors and functions of vectors ------------------------------------------------------------


@dataclass(frozen=True)
class _Space:
    """Vector space of the unknown of an equation: a tree structure, and the types of the leaves.

    Attributes:
        name: name of the solving function.
        label: the name, in error messages, of the tree with which other trees are compared.
    """

    name: str
    label: str
    tree: TreeDef
    specs: tuple[TensorSpec, ...]

    @classmethod
    def of(cls, name: str, label: str, leaves: Sequence[Any], tree: TreeDef) -> _Space:
        """Return the space of a tree.

        Raises:
            DTypeError: a leaf is an integer or a bool, which has no derivative.
        """
        specs = tuple([spec_of(leaf) for leaf in leaves])
        paths = leaf_paths(unflatten(tree, leaves))
        for spec, path in zip(specs, paths, strict=True):
            if not spec.dtype.is_inexact:
                raise DTypeError(
                    f"{name}: {label}{path} is {spec}; an unknown is a float or complex tensor, so convert it"
                )
        return cls(name, label, tree, specs)

    def leaves(self, what: str, vector: PyTree) -> list[Any]:
        """Return the leaves of `vector`, after checking that the tree is in this space.

        Python numbers are converted to the dtypes of the space.

        Raises:
            ArityError, ShapeError, DTypeError: the structure, a shape or a dtype of the tree differs from the space.
        """
        leaves, tree = flatten(vector)
        if not agree(tree, self.tree):
            parting = difference(self.tree, tree, (self.label, what))
            raise ArityError(
                f"{self.name}: {what} must have the structure of {self.label}; {parting}"
            )
        vectors: list[Any] = []
        for leaf, path, wanted in zip(leaves, leaf_paths(vector), self.specs, strict=True):
            operand = convert(leaf, wanted.dtype) if is_weak(leaf) else as_operand(leaf)
            spec = spec_of(operand)
            if spec != wanted:
                kind = DTypeError if spec.shape == wanted.shape else ShapeError
                raise kind(
                    f"{self.name}: {what}{path} must be {wanted}, as {self.label}{path} is, got {spec}"
                )
            vectors.append(operand)
        return vectors


class _Traced:
    """A function of trees that was traced into a graph, on placeholder inputs.

    Attributes:
        inputs: the graph values of the placeholders.
        outputs: the graph values of the function's results.
        frontier: the values of the graph, computed earlier, that the function uses.
    """

    def __init__(
        self, builder: GraphBuilder, fn: Callable[..., list[int]], *spaces: _Space
    ) -> None:
        self.builder = builder
        graph = builder.graph
        start = len(graph)
        self.inputs: list[int] = []
        arguments: list[Any] = []
        for space in spaces:
            values = [graph.add_stand_in(spec) for spec in space.specs]
            self.inputs += values
            arguments.append(unflatten(space.tree, [TracedTensor(builder, v) for v in values]))
        with own_effects(graph), tracing(builder):
            self.outputs = graph.after_effects(fn(*arguments))
        frontier = Subprogram.since(graph, start, self.outputs)[1]
        self.frontier = set(frontier).difference(self.inputs)

    def frontier_beyond(self, captured: set[int]) -> set[int]:
        """Return the values that the function uses, were computed before it, and do not depend on `captured`.

        Values that depend on `captured` are computed again inside the function. Because the graph merges equal
        operations, a solver would otherwise use a factorisation outside the function, whose derivative would then be
        needed.
        """
        rest = self.frontier - captured
        part = needed(self.builder.graph.instructions, rest, available=captured) if rest else {}
        follows, frontier = set(captured), set[int]()
        for instruction in part.values():
            if not (follows.isdisjoint(instruction.inputs) or instruction.op.has_effects):
                frontier.update(set(instruction.inputs) - follows)
                follows.update(instruction.outputs)
        return (frontier | rest) - follows

    def part(self, consts: Sequence[int]) -> Subprogram:
        """Return the function as a sub-program. Its inputs are the values `consts`, then its arguments."""
        return Subprogram.of(self.builder.graph, [*consts, *self.inputs], self.outputs)


class _LinearMap:
    """Linear map from a space into itself. It is traced once, and each call copies its instructions to the trace."""

    def __init__(
        self, builder: GraphBuilder, space: _Space, fn: Callable[[PyTree], PyTree]
    ) -> None:
        self.space = space
        traced = _Traced(builder, _leaves_of(builder, space, "the linear map", fn), space)
        self.consts = sorted(traced.frontier)
        self._tensors = [TracedTensor(builder, value) for value in self.consts]
        self._part = traced.part(self.consts)

    def __call__(self, vector: PyTree) -> Any:
        leaves = self.space.leaves("the argument of the linear map", vector)
        builder = current_builder()
        assert builder is not None
        values = [value_in(builder, x) for x in (*self._tensors, *leaves)]
        results = self._part.emit(builder.graph, values)
        return unflatten(self.space.tree, [TracedTensor(builder, value) for value in results])


def _leaves_of(
    builder: GraphBuilder, space: _Space, what: str, fn: Callable[..., PyTree]
) -> Callable[..., list[int]]:
    """Return a function that calls `fn`, checks that the result is in the space, and returns its graph values."""

    def values(*arguments: PyTree) -> list[int]:
        return [value_in(builder, leaf) for leaf in space.leaves(what, fn(*arguments))]

    return values


class _Solver:
    """Solver that the user passed. It returns a solution x in the space, or (x, aux) if `has_aux`.

    Attributes:
        aux_tree: the structure of the auxiliary result that the last call returned.
    """

    def __init__(self, space: _Space, what: str, fn: Callable[..., Any], has_aux: bool) -> None:
        self.space = space
        self.what = what
        self._fn = fn
        self._has_aux = has_aux
        self.aux_tree: TreeDef = flatten(())[1]

    def split(self, *arguments: Any) -> tuple[list[Any], PyTree]:
        """Call the solver. Return the leaves of the solution, and aux.

        Raises:
            ArityError, ShapeError, DTypeError: the solution is not in the space, or the result is not a pair although
                `has_aux`.
        """
        result = self._fn(*arguments)
        aux: PyTree = ()
        if self._has_aux:
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise ArityError(
                    f"{self.space.name}: with has_aux {self.what} must return (x, aux), "
                    f"got {type(result).__name__}"
                )
            result, aux = result
        return self.space.leaves(f"{self.what}(..)", result), aux

    def values(self, builder: GraphBuilder, *arguments: Any) -> list[int]:
        """Call the solver in a trace, and return the graph values of the solution and of aux."""
        solution, aux = self.split(*arguments)
        leaves, self.aux_tree = flatten(aux)
        return [
            *[value_in(builder, leaf) for leaf in solution],
            *[
                output_value(builder, leaf, path)
                for leaf, path in zip(leaves, leaf_paths(aux), strict=True)
            ],
        ]

    def packed(self, values: Sequence[Any], aux: PyTree) -> Any:
        """Return the solution as a tree. If `has_aux`, return the pair of this tree and aux."""
        solution = unflatten(self.space.tree, values)
        return (solution, aux) if self._has_aux else solution


# ---- marks ---------------------------------------------------------------------------------------


class _Solution(Mark):
    """Mark on the solution of an equation.

    The operands of the mark are the values that the equation captures, the right-hand sides, the solution and aux, in
    this order. The outputs are aliases of the solution and aux.
    """

    __slots__ = ("operand_count",)

    def __init__(self, operand_count: int, count: int) -> None:
        super().__init__(tuple(range(operand_count, operand_count + count)))
        self.operand_count = operand_count

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the positions of the operands of the equation.

        The derivative does not depend on steps of the solver.
        """
        return tuple(range(self.operand_count))


@dataclass(frozen=True)
class _LinearSystem:
    """Linear system A x = b and its transposed system, as sub-programs of constants and a vector.

    Attributes:
        num_consts: the number of constants, which are the first inputs of each sub-program.
        size: the number of leaves of a vector.
        matvec, solve: the sub-programs of the product A x, and of the solution x for a right-hand side b.
        vecmat, transpose_solve: the same sub-programs for the transpose of A; None if the user passed no solver for it.
        shown: the name of the user's map.
    """

    num_consts: int
    size: int
    matvec: Subprogram
    vecmat: Subprogram | None
    solve: Subprogram
    transpose_solve: Subprogram | None
    shown: str

    def solved(self, emitter: Any, consts: Sequence[int], rhs: Sequence[int]) -> tuple[int, ...]:
        """Solve the system for a right-hand side.

        Return the graph values of the solution, which is marked, and of aux.
        """
        solution = self.solve.emit(emitter.graph, [*consts, *rhs], emitter.source)
        return emitter.graph.add(_LinearSolution(self), (*consts, *rhs, *solution), emitter.source)

    def transposed(self) -> _LinearSystem:
        """Return the system whose matrix is the transpose of A.

        Raises:
            ADRuleUnsupportedError: the user defined no solver for the transposed system.
        """
        if self.vecmat is None or self.transpose_solve is None:
            raise ADRuleUnsupportedError(
                f"custom_linear_solve: reverse mode (grad, vjp, jacrev) solves the system of the transpose of "
                f"{self.shown}, and there is no transpose_solve; give transpose_solve(vecmat, b), or "
                "symmetric=True where the matrix is symmetric, or use forward mode (jvp, jacfwd)"
            )
        return replace(
            self,
            matvec=self.vecmat,
            vecmat=self.matvec,
            solve=self.transpose_solve,
            transpose_solve=self.solve,
        )


class _LinearSolution(_Solution):
    """Mark on the solution x of A x = b. Its tangent x_dot solves A x_dot = b_dot - A_dot x."""

    __slots__ = ("system",)

    def __init__(self, system: _LinearSystem) -> None:
        super().__init__(system.num_consts + system.size, len(system.solve.output_slots))
        self.system = system

    @property
    def name(self) -> str:
        """The name of the API function."""
        return "custom_linear_solve"

    @property
    def key(self) -> Any:
        """Key of the system: its sub-programs close over no values, so that equal systems have equal keys."""
        return (type(self), self.takes, self.system)

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Solve the same system for the tangent of the solution. The auxiliary result has no tangent."""
        system = self.system
        n, end = system.num_consts, self.operand_count
        consts, b, x = inputs[:n], inputs[n:end], outputs[: system.size]
        changes = pushed(emitter, system.matvec, consts, tangents[:n], x, mode)
        rhs = [_difference(dot, y) for dot, y in zip(tangents[n:end], changes, strict=True)]
        if all([dot is None for dot in rhs]):
            return (None,) * len(outputs)
        filled = [
            (zeros(like) if dot is None else dot).handle for dot, like in zip(rhs, b, strict=True)
        ]
        with own_effects(emitter.graph):
            solution = system.solved(emitter, [c.handle for c in consts], filled)
        return (*emitter.values(solution[: system.size]), *([None] * (len(outputs) - system.size)))

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Compute the cotangent of b, which solves the adjoint system.

        The transposed system is solved instead, with the conjugate of the right-hand side and of the solution.
        """
        system = self.system
        n, end = system.num_consts, self.operand_count
        if any(linear[:n]):
            raise ADRuleUnsupportedError(
                f"custom_linear_solve: {system.shown} closes over a tangent, in which the solution is not linear"
            )
        bars = [
            _zeros_of(emitter, x) if bar is None else bar
            for bar, x in zip(y_bars[: system.size], inputs[end:], strict=False)
        ]
        consts, rhs = [c.handle for c in inputs[:n]], [conj(bar).handle for bar in bars]
        with own_effects(emitter.graph):
            solution = system.transposed().solved(emitter, consts, rhs)
        b_bars = [conj(bar) for bar in emitter.values(solution[: system.size])]
        return (*([None] * n), *b_bars, *([None] * (len(inputs) - end)))


def _difference(lhs: Value | None, rhs: Value | None) -> Value | None:
    if rhs is None:
        return lhs
    return -rhs if lhs is None else lhs - rhs


def _zeros_of(emitter: Any, x: Value) -> Value:
    """Return zeros of the type of x, in place of a cotangent that is None."""
    return Value(emitter, emitter.zeros(x.type)) if x.type.is_exact else zeros(x)


class _Root(_Solution):
    """Mark on the solution x of f(x) = 0. Its tangent x_dot solves f'(x) x_dot = -f_dot(x).

    Attributes:
        equation: f as a sub-program of constants and x.
        tangent_solve: the solver of the tangent equation, as a sub-program of constants, x and a right-hand side.
    """

    __slots__ = ("equation", "tangent_solve")

    def __init__(
        self, operand_count: int, count: int, equation: Subprogram, tangent_solve: Subprogram
    ) -> None:
        super().__init__(operand_count, count)
        self.equation = equation
        self.tangent_solve = tangent_solve

    @property
    def name(self) -> str:
        """The name of the API function."""
        return "custom_root"

    @property
    def key(self) -> Any:
        """Key of the equation and its tangent solver. They close over no values, so equal equations have equal keys."""
        return (type(self), self.takes, self.equation, self.tangent_solve)

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Solve the tangent equation at the solution. The auxiliary result has no tangent."""
        n, size = self.operand_count, len(self.equation.output_slots)
        consts, x = inputs[:n], outputs[:size]
        y_dots = pushed(emitter, self.equation, consts, tangents[:n], x, mode)
        if all([y_dot is None for y_dot in y_dots]):
            return (None,) * len(outputs)
        rhs = [
            zeros(like) if y_dot is None else -y_dot for y_dot, like in zip(y_dots, x, strict=True)
        ]
        operands = [value.handle for value in (*consts, *x, *rhs)]
        with own_effects(emitter.graph):
            x_dots = self.tangent_solve.emit(emitter.graph, operands, emitter.source)
        return (*emitter.values(x_dots), *([None] * (len(outputs) - size)))


# ---- marked solutions ----------------------------------------------------------------------------


def _builder_of(leaves: Sequence[Any]) -> GraphBuilder | None:
    """Return the builder of the current trace, or of the trace of a leaf; None outside of traces."""
    traced = next((x for x in leaves if isinstance(x, TracedTensor)), None)
    return current_builder() or (None if traced is None else traced.builder)


def _solved(
    solver: _Solver,
    arguments: tuple[Callable[..., Any], PyTree],
    write: Callable[[GraphBuilder], tuple[int, ...]],
) -> Any:
    """Solve an equation. On arrays, call the solver. In a trace, call `write`, which adds the solver and a mark.

    If the functions use tracked eager tensors, `write` adds to a separate graph, which is recorded as one operation.
    """
    leaves = flatten(arguments[1])[0]
    builder = _builder_of(leaves)
    size = len(solver.space.specs)
    if builder is None and not any([getattr(x, "is_tracked", False) for x in leaves]):
        values, aux = solver.split(*arguments)
        tracked = next((x for x in values if getattr(x, "is_tracked", False)), None)
        if tracked is None:
            return solver.packed(values, aux)
        leaves = [tracked]  # a tracked tensor that the functions close over
    if builder is not None:
        results: Sequence[Any] = [TracedTensor(builder, value) for value in write(builder)]
    else:
        runtime = next(x.runtime for x in leaves if getattr(x, "is_tracked", False))
        notes = ArgumentBuilder()
        values = write(notes)
        results = noted_run(runtime, notes.graph, dict(notes.arguments.values()), values)
    return solver.packed(results[:size], unflatten(solver.aux_tree, results[size:]))


def _require_functions(name: str, **functions: Any) -> None:
    for what, fn in functions.items():
        if not callable(fn):
            raise InvalidConfigError(f"{name}: {what} must be a function, got {fn!r:.60}")


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: ArrayLike,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve matvec(x) = b for x by `solve`; the derivative solves the same system instead of differentiating `solve`.

    The tangent x_dot solves matvec(x_dot) = b_dot - matvec_dot(x). In reverse mode `transpose_solve` solves the
    transposed system. Both derivatives can be differentiated again, to any order.

    Args:
        matvec: a linear map of trees like b. Tensors that it captures also have derivatives.
        b: a tree of float or complex tensors.
        solve: `solve(matvec, b)` returns x, a tree like b. It may be a `while_loop`.
        transpose_solve: `transpose_solve(vecmat, b)` solves vecmat(x) = b, where vecmat is the transpose of matvec.
            Reverse mode requires it.
        symmetric: whether matvec equals its transpose (without conjugation); `transpose_solve` is then `solve` by
            default.
        has_aux: whether the solvers return (x, aux); the result is then (x, aux), and aux has no derivative.

    On arrays, the function returns `solve(matvec, b)`.

    Raises:
        ArityError, ShapeError, DTypeError: a result is not like b, or b has an integer.
        InvalidConfigError: an argument is not a function, or matvec is not linear: its transpose depends on the point.
        ADRuleUnsupportedError: the result is differentiated in reverse mode, and there is no `transpose_solve`.

    >>> import numpy as np, tenferro as tnf
    >>> def solution(a, b):
    ...     direct = lambda matvec, b: tnf.linalg.solve(tnf.jacfwd(matvec)(b), b)
    ...     return custom_linear_solve(lambda x: a @ x, b, direct, direct)
    >>> a, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 5.0])
    >>> solution(a, b)
    array([1., 1.])
    >>> tnf.grad(lambda b: tnf.sum(solution(a, b)))(b)
    array([0.375, 0.25 ])

    Source: `jax.lax.custom_linear_solve`.
    """
    name = "custom_linear_solve"
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    _require_functions(name, matvec=matvec, solve=solve)
    leaves, tree = flatten(b)
    leaves = [as_operand(leaf) for leaf in leaves]
    b = unflatten(tree, leaves)
    space = _Space.of(name, "b", leaves, tree)
    solver = _Solver(space, "solve", solve, has_aux)
    transposed_solver: _Solver | None = None
    if transpose_solve is not None:
        _require_functions(name, transpose_solve=transpose_solve)
        transposed_solver = _Solver(space, "transpose_solve", transpose_solve, has_aux)

    def write(builder: GraphBuilder) -> tuple[int, ...]:
        maps = [_Traced(builder, _leaves_of(builder, space, "matvec(..)", matvec), space)]
        solvers = [_Traced(builder, functools.partial(solver.values, builder, matvec), space)]
        if transposed_solver is not None:
            vecmat = matvec if symmetric else _transpose(builder, space, matvec)
            transpose_values = functools.partial(transposed_solver.values, builder, vecmat)
            maps.append(_Traced(builder, _leaves_of(builder, space, "vecmat(..)", vecmat), space))
            solvers.append(_Traced(builder, transpose_values, space))
        captured: set[int] = set().union(*[traced.frontier for traced in maps])
        consts = sorted(captured.union(*[each.frontier_beyond(captured) for each in solvers]))
        matrices = [traced.part(consts) for traced in maps]
        solutions = [traced.part(consts) for traced in solvers]
        system = _LinearSystem(
            len(consts),
            len(space.specs),
            matrices[0],
            matrices[1] if matrices[1:] else None,
            solutions[0],
            solutions[1] if solutions[1:] else None,
            name_of(matvec),
        )
        return system.solved(builder, consts, [value_in(builder, leaf) for leaf in leaves])

    return _solved(solver, (matvec, b), write)


def _transpose(builder: GraphBuilder, space: _Space, matvec: Callable[[Any], Any]) -> _LinearMap:
    """Transpose a linear map: conjugate the argument, apply the adjoint, and conjugate the result.

    Raises:
        InvalidConfigError: the adjoint depends on the point at which it is taken, so the map is not linear.
    """
    graph = builder.graph
    anywhere = [graph.add_stand_in(spec) for spec in space.specs]
    tensors = [TracedTensor(builder, value) for value in anywhere]
    first = len(graph)
    with own_effects(graph), tracing(builder):
        _, pull = vjp(matvec, unflatten(space.tree, tensors))

    def vecmat(v: PyTree) -> PyTree:
        bars = unflatten(space.tree, [numbers.conj(leaf) for leaf in flatten(v)[0]])
        pulled = flatten(pull(bars)[0])[0]
        return unflatten(space.tree, [numbers.conj(leaf) for leaf in pulled])

    second = len(graph)
    traced = _Traced(builder, _leaves_of(builder, space, "the linear map", vecmat), space)
    # The transpose may read the counter of a loop that runs at the point. Unused outputs of the loop are removed before
    # the check, because the counter itself does not depend on the point.
    part = needed(
        graph.instructions, traced.outputs, available=traced.inputs, start=first, narrow=_narrowed
    )
    point = set(anywhere)
    if any([not point.isdisjoint(node.inputs) for node in part.values()]):
        ops = [node.op for node in part.values()]
        marked = next((op for op in ops if isinstance(op, ControlOp) and op.is_marked), None)
        if marked is not None:
            raise InvalidConfigError(
                f"custom_linear_solve: the transpose of {name_of(matvec)} depends on the vector at which it is "
                f"taken: it is not linear, or its {marked.name} holds a function with a derivative of its own "
                "(custom_jvp, custom_vjp, checkpoint), which is to be called outside of it"
            )
        raise InvalidConfigError(
            f"custom_linear_solve: {name_of(matvec)} is not linear: its transpose depends on the vector at which "
            "it is taken; use custom_root for an equation that is not linear"
        )
    at_the_point = [node for number, node in part.items() if number < second]
    afterwards = [node for number, node in part.items() if number >= second]
    values = list(range(len(graph.types)))
    with own_effects(graph):
        copy_into(graph, at_the_point, values)

    def again(v: PyTree) -> PyTree:
        for x, leaf in zip(traced.inputs, flatten(v)[0], strict=True):
            values[x] = value_in(builder, leaf)
        copy_into(graph, afterwards, values)
        return unflatten(space.tree, [TracedTensor(builder, values[y]) for y in traced.outputs])

    return _LinearMap(builder, space, again)


def _narrowed(instruction: Instruction, wanted: Collection[int]) -> Instruction:
    """Remove unused outputs of a loop or conditional. If its body has marks, keep them, because they would be lost."""
    op = instruction.op
    return (
        instruction if isinstance(op, ControlOp) and op.is_marked else pruned(instruction, wanted)
    )


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: ArrayLike,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """Solve f(x) = 0 for x by `solve`; the implicit function theorem defines the derivative, not the solver's steps.

    The tangent x_dot solves f'(x) x_dot = -f_dot(x), where f_dot results from the tangents of tensors that f captures.
    There is no derivative with respect to the initial guess.

    Args:
        f: a function from a tree like initial_guess to a tree like initial_guess.
        initial_guess: a tree of float or complex tensors.
        solve: `solve(f, initial_guess)` returns x. It may be a `while_loop`.
        tangent_solve: `tangent_solve(g, y)` returns v with g(v) = y for the linear g = f'(x):
            `lambda g, y: y / g(1.0)` for a number, `lambda g, y: solve(jacfwd(g)(y), y)` for a vector. It is
            differentiated for higher derivatives, so an iterative solver in it needs `custom_linear_solve`.
        has_aux: whether `solve` returns (x, aux); the result is then (x, aux), and aux has no derivative.

    On arrays, the function returns `solve(f, initial_guess)`.

    Raises:
        ArityError, ShapeError, DTypeError: a result is not like initial_guess, or initial_guess has an integer.
        InvalidConfigError: an argument is not a function.

    >>> import tenferro as tnf
    >>> def square_root(a):
    ...     def newton(f, x):
    ...         step = lambda x: x - f(x) / tnf.jvp(f, (x,), (1.0,))[1]
    ...         return tnf.while_loop(lambda x: abs(f(x)) > 1e-12 * a, step, x)
    ...     return custom_root(lambda x: x * x - a, a, newton, lambda g, y: y / g(1.0))
    >>> square_root(4.0), tnf.grad(square_root)(4.0), tnf.grad(tnf.grad(square_root))(4.0)
    (array(2.), array(0.25), array(-0.03125))

    Source: `jax.lax.custom_root`.
    """
    name = "custom_root"
    _require_functions(name, f=f, solve=solve, tangent_solve=tangent_solve)
    leaves, tree = flatten(initial_guess)
    leaves = [as_operand(leaf) for leaf in leaves]
    guess = unflatten(tree, leaves)
    space = _Space.of(name, "initial_guess", leaves, tree)
    solver = _Solver(space, "solve", solve, has_aux)
    tangent_solver = _Solver(space, "tangent_solve", tangent_solve, False)

    def write(builder: GraphBuilder) -> tuple[int, ...]:
        def solved_tangent(x: PyTree, y: PyTree) -> list[int]:
            _, push = linearize(f, x)
            return tangent_solver.values(builder, _LinearMap(builder, space, push), y)

        equation = _Traced(builder, _leaves_of(builder, space, "f(..)", f), space)
        tangent = _Traced(builder, solved_tangent, space, space)
        solution = _Traced(builder, functools.partial(solver.values, builder, f), space)
        consts = sorted(equation.frontier | tangent.frontier_beyond(equation.frontier))
        used = sorted(solution.frontier)
        start = [value_in(builder, leaf) for leaf in leaves]
        solution_values = solution.part(used).emit(builder.graph, [*used, *start])
        mark = _Root(len(consts), len(solution_values), equation.part(consts), tangent.part(consts))
        return builder.graph.add(mark, (*consts, *solution_values))

    return _solved(solver, (f, guess), write)


# ---- fixed points --------------------------------------------------------------------------------


def fixed_point(
    f: Callable[[Any], Any],
    x0: ArrayLike,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    max_steps: int = 10_000,
) -> Any:
    """Solve x = f(x) by the iteration x <- f(x) from x0, for a contraction f.

    The tangent is the fixed point of the linear iteration x_dot <- f'(x) x_dot + f_dot; reverse mode iterates with
    the transpose of f'(x). Steps are not stored for the derivative. There is no derivative with respect to x0.

    Args:
        f: a function from a tree like x0 to a tree like x0; tensors that it captures have derivatives.
        x0: a tree of float or complex tensors.
        rtol, atol: a leaf has converged when a step changes no element by more than atol + rtol max|x|. By default,
            rtol is 32 times the dtype's epsilon. The linear iteration uses rtol alone.
        max_steps: the maximum number of steps. Leaves that have not converged by then are NaN, and so are their
            derivatives.

    Raises:
        ArityError, ShapeError, DTypeError: f returns a tree that is not like x0, or x0 has an integer.
        InvalidConfigError: a tolerance is negative, or `max_steps` is below 1.

    >>> import tenferro as tnf
    >>> fixed_point(tnf.cos, 1.0)
    array(0.73908513)
    >>> tnf.grad(lambda a: fixed_point(lambda x: (x + a / x) / 2, a))(4.0)
    array(0.25)
    """
    name = "fixed_point"
    _require_functions(name, f=f)
    if not (rtol is None or rtol >= 0) or not atol >= 0:
        raise InvalidConfigError(
            f"{name}: tolerances must be at least 0, got rtol={rtol} and atol={atol}"
        )
    if type(max_steps) is not int or max_steps < 1:
        raise InvalidConfigError(
            f"{name}: max_steps must be an integer from 1, got {max_steps!r:.60}"
        )
    leaves, tree = flatten(x0)
    leaves = [as_operand(leaf) for leaf in leaves]
    space = _Space.of(name, "x0", leaves, tree)

    def minus(xs: PyTree, ys: PyTree) -> Any:
        pairs = zip(flatten(xs)[0], flatten(ys)[0], strict=True)
        return unflatten(tree, [x - y for x, y in pairs])

    def equation(x: PyTree) -> Any:
        return minus(unflatten(tree, space.leaves("f(..)", f(x))), x)

    def iterated(_: Callable[..., Any], x: PyTree) -> Any:
        return _settled(space, f, x, rtol, atol, max_steps)

    def linear(g: Callable[[Any], Any], y: PyTree) -> Any:
        # The operand g is f' - 1, so g(v) = y is the fixed-point equation v = v + g(v) - y.
        def step(v: PyTree) -> Any:
            sums = [a + b for a, b in zip(flatten(v)[0], flatten(g(v))[0], strict=True)]
            return minus(unflatten(tree, sums), y)

        start = unflatten(tree, [-leaf for leaf in flatten(y)[0]])
        return _settled(space, step, start, rtol, 0.0, max_steps)

    def tangent(g: Callable[[Any], Any], y: Any) -> Any:
        return custom_linear_solve(g, y, linear, linear)

    return custom_root(equation, unflatten(tree, leaves), iterated, tangent)


def _settled(
    space: _Space,
    f: Callable[[Any], Any],
    start: PyTree,
    rtol: float | None,
    atol: float,
    max_steps: int,
) -> Any:
    """Repeat x <- f(x) until all leaves have converged; leaves that have not converged after `max_steps` are NaN."""

    def moves(x: Any, y: Any) -> Any:
        # Comparisons with NaN are false, so a leaf with a NaN counts as not converged.
        dtype = spec_of(x).dtype
        bound = (32 * finfo(dtype).eps if rtol is None else rtol) * _norm(y) + atol
        return numbers.logical_not(_norm(y - x) <= bound)

    def step(state: Any) -> Any:
        count, x, _ = state
        leaves = space.leaves("f(..)", f(x))
        moved = [moves(a, b) for a, b in zip(flatten(x)[0], leaves, strict=True)]
        return count + 1, unflatten(space.tree, leaves), moved

    def continues(state: Any) -> Any:
        count, _, moved = state
        return (count < max_steps) & functools.reduce(lambda a, b: a | b, moved)

    if not space.specs:
        return start
    everything = [np.True_ for _ in space.specs]
    state: Any = (0, start, everything)
    _, x, moved = while_loop(continues, step, state)
    ends = [
        numbers.where(has_moved, np.asarray(np.nan, spec_of(leaf).dtype.dtype), leaf)
        for leaf, has_moved in zip(flatten(x)[0], moved, strict=True)
    ]
    return unflatten(space.tree, ends)


def _norm(x: Any) -> Any:
    """Return the largest absolute value of x, or 0 if x has no elements."""
    return largest(abs(x), initial=0)

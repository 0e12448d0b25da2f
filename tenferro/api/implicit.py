"""Solutions of equations, with derivatives by the implicit function theorem.

A solver, such as Newton's method or conjugate gradients in a `while_loop`, is run and never differentiated: the
equation defines the derivative of its solution. Each function puts a mark on the solution. Differentiation reads the
mark; programs do not contain it. The functions that the mark needs are traced with it, on placeholder inputs;
captured values become operands.

Source: Krantz and Parks, "The Implicit Function Theorem", 2002; the functions of these names in JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tenferro.ad import linearize as linearize_graph
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
from tenferro.door import as_operand, is_weak, spec_of
from tenferro.door.tracing import current_builder
from tenferro.errors import (
    ADRuleUnsupportedError,
    ArityError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
)
from tenferro.graph import Alias, ArgumentBuilder, Graph, GraphBuilder, Instruction, Mark
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
    """The vector space of an equation's unknown: a tree structure, and the types of its leaves.

    Attributes:
        name: name of the solving function.
        label: the name, in error messages, of the tree that the other trees must match.
    """

    name: str
    label: str
    tree: TreeDef
    specs: tuple[TensorSpec, ...]

    @classmethod
    def of(cls, name: str, label: str, leaves: Sequence[Any], tree: TreeDef) -> _Space:
        """Return the space of a tree.

        Raises:
            DTypeError: a leaf that has no derivative.
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
        """Return the leaves of a tree of this space; Python numbers take its dtypes.

        Raises:
            ArityError, ShapeError, DTypeError: a tree of another space.
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


@contextmanager
def _own_effects(graph: Graph) -> Generator[None]:
    """Drop the effects of the body, so that results of the rest of the graph do not wait for them.

    The body may depend on placeholders, and its derivative is not always needed.
    """
    effects, graph.effects = graph.effects, []
    try:
        yield
    finally:
        graph.effects = effects


class _Traced:
    """A function of trees, traced in a graph on placeholder inputs.

    Attributes:
        inputs: the placeholders.
        outputs: the values of the leaves of its results.
        frontier: the values of the enclosing graph that it uses.
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
        with _own_effects(graph), tracing(builder):
            self.outputs = graph.after_effects(fn(*arguments))
        frontier = Subprogram.since(graph, start, self.outputs)[1]
        self.frontier = set(frontier).difference(self.inputs)

    def frontier_beyond(self, captured: set[int]) -> set[int]:
        """Return the values of the enclosing graph that the function uses and that do not depend on captured values.

        Values that depend on captured values are computed again inside of the function. Equal operations have one
        value, so a solver would otherwise use a factorisation of the enclosing graph, and need its derivative.
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
        """Return the function as a sub-program of these constants and its arguments."""
        return Subprogram.of(self.builder.graph, [*consts, *self.inputs], self.outputs)


class _LinearMap:
    """A linear map from a space into itself, traced once and emitted where it is called."""

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
    """Wrap `fn` so that it returns graph values; its result must be in the space."""

    def values(*arguments: PyTree) -> list[int]:
        return [value_in(builder, leaf) for leaf in space.leaves(what, fn(*arguments))]

    return values


class _Solver:
    """A user's solver: its solution is in the space, and followed by aux if `has_aux`.

    Attributes:
        aux_tree: the structure of the last aux.
    """

    def __init__(self, space: _Space, what: str, fn: Callable[..., Any], has_aux: bool) -> None:
        self.space = space
        self.what = what
        self._fn = fn
        self._has_aux = has_aux
        self.aux_tree: TreeDef = flatten(())[1]

    def split(self, *arguments: Any) -> tuple[list[Any], PyTree]:
        """Call the function, and return the leaves of the solution, and aux.

        Raises:
            ArityError, ShapeError, DTypeError: the result is not of the space, or not a pair.
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
        """Return the graph values of the solution and of aux."""
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
        """Arrange the result in the form of the user's function."""
        solution = unflatten(self.space.tree, values)
        return (solution, aux) if self._has_aux else solution


# ---- marks ---------------------------------------------------------------------------------------


class _Solution(Mark):
    """A solution: constants, then right-hand sides, then the solution and aux, which are its results."""

    __slots__ = ("operand_count",)

    def __init__(self, operand_count: int, count: int) -> None:
        super().__init__(tuple(range(operand_count, operand_count + count)))
        self.operand_count = operand_count

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the operands of the equation, not those of the solver's steps."""
        return tuple(range(self.operand_count))


def _pushed(
    emitter: Any,
    part: Subprogram,
    consts: Sequence[Value],
    tangents: Sequence[Value | None],
    vector: Sequence[Value],
    mode: Any,
) -> list[Value | None]:
    """Compute the tangents of a function of constants and a vector, with the vector held fixed."""
    if all([dot is None for dot in tangents]):
        return [None] * len(part.output_slots)
    graph, source = emitter.graph, emitter.source
    start = len(graph)
    # New names distinguish earlier values from the differentiated values.
    fresh = graph.add(Alias(tuple(range(len(consts)))), tuple([x.handle for x in consts]), source)
    dots = {x: dot.handle for x, dot in zip(fresh, tangents, strict=True) if dot is not None}
    with _own_effects(graph):
        results = part.emit(graph, [*fresh, *[x.handle for x in vector]], source)
        y_dots = linearize_graph(emitter, start, results, dots, mode)
    emitter.source = source
    return [None if y_dot is None else Value(emitter, y_dot) for y_dot in y_dots]


@dataclass(frozen=True)
class _LinearSystem:
    """A x = b, and the transposed system: functions of constants and a vector.

    Attributes:
        num_consts: the number of constants of each part.
        size: the number of leaves of a vector.
        vecmat, transpose_solve: None without a user-defined solver for the transposed system.
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
        """Solve the system, and return solution and aux, marked."""
        solution = self.solve.emit(emitter.graph, [*consts, *rhs], emitter.source)
        return emitter.graph.add(_LinearSolution(self), (*consts, *rhs, *solution), emitter.source)

    def transposed(self) -> _LinearSystem:
        """Return the system of the transposed map.

        Raises:
            ADRuleUnsupportedError: there is no solver for it.
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
    """x of A x = b, with tangent A x_dot = b_dot - A_dot x."""

    __slots__ = ("system",)

    def __init__(self, system: _LinearSystem) -> None:
        super().__init__(system.num_consts + system.size, len(system.solve.output_slots))
        self.system = system

    @property
    def name(self) -> str:
        """The name of the user's function."""
        return "custom_linear_solve"

    @property
    def key(self) -> Any:
        """The system, which closes over no values, so that equal systems have equal keys."""
        return (type(self), self.takes, self.system)

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Solve the same system for the tangent; aux is a constant."""
        system = self.system
        n, end = system.num_consts, self.operand_count
        consts, b, x = inputs[:n], inputs[n:end], outputs[: system.size]
        changes = _pushed(emitter, system.matvec, consts, tangents[:n], x, mode)
        rhs = [_difference(dot, y) for dot, y in zip(tangents[n:end], changes, strict=True)]
        if all([dot is None for dot in rhs]):
            return (None,) * len(outputs)
        filled = [
            (zeros(like) if dot is None else dot).handle for dot, like in zip(rhs, b, strict=True)
        ]
        with _own_effects(emitter.graph):
            solution = system.solved(emitter, [c.handle for c in consts], filled)
        return (*emitter.values(solution[: system.size]), *([None] * (len(outputs) - system.size)))

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Solve the adjoint system as the transposed system, with conjugated right-hand side and solution."""
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
        with _own_effects(emitter.graph):
            solution = system.transposed().solved(emitter, consts, rhs)
        b_bars = [conj(bar) for bar in emitter.values(solution[: system.size])]
        return (*([None] * n), *b_bars, *([None] * (len(inputs) - end)))


def _difference(lhs: Value | None, rhs: Value | None) -> Value | None:
    if rhs is None:
        return lhs
    return -rhs if lhs is None else lhs - rhs


def _zeros_of(emitter: Any, x: Value) -> Value:
    """Create zeros of the type of a linear value, for a missing cotangent."""
    return Value(emitter, emitter.zeros(x.type)) if x.type.is_exact else zeros(x)


class _Root(_Solution):
    """x of f(x) = 0, with tangent f'(x) x_dot = -f_dot(x).

    `equation` is f of constants and x; `tangent_solve` of constants, x and a right-hand side.
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
        """The name of the user's function."""
        return "custom_root"

    @property
    def key(self) -> Any:
        """The equation and the solver of its tangent, which close over no values, so that equal ones have equal keys."""
        return (type(self), self.takes, self.equation, self.tangent_solve)

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Solve the tangent equation at the solution; aux is a constant."""
        n, size = self.operand_count, len(self.equation.output_slots)
        consts, x = inputs[:n], outputs[:size]
        y_dots = _pushed(emitter, self.equation, consts, tangents[:n], x, mode)
        if all([y_dot is None for y_dot in y_dots]):
            return (None,) * len(outputs)
        rhs = [
            zeros(like) if y_dot is None else -y_dot for y_dot, like in zip(y_dots, x, strict=True)
        ]
        operands = [value.handle for value in (*consts, *x, *rhs)]
        with _own_effects(emitter.graph):
            x_dots = self.tangent_solve.emit(emitter.graph, operands, emitter.source)
        return (*emitter.values(x_dots), *([None] * (len(outputs) - size)))


# ---- where they are put --------------------------------------------------------------------------


def _builder_of(leaves: Sequence[Any]) -> GraphBuilder | None:
    """Return the current trace, or the trace of a tensor."""
    traced = next((x for x in leaves if isinstance(x, TracedTensor)), None)
    return current_builder() or (None if traced is None else traced.builder)


def _solved(
    solver: _Solver,
    arguments: tuple[Callable[..., Any], PyTree],
    write: Callable[[GraphBuilder], tuple[int, ...]],
) -> Any:
    """Solve: in a trace, or for tracked eager tensors, by `write`; on arrays by the solver."""
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
    """Solve matvec(x) = b for x by `solve`; the derivative solves the same system, not the solver's steps.

    The tangent solves matvec(x_dot) = b_dot - matvec_dot(x), and in reverse mode `transpose_solve` solves the
    transposed system. Either is differentiable again, to any order.

    Args:
        matvec: a linear map of trees like b; captured tensors get derivatives, too.
        b: a tree of float or complex tensors.
        solve: `solve(matvec, b)` returns x, a tree like b; it may be a `while_loop`.
        transpose_solve: `transpose_solve(vecmat, b)` solves with the transpose of matvec, as `solve` does;
            reverse mode needs it.
        symmetric: matvec is its own transpose (not its conjugate one), so that `solve` is also the default of
            transpose_solve.
        has_aux: both solvers return (x, aux), and so does this; aux is a constant to differentiation.

    Called on arrays it is `solve(matvec, b)`.

    Raises:
        ArityError, ShapeError, DTypeError: a result that is not like b; an integer in b.
        InvalidConfigError: an argument that is not a function; a matvec with a transpose that depends on the point.
        ADRuleUnsupportedError: reverse mode without transpose_solve.

    >>> import numpy as np, tenferro as tnf
    >>> def solution(a, b):
    ...     direct = lambda matvec, b: tnf.linalg.solve(tnf.jacfwd(matvec)(b), b)
    ...     return custom_linear_solve(lambda x: a @ x, b, direct, direct)
    >>> a, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 5.0])
    >>> solution(a, b)
    array([1., 1.])
    >>> tnf.grad(lambda b: tnf.sum(solution(a, b)))(b)
    array([0.375, 0.25 ])

    Source: JAX's function of that name.
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
    """Transpose a linear map, as its adjoint with conjugated argument and result.

    Raises:
        InvalidConfigError: it depends on the point, so that the map is not linear.
    """
    graph = builder.graph
    anywhere = [graph.add_stand_in(spec) for spec in space.specs]
    tensors = [TracedTensor(builder, value) for value in anywhere]
    first = len(graph)
    with _own_effects(graph), tracing(builder):
        _, pull = vjp(matvec, unflatten(space.tree, tensors))

    def vecmat(v: PyTree) -> PyTree:
        bars = unflatten(space.tree, [numbers.conj(leaf) for leaf in flatten(v)[0]])
        pulled = flatten(pull(bars)[0])[0]
        return unflatten(space.tree, [numbers.conj(leaf) for leaf in pulled])

    second = len(graph)
    traced = _Traced(builder, _leaves_of(builder, space, "the linear map", vecmat), space)
    # The transpose may read the counter of a loop at the point: this does not make it depend on the point.
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
    with _own_effects(graph):
        copy_into(graph, at_the_point, values)

    def again(v: PyTree) -> PyTree:
        for x, leaf in zip(traced.inputs, flatten(v)[0], strict=True):
            values[x] = value_in(builder, leaf)
        copy_into(graph, afterwards, values)
        return unflatten(space.tree, [TracedTensor(builder, values[y]) for y in traced.outputs])

    return _LinearMap(builder, space, again)


def _narrowed(instruction: Instruction, wanted: Collection[int]) -> Instruction:
    """Remove unused outputs of a loop or conditional, unless that would drop a user's rule."""
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
    """Solve f(x) = 0 for x by `solve`; its derivative is the implicit function's, not the solver's steps.

    The tangent is x_dot with f'(x) x_dot = -f_dot(x), where f_dot comes from the tensors that f captures;
    the initial guess has no derivative.

    Args:
        f: a function from a tree like initial_guess to such a tree.
        initial_guess: a tree of float or complex tensors.
        solve: `solve(f, initial_guess)` returns x; it may be a `while_loop`.
        tangent_solve: `tangent_solve(g, y)` returns v with g(v) = y for the linear g = f'(x):
            `lambda g, y: y / g(1.0)` for a number, `lambda g, y: solve(jacfwd(g)(y), y)` for a vector. It is
            differentiated, so an iteration in it belongs inside `custom_linear_solve`.
        has_aux: `solve` returns (x, aux), and so does this; aux is a constant to differentiation.

    Called on arrays it is `solve(f, initial_guess)`.

    Raises:
        ArityError, ShapeError, DTypeError: a result that is not like initial_guess; an integer in initial_guess.
        InvalidConfigError: an argument that is not a function.

    >>> import tenferro as tnf
    >>> def square_root(a):
    ...     def newton(f, x):
    ...         step = lambda x: x - f(x) / tnf.jvp(f, (x,), (1.0,))[1]
    ...         return tnf.while_loop(lambda x: abs(f(x)) > 1e-12 * a, step, x)
    ...     return custom_root(lambda x: x * x - a, a, newton, lambda g, y: y / g(1.0))
    >>> square_root(4.0), tnf.grad(square_root)(4.0), tnf.grad(tnf.grad(square_root))(4.0)
    (array(2.), array(0.25), array(-0.03125))

    Source: JAX's function of that name.
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
    """Solve x = f(x) by the iteration x <- f(x) from x0, for a contraction f; NaN where it does not converge.

    The tangent is the fixed point of the linear iteration x_dot <- f'(x) x_dot + f_dot; reverse mode iterates with
    the transpose of f'(x). No step is stored. x0 has no derivative.

    Args:
        f: a function from a tree like x0 to such a tree; captured tensors get derivatives.
        x0: a tree of float or complex tensors.
        rtol, atol: a leaf has converged when no element moves by more than atol + rtol max|x|; rtol is 32 times
            the dtype's epsilon by default. The linear iteration uses rtol alone.
        max_steps: the largest number of steps; leaves that have not converged by then are NaN, and so are their
            derivatives.

    Raises:
        ArityError, ShapeError, DTypeError: f returns a tree that is not like x0; an integer in x0.
        InvalidConfigError: a tolerance below 0, no steps.

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
        # g = f' - 1: v = f' v - y = v + g(v) - y
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
    """Repeat x <- f(x) until no leaf moves; leaves that move after the last step are NaN."""

    def moves(x: Any, y: Any) -> Any:
        # Comparisons with NaN are false, so a NaN has not converged.
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
    """Return the largest absolute value."""
    return largest(abs(x), initial=0)

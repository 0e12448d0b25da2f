"""A function prepared for differentiation. It is traced on placeholders for the differentiated leaves.

Inside a trace, the placeholders are aliases of the caller's tensors in the same graph, and captured tensors are
constants of the derivative. Outside of a trace, the function is traced into a new graph, and the derivative program
runs at once on the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tenferro.ad import AdContext
from tenferro.ad.algebra import Value, zeros
from tenferro.api.compile import output_value
from tenferro.api.named_axes import differentiating
from tenferro.api.tensor import TracedTensor, tracing, value_in
from tenferro.api.written_files import traceable
from tenferro.dims import is_exact
from tenferro.dispatch import as_operand, spec_of
from tenferro.dispatch.tracing import current_builder
from tenferro.errors import (
    ArityError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
    TenferroError,
    UnsupportedError,
)
from tenferro.graph import Alias, ArgumentBuilder, Graph, GraphBuilder, Mark, Opaque, line_of
from tenferro.program import Executor, GraphProgram, Subprogram, native_executor
from tenferro.types import (
    PyTree,
    TensorSpec,
    TreeDef,
    agree,
    difference,
    flatten,
    leaf_paths,
    unflatten,
)

__all__ = ["Stage", "checked_leaves", "normalize_argnums", "noted_run", "noting_runtime"]


def normalize_argnums(name: str, argnums: int | Sequence[int], args: Any) -> tuple[int, ...]:
    """Convert `argnums` to a tuple of nonnegative positions. Negative positions in `argnums` count from the end.

    Raises:
        InvalidConfigError: `argnums` is empty, or a position is not an integer, occurs twice, or has no argument.
    """
    positions: list[Any] = [*argnums] if isinstance(argnums, tuple | list) else [argnums]
    if not positions:
        raise InvalidConfigError(f"{name}: argnums is empty; there is nothing to differentiate")
    result: list[int] = []
    for position in positions:
        if isinstance(position, bool) or not hasattr(position, "__index__"):
            raise InvalidConfigError(f"{name}: argnums must be integers, got {position!r}")
        if not -len(args) <= position < len(args):
            raise InvalidConfigError(
                f"{name}: argnums {argnums} names argument {position}, and there are {len(args)}; "
                "arguments given by keyword are not differentiated"
            )
        result.append(position.__index__() % len(args))
    if len(set(result)) != len(result):
        raise InvalidConfigError(f"{name}: argnums {argnums} names an argument twice")
    return tuple(result)


def checked_leaves(name: str, tree: PyTree, what: str) -> tuple[list[Any], TreeDef, list[str]]:
    """Flatten an argument, and check that a function can be differentiated with respect to every leaf.

    Args:
        name, what: the names of the transform and of the argument in error messages.

    Returns:
        The leaves as operands, their tree structure, and their names.

    Raises:
        DTypeError: a leaf is not a tensor, or is an integer or a bool. The error names the leaf.
    """
    leaves, treedef = flatten(tree)
    names = [f"{what}{path}" for path in leaf_paths(tree)]
    operands: list[Any] = []
    for leaf, leaf_name in zip(leaves, names, strict=True):
        try:
            operand = as_operand(leaf)
        except DTypeError as error:
            raise DTypeError(f"{name}: {leaf_name}: {error}") from None
        spec = spec_of(operand)
        if not spec.dtype.is_inexact:
            raise DTypeError(
                f"{name}: {leaf_name} is {spec}; only float and complex tensors can be differentiated "
                f"with respect to: {_as_float(leaf)}, or leave it out of argnums"
            )
        operands.append(operand)
    return operands, treedef, names


def _as_float(leaf: PyTree) -> str:
    """Return advice on how to convert an integer or bool argument to floats."""
    if isinstance(leaf, int):
        return f"write {float(leaf)}"
    return "write x.astype(float)" if isinstance(leaf, np.ndarray) else "convert it by astype"


class Stage:
    """One trace of `fn`, in which the functions of `tenferro.ad` compute tangents and cotangents.

    Attributes:
        primals: the graph values that stand for the differentiated leaves.
        start: the number of instructions in the graph before `fn` was traced.
        outputs: the graph values of the leaves of the result.
        concrete: whether the arguments are arrays and the graph is new. Otherwise the graph is that of the caller.
        executor: the executor of programs of the graph. None is the native executor.
    """

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        argnums: int | Sequence[int],
        has_aux: bool,
        context: AdContext,
        executor: Executor | None = None,
    ) -> None:
        if not callable(fn):
            raise InvalidConfigError(f"{name}: expected a function, got {fn!r:.60}")
        self.name = name
        self.context = context
        self.executor = executor
        self.argnums = normalize_argnums(name, argnums, args)
        self.single = not isinstance(argnums, tuple | list)
        self.parts: list[tuple[list[Any], TreeDef, list[str]]] = [
            checked_leaves(name, args[i], f"argument {i}") for i in self.argnums
        ]
        self.leaves: list[Any] = [leaf for leaves, _, _ in self.parts for leaf in leaves]
        self.names: list[str] = [leaf for _, _, names in self.parts for leaf in names]
        everything = flatten((args, kwargs))[0]
        traced = next((x for x in everything if isinstance(x, TracedTensor)), None)
        builder = current_builder() or (None if traced is None else traced.builder)
        self.concrete = builder is None
        self.builder: GraphBuilder = ArgumentBuilder(Graph()) if builder is None else builder
        if builder is None:
            self.builder.caches = context.extension_caches
        graph = self.graph = self.builder.graph
        if self.concrete:
            self.primals = [graph.add_input(spec_of(leaf)) for leaf in self.leaves]
        elif self.leaves:
            actual = tuple(value_in(self.builder, leaf) for leaf in self.leaves)
            self.primals = list(graph.add(Alias(tuple(range(len(actual)))), actual))
        else:
            self.primals = []
        self.emitter = context.emitter(graph)
        self.start = len(graph)
        self._trace(fn, list(args), kwargs, has_aux)

    def _trace(
        self, fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], has_aux: bool
    ) -> None:
        tensors = iter([TracedTensor(self.builder, value) for value in self.primals])
        for position, (leaves, treedef, _) in zip(self.argnums, self.parts, strict=True):
            args[position] = unflatten(treedef, [next(tensors) for _ in leaves])
        try:
            with tracing(self.builder), differentiating():
                result = traceable(fn)(*args, **kwargs)
        except TenferroError as error:
            error.at(line_of(error.__traceback__))
            raise
        self.aux: Any = None
        self.has_aux = has_aux
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise ArityError(
                    f"{self.name}: with has_aux the function must return (result, aux), "
                    f"got {type(result).__name__}"
                )
            result, self.aux = result
        leaves, self.out_tree = flatten(result)
        self.out_names = [f"result{path}" for path in leaf_paths(result)]
        self.outputs = [
            output_value(self.builder, leaf, name.removeprefix("result"))
            for leaf, name in zip(leaves, self.out_names, strict=True)
        ]

    # ---- types -------------------------------------------------------------------------------

    def type_of(self, value: int) -> TensorSpec:
        """Return the shape and dtype of a graph value."""
        return self.graph.types[value]

    def require_scalar(self, holomorphic: bool) -> None:
        """Check that the result is one real scalar. If `holomorphic`, check that it is one complex scalar.

        Raises:
            ShapeError: there are several results, or the result is not a scalar.
            DTypeError: the result is not real. If `holomorphic`, the result or an argument is not complex.
        """
        shown = ", ".join(str(self.type_of(value)) for value in self.outputs)
        if len(self.outputs) != 1 or self.type_of(self.outputs[0]).rank:
            raise ShapeError(
                f"{self.name}: the function must return one scalar, got {shown or 'nothing'}; "
                "sum it, or use vjp or jacrev"
            )
        self.require_real(holomorphic)

    def require_real(self, holomorphic: bool) -> None:
        """Check that the results are real. If `holomorphic`, check that arguments and results are complex.

        Raises:
            DTypeError: a result or an argument has a different dtype. The error names it.
        """
        for value, name in zip(self.outputs, self.out_names, strict=True):
            spec = self.type_of(value)
            if not spec.dtype.is_inexact:
                raise DTypeError(f"{self.name}: {name} is {spec}, which has no derivative")
            if spec.dtype.is_complex and not holomorphic:
                raise DTypeError(
                    f"{self.name}: {name} is {spec}; a complex result needs holomorphic=True, or "
                    "vjp, which takes a cotangent for it"
                )
            if holomorphic and not spec.dtype.is_complex:
                raise DTypeError(f"{self.name}: holomorphic=True, and {name} is {spec}")
        if holomorphic:
            self.require_complex_arguments()

    def require_complex_arguments(self) -> None:
        """Check that all differentiated arguments are complex.

        Raises:
            DTypeError: an argument is real. The error names it.
        """
        for value, name in zip(self.primals, self.names, strict=True):
            if not self.type_of(value).dtype.is_complex:
                raise DTypeError(
                    f"{self.name}: holomorphic=True, and {name} is {self.type_of(value)}"
                )

    def require_real_arguments(self) -> None:
        """Check that all differentiated arguments are real.

        Raises:
            DTypeError: an argument is complex. The error names it.
        """
        for value, name in zip(self.primals, self.names, strict=True):
            if self.type_of(value).dtype.is_complex:
                raise DTypeError(
                    f"{self.name}: {name} is {self.type_of(value)}; complex arguments need "
                    "holomorphic=True, or jvp, which takes a direction"
                )

    # ---- values ------------------------------------------------------------------------------

    def value(self, handle: int) -> Value:
        """Return a graph value as a `Value`, with the operators that derivative rules use."""
        return Value(self.emitter, handle)

    def or_zeros(self, values: Sequence[int | None], like: Sequence[int]) -> list[int]:
        """Replace each None in `values` by zeros with the shape and dtype of the corresponding entry of `like`."""
        return [
            zeros(self.value(model)).handle if value is None else value
            for value, model in zip(values, like, strict=True)
        ]

    def tensors(self, values: Sequence[int]) -> list[TracedTensor]:
        """Wrap graph values as tensors of the trace."""
        return [TracedTensor(self.builder, value) for value in values]

    def leaves_like(
        self, trees: PyTree, like: Sequence[int], treedef: TreeDef, what: str
    ) -> list[Any]:
        """Flatten tangents or cotangents, and check that they match graph values.

        Args:
            trees: the tangents or cotangents.
            like, treedef: the graph values whose types the leaves must have, and the tree structure that the leaves
                must have.
            what: the name of `trees` in error messages.

        Raises:
            ArityError, ShapeError, DTypeError: the structure, a shape or a dtype differs.
        """
        leaves, tree = flatten(trees)
        if not agree(tree, treedef):
            parting = difference(treedef, tree, ("expected", "got"))
            raise ArityError(f"{self.name}: {what} has another structure: {parting}")
        result: list[Any] = []
        for index, (leaf, value) in enumerate(zip(leaves, like, strict=True)):
            operand, wanted = as_operand(leaf), self.type_of(value)
            if type(leaf) in (bool, int, float, complex):
                operand = np.asarray(leaf).astype(wanted.dtype.dtype)
            if not _fits(spec_of(operand), wanted):
                raise (ShapeError if spec_of(operand).shape != wanted.shape else DTypeError)(
                    f"{self.name}: leaf {index} of {what} must be {wanted}, like what it belongs to, "
                    f"got {spec_of(operand)}"
                )
            result.append(operand)
        return result

    # ---- running -----------------------------------------------------------------------------

    def key(self, *more: Any) -> Any:
        """Return a cache key that is equal for calls with the same derivative program.

        The key contains no arrays. If a mark in the program has no key, the program cannot be cached, and the key is
        None.
        """
        graph = self.graph
        ops: list[Any] = [i.op for i in graph.instructions]
        if graph.marked:
            ops = [op.key if isinstance(op, Mark | Opaque) else op for op in ops]
            if any([op is None for op in ops]):
                return None
        operands = tuple([i.inputs for i in graph.instructions])
        types = tuple(graph.types[value] for value in graph.inputs)
        return (tuple(ops), operands, types, tuple(graph.inputs), tuple(self.outputs), more)

    def run(
        self,
        key: tuple[Any, ...] | None,
        make: Callable[[], tuple[list[int], list[int]]],
        extra: Sequence[Any] = (),
    ) -> list[Any]:
        """Run a program of this graph on the arguments of the trace, the captured arrays, and the arrays `extra`.

        Args:
            key: the cache key of the program. If it is None, the program is not cached.
            make: a function that returns the graph values that stand for `extra`, and the outputs of the program.
        """
        captured = self._captured()
        inputs = [*self.primals, *[value for value, _ in captured]]
        arrays = [*self.leaves, *[array for _, array in captured], *extra]
        runtime = self.noted_by(extra)
        if runtime is not None:
            if self.executor is not None:
                raise UnsupportedError(
                    f"{self.name}: runs on the executor that was passed, which records nothing for backward; give it "
                    "x.detach(), or leave the executor out"
                )
            stand_ins, outputs = make()
            operands = dict(zip([*inputs, *stand_ins], arrays, strict=True))
            return noted_run(runtime, self.graph, operands, outputs)

        def program() -> GraphProgram:
            stand_ins, outputs = make()
            outputs = self.graph.after_effects(outputs)
            all_inputs = [*inputs, *stand_ins]
            return GraphProgram.from_graph(self.graph, outputs, inputs=all_inputs, name=self.name)

        return list(self.execute(self.context.program(key, program), *arrays))

    def execute(self, program: GraphProgram, *arrays: Any) -> Any:
        """Run a program on the executor of this transform."""
        return (self.executor or native_executor()).run(program, *arrays)

    def noted_by(self, extra: Sequence[Any]) -> Any:
        """Return the eager runtime that must record a run of this graph on its operands and `extra`, or None.

        Programs have no marks. A run is therefore recorded if the graph has marks and an operand is a tracked eager
        tensor.
        """
        arrays = [*self.leaves, *[array for _, array in self._captured()], *extra]
        return noting_runtime(self.graph, arrays)

    def _captured(self) -> list[tuple[int, Any]]:
        """Return pairs of a graph value and the captured array that it stands for."""
        builder = self.builder
        return list(builder.arguments.values()) if isinstance(builder, ArgumentBuilder) else []

    def filled(self, tree: PyTree, values: Sequence[Any]) -> Any:
        """Replace the traced tensors in a tree by `values`, in order. Other leaves are unchanged."""
        leaves, treedef = flatten(tree)
        results = iter(values)
        return unflatten(
            treedef, [next(results) if isinstance(leaf, TracedTensor) else leaf for leaf in leaves]
        )

    def aux_values(self) -> list[int]:
        """Return the graph values of the traced tensors in the auxiliary result."""
        leaves = flatten(self.aux)[0]
        return [leaf.value for leaf in leaves if isinstance(leaf, TracedTensor)]

    def by_argument(self, values: Sequence[Any]) -> Any:
        """Arrange values as a tuple of one tree per differentiated argument.

        If `argnums` is a number instead of a tuple, return only the tree of the argument.
        """
        remaining = iter(values)
        trees = tuple(
            unflatten(treedef, [next(remaining) for _ in leaves])
            for leaves, treedef, _ in self.parts
        )
        return trees[0] if self.single else trees


def noting_runtime(graph: Graph, arrays: Sequence[Any]) -> Any:
    """Return the eager runtime that must record a run of the graph on `arrays`, or None.

    Programs have no marks. A run is therefore recorded if the graph has marks and an operand is a tracked eager tensor.
    """
    if not graph.marked:
        return None
    return next((x.runtime for x in arrays if getattr(x, "is_tracked", False)), None)


def noted_run(
    runtime: Any, graph: Graph, arguments: Mapping[int, Any], outputs: Sequence[int]
) -> list[Any]:
    """Run the graph in the eager runtime, and record the run as one operation that keeps the graph's marks."""
    part, frontier = Subprogram.since(graph, 0, graph.after_effects(outputs))
    operands = [arguments[value] for value in frontier]
    return list(runtime.noted(part, operands))


def _fits(spec: TensorSpec, wanted: TensorSpec) -> bool:
    """Return whether a type equals `wanted`. If an extent of `wanted` depends on data, any extent is accepted."""
    return spec == wanted or (
        spec.dtype is wanted.dtype
        and spec.rank == wanted.rank
        and all(
            mine == theirs if is_exact(theirs) else True
            for mine, theirs in zip(spec.shape, wanted.shape, strict=True)
        )
    )

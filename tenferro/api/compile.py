"""Tracing of Python functions into `GraphProgram`s."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tenferro.api.tensor import TracedTensor, tracing, value_in
from tenferro.api.written_files import traceable
from tenferro.compilations import until_compiled
from tenferro.dims import SymDim
from tenferro.dispatch import is_traced
from tenferro.errors import DTypeError, InvalidConfigError, TenferroError
from tenferro.graph import BodyBuilder, GraphBuilder, line_of
from tenferro.passes.roll import roll as rolled
from tenferro.program import ExtensionCaches, GraphProgram
from tenferro.tracebacks import public_methods
from tenferro.types import (
    DType,
    PyTree,
    TensorSpec,
    TreeDef,
    flatten,
    has_dtype,
    host_array,
    leaf_paths_of,
    unflatten,
)

__all__ = [
    "GraphCompiler",
    "as_array",
    "compile",
    "eval_shape",
    "name_of",
    "output_value",
    "parameter_names",
]


@public_methods
class GraphCompiler:
    """Compiler that traces functions into programs.

    Attributes:
        extension_caches: caches of the plans that extensions compute during tracing, such as contraction paths.

    >>> program = GraphCompiler().compile(lambda x: x + x, TensorSpec((2,), "float32"))
    >>> program
    <GraphProgram <lambda>: 1 inputs, 1 instructions, 1 outputs>
    """

    def __init__(self) -> None:
        self.extension_caches = ExtensionCaches(owner=self)

    def __repr__(self) -> str:
        return f"<GraphCompiler: {len(self.extension_caches)} caches of extensions>"

    def compile(
        self,
        fn: Callable[..., Any],
        *specs: TensorSpec | PyTree,
        name: str | None = None,
        input_names: Sequence[str] | None = None,
    ) -> GraphProgram:
        """Trace `fn` on tensors of the types `specs`; `tenferro.compile` describes the arguments.

        Args:
            input_names: the names of the input leaves; by default they are derived from the function's parameters.
        """
        builder = GraphBuilder()
        builder.caches = self.extension_caches
        return _traced(builder, fn, specs, name, input_names)


def _traced(
    builder: GraphBuilder,
    fn: Callable[..., Any],
    specs: Sequence[TensorSpec | PyTree],
    name: str | None,
    input_names: Sequence[str] | None = None,
) -> GraphProgram:
    # `until_compiled` is not used as a decorator: in a traceback, frames of a decorator would look like the user's
    # code.
    with until_compiled():
        return _traced_program(builder, fn, specs, name, input_names)


def _traced_program(
    builder: GraphBuilder,
    fn: Callable[..., Any],
    specs: Sequence[TensorSpec | PyTree],
    name: str | None,
    input_names: Sequence[str] | None,
) -> GraphProgram:
    if not callable(fn):
        raise InvalidConfigError(f"compile: expected a function, got {fn!r:.60}")
    leaves, in_tree = flatten(specs)
    names = _argument_names(fn, in_tree) if input_names is None else list(input_names)
    graph = builder.graph
    tensors: list[TracedTensor] = []
    for leaf, path in zip(leaves, names, strict=True):
        tensors.append(TracedTensor(builder, graph.add_input(_spec_of(leaf, path))))
    try:
        with tracing(builder):
            result = traceable(fn)(*in_tree.unflatten(tensors))
    except TenferroError as error:
        # An API function may raise an error before it adds the instruction that would record the user's line. In that
        # case the line is read from the traceback.
        error.at(line_of(error.__traceback__))
        raise
    results, out_tree = flatten(result)
    outputs: list[int] = []
    output_names: list[str] = []
    for leaf, path in zip(results, leaf_paths_of(out_tree), strict=True):
        outputs.append(output_value(builder, leaf, path))
        output_names.append(f"result{path}")
    return GraphProgram.from_graph(
        graph,
        graph.after_effects(outputs),
        name=name or getattr(fn, "__name__", "main"),
        in_tree=in_tree,
        out_tree=out_tree,
        input_names=names,
        output_names=output_names,
    )


def compile(
    fn: Callable[..., Any], *specs: TensorSpec | PyTree, name: str | None = None, roll: bool = False
) -> GraphProgram:
    """Trace `fn` once, on tensors of the types `specs`, into a program that runs natively or through XLA.

    Args:
        fn: a function from pytrees of tensors to a pytree of tensors.
        specs: one pytree of `TensorSpec`s per argument. Instead of a spec, a leaf may be an array or another object
            with `shape` and `dtype`, or a Python number, which means a rank-0 tensor.
        name: the name of the program in printed output; by default the name of `fn`.
        roll: whether to convert repeated sequences of ops, such as unrolled Python loops, to scans. Results are bitwise
            equal, and XLA compiles a long loop as fast as one iteration.

    Raises:
        DTypeError: a leaf of `specs` is neither a spec nor an array, or a result is not a tensor.
        ShapeError, ConcretizationError, ...: errors from tracing `fn`; each shows the line of your code.

    >>> import numpy as np
    >>> program = compile(lambda x, y: {"sum": x + y}, TensorSpec((2,), "f8"), TensorSpec((2,), "f8"))
    >>> program.run(np.ones(2), np.ones(2))
    {'sum': array([2., 2.])}

    >>> def root(x):
    ...     y = x
    ...     for _ in range(1000):
    ...         y = (y + x / y) / 2
    ...     return y
    >>> len(compile(root, 2.0).instructions), len(compile(root, 2.0, roll=True).instructions)
    (3001, 1)
    """
    program = _traced(GraphBuilder(), fn, specs, name)
    return rolled(program) if roll else program


def _spec_of(leaf: Any, path: str) -> TensorSpec:
    if type(leaf) is np.ndarray:
        return TensorSpec.of(leaf.shape, DType.of(leaf.dtype))
    if isinstance(leaf, TensorSpec):
        spec = leaf
    elif hasattr(leaf, "shape") and has_dtype(leaf):
        spec = TensorSpec(leaf.shape, leaf.dtype)
    else:
        array = as_array(leaf, path)
        spec = TensorSpec(array.shape, array.dtype)
    if not spec.is_exact:
        raise InvalidConfigError(
            f"{path}: an input's extents must be numbers or symbols, got {spec}"
        )
    return spec


def as_array(leaf: PyTree, path: str) -> Any:
    """Convert a leaf to an array of a dtype that tenferro supports.

    Args:
        path: the name of the leaf for error messages.

    Raises:
        DTypeError: the leaf is not an array or a number, or its dtype is not supported.
    """
    try:
        array = host_array(leaf, path)
        DType.of(array.dtype)
    except InvalidConfigError:
        raise
    except (DTypeError, ValueError, TypeError):
        raise DTypeError(f"{path}: {leaf!r:.60} is neither a TensorSpec nor an array") from None
    return array


def eval_shape(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the types of `fn`'s results, as a tree of `TensorSpec`s, without computing the results.

    Args:
        args, kwargs: the arguments of `fn`, as trees of `TensorSpec`s, arrays, or other objects with `shape` and
            `dtype`.

    >>> import numpy as np
    >>> eval_shape(lambda x, y: {"product": x @ y}, TensorSpec((2, 3), "f4"), np.ones((3, 4), "f4"))
    {'product': f32[2,4]}

    Source: `jax.eval_shape`.
    """
    program = GraphCompiler().compile(lambda args, kwargs: fn(*args, **kwargs), args, kwargs)
    return unflatten(program.out_tree, program.output_specs)


def output_value(builder: GraphBuilder, leaf: Any, path: str) -> int:
    """Return the graph value of a leaf of a traced function's result. An array becomes a constant.

    Raises:
        InvalidConfigError, DTypeError: the leaf belongs to another trace, or is neither a tensor nor an array.
    """
    if isinstance(leaf, TracedTensor) and not isinstance(builder, BodyBuilder):
        if leaf.builder.graph is not builder.graph:
            raise InvalidConfigError(f"result{path} belongs to another trace")
        return leaf.value
    if is_traced(leaf):
        return value_in(builder, leaf)
    if isinstance(leaf, SymDim):
        raise DTypeError(f"result{path} is the extent {leaf}; use tenferro.shape_of to return it")
    return builder.lift(as_array(leaf, f"result{path}"))


def name_of(fn: Callable[..., Any]) -> str:
    """Return the name of a function for error messages, such as `loss` or `grad of loss`."""
    if hasattr(type(fn), "shown"):
        return fn.shown  # pyright: ignore[reportFunctionMemberAccess]  # because it is a transform
    return getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or type(fn).__name__


def parameter_names(fn: Callable[..., Any]) -> list[str]:
    """Return the names of a function's positional parameters, or an empty list if it has no signature."""
    if (
        type(fn) is FunctionType and not fn.__dict__
    ):  # because `signature` takes longer than a small trace
        return list(fn.__code__.co_varnames[: fn.__code__.co_argcount])
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _argument_names(fn: Callable[..., Any], in_tree: TreeDef) -> list[str]:
    """Return a name for each leaf: its parameter and its path in the argument, such as `x` or `params['w']`."""
    parameters = parameter_names(fn)
    names: list[str] = []
    for index, tree in enumerate(in_tree.children()):
        base = parameters[index] if index < len(parameters) else f"x{index}"
        names += [base] if tree.is_leaf() else [base + path for path in leaf_paths_of(tree)]
    return names

"""Tracing, compiling and `jit`: from a Python function to a `GraphProgram`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tenferro.api.tensor import TracedTensor, value_in
from tenferro.api.tracing import current_builder, tracing
from tenferro.dims import SymDim
from tenferro.errors import DTypeError, InvalidConfigError, TenferroError, UnsupportedError
from tenferro.exec import ExecProgram, GraphExecutor
from tenferro.exec.dispatch import is_traced
from tenferro.graph import BodyBuilder, Graph, GraphBuilder, line_of
from tenferro.program import BoundedCache, CacheStats, Executor, ExtensionCaches, GraphProgram
from tenferro.types import DType, TensorSpec, flatten, host_array, leaf_paths, unflatten

__all__ = ["GraphCompiler", "compile", "jit", "output_value"]


class GraphCompiler:
    """Traces functions into programs, and programs into execution IR.

    Attributes:
        extension_caches: the plans that extensions make while tracing.

    >>> program = GraphCompiler().compile(lambda x: x + x, TensorSpec((2,), "float32"))
    >>> program
    <GraphProgram <lambda>: 1 inputs, 1 instructions, 1 outputs>
    """

    def __init__(self, executor: GraphExecutor | None = None) -> None:
        self.executor = GraphExecutor() if executor is None else executor
        self.extension_caches = ExtensionCaches()

    def compile(self, fn: Callable[..., Any], *specs: Any, name: str | None = None) -> GraphProgram:
        """Trace `fn` on tensors of these types; see `tenferro.compile`."""
        if not callable(fn):
            raise InvalidConfigError(f"compile: expected a function, got {fn!r:.60}")
        leaves, in_tree = flatten(specs)
        names = _argument_names(fn, specs)
        types = [_spec_of(leaf, path) for leaf, path in zip(leaves, names, strict=True)]
        graph = Graph()
        builder = GraphBuilder(graph)
        builder.caches = self.extension_caches
        tensors = [TracedTensor(builder, graph.add_input(spec)) for spec in types]
        try:
            with tracing(builder):
                result = fn(*unflatten(in_tree, tensors))
        except TenferroError as error:
            # The surface refuses before it reaches the graph; the traceback knows the user's line.
            raise error.at(str(line_of(error.__traceback__) or "")) from None
        results, out_tree = flatten(result)
        paths = leaf_paths(result)
        outputs = [
            output_value(builder, leaf, path) for leaf, path in zip(results, paths, strict=True)
        ]
        return GraphProgram.from_graph(
            graph,
            outputs,
            name=name or getattr(fn, "__name__", "main"),
            in_tree=in_tree,
            out_tree=out_tree,
            input_names=names,
            output_names=[f"result{path}" for path in paths],
        )

    def compile_exec(self, program: GraphProgram, *specs: Any) -> ExecProgram:
        """The execution IR of `program` for these specs, or for its own when it is static."""
        return self.executor.compile(program, *specs)


def compile(fn: Callable[..., Any], *specs: Any, name: str | None = None) -> GraphProgram:
    """Trace `fn` once, on tensors of the given types, into a program that runs on every peer.

    Args:
        fn: takes and returns pytrees of tensors.
        specs: one pytree of `TensorSpec`s per argument; anything with `shape` and `dtype` stands
            for its type, a Python number for a rank-0 tensor.
        name: shown in prints; the function's own by default.

    Raises:
        DTypeError: a leaf that is neither a spec nor an array, or a result that is no tensor.
        ShapeError, ConcretizationError, ...: what tracing `fn` raises, with your line.

    >>> program = compile(lambda x, y: {"sum": x + y}, TensorSpec((2,), "f8"), TensorSpec((2,), "f8"))
    >>> program.run(np.ones(2), np.ones(2))
    {'sum': array([2., 2.])}
    """
    return GraphCompiler().compile(fn, *specs, name=name)


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    executor: Executor | None = None,
    cache_size: int = 256,
) -> Any:
    """`fn`, traced once per structure, shapes and dtypes of its arguments, and run as a program.

    Args:
        executor: native by default; anything with `.run(program, *arrays)`, such as an
            `XlaExecutor`.
        cache_size: how many programs are kept, least recently used dropped first.

    The result has `.cache_stats()`, `.cache_clear()` and `.lower(*args)`, which gives the program.
    Called on traced tensors it is `fn` itself, and the executor is that of the outer program. Called on eager
    tensors it is `fn` itself, too, unless an executor is given: that one runs the program on their arrays,
    and the result is eager constants.

    Raises:
        UnsupportedError: an executor is given, and an eager tensor's derivatives would be lost.

    >>> double = jit(lambda x: x + x)
    >>> double(np.array([1.0])), double(np.array([2.0]))
    (array([2.]), array([4.]))
    >>> double.cache_stats().misses
    1
    """
    if fn is None:
        return functools.partial(jit, executor=executor, cache_size=cache_size)
    if not callable(fn):
        raise InvalidConfigError(f"jit: expected a function, got {fn!r}")
    return _Jitted(fn, executor, cache_size)


class _Jitted:
    """A function with its programs; see `jit`."""

    def __init__(self, fn: Callable[..., Any], executor: Executor | None, cache_size: int) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._has_own_executor = executor is not None
        self._executor: Executor = GraphExecutor() if executor is None else executor
        self._compiler = GraphCompiler()
        self._programs: BoundedCache[GraphProgram] = BoundedCache(cache_size)
        self._latest: tuple[Any, Any, Any] = (None, None, None)

    def __call__(self, *args: Any) -> Any:
        # What came last has its program at hand: arrays alone first, then the leaves of trees.
        types = [(x.shape, x.dtype) if type(x) is np.ndarray else None for x in args]
        if None not in types:
            if types == self._latest[0]:
                self._programs.count_hit()
                return self._executor.run(self._latest[2], *args)
            leaves, tree = flatten(args)
        else:
            leaves, tree = flatten(args)
            types = [(x.shape, x.dtype) if type(x) is np.ndarray else None for x in leaves]
            if types == self._latest[0] and tree == self._latest[1] and None not in types:
                self._programs.count_hit()
                return self._run(self._latest[2], leaves)
            if any([is_traced(leaf) for leaf in leaves]):
                if self._has_own_executor and not _is_under_trace(leaves):
                    return self._on_eager(leaves, tree)
                return self._fn(*args)
        program = self._program(leaves, tree)
        self._latest = (types, tree, program)
        return self._run(program, leaves)

    def _on_eager(self, leaves: list[Any], tree: Any) -> Any:
        """Run by the executor on the arrays of eager tensors.

        Raises:
            UnsupportedError: one of them is tracked.
        """
        eager = [leaf for leaf in leaves if is_traced(leaf)]
        if any([leaf.is_tracked for leaf in eager]):
            name = getattr(self._fn, "__name__", "the function")
            raise UnsupportedError(
                f"jit: {name} runs on the executor given, which notes nothing for backward; give it "
                "x.detach(), or leave the executor out, or differentiate by tenferro.grad on arrays"
            )
        arrays = [leaf.array if is_traced(leaf) else leaf for leaf in leaves]
        results, out_tree = flatten(self._run(self._program(arrays, tree), arrays))
        adopt = eager[0].runtime.adopt
        return unflatten(out_tree, [adopt(np.asarray(y)) for y in results])

    def _run(self, program: GraphProgram, leaves: Sequence[Any]) -> Any:
        """Run on leaves, where the executor can."""
        run_leaves = getattr(self._executor, "run_leaves", None)
        if run_leaves is not None:
            return run_leaves(program, leaves)
        return self._executor.run(program, *unflatten(program.in_tree, leaves))

    def lower(self, *args: Any) -> GraphProgram:
        """The program for arguments like these (arrays or specs)."""
        leaves, tree = flatten(args)
        return self._program(leaves, tree)

    def _program(self, leaves: list[Any], tree: Any) -> GraphProgram:
        for index, leaf in enumerate(leaves):
            if not hasattr(leaf, "dtype"):
                leaves[index] = _as_array(leaf, f"argument {index}")
        key = (tree, tuple([(leaf.shape, leaf.dtype) for leaf in leaves]))
        return self._programs.get(
            key, lambda: self._compiler.compile(self._fn, *unflatten(tree, leaves))
        )

    def cache_stats(self) -> CacheStats:
        """What the cache of programs has done."""
        return self._programs.stats()

    def cache_clear(self) -> None:
        """Forget every program."""
        self._latest = (None, None, None)
        self._programs.clear()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


def _is_under_trace(leaves: Sequence[Any]) -> bool:
    """Whether a trace is under way, or a leaf belongs to one."""
    return current_builder() is not None or any([isinstance(x, TracedTensor) for x in leaves])


def _spec_of(leaf: Any, path: str) -> TensorSpec:
    if isinstance(leaf, TensorSpec):
        spec = leaf
    elif hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        spec = TensorSpec(leaf.shape, leaf.dtype)
    else:
        array = _as_array(leaf, path)
        spec = TensorSpec(array.shape, array.dtype)
    if not spec.is_exact:
        raise InvalidConfigError(f"{path}: an input's extents are numbers or symbols, got {spec}")
    return spec


def _as_array(leaf: Any, path: str) -> Any:
    try:
        array = host_array(leaf, path)
        DType.of(array.dtype)
    except (DTypeError, ValueError, TypeError):
        raise DTypeError(f"{path}: {leaf!r:.60} is neither a TensorSpec nor an array") from None
    return array


def output_value(builder: GraphBuilder, leaf: Any, path: str) -> int:
    """The value of a leaf of what a traced function returned."""
    if isinstance(leaf, TracedTensor) and not isinstance(builder, BodyBuilder):
        if leaf.builder.graph is not builder.graph:
            raise InvalidConfigError(f"result{path} belongs to another trace")
        return leaf.value
    if is_traced(leaf):
        return value_in(builder, leaf)
    if isinstance(leaf, SymDim):
        raise DTypeError(f"result{path} is the extent {leaf}; use tenferro.shape_of to return it")
    return builder.lift(_as_array(leaf, f"result{path}"))


def _argument_names(fn: Callable[..., Any], specs: Sequence[Any]) -> list[str]:
    """Each leaf by the parameter that holds it: `x`, `params['w']`."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for index, spec in enumerate(specs):
        named = index < len(parameters) and parameters[index].kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        base = parameters[index].name if named else f"x{index}"
        names += [base + path for path in leaf_paths(spec)]
    return names

"""`jit`: functions that are traced once for each combination of argument types, and run as programs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload

import numpy as np

from tenferro.api.compile import GraphCompiler, as_array, name_of, parameter_names
from tenferro.api.pickling import reduced
from tenferro.api.tensor import TracedTensor
from tenferro.dispatch import is_traced
from tenferro.dispatch.tracing import current_builder, nested_call
from tenferro.errors import DTypeError, InvalidConfigError, UnsupportedError
from tenferro.program import BoundedCache, CacheStats, Executor, GraphProgram, new_native_executor
from tenferro.rules.payload import normal_form
from tenferro.tracebacks import end_at_the_caller, public, public_methods
from tenferro.types import PyTree, TreeDef, flatten, has_dtype, leaf_paths, unflatten

__all__ = ["BoundJitted", "Call", "Jitted", "StaticParameters", "disable_jit", "jit"]

_IS_DISABLED: ContextVar[bool] = ContextVar("tenferro_jit_is_disabled", default=False)


P = ParamSpec("P")
R = TypeVar("R")


@overload
def jit(
    fn: Callable[P, R],
    *,
    executor: Executor | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    cache_size: int = 256,
) -> Jitted[P, R]: ...
@overload
def jit(
    fn: None = None,
    *,
    executor: Executor | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    cache_size: int = 256,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(
    fn: Callable[..., Any] | None = None,
    *,
    executor: Executor | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    cache_size: int = 256,
) -> Any:
    """Compile `fn`: trace it once per structure, shapes and dtypes of its arguments, and run the program.

    Args:
        executor: the executor of the programs: an object with `.run(program, *arrays)`, such as an `XlaExecutor`.
            The default is native.
        static_argnums, static_argnames: the positions and names of arguments that are not tensors, such as flags,
            names, functions and sizes. Their values must be hashable, and a separate program is traced for each value.
            A parameter that is listed by name is also static if it is passed by position, and vice versa.
        cache_size: the maximum number of cached programs. The least recently used program is dropped first.

    The jitted function has the methods `.cache_stats()`, `.cache_clear()` and `.lower(*args, **kwargs)`, which returns
    the program. The arguments of the program are the non-static arguments, followed by the dict of keyword arguments.

    Called on traced tensors, the jitted function calls `fn`, whose ops join the trace. Called on eager tensors, it also
    calls `fn`, unless `executor` was passed. In that case the executor runs the program on the arrays of the
    tensors, and the results are eager constants.

    A jitted function is pickled without its programs, by its global name or else as `fn` and the options.

    Raises:
        DTypeError: an argument is neither an array nor static; the error names it.
        InvalidConfigError: a static argument is not hashable, or is a tensor.
        UnsupportedError: `executor` was passed, and an eager tensor is tracked, whose derivative would be lost.

    >>> double = jit(lambda x: x + x)
    >>> double(np.array([1.0])), double(np.array([2.0]))
    (array([2.]), array([4.]))
    >>> double.cache_stats().misses
    1
    >>> import tenferro as tnf
    >>> reduce = jit(lambda x, how: getattr(tnf, how)(x), static_argnames="how")
    >>> reduce(np.arange(3.0), "sum"), reduce(np.arange(3.0), how="max")
    (array(3.), array(2.))

    Source: jax.jit.
    """
    if fn is None:
        return functools.partial(
            jit,
            executor=executor,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            cache_size=cache_size,
        )
    if not callable(fn):
        raise InvalidConfigError(f"jit: expected a function, got {fn!r}")
    static = StaticParameters.of(fn, static_argnums, static_argnames)
    return Jitted(fn, executor, static, cache_size)


@contextmanager
def disable_jit(disable: bool = True) -> Generator[None]:
    """Call the functions inside jitted functions directly, without tracing, while the `with` block runs.

    >>> with disable_jit():
    ...     jit(lambda x: print(x) or x)(1.0)
    1.0
    1.0

    Source: jax.disable_jit.
    """
    token = _IS_DISABLED.set(disable)
    try:
        yield
    finally:
        _IS_DISABLED.reset(token)


class StaticParameters(NamedTuple):
    """Positions and names of the static parameters of a function."""

    positions: frozenset[int]
    names: frozenset[str]

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        argnums: Any,
        argnames: Any,
        kind: str = "jit",
        option: str = "static",
    ) -> StaticParameters:
        """Complete the positions and names of static parameters from the signature of the function.

        A parameter that is listed by position also gets its name, and vice versa.

        Args:
            argnums, argnames: an integer or a name, several of them, or None.
            kind: the name of the decorator in error messages.
            option: the name of the options in error messages, without the suffix "_argnums" or "_argnames".

        Raises:
            InvalidConfigError: the function has no parameter with one of these positions or names.
        """
        names: list[Any] = [argnames] if isinstance(argnames, str) else list(argnames or ())
        positions = list(argnums) if isinstance(argnums, Iterable) else [argnums]
        positions = [] if argnums is None else positions
        if not all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in positions):
            raise InvalidConfigError(f"{kind}: {option}_argnums must be integers, got {argnums!r}")
        if not all(isinstance(name, str) for name in names):
            raise InvalidConfigError(f"{kind}: {option}_argnames must be names, got {argnames!r}")
        if not positions and not names:
            return cls(frozenset(), frozenset())
        parameters = parameter_names(fn)
        keywords, takes_more, takes_keywords = _further_parameters(fn)
        for name in names:
            if name not in parameters and name not in keywords and not takes_keywords:
                raise InvalidConfigError(
                    f"{kind}: {option}_argnames has {name!r}, and {_name_of(fn)} has no such parameter"
                )
        count = len(parameters)
        for position in positions:
            if not -count <= position < count and not (takes_more and position >= 0):
                raise InvalidConfigError(
                    f"{kind}: {option}_argnums has {position}, and {_name_of(fn)} takes {count} arguments"
                )
        chosen = {
            int(position) % count if position < 0 else int(position) for position in positions
        }
        chosen |= {parameters.index(name) for name in names if name in parameters}
        named = {parameters[position] for position in chosen if position < count}
        return cls(frozenset(chosen), frozenset({*names, *named}))


def _further_parameters(fn: Callable[..., Any]) -> tuple[set[str], bool, bool]:
    """Return the names of keyword-only parameters, and whether `fn` accepts *args and **kwargs."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return set(), True, True
    kinds = {p.kind for p in parameters}
    keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    return (
        keywords,
        inspect.Parameter.VAR_POSITIONAL in kinds,
        inspect.Parameter.VAR_KEYWORD in kinds,
    )


def _types_of(leaves: Sequence[Any]) -> list[tuple[Any, Any] | None]:
    """Return, for each leaf, its shape and dtype if it is an array or a NumPy scalar, otherwise None."""
    return [
        (x.shape, x.dtype) if type(x) is np.ndarray or isinstance(x, np.generic) else None
        for x in leaves
    ]


def _name_of(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", None) or type(fn).__name__


class Call(NamedTuple):
    """Arguments of one call, split into dynamic arguments, which are traced, and static arguments, which are not.

    Attributes:
        dynamic: the dynamic arguments: first the positional arguments, then, if `has_kwargs`, a dict of the keyword
            arguments.
        positions: the positions of the dynamic positional arguments in the call.
        static_args: the static arguments that were passed by position.
        static_kwargs: the static arguments that were passed by name.
    """

    dynamic: tuple[Any, ...]
    positions: tuple[int, ...]
    has_kwargs: bool
    static_args: Mapping[int, Any]
    static_kwargs: Mapping[str, Any]

    def apply(self, fn: Callable[..., Any], dynamic: Sequence[Any]) -> Any:
        """Call `fn` with the static arguments of this call and the dynamic arguments `dynamic`."""
        *by_position, kwargs = dynamic if self.has_kwargs else (*dynamic, {})
        args = dict(zip(self.positions, by_position, strict=True)) | dict(self.static_args)
        return fn(*[args[i] for i in range(len(args))], **kwargs, **self.static_kwargs)

    def names(self, parameters: Sequence[str]) -> list[str]:
        """Return a name for each leaf of the dynamic arguments: its parameter and its path in the argument."""
        names: list[str] = []
        for position, tree in zip(self.positions, self.dynamic, strict=False):
            base = parameters[position] if position < len(parameters) else f"x{position}"
            names += [base + path for path in leaf_paths(tree)]
        if self.has_kwargs:
            kwargs = self.dynamic[-1]
            names += [key + path for key in sorted(kwargs) for path in leaf_paths(kwargs[key])]
        return names


class Jitted(Generic[P, R]):
    """Function that `jit` returns. It has a cache of its programs.

    Attributes:
        kind: the name of the decorator in error messages.
    """

    kind = "jit"

    def __init__(
        self,
        fn: Callable[P, R],
        executor: Executor | None,
        static: StaticParameters,
        cache_size: int,
    ) -> None:
        # Copy only the attributes of a plain function. Those of another callable could replace attributes of this
        # object, such as `_fn`.
        updated = functools.WRAPPER_UPDATES if isinstance(fn, FunctionType) else ()
        functools.update_wrapper(self, cast("Any", fn), updated=updated)
        self._fn: Any = fn
        self._static = static
        self._has_static = bool(static.positions or static.names)
        self._parameters = parameter_names(fn)
        self._has_own_executor = executor is not None
        if executor is not None:
            self._executor = executor
        self._compiler = GraphCompiler()
        self._cache_size = cache_size
        self._programs: BoundedCache[GraphProgram] = BoundedCache(cache_size)
        self._latest: tuple[Any, Any, Any] = (None, None, None)

    @functools.cached_property
    def _executor(self) -> Executor:
        """The executor of the programs. The first run creates it if the user passed none."""
        return new_native_executor("jit")

    def __reduce__(self) -> Any:
        """Pickle the global name, or else the function and its options. Programs are traced again after loading."""
        return reduced(
            self,
            jit,
            self._fn,
            executor=self._executor if self._has_own_executor else None,
            static_argnums=tuple(sorted(self._static.positions)),
            static_argnames=tuple(sorted(self._static.names)),
            cache_size=self._cache_size,
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            if _IS_DISABLED.get():
                with nested_call():
                    return self._fn(*args, **kwargs)
            if kwargs or self._has_static:
                return self._general(args, kwargs)
            # Fast path: if the types are those of the last call, its program runs without a look-up in the cache. If
            # all arguments are arrays, their types are compared without flattening.
            types = _types_of(args)
            if None not in types:
                if types == self._latest[0]:
                    self._programs.count_hit()
                    return self._executor.run(self._latest[2], *args)
                leaves, tree = flatten(args)
            else:
                leaves, tree = flatten(args)
                types = _types_of(leaves)
                if types == self._latest[0] and tree == self._latest[1] and None not in types:
                    self._programs.count_hit()
                    return self._run(self._latest[2], leaves)
                if any([is_traced(leaf) for leaf in leaves]):
                    if self._has_own_executor and not _is_traced_call(leaves):
                        return self._on_eager(self._call(args, {}), leaves, tree)
                    with nested_call():
                        return self._fn(*args)
            program = self._program(self._call(args, {}), leaves, tree)
            self._latest = (types, tree, program)
            return self._run(program, leaves)
        except Exception as error:
            end_at_the_caller(error)
            raise

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function; some of the arguments are static or passed by keyword."""
        call = self._call(args, kwargs)
        leaves, tree = flatten(call.dynamic)
        if any([is_traced(leaf) for leaf in leaves]):
            if self._has_own_executor and not _is_traced_call(leaves):
                return self._on_eager(call, leaves, tree)
            with nested_call():
                return self._fn(*args, **kwargs)
        return self._run(self._program(call, leaves, tree), leaves)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        positions, names = self._static
        dynamic = tuple([i for i in range(len(args)) if i not in positions])
        by_keyword = {key: value for key, value in kwargs.items() if key not in names}
        positional = tuple([args[i] for i in dynamic])
        return Call(
            (*positional, by_keyword) if by_keyword else positional,
            dynamic,
            bool(by_keyword),
            {i: args[i] for i in range(len(args)) if i in positions},
            {key: value for key, value in kwargs.items() if key in names},
        )

    def _on_eager(self, call: Call, leaves: list[Any], tree: TreeDef) -> Any:
        """Run the program on the arrays of eager tensors, with the executor that the user passed.

        Raises:
            UnsupportedError: an eager tensor is tracked, and its derivative would be lost.
        """
        eager = [leaf for leaf in leaves if is_traced(leaf)]
        if any([leaf.is_tracked for leaf in eager]):
            raise UnsupportedError(
                f"jit: {_name_of(self._fn)} runs on an explicit executor, which records nothing for backward; "
                "give it x.detach(), or leave the executor out, or differentiate by tenferro.grad on arrays"
            )
        arrays = [leaf.array if is_traced(leaf) else leaf for leaf in leaves]
        results, out_tree = flatten(self._run(self._program(call, arrays, tree), arrays))
        adopt = eager[0].runtime.adopt
        return unflatten(out_tree, [adopt(np.asarray(y)) for y in results])

    def _run(self, program: GraphProgram, leaves: Sequence[Any]) -> Any:
        """Run a program on the leaves of its arguments.

        If the executor has no method `run_leaves`, pass the whole arguments.
        """
        run_leaves = getattr(self._executor, "run_leaves", None)
        if run_leaves is not None:
            return run_leaves(program, leaves)
        return self._executor.run(program, *unflatten(program.in_tree, leaves))

    @public
    def lower(self, *args: Any, **kwargs: Any) -> GraphProgram:
        """Return the program for arguments of the types of `args` and `kwargs`, which are arrays or specs."""
        call = self._call(args, kwargs)
        leaves, tree = flatten(call.dynamic)
        return self._program(call, leaves, tree)

    @public
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the types of the results, as a tree of `TensorSpec`s, for the same arguments as `lower`.

        >>> jit(lambda x: x @ x.T).eval_shape(np.ones((2, 3), "f4"))
        f32[2,2]
        """
        program = self.lower(*args, **kwargs)
        return unflatten(program.out_tree, program.output_specs)

    def _program(self, call: Call, leaves: list[Any], tree: TreeDef) -> GraphProgram:
        for index, leaf in enumerate(leaves):
            if not has_dtype(leaf):
                leaves[index] = self._as_array(call, index, leaf)
        types = tuple([(leaf.shape, leaf.dtype) for leaf in leaves])
        key = (tree, types, call.positions, *map(self._static_key, self._statics(call)))

        def compiled() -> GraphProgram:
            return self._compiler.compile(
                lambda *arguments: call.apply(self._fn, arguments),
                *unflatten(tree, leaves),
                name=_name_of(self._fn),
                input_names=call.names(self._parameters),
            )

        return self._programs.get(key, compiled)

    def _as_array(self, call: Call, index: int, leaf: PyTree) -> Any:
        try:
            return as_array(leaf, call.names(self._parameters)[index])
        except DTypeError:
            raise self._no_array(call, index, leaf) from None

    def _no_array(self, call: Call, index: int, leaf: PyTree) -> DTypeError:
        name = call.names(self._parameters)[index]
        base = name.split("[")[0].split(".")[0]
        return DTypeError(
            f"{self.kind}: {name} of {_name_of(self._fn)} is {leaf!r:.60}, which is not an array; an argument that is "
            f"known when the function is traced is named in {self.kind}(.., static_argnames={base!r})"
        )

    def _statics(self, call: Call) -> list[tuple[Any, Any]]:
        return [*call.static_args.items(), *sorted(call.static_kwargs.items())]

    def _static_key(self, static: tuple[Any, Any]) -> Any:
        """Return the position or name of a static argument, and a key that is equal for equal values of it."""
        where, value = static
        name = where if isinstance(where, str) else self._parameter(where)
        if is_traced(value) or isinstance(value, np.ndarray):
            raise InvalidConfigError(
                f"{self.kind}: the static argument {name} of {_name_of(self._fn)} is a tensor; its elements are not "
                "part of a program: leave it out of static_argnums and static_argnames"
            )
        try:
            return (where, normal_form(value))
        except TypeError:
            raise InvalidConfigError(
                f"{self.kind}: the static argument {name} of {_name_of(self._fn)} is a {type(value).__name__}, which "
                "has no hash; give a tuple, a frozen dataclass or another value that has one"
            ) from None

    def _parameter(self, position: int) -> str:
        return self._parameters[position] if position < len(self._parameters) else str(position)

    def cache_stats(self) -> CacheStats:
        """Return the hits, misses and entries of the cache of programs."""
        return self._programs.stats()

    def cache_clear(self) -> None:
        """Empty the cache of programs."""
        self._latest = (None, None, None)
        self._programs.clear()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundJitted(self, instance)

    def __repr__(self) -> str:
        count = self._programs.stats().entries
        return f"<{self.shown}: {count} program{'' if count == 1 else 's'}>"

    @property
    def shown(self) -> str:
        """The name of the transform and of the function."""
        return f"{self.kind} of {name_of(self._fn)}"


@public_methods
class BoundJitted:
    """Jitted function that is bound to an object, as a method of the object."""

    def __init__(self, function: Jitted[..., Any], instance: Any) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._instance = instance

    def __reduce__(self) -> Any:
        """Pickle the jitted function and the object."""
        return BoundJitted, (self._function, self._instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self._instance, *args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> GraphProgram:
        """Return the program for the object and for arguments of the types of `args` and `kwargs`: arrays or specs."""
        return self._function.lower(self._instance, *args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the types of the results for the object and for arguments of the types of `args` and `kwargs`."""
        return self._function.eval_shape(self._instance, *args, **kwargs)

    def cache_stats(self) -> CacheStats:
        """Return the hits, misses and entries of the cache of programs, which all objects share."""
        return self._function.cache_stats()

    def cache_clear(self) -> None:
        """Empty the cache of programs, which all objects share."""
        self._function.cache_clear()

    def __repr__(self) -> str:
        return f"{self._function!r} of {self._instance!r:.60}"


def _is_traced_call(leaves: Sequence[Any]) -> bool:
    """Return whether a trace is under way, or a leaf is a traced tensor."""
    return current_builder() is not None or any([isinstance(x, TracedTensor) for x in leaves])

"""`native`, a decorator for JAX functions: JAX traces the function, and tenferro's native executor runs it."""

from __future__ import annotations

import functools
import inspect
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from tenferro.api.compile import name_of
from tenferro.api.jit import Call, Jitted, StaticParameters
from tenferro.api.pickling import reduced
from tenferro.counterparts import tell_missing_members
from tenferro.dispatch import is_traced
from tenferro.errors import DTypeError, InvalidConfigError, ShapeError
from tenferro.exec import GraphExecutor
from tenferro.program import BoundedCache, CacheStats, GraphProgram
from tenferro.tracebacks import end_at_the_caller, public
from tenferro.types import DType, TensorSpec, host_array
from xla_peer import pjrt
from xla_peer.choice import Choice
from xla_peer.flat_function import FlatFunction, NativeOwner
from xla_peer.forking import require_own_client
from xla_peer.from_jax import from_jax
from xla_peer.jax_primitive import program_primitive

__all__ = ["NativeFunction", "NativeReport", "native"]

Array = Literal["numpy", "jax"]
Argnums = int | Iterable[int] | None
Argnames = str | Iterable[str] | None
OPTIONS_OF_JIT = frozenset(
    {"abstracted_axes", "backend", "compiler_options", "device", "in_shardings", "out_shardings"}
)
"""Options of `jax.jit` that a native function does not support."""

NUMBERS = frozenset({bool, int, float, complex})


@overload
def native(
    f: Callable[..., Any],
    *,
    static_argnums: Argnums = (),
    static_argnames: Argnames = (),
    donate_argnums: Argnums = (),
    donate_argnames: Argnames = (),
    keep_unused: bool = False,
    inline: bool = False,
    specs: Sequence[Any] | None = None,
    results: Array = "numpy",
    choose: bool = False,
    threads: int | None = None,
    cache_dir: str | PathLike[str] | None = None,
    cache_size: int = 256,
) -> NativeFunction: ...
@overload
def native(
    f: None = None,
    *,
    static_argnums: Argnums = (),
    static_argnames: Argnames = (),
    donate_argnums: Argnums = (),
    donate_argnames: Argnames = (),
    keep_unused: bool = False,
    inline: bool = False,
    specs: Sequence[Any] | None = None,
    results: Array = "numpy",
    choose: bool = False,
    threads: int | None = None,
    cache_dir: str | PathLike[str] | None = None,
    cache_size: int = 256,
) -> Callable[[Callable[..., Any]], NativeFunction]: ...
def native(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: Argnums = (),
    static_argnames: Argnames = (),
    donate_argnums: Argnums = (),
    donate_argnames: Argnames = (),
    keep_unused: bool = False,
    inline: bool = False,
    specs: Sequence[Any] | None = None,
    results: Array = "numpy",
    choose: bool = False,
    threads: int | None = None,
    cache_dir: str | PathLike[str] | None = None,
    cache_size: int = 256,
    **unsupported: Any,
) -> Any:
    """Run a JAX function natively: a decorator like `jax.jit`, but without XLA.

    JAX traces `f` once for each combination of tree, shapes, dtypes and static values of its arguments. `from_jax`
    imports the traced function, and the native executor compiles it as `tenferro.jit` does. Arguments and results are
    JAX's trees, and dtypes are those of `jax.jit`: without `jax_enable_x64` a float64 argument is float32, and Python
    numbers are weakly typed.

    A native function can be called inside of `jax.jit`, `jax.grad`, `jax.jvp` and `jax.vmap`. These transform `f` by
    JAX's rules, and the transformed function also runs natively; inside `jax.jit` it is called back from XLA.
    `native(jax.grad(f))` is faster than `jax.grad(native(f))`, which computes the value of `f` twice.

    Args:
        f: a JAX function, which `jax.jit` may have wrapped.
        static_argnums, static_argnames: as in `jax.jit`.
        donate_argnums, donate_argnames: arguments whose JAX arrays are deleted after the call, as `jax.jit` does.
            NumPy arrays are not deleted.
        keep_unused, inline: accepted as in `jax.jit`; they change no result and no program.
        specs: one tree of `TensorSpec`s per argument; with symbols for extents, one program serves all extents.
        results: "numpy" for NumPy arrays, "jax" for `jax.Array`s.
        choose: whether to measure native runs and `jax.jit` once for each program, and to use the faster one
            afterwards. The comparison starts when native runs have taken as long as the estimated time of a first
            result of `jax.jit`. Results that differ by more than rounding get a verdict and a `DisagreementWarning`.
            `.report()` says which of the two runs, and why.
        threads, cache_dir: options of the executor; see `tenferro.GraphExecutor`.
        cache_size: maximum number of programs in the cache; the least recently used program is dropped first.

    The native function has the methods `.cache_stats()`, `.cache_clear()`, `.report()`, and
    `.lower(*args, **kwargs)`, which returns the program for arguments of these types.

    Raises:
        DTypeError: an argument is neither an array nor static; the message names it.
        UnsupportedError: an operation of JAX has no counterpart; the message has its line.
        InvalidConfigError: an option is invalid, or a static argument is not hashable.

    >>> import jax.numpy as jnp
    >>> @native
    ... def norm(tree):
    ...     return {"norm": jnp.sqrt(jnp.sum(tree["x"] ** 2))}
    >>> norm({"x": np.array([3.0, 4.0], "float32")})
    {'norm': array(5., dtype=float32)}
    >>> norm.cache_stats().misses
    1

    Source: jax.jit.
    """
    _require_known(unsupported)
    options: dict[str, Any] = {
        "static_argnums": static_argnums,
        "static_argnames": static_argnames,
        "donate_argnums": donate_argnums,
        "donate_argnames": donate_argnames,
        "keep_unused": keep_unused,
        "inline": inline,
        "specs": specs,
        "results": results,
        "choose": choose,
        "threads": threads,
        "cache_dir": cache_dir,
        "cache_size": cache_size,
    }
    if f is None:
        return functools.partial(native, **options)
    if not callable(f):
        raise InvalidConfigError(f"native: expected a function, got {f!r:.60}")
    if isinstance(f, GraphProgram):
        raise InvalidConfigError(
            "native: a program runs natively already; call it, or tenferro.jit(f)"
        )
    if results not in ("numpy", "jax"):
        raise InvalidConfigError(f'native: results must be "numpy" or "jax", got {results!r}')
    if choose and specs is not None:
        raise InvalidConfigError(
            "native: choose compares a program for one set of shapes, but specs make one for all shapes; pass only one"
        )
    return NativeFunction(f, options)


def _require_known(options: dict[str, Any]) -> None:
    """Refuse unknown options, and options of `jax.jit` that choose a device or a compiler, unless they are empty."""
    for name, value in options.items():
        if name not in OPTIONS_OF_JIT:
            raise TypeError(f"native() got an unexpected keyword argument {name!r}")
        if value not in (None, {}):
            raise InvalidConfigError(
                f"native: {name} is an option of XLA, but tenferro compiles the function for this CPU; leave it out, or "
                "use jax.jit"
            )


def _describe(flat: Any, f: Any, names: Sequence[str]) -> None:
    """Set what JAX's error messages tell about a traced function: the user's function, its line and its arguments.

    A name such as "params['w']" becomes the identifier `params_w`.
    """
    while isinstance(f, functools.partial):
        f = f.func
    flat.__wrapped__ = f
    identifiers = [re.sub(r"\W+", "_", name).strip("_") for name in names]
    if len(set(identifiers)) == len(names) and all(map(str.isidentifier, identifiers)):
        kind = inspect.Parameter.POSITIONAL_ONLY
        parameters = [inspect.Parameter(name, kind) for name in identifiers]
        flat.__signature__ = inspect.Signature(parameters)
    else:
        flat.__signature__ = inspect.Signature(
            [inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL)]
        )


def _fits(shape: Sequence[int], wanted: Sequence[Any]) -> bool:
    """Return whether a shape has the rank and the integer extents of a spec's shape."""
    return len(shape) == len(wanted) and all(
        [not isinstance(m, int) or n == m for n, m in zip(shape, wanted, strict=True)]
    )


@dataclass(frozen=True, repr=False)
class NativeReport:
    """Programs that a native function has compiled.

    Attributes:
        name: name of the function.
        programs: for each program, the types of its arguments, the number of its instructions, and the seconds
            that tracing and import took.
        choices: with the option `choose`, for each program "native" or "jax.jit", whichever runs, and the reason; else
            empty.
        cache: statistics of the cache of programs.
        derived: statistics of the cache of functions that JAX's transformations derived, such as gradients.
        compiled: numbers of compiled and failed steps; see `GraphExecutor.compile_stats`.
    """

    name: str
    programs: tuple[tuple[str, int, float], ...]
    choices: tuple[tuple[str, str], ...]
    cache: CacheStats
    derived: CacheStats
    compiled: Any

    def __repr__(self) -> str:
        return f"<NativeReport of {self.name}: {len(self.programs)} programs>"

    def __str__(self) -> str:
        lines = [
            f"  {types}: {count} instructions, imported in {seconds:.2f} s"
            for types, count, seconds in self.programs
        ]
        for number, (side, reason) in enumerate(self.choices):
            lines[number] += f"; {side} runs ({reason})"
        counts = f"{self.cache.hits} calls of cached programs, {self.cache.misses} traced"
        return "\n".join(
            [f"native {self.name}: {counts}", *lines, *filter(None, [f"{self.compiled}"])]
        )


class _Entry(NamedTuple):
    """A JAX function that was traced for arguments of certain types, with the imported program.

    Attributes:
        function: the JAX function of the leaves of the arguments.
        program: the imported program, which takes a tuple of arrays and returns a tuple.
        dtypes: the dtype of each argument of the program.
        out_tree: the structure of the results, as a tree of JAX.
        encodings: the encoding of each argument; see `_encoding`.
        result_encodings: the encoding of each result.
        is_weak: for each result, whether it is weakly typed as an array of JAX.
        captured: tracers of an outer transformation in the closure of `f`; they precede the leaves as arguments.
        donated: the indices of the donated leaves.
        seconds: the time of tracing and import.
        choice: with the option `choose`, the object that decides whether the program or `jax.jit` runs.
    """

    function: FlatFunction
    program: GraphProgram
    dtypes: tuple[np.dtype[Any], ...]
    out_tree: Any
    encodings: tuple[Any, ...]
    result_encodings: tuple[Any, ...]
    is_weak: tuple[bool, ...]
    captured: tuple[Any, ...]
    donated: tuple[int, ...]
    seconds: float
    choice: Choice | None


class _Last(NamedTuple):
    """Record of the last call with positional arguments only.

    A call with arguments of the same types reuses the traced function of that call.

    Attributes:
        types: the result of `_type_of` for each leaf of the arguments.
        tree: the structure of the arguments, as a tree of JAX.
        context: the settings of JAX that affect tracing.
        entry: the traced function.
        is_direct: whether the leaves can be passed to the program, and its results returned, without conversion.
    """

    types: list[Any]
    tree: Any
    context: Any
    entry: _Entry
    is_direct: bool


def _type_of(x: Any, array_class: type | None) -> Any:
    """Return the properties of a leaf on which the traced program depends, such as its shape and dtype."""
    if type(x) is np.ndarray:
        return (x.shape, x.dtype)
    if type(x) is array_class:
        return (x.shape, x.dtype, x.weak_type, x.sharding)
    if type(x) in NUMBERS:
        return type(x)
    return (type(x), getattr(x, "shape", None), getattr(x, "dtype", None))


class NativeFunction(Jitted[..., Any]):
    """A JAX function with its native programs; see `native`."""

    kind = "native"

    def __init__(self, f: Callable[..., Any], options: dict[str, Any]) -> None:
        static = StaticParameters.of(
            f, options["static_argnums"], options["static_argnames"], self.kind
        )
        executor = GraphExecutor(
            "K", options["threads"], compiled="jit", cache_dir=options["cache_dir"]
        )
        super().__init__(f, executor, static, options["cache_size"])
        self._options = options
        self._donated = StaticParameters.of(
            f, options["donate_argnums"], options["donate_argnames"], self.kind, "donate"
        )
        both = [
            *sorted(static.names & self._donated.names),
            *sorted(static.positions & self._donated.positions),
        ]
        if both:
            raise InvalidConfigError(
                f"native: the parameter {both[0]} of {name_of(f)} is static and donated; a static argument is "
                "no array: leave it out of donate_argnums and donate_argnames"
            )
        self._entries: BoundedCache[_Entry] = BoundedCache(options["cache_size"])
        self._jax = pjrt.modules()[0]
        self._flatten = self._jax.tree_util.tree_flatten
        self._owner = NativeOwner(executor.run_leaves)
        self._run_leaves = executor.run_leaves
        self._trace_context = pjrt.trace_context()
        self._last: _Last | None = None
        self._gives_jax = options["results"] == "jax"
        # The class of JAX's arrays, known after the first call with a JAX array. To create an array here would start
        # JAX's backends.
        self._array_class: Any = None

    def __reduce__(self) -> Any:
        """Pickle the name of a global function, or else the wrapped function and the options, without programs."""
        return reduced(self, native, self._fn, **self._options)

    # ---- calls -----------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs or self._has_static:
                call = self._call(args, kwargs)
                leaves, tree = self._flatten(call.dynamic)
                return self._result(call, leaves, tree)
            # If the arguments have the types of the last call, use its program without a look-up in the cache.
            leaves, tree = self._flatten(args)
            last = self._last
            if last is not None and tree == last.tree and self._trace_context() == last.context:
                types, own, is_same = last.types, self._array_class, True
                for x, wanted in zip(leaves, types):  # noqa: B905  # because the trees are equal
                    if type(x) is np.ndarray:
                        is_same = (x.shape, x.dtype) == wanted
                    elif type(x) is own:
                        is_same = (x.shape, x.dtype, x.weak_type, x.sharding) == wanted
                    else:
                        is_same = _type_of(x, own) == wanted
                    if not is_same:
                        break
                if is_same:
                    self._entries.count_hit()
                    if last.is_direct:
                        return last.entry.out_tree.unflatten(
                            self._run_leaves(last.entry.program, leaves)
                        )
                    return self._run_entry(last.entry, leaves)
            return self._result(self._call(args, {}), leaves, tree)
        except Exception as error:
            end_at_the_caller(error)
            raise

    def _result(self, call: Call, leaves: list[Any], tree: Any) -> Any:
        """Compute the result of a call whose arguments have other types than those of the last call."""
        if self._jax.config.jax_disable_jit:
            return self._directly(call)
        entry = self._entry(call, leaves, tree)
        if entry.captured or any([isinstance(x, self._jax.core.Tracer) for x in leaves]):
            return self._inside_jax(entry, leaves)
        if any([is_traced(x) for x in leaves]):
            entry = entry._replace(program=entry.function.differentiable, choice=None)
        else:
            for leaf, encoding, name in zip(
                leaves, entry.encodings, entry.program.input_names, strict=True
            ):
                if type(leaf) is not np.ndarray and encoding is None:
                    host_array(
                        leaf, name
                    )  # raises an error for arrays on a device, which are never copied implicitly
            self._array_class = self._array_class or self._class_of_arrays(leaves, entry)
            if not call.static_args and not call.static_kwargs and not call.has_kwargs:
                is_plain = (
                    entry.choice is None
                    and not entry.donated
                    and not any(entry.result_encodings)
                    and not self._gives_jax
                )
                is_direct = is_plain and all(
                    [
                        type(x) is np.ndarray and x.dtype == dtype
                        for x, dtype in zip(leaves, entry.dtypes, strict=True)
                    ]
                )
                types = [_type_of(x, self._array_class) for x in leaves]
                self._last = _Last(types, tree, self._trace_context(), entry, is_direct)
        return self._run_entry(entry, leaves)

    def _directly(self, call: Call) -> Any:
        """Call the function without tracing, as `jax.disable_jit` asks."""
        outputs, tree = self._flatten(call.apply(self._fn, call.dynamic))
        if not self._gives_jax:
            jax = self._jax
            outputs = [
                y
                if isinstance(y, jax.core.Tracer) or self._encoding(y) is not None
                else np.asarray(jax.numpy.asarray(y))
                for y in outputs
            ]
        return tree.unflatten(outputs)

    def _class_of_arrays(self, leaves: Sequence[Any], entry: _Entry) -> Any:
        """Return the class of JAX's arrays if one of the leaves is an array of JAX, else None."""
        pairs = zip(leaves, entry.encodings, strict=True)
        arrays = [x for x, encoding in pairs if encoding is None and isinstance(x, self._jax.Array)]
        return type(arrays[0]) if arrays else None

    def _run_entry(self, entry: _Entry, leaves: list[Any]) -> Any:
        """Run a traced function on the leaves of its arguments."""
        arrays = [
            x
            if type(x) is np.ndarray and x.dtype == dtype
            else self._converted(x, dtype, encoding is not None)
            for x, dtype, encoding in zip(leaves, entry.dtypes, entry.encodings, strict=True)
        ]
        if entry.choice is None:
            results = self._run_leaves(entry.program, arrays)
        else:
            results = entry.choice(arrays)
        for number in entry.donated:
            if isinstance(leaves[number], self._jax.Array):
                leaves[number].delete()
        if self._gives_jax:
            require_own_client()
        if self._gives_jax and not any([is_traced(x) for x in leaves]):
            results = [self._jax.numpy.asarray(y) for y in results]
            results = pjrt.weakly_typed(results, entry.is_weak)
        return self._unflattened(entry, results)

    def _unflattened(self, entry: _Entry, arrays: Sequence[Any]) -> Any:
        """Return the function's result, a tree, for the arrays that the program returned."""
        if any(entry.result_encodings):
            arrays = self._decoded(arrays, entry.result_encodings)
        return entry.out_tree.unflatten(arrays)

    def _converted(self, leaf: Any, dtype: np.dtype[Any], is_encoded: bool) -> Any:
        """Convert a leaf to an array of the program's dtype."""
        if is_traced(leaf):
            return leaf
        return np.asarray(self._encoded(leaf) if is_encoded else leaf, dtype)

    def _inside_jax(self, entry: _Entry, leaves: Sequence[Any]) -> Any:
        """Call the function inside a transformation of JAX, by binding the primitive on the tracers."""
        operands = [
            self._encoded(x)
            if encoding is not None
            else x
            if isinstance(x, self._jax.core.Tracer)
            else self._jax.numpy.asarray(x, dtype)
            for x, dtype, encoding in zip(
                [*entry.captured, *leaves], entry.dtypes, entry.encodings, strict=True
            )
        ]
        results = program_primitive().bind(*operands, owner=self._owner, program=entry.function)
        return self._unflattened(entry, results)

    # ---- encodings -------------------------------------------------------------------------------

    def _encoding(self, leaf: Any) -> Any:
        """Return the implementation of random keys, or float0 for an array of that dtype, or else None.

        A program takes and returns the data of random keys, and an array of bools instead of an array of float0.
        """
        dtype, dtypes = getattr(leaf, "dtype", None), self._jax.dtypes
        if dtype is None:
            return None
        if dtypes.issubdtype(dtype, dtypes.prng_key):
            return self._jax.random.key_impl(leaf)
        return dtypes.float0 if dtype == dtypes.float0 else None

    def _encoded(self, leaf: Any) -> Any:
        """Return the array that a program takes or returns for an array of JAX."""
        encoding = self._encoding(leaf)
        if encoding is None:
            return leaf
        if encoding == self._jax.dtypes.float0:
            return self._jax.numpy.zeros(leaf.shape, bool)
        return self._jax.random.key_data(leaf)

    def _decoded(self, arrays: Sequence[Any], encodings: Sequence[Any]) -> list[Any]:
        """Convert arrays that a program takes or returns to arrays of random keys or float0."""
        jax = self._jax
        return [
            x
            if encoding is None
            else np.zeros(x.shape, encoding)
            if encoding == jax.dtypes.float0
            else jax.random.wrap_key_data(jax.numpy.asarray(x), impl=encoding)
            for x, encoding in zip(arrays, encodings, strict=True)
        ]

    # ---- tracing ---------------------------------------------------------------------------------

    def _entry(self, call: Call, leaves: list[Any], tree: Any) -> _Entry:
        """Return the traced function for the types of the arguments, from the cache or by tracing.

        Args:
            call: the arguments, with static values separated.
            leaves, tree: the leaves and the structure of the other arguments.

        Raises:
            DTypeError: an argument is not an array; the message names it.
        """
        specs, avals = self._options["specs"], None
        if specs is not None:
            avals = self._specified(call, leaves, tree, specs)
        if avals is None or any([isinstance(x, self._jax.core.Tracer) for x in leaves]):
            avals = [self._aval(call, number, leaf) for number, leaf in enumerate(leaves)]
        encodings = list(map(self._encoding, leaves))
        types = tuple([(x.shape, x.dtype, getattr(x, "weak_type", False)) for x in avals])
        fixed = map(self._static_key, self._statics(call))
        key = (
            tree,
            types,
            tuple(map(str, encodings)),
            call.positions,
            self._trace_context(),
            *fixed,
        )
        return self._entries.get(key, lambda: self._traced(call, tree, avals, encodings))

    def _traced(self, call: Call, tree: Any, avals: list[Any], encodings: list[Any]) -> _Entry:
        """Trace the function by JAX, and import the module as a program.

        Args:
            avals: the abstract values of the leaves, for JAX.
            encodings: the encodings of the leaves; see `_encoding`.
        """
        start = time.perf_counter()
        jax, seen = self._jax, dict[str, Any]()

        def flat(*arrays: Any) -> list[Any]:
            result = call.apply(self._fn, tree.unflatten(self._decoded(arrays, encodings)))
            pairs, seen["tree"] = jax.tree_util.tree_flatten_with_path(result)
            outputs = [self._output(path, y) for path, y in pairs]
            seen["encodings"] = tuple(map(self._encoding, outputs))
            return list(map(self._encoded, outputs))

        names = self._names(call)
        _describe(flat, self._fn, names)
        function = FlatFunction(flat, avals, getattr(self._fn, "__name__", "main"))
        function, captured = function.with_captured()
        names = [*[f"captured{i}" for i in range(len(captured))], *names]
        program = replace(function.program, input_names=tuple(names))
        encodings = [*[None] * len(captured), *encodings]
        dtypes = tuple([spec.dtype.dtype for spec in program.input_specs])
        donated = self._donated_leaves(call, tree)
        seconds = time.perf_counter() - start
        is_weak = function.is_weak if self._gives_jax else ()
        choice = None
        if self._options["choose"]:
            choice = Choice(function, program, self._run_leaves, seconds, self._gives_jax)
        return _Entry(
            function, program, dtypes, seen["tree"], tuple(encodings), seen["encodings"], is_weak, captured, donated,
            seconds, choice,
        )  # fmt: skip

    def _output(self, path: Any, y: Any) -> Any:
        """Return a leaf of the function's result as an array of JAX.

        Raises:
            DTypeError: the leaf is neither an array nor a number.
        """
        if hasattr(y, "dtype"):
            return y
        try:
            return self._jax.numpy.asarray(y)
        except TypeError:
            place = self._jax.tree_util.keystr(path)
            raise DTypeError(
                f"native: {name_of(self._fn)} returns {y!r:.60}{place and ' at ' + place}, which is not an array"
            ) from None

    def _aval(self, call: Call, number: int, leaf: Any) -> Any:
        """Return the abstract value that `jax.jit` would use for a leaf.

        Raises:
            DTypeError: the leaf is not an array, or it has a mask.
        """
        jax = self._jax
        if type(leaf) in NUMBERS:
            dtype = jax.numpy.result_type(leaf)
            return jax.ShapeDtypeStruct((), dtype, weak_type=type(leaf) is not bool)
        if isinstance(leaf, int | float | complex) and not isinstance(leaf, np.generic):
            aval = jax.typeof(leaf)  # an enumeration's member, or JAX's number of a fixed dtype
            return jax.ShapeDtypeStruct((), aval.dtype, weak_type=aval.weak_type)
        if isinstance(leaf, np.ma.MaskedArray):
            raise DTypeError(
                f"native: {self._names(call)[number]} of {name_of(self._fn)} is a masked array, whose mask would be "
                "lost; pass x.filled(value)"
            )
        if self._encoding(leaf) is not None:
            return jax.eval_shape(self._encoded, leaf)
        if isinstance(leaf, TensorSpec) or is_traced(leaf):
            return TensorSpec(leaf.shape, leaf.dtype)
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise self._no_array(call, number, leaf)
        try:
            dtype = jax.dtypes.canonicalize_dtype(leaf.dtype)
            DType.of(dtype)
            return jax.ShapeDtypeStruct(
                leaf.shape, dtype, weak_type=getattr(leaf, "weak_type", False)
            )
        except (TypeError, DTypeError):
            raise self._no_array(call, number, leaf) from None

    def _specified(
        self, call: Call, leaves: Sequence[Any], tree: Any, specs: Sequence[Any]
    ) -> list[Any]:
        """Return the leaves of the option `specs`, after a check that they match the arguments.

        Raises:
            InvalidConfigError: the tree of the specs differs from the arguments' tree.
            DTypeError, ShapeError: the dtype, rank or an integer extent of a spec differs from the argument's.
        """
        wanted, spec_tree = self._flatten(tuple(specs))
        if spec_tree != tree:
            raise InvalidConfigError(
                f"native: specs of {name_of(self._fn)} are {spec_tree}, and the arguments {tree}"
            )
        for spec, leaf, name in zip(wanted, leaves, self._names(call), strict=True):
            if type(leaf) not in NUMBERS and DType.of(leaf.dtype) is not DType.of(spec.dtype):
                raise DTypeError(f"native: {name} is {leaf.dtype}, and its spec {spec}")
            if not _fits(np.shape(leaf), spec.shape):
                raise ShapeError(
                    f"native: {name} has shape {np.shape(leaf)}, and its spec is {spec}"
                )
        return wanted

    def _names(self, call: Call) -> list[str]:
        """Return a name for each leaf: the parameter, followed by the path of the leaf in its tree."""
        keystr = self._jax.tree_util.keystr
        bases = [
            self._parameters[i] if i < len(self._parameters) else f"x{i}" for i in call.positions
        ]
        names: list[str] = []
        for path, _ in self._jax.tree_util.tree_flatten_with_path(call.dynamic)[0]:
            number = path[0].idx
            is_positional = number < len(bases)
            names.append(
                bases[number] + keystr(path[1:])
                if is_positional
                else f"{path[1].key}{keystr(path[2:])}"
            )
        return names

    def _no_array(self, call: Call, index: int, leaf: Any) -> DTypeError:
        name = self._names(call)[index]
        base = name.split("[")[0].split(".")[0]
        advice = f"an argument that is known when the function is traced is named in native(.., static_argnames={base!r})"
        if name != base:
            advice += (
                f"; as for jax.jit, a tree that is partly known is given in two parts, which the function combines: "
                f"arrays, rest = equinox.partition({base}, equinox.is_array)"
            )
        is_array = hasattr(leaf, "dtype")
        fault = f"whose dtype {leaf.dtype} JAX lacks" if is_array else "which is not an array"
        return DTypeError(
            f"native: {name} of {name_of(self._fn)} is {leaf!r:.60}, {fault}; {advice}"
        )

    def _donated_leaves(self, call: Call, tree: Any) -> tuple[int, ...]:
        if not self._donated.positions and not self._donated.names:
            return ()
        numbered = tree.unflatten(range(tree.num_leaves))
        chosen: list[Any] = [
            part
            for position, part in zip(call.positions, numbered, strict=False)
            if position in self._donated.positions
        ]
        if call.has_kwargs:
            chosen += [part for key, part in numbered[-1].items() if key in self._donated.names]
        return tuple(self._flatten(chosen)[0])

    # ---- inspection ---------------------------------------------------------------------------------

    @public
    def lower(self, *args: Any, **kwargs: Any) -> GraphProgram:
        """Return the program for the types of the arguments, which may be arrays or specs, in trees."""
        call = self._call(args, kwargs)
        leaves, tree = self._flatten(call.dynamic)
        avals = [self._aval(call, number, leaf) for number, leaf in enumerate(leaves)]
        encodings = list(map(self._encoding, leaves))

        def fn(*dynamic: Any) -> Any:
            arrays = self._decoded(self._flatten(dynamic)[0], encodings)
            result = call.apply(self._fn, tree.unflatten(arrays))
            return self._jax.tree.map(self._encoded, result)

        program = from_jax(fn, *tree.unflatten(avals))
        return replace(
            program,
            name=getattr(self._fn, "__name__", "main"),
            input_names=tuple(self._names(call)),
        )

    @public
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return the shapes and dtypes of the results as a tree of `jax.ShapeDtypeStruct`s, as `jax.jit` does.

        Nothing is compiled or run.

        >>> import jax, jax.numpy as jnp
        >>> native(jnp.sum).eval_shape(jax.ShapeDtypeStruct((3,), "float32"))
        ShapeDtypeStruct(shape=(), dtype=float32)
        """
        call = self._call(args, kwargs)
        return self._jax.eval_shape(lambda *xs: call.apply(self._fn, xs), *call.dynamic)

    @public
    def report(self) -> NativeReport:
        """Return a report of the traced, imported and compiled programs, which prints one line for each.

        >>> import jax.numpy as jnp
        >>> double = native(lambda x: x + x)
        >>> double(np.ones(3, "float32"))
        array([2., 2., 2.], dtype=float32)
        >>> double.report().programs[0][:2]
        ('f32[3]', 1)
        """
        entries = self._entries.entries()
        programs = [
            (", ".join(map(str, e.program.input_specs)), len(e.program.instructions), e.seconds)
            for e in entries
        ]
        choices = [(e.choice.side, e.choice.reason) for e in entries if e.choice is not None]
        executor: Any = self._executor
        return NativeReport(
            name_of(self._fn),
            tuple(programs),
            tuple(choices),
            self.cache_stats(),
            self._owner.cache_stats(),
            executor.compile_stats(),
        )

    def cache_stats(self) -> CacheStats:
        """Return the numbers of hits, misses and entries of the cache of programs."""
        return self._entries.stats()

    def cache_clear(self) -> None:
        """Empty the caches of programs and of derived functions."""
        executor: Any = self._executor
        self._last = None
        self._entries.clear()
        self._owner.cache_clear()
        executor.cache_clear()

    def __repr__(self) -> str:
        count = self.cache_stats().entries
        return f"<{self.shown}: {count} program{'' if count == 1 else 's'}>"


tell_missing_members(
    NativeFunction,
    (),
    {
        "clear_cache": "f.cache_clear() empties the cache",
        "trace": "f.lower(*args) returns the program, and jax.make_jaxpr(f)(*args) the jaxpr",
    },
    "native functions",
)

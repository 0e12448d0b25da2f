"""Derivatives of functions over pytrees: gradients, Jacobians, Hessians, `jvp`, `vjp` and `linearize`.

Complex convention: the inner product is <a, b> = Re(conj(a) b), so that the gradient of a real loss
points uphill: grad(sum |z|^2) = 2z. This gradient equals PyTorch's, and is the conjugate of JAX's.

If a transform such as `grad(fn)` is called on tensors of a trace, it adds the derivative to their graph. If it is
called on arrays, it traces a derivative program, runs it natively, and caches it. The cache belongs to the transform
(`cache_stats`, `cache_clear`), or to the `context` that was passed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from tenferro.ad import AdContext, batch, require_linear, residuals, transpose
from tenferro.ad import linearize as linearize_graph
from tenferro.ad.algebra import (
    Value,
    apply_one,
    compare,
    conj,
    convert,
    full,
    iota_along,
    reshape,
    scalar,
)
from tenferro.ad.algebra import transpose as permute
from tenferro.ad.rules.analytic import SLOPES
from tenferro.api.compile import name_of
from tenferro.api.pickling import reduced
from tenferro.api.stage import Stage
from tenferro.api.tensor import TracedTensor, tracing, value_in
from tenferro.errors import ArityError, InvalidConfigError
from tenferro.graph import Alias
from tenferro.ops.structural import BroadcastInDim
from tenferro.program import CacheStats, Executor, GraphProgram, needed
from tenferro.tracebacks import public, public_methods
from tenferro.types import PyTree, flatten, unflatten

__all__ = [
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jet",
    "jvp",
    "linearize",
    "value_and_grad",
    "vjp",
]

P = ParamSpec("P")
R = TypeVar("R")


@public_methods
class Transform:
    """Derivative of a function as a callable, such as `grad(loss)`. Its context caches the derivative programs.

    Attributes:
        rebuild: a function that returns the same transform with a separate context.
    """

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        context: AdContext | None,
        call: Callable[..., Any],
        rebuild: Callable[[], Any],
    ) -> None:
        if not callable(fn):
            raise InvalidConfigError(f"{name}: expected a function, got {fn!r:.60}")
        functools.update_wrapper(self, fn, updated=())
        self.name = name
        self.fn = fn
        self._call = call
        self.rebuild = rebuild
        self._has_own_context = context is None
        self.context = AdContext() if context is None else context

    def __reduce__(self) -> Any:
        """Pickle the transform as its global name or, if it has none, as its function and options.

        Programs are not pickled: they are traced again after loading.

        Raises:
            InvalidConfigError: the transform was created with a context, which cannot be pickled.
        """
        if not self._has_own_context:
            raise InvalidConfigError(
                f"{self.shown} has the AdContext that it was given, which is not pickled; pickle the function, "
                f"and call {self.name} with a context where it is loaded"
            )
        return reduced(self, self.rebuild)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self.context, args, kwargs)

    @property
    def shown(self) -> str:
        """The names of the transform and of the function, such as `grad of loss`."""
        return f"{self.name} of {name_of(self.fn)}"

    def __repr__(self) -> str:
        return f"<{self.shown}>"

    def cache_stats(self) -> CacheStats:
        """Return the hits, misses and entries of the cache of derivative programs."""
        return self.context.cache_stats()

    def cache_clear(self) -> None:
        """Empty the cache of derivative programs."""
        self.context.cache_clear()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


# ---- gradients -----------------------------------------------------------------------------------


def grad(
    fn: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Callable[P, Any]:
    """Return a function that computes the gradient x_bar of `fn`, whose result y is a scalar: dy = Re(conj(x_bar) dx).

    Args:
        argnums: the position of the argument with respect to which to differentiate, or a tuple of positions. For one
            position, the gradient is a tree like that argument. For a tuple, it is a tuple of such trees.
        has_aux: whether `fn` returns (result, aux); the gradient function then returns (gradient, aux).
        holomorphic: whether `fn` is a holomorphic function of complex arguments. The gradient is then conj(f'(z)),
            whereas `jacfwd` and `jacrev` return f'(z).
        context: the derivative rules and the cache of derivative programs. By default each transform has its own
            context.
        executor: the executor that runs the derivative programs, such as an `XlaExecutor`, or a `GraphExecutor` with
            separate extension runtimes. The default is native. Within a trace, the outer program's executor is used.

    Raises:
        ShapeError: the result is not a scalar.
        DTypeError: an argument is an integer or a bool (the error names it), or the result is complex and `holomorphic`
            is False.
        ADRuleUnsupportedError: an op has no derivative; the error shows the line of your code that called the op.

    >>> grad(lambda x: x * x)(3.0)
    array(6.)
    >>> grad(lambda p, x: p["w"] * x + p["b"], argnums=(0, 1))({"w": 2.0, "b": 1.0}, 3.0)
    ({'w': array(3.), 'b': array(1.)}, array(2.))

    Source: docs/specification/derivatives.md; convention: `docs/autodiff.md`.
    """

    def call(context: AdContext, args: Any, kwargs: Any) -> Any:
        value, gradient = _value_and_grad(
            "grad", fn, argnums, has_aux, holomorphic, (context, executor), args, kwargs, False
        )
        return (gradient, value[1]) if has_aux else gradient

    rebuild = functools.partial(grad, fn, argnums, has_aux, holomorphic, executor=executor)
    return Transform("grad", fn, context, call, rebuild)


def value_and_grad(
    fn: Callable[P, R],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Callable[P, tuple[R, Any]]:
    """Return a function that computes the value and the gradient of `fn`; `grad` describes the arguments.

    The function returns (value, gradient), or ((value, aux), gradient) if `has_aux`.

    >>> value_and_grad(lambda x: x * x)(3.0)
    (array(9.), array(6.))
    """

    def call(context: AdContext, args: Any, kwargs: Any) -> Any:
        return _value_and_grad(
            "value_and_grad",
            fn,
            argnums,
            has_aux,
            holomorphic,
            (context, executor),
            args,
            kwargs,
            True,
        )

    rebuild = functools.partial(
        value_and_grad, fn, argnums, has_aux, holomorphic, executor=executor
    )
    return Transform("value_and_grad", fn, context, call, rebuild)


def _value_and_grad(
    name: str,
    fn: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    owners: tuple[AdContext, Executor | None],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    want_value: bool,
) -> tuple[Any, Any]:
    stage = Stage(name, fn, args, kwargs, argnums, has_aux, *owners)
    stage.require_scalar(holomorphic)
    aux = stage.aux_values()
    wanted = [*(stage.outputs if want_value else ()), *aux]

    def make() -> tuple[list[int], list[int]]:
        (output,) = stage.outputs
        bars = _pulled(stage, [(output, full(stage.value(output), 1).handle)])
        return [], [*wanted, *bars]

    if stage.concrete:
        results = stage.run(stage.key(name, tuple(wanted)), make)
    else:
        results = stage.tensors(make()[1])
    head, bars = results[: len(wanted)], results[len(wanted) :]
    value: Any = head[0] if want_value else None
    if has_aux:
        value = (value, stage.filled(stage.aux, head[len(wanted) - len(aux) :]))
    return value, stage.by_argument(bars)


def _pulled(stage: Stage, cotangents: Sequence[tuple[int, int]]) -> list[int]:
    """Compute the cotangents of the primals.

    `cotangents` contains pairs of an output and its cotangent, as graph values.
    """
    emitter, graph = stage.emitter, stage.graph
    dots = {value: graph.add_stand_in(stage.type_of(value)) for value in stage.primals}
    first = len(graph)
    y_dots = linearize_graph(emitter, stage.start, [y for y, _ in cotangents], dots, "reverse")
    cotangent_pairs = [
        (y_dot, y_bar)
        for y_dot, (_, y_bar) in zip(y_dots, cotangents, strict=True)
        if y_dot is not None
    ]
    bars = transpose(emitter, first, list(dots.values()), cotangent_pairs)
    return stage.or_zeros(bars, stage.primals)


def _pushed(stage: Stage, dots: Sequence[int]) -> list[int]:
    """Compute the tangents of the outputs from the tangents of the primals."""
    primal_dots = dict(zip(stage.primals, dots, strict=True))
    y_dots = linearize_graph(stage.emitter, stage.start, stage.outputs, primal_dots)
    return stage.or_zeros(y_dots, stage.outputs)


# ---- forward mode ----------------------------------------------------------------------------------


def jvp(
    fn: Callable[..., Any],
    primals: PyTree,
    tangents: PyTree,
    has_aux: bool = False,
    *,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Any:
    """Return the value y = fn(*primals) and its tangent y_dot = J x_dot, where x_dot stands for `tangents`.

    The tangent of an integer or bool result consists of zeros of the result's dtype.

    Args:
        primals, tangents: one tree per argument of `fn`, in a tuple or list. A tangent has the structure, shapes and
            dtypes of its primal.
        has_aux: whether `fn` returns (result, aux); `jvp` then returns (y, y_dot, aux).

    Raises:
        ArityError, ShapeError: the tangents do not match the primals.
        DTypeError: a tangent's dtype differs from its primal's, or a primal is an integer or a bool.

    >>> jvp(lambda x, y: x * y, (2.0, 3.0), (1.0, 0.0))
    (array(6.), array(3.))
    """
    primals, tangents = _as_tuple("jvp", "primals", primals), _as_tuple("jvp", "tangents", tangents)
    stage = _stage_of_all("jvp", fn, primals, has_aux, context, executor)
    tangent_leaves = stage.leaves_like(
        tangents, stage.primals, flatten(tuple(primals))[1], "tangents"
    )
    aux = stage.aux_values()

    if stage.concrete:

        def make() -> tuple[list[int], list[int]]:
            dots = [stage.graph.add_stand_in(stage.type_of(value)) for value in stage.primals]
            return dots, [*stage.outputs, *_pushed(stage, dots), *aux]

        results = stage.run(stage.key("jvp", tuple(aux)), make, tangent_leaves)
    else:
        dots = _fresh(stage, [value_in(stage.builder, x_dot) for x_dot in tangent_leaves])
        results = stage.tensors([*stage.outputs, *_pushed(stage, dots), *aux])
    n = len(stage.outputs)
    y = unflatten(stage.out_tree, results[:n])
    y_dot = unflatten(stage.out_tree, results[n : 2 * n])
    return (y, y_dot, stage.filled(stage.aux, results[2 * n :])) if has_aux else (y, y_dot)


def _fresh(stage: Stage, values: Sequence[int]) -> list[int]:
    """Return a copy of each value as a new graph value, because one value may be the tangent of several inputs."""
    if not values:
        return []
    return list(stage.graph.add(Alias(tuple(range(len(values)))), tuple(values)))


def jet(
    fn: Callable[..., Any],
    primals: PyTree,
    series: PyTree,
    *,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Any:
    """Return y = fn(x(0)) and its derivatives d^k fn(x(t)) / dt^k at t = 0 along a curve x(t), for k = 1 .. n.

    Each derivative is the tangent of the previous derivative, and reuses the values of all lower orders.

    Args:
        primals: x(0), one tree per argument, in a tuple or list.
        series: per argument, the list of derivatives d^k x / dt^k at t = 0, not divided by k!. Each has the tree and
            types of its primal; all lists have the same length n.
        context, executor: as for `grad`.

    Returns:
        y, and a tree like y in which each leaf is a list of n derivatives.

    Raises:
        ArityError, ShapeError: the series do not match the primals.
        DTypeError: a term's dtype differs from its primal's, or a primal is an integer or a bool.

    >>> y, terms = jet(lambda x: x**3, (2.0,), ([1.0, 0.0, 0.0],))
    >>> y, terms
    (array(8.), [array(12.), array(12.), array(6.)])

    Source: jax.experimental.jet; Griewank and Walther, "Evaluating Derivatives", chapter 13.
    """
    primals, series = _as_tuple("jet", "primals", primals), _as_tuple("jet", "series", series)
    if len(series) != len(primals):
        raise ArityError(
            f"jet: {len(primals)} primals and {len(series)} series; give one list for each primal"
        )
    orders = {len(_as_tuple("jet", "series", terms)) for terms in series}
    if len(orders) > 1:
        raise ArityError(f"jet: the lists of series have different lengths: {sorted(orders)}")
    stage = _stage_of_all("jet", fn, primals, False, context, executor)
    tree, order = flatten(tuple(primals))[1], orders.pop()
    leaves = [
        stage.leaves_like(
            tuple([terms[k] for terms in series]), stage.primals, tree, f"term {k + 1} of series"
        )
        for k in range(order)
    ]
    if stage.concrete:

        def make() -> tuple[list[int], list[int]]:
            terms = [
                [stage.graph.add_stand_in(stage.type_of(value)) for value in stage.primals]
                for _ in range(order)
            ]
            dots = [value for term in terms for value in term]
            return dots, [*stage.outputs, *_derivatives_along(stage, terms)]

        results = stage.run(
            stage.key("jet", order), make, [leaf for term in leaves for leaf in term]
        )
    else:
        terms = [_fresh(stage, [value_in(stage.builder, x) for x in term]) for term in leaves]
        results = stage.tensors([*stage.outputs, *_derivatives_along(stage, terms)])
    count = len(stage.outputs)
    y = unflatten(stage.out_tree, results[:count])
    return y, unflatten(stage.out_tree, [results[count + i :: count] for i in range(count)])


def _derivatives_along(stage: Stage, terms: Sequence[Sequence[int]]) -> list[int]:
    """Compute the derivatives of the outputs along a curve x(t), order by order.

    Each derivative is the tangent of the derivative of the previous order, where d^(k+1) x / dt^(k+1) is the tangent of
    d^k x / dt^k.

    The graph contains the instructions of lower orders once, and higher orders reuse them. Order k needs O(k^2)
    instructions per instruction of the function.

    Args:
        terms: for each order k = 1, 2, .., the derivatives d^k x / dt^k of the primals.
    """
    derivatives: list[int] = []
    current: list[int | None] = list(stage.outputs)
    tangents: dict[int, int] = {}
    previous: Sequence[int] = stage.primals
    sloped = [
        node
        for node in needed(stage.graph.instructions, stage.outputs, start=stage.start).values()
        if type(node.op) in SLOPES
    ]
    for order, term in enumerate(terms):
        tangents.update(zip(previous, term, strict=True))
        values = [value for value in current if value is not None]
        nodes = [] if order or len(terms) == 1 else sloped
        wanted = [*values, *[node.outputs[0] for node in nodes]]
        dots = linearize_graph(stage.emitter, stage.start, wanted, tangents)
        for node, dot in zip(nodes, dots[len(values) :], strict=True):
            if dot is None:
                continue
            slope, tangent = SLOPES[type(node.op)]
            x, y = stage.value(node.inputs[0]), stage.value(node.outputs[0])
            tangents[slope(x, y).handle] = tangent(y, stage.value(dot)).handle
        results = iter(dots)
        current = [None if value is None else next(results) for value in current]
        derivatives += stage.or_zeros(current, stage.outputs)
        previous = term
    return derivatives


def linearize(
    fn: Callable[..., Any],
    *primals: PyTree,
    has_aux: bool = False,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Any:
    """Return y = fn(*primals), and the linear function `push` that maps tangents x_dot to J x_dot at `primals`.

    `fn` is evaluated once; `push(*tangents)` runs only the linear part. With `has_aux` the result is (y, push, aux).

    Raises:
        ADRuleUnsupportedError: a derivative rule is not linear in its tangents. Rules of ops inside loops are not
            checked.

    >>> y, push = linearize(lambda x: x * x, 3.0)
    >>> y, push(1.0), push(2.0)
    (array(9.), array(6.), array(12.))
    """
    stage = _stage_of_all("linearize", fn, primals, has_aux, context, executor)
    tree = flatten(tuple(primals))[1]

    def linear(dots: Sequence[int]) -> list[int]:
        y_dots = _pushed(stage, dots)
        require_linear(stage.emitter, stage.start, dots, y_dots)
        return y_dots

    y, apply = _linear_part(stage, stage.primals, linear)

    @public
    def push(*tangents: PyTree) -> Any:
        tangent_leaves = stage.leaves_like(tangents, stage.primals, tree, "tangents")
        return unflatten(stage.out_tree, apply(tangent_leaves))

    return (*y, push) if not has_aux else (y[0], push, y[1])


def vjp(
    fn: Callable[..., Any],
    *primals: PyTree,
    has_aux: bool = False,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Any:
    """Return y = fn(*primals), and the function `pull` that maps a cotangent y_bar to J^H y_bar at `primals`.

    `fn` is evaluated once; `pull(y_bar)` runs only the backward part, and returns a tuple with one
    cotangent per primal. With `has_aux` the result is (y, pull, aux).

    Raises:
        ArityError, ShapeError: in a call of `pull`, the cotangent does not match the result.
        DTypeError: the cotangent's dtype differs from the result's, or a primal is an integer or a bool.

    >>> y, pull = vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> y, pull(1.0)
    (array(6.), (array(3.), array(2.)))
    """
    stage = _stage_of_all("vjp", fn, primals, has_aux, context, executor)
    active = [
        index for index, value in enumerate(stage.outputs) if stage.type_of(value).dtype.is_inexact
    ]

    def linear(y_bars: Sequence[int]) -> list[int]:
        return _pulled(stage, [(stage.outputs[i], y_bars[i]) for i in active])

    y, apply = _linear_part(stage, stage.outputs, linear)

    @public
    def pull(y_bar: PyTree) -> Any:
        cotangent_leaves = stage.leaves_like(y_bar, stage.outputs, stage.out_tree, "the cotangent")
        return stage.by_argument(apply(cotangent_leaves))

    return (*y, pull) if not has_aux else (y[0], pull, y[1])


def _linear_part(
    stage: Stage, like: Sequence[int], linear: Callable[[Sequence[int]], list[int]]
) -> tuple[tuple[Any, ...], Callable[[Sequence[Any]], list[Any]]]:
    """Return the value of the function at the primals, and a function that computes `linear` at the same primals.

    Args:
        like: graph values that have the types of the operands of `linear`.
        linear: a function that emits tangents or cotangents that are linear in its operands.

    Returns:
        A tuple (y,) or (y, aux), and a function from operands to results, which are arrays or tensors.
    """
    n = len(stage.outputs)
    aux = stage.aux_values()

    def packed(results: Sequence[Any]) -> tuple[Any, ...]:
        y = unflatten(stage.out_tree, results[:n])
        return (
            (y,) if not stage.has_aux else (y, stage.filled(stage.aux, results[n : n + len(aux)]))
        )

    if not stage.concrete:

        def emitted(directions: Sequence[Any]) -> list[Any]:
            values = _fresh(stage, [value_in(stage.builder, operand) for operand in directions])
            with tracing(stage.builder):
                return stage.tensors(linear(values))

        return packed(stage.tensors([*stage.outputs, *aux])), emitted

    stand_ins = [stage.graph.add_stand_in(stage.type_of(value)) for value in like]
    results = linear(stand_ins)
    kept_back = residuals(stage.graph, stage.graph.inputs, stand_ins, results)
    forward = stage.run(None, lambda: ([], [*stage.outputs, *aux, *kept_back]))
    residual_arrays = forward[n + len(aux) :]
    backward = GraphProgram.from_graph(
        stage.graph, results, inputs=[*kept_back, *stand_ins], name=stage.name
    )

    def run(directions: Sequence[Any]) -> list[Any]:
        if any(isinstance(operand, TracedTensor) for operand in directions):
            raise InvalidConfigError(
                f"{stage.name}: was called on arrays, outside this trace; call it inside to trace it"
            )
        if stage.noted_by(directions) is not None:
            return stage.run(None, lambda: (stand_ins, results), directions)
        return list(stage.execute(backward, *residual_arrays, *directions))

    return packed(forward), run


# ---- matrices ------------------------------------------------------------------------------------


def jacfwd(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `fn` in forward mode, as columns J[.., i] = dy / dx[i].

    A leaf of the Jacobian has the shape of the function's result followed by the shape of the argument.
    All columns are computed in one batched forward pass, which is efficient for few inputs and many outputs.

    Raises:
        DTypeError: an argument is an integer or a bool, or is complex while `holomorphic` is False. The error names it.

    >>> import numpy as np
    >>> jacfwd(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """

    def call(context: AdContext, args: Any, kwargs: Any) -> Any:
        stage = Stage("jacfwd", fn, args, kwargs, argnums, has_aux, context, executor)
        if holomorphic:
            stage.require_real(True)
        else:
            stage.require_real_arguments()
        return _jacobian(stage, has_aux, lambda: _columns(stage))

    rebuild = functools.partial(jacfwd, fn, argnums, has_aux, holomorphic, executor=executor)
    return Transform("jacfwd", fn, context, call, rebuild)


def jacrev(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `fn` in reverse mode, one row per element of the result.

    All rows are computed in one batched backward pass, which is efficient for many inputs and few outputs. The result
    equals that of `jacfwd`. For a real function of complex arguments, a row is the gradient of one element, as `grad`
    returns it.

    Raises:
        DTypeError: a result is complex while `holomorphic` is False, or an argument is an integer or a bool.

    >>> import numpy as np
    >>> jacrev(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """

    def call(context: AdContext, args: Any, kwargs: Any) -> Any:
        stage = Stage("jacrev", fn, args, kwargs, argnums, has_aux, context, executor)
        stage.require_real(holomorphic)
        return _jacobian(stage, has_aux, lambda: _rows(stage, holomorphic))

    rebuild = functools.partial(jacrev, fn, argnums, has_aux, holomorphic, executor=executor)
    return Transform("jacrev", fn, context, call, rebuild)


jacobian = jacrev
"""Alias of `jacrev`, as in JAX."""


def hessian(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Callable[..., Any]:
    """Return a function that computes the Hessian of `fn`, as `jacfwd` of `jacrev`.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 3.0]))
    array([[6., 2.],
           [2., 0.]])
    """
    inner = jacrev(fn, argnums, has_aux, holomorphic, context=context)
    return jacfwd(inner, argnums, has_aux, holomorphic, context=context, executor=executor)


def _jacobian(stage: Stage, has_aux: bool, blocks: Callable[[], list[int]]) -> Any:
    """Return the Jacobian as a tree like the result, in which each leaf is a tree like the differentiated arguments.

    Args:
        blocks: a function that emits the block for each pair of an output and a primal, output by output.
    """
    aux = stage.aux_values()
    if stage.concrete:
        key = stage.key(stage.name, tuple(aux))
        results = stage.run(key, lambda: ([], [*blocks(), *aux]))
    else:
        results = stage.tensors([*blocks(), *aux])
    width = len(stage.primals)
    count = len(stage.outputs) * width
    rows = [stage.by_argument(results[i : i + width]) for i in range(0, count, width or 1)]
    jacobian = unflatten(stage.out_tree, rows)
    return (jacobian, stage.filled(stage.aux, results[count:])) if has_aux else jacobian


def _columns(stage: Stage) -> list[int]:
    graph, emitter = stage.graph, stage.emitter
    columns: list[list[int]] = []
    for primal in stage.primals:
        dot = graph.add_stand_in(stage.type_of(primal))
        first = len(graph)
        y_dots = linearize_graph(emitter, stage.start, stage.outputs, {primal: dot})
        basis = _basis(stage.value(primal))
        pushed = batch(emitter, first, {dot: basis.handle}, y_dots)
        column: list[int] = []
        for output, y_dot in zip(stage.outputs, pushed, strict=True):
            y = stage.value(output)
            shape = (*y.shape, *stage.type_of(primal).shape)
            if y_dot is None:
                column.append(_zeros(y, shape).handle)
                continue
            block = stage.value(y_dot)
            block = permute(block, (*range(1, block.rank), 0))
            column.append(reshape(block, shape).handle)
        columns.append(column)
    return [column[i] for i in range(len(stage.outputs)) for column in columns]


def _rows(stage: Stage, holomorphic: bool) -> list[int]:
    graph, emitter = stage.graph, stage.emitter
    dots = {value: graph.add_stand_in(stage.type_of(value)) for value in stage.primals}
    first = len(graph)
    y_dots = linearize_graph(emitter, stage.start, stage.outputs, dots, "reverse")
    blocks: list[int] = []
    for output, y_dot in zip(stage.outputs, y_dots, strict=True):
        y = stage.value(output)
        bars: list[int | None] = [None] * len(dots)
        if y_dot is not None:
            y_bar = graph.add_stand_in(y.type)
            second = len(graph)
            pulled = transpose(emitter, first, list(dots.values()), [(y_dot, y_bar)])
            basis = _basis(y)
            bars = batch(emitter, second, {y_bar: basis.handle}, pulled)
        for primal, bar in zip(stage.primals, bars, strict=True):
            shape = (*y.shape, *stage.type_of(primal).shape)
            if bar is None:
                blocks.append(_zeros(stage.value(primal), shape).handle)
                continue
            block = reshape(stage.value(bar), shape)
            blocks.append((conj(block) if holomorphic else block).handle)
    return blocks


def _zeros(like: Value, shape: Sequence[Any]) -> Value:
    return apply_one(BroadcastInDim(tuple(shape), ()), scalar(like, 0))


def _basis(x: Value) -> Value:
    """Stack all tensors of x's type with one element 1 and zeros elsewhere.

    The position of the 1 is in column-major order.
    """
    size = x.type.size
    shape = (size, *x.shape)
    positions = reshape(iota_along(x, (size,), 0), x.shape)
    positions = apply_one(BroadcastInDim(shape, tuple(range(1, len(shape)))), positions)
    return convert(compare(iota_along(x, shape, 0), "EQ", positions), x.dtype)


def hvp(
    fn: Callable[..., Any],
    primals: PyTree,
    tangents: PyTree,
    has_aux: bool = False,
    *,
    context: AdContext | None = None,
    executor: Executor | None = None,
) -> Any:
    """Multiply the Hessian of a scalar function `fn` by a vector v: d grad(fn)(x + t v) / dt at t = 0.

    The product is computed by forward mode over reverse mode, without the Hessian.

    Args:
        primals, tangents: the point x and the vector v, each one tree per argument of `fn`, in a tuple or list. For one
            argument the product is a tree like this argument; for several it is a tuple of such trees.
        has_aux: whether `fn` returns (result, aux); `hvp` then returns (product, aux).

    >>> import numpy as np
    >>> hvp(lambda x: x[0] ** 2 * x[1], (np.array([1.0, 3.0]),), (np.array([1.0, 0.0]),))
    array([6., 2.])
    """
    primals, tangents = _as_tuple("hvp", "primals", primals), _as_tuple("hvp", "tangents", tangents)
    argnums: Any = 0 if len(primals) == 1 else tuple(range(len(primals)))
    gradient = grad(fn, argnums, has_aux, context=context)
    result = jvp(gradient, primals, tangents, has_aux, context=context, executor=executor)
    return (result[1], result[2]) if has_aux else result[1]


def _as_tuple(name: str, what: str, trees: PyTree) -> tuple[Any, ...]:
    if not isinstance(trees, tuple | list):
        raise ArityError(
            f"{name}: {what} must be a tuple with one entry per argument, got "
            f"{type(trees).__name__}; write ({what[:-1]},) for a single one"
        )
    return tuple(trees)


def _stage_of_all(
    name: str,
    fn: Callable[..., Any],
    primals: Sequence[Any],
    has_aux: bool,
    context: AdContext | None,
    executor: Executor | None,
) -> Stage:
    """Trace `fn`, to be differentiated with respect to every argument."""
    if not primals:
        raise ArityError(f"{name}: needs at least one argument to differentiate with respect to")
    context = AdContext() if context is None else context
    return Stage(name, fn, primals, {}, tuple(range(len(primals))), has_aux, context, executor)

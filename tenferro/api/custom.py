"""User-defined derivatives: `custom_jvp`, `custom_vjp`, `stop_gradient`, `checkpoint`.

In a trace, each of these transforms adds a mark to the results of the function. Differentiation obeys the mark, and
programs do not contain it. If all arguments are arrays, the function is called unchanged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tenferro.ad import POLICIES, Checkpoint, GraphEmitter, pushed
from tenferro.ad.algebra import add, zeros
from tenferro.api.captures import RuleBuilder, key_of, known_names, names_of
from tenferro.api.compile import name_of, output_value
from tenferro.api.pickling import reduced
from tenferro.api.tensor import TracedTensor, tracing, value_in
from tenferro.dispatch import as_operand, spec_of
from tenferro.dispatch import stop_gradient as stopped
from tenferro.dispatch.tracing import current_builder, nested_call
from tenferro.errors import ADRuleUnsupportedError, ArityError, InvalidConfigError, ShapeError
from tenferro.graph import Alias, ArgumentBuilder, GraphBuilder, Instruction, Mark, Opaque
from tenferro.program import Subprogram, needed
from tenferro.rules.payload import as_int
from tenferro.tracebacks import public_methods
from tenferro.types import (
    ArrayLike,
    PyTree,
    TreeDef,
    agree,
    difference,
    flatten,
    leaf_paths,
    unflatten,
)

__all__ = ["checkpoint", "custom_jvp", "custom_vjp", "stop_gradient"]


def stop_gradient(x: ArrayLike) -> Any:
    """Return x unchanged, but as a constant for derivatives: its tangent is zero.

    Args:
        x: a tree of tensors; arrays are returned unchanged.

    >>> import numpy as np, tenferro as tnf
    >>> tnf.grad(lambda x: x * stop_gradient(x))(3.0)
    array(3.)
    """
    leaves, tree = flatten(x)
    return unflatten(tree, [stopped(leaf) for leaf in leaves])


def checkpoint(
    fn: Callable[..., Any] | None = None,
    *,
    policy: str | None = None,
    static_argnums: int | Sequence[int] = (),
    levels: int = 0,
) -> Any:
    """Wrap `fn` so that the backward pass recomputes its intermediate values instead of storing them.

    For example, n layers may be divided into checkpointed groups of sqrt(n) layers. The backward pass then stores the
    values of about 2 sqrt(n) layers instead of n, and evaluates each layer once more.

    Args:
        policy: the name, as in `jax.checkpoint_policies`, of a rule that selects values to store nevertheless.
            "dots_saveable"
            stores results of matrix products and convolutions, "dots_with_no_batch_dims_saveable" results of products
            without batch axes, "everything_saveable" all values, as without a checkpoint. "nothing_saveable" and None
            store no values.
        static_argnums: the positions of the arguments that are not tensors.
        levels: for a loop's body, the depth of nested groups of iterations. The loop must be a `scan`, a `fori_loop`
            between numbers, or a `while_loop` with `max_steps`. Of n iterations, reverse mode then stores about
            (levels + 1) n^(1 / (levels + 1)) carries at a time, and computes each iteration levels + 2 times. With 0 it
            stores n carries.

    Raises:
        InvalidConfigError: `static_argnums` or `levels` are not integers from 0, `policy` is unknown or combined with
            `levels`, or the result is called outside a loop although `levels` is set.

    >>> import tenferro as tnf
    >>> tnf.grad(checkpoint(lambda x: tnf.sin(tnf.sin(x))))(0.0)
    array(1.)
    """
    if fn is None:
        return functools.partial(
            checkpoint, policy=policy, static_argnums=static_argnums, levels=levels
        )
    policy = "nothing_saveable" if policy is None else policy
    if policy not in POLICIES:
        raise InvalidConfigError(
            f"checkpoint: policy must be one of {', '.join(POLICIES)}, got {policy!r:.60}"
        )
    if levels and policy != "nothing_saveable":
        raise InvalidConfigError(
            f"checkpoint: policy {policy!r} and levels={levels} exclude each other"
        )
    levels = as_int("checkpoint", "levels", levels, 0)
    return Checkpointed(fn, _positions("checkpoint", static_argnums), levels, policy)


@public_methods
class Checkpointed:
    """Callable that `checkpoint` returns."""

    def __init__(
        self, fn: Callable[..., Any], static: frozenset[int], levels: int, policy: str
    ) -> None:
        _require_callable("checkpoint", fn)
        functools.update_wrapper(self, fn, updated=())
        self._fn = fn
        self._static = static
        self._levels = levels
        self._policy = policy

    @classmethod
    def levels_of(cls, fn: Callable[..., Any]) -> tuple[int, Callable[..., Any]]:
        """Return the argument `levels` of a checkpointed loop body, and the body as a checkpoint without levels.

        For any other body, return 0 and the body.
        """
        if isinstance(fn, cls) and fn._levels:
            return fn._levels, cls(fn._fn, fn._static, 0, fn._policy)
        return 0, fn

    @property
    def shown(self) -> str:
        """The name of the transform and of the function."""
        return f"checkpoint of {name_of(self._fn)}"

    def __repr__(self) -> str:
        return f"<{self.shown}>"

    def __reduce__(self) -> Any:
        return reduced(
            self,
            checkpoint,
            self._fn,
            policy=self._policy,
            static_argnums=tuple(sorted(self._static)),
            levels=self._levels,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._levels:
            raise InvalidConfigError(
                f"checkpoint: levels={self._levels} is for the body of scan, of fori_loop between numbers, or of "
                "while_loop with max_steps; leave it out here"
            )
        call = _MarkedCall.of(self._fn, args, kwargs, self._static)
        if call is None:
            with nested_call():
                return self._fn(*args, **kwargs)
        is_saved = POLICIES[self._policy]
        steps = call.instructions()
        saved = [
            i for i, step in enumerate(steps) if not isinstance(step.op, Mark) and is_saved(step.op)
        ]
        values = [value for i in saved for value in steps[i].outputs]
        return call.marked(Checkpoint(call.region, saved), call.frontier, values)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


class _MarkedCall:
    """Traced call of a function on aliases of its arguments.

    Attributes:
        inputs: the graph values of the aliases.
        values: the graph values of the results.
        region, frontier: the instructions of the call as a sub-program, and the graph values that it reads.
        runtime: the eager runtime that records the call, if an argument is a tracked eager tensor.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        static: frozenset[int],
    ) -> None:
        graph = builder.graph
        self.builder = builder
        self.runtime: Any = None
        self.args = list(args)
        dynamic = tuple(None if i in static else arg for i, arg in enumerate(args))
        leaves, tree = flatten((dynamic, kwargs))
        self.tree: TreeDef = tree
        actual = tuple(value_in(builder, leaf) for leaf in leaves)
        self.inputs: tuple[int, ...] = (
            graph.add(Alias(tuple(range(len(actual)))), actual) if actual else ()
        )
        start = self.start = len(graph)
        tensors = [TracedTensor(builder, value) for value in self.inputs]
        renamed, named = unflatten(tree, tensors)
        full = [args[i] if i in static else renamed[i] for i in range(len(args))]
        with tracing(builder):
            result = fn(*full, **named)
        outputs, self.out_tree = flatten(result)
        paths = leaf_paths(result)
        values = [
            output_value(builder, leaf, path) for leaf, path in zip(outputs, paths, strict=True)
        ]
        self.values = values
        self.region, self.frontier = Subprogram.since(graph, start, values)

    @classmethod
    def of(
        cls,
        fn: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        static: frozenset[int],
    ) -> _MarkedCall | None:
        """Trace the call in the current trace, or in the trace of an argument; return None if all arguments are arrays.

        A call on tracked eager tensors is traced into a separate graph, and recorded as one operation.
        """
        leaves = flatten((args, kwargs))[0]
        traced = next((x for x in leaves if isinstance(x, TracedTensor)), None)
        builder = current_builder() or (None if traced is None else traced.builder)
        if builder is not None:
            return cls(builder, fn, args, kwargs, static)
        tracked = next((x for x in leaves if getattr(x, "is_tracked", False)), None)
        if tracked is None:
            return None
        call = cls(ArgumentBuilder(), fn, args, kwargs, static)
        call.runtime = tracked.runtime
        return call

    def instructions(self) -> Sequence[Instruction]:
        """Return the graph's instructions that compute the results from the arguments, in order."""
        part = needed(self.builder.graph.instructions, self.values, start=self.start)
        return list(part.values())

    def marked(self, mark: Mark, inputs: Sequence[int], extra: Sequence[int] = ()) -> Any:
        """Add a mark to the graph, and return the function's result with the outputs of the mark as leaves.

        The operands of the mark are `inputs`, the function's outputs and `extra`, in this order.
        """
        outputs = self.values
        if not outputs:
            return unflatten(self.out_tree, [])
        graph = self.builder.graph
        renamed = graph.add(mark, (*inputs, *outputs, *extra))
        if self.runtime is None:
            return unflatten(
                self.out_tree, [TracedTensor(self.builder, value) for value in renamed]
            )
        region, frontier = Subprogram.since(graph, 0, graph.after_effects(renamed))
        arrays = dict(cast("ArgumentBuilder", self.builder).arguments.values())
        operands = [arrays[value] for value in frontier]
        return unflatten(self.out_tree, self.runtime.noted(region, operands))

    def closed_over(self) -> tuple[int, ...]:
        """Return the graph values that the function captures, which are the values that it uses besides its arguments."""
        own = set(self.inputs)
        return tuple(value for value in self.frontier if value not in own)


class _CustomMark(Mark):
    """Mark of a call with a user-defined rule.

    Its operands are the arguments, the values that the function captures, the results of the call, and the values that
    only the rule captures, in this order. The rule receives only the arguments. Derivatives with respect to captured
    values are those of the function itself.

    Attributes:
        names: a map from tensors that the rule may capture to positions of operands.
        captured: the values that only the rule captures.
    """

    __slots__ = ("call", "captured", "names", "rule", "static")

    def __init__(self, rule: Any, call: _MarkedCall, static: frozenset[int]) -> None:
        closed = call.closed_over()
        operands = [*call.inputs, *closed]
        super().__init__(tuple(range(len(operands), len(operands) + len(call.values))))
        self.rule = rule
        self.call = call
        self.static = static
        names = names_of((rule.fn, *rule.rules, *self.nondiff), call.builder)
        self.captured = tuple([v for v in dict.fromkeys(names.values()) if v not in closed])
        operands += [*call.values, *self.captured]
        names |= {key_of(TracedTensor(call.builder, value)): value for value in closed}
        names |= known_names(call.builder)
        position = {value: i for i, value in reversed([*enumerate(operands)])}
        self.names = {key: position[value] for key, value in names.items() if value in position}

    def builder(self, emitter: GraphEmitter, inputs: Sequence[Any]) -> RuleBuilder:
        """Return the builder of a rule's results, for the operands `inputs` of the mark."""
        names = {key: inputs[position].handle for key, position in self.names.items()}
        return RuleBuilder(emitter.graph, names, emitter.source)

    @property
    def nondiff(self) -> list[Any]:
        """The static arguments of the call."""
        return [self.call.args[i] for i in sorted(self.static)]

    @property
    def name(self) -> str:
        """The kind of rule and the name of the function, such as `custom_jvp of f`."""
        return f"{self.rule.name} of {self.rule.shown}"

    @property
    def key(self) -> Any:
        """Key that the mark has in every trace, or None.

        It is None if the rule closes over values, or the call has static arguments: these may differ between traces.
        """
        return (self.rule, self.takes) if self.rule.is_plain and not self.static else None

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the positions of the operands whose tangents the mark needs.

        These are the arguments and the captured values.
        """
        return tuple(range(self.takes[0])) if self.takes else ()

    def linearize(
        self,
        emitter: Any,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        tangents: Sequence[Any],
        mode: str,
    ) -> Any:
        """Return the tangents of the results.

        They are the sum of the rule's tangents, for the arguments, and the function's own, for captured values.
        """
        count = len(self.call.inputs)
        total: Sequence[Any] = (None,) * len(outputs)
        if any(dot is not None for dot in tangents[:count]):
            total = self.by_rule(emitter, inputs, outputs, tangents)
        captured = dict(zip(self.call.closed_over(), range(count, self.takes[0]), strict=True))
        read = [
            captured[value] if value in captured else self.call.inputs.index(value)
            for value in self.call.frontier
        ]
        dots = [tangents[i] if i >= count else None for i in read]
        own = pushed(emitter, self.call.region, [inputs[i] for i in read], dots, (), mode)
        return tuple([add(x, y) for x, y in zip(total, own, strict=True)])

    def by_rule(
        self, emitter: Any, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]
    ) -> Any:
        """Return the tangents of the results that the user's rule defines, for the tangents of the arguments."""
        raise NotImplementedError

    def arguments(self, builder: GraphBuilder, inputs: Sequence[Any]) -> list[Any]:
        """Return the arguments of the call, as tensors of the graph values `inputs`; static arguments are unchanged."""
        count = len(self.call.inputs)
        tensors = [TracedTensor(builder, x.handle) for x in inputs[:count]]
        renamed, named = unflatten(self.call.tree, tensors)
        if named:
            raise InvalidConfigError(f"{self.rule.name}: arguments are given by position")
        args = self.call.args
        return [args[i] if i in self.static else renamed[i] for i in range(len(args))]

    def by_argument(
        self, builder: GraphBuilder, inputs: Sequence[Any], tangents: Sequence[Any]
    ) -> list[Any]:
        """Arrange tangents as one tree per argument that is not static; a tangent of None becomes zeros."""
        count = len(self.call.inputs)
        dots = [
            TracedTensor(builder, (zeros(x) if dot is None else dot).handle)
            for x, dot in zip(inputs[:count], tangents[:count], strict=True)
        ]
        renamed, _ = unflatten(self.call.tree, dots)
        return [renamed[i] for i in range(len(self.call.args)) if i not in self.static]


@public_methods
class _CustomFunction:
    """A function with a user-defined rule, which `_mark` attaches to each call in a trace."""

    name: str

    def __init__(self, fn: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()) -> None:
        _require_callable(self.name, fn)
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.static = _positions(self.name, nondiff_argnums)
        self.rules: tuple[Callable[..., Any], ...] = ()

    @property
    def shown(self) -> str:
        """The name of the function."""
        return name_of(self.fn)

    def __repr__(self) -> str:
        return f"<{self.name} {self.shown}, {'with its rule' if self.rules else 'without a rule'}>"

    def __reduce__(self) -> Any:
        """Pickle the global name of the function, or else the function and its rules."""
        reduction = reduced(self, type(self), self.fn, tuple(sorted(self.static)))
        return reduction if isinstance(reduction, str) else (*reduction, self.rules)

    def __setstate__(self, rules: tuple[Callable[..., Any], ...]) -> None:
        self.rules = rules

    @property
    def is_plain(self) -> bool:
        """Whether neither the function nor its rule closes over anything."""
        return all(getattr(fn, "__closure__", fn) is None for fn in (self.fn, *self.rules))

    def _set(self, *rules: Callable[..., Any]) -> None:
        for rule in rules:
            _require_callable(self.name, rule)
        self.rules = rules

    def _mark(self, call: _MarkedCall) -> _CustomMark:
        raise NotImplementedError

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.rules:
            raise ADRuleUnsupportedError(
                f"{self.name}: {self.shown} has no rule; call {self.name.replace('custom_', 'def')} first"
            )
        args = _positional(self.fn, args, kwargs)
        call = _MarkedCall.of(self.fn, args, {}, self.static)
        if call is None:
            with nested_call():
                return self.fn(*args)
        mark = self._mark(call)
        return call.marked(mark, (*call.inputs, *call.closed_over()), mark.captured)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


@public_methods
class custom_jvp(_CustomFunction):  # noqa: N801  # because it is used as a decorator, by JAX's name
    """A function with a user-defined tangent rule.

    `fn.defjvp(rule)` sets the rule. `rule(primals, tangents)` returns (y, y_dot), where y_dot is linear in the
    tangents, and y has the types of the function's result. The value of a call is always the result of the function
    itself, whereas JAX uses y when it differentiates. With `nondiff_argnums` the rule is called as
    `rule(*nondiff, primals, tangents)`, where `nondiff` are the arguments at these positions. Derivatives with respect
    to tensors that the function captures are those of the function itself; in JAX they are an error.

    >>> import tenferro as tnf
    >>> @custom_jvp
    ... def log1pexp(x):
    ...     return tnf.log(1 + tnf.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (x_dot,) = primals, tangents
    ...     return log1pexp(x), (1 - 1 / (1 + tnf.exp(x))) * x_dot
    >>> tnf.grad(log1pexp)(100.0)
    array(1.)

    Source: `jax.custom_jvp`.
    """

    name = "custom_jvp"

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the tangent rule, which is called as `rule(primals, tangents)`, and return it."""
        self._set(rule)
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set one rule per argument, called as `rule(x_dot, y, *primals)`; the tangent is the sum of their results.

        None instead of a rule means that the argument contributes nothing to the tangent.
        """

        def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
            y = self(*primals)
            parts = [
                part(x_dot, y, *primals)
                for part, x_dot in zip(rules, tangents, strict=True)
                if part is not None
            ]
            return y, functools.reduce(lambda a, b: a + b, parts)

        self._set(rule)

    def _mark(self, call: _MarkedCall) -> _CustomMark:
        return _JvpMark(self, call, self.static)


class _JvpMark(_CustomMark):
    """Mark of a call whose tangents are computed by the user's rule."""

    __slots__ = ()

    def by_rule(
        self, emitter: Any, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]
    ) -> Any:
        """Return the tangents of the results, by a call of the user's rule on tensors of the graph."""
        builder = self.builder(emitter, inputs)
        args = self.arguments(builder, inputs)
        primals = tuple(arg for i, arg in enumerate(args) if i not in self.static)
        dots = tuple(self.by_argument(builder, inputs, tangents))
        (rule,) = self.rule.rules
        with tracing(builder):
            result = rule(*self.nondiff, primals, dots)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArityError(f"custom_jvp: the rule of {self.rule.shown} must return (y, y_dot)")
        _require_alike(
            result[0],
            self.call.out_tree,
            outputs,
            f"custom_jvp: y of the rule of {self.rule.shown}",
        )
        what = f"custom_jvp: y_dot of {self.rule.shown}"
        return _matching(emitter, builder, result[1], self.call.out_tree, outputs, what)


@public_methods
class custom_vjp(_CustomFunction):  # noqa: N801  # because it is used as a decorator, by JAX's name
    """A function with a user-defined pullback, for reverse mode.

    `fn.defvjp(fwd, bwd)` sets the pullback. `fwd(*args)` returns (y, residuals), where y has the types of the
    function's result. `bwd(residuals, y_bar)` returns a tuple with one cotangent per argument; None means zero. The
    value of a call is always the result of the function itself, whereas JAX uses y when it differentiates.

    With `nondiff_argnums`, `fwd` receives all arguments in order, and `bwd` is called as
    `bwd(*nondiff, residuals, y_bar)`. Forward mode raises an error, because a pullback does not define it. Derivatives
    with respect to tensors that the function captures are those of the function itself; in JAX they are an error.

    >>> import tenferro as tnf
    >>> @custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda _, y_bar: (tnf.clip(y_bar, -1.0, 1.0),))
    >>> tnf.grad(lambda x: 5 * clipped(x))(3.0)
    array(1.)

    Source: `jax.custom_vjp`.
    """

    name = "custom_vjp"

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the two functions of the pullback, `fwd(*args)` and `bwd(residuals, y_bar)`."""
        self._set(fwd, bwd)

    def _mark(self, call: _MarkedCall) -> _CustomMark:
        return _VjpMark(self, call, self.static)


class _VjpMark(_CustomMark):
    """Mark of a call whose cotangents are computed by the user's pullback."""

    __slots__ = ()

    def by_rule(
        self, emitter: Any, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]
    ) -> Any:
        """Call the user's `fwd` for the residuals, and return opaque tangents, which can only be transposed."""
        builder = self.builder(emitter, inputs)
        args = self.arguments(builder, inputs)
        with tracing(builder):
            result = self.rule.rules[0](*args)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArityError(f"custom_vjp: fwd of {self.rule.shown} must return (y, residuals)")
        what = f"custom_vjp: y of fwd of {self.rule.shown}"
        _require_alike(result[0], self.call.out_tree, outputs, what)
        residuals, tree = flatten(result[1])
        residual_values = [value_in(builder, leaf) for leaf in residuals]
        named = names_of((self.rule.rules[1], *self.nondiff), builder)
        names = {key: len(residual_values) + i for i, key in enumerate(named)}
        residual_values += named.values()
        active = tuple(i for i in range(len(self.call.inputs)) if tangents[i] is not None)
        pulled = _Pulled(self, tree, len(residual_values), names, active, outputs, inputs)
        dots = [tangents[i].handle for i in active]
        y_dots = emitter.graph.add(pulled, (*residual_values, *dots), emitter.source)
        return emitter.values(y_dots)


class _Pulled(Opaque):
    """Tangent of a function with a user-defined pullback: it has no value, and its transpose calls the user's `bwd`.

    Its operands are the residuals, the tensors that `bwd` captures, and the tangents of active arguments.
    """

    __slots__ = ("active", "inputs", "mark", "names", "outputs", "tree")

    def __init__(
        self,
        mark: _VjpMark,
        tree: TreeDef,
        residual_count: int,
        names: Mapping[Any, int],
        active: tuple[int, ...],
        outputs: Sequence[Any],
        inputs: Sequence[Any],
    ) -> None:
        refusal = (
            f"custom_vjp: {mark.rule.shown} has a pullback and no tangent, so that forward mode (jvp, "
            "jacfwd, hvp) cannot pass it; give it a custom_jvp instead"
        )
        super().__init__(tuple(y.type for y in outputs), residual_count, refusal)
        self.mark = mark
        self.tree = tree
        self.names = names
        self.active = active
        self.outputs = outputs
        self.inputs = inputs

    def transpose(
        self, emitter: Any, inputs: Sequence[Any], linear: Sequence[Any], y_bars: Sequence[Any]
    ) -> Any:
        """Compute the cotangents of the active inputs by the user's `bwd`."""
        mark, rule = self.mark, self.mark.rule
        names = {key: inputs[position].handle for key, position in self.names.items()}
        builder = RuleBuilder(emitter.graph, names, emitter.source)
        leaves = inputs[: self.tree.num_leaves]
        residuals = unflatten(self.tree, [TracedTensor(builder, x.handle) for x in leaves])
        bars = [
            TracedTensor(builder, self._zeros(emitter, i) if bar is None else bar.handle)
            for i, bar in enumerate(y_bars)
        ]
        with tracing(builder):
            result = rule.rules[1](*mark.nondiff, residuals, unflatten(mark.call.out_tree, bars))
        dynamic = [i for i in range(len(mark.call.args)) if i not in mark.static]
        if not isinstance(result, tuple | list) or len(result) != len(dynamic):
            raise ArityError(
                f"custom_vjp: bwd of {rule.shown} must return a tuple of {len(dynamic)} cotangents, one per "
                f"argument, got {type(result).__name__}"
                + (f" of {len(result)}" if isinstance(result, tuple | list) else "")
            )
        values = self._by_leaf(emitter, builder, result, dynamic)
        return (*([None] * self.first_linear), *[values[i] for i in self.active])

    def _zeros(self, emitter: Any, index: int) -> int:
        """Return zeros as the cotangent of an unused output.

        Their shape is taken from the output's type if possible: in a loop, the output belongs to a different graph.
        """
        spec = self.types[index]
        return emitter.zeros(spec) if spec.is_exact else zeros(self.outputs[index]).handle

    def _by_leaf(self, emitter: Any, builder: Any, result: Any, dynamic: list[int]) -> list[Any]:
        rule = self.mark.rule
        numbers = unflatten(self.mark.call.tree, range(len(self.mark.call.inputs)))[0]
        values: list[Any] = [None] * len(self.mark.call.inputs)
        for position, bar in zip(dynamic, result, strict=True):
            if bar is None:
                continue
            indices, tree = flatten(numbers[position])
            like = [self.inputs[i] for i in indices]
            what = f"custom_vjp: cotangent {position} of {rule.shown}"
            leaves = _matching(emitter, builder, bar, tree, like, what)
            for i, value in zip(indices, leaves, strict=True):
                values[i] = value
        return values


def _matching(
    emitter: Any,
    builder: GraphBuilder,
    tree: PyTree,
    treedef: TreeDef,
    like: Sequence[Any],
    what: str,
) -> Any:
    """Return the leaves of a rule's result as graph values, after a check against the structure and types of `like`.

    The type of a leaf is checked only if its value in `like` is float or complex.
    """
    inexact = [x if x.dtype.is_inexact else None for x in like]
    leaves = _require_alike(tree, treedef, inexact, what)
    return emitter.values([value_in(builder, leaf) for leaf in leaves])


def _require_alike(tree: PyTree, treedef: TreeDef, like: Sequence[Any], what: str) -> list[Any]:
    """Return the leaves of a rule's result, after a check of its structure and types.

    Args:
        like: for each leaf, a value of the required type; None if any type is allowed.
        what: the name of the result in error messages.

    Raises:
        ArityError, ShapeError: the structure or the types differ.
    """
    leaves, actual_tree = flatten(tree)
    if not agree(actual_tree, treedef):
        parting = difference(treedef, actual_tree, ("expected", "got"))
        raise ArityError(f"{what} has another structure: {parting}")
    for leaf, wanted in zip(leaves, like, strict=True):
        spec = spec_of(as_operand(leaf))
        if wanted is not None and spec != wanted.type:
            raise ShapeError(f"{what} must be {wanted.type}, got {spec}")
    return leaves


def _positional(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Return all arguments of a call of `fn` by position, including defaults."""
    if not kwargs:
        return args
    import inspect

    bound = inspect.signature(fn).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise InvalidConfigError(f"arguments {sorted(bound.kwargs)} can only be given by keyword")
    return bound.args


def _positions(name: str, argnums: int | Sequence[int]) -> frozenset[int]:
    positions = argnums if isinstance(argnums, tuple | list) else (argnums,)
    if not all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in positions):
        raise InvalidConfigError(
            f"{name}: argument numbers must be integers from 0, got {argnums!r}"
        )
    return frozenset(cast("Sequence[int]", positions))


def _require_callable(name: str, fn: Callable[..., Any]) -> None:
    if not callable(fn):
        raise InvalidConfigError(f"{name}: expected a function, got {fn!r:.60}")

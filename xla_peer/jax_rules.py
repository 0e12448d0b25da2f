"""Derivative rules that JAX functions define, kept in programs that `from_jax` imports.

StableHLO cannot express `custom_jvp`, `custom_vjp`, custom linear solves and `stop_gradient`, and some functions that
JAX differentiates by a formula are lowered to loops. So each call with such a rule in a jaxpr is rewritten as a call of
a private function of the module. The import puts a mark on the results of such a function. When a marked call is
differentiated, JAX traces the tangent or the pullback of the original call, which is then imported.

For a complex cotangent y_bar, JAX computes J^T y_bar, but tenferro computes J^H y_bar, with the Jacobian J. The
conversion is J^H y_bar = conj(J^T conj(y_bar)).

Relies on jax.extend.core, and on the names of primitives in `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenferro.ad.algebra import Value, conj, full, power
from tenferro.errors import ADRuleUnsupportedError
from tenferro.graph import Mark, Opaque, StopGradient
from tenferro.interruption import is_interruption
from tenferro.program import BoundedCache, GraphProgram, KeptMark, Subprogram
from tenferro.types import TensorSpec
from xla_peer import pjrt

__all__ = ["JaxRule", "LostRule", "with_rules"]

FUNCTION = "tenferro_rule_"
"""Prefix of the names of the private functions that replace calls with rules."""

RULES: Mapping[str, str] = {
    "custom_jvp_call": "custom_jvp",
    "custom_vjp_call": "custom_vjp",
    "custom_vjp_call_jaxpr": "custom_vjp",
    "custom_linear_solve": "custom_linear_solve",
    "call_hi_primitive": "hi_primitive",
    "stop_gradient": "stop_gradient",
    "logistic": "logistic",
    "integer_pow": "integer_pow",
    **dict.fromkeys(
        [
            "bessel_i0e", "bessel_i1e", "igamma", "igammac", "igamma_grad_a", "random_gamma", "random_gamma_grad",
            "regularized_incomplete_beta",
        ],
        "formula",
    ),
}  # fmt: skip
"""Names of JAX's primitives whose derivative rules StableHLO cannot express, with the kind of the rule.

A `hi_primitive`, which later versions of JAX use for `ldexp` and many other functions, may define a tangent, a
pullback, or both.
"""

Import = Callable[..., GraphProgram]


def with_rules(jaxpr: Any, import_: Import) -> tuple[Any, dict[str, Any]]:
    """Move each call with a derivative rule in a jaxpr to a separate function; return the new jaxpr and its rules.

    The rules are a dictionary from the name of each separate function to a Python function, which creates the mark of a
    call.

    Args:
        jaxpr: a closed jaxpr.
        import_: the function `from_jax`, which imports the derivatives.
    """
    rewriting = _Rewriting(import_)
    return rewriting.closed(jaxpr), rewriting.marks


class _Rewriting:
    """Rewriter of a jaxpr: it moves the calls that have rules to separate functions.

    Attributes:
        marks: the function that creates the mark of each separate function, by its name.
    """

    def __init__(self, import_: Import) -> None:
        self.marks: dict[str, Callable[[int, int, tuple[int, ...]], Mark]] = {}
        self._import = import_
        self._done: dict[int, tuple[Any, Any]] = {}
        self._jax, _ = pjrt.modules()
        from jax.extend import core

        self._core = core

    def closed(self, jaxpr: Any) -> Any:
        """Return a closed jaxpr with its calls rewritten."""
        open_ = self.open(jaxpr.jaxpr)
        return jaxpr if open_ is jaxpr.jaxpr else self._core.ClosedJaxpr(open_, jaxpr.consts)

    def open(self, jaxpr: Any) -> Any:
        """Return a jaxpr with its calls rewritten.

        Equal arguments return the identical object, because jax's lowering caches functions by identity.
        """
        if id(jaxpr) not in self._done:
            eqns = [self._equation(eqn) for eqn in jaxpr.eqns]
            is_same = all([new is eqn for new, eqn in zip(eqns, jaxpr.eqns, strict=True)])
            self._done[id(jaxpr)] = jaxpr, jaxpr if is_same else jaxpr.replace(eqns=eqns)
        return self._done[id(jaxpr)][1]

    def _equation(self, eqn: Any) -> Any:
        kind = _kind(eqn)
        if kind is not None:
            return self._called(eqn, kind)
        params = {key: self._parameter(value) for key, value in eqn.params.items()}
        if all([params[key] is value for key, value in eqn.params.items()]):
            return eqn
        return eqn.replace(params=params)

    def _parameter(self, value: Any) -> Any:
        """Return a parameter of an equation, with the jaxprs in it rewritten."""
        if isinstance(value, self._core.ClosedJaxpr):
            return self.closed(value)
        if isinstance(value, self._core.Jaxpr):
            return self.open(value)
        if type(value) is tuple or type(value) is list:
            parts = [self._parameter(part) for part in value]
            is_same = all([new is part for new, part in zip(parts, value, strict=True)])
            return value if is_same else type(value)(parts)
        return value

    def _called(self, eqn: Any, kind: str) -> Any:
        """Return an equation that calls a separate function, whose only equation is the given one."""
        core = self._core
        variables = list(dict.fromkeys(_variables(core, eqn)))
        outvars = [y for y in eqn.outvars if type(y).__name__ != "DropVar"]
        alone = core.Jaxpr((), variables, outvars, [eqn], eqn.effects)
        evaluate = core.jaxpr_as_fun(core.ClosedJaxpr(alone, ()))

        def call(*operands: Any) -> list[Any]:
            return evaluate(*operands)

        call.__name__ = name = f"{FUNCTION}{len(self.marks)}"
        avals = [x.aval for x in variables]
        types = [self._jax.ShapeDtypeStruct(x.shape, x.dtype, weak_type=x.weak_type) for x in avals]
        (new,) = self._jax.make_jaxpr(self._jax.jit(call))(*types).jaxpr.eqns
        formula = FORMULAS.get(kind)
        if formula is None:
            self.marks[name] = JaxRule(_shown(eqn), kind, call, avals, self._import).mark
        else:
            self.marks[name] = lambda _, __, takes: formula(eqn, takes)
        return new.replace(invars=variables, outvars=outvars)


def _variables(core: Any, eqn: Any) -> list[Any]:
    return [x for x in eqn.invars if not isinstance(x, core.Literal)]


def _kind(eqn: Any) -> str | None:
    """Return the kind of an equation's rule; None if StableHLO can express its derivative, as for x^n with n >= -1."""
    kind = RULES.get(eqn.primitive.name)
    if kind == "integer_pow" and (eqn.params["y"] >= -1 or eqn.outvars[0].aval.dtype.kind == "c"):
        return None
    return kind


def _shown(eqn: Any) -> str:
    """Return the name of the function to which the derivative rule of an equation belongs."""
    if "_prim" in eqn.params:
        return type(eqn.params["_prim"]).__name__
    names = eqn.params.get("name"), getattr(eqn.params.get("call_jaxpr"), "jaxpr", None)
    if isinstance(names[0], str):
        return names[0]
    info = getattr(names[1], "debug_info", None)
    return getattr(info, "func_name", None) or eqn.primitive.name


class JaxRule:
    """A call in a JAX function whose derivative rule JAX defines.

    Args:
        name: the name of the called function, for error messages.
        kind: kind of the rule, a value of `RULES`.
        call: the call, a JAX function of arrays that returns a list.
        avals: the types of the call's arguments, as JAX's abstract values.
        import_: the function `from_jax`, which imports the derivatives.

    Attributes:
        name, kind: the arguments.
        is_static: whether all extents of the arguments are numbers, not symbols.
    """

    def __init__(
        self, name: str, kind: str, call: Callable[..., Any], avals: Sequence[Any], import_: Import
    ) -> None:
        self.name = name
        self.kind = kind
        self._call = call
        self.is_static = all([isinstance(n, int) for aval in avals for n in aval.shape])
        self._import = import_
        self._jax, _ = pjrt.modules()
        self._programs: BoundedCache[Any] = BoundedCache(16)
        self._impls = [_key_impl(self._jax, aval) for aval in avals]

    def call(self, *operands: Any) -> list[Any]:
        """Call the function on arrays; the arrays of random keys are converted to JAX's keys."""
        xs = [
            x if impl is None else self._jax.random.wrap_key_data(x, impl=impl)
            for x, impl in zip(operands, self._impls, strict=True)
        ]
        return self._call(*xs)

    def mark(self, operand_count: int, result_count: int, takes: tuple[int, ...]) -> Mark:
        """Create the mark of a call.

        Args:
            takes: positions of the marked results in the list of the call's operands, followed by its results.
        """
        return _RuleMark(self, operand_count, result_count, takes)

    def _of_active(self, xs: Sequence[Any], active: Sequence[bool], outputs: Sequence[int]) -> Any:
        """Return the outputs `outputs` as a function of the active arguments; the other arguments are fixed to `xs`."""

        def fn(*chosen: Any) -> list[Any]:
            free = iter(chosen)
            ys = self.call(*[next(free) if here else x for x, here in zip(xs, active, strict=True)])
            return [ys[i] for i in outputs]

        return fn

    def tangents(
        self, specs: Sequence[TensorSpec], active: tuple[bool, ...], outputs: tuple[int, ...]
    ) -> Subprogram:
        """Return a program that computes the tangents of the outputs `outputs`.

        Its inputs are all arguments, followed by a tangent for each argument that `active` flags.
        """
        count = len(active)

        def fn(*operands: Any) -> Any:
            xs, dots = operands[:count], operands[count:]
            chosen = [x for x, here in zip(xs, active, strict=True) if here]
            return self._jax.jvp(self._of_active(xs, active, outputs), chosen, list(dots))[1]

        types = [*specs, *[spec for spec, here in zip(specs, active, strict=True) if here]]
        key = ("tangents", tuple(specs), active, outputs)
        return self._programs.get(key, lambda: self._imported(fn, types))

    def pullback(
        self, specs: Sequence[TensorSpec], active: tuple[bool, ...], outputs: tuple[int, ...]
    ) -> tuple[Subprogram, Subprogram]:
        """Return two programs: the first computes residuals, the second cotangents of the arguments.

        The first program's inputs are the arguments. The second program's inputs are the residuals and the cotangents
        of the outputs.

        Only the outputs in `outputs` and the arguments that `active` flags have cotangents.
        """

        def make() -> tuple[Subprogram, Subprogram]:
            tree_util, seen = self._jax.tree_util, dict[str, Any]()

            def forward(*xs: Any) -> Any:
                chosen = [x for x, here in zip(xs, active, strict=True) if here]
                ys, pull = self._jax.vjp(self._of_active(xs, active, outputs), *chosen)
                leaves, seen["tree"] = tree_util.tree_flatten(pull)
                seen["ys"] = [TensorSpec(y.shape, y.dtype) for y in ys]
                seen["is_array"] = [hasattr(leaf, "aval") for leaf in leaves]
                seen["rest"] = [leaf for leaf in leaves if not hasattr(leaf, "aval")]
                return [leaf for leaf in leaves if hasattr(leaf, "aval")]

            first = self._imported(forward, specs)

            def backward(*operands: Any) -> Any:
                given, rest = iter(operands), iter(seen["rest"])
                leaves = [next(given if here else rest) for here in seen["is_array"]]
                return list(seen["tree"].unflatten(leaves)(list(given)))

            return first, self._imported(backward, [*first.output_specs, *seen["ys"]])

        return self._programs.get(("pullback", tuple(specs), active, outputs), make)

    def transposed(
        self,
        specs: Sequence[TensorSpec],
        linear: tuple[bool, ...],
        outputs: tuple[int, ...],
        bars: Sequence[TensorSpec],
    ) -> Subprogram:
        """Return a program that computes cotangents of the arguments that `linear` flags.

        Its inputs are the other arguments, followed by cotangents of the outputs, whose types are `bars`.
        """
        fixed = [spec for spec, here in zip(specs, linear, strict=True) if not here]

        def fn(*operands: Any) -> Any:
            jax, given = self._jax, iter(operands)
            xs = [None if here else next(given) for here in linear]
            unknown = [
                jax.ShapeDtypeStruct(spec.shape, spec.dtype.dtype)
                for spec, here in zip(specs, linear, strict=True)
                if here
            ]
            pull = jax.linear_transpose(self._of_active(xs, linear, outputs), *unknown)
            return list(pull(list(given)))

        key = ("transposed", tuple(specs), linear, outputs)
        return self._programs.get(key, lambda: self._imported(fn, [*fixed, *bars]))

    def _imported(self, fn: Callable[..., Any], specs: Sequence[TensorSpec]) -> Subprogram:
        """Trace a derivative with JAX, and import it with marks for the rules in it.

        Raises:
            ADRuleUnsupportedError: JAX cannot trace the derivative, or extents are symbolic.
        """
        if not self.is_static or not all([spec.is_static for spec in specs]):
            raise self.refusal(
                "its rule is JAX's, which needs numbers for extents; import it without symbols"
            )
        try:
            program = self._import(fn, *specs)
        except Exception as error:
            if is_interruption(error):
                raise
            raise self.refusal(
                f"JAX does not trace its derivative: {type(error).__name__}: {error}"
            ) from error
        return Subprogram.of_program(program) if program.marked is None else program.marked

    def refusal(self, reason: str) -> ADRuleUnsupportedError:
        """Create the error for a call whose derivative cannot be computed, for the given reason."""
        return ADRuleUnsupportedError(f"{self.kind} {self.name}: {reason}")


def _key_impl(jax: Any, aval: Any) -> Any:
    """Return the implementation of random keys, such as "threefry2x32", if a type is JAX's key type; else None."""
    if not jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return None
    seen: list[Any] = []
    jax.eval_shape(lambda key: seen.append(jax.random.key_impl(key)), aval)
    return seen[0]


class _Stopped(KeptMark, StopGradient):
    """Mark of a stopped gradient."""

    __slots__ = ()


class _Elementwise(KeptMark):
    """Mark of an elementwise function y of x; its last operands are x and y, and its tangent is a formula."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return type(self), (self.takes,)

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the index of x among the mark's operands; symbolic extents precede it."""
        return (self.takes[0] - 1,)


class _Logistic(_Elementwise):
    """Mark of y = 1 / (1 + e^-x), whose tangent is y (1 - y) x_dot.

    JAX lowers its logistic function to this formula, whose own derivative is infinity times 0 if e^-x overflows.
    """

    __slots__ = ()

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Compute the tangent of y, in which y is the marked result, so that the rule holds to any order."""
        (*_, x_dot, _), (y,) = tangents, outputs
        return (None if x_dot is None else y * (1 - y) * x_dot,)


class _IntegerPower(_Elementwise):
    """Mark of y = x^n, whose tangent is n x^(n - 1) x_dot.

    If n is negative, JAX lowers y to one divided by products. The derivative of these steps is infinity times 0 where a
    product overflows, and where x is 0.
    """

    __slots__ = ("exponent",)

    def __init__(self, takes: tuple[int, ...], exponent: int) -> None:
        super().__init__(takes)
        self.exponent = exponent

    def __reduce__(self) -> Any:
        return _IntegerPower, (self.takes, self.exponent)

    @property
    def key(self) -> Any:
        """The key that identifies the mark."""
        return (_IntegerPower, self.takes, self.exponent)

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Compute the tangent of y by a power of x."""
        (*_, x_dot, _), (*_, x, _) = tangents, inputs
        if x_dot is None:
            return (None,)
        return (self.exponent * power(x, full(x, self.exponent - 1)) * x_dot,)


FORMULAS: Mapping[str, Callable[[Any, tuple[int, ...]], Mark]] = {
    "stop_gradient": lambda eqn, takes: _Stopped(takes),
    "logistic": lambda eqn, takes: _Logistic(takes),
    "integer_pow": lambda eqn, takes: _IntegerPower(takes, eqn.params["y"]),
}
"""Functions that create the mark of an equation, by the kind of its rule, where the rule needs no trace of JAX."""


class _RuleMark(KeptMark):
    """Mark of a call of a JAX function with a derivative rule.

    The mark's operands are the operands of the call, followed by its results.
    """

    __slots__ = ("operand_count", "result_count", "rule")

    def __init__(
        self, rule: JaxRule, operand_count: int, result_count: int, takes: tuple[int, ...]
    ) -> None:
        super().__init__(takes)
        self.rule = rule
        self.operand_count = operand_count
        self.result_count = result_count

    def __reduce__(self) -> Any:
        """Pickle the mark as a `LostRule`, because JAX's function cannot be pickled."""
        return LostRule, (f"{self.rule.kind} {self.rule.name}", self.operand_count, self.takes)

    @property
    def name(self) -> str:
        """The kind of the rule, and its function."""
        return f"{self.rule.kind} of {self.rule.name}"

    @property
    def key(self) -> Any:
        """The key that identifies the mark."""
        return (_RuleMark, self.rule, self.operand_count, self.takes)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The indices of the marked results among the results of the call."""
        return tuple([position - self.operand_count for position in self.takes])

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the indices of the mark's operands through which derivatives flow: the operands of the call.

        The call's own steps are not differentiated.
        """
        return tuple(range(self.operand_count))

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Compute tangents by JAX's rule.

        If the rule is a pullback, which computes only cotangents, the tangents are opaque values that can only be
        transposed.
        """
        n = self.operand_count
        active = tuple([dot is not None for dot in tangents[:n]])
        if not any(active):
            return (None,) * len(outputs)
        specs = [x.type for x in inputs[:n]]
        xs = [x.handle for x in inputs[:n]]
        dots = [dot.handle for dot in tangents[:n] if dot is not None]
        is_pulled = self.rule.kind == "hi_primitive" and mode == "reverse"
        if self.rule.kind != "custom_vjp" and not is_pulled:
            part = self.rule.tangents(specs, active, self.outputs)
            return emitter.values(part.emit(emitter.graph, [*xs, *dots], emitter.source))
        forward, backward = self.rule.pullback(specs, active, self.outputs)
        residuals = forward.emit(emitter.graph, xs, emitter.source)
        pulled = _Pulled(self.rule, tuple([y.type for y in outputs]), len(residuals), backward)
        return emitter.values(emitter.graph.add(pulled, (*residuals, *dots), emitter.source))

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Compute cotangents of linear operands: by JAX's rule if it has a transpose, else by the call's own steps."""
        if self.rule.kind not in ("custom_linear_solve", "hi_primitive"):
            return super().transpose(emitter, inputs, linear, y_bars)
        n = self.operand_count
        mask = tuple(linear[:n])
        types = [inputs[position].type for position in self.takes]
        part = self.rule.transposed([x.type for x in inputs[:n]], mask, self.outputs, types)
        fixed = [x.handle for x, here in zip(inputs[:n], mask, strict=True) if not here]
        bars = _conjugated(emitter, y_bars, types)
        x_bars = iter(emitter.values(part.emit(emitter.graph, [*fixed, *bars], emitter.source)))
        cotangents = [conj(next(x_bars)) if here else None for here in mask]
        return (*cotangents, *([None] * (len(inputs) - n)))


class _Pulled(Opaque):
    """Opaque tangent of a function for which JAX defines only a pullback."""

    __slots__ = ("backward", "rule")

    def __init__(
        self, rule: JaxRule, types: tuple[TensorSpec, ...], count: int, backward: Subprogram
    ) -> None:
        super().__init__(
            types,
            count,
            f"{rule.kind} {rule.name}: JAX states its pullback and no tangent, so that forward mode (jvp, jacfwd, "
            "hvp) cannot pass it",
        )
        self.rule = rule
        self.backward = backward

    def transpose(self, emitter: Any, inputs: Any, linear: Any, y_bars: Any) -> Any:
        """Compute cotangents of the active arguments with the pullback."""
        residuals = [x.handle for x in inputs[: self.first_linear]]
        bars = _conjugated(emitter, y_bars, self.types)
        x_bars = self.backward.emit(emitter.graph, [*residuals, *bars], emitter.source)
        return (*([None] * self.first_linear), *map(conj, emitter.values(x_bars)))


def _conjugated(
    emitter: Any, bars: Sequence[Value | None], types: Sequence[TensorSpec]
) -> list[int]:
    """Convert cotangents to JAX's convention, with zeros for missing cotangents."""
    return [
        emitter.zeros(spec) if bar is None else conj(bar).handle
        for bar, spec in zip(bars, types, strict=True)
    ]


class LostRule(KeptMark):
    """Mark of a call whose rule was lost, for example by pickling; the call cannot be differentiated.

    Args:
        shown: the kind of the rule, and its function.
        operand_count: the number of the call's operands, which come before its results.
        takes: positions of the marked results in the list of the call's operands, followed by its results.
    """

    __slots__ = ("operand_count", "shown")

    def __init__(self, shown: str, operand_count: int, takes: tuple[int, ...]) -> None:
        super().__init__(takes)
        self.shown = shown
        self.operand_count = operand_count

    def __reduce__(self) -> Any:
        return LostRule, (self.shown, self.operand_count, self.takes)

    @property
    def name(self) -> str:
        """The kind of the rule, and its function."""
        return self.shown

    @property
    def key(self) -> Any:
        """The key that identifies the lost rule."""
        return (LostRule, self.shown, self.operand_count, self.takes)

    def differentiates(self, mode: str) -> tuple[int, ...]:
        """Return the indices of the mark's operands through which derivatives flow: the operands of the call."""
        return tuple(range(self.operand_count))

    def linearize(self, emitter: Any, inputs: Any, outputs: Any, tangents: Any, mode: str) -> Any:
        """Raise the error of a lost rule.

        Raises:
            ADRuleUnsupportedError: always, because the rule was not saved.
        """
        if all([dot is None for dot in tangents[: self.operand_count]]):
            return (None,) * len(outputs)
        raise ADRuleUnsupportedError(
            f"{self.shown}: JAX states its derivative, and the rule is not in a program that was pickled; import it "
            "again by from_jax, or import the derivative, from_jax(jax.grad(f), *specs)"
        )

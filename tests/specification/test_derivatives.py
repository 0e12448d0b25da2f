"""Derivatives and batches: the arguments and results of rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.extension import (
    ExtensionAdRule,
    ExtensionRuleSet,
    HostReferenceRuntime,
    apply,
    check_extension,
)
from tenferro.extension.algebra import reduce_sum
from tests.specification.operations import X, operation
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "derivatives",
    "Derivatives and batches",
    "The rules of a family return tangents, cotangents and batches, as standard ops and operations with rules of their own. "
    "The tangent of an inactive value is None.",
)
V = np.array([3.0, -1.0, 0.5])


class Rule(ExtensionAdRule):
    """Derivative rule and batch rule of the operation y = x^2."""

    family_id = "specification.ruled.v1"

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return 2.0 * primals[0] * tangents[0]

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, inputs[0])


class Linear(ExtensionAdRule):
    """Linear rule and transpose rule of the operation y = 2 x."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return builder.apply(op, tangents[0])

    def transpose_rule(self, op: Any, builder: Any, inputs: Any, linear: Any, bars: Any) -> Any:
        return builder.apply(op, bars[0])


def ruled(rules: Any = Rule, **members: Any) -> Any:
    """Return an operation y = x^2 of a family that has these rules."""
    members.setdefault("eager_execute", lambda self, inputs: [inputs[0] ** 2])
    return operation("ruled", rules=rules, **members)


def with_rule(base: Any, **roles: Any) -> Any:
    """Return a subclass of a rule. `roles` are functions that replace the methods of these names."""
    return type("Changed", (base,), {key: staticmethod(role) for key, role in roles.items()})


def linear(rules: Any = Linear, **members: Any) -> Any:
    """Return an operation y = 2 x of a family that has these rules."""
    return ruled(rules, eager_execute=lambda self, inputs: [2.0 * inputs[0]], **members)


def energy(x: Any) -> Any:
    """Return the sum of x^4, computed by two operations. Its derivatives are 4 x^3 and 12 x^2."""
    op = ruled()
    return tnf.sum(apply(op, apply(op, x)))


# ---- owners of rules -----------------------------------------------------------------------------


@chapter.works(1, "Rules belong to the family, not to the operation class.")
def test_rules_of_the_family() -> None:
    np.testing.assert_allclose(tnf.grad(energy)(X), 4 * X**3, rtol=1e-15)


@chapter.works(2, "The rules of an `AdContext` take precedence over those of the family.")
def test_rules_of_a_context() -> None:
    tripled = with_rule(Rule, linearize=lambda op, b, xs, ys, dots: 3.0 * dots[0])
    context = tnf.AdContext(ExtensionRuleSet([tripled()]))
    loss = lambda x: tnf.sum(apply(ruled(), x))
    np.testing.assert_array_equal(tnf.grad(loss, context=context)(X), [3.0] * 3)
    np.testing.assert_array_equal(tnf.grad(loss)(X), 2 * X)


@chapter.differs(
    3,
    "A context is created from its rule sets, `AdContext(*rule_sets)`, without a builder.",
    because="a context is immutable",
)
def test_contexts_without_builders() -> None:
    assert not hasattr(tnf.AdContext, "builder")
    one, other = Rule(), with_rule(Rule, family_id=None)()
    type(other).family_id = "specification.second.v1"
    context = tnf.AdContext(ExtensionRuleSet([one]), ExtensionRuleSet([other]))
    assert set(context.extension_rules) == {Rule.family_id, "specification.second.v1"}


@chapter.works(4, "Two rules for a family in one context are an error.")
def test_two_rules() -> None:
    with pytest.raises(errors.DuplicateFamilyError, match=Rule.family_id):
        ExtensionRuleSet([Rule(), Rule()])
    with pytest.raises(errors.DuplicateFamilyError, match=Rule.family_id):
        tnf.AdContext(ExtensionRuleSet([Rule()]), ExtensionRuleSet([Rule()]))


@chapter.works(
    5,
    "An operation without a rule is an error that names the family and the role: no gradient is dropped.",
)
def test_no_rule() -> None:
    op = ruled(rules=None)
    with pytest.raises(errors.ADRuleUnsupportedError, match=r"ruled\.v1: no linearize rule"):
        tnf.grad(lambda x: tnf.sum(apply(op, x)))(X)
    x = tnf.EagerRuntime().variable(X)
    with pytest.raises(errors.ADRuleUnsupportedError, match=r"ruled\.v1: no linearize rule"):
        tnf.sum(apply(op, x)).backward()
    half = linear(with_rule(ExtensionAdRule, linearize=Linear().linearize))
    with pytest.raises(errors.ADRuleUnsupportedError, match=r"ruled\.v1: no transpose_rule"):
        tnf.grad(lambda x: tnf.sum(apply(half, x)))(X)


@chapter.works(
    6, "If a rule applies an operation without a rule, the error comes when that rule is needed."
)
def test_no_rule_of_second_order() -> None:
    bare = operation("bare", eager_execute=lambda self, inputs: [2.0 * inputs[0]])
    slope = lambda op, b, xs, ys, dots: b.apply(bare, xs[0]) * dots[0]
    loss = lambda x: tnf.sum(apply(ruled(with_rule(Rule, linearize=slope)), x))
    np.testing.assert_array_equal(tnf.grad(loss)(X), 2 * X)
    with pytest.raises(errors.ADRuleUnsupportedError, match=r"bare\.v1: no linearize rule"):
        tnf.hessian(loss)(X)


@chapter.works(7, "An operation without active inputs needs no rule.")
def test_inactive_operations() -> None:
    op = ruled(rules=None)
    loss = lambda x: tnf.sum(x * apply(op, X))
    np.testing.assert_array_equal(tnf.grad(loss)(X), X**2)
    stopped = lambda x: tnf.sum(x * tnf.stop_gradient(apply(op, x)))
    np.testing.assert_array_equal(tnf.grad(stopped)(X), X**2)


# ---- arguments of rules ------------------------------------------------------------------------


@chapter.works(8, "`linearize` receives the operation, the inputs, the outputs and the tangents.")
def test_arguments_of_linearize() -> None:
    seen: dict[str, Any] = {}

    def linearize(op: Any, b: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        seen.update(op=op, counts=(len(primals), len(outputs), len(tangents)))
        return tangents[0], None

    op = ruled(
        with_rule(Rule, linearize=linearize),
        input_count=3,
        output_count=2,
        infer_output_meta=lambda self, d, s: [(d[0], s[0])] * 2,
        eager_execute=lambda self, inputs: [inputs[0] + 0, inputs[1] + 0],
    )
    tnf.jvp(lambda x: apply(op, x, X, X)[0], (X,), (V,))
    assert seen == {"op": op, "counts": (3, 2, 3)}


@chapter.works(9, "The tangent of an inactive input is None.")
def test_inactive_tangents() -> None:
    seen = []

    def linearize(op: Any, b: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        seen.append([tangent is None for tangent in tangents])
        return tangents[1]

    op = ruled(
        with_rule(Rule, linearize=linearize),
        input_count=2,
        eager_execute=lambda self, inputs: [inputs[0] + inputs[1]],
    )
    np.testing.assert_array_equal(tnf.jvp(lambda y: apply(op, X, y), (X,), (V,))[1], V)
    assert seen == [[True, False]]


@chapter.works(10, "A rule returns None for a tangent that is zero.")
def test_zero_tangents() -> None:
    op = ruled(with_rule(Rule, linearize=lambda *arguments: None))
    np.testing.assert_array_equal(tnf.grad(lambda x: tnf.sum(apply(op, x)))(X), np.zeros(3))


@chapter.works(11, "Inactive values need no zeros: they add no instruction to the program.")
def test_no_zeros() -> None:
    op = ruled(with_rule(Rule, linearize=lambda *arguments: None))
    program = tnf.compile(lambda x: tnf.jvp(lambda x: tnf.exp(apply(op, x)), (x,), (x,)), X)
    ops = [
        i.op.name for i in program.instructions if i.op.name not in ("Constant", "BroadcastInDim")
    ]
    assert ops == [op.family_id, "Exp"]


@chapter.works(12, "Values in rules have a dtype and a shape, also with symbols.")
def test_metadata_of_values() -> None:
    seen = []

    def linearize(op: Any, b: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        seen.append((primals[0].shape, primals[0].dtype, tangents[0].type))
        return 2.0 * primals[0] * tangents[0]

    loss = lambda x: tnf.sum(apply(ruled(with_rule(Rule, linearize=linearize)), x))
    spec = tnf.TensorSpec(("n",), "float64")
    np.testing.assert_array_equal(tnf.compile(tnf.grad(loss), spec).run(X), 2 * X)
    assert seen == [((tnf.SymDim("n"),), tnf.DType.F64, spec)]


@chapter.differs(
    13,
    "The argument `linear` of `transpose_rule` lists the inputs to transpose; there is no mode.",
    because="a rule can check each input",
)
def test_linear_inputs() -> None:
    seen = []

    def linearize(op: Any, b: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return b.apply(op, primals[0], tangents[1])

    def transpose_rule(op: Any, b: Any, inputs: Any, linear: Any, bars: Any) -> Any:
        seen.append(linear)
        return None, inputs[0] * bars[0]

    op = ruled(
        with_rule(Rule, linearize=linearize, transpose_rule=transpose_rule),
        input_count=2,
        eager_execute=lambda self, inputs: [inputs[0] * inputs[1]],
    )
    gradient = tnf.grad(lambda y: tnf.sum(apply(op, X, y)))(V)
    np.testing.assert_array_equal(gradient, X)
    assert seen == [(False, True)]


@chapter.differs(
    14,
    "Rules query no context: dtypes and shapes are attributes of the values.",
    because="metadata is in one place and cannot be out of date",
)
def test_no_context_argument() -> None:
    from inspect import signature

    assert "ctx" not in signature(ExtensionAdRule.linearize).parameters
    assert "ctx" not in signature(ExtensionAdRule.transpose_rule).parameters


@chapter.works(15, "In rules, tenferro's functions and Python's operators accept values.")
def test_functions_in_rules() -> None:
    def linearize(op: Any, b: Any, xs: Any, ys: Any, dots: Any) -> Any:
        return tnf.where(xs[0] > 1.5, tnf.exp(xs[0]), -1) * dots[0] / 2 + 0 * dots[0]

    gradient = tnf.grad(lambda x: tnf.sum(apply(ruled(with_rule(Rule, linearize=linearize)), x)))
    np.testing.assert_allclose(gradient(X), np.where(X > 1.5, np.exp(X), -1) / 2, rtol=1e-15)


@chapter.works(16, "Rules may emit standard ops and other operations that have rules.")
def test_operations_in_rules() -> None:
    double = operation("double", rules=Linear, eager_execute=lambda self, inputs: [2.0 * inputs[0]])
    slope = lambda op, b, xs, ys, dots: b.apply(double, xs[0]) * dots[0]
    op = ruled(with_rule(Rule, linearize=slope))
    np.testing.assert_array_equal(
        tnf.jvp(tnf.grad(lambda x: tnf.sum(apply(op, x))), (X,), (V,))[1], 2 * V
    )


# ---- results of rules -----------------------------------------------------------------------------


@chapter.table(
    "change, kind, words",
    {
        17: Row("A tangent of another shape is an error.", lambda x: reduce_sum(x, (0,)), errors.ShapeError, r"f64\[3\], got f64\[\]"),
        18: Row("A tangent of another dtype is an error.", lambda x: tnf.astype(x, "float32"), errors.DTypeError, r"f64\[3\], got f32\[3\]"),
        19: Row("A tangent that is an array is an error.", lambda x: np.ones(3), errors.InvalidConfigError, "must be a Value"),
        20: Row("A wrong number of tangents is an error.", lambda x: (x, x), errors.InvalidConfigError, "gives 2 values, expected 1"),
    },
)  # fmt: skip
def test_tangents_that_are_refused(change: Any, kind: Any, words: str) -> None:
    op = ruled(with_rule(Rule, linearize=lambda op, b, xs, ys, dots: change(dots[0])))
    with pytest.raises(kind, match=rf"ruled\.v1.*linearize.*{words}"):
        tnf.jvp(lambda x: apply(op, x), (X,), (V,))


@chapter.table(
    "change, kind, words",
    {
        21: Row("A cotangent of another shape is an error.", lambda x: reduce_sum(x, (0,)), errors.ShapeError, r"f64\[3\], got f64\[\]"),
        22: Row("A cotangent of another dtype is an error.", lambda x: tnf.astype(x, "float32"), errors.DTypeError, r"f64\[3\], got f32\[3\]"),
        23: Row("A wrong number of cotangents is an error.", lambda x: (x, x), errors.InvalidConfigError, "gives 2 values, expected 1"),
    },
)  # fmt: skip
def test_cotangents_that_are_refused(change: Any, kind: Any, words: str) -> None:
    op = linear(with_rule(Linear, transpose_rule=lambda op, b, xs, lin, bars: change(bars[0])))
    with pytest.raises(kind, match=rf"ruled\.v1.*transpose_rule.*{words}"):
        tnf.grad(lambda x: tnf.sum(apply(op, x)))(X)


@chapter.works(24, "An error raised by a rule is reported with its family and the user's line.")
def test_a_rule_that_raises() -> None:
    def fails(*arguments: Any) -> Any:
        raise KeyError("axis")

    for role in ("linearize", "transpose_rule", "batch_rule"):
        op = linear(with_rule(Linear, **{role: fails}))
        words = rf"(?s)ruled\.v1: {role} of .* failed: KeyError: 'axis'.*test_derivatives"
        transform = tnf.vmap if role == "batch_rule" else tnf.jacrev
        with pytest.raises(errors.InvalidConfigError, match=words) as caught:
            transform(lambda x, op=op: apply(op, x))(np.stack([X, V]))
        assert isinstance(caught.value.__cause__, KeyError)


@chapter.works(49, "A tenferro error raised in a rule keeps its class and names the family.")
def test_an_error_in_a_rule() -> None:
    def unequal(op: Any, b: Any, inputs: Any, batched: Any) -> Any:
        return inputs[0] + reduce_sum(inputs[0], (0,))

    op = linear(with_rule(Linear, batch_rule=unequal))
    with pytest.raises(
        errors.ShapeError, match=r"(?s)ruled\.v1: batch_rule of .*: Add: .*test_derivatives"
    ):
        tnf.vmap(lambda x: apply(op, x))(np.stack([X, V]))


# ---- the transforms ------------------------------------------------------------------------------

C = tnf.AdContext(ExtensionRuleSet([Rule()]))


def bare(x: Any) -> Any:
    """Return x^2, computed by an operation whose family has no rule. Only a context can have a rule for it."""
    return apply(ruled(rules=None), x)


def bare_energy(x: Any) -> Any:
    return tnf.sum(bare(bare(x)))


@chapter.table(
    "transform, expected",
    {
        25: Row("`grad` uses the given context.", lambda: tnf.grad(bare_energy, context=C)(X), 4 * X**3),
        26: Row("`value_and_grad` uses the given context.", lambda: tnf.value_and_grad(bare_energy, context=C)(X)[1], 4 * X**3),
        27: Row("`jvp` uses the given context.", lambda: tnf.jvp(bare, (X,), (V,), context=C)[1], 2 * X * V),
        28: Row("`vjp` uses the given context.", lambda: tnf.vjp(bare, X, context=C)[1](V)[0], 2 * X * V),
        29: Row("`linearize` uses the given context.", lambda: tnf.linearize(bare, X, context=C)[1](V), 2 * X * V),
        30: Row("`hvp` uses the given context.", lambda: tnf.hvp(bare_energy, (X,), (V,), context=C), 12 * X**2 * V),
        31: Row("`hessian` uses the given context.", lambda: tnf.hessian(bare_energy, context=C)(X), np.diag(12 * X**2)),
        32: Row("`jacfwd` uses the given context.", lambda: tnf.jacfwd(bare, context=C)(X), np.diag(2 * X)),
        33: Row("`jacrev` uses the given context.", lambda: tnf.jacrev(bare, context=C)(X), np.diag(2 * X)),
        34: Row("`vmap` uses the given context.", lambda: tnf.vmap(bare, context=C)(np.stack([X, V])), np.stack([X, V]) ** 2),
    },
)  # fmt: skip
def test_transforms_use_the_context(transform: Any, expected: Any) -> None:
    np.testing.assert_allclose(transform(), expected, rtol=1e-14)


@chapter.works(35, "`check_grads` and `check_parity` use the given context.")
def test_tools_use_the_context() -> None:
    assert tnf.check_grads(bare_energy, (X,), order=2, context=C).ok
    with pytest.raises(errors.ADRuleUnsupportedError, match=Rule.family_id):
        tnf.check_grads(bare_energy, (X,), order=1)
    with pytest.raises(errors.TenferroError, match=Rule.family_id):
        xla_peer.check_parity(bare_energy, X, grad=True)


@chapter.works(36, "Derivatives run on the given executor; only this executor needs the runtime.")
def test_transforms_use_the_executor() -> None:
    op = ruled(runtime=None)
    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(op.family_id)])
    loss = lambda x: tnf.sum(apply(op, x))
    np.testing.assert_array_equal(tnf.grad(loss, executor=executor)(X), 2 * X)
    with pytest.raises(errors.UnsupportedError, match="not registered"):
        tnf.value_and_grad(loss)(X)


@chapter.works(37, "Derivatives are programs and use the same pipeline as values.")
def test_derivatives_are_programs() -> None:
    program = tnf.compile(tnf.grad(energy), X)
    assert isinstance(program, tnf.GraphProgram)
    np.testing.assert_allclose(tnf.GraphExecutor().run(program, X), 4 * X**3, rtol=1e-15)


@chapter.works(38, "Eager tensors record operations, and `backward` uses their rules.")
def test_eager_derivatives() -> None:
    x = tnf.EagerRuntime().variable(X)
    energy(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 4 * X**3, rtol=1e-15)


@chapter.works(39, "Rules work inside loops and branches.")
def test_rules_in_loops() -> None:
    op = ruled()
    loop = lambda x: tnf.sum(tnf.fori_loop(0, 2, lambda i, y: apply(op, y), x))
    branch = lambda x: tnf.cond(tnf.sum(x) > 0, energy, tnf.sum, x)
    for function in (loop, branch):
        np.testing.assert_allclose(tnf.grad(function)(X), 4 * X**3, rtol=1e-14)


@chapter.works(
    40, "The gradient of a complex argument is defined by the inner product <a, b> = Re(conj(a) b)."
)
def test_complex_gradients() -> None:
    z = np.array([1.0 + 2.0j, -0.5j])
    np.testing.assert_allclose(tnf.grad(lambda z: tnf.sum(tnf.real(z * tnf.conj(z))))(z), 2 * z)


# ---- batches -------------------------------------------------------------------------------------


@chapter.works(41, "A batch rule receives which inputs have the leading batch axis.")
def test_batch_rules() -> None:
    seen = []

    def batch_rule(op: Any, b: Any, inputs: Any, batched: Any) -> Any:
        seen.append((batched, [len(x.shape) for x in inputs]))
        return tnf.multiply(*inputs)

    op = ruled(
        with_rule(Rule, batch_rule=batch_rule),
        input_count=2,
        eager_execute=lambda self, inputs: [inputs[0] * inputs[1]],
    )
    rows = np.stack([X, V])
    np.testing.assert_array_equal(tnf.vmap(lambda x: apply(op, x, X))(rows), rows * X)
    assert seen == [((True, False), [2, 1])]


@chapter.works(
    42,
    "`vmap` of an operation without a batch rule is an error that names the family and the role.",
)
def test_no_batch_rule() -> None:
    with pytest.raises(errors.UnsupportedError, match=r"ruled\.v1: no batch_rule"):
        tnf.vmap(lambda x: apply(linear(), x))(np.stack([X, V]))


@chapter.table(
    "change, kind",
    {
        43: Row("A batch rule that returns another shape is an error.", lambda x: reduce_sum(x, (0,)), errors.ShapeError),
        44: Row("A batch rule that returns another dtype is an error.", lambda x: tnf.astype(x, "float32"), errors.DTypeError),
        45: Row("A batch rule that returns None is an error.", lambda x: None, errors.InvalidConfigError),
    },
)  # fmt: skip
def test_batches_that_are_refused(change: Any, kind: Any) -> None:
    op = ruled(with_rule(Rule, batch_rule=lambda op, b, inputs, batched: change(inputs[0])))
    with pytest.raises(kind, match=r"(?s)ruled\.v1.*batch_rule"):
        tnf.vmap(lambda x: apply(op, x))(np.stack([X, V]))


@chapter.table(
    "rules, words",
    {
        46: Row("`check_extension` reports tangents that differ from finite differences.", with_rule(Rule, linearize=lambda op, b, xs, ys, dots: 3.0 * xs[0] * dots[0]), "tangent"),
        47: Row("`check_extension` reports batches that differ from the results of their slices.", with_rule(Rule, batch_rule=lambda op, b, xs, batched: 2.0 * xs[0]), "batch"),
    },
)  # fmt: skip
def test_reports(rules: Any, words: str) -> None:
    report = check_extension(ruled(rules), [X])
    assert not report.ok
    assert words in str(report)
    assert check_extension(ruled(), [X]).ok


@chapter.works(48, "`check_extension` reports a transpose that is not the adjoint.")
def test_reported_transposes() -> None:
    wrong = with_rule(Linear, transpose_rule=lambda op, b, xs, lin, bars: 3.0 * bars[0])
    assert not check_extension(linear(wrong), [X]).ok
    assert check_extension(linear(), [X]).ok


@chapter.differs(
    50,
    "`jvp` and `vjp` return zeros, not None, if no argument is active.",
    because="the results have the usual shapes and dtypes, whatever the function",
)
def test_results_that_are_not_active() -> None:
    for function in (tnf.floor, lambda x: tnf.zeros(3), tnf.stop_gradient):
        np.testing.assert_array_equal(tnf.jvp(function, (X,), (V,))[1], np.zeros(3))
        np.testing.assert_array_equal(tnf.vjp(function, X)[1](V)[0], np.zeros(3))

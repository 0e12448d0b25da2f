"""The rules in an `AdContext` must be used for every derivative and batch of the transform to which it is passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.extension import (
    ExtensionAdRule,
    ExtensionOp,
    ExtensionRuleSet,
    HostReferenceRuntime,
    apply,
    extension_family,
)
from tenferro.extension.ops import Multiply
from tenferro.types import flatten

X = np.array([0.5, -1.0, 2.0])


@extension_family("tenferro-tests", "squared", version=1)
@dataclass(frozen=True)
class Squared(ExtensionOp):
    """y = x^2."""

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0] ** 2]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        return [builder.apply_one(Multiply(), inputs[0], inputs[0])]


class Rule(ExtensionAdRule):
    """y_dot = 2 x x_dot."""

    family_id = Squared.family_id

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return 2.0 * primals[0] * tangents[0]

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, inputs[0])


C = tnf.AdContext(ExtensionRuleSet([Rule()]))
V = np.array([1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def registered() -> None:
    runtime = HostReferenceRuntime(Squared.family_id)
    tnf.default_executor().register_runtime(runtime, replace=True)


def f(x: Any) -> Any:
    """Return the sum of x^4, computed by two ops. Its derivatives are 4 x^3 and 12 x^2."""
    return tnf.sum(apply(Squared(), apply(Squared(), x)))


def in_loop(x: Any) -> Any:
    return tnf.sum(tnf.fori_loop(0, 2, lambda i, y: apply(Squared(), y), x))


def in_scan(x: Any) -> Any:
    y, _ = tnf.scan(lambda y, _: (apply(Squared(), y), None), x, None, length=2)
    return tnf.sum(y)


def in_branch(x: Any) -> Any:
    y = tnf.cond(tnf.sum(x) > 0.0, lambda x: apply(Squared(), apply(Squared(), x)), lambda x: x, x)
    return tnf.sum(y)


def in_checkpoint(x: Any) -> Any:
    return tnf.checkpoint(f)(x)


@tnf.custom_jvp
def with_rule(x: Any) -> Any:
    return f(x)


@with_rule.defjvp
def _(primals: Any, tangents: Any) -> Any:
    ((x,), (v,)) = primals, tangents
    return f(x), tnf.sum(4.0 * x * apply(Squared(), x) * v)


SECOND: dict[str, Callable[..., Any]] = {
    "hessian": lambda f, x: tnf.hessian(f, context=C)(x) @ V,
    "jacfwd of jacrev": lambda f, x: tnf.jacfwd(tnf.jacrev(f, context=C), context=C)(x) @ V,
    "jacrev of jacfwd": lambda f, x: tnf.jacrev(tnf.jacfwd(f, context=C), context=C)(x) @ V,
    "hvp": lambda f, x: tnf.hvp(f, (x,), (V,), context=C),
    "linearize of grad": lambda f, x: tnf.linearize(tnf.grad(f, context=C), x, context=C)[1](V),
    "vjp of vjp": lambda f, x: tnf.vjp(lambda x: tnf.vjp(f, x, context=C)[1](1.0)[0], x, context=C)[
        1
    ](V)[0],
}


@pytest.mark.parametrize("where", [f, in_loop, in_scan, in_branch, in_checkpoint, with_rule])
@pytest.mark.parametrize("transform", SECOND)
def test_second_derivatives(transform: str, where: Any) -> None:
    expected = 12.0 * X**2 * V
    np.testing.assert_allclose(SECOND[transform](where, X), expected, rtol=1e-13)
    made = tnf.compile(lambda x: SECOND[transform](where, x), X)
    np.testing.assert_allclose(made.run(X), expected, rtol=1e-13)


def test_eager_tapes_use_the_runtime_s_context() -> None:
    rt = tnf.EagerRuntime(C, runtimes=[HostReferenceRuntime(Squared.family_id)])
    for where in (f, in_loop, with_rule):
        x = rt.variable(X)
        where(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), 4.0 * X**3, rtol=1e-13)
        x = rt.variable(X)
        tnf.sum(tnf.grad(where, context=C)(x) * V).backward()
        np.testing.assert_allclose(x.grad.numpy(), 12.0 * X**2 * V, rtol=1e-13)


def test_batches() -> None:
    rows = np.stack([X, V])
    np.testing.assert_array_equal(tnf.vmap(f, context=C)(rows), np.sum(rows**4, axis=1))
    gradients = tnf.vmap(tnf.grad(f, context=C), context=C)(rows)
    np.testing.assert_allclose(gradients, 4.0 * rows**3, rtol=1e-13)
    np.testing.assert_array_equal(
        tnf.map(f, np.stack([X, V, X]), batch_size=2, context=C),
        np.sum(np.stack([X, V, X]) ** 4, axis=1),
    )
    with pytest.raises(errors.UnsupportedError, match="batch_rule"):
        tnf.vmap(f)(rows)


def test_check_grads_uses_the_context_at_every_order() -> None:
    for where in (f, in_loop):
        report = tnf.check_grads(where, (X,), order=3, context=C)
        assert report.ok
        assert len(report.checks) == 14
    with pytest.raises(errors.ADRuleUnsupportedError, match=Squared.family_id):
        tnf.check_grads(f, (X,), order=1)

    class Wrong(Rule):
        def linearize(self, *arguments: Any) -> Any:
            return 3.0 * super().linearize(*arguments)

    with pytest.raises(errors.GradientMismatchError, match=r"rule disagrees: Extension\(Squared"):
        tnf.check_grads(f, (X,), order=1, context=tnf.AdContext(ExtensionRuleSet([Wrong()])))


def test_the_peer_s_tools_take_a_context() -> None:
    report = xla_peer.check_parity(f, X, grad=True, context=C)
    assert report.ok
    assert len(report.outputs) == 2
    with pytest.raises(errors.ADRuleUnsupportedError, match=Squared.family_id):
        xla_peer.check_parity(f, X, grad=True)
    artifact = xla_peer.export(f, X, gradient=True, context=C)
    assert artifact.gradient is not None
    np.testing.assert_allclose(artifact.gradient.run(X, np.array(1.0))[0], 4.0 * X**3)
    import jax

    x = X.astype("f4")
    called = xla_peer.to_jax(tnf.compile(f, x), context=C)
    np.testing.assert_allclose(jax.grad(called)(x), 4.0 * x**3, rtol=1e-5)


class Noting:
    """Executor that counts its runs, and fails if an argument is not a plain array."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, program: Any, *arrays: Any) -> Any:
        self.runs += 1
        assert not any(isinstance(x, tnf.EagerTensor) for x in flatten(arrays)[0])
        return program.run(*arrays)


def test_jit_runs_eager_tensors_on_the_executor_given() -> None:
    rt, executor = tnf.EagerRuntime(), Noting()
    jitted = tnf.jit(lambda p: {"y": p["x"] * p["s"]}, executor=executor)
    result = jitted({"x": rt.constant(X), "s": 2.0})["y"]
    assert executor.runs == 1
    assert result.runtime is rt
    assert not result.is_tracked
    np.testing.assert_array_equal(result.numpy(), 2.0 * X)
    with pytest.raises(errors.UnsupportedError, match="detach"):
        jitted({"x": rt.variable(X), "s": 2.0})
    # In a trace, `jitted` must add its ops to the outer program, so that the executor of `jit` does not run.
    traced = tnf.compile(lambda x: jitted({"x": x, "s": rt.constant(2.0)})["y"], X)
    np.testing.assert_array_equal(traced.run(X), 2.0 * X)
    assert executor.runs == 1
    # For an eager variable, the function must run op by op, again without the executor of `jit`.
    x = rt.variable(X)
    tnf.sum(tnf.jit(lambda x: x * x)(x)).backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * X)


@extension_family("tenferro-tests", "of_one_executor", version=1)
@dataclass(frozen=True)
class OfOneExecutor(Squared):
    """An op like `Squared`. Only one executor has a runtime for its family."""


class ItsRule(Rule):
    family_id = OfOneExecutor.family_id


def its(x: Any) -> Any:
    return apply(OfOneExecutor(), x)


def its_sum(x: Any) -> Any:
    return tnf.sum(its(x))


OWN: dict[str, Callable[..., Any]] = {
    "grad": lambda o: tnf.grad(its_sum, **o)(X),
    "value_and_grad": lambda o: tnf.value_and_grad(its_sum, **o)(X)[1],
    "jvp": lambda o: tnf.jvp(its, (X,), (np.ones(3),), **o)[1],
    "linearize": lambda o: tnf.linearize(its, X, **o)[1](np.ones(3)),
    "vjp": lambda o: tnf.vjp(its, X, **o)[1](np.ones(3))[0],
    "jacfwd": lambda o: tnf.jacfwd(its, **o)(X).diagonal(),
    "jacrev": lambda o: tnf.jacrev(its, **o)(X).diagonal(),
    "hessian": lambda o: tnf.hessian(its_sum, **o)(X) @ X,
    "hvp": lambda o: tnf.hvp(its_sum, (X,), (X,), **o),
    "vmap": lambda o: tnf.vmap(its, **o)(np.stack([X, V]))[0] * 2.0 / X,
    "map": lambda o: tnf.map(its, np.stack([X, V]), **o)[0] * 2.0 / X,
    "map in batches": lambda o: tnf.map(its, np.stack([X, V, X]), batch_size=2, **o)[2] * 2.0 / X,
}
LOOPS: dict[str, Callable[..., Any]] = {
    "scan": lambda o: tnf.scan(lambda c, _: (its(c), None), X, None, length=1, **o)[0],
    "fori_loop": lambda o: tnf.fori_loop(0, 1, lambda i, c: its(c), X, **o),
    "while_loop": lambda o: tnf.while_loop(
        lambda s: s[0] < 1, lambda s: (s[0] + 1, its(s[1])), (0, X), **o
    )[1],
    "cond": lambda o: tnf.cond(True, its, lambda x: x, X, **o),
    "switch": lambda o: tnf.switch(1, [lambda x: x, its], X, **o),
}


@pytest.mark.parametrize("name", [*OWN, *LOOPS])
def test_transforms_and_loops_run_on_the_executor_given(name: str) -> None:
    executor = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(OfOneExecutor.family_id)])
    if name in OWN:
        options = {"context": tnf.AdContext(ExtensionRuleSet([ItsRule()])), "executor": executor}
        np.testing.assert_allclose(OWN[name](options), 2.0 * X, rtol=1e-14)
    else:
        np.testing.assert_array_equal(LOOPS[name]({"executor": executor}), X**2)
        x = tnf.EagerRuntime().variable(X)
        with pytest.raises(errors.UnsupportedError, match="eager tensors"):
            tnf.scan(lambda c, _: (c, None), x, None, length=1, executor=executor)


def test_eager_tensors_run_on_the_executor_given() -> None:
    executor = tnf.GraphExecutor("K", runtimes=[HostReferenceRuntime(OfOneExecutor.family_id)])
    rt = tnf.EagerRuntime(tnf.AdContext(ExtensionRuleSet([ItsRule()])), executor=executor)
    assert rt.executor is executor
    for where in (its_sum, lambda x: tnf.fori_loop(0, 1, lambda i, y: its_sum(y) + y, x)[0]):
        x = rt.variable(X)
        where(x).backward()
        assert np.any(x.grad.numpy())
    with pytest.raises(errors.InvalidConfigError, match="runtimes to the executor"):
        tnf.EagerRuntime(executor=executor, runtimes=[HostReferenceRuntime("tenferro-tests.a.v1")])


def test_optimisers_use_the_context_and_the_executor() -> None:
    options: dict[str, Any] = {
        "executor": tnf.GraphExecutor(runtimes=[HostReferenceRuntime(OfOneExecutor.family_id)]),
        "context": tnf.AdContext(ExtensionRuleSet([ItsRule()])),
    }
    for method in ("BFGS", "Newton-CG", "dogleg"):
        result = tnf.optimize.minimize(its_sum, X, method=method, **options)
        np.testing.assert_allclose(result.x, 0.0, atol=1e-6)
    result = tnf.optimize.least_squares(lambda x: its(x) - 4.0, np.full(3, 3.0), **options)
    np.testing.assert_allclose(result.x, 2.0, rtol=1e-6)

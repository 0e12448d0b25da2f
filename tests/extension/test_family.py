"""A package registers each family once.

Its users can then apply the ops without passing rules or runtimes.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.extension import (
    ExtensionAdRule,
    ExtensionOp,
    ExtensionRuleSet,
    ExtensionRuntime,
    Family,
    HostReferenceRuntime,
    apply,
    check_extension,
    extension_family,
    family_of,
    lookup_extension_factory,
    register_extension,
)
from tenferro.extension.ops import Exp, Multiply
from tenferro.program import families

X = np.array([0.5, -1.0, 2.0])


class SquareRule(ExtensionAdRule):
    """y_dot = 2 x x_dot."""

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return 2.0 * primals[0] * tangents[0]

    def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, inputs[0])


class OfOneType(ExtensionOp):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]


@extension_family(
    "tenferro-tests", "carried", version=1, runtime=HostReferenceRuntime, rules=SquareRule
)
@dataclass(frozen=True)
class Square(OfOneType):
    """y = x^2. Attributes of the class define the family."""

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0] ** 2]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        return builder.apply_one(Multiply(), inputs[0], inputs[0])


@extension_family("tenferro-tests", "expanded", version=1)
@dataclass(frozen=True)
class Wave(ExtensionOp):
    """y = sin(x) e^(-w x). The expansion is the only definition of the values and the derivatives."""

    from_expansion = True
    input_count = 2

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        if input_shapes[0] != input_shapes[1]:
            raise errors.ShapeError("Wave: operands of one shape")
        return [(input_dtypes[0], input_shapes[0])]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        x, w = map(builder.value, inputs)
        return tnf.sin(x) * tnf.exp(-w * x)


def square(x: Any) -> Any:
    return apply(Square(), x)


def wave(x: Any) -> Any:
    return apply(Wave(), x, x * 0.5)


def wave_slope(x: Any) -> Any:
    """Return the derivative of sin(x) e^(-x^2 / 2) with respect to x."""
    return (np.cos(x) - x * np.sin(x)) * np.exp(-(x**2) / 2)


OPERATIONS = {"rules": (square, lambda x: x**2, lambda x: 2.0 * x),
              "expansion": (wave, lambda x: np.sin(x) * np.exp(-(x**2) / 2), wave_slope)}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_transforms_written_by_somebody_else_work(name: str) -> None:
    op, value, slope = OPERATIONS[name]

    def loss(x: Any) -> Any:
        return tnf.sum(op(x))

    def in_loop(x: Any) -> Any:
        return tnf.sum(tnf.fori_loop(0, 2, lambda i, y: op(y), x))

    rows = np.stack([X, -X, X + 1.0])
    np.testing.assert_allclose(op(X), value(X), rtol=1e-14)
    np.testing.assert_allclose(tnf.jit(op)(X), value(X), rtol=1e-14)
    np.testing.assert_allclose(tnf.grad(loss)(X), slope(X), rtol=1e-13)
    np.testing.assert_allclose(tnf.jvp(op, (X,), (X,))[1], slope(X) * X, rtol=1e-13)
    np.testing.assert_allclose(tnf.vmap(tnf.grad(loss))(rows), slope(rows), rtol=1e-13)
    np.testing.assert_allclose(tnf.jacrev(op)(X), np.diag(slope(X)), rtol=1e-13, atol=1e-15)
    chained = slope(value(X)) * slope(X)
    np.testing.assert_allclose(tnf.grad(in_loop)(X), chained, rtol=1e-12)
    np.testing.assert_allclose(np.diag(tnf.hessian(in_loop)(X)), _second(in_loop, X), rtol=1e-5)
    assert tnf.check_grads(loss, (X,), order=2).ok
    runtime = tnf.EagerRuntime()
    x = runtime.variable(X)
    tnf.sum(op(x)).backward()
    np.testing.assert_allclose(x.grad.numpy(), slope(X), rtol=1e-13)


def _second(f: Any, x: Any) -> Any:
    step = 1e-5 * np.eye(len(x))
    ends = [(tnf.grad(f)(x + e) - tnf.grad(f)(x - e)) @ e / 2e-10 for e in step]
    return np.array(ends)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_peer_and_its_tools_work(name: str) -> None:
    op, value, slope = OPERATIONS[name]
    assert xla_peer.check_parity(lambda x: tnf.sum(op(x)), X, grad=True).ok
    artifact = xla_peer.export(lambda x: tnf.sum(op(x)), X, gradient=True)
    np.testing.assert_allclose(artifact.run(X), np.sum(value(X)), rtol=1e-13)
    assert artifact.gradient is not None
    np.testing.assert_allclose(artifact.gradient.run(X, np.array(1.0))[0], slope(X), rtol=1e-12)


def energy(x: Any) -> Any:
    return tnf.sum(square(x))


def test_the_command_line_works() -> None:
    from typer.testing import CliRunner

    from xla_peer.cli import app

    words = ["parity", f"{__file__}:energy", "3xf64", "--grad"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_symbols_pass_through_expansions() -> None:
    program = tnf.compile(tnf.grad(lambda x: tnf.sum(wave(x))), tnf.TensorSpec(("n",), "float64"))
    np.testing.assert_allclose(program.run(X), wave_slope(X), rtol=1e-13)


def test_one_active_operand_of_an_expansion() -> None:
    def of_weight(w: Any) -> Any:
        return tnf.sum(apply(Wave(), X, w))

    expected = -X * np.sin(X) * np.exp(-0.5 * X)
    np.testing.assert_allclose(tnf.grad(of_weight)(np.full(3, 0.5)), expected, rtol=1e-13)
    batch = tnf.vmap(lambda w: apply(Wave(), X, w))(np.array([[0.5] * 3, [1.0] * 3]))
    np.testing.assert_allclose(batch[1], np.sin(X) * np.exp(-X), rtol=1e-13)


@extension_family("tenferro-tests", "linear_map", version=1)
@dataclass(frozen=True)
class Differences(ExtensionOp):
    """y_i = x_(i+1) - x_i, with a linear rule. The transpose is derived from the expansion."""

    from_expansion = True

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        if len(input_shapes[0]) != 1:
            raise errors.ShapeError("Differences: a vector")
        return [(input_dtypes[0], (input_shapes[0][0] - 1,))]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        x = builder.value(inputs[0])
        return tnf.take(x, np.arange(1, shapes[0][0])) - tnf.take(x, np.arange(shapes[0][0] - 1))


class LinearRule(ExtensionAdRule):
    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return builder.apply(op, tangents[0])


def test_what_a_rule_lacks_follows_from_the_expansion() -> None:
    Differences.family = Family(Differences, rules=LinearRule)
    program = tnf.compile(lambda x: tnf.jvp(lambda x: apply(Differences(), x), (x,), (x,))[1], X)
    assert [i.op.name for i in program.instructions] == ["tenferro-tests.linear_map.v1"]
    weights = np.array([3.0, 5.0])
    gradient = tnf.grad(lambda x: tnf.sum(apply(Differences(), x) * weights))(X)
    np.testing.assert_array_equal(gradient, [-3.0, -2.0, 5.0])
    report = check_extension(Differences(), [X])
    assert report.ok, str(report)
    assert report.derived == ("native execution", "cotangents", "batches")
    assert "from the expansion: native execution, cotangents, batches" in str(report)
    assert check_extension(Square(), [X]).derived == ()
    assert check_extension(Wave(), [X, X]).derived[1:] == ("tangents", "cotangents", "batches")


def test_an_explicit_context_and_executor_come_first() -> None:
    class Doubled(SquareRule):
        family_id = Square.family_id

        def linearize(self, *arguments: Any) -> Any:
            return 2.0 * super().linearize(*arguments)

    class Ten(ExtensionRuntime):
        family_id = Square.family_id

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            return inputs[0] * 10.0

    context = tnf.AdContext(ExtensionRuleSet([Doubled()]))
    np.testing.assert_allclose(tnf.grad(lambda x: tnf.sum(square(x)), context=context)(X), 4.0 * X)
    # The context must replace only the derivative rule. Everything else must come from the family.
    executor = tnf.GraphExecutor(runtimes=[Ten()])
    np.testing.assert_array_equal(executor.run(tnf.compile(square, X), X), 10.0 * X)


def test_a_family_s_lowering_and_batch_rule() -> None:
    def doubled(op: Any, writer: Any, x: Any) -> Any:
        return writer.op("add", x, x, result=x.spec)

    def batch(op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
        return builder.apply(op, inputs[0])

    @extension_family("tenferro-tests", "lowered", version=1)
    @dataclass(frozen=True)
    class Twice(OfOneType):
        def eager_execute(self, inputs: Any) -> Any:
            return [inputs[0] + inputs[0]]

    Twice.family = Family(Twice, HostReferenceRuntime, lowering=doubled, batch=batch)
    text = lowering.lower_to_stablehlo(tnf.compile(lambda x: apply(Twice(), x), X)).text
    assert "stablehlo.add %arg0, %arg0" in text
    np.testing.assert_array_equal(tnf.vmap(lambda x: apply(Twice(), x))(np.stack([X, X]))[1], X + X)
    Twice.family = Family(Twice, HostReferenceRuntime, lowering={"cuda": doubled})
    with pytest.raises(errors.UnsupportedError, match="no expansion"):
        lowering.lower_to_stablehlo(tnf.compile(lambda x: apply(Twice(), x), X))
    Twice.family = Family(Twice, HostReferenceRuntime, SquareRule, batch=batch)
    with pytest.raises(errors.DuplicateFamilyError, match="two batch rules"):
        tnf.vmap(lambda x: apply(Twice(), x))(np.stack([X, X]))


def test_a_family_that_is_registered_is_known_by_its_id(monkeypatch: Any) -> None:
    monkeypatch.setattr(families, "_REGISTERED", dict(families._registered()))

    @extension_family("tenferro-tests", "listed_once", version=1)
    @dataclass(frozen=True)
    class Listed(Square):
        power: int = 2

    listed = Family(Listed, HostReferenceRuntime, SquareRule())
    with pytest.raises(errors.UnsupportedError, match="give its family a runtime"):
        apply(Listed(), X)
    register_extension(listed)
    assert family_of(Listed()) is listed
    np.testing.assert_array_equal(apply(Listed(), X), X**2)
    np.testing.assert_array_equal(tnf.grad(lambda x: tnf.sum(apply(Listed(), x)))(X), 2.0 * X)
    factory = lookup_extension_factory(Listed.family_id)
    assert factory is not None
    assert factory.instantiate({"power": 3}) == Listed(3)
    for again in (listed, Listed):
        with pytest.raises(errors.DuplicateFamilyError):
            register_extension(again)
    with pytest.raises(errors.DuplicateFamilyError, match="carries another"):
        register_extension(Family(Square))


def test_installed_packages_list_families(monkeypatch: Any) -> None:
    @extension_family("tenferro-tests", "in_a_package", version=1)
    @dataclass(frozen=True)
    class Packaged(OfOneType):
        def lower_to_standard_ops(self, builder: Any, inputs: Any, *types: Any) -> Any:
            return builder.apply_one(Exp(), inputs[0])

    class Point:
        name, value = "theirs", "their_package:FAMILIES"

        def load(self) -> Any:
            return [Family(Packaged, tnf.extension.ExpansionRuntime)]

    monkeypatch.setattr(families, "_REGISTERED", dict(families._registered()))
    monkeypatch.setattr(metadata, "entry_points", lambda group: [Point()])
    np.testing.assert_array_equal(apply(Packaged(), X), np.exp(X))


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"runtime": 3}, "3 is no runtime"),
        ({"runtime": HostReferenceRuntime("tenferro-tests.other.v1")}, "its runtime belongs to"),
        ({"rules": Square}, "is no rules"),
        ({"lowering": {"cpu": 3}}, "is no lowering"),
        ({"batch": 3}, "3 is no batch"),
    ],
)
def test_parts_that_are_none_are_refused(parts: Any, match: str) -> None:
    with pytest.raises(errors.RegistrationError, match=match):
        Family(Square, **parts)
    with pytest.raises(errors.MalformedFamilyIdError):
        Family(OfOneType)


def test_packages_are_searched_once_for_an_id_that_nobody_knows(monkeypatch: Any) -> None:
    searches: list[None] = []
    monkeypatch.setattr(families, "_discover", lambda: searches.append(None))
    assert families.registered_family("tenferro.einsum.v1") is not None
    assert not searches
    for _ in range(3):
        assert families.registered_family("tenferro-tests.nobody.v1") is None
    assert len(searches) == 1


@pytest.mark.parametrize("form", ["instance", "class", "registered", "expansion", "none"])
def test_runtimes_that_a_family_has(form: str) -> None:
    """A family may have a runtime in several forms.

    These are an object for all executors, a class that creates an object for each executor, or only an expansion.
    """

    class Doubling(ExtensionRuntime):
        calls = 0

        def __init__(self, family_id: str) -> None:
            self.family_id = family_id

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            self.calls += 1
            return [2 * inputs[0]]

    family_id = f"tenferro-tests.runtime_{form}.v1"
    own = Doubling(family_id)
    runtime: Any = {"instance": own, "class": Doubling}.get(form)

    @extension_family("tenferro-tests", f"runtime_{form}", version=1, runtime=runtime)
    @dataclass(frozen=True)
    class Double(OfOneType):
        from_expansion = form == "expansion"

        def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
            return builder.apply_one(Multiply(), inputs[0], inputs[0])

    program = tnf.compile(lambda x: apply(Double(), x), X)
    executors = [tnf.GraphExecutor(), tnf.GraphExecutor()]
    if form == "none":
        with pytest.raises(errors.UnsupportedError, match="not registered; give its family a runtime"):  # fmt: skip
            executors[0].run(program, X)
        return
    for executor in executors:
        if form == "registered":
            executor.register_runtime(own)
        for _ in range(2):
            expected = X * X if form == "expansion" else 2 * X
            np.testing.assert_array_equal(executor.run(program, X), expected)
    assert own.calls == (4 if form in ("instance", "registered") else 0)
    runtimes = [executor.extensions.registered for executor in executors]
    assert runtimes == ([(own,)] * 2 if form == "registered" else [()] * 2)


@pytest.mark.parametrize(
    ("aliases", "fits"),
    [({0: 0}, True), ({}, True), ({0: 1}, False), ({1: 0}, False), ({-1: 0}, False), ({0: -1}, False)],
)  # fmt: skip
def test_aliases_are_of_operands_and_results_that_there_are(
    aliases: dict[int, int], fits: bool
) -> None:
    name = "aliased_" + "_".join(f"{n}" for pair in aliases.items() for n in pair).replace("-", "m")

    class Negating(HostReferenceRuntime):
        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            if aliases:
                return [np.negative(inputs[0], out=inputs[0])]
            return [-inputs[0]]

    @extension_family("tenferro-tests", name or "aliased", version=1, runtime=Negating)
    @dataclass(frozen=True)
    class Negated(OfOneType):
        pass

    Negated.aliases = aliases
    x = X.copy()
    program = tnf.compile(lambda x: apply(Negated(), x), x)
    if fits:
        np.testing.assert_array_equal(program.run(x), -X)
        np.testing.assert_array_equal(x, X)
    else:
        (pair,) = aliases.items()
        message = (
            f"aliases must pair outputs below 1 with inputs below 1, got {{{pair[0]}: {pair[1]}}}"
        )
        with pytest.raises(errors.InvalidConfigError) as caught:
            program.run(x)
        assert message in str(caught.value)

"""The contract of extensions. For each way in which an extension may break it, there is a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.exec.backend import Backend
from tenferro.extension import (
    Extension,
    ExtensionAdRule,
    ExtensionCacheKey,
    ExtensionOp,
    ExtensionRuleSet,
    ExtensionRuntime,
    HostReferenceRuntime,
    apply,
    extension_family,
    lookup_extension_factory,
    register_extension,
)
from tenferro.extension.ops import BroadcastInDim, Multiply
from xla_peer import XlaExecutor

X = np.arange(1.0, 4.0)


@extension_family("tenferro-tests", "scale", version=1)
@dataclass(frozen=True)
class Scale(ExtensionOp):
    """y = factor x."""

    factor: float

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0] * self.factor]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        factor = builder.constant(self.factor, dtypes[0])
        factor = builder.apply_one(BroadcastInDim(shapes[0], ()), factor)
        return [builder.apply_one(Multiply(), inputs[0], factor)]


class ScaleRule(ExtensionAdRule):
    family_id = Scale.family_id

    def linearize(self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any) -> Any:
        return builder.apply(op, tangents[0])

    def transpose_rule(self, op: Any, builder: Any, inputs: Any, linear: Any, bars: Any) -> Any:
        return builder.apply(op, bars[0])


ID = Scale.family_id
RULES = tnf.AdContext(ExtensionRuleSet([ScaleRule()]))
EXECUTOR = tnf.GraphExecutor(runtimes=[HostReferenceRuntime(ID)])


def program(op: Any, *arrays: Any) -> tnf.GraphProgram:
    return tnf.compile(lambda *xs: apply(op, *xs), *(arrays or (X,)))


def test_an_operation_takes_part_in_everything() -> None:
    def loss(x: Any) -> Any:
        return tnf.sum(apply(Scale(3.0), x) ** 2)

    graph = tnf.compile(tnf.value_and_grad(loss, context=RULES), tnf.TensorSpec(("n",), "f8"))
    value, gradient = EXECUTOR.run(graph, X)
    assert value == 9 * np.sum(X**2)
    np.testing.assert_array_equal(gradient, 18 * X)
    value, gradient = XlaExecutor("cpu").run(graph, X)
    np.testing.assert_allclose(gradient, 18 * X)
    twice = tnf.compile(lambda x: apply(Scale(2.0), x) + apply(Scale(2.0), x), X)
    assert [i.op.name for i in twice.instructions] == [ID, "Add"]
    product = tnf.compile(
        lambda x, v: tnf.jvp(tnf.grad(loss, context=RULES), (x,), (v,), context=RULES)[1], X, X
    )
    np.testing.assert_array_equal(EXECUTOR.run(product, X, X), 18 * X)
    with pytest.raises(errors.UnsupportedError, match="batch_rule"):
        tnf.jacfwd(lambda x: apply(Scale(2.0), x), context=RULES)(X)


def test_identity() -> None:
    @extension_family("tenferro-tests", "other", version=1)
    @dataclass(frozen=True)
    class Other(Scale):
        pass

    assert Extension(Scale(2.0)) == Extension(Scale(2.0))
    assert hash(Extension(Scale(2.0))) == hash(Extension(Scale(2.0)))
    assert Extension(Scale(2.0)) != Extension(Scale(3.0))
    assert Extension(Scale(0.0)) != Extension(Scale(-0.0))
    assert Extension(Scale(1.0)) != Extension(Scale(True))
    assert Extension(Scale(2.0)) != Extension(Other(2.0))

    @extension_family("tenferro-tests", "listed", version=1)
    @dataclass(frozen=True)
    class Listed(Scale):
        axes: Any = ()

    with pytest.raises(errors.InvalidConfigError, match="tuples"):
        hash(Extension(Listed(1.0, [1])))


@pytest.mark.parametrize(
    "family",
    ["", "scale", "a.b", "a.b.c", "a.b.v", "a.b.v01", "a b.c.v1", "a.b-c.v1", ".b.v1", None, 3],
)
def test_12_malformed_family_id(family: Any) -> None:
    class Bad(Scale):
        family_id = family

    with pytest.raises(errors.MalformedFamilyIdError):
        program(Bad(1.0))
    with pytest.raises(errors.MalformedFamilyIdError):
        Extension(Bad(1.0)).infer(tnf.TensorSpec((2,), "float64"))


@pytest.mark.parametrize("family", ["scale", "a.b.c", None])
def test_12_malformed_family_ids_are_not_registered(family: Any) -> None:
    class Rule(ScaleRule):
        family_id = family

    runtime = HostReferenceRuntime(family)
    with pytest.raises(errors.MalformedFamilyIdError):
        tnf.GraphExecutor(runtimes=[runtime])
    with pytest.raises(errors.MalformedFamilyIdError):
        tnf.GraphExecutor().register_runtime(runtime, replace=True)
    with pytest.raises(errors.MalformedFamilyIdError):
        ExtensionRuleSet([Rule()])
    with pytest.raises(errors.MalformedFamilyIdError):
        lowering.register_extension_lowering(family, lambda op, w, x: x)
    with pytest.raises(errors.InvalidConfigError, match="'cupu'"):
        lowering.register_extension_lowering(ID, lambda op, w, x: x, "cupu")


def test_12_execution_fails() -> None:
    class Fails(Scale):
        def eager_execute(self, inputs: Any) -> Any:
            raise RuntimeError("the plan is gone")

    with pytest.raises(errors.BackendFailureError, match=f"{ID}: RuntimeError: the plan is gone"):
        EXECUTOR.run(program(Fails(1.0)), X)


def test_12_a_capability_is_missing() -> None:
    class Needs(Scale):
        def eager_execute(self, inputs: Any) -> Any:
            raise errors.BackendFailureError("needs cuTENSOR")

    with pytest.raises(errors.BackendFailureError, match=f"{ID}.*cuTENSOR"):
        EXECUTOR.run(program(Needs(1.0)), X)


def test_12_unregistered_at_execution_and_at_compilation() -> None:
    words = rf"extension: {ID}: not registered"
    with pytest.raises(errors.UnsupportedError, match=words):
        apply(Scale(1.0), X)
    with pytest.raises(errors.UnsupportedError, match=words) as caught:
        tnf.GraphExecutor().compile(program(Scale(1.0)))
    assert "test_contract.py" in str(caught.value)


@pytest.mark.parametrize("kind", ["linearize", "transpose_rule"])
def test_12_no_derivative_rule(kind: str) -> None:
    class Half(ExtensionAdRule):
        family_id = ID
        linearize = ScaleRule.linearize

    context = tnf.AdContext() if kind == "linearize" else tnf.AdContext(ExtensionRuleSet([Half()]))
    with pytest.raises(errors.ADRuleUnsupportedError, match=f"{ID}.*{kind}"):
        tnf.compile(tnf.grad(lambda x: tnf.sum(apply(Scale(2.0), x)), context=context), X)


def test_12_duplicates() -> None:
    @extension_family("tenferro-tests", "registered", version=1)
    @dataclass(frozen=True)
    class Registered(Scale):
        pass

    assert lookup_extension_factory(Registered.family_id) is None
    register_extension(Registered)
    factory = lookup_extension_factory(Registered.family_id)
    assert factory is not None
    assert factory.instantiate({"factor": 2.0}) == Registered(2.0)
    with pytest.raises(errors.DuplicateFamilyError, match="already registered"):
        register_extension(Registered)
    with pytest.raises(errors.DuplicateFamilyError):
        tnf.GraphExecutor(runtimes=[HostReferenceRuntime(ID), HostReferenceRuntime(ID)])
    with pytest.raises(errors.DuplicateFamilyError):
        ExtensionRuleSet([ScaleRule(), ScaleRule()])
    with pytest.raises(errors.DuplicateFamilyError):
        tnf.AdContext(ExtensionRuleSet([ScaleRule()]), ExtensionRuleSet([ScaleRule()]))


def test_12_wrong_arity() -> None:
    with pytest.raises(
        errors.InvalidConfigError, match=f"extension: family_id={ID}: expected 1 inputs, got 2"
    ):
        program(Scale(1.0), X, X)


class Miscounted(Scale):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])] * 2


class Gibberish(Scale):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return 3


class Bare(Scale):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], 3)]


class Collapsing(Scale):
    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        raise ValueError("no symbols, please")


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Miscounted(1.0), "gives 2 outputs, output_count declares 1"),
        (Gibberish(1.0), "got 3"),
        (Bare(1.0), "must give .dtype, shape. per output, got .*, 3"),
        (Collapsing(1.0), "no symbols, please"),
    ],
)
def test_12_metadata_disagree(op: Any, words: str) -> None:
    with pytest.raises(errors.InvalidConfigError, match=words) as caught:
        program(op)
    assert ID in str(caught.value)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ([X, X], "2 outputs"),
        ([], "0 outputs"),
        ([X[:2]], r"output 0 is f64\[2\], infer_output_meta declares f64\[3\]"),
        ([X.astype("f4")], r"output 0 is f32\[3\], infer_output_meta declares f64\[3\]"),
        ({0: X}, "must give a list of arrays, got dict"),
        ({1.0, 2.0, 3.0}, "must give a list of arrays, got set"),
        ([None], "output 0: dtype"),
        ([X.astype(">f8")], "output 0: dtype"),
    ],
)
def test_12_outputs_disagree_with_metadata(result: Any, words: str) -> None:
    class Wrong(Scale):
        def eager_execute(self, inputs: Any) -> Any:
            return result

    with pytest.raises(errors.InvalidConfigError, match=words):
        EXECUTOR.run(program(Wrong(1.0)), X)


def test_a_rule_that_gives_another_number_of_tangents() -> None:
    class Two(ScaleRule):
        def linearize(self, *arguments: Any) -> Any:
            return None, None

    context = tnf.AdContext(ExtensionRuleSet([Two()]))
    with pytest.raises(errors.InvalidConfigError, match=f"{ID}: linearize of .* gives 2"):
        tnf.compile(tnf.grad(lambda x: tnf.sum(apply(Scale(2.0), x)), context=context), X)


def test_expansions_are_held_to_the_declared_types() -> None:
    class Wrong(Scale):
        def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
            return [builder.constant(1.0)]

    class Nested(Scale):
        def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
            return [builder.apply_one(Extension(Scale(1.0)), inputs[0])]

    class Crashes(Scale):
        def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
            raise KeyError("axis")

    class Last(Scale):
        def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
            return [-1]

    class Array(Scale):
        def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
            return X

    for op, words in (
        (Last(1.0), "got -1"),
        (Array(1.0), "got array"),
        (Wrong(1.0), r"gives \(f64\[\]\), infer_output_meta declares \(f64\[3\]\)"),
        (Nested(1.0), "not a standard op"),
        (Crashes(1.0), "KeyError"),
    ):
        with pytest.raises(errors.ExtensionLoweringError, match=words) as caught:
            lowering.lower_to_stablehlo(program(op))
        assert ID in str(caught.value)


def test_all_that_cannot_be_lowered_are_listed_at_once() -> None:
    @extension_family("tenferro-tests", "opaque", version=1)
    @dataclass(frozen=True)
    class Blank(Scale):
        def lower_to_standard_ops(self, *arguments: Any) -> Any:
            return None

    both = tnf.compile(lambda x: (apply(Blank(1.0), x), apply(Blank(2.0), x)), X)
    with pytest.raises(errors.UnsupportedError) as caught:
        lowering.lower_to_stablehlo(both)
    assert str(caught.value).count("tenferro-tests.opaque.v1 at") == 2
    assert "test_contract.py" in str(caught.value)


def test_a_registered_lowering_comes_first_and_is_checked() -> None:
    @extension_family("tenferro-tests", "direct", version=1)
    @dataclass(frozen=True)
    class Direct(Scale):
        pass

    def rule(op: Any, w: Any, x: Any) -> Any:
        return w.op("negate", x, result=x.spec)

    lowering.register_extension_lowering(Direct.family_id, rule)
    made = program(Direct(3.0))
    assert "stablehlo.negate" in str(lowering.lower_to_stablehlo(made))
    np.testing.assert_array_equal(XlaExecutor("cpu").run(made, X), -X)
    with pytest.raises(errors.DuplicateFamilyError):
        lowering.register_extension_lowering(Direct.family_id, rule)
    lowering.register_extension_lowering(
        Direct.family_id, lambda op, w, x: w.full(0, x.spec), "cpu"
    )
    assert "negate" not in str(lowering.lower_to_stablehlo(made))
    assert "negate" in str(lowering.lower_to_stablehlo(made, platform="cuda"))
    lowering.register_extension_lowering(
        Direct.family_id, lambda op, w, x: w.scalar(0, x.dtype), "cpu", replace=True
    )
    with pytest.raises(errors.ExtensionLoweringError, match="declares"):
        lowering.lower_to_stablehlo(made)


def test_a_lowering_that_is_replaced_is_not_used_again() -> None:
    @extension_family("tenferro-tests", "relowered", version=1)
    @dataclass(frozen=True)
    class Relowered(Scale):
        pass

    def by(name: str) -> Any:
        return lambda op, w, x: w.op(name, x, result=x.spec)

    made = program(Relowered(3.0))
    other = tnf.compile(lambda x: x + x, X)
    called = xla_peer.to_jax(tnf.compile(lambda x: apply(Relowered(3.0), x), X.astype("f4")))
    xla = XlaExecutor("cpu")
    results, inside = [], []
    for rule in (None, by("negate"), by("abs")):
        if rule is not None:
            lowering.register_extension_lowering(Relowered.family_id, rule, replace=True)
        for _ in range(2):
            results.append(xla.run(made, X)[1])
            inside.append(float(called(X.astype("f4"))[1]))
            xla.run(other, X)
    assert results == inside == [6.0, 6.0, -2.0, -2.0, 2.0, 2.0]
    assert xla.cache_stats().misses == 4


def test_runtimes_get_dense_arrays_and_bounded_caches() -> None:
    seen: list[Any] = []

    class Planned(ExtensionRuntime):
        family_id = ID

        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            seen.append(inputs[0].flags.f_contiguous)
            plans = caches.store(ExtensionCacheKey(ID, "plans"))
            factor = plans.get(op.factor, lambda: np.array(op.factor))
            return inputs[0] * factor

    executor = tnf.GraphExecutor(runtimes=[Planned()])
    matrix = np.arange(6.0).reshape(2, 3)
    for factor in (1.0, 2.0, 2.0):
        made = program(Scale(factor), matrix)
        np.testing.assert_array_equal(executor.run(made, matrix), factor * matrix)
    assert all(seen)
    caches = executor.extensions.caches
    (stats,) = caches.stats().values()
    assert (stats.entries, stats.hits, stats.capacity, len(caches)) == (2, 1, 256, 2)
    assert caches.retained_bytes == 16
    caches.clear()
    assert len(caches) == 0


@pytest.mark.parametrize("compiles", [False, True])
def test_a_loop_is_compiled_where_the_runtime_has_its_expansion_compiled(compiles: bool) -> None:
    pytest.importorskip("llvmlite.binding")
    calls = []

    class Runtime(HostReferenceRuntime):
        def execute(self, op: Any, inputs: Any, caches: Any) -> Any:
            calls.append(op)
            return super().execute(op, inputs, caches)

        def compiles_expansion(self, op: Any) -> bool:
            return compiles

    def step(_: Any, x: Any) -> Any:
        return tnf.sin(apply(Scale(0.5), tnf.cos(x) + 1.0))

    executor = tnf.GraphExecutor(compiled=True, runtimes=[Runtime(ID)])
    y = executor.run(tnf.compile(lambda x: tnf.fori_loop(0, 50, step, x), X), X)
    x = X
    for _ in range(50):
        x = np.sin(0.5 * (np.cos(x) + 1.0))
    np.testing.assert_allclose(y, x, rtol=1e-12)
    assert len(calls) == (0 if compiles else 50)
    assert executor.compile_stats().compiled.get("loop", 0) == int(compiles)

    def alone(_: Any, x: Any) -> Any:
        for factor in (0.5, 4.0, 0.5, 1.0):
            x = apply(Scale(factor), x)
        return x

    # A loop whose body consists mostly of kernel calls must not be compiled, because compilation would save little
    # time.
    executor = tnf.GraphExecutor(runtimes=[Runtime(ID)])
    y = executor.run(tnf.compile(lambda x: tnf.fori_loop(0, 500, alone, x), X), X)
    np.testing.assert_array_equal(y, X)
    assert executor.compile_stats().compiled.get("loop", 0) == int(compiles)


def test_composites_keep_identity_and_payload() -> None:
    @extension_family("tenferro-tests", "wrapped", version=4)
    @dataclass(frozen=True)
    class Wrapped(Scale):
        axes: tuple[int, ...] = (1, 2)
        mode: str = 'a "quoted" one'
        flag: bool = True

    def fn(x: Any) -> Any:
        return apply(Wrapped(2.0), apply(Wrapped(3.0), x)) + apply(Wrapped(3.0), tnf.erf(x))

    made = tnf.compile(fn, X)
    module = lowering.lower_to_stablehlo(made, extensions="composite")
    module.verify()
    text = str(module)
    assert text.count('stablehlo.composite "tenferro_tests.wrapped.v4"') == 3
    assert text.count("func.func private @tenferro_tests_wrapped_v4") == 2
    assert 'family_id = "tenferro-tests.wrapped.v4", factor = 3.0 : f64' in text
    assert "axes = [1 : i64, 2 : i64]" in text
    assert "version = 4 : i32" in text
    whole = XlaExecutor("cpu", extensions="composite").run(made, X)
    np.testing.assert_array_equal(whole, XlaExecutor("cpu").run(made, X))
    both = tnf.compile(lambda x: (tnf.linalg.qr(x)[1], tnf.linalg.det(x)), np.eye(3))
    lowering.lower_to_stablehlo(both, extensions="composite").verify()
    with pytest.raises(errors.InvalidConfigError, match="composite"):
        lowering.lower_to_stablehlo(made, extensions="other")


def test_12_another_backend_names_the_family() -> None:
    """Errors of another backend must name the family.

    The backend has no kernel for extensions, rejects a dtype, or raises an error of its own.
    """

    def failing(op: Any, *arrays: Any) -> Any:
        raise ValueError("no room")

    called, family = program(Scale(2.0)), r"tenferro-tests\.scale\.v1: "
    backends = {
        "backend 'none' has no kernel for it; .* add one for Extension": Backend("none", {}),
        "backend 'small' on float64: too wide": Backend(
            "small", {Extension: failing}, refuses=lambda op, dtype: "too wide"
        ),
        "the kernel for .* failed: ValueError: no room": Backend("full", {Extension: failing}),
    }
    for words, backend in backends.items():
        executor = tnf.GraphExecutor(backend=backend)
        with pytest.raises(errors.TenferroError, match=family + words):
            executor.run(called, X)
        with pytest.raises(errors.TenferroError, match=family + words):
            executor.apply(Extension(Scale(2.0)), [X])

"""The `repr` of each public object must be one short line."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer

X = np.ones(3)
MOST = 300


def loss(x: Any) -> Any:
    return tnf.sum(tnf.exp(x))


def total(parameters: dict[str, Any]) -> Any:
    return sum(tnf.sum(x) for x in parameters.values())


PARAMETERS = {f"a_layer_with_a_long_name_{i}": X for i in range(40)}
program = tnf.compile(loss, X)
large = tnf.compile(tnf.value_and_grad(total), PARAMETERS)
xla = xla_peer.XlaExecutor()
indices: list[Any] = []
tnf.compile(lambda x: indices.extend([x, x.at, x.at[1:]]) or x, X)

SHOWN: dict[str, tuple[Any, str]] = {
    "jit": (tnf.jit(loss), "<jit of loss: 0 programs>"),
    "jit of grad": (tnf.jit(tnf.grad(loss)), "<jit of grad of loss: 0 programs>"),
    "vmap of jit": (tnf.vmap(tnf.jit(loss)), "<vmap of jit of loss>"),
    "hessian": (tnf.hessian(loss), "<jacfwd of jacrev of loss>"),
    "checkpoint": (tnf.checkpoint(loss), "<checkpoint of loss>"),
    "custom_jvp": (tnf.custom_jvp(loss), "<custom_jvp loss, without a rule>"),
    "custom_vjp": (tnf.custom_vjp(loss), "<custom_vjp loss, without a rule>"),
    "a program": (program, "<GraphProgram loss: 1 inputs, 2 instructions, 1 outputs>"),
    "a large program": (large, ""),
    "a profile": (large.profile(PARAMETERS, runs=1), "<Profile of total: "),
    "a memory plan": (large.memory_plan(), "<MemoryPlan: "),
    "a module": (lowering.lower_to_stablehlo(program), "<StableHloModule for cpu: (tensor<3xf64>) -> (tensor<f64>), "),
    "a large module": (lowering.lower_to_stablehlo(large), "<StableHloModule for cpu: "),
    "a report": (xla_peer.check_parity(program, X), "<ParityReport loss: native and cpu agree: result>"),
    "gradients": (tnf.check_grads(loss, (X,), order=1), "<GradientReport loss: derivatives are right, "),
    "GraphExecutor": (tnf.GraphExecutor(), "<GraphExecutor order='F', threads=None: 0 programs>"),
    "execution IR": (tnf.GraphExecutor().compile(large), "<ExecProgram (f64[3], "),
    "XlaExecutor": (xla, "<XlaExecutor on cpu:0: "),
    "IsolatedExecutor": (xla_peer.IsolatedExecutor(), "<IsolatedExecutor on cpu:0>"),
    "values by name": (
        xla_peer.compare_golden(lowering.lower_to_stablehlo(program), [X], {"%0": 2 * X}),
        "<GoldenComparison ",
    ),
    "an executable": (xla.compile(program), "<Executable on cpu:0: (f64[3]) -> (f64[])>"),
    "an artifact": (xla_peer.export(large), "<Artifact total for cpu: (parameters['a_layer"),
    "statistics": (xla.cache_stats(), "CacheStats(hits="),
    "EagerRuntime": (tnf.EagerRuntime(), "<EagerRuntime: 0 plans>"),
    "EagerTensor": (tnf.EagerRuntime().constant(np.ones((99, 99))), "EagerTensor("),
    "TracedTensor": (indices[0], "TracedTensor(f64[3])"),
    "at": (indices[1], "TracedTensor(f64[3]).at"),
    "updates": (indices[2], "TracedTensor(f64[3]).at[slice(1, None, None)]"),
    "GraphCompiler": (tnf.GraphCompiler(), "<GraphCompiler: 0 caches"),
    "GraphBuilder": (tnf.GraphBuilder(), "<GraphBuilder: 0 instructions>"),
    "AdContext": (tnf.AdContext(), "<AdContext: rules of "),
    "TensorSpec": (tnf.TensorSpec(("n", 3), "f4"), "f32[n,3]"),
    "Mesh": (xla_peer.Mesh({"x": 1}), "Mesh(x=1 on cpu)"),
    "Digits": (xla_peer.digits(program, *[np.zeros(spec.shape) for spec in program.input_specs]), "<Digits loss: "),
    "ErrorBound": (xla_peer.error_bound(program, *[np.zeros(spec.shape) for spec in program.input_specs]), "<ErrorBound loss: "),
    "JaxFunction": (xla_peer.to_jax(program), "<JaxFunction of <GraphProgram loss: "),
    "NativeFunction": (xla_peer.native(loss), "<native of loss: 0 programs>"),
    "NativeReport": (xla_peer.native(loss).report(), "<NativeReport of loss: 0 programs>"),
    "the standard": (tnf.__array_namespace_info__(), "<ArrayNamespaceInfo of tenferro, Array API "),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_one_short_line(name: str) -> None:
    value, start = SHOWN[name]
    text = repr(value)
    assert text.startswith(start)
    assert len(text) <= MOST, text
    assert " object at 0x" not in text
    assert name == "EagerTensor" or "\n" not in text


# Classes that other tests cover. Their objects take long to create, or are printed as a call of their constructor.
ELSEWHERE = {
    "CompileCache", "CompileCacheStats", "DType", "DimExpr", "DoctorReport", "ExtensionAdRule",
    "ExtensionRuleSet", "NumpySource", "PartitionSpec", "PartitionedProgram", "Partitioning", "StdTensorOp", "SymDim",
    "TenferroError", "Tensor", "TransformationReport", "Verification", "custom_jvp", "custom_vjp",
}  # fmt: skip


def test_every_public_class_is_shown() -> None:
    classes = {
        name: value
        for module in (tnf, lowering, xla_peer)
        for name in module.__all__
        if inspect.isclass(value := getattr(module, name))
        and name not in ELSEWHERE
        and not issubclass(value, np.generic)
    }
    shown = {type(value) for value, _ in SHOWN.values()}
    missing = [name for name, cls in classes.items() if not any(issubclass(x, cls) for x in shown)]
    assert not missing
    plain = [name for name, cls in classes.items() if cls.__repr__ is object.__repr__]
    assert not plain


def test_a_doctors_report() -> None:
    report = xla_peer.DoctorReport({}, None, {}, ())
    assert repr(report).startswith("<DoctorReport")


def test_print_of_many_parameters_is_wrapped() -> None:
    lines = str(large).splitlines()
    assert lines[0] == "program total("
    assert max(map(len, lines)) <= 120
    takes = " ".join(lines[1 : lines.index(")")])
    assert [part.split(": ")[0].split()[-1] for part in takes.split(", ")] == list(
        large.input_names
    )


def test_a_notebook_shows_the_head_of_a_module() -> None:
    module = lowering.lower_to_stablehlo(program)
    page = module._repr_html_()
    assert page.startswith("<details><summary><code>&lt;StableHloModule for cpu")
    assert "stablehlo.exponential" in page
    assert str(module) == module.plain_text

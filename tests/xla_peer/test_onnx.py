"""Programs as ONNX models: each op by the reference implementation of the onnx package, against its definition."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.types import DType, TensorSpec
from tests.lowering.test_to_numpy import PROGRAMS, alone
from tests.samples import SAMPLES
from tests.samples.closeness import assert_close
from tests.samples.each import all_pass, each_card
from tests.samples.sample import OpSample
from xla_peer.onnx import run, to_onnx
from xla_peer.onnx.emit import NODES
from xla_peer.sampling import random_arrays

F64 = "float64"
MISSING = {
    "Complex",
    "CountLeadingZeros",
    "PopulationCount",
    "ReducePrecision",
    "ShiftRightArithmetic",
}
"""Ops without a counterpart."""
WIDER = {"Erf": 64, "Cbrt": 8}
"""Units in the last place by which engines are farther off: the reference's Erf is one of float32."""
HAS_RUNTIME = importlib.util.find_spec("onnxruntime") is not None
needs_onnx = pytest.mark.skipif(
    importlib.util.find_spec("onnx") is None, reason="the package onnx is not installed"
)


def is_written(sample: OpSample) -> bool:
    types = [DType.of(x.dtype) for x in (*sample.inputs, *sample.expected)]
    return not any(dtype.is_complex or dtype is DType.BF16 for dtype in types)


def gives_the_definition(sample: OpSample) -> None:
    try:
        model = to_onnx(alone(sample))
    except UnsupportedError as error:
        assert "onnx" in str(error).lower(), error
        return
    scales = sample.scale or (None,) * len(sample.expected)
    for y, expected, scale in zip(run(model, sample.inputs), sample.expected, scales, strict=True):
        if y.dtype.kind == "f":
            y = np.where((y == 0) & (expected == 0), expected, y)
        ulps = 2 * sample.ulps + 4 if sample.ulps else 0
        assert_close(y, expected, max(ulps, WIDER.get(sample.name, 0)), scale)


@needs_onnx
@each_card
def test_each_op_gives_the_definition(card: Any) -> None:
    if card.__name__ in MISSING:
        pytest.skip("ONNX has no counterpart")
    samples = [sample for sample in SAMPLES[card] if is_written(sample)]
    assert samples
    all_pass(gives_the_definition, samples[:: max(1, len(samples) // 2)])
    assert any(_is_exported(sample) for sample in samples[:: max(1, len(samples) // 8)])


def _is_exported(sample: OpSample) -> bool:
    try:
        to_onnx(alone(sample))
    except UnsupportedError:
        return False
    return True


@needs_onnx
@pytest.mark.parametrize(
    "name", ["dense", "recurrent", "gradient", "convolution", "picked", "weights"]
)
@pytest.mark.parametrize("engine", ["reference", "onnxruntime"])
def test_whole_programs_give_native_results(name: str, engine: str) -> None:
    if engine == "onnxruntime" and not HAS_RUNTIME:
        pytest.skip("the package onnxruntime is not installed")
    function, specs = PROGRAMS[name]
    program = tnf.compile(function, *specs)
    leaves = random_arrays(program, np.random.default_rng(3))
    expected = tnf.tree.leaves(program.run(*tnf.tree.unflatten(program.in_tree, leaves)))
    for y, z in zip(expected, run(to_onnx(program), leaves, engine), strict=True):
        tolerance = 1e-4 if y.dtype == np.float32 else 1e-12
        assert (z.dtype, z.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(z, y, rtol=tolerance, atol=tolerance)


@needs_onnx
def test_switch_and_nested_loops() -> None:
    def function(i: Any, xs: Any) -> Any:
        def row(total: Any, x: Any) -> Any:
            inner = tnf.scan(lambda c, e: (c + e, c * e), 0.0, x, reverse=True)
            return total + inner[0], inner[1]

        total, rows = tnf.scan(row, 0.0, xs)
        return tnf.switch(i, [lambda a: a, lambda a: a * 2.0, lambda a: -a], total), rows

    program = tnf.compile(function, TensorSpec((), "int32"), TensorSpec((2, 3), F64))
    xs = np.random.default_rng(0).normal(size=(2, 3))
    for i in (0, 1, 2):
        index = np.asarray(i, np.int32)
        for y, z in zip(program.run(index, xs), run(to_onnx(program), [index, xs]), strict=True):
            np.testing.assert_allclose(z, y, rtol=1e-13)


@needs_onnx
def test_all_ops_without_a_counterpart_are_told_at_once() -> None:
    def function(x: Any) -> Any:
        bits = tnf.lax.population_count(x)
        return tnf.lax.clz(bits + x)

    with pytest.raises(
        UnsupportedError,
        match=r"(?s)PopulationCount of \(i32\[3\]\) at .*CountLeadingZeros of \(i32\[3\]\) at",
    ):
        to_onnx(tnf.compile(function, TensorSpec((3,), "int32")))
    with pytest.raises(UnsupportedError, match="complex64"):
        to_onnx(tnf.compile(lambda x: x, TensorSpec((3,), "complex64")))


@needs_onnx
def test_files_and_arguments(tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "f.onnx"
    xla_peer.export(
        lambda p: {"y": p["x"] * 2.0}, {"x": TensorSpec(("n", 3), F64)}, format="onnx", path=path
    )
    model = onnx.load(path)
    assert [value.name for value in model.graph.input] == ["p_x"]
    assert [
        dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim
    ] == ["n", 3]
    (y,) = run(model, [np.ones((2, 3))])
    np.testing.assert_array_equal(y, np.full((2, 3), 2.0))
    with pytest.raises(InvalidConfigError, match=r"an ONNX model is a \.onnx file"):
        xla_peer.export(lambda x: x, 1.0, format="onnx", path=tmp_path / "f.mlir")
    with pytest.raises(InvalidConfigError, match="takes 1 arrays, got 2"):
        run(model, [1, 2])
    with pytest.raises(InvalidConfigError, match="engine is one of"):
        run(model, [np.ones((2, 3))], "torch")
    with pytest.raises(InvalidConfigError, match="opset is from 26"):
        to_onnx(tnf.compile(lambda x: x, 1.0), opset=11)


def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'tenferro\[onnx\]'"):
        to_onnx(tnf.compile(lambda x: x, 1.0))


def test_at_least_ninety_ops_have_nodes() -> None:
    assert len({card.__name__ for card in NODES} - MISSING - {"Extension"}) >= 90

"""Programs exported as ONNX models.

The reference evaluator of the onnx package must run each op as it is defined.
"""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.ext.linalg.families import Lu, LuSolve
from tenferro.extension import apply
from tenferro.types import DType, TensorSpec
from tests.lowering.test_to_numpy import PROGRAMS, alone
from tests.samples import SAMPLES
from tests.samples.closeness import assert_close
from tests.samples.each import all_pass, each_card
from tests.samples.sample import OpSample
from xla_peer.onnx import import_onnx, run, to_onnx
from xla_peer.onnx.emit import NODES
from xla_peer.onnx.layers import LAYERS
from xla_peer.sampling import random_arrays

F64 = "float64"
MISSING = {"Complex", "ReducePrecision"}
"""Names of the ops that have no counterpart in ONNX."""
WIDER = {"Erf": 64, "Cbrt": 8}
"""Larger tolerances, in ulps, by the name of the op.

Engines for ONNX are less accurate: for example, the reference computes Erf in float32.
"""
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
    except UnsupportedError:
        return  # because another test counts these ops
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
    "name",
    [
        "dense",
        "recurrent",
        "gradient",
        "convolution",
        "picked",
        "weights",
        "triangles",
        "determinant",
        "table",
    ],
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
@pytest.mark.parametrize("transpose", ["N", "T"])
def test_solves_with_given_factors(transpose: str) -> None:
    def solved(a: Any, b: Any) -> Any:
        return apply(LuSolve(transpose), a, *apply(Lu(), a), b)

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 2))
    model = to_onnx(tnf.compile(solved, a, b))
    (x,) = run(model, [a, b])
    np.testing.assert_allclose(x, np.linalg.solve(a if transpose == "N" else a.mT, b), rtol=1e-9)


@needs_onnx
def test_loops_stack_matrices() -> None:
    """The exporter must flatten matrices that a loop stacks to vectors.

    onnx.reference would concatenate the matrices.
    """

    def function(x: Any) -> Any:
        return tnf.scan(lambda c, _: (c * 2.0, tnf.stack([c, -c])), x, None, length=3)[1][2]

    program = tnf.compile(function, TensorSpec((2,), F64))
    x = np.array([1.0, 3.0])
    (y,) = run(to_onnx(program), [x])
    np.testing.assert_array_equal(y, [4.0 * x, -4.0 * x])


@needs_onnx
@pytest.mark.parametrize("engine", ["reference", "onnxruntime"])
def test_eigenvalues_and_singular_values_are_loops(engine: str) -> None:
    if engine == "onnxruntime" and not HAS_RUNTIME:
        pytest.skip("the package onnxruntime is not installed")

    def function(a: Any) -> Any:
        values, vectors = tnf.linalg.eigh(a + a.T)
        u, s, v = tnf.linalg.svd(a, full_matrices=False)
        return values, (vectors * tnf.exp(values)) @ vectors.T, s, (u * s**2) @ v

    program = tnf.compile(function, TensorSpec((4, 4), F64))
    a = np.random.default_rng(1).normal(size=(4, 4))
    for y, z in zip(program.run(a), run(to_onnx(program), [a], engine), strict=True):
        np.testing.assert_allclose(z, y, rtol=1e-12, atol=1e-12)


@needs_onnx
def test_matrices_of_any_extent_are_not_factorised() -> None:
    program = tnf.compile(tnf.linalg.cholesky, TensorSpec(("n", "n"), F64))
    with pytest.raises(UnsupportedError, match="matrices of known extents of at most 128"):
        to_onnx(program)
    (y,) = run(to_onnx(tnf.compile(tnf.linalg.cholesky, np.eye(2))), [np.diag([1.0, -1.0])])
    assert np.isnan(y[np.tril_indices(2)]).all()


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
        return tnf.lax.bitcast_convert_type(tnf.lax.reduce_precision(x, 5, 10), "uint8")

    with pytest.raises(
        UnsupportedError,
        match=r"(?s)ReducePrecision of \(f32\[3\]\) at .*BitcastConvert of \(f32\[3\]\) at",
    ):
        to_onnx(tnf.compile(function, TensorSpec((3,), "float32")))
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
    with pytest.raises(InvalidConfigError, match=r"an ONNX model must be a \.onnx file"):
        xla_peer.export(lambda x: x, 1.0, format="onnx", path=tmp_path / "f.mlir")
    with pytest.raises(InvalidConfigError, match="takes 1 arrays, got 2"):
        run(model, [1, 2])
    with pytest.raises(InvalidConfigError, match="engine must be one of"):
        run(model, [np.ones((2, 3))], "torch")
    with pytest.raises(InvalidConfigError, match="opset must be from 26"):
        to_onnx(tnf.compile(lambda x: x, 1.0), opset=11)


def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[onnx\]'"):
        to_onnx(tnf.compile(lambda x: x, 1.0))


def test_at_least_ninety_ops_have_nodes() -> None:
    assert len({card.__name__ for card in NODES} - MISSING - {"Extension"}) >= 90


@needs_onnx
@pytest.mark.sweep
def test_a_module_of_jax_travels_with_its_gradient(tmp_path: Path) -> None:
    """A solve in a module of JAX must be exported with its gradient.

    `jax.export` writes it as getrf, a loop over pivots, and triangular solves.
    """
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(3, 3)).astype("f4"), rng.normal(size=(3, 2)).astype("f4")
    exported = jax.export.export(jax.jit(jax.numpy.linalg.solve))(a, b)
    program = lowering.import_stablehlo(exported.serialize())
    x = np.linalg.solve(a, b)
    for engine in ("reference", "onnxruntime")[: 1 + HAS_RUNTIME]:
        (y,) = run(to_onnx(program), [a, b], engine)
        np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-5)
    path = tmp_path / "solved.py"
    source = xla_peer.export(program, format="numpy", path=path)
    space = runpy.run_path(str(path))
    np.testing.assert_allclose(space[source.name](a, b), x, rtol=1e-4, atol=1e-5)
    gradient = -2.0 * np.linalg.solve(a.T, x) @ x.T
    again = tnf.grad(lambda a: tnf.sum(space[source.name](a, b) ** 2))(a)
    np.testing.assert_allclose(again, gradient, rtol=1e-3, atol=1e-4)


# ---- models in -----------------------------------------------------------------------------------------------


@needs_onnx
@pytest.mark.parametrize(
    "name", ["dense", "gradient", "convolution", "picked", "weights", "recurrent"]
)
def test_what_is_written_is_read_again(name: str) -> None:
    function, specs = PROGRAMS[name]
    program = tnf.compile(function, *specs)
    leaves = random_arrays(program, np.random.default_rng(5))
    expected = tnf.tree.leaves(program.run(*tnf.tree.unflatten(program.in_tree, leaves)))
    concrete = [TensorSpec(x.shape, x.dtype) for x in leaves]
    again = import_onnx(to_onnx(program), *concrete)
    for y, z in zip(expected, again.run(*leaves), strict=True):
        tolerance = 1e-4 if y.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(z, y, rtol=tolerance, atol=tolerance)


@needs_onnx
def test_arrays_are_left_in_the_file_or_beside_it(tmp_path: Path) -> None:
    import onnx

    table = np.random.default_rng(2).normal(size=(100, 100))
    flags = np.arange(100_000) % 3 == 0
    program = tnf.compile(lambda x: (x * table, tnf.sum(tnf.where(flags, 1.0, x[0, 0]))), table)
    path = tmp_path / "f.onnx"
    xla_peer.export(program, format="onnx", path=path)
    assert [each.name for each in tmp_path.iterdir()] == ["f.onnx"]
    expected = program.run(table)
    for y, z in zip(import_onnx(path).run(table), expected, strict=True):
        np.testing.assert_allclose(y, z)
    model = xla_peer.export(program, format="onnx", path=path, weights="w.safetensors")
    assert path.stat().st_size < 10_000
    onnx.checker.check_model(str(path), full_check=True)
    for y, z in zip(run(path, [table]), expected, strict=True):
        np.testing.assert_allclose(y, z)
    with pytest.raises(InvalidConfigError, match="give the path"):
        run(model, [table])
    with pytest.raises(InvalidConfigError, match="give the model's path"):
        import_onnx(model)
    with pytest.raises(InvalidConfigError, match="give its path"):
        xla_peer.export(program, format="onnx", weights="w.safetensors")
    content = (tmp_path / "w.safetensors").read_bytes()
    (tmp_path / "w.safetensors").write_bytes(content[:-8])
    with pytest.raises(InvalidConfigError, match=r"bytes at \d+ of .*w.safetensors, which has"):
        import_onnx(path)
    for outside in ("../w.safetensors", "/w.safetensors", "a\\w", ""):
        for tensor in model.graph.initializer:
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = outside
        path.write_bytes(model.SerializeToString())
        with pytest.raises(InvalidConfigError, match="not in the model's folder"):
            import_onnx(path)


@needs_onnx
def test_files_that_are_cut_short_or_no_models_are_refused(tmp_path: Path) -> None:
    table = np.random.default_rng(2).normal(size=(100, 100))
    path = tmp_path / "f.onnx"
    xla_peer.export(lambda x: x @ table, table, format="onnx", path=path)
    content = path.read_bytes()
    for size in (100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises((InvalidConfigError, UnsupportedError)):
            import_onnx(path)
    for text in (b"\xff" * 40, b"no model at all", b"\x3a\xff\xff\xff\xff\x7f"):
        path.write_bytes(text)
        with pytest.raises(InvalidConfigError, match="is not an ONNX model"):
            import_onnx(path)


@needs_onnx
def test_models_are_differentiated_and_exported(tmp_path: Path) -> None:
    import onnx

    nodes = [
        onnx.helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1),
        onnx.helper.make_node("LayerNormalization", ["h", "scale"], ["n"]),
        onnx.helper.make_node("Gelu", ["n"], ["g"]),
        onnx.helper.make_node("ReduceSum", ["g"], ["y"], keepdims=0),
    ]
    rng = np.random.default_rng(1)
    w, b, scale = rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=4)
    initial = [
        onnx.numpy_helper.from_array(x, name) for x, name in ((w, "w"), (b, "b"), (scale, "scale"))
    ]
    double = onnx.TensorProto.DOUBLE
    graph = onnx.helper.make_graph(
        nodes,
        "layer",
        [onnx.helper.make_tensor_value_info("x", double, ["n", 3])],
        [onnx.helper.make_tensor_value_info("y", double, [])],
        initial,
    )
    path = tmp_path / "layer.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]), path)
    program = import_onnx(path)
    assert (program.name, program.input_names, str(program.input_specs[0])) == (
        "layer",
        ("x",),
        "f64[n,3]",
    )

    def layer(x: Any) -> Any:
        h = x @ w.T + b
        mean = tnf.mean(h, axis=-1, keepdims=True)
        n = (h - mean) / tnf.sqrt(tnf.var(h, axis=-1, keepdims=True) + 1e-5) * scale
        return tnf.sum(tnf.nn.gelu(n, approximate=False))

    x = rng.normal(size=(5, 3))
    np.testing.assert_allclose(program.run(x)[0], layer(x), rtol=1e-12)
    gradient = tnf.grad(lambda x: program.run(x)[0])(x)
    np.testing.assert_allclose(gradient, tnf.grad(layer)(x), rtol=1e-9, atol=1e-12)
    artifact = xla_peer.export(program, format="stablehlo")
    np.testing.assert_allclose(artifact.run(x)[0], layer(x), rtol=1e-12)


@needs_onnx
def test_operators_that_are_not_read_are_told_at_once(tmp_path: Path) -> None:
    import onnx

    nodes = [
        onnx.helper.make_node("TfIdfVectorizer", ["x"], ["a"]),
        onnx.helper.make_node("Bernoulli", ["x"], ["b"]),
    ]
    single = onnx.TensorProto.FLOAT
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "g", [value("x", single, [3])], [value("a", single, None)]
    )
    with pytest.raises(UnsupportedError, match="not read: Bernoulli, TfIdfVectorizer"):
        import_onnx(onnx.helper.make_model(graph))
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(InvalidConfigError, match="is not an ONNX model"):
        import_onnx(path)
    shape = onnx.helper.make_graph(
        [onnx.helper.make_node("Reshape", ["x", "s"], ["y"])],
        "g",
        [value("x", single, [6]), value("s", onnx.TensorProto.INT64, [2])],
        [value("y", single, None)],
    )
    with pytest.raises(
        UnsupportedError, match=r"a shape depends on inputs; give these in constants="
    ):
        import_onnx(onnx.helper.make_model(shape))
    program = import_onnx(onnx.helper.make_model(shape), constants={"s": np.array([2, 3])})
    assert program.run(np.arange(6, dtype=np.float32))[0].shape == (2, 3)
    with pytest.raises(InvalidConfigError, match="z in constants is not an input"):
        import_onnx(onnx.helper.make_model(shape), constants={"z": 1})


OURS = {*range(1, 27)} - {8}
"""Numbers of the ONNX element types that are supported: all except strings (8) and floats of six bits."""


def is_ours(model: Any) -> bool:
    values = [*model.graph.input, *model.graph.output]
    return all(each.domain in ("", "ai.onnx") for each in model.opset_import) and all(
        value.type.WhichOneof("value") == "tensor_type" and value.type.tensor_type.elem_type in OURS
        for value in values
    )


def node_case_agrees(case: Any) -> None:
    import onnx

    arrays = [
        [onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x for x in part]
        for part in case.data_sets[0]
    ]
    pairs = dict(zip([value.name for value in case.model.graph.input], arrays[0], strict=True))

    def results(known: set[str]) -> Any:
        constants = {name: x for name, x in pairs.items() if name in known}
        rest = [np.asarray(x) for name, x in pairs.items() if name not in known]
        program = import_onnx(
            case.model, *[TensorSpec(x.shape, x.dtype) for x in rest], constants=constants
        )
        return program.run(*rest)

    try:
        actual = results(set())
    except UnsupportedError as error:
        if "constants=" not in str(error):
            raise
        actual = results(
            {
                name
                for name, x in pairs.items()
                if DType.of(np.asarray(x).dtype).kind in "iub"
                or not np.ndim(x)
                or name in ("scales", "roi")
            }
        )
    for y, z in zip(arrays[1], actual, strict=True):
        y, z = np.asarray(y), np.asarray(z)
        assert (z.dtype, z.shape) == (y.dtype, y.shape)
        tolerance = {"bfloat16": 2e-2, "float16": 1e-2, "float32": 1e-3}.get(str(y.dtype), 1e-7)
        wide = complex if y.dtype.kind == "c" else float
        np.testing.assert_allclose(
            z.astype(wide), y.astype(wide), rtol=tolerance, atol=tolerance / 10
        )


def node_cases_that_agree(every: int) -> tuple[int, int]:
    """Run every `every`-th test case of the onnx package; return how many agree, and how many there are."""
    from onnx.backend.test.loader import load_model_tests

    cases = [
        case
        for case in load_model_tests(kind="node")
        if case.model is not None and is_ours(case.model)
    ]
    good = 0
    for case in cases[::every]:
        try:
            node_case_agrees(case)
            good += 1
        except (UnsupportedError, AssertionError, TypeError, ValueError):
            pass
    return good, len(cases[::every])


def of_node(op: str, y: Any, *operands: Any, opset: int = 25, **attributes: Any) -> Any:
    """Return the result of one ONNX operator. Its dtype and shape must be those of `y`."""
    import onnx

    arrays = [np.asarray(x) for x in operands]
    names = [f"x{number}" for number in range(len(arrays))]
    kind = onnx.helper.np_dtype_to_tensor_dtype
    values = [
        onnx.helper.make_tensor_value_info(name, kind(x.dtype), x.shape)
        for name, x in zip([*names, "y"], [*arrays, np.asarray(y)], strict=True)
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, ["y"], **attributes)], "node", values[:-1], values[-1:]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    (result,) = import_onnx(model).run(*arrays)
    assert (result.dtype, result.shape) == (np.asarray(y).dtype, np.asarray(y).shape)
    return result


OPERATORS: dict[str, tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = {
    "extents": ("Shape", np.array([2, 3]), (np.zeros((2, 3), "f4"),), {}),
    "some extents": ("Shape", np.array([3]), (np.zeros((2, 3), "f4"),), {"start": 1}),
    "sign of a shifted integer": (
        "BitShift", np.array([-4, -1, 3, -1], "i1"), (np.array([-8, -1, 6, -3], "i1"), np.array([1, 3, 1, 8], "i1")),
        {"direction": "RIGHT"}),
    "no sign of a shifted integer": (
        "BitShift", np.array([127, 3], "u1"), (np.array([255, 6], "u1"), np.array([1, 1], "u1")), {"direction": "RIGHT"}),
    "blocks after channels": (
        "SpaceToDepth", np.arange(8.0).reshape(1, 8, 1, 1), (np.arange(8.0).reshape(1, 2, 2, 2),),
        {"blocksize": 2, "mode": "CRD"}),
    "blocks before channels": (
        "SpaceToDepth", np.array([0.0, 4, 1, 5, 2, 6, 3, 7]).reshape(1, 8, 1, 1), (np.arange(8.0).reshape(1, 2, 2, 2),),
        {"blocksize": 2}),
    # Without `output_shape`, the result is x * [1, 2, 3] with stride 2, which is [1, 2, 5, 4, 6]. `output_shape`
    # appends two zeros.
    "zeros beyond a transposed convolution": (
        "ConvTranspose", np.array([[[1.0, 2, 5, 4, 6, 0, 0]]]), (np.array([[[1.0, 2]]]), np.array([[[1.0, 2, 3]]])),
        {"strides": [2], "output_shape": [7]}),
    "odd element of a transposed convolution": (
        "ConvTranspose", np.array([[[2.0, 5, 4, 6]]]), (np.array([[[1.0, 2]]]), np.array([[[1.0, 2, 3]]])),
        {"strides": [2], "output_shape": [4]}),
    "odd element at the end": (
        "ConvTranspose", np.array([[[1.0, 2, 5, 4]]]), (np.array([[[1.0, 2]]]), np.array([[[1.0, 2, 3]]])),
        {"strides": [2], "output_shape": [4], "auto_pad": "SAME_UPPER"}),
    # The third element is round(2.5) + 1 = 3, because halves are rounded to even and the zero point is 1.
    "narrow integers": (
        "QuantizeLinear", np.array([0, 255, 3], "u1"), (np.array([-9, 999, 2.5], "f4"), np.array(1, "f4"), np.array(1, "u1")), {}),
    "numbers of narrow integers": (
        "DequantizeLinear", np.array([[0.5, 8], [-1, 0]], "f4"),
        (np.array([[3, 2], [0, 0]], "i1"), np.array([0.5, 4], "f4"), np.array([2, 0], "i1")), {}),
    # The zero point 2 is subtracted from [1, 4]. The product is therefore [-1, 2] @ [[1], [3]] = 5.
    "products of narrow integers": (
        "MatMulInteger", np.array([[5]], "i4"), (np.array([[1, 4]], "u1"), np.array([[1], [3]], "i1"), np.array(2, "u1")), {}),
    "the beginning in reverse": (
        "ReverseSequence", np.array([[2.0, 1, 3], [6, 5, 4]]),
        (np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([2, 3])), {"time_axis": 1, "batch_axis": 0}),
    # One window covers the padded input [0, 1, 2]. The next window would start at index 3, in the padding, and must
    # be omitted.
    "last window in the padding": (
        "AveragePool", np.array([[[1.0]]]), (np.array([[[1.0, 2]]]),),
        {"kernel_shape": [3], "strides": [3], "pads": [1, 1], "ceil_mode": 1, "count_include_pad": 1}),
    "softmax of all axes from the first on": (
        "Softmax", np.full((2, 2, 2), 0.25), (np.zeros((2, 2, 2)),), {"opset": 12}),
    "the largest of all axes from the first on": (
        "Hardmax", np.array([[[0.0, 0], [1, 0]]]), (np.array([[[1.0, 2], [3, 0]]]),), {"opset": 12}),
    "scales of groups": (
        "GroupNormalization", np.array([[[2.0, -2], [2, -2], [3, -3], [3, -3]]]),
        (np.array([[[1.0, -1], [1, -1], [7, -7], [7, -7]]]), np.array([2.0, 3]), np.zeros(2)),
        {"opset": 18, "num_groups": 2, "epsilon": 0.0}),
    "transform of the last but one axis": (
        "DFT", np.array([[[[3.0, 0], [-1, 0]], [[7, 0], [-1, 0]]]]), (np.array([[[[1.0], [2]], [[3], [4]]]]),), {}),
    "transform of axis 1": (
        "DFT", np.array([[[[4.0, 0], [6, 0]], [[-2, 0], [-2, 0]]]]), (np.array([[[[1.0], [2]], [[3], [4]]]]),),
        {"opset": 17}),
    "a vector along axis 1": (
        "Add", np.array([[[11.0, 12], [23, 24]]]), (np.array([[[1.0, 2], [3, 4]]]), np.array([10.0, 20])),
        {"opset": 6, "axis": 1, "broadcast": 1}),
    "slopes of features": (
        "PRelu", np.array([[[-10.0, 2], [-60, 4]]]), (np.array([[[-1.0, 2], [-3, 4]]]), np.array([10.0, 20])), {"opset": 6}),
    "largest floats of eight bits": (
        "Cast", np.array([448, -448, 1.5, 448], ml_dtypes.float8_e4m3fn), (np.array([1e9, -np.inf, 1.5, 460], "f4"),), {"to": 17}),
    "infinite floats of eight bits": (
        "Cast", np.array([np.inf, -np.inf, 57344], ml_dtypes.float8_e5m2), (np.array([1e9, -np.inf, 57344], "f4"),),
        {"to": 19, "saturate": 0}),
    "integers of four bits wrap": (
        "Cast", np.array([7, -8, 1], ml_dtypes.int4), (np.array([-9, 8.9, 17], "f4"),), {"to": 22}),
    "powers of two": (
        "Cast", np.array([1, 2, 4, 2.0**127], ml_dtypes.float8_e8m0fnu), (np.array([1, 1.25, 3, 3e38], "f4"),),
        {"to": 24, "opset": 24}),
    "fractions of narrow floats": (
        "DequantizeLinear", np.array([1.0, -3], "f4"),
        (np.array([0.5, -1.5], ml_dtypes.float8_e4m3fn), np.array(2, "f4")), {}),
    "narrow floats": (
        "QuantizeLinear", np.array([0.75, 448], ml_dtypes.float8_e4m3fn),
        (np.array([1.5, 1e6], "f4"), np.array(2, "f4"), np.array(0, ml_dtypes.float8_e4m3fn)), {}),
    "a byte of a bool": ("BitCast", np.array([1, 0], "u1"), (np.array([True, False]),), {"to": 2, "opset": 26}),
}  # fmt: skip


@needs_onnx
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_of_a_model(name: str) -> None:
    op, y, operands, attributes = OPERATORS[name]
    np.testing.assert_array_equal(of_node(op, y, *operands, **attributes), y)


@needs_onnx
@pytest.mark.parametrize(
    ("attributes", "y"),
    [
        ({}, [1.0, 1, 2, 2]),
        ({"mode": "linear"}, [1.0, 1.25, 1.75, 2]),
        ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, [1.0, 1.5, 2, 2]),
        # With the coefficient -1/2, Keys' kernel interpolates linear functions exactly.
        ({"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}, None),
    ],
)
def test_an_axis_is_resized(attributes: Any, y: Any) -> None:
    x = np.array([1.0, 2.0]) if y else np.arange(8.0)
    actual = LAYERS["Resize"]({"opset": 19, **attributes}, x, None, np.array([2.0]))
    if y is None:
        np.testing.assert_allclose(actual[4:-4], (np.arange(16.0)[4:-4] - 0.5) / 2, rtol=1e-14)
    else:
        np.testing.assert_array_equal(actual, y)


RNG = np.random.default_rng(7)
IMAGE, GRID = RNG.normal(size=(2, 3, 5, 4)), RNG.uniform(-2.5, 2.5, (2, 3, 4, 2))
REGIONS = np.array([[0.5, 0.2, 3.1, 4.4], [-2.0, 1.0, 2.0, 9.0], [1.0, 1.0, 1.5, 1.2]], "f4")
SCORES = RNG.uniform(size=(2, 3, 12)).astype("f4")
BOXES = (RNG.uniform(0, 3, (2, 12, 4)) + np.array([0, 0, 1, 1])).astype("f4")
REFERRED: dict[str, tuple[str, int, tuple[Any, ...], dict[str, Any]]] = {
    **{
        f"{mode} {padding} {aligned}": (
            "GridSample", 1, (IMAGE, GRID), {"mode": mode, "padding_mode": padding, "align_corners": aligned})
        for mode in ("nearest", "linear", "cubic")
        for padding in ("zeros", "border", "reflection")
        for aligned in (0, 1)
    },
    "samples by region": ("RoiAlign", 1, (IMAGE.astype("f4"), REGIONS, np.array([0, 1, 1])),
        {"output_height": 2, "output_width": 3}),
    "largest samples": ("RoiAlign", 1, (IMAGE.astype("f4"), REGIONS, np.array([0, 1, 1])),
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "mode": "max", "spatial_scale": 0.5,
         "coordinate_transformation_mode": "output_half_pixel"}),
    "offsets of groups": ("DeformConv", 1,
        (RNG.normal(size=(1, 4, 5, 4)), RNG.normal(size=(6, 2, 2, 2)), RNG.normal(size=(1, 16, 3, 2)), RNG.normal(size=6),
         RNG.uniform(size=(1, 8, 3, 2))),
        {"group": 2, "offset_group": 2, "strides": [2, 3], "pads": [1, 0, 1, 1], "dilations": [2, 1]}),
    "blocks": ("Col2Im", 1, (RNG.normal(size=(2, 12, 9)), np.array([5, 6]), np.array([2, 3])),
        {"strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 2]}),
    "columns of a pool": ("MaxPool", 2, (IMAGE,), {"kernel_shape": [2, 2], "strides": [2, 1], "storage_order": 1}),
    "boxes": ("NonMaxSuppression", 1,
        (BOXES, SCORES, np.array([4]), np.array([0.3], "f4"), np.array([0.2], "f4")), {}),
    "rows": ("Unique", 4, (RNG.integers(0, 2, (9, 2, 2)),), {"axis": 0}),
    "columns in their order": ("Unique", 4, (RNG.integers(0, 4, 12),), {"sorted": 0}),
    "half of a spectrum": ("DFT", 1, (RNG.normal(size=(2, 7, 3, 1)), np.array(6)), {"onesided": 1}),
    "a longer spectrum": ("DFT", 1, (RNG.normal(size=(2, 7, 3, 2)), np.array(5), np.array(1)), {"inverse": 1}),
    "a signal of half a spectrum": ("DFT", 1, (RNG.normal(size=(2, 4, 2)), np.array(7)), {"inverse": 1, "onesided": 1}),
    "frames": ("STFT", 1, (RNG.normal(size=(2, 19, 1)), np.array(3), np.hanning(8)), {}),
}  # fmt: skip


@needs_onnx
@pytest.mark.parametrize("name", REFERRED)
@pytest.mark.parametrize("is_traced", [True, False])
def test_an_operator_by_the_reference(name: str, is_traced: bool) -> None:
    """The results of an operator must equal those of onnx.reference, both for traced operands and for constants."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    op, count, operands, attributes = REFERRED[name]
    kind, names = onnx.helper.np_dtype_to_tensor_dtype, [f"x{i}" for i in range(len(operands))]
    outputs = [f"y{i}" for i in range(count)]
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, names, outputs, **attributes)],
        "node",
        [value(each, kind(x.dtype), x.shape) for each, x in zip(names, operands, strict=True)],
        [value(each, kind(operands[0].dtype), None) for each in outputs],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)])
    arrays = dict(zip(names, operands, strict=True))
    expected: Any = ReferenceEvaluator(model).run(None, arrays)
    constants = {
        each: x
        for each, x in arrays.items()
        if not is_traced
        or (op in ("Col2Im", "DFT", "STFT") and each != "x0" and x.dtype.kind == "i")
        or (name == "samples by region" and each == "x1")
    }
    rest = [x for each, x in arrays.items() if each not in constants]
    program = import_onnx(model, constants=constants)
    for y, z in zip(expected, program.run(*rest), strict=True):
        assert (z.dtype, z.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(z, y, rtol=1e-5, atol=1e-5)


@needs_onnx
def test_sampling_is_differentiated() -> None:
    import onnx

    double = onnx.TensorProto.DOUBLE
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node(
                "GridSample", ["x", "g"], ["y"], mode="cubic", padding_mode="border"
            )
        ],
        "node",
        [value("x", double, IMAGE.shape), value("g", double, GRID.shape)],
        [value("y", double, None)],
    )
    program = import_onnx(onnx.helper.make_model(graph))
    assert tnf.check_grads(lambda x, g: program.run(x, g)[0], (IMAGE, GRID / 3), order=1)


@needs_onnx
def test_a_recurrent_layer_is_differentiated() -> None:
    import onnx

    rng = np.random.default_rng(2)
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    shapes = {"w": (2, 12, 3), "r": (2, 12, 3), "b": (2, 24)}
    weights = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    lengths = np.array([5, 3], np.int32)
    arrays = {**weights, "n": lengths}
    node = helper.make_node(
        "LSTM", ["x", *arrays], ["y", "h"], hidden_size=3, direction="bidirectional"
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "layer",
        [value("x", double, [5, 2, 3])],
        [value("y", double, None), value("h", double, None)],
        [onnx.numpy_helper.from_array(x, name) for name, x in arrays.items()],
    )
    program = import_onnx(helper.make_model(graph))

    def layer(xs: Any, w: Any, r: Any, b: Any) -> tuple[Any, Any]:
        h = c = np.zeros(3)
        outputs = []
        for x in xs:
            i, o, f, new = np.split(w @ x + r @ h + b[:12] + b[12:], 4)
            i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
            c = f * c + i * np.tanh(new)
            h = o * np.tanh(c)
            outputs.append(h)
        return np.stack(outputs), h

    x = rng.normal(size=(5, 2, 3))
    y, h = program.run(x)
    for k, n in enumerate(lengths):
        for d, order in enumerate([slice(None), slice(None, None, -1)]):
            outputs, last = layer(x[:n, k][order], *[part[d] for part in weights.values()])
            np.testing.assert_allclose(y[:n, d, k], outputs[order], rtol=1e-12)
            np.testing.assert_allclose(h[d, k], last, rtol=1e-12)
            assert not y[n:, d, k].any()

    def loss(x: Any) -> Any:
        return tnf.sum(program.run(x)[0] ** 2)

    direction = rng.normal(size=x.shape)
    sides = [loss(x + step * direction) for step in (1e-6, -1e-6)]
    slope = np.sum(tnf.grad(loss)(x) * direction)
    np.testing.assert_allclose(slope, (sides[0] - sides[1]) / 2e-6, rtol=1e-6)


@needs_onnx
@pytest.mark.parametrize("kind", ["ScatterND", "ScatterElements"])
def test_scatters_into_constants_are_imported(kind: str) -> None:
    import onnx

    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    rows, updates = np.array([2, 0, -1]), np.array([1.0, 2.0, 4.0])
    arrays = {"table": np.arange(4.0), "rows": rows[:, None] if kind == "ScatterND" else rows}
    graph = helper.make_graph(
        [helper.make_node(kind, ["table", "rows", "updates"], ["y"])],
        "scatter",
        [helper.make_tensor_value_info("updates", double, [3])],
        [helper.make_tensor_value_info("y", double, [4])],
        [onnx.numpy_helper.from_array(x, name) for name, x in arrays.items()],
    )
    program = import_onnx(helper.make_model(graph))
    (y,) = program.run(updates)
    np.testing.assert_array_equal(y, [2.0, 1.0, 1.0, 4.0])
    slope = tnf.grad(lambda x: tnf.sum(program.run(x)[0] * np.arange(1.0, 5.0)))(updates)
    np.testing.assert_array_equal(slope, [3.0, 1.0, 4.0])


WITH_EXTENTS: dict[str, Any] = {
    "mean": (lambda x: tnf.mean(x, axis=0), lambda x: x.mean(0)),
    "rows": (lambda x: x * tnf.arange(x.shape[0])[:, None], lambda x: x * np.arange(len(x))[:, None]),
    "backwards": (lambda x: tnf.flip(x, 0), lambda x: x[::-1]),
    "sorted": (lambda x: tnf.sort(x, axis=1), lambda x: np.sort(x, 1)),
    "loop": (
        lambda x: tnf.fori_loop(0, 3, lambda _, y: y * 0.5 + tnf.ones_like(y), x),
        lambda x: x / 8 + 1.75,
    ),
    "scan": (
        lambda x: tnf.scan(lambda c, row: (c + row, c * 2.0), tnf.zeros(4), x)[1],
        lambda x: 2 * (np.cumsum(x, 0) - x),
    ),
    "gradient": (tnf.grad(lambda x: tnf.mean(x**2)), lambda x: 2 * x / x.size),
}  # fmt: skip


@needs_onnx
@pytest.mark.parametrize("name", WITH_EXTENTS)
def test_models_with_symbolic_extents_are_imported(name: str, tmp_path: Path) -> None:
    function, expected = WITH_EXTENTS[name]
    path = tmp_path / "f.onnx"
    xla_peer.export(function, TensorSpec(("n", 4), "float64"), format="onnx", path=path)
    program = import_onnx(path)
    for n in (5, 2):
        x = np.random.default_rng(n).normal(size=(n, 4))
        np.testing.assert_allclose(program.run(x)[0], expected(x), rtol=1e-13, atol=1e-15)


ROWS, COUNTS = TensorSpec(("n", 3), F64), TensorSpec(("m",), "int64")
X = np.arange(15.0).reshape(5, 3) ** 2 + 1.0
PLACES = np.array([0, -1, 4, 0])

INDEXED: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...], Any]] = {
    "rows": (lambda x, i: x[i], (ROWS, COUNTS), (X, PLACES), X[PLACES]),
    "rows of a table": (
        lambda x, i: x[i],
        (TensorSpec((5, 3), F64), COUNTS),
        (X, PLACES),
        X[PLACES],
    ),
    "columns": (lambda x: x[:, np.array([2, 0])], (ROWS,), (X,), X[:, [2, 0]]),
    "clipped": (
        lambda x, i: tnf.take(x, i, axis=0, mode="clip"),
        (ROWS, TensorSpec((2,), "uint64")),
        (X, np.array([1, 2**64 - 1], np.uint64)),
        X[[1, 4]],
    ),
    "pairs": (
        lambda x, i: x[i, i],
        (TensorSpec((5, 3), F64), COUNTS),
        (X, np.array([0, 2, -1, -2])),
        X[[0, 2, 4, 3], [0, 2, 2, 1]],
    ),
    "elements along an axis": (
        lambda x, i: tnf.take_along_axis(x, i, 1),
        (ROWS, TensorSpec(("n", 1), "int64")),
        (X, np.array([[0], [1], [2], [0], [-1]])),
        X[range(5), [0, 1, 2, 0, 2]][:, None],
    ),
    "sums of rows": (
        lambda x, i, v: x.at[i].add(v),
        (ROWS, COUNTS, TensorSpec(("m", 3), F64)),
        (X, np.array([1, 1, 7, -1]), np.ones((4, 3))),
        X + np.array([0, 2, 0, 0, 1])[:, None],
    ),
    "gradient of rows": (
        tnf.grad(lambda x, i: tnf.sum(x[i] ** 2), 0),
        (ROWS, COUNTS),
        (X, PLACES),
        2 * X * np.array([2, 0, 0, 0, 2])[:, None],
    ),
    "gradient of columns": (
        tnf.grad(lambda x: tnf.sum(x[:, np.array([2, 0])] ** 2)),
        (ROWS,),
        (X,),
        2 * X * [1, 0, 1],
    ),
    "gradient of elements": (
        tnf.grad(lambda x, i: tnf.sum(tnf.take_along_axis(x, i[:, None], 1)), 0),
        (ROWS, TensorSpec(("n",), "int64")),
        (X, np.array([0, 1, 2, 0, 1])),
        np.eye(3)[[0, 1, 2, 0, 1]],
    ),
    "a slice": (
        lambda x, i: tnf.lax.dynamic_slice(x, (i, 0), (2, 3)),
        (ROWS, TensorSpec((), "int64")),
        (X, np.int64(9)),
        X[3:],
    ),
}


@needs_onnx
@pytest.mark.parametrize("engine", ["reference", "onnxruntime"])
@pytest.mark.parametrize("name", INDEXED)
def test_gathers_and_scatters_have_symbolic_extents(name: str, engine: str) -> None:
    if engine == "onnxruntime" and not HAS_RUNTIME:
        pytest.skip("the package onnxruntime is not installed")
    function, specs, arrays, expected = INDEXED[name]
    (y,) = run(to_onnx(tnf.compile(function, *specs)), arrays, engine)
    np.testing.assert_array_equal(y, expected)


@needs_onnx
def test_indices_that_are_not_written_with_symbolic_extents_are_refused() -> None:
    def function(x: Any, u: Any, i: Any) -> Any:
        return tnf.lax.dynamic_update_slice(x, u, (i, 0))

    specs = ROWS, TensorSpec((2, 3), F64), TensorSpec((), "int64")
    with pytest.raises(UnsupportedError, match="DynamicUpdateSlice only of extents that are"):
        to_onnx(tnf.compile(function, *specs))


@needs_onnx
def test_arrays_without_elements_are_constants() -> None:
    """Onnxruntime infers another shape for an Expand to no elements."""
    program = tnf.compile(lambda x: tnf.concatenate([x, tnf.zeros(0), x * 0.0 + tnf.ones(3)]), X[0])
    model = to_onnx(program)
    assert [len(n.input) for n in model.graph.node if n.op_type == "Concat"] == [2]
    read = {name for node in model.graph.node for name in node.input}
    assert {constant.name for constant in model.graph.initializer} <= read
    np.testing.assert_array_equal(run(model, [X[0]])[0], [*X[0], 1.0, 1.0, 1.0])


@needs_onnx
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_unsigned_integers_are_combined_as_signed_ones(dtype: str) -> None:
    """Onnxruntime has no kernels that combine unsigned integers."""
    x = (np.arange(6).reshape(2, 3) * 37 + 5).astype(dtype)
    x[1] = np.iinfo(dtype).max - np.arange(3).astype(dtype)

    def function(x: Any) -> Any:
        sums = tnf.sum(x, axis=0, dtype=dtype), tnf.cumsum(x, axis=0, dtype=dtype)
        return [*sums, tnf.max(x, axis=0), tnf.min(x, axis=1)]

    model = to_onnx(tnf.compile(function, x))
    expected = x.sum(0, dtype), x.cumsum(0, dtype), x.max(0), x.min(1)
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("Cast") >= 4
    for engine in ("reference", "onnxruntime")[: 1 + HAS_RUNTIME]:
        for y, z in zip(run(model, [x], engine), expected, strict=True):
            assert y.dtype == z.dtype
            np.testing.assert_array_equal(y, z)


@needs_onnx
def test_an_empty_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "f.onnx").write_bytes(b"")
    with pytest.raises(InvalidConfigError, match="no graph"):
        import_onnx(tmp_path / "f.onnx")


@needs_onnx
@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
def test_most_node_cases_agree() -> None:
    good, count = node_cases_that_agree(1)
    assert good >= 0.97 * count, f"{good} of {count}"

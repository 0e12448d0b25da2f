"""Artifacts must be readable everywhere, also by other tools. Foreign files must raise errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering import mlir_bindings
from tenferro import errors
from xla_peer.manifest import Manifest
from xla_peer.storage import constants_path

Point = namedtuple("Point", "x y")  # the users' programs have such classes


def attention(p: Any, x: Any) -> Any:
    scores = tnf.softmax(x @ p["w"] @ tnf.matrix_transpose(x), axis=-1)
    return {"out": scores @ x, "norms": [tnf.sum(x * x), tnf.max(x, axis=0)]}


def parameters(rng: Any, d: int) -> Any:
    return {"w": rng.standard_normal((d, d))}


@pytest.mark.parametrize("suffix", [".mlir", ".mlirbc"])
def test_a_file_gives_what_the_program_gives(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p, x = parameters(rng, 3), rng.standard_normal((5, 3))
    program = tnf.compile(attention, p, x)
    made = xla_peer.export(program, path=tmp_path / f"model{suffix}", platforms=("cpu", "tpu"))
    read = xla_peer.load(tmp_path / f"model{suffix}")
    assert read.manifest == made.manifest
    assert read.manifest.inputs[0] == ("p['w']", tnf.TensorSpec((3, 3), "f8"))
    expected = program.run(p, x)
    for artifact in (made, read):
        found = artifact.run(p, x)
        assert list(found) == ["norms", "out"] or list(found) == ["out", "norms"]
        np.testing.assert_allclose(found["out"], expected["out"], rtol=1e-13)
        np.testing.assert_allclose(found["norms"][1], expected["norms"][1])
    xla = xla_peer.XlaExecutor("cpu")
    buffers = {"w": xla.put(p["w"])}, xla.put(x)
    on_device = read.call(*buffers, executor=xla)
    np.testing.assert_allclose(np.asarray(on_device["out"]), expected["out"], rtol=1e-13)
    np.testing.assert_allclose(
        np.asarray(read.compile(xla)(*buffers)["out"]), expected["out"], rtol=1e-13
    )


@pytest.mark.parametrize("dtype", [d for d in tnf.DType if "float6" not in d.value], ids=str)
def test_every_dtype_is_carried(dtype: Any, tmp_path: Path) -> None:
    x = np.arange(4).astype(dtype.dtype)
    table = np.arange(40)[::-1].reshape(10, 4).astype(dtype.dtype)
    path = tmp_path / "select.mlirbc"
    xla_peer.export(lambda x: (x, table), x, path=path, largest_constant=8)
    same, constant = xla_peer.load(path).run(x)
    assert same.dtype == constant.dtype == dtype.dtype
    assert same.tobytes() == x.tobytes()
    assert constant.tobytes() == table.tobytes()


def test_structures_come_back(tmp_path: Path) -> None:
    path = tmp_path / "tree.mlir"
    arguments: Any = (Point(np.ones(2), np.ones(3)), None)
    xla_peer.export(lambda p, none: Point((p.x, [p.y]), none), *arguments, path=path)
    found = xla_peer.load(path).run
    with pytest.raises(errors.ArityError):
        found(np.ones(2), np.ones(3))
    result = found(*arguments)
    assert result._fields == ("x", "y")
    assert result.y is None
    assert isinstance(result.x[1], list)


def test_named_tuples_fit_by_name_and_fields(tmp_path: Path) -> None:
    def f(point: Any) -> Any:
        return point.x + point.y[0]

    point = Point(np.ones(2, "f4"), np.ones(3, "f4"))
    xla_peer.export(f, point, path=tmp_path / "f.mlir")
    tnf.save(tnf.compile(f, point), tmp_path / "f.tnf")
    program = tnf.load(tmp_path / "f.tnf")
    xla = xla_peer.XlaExecutor()
    placed = Point(*map(xla.put, point))
    for call in (xla.compile(program), xla_peer.load(tmp_path / "f.mlir").call):
        for _ in range(2):
            np.testing.assert_array_equal(call(placed), [2.0, 2.0])
    for run in (lambda p: xla.run(program, p), xla_peer.to_jax(program)):
        np.testing.assert_array_equal(run(point), [2.0, 2.0])
    cut = xla_peer.partition(program, xla_peer.Mesh({"one": 1}), xla_peer.PartitionSpec())
    np.testing.assert_array_equal(xla.compile(cut)(*cut.put_local(point)), [2.0, 2.0])
    assert xla_peer.check_parity(program, point).ok


def test_no_inputs_no_outputs_and_empty(tmp_path: Path) -> None:
    path = tmp_path / "x.mlirbc"
    xla_peer.export(lambda: np.arange(3.0), path=path)
    np.testing.assert_array_equal(xla_peer.load(path).run(), np.arange(3.0))
    xla_peer.export(lambda x: (), np.ones(2), path=path)
    assert xla_peer.load(path).run(np.ones(2)) == ()
    xla_peer.export(lambda x: x + 1, np.ones((0, 3)), path=path)
    assert xla_peer.load(path).run(np.ones((0, 3))).shape == (0, 3)


# ---- symbolic extents ------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".mlir", ".mlirbc"])
def test_symbolic_extents_stay(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    specs = {"w": tnf.TensorSpec(("d", "d"), "f8")}, tnf.TensorSpec(("n", "d"), "f8")
    program = tnf.compile(attention, *specs)
    xla_peer.export(program, path=tmp_path / f"any{suffix}")
    artifact = xla_peer.load(tmp_path / f"any{suffix}")
    assert "tensor<?x?xf64>" in artifact.text
    assert "@shape_assertion" in artifact.text
    for n, d in [(5, 3), (2, 7), (1, 1)]:
        p, x = parameters(rng, d), rng.standard_normal((n, d))
        expected, found = program.run(p, x), artifact.run(p, x)
        np.testing.assert_allclose(found["out"], expected["out"], rtol=1e-12, atol=1e-14)
    with pytest.raises(errors.ShapeError, match="axis 1 must have extent d"):
        artifact.run({"w": np.ones((3, 4))}, np.ones((2, 3)))
    with pytest.raises(errors.NonStaticShapeError):
        artifact.compile()


def test_guards_are_checked_and_written() -> None:
    artifact = xla_peer.export(
        lambda x, y: x + y, tnf.TensorSpec(("n",), "f8"), tnf.TensorSpec(("m",), "f8")
    )
    np.testing.assert_array_equal(artifact.run(np.ones(3), np.ones(3)), np.full(3, 2.0))
    with pytest.raises(errors.GuardError, match="n == m"):
        artifact.run(np.ones(3), np.ones(4))


def test_other_tools_find_the_assertions_too() -> None:
    """StableHLO's own pass must find the shape assertions of an exported module, and check them."""
    ir = pytest.importorskip("jaxlib.mlir.ir")
    from jaxlib.mlir import passmanager

    module = xla_peer.export(
        lambda x, y: tnf.concat([x + 1, x], axis=0) * y,
        tnf.TensorSpec(("n",), "f8"),
        tnf.TensorSpec(("m",), "f8"),
    ).module
    mlir_bindings.legalize_chlo("module {}")  # this registers StableHLO's passes
    for extents, holds in [((3, 6), True), ((3, 5), False)]:
        types = ",".join(f"tensor<{n}xf64>" for n in extents)
        pipeline = (
            f"builtin.module(stablehlo-refine-arguments{{types={types}}},stablehlo-refine-shapes,"
            "func.func(stablehlo-check-shape-assertions{enable-shape-assertions=true}))"
        )
        with mlir_bindings.context():
            parsed = ir.Module.parse(module.text)
            try:
                passes = passmanager.PassManager.parse(pipeline)
            except ValueError:
                pytest.skip("this jaxlib does not have the pass")
            if holds:
                passes.run(parsed.operation)
            else:
                with pytest.raises(ir.MLIRError):
                    passes.run(parsed.operation)


@pytest.mark.parametrize(
    ("fn", "specs", "sizes"),
    [
        (lambda x: tnf.reshape(x, (x.shape[0] * x.shape[1],)), [("n", "m")], (2, 3)),
        (lambda x: tnf.reshape(x, (-1,), order="F"), [("n", "m")], (2, 3)),
        (lambda x: tnf.flip(tnf.permute_dims(x, (1, 0)), axis=0), [("n", 2)], (5,)),
        (lambda x: x[1:, ::2], [("n", "m")], (4, 5)),
        (lambda x: tnf.concat([x, x], axis=0) * tnf.arange(x.shape[0] * 2)[:, None], [("n", 3)], (4,)),
        (lambda x: tnf.tril(x) + tnf.eye(x.shape[0]), [("n", "n")], (4,)),
        (lambda x: tnf.argmax(x, axis=1), [("n", "m")], (3, 4)),
        (lambda x: tnf.sort(x, axis=0), [("n", "m")], (3, 4)),
        (lambda x: tnf.mean(x, axis=0), [("n", "m")], (3, 4)),
        (lambda x: tnf.zeros((x.shape[0] // 2, x.shape[0] % 3)) + 1, [("n",)], (7,)),
        (lambda x, y: tnf.einsum("ij,jk->ik", x, y), [("n", "m"), ("m", "k")], (2, 3, 4)),
        (tnf.grad(lambda x: tnf.sum(tnf.exp(x) / tnf.sum(tnf.exp(x)) * x)), [("n",)], (4,)),
    ],
)  # fmt: skip
def test_ops_on_symbolic_extents(fn: Any, specs: Any, sizes: Any) -> None:
    rng = np.random.default_rng(1)
    inputs = [tnf.TensorSpec(shape, "f8") for shape in specs]
    program = tnf.compile(fn, *inputs)
    artifact = xla_peer.export(program)
    for grown in (0, 1):
        symbols: dict[str, int] = {}
        for shape in specs:
            for extent in shape:
                if isinstance(extent, str) and extent not in symbols:
                    symbols[extent] = sizes[len(symbols)] + grown
        arrays = [rng.standard_normal([symbols.get(n, n) for n in shape]) for shape in specs]
        np.testing.assert_allclose(artifact.run(*arrays), program.run(*arrays), rtol=1e-12)


def test_an_op_without_a_symbolic_form_says_so() -> None:
    with pytest.raises(errors.NonStaticShapeError, match=r"CumSum.*(?s:.*)test_artifact.py"):
        xla_peer.export(lambda x: tnf.cumulative_sum(x), tnf.TensorSpec(("n",), "f8"))


# ---- constants -------------------------------------------------------------------------------------


def test_large_constants_lie_beside(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    big, half = rng.standard_normal((64, 256)), np.ones(99_999, ml_dtypes.bfloat16)
    path = tmp_path / "lookup.mlirbc"
    artifact = xla_peer.export(
        lambda x: (big @ x, tnf.asarray(half) * tnf.astype(x[0], "bfloat16")),
        np.ones(256),
        path=path,
        platforms=("cpu", "cuda"),
    )
    assert len(artifact.text) < 5000
    assert [c.name for c in artifact.manifest.constants] == ["constant0", "constant1"]
    read = xla_peer.load(path)
    x = rng.standard_normal(256)
    np.testing.assert_allclose(read.run(x)[0], big @ x, rtol=1e-12)
    os.rename(constants_path(path), tmp_path / "away")
    with pytest.raises(FileNotFoundError):
        xla_peer.load(path)
    np.savez(constants_path(path), constant0=big + 1, constant1=half.view(np.uint16))
    with pytest.raises(errors.InvalidConfigError, match="constant0 differs from the constant"):
        xla_peer.load(path)
    np.savez(constants_path(path), constant0=big.astype("f4"), constant1=half.view(np.uint16))
    with pytest.raises(errors.DTypeError, match="constant0"):
        xla_peer.load(path)
    Path(constants_path(path)).write_bytes(b"no zip")
    with pytest.raises(errors.InvalidConfigError, match="does not contain"):
        xla_peer.load(path)


# ---- platforms -------------------------------------------------------------------------------------


def test_linear_algebra_is_inline_where_platforms_differ() -> None:
    a = np.random.default_rng(0).standard_normal((4, 4))
    one = xla_peer.export(lambda a: tnf.linalg.eigh(a)[0], a)
    assert one.manifest.linalg == "library"
    assert "lapack_" in one.text
    many = xla_peer.export(lambda a: tnf.linalg.eigh(a)[0], a, platforms=("cpu", "cuda", "tpu"))
    assert many.manifest.linalg == "inline"
    assert "custom_call" not in many.text
    for artifact in (one, many):
        np.testing.assert_allclose(artifact.run(a), np.linalg.eigvalsh((a + a.T) / 2), atol=1e-12)


def test_another_platform_than_exported_for() -> None:
    artifact = xla_peer.export(lambda x: x, np.ones(2), platforms=("tpu",))
    with pytest.raises(errors.InvalidConfigError, match="exported for tpu, not for cpu"):
        artifact.run(np.ones(2), executor=xla_peer.XlaExecutor("cpu"))
    with pytest.raises(errors.PlatformUnavailableError):
        artifact.run(np.ones(2))


@pytest.mark.parametrize("platforms", [(), "cpu", ("metal",), ("cpu", "abacus")])
def test_platforms_there_are_not(platforms: Any) -> None:
    with pytest.raises(errors.InvalidConfigError, match="platforms"):
        xla_peer.export(lambda x: x, np.ones(2), platforms=platforms)


@pytest.mark.parametrize("target", ["week4", "week12", "minimum", "current", "1.8.0"])
def test_targets(target: str, tmp_path: Path) -> None:
    path = tmp_path / "t.mlirbc"
    made = xla_peer.export(lambda x: x + x, np.ones(2), target=target, path=path)
    assert made.manifest.versions["stablehlo"].encode() in path.read_bytes()[:30]
    np.testing.assert_array_equal(xla_peer.load(path).run(np.ones(2)), [2.0, 2.0])


@pytest.mark.parametrize("target", ["99.0.0", "yesterday", "0.1.0"])
def test_targets_that_cannot_be_written(target: str) -> None:
    with pytest.raises(errors.InvalidConfigError, match="target_version"):
        xla_peer.export(lambda x: x + x, np.ones(2), target=target)


# ---- foreign files ---------------------------------------------------------------------------------


def test_a_file_cut_short_anywhere(tmp_path: Path) -> None:
    for suffix in (".mlirbc", ".mlir"):
        path = tmp_path / f"whole{suffix}"
        xla_peer.export(lambda x: tnf.sin(x) @ x, np.ones(3), path=path)
        content = path.read_bytes()
        short = tmp_path / f"short{suffix}"
        for end in [0, 1, 3, 4, 20, len(content) // 3, len(content) // 2, len(content) - 9]:
            short.write_bytes(content[:end])
            with pytest.raises(errors.InvalidConfigError, match="load"):
                xla_peer.load(short)


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "foreign.mlir"
    module = "module { func.func public @main(%a: tensor<2xf64>) -> tensor<2xf64> { return %a : tensor<2xf64> } }"
    path.write_text(module)
    with pytest.raises(errors.InvalidConfigError, match="not written by tenferro"):
        xla_peer.load(path)
    other = tmp_path / "foreign.mlirbc"
    other.write_bytes(mlir_bindings.portable_artifact(module))
    with pytest.raises(errors.InvalidConfigError, match="not written by tenferro"):
        xla_peer.load(other)
    for content in (b"", b"PK\x03\x04", b"\xff" * 100, b"module {", module.encode() * 2):
        path.write_bytes(content)
        with pytest.raises(errors.InvalidConfigError):
            xla_peer.load(path)
    with pytest.raises(errors.InvalidConfigError, match="mlirbc"):
        xla_peer.load(tmp_path / "model.onnx")
    with pytest.raises(FileNotFoundError):
        xla_peer.load(tmp_path / "nowhere.mlir")


def test_a_later_version_says_what_to_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "new.mlirbc"
    xla_peer.export(lambda x: x, np.ones(2), path=path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"StableHLO_v1.", b"StableHLO_v9."))
    with pytest.raises(errors.InvalidConfigError, match="upgrade jaxlib"):
        xla_peer.load(path)
    text = tmp_path / "new.mlir"
    made = xla_peer.export(lambda x: x, np.ones(2), path=text)
    document = json.loads(made.manifest.to_json())
    for change, message in [
        ({"version": 2}, "upgrade tenferro"),
        ({"format": "onnx"}, "format"),
        ({"inputs": [["x", "f64[3]"]]}, "manifest says"),
        ({"inputs": [["x", "nonsense"]]}, "spec"),
        ({"in_tree": {"pickle": [0]}}, "tree"),
        ({"outputs": None}, "malformed"),
    ]:
        changed = made.module
        from xla_peer.manifest import ATTRIBUTE

        plain = changed.plain_text.replace(changed.plain_text.split("\n")[0], "module @main {")
        again = type(changed)(**{**vars(changed), "plain_text": plain, "text": plain})
        described = again.with_attributes({ATTRIBUTE: json.dumps({**document, **change})})
        text.write_text(described.plain_text)
        with pytest.raises(errors.InvalidConfigError, match=message):
            xla_peer.load(text)


def test_nothing_is_written_where_it_cannot_be_whole(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidConfigError, match="ends neither"):
        xla_peer.export(lambda x: x, np.ones(2), path=tmp_path / "model.pb")
    with pytest.raises(FileNotFoundError):
        xla_peer.export(lambda x: x, np.ones(2), path=tmp_path / "no" / "model.mlir")
    assert list(tmp_path.iterdir()) == []


def test_the_same_program_is_the_same_file(tmp_path: Path) -> None:
    script = (
        "import numpy as np, tenferro as tnf, xla_peer, sys\n"
        "xla_peer.export(lambda x: tnf.exp(x) * 2, np.ones(3), path=sys.argv[1])\n"
    )
    for name in ("one.mlirbc", "two.mlirbc"):
        subprocess.run([sys.executable, "-c", script, tmp_path / name], check=True)
    assert (tmp_path / "one.mlirbc").read_bytes() == (tmp_path / "two.mlirbc").read_bytes()


@pytest.mark.parametrize(
    "change", [{"platforms": []}, {"platforms": [""]}, {"inputs": [["x"]]}, {"constants": [{}]}]
)
def test_manifests_that_say_too_little(change: dict[str, Any]) -> None:
    manifest = xla_peer.export(lambda x: x + x, np.ones(3)).manifest
    document = json.loads(manifest.to_json())
    assert Manifest.from_json(json.dumps(document)) == manifest
    with pytest.raises(errors.TenferroError):
        Manifest.from_json(json.dumps(document | change))

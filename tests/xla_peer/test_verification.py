"""Exported artifacts contain test vectors. Other platforms are verified with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from xla_peer import XlaExecutor, export, load, verify

N = tnf.TensorSpec(("n", 3), "float64")


def layer(x: Any, w: Any) -> Any:
    h = tnf.tanh(x @ w)
    return {"h": h, "best": tnf.argmax(h, axis=1)}


class Off(XlaExecutor):
    """Executor for a platform that returns slightly wrong results."""

    def compile_module(self, *args: Any, **options: Any) -> Any:
        found = super().compile_module(*args, **options)

        class Wrong:
            def run_leaves(self, leaves: Any) -> Any:
                return [
                    y * (1 + 1e-9) if y.dtype.kind == "f" else y for y in found.run_leaves(leaves)
                ]

        return Wrong()


class Choosing(XlaExecutor):
    """Executor for a platform that returns the index `index`, whatever the keys are."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def compile_module(self, *args: Any, **options: Any) -> Any:
        index = self.index

        class Always:
            def run_leaves(self, leaves: Any) -> Any:
                return [np.array(index)]

        return Always()


def test_vectors_hold_every_candidate_as_good_as_the_winner(tmp_path: Path) -> None:
    keys = np.array([1.0, 2.0, 2.0, 1.5, 2.0])
    path = tmp_path / "choice.mlir"
    export(lambda x: tnf.argmax(tnf.exp(x)), keys, path=path, vectors=[(keys,)])
    assert verify(path, "cpu").ok
    for index in range(6):
        assert verify(path, executor=Choosing(index)).ok is (index in (1, 2, 4))


@pytest.mark.parametrize("suffix", [".mlir", ".mlirbc"])
def test_an_artifact_is_proved_again_from_its_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"layer{suffix}"
    export(layer, N, np.ones((3, 4)), path=path, vectors=3, gradient=True, seed=7)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([
        f"layer{suffix}", f"layer{suffix}.vectors.npz",
        f"layer.gradient{suffix}", f"layer.gradient{suffix}.vectors.npz",
    ])  # fmt: skip
    found = verify(path, "cpu")
    assert found.ok, str(found)
    assert len(found.reports) == 6
    assert "6 of 6 test vectors agree on cpu" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["ok"] is True
    about = load(path).vectors_about
    assert about["seed"] == 7
    assert {"tenferro", "jaxlib", "numpy"} <= set(about["versions"])
    shapes = {vector.inputs[0].shape for vector in load(path).vectors}
    assert len(shapes) > 1  # each vector has a different n


def test_what_differs_is_told() -> None:
    artifact = export(layer, np.ones((5, 3)), np.ones((3, 4)), vectors=2, gradient=True)
    found = verify(artifact, executor=Off())
    assert not found.ok
    assert "0 of 4 test vectors agree" in str(found)
    assert "result['h']" in str(found)
    assert [report.ok for report in found.reports] == [False] * 4
    assert [output.ok for output in found.reports[0].outputs] == [True, False]


def test_a_gradient_has_the_names_of_its_program() -> None:
    artifact = export(
        layer, tnf.TensorSpec(("n", 3), "f8"), np.ones((3, 4)), gradient=True, vectors=0
    )
    gradient = artifact.gradient
    assert gradient is not None
    assert [name for name, _ in gradient.manifest.inputs] == ["x", "w", "result['h']_bar"]
    assert [name for name, _ in gradient.manifest.outputs] == ["x_bar", "w_bar"]


def test_vectors_of_ones_own(tmp_path: Path) -> None:
    given = (np.array([1.0, -0.0, np.inf, np.nan, 5e-324]),)
    artifact = export(lambda x: (x * 2, x > 0), given[0], vectors=[given])
    np.testing.assert_array_equal(artifact.vectors[0].inputs[0], given[0])
    found = verify(artifact)
    assert found.ok, str(found)
    assert found.reports[0].outputs[0].flushed == 1
    with pytest.raises(errors.ShapeError):
        export(lambda x: x, np.ones(2), vectors=[(np.ones((2, 2)),)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int8", "bool"])
def test_every_kind_of_number_is_kept(tmp_path: Path, dtype: str) -> None:
    x = np.ones(4).astype(tnf.DType.of(dtype).dtype)
    path = tmp_path / "a.mlirbc"
    export(lambda x: {"a": tnf.where(x == x, x, x)}, x, path=path, vectors=2)
    assert verify(path).ok


def test_the_wrong_vectors_are_refused(tmp_path: Path) -> None:
    a, b = tmp_path / "a.mlir", tmp_path / "b.mlir"
    export(lambda x: x * 2, np.ones(3), path=a, vectors=1, seed=1)
    export(lambda x: x * 2, np.ones(3), path=b, vectors=1, seed=2)
    vectors = tmp_path / "a.mlir.vectors.npz"
    vectors.write_bytes((tmp_path / "b.mlir.vectors.npz").read_bytes())
    with pytest.raises(errors.InvalidConfigError, match="not the file"):
        verify(a)
    vectors.unlink()
    with pytest.raises(FileNotFoundError):
        verify(a)


def test_misuse() -> None:
    plain = export(lambda x: x, np.ones(2))
    assert plain.vectors == ()
    with pytest.raises(errors.InvalidConfigError, match="carries no test vectors"):
        verify(plain)
    with pytest.raises(errors.InvalidConfigError, match="vectors"):
        export(lambda x: x, np.ones(2), vectors=-1)
    with pytest.raises(errors.InvalidConfigError, match="no float inputs"):
        export(lambda x: x + 1, np.ones(2, int), gradient=True)
    with pytest.raises(errors.InvalidConfigError, match="no float outputs"):
        export(lambda x: x > 1, np.ones(2), gradient=True)
    tpu = export(lambda x: x, np.ones(2), platforms=("tpu",), vectors=1)
    with pytest.raises(errors.InvalidConfigError, match="exported for tpu"):
        verify(tpu, "cpu")


def test_symbols_that_guards_tie_are_found_or_asked_for() -> None:
    spec = tnf.TensorSpec(("n",), "float64")
    artifact = export(lambda x, y: x + y, spec, tnf.TensorSpec(("m",), "float64"), vectors=4)
    assert xla_peer.verify(artifact).ok

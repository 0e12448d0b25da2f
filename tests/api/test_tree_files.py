"""Trees saved as safetensors files must be readable by the safetensors library.

tenferro must be able to read the files of this library.
"""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from safetensors import numpy as library
from safetensors import safe_open

import tenferro as tnf
from tenferro import tree
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError, UnsupportedError

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", ml_dtypes.bfloat16,
]  # fmt: skip


class Dense(NamedTuple):
    weight: Any
    bias: Any


def model() -> Any:
    return {
        "layers": [
            Dense(np.arange(6.0).reshape(2, 3), None),
            Dense(np.ones((3, 2), np.float32).T, np.array(1)),
        ]
    }


def assert_same(actual: Any, expected: Any) -> None:
    assert tree.structure(actual) == tree.structure(expected)
    for a, b in zip(tree.leaves(actual), tree.leaves(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tree.save(model(), path, metadata={"epoch": "3"})
    arrays = library.load_file(path)
    assert sorted(arrays) == ["layers.0.weight", "layers.1.bias", "layers.1.weight"]
    np.testing.assert_array_equal(arrays["layers.0.weight"], model()["layers"][0].weight)
    np.testing.assert_array_equal(arrays["layers.1.weight"], np.ones((2, 3)))
    assert tree.load_metadata(path) == {"epoch": "3"}
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_the_tree_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tree.save(model(), path)
    assert_same(tree.load(path, like=model()), model())
    specs = tree.map(lambda x: tnf.TensorSpec(x.shape, x.dtype), model())
    assert_same(tree.load(path, like=specs), model())
    loaded = tree.load(path, like=model())
    loaded["layers"][0].weight[0, 0] = 7
    assert tree.load_metadata(path) == {}


def test_files_are_those_of_the_library(tmp_path: Path) -> None:
    arrays = {
        "narrow": np.arange(3, dtype="i1"), "wide": np.ones((2, 0, 3)), "b\u00e9 \"x\"": np.ones(5, "f4"),
        "empty": np.zeros(0, bool), "number": np.array(2, "c8"), "half": np.ones(3, ml_dtypes.bfloat16),
    }  # fmt: skip
    for metadata in (None, {"epoch": "3", "\u00e9": ""}):
        tree.save(arrays, tmp_path / "x", metadata=metadata)
        loaded = library.load_file(tmp_path / "x")
        assert {name: (y.dtype, y.shape) for name, y in loaded.items()} == {
            name: (y.dtype, y.shape) for name, y in arrays.items()
        }
        for name, array in arrays.items():
            np.testing.assert_array_equal(loaded[name], array)
        with safe_open(tmp_path / "x", framework="np") as file:
            assert file.metadata() == metadata
        length = int.from_bytes((tmp_path / "x").read_bytes()[:8], "little")
        assert length % 8 == 0


def test_foreign_files_are_nested_by_their_dots(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    weights = {"encoder.0.weight": np.ones((2, 2)), "encoder.0.bias": np.zeros(2), "t": np.ones(1)}
    library.save_file(weights, path)
    nested = {"encoder": {"0": {"weight": np.ones((2, 2)), "bias": np.zeros(2)}}, "t": np.ones(1)}
    assert_same(tree.load(path), nested)
    assert_same(tree.load(path, nested=False), weights)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    array = np.array([[0, 1, 3]]).astype(dtype)
    tree.save({"x": array, "none": array[:, :0], "scalar": array[0, 1]}, path)
    loaded = tree.load(path)
    assert loaded["x"].dtype == array.dtype
    np.testing.assert_array_equal(loaded["x"], array)
    assert loaded["none"].shape == (1, 0)
    assert loaded["scalar"].shape == ()


def test_arrays_in_any_order_and_eager_tensors(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    strided = np.arange(24.0).reshape(4, 6)[::2, ::-1]
    variable = tnf.EagerRuntime().variable([1.0, 2.0])
    tree.save([strided, np.asfortranarray(strided), variable, 2.5], path)
    loaded = tree.load(path)
    np.testing.assert_array_equal(loaded["0"], strided)
    np.testing.assert_array_equal(loaded["1"], strided)
    np.testing.assert_array_equal(loaded["2"], [1, 2])
    assert loaded["3"] == 2.5


def test_one_array_is_a_tree(tmp_path: Path) -> None:
    tree.save(np.ones(2), tmp_path / "x")
    assert_same(tree.load(tmp_path / "x"), np.ones(2))
    assert_same(tree.load(tmp_path / "x", like=np.zeros(2)), np.ones(2))
    tree.save({}, tmp_path / "nothing")
    assert tree.load(tmp_path / "nothing") == {}


@pytest.mark.parametrize(
    ("kind", "words", "like"),
    [
        (ArityError, "lacks c, and has besides b", {"a": np.ones(2), "c": 1.0}),
        (ArityError, "lacks nothing, and has besides b", {"a": np.ones(2)}),
        (ShapeError, r"a has shape \(2,\), and f64\[3\]", {"a": np.ones(3), "b": np.ones(1)}),
        (DTypeError, r"a is float64, and f32\[2\]", {"a": np.ones(2, np.float32), "b": np.ones(1)}),
    ],
)
def test_other_trees_are_refused(kind: Any, words: str, like: Any, tmp_path: Path) -> None:
    tree.save({"a": np.ones(2), "b": np.ones(1)}, tmp_path / "x")
    with pytest.raises(kind, match=words):
        tree.load(tmp_path / "x", like=like)


@pytest.mark.parametrize(
    ("kind", "words", "given", "metadata"),
    [
        (DTypeError, "z is complex128", {"z": np.ones(1, complex)}, None),
        (DTypeError, "name", {"name": "relu"}, None),
        (InvalidConfigError, "'a.b'", {"a.b": 1.0, "a": {"b": 2.0}}, None),
        (InvalidConfigError, "__metadata__", {"__metadata__": 1.0}, None),
        (InvalidConfigError, "texts", {"a": 1.0}, {"epoch": 3}),
        (InvalidConfigError, "are text", {"\udcff": 1.0}, None),
    ],
)
def test_what_the_format_cannot_hold(
    kind: Any, words: str, given: Any, metadata: Any, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=words):
        tree.save(given, tmp_path / "x", metadata=metadata)
    assert os.listdir(tmp_path) == []


def header(document: Any, data: bytes = b"") -> bytes:
    text = json.dumps(document).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(**changes: Any) -> Any:
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a file of this format",
        header(entry())[:20],
        header(entry(), bytes(4)),
        header(entry(), bytes(12)),
        header(entry(shape=[3]), bytes(8)),
        header(entry(shape=[-2]), bytes(8)),
        header(entry(dtype="F99"), bytes(8)),
        header(entry(shape=[2**62, 2]), bytes(8)),
        header(entry(data_offsets=[8, 0]), bytes(8)),
        (2**63).to_bytes(8, "little") + b"{}",
        header([]),
    ],
)
def test_hostile_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    for read in (tree.load, tree.load_metadata):
        with pytest.raises(InvalidConfigError):
            read(path)


def test_arrays_are_held_once(tmp_path: Path) -> None:
    size = 32 << 20
    path = tmp_path / "model.safetensors"
    saved = {"a": np.zeros(size // 8), "b": np.ones(size // 8)}
    tracemalloc.start()
    try:
        tree.save(saved, path, metadata={"epoch": "3"})
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        assert tree.load_metadata(path) == {"epoch": "3"}
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        loaded = tree.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2 * size + (1 << 20)
    finally:
        tracemalloc.stop()
    assert loaded["b"].all()
    assert all(array.flags.writeable for array in loaded.values())


def test_booleans_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    tree.save({"mask": np.array([True, False])}, path)
    path.write_bytes(path.read_bytes()[:-1] + b"\2")
    with pytest.raises(InvalidConfigError, match="mask has booleans"):
        tree.load(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="folder"):
        tree.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        tree.load(tmp_path / "x")
    (tmp_path / "f8").write_bytes(header(entry(dtype="F8_E4M3", shape=[8]), bytes(8)))
    with pytest.raises(UnsupportedError, match="F8_E4M3"):
        tree.load(tmp_path / "f8")
    library.save_file({"a": np.ones(1), "a.b": np.ones(1)}, tmp_path / "y")
    with pytest.raises(InvalidConfigError, match="nested=False"):
        tree.load(tmp_path / "y")
    assert len(tree.load(tmp_path / "y", nested=False)) == 2


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    tree.save({"a": np.ones(1)}, tmp_path / "x")
    with pytest.raises(DTypeError):
        tree.save({"a": object()}, tmp_path / "x")
    assert_same(tree.load(tmp_path / "x"), {"a": np.ones(1)})


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    tree.save({"a": 1.0}, tmp_path / "x")
    with pytest.raises(ImportError, match="pip install"):
        tree.load(tmp_path / "x")


def test_programs_and_parameters_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"got dict; .* tenferro.tree.save"):
        tnf.save({"a": np.ones(1)}, tmp_path / "x")

"""Saving and loading of trees of arrays as safetensors files, in which the name of a leaf is its path."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from tenferro.aligned import aligned_bytes
from tenferro.dispatch import as_operand
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError, UnsupportedError
from tenferro.files import reading, replacing
from tenferro.types import DType, PyTree, Tensor, TensorSpec, TreeDef, flatten, has_dtype, unflatten
from tenferro.types.tree import key_paths, keystr

if TYPE_CHECKING:
    import io

__all__ = ["load", "load_metadata", "save", "save_located"]

DTYPES = {
    "BOOL": DType.Bool,
    "I8": DType.I8,
    "I16": DType.I16,
    "I32": DType.I32,
    "I64": DType.I64,
    "U8": DType.U8,
    "U16": DType.U16,
    "U32": DType.U32,
    "U64": DType.U64,
    "F16": DType.F16,
    "BF16": DType.BF16,
    "F32": DType.F32,
    "F64": DType.F64,
    "C64": DType.C32,
}
"""Dtypes by their names in the safetensors format. In the format, C64 is a complex number of two float32 numbers."""


def save(
    tree: PyTree, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None
) -> None:
    """Write a tree of arrays to a safetensors file, atomically and directly from the memory of the arrays.

    The name of a leaf is its path, joined by dots, such as "layers.0.weight".

    Args:
        metadata: texts by name, to store with the arrays.

    Raises:
        DTypeError: a leaf is not an array, or has a dtype that the format lacks (complex128).
        InvalidConfigError: two leaves have the same name; metadata are not texts; a name or text contains a surrogate;
            or the path is a folder, a pipe or a device.
        OSError: the folder does not exist, the disk is full, or there is no permission to write.

    >>> import os, tempfile
    >>> import numpy as np
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> save({"layers": [{"weight": np.ones(2)}], "scale": np.zeros(())}, path)
    >>> load(path)
    {'layers': {'0': {'weight': array([1., 1.])}}, 'scale': array(0.)}
    """
    save_located(tree, path, metadata=metadata)


def save_located(
    tree: PyTree, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None
) -> dict[str, tuple[int, int]]:
    """Write a file as `save` does. Return, by name, each leaf's offset in the file and its number of bytes."""
    leaves, treedef = flatten(tree)
    names = _names(treedef)
    if len({*names}) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidConfigError(f"tree.save: several leaves have the name {repeated!r}")
    arrays = {name: _array(name, leaf) for name, leaf in zip(names, leaves, strict=True)}
    texts = dict(metadata or {})
    if not all(isinstance(text, str) for text in (*texts, *texts.values())):
        raise InvalidConfigError(f"tree.save: metadata must be texts by name, got {texts!r:.80}")
    # As in the safetensors library, arrays of the widest elements are first, so that all are aligned.
    arrays = dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))
    located: dict[str, tuple[int, int]] = {}
    with replacing(path) as file:
        file.write(_header(arrays, texts))
        for name, array in arrays.items():
            located[name] = file.tell(), array.nbytes
            file.write(memoryview(array.ravel().view(np.uint8)))
    return located


def load(path: str | os.PathLike[str], like: Tensor | None = None, *, nested: bool = True) -> Any:
    """Read the tree of arrays in a safetensors file.

    The file need not be trusted. While the file is read, each array is in memory only once.

    Args:
        like: a tree of arrays or specs. The file must have the same structure, shapes and dtypes.
        nested: whether to return nested dicts, with names split at dots, instead of one dict by names. It has no effect
            if `like` is passed.

    Raises:
        ImportError: the package `safetensors` is not installed.
        UnsupportedError: an array has a dtype that tenferro does not support.
        FileNotFoundError, PermissionError: the file does not exist, or there is no permission to read it.
        InvalidConfigError: the file is not a safetensors file; a boolean in it is neither 0 nor 1; or a name is a
            prefix of another name in a nested tree.
        ArityError: the file or `like` lacks a leaf. The error names the leaf.
        ShapeError, DTypeError: an array differs from its leaf of `like`. The error names the leaf.
    """
    arrays = _arrays(path)
    if like is None:
        return _nested(arrays) if nested else arrays
    leaves, treedef = flatten(like)
    names = _names(treedef)
    missing = [name for name in names if name not in arrays]
    unknown = sorted(arrays.keys() - {*names})
    if missing or unknown:
        raise ArityError(
            f"tree.load: {path} is not a file of this tree: it lacks {_listed(missing)}, and has besides "
            f"{_listed(unknown)}"
        )
    for name, leaf in zip(names, leaves, strict=True):
        _check(name, arrays[name], leaf)
    return unflatten(treedef, [arrays[name] for name in names])


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the metadata of a safetensors file.

    Raises:
        ImportError, FileNotFoundError, PermissionError, InvalidConfigError: as for `load`.
    """
    with _opened(path) as (_, header):
        return header.get("__metadata__") or {}


def _library() -> Any:
    try:
        return importlib.import_module("safetensors")
    except ImportError as error:
        raise ImportError(
            "reading files of parameters needs the package safetensors: pip install safetensors"
        ) from error


def _header(arrays: Mapping[str, Any], texts: Mapping[str, str]) -> bytes:
    """Encode the header of a file: the length of the JSON text in eight bytes, followed by the JSON text."""
    dtypes = {dtype: name for name, dtype in DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": texts} if texts else {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": dtypes[DType.of(array.dtype)],
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidConfigError(f"tree.save: names and metadata are text: {error}") from None
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _names(treedef: TreeDef) -> list[str]:
    return [keystr(path, simple=True, separator=".") for path in key_paths(treedef)]


def _array(name: str, leaf: Any) -> Any:
    """Convert a leaf to an array in C order. Check that the file format supports its name and dtype."""
    if name == "__metadata__":
        raise InvalidConfigError("tree.save: no leaf can have the name '__metadata__'")
    try:
        array = np.asarray(as_operand(leaf))
        dtype = DType.of(array.dtype)
    except DTypeError as error:
        raise DTypeError(f"tree.save: {name}: {error}") from None
    if dtype not in DTYPES.values():
        raise DTypeError(
            f"tree.save: {name} is {dtype}, which the format does not have; save real and imaginary parts"
        )
    return np.asarray(array, order="C")


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Generator[tuple[BinaryIO, dict[str, Any]]]:
    """Open a file at the first byte of its arrays. The safetensors library has checked the header before.

    Raises:
        InvalidConfigError: the path is not a safetensors file.
    """
    library = _library()
    with reading(path) as file:
        try:
            library.safe_open(os.fsdecode(path), framework="np")  # reads only the header
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        except (library.SafetensorError, ValueError) as error:
            raise InvalidConfigError(
                f"tree.load: {path} is not a safetensors file: {error}"
            ) from None
        yield file, header


def _arrays(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read all arrays, by name. Each is read directly into its final memory."""
    with _opened(path) as (file, header):
        first = file.tell()
        names = sorted(header.keys() - {"__metadata__"})
        return {name: _array_in(file, first, name, header[name]) for name in names}


def _array_in(file: BinaryIO, first: int, name: str, entry: Mapping[str, Any]) -> Any:
    dtype = DTYPES.get(entry["dtype"])
    if dtype is None:
        raise UnsupportedError(f"tree.load: {name} has the dtype {entry['dtype']}, unknown here")
    begin, end = entry["data_offsets"]
    content = aligned_bytes(end - begin)
    file.seek(first + begin)
    if cast("io.BufferedIOBase", file).readinto(memoryview(content)) != end - begin:
        raise InvalidConfigError(f"tree.load: {file.name}: {name} is cut short")
    if dtype is DType.Bool and content.max(initial=0) > 1:
        raise InvalidConfigError(
            f"tree.load: {file.name}: {name} has booleans that are neither 0 nor 1"
        )
    try:
        return content.view(dtype.dtype).reshape(entry["shape"])
    except ValueError as error:
        raise InvalidConfigError(f"tree.load: {file.name}: {name}: {error}") from None


def _nested(arrays: dict[str, Any]) -> Any:
    if [*arrays] == [""]:
        return arrays[""]
    result: dict[str, Any] = {}
    for name, array in arrays.items():
        *folders, last = name.split(".")
        inner = result
        for folder in folders:
            inner = inner.setdefault(folder, {})
            if not isinstance(inner, dict):
                break
        if not isinstance(inner, dict) or last in inner:
            raise InvalidConfigError(
                f"tree.load: {name!r} extends another name; read the names with nested=False"
            )
        inner[last] = array
    return result


def _check(name: str, array: np.ndarray[Any, Any], leaf: Any) -> None:
    """Check that an array of the file has the shape and the dtype of its leaf.

    Raises:
        ShapeError, DTypeError: the array has a different shape or dtype.
    """
    expected = leaf if hasattr(leaf, "shape") and has_dtype(leaf) else as_operand(leaf)
    spec = TensorSpec(tuple(expected.shape), expected.dtype)
    if array.shape != spec.shape:
        raise ShapeError(
            f"tree.load: {name} has shape {array.shape}, and {spec} stands in the tree"
        )
    if DType.of(array.dtype) is not spec.dtype:
        raise DTypeError(f"tree.load: {name} is {array.dtype}, and {spec} stands in the tree")


def _listed(names: list[str]) -> str:
    if not names:
        return "nothing"
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")

"""Conversion of the elements of constants from text or bytes to arrays.

Source: MLIR language reference, "DenseIntOrFPElementsAttr".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from lowering.module_tree import ModuleTree
from tenferro.errors import InvalidConfigError, UnsupportedError
from tenferro.types import DType, TensorSpec

__all__ = [
    "dense_elements",
    "float_value",
    "integer_value",
    "raw_elements",
    "resource_elements",
    "with_elements",
]

_ELEMENT = re.compile(r"[-+\w][-+\w.;]*")
_PAIR = re.compile(r"\(\s*([-+\w.]+)\s*,\s*([-+\w.]+)\s*\)")
_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]+|[0-9]+)")
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
LONGEST_NUMBER = 1000
"""Maximum number of characters of a number.

No dtype needs as many digits, and Python would convert longer numbers slowly.
"""


def integer_value(text: str, width: int, is_signed: bool | None) -> int:
    """Convert an integer literal to a value of an integer type.

    Args:
        width: the number of bits of the type.
        is_signed: None for a signless type, which accepts both signed and unsigned literals.

    Raises:
        ValueError: the text is not an integer, or is out of range.
    """
    if len(text) > LONGEST_NUMBER or not _INTEGER.fullmatch(text):
        raise ValueError(f"expected an integer, got {text[:40]}")
    number = int(text, 0) if "0x" in text else int(text)
    lowest = 0 if is_signed is False else -(1 << (width - 1))
    highest = (1 << (width - 1 if is_signed else width)) - 1
    if not lowest <= number <= highest:
        raise ValueError(f"integer constant out of range for a type of {width} bits: {text[:40]}")
    return number - (1 << width) if is_signed is None and number >> (width - 1) > 0 else number


def float_value(text: str, dtype: Any) -> Any:
    """Convert a float literal to a NumPy scalar; a hexadecimal literal is the bit pattern of the float.

    Raises:
        ValueError: the text is not a float.
    """
    if _HEX.fullmatch(text):
        bits = int(text, 16)
        if len(text) > LONGEST_NUMBER or bits >> (8 * dtype.itemsize):
            raise ValueError(f"hexadecimal float constant out of range: {text[:40]}")
        return np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]
    if len(text) > LONGEST_NUMBER or not _FLOAT.fullmatch(text):
        raise ValueError(f"expected a floating-point number, got {text[:40]}")
    with np.errstate(over="ignore"):
        return np.float64(text).astype(dtype)


def dense_elements(text: str, spec: TensorSpec) -> Any:
    """Convert the text between the brackets of `dense<..>` to an array.

    If the text contains a single element, all elements equal it, and the array is a broadcast view.

    Raises:
        ValueError: the text is malformed, or does not have the shape of the type.
    """
    text = text.strip()
    if text.startswith('"'):
        return _hexadecimal_elements(text[1:-1], spec)
    if "//" in text:
        text = re.sub("//[^\n]*", " ", text)
    text = re.sub(r"-\s+(?=[0-9])", "-", text)
    if not text:
        if spec.size:
            raise ValueError(f"no elements for {spec}")
        return np.zeros(spec.shape, spec.dtype.dtype)
    if spec.dtype.is_complex:
        text = _PAIR.sub(r"\1;\2", text)
    nested = _parsed(text)
    shape: list[int] = []
    flat = [nested]
    while flat and isinstance(flat[0], list):
        length = len(flat[0])
        if any(type(item) is not list or len(item) != length for item in flat):
            raise ValueError("the lists of elements have different lengths")
        shape.append(length)
        flat = [item for part in flat for item in part]
    if any(type(item) is list for item in flat):
        raise ValueError("the lists of elements are nested unevenly")
    if spec.dtype.is_complex:
        parts = [part for word in flat for part in str(word).split(";")]
        if len(parts) != 2 * len(flat):
            raise ValueError("expected pairs (real, imaginary)")
        elements = _scalars(parts, spec.dtype.real).view(spec.dtype.dtype)
    else:
        elements = _scalars(flat, spec.dtype)
    if not shape and spec.shape:
        return np.broadcast_to(elements.reshape(()), spec.shape)
    if tuple(shape) != tuple(spec.shape):
        raise ValueError(f"elements of shape {shape} for {spec}")
    return elements.reshape(spec.shape)


def _parsed(text: str) -> Any:
    """Convert the text of a literal to nested lists with the text of each element."""
    try:
        return json.loads(_ELEMENT.sub(r'"\g<0>"', text), strict=True)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"malformed elements: {error}") from None


_SIMPLE_INTEGERS = re.compile(r"(?:-?[0-9]{1,18} )*")
_SIMPLE_FLOATS = re.compile(r"(?:-?[0-9]++\.[0-9]*+(?:[eE][-+]?[0-9]++)? )*")


def _scalars(words: list[str], dtype: DType) -> Any:
    """Convert the texts of elements, such as "1.5" or "true", to an array of rank 1."""
    kind = dtype.dtype
    if dtype is DType.Bool:
        known = {"true": True, "false": False, "1": True, "0": False, "-1": True}
        if not all(word in known for word in words):
            raise ValueError("expected true or false")
        return np.array([known[word] for word in words], bool)
    if any(type(word) is not str for word in words):
        raise ValueError("malformed elements")
    joined = "".join([f"{word} " for word in words])
    if dtype.is_integer:
        width = dtype.bits
        if width == 64 and dtype.kind == "i" and _SIMPLE_INTEGERS.fullmatch(joined):
            return np.array(words, np.int64)
        is_signed = None if dtype.kind == "i" else False
        numbers = [integer_value(word, width, is_signed) for word in words]
        return np.array(numbers, dtype.wide.dtype).astype(kind, copy=False)
    if _SIMPLE_FLOATS.fullmatch(joined) and max(map(len, words), default=0) < LONGEST_NUMBER:
        with np.errstate(over="ignore"):
            return np.array(list(map(float, words)), np.float64).astype(kind)
    return np.array([float_value(word, kind) for word in words], kind)


def _hexadecimal_elements(text: str, spec: TensorSpec) -> Any:
    if not text.startswith("0x"):
        raise ValueError("elements as a string begin with 0x")
    return raw_elements(bytes.fromhex(text[2:]), spec)


def raw_elements(data: bytes | memoryview, spec: TensorSpec) -> Any:
    """Decode little-endian data: the bytes of all elements, or of a single element that all elements equal.

    Raises:
        ValueError: the data has the wrong length.
    """
    kind, count = spec.dtype.dtype, spec.size
    if spec.dtype is DType.Bool:
        return _raw_bits(data, spec)
    if len(data) == kind.itemsize and count != 1:
        return np.broadcast_to(_native(data, spec.dtype).reshape(()), spec.shape)
    if len(data) != count * kind.itemsize:
        raise ValueError(f"{len(data)} bytes of elements for {spec}")
    return _native(data, spec.dtype).reshape(spec.shape)


def _native(data: bytes | memoryview, dtype: DType) -> Any:
    """Decode little-endian elements; an integer of fewer than 8 bits is stored in the low bits of a byte."""
    if dtype.is_narrow and dtype.is_integer:
        return np.frombuffer(data, dtype.wide.dtype).astype(dtype.dtype)
    return np.frombuffer(data, dtype.dtype.newbyteorder("<")).astype(dtype.dtype, copy=False)


def _raw_bits(data: bytes | memoryview, spec: TensorSpec) -> Any:
    """Decode bools of one byte each; older releases of MLIR write eight bools to a byte."""
    count = spec.size
    if len(data) == 1 and count != 1:
        return np.broadcast_to(np.array(bool(data[0])), spec.shape)
    if count > 8 and len(data) == -(-count // 8):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[:count].astype(bool).reshape(spec.shape)
    if len(data) != count:
        raise ValueError(f"{len(data)} bytes of elements for {spec}")
    return np.frombuffer(data, np.uint8).astype(bool).reshape(spec.shape)


def resource_elements(blobs: Mapping[str, str], name: str, spec: TensorSpec) -> Any:
    """Decode the elements of a constant from a resource; return None if the resource has no data.

    Args:
        blobs: hexadecimal digits by resource name; the first four bytes are the alignment.

    Raises:
        InvalidConfigError: the data has the wrong length.
    """
    data = bytes.fromhex(blobs.get(name, ""))[4:]
    return elements_in(name, data, spec) if data or (name in blobs and not spec.size) else None


def elements_in(name: str, data: bytes | memoryview, spec: TensorSpec) -> Any:
    """Decode the data of the resource `name`, without the bytes of the alignment, as a constant of the type `spec`.

    Raises:
        InvalidConfigError: the data has the wrong length.
    """
    if len(data) != spec.size * spec.dtype.itemsize:
        raise InvalidConfigError(
            f"dense_resource<{name}>: {len(data)} bytes for a constant of type {spec}"
        )
    return raw_elements(data, spec)


_RESOURCE = re.compile(r'dense_resource<("[^"]*"|[^>]*)>')


def with_elements(tree: ModuleTree, elements: Mapping[str, memoryview]) -> ModuleTree:
    """Insert elements into constants that refer to resources by name, in place.

    Raises:
        UnsupportedError: the elements were omitted when the module was printed.
        InvalidConfigError: data has the wrong length.
    """
    for operation in tree.operations():
        value = operation.attributes.get("value")
        named = _RESOURCE.match(value) if isinstance(value, str) else None
        if named is None or operation.name != "stablehlo.constant":
            continue
        spec = operation.types[0]
        if not isinstance(spec, TensorSpec):
            continue
        name = named[1].strip('"')
        if name not in elements:
            raise UnsupportedError(
                f"a constant of type {spec} without its elements, dense_resource<{name}>: they were left out when "
                "the module was printed; export it with them"
            )
        operation.attributes["value"] = elements_in(name, elements[name], spec)
    return tree

"""Reading of ONNX files without copies of large arrays.

A model is first read without the elements of large initializers, whose positions in the files are recorded. Then each
array is read once into its final memory, from the model's file or from ONNX's external data files beside it. So
reading a model of 2 GB takes only the memory of its arrays.

Source: the protobuf encoding; onnx.proto, "TensorProto.external_data".
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from tenferro.aligned import aligned_bytes
from tenferro.errors import InvalidConfigError
from tenferro.files import reading
from tenferro.ops.elements import LARGE
from tenferro.ops.source import Constant

if TYPE_CHECKING:
    import io

__all__ = ["Place", "array_at", "external_files", "initializers", "read_model"]

GRAPH_OF_MODEL, INITIALIZER_OF_GRAPH, NAME_OF_TENSOR, ELEMENTS_OF_TENSOR = 7, 5, 8, 9
"""Numbers of the fields in onnx.proto that are needed to find the elements of initializers."""
VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf: how the content of a field is encoded."""


class Place(NamedTuple):
    """Range of bytes in a file; it extends to the end of the file if `length` is None."""

    path: Path
    offset: int
    length: int | None


class Field(NamedTuple):
    """Field of a protobuf message.

    Attributes:
        number: the number of the field.
        first: the position of the field's tag, with which the field starts.
        begin, end: the range of the field's content.
    """

    number: int
    first: int
    begin: int
    end: int


def read_model(path: Path) -> tuple[Any, dict[str, Place]]:
    """Read a model without the elements of its large initializers.

    Returns:
        The model, and the range of bytes of each omitted array, by name.

    Raises:
        FileNotFoundError: the file does not exist.
        InvalidConfigError: external data are outside of the model's folder.
        Exception: protobuf's errors for bytes that are not a model.
    """
    import onnx

    with reading(path) as file:
        if not file.read(1):
            return onnx.ModelProto(), {}
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            text, places = _without_elements(content, path)
    model = onnx.ModelProto.FromString(text)
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            places[tensor.name] = _external(tensor, path)
    return model, places


def initializers(graph: Any, places: Mapping[str, Place]) -> dict[str, Any]:
    """Return the arrays of a graph's initializers by name. Large arrays can become constants without a copy.

    Args:
        places: the ranges of bytes that `read_model` returned.

    Raises:
        InvalidConfigError: a file is cut short, or a model without a path has external data.
    """
    return {tensor.name: array_at(tensor, places.get(tensor.name)) for tensor in graph.initializer}


def array_at(tensor: Any, place: Place | None) -> Any:
    """Return the array of an initializer, from a range of bytes in a file or from the tensor itself."""
    from onnx import helper, numpy_helper

    if place is None:
        if tensor.data_location == tensor.EXTERNAL:
            raise InvalidConfigError(
                f"import_onnx: {tensor.name} is in a file beside the model; give the model's path"
            )
        return numpy_helper.to_array(tensor)
    memory = _elements(place, tensor.name)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    shape = tuple(tensor.dims)
    if dtype.itemsize * int(np.prod(shape, dtype=object)) != memory.nbytes:
        # Elements are smaller than a byte, or the size is wrong. The package onnx decodes such elements, or raises an
        # error.
        tensor.raw_data = memory.tobytes()
        tensor.ClearField("data_location")
        return numpy_helper.to_array(tensor)
    if dtype == np.bool_ and memory.max(initial=0) > 1:
        raise InvalidConfigError(
            f"import_onnx: {tensor.name} has booleans that are neither 0 nor 1"
        )
    return Constant.adopting(memory.view(dtype).reshape(shape)).array


def _elements(place: Place, name: str) -> Any:
    with reading(place.path) as file:
        size = file.seek(0, 2)
        length = size - place.offset if place.length is None else place.length
        if min(place.offset, length) < 0 or place.offset + length > size:
            raise InvalidConfigError(
                f"import_onnx: {name} is {length} bytes at {place.offset} of {place.path}, which has {size}"
            )
        memory = aligned_bytes(length)
        file.seek(place.offset)
        if cast("io.BufferedIOBase", file).readinto(memoryview(memory)) != length:
            raise InvalidConfigError(f"import_onnx: {place.path} is cut short")
    return memory


def external_files(model: Any, path: Any) -> tuple[str, ...]:
    """Return the paths of the external data files of the model at `path`."""
    locations = {
        entry.value: None
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return tuple([str(Path(path).with_name(location)) for location in locations])


def _external(tensor: Any, path: Path) -> Place:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    pure = PurePosixPath(location)
    is_outside = pure.is_absolute() or ".." in pure.parts or PureWindowsPath(location).drive
    if not location or is_outside or "\\" in location:
        raise InvalidConfigError(
            f"import_onnx: {tensor.name} is in {location!r}, which is not in the model's folder"
        )
    length = entries.get("length")
    return Place(
        path.parent / pure, int(entries.get("offset", 0)), None if length is None else int(length)
    )


def _without_elements(content: mmap.mmap, path: Path) -> tuple[bytes, dict[str, Place]]:
    """Return the bytes of a model without the elements of large initializers, and the ranges of these elements."""
    pieces: list[bytes] = []
    places: dict[str, Place] = {}
    for field in _fields(content, 0, len(content)):
        if field.number != GRAPH_OF_MODEL:
            pieces.append(content[field.first : field.end])
            continue
        inner: list[bytes] = []
        for part in _fields(content, field.begin, field.end):
            is_large = part.number == INITIALIZER_OF_GRAPH and part.end - part.begin >= LARGE
            inner.append(
                _short(content, part, path, places) if is_large else content[part.first : part.end]
            )
        pieces.append(_message(GRAPH_OF_MODEL, inner))
    return b"".join(pieces), places


def _short(content: mmap.mmap, tensor: Field, path: Path, places: dict[str, Place]) -> bytes:
    """Return the bytes of an initializer without its elements, and record the range of the elements in `places`."""
    parts = list(_fields(content, tensor.begin, tensor.end))
    named = [part for part in parts if part.number == NAME_OF_TENSOR]
    elements = [part for part in parts if part.number == ELEMENTS_OF_TENSOR]
    if not named or len(elements) != 1:
        return content[tensor.first : tensor.end]
    place = Place(path, elements[0].begin, elements[0].end - elements[0].begin)
    places[content[named[-1].begin : named[-1].end].decode()] = place
    rest = [content[part.first : part.end] for part in parts if part is not elements[0]]
    return _message(INITIALIZER_OF_GRAPH, rest)


def _message(number: int, parts: list[bytes]) -> bytes:
    return b"".join([_varint(number << 3 | DELIMITED), _varint(sum(map(len, parts))), *parts])


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _fields(content: mmap.mmap, position: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in a range of bytes.

    Raises:
        ValueError: the bytes are not a message.
    """
    while position < end:
        first = position
        tag, position = _read_varint(content, position, end)
        kind = tag & 7
        size = {FIXED64: 8, FIXED32: 4}.get(kind, 0)
        if kind == VARINT:
            begin, (_, position) = position, _read_varint(content, position, end)
        elif kind == DELIMITED:
            size, begin = _read_varint(content, position, end)
            position = begin + size
        elif size:
            begin, position = position, position + size
        else:
            raise ValueError(f"a field of wire type {kind} at byte {first}")
        if position > end:
            raise ValueError(f"the field at byte {first} is cut short")
        yield Field(tag >> 3, first, begin, position)


def _read_varint(content: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    """Decode the varint, a number with seven bits in each byte, at a position; return it and the position after it."""
    value = shift = 0
    while position < end and shift < 70:
        byte = content[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
    raise ValueError(f"a number without an end at byte {position}")

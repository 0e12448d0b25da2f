"""Encoding of `ModuleTree`s as bytes: a JSON document, followed by the elements of all constant arrays.

Decoding creates only plain data, so the bytes may come from a process that is not trusted. All blocks are stored in one
list, and operations refer to their regions by positions in the list, so encoding needs no recursion.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lowering.module_tree import Block, ForeignType, Function, ModuleTree, Operation
from tenferro.dims import UNKNOWN
from tenferro.errors import InvalidConfigError
from tenferro.types import DType, TensorSpec

__all__ = ["decoded_tree", "encoded_tree"]


def encoded_tree(tree: ModuleTree) -> bytes:
    """Encode a tree as bytes: the length of the JSON document in eight bytes, the document, and the elements."""
    encoder = _Encoder()
    functions = [
        [
            function.name,
            encoder.block(function.body),
            [_encoded_type(item) for item in function.result_types],
            function.argument_names,
            function.result_names,
        ]
        for function in tree.functions.values()
    ]
    attributes = encoder.attribute(tree.attributes)
    encoder.encode_blocks()
    document = json.dumps([tree.name, functions, attributes, encoder.blocks, tree.meshes]).encode()
    return b"".join([len(document).to_bytes(8, "little"), document, *encoder.elements])


def decoded_tree(data: bytes) -> ModuleTree:
    """Decode a tree from the bytes that `encoded_tree` returned.

    Raises:
        InvalidConfigError: the bytes are not an encoded tree.
    """
    try:
        end = 8 + int.from_bytes(data[:8], "little")
        name, functions, attributes, blocks, meshes = json.loads(data[8:end])
        tree = _Decoder(memoryview(data)[end:]).tree(name, functions, attributes, blocks)
        tree.meshes = {str(mesh): str(text) for mesh, text in meshes.items()}
        return tree
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidConfigError(f"the bytes are not a module's tree: {error!r}") from None


def _encoded_type(kind: Any) -> Any:
    if not isinstance(kind, TensorSpec):
        return kind.text
    return [kind.dtype.value, *["?" if extent is UNKNOWN else extent for extent in kind.shape]]


def _decoded_type(encoded: Any) -> Any:
    if isinstance(encoded, str):
        return ForeignType(encoded)
    dtype, *shape = encoded
    extents = [UNKNOWN if extent == "?" else int(extent) for extent in shape]
    return TensorSpec.of(tuple(extents), DType(dtype))


class _Encoder:
    """Encoder of a tree.

    Attributes:
        blocks: the encoded blocks, by position; None for blocks that have not been encoded.
        waiting: the blocks that have not been encoded, with their positions.
        elements: the elements of arrays, in the order of their offsets.
        offset: the total number of bytes of `elements`, which is the offset of the next array.
    """

    def __init__(self) -> None:
        self.blocks: list[Any] = []
        self.waiting: list[tuple[int, Block]] = []
        self.elements: list[bytes] = []
        self.offset = 0

    def block(self, block: Block) -> int:
        """Reserve a position for a block, which is encoded later, and return the position."""
        index = len(self.blocks)
        self.blocks.append(None)
        self.waiting.append((index, block))
        return index

    def encode_blocks(self) -> None:
        while self.waiting:
            index, block = self.waiting.pop()
            types = [_encoded_type(item) for item in block.types]
            operations = [self.operation(item) for item in block.operations]
            self.blocks[index] = [block.arguments, types, operations]

    def operation(self, op: Operation) -> list[Any]:
        types = [_encoded_type(item) for item in op.types]
        regions = [self.block(region) for region in op.regions]
        attributes = self.attribute(op.attributes)
        return [op.name, op.operands, op.results, types, attributes, regions, op.location]

    def attribute(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {"dict": {key: self.attribute(item) for key, item in value.items()}}
        if isinstance(value, tuple):
            return [self.attribute(item) for item in value]
        if isinstance(value, np.ndarray):
            return {"array": self.array(value)}
        return value

    def array(self, value: Any) -> list[Any]:
        is_splat = value.size > 1 and not any(value.strides)
        data = value[(slice(0, 1),) * value.ndim].tobytes() if is_splat else value.tobytes()
        entry = [DType.of(value.dtype).value, list(value.shape), is_splat, self.offset, len(data)]
        self.elements.append(data)
        self.offset += len(data)
        return entry


class _Decoder:
    """Decoder of a tree, which replaces positions by blocks, and offsets by arrays."""

    def __init__(self, elements: memoryview) -> None:
        self.elements = elements

    def tree(self, name: Any, functions: Any, attributes: Any, blocks: Any) -> ModuleTree:
        built = [
            Block(_integers(arguments), tuple(map(_decoded_type, types)), [])
            for arguments, types, _ in blocks
        ]
        for index, (block, (_, _, operations)) in enumerate(zip(built, blocks, strict=True)):
            block.operations += [self.operation(item, built, index) for item in operations]
        tree = ModuleTree(str(name), attributes=self.attribute(attributes))
        for title, index, types, argument_names, result_names in functions:
            tree.functions[str(title)] = Function(
                str(title),
                built[index],
                tuple(map(_decoded_type, types)),
                tuple(map(str, argument_names)),
                tuple(map(str, result_names)),
            )
        return tree

    def operation(self, encoded: Any, blocks: list[Block], index: int) -> Operation:
        name, operands, results, types, attributes, regions, location = encoded
        if any(region <= index for region in regions):
            raise ValueError("a region stands in itself")
        return Operation(
            name=str(name),
            operands=_integers(operands),
            results=_integers(results),
            types=tuple(map(_decoded_type, types)),
            attributes=self.attribute(attributes),
            regions=tuple([blocks[region] for region in regions]),
            location=str(location),
        )

    def attribute(self, encoded: Any) -> Any:
        if isinstance(encoded, list):
            return tuple([self.attribute(item) for item in encoded])
        if not isinstance(encoded, Mapping):
            return encoded
        if "array" in encoded:
            return self.array(*encoded["array"])
        return {key: self.attribute(item) for key, item in encoded["dict"].items()}

    def array(self, name: str, shape: list[int], is_splat: bool, offset: int, size: int) -> Any:
        data = self.elements[offset : offset + size]
        elements = np.frombuffer(data, DType(name).dtype)
        if is_splat:
            return np.broadcast_to(elements.reshape(()), shape)
        if min([offset, *shape], default=0) < 0 or math.prod(shape) != elements.size:
            raise ValueError(f"{elements.size} elements for {shape}")
        return elements.reshape(shape)


def _integers(values: Any) -> tuple[int, ...]:
    return tuple(map(int, values))

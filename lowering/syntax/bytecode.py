"""`bytecode_tree`, which parses MLIR's bytecode with StableHLO operations or with VHLO's versioned operations.

Bytecode stores attributes and types as entries of tables, which refer to each other by number. Entries are decoded
with a work list instead of recursion, because chains of references may be long.

Source: MLIR bytecode format; MLIR's, StableHLO's and VHLO's encodings of attributes and types.
"""

from __future__ import annotations

from typing import Any

from lowering.large_files import MappedBytes
from lowering.mlir_bindings import MAGIC, MlirDiagnosticError
from lowering.module_tree import Block, ModuleTree, Operation
from lowering.syntax.attributes import AttributeParser, FunctionType
from lowering.syntax.cursor import Cursor
from lowering.syntax.definitions import DEFINITIONS, Definition
from lowering.syntax.encodings import ATTRIBUTES, LONGEST_TEXT, TYPES, Printed, place_of
from lowering.syntax.function import function_of
from lowering.syntax.tokens import Tokens
from lowering.syntax.versioned import unversioned_operation, versioned_attributes
from tenferro.errors import UnsupportedError

__all__ = ["bytecode_tree"]

NEWER = {"stablehlo.collective_broadcast": "has_dynamic_root"}
"""Names of properties that older releases of StableHLO do not write to bytecode, by operation name."""
NEWEST = 6
"""Newest version of MLIR's bytecode that can be read."""

STRINGS, DIALECTS, ENTRIES, OFFSETS, OPERATIONS, RESOURCES, RESOURCE_OFFSETS, _, PROPERTIES = range(
    9
)
"""Numbers of the sections of bytecode."""

HAS_ATTRIBUTES, HAS_RESULTS, HAS_OPERANDS, HAS_SUCCESSORS = 1, 2, 4, 8
HAS_REGIONS, HAS_USE_LISTS, HAS_PROPERTIES = 16, 32, 64
"""Flags in the mask of an operation, which say what follows the mask in the bytecode."""


def bytecode_tree(data: bytes | MappedBytes) -> ModuleTree:
    """Parse bytecode or a portable artifact, and return the tree of its module.

    Raises:
        MlirDiagnosticError: the bytes are not a module; the error contains the offset.
        UnsupportedError: a region has several blocks, or a function has no body.
    """
    try:
        return _BytecodeReader(data).module()
    except (ValueError, OverflowError, LookupError, TypeError) as error:
        if isinstance(error, MlirDiagnosticError):
            raise
        raise MlirDiagnosticError([(f"malformed: {error}", "bytecode")]) from None


class _MissingError(Exception):
    """Exception to signal that the entry `index` must be decoded before the current entry."""

    def __init__(self, index: int) -> None:
        self.index = index


class _Entries:
    """Table of attributes and types, each of which is decoded at its first use.

    Attributes:
        reader: the reader, which decodes the bytes of an entry.
        attributes: the number of attributes, which precede the types in the table.
        places: for each entry, its dialect, whether its encoding is custom, and the offsets of its start and end.
        values: the decoded entries, or `_UNREAD`.
        missing: entries that the current entry contains and that have not been decoded.
    """

    def __init__(self, reader: _BytecodeReader, count: int, attributes: int) -> None:
        self.reader = reader
        self.attributes = attributes
        self.places: list[tuple[str, bool, int, int]] = []
        self.values: list[Any] = [_UNREAD] * count
        self.missing: list[int] = []

    def value(self, index: int) -> Any:
        """Return an entry; decode it first if necessary, after the entries that it refers to."""
        entry = self.values[index]
        if entry is not _UNREAD:
            return entry
        waiting, begun = [index], set()
        while waiting:
            current = waiting[-1]
            if self.values[current] is not _UNREAD:
                waiting.pop()
                continue
            self.missing = []
            try:
                entry = self.reader.decoded(self, current)
            except _MissingError as error:
                self.missing = [error.index]
            missing = [item for item in self.missing if self.values[item] is _UNREAD]
            if not missing:
                self.values[current] = entry
                waiting.pop()
                continue
            if (current, missing[0]) in begun:
                raise ValueError("an attribute refers to itself")
            begun.add((current, missing[0]))
            waiting += missing
        return self.values[index]

    def needed(self, index: int) -> Any:
        """Return an entry whose value is needed to decode the current entry.

        Raises:
            _MissingError: the entry has not been decoded.
        """
        entry = self.values[index]
        if entry is _UNREAD:
            raise _MissingError(index)
        return entry

    def part(self, index: int) -> Any:
        """Return an entry that the current entry contains, or a placeholder if it has not been decoded.

        If it is a placeholder, the current entry is decoded again later.
        """
        entry = self.values[index]
        if entry is _UNREAD:
            self.missing.append(index)
        return entry


_UNREAD: Any = object()


class _Scope:
    """Numbering of the values in an isolated region, which cannot use values that are defined outside.

    Attributes:
        values: for each value's index in the bytecode, its number in the tree, or -1 before its definition.
        next: for each open region, the index of the next value that it defines.
    """

    def __init__(self) -> None:
        self.values: list[int] = []
        self.next: list[int] = []

    def enter(self, count: int) -> None:
        """Enter a region that defines `count` values."""
        self.next.append(len(self.values))
        self.values += [-1] * count

    def leave(self, count: int) -> None:
        """Leave a region, and remove the `count` values that it defines."""
        del self.values[len(self.values) - count :]
        self.next.pop()

    def define(self, number: int) -> None:
        index = self.next[-1]
        self.values[index] = number
        self.next[-1] = index + 1


class _Frame:
    """State of an operation whose regions are being read.

    Attributes:
        regions: the number of regions that have not been opened.
        block: the block of the open region.
        operations: the number of the block's operations that have not been read.
        values: the number of values that the open region defines.
        blocks: the blocks of the regions that have been read.
    """

    def __init__(self, operation: Operation, cursor: Cursor, regions: int, scope: _Scope) -> None:
        self.operation = operation
        self.cursor = cursor
        self.regions = regions
        self.scope = scope
        self.block: Block | None = None
        self.operations = 0
        self.values = 0
        self.blocks: list[Block] = []


class _BytecodeReader:
    def __init__(self, data: bytes | MappedBytes) -> None:
        self.data = data
        self.strings: list[bytes] = []
        self.names: list[tuple[str, bool]] = []
        self.properties: list[Cursor] = []
        self.blobs: list[tuple[str, bytes | None]] = []
        self.value_types: list[Any] = []

    # ---- sections ----------------------------------------------------------------------------

    def module(self) -> ModuleTree:
        if self.data[: len(MAGIC)] != MAGIC:
            raise MlirDiagnosticError([("the bytes are not MLIR bytecode", "byte 0")])
        cursor = Cursor(self.data, len(MAGIC))
        self.version = cursor.number()
        if self.version > NEWEST:
            raise cursor.error(f"bytecode version {self.version} is newer than {NEWEST}")
        cursor.terminated()
        sections: dict[int, Cursor] = {}
        while not cursor.is_empty:
            number, inside = cursor.section()
            if number in sections or number > PROPERTIES:
                raise cursor.error(f"unexpected section {number}")
            sections[number] = inside
        for number in (STRINGS, DIALECTS, ENTRIES, OFFSETS, OPERATIONS):
            if number not in sections:
                raise cursor.error(f"missing section {number}")
        self._read_strings(sections[STRINGS])
        self._read_dialects(sections[DIALECTS])
        self._read_entries(sections[OFFSETS], sections[ENTRIES])
        if PROPERTIES in sections:
            self._read_properties(sections[PROPERTIES])
        if RESOURCES in sections and RESOURCE_OFFSETS in sections:
            self._read_resources(sections[RESOURCE_OFFSETS], sections[RESOURCES])
        return _tree(self._read_operations(sections[OPERATIONS]), self.value_types)

    def _read_strings(self, cursor: Cursor) -> None:
        lengths = [cursor.number() for _ in range(cursor.count())]
        end = cursor.end
        for length in lengths:
            start = end - length
            if length < 1 or start < cursor.at:
                raise cursor.error("malformed string section")
            self.strings.append(bytes(self.data[start : end - 1]))
            end = start
        self.strings.reverse()
        if end != cursor.at:
            raise cursor.error("unexpected trailing data between the offsets and the strings")

    def string(self, index: int) -> str:
        """Return the string with this number in the bytecode's table of strings."""
        if index >= len(self.strings):
            raise ValueError(f"invalid string index: {index}")
        return self.strings[index].decode()

    def _read_dialects(self, cursor: Cursor) -> None:
        dialects: list[str] = []
        for _ in range(cursor.count()):
            index, has_version = cursor.flagged() if self.version >= 1 else (cursor.number(), False)
            dialects.append(self.string(index))
            if has_version:
                cursor.section()
        if self.version >= 4:
            cursor.number()
        while not cursor.is_empty:
            dialect = dialects[cursor.number()]
            for _ in range(cursor.count()):
                index, is_registered = (
                    cursor.flagged() if self.version >= 5 else (cursor.number(), True)
                )
                self.names.append((f"{dialect}.{self.string(index)}", is_registered))
        self.dialects = dialects

    def _read_entries(self, offsets: Cursor, entries: Cursor) -> None:
        attributes, types = offsets.number(), offsets.number()
        if attributes + types > offsets.end - offsets.at:
            raise offsets.error("more attributes and types than offsets")
        self.entries = _Entries(self, attributes + types, attributes)
        places = self.entries.places
        at = entries.at
        while not offsets.is_empty:
            dialect = self.dialects[offsets.number()]
            for _ in range(offsets.count()):
                size, is_custom = offsets.flagged()
                if at + size > entries.end:
                    raise offsets.error("attribute or type offset is out of bounds")
                places.append((dialect, is_custom, at, at + size))
                at += size
        if len(places) != attributes + types or at != entries.end:
            raise offsets.error("the sizes of attributes and types do not add up")

    def _read_properties(self, cursor: Cursor) -> None:
        for _ in range(cursor.count()):
            size = cursor.number()
            start = cursor.at
            cursor.bytes(size)
            self.properties.append(Cursor(self.data, start, start + size))

    def _read_resources(self, offsets: Cursor, entries: Cursor) -> None:
        externals = offsets.number()
        for _ in range(externals):
            offsets.number()
            self._read_resource_group(offsets, entries)
        self.blobs.clear()  # attributes refer only to the resources that follow the external resources
        while not offsets.is_empty:
            offsets.number()
            self._read_resource_group(offsets, entries)

    def _read_resource_group(self, offsets: Cursor, entries: Cursor) -> None:
        for _ in range(offsets.count()):
            data: bytes | None = None
            name, size, kind = self.string(offsets.number()), offsets.number(), offsets.byte()
            start = entries.at
            entries.bytes(size)
            if kind == 0:
                inside = Cursor(self.data, start, start + size)
                alignment, length = inside.number(), inside.number()
                inside.align(alignment)
                data = inside.bytes(length)
            self.blobs.append((name, data))

    # ---- attributes and types ----------------------------------------------------------------

    def decoded(self, entries: _Entries, index: int) -> Any:
        """Decode the bytes of an entry, and return its value."""
        dialect, is_custom, start, end = entries.places[index]
        is_type = index >= entries.attributes
        cursor = Cursor(self.data, start, end)
        if not is_custom:
            text = cursor.terminated().decode()
            parser = AttributeParser(Tokens(text))
            value = parser.type() if is_type else parser.attribute()
            if parser.words[parser.at]:
                raise parser.error(
                    f"trailing characters found after a type or attribute: {text[:40]}"
                )
            return value
        code = cursor.number()
        table = TYPES if is_type else ATTRIBUTES
        decode = table.get((dialect, code))
        if decode is None:
            kind = "type" if is_type else "attribute"
            raise cursor.error(f"unknown {dialect} {kind} code: {code}")
        value = decode(self, cursor)
        if not cursor.is_empty:
            raise cursor.error("unexpected trailing bytes in an attribute or type")
        return value

    def attribute(self, cursor: Cursor) -> Any:
        """Read the number of an attribute, and return the decoded attribute, including all attributes inside it."""
        return self.entries.value(self.attribute_index(cursor.number()))

    def type(self, cursor: Cursor) -> Any:
        """Read the number of a type, and return the decoded type, including all types inside it."""
        return self.entries.value(self._type_index(cursor.number()))

    def attribute_index(self, index: int) -> int:
        """Check the number of an attribute, and return its index in the table of entries."""
        if index >= self.entries.attributes:
            raise ValueError(f"invalid attribute index: {index}")
        return index

    def _type_index(self, index: int) -> int:
        index += self.entries.attributes
        if index >= len(self.entries.values):
            raise ValueError(f"invalid type index: {index - self.entries.attributes}")
        return index

    def part(self, cursor: Cursor) -> Any:
        """Read the number of an attribute that the current attribute contains; see `_Entries.part`."""
        return self.entries.part(self.attribute_index(cursor.number()))

    def needed(self, cursor: Cursor) -> Any:
        """Read the number of an attribute whose value is needed to decode the current entry, and return the value."""
        return self.entries.needed(self.attribute_index(cursor.number()))

    def needed_text(self, cursor: Cursor) -> str:
        """Read the number of an attribute as `needed` does, and return MLIR's text of the attribute."""
        printed = Printed(self.attribute_index(cursor.number()))
        length = 0
        while printed.pending and length <= LONGEST_TEXT:
            item = printed.pending.pop()
            if not isinstance(item, str):
                index, is_inner = item
                value = self.entries.needed(self.attribute_index(index))
                dialect, is_custom, start, end = self.entries.places[index]
                inside = Cursor(self.data, start, end)
                code = (dialect, inside.number()) if is_custom else None
                if printed.contents(code, value, inside, self):
                    continue
                item = printed.scalar(code, value, inside, self, is_inner)
            printed.texts.append(item)
            length += len(item)
        return "".join(printed.texts)

    def optional(self, cursor: Cursor) -> Any:
        """Read the number of an attribute as `needed` does; return None if the attribute is absent."""
        index, is_present = cursor.flagged()
        return self.entries.needed(self.attribute_index(index)) if is_present else None

    def blob(self, cursor: Cursor) -> tuple[str, bytes | None]:
        """Read the number of a resource, and return its name and its data, or None if it has no data."""
        index = cursor.number()
        if index >= len(self.blobs):
            raise ValueError(f"invalid resource index: {index}")
        return self.blobs[index]

    def needed_type(self, cursor: Cursor) -> Any:
        """Read the number of a type whose value is needed to decode the current entry, and return the value."""
        return self.entries.needed(self._type_index(cursor.number()))

    # ---- operations --------------------------------------------------------------------------

    def _read_operations(self, cursor: Cursor) -> Block:
        """Read the operations of the file's top-level block, and return the block."""
        top = _Frame(Operation("", (), (), (), {}, (), ""), cursor, 0, _Scope())
        top.scope.enter(0)
        self._open_block(top)
        result = top.block
        assert result is not None
        stack = [top]
        while stack:
            frame = stack[-1]
            if frame.operations:
                frame.operations -= 1
                opened = self._read_operation(frame)
                if opened is not None:
                    stack.append(opened)
                continue
            if frame.block is not None:
                if frame is top:
                    break
                frame.blocks.append(frame.block)
                frame.block = None
                frame.scope.leave(frame.values)
            if frame.regions:
                frame.regions -= 1
                self._open_region(frame)
                continue
            frame.operation.regions = tuple(frame.blocks)
            stack.pop()
        return result

    def _open_region(self, frame: _Frame) -> None:
        count = frame.cursor.number()
        if count == 0:
            return
        if count > 1:
            raise UnsupportedError(f"a region of {count} blocks; StableHLO's have one")
        frame.values = frame.cursor.count()
        frame.scope.enter(frame.values)
        self._open_block(frame)

    def _open_block(self, frame: _Frame) -> None:
        cursor = frame.cursor
        frame.operations, has_arguments = cursor.flagged()
        if frame.operations > cursor.end - cursor.at:
            raise cursor.error("more operations than bytes")
        types: list[Any] = []
        if has_arguments:
            for _ in range(cursor.count()):
                if self.version >= 4:
                    index, has_location = cursor.flagged()
                    types.append(self.entries.value(self._type_index(index)))
                else:
                    types.append(self.type(cursor))
                    has_location = True
                if has_location:
                    self.attribute(cursor)
            if self.version >= 3 and cursor.byte():
                self._skip_use_lists(cursor, len(types))
        numbers = [self._define(frame.scope, kind) for kind in types]
        frame.block = Block(tuple(numbers), tuple(types), [])

    def _define(self, scope: _Scope, kind: Any) -> int:
        number = len(self.value_types)
        self.value_types.append(kind)
        scope.define(number)
        return number

    def _skip_use_lists(self, cursor: Cursor, count: int) -> None:
        for _ in range(cursor.count() if count > 1 else 1):
            if count > 1:
                cursor.number()
            length, _ = cursor.flagged()
            if length > cursor.end - cursor.at:
                raise cursor.error("a use-list order of more numbers than bytes")
            for _ in range(length):
                cursor.number()

    def _read_operation(self, frame: _Frame) -> _Frame | None:
        cursor = frame.cursor
        index = cursor.number()
        if index >= len(self.names):
            raise cursor.error(f"invalid operation name index: {index}")
        name, is_registered = self.names[index]
        mask = cursor.byte()
        location = place_of(self.attribute(cursor))
        attributes: dict[str, Any] = {}
        if mask & HAS_ATTRIBUTES:
            dictionary = self.attribute(cursor)
            if not isinstance(dictionary, dict):
                raise cursor.error("expected a dictionary of attributes")
            attributes = dictionary
        if mask & HAS_PROPERTIES:
            attributes = self._with_properties(name, is_registered, cursor.number()) | attributes
        types: tuple[Any, ...] = ()
        numbers: tuple[int, ...] = ()
        if mask & HAS_RESULTS:
            types = tuple([self.type(cursor) for _ in range(cursor.count())])
        operands: tuple[int, ...] = ()
        if mask & HAS_OPERANDS:
            values = frame.scope.values
            operands = tuple([values[cursor.number()] for _ in range(cursor.count())])
            if any(number < 0 for number in operands):
                raise cursor.error(f"{name}: an operand does not dominate this use")
        if mask & HAS_SUCCESSORS:
            raise UnsupportedError(f"{name} branches to blocks; StableHLO's operations have none")
        if mask & HAS_USE_LISTS and self.version >= 3:
            self._skip_use_lists(cursor, len(types))
        numbers = tuple([self._define(frame.scope, kind) for kind in types])
        operation = Operation(name, operands, numbers, types, dict(attributes), (), location)
        assert frame.block is not None
        frame.block.operations.append(operation)
        if not mask & HAS_REGIONS:
            return None
        count, is_isolated = cursor.flagged()
        if count > cursor.end - cursor.at:
            raise cursor.error("more regions than bytes")
        scope = _Scope() if is_isolated else frame.scope
        inside = cursor
        if is_isolated and self.version >= 2:
            number, inside = cursor.section()
            if number != OPERATIONS:
                raise cursor.error("expected a section of operations")
        return _Frame(operation, inside, count, scope)

    def _with_properties(self, name: str, is_registered: bool, index: int) -> dict[str, Any]:
        if index >= len(self.properties):
            raise ValueError(f"invalid properties index: {index}")
        place = self.properties[index]
        cursor = Cursor(self.data, place.at, place.end)
        if not is_registered:
            return dict(self.attribute(cursor))
        if name.startswith("vhlo."):
            return {item: self.attribute(cursor) for item in versioned_attributes(name)}
        definition = DEFINITIONS.get(name)
        if definition is None:
            raise cursor.error(f"{name}: an operation whose properties are not known")
        newer = NEWER.get(name)
        try:
            return self._registered(name, definition, cursor)
        except MlirDiagnosticError:
            if newer is None:
                raise
        return self._registered(name, definition, Cursor(self.data, place.at, place.end), newer)

    def _registered(
        self, name: str, definition: Definition, cursor: Cursor, newer: str = ""
    ) -> dict[str, Any]:
        """Read the properties of an operation of a registered dialect.

        Args:
            newer: the name of a property that the bytecode lacks, because an older release of StableHLO wrote it.
        """
        attributes = {}
        for item, is_required in definition.attributes:
            if item == newer:
                continue
            if is_required:
                attributes[item] = self.attribute(cursor)
                continue
            number, is_present = cursor.flagged()
            if is_present:
                attributes[item] = self.entries.value(self.attribute_index(number))
        if name == "chlo.scan":
            attributes["operandSegmentSizes"] = _sparse_array(cursor, 2)
            attributes["resultSegmentSizes"] = _sparse_array(cursor, 2)
        if not cursor.is_empty:
            raise cursor.error(f"{name}: unexpected trailing bytes in properties")
        return attributes


def _sparse_array(cursor: Cursor, size: int) -> tuple[int, ...]:
    count, is_sparse = cursor.flagged()
    if not is_sparse:
        if count > cursor.end - cursor.at:
            raise cursor.error("an array of more numbers than bytes")
        return tuple([cursor.number() for _ in range(count)])
    elements = [0] * size
    bits = cursor.number() if count else 0
    for _ in range(count):
        item = cursor.number()
        elements[item & ((1 << min(bits, 32)) - 1)] = item >> bits
    return tuple(elements)


# ---- the tree ----------------------------------------------------------------------------------


def _tree(top: Block, value_types: list[Any]) -> ModuleTree:
    """Build the module tree from the top-level block, with StableHLO operations in place of versioned operations."""
    modules = [item for item in top.operations if item.name == "builtin.module"]
    if len(top.operations) != 1 or not modules:
        raise MlirDiagnosticError([("expected one module", "bytecode")])
    trees: list[ModuleTree] = []
    waiting: list[tuple[Operation, list[ModuleTree]]] = [(modules[0], trees)]
    for module, siblings in waiting:
        siblings.append(_module_tree(module, value_types))
        waiting += [
            (item, siblings[-1].nested)
            for block in module.regions
            for item in block.operations
            if item.name == "builtin.module"
        ]
    return trees[0]


def _module_tree(module: Operation, value_types: list[Any]) -> ModuleTree:
    """Build the tree of a module, without the modules that are nested in it."""
    attributes = {
        name: value.text if isinstance(value, FunctionType) else value
        for name, value in module.attributes.items()
    }
    tree = ModuleTree(str(attributes.pop("sym_name", "main")), attributes=attributes)
    symbols: set[str] = set()
    for item in module.regions[0].operations if module.regions else []:
        if item.name in ("func.func", "vhlo.func_v1"):
            _unversion(item)
            _remove_casts(item)
            function = function_of(item, value_types)
            tree.functions[function.name] = function
        if item.name == "sdy.mesh":
            mesh = str(item.attributes["mesh"]).removeprefix("mesh")
            tree.meshes[str(item.attributes["sym_name"])] = mesh
        name = item.attributes.get("sym_name")
        if name in symbols:
            raise MlirDiagnosticError([(f"redefinition of symbol named '{name}'", item.location)])
        if name is not None:
            symbols.add(str(name))
    return tree


def _unversion(function: Operation) -> None:
    """Replace the versioned operations of a function by operations of StableHLO, in place."""
    waiting = [(function, "")]
    while waiting:
        operation, parent = waiting.pop()
        if operation.name.startswith("vhlo."):
            unversioned_operation(operation, parent)
        else:
            for name, value in operation.attributes.items():
                if isinstance(value, FunctionType) and name != "function_type":
                    operation.attributes[name] = value.text
        waiting += [
            (item, operation.name) for block in operation.regions for item in block.operations
        ]


CAST = "builtin.unrealized_conversion_cast"


def _remove_casts(function: Operation) -> None:
    """Remove the conversions between VHLO's and StableHLO's types in a function, in place.

    The conversions have no effect, because the tree represents VHLO's and StableHLO's types in the same way.
    """
    blocks = list(function.regions)
    for block in blocks:
        blocks += [region for item in block.operations for region in item.regions]
    if not any(item.name == CAST for block in blocks for item in block.operations):
        return
    sources: dict[int, int] = {}
    for block in blocks:
        for item in block.operations:
            item.operands = tuple([sources.get(number, number) for number in item.operands])
            if item.name == CAST and len(item.operands) == len(item.results):
                sources.update(zip(item.results, item.operands, strict=True))
        block.operations[:] = [item for item in block.operations if item.name != CAST]

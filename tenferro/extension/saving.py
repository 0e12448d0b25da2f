"""`save` and `load`: write a program to one file, and read it.

The file is a zip archive without compression. It contains `program.json` and `constants/<n>.npy`. Reading a file runs
no code in it. Standard ops are looked up by name, and extension ops by family id among the registered factories. The
result types of each op are inferred again. `save` writes a temporary file first, and then renames it.

Source: docs/specification/files.md.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tenferro.archives import DATE, Archive, opened_archive, write_array
from tenferro.dims import Guard, load_guards, save_guards
from tenferro.errors import InvalidConfigError, TenferroError, UnsupportedError
from tenferro.extension.extension_op import ExtensionOp, check_family_id
from tenferro.extension.payload import CARDS, loaded_value, payload_classes, payload_of
from tenferro.files import reading, replacing
from tenferro.graph import Graph, SourceLine
from tenferro.interruption import is_interruption
from tenferro.ops import StdTensorOp
from tenferro.ops.elements import LARGE
from tenferro.ops.extension import Extension
from tenferro.ops.source import Constant
from tenferro.program import (
    GraphProgram,
    Subprogram,
    factory_of,
    lookup_extension_factory,
    note_bits,
    registered_families,
)
from tenferro.rules.family_id import by_version
from tenferro.types import DType, TensorSpec, load_tree, save_tree

__all__ = ["MissingExtension", "load", "load_attributes", "require_restored", "save"]

FORMAT = "tenferro-program"
VERSION = 1


@dataclass(frozen=True)
class MissingExtension(ExtensionOp):
    """Op that `load(.., skip_missing_extensions=True)` creates in place of an op whose family is not registered.

    The types of its results are those that were saved. To run, expand or lower the op is an error.
    """

    family_id: str
    payload: str
    types: tuple[TensorSpec, ...]
    input_count: int
    output_count: int

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        """Return the types that were saved with the op."""
        return list(self.types)

    def eager_execute(self, inputs: Any) -> Any:
        """Raise an error, because the family is not registered."""
        raise UnsupportedError(f"extension: {self.family_id}: not registered")

    def lower_to_standard_ops(
        self, builder: Any, inputs: Any, input_dtypes: Any, input_shapes: Any
    ) -> Any:
        """Raise an error, because the family is not registered."""
        raise UnsupportedError(f"extension: {self.family_id}: not registered")


# ---- writing ---------------------------------------------------------------------------------------


def save(program: GraphProgram, path: Any, *, attributes: Mapping[str, Any] | None = None) -> None:
    """Write a program to a file. `load` returns a program with the same fingerprint.

    Args:
        attributes: values by name that JSON can represent. They are stored with the program; see `load_attributes`.

    Raises:
        UnsupportedError: JSON cannot represent a payload or a tree; the message names the op.
        InvalidConfigError: `program` is not a program, or `path` names a folder, a pipe or a device.
        OSError: the folder is missing, the disk is full, or there is no permission to write.

    >>> import numpy as np, os, tempfile, tenferro as tnf
    >>> path = os.path.join(tempfile.mkdtemp(), "double.tenferro")
    >>> save(tnf.compile(lambda x: x + x, np.ones(2)), path)
    >>> load(path).run(np.ones(2))
    array([2., 2.])
    """
    checked: Any = program
    if not isinstance(checked, GraphProgram):
        raise InvalidConfigError(
            f"save: writes programs, got {type(checked).__name__}; parameters are written by tenferro.tree.save"
        )
    constants: list[Any] = []
    document = {
        "format": FORMAT,
        "version": VERSION,
        "name": program.name,
        "input_names": program.input_names,
        "output_names": program.output_names,
        "in_tree": save_tree(program.in_tree),
        "out_tree": save_tree(program.out_tree),
        **_saved_steps(program, constants),
        **({"attributes": dict(attributes)} if attributes else {}),
    }
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        text = json.dumps(document, separators=(",", ":"))
        archive.writestr(zipfile.ZipInfo("program.json", DATE), text.encode())
        for number, array in enumerate(constants):
            write_array(archive, f"constants/{number}", array)


def _saved_steps(program: GraphProgram, constants: list[Any]) -> dict[str, Any]:
    """Convert the inputs, instructions, outputs and guards of a program or sub-program to JSON."""
    instructions: list[dict[str, Any]] = []
    for instruction in program.instructions:
        entry = _saved_op(instruction.op, constants)
        entry["inputs"], entry["outputs"] = instruction.inputs, instruction.outputs
        if isinstance(instruction.op, Extension):
            entry["types"] = [str(program.types[slot]) for slot in instruction.outputs]
        if instruction.source is not None:
            entry["source"] = list(instruction.source)
        instructions.append(entry)
    return {
        "inputs": [str(spec) for spec in program.input_specs],
        "outputs": program.output_slots,
        "guards": save_guards(program.guards),
        "instructions": instructions,
    }


def _saved_op(op: StdTensorOp, constants: list[Any]) -> dict[str, Any]:
    if isinstance(op, Constant):
        array = op.array
        bits = op.dtype.stored
        constants.append(array if bits is None else array.view(bits))
        return {"constant": len(constants) - 1, "dtype": op.dtype.value}
    if isinstance(op, Extension):
        inner = op.op
        if isinstance(inner, MissingExtension):
            return {"extension": inner.family_id, "payload": json.loads(inner.payload)}
        payload = payload_of(inner)
        require_restored(inner)
        return {"extension": check_family_id(inner.family_id), "payload": payload}

    def inside(part: Subprogram) -> dict[str, Any]:
        return _saved_steps(part.program, constants)

    return {"op": type(op).__name__, "payload": payload_of(op, inside)}


def require_restored(op: Any) -> None:
    """Check that the factory of an extension's op, if it is known, creates an equal op from the payload.

    Raises:
        UnsupportedError: it creates an op of another class, or with another payload.
    """
    factory = factory_of(op)
    restored = op if factory is None else factory.instantiate(op.payload_fields())
    if not op.payload_eq(restored):
        raise UnsupportedError(
            f"save: {op.family_id}: from the payload of a {type(op).__name__}, the factory of the family creates "
            f"another op, a {type(restored).__name__}; give another class of ops another family id"
        )


# ---- reading -----------------------------------------------------------------------------------------


def load(
    path: Any,
    skip_missing_extensions: bool = False,
    *,
    limit: int | None = None,
    trusted: bool = False,
    mapped: bool = False,
) -> GraphProgram:
    """Load the program that `save` wrote to a file.

    The program accepts named tuples of any class with the saved name and fields. The named tuples that it returns
    belong to new classes.

    Args:
        path: the file.
        skip_missing_extensions: whether to load an op of an unregistered family as an op that cannot run, instead of
            raising an error.
        limit: the maximum size in bytes after unpacking. The default is 32 times the size of the file, and at least 64
            MiB. A file that `save` wrote never exceeds the default, because it is not compressed.
        trusted: whether XLA may compile the program in this process. A malicious program could crash XLA. So a separate
            process, with limits on time and memory, compiles a program first that is not trusted.
        mapped: whether to map constants of 64 KiB or more from the file into memory. Processes that load the same file
            then share the memory. The file may be replaced, as `save` does, but must not be overwritten in place.

    Raises:
        FileNotFoundError, PermissionError: the file does not exist, or may not be read.
        InvalidConfigError: `save` did not write the file, the file is malformed or exceeds the limits, or the path is a
            folder or a pipe.
        MalformedFamilyIdError: a family id is not `<package>.<name>.v<major>`.
        UnsupportedError: a family is not registered, or is registered only in another major version.
    """
    with _opened(path, limit) as archive:
        constants = _Constants(archive, mapped)
        return note_bits(_load(archive, constants, skip_missing_extensions, trusted))


def load_attributes(path: Any, *, limit: int | None = None) -> dict[str, Any]:
    """Return the values, by name, that `save` stored with a program.

    Raises:
        FileNotFoundError, PermissionError, InvalidConfigError: as for `load`.
    """
    with _opened(path, limit) as archive:
        attributes = _document(archive).get("attributes", {})
        return {str(name): value for name, value in attributes.items()}


@contextmanager
def _opened(path: Any, limit: int | None) -> Generator[Archive]:
    """Open the archive of a saved program. If reading it raises an unexpected error, raise one that names the file."""
    try:
        with reading(path) as file, opened_archive(file, "load: the file", limit) as archive:
            yield archive
    except (TenferroError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise InvalidConfigError(
            f"load: {path} is no {FORMAT} file: {type(error).__name__}: {error}"
        ) from error


def _document(archive: Archive) -> dict[str, Any]:
    document = json.loads(archive.document("program.json"))
    if document.get("format") != FORMAT:
        raise InvalidConfigError(f"load: format is {document.get('format')!r}, expected {FORMAT!r}")
    if document.get("version") != VERSION:
        raise InvalidConfigError(
            f"load: the file is of version {document.get('version')!r}, this reads {VERSION}"
        )
    return document


@dataclass(frozen=True)
class _Constants:
    """Constants in an archive. If `are_mapped` is set, large arrays are mapped into memory."""

    archive: Archive
    are_mapped: bool

    def array(self, number: int) -> np.ndarray[Any, Any]:
        name = f"constants/{number}"
        mapped = self.archive.mapped_array(name) if self.are_mapped else None
        return self.archive.array(name) if mapped is None or mapped.nbytes < LARGE else mapped


def _load(archive: Archive, constants: _Constants, skip: bool, trusted: bool) -> GraphProgram:
    document = _document(archive)
    graph, outputs, guards = _loaded_steps(document, constants, skip, trusted)
    in_tree = load_tree(document["in_tree"], len(document["inputs"]))
    out_tree = load_tree(document["out_tree"], len(outputs))
    return GraphProgram.from_graph(
        graph,
        outputs,
        name=str(document["name"]),
        in_tree=in_tree,
        out_tree=out_tree,
        input_names=_loaded_names("inputs", document["input_names"], len(document["inputs"])),
        output_names=_loaded_names("outputs", document["output_names"], len(outputs)),
        guards=guards,
    )


def _loaded_names(what: str, names: Sequence[Any], count: int) -> list[str]:
    if not isinstance(names, list) or len(names) != count:
        raise InvalidConfigError(f"load: {count} {what} have the names {names!r:.80}")
    return [str(name) for name in names]


def _loaded_steps(
    document: Mapping[str, Any], constants: _Constants, skip: bool, trusted: bool
) -> tuple[Graph, list[int], tuple[Guard, ...]]:
    """Load the graph, the outputs and the guards of a program or sub-program from JSON."""
    graph = Graph()
    graph.trusted = trusted
    values = [graph.add_input(TensorSpec.parse(text)) for text in document["inputs"]]
    for entry in document["instructions"]:
        op = _loaded_op(entry, constants, skip, trusted)
        source = entry.get("source")
        location = None if source is None else _loaded_place(source)
        if entry["outputs"] != list(range(len(values), len(values) + len(entry["outputs"]))):
            raise InvalidConfigError(f"load: instruction {entry['outputs']} is out of order")
        if not all(type(i) is int and 0 <= i < len(values) for i in entry["inputs"]):
            raise InvalidConfigError(
                f"load: instruction {entry['outputs']} reads an undefined value"
            )
        outputs = graph.add(op, tuple(values[slot] for slot in entry["inputs"]), location)
        if isinstance(op, Extension):
            _require_types(op, [graph.types[value] for value in outputs], entry["types"])
        values.extend(outputs)
    slots = document["outputs"]
    if not all([type(slot) is int and 0 <= slot < len(values) for slot in slots]):
        raise InvalidConfigError(f"load: outputs {slots!r:.80} are not all defined")
    return graph, [values[slot] for slot in slots], load_guards(document["guards"])


def _require_types(op: Extension, types: Sequence[TensorSpec], saved: Sequence[str]) -> None:
    """Check that an op infers the result types that were saved with it.

    Raises:
        UnsupportedError: the types differ.
    """
    if list(types) != [TensorSpec.parse(text) for text in saved]:
        raise UnsupportedError(
            f"extension: {op.family_id}: the graph's op gives ({', '.join(saved)}), the registered one "
            f"({', '.join(map(str, types))}); another meaning needs another major version"
        )


def _loaded_place(source: Sequence[Any]) -> SourceLine:
    file, line, *names = source
    return SourceLine(str(file), int(line), *map(str, names))


def _loaded_op(
    entry: Mapping[str, Any], constants: _Constants, skip: bool, trusted: bool
) -> StdTensorOp:
    if "constant" in entry:
        return _loaded_constant(entry, constants)

    def inside(document: Mapping[str, Any]) -> Subprogram:
        graph, outputs, guards = _loaded_steps(document, constants, skip, trusted)
        return Subprogram.of_program(
            GraphProgram.from_graph(graph, outputs, name="body", guards=guards)
        )

    if "extension" in entry:
        return Extension(_loaded_extension(entry, skip))
    card = CARDS.get(entry["op"])
    if card is None:
        raise InvalidConfigError(f"load: {entry['op']!r:.60} is not an op")
    payload = {str(key): loaded_value(value, inside) for key, value in entry["payload"].items()}
    names = {field.name for field in fields(card)}
    if payload.keys() - names:
        raise InvalidConfigError(f"load: {entry['op']} has no {sorted(payload.keys() - names)}")
    return card(**payload)


def _loaded_constant(entry: Mapping[str, Any], constants: _Constants) -> Constant:
    number, dtype = int(entry["constant"]), DType.of(entry["dtype"])
    stored = constants.array(number)
    if stored.dtype != (dtype.dtype if dtype.stored is None else dtype.stored):
        raise InvalidConfigError(f"load: constant {number} is {stored.dtype}, expected {dtype}")
    if dtype is DType.Bool and stored.view(np.uint8).max(initial=0) > 1:
        raise InvalidConfigError(f"load: constant {number} has booleans that are neither 0 nor 1")
    # A .npy file from elsewhere may be column-major, although `save` writes row-major arrays only.
    return Constant.adopting(np.asarray(stored, order="C").view(dtype.dtype))


def _loaded_extension(entry: Mapping[str, Any], skip: bool) -> Any:
    family_id = check_family_id(entry["extension"])
    factory = lookup_extension_factory(family_id)
    if factory is not None:
        classes = payload_classes(getattr(factory, "cls", factory))
        payload = {
            str(key): loaded_value(value, classes=classes)
            for key, value in entry["payload"].items()
        }
        op = factory.instantiate(payload)
        if getattr(op, "family_id", None) != family_id:
            raise UnsupportedError(
                f"extension: {family_id}: the registered factory gives {op!r:.60}, which is not an op of "
                "that family"
            )
        return op
    stem, version = by_version(family_id)
    families = [by_version(name) for name in registered_families()]
    versions = ", ".join([f"v{number}" for name, number in families if name == stem])
    if versions:
        raise UnsupportedError(
            f"extension: {family_id}: version mismatch, graph has v{version}, "
            f"runtime has {versions}"
        )
    if not skip:
        raise UnsupportedError(
            f"extension: {family_id}: not registered; install its package, call register_extension, "
            "or load with skip_missing_extensions=True"
        )
    types = tuple(TensorSpec.parse(text) for text in entry["types"])
    return MissingExtension(
        family_id, json.dumps(entry["payload"]), types, len(entry["inputs"]), len(types)
    )

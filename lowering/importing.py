"""`import_stablehlo`, which converts StableHLO modules of any origin to programs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowering import mlir_bindings
from lowering.bounds import has_bounds, with_bounds
from lowering.guarded import perform
from lowering.large_files import LARGE_FILE, MappedBytes, is_large, read_large
from lowering.mlir_bindings import is_jaxlib_installed
from lowering.module import StableHloModule
from lowering.module_tree import Block, ForeignType, Function, ModuleTree, Operation, Type, is_token
from lowering.read import READERS, Reader, note_extents
from lowering.read.devices import Devices, on_devices
from lowering.read.dynamic import UndecidedExtentError, extents_value
from lowering.read.quantized import without_quantized_types
from lowering.read.reader import MOST_OPS
from lowering.read.scalars import without_scalars
from lowering.read.tuples import without_tuples
from lowering.syntax import read_module
from lowering.syntax.elements import with_elements
from lowering.types import tensor_type
from tenferro.dims import SymDim, is_static
from tenferro.errors import (
    ArityError,
    DTypeError,
    InvalidConfigError,
    ShapeError,
    TenferroError,
    UnsupportedError,
)
from tenferro.files import content_of
from tenferro.program import GraphProgram, extents_spec, note_bits
from tenferro.types import TensorSpec, flatten

__all__ = ["NamedValue", "import_stablehlo", "import_values"]

CANONICALIZED = frozenset(
    f"stablehlo.{name}"
    for name in (
        "dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota",
        "dynamic_pad", "dynamic_reshape", "real_dynamic_slice",
    )
)  # fmt: skip
"""Operations with shapes as operands, which StableHLO's own passes make static before a module is read."""


MOST_EXTENTS = 16
"""Maximum number of elements of an integer argument that may be read as extents."""
OTHER_FORMS = re.compile(
    r"failed to satisfy constraint: i64 dense array attribute"
    r"|elements hex data size is invalid for provided type: 'tensor<[\dx]+xi1>'"
    r"|Dialect `ml_program' not found"
)
"""Pattern of MLIR's errors for texts that older releases of MLIR, or torch-mlir, wrote.

`lowering.syntax` reads such texts.
"""


def import_stablehlo(
    module: Any,
    specs: Sequence[Any] | None = None,
    *,
    function: str = "main",
    trusted: bool = False,
    rules: Mapping[str, Any] | None = None,
    callbacks: Sequence[Callable[..., Any]] = (),
    devices: int | Mapping[str, int] | None = None,
    drops_windows: bool = False,
) -> GraphProgram:
    """Import a StableHLO module as a program, which can be run, differentiated, compared and lowered.

    Args:
        module: text; bytecode or a portable artifact; a serialised `jax.export`; a `StableHloModule`; or
            the path of a file with any of these contents.
        specs: the type of each argument, if the module has dynamic extents (`?`). In its shape, a dynamic extent is
            replaced by a number, or by a symbol that arguments may share. Without specs each dynamic extent is a
            separate symbol, named after the argument and the axis; equalities are checked when the program runs. If a
            scalar integer argument determines extents, its value can be given instead of its type, as a symbol or a
            number.
        function: the name of the function to read. It is also the program's name, unless it is "main".
        trusted: read the module in this process, which malformed bytecode may crash. Modules that this process
            lowered are trusted; a separate process reads any other module, with limits on time and memory.
        rules: custom derivatives: a dictionary from names of the module's functions to Python functions. For a call of
            such a function, the Python function returns a mark, which defines the derivative of the call's float and
            complex results. It is called with the number of operands, the number of results, and the positions of the
            marked results. Positions count the operands first, then the results. If `rules` is None, the program gets
            marks at floats that are computed from the bits of other floats, because such a derivative is taken as zero.
            Differentiation then warns.
        callbacks: the Python functions that the module calls by number, as JAX's callbacks do.
        devices: the devices that run the module together, if it communicates by collectives. It is their number,
            `{"replicas": r, "partitions": p}`, or the sizes of a mesh's axes by name. Every argument and result of the
            program then has a leading axis, with an element per device. The index of a device is
            replica * p + partition. The body of an `sdy.manual_computation` always runs on the devices of its mesh.
        drops_windows: whether a scatter ignores each window that is partly out of bounds, as XLA and JAX do. By the
            specification, it ignores only the elements out of bounds.

    Trusted text, and every module if jaxlib is missing, is read by the parsers of `lowering.syntax`. They are pure
    Python, and need no separate process. Without jaxlib, an operation raises an error if only MLIR's passes can
    evaluate its shape operands. Modules with quantised types are always read by these parsers, and their values are
    represented by the stored integers.

    The program's `origin` is the original module, with which `xla_peer.check_parity` compares. It is None for a large
    file, for bytecode that was read without jaxlib, and for a function other than `main`. It is also None with
    `callbacks`, with `devices`, and if an argument's elements became extents of the program.

    Raises:
        MlirDiagnosticError: the input is not a module, and the error contains MLIR's messages and locations. Or
            reading the module crashed the worker process or exceeded the limits.
        UnsupportedError: operations or types have no counterpart; the error contains their locations.
        ArityError, ShapeError, DTypeError: the specs contradict the module's types.
        NonStaticShapeError: extents depend on the elements of an argument.
        FileNotFoundError: there is no file at the path.

    >>> program = import_stablehlo('''
    ... func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    ...   %y = stablehlo.add %x, %x : tensor<3xf32>
    ...   return %y : tensor<3xf32>
    ... }''')
    >>> import numpy as np
    >>> program.run(np.ones(3, "f4"))
    array([2., 2., 2.], dtype=float32)

    Source: the StableHLO specification.
    """
    trusted = trusted or getattr(module, "trusted", False) is True
    has_mlir = is_jaxlib_installed()
    contents, elements = _contents_and_elements(module, trusted, has_mlir)
    if has_mlir and isinstance(contents, str) and _needs_own_parser(contents):
        (contents, elements), has_mlir = _contents_and_elements(module, trusted, False), False
    is_apart = isinstance(contents, MappedBytes) or bool(elements)
    # A text with resources is parsed in another process, because MLIR renames a resource whose name an earlier
    # module of the process used.
    in_process = trusted and not is_apart
    try:
        tree = _tree(contents, in_process, has_mlir, elements)
    except (mlir_bindings.MlirDiagnosticError, UnsupportedError) as error:
        if has_mlir and isinstance(contents, MappedBytes):
            contents = _text_of(contents, in_process)
            tree = _tree(contents, in_process, has_mlir, elements)
        elif has_mlir and OTHER_FORMS.search(str(error)):
            tree, has_mlir = read_module(contents, elements), False
        else:
            raise
    names = tree.operation_names()
    is_reducible = names & CANONICALIZED or any(
        n.startswith("chlo.") and n not in READERS for n in names
    )
    if has_mlir and is_reducible:
        contents = perform("canonical", _text_of(contents, in_process), trusted=in_process)
        tree = _tree(contents, in_process, has_mlir, elements)
    tree = _prepared(without_quantized_types(tree))
    entry = _entry(tree, function)
    inputs = _input_types(entry, specs)
    is_refined = entry.name == "main" and tree.has_unknown_extents()
    are_static = all([isinstance(s, TensorSpec) and s.is_static for s in inputs])
    is_refined = has_mlir and is_refined and are_static and not has_bounds(entry.body.types)

    def refine() -> None:
        """Refine the module to static shapes, so that called functions have arguments of static shapes too."""
        nonlocal contents, tree, entry
        types = [tensor_type(_static_type(entry, spec)) for spec in inputs]
        contents = perform("refined", _text_of(contents, in_process), types, trusted=in_process)
        tree = _prepared(_tree(contents, in_process, has_mlir, elements))
        entry = _entry(tree, function)

    if is_refined and not any(map(_may_be_extents, entry.body.types)):
        refine()
        is_refined = False
    largest = MOST_OPS if trusted else _largest(tree)
    among = None if devices is None else Devices.of(devices, tree.attributes)

    def attempt(truncates: bool) -> Reading:
        def read(inputs: Sequence[TensorSpec | ExtentArgument]) -> Reading:
            reader = Reader(tree, READERS, note_extents, largest, trusted, rules, callbacks)
            reader.drops_windows = drops_windows
            reader.truncates = truncates
            if among is not None:
                return Reading.on_devices(reader, entry, inputs, among)
            return Reading.of_block(reader, entry.body, inputs)

        return _with_extents(read, inputs, entry)

    try:
        reading = attempt(False)
    except TenferroError as error:
        if is_refined:
            refine()
        elif not isinstance(error, UndecidedExtentError):
            raise
        reading = attempt(True)
    reader, outputs = reading.reader, reading.outputs
    name = tree.name if function == "main" and tree.name else entry.name
    options: dict[str, Any] = {"name": name, "inputs": reading.arguments}
    if all(entry.argument_names):
        options["input_names"] = entry.argument_names
    if all(entry.result_names):
        options["output_names"] = entry.result_names
    if len(outputs) == 1:
        options["out_tree"] = flatten(0)[1]
    program = reader.builder.finish(outputs, **options)
    if (
        rules is None
    ):  # the functions that the module was lowered from, and their rules, are unavailable
        program = note_bits(program)
    # The program has no `origin` if its module was read in pieces, because its whole text is not in memory.
    if is_apart or not isinstance(contents, str) or len(contents) > LARGE_FILE:
        return program
    if entry.name != "main":
        return program
    if reading.takes_extents or among is not None or callbacks:
        return program  # without an origin: the module has other arguments, calls Python, or needs several devices
    types = tuple(program.input_specs), tuple(program.output_specs)
    names = tuple(program.input_names), tuple(program.output_names)
    origin = StableHloModule(
        contents, contents, "cpu", *types, *names, trusted=trusted, drops_windows=drops_windows
    )
    return replace(program, origin=origin)


_OWN_READER = re.compile(
    r'!quant\.|has_dynamic_root|(?<![@"\w.])(?:check\.expect_|interpreter\.probe|chlo\.mulhi|stablehlo\.dynamic_conv\()|#stablehlo\.replica_group_mesh_axes'
    r'|"(?:check\.expect_\w+|interpreter\.\w+|chlo\.mulhi|stablehlo\.collective_reduce)"\s*\(|\bWEAKORDER\b|\bstablehlo\.square\b'
)
"""Pattern of text that `lowering.syntax` reads even if jaxlib is installed.

MLIR would lose digits, because it prints quantisation scales with seven digits only. jaxlib lacks the dialects of the
reference interpreter, and its older releases lack some operations.
"""
_OWN_WORDS = (
    "!quant.", "has_dynamic_root", "check.expect_", "interpreter.", "chlo.mulhi", "stablehlo.dynamic_conv(",
    "replica_group_mesh_axes", "stablehlo.collective_reduce", "WEAKORDER", "stablehlo.square"
)  # fmt: skip
"""Substrings, one of which every match of `_OWN_READER` contains; they are found sooner than a match."""


def _needs_own_parser(text: str) -> bool:
    """Return whether `lowering.syntax` must read a text even if jaxlib is installed."""
    return any([word in text for word in _OWN_WORDS]) and _OWN_READER.search(text) is not None


@dataclass(frozen=True)
class NamedValue:
    """A value of a module, with its position in the text.

    Attributes:
        name: the value's name in the text, such as `%5` or `%3#0`.
        line: number of the line that defines the value, from 1.
        text: the text of this line, with the operation that computes the value.
        outputs: the indices of the outputs of `main` that are this value; empty for intermediate values.
    """

    name: str
    line: int
    text: str
    outputs: tuple[int, ...] = ()


def import_values(
    module: Any, specs: Sequence[Any] | None = None, *, trusted: bool = False
) -> tuple[GraphProgram, tuple[NamedValue, ...]]:
    """Import a module's `main` as a program whose outputs are the results of all operations, in order.

    Return the program, and the name and position of each output. The outputs do not include values in regions and in
    called functions.

    Args:
        module, specs, trusted: as for `import_stablehlo`.

    Raises:
        UnsupportedError: the module has operations that StableHLO's passes would rewrite, which would lose the names of
            values. Or the module is bytecode, and jaxlib is not installed.
        Exception: the errors of `import_stablehlo`.

    >>> program, values = import_values('''
    ... func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    ...   %0 = stablehlo.add %x, %x : tensor<2xf32>
    ...   %y = stablehlo.negate %0 : tensor<2xf32>
    ...   return %y : tensor<2xf32>
    ... }''')
    >>> [(value.name, value.line) for value in values]
    [('%0', 3), ('%y', 4)]
    """
    trusted = trusted or getattr(module, "trusted", False) is True
    has_mlir = is_jaxlib_installed()
    contents = _contents(module, trusted, has_mlir)
    if isinstance(contents, bytes):
        raise UnsupportedError("values of bytecode have names only in MLIR's text: install jaxlib")
    contents = _without_locations(contents)
    read = _tree(contents, trusted, has_mlir and not _needs_own_parser(contents), {})
    tree = without_tuples(without_scalars(without_quantized_types(read)))
    entry, written = _entry(tree, "main"), _entry(read, "main").body.operations
    own = {number for operation in written for number in operation.results}
    inputs = [_static_type(entry, spec) for spec in _input_types(entry, specs)]
    rewritten = sorted(tree.operation_names() & CANONICALIZED)
    if rewritten or (tree.has_unknown_extents() and all(s.is_static for s in inputs)):
        words = ", ".join(rewritten) or "open extents"
        raise UnsupportedError(
            f"the module has {words}, which StableHLO's passes rewrite, so that its values lose their names; "
            "give a module with numbers for extents"
        )
    named: list[NamedValue] = []
    numbers: list[int] = []
    lines = contents.split("\n")
    results = entry.body.operations[-1].operands
    for operation in entry.body.operations[:-1]:
        names = _written_names(operation, lines)
        for name, number, spec in zip(names, operation.results, operation.types, strict=True):
            if isinstance(spec, TensorSpec) and number in own:
                line = _position(operation)[0]
                outputs = tuple([n for n, result in enumerate(results) if result == number])
                named.append(NamedValue(name, line, lines[line - 1].strip(), outputs))
                numbers.append(number)
    returned = replace(entry.body.operations[-1], operands=tuple(numbers))
    body = replace(entry.body, operations=[*entry.body.operations[:-1], returned])
    reader = Reader(tree, READERS, note_extents, _largest(tree), trusted, None)
    values = [reader.builder.input(spec) for spec in inputs]
    outputs = reader.block(body, values, {})
    options: dict[str, Any] = {"name": tree.name or entry.name, "inputs": values}
    if all(entry.argument_names):
        options["input_names"] = entry.argument_names
    program = reader.builder.finish(
        outputs, output_names=tuple([value.name for value in named]), **options
    )
    return program, tuple(named)


@dataclass(frozen=True)
class TextTree:
    """A module's text without locations, and its tree, whose operations have positions in the text.

    Attributes:
        tree: the tree, with tuples, scalars and quantised types already replaced by tensors.
        own: for each function, the numbers of the values that the text contains. The tree has further values, which the
            replacement of tuples and scalars has added.
        lines: the lines of the text.
    """

    tree: ModuleTree
    own: Mapping[str, frozenset[int]]
    lines: Sequence[str]

    def main(self) -> Function:
        """Return the function `main`, or the module's only function if it has another name."""
        return _entry(self.tree, "main")

    def names(self, operation: Operation) -> list[str]:
        """Return the names of an operation's results in the text."""
        return _written_names(operation, self.lines)

    def place(self, operation: Operation) -> str:
        """Return a name for an operation without results, from the number of its line."""
        return f"%line{_position(operation)[0]}"

    def line(self, operation: Operation) -> tuple[int, str]:
        """Return the number and the text of an operation's line."""
        number = _position(operation)[0]
        return number, self.lines[number - 1].strip()


def text_tree_of(module: Any) -> TextTree:
    """Return a module's text without locations, and the tree that `lowering.syntax` parses from the text.

    Raises:
        UnsupportedError: the module is bytecode, and jaxlib is not installed.
        MlirDiagnosticError, FileNotFoundError: see `import_stablehlo`.
    """
    contents = _contents(module, getattr(module, "trusted", False) is True, is_jaxlib_installed())
    if isinstance(contents, bytes):
        raise UnsupportedError("values of bytecode have names only in MLIR's text: install jaxlib")
    contents = _without_locations(contents)
    read = read_module(contents)
    own = {
        name: frozenset(
            [number for operation in function.body.walk() for number in operation.results]
        )
        for name, function in read.functions.items()
    }
    tree = without_tuples(without_scalars(without_quantized_types(read)))
    return TextTree(tree, own, contents.split("\n"))


_LOCATION = re.compile(
    r"^#loc.*$|\s*\bloc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()\"]|\"[^\"]*\")*\))*\)", re.MULTILINE
)


def _without_locations(text: str) -> str:
    """Remove the locations from a module's text. Newlines are kept, so line numbers do not change."""
    return _LOCATION.sub("", text)


def _position(operation: Operation) -> tuple[int, int]:
    """Return the line and column of an operation, which the parser records as its location."""
    line, column = operation.location.rsplit(":", 2)[1:]
    return int(line), int(column)


def _written_names(operation: Operation, lines: Sequence[str]) -> list[str]:
    """Return the names of an operation's results, which precede `=` and the operation on its line.

    If the line has no such names, return names that are made from the number of the line.
    """
    line, column = _position(operation)
    before = lines[line - 1][: column - 1].rstrip()
    match = re.search(r"((?:%[\w$.-]+(?::\d+)?\s*,\s*)*%[\w$.-]+(?::\d+)?)\s*=$", before)
    names: list[str] = []
    for name in [] if match is None else match[1].split(","):
        base, colon, count = name.strip().partition(":")
        names += [f"{base}#{n}" for n in range(int(count))] if colon else [base]
    if len(names) == len(operation.results):
        return names
    return [f"%line{line}#{n}" for n in range(len(operation.results))]


def _largest(tree: ModuleTree) -> int:
    """Return the maximum number of ops into which a module that is not trusted may be expanded.

    The maximum grows with the number of operations in the text. Without a maximum, nested calls could expand a small
    module without limit.
    """
    written = sum(1 for _ in tree.operations())
    return min(MOST_OPS, max(20_000, 300 * written))


def _prepared(tree: ModuleTree) -> ModuleTree:
    """Return the module with tensors in place of tuples, scalars and indices, and with bounds as `UpperBound`s."""
    return with_bounds(without_tuples(without_scalars(tree)))


def _tree(
    contents: str | bytes | MappedBytes,
    trusted: bool,
    has_mlir: bool,
    elements: Mapping[str, memoryview],
) -> ModuleTree:
    """Parse a module by MLIR in a worker process, or by `lowering.syntax`.

    Without MLIR, `lowering.syntax` parses every module. It always parses bytecode of large files, because it can read a
    file in pieces, and trusted text, because it is faster than MLIR's Python bindings.
    """
    is_trusted_text = trusted and isinstance(contents, str)
    if not has_mlir or is_trusted_text or isinstance(contents, MappedBytes):
        return read_module(contents, elements)
    return with_elements(perform("tree", contents, trusted=False), elements)


def _text_of(contents: str | bytes | MappedBytes, trusted: bool) -> str | bytes:
    """Return the text of a module for MLIR's passes; a mapped file is read completely and converted to text."""
    if not isinstance(contents, MappedBytes):
        return contents
    text: str = perform("text", bytes(contents[:]), trusted=trusted)
    return text


def _contents_and_elements(
    module: Any, trusted: bool, has_mlir: bool
) -> tuple[str | bytes | MappedBytes, dict[str, memoryview]]:
    """Return the module as text or bytecode, and a dictionary from names to the elements of large constants.

    The text contains only the names of these constants.
    """
    if _is_path(module) and is_large(module):
        return read_large(module)
    return _contents(module, trusted, has_mlir), {}


def _contents(module: Any, trusted: bool, has_mlir: bool) -> str | bytes:
    """Return the module as text. MLIR converts bytecode to text; without MLIR, bytecode is returned unchanged."""
    text = getattr(module, "text", None)
    if isinstance(text, str):
        return text
    if isinstance(module, bytes | bytearray | memoryview):
        return _decoded(bytes(module), trusted, has_mlir)
    if _is_path(module):
        return _decoded(content_of(module), trusted, has_mlir)
    if isinstance(module, str):
        return module
    raise InvalidConfigError(
        f"import_stablehlo: takes text, bytes, a module or a path, got {type(module).__name__}"
    )


def _is_path(text: Any) -> bool:
    """Return whether a value is a path or a file name, not the text of a module, which contains braces."""
    if not isinstance(text, str):
        return isinstance(text, os.PathLike)
    if "\n" in text or "{" in text:
        return False
    return text.endswith((".mlir", ".mlirbc", ".jax")) or os.path.isfile(text)


def _decoded(data: bytes, trusted: bool, has_mlir: bool) -> str | bytes:
    """Convert the bytes of a module to text, or to bytecode if MLIR is not available.

    In a serialised `jax.export`, the bytecode follows four bytes with its length.
    """
    if data.startswith(mlir_bindings.MAGIC):
        return perform("text", data, trusted=trusted) if has_mlir else data
    offset = data.find(mlir_bindings.MAGIC, 4)
    if offset > 0:
        length = int.from_bytes(data[offset - 4 : offset], "little")
        if 0 < length <= len(data) - offset:
            return _decoded(data[offset : offset + length], trusted, has_mlir)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise mlir_bindings.MlirDiagnosticError(
            [(f"neither text nor bytecode: {error}", "bytes")]
        ) from None


def _entry(tree: ModuleTree, name: str) -> Function:
    """Return the function `name`, or the only function if `name` is "main", without tokens.

    Raises:
        InvalidConfigError: the module has no such function.
        UnsupportedError: the function has no body.
    """
    function = tree.functions.get(name)
    if function is None and len(tree.functions) == 1 and name == "main":
        (function,) = tree.functions.values()
    if function is not None:
        if not function.body.operations:
            raise UnsupportedError(f"@{function.name} is declared and has no body")
        return _without_tokens(function)
    names = ", ".join(f"@{function_name}" for function_name in tree.functions) or "none"
    raise InvalidConfigError(f"import_stablehlo: no function @{name}; the module has {names}")


def _without_tokens(function: Function) -> Function:
    """Return the function without tokens among its arguments and results.

    JAX adds tokens as arguments and results to order side effects. In the body, `stablehlo.create_token` replaces each
    token argument.
    """
    body = function.body
    tokens = [is_token(spec) for spec in body.types]
    if not any(tokens):
        return function
    values = [i for i, ordered in enumerate(tokens) if not ordered]
    created = [
        Operation("stablehlo.create_token", (), (body.arguments[i],), (body.types[i],), {}, (), "")
        for i, ordered in enumerate(tokens)
        if ordered
    ]
    last = body.operations[-1]
    results = [i for i, spec in enumerate(function.result_types) if not is_token(spec)]
    returned = replace(last, operands=tuple([last.operands[i] for i in results]))
    return Function(
        function.name,
        Block(
            tuple([body.arguments[i] for i in values]),
            tuple([body.types[i] for i in values]),
            [*created, *body.operations[:-1], returned],
        ),
        tuple([function.result_types[i] for i in results]),
        tuple([function.argument_names[i] for i in values]) if function.argument_names else (),
        tuple([function.result_names[i] for i in results]) if function.result_names else (),
    )


@dataclass(frozen=True)
class ExtentArgument:
    """An integer argument of the module whose elements become extents of the program.

    Attributes:
        spec: the type that the module declares, of rank 0 to 2.
        extents: for each element of the argument, the extent that it stands for: a number or a symbol.
    """

    spec: TensorSpec
    extents: tuple[Any, ...]


@dataclass(frozen=True)
class Reading:
    """Result of reading a function: the reader, and the function's arguments and results in the reader's graph.

    Attributes:
        reader: the reader, which contains the program's graph.
        arguments, outputs: numbers of values in the graph.
        takes_extents: whether an integer argument of the module is replaced by extents of the program.
    """

    reader: Reader
    arguments: list[int]
    outputs: list[int]
    takes_extents: bool = False

    @classmethod
    def of_block(
        cls, reader: Reader, block: Block, inputs: Sequence[TensorSpec | ExtentArgument]
    ) -> Reading:
        """Convert a block whose arguments have the types `inputs`."""
        arguments: list[int] = []
        values: list[int] = []
        for spec in inputs:
            if isinstance(spec, TensorSpec):
                values.append(reader.builder.input(spec))
                arguments.append(values[-1])
                continue
            arguments.append(reader.builder.input(extents_spec(spec.extents)))
            values.append(extents_value(reader, arguments[-1], spec.spec, spec.extents))
        for value, declared in zip(values, block.types, strict=True):
            reader.require_bounds(value, declared)
        takes_extents = any([isinstance(spec, ExtentArgument) for spec in inputs])
        return cls(reader, arguments, reader.block(block, values, {}), takes_extents)

    @classmethod
    def on_devices(
        cls,
        reader: Reader,
        entry: Function,
        inputs: Sequence[TensorSpec | ExtentArgument],
        devices: Devices,
    ) -> Reading:
        """Convert a function that several devices run; each value gets a leading axis with an element per device."""
        specs = [_static_type(entry, spec) for spec in inputs]
        arguments = [
            reader.builder.input(TensorSpec.of((devices.total, *spec.shape), spec.dtype))
            for spec in specs
        ]
        results = on_devices(
            reader, lambda values: reader.block(entry.body, values, {}), specs, arguments, devices
        )
        return cls(reader, arguments, results)


def _with_extents(
    read: Callable[[Sequence[TensorSpec | ExtentArgument]], Reading],
    inputs: Sequence[TensorSpec | ExtentArgument],
    entry: Function,
) -> Reading:
    """Read a function whose shapes may depend on integer arguments.

    If a shape operand depends on more than the shapes of arguments, the function is read again with all small integer
    arguments as extents. A third reading then keeps only the arguments that determine shapes as extents.
    """
    try:
        return read(inputs)
    except UndecidedExtentError:
        pairs = zip(inputs, _argument_names(entry), strict=True)
        candidates = [
            _as_extents(spec, name) if _may_be_extents(declared) else spec
            for (spec, name), declared in zip(pairs, entry.body.types, strict=True)
        ]
        if candidates == list(inputs):
            raise
    reading = read(candidates)
    needed = reading.reader.needed
    inputs = [
        candidate
        if isinstance(candidate, ExtentArgument)
        and not needed.isdisjoint([leaf for x in candidate.extents for leaf in _leaves(x)])
        else spec
        for candidate, spec in zip(candidates, inputs, strict=True)
    ]
    try:
        return reading if inputs == candidates else read(inputs)
    except UndecidedExtentError:
        return reading


def _leaves(extent: Any) -> set[Any]:
    return set() if isinstance(extent, int) else extent.leaves()


def _may_be_extents(spec: Type) -> bool:
    """Return whether an argument of this declared type may be read as extents: a small static tensor of integers."""
    if isinstance(spec, ForeignType):
        return False
    is_small = spec.rank <= 2 and spec.is_static and spec.size <= MOST_EXTENTS
    return is_small and spec.dtype.is_integer


def _as_extents(spec: TensorSpec | ExtentArgument, name: str) -> TensorSpec | ExtentArgument:
    """Read an integer argument of rank 0 to 2 as extents, with a symbol for each element, named after the argument."""
    if isinstance(spec, ExtentArgument):
        return spec
    word = _word(name)
    if not spec.rank:
        return ExtentArgument(spec, (SymDim(word),))
    return ExtentArgument(spec, tuple([SymDim(f"{word}_{n}") for n in range(spec.size)]))


def _argument_names(function: Function) -> tuple[str, ...]:
    names = function.argument_names if all(function.argument_names) else ()
    return names or tuple([f"x{i}" for i in range(len(function.body.types))])


def _input_types(
    function: Function, specs: Sequence[Any] | None
) -> list[TensorSpec | ExtentArgument]:
    """Return the types of the arguments, with dynamic extents replaced as the caller's `specs` say, or by symbols."""
    declared = [_static_type(function, spec) for spec in function.body.types]
    names = _argument_names(function)
    if specs is None:
        return [_named(spec, name) for spec, name in zip(declared, names, strict=True)]
    if len(specs) != len(declared):
        raise ArityError(
            f"import_stablehlo: @{function.name} takes {len(declared)} arguments, got {len(specs)} specs"
        )
    return [
        _caller_type(spec, said, name)
        for spec, said, name in zip(declared, specs, names, strict=True)
    ]


def _static_type(function: Function, spec: TensorSpec | ForeignType | ExtentArgument) -> TensorSpec:
    if isinstance(spec, TensorSpec):
        return spec
    what = f"an extent, {spec.extents}" if isinstance(spec, ExtentArgument) else f"type {spec}"
    raise UnsupportedError(f"@{function.name}: an argument of {what}")


def _named(spec: TensorSpec, name: str) -> TensorSpec:
    """Replace each dynamic extent of an argument's type by a symbol, named after the argument and the axis."""
    word = _word(name)
    return TensorSpec.of(
        tuple([
            extent if is_static(extent) else SymDim(f"{word}_{axis}")
            for axis, extent in enumerate(spec.shape)
        ]),
        spec.dtype,
    )  # fmt: skip


def _word(name: str) -> str:
    """Convert an argument's name to an identifier, which names a symbol."""
    word = re.sub(r"\W+", "_", name).strip("_")
    return word if word.isidentifier() else f"x{word}"


def _caller_type(declared: TensorSpec, said: Any, name: str) -> TensorSpec | ExtentArgument:
    """Check the caller's spec of an argument, and return the argument's type or its extents.

    Args:
        declared: the argument's type in the module.
        said: the caller's type, or a symbol or number as the value of a scalar integer argument.
        name: the argument's name.

    Raises:
        ShapeError, DTypeError: the caller's type contradicts the module's type.
    """
    extent: Any = said
    if isinstance(extent, str | int | SymDim) and declared.dtype.is_integer and not declared.rank:
        return ExtentArgument(declared, (SymDim(extent) if isinstance(extent, str) else extent,))
    spec = said if isinstance(said, TensorSpec) else TensorSpec(said.shape, said.dtype)
    if spec.dtype is not declared.dtype:
        raise DTypeError(f"import_stablehlo: {name} is {declared} in the module, got {spec}")
    fits = spec.rank == declared.rank and all(
        not is_static(wanted) or wanted == extent
        for extent, wanted in zip(spec.shape, declared.shape, strict=True)
    )
    if not fits or not spec.is_exact:
        raise ShapeError(f"import_stablehlo: {name} is {declared} in the module, got {spec}")
    return spec

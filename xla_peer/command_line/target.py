"""Targets of commands: `file.py:function`, an exported `.py` file, a `.tnf` file, an ONNX model, or an artifact."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import tenferro as tnf
from lowering import Partitioning, import_stablehlo
from lowering.large_files import contains
from lowering.to_numpy import READ_CONSTANTS
from tenferro.errors import InvalidConfigError, TenferroError
from tenferro.files import content_of
from tenferro.ops.source import Constant
from tenferro.program import GraphProgram
from tenferro.types import TensorSpec, unflatten
from xla_peer.artifact import Artifact
from xla_peer.command_line.inputs import UNPACKED, NamedInputs, filled, matched, read_inputs
from xla_peer.exporting import load
from xla_peer.manifest import ATTRIBUTE
from xla_peer.mesh import saved_partitioning
from xla_peer.onnx import import_onnx
from xla_peer.sampling import random_arrays
from xla_peer.storage import SUFFIXES, archived
from xla_peer.tracing import differentiable, traced

__all__ = ["Target", "find_target"]


@dataclass(frozen=True)
class Target:
    """The object that a command operates on: a function, a program or an artifact.

    Attributes:
        name: the target as written on the command line.
        names: names of the leaves of the arguments if their structure is known, else names of the parameters.
        types: the types of a function's arguments, if its file declares them.
        partitioning: the partition of the program over a mesh, if the file contains a partitioned artifact.
    """

    name: str
    names: tuple[str, ...]
    function: Callable[..., Any] | None = None
    program: GraphProgram | None = None
    artifact: Artifact | None = None
    types: tuple[Any, ...] | None = None
    partitioning: Partitioning | None = None

    def arguments(self, tokens: Sequence[str], seed: int, keep_types: bool = False) -> list[Any]:
        """Read arguments from a command line; without tokens, draw random arguments of the declared types.

        Args:
            tokens: the words of the command line.
            seed: the seed of random arguments.
            keep_types: return a type for a token that is a type, instead of a random array.

        Raises:
            ArityError, InvalidConfigError: the tokens do not match the target's inputs.
        """
        inputs = read_inputs(tokens, self.names)
        generator = np.random.default_rng(seed)
        if self.function is not None:
            if self.types is not None and not inputs:
                return [*self.types] if keep_types else filled(self.types, generator)
            values = matched(inputs, self.names, self.name)
            return values if keep_types else filled(values, generator)
        if keep_types and not inputs:
            return []
        leaves = self._leaves(inputs, generator)
        tree = self.program.in_tree if self.program is not None else self._manifest.in_tree
        return list(unflatten(tree, leaves)) if not keep_types else leaves

    def _leaves(self, inputs: NamedInputs, generator: np.random.Generator) -> list[Any]:
        if inputs:
            return filled(matched(inputs, self.names, self.name), generator)
        if self.program is not None:
            return random_arrays(self.program, generator)
        specs = [spec for _, spec in self._manifest.inputs]
        return filled(specs, generator)

    @property
    def _manifest(self) -> Any:
        assert self.artifact is not None
        return self.artifact.manifest

    def compiled(self, arguments: Sequence[Any]) -> GraphProgram:
        """Return the target as a program: compile a function for the given arguments, or import an artifact.

        Raises:
            Exception: see `xla_peer.tracing.traced` and `import_stablehlo`; exceptions of the function are kept.
        """
        if self.program is not None:
            return self.program
        if self.function is not None:
            return traced(self.function, *arguments)
        assert self.artifact is not None
        return self.artifact.program()

    def callable(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        """Return the target as a function that tenferro can trace on arguments with the types of `arguments`."""
        return self.function if self.function is not None else self.compiled(arguments)

    def differentiable(self, arguments: Sequence[Any]) -> Callable[..., Any]:
        """Return the target as a function that tenferro can differentiate at the arguments."""
        program = self.compiled(arguments)
        return program.run if self.function is None else differentiable(self.function, program)


def find_target(text: str) -> Target:
    """Find the target that a command line names.

    Raises:
        InvalidConfigError: the text is not a target, or the file lacks the function.
        FileNotFoundError: the file does not exist.
    """
    path, colon, name = text.rpartition(":")
    if colon and path.endswith(".py"):
        return _function(text, Path(path), name)
    is_named = text.endswith((".tnf", ".onnx", *SUFFIXES))
    if text.endswith(".py") and (header := _exported_header(text)) is not None:
        name, types, tree = header
        target = _function(f"{text}:{name}", Path(text), name, tree)
        return replace(target, name=text, types=types)
    if text.endswith(".py") or not (is_named or Path(text).is_file()):
        raise InvalidConfigError(
            f"{text!r} is not a target: expected file.py:function, a program in a .tnf file, an ONNX model, or "
            "StableHLO in a file, such as .mlir or .mlirbc"
        )
    if not Path(text).exists():
        raise FileNotFoundError(f"{text} does not exist")
    if text.endswith(".tnf"):
        program = tnf.load(text, limit=UNPACKED.get())
        partitioning = saved_partitioning(text)
        return Target(text, program.input_names, program=program, partitioning=partitioning)
    if text.endswith(".onnx"):
        program = import_onnx(text)
        return Target(text, program.input_names, program=program)
    if not contains(text, ATTRIBUTE.encode()):
        program = import_stablehlo(Path(text))  # no artifact of tenferro, but a module of the user
        return Target(text, program.input_names, program=program)
    artifact = load(text)
    names = tuple([name for name, _ in artifact.manifest.inputs])
    partitioning = artifact.manifest.partitioning
    return Target(text, names, artifact=artifact, partitioning=partitioning)


HEADER = re.compile(r"(\w+): \((.*)\) -> \(.*\)")
"""Pattern of the first docstring line of a file that `lowering.to_numpy` wrote.

The line contains the name of the function, and the names and types of its inputs and outputs.
"""
LEAF = re.compile(r"([A-Za-z_][^:]*): (\w+\[[^\]]*\])")
PLAIN = re.compile(r"[A-Za-z_]\w*(\['\w+'\]|\[\d+\])*")
"""Pattern of names of leaves, such as `p['w'][0]`.

If all names match, the trees of the arguments are rebuilt from the names. Otherwise the function has a parameter for
each leaf.
"""


def _exported_header(path: str) -> tuple[str, tuple[Any, ...], ast.Module] | None:
    """Return the function's name, the argument types and the syntax tree of a file that `lowering.to_numpy` wrote.

    The result is None for any other file. The file is not executed.
    """
    try:
        tree = ast.parse(content_of(path))
        text = ast.get_docstring(tree) or ""
    except (SyntaxError, ValueError):
        return None
    header = HEADER.match(text)
    if header is None or "it needs NumPy alone" not in text:
        return None
    leaves = LEAF.findall(header[2])
    if not all(PLAIN.fullmatch(leaf) for leaf, _ in leaves):
        return header[1], tuple([TensorSpec.parse(spec) for _, spec in leaves]), tree
    arguments: dict[str, Any] = {}
    for leaf, spec in leaves:
        *outer, last = re.findall(r"\w+", leaf)
        place: dict[str, Any] = arguments
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = TensorSpec.parse(spec)
    return header[1], tuple(map(_listed, arguments.values())), tree


def _listed(tree: Any) -> Any:
    """Return a tree of dicts in which each dict whose keys are all numbers is replaced by a list."""
    if not isinstance(tree, dict):
        return tree
    values = {key: _listed(value) for key, value in tree.items()}
    return list(values.values()) if all(map(str.isdigit, values)) else values


def _execute(tree: ast.Module, module: Any, path: Path) -> None:
    """Execute a file that `lowering.to_numpy` wrote.

    Its arrays are read directly into memory that constants can use, so that no copy of them is needed.
    """
    body: list[ast.stmt] = []
    for node in tree.body:
        text = ast.unparse(node)
        mapped = MAPPED.fullmatch(text)
        if text == ARCHIVED:
            file_path = path.with_suffix(".npz")
            with archived(file_path, UNPACKED.get(), str(file_path)) as file:
                module.CONSTANTS = {name: _copied_constants(file[name]) for name in file.names}
        elif mapped is not None:
            arrays = tnf.tree.load(path.with_name(ast.literal_eval(mapped[1])), nested=False)
            module.CONSTANTS = {name: _copied_constants(array) for name, array in arrays.items()}
        else:
            body.append(node)
    code = compile(ast.Module(body, tree.type_ignores), str(path), "exec")
    exec(code, vars(module))


ARCHIVED = ast.unparse(ast.parse(READ_CONSTANTS))
"""Statement of an exported NumPy file that reads the file's arrays from an archive, as `ast.unparse` writes it."""
MAPPED = re.compile(r"CONSTANTS = mapped_arrays\(Path\(__file__\)\.with_name\(('[^']*')\)\)")
"""Pattern of the statement of an exported NumPy file that maps the file's arrays, as `ast.unparse` writes it."""


def _copied_constants(array: Any) -> Any:
    """Return a copy of an array, in memory that a constant can adopt."""
    return Constant.adopting(np.asarray(array, order="C")).array


def _function(text: str, path: Path, name: str, tree: ast.Module | None = None) -> Target:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(
        0, str(path.resolve().parent)
    )  # because the file may import modules from its folder
    sys.modules[path.stem] = module
    try:
        if tree is None:
            spec.loader.exec_module(module)
        else:
            _execute(tree, module, path)
    except TenferroError:
        raise
    except Exception as error:
        raise InvalidConfigError(f"{path} fails: {type(error).__name__}: {error}") from error
    member = getattr(module, name, None)
    if isinstance(member, GraphProgram):
        return Target(text, member.input_names, program=member)
    if not callable(member):
        functions = [
            key
            for key, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", None) == module.__name__
        ]
        raise InvalidConfigError(
            f"{path} has no function {name!r}; it has {', '.join(functions) or 'none'}"
        )
    return Target(text, _parameters(member), function=member)


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's parameters that have no default value."""
    return tuple(
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    )

"""Parsers of StableHLO in pure Python, for text in MLIR's generic and pretty forms, and for bytecode.

The parsers return the same tree as `lowering.mlir_tree`, which uses MLIR's bindings. So modules can be read without
jaxlib.
"""

from collections.abc import Mapping

from lowering.large_files import MappedBytes
from lowering.module_tree import ModuleTree
from lowering.syntax.bytecode import bytecode_tree
from lowering.syntax.elements import with_elements
from lowering.syntax.text import text_tree
from lowering.syntax.verification import verify

__all__ = ["bytecode_tree", "read_module", "text_tree"]


def read_module(
    contents: str | bytes | MappedBytes, elements: Mapping[str, memoryview] | None = None
) -> ModuleTree:
    """Parse a module's text, bytecode or portable artifact, and return its tree.

    Args:
        elements: the elements of constants that the text omits, by name of the resource.

    Raises:
        MlirDiagnosticError: the contents are not a module; the error contains the line and column, or the offset.
        InvalidConfigError: brackets are nested more deeply than the parser allows.
        UnsupportedError: the tree cannot represent a part of the module, such as a region of several blocks.

    >>> tree = read_module("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    >>> tree.functions["main"].result_types
    (f32[3],)
    """
    tree = text_tree(contents) if isinstance(contents, str) else bytecode_tree(contents)
    return verify(with_elements(tree, elements or {}))

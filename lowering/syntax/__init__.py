"""Readers of StableHLO in Python alone: its text, generic and pretty, and its bytecode.

Each returns the same tree as `lowering.mlir_tree` does for MLIR's objects, so that modules can be read without
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
    """Read the tree of text, of bytecode or of a portable artifact.

    Args:
        elements: of the resources that the text lacks, by name.

    Raises:
        MlirDiagnosticError: no module, with line and column or with the offset.
        InvalidConfigError: nested deeper than a parser may follow.
        UnsupportedError: constructs that the tree cannot represent, such as regions of several blocks.

    >>> tree = read_module("func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    >>> tree.functions["main"].result_types
    (f32[3],)
    """
    tree = text_tree(contents) if isinstance(contents, str) else bytecode_tree(contents)
    return verify(with_elements(tree, elements or {}))

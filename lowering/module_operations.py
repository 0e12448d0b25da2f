"""MLIR's operations on a module as text or bytes, by name.

An operation's arguments are the module and plain data. Its result is text, bytes, a module tree or JSON data. So
`lowering.guarded` can run every operation in the user's process or in a worker process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lowering import mlir_bindings
from lowering.mlir_tree import module_tree
from lowering.tree_encoding import decoded_tree, encoded_tree

__all__ = ["OPERATIONS", "ModuleOperation"]


class ModuleOperation(NamedTuple):
    """A function `perform` of a module, with functions that encode its result as bytes and decode the bytes.

    Attributes:
        takes_text: whether `perform` accepts the module as text; otherwise it accepts bytes.
    """

    perform: Callable[..., Any]
    takes_text: bool
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def _description(text: str, attribute: str) -> tuple[str | None, str]:
    """Return a string attribute of the module, or None, and the type of the function `main`."""
    return mlir_bindings.string_attribute(text, attribute), mlir_bindings.main_type(text)


def _as_json(result: Any) -> bytes:
    return json.dumps(result).encode()


def _on_text(
    perform: Callable[..., Any],
    encode: Callable[[Any], bytes] = str.encode,
    decode: Callable[[bytes], Any] = bytes.decode,
) -> ModuleOperation:
    return ModuleOperation(perform, True, encode, decode)


OPERATIONS: Mapping[str, ModuleOperation] = {
    "text": ModuleOperation(mlir_bindings.text_of, False, str.encode, bytes.decode),
    "tree": _on_text(module_tree, encoded_tree, decoded_tree),
    "canonical": _on_text(mlir_bindings.canonical),
    "until": _on_text(mlir_bindings.until),
    "refined": _on_text(mlir_bindings.refined),
    "bytecode": _on_text(mlir_bindings.bytecode, bytes, bytes),
    "portable artifact": _on_text(mlir_bindings.portable_artifact, bytes, bytes),
    "description": _on_text(_description, _as_json, json.loads),
    "verification": _on_text(mlir_bindings.parse_and_verify, _as_json, json.loads),
    "compilation": _on_text(mlir_bindings.compile_for_trial, _as_json, json.loads),
}

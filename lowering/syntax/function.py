"""`function_of`, which converts the operation `func.func` to a `Function` of the module tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.mlir_bindings import MlirDiagnosticError
from lowering.module_tree import Block, Function, Operation
from lowering.syntax.attributes import FunctionType

__all__ = ["TERMINATORS", "function_of"]

_ARGUMENT_KEYS = ("jax.arg_info", "tenferro.name")
_RESULT_KEYS = ("jax.result_info", "tenferro.name")
TERMINATORS = frozenset({"func.return", "sdy.return", "stablehlo.return"})
"""Operations that end a block."""


def _given_names(attributes: Sequence[Any], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the name of each argument or result, read from its attributes, or "" if there is none.

    Args:
        attributes: a dictionary per argument or result.
        keys: the names of attributes that may contain the name.
    """
    return tuple([
        next((str(entry[name]) for name in keys if name in entry), "") for entry in attributes
    ])  # fmt: skip


def function_of(operation: Operation, value_types: Sequence[Any]) -> Function:
    """Convert an operation `func.func` to a function.

    Args:
        value_types: the type of each value, by number.

    Raises:
        MlirDiagnosticError: the function's type does not match its arguments and results.
    """
    attributes = operation.attributes
    kind, name = attributes.get("function_type"), attributes.get("sym_name")
    if not isinstance(kind, FunctionType) or not isinstance(name, str):
        raise _error("func.func requires attributes 'function_type' and 'sym_name'", operation)
    declared = Block(tuple(range(len(kind.inputs))), kind.inputs, [])
    body = operation.regions[0] if operation.regions else declared
    if body.types != kind.inputs:
        raise _error("the function's type differs from that of its arguments", operation)
    if operation.regions:
        last = body.operations[-1] if body.operations else None
        if last is None or last.name not in TERMINATORS:
            raise _error(f"@{name}: a function ends with a return", operation)
        given = tuple([value_types[number] for number in last.operands])
        if last.name == "func.return" and given != kind.results:
            raise _error(f"@{name}: returns other types than it declares", operation)
    arguments = attributes.get("arg_attrs", ({},) * len(kind.inputs))
    results = attributes.get("res_attrs", ({},) * len(kind.results))
    if len(arguments) != len(kind.inputs) or len(results) != len(kind.results):
        arguments, results = (
            arguments or ({},) * len(kind.inputs),
            results or ({},) * len(kind.results),
        )
    if any("." not in key for entry in (*arguments, *results) for key in entry):
        raise _error(f"@{name}: arguments and results have attributes of dialects alone", operation)
    return Function(
        name, body, kind.results, _given_names(arguments, _ARGUMENT_KEYS), _given_names(results, _RESULT_KEYS)
    )  # fmt: skip


def _error(message: str, operation: Operation) -> MlirDiagnosticError:
    return MlirDiagnosticError([(message, operation.location)])

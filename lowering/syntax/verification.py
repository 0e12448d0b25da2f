"""`verify`, which checks the operations of a module tree against their definitions, whichever parser built the tree.

Shapes and dtypes of results are checked later, by the readers of operations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lowering.bounds import with_bounds
from lowering.mlir_bindings import MlirDiagnosticError
from lowering.module_tree import ForeignType, ModuleTree, Operation, Type
from lowering.syntax.constraints import broken
from lowering.syntax.definitions import DEFINITIONS
from lowering.syntax.function import TERMINATORS
from tenferro.types import TensorSpec

__all__ = ["verify"]


def verify(tree: ModuleTree) -> ModuleTree:
    """Check that operations have the operands, results, regions and attributes of their definitions; return the tree.

    Nested modules are checked, too.

    Raises:
        MlirDiagnosticError: an operation is unknown or does not match its definition, or a called function is
            missing.
    """
    trees = [tree]
    for each in trees:
        _verify_module(each)
        trees += each.nested
    return tree


def _verify_module(tree: ModuleTree) -> None:
    for name in tree.attributes:
        if "." not in name and name != "sym_visibility":
            raise MlirDiagnosticError([(f"a module has no attribute '{name[:40]}'", "module")])
    for name, mesh in tree.meshes.items():
        if re.search(r"=\s*(?:0\b|-)", mesh):
            raise MlirDiagnosticError(
                [(f"an axis of sdy.mesh @{name} has no device: {mesh}", "module")]
            )
    checked = with_bounds(tree)
    for function in checked.functions.values():
        waiting = [(function.body, "func.func")]
        types: dict[int, Type] = {}
        while waiting:
            block, parent = waiting.pop()
            types.update(zip(block.arguments, block.types, strict=True))
            for operation in block.operations:
                _verify_operation(operation)
                if operation.name in TERMINATORS and operation is not block.operations[-1]:
                    raise _error(operation, "must be the last operation in its block")
                if operation.name == "func.return" and parent != "func.func":
                    raise _error(operation, "expects parent op 'func.func'")
                if operation.name == "func.call":
                    _verify_call(operation, checked, types)
                if operation.name == "stablehlo.composite":
                    _verify_composite(operation, checked, types)
                if operation.name == "stablehlo.custom_call":
                    _verify_custom_call(operation)
                if operation.name.startswith("sdy."):
                    _verify_meshes(operation, tree)
                if operation.regions:
                    _verify_regions(operation, types)
                wrong = broken(operation, types)
                if wrong is not None:
                    raise _error(operation, wrong)
                types.update(zip(operation.results, operation.types, strict=True))
                waiting += [(region, operation.name) for region in operation.regions]
            if parent.startswith("stablehlo.") and (
                not block.operations or block.operations[-1].name not in TERMINATORS
            ):
                raise MlirDiagnosticError([(f"a region of {parent} ends with a return", "module")])


def _verify_operation(operation: Operation) -> None:
    definition = DEFINITIONS.get(operation.name)
    if definition is None:
        raise _error(operation, "is unknown")
    for count, expected, words in (
        (len(operation.operands), definition.operands, "operands"),
        (len(operation.types), definition.results, "results"),
        (len(operation.regions), definition.regions, "regions"),
    ):
        if expected is not None and count != expected:
            raise _error(operation, f"requires {expected} {words}, got {count}")
    for name, is_required in definition.attributes:
        if is_required and name not in operation.attributes:
            raise _error(operation, f"requires attribute '{name}'")


def _verify_composite(operation: Operation, tree: ModuleTree, types: Mapping[int, Type]) -> None:
    """Raise an error unless the attribute `decomposition` names a function with the operation's types."""
    name = operation.attributes["decomposition"]
    function = tree.functions.get(name)
    if function is None:
        raise _error(operation, f"'{name}' does not reference a valid function")
    given = tuple([types[number] for number in operation.operands])
    if function.body.types != given or function.result_types != operation.types:
        raise _error(operation, f"'{name}' has other types than the operation")


def _verify_custom_call(operation: Operation) -> None:
    given = [name in operation.attributes for name in ("operand_layouts", "result_layouts")]
    if given[0] != given[1]:
        raise _error(operation, "has layouts for operands or results, but not for both")
    for name, count in (("operand_layouts", len(operation.operands)), ("result_layouts", None)):
        layouts = operation.attributes.get(name)
        if layouts is not None and count is not None and len(layouts) != count:
            raise _error(operation, f"has {len(layouts)} layouts for {count} operands")


def _verify_meshes(operation: Operation, tree: ModuleTree) -> None:
    """Raise an error if a sharding refers to a mesh that the module does not define."""
    shardings = [
        text
        for name, text in operation.attributes.items()
        if name.partition("_")[2] == "shardings" or name == "sharding"
    ]
    for quoted, plain in re.findall(r'<@(?:"([^"]*)"|([\w.$-]+))', " ".join(map(str, shardings))):
        if (quoted or plain) not in tree.meshes:
            raise _error(operation, f"unknown mesh: @{quoted or plain}")


def _verify_regions(operation: Operation, types: Mapping[int, Type]) -> None:
    """Raise an error if the number or types of a region's arguments do not match the operation's operands."""
    given = tuple([types[number] for number in operation.operands])
    short = operation.name.removeprefix("stablehlo.")
    expected: list[tuple[Type, ...]] = []
    if short == "while":
        expected = [given, given]
    elif short in ("if", "case"):
        expected = [()] * len(operation.regions)
    elif short == "sort":
        expected = [tuple([scalar for kind in given for scalar in (_scalar(kind),) * 2])]
    for block, kinds in zip(operation.regions, expected, strict=False):
        if block.types != kinds:
            raise _error(operation, "has a region whose arguments are of other types than it gives")
    counts = _ARGUMENTS.get(short)
    if counts is not None:
        for block in operation.regions:
            if len(block.types) != counts(len(given)) or not all(map(_is_scalar, block.types)):
                raise _error(operation, "has a region with the wrong number or rank of arguments")


_ARGUMENTS: Mapping[str, Callable[[int], int]] = {
    "all_reduce": lambda count: 2,
    "collective_reduce": lambda count: 2,
    "map": lambda count: count,
    "reduce": lambda count: count,
    "reduce_scatter": lambda count: 2,
    "reduce_window": lambda count: count,
    "scatter": lambda count: 2 * (count // 2),
    "select_and_scatter": lambda count: 2,
}
"""Functions from the number of an operation's operands to the number of arguments of its regions, by operation."""


_EXTENTS = re.compile(r"^tensor<(?:(?:\d+|\?)x)+")


def _scalar(kind: Type) -> Type:
    if isinstance(kind, TensorSpec):
        return TensorSpec.of((), kind.dtype)
    return ForeignType(_EXTENTS.sub("tensor<", kind.text))


def _is_scalar(kind: Type) -> bool:
    return not isinstance(kind, TensorSpec) or kind.rank == 0


def _verify_call(operation: Operation, tree: ModuleTree, types: Mapping[int, Type]) -> None:
    name = operation.attributes["callee"]
    function = tree.functions.get(name)
    if function is None:
        raise _error(operation, f"'{name}' does not reference a valid function")
    if len(operation.operands) != len(function.body.types):
        raise _error(operation, "incorrect number of operands for callee")
    if tuple([types[number] for number in operation.operands]) != function.body.types:
        raise _error(operation, "operand types differ from those of the callee")
    if operation.types != function.result_types:
        raise _error(operation, "result types differ from those of the callee")


def _error(operation: Operation, message: str) -> MlirDiagnosticError:
    return MlirDiagnosticError([(f"'{operation.name}' op {message}", operation.location)])

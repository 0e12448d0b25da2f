"""Expand: rewrite the extensions of a program as standard ops, for peers without runtimes for these extensions.

Law: the results of the program do not change. Extensions that `keep` accepts are not expanded.

Source: docs/specification/expansion.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tenferro.errors import ExtensionLoweringError, TenferroError, UnsupportedError
from tenferro.graph import Graph, GraphBuilder, SourceLine, Value
from tenferro.interruption import is_interruption
from tenferro.ops.control import ControlOp
from tenferro.ops.extension import Extension
from tenferro.program.rewrite import Producers, Values, emit_again

if TYPE_CHECKING:
    from tenferro.program.program import GraphProgram
    from tenferro.types import TensorSpec

__all__ = ["expand_extensions", "expansion_of"]


def expand_extensions(
    program: GraphProgram, keep: Callable[[Extension], bool] = lambda op: False
) -> GraphProgram:
    """Return the program in which the ops written by `lower_to_standard_ops` replace each extension.

    Raises:
        UnsupportedError: some extensions have no expansion. The message lists them all, with the lines of the user's
            code.
        ExtensionLoweringError: an expansion fails, or its outputs contradict the declared types.
    """
    from tenferro.program.subprogram import Subprogram  # because programs expand themselves

    missing: list[str] = []

    def expanded_in(program: GraphProgram) -> GraphProgram:
        may_change = any(isinstance(i.op, Extension | ControlOp) for i in program.instructions)
        return emit_again(program, rule) if may_change else program

    def rule(
        emitter: Producers, op: Any, inputs: Values, source: SourceLine | None
    ) -> Values | None:
        if isinstance(op, ControlOp):
            parts = [Subprogram.of_program(expanded_in(part.program)) for part in op.parts]
            return emitter.apply(op.with_parts(*parts), inputs, source)
        if type(op) is not Extension or keep(op):
            return None
        values = _expanded(emitter.graph, op, inputs, source)
        if values is None:
            missing.append(f"{op.family_id} at {source or 'an unknown line'}")
        return values

    expanded = expanded_in(program)
    if missing:
        raise UnsupportedError(
            "extension: no expansion into standard ops, and no lowering registered, for:\n  "
            + "\n  ".join(missing)
            + "\ngive lower_to_standard_ops, or lowering.register_extension_lowering; ops that "
            'only have effects, such as prints, are omitted by program.without_effects() and XlaExecutor(effects="drop")'
        )
    return expanded


def expansion_of(
    op: Extension, specs: Sequence[TensorSpec], keep: Callable[[Extension], bool]
) -> GraphProgram:
    """Return a program that consists of one extension op. The op is expanded unless `keep` accepts it.

    Raises:
        UnsupportedError, ExtensionLoweringError: `expand_extensions` raised this error.
    """
    from tenferro.program.program import GraphProgram  # because programs expand themselves

    graph = Graph()
    values = tuple(graph.add_input(spec) for spec in specs)
    return expand_extensions(GraphProgram.from_graph(graph, graph.add(op, values)), keep)


def _expanded(
    graph: Graph, op: Extension, inputs: tuple[int, ...], source: SourceLine | None
) -> tuple[int, ...] | None:
    if op.has_effects:
        return None  # because standard ops have no effects, no expansion is possible
    builder = GraphBuilder(graph)
    builder.source = source
    specs = [graph.types[value] for value in inputs]
    before = len(graph)
    dtypes, shapes = [spec.dtype for spec in specs], [spec.shape for spec in specs]
    location = str(source or "")
    try:
        result: Any = op.op.lower_to_standard_ops(builder, list(inputs), dtypes, shapes)
    except TenferroError as error:
        refusal = ExtensionLoweringError(f"extension: {op.family_id}: {error.text()}")
        raise refusal.at(error.source or location) from error
    except Exception as error:
        if is_interruption(error):
            raise
        raise ExtensionLoweringError(
            f"extension: {op.family_id}: lower_to_standard_ops failed: {type(error).__name__}: {error}"
        ).at(location) from error
    if result is None:
        return None
    outputs: tuple[Any, ...] = tuple(result) if isinstance(result, list | tuple) else (result,)
    outputs = tuple([
        value.handle if isinstance(value, Value) and value.emitter is builder else value
        for value in outputs
    ])  # fmt: skip
    for value in outputs:
        if type(value) is not int or not 0 <= value < len(graph.types):
            raise ExtensionLoweringError(
                f"extension: {op.family_id}: lower_to_standard_ops must give values of its builder, or its "
                f"inputs; got {value!r:.60}"
            ).at(location)
    declared = op.infer(*specs)
    types = tuple(graph.types[value] for value in outputs)
    if types != declared:
        raise ExtensionLoweringError(
            f"extension: {op.family_id}: lower_to_standard_ops gives "
            f"({', '.join(map(str, types))}), infer_output_meta declares "
            f"({', '.join(map(str, declared))})"
        ).at(location)
    for written in graph.instructions[before:]:
        if isinstance(written.op, Extension):
            raise ExtensionLoweringError(
                f"extension: {op.family_id}: lower_to_standard_ops wrote {written.op.family_id}, which "
                "is not a standard op"
            ).at(location)
    return outputs

"""Comparison of a module before and after passes of a compiler, and search for the first value that differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowering import import_stablehlo
from lowering.importing import NamedValue, import_values
from tenferro.errors import UnsupportedError
from tenferro.program import GraphProgram
from tenferro.types import flatten
from xla_peer.parity.check import check_parity
from xla_peer.parity.matching import first_difference
from xla_peer.parity.report import ParityReport

__all__ = ["TransformationReport", "check_transformation"]


@dataclass(frozen=True)
class TransformationReport:
    """Result of a comparison of a module before and after passes; `print(report)` shows the result.

    Attributes:
        parity: the comparison of the outputs; its path `native` is the module before the passes, and its path `module`
            is the module after the passes.
        before: the first value of the original module that the transformed module does not compute, although it
            computes the operands of this value. None if the outputs agree, or values have no names.
        after: the corresponding value of the transformed module; None if there is no such value.
    """

    parity: ParityReport
    before: NamedValue | None = None
    after: NamedValue | None = None

    @property
    def ok(self) -> bool:
        """Whether the outputs agree up to differences that rounding explains."""
        return self.parity.ok

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values."""
        return {
            "ok": self.ok,
            "before": _as_dict(self.before),
            "after": _as_dict(self.after),
            "parity": self.parity.to_dict(),
        }

    def __str__(self) -> str:
        return "\n".join([str(self.parity), *self.named()])

    def named(self) -> list[str]:
        """Return a line of text about each value that differs, with its name and its line in the module."""
        pairs = (("before", self.before), ("after", self.after))
        return [
            f"{side}: {value.name} at line {value.line}: {value.text:.160}"
            for side, value in pairs
            if value is not None
        ]


def check_transformation(
    before: Any,
    after: Any,
    inputs: Sequence[Any],
    *,
    ulps: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    executor: Any = None,
    isolated: bool | None = None,
    interpreter: bool | None = None,
) -> TransformationReport:
    """Compare a module before and after passes of a compiler, and name the first value that differs.

    Both modules run natively on the same inputs. The outputs are judged as by `check_parity(before, *inputs,
    against=after)`. If they differ, each value of one module is matched with an equal value of the other. The report
    names the first value without a match whose operands have matches, with its line.

    Args:
        before, after: StableHLO as text, bytes, a `StableHloModule` or a path, with arguments and results of the same
            types.
        inputs: the arguments of `main`, in order.
        ulps, rtol, atol, executor, isolated, interpreter: see `check_parity`.

    Raises:
        MlirDiagnosticError, UnsupportedError: a text is not a module, or has operations without a counterpart.
        ArityError, ShapeError, DTypeError: the inputs do not fit, or the modules have results of different types.

    >>> import numpy as np
    >>> text = '''
    ... func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
    ...   %0 = stablehlo.exponential %x : tensor<2xf64>
    ...   %y = stablehlo.OP %0 : tensor<2xf64>
    ...   return %y : tensor<2xf64>
    ... }'''
    >>> x = np.array([1.0, 2.0])
    >>> same, other = text.replace("OP", "negate"), text.replace("OP", "sine")
    >>> check_transformation(same, same, [x]).ok
    True
    >>> report = check_transformation(same, other, [x], interpreter=False)
    >>> report.before.name, report.before.line, report.after.name
    ('%y', 4, '%y')
    """
    program = import_stablehlo(before)
    parity = check_parity(
        program,
        *inputs,
        against=after,
        ulps=ulps,
        rtol=rtol,
        atol=atol,
        executor=executor,
        isolated=isolated,
        interpreter=interpreter,
    )
    if not any(output.outside for output in parity.outputs):
        return TransformationReport(parity)
    try:
        values = _first_values(before, after, program.check_leaves(list(inputs)), parity)
    except UnsupportedError:
        return TransformationReport(
            parity
        )  # to read the module needs StableHLO's passes, which change the names of values
    return TransformationReport(parity, *values)


def _first_values(
    before: Any, after: Any, leaves: Sequence[Any], parity: ParityReport
) -> tuple[NamedValue | None, NamedValue | None]:
    """Return the first value of the original module that differs, and its counterpart in the transformed module.

    A value without a name, or a missing counterpart, is None.
    """
    wrong = [number for number, output in enumerate(parity.outputs) if output.outside]
    one, other = _Named.of(before, leaves, wrong), _Named.of(after, leaves, wrong)
    if one is None or other is None:
        return None, None
    difference = first_difference(one.program, other.program, leaves, range(len(wrong)))
    if difference is None or difference.program is not one.program:
        return None, None  # the difference is inside a loop, where values have no names
    here = one.value_of(difference.instruction.outputs)
    there = difference.other_instruction
    return here, None if there is None else other.value_of(there.outputs)


@dataclass(frozen=True)
class _Named:
    """Program of a module that returns only some outputs of `main`, with the names of its values by slot."""

    program: GraphProgram
    names: dict[int, NamedValue]

    @classmethod
    def of(cls, module: Any, leaves: Sequence[Any], outputs: Sequence[int]) -> _Named | None:
        """Read a module, and keep the outputs with these indices; return None if such an output is an argument."""
        program, values = import_values(module)
        static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
        names: dict[int, NamedValue] = {}
        returned: dict[int, int] = {}
        for slot, value in zip(static.output_slots, values, strict=True):
            names.setdefault(slot, value)
            returned |= dict.fromkeys(value.outputs, slot)
        if any([number not in returned for number in outputs]):
            return None
        chosen = replace(
            static,
            output_slots=tuple([returned[number] for number in outputs]),
            output_names=tuple([f"y{number}" for number in outputs]),
            out_tree=flatten(tuple(outputs))[1],
        )
        return cls(chosen, names)

    def value_of(self, slots: Sequence[int]) -> NamedValue | None:
        """Return the first named value among the slots; None if no slot has a name."""
        return next((self.names[slot] for slot in slots if slot in self.names), None)


def _as_dict(value: NamedValue | None) -> dict[str, Any] | None:
    return None if value is None else {"name": value.name, "line": value.line, "text": value.text}

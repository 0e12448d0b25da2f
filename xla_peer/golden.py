"""`golden`: every value of a module by its name in the text, and the first one of a dump that is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np

from lowering.importing import NamedValue, import_values
from tenferro.errors import ArityError, DTypeError, InvalidConfigError, ShapeError
from tenferro.exec.interpreter import interpret
from tenferro.exec.runtime.numpy_state import numpy_state
from tenferro.exec.schedule import ExecInstruction, ExecProgram
from tenferro.files import replacing
from tenferro.program import GraphProgram, native_executor
from tenferro.types import DType, flatten
from xla_peer.parity.comparison import OutputParity, compare
from xla_peer.parity.divergence import prefix
from xla_peer.parity.paths import limits
from xla_peer.parity.precision import LowerPrecision, required_precision
from xla_peer.parity.turns import native_outputs
from xla_peer.storage import archived, restored, stored

__all__ = ["GoldenComparison", "compare_golden", "golden"]

LARGEST_DUMP = 1 << 36
"""Bytes that a dump may unpack to."""
LEAF = flatten(0)[1]
LINES = "lines.json"
"""Member of an archive with the line of each value."""


def golden(
    module: Any,
    inputs: Sequence[Any],
    path: str | os.PathLike[str] | None = None,
    *,
    only: Iterable[str] | None = None,
    until: str | None = None,
) -> dict[str, Any]:
    """Compute the native values of all operations of a module's `main`, by the names in its text.

    Regions and called functions give their results alone.

    Args:
        module: StableHLO as text, bytes, a `StableHloModule` or a path.
        inputs: the arguments of `main`, in order.
        path: an .npz file, to which each value is written once it is computed, and not kept; it is readable by
            `numpy.load`, and its member `lines.json` has the line of each value. An interruption leaves no file.
        only: names of the values that are wanted.
        until: the name of the last value that is computed.

    Returns:
        Values by name, in the order of the text; empty where they go to a file.

    Raises:
        InvalidConfigError: names that the module does not have; a path that does not end in .npz.
        MlirDiagnosticError, UnsupportedError: no module, or one whose values have no names.
        ArityError, ShapeError, DTypeError: inputs that do not fit.

    >>> text = \'\'\'
    ... func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
    ...   %0 = stablehlo.add %x, %x : tensor<2xf64>
    ...   %y = stablehlo.negate %0 : tensor<2xf64>
    ...   return %y : tensor<2xf64>
    ... }\'\'\'
    >>> golden(text, [np.array([1.0, 2.0])])
    {'%0': array([2., 4.]), '%y': array([-2., -4.])}
    """
    program, named = import_values(module)
    chosen = _chosen(named, only, until)
    leaves = _checked("golden", program, inputs)
    if path is None:
        values: dict[str, Any] = {}
        _run(program, leaves, chosen, values.__setitem__)
        return {value.name: values[value.name] for value in chosen.values() if value.name in values}
    if not str(path).endswith(".npz"):
        raise InvalidConfigError(f"golden: values go to an .npz file, got {path}")
    with replacing(path) as file:
        _write(file, program, leaves, chosen)
    return {}


def _write(
    file: BinaryIO,
    program: GraphProgram,
    leaves: Sequence[Any],
    chosen: Mapping[int, NamedValue],
) -> None:
    """Write an archive of the values, each when it is computed."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:

        def keep(name: str, value: Any) -> None:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, stored(np.asarray(value)), allow_pickle=False)

        _run(program, leaves, chosen, keep)
        lines = {value.name: [value.line, value.text] for value in chosen.values()}
        archive.writestr(LINES, json.dumps(lines))


class _Stop(BaseException):
    """The last value that is wanted has been computed, or cannot be kept."""


def _run(
    program: GraphProgram,
    leaves: Sequence[Any],
    chosen: Mapping[int, NamedValue],
    keep: Callable[[str, Any], Any],
) -> None:
    """Compute the chosen outputs op by op, and give each to `keep` by its name; none is kept here."""
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    last = replace(
        static, output_slots=static.output_slots[-1:], output_names=("last",), out_tree=LEAF
    )
    schedule = _freeing(replace(native_executor().binder, passes=(), plan=()).bind(last))
    known = {**schedule.constants, **dict(zip(static.input_slots, leaves, strict=True))}
    names: dict[int, list[str]] = {}
    for number, value in chosen.items():
        slot = static.output_slots[number]
        if slot in known:
            keep(value.name, known[slot])
        else:
            names.setdefault(slot, []).append(value.name)
    left = set(names)
    errors: list[Exception] = []

    def around(
        part: ExecProgram, step: ExecInstruction, arrays: Sequence[Any], call: Callable[..., Any]
    ) -> Sequence[Any]:
        results = list(call(arrays))
        if part is not schedule:
            return results  # because bodies number their values themselves
        try:
            for slot, y in zip(step.output_slots, results, strict=True):
                for name in names.get(slot, ()):
                    keep(name, np.asarray(y))
                left.discard(slot)
        except Exception as error:  # because it is no failure of the step
            errors.append(error)
        if errors or not left:
            raise _Stop
        return results

    if left:
        with numpy_state(), contextlib.suppress(_Stop):
            interpret(schedule, [np.asarray(leaf) for leaf in leaves], around)
    if errors:
        raise errors[0]


def _freeing(schedule: ExecProgram) -> ExecProgram:
    """Free each slot of the schedule after its last use, including outputs of the original program."""
    last_use: dict[int, int] = {}
    for number, step in enumerate(schedule.instructions):
        last_use |= dict.fromkeys((*step.output_slots, *step.input_slots), number)
    for slot in (*schedule.output_slots, *schedule.constants):
        last_use.pop(slot, None)
    frees: dict[int, list[int]] = {}
    for slot, number in last_use.items():
        frees.setdefault(number, []).append(slot)
    steps = [
        step.replaced(frees=tuple(frees.get(number, ())))
        for number, step in enumerate(schedule.instructions)
    ]
    return replace(schedule, instructions=tuple(steps))


def _checked(caller: str, program: GraphProgram, inputs: Sequence[Any]) -> list[Any]:
    """Convert the inputs to arrays.

    Raises:
        ArityError, ShapeError, DTypeError: they do not fit.
    """
    if len(inputs) != len(program.input_specs):
        raise ArityError(
            f"{caller}: main takes {len(program.input_specs)} arguments, got {len(inputs)}"
        )
    return program.check_leaves(list(inputs))


def _chosen(
    named: Sequence[NamedValue], only: Iterable[str] | None, until: str | None
) -> dict[int, NamedValue]:
    """Return the requested values, by their number."""
    known = {value.name: number for number, value in enumerate(named)}
    wanted = None if only is None else set(only)
    asked = [*sorted(wanted or ()), *([until] if until is not None else [])]
    missing = [name for name in asked if name not in known]
    if missing:
        raise InvalidConfigError(
            f"golden: no value {', '.join(missing)}; main has {', '.join(list(known)[:20])}"
            + (" .." if len(known) > 20 else "")
        )
    last = len(named) if until is None else known[until] + 1
    return {
        number: value
        for number, value in enumerate(named[:last])
        if wanted is None or value.name in wanted
    }


@dataclass(frozen=True)
class GoldenComparison:
    """A dump of a module's values against the native ones; `print(comparison)` shows the first that is wrong.

    Attributes:
        outputs: one comparison per value that both have, in the order of the text.
        values: the same values in the text, and their lines.
        missing: names of values that the dump does not have.
    """

    outputs: tuple[OutputParity, ...]
    values: tuple[NamedValue, ...] = field(repr=False)
    missing: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """No value is wrong, or undecided."""
        return all(output.ok for output in self.outputs)

    @property
    def first(self) -> tuple[NamedValue, OutputParity] | None:
        """The first wrong value; None if there is none."""
        pairs = zip(self.values, self.outputs, strict=True)
        return next((pair for pair in pairs if pair[1].outside), None)

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values."""
        first = self.first
        return {
            "ok": self.ok,
            "first": None if first is None else {"name": first[0].name, "line": first[0].line},
            "missing": list(self.missing),
            "outputs": [
                output.to_dict() | {"line": value.line}
                for value, output in zip(self.values, self.outputs, strict=True)
            ],
        }

    def __repr__(self) -> str:
        first = "" if self.first is None else f", the first that diverges is {self.first[0].name}"
        return f"<GoldenComparison of {len(self.outputs)} values{first}>"

    def __str__(self) -> str:
        compared = f"{len(self.outputs)} values compared"
        if self.missing:
            compared += f", {len(self.missing)} not in the dump"
        if self.first is None:
            word = "all agree" if self.ok else "some are not decidable here"
            return f"{compared}: {word}"
        value, output = self.first
        return (
            f"{compared}: the first that diverges is {value.name}, {output.verdict}\n"
            f"  line {value.line}: {value.text:.160}\n"
            f"  element {list(output.worst or ())}: native {output.native!s}, dump {output.xla!s}, "
            f"{output.ulps:.3g} ulps apart, {output.allowed:.3g} allowed"
        )


def compare_golden(
    module: Any,
    inputs: Sequence[Any],
    dump: Mapping[str, Any] | str | os.PathLike[str],
    *,
    precision: str | None = None,
) -> GoldenComparison:
    """Somebody's values of a module against the native ones: the first that rounding does not explain.

    Args:
        module, inputs: as of `golden`.
        dump: arrays by the names in the text, or an .npz file of them; values may be absent, other names not there.
        precision: see `xla_peer.judge`.

    Raises:
        InvalidConfigError: no value of the dump is one of the module's.
        DTypeError, ShapeError: a value of another type than the module's.
        Exception: the errors of `golden`.

    >>> text = '''
    ... func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
    ...   %0 = stablehlo.exponential %x : tensor<2xf64>
    ...   %y = stablehlo.negate %0 : tensor<2xf64>
    ...   return %y : tensor<2xf64>
    ... }'''
    >>> x = np.array([1.0, 2.0])
    >>> comparison = compare_golden(text, [x], {"%0": np.exp(x) + 1e-9, "%y": -np.exp(x)})
    >>> comparison.first[0].name, comparison.first[1].verdict
    ('%0', 'wrong: dump')
    """
    granted = "default" if required_precision("compare_golden", precision) is None else "highest"
    program, named = import_values(module)
    leaves = _checked("compare_golden", program, inputs)
    static = program.specialize(program.bind([leaf.shape for leaf in leaves]))
    theirs = _read(dump, static, named)
    numbers = [number for number, value in enumerate(named) if value.name in theirs]
    if not numbers:
        raise InvalidConfigError(
            f"compare_golden: none of the dump's names is a value of the module: {', '.join(list(theirs)[:10])}"
        )
    single = prefix(static, [static.output_slots[number] for number in numbers])
    native = native_outputs(single, leaves)
    allowed = limits(single, leaves, native)
    lower = LowerPrecision(single, leaves, granted)
    outputs: list[OutputParity] = []
    for position, number in enumerate(numbers):
        name, y, allowance = named[number].name, native[position], allowed[position]
        output = compare(name, y, theirs[name], *allowance)
        if output.outside:
            how = lower.explains(position, y, theirs[name], allowance)
            output = replace(output, outside=0, lower=how) if how else replace(output, alone="dump")
        outputs.append(output)
    return GoldenComparison(
        tuple(outputs),
        tuple([named[number] for number in numbers]),
        tuple([value.name for value in named if value.name not in theirs]),
    )


def _read(
    dump: Mapping[str, Any] | str | os.PathLike[str],
    program: GraphProgram,
    named: Sequence[NamedValue],
) -> dict[str, Any]:
    """Read the values of a dump that the module has too, in the module's types."""
    specs = {value.name: spec for value, spec in zip(named, program.output_specs, strict=True)}
    if isinstance(dump, Mapping):
        values = {name: np.asarray(value) for name, value in dump.items() if name in specs}
    else:
        with archived(dump, LARGEST_DUMP, "a dump") as arrays:
            names = [name for name in arrays.names if name in specs]
            values = {name: restored(arrays[name], specs[name].dtype) for name in names}
    for name, y in values.items():
        if DType.of(y.dtype) is not specs[name].dtype:
            raise DTypeError(f"compare_golden: {name} is {specs[name]}, got {y.dtype} in the dump")
        if y.shape != tuple(specs[name].shape):
            raise ShapeError(
                f"compare_golden: {name} is {specs[name]}, got shape {list(y.shape)} in the dump"
            )
    return values

"""`golden` computes every value of a module natively; `compare_golden` finds the first wrong value in a dump."""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
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
from tenferro.types import DType, TensorSpec, flatten
from xla_peer.golden_inside import Step, steps
from xla_peer.parity.comparison import OutputParity, compare
from xla_peer.parity.divergence import prefix
from xla_peer.parity.iterations import native_outputs
from xla_peer.parity.paths import limits
from xla_peer.parity.precision import LowerPrecision, required_precision
from xla_peer.storage import Arrays, archived, restored, stored

__all__ = ["GoldenComparison", "compare_golden", "golden"]

LARGEST_DUMP = 1 << 36
"""Maximum unpacked size of a dump, in bytes."""
LEAF = flatten(0)[1]
LINES = "lines.json"
"""Name of the archive member with a dictionary from each value's name to the number and text of its line."""


def golden(
    module: Any,
    inputs: Sequence[Any],
    path: str | os.PathLike[str] | None = None,
    *,
    only: Iterable[str] | None = None,
    until: str | None = None,
    inside: bool = False,
) -> dict[str, Any]:
    """Compute the native values of all operations of a module's `main`, by the names in its text.

    For regions and called functions, only results are returned unless `inside` is set.

    Args:
        module: StableHLO as text, bytes, a `StableHloModule` or a path.
        inputs: the arguments of `main`, in order.
        path: an .npz file to which each value is written as soon as it is computed, instead of keeping it in memory.
            `numpy.load` reads the file; its member `lines.json` has the line of each value. If the run is
            interrupted, no file is left.
        only: the names of the values to return; by default all.
        until: the name of the last value that is computed.
        inside: include the values inside of loops, branches and called functions, each with its path: `%4/2/%w` is
            `%w` in iteration 2 of the loop `%4`, `%4/2/cond/%t` a value of its condition. `%5/true/%a` is in a
            branch, `%1/@f/%0` in the function that `%1` calls. With `only`, the name of a loop selects all values in
            it.

    Returns:
        Values by name, in the order of the text; empty if they are written to a file.

    Raises:
        InvalidConfigError: the module has no value of a name, or the path does not end in .npz.
        MlirDiagnosticError, UnsupportedError: the text is not a module, or its values have no names.
        ArityError, ShapeError, DTypeError: the inputs do not match the parameters of `main`.

    >>> text = \'\'\'
    ... func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
    ...   %0 = stablehlo.add %x, %x : tensor<2xf64>
    ...   %y = stablehlo.negate %0 : tensor<2xf64>
    ...   return %y : tensor<2xf64>
    ... }\'\'\'
    >>> golden(text, [np.array([1.0, 2.0])])
    {'%0': array([2., 4.]), '%y': array([-2., -4.])}
    """
    if path is not None and not str(path).endswith(".npz"):
        raise InvalidConfigError(f"golden: the path of the values must end in .npz, got {path}")
    if inside:
        return _inside(module, inputs, path, only, until)
    program, named = import_values(module)
    chosen = _chosen(named, only, until)
    leaves = _checked("golden", program, inputs)
    if path is None:
        values: dict[str, Any] = {}
        _run(program, leaves, chosen, values.__setitem__)
        return {value.name: values[value.name] for value in chosen.values() if value.name in values}
    with replacing(path) as file, _archive(file) as (keep, lines):
        _run(program, leaves, chosen, keep)
        lines |= {value.name: [value.line, value.text] for value in chosen.values()}
    return {}


def _inside(
    module: Any,
    inputs: Sequence[Any],
    path: str | os.PathLike[str] | None,
    only: Iterable[str] | None,
    until: str | None,
) -> dict[str, Any]:
    """Compute the values of a run, including values inside of loops, branches and functions; return or write them.

    Raises:
        InvalidConfigError: no value of the run has one of the names.
    """
    wanted = None if only is None else set(only)
    left = {*(wanted or ()), *([until] if until is not None else [])}

    def run(keep: Callable[[str, Any], Any], lines: dict[str, Any]) -> None:
        def visit(step: Step) -> None:
            name = step.value.name
            ways = {name, *[name[: match.start()] for match in re.finditer("/", name)]}
            left.difference_update(ways)
            if wanted is None or wanted & ways:
                keep(name, step.array)
                lines[name] = [step.value.line, step.value.text]
            if name == until:
                raise _Stop

        with contextlib.suppress(_Stop):
            steps(module, inputs, visit)
        if left:
            raise InvalidConfigError(f"golden: no value {', '.join(sorted(left))} in this run")

    if path is None:
        values: dict[str, Any] = {}
        run(values.__setitem__, {})
        return values
    with replacing(path) as file, _archive(file) as (keep, lines):
        run(keep, lines)
    return {}


@contextlib.contextmanager
def _archive(file: BinaryIO) -> Generator[tuple[Callable[[str, Any], None], dict[str, Any]]]:
    """Yield a function that adds a value to an archive, and a dict of lines that is written to the archive at the end."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:

        def keep(name: str, value: Any) -> None:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, stored(np.asarray(value)), allow_pickle=False)

        lines: dict[str, Any] = {}
        yield keep, lines
        archive.writestr(LINES, json.dumps(lines))


class _Stop(BaseException):
    """Exception that ends a run, because the last requested value is computed, or a value cannot be written."""


def _run(
    program: GraphProgram,
    leaves: Sequence[Any],
    chosen: Mapping[int, NamedValue],
    keep: Callable[[str, Any], Any],
) -> None:
    """Compute the chosen outputs op by op, and pass each with its name to `keep`."""
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
            return results  # because slots of regions are numbered separately
        try:
            for slot, y in zip(step.output_slots, results, strict=True):
                for name in names.get(slot, ()):
                    keep(name, np.asarray(y))
                left.discard(slot)
        except (
            Exception
        ) as error:  # raised after the run, so that it is not reported as an error of the step
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
    """Return a schedule that frees each slot after its last use, even if the slot is an output of the program."""
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
        ArityError, ShapeError, DTypeError: the inputs do not match the parameters of the program.
    """
    if len(inputs) != len(program.input_specs):
        raise ArityError(
            f"{caller}: main takes {len(program.input_specs)} arguments, got {len(inputs)}"
        )
    return program.check_leaves(list(inputs))


def _chosen(
    named: Sequence[NamedValue], only: Iterable[str] | None, until: str | None
) -> dict[int, NamedValue]:
    """Return the requested values, by their position in `named`."""
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
    """Comparison of a dump of a module's values with the native values; printing it shows the first wrong value.

    Attributes:
        outputs: one comparison per common value, in the order of the text.
        values: the name and the line of each compared value.
        missing: names of values that the dump lacks.
    """

    outputs: tuple[OutputParity, ...]
    values: tuple[NamedValue, ...] = field(repr=False)
    missing: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no value is wrong or undecided."""
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
            f"{output.distance}"
        )


def compare_golden(
    module: Any,
    inputs: Sequence[Any],
    dump: Mapping[str, Any] | str | os.PathLike[str],
    *,
    precision: str | None = None,
    inside: bool = False,
) -> GoldenComparison:
    """Compare another executor's values of a module with native values, and return the first divergence.

    With `inside`, each operation in loops, branches and functions is judged by itself: the native result is computed
    from the operands in the dump, if the dump contains them. The first wrong value is then the result of a wrong
    operation.

    Args:
        module, inputs: see `golden`.
        dump: arrays by the names in the text, or an .npz file of them; it may lack values, and other names are
            ignored.
        precision: see `xla_peer.judge`.
        inside: also compare the values inside of loops, branches and called functions; see `golden`.

    Raises:
        InvalidConfigError: no name in the dump is a value of the module, or the file is not an archive.
        DTypeError, ShapeError: a value's type differs from the module's.
        Exception: see the errors of `golden`.

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
    if not numbers and not inside:
        raise InvalidConfigError(
            f"compare_golden: none of the dump's names is a value of the module: {', '.join(list(theirs)[:10])}"
        )
    if inside:
        pairs = _judged(static, leaves, named, theirs, granted)
        return _compared_inside(module, leaves, dump, granted, pairs)
    pairs = _judged(static, leaves, named, theirs, granted)
    return GoldenComparison(
        tuple([output for _, output in pairs.values()]),
        tuple([value for value, _ in pairs.values()]),
        tuple([value.name for value in named if value.name not in theirs]),
    )


def _judged(
    static: GraphProgram,
    leaves: Sequence[Any],
    named: Sequence[NamedValue],
    theirs: Mapping[str, Any],
    granted: str,
) -> dict[str, tuple[NamedValue, OutputParity]]:
    """Compare dumped values of `main` with native values; tolerances include rounding in all earlier operations."""
    numbers = [number for number, value in enumerate(named) if value.name in theirs]
    if not numbers:
        return {}
    single = prefix(static, [static.output_slots[number] for number in numbers])
    native = native_outputs(single, leaves)
    allowed = limits(single, leaves, native)
    lower = LowerPrecision(single, leaves, granted)
    pairs: dict[str, tuple[NamedValue, OutputParity]] = {}
    for position, number in enumerate(numbers):
        name, y, allowance = named[number].name, native[position], allowed[position]
        output = compare(name, y, theirs[name], *allowance)
        if output.outside:
            how = lower.explains(position, y, theirs[name], allowance)
            output = replace(output, outside=0, lower=how) if how else replace(output, alone="dump")
        pairs[name] = (named[number], output)
    return pairs


def _compared_inside(
    module: Any,
    leaves: Sequence[Any],
    dump: Mapping[str, Any] | str | os.PathLike[str],
    granted: str,
    outer: Mapping[str, tuple[NamedValue, OutputParity]],
) -> GoldenComparison:
    """Compare the values of `main` and of its regions and called functions, in the order of the run.

    Raises:
        InvalidConfigError: no name in the dump is a value of the run.
    """
    compared: list[tuple[NamedValue, OutputParity]] = []
    missing: list[str] = []
    with contextlib.ExitStack() as stack:
        if isinstance(dump, Mapping):
            names, read = frozenset(dump), dump.__getitem__
        else:
            arrays = stack.enter_context(_archived(dump))
            names, read = frozenset(arrays.names), arrays.__getitem__

        def value_of(name: str, like: Any) -> Any:
            if name not in names:
                return None
            value, dtype = read(name), DType.of(like.dtype)
            y = np.asarray(value) if isinstance(dump, Mapping) else restored(value, dtype)
            _require_type(name, y, dtype, like.shape)
            return y

        def visit(step: Step) -> None:
            name = step.value.name
            if name in outer:
                compared.append(outer[name])
                return
            y = value_of(name, step.array)
            if y is None:
                missing.append(name)
            elif step.program is not None:
                given = [(value_of(key, x) if key else None, x) for key, x in step.operands]
                operands = [x if own is None else own for own, x in given]
                compared.append((step.value, _locally(step, y, operands, granted)))

        steps(module, leaves, visit)
    if not compared:
        raise InvalidConfigError(
            f"compare_golden: none of the dump's names is a value of the run: {', '.join(sorted(names)[:10])}"
        )
    return GoldenComparison(
        tuple([output for _, output in compared]),
        tuple([value for value, _ in compared]),
        tuple(missing),
    )


def _locally(step: Step, y: Any, operands: Sequence[Any], granted: str) -> OutputParity:
    """Compare a dumped result with the native result of the same operation on the operands in the dump."""
    program, name = step.program, step.value.name
    assert program is not None
    native = native_outputs(program, operands)
    if native[step.place].tobytes() == y.tobytes():
        return compare(name, y, y, np.zeros(y.shape))
    allowance = limits(program, operands, native)[step.place]
    output = compare(name, native[step.place], y, *allowance)
    if output.outside:
        lower = LowerPrecision(program, operands, granted)
        how = lower.explains(step.place, native[step.place], y, allowance)
        output = replace(output, outside=0, lower=how) if how else replace(output, alone="dump")
    return output


def _read(
    dump: Mapping[str, Any] | str | os.PathLike[str],
    program: GraphProgram,
    named: Sequence[NamedValue],
) -> dict[str, Any]:
    """Read the dumped values that the module also has, and check that their types equal the module's."""
    specs = {value.name: spec for value, spec in zip(named, program.output_specs, strict=True)}
    if isinstance(dump, Mapping):
        values = {name: np.asarray(value) for name, value in dump.items() if name in specs}
    else:
        with _archived(dump) as arrays:
            names = [name for name in arrays.names if name in specs]
            values = {name: restored(arrays[name], specs[name].dtype) for name in names}
    for name, y in values.items():
        _require_type(name, y, specs[name].dtype, tuple(specs[name].shape))
    return values


@contextlib.contextmanager
def _archived(path: str | os.PathLike[str]) -> Generator[Arrays]:
    """Open the arrays of a dump.

    Raises:
        InvalidConfigError: the file is not an archive of arrays, or would unpack to more than `LARGEST_DUMP`.
    """
    try:
        with archived(path, LARGEST_DUMP, "a dump") as arrays:
            yield arrays
    except zipfile.BadZipFile as error:
        raise InvalidConfigError(
            f"compare_golden: {os.fspath(path)} is not an .npz file of a dump: {error}"
        ) from error


def _require_type(name: str, y: Any, dtype: DType, shape: tuple[Any, ...]) -> None:
    """Raise DTypeError or ShapeError if the type of a dumped value differs from the module's."""
    spec = TensorSpec.of(shape, dtype)
    if DType.of(y.dtype) is not dtype:
        raise DTypeError(f"compare_golden: {name} is {spec}, got {y.dtype} in the dump")
    if y.shape != shape:
        raise ShapeError(f"compare_golden: {name} is {spec}, got shape {list(y.shape)} in the dump")

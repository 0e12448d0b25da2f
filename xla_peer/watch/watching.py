"""Execution of test cases with several compilers, and judgement of the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tenferro.errors import BackendFailureError, PeerEndedError, TenferroError
from xla_peer.notices import silenced
from xla_peer.opinions import AdapterExecutor
from xla_peer.parity import check_parity
from xla_peer.parity.iterations import native_outputs
from xla_peer.parity.paths import compared, limits
from xla_peer.watch.cases import Case
from xla_peer.watch.passes import fault_of
from xla_peer.watch.table import Entry, Row, Table

__all__ = ["judged", "watch"]

LONGEST_WORDS = 60
"""Maximum number of characters of a compiler's error message in a table."""


def watch(
    cases: Sequence[Case],
    executors: Sequence[AdapterExecutor],
    *,
    names_passes: bool = True,
    progress: Callable[[str], Any] | None = None,
) -> Table:
    """Run each case with each compiler, and return the table of outcomes.

    Args:
        cases: see `hall_cases`, `ordinary_cases` and `Case`.
        executors: executors of the compilers; the caller closes them.
        names_passes: whether to search for the pass at fault, for adapters with `has_passes`.
        progress: a function that is called before each run, with the names of the case and of the compiler.

    Raises:
        PlatformUnavailableError: a compiler cannot be imported.
    """
    columns = {_column(executor): executor for executor in executors}
    rows: list[Row] = []
    for case in cases:
        entries: dict[str, Entry] = {}
        similar: dict[bytes, Entry] = {}
        likely: list[str] = []
        for column, executor in columns.items():
            if progress is not None:
                progress(f"{case.name} by {column}")
            entries[column] = judged(
                case, executor, names_passes=names_passes, similar=similar, likely=likely
            )
            likely += [entries[column].fault] * bool(entries[column].fault)
        rows.append(Row(case.name, case.words, case.link, case.compiler, entries))
    return Table(tuple(columns), tuple(rows))


def _column(executor: AdapterExecutor) -> str:
    """Return the name of a compiler with its version."""
    name, version = executor.adapter.name, executor.version
    return name if not version or name.endswith(f" {version}") else f"{name} {version}"


def judged(
    case: Case,
    executor: AdapterExecutor,
    *,
    names_passes: bool = True,
    similar: dict[bytes, Entry] | None = None,
    likely: Sequence[str] = (),
) -> Entry:
    """Run a case with one compiler, and return the outcome.

    Args:
        case: the module, its arguments and its right results.
        executor: executor of the compiler.
        names_passes: whether to search for the pass at fault.
        similar: entries for wrong results of this case, by the bytes of the results. If another compiler computed the
            same results, its entry is returned. Otherwise the new entry is added.
        likely: names of passes that are probably at fault; see `fault_of`.
    """
    try:
        outputs = executor.outputs(case.text, case.arrays)
    except PeerEndedError as error:
        is_named = names_passes and error.ending != "timeout"
        fault = _fault(case, executor, likely) if is_named else ""
        return Entry("ended", error.ending, fault=fault)
    except BackendFailureError as error:
        return Entry("refused", _shortened(str(error)))
    if len(outputs) == len(case.program.output_specs) and case.is_right(outputs):
        return Entry("right")
    if case.is_rounding:
        return Entry("undecided")
    if case.expected is None and _is_rounding(case, outputs):
        return Entry("right")
    key = b"".join([y.tobytes() for y in outputs])
    known = {} if similar is None else similar
    if key not in known:
        known[key] = _located(case, executor)
    entry = known[key]
    fault = _fault(case, executor, likely) if names_passes else ""
    return Entry(entry.state, entry.words, entry.op, fault)


def _is_rounding(case: Case, outputs: Sequence[Any]) -> bool:
    """Return whether the results agree with the native results up to rounding."""
    native = native_outputs(case.program, case.arrays)
    if [(y.dtype, y.shape) for y in outputs] != [(y.dtype, y.shape) for y in native]:
        return False
    allowed = limits(case.program, case.arrays, native)
    return not any([y.outside for y in compared(case.program, native, outputs, allowed)])


def _located(case: Case, executor: AdapterExecutor) -> Entry:
    """Create the entry for wrong results, with the verdict and the op of the parity check."""
    try:
        with silenced(True):
            report = check_parity(
                case.program, *case.program_arguments, executor=executor, interpreter=False
            )
    except TenferroError as error:
        return Entry("wrong", _shortened(f"the search fails: {error}"))
    verdicts = ", ".join(sorted({output.verdict for output in report.outputs}))
    parted = report.first_divergence
    return Entry("wrong", verdicts, "" if parted is None else parted.op)


def _fault(case: Case, executor: AdapterExecutor, likely: Sequence[str]) -> str:
    """Name the pass at fault; empty if the adapter cannot disable passes, or no single pass is at fault."""
    if not executor.adapter.has_passes:
        return ""
    fault = fault_of(case, executor, likely)
    return "" if fault is None else fault.name


def _shortened(words: str) -> str:
    """Return the first nonempty line of a message, shortened to `LONGEST_WORDS` characters."""
    line = next((x.strip() for x in words.splitlines() if x.strip()), "")
    return line if len(line) <= LONGEST_WORDS else line[: LONGEST_WORDS - 3] + "..."

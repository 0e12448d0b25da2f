"""`fuzz`, which runs random programs natively and through XLA for some minutes, and reports differences."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenferro.errors import (
    ADRuleUnsupportedError,
    InvalidConfigError,
    TenferroError,
    UnsupportedError,
)
from xla_peer.fuzz.failures import saved_failure, smallest_failure
from xla_peer.fuzz.forms import form_of, formed
from xla_peer.fuzz.program import random_case
from xla_peer.isolated import IsolatedExecutor
from xla_peer.parity.check import check_parity
from xla_peer.parity.divergence import Divergence
from xla_peer.parity.explanations import explain
from xla_peer.parity.report import ParityReport
from xla_peer.parity.shrinking import Case, shrunk

__all__ = ["FuzzReport", "Group", "fuzz"]

GRADIENT_EVERY = 3
INTERPRETER_EVERY = 20
"""Default n for which StableHLO's reference interpreter also runs every n-th program.

By default, every `GRADIENT_EVERY`-th program is differentiated.
"""


@dataclass
class Group:
    """A group of programs that diverge on the same op and dtype for the same reason.

    Attributes:
        op, dtype: the op and dtype that differ, or the class of the error.
        reason: the name of the explanation; "" if no explanation is known.
        numbers: the numbers of the programs in the stream.
        told: a description of the first case, after its reduction.
        folder: the path of the folder that reproduces the first case.
    """

    op: str
    dtype: str
    reason: str
    numbers: list[int] = field(default_factory=list)
    told: str = ""
    folder: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values."""
        return {
            "op": self.op,
            "dtype": self.dtype,
            "reason": self.reason,
            "cases": len(self.numbers),
            "numbers": self.numbers,
            "told": self.told,
            "folder": self.folder,
        }


@dataclass
class FuzzReport:
    """Result of a campaign; `print(report)` shows it.

    Attributes:
        seed: the seed of the stream of cases.
        programs: the number of programs that ran.
        gradients: the number of programs that were differentiated.
        interpreted: the number of programs that the reference interpreter also ran.
        undecided: the number of programs with an output that the drawn arrays cannot decide.
        refused: the number of programs with an op that the platform lacks (never on the CPU).
        ops, dtypes: the number of occurrences of each op and of each dtype.
        forms: the number of programs that ran in each form: unchanged, as the body of a loop, with a symbolic extent,
            or as imported text.
        groups: the differences between native and XLA results, and failures, grouped by op, dtype and reason.
    """

    seed: int
    seconds: float = 0.0
    programs: int = 0
    gradients: int = 0
    interpreted: int = 0
    undecided: int = 0
    refused: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    forms: Counter[str] = field(default_factory=Counter)
    groups: list[Group] = field(default_factory=list)

    @property
    def unexplained(self) -> list[Group]:
        """The groups of divergences without a known explanation."""
        return [group for group in self.groups if not group.reason]

    @property
    def ok(self) -> bool:
        """Whether every divergence is explained."""
        return not self.unexplained

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON-compatible values."""
        return {
            "ok": self.ok,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "programs": self.programs,
            "gradients": self.gradients,
            "interpreted": self.interpreted,
            "undecided": self.undecided,
            "refused": self.refused,
            "forms": dict(self.forms),
            "ops": dict(self.ops),
            "dtypes": dict(self.dtypes),
            "groups": [group.to_dict() for group in self.groups],
        }

    def __repr__(self) -> str:
        return (
            f"<FuzzReport from seed {self.seed}: {self.programs} programs, "
            f"{len(self.unexplained)} unexplained of {len(self.groups)} groups>"
        )

    def __str__(self) -> str:
        lines = [
            f"{self.programs} programs in {self.seconds:.0f} s from seed {self.seed}: {self.ops.total()} "
            f"ops of {len(self.ops)} kinds in {len(self.dtypes)} dtypes; {self.gradients} with gradients, "
            f"{self.interpreted} through the reference interpreter too",
            "forms: " + ", ".join([f"{count} {form}" for form, count in self.forms.most_common()]),
        ]
        lines += [f"not decidable on their arrays: {self.undecided}"] * bool(self.undecided)
        lines += [f"refused by the platform: {self.refused}"] * bool(self.refused)
        reasons = Counter[str]()
        for group in self.groups:
            if group.reason:
                reasons[group.reason] += len(group.numbers)
        lines += [f"explained, {count}: {reason}" for reason, count in reasons.most_common()]
        for group in self.unexplained:
            lines.append(
                f"UNEXPLAINED, {len(group.numbers)}: {group.op} {group.dtype}, first in case "
                f"{group.numbers[0]}"
            )
            lines += [f"  {line}" for line in group.told.splitlines()]
            lines += [f"  reproduction: {group.folder}"] * bool(group.folder)
        if self.ok:
            lines.append("no unexplained divergence")
        return "\n".join(lines)


def fuzz(
    minutes: float | None = None,
    *,
    programs: int | None = None,
    seed: int = 0,
    start: int = 0,
    platform: str = "cpu",
    executor: Any = None,
    folder: Any = None,
    progress: Callable[[float, str], None] = lambda done, note: None,
) -> FuzzReport:
    """Run random programs natively and through PJRT, every third with gradients, until results differ.

    Args:
        minutes: the duration of the campaign; required unless `programs` is given.
        programs: the maximum number of programs.
        seed: the seed of the stream of programs, which is the same on every machine with the same NumPy.
        start: the number of the first program in the stream.
        platform: the platform on which XLA runs the programs, in a child process, so that a crash of XLA's compiler
            is reported like a divergence.
        executor: the executor that runs the programs instead of XLA on `platform`.
        folder: the folder for reproductions of unexplained divergences.
        progress: a function that is called with the completed fraction and a note.

    An interruption, such as Ctrl-C, ends the campaign early; the report then has the findings until that moment.

    Raises:
        InvalidConfigError: neither minutes nor programs is set, or a number is negative.
        PlatformUnavailableError: the platform is not available.

    >>> report = fuzz(programs=2, seed=1)
    >>> report.programs
    2
    """
    if (minutes is None and programs is None) or (minutes or 0) < 0 or (programs or 0) < 0:
        raise InvalidConfigError("fuzz: give minutes or programs, at least 0")
    peer = IsolatedExecutor(platform, notices=False) if executor is None else executor
    report, groups = FuzzReport(seed), dict[tuple[str, str, str], Group]()
    began, number = time.perf_counter(), start
    while True:
        report.seconds = time.perf_counter() - began
        done = _share(report, minutes, programs)
        if done >= 1:
            break
        progress(done, f"{report.programs} programs, {len(groups)} groups")
        try:
            case = _case(seed, number, report)
            outcome = _examined(case, number, peer, report)
            if outcome is not None:
                _note(outcome, case, number, peer, groups, folder)
        except KeyboardInterrupt:
            break  # because earlier findings are reported nevertheless
        number += 1
    report.groups = sorted(groups.values(), key=lambda group: (group.reason, -len(group.numbers)))
    return report


def _share(report: FuzzReport, minutes: float | None, programs: int | None) -> float:
    by_time = 0.0 if minutes is None else report.seconds / max(60 * minutes, 1e-9)
    by_count = 0.0 if programs is None else report.programs / max(programs, 1)
    return max(by_time, by_count, 1.0 if programs == 0 else 0.0)


def _case(seed: int, number: int, report: FuzzReport) -> Case:
    """Return case number `number` of the stream, rewritten in the form that the number selects, or unchanged."""
    case, form = random_case(seed, number), form_of(number)
    rewritten = formed(case, form)
    report.forms["plain" if rewritten is None else form] += 1
    return case if rewritten is None else rewritten


def _examined(
    case: Case, number: int, peer: Any, report: FuzzReport
) -> ParityReport | Exception | None:
    """Run a case natively and through the peer; return the report of a difference, an error, or None if they agree."""
    report.programs += 1
    for step in case.program.instructions:
        report.ops[step.op.name] += 1
        for slot in (*step.inputs, *step.outputs):
            report.dtypes[case.program.types[slot].dtype.value] += 1
    wants_gradient = number % GRADIENT_EVERY == 0
    interpreter = number % INTERPRETER_EVERY == 0
    report.interpreted += interpreter
    try:
        try:
            report.gradients += wants_gradient
            report_of_case = _checked(case, peer, wants_gradient, interpreter)
        except ADRuleUnsupportedError:  # an op of the program has no derivative
            report.gradients -= 1
            report_of_case = _checked(case, peer, False, interpreter)
    except UnsupportedError as error:
        if getattr(peer, "platform", "cpu") == "cpu":
            return error
        report.refused += 1  # the platform does not support an op of the program
        return None
    except Exception as error:  # because every exception must be reported
        return error
    if report_of_case.ended is not None:
        return report_of_case.ended.error
    if any(output.outside for output in report_of_case.outputs):
        return report_of_case
    report.undecided += not report_of_case.ok
    return None


def _checked(case: Case, peer: Any, grad: bool, interpreter: bool) -> ParityReport:
    return check_parity(
        case.program, *case.leaves, executor=peer, grad=grad, interpreter=interpreter
    )


def _note(
    outcome: ParityReport | Exception,
    case: Case,
    number: int,
    peer: Any,
    groups: dict[tuple[str, str, str], Group],
    folder: Any,
) -> None:
    """Add a difference or error to its group; reduce and describe the first one of a group without a known reason."""
    divergence = None if isinstance(outcome, Exception) else outcome.first_divergence
    if isinstance(outcome, Exception):
        key = (type(outcome).__name__, str(outcome).partition("\n")[0][:80], "")
    elif divergence is None:
        key = ("no single op", "", "")
    else:
        explanation = explain(divergence)
        dtype = divergence.output.spec.dtype
        key = (
            divergence.op.partition("(")[0].strip(),
            dtype.value,
            explanation.name if explanation else "",
        )
    group = groups.setdefault(key, Group(*key))
    group.numbers.append(number)
    if group.reason or len(group.numbers) > 1:
        return
    group.told = str(outcome)
    if isinstance(outcome, Exception):
        case = smallest_failure(case, outcome, peer)
        group.told += f"\nof {case.program}"
        if folder is not None:
            group.folder = saved_failure(case, Path(folder) / f"{key[0]}-{number}")
    if divergence is not None:
        divergence = _smallest(divergence, peer)
        group.told = str(divergence)
        if folder is not None:
            directory = Path(folder) / f"{key[0]}-{key[1]}-{number}"
            group.folder = str(divergence.save(directory))


def _smallest(divergence: Divergence, peer: Any) -> Divergence:
    """Reduce the case of a divergence to a smaller program and simpler arrays; return the divergence of the result."""

    def parting(case: Case) -> Divergence | None:
        report = check_parity(case.program, *case.leaves, executor=peer, interpreter=False)
        return report.first_divergence

    def parts(case: Case) -> bool:
        first = parting(case)
        return first is not None and explain(first) is None

    try:
        case = shrunk(Case(divergence.program, divergence.leaves), parts)
        return parting(case) or divergence
    except TenferroError:
        return divergence

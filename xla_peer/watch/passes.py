"""Search for the XLA pass that causes a wrong result, a crash or a hang.

There are two methods. The first method imports the modules that XLA dumps between its passes, and runs them natively.
The pass at fault is the one that wrote the first module with a wrong result. The second method disables passes one at
a time: without the pass at fault, the result is right. If neither method finds a pass, options of code generation are
changed, one at a time.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lowering import import_stablehlo
from tenferro.errors import BackendFailureError, PeerEndedError, TenferroError
from xla_peer.opinions.executor import AdapterExecutor, Options
from xla_peer.parity.iterations import native_outputs
from xla_peer.watch.cases import Case

__all__ = ["PassFault", "fault_of"]

DUMPED = re.compile(
    r"\.(?P<number>\d{4})\.(?P<pipeline>[^.]+)\.after_(?P<name>[^.]+)(\.before_(?P<next>[^.]+))?\.txt$"
)
"""Pattern of the file name of a dumped module: number, pipeline, the pass before the dump, and the pass after it."""
MARKS = ("pipeline-start", "pipeline-end")
OPTIONS: tuple[tuple[str, bool | int | str], ...] = (
    ("xla_cpu_use_fusion_emitters", False),
    ("xla_cpu_experimental_ynn_fusion_type", ""),
    ("xla_cpu_experimental_onednn_fusion_type", ""),
    ("xla_cpu_use_onednn", False),
    ("xla_llvm_disable_expensive_passes", True),
    ("xla_backend_optimization_level", 0),
    ("xla_cpu_max_isa", "AVX"),
    ("xla_allow_excess_precision", False),
    ("xla_cpu_parallel_codegen_split_count", 1),
)
"""Options of code generation that are tried if no pass is at fault."""


@dataclass(frozen=True)
class PassFault:
    """Pass or option of XLA that causes a wrong result, a crash or a hang.

    Attributes:
        name: name of the pass, or of the option of code generation.
        by_meaning: whether the native results of the module after the pass differ from those before the pass.
        by_disabling: whether the result is right without the pass.
    """

    name: str
    by_meaning: bool = False
    by_disabling: bool = False

    def __str__(self) -> str:
        ways = ["its module has another meaning"] * self.by_meaning
        ways += ["the result is right without it"] * self.by_disabling
        return f"{self.name}: {', and '.join(ways)}"


@dataclass(frozen=True)
class _Dump:
    """Module that XLA dumped between two passes, with the names of the pass before and of the pass after it."""

    written_by: str
    read_by: str
    text: str


def fault_of(case: Case, executor: AdapterExecutor, likely: Sequence[str] = ()) -> PassFault | None:
    """Find the pass at fault for a case on which XLA computes a wrong result, crashes or hangs.

    Args:
        case: the module, its arguments and its right results.
        executor: executor of an adapter with `has_passes`; each compilation is a separate process.
        likely: names of passes that are disabled first, such as the passes at fault in other releases.

    Returns:
        None if the result is right, or if neither a pass nor an option corrects it.
    """
    guess = _first_alone(case, executor, likely)
    if guess:
        return PassFault(guess, by_disabling=True)
    dumps = _dumps(case, executor)
    by_meaning = _by_meaning(case, executor, dumps)
    if by_meaning and _is_right_with(case, executor, {"xla_disable_hlo_passes": by_meaning}):
        return PassFault(by_meaning, by_meaning=True, by_disabling=True)
    if by_meaning:
        return PassFault(by_meaning, by_meaning=True)
    candidates = _candidates(dumps)
    alone = _first_alone(case, executor, candidates)
    if alone:
        return PassFault(alone, by_disabling=True)
    together = _smallest(case, executor, candidates)
    if together:
        return PassFault(" with ".join(together), by_disabling=True)
    for name, value in OPTIONS:
        if _is_right_with(case, executor, {name: value}):
            return PassFault(f"code generation, right with {name}={value}", by_disabling=True)
    return None


def _dumps(case: Case, executor: AdapterExecutor) -> list[_Dump]:
    """Return the modules that XLA dumps between its passes, in order, even if XLA ends the process."""
    with tempfile.TemporaryDirectory(prefix="tenferro-dump-") as folder:
        options: Options = {
            "xla_dump_to": folder,
            "xla_dump_hlo_as_text": True,
            "xla_dump_hlo_pass_re": ".*",
        }
        # Ignore an error, because the dumps that XLA wrote before the error are still useful.
        with contextlib.suppress(PeerEndedError, BackendFailureError):
            executor.outputs(case.text, case.arrays, options)
        numbered: list[tuple[int, _Dump]] = []
        for path in Path(folder).iterdir():
            match = DUMPED.search(path.name)
            if match is not None:
                names = match["name"], match["next"] or ""
                numbered.append((int(match["number"]), _Dump(*names, path.read_text())))
    return [dump for _, dump in sorted(numbered, key=lambda pair: pair[0])]


def _by_meaning(case: Case, executor: AdapterExecutor, dumps: Sequence[_Dump]) -> str:
    """Find the first pass after which the native results of the module are wrong; empty if there is none.

    Bisection finds the pass, because all modules before it have right results.
    """
    if not dumps:
        return ""
    known: dict[int, bool | None] = {}

    def is_right(number: int) -> bool | None:
        if number not in known:
            known[number] = _means_right(case, executor, dumps[number].text)
        return known[number]

    numbers = range(len(dumps))
    low = next((n for n in numbers if is_right(n) is not None), None)
    high = next((n for n in reversed(numbers) if is_right(n) is not None), None)
    if low is None or high is None or not is_right(low) or is_right(high):
        return ""
    while high - low > 1:
        middle = (low + high) // 2
        readable = next((n for n in range(middle, high) if is_right(n) is not None), None)
        if readable is None:
            readable = next((n for n in range(middle, low, -1) if is_right(n) is not None), None)
        if readable is None:
            break
        low, high = (readable, high) if is_right(readable) else (low, readable)
    between = [dump.written_by for dump in dumps[low + 1 : high + 1]]
    named = [name for name in between if name not in MARKS]
    return named[-1] if named else dumps[low].read_by


def _means_right(case: Case, executor: AdapterExecutor, text: str) -> bool | None:
    """Return whether a dumped module has the right results natively; None if it cannot be read or run."""
    try:
        module = executor.text("stablehlo_of", text)
        program = import_stablehlo(module)
        with np.errstate(all="ignore"):
            outputs: list[Any] = native_outputs(program, list(case.arrays))
    except (TenferroError, ImportError):
        return None  # because fusions, custom calls and layouts cannot be converted to StableHLO
    return len(outputs) == len(case.program.output_specs) and case.is_right(outputs)


def _candidates(dumps: Sequence[_Dump]) -> list[str]:
    """Return the names of the passes before and after each dump; XLA dumps a module after each pass that changed it."""
    names = [dump.written_by for dump in dumps if dump.written_by not in MARKS]
    names += [dump.read_by for dump in dumps if dump.read_by and dump.read_by not in MARKS]
    return list(dict.fromkeys(names))


def _first_alone(case: Case, executor: AdapterExecutor, candidates: Sequence[str]) -> str:
    """Return the first candidate such that the result is right if only this pass is disabled; "" if there is none."""
    return next(
        (
            name
            for name in candidates
            if _is_right_with(case, executor, {"xla_disable_hlo_passes": name})
        ),
        "",
    )


def _smallest(case: Case, executor: AdapterExecutor, candidates: Sequence[str]) -> list[str]:
    """Find a minimal set of passes such that the result is right if they are disabled; empty if there is none."""

    def is_right(names: Sequence[str]) -> bool:
        return _is_right_with(case, executor, {"xla_disable_hlo_passes": ",".join(names)})

    if not candidates or not is_right(candidates):
        return []
    kept = list(candidates)
    for name in candidates:
        fewer = [other for other in kept if other != name]
        if fewer and is_right(fewer):
            kept = fewer
    return kept


def _is_right_with(case: Case, executor: AdapterExecutor, options: Options) -> bool:
    """Return whether the result is right with these debug options of XLA; False if XLA fails with them."""
    try:
        outputs = executor.outputs(case.text, case.arrays, options)
    except (PeerEndedError, BackendFailureError):
        return False
    return len(outputs) == len(case.program.output_specs) and case.is_right(outputs)

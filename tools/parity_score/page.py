"""The page `docs/verdicts.md`: tables that count faults and rewrites by outcome, summed over all parts of the score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tools.parity_score.rewrites import FLAGS

__all__ = ["summary", "write_page"]

Records = Sequence[dict[str, Any]]
Part = dict[str, Any]
"""Counts of the trials of one seed. `docs/verdicts.json` stores one such dictionary for each part."""
HEAD = """# Verdicts

This page is for readers who rely on the [parity check](parity.md).
Afterwards you can say how many faults it catches and names, and how many harmless rewrites it accuses.

`make parity-score` makes two kinds of changes to lowered modules of loops, gradients, networks and random programs.
Faults change the meaning of a module, and the check must report them; rewrites keep the meaning, and the check must accept them.
The command works in parts with seeds of their own, and also writes this page.
The numbers below are from {parts} parts with {libraries}.

"""
WATCH = "\n[The watch](watch.md) runs public reports of miscompilations on releases of compilers.\n"
SHOWN = 20
"""Maximum number of trials that the page lists individually for each outcome."""


def share(count: int, of: int) -> str:
    """Format a count as `count of total (percentage)`."""
    return f"{count} of {of} ({count / of:.2%})" if of else "none"


def summary(seed: int, jaxlib: str, faults: Records, rewrites: Records) -> Part:
    """Count the outcomes of one part: the trials with one seed."""
    return {
        "seed": seed,
        "jaxlib": jaxlib,
        "faults": _counts(faults, ("caught", "escaped", "ended", "failed"), "caught"),
        "rewrites": _counts(rewrites, ("accepted", "accused"), "accepted"),
    }


def _counts(records: Records, judged: Sequence[str], right: str) -> dict[str, Any]:
    kinds: dict[str, list[int]] = {}
    wrong: list[str] = []
    for record in records:
        if record["outcome"] not in judged:
            continue
        is_right = record["outcome"] == right
        row = kinds.setdefault(record.get("kind", "?"), [0, 0, 0])
        for column, counts in enumerate((True, is_right, is_right and record.get("named"))):
            row[column] += bool(counts)
        if not is_right:
            options = f", {record['options']}" if record.get("options") else ""
            words = ", ".join(record.get("verdicts", [])) or record.get("words", record["outcome"])
            wrong.append(
                f"{record.get('program', '?')}, line {record.get('line', '?')}, "
                f"{record.get('kind', '?')}{options}: {words}"
            )
    return {
        "outcomes": dict(sorted(Counter(record["outcome"] for record in records).items())),
        "blamed": sum(bool(record.get("blamed")) for record in records),
        "options": sorted({record.get("options", "") for record in records} - {""}),
        "kinds": dict(sorted(kinds.items())),
        "wrong": wrong,
    }


def write_page(parts: Sequence[Part]) -> str:
    """Return the text of docs/verdicts.md."""
    libraries = " and ".join(f"jaxlib {v}" for v in sorted({part["jaxlib"] for part in parts}))
    head = HEAD.format(parts=len(parts), libraries=libraries)
    tables = (_faults(_sum(parts, "faults")), _rewrites(_sum(parts, "rewrites")))
    return head + "\n".join(tables) + WATCH


def _sum(parts: Sequence[Part], name: str) -> dict[str, Any]:
    outcomes, kinds = Counter[str](), dict[str, list[int]]()
    for part in parts:
        outcomes.update(part[name]["outcomes"])
        for kind, row in part[name]["kinds"].items():
            kinds[kind] = [x + y for x, y in zip(kinds.get(kind, [0, 0, 0]), row, strict=True)]
    return {
        "outcomes": outcomes,
        "kinds": sorted(kinds.items()),
        "totals": [sum(row[column] for row in kinds.values()) for column in range(3)],
        "blamed": sum(part[name]["blamed"] for part in parts),
        "options": {option for part in parts for option in part[name]["options"]},
        "wrong": [f"seed {part['seed']}: {text}" for part in parts for text in part[name]["wrong"]],
    }


def _faults(counts: dict[str, Any]) -> str:
    outcomes, (judged, caught, named) = counts["outcomes"], counts["totals"]
    trials = outcomes.total()
    lines = [
        "## Faults\n",
        "Each fault changes one line of a module. "
        "A fault is judged only if it can be distinguished from the original on the given arguments. "
        "Runs in float64, and runs on arguments that differ in their last places, decide this.\n",
        "| | count |",
        "| --- | --- |",
        f"| faults | {trials} |",
        f"| without a valid module | {outcomes['invalid']} |",
        f"| with an endless loop | {outcomes['endless']} |",
        f"| indistinguishable from the original | {share(outcomes['equal'], trials)} |",
        f"| judged faults that were caught | {share(caught, judged)} |",
        f"| caught faults with the right line | {share(named, caught)} |",
        f"| caught faults with the right side blamed | {share(counts['blamed'], caught)} |",
        "\n| fault | judged | caught | line named |",
        "| --- | --- | --- | --- |",
        *(f"| {kind} | {a} | {b} | {c} |" for kind, (a, b, c) in counts["kinds"]),
    ]
    return "\n".join(lines + _listed("Not caught", counts["wrong"])) + "\n"


def _rewrites(counts: dict[str, Any]) -> str:
    outcomes, (judged, accepted, _) = counts["outcomes"], counts["totals"]
    flags = ", ".join(f"`{flag}`" for name, flag in FLAGS.items() if name in counts["options"])
    compiled = f" Some are compiled with other options of XLA: {flags}." if flags else ""
    lines = [
        "## Rewrites\n",
        "Each rewrite changes one line of a module without changing its meaning." + compiled,
        "The result through PJRT is judged against the native result of the original.\n",
        "| | count |",
        "| --- | --- |",
        f"| rewrites | {outcomes.total()} |",
        f"| without a valid module | {outcomes['invalid']} |",
        f"| that ended the process of XLA | {outcomes['ended']} |",
        f"| judged rewrites that were accused | {share(judged - accepted, judged)} |",
        "\n| rewrite | judged | accused |",
        "| --- | --- | --- |",
        *(f"| {kind} | {a} | {a - b} |" for kind, (a, b, _) in counts["kinds"]),
    ]
    return "\n".join(lines + _listed("Accused", counts["wrong"])) + "\n"


def _listed(title: str, trials: Sequence[str]) -> list[str]:
    if not trials:
        return []
    more = [f"- and {len(trials) - SHOWN} more"] if len(trials) > SHOWN else []
    return [f"\n{title}:\n", *(f"- {text}" for text in trials[:SHOWN]), *more]

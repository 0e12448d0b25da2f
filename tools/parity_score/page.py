"""`docs/verdicts.md`: the score in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from tools.parity_score.rewrites import FLAGS

__all__ = ["write_page"]

Records = Sequence[dict[str, Any]]
HEAD = """# Verdicts

For readers who rely on the [parity check](parity.md).
Afterwards you can say how many faults it catches and names, and how many harmless rewrites it accuses.

`make parity-score` seeds faults into lowered modules of loops, gradients, networks and random programs, and rewrites such modules without changing their meaning.
This page is written by it, from seed {seed} with jaxlib {jaxlib}.

"""


def share(count: int, of: int) -> str:
    """Return a count, and its share in percent."""
    return f"{count} of {of} ({count / of:.2%})" if of else "none"


def write_page(faults: Records, rewrites: Records, seed: int) -> str:
    """Return the text of the page."""
    return (
        HEAD.format(seed=seed, jaxlib=version("jaxlib"))
        + _faults(faults)
        + "\n"
        + _rewrites(rewrites)
    )


def _faults(records: Records) -> str:
    counts = Counter(record["outcome"] for record in records)
    judged = [
        record
        for record in records
        if record["outcome"] in ("caught", "escaped", "ended", "failed")
    ]
    caught = [record for record in judged if record["outcome"] == "caught"]
    seconds = sorted(record["seconds"] for record in caught)
    lines = [
        "## Faults\n",
        f"{len(records)} faults of meaning, one line of a module each. "
        f"{counts['invalid']} gave no valid module, and {counts['endless']} a loop without an end. "
        f"{share(counts['equal'], len(records))} could not be told from the original on the arguments at hand, and were removed before judging. Runs in float64, and on arguments that differ in their last places, decided that.",
        f"Of the others {share(len(caught), len(judged))} were caught, and of these "
        f"{share(sum(record['named'] for record in caught), len(caught))} with the very line that was changed; "
        f"{sum(record['blamed'] for record in caught)} times the module was said to be the wrong side.",
    ]
    if seconds:
        lines.append(
            f"A verdict with the search took {seconds[len(seconds) // 2]:.2f} s in the median, {seconds[-1]:.1f} s at most."
        )
    lines += ["\n| fault | judged | caught | line named |", "| --- | --- | --- | --- |"]
    for kind in sorted({record["kind"] for record in judged if "kind" in record}):
        of = [record for record in judged if record.get("kind") == kind]
        hits = [record for record in of if record["outcome"] == "caught"]
        lines.append(
            f"| {kind} | {len(of)} | {len(hits)} | {sum(record['named'] for record in hits)} |"
        )
    escaped = [record for record in judged if record["outcome"] != "caught"]
    if escaped:
        lines.append("\nNot caught:\n")
        lines += [
            f"- {record.get('program', '?')}, line {record.get('line', '?')}, {record.get('kind', '?')}: "
            f"{', '.join(record.get('verdicts', [])) or record.get('words', record['outcome'])}"
            for record in escaped[:20]
        ]
    return "\n".join(lines) + "\n"


def _rewrites(records: Records) -> str:
    judged = [record for record in records if record["outcome"] in ("accepted", "accused")]
    accused = [record for record in judged if record["outcome"] == "accused"]
    rest = Counter(record["outcome"] for record in records)
    options = {record["options"] for record in records} - {""}
    flags = ", ".join(f"`{flag}`" for name, flag in FLAGS.items() if name in options)
    of_xla = f", or other options of XLA ({flags})" if flags else ""
    lines = [
        "## Rewrites\n",
        f"{len(records)} modules with the same meaning: a line rewritten{of_xla}, each run through PJRT against the native run of the original.",
        f"{share(len(accused), len(judged))} were accused. {rest['invalid']} gave no valid module, {rest['ended']} ended the process of XLA.",
        "\n| rewrite | judged | accused |",
        "| --- | --- | --- |",
    ]
    for kind in sorted({record["kind"] for record in judged}):
        of = [record for record in judged if record["kind"] == kind]
        wrong = sum(record["outcome"] == "accused" for record in of)
        lines.append(f"| {kind} | {len(of)} | {wrong} |")
    if accused:
        lines.append("\nAccused:\n")
        lines += [
            f"- {record['program']}, line {record['line']}, {record['kind']}{', ' + record['options'] if record['options'] else ''}: {', '.join(record['verdicts'])}"
            for record in accused[:20]
        ]
    return "\n".join(lines) + "\n"

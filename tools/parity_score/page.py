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

`make parity-score` makes two kinds of changes to lowered modules of loops, gradients, networks and random programs.
Faults change the meaning of a module, and the check must report them; rewrites keep the meaning, and the check must accept them.
The command also writes this page; the numbers below are from seed {seed} with jaxlib {jaxlib}.

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
    named = sum(record["named"] for record in caught)
    blamed = sum(record["blamed"] for record in caught)
    lines = [
        "## Faults\n",
        "Each fault changes one line of a module. "
        "A fault is judged only if it can be distinguished from the original on the given arguments. "
        "Runs in float64, and runs on arguments that differ in their last places, decide this.\n",
        "| | count |",
        "| --- | --- |",
        f"| faults | {len(records)} |",
        f"| without a valid module | {counts['invalid']} |",
        f"| with an endless loop | {counts['endless']} |",
        f"| indistinguishable from the original | {share(counts['equal'], len(records))} |",
        f"| judged faults that were caught | {share(len(caught), len(judged))} |",
        f"| caught faults with the right line | {share(named, len(caught))} |",
        f"| caught faults with the right side blamed | {share(blamed, len(caught))} |",
    ]
    if seconds:
        lines += [
            f"| median time of a verdict with the search | {seconds[len(seconds) // 2]:.2f} s |",
            f"| maximum time | {seconds[-1]:.1f} s |",
        ]
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
    compiled = f" Some are compiled with other options of XLA: {flags}." if flags else ""
    lines = [
        "## Rewrites\n",
        "Each rewrite changes one line of a module without changing its meaning." + compiled,
        "The result through PJRT is judged against the native result of the original.\n",
        "| | count |",
        "| --- | --- |",
        f"| rewrites | {len(records)} |",
        f"| without a valid module | {rest['invalid']} |",
        f"| that ended the process of XLA | {rest['ended']} |",
        f"| judged rewrites that were accused | {share(len(accused), len(judged))} |",
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

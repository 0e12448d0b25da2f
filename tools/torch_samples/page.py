"""Write docs/torch_samples.md from the records of a campaign."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tools.torch_samples.absent import ABSENT
from tools.torch_samples.differences import DIFFERENCES

__all__ = ["PAGE", "text_of", "write_page"]

PAGE = Path(__file__).parents[2] / "docs" / "torch_samples.md"
HEADER = """# Samples of PyTorch

This page is for readers who port code from PyTorch.
Afterwards you can look up which functions agree with PyTorch, and which differ on purpose.

PyTorch ships sample inputs for each of its operators, on which its own tests run.
Each tenferro function with a counterpart is run on them in float32, float64, complex64 and complex128. Its value, JVP, VJP and both second-order derivatives are compared with PyTorch's in double precision.
`make torch-samples` runs the samples and writes this page. At most {count} evenly spaced samples of an operator are run per dtype.

{summary}

An output y agrees with PyTorch's result r if |y - r| is at most 64 eps max |r| + 16 d + 16 c eps / eps_single.
Here d is the change of PyTorch's result if inputs change by 4 eps, which measures conditioning, and c is the error of PyTorch in single precision, which measures cancellation.
A comparison is undecided if its bound exceeds a hundredth of the size of the result.
`tools/torch_samples/table.py` maps operators to functions and arguments; a sample with an option that has no counterpart is not mapped.

Measured with torch {version}.

## Functions

| function | operators | samples | agree | undecided | differ on purpose | not mapped |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

## Differences on purpose

| functions | checks | why |
| --- | --- | --- |
{differences}

## Options without a counterpart

| functions | option | samples |
| --- | --- | --- |
{unmapped}

## Functions without a counterpart

{absent}
"""


def listed(names: Any) -> str:
    return ", ".join([f"`{name}`" for name in names])


def rows_of(records: list[dict[str, Any]]) -> str:
    lines = []
    for function in dict.fromkeys([record["function"] for record in records]):
        own = [record for record in records if record["function"] == function]
        operators = dict.fromkeys([record["torch"] for record in own])
        figures = [
            sum(r.get(key, 0) for r in own) for key in ("samples", "agree", "undecided", "differ")
        ]
        figures.append(sum(sum(r["unmapped"].values()) for r in own))
        lines.append(f"| `{function}` | {listed(operators)} | {' | '.join(map(str, figures))} |")
    return "\n".join(lines)


def differences_of(records: list[dict[str, Any]]) -> str:
    """Return the table of intended differences, with the reason, the functions and the count of each.

    Raises:
        ValueError: an entry explains no outcome, or names a function without such an outcome.
    """
    counts: Counter[str] = Counter()
    functions: dict[str, dict[str, None]] = {name: {} for name in DIFFERENCES}
    for record in records:
        counts.update(record["explained"])
        for name in record["explained"]:
            functions[name][record["function"]] = None
    unused = [name for name in DIFFERENCES if not counts[name]]
    for name, difference in DIFFERENCES.items():
        unused += [f"{name} of {f}" for f in difference.functions if f not in functions[name]]
    if unused:
        raise ValueError(f"no sample needs these differences: {', '.join(unused)}")
    return "\n".join(
        f"| {listed(functions[name])} | {counts[name]} | {difference.words} |"
        for name, difference in DIFFERENCES.items()
    )


def unmapped_of(records: list[dict[str, Any]]) -> str:
    counts: Counter[str] = Counter()
    functions: dict[str, dict[str, None]] = {}
    for record in records:
        for option, count in record["unmapped"].items():
            counts[option] += count
            functions.setdefault(option, {})[record["function"]] = None
    return "\n".join(f"| {listed(functions[o])} | {o} | {n} |" for o, n in counts.items())


def text_of(records: list[dict[str, Any]]) -> str:
    """Return the text of the page.

    Raises:
        ValueError: an outcome is unexplained, or an explanation is unused.
    """
    import torch

    failures = [failure for record in records for failure in record["failures"]]
    if failures:
        raise ValueError(f"{len(failures)} outcomes are not explained, such as {failures[0]}")
    summary = []
    for executor in dict.fromkeys([record["executor"] for record in records]):
        own = [record for record in records if record["executor"] == executor]
        total = lambda key, own=own: sum(record.get(key, 0) for record in own)
        checks = total("agree") + total("undecided") + total("differ")
        summary.append(
            f"- {executor}: {total('samples')} samples for {len({r['function'] for r in own})} functions, "
            f"{checks} checks: {total('agree')} agree, "
            f"{total('differ')} differ on purpose, {total('undecided')} are undecided."
        )
    reasons = dict.fromkeys(ABSENT.values())
    absent = [
        f"- {listed([n for n, r in ABSENT.items() if r == reason])}: {reason}."
        for reason in reasons
    ]
    return HEADER.format(
        count=max(record["count"] for record in records),
        summary="\n".join(summary),
        version=torch.__version__,
        rows=rows_of([record for record in records if record["executor"] == "native"]),
        differences=differences_of(records),
        unmapped=unmapped_of(records),
        absent="\n".join(absent),
    )


def write_page(records: list[dict[str, Any]]) -> None:
    PAGE.write_text(text_of(records))

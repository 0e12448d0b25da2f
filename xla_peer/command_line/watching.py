"""Functions of the command `tenferro watch`: the choice of compilers and test cases, and the output of tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tenferro.errors import InvalidConfigError
from tenferro.files import replacing
from xla_peer.command_line.inputs import matched, read_inputs
from xla_peer.hall import ELSEWHERE, REPORTS, SEARCHES
from xla_peer.opinions import (
    Adapter,
    AdapterExecutor,
    Environments,
    iree_adapter,
    jaxlib_adapter,
    registered,
)
from xla_peer.watch import Bisection, Case, Table, bisect, hall_cases, ordinary_cases, watch
from xla_peer.watch.bisection import releases_between
from xla_peer.watch.cases import module_case

__all__ = ["bisected", "chosen_adapters", "chosen_cases", "page", "watched", "written"]

IREE = ("iree-base-compiler", "iree-base-runtime")
HERE = "here"
"""Word that selects the installed jaxlib in place of a release number."""


def chosen_adapters(
    jaxlibs: str, iree: str, opinions: Sequence[str], environments: Environments
) -> list[Adapter]:
    """Return the adapters that the options name; create environments for compilers that need one.

    Args:
        jaxlibs: releases of jaxlib, `here`, and paths of Python interpreters, separated by commas.
        iree: a release of IREE; empty for no run of IREE.
        opinions: other compilers, as registered names or as `NAME=FILE.py:FUNCTION`. A suffix `@PYTHON` selects another
            interpreter.

    Raises:
        InvalidConfigError, RegistrationError: an opinion is unknown or invalid.
        PlatformUnavailableError: an environment cannot be created.
    """
    adapters: list[Adapter] = []
    for release in [word.strip() for word in jaxlibs.split(",") if word.strip()]:
        if release == HERE:
            adapters.append(jaxlib_adapter())
        elif os.sep in release:
            adapters.append(jaxlib_adapter(release))
        else:
            adapters.append(jaxlib_adapter(environments.python([f"jaxlib=={release}"])))
    if iree:
        packages = [f"{package}=={iree}" for package in IREE]
        adapters.append(iree_adapter(iree if os.sep in iree else environments.python(packages)))
    for opinion in opinions:
        name, equals, rest = opinion.partition("=")
        target, _, python = rest.partition("@")
        adapters += [Adapter.of(name, target, python)] if equals else registered([name])
    return adapters or [jaxlib_adapter()]


def chosen_cases(module: str, inputs: str, only: Sequence[str]) -> list[Case]:
    """Return the user's module as a test case, or the built-in cases whose names contain one of the words in `only`.

    The built-in cases are the reports in `xla_peer.hall` and ordinary programs.

    Raises:
        InvalidConfigError: no name of a case contains any of the words.
    """
    if module and Path(module).suffix in (".mlir", ".mlirbc"):
        from lowering import import_stablehlo

        names = import_stablehlo(Path(module)).input_names
        given = read_inputs([inputs] if inputs else [], names)
        return [module_case(Path(module), matched(given, names, module))]
    words = [module, *only] if module else list(only)
    chosen = [*hall_cases(words), *ordinary_cases(words)]
    if not chosen:
        raise InvalidConfigError(
            f"watch: no case has {' or '.join(words)} in its name; a name is such as {REPORTS[0].name!r}"
        )
    return chosen


def watched(
    cases: Sequence[Case],
    adapters: Sequence[Adapter],
    timeout: float,
    names_passes: bool,
    progress: Callable[[str], Any],
) -> Table:
    """Run each case with each compiler, and return the table of outcomes."""
    with ExitStack() as stack:
        executors = [
            stack.enter_context(AdapterExecutor(adapter, timeout=timeout)) for adapter in adapters
        ]
        return watch(cases, executors, names_passes=names_passes, progress=progress)


def bisected(case: Case, since: str, until: str, environments: Environments) -> Bisection:
    """Find the release of jaxlib in which a case changes its outcome."""
    releases = releases_between(environments.versions("jaxlib"), since, until)
    return bisect(case, releases, environments=environments)


def written(table: Table, path: Path) -> list[tuple[str, str]]:
    """Write a table as a page and, beside it, as JSON; return the cases that are worse than in the previous JSON.

    Raises:
        InvalidConfigError: the path of the page does not end in .md, or the JSON beside it is not a table.
    """
    if path.suffix != ".md":
        raise InvalidConfigError(f"watch: a page's path must end in .md, got {path}")
    data = path.with_suffix(".json")
    before = Table.from_json(data.read_text()) if data.exists() else Table((), ())
    for target, content in ((data, table.to_json()), (path, page(table))):
        with replacing(str(target)) as file:
            file.write(content.encode())
    return table.worse_than(before)


def page(table: Table) -> str:
    """Return a Markdown page with the table, an explanation of the words in it, and the searches for public reports."""
    lines = [PAGE, table.to_markdown(), "## Log", "", "Searches of public issues:", ""]
    lines += [f'- "{words}"' for words in SEARCHES]
    lines += ["", "Not rebuilt:", "", *[f"- {name}: {reason}" for name, reason in ELSEWHERE]]
    return "\n".join(lines) + "\n"


PAGE = """# Compilers under watch

This page shows the results of several compilers and releases on public reports of wrong values and crashes, and on ordinary programs.
Each report is rebuilt as a small StableHLO program, whose right values follow from the definitions of its operations.
This page is written by `tenferro watch`; [the guide](parity.md#a-watch-over-compilers) explains how to run it on your own modules and compilers.

An entry has one of these states; bold entries need attention:

- `right`.
- `undecided`: another right implementation may have the reported values.
- `refused`: the compiler does not support the module.
- **`wrong`**: the entry names the first operation that differs from the native run.
- **`ended`**: a crash or a hang; the entry gives the signal, or `timeout`.

For XLA, an entry also names the pass at fault. It is the first pass whose output module, imported and run natively, has another meaning, or else a pass without which the result is right.
Every compiler runs the reports on all compilers, because a mistake in one of them is often found in another.
"""

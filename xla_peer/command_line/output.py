"""The output of commands: tables on a terminal, plain text elsewhere, or JSON on request."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tenferro.table import aligned
from tenferro.types import DType
from xla_peer.json_values import json_value

__all__ = ["Output", "as_json", "summary"]

MOST_VALUES = 1000
"""Maximum number of elements of an array whose values are written in JSON."""


class Output:
    """Output of a command: text, or one JSON document.

    Args:
        as_json: print only one JSON document, and no text.
    """

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False, soft_wrap=True)
        self.errors = Console(stderr=True, highlight=False, soft_wrap=True)

    def document(self, value: Any) -> None:
        """Print the JSON document, if JSON is requested."""
        if self.as_json:
            print(json.dumps(json_value(value), indent=2, allow_nan=False))

    def say(self, text: Any = "") -> None:
        """Print a line of plain text, unless JSON is requested."""
        if not self.as_json:
            self.console.print(str(text), markup=False)

    def verdict(self, good: bool, text: str) -> None:
        """Print a line of text, which is green on a terminal if `good`, else red."""
        if not self.as_json:
            self.console.print(text, markup=False, style="green" if good else "bold red")

    def heading(self, text: str) -> None:
        """Print a heading, unless JSON is requested."""
        if not self.as_json:
            self.console.print(f"\n{text}", markup=False, style="bold")

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows of cells below a header; on a terminal, long cells are wrapped, not cut off."""
        if self.as_json:
            return
        head, *lines = aligned([header, *rows])
        self.console.print(head, markup=False, style="bold")
        for line in lines:
            self.console.print(line, markup=False)

    def fail(self, error: BaseException) -> None:
        """Print an error: as JSON if JSON is requested, else as text."""
        text = str(error) or type(error).__name__
        if self.as_json:
            print(json.dumps({"error": text, "kind": type(error).__name__}, indent=2))
        else:
            self.errors.print(f"tenferro: {text}", markup=False, style="red")

    @contextmanager
    def progress(self, what: str, total: float) -> Generator[Any]:
        """Show a progress bar on the error stream if it is a terminal; yield the function that advances the bar."""
        if self.as_json or not self.errors.is_terminal:
            yield lambda done, note="": None
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self.errors, transient=True) as bar:
            task = bar.add_task(what, total=total, note="")
            yield lambda done, note="": bar.update(task, completed=done, note=note)


def summary(array: Any) -> str:
    """Return a short description of an array: its elements if there are at most 16, else their range and mean.

    >>> summary(np.arange(3.0)), summary(np.zeros((100, 100)))
    ('[0. 1. 2.]', 'from 0 to 0, mean 0')
    """
    array = np.asarray(array)
    if array.size <= 16:
        return np.array2string(array, precision=6, separator=" ").replace("\n", "")
    if array.dtype == bool:
        return f"{np.count_nonzero(array)} of {array.size} true"
    wide = np.abs(array) if array.dtype.kind == "c" else array.astype(np.float64)
    of = "absolute values " if array.dtype.kind == "c" else ""
    finite = wide[np.isfinite(wide)]
    if not finite.size:
        return "no finite element"
    lost = f"; {wide.size - finite.size} not finite" if finite.size < wide.size else ""
    return f"{of}from {finite.min():g} to {finite.max():g}, mean {finite.mean():g}{lost}"


def as_json(name: str, array: Any) -> dict[str, Any]:
    """Convert an array to JSON-compatible values, with its elements if there are at most `MOST_VALUES`.

    >>> as_json("y", np.array([1.0, np.nan]))
    {'name': 'y', 'dtype': 'float64', 'shape': [2], 'values': [1.0, 'nan']}
    """
    array = np.asarray(array)
    entry: dict[str, Any] = {
        "name": name,
        "dtype": DType.of(array.dtype).value,
        "shape": list(array.shape),
    }
    if array.size <= MOST_VALUES:
        entry["values"] = json_value(array)
    return entry

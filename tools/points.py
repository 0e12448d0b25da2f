"""Write the expected values at exceptional points, and a page that compares the values of all libraries with them.

The expected values are computed from formulas and written to tests/points/expected.json. The page is
docs/exceptional_points.md.

Run the tool by `make points`. If torch is not installed, the page says that PyTorch's values are missing.
"""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.points.binary import BINARY, PARTIALS
from tests.points.cells import CASES, EXPECTED, FILE, Cell, arguments, cells, excuse, is_as_expected
from tests.points.excused import EXCUSED
from tests.points.expected import binary_table, unary_table
from tests.points.measure import KINDS, PARTIAL_CELLS
from tests.points.names import OTHERS
from tests.points.unary import UNARY
from tests.points.vectors import LINEAR, REDUCTIONS
from xla_peer import XlaExecutor

PAGE = Path(__file__).resolve().parent.parent / "docs" / "exceptional_points.md"
HEADER = """# Exceptional points

This page is for readers who differentiate at special arguments.
Afterwards you can look up the value of a first or second derivative there, and where JAX and PyTorch return a different value.

The exceptional points are zeros of either sign, ties, bounds, branch cuts, poles, points where a function is saturated, subnormal and huge numbers, infinities and NaN.
The expected values are limits of the exact derivatives, computed with 500 digits. Where no derivative exists, they follow the [conventions](autodiff.md).
A cell is one derivative at one point: JVP, VJP, forward over reverse or reverse over reverse, in float32, float64 or complex128. `tests/points/` has the table, and this page is written by `make points`.

{counts}

Natively, a cell agrees if it differs from the expected value by at most 16 units in the last place; for the other columns, 64 units are allowed.
The unit is taken of the value plus the effect of the argument's last bit. If the derivative is a sum of terms that cancel, it is taken of the largest term.
Through PJRT and in jax a subnormal argument may count as zero. Another library is not wrong if it differs by its own convention; a derivative that it refuses counts as NaN.

{versions}

| function | cells | native | PJRT | jax | torch |
| --- | --- | --- | --- | --- | --- |
{rows}

A dash means that the library has no such function. For PJRT it means that the function has no expansion, so that lowering it is an error, or an expansion with a larger error bound, which the docstring states.
"""
Call = Callable[[str, str], Iterator[Cell]]


def as_text(table: dict[str, dict[str, list[Any]]]) -> str:
    """Return the table of expected values as JSON text, with one point per line."""
    functions = []
    for name, entries in table.items():
        lines = [f"{json.dumps(point)}: {json.dumps(entry)}" for point, entry in entries.items()]
        functions.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(functions) + "\n}\n"


def write_expected() -> None:
    """Write expected.json, and replace the loaded table, so that the page uses the new values."""
    table = {**unary_table(), **binary_table()}
    FILE.write_text(as_text(table))
    EXPECTED.clear()
    EXPECTED.update(json.loads(FILE.read_text()))


# ---- other libraries -----------------------------------------------------


def attribute(module: Any, path: str) -> Any:
    return reduce(getattr, path.split("."), module)


def of_one(function: Any, jvp: Any, vjp: Any, x: Any, ones: Any) -> list[Callable[[], Any]]:
    reverse = lambda x: vjp(function, x)[1](ones)[0]
    return [
        lambda: jvp(function, (x,), (ones,))[1],
        lambda: reverse(x),
        lambda: jvp(reverse, (x,), (ones,))[1],
        lambda: vjp(reverse, x)[1](ones)[0],
    ]


def of_two(function: Any, jvp: Any, vjp: Any, x: Any, y: Any, ones: Any) -> list[Any]:
    pulls = lambda x, y: vjp(function, x, y)[1](ones)
    by_x = lambda f: jvp(lambda x: f(x, y), (x,), (ones,))[1]
    by_y = lambda f: jvp(lambda y: f(x, y), (y,), (ones,))[1]
    results = [lambda: by_x(function), lambda: by_y(function)]
    results += [lambda i=i: pulls(x, y)[i] for i in (0, 1)]
    results += [lambda i=i, by=by: by(pulls)[i] for by in (by_x, by_y) for i in (0, 1)]
    row = lambda i: vjp(lambda x, y: pulls(x, y)[i], x, y)[1](ones)
    return results + [lambda i=i, j=j: row(i)[j] for i in (0, 1) for j in (0, 1)]


def foreign_cells(library: str, name: str, dtype: str) -> Iterator[Cell]:
    """Yield the values of another library at all points.

    A derivative that the library refuses to compute counts as NaN.
    """
    record = UNARY.get(name) or BINARY[name]
    points, args = arguments(name, dtype)
    if library == "jax":
        module = importlib.import_module("jax")
        module.config.update("jax_enable_x64", True)
        convert, jvp, vjp = module.numpy.asarray, module.jvp, module.vjp
    else:
        module = importlib.import_module("torch")
        convert, jvp, vjp = module.from_numpy, module.func.jvp, module.func.vjp
    function = attribute(module, record.jax if library == "jax" else record.torch)
    ones = convert(np.ones(len(points), dtype))
    tensors = [convert(np.ascontiguousarray(arg)) for arg in args]
    of = of_two if name in BINARY else of_one
    rows = PARTIAL_CELLS if name in BINARY else tuple(zip(KINDS, (0, 0, 1, 1), strict=True))
    labels = PARTIALS if name in BINARY else ("f'", "f''")
    for (kind, index), compute in zip(rows, of(function, jvp, vjp, *tensors, ones), strict=True):
        try:
            row = np.asarray(compute())
        except (RuntimeError, NotImplementedError, TypeError):
            row = np.full(len(points), np.nan, dtype)
        conjugate = library == "torch" and dtype == "complex128" and kind != "JVP"
        for point, got in zip(points, np.conj(row) if conjugate else row, strict=True):
            yield Cell(name, dtype, point, kind, labels[index], got, index)


# ---- the page -------------------------------------------------------------------------------------


def differing(library: str, name: str, dtype: str) -> tuple[int, list[Cell]]:
    """Return the number of values that a library computes, and the values that differ from the expected ones."""
    if library == "native":
        row = list(cells(name, dtype))
    elif library == "PJRT":
        row = list(cells(name, dtype, XlaExecutor()))
    else:
        row = list(foreign_cells(library, name, dtype))
    peer = "PJRT" if library in ("PJRT", "jax") else "native"
    return len(row), [cell for cell in row if not is_as_expected(cell, peer)]


def has(library: str, name: str) -> bool:
    record = UNARY.get(name) or BINARY[name]
    if library in ("native", "PJRT"):
        return library == "native" or not record.is_native
    return bool(getattr(record, library))


def page(libraries: dict[str, str]) -> str:
    """Run every library, and return the text of the page."""
    results = {
        (library, name, dtype): differing(library, name, dtype)
        for library in libraries
        for name, dtype in CASES
        if has(library, name)
    }
    names = list(dict.fromkeys(name for name, _ in CASES))
    sums = {
        (library, name): len(
            [c for key, (_, wrong) in results.items() if key[:2] == (library, name) for c in wrong]
        )
        for library in libraries
        for name in names
        if has(library, name)
    }
    sizes = {
        name: sum(n for k, (n, _) in results.items() if k[:2] == ("native", name)) for name in names
    }
    rows = [
        f"| `{name}` | {sizes[name]} | "
        + " | ".join(
            str(sums.get((library, name), "-")) for library in ("native", "PJRT", "jax", "torch")
        )
        + " |"
        for name in names
    ]
    counts = []
    for library in libraries:
        total = sum(n for k, (n, _) in results.items() if k[0] == library)
        wrong = [cell for k, (_, row) in results.items() if k[0] == library for cell in row]
        unexcused = [c for c in wrong if library in ("native", "PJRT") and not excuse(c, library)]
        nans = [
            c
            for c in wrong
            if not np.all(np.isfinite(c.got)) and np.all(np.isfinite(c.entry[2 * c.index]))
        ]
        ours = (
            f", {len(unexcused)} of them without an excuse below"
            if library in ("native", "PJRT")
            else ""
        )
        counts.append(
            f"- {library}: {total} cells, {len(wrong)} differ from the expected value{ours}; {len(nans)} of these are not finite where the limit is."
        )
    versions = ", ".join(f"{name} {version}" for name, version in libraries.items() if version)
    absent = "" if "torch" in libraries else " torch was not installed, and its column is empty."
    header = HEADER.format(
        counts="\n".join(counts),
        rows="\n".join(rows),
        versions=f"Measured with {versions}.{absent}",
    )
    return "\n".join([header, conventions(), arrays(), excuses(), left_out()])


def conventions() -> str:
    rows = [
        "## Conventions in the table",
        "",
        "| function | point | derivatives | convention |",
        "| --- | --- | --- | --- |",
    ]
    for name, entries in EXPECTED.items():
        for point, entry in entries.items():
            if entry[-1] and entry[-1] != "limit":
                values = ", ".join(f"{value:g}" for value in entry[:-1:2])
                rows.append(f"| `{name}` | `{point}` | {values} | {entry[-1]} |")
    return "\n".join([*rows, ""])


def arrays() -> str:
    return "\n".join(
        [
            "## Functions of arrays",
            "",
            "Jacobians and Hessians of these functions are checked, by both modes at both orders, at ties, zeros, equal elements and infinities, in float32 and float64: "
            + ", ".join(f"`{name}`" for name in REDUCTIONS)
            + ".",
            "",
            "For these linear functions, the Jacobian is compared with the definition on unit arrays, and the second derivative is zero, also for infinite arrays and NaN: "
            + ", ".join(f"`{name}`" for name in LINEAR)
            + ".",
            "",
        ]
    )


def excuses() -> str:
    lines = [
        f"- `{e.function}` at {', '.join(f'`{p}`' for p in e.points)} ({', '.join(e.peers)}): {e.reason}"
        for e in EXCUSED
    ]
    return "\n".join(["## Excused", "", *lines, ""])


def left_out() -> str:
    reasons: dict[str, list[str]] = {}
    for name, reason in OTHERS.items():
        reasons.setdefault(reason, []).append(f"`{name}`")
    lines = [f"- {reason}: {', '.join(names)}." for reason, names in reasons.items()]
    return "\n".join(["## Not in the table", "", *lines, ""])


def installed() -> dict[str, str]:
    """Return the installed libraries with their versions. tenferro's two peers are included, without a version."""
    libraries = {"native": "", "PJRT": ""}
    for name in ("jax", "torch"):
        try:
            libraries[name] = importlib.import_module(name).__version__
        except ImportError:
            continue
    return libraries


def main() -> None:
    write_expected()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PAGE.write_text(page(installed()))


if __name__ == "__main__":
    main()

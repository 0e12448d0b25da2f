"""Measure the accuracy of functions and write docs/accuracy.md.

python -m tools.accuracy                     measures all functions; an interrupted run is resumed
python -m tools.accuracy --only exp pow      measures only these functions
python -m tools.accuracy --part compiled     compares only compiled functions with their bounds
python -m tools.accuracy --singles 1000000   sets the number of float32 arguments; --doubles sets that of float64
python -m tools.accuracy --proofs 1000000    sets the number of arguments at which a compiled function is compared with
                                             its bound: in float64, and for functions of two numbers in float32
python -m tools.accuracy --page              writes the page from existing records

The command fails if a compiled function exceeds its declared bound.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

from tools.accuracy.compiled import TABLE, bound_of, largest_error
from tools.accuracy.engines import ENGINES
from tools.accuracy.functions import FUNCTIONS
from tools.accuracy.measure import Cell, measured
from tools.accuracy.page import DTYPES, written
from tools.accuracy.records import Key, Record, Records

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
PARTS = ("functions", "compiled")


def main() -> int:
    """Measure every function, unless a record of it exists, and write the page; return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(prog="tools.accuracy")
    parser.add_argument("--only", nargs="*", choices=list(FUNCTIONS), metavar="NAME")
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--singles", type=int, default=100_000_000)
    parser.add_argument("--doubles", type=int, default=1_000_000)
    parser.add_argument("--proofs", type=int, default=100_000_000)
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    records = Records(ROOT / "build" / "accuracy")
    counts = {"float16": 0, "bfloat16": 0, "float32": options.singles, "float64": options.doubles}
    for name in () if options.page else options.only or FUNCTIONS:
        for dtype in DTYPES:
            if options.part != "compiled":
                with_each_engine(records, name, dtype, counts[dtype])
            if options.part != "functions" and name in TABLE:
                against_its_bound(records, name, dtype, options.proofs)
    every = records.every()
    PAGE.write_text(written(every))
    return int(any([is_beyond(record) for record in every]))


def with_each_engine(records: Records, name: str, dtype: str, count: int) -> None:
    """Measure a function with each engine, unless this measurement is recorded for the present environment."""
    keys = {engine: Key(name, dtype, engine) for engine in ENGINES}
    missing = [engine for engine in ENGINES if not records.has(keys[engine], count)]
    if missing:
        with records.timed([keys[engine] for engine in missing], count) as put:
            for engine, cell in measured(FUNCTIONS[name], dtype, missing, count).items():
                put(keys[engine], cell)
                shown(keys[engine], cell)


def against_its_bound(records: Records, name: str, dtype: str, count: int) -> None:
    """Search for the largest error of a compiled function, unless an earlier search of this size is recorded."""
    key = Key(name, dtype, "bound")
    if not records.has(key, count):
        with records.timed([key], count) as put:
            cell = largest_error(name, dtype, count)
            put(key, cell)
            shown(key, cell)


def is_beyond(record: Record) -> bool:
    """Return whether the record shows a compiled function that exceeds its declared bound; if so, print the record."""
    cell, name, dtype = record["cell"], record["function"], record["dtype"]
    if record["engine"] != "bound" or cell is None or cell["error"] <= bound_of(name, dtype):
        return False
    print(f"{name} in {dtype}: {cell['error']:.5g} ulps at {cell['arguments']}, its bound is {bound_of(name, dtype):.5g}")  # fmt: skip
    return True


def shown(key: Key, cell: Cell | None) -> None:
    """Print a measurement: the function, dtype and engine, and the largest error with its arguments."""
    text = "no such way" if cell is None else f"{cell.error:.6g} ulps at {cell.arguments}"
    print(f"{key.name:20} {key.dtype:9} {key.engine:9} {text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

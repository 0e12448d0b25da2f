"""Measure the accuracy of functions and write docs/accuracy.md.

python -m tools.accuracy                     goes on where it was ended; records are in build/accuracy
python -m tools.accuracy --only exp pow      some functions
python -m tools.accuracy --singles 1000000   so many arguments in float32; --doubles in float64
python -m tools.accuracy --page              writes the page from the records there are
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

from tools.accuracy.engines import ENGINES
from tools.accuracy.functions import FUNCTIONS
from tools.accuracy.measure import environment, measured
from tools.accuracy.page import DTYPES, written

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "build" / "accuracy"
PAGE = ROOT / "docs" / "accuracy.md"


def main() -> None:
    """Measure what has no record yet, and write the page."""
    parser = argparse.ArgumentParser(prog="tools.accuracy")
    parser.add_argument("--only", nargs="*", choices=list(FUNCTIONS), metavar="NAME")
    parser.add_argument("--singles", type=int, default=100_000_000)
    parser.add_argument("--doubles", type=int, default=1_000_000)
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    RECORDS.mkdir(parents=True, exist_ok=True)
    counts = {"float16": 0, "bfloat16": 0, "float32": options.singles, "float64": options.doubles}
    for name in () if options.page else options.only or FUNCTIONS:
        for dtype in DTYPES:
            for engine in ENGINES:
                record(name, dtype, engine, counts[dtype])
    PAGE.write_text(
        written([json.loads(path.read_text()) for path in sorted(RECORDS.glob("*.json"))])
    )


def record(name: str, dtype: str, engine: str, count: int) -> None:
    """Measure one cell, unless as much of it has been measured in the same environment."""
    path = RECORDS / f"{name}, {dtype}, {engine}.json"
    where = environment(engine)
    if path.exists():
        before: dict[str, Any] = json.loads(path.read_text())
        if before["environment"] == where and before["asked"] >= count:
            return
    cell = measured(FUNCTIONS[name], dtype, engine, count)
    entry = {
        "function": name,
        "dtype": dtype,
        "engine": engine,
        "asked": count,
        "environment": where,
        "cell": None if cell is None else cell.as_record(),
    }
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(entry))
    partial.replace(path)
    shown = "no such way" if cell is None else f"{cell.error:.3g} ulps at {cell.arguments}"
    print(f"{name:20} {dtype:9} {engine:9} {shown}", flush=True)


if __name__ == "__main__":
    main()

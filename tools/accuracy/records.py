"""Records of measurements; each function, dtype and engine has its own file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tools.accuracy.measure import Cell, environment

__all__ = ["Key", "Record", "Records"]

Record = dict[str, Any]


class Key(NamedTuple):
    """Key of a record: a function, a dtype, and an engine.

    The engine "bound" means that a compiled function was compared with its declared bound.
    """

    name: str
    dtype: str
    engine: str


class Records:
    """The records of measurements in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def every(self) -> list[Record]:
        """Return all records in the folder."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]

    def has(self, key: Key, count: int) -> bool:
        """Return whether a record with at least `count` arguments exists that was measured in the same environment."""
        path = self._path(key)
        if not path.exists():
            return False
        before: Record = json.loads(path.read_text())
        return before["environment"] == _environment(key) and before["asked"] >= count

    @contextmanager
    def timed(
        self, keys: Sequence[Key], count: int
    ) -> Iterator[Callable[[Key, Cell | None], None]]:
        """Yield a function that writes the record of a key.

        Keys that are measured together share one duration.
        """
        environments = {key: _environment(key) for key in keys}
        start = time.perf_counter()

        def put(key: Key, cell: Cell | None) -> None:
            record = {
                "function": key.name,
                "dtype": key.dtype,
                "engine": key.engine,
                "asked": count,
                "environment": environments[key],
                "seconds": (time.perf_counter() - start) / len(keys),
                "date": datetime.now(UTC).date().isoformat(),
                "cell": None if cell is None else cell.as_record(),
            }
            partial = self._path(key).with_suffix(".partial")
            partial.write_text(json.dumps(record))
            partial.replace(self._path(key))

        yield put

    def _path(self, key: Key) -> Path:
        return self.folder / f"{', '.join(key)}.json"


def _environment(key: Key) -> dict[str, str]:
    return environment("compiled" if key.engine == "bound" else key.engine, key.name)

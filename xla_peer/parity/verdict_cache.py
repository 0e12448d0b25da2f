"""Cache of successful parity checks, so that unchanged programs are not checked again."""

from __future__ import annotations

import hashlib
import json
import os
import platform as machine
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lowering import lower_to_stablehlo
from tenferro.errors import TenferroError
from tenferro.files import replacing
from tenferro.program import GraphProgram

__all__ = ["CachedVerdict", "VerdictCache", "VerdictCounts"]

MOST_ENTRIES = 4096
"""Maximum number of cached checks; the least recently used entries are dropped first."""
PACKAGES = ("tenferro", "jax", "jaxlib", "numpy")
VARIABLES = ("XLA_FLAGS", "TENFERRO_ISOLATED")
"""Environment variables on which results may depend."""


class CachedVerdict(NamedTuple):
    """Result of a check in which all outputs agreed.

    Attributes:
        verdicts: verdicts of the outputs, in order.
        share: the largest quotient of a difference and its bound over all outputs.
        name: the name of the output with the quotient `share`.
    """

    verdicts: tuple[str, ...]
    share: float
    name: str


class VerdictCounts(NamedTuple):
    """Counts of a cache: hits, misses and entries."""

    hits: int
    misses: int
    entries: int


class VerdictCache:
    """Cache of the results of checks.

    The key is a digest of the program's text, its arguments, the options of the check and the versions of packages.

    Args:
        folder: the folder of the cache, with one file per entry; None keeps entries in memory.
        most: the maximum number of entries.

    >>> import tenferro as tnf
    >>> x = np.ones(2)
    >>> cache, program = VerdictCache(), tnf.compile(lambda x: x + x, x)
    >>> key = cache.key(program, [x], {}, "cpu")
    >>> cache.put(key, CachedVerdict(("equal",), 0.0, "result"))
    >>> cache.get(key).verdicts, cache.counts()
    (('equal',), VerdictCounts(hits=1, misses=0, entries=1))
    """

    def __init__(self, folder: Any = None, most: int = MOST_ENTRIES) -> None:
        self.folder = None if folder is None else Path(folder)
        self.most = most
        self._entries: OrderedDict[str, CachedVerdict] = OrderedDict()
        self._hits = self._misses = 0

    def key(
        self,
        program: GraphProgram,
        leaves: Sequence[Any],
        options: Mapping[str, Any],
        platform: str,
    ) -> str | None:
        """Return the digest that identifies a check.

        Return None if the check cannot be cached: the program cannot be lowered, or an option is not a number, a
        string or a bool.
        """
        if not all(isinstance(x, str | int | float | bool | None) for x in options.values()):
            return None
        try:
            static = program.specialize(program.bind([np.shape(leaf) for leaf in leaves]))
            text = lower_to_stablehlo(static).plain_text
        except TenferroError:
            return None
        digest = hashlib.sha256()
        versions = [machine.python_version(), machine.machine(), *map(_version, PACKAGES)]
        settings = [os.environ.get(name, "") for name in VARIABLES]
        original = "" if program.origin is None else program.origin.plain_text
        head = [text, original, platform, sorted(options.items()), versions, settings]
        digest.update(json.dumps(head).encode())
        for leaf in map(np.asarray, leaves):
            digest.update(f"{leaf.dtype} {leaf.shape} ".encode())
            digest.update(np.ascontiguousarray(leaf).tobytes())
        return digest.hexdigest()

    def get(self, key: str | None) -> CachedVerdict | None:
        """Return the cached result for a key; None if there is no result, or its file cannot be read."""
        outcome = None if key is None else self._entries.get(key)
        if outcome is None and key is not None and self.folder is not None:
            outcome = _read(self.folder / f"{key}.json")
        if outcome is None:
            self._misses += 1
            return None
        self._hits += 1
        self._keep(str(key), outcome)
        return outcome

    def put(self, key: str | None, outcome: CachedVerdict) -> None:
        """Store a result for a key; the result's file is written under another name and then renamed.

        Raises:
            OSError: the folder cannot be created or written.
        """
        if key is None:
            return
        self._keep(key, outcome)
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / f"{key}.json") as file:
            file.write(json.dumps(outcome._asdict()).encode())
        files = list(self.folder.glob("*.json"))
        if len(files) > self.most:
            oldest = sorted(files, key=_age)[: len(files) - self.most]
            for path in oldest:
                path.unlink(missing_ok=True)

    def counts(self) -> VerdictCounts:
        """Return the numbers of hits, of misses and of entries."""
        on_disk = 0 if self.folder is None else len(list(self.folder.glob("*.json")))
        return VerdictCounts(self._hits, self._misses, max(len(self._entries), on_disk))

    def clear(self) -> None:
        """Drop all entries, including those in the folder."""
        self._entries.clear()
        for path in [] if self.folder is None else self.folder.glob("*.json"):
            path.unlink(missing_ok=True)

    def _keep(self, key: str, outcome: CachedVerdict) -> None:
        self._entries[key] = outcome
        self._entries.move_to_end(key)
        while len(self._entries) > self.most:
            self._entries.popitem(last=False)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # because another run may have removed it
        return 0.0


def _read(path: Path) -> CachedVerdict | None:
    try:
        entry = json.loads(path.read_text())
        verdicts = tuple(map(str, entry["verdicts"]))
        return CachedVerdict(verdicts, float(entry["share"]), str(entry["name"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None

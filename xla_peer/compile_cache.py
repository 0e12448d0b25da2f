"""Executables kept on disk, so that a second process need not compile again.

An entry is native code: the folder and its files belong to the user alone, and nothing is read from a
folder that others can write to. Entries are written beside their place and renamed; one that is
truncated, foreign or of another version is compiled anew and counted, never fatal.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tenferro.errors import InvalidConfigError
from tenferro.files import replacing

__all__ = ["CompileCache", "CompileCacheStats"]

MAGIC = b"tenferro-executable-1\n"
SUFFIX = ".xla"
STALE_SECONDS = 3600
"""Unfinished files older than this are of processes that ended while they wrote."""


@dataclass(frozen=True)
class CompileCacheStats:
    """What the folder has done for this process.

    Attributes:
        rejected: entries that could not be used and were compiled anew.
        failed_writes: entries that could not be written, as on a full or read-only disk.
    """

    hits: int
    misses: int
    rejected: int
    failed_writes: int
    evictions: int


class CompileCache:
    """A folder of executables, bounded in bytes; least recently used go first.

    Raises:
        InvalidConfigError: a folder that cannot be made or read, or that other users can write to; a
            bound below 1.
    """

    def __init__(self, folder: str | os.PathLike[str], max_bytes: int = 1 << 30) -> None:
        if max_bytes < 1:
            raise InvalidConfigError(f"cache_dir: the bound is at least 1 byte, got {max_bytes}")
        self.folder = Path(folder)
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._counts: dict[str, int] = dict.fromkeys(
            ("hits", "misses", "rejected", "failed_writes", "evictions"), 0
        )
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = self.folder.stat()
        except OSError as error:
            raise InvalidConfigError(f"cache_dir: {self.folder}: {error}") from None
        if not stat.S_ISDIR(mode.st_mode):
            raise InvalidConfigError(f"cache_dir: {self.folder} is no folder")
        if mode.st_mode & 0o022:
            raise InvalidConfigError(
                f"cache_dir: {self.folder} can be written to by other users, and holds native code; "
                "chmod go-w it"
            )

    @staticmethod
    def key(parts: Sequence[bytes]) -> str:
        """One name for all that decides an executable."""
        digest = hashlib.sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()

    def load(self, key: str) -> bytes | None:
        """The executable of that key; None where there is none, or none that is whole."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            self._count("misses")
            return None
        head = len(MAGIC) + 32
        body = content[head:]
        if content[: len(MAGIC)] != MAGIC or content[len(MAGIC) : head] != _digest(body):
            self.reject(key)
            return None
        self._count("hits")
        with suppress(OSError):  # because only the order of eviction suffers
            os.utime(path)
        return body

    def reject(self, key: str) -> None:
        """Forget an entry that could not be used."""
        self._count("rejected")
        with suppress(OSError):  # because another process may have been first
            self._path(key).unlink()

    def store(self, key: str, executable: bytes) -> None:
        """Keep an executable; what the disk refuses is counted."""
        try:
            with replacing(self._path(key), mode=0o600) as file:
                file.write(MAGIC + _digest(executable) + executable)
        except OSError:
            self._count("failed_writes")
            return
        self._evict()

    def clear(self) -> None:
        """Remove every entry, and start counting anew."""
        for path, _, _ in self._entries():
            path.unlink(missing_ok=True)
        with self._lock:
            for name in self._counts:
                self._counts[name] = 0

    def stats(self) -> CompileCacheStats:
        """Hits, misses, rejected entries, failed writes, evictions."""
        with self._lock:
            return CompileCacheStats(**self._counts)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _entries(self) -> list[tuple[Path, float, int]]:
        found: list[tuple[Path, float, int]] = []
        with suppress(OSError), os.scandir(self.folder) as entries:  # because it may have vanished
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    about = entry.stat()
                    found.append((Path(entry.path), about.st_mtime, about.st_size))
        return sorted(found, key=lambda entry: entry[1])

    def _sweep(self) -> None:
        """Remove what processes left that ended while they wrote."""
        with suppress(OSError):  # because it may have vanished
            for path in self.folder.glob("*.part"):
                if _is_stale(path):
                    path.unlink(missing_ok=True)

    def _evict(self) -> None:
        self._sweep()
        entries = self._entries()
        total = sum(size for _, _, size in entries)
        for path, _, size in entries[:-1]:
            if total <= self.max_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size
            self._count("evictions")


def _is_stale(path: Path) -> bool:
    with suppress(OSError):  # because another process may have been first
        return time.time() - path.stat().st_mtime > STALE_SECONDS
    return False


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()

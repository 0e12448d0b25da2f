"""Cache of executables on disk, so that a second process need not compile them again.

An entry is native code. For this reason, only the user owns the folder and its files, and a file that another user
could have written is not read. Entries are written atomically. An entry that is truncated, foreign, renamed or outdated
is compiled again. Failures to read, write or remove an entry are counted, and are never errors.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tenferro.errors import InvalidConfigError, UnsupportedError, UnusableCacheWarning
from tenferro.files import replacing, unfinished_files
from tenferro.forks import call_in_child
from tenferro.private_folder import make_private_folder, read_private_file
from tenferro.process_warnings import warn_once

__all__ = ["CACHE_VARIABLE", "CompileCache", "CompileCacheStats", "cache_in"]

CACHE_VARIABLE = "TENFERRO_CACHE_DIR"
"""Environment variable that contains the default folder."""
MAGIC = b"tenferro-executable-2\n"
SUFFIX = ".xla"


@dataclass(frozen=True)
class CompileCacheStats:
    """Counts of the events of a cache in this process.

    Attributes:
        rejected: number of entries that could not be read or used, and were compiled again.
        failed_writes: number of entries that could not be written, for example on a full or read-only disk.
        failed_removals: number of entries that could not be removed.
    """

    hits: int
    misses: int
    rejected: int
    failed_writes: int
    failed_removals: int
    evictions: int


class CompileCache:
    """A folder of executables, bounded in bytes. The least recently used entry is evicted first.

    Raises:
        InvalidConfigError: the folder cannot be created or read, or is a link; another user owns it, or can write to it
            or replace it; or the bound is below 1.
    """

    def __init__(self, folder: str | os.PathLike[str], max_bytes: int = 1 << 30) -> None:
        if max_bytes < 1:
            raise InvalidConfigError(
                f"cache_dir: the bound must be at least 1 byte, got {max_bytes}"
            )
        self.folder = self._opened(folder)
        self.max_bytes = max_bytes
        self._renew_lock()
        call_in_child(self._renew_lock)
        self._counts: dict[str, int] = dict.fromkeys(
            ("hits", "misses", "rejected", "failed_writes", "failed_removals", "evictions"), 0
        )

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    @cached_property
    def problem(self) -> str:
        """The reason why the folder cannot be used, or "" if it can be used."""
        return ""

    @staticmethod
    def key(parts: Sequence[bytes]) -> str:
        """Return the name of an entry.

        It is the digest of `parts`, which is everything that the executable depends on.
        """
        digest = hashlib.sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.hexdigest()

    def load(self, key: str) -> bytes | None:
        """Return the executable stored under `key`.

        It is None if its file is missing, damaged, or owned by another user.
        """
        head = len(MAGIC) + 32
        try:
            content = read_private_file(self.folder, f"{key}{SUFFIX}", self.max_bytes + head)
        except FileNotFoundError:
            self._count("misses")
            return None
        except (OSError, InvalidConfigError):
            self.reject(key)
            return None
        body = content[head:]
        if content[: len(MAGIC)] != MAGIC or content[len(MAGIC) : head] != _digest(key, body):
            self.reject(key)
            return None
        self._count("hits")
        return body

    def reject(self, key: str) -> None:
        """Remove an entry that could not be used."""
        self._count("rejected")
        self._remove(self._path(key))

    def store(self, key: str, executable: bytes) -> None:
        """Store an executable under `key`. A failure is only counted."""
        try:
            with replacing(self._path(key), mode=0o600) as file:
                file.write(MAGIC + _digest(key, executable) + executable)
        except (OSError, InvalidConfigError):
            self.count_failed_write()
            return
        self._evict()

    def count_failed_write(self) -> None:
        """Count an executable that could not be stored."""
        self._count("failed_writes")

    def clear(self) -> None:
        """Remove every entry that can be removed, and reset the counts."""
        with self._lock:
            for name in self._counts:
                self._counts[name] = 0
        for path, _, _ in self._entries():
            self._remove(path)

    def stats(self) -> CompileCacheStats:
        """Return the numbers of hits, misses, rejected entries, failed writes and failed removals."""
        with self._lock:
            return CompileCacheStats(**self._counts)

    def _opened(self, folder: str | os.PathLike[str]) -> Path:
        return make_private_folder(folder)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{SUFFIX}"

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def _remove(self, path: Path) -> bool:
        """Remove an entry and return True. If this fails, count the failure and return False."""
        try:
            path.unlink(missing_ok=True)
        except OSError:
            self._count("failed_removals")
            return False
        return True

    def _entries(self) -> list[tuple[Path, float, int]]:
        """Return the path, time of last use and size of each entry. The least recently used entry is first."""
        entries: list[tuple[Path, float, int]] = []
        with suppress(OSError):  # because the folder may have vanished
            for path in self.folder.iterdir():
                with suppress(OSError):  # because another process may have been first
                    if path.suffix == SUFFIX:
                        about = path.lstat()
                        entries.append((path, about.st_mtime, about.st_size))
        return sorted(entries, key=lambda entry: entry[1])

    def _evict(self) -> None:
        for path in unfinished_files(self.folder):
            self._remove(path)
        entries = self._entries()
        total = sum(size for _, _, size in entries)
        for path, _, size in entries[:-1]:
            if total <= self.max_bytes:
                break
            if self._remove(path):
                total -= size
                self._count("evictions")


def cache_in(
    cache_dir: str | os.PathLike[str] | None, max_bytes: int = 1 << 30
) -> CompileCache | None:
    """Return the cache for an executor's argument `cache_dir`. If `cache_dir` is "", return None.

    Args:
        cache_dir: a folder, which is checked now. If None, the environment variable TENFERRO_CACHE_DIR names the
            folder, which is checked at its first use. If that folder cannot be used, the process warns once, and
            nothing is cached.

    Raises:
        InvalidConfigError, UnsupportedError: as for `CompileCache`, if `cache_dir` names a folder.

    >>> cache_in("") is None
    True
    """
    if cache_dir is not None:
        return CompileCache(cache_dir, max_bytes) if cache_dir else None
    folder = os.environ.get(CACHE_VARIABLE, "")
    return _CacheOfEnvironment(folder, max_bytes) if folder else None


class _CacheOfEnvironment(CompileCache):
    """The cache in the folder that TENFERRO_CACHE_DIR names. The folder is checked at its first use."""

    def load(self, key: str) -> bytes | None:
        if self._is_usable():
            return super().load(key)
        self._count("misses")
        return None

    def store(self, key: str, executable: bytes) -> None:
        if self._is_usable():
            super().store(key, executable)
        else:
            self.count_failed_write()

    @cached_property
    def problem(self) -> str:
        try:
            self.folder = make_private_folder(self.folder)
        except (InvalidConfigError, UnsupportedError) as error:
            return str(error)
        return ""

    def _opened(self, folder: str | os.PathLike[str]) -> Path:
        return Path(folder)

    def _entries(self) -> list[tuple[Path, float, int]]:
        return [] if self.problem else super()._entries()

    def _is_usable(self) -> bool:
        if self.problem:
            warn_once(
                f"{CACHE_VARIABLE} is not used, so that every process compiles anew: {self.problem}",
                UnusableCacheWarning,
            )
        return not self.problem


def _digest(key: str, body: bytes) -> bytes:
    """Return the digest of an entry's key and executable. It includes the key, so that a renamed file is rejected."""
    return hashlib.sha256(key.encode() + b"\n" + body).digest()

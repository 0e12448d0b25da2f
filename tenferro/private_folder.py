"""Folders and files that only the current user or root could have written."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from tenferro.errors import InvalidConfigError, UnsupportedError

__all__ = ["make_private_folder", "read_private_file"]


def make_private_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder unless it exists. Return its path, in which links among the parent folders are resolved.

    If a parent folder is writable by a group, another user could replace the folder. The replacement would have another
    owner, and the owner is checked whenever a file is read.

    Raises:
        InvalidConfigError: the folder cannot be created, is a link or is not a folder; another user owns the folder or
            a parent folder; or other users can write to the folder, or to a parent folder without the sticky bit.
        UnsupportedError: the system has no owners of files.
    """
    if not hasattr(os, "geteuid"):
        raise UnsupportedError("cache_dir: this system does not say who owns a file")
    try:
        absolute = Path(os.path.abspath(path))
        absolute.mkdir(mode=0o700, parents=True, exist_ok=True)
        if absolute.is_symlink():
            raise InvalidConfigError(f"cache_dir: {absolute} is a link; give the folder itself")
        folder = Path(os.path.realpath(absolute))
        _require_private(folder, os.lstat(folder))
        for parent in folder.parents:
            _require_safe_parent(folder, parent)
    except OSError as error:
        raise InvalidConfigError(f"cache_dir: {os.fspath(path)}: {error}") from None
    return folder


def _require_private(folder: Path, about: os.stat_result) -> None:
    if not stat.S_ISDIR(about.st_mode):
        raise InvalidConfigError(f"cache_dir: {folder} is not a folder")
    if about.st_uid != os.geteuid():
        raise InvalidConfigError(
            f"cache_dir: {folder} belongs to user {about.st_uid}, and holds native code that user "
            f"{os.geteuid()} would run; give a folder of your own"
        )
    if about.st_mode & 0o022:
        raise InvalidConfigError(
            f"cache_dir: {folder} can be written to by other users, and holds native code; "
            "chmod go-w it"
        )


def _require_safe_parent(folder: Path, parent: Path) -> None:
    about = os.lstat(parent)
    if about.st_uid not in (0, os.geteuid()):
        raise InvalidConfigError(
            f"cache_dir: {folder} lies in {parent}, which belongs to user {about.st_uid}, who can put "
            "another folder in its place; give a folder below your own"
        )
    if about.st_mode & 0o002 and not about.st_mode & stat.S_ISVTX:
        raise InvalidConfigError(
            f"cache_dir: {folder} lies in {parent}, where every user can put another folder in its place; "
            "chmod o-w it, or give a folder below your own"
        )


def read_private_file(folder: Path, name: str, largest: int) -> bytes:
    """Return the content of a file, and set its time of use. A link is not followed, and a pipe is not waited for.

    Raises:
        FileNotFoundError: the file or the folder does not exist.
        InvalidConfigError: the folder or the file belongs to another user, or other users can write to it; or the file
            is not regular, or is larger than `largest` bytes.
        OSError: the file cannot be read.
    """
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _require_private(folder, os.fstat(directory))
        # Without O_NONBLOCK, opening a named pipe would wait for a writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(name, flags, dir_fd=directory)
    finally:
        os.close(directory)
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise InvalidConfigError(f"cache_dir: {name} is not a file")
        if about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise InvalidConfigError(f"cache_dir: {name} can have been written by another user")
        if about.st_size > largest:
            raise InvalidConfigError(
                f"cache_dir: {name} has {about.st_size} bytes, at most {largest}"
            )
        with suppress(
            OSError
        ):  # it may fail, as on a read-only disk; only the order of eviction suffers
            os.utime(handle)
        return file.read(
            about.st_size
        )  # not `largest`: read() allocates memory for the whole number first

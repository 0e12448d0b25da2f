"""Reading and writing of files. Only regular files are read and replaced, and writing is atomic."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tenferro.errors import InvalidConfigError

__all__ = ["content_of", "reading", "replacing", "target_of", "unfinished_files"]

STALE_SECONDS = 3600
"""Age in seconds at which an unfinished file counts as abandoned."""


@contextmanager
def reading(path: Any) -> Generator[BinaryIO]:
    """Open a regular file for reading. A pipe or a device is an error at once, because reading it might never end.

    Raises:
        InvalidConfigError: `path` does not name a file; or it is a folder, a pipe, a device or a socket; or its name is
        too long; or it is a cycle of symbolic links. OSError: the file does not exist, or may not be read.

    >>> with reading(__file__) as file:
    ...     len(file.read(3))
    3
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except (FileNotFoundError, PermissionError):
        raise
    except (TypeError, ValueError) as error:  # `path` is not a name, or contains a zero byte
        raise InvalidConfigError(f"{path!r:.80} is not read: {error}") from None
    except OSError as error:
        raise InvalidConfigError(f"{path} is not read: {error.strerror}") from None
    try:
        _require_regular(path, os.fstat(handle).st_mode)
    except BaseException:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as file:
        yield file


def content_of(path: Any) -> bytes:
    """Return the whole content of a regular file.

    Raises:
        InvalidConfigError, OSError: as for `reading`.
    """
    with reading(path) as file:
        return file.read()


def target_of(path: Any) -> Path:
    """Return the file that writing to `path` replaces or creates.

    It is the target of a symbolic link, or else `path` itself.

    Raises:
        InvalidConfigError: `path` does not name a file; or it is a folder, a pipe, a device or a socket; or its name is
        too long; or it is a cycle of symbolic links. PermissionError: the folder may not be read.

    >>> target_of("notes").name
    'notes'
    """
    try:
        name = os.fsdecode(path)
    except (TypeError, ValueError) as error:
        raise InvalidConfigError(f"{path!r:.80} is not written: {error}") from None
    if not name:
        raise InvalidConfigError("'' is not written: it names no file")
    try:
        # os.stat follows links. The link is not resolved before, because a link in /proc to a pipe has no path.
        _require_regular(name, os.stat(name).st_mode)
    except FileNotFoundError:
        pass  # a new file, or a link to a new file
    except (PermissionError, InvalidConfigError):
        raise
    except ValueError as error:  # a zero byte in the name
        raise InvalidConfigError(f"{path!r:.80} is not written: {error}") from None
    except OSError as error:
        raise InvalidConfigError(f"{name} is not written: {error.strerror}") from None
    return Path(os.path.realpath(name) if os.path.islink(name) else name)


@contextmanager
def replacing(path: Any, mode: int = 0o666) -> Generator[BinaryIO]:
    """Open a file for writing. When the block ends, the file replaces `path`. If the block fails, the file is removed.

    A new file has the mode `mode` without the umask's bits. A file that replaces another file has the mode of the
    replaced file. A symbolic link stays, and its target is replaced. Where the system supports files without a name, a
    process that is killed leaves no file. Elsewhere it leaves a file with the suffix .part, which is removed when the
    same target is written at least an hour later.

    Raises:
        InvalidConfigError: as for `target_of`.
        OSError: the folder does not exist, the disk is full, or there is no permission to write.

    >>> import tempfile
    >>> target = os.path.join(tempfile.mkdtemp(), "notes")
    >>> with replacing(target) as file:
    ...     _ = file.write(b"whole")
    >>> Path(target).read_bytes(), len(os.listdir(os.path.dirname(target)))
    (b'whole', 1)
    """
    target = target_of(path)
    for unfinished in unfinished_files(target.parent, target.name):
        with suppress(
            OSError
        ):  # another process may have removed the file, or the folder may forbid it
            unfinished.unlink()
    handle = _unnamed_file(target.parent, mode)
    with _named(target, mode) if handle is None else _unnamed(handle, target, mode) as file:
        yield file


def unfinished_files(folder: Path, name: str | None = None) -> list[Path]:
    """Return the unfinished files of this user in a folder that are more than an hour old.

    A process that ends before it has written a file leaves an unfinished file.

    Args:
        name: the name of the target that the files should have replaced. None means all targets.

    >>> unfinished_files(Path(), "notes")
    []
    """
    stem = ".*" if name is None else re.escape(_stem(name))
    pattern = re.compile(rf"{stem}\.[0-9a-f]{{16}}\.part", re.DOTALL)
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    unfinished: list[Path] = []
    with (
        suppress(OSError),
        os.scandir(folder) as entries,
    ):  # the folder may not exist, or may not be readable
        for entry in entries:
            if pattern.fullmatch(entry.name):
                with suppress(OSError):  # another process may have removed the file
                    about = entry.stat(follow_symlinks=False)
                    is_old = time.time() - about.st_mtime > STALE_SECONDS
                    if stat.S_ISREG(about.st_mode) and about.st_uid == user and is_old:
                        unfinished.append(folder / entry.name)
    return unfinished


def _stem(name: str) -> str:
    """Return the first characters of a target's name.

    The name of the unfinished file is longer than the stem, and must not be too long.
    """
    return name[:40]


def _temporary_path(target: Path) -> Path:
    """Return the path of an unfinished file in the target's folder.

    It contains a random part that no other process uses.
    """
    return target.with_name(f"{_stem(target.name)}.{secrets.token_hex(8)}.part")


@contextmanager
def _named(target: Path, mode: int) -> Generator[BinaryIO]:
    """Open an unfinished file beside the target. When the block ends, it replaces the target."""
    temporary = _temporary_path(target)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(temporary, flags, mode)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(target.parent)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            yield file
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _unnamed_file(folder: Path, mode: int) -> int | None:
    """Open a file without a name. Return None if the system or the folder's file system does not support such files."""
    if not hasattr(os, "O_TMPFILE") or os.link not in os.supports_dir_fd:
        return None
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE, mode)
    except OSError:  # Old kernels and some file systems lack O_TMPFILE. Other errors occur again for a named file.
        return None


@contextmanager
def _unnamed(handle: int, target: Path, mode: int) -> Generator[BinaryIO]:
    """Open the unnamed file `handle` for writing. When the block ends, the file gets the target's name."""
    try:
        with os.fdopen(os.dup(handle), "wb") as file:
            with suppress(FileNotFoundError):
                os.chmod(handle, stat.S_IMODE(target.stat().st_mode))
            yield file
        try:
            _name(handle, target)
        except (
            OSError
        ):  # a sandbox may forbid links or hide /proc; then the content is copied to a named file
            os.lseek(handle, 0, os.SEEK_SET)
            with _named(target, mode) as copy, os.fdopen(os.dup(handle), "rb") as file:
                shutil.copyfileobj(file, copy)
    finally:
        os.close(handle)


def _name(handle: int, target: Path) -> None:
    """Give an unnamed file the name of the target.

    A link cannot replace an existing target. If the target exists, the file is linked under another name, and renamed.
    """
    try:
        _link(handle, target)
    except FileExistsError:
        temporary = _temporary_path(target)
        try:
            _link(handle, temporary)
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _link(handle: int, path: Path) -> None:
    # os.link follows the symbolic link in /proc only if src_dir_fd is passed. For an absolute path, its value has no
    # effect.
    os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)


def _require_regular(path: Any, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
        raise InvalidConfigError(f"{path} is {what}, and no file")

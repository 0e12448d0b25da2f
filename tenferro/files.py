"""Files: only regular ones are read and replaced, and writing is atomic."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tenferro.errors import InvalidConfigError

__all__ = ["content_of", "reading", "replacing", "target_of"]


@contextmanager
def reading(path: Any) -> Generator[BinaryIO]:
    """A regular file to read from; a pipe or a device, which might never end, is not waited for.

    Raises:
        InvalidConfigError: what names no file; a folder, a pipe, a device, a socket; a name that is too long,
            links in a circle.
        OSError: the file does not exist, or may not be read.

    >>> with reading(__file__) as file:
    ...     len(file.read(3))
    3
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for whoever writes to it.
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except (FileNotFoundError, PermissionError):
        raise
    except (TypeError, ValueError) as error:  # no name, or a zero byte in it
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
    """Everything in a regular file.

    Raises:
        InvalidConfigError, OSError: as `reading`.
    """
    with reading(path) as file:
        return file.read()


def target_of(path: Any) -> Path:
    """The file that writing to `path` replaces or makes: the one that a symbolic link names, else `path` itself.

    Raises:
        InvalidConfigError: what names no file; a folder, a pipe, a device, a socket; a name that is too long,
            links in a circle.
        PermissionError: the folder may not be read.

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
        # Of the link, because those of /proc name pipes by what is no path.
        _require_regular(name, os.stat(name).st_mode)
    except FileNotFoundError:
        pass  # a new file, or a link to one
    except (PermissionError, InvalidConfigError):
        raise
    except ValueError as error:  # a zero byte in the name
        raise InvalidConfigError(f"{path!r:.80} is not written: {error}") from None
    except OSError as error:
        raise InvalidConfigError(f"{name} is not written: {error.strerror}") from None
    return Path(os.path.realpath(name) if os.path.islink(name) else name)


@contextmanager
def replacing(path: Any, mode: int = 0o666) -> Generator[BinaryIO]:
    """A file to write to; it replaces `path` when the block ends, and is removed if the block fails.

    A new file has `mode` without the umask's bits; one that replaces a file has that file's mode. A symbolic
    link stays, and the file that it names is replaced.

    Raises:
        InvalidConfigError: as `target_of`.
        OSError: the folder does not exist, the disk is full, or there is no permission to write.

    >>> import tempfile
    >>> target = os.path.join(tempfile.mkdtemp(), "notes")
    >>> with replacing(target) as file:
    ...     _ = file.write(b"whole")
    >>> Path(target).read_bytes(), len(os.listdir(os.path.dirname(target)))
    (b'whole', 1)
    """
    target = target_of(path)
    beside = target.with_name(f"{target.name[:40]}.{secrets.token_hex(8)}.part")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(beside, flags, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            with suppress(FileNotFoundError):
                beside.chmod(stat.S_IMODE(target.stat().st_mode))
            yield file
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def _require_regular(path: Any, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
        raise InvalidConfigError(f"{path} is {what}, and no file")

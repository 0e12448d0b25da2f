"""Files: only regular ones are read, and writing is atomic."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tenferro.errors import InvalidConfigError

__all__ = ["content_of", "reading", "replacing"]


@contextmanager
def reading(path: Any) -> Generator[BinaryIO]:
    """A regular file to read from; a pipe or a device, which might never end, is not waited for.

    Raises:
        InvalidConfigError: a folder, a pipe, a device, a socket; a name that is too long, links in a circle.
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
    except ValueError as error:  # a zero byte in the name
        raise InvalidConfigError(f"{path!r:.80} is not read: {error}") from None
    except OSError as error:
        raise InvalidConfigError(f"{path} is not read: {error.strerror}") from None
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
            raise InvalidConfigError(f"{path} is {what}, and no file")
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


@contextmanager
def replacing(path: Any, mode: int = 0o666) -> Generator[BinaryIO]:
    """A file to write to; it replaces `path` when the block ends, and is removed if the block fails.

    A new file has `mode` without the umask's bits; one that replaces a file has that file's mode.

    Raises:
        OSError: the folder does not exist, the disk is full, or there is no permission to write.

    >>> import tempfile
    >>> target = os.path.join(tempfile.mkdtemp(), "notes")
    >>> with replacing(target) as file:
    ...     _ = file.write(b"whole")
    >>> Path(target).read_bytes(), len(os.listdir(os.path.dirname(target)))
    (b'whole', 1)
    """
    target = Path(path)
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

"""Files that are whole or not there: written beside their place, and renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["replacing"]


@contextmanager
def replacing(path: Any) -> Generator[BinaryIO]:
    """A file to write to; it takes the place of `path` when the block ends, and goes if it fails.

    Raises:
        OSError: a folder that is not there, a full disk, or no right to write.

    >>> target = os.path.join(tempfile.mkdtemp(), "notes")
    >>> with replacing(target) as file:
    ...     _ = file.write(b"whole")
    >>> Path(target).read_bytes(), len(os.listdir(os.path.dirname(target)))
    (b'whole', 1)
    """
    target = Path(path)
    handle, beside = tempfile.mkstemp(prefix=target.name[:40], suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(beside, target)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise

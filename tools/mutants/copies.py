"""Copies of the tree: mutants never change the checkout itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["copy_tree"]

KEPT = {".hypothesis", "__pycache__"}
"""Folders that test runs create in a copy; `copy_tree` leaves them for later runs."""


def copy_tree(checkout: Path, copy: Path) -> None:
    """Make the copy equal to the checkout, except for files that git ignores.

    Files that are equal already are not written, so their cached bytecode remains valid.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=checkout, capture_output=True, check=True).stdout
    names = {name for name in listed.decode().split("\0") if name and (checkout / name).is_file()}
    for name in sorted(names):
        path, content = copy / name, (checkout / name).read_bytes()
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, path)
    for path in [path for path in copy.rglob("*") if path.is_file()]:
        relative = path.relative_to(copy)
        if str(relative) not in names and not KEPT & set(relative.parts):
            path.unlink()

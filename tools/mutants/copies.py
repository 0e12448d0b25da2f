"""Copies of the source tree. Mutants are written into the copies, and never into the checkout itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["copy_tree"]

KEPT = {".hypothesis", "__pycache__"}
"""Names of folders that test runs create in a copy. `copy_tree` does not remove them, because later runs use them."""


def copy_tree(checkout: Path, copy: Path) -> None:
    """Make the copy equal to the checkout, except for files that git ignores.

    Files whose content is equal are not written again, so that Python can use their cached bytecode.
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

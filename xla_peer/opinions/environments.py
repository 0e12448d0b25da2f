"""Virtual environments with compilers: a folder contains one environment for each release of a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tenferro.errors import InvalidConfigError, PlatformUnavailableError

__all__ = ["ENVIRONMENTS_VARIABLE", "Environments"]

ENVIRONMENTS_VARIABLE = "TENFERRO_ENVIRONMENTS"
"""Name of an environment variable with the default folder of the environments."""
COMPLETE = "complete"
"""Name of the file that marks an environment in which all packages were installed."""
SECONDS = 1800


class Environments:
    """Virtual environments in a folder, created at first use.

    `uv` creates environments if it is installed, or else `venv` and pip; both use the package index that the user has
    configured. An environment is used only after all its packages were installed. To free the disk space, remove the
    folder or call `clear`.

    Args:
        folder: the folder of the environments. By default it is the folder that the variable TENFERRO_ENVIRONMENTS
            names, or else `tenferro/environments` in the user's cache.
        python: the Python interpreter of the environments; by default the current one.

    >>> Environments("/tmp/environments").path(["jaxlib==0.9.2"]).name.startswith("jaxlib-0.9.2-py")
    True
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, python: str = "") -> None:
        chosen = folder or os.environ.get(ENVIRONMENTS_VARIABLE)
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.folder = Path(chosen or Path(cache) / "tenferro" / "environments").absolute()
        self.interpreter = python or sys.executable

    def path(self, packages: Sequence[str]) -> Path:
        """Return the path at which the environment with these packages exists or would be created."""
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        if self.interpreter != sys.executable:
            version = _output(
                [self.interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            )
        name = "-".join([*packages, f"py{version}"])
        return self.folder / name.replace("==", "-")

    def python(self, packages: Sequence[str]) -> str:
        """Return the interpreter of the environment with the given packages, which is created if it is missing.

        Args:
            packages: requirements such as `jaxlib==0.9.2`.

        Raises:
            InvalidConfigError: a requirement is not NAME==VERSION.
            PlatformUnavailableError: the environment cannot be created; the message ends with the installer's output.
        """
        for package in packages:
            name, _, version = package.partition("==")
            if not (name.replace("-", "").isalnum() and version.replace(".", "").isalnum()):
                raise InvalidConfigError(f"{package!r} is not NAME==VERSION")
        path = self.path(packages)
        python = path / ("Scripts" if os.name == "nt" else "bin") / "python"
        if (path / COMPLETE).exists() and python.exists():
            return str(python)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(path, ignore_errors=True)
        except OSError as error:
            raise PlatformUnavailableError(f"environments: {error}") from None
        for command in self._commands(path, python, packages):
            _output(command)
        (path / COMPLETE).write_text("\n".join(packages))
        return str(python)

    def _commands(self, path: Path, python: Path, packages: Sequence[str]) -> list[list[str]]:
        """Return the commands that create an environment and install the packages into it."""
        uv = shutil.which("uv")
        if uv is not None:
            return [
                [uv, "venv", "--quiet", "--python", self.interpreter, str(path)],
                [uv, "pip", "install", "--quiet", "--python", str(python), *packages],
            ]
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        return [[self.interpreter, "-m", "venv", str(path)], [*install, *packages]]

    def versions(self, package: str) -> list[str]:
        """Return the releases of a package that pip finds for the interpreter, the oldest first.

        Raises:
            PlatformUnavailableError: pip fails.
        """
        text = _output([self.interpreter, "-m", "pip", "index", "versions", package])
        line = next((x for x in text.splitlines() if x.startswith("Available versions:")), "")
        listed = [version.strip() for version in line.partition(":")[2].split(",")]
        return [version for version in reversed(listed) if version]

    def clear(self) -> None:
        """Remove all environments in the folder."""
        if not self.folder.exists():
            return
        for path in self.folder.iterdir():
            if (path / COMPLETE).exists() or (path / "pyvenv.cfg").exists():
                shutil.rmtree(path)


def _output(command: list[str]) -> str:
    """Run a command, and return its standard output.

    Raises:
        PlatformUnavailableError: the command fails, takes too long, or does not start.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlatformUnavailableError(f"environments: {error}") from None
    if done.returncode:
        words = [line for line in done.stderr.splitlines() if line.strip()][-3:]
        raise PlatformUnavailableError(
            f"environments: {' '.join(command)} fails with status {done.returncode}:\n  "
            + "\n  ".join(words or ["no words"])
        )
    return done.stdout.strip()

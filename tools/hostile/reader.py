"""Child process that reads mutants. Each line of its input has a kind and a path; it answers with a line of JSON."""

from __future__ import annotations

import json
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tenferro.errors import TenferroError
from tools.hostile.doors import DOORS

MEMORY = 1 << 30
"""Address space, in bytes, that the process may add while it reads one file."""


def outcome_of(door: Callable[[Path], None], path: Path) -> tuple[str, str]:
    """Return the outcome of reading a file, and its message.

    The outcome is `loaded`, `ours` for an error of tenferro, `memory` if memory was exhausted, or `foreign` for any
    other exception.
    """
    try:
        door(path)
    except BaseException as error:
        is_memory = _is_exhausted(error)
        is_ours = isinstance(error, TenferroError | FileNotFoundError)
        kind = "memory" if is_memory else "ours" if is_ours else "foreign"
        place = traceback.extract_tb(error.__traceback__)[-1]
        words = f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()
        return kind, f"{words[:300]} ({Path(place.filename).name}:{place.lineno})"
    return "loaded", ""


def _is_exhausted(error: BaseException | None) -> bool:
    """Tell whether an error was caused by exhausted memory.

    Two kinds of MemoryError do not count: NumPy raises one for an impossible size before it allocates, and Python's
    parser raises one for deep nesting.
    """
    while error is not None:
        if isinstance(error, MemoryError) and "Unable to allocate" not in str(error):
            place = traceback.extract_tb(error.__traceback__)[-1]
            if Path(place.filename).name != "ast.py":
                return True
        error = error.__cause__ or error.__context__
    return False


def main() -> None:
    """Read requests from standard input and print the answers, until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        kind, path = json.loads(line)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        outcome = outcome_of(DOORS[kind], Path(path))
        sys.stdout.write(json.dumps(outcome) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

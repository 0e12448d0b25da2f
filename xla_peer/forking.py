"""Protection of child processes that `os.fork` creates. PJRT's threads do not exist in a child, so a call would hang.

In the child, executors and executables that were created before the fork raise errors. If the parent had started
jax's client, new executors also raise errors. The "spawn" and "forkserver" methods of `multiprocessing` are not
affected.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn, Protocol
from weakref import WeakSet

from tenferro.errors import PlatformUnavailableError

__all__ = ["forked", "refuse", "require_own_client", "watch"]


class Forkable(Protocol):
    """Protocol of objects with state of their process, such as PJRT clients, which a forked child must drop."""

    def abandon(self) -> None:
        """Drop the state of the parent; called in the child."""
        ...


_living: WeakSet[Any] = WeakSet()
_inherited: list[str] = []


def watch(owner: Forkable) -> None:
    """Call `owner.abandon()` in every child that is forked during the owner's lifetime."""
    _living.add(owner)


def forked() -> bool:
    """Return whether this process was forked from a process that had a PJRT client."""
    return bool(_inherited)


def require_own_client() -> None:
    """Raise PlatformUnavailableError in a process whose PJRT client belongs to its parent.

    Raises:
        PlatformUnavailableError: this process was forked after jax had started its client.
    """
    if forked():
        refuse()


def refuse(*arguments: Any) -> NoReturn:
    """Raise the error of a call in a forked child; there, this function replaces the functions of executors."""
    raise PlatformUnavailableError(
        "this process was forked from one in which PJRT was running, and PJRT's threads are not here; "
        'fork before the first XlaExecutor, or start processes with multiprocessing\'s "spawn"'
    )


def _in_child() -> None:
    bridge = sys.modules.get("jax._src.xla_bridge")
    started = getattr(bridge, "backends_are_initialized", None)
    if len(_living) or (started is not None and started()):
        _inherited.append("client")
    for owner in list(_living):
        owner.abandon()


os.register_at_fork(after_in_child=_in_child)

"""Errors of programs, such as a crash of XLA's compiler, which are shrunk like divergences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lowering import lower_to_stablehlo
from tenferro.errors import BackendFailureError, TenferroError
from tenferro.types import unflatten
from xla_peer.parity.reproduction import save_reproduction
from xla_peer.parity.shrinking import Case, shrunk

__all__ = ["saved_failure", "smallest_failure"]


def smallest_failure(case: Case, error: Exception, peer: Any) -> Case:
    """Find a smaller case on which the peer raises the same kind of error; the same case if the error has another cause."""

    def fails(candidate: Case) -> bool:
        try:
            peer.run(candidate.program, *unflatten(candidate.program.in_tree, candidate.leaves))
        except BackendFailureError as other:
            return type(other) is type(error)
        return False

    if not isinstance(error, BackendFailureError) or not fails(case):
        return case
    static = case.program.specialize_to(case.leaves)
    return shrunk(Case(static, case.leaves), fails)


def saved_failure(case: Case, folder: Path) -> str:
    """Write the program, its arrays and its text, if any; return the folder.

    Raises:
        OSError: the folder cannot be made or written.
    """
    try:
        text = lower_to_stablehlo(case.program.specialize_to(case.leaves)).text
    except TenferroError:
        text = None  # because lowering itself may fail
    return str(save_reproduction(folder, case.program, case.leaves, text))

"""Reduction of programs that raise errors, such as a crash of XLA's compiler, and files that reproduce them."""

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
    """Return a smaller case on which the peer raises the same kind of error, or the same case if there is none."""

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
    """Write the program, its arrays, and its StableHLO text if it can be lowered; return the folder's path.

    Raises:
        OSError: the folder cannot be created, or a file in it cannot be written.
    """
    try:
        text = lower_to_stablehlo(case.program.specialize_to(case.leaves)).text
    except TenferroError:
        text = None  # lowering the program raises the error
    return str(save_reproduction(folder, case.program, case.leaves, text))

"""`tenferro coverage`: which op takes which dtype, and what is known of it, read off the columns."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lowering.emit import EMITTERS
from tenferro.ad.rules import AD_RULES
from tenferro.exec.kernels import KERNELS
from tenferro.ops import STD_OPS
from tenferro.types import DType

__all__ = ["OpSupport", "supported"]


@dataclass(frozen=True)
class OpSupport:
    """One op.

    Attributes:
        dtypes: of the operand that decides.
        family: the file that holds it in every folder.
        native, stablehlo: it has a kernel, an emitter.
        tangent: "rule", or "inactive" where no derivative passes.
        transpose: "rule", or "" where tangents are made of ops that have one.
        note: why, where there is more to say.
    """

    op: str
    family: str
    dtypes: tuple[str, ...]
    native: bool
    stablehlo: bool
    tangent: str
    transpose: str
    note: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)


def supported() -> list[OpSupport]:
    """Every op of the vocabulary, in its order."""
    return [
        OpSupport(
            op=card.__name__,
            family=card.__module__.rpartition(".")[2],
            dtypes=tuple([dtype.short for dtype in DType if dtype in card.accepts]),
            native=card in KERNELS,
            stablehlo=card in EMITTERS,
            tangent="rule" if AD_RULES[card].jvp is not None else "inactive",
            transpose="rule" if AD_RULES[card].transpose is not None else "",
            note=AD_RULES[card].reason,
        )
        for card in STD_OPS
    ]

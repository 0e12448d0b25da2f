"""Functions that StableHLO lacks, as private functions of plain StableHLO.

The expansions are StableHLO's own, kept as templates in `emit/chlo/`, so that writing text needs no
jaxlib. `python tools/chlo_templates.py` writes them anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import resources

__all__ = ["chlo_function"]


@lru_cache(maxsize=64)
def _template(file: str) -> str:
    return resources.files("lowering.emit").joinpath("chlo", file).read_text()


def chlo_function(
    name: str, element: str, shape: Sequence[int], symbol: str, operands: int = 1
) -> str:
    """`func.func private @symbol` that computes chlo.`name` on tensors of that type.

    >>> print(chlo_function("erf", "f64", (2,), "erf_0").splitlines()[0])
      func.func private @erf_0(%arg0: tensor<2xf64>) -> tensor<2xf64> {
    """
    file = f"{name}_{element.strip('>').replace('<', '_')}.mlir"
    extents = "".join(f"{extent}x" for extent in shape)
    body = _template(file).split("\n", 1)[1].replace("SHAPE", extents)
    kind = f"tensor<{extents}{element}>"
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    takes = ", ".join(f"%arg{index}: {kind}" for index in range(operands))
    return f"  func.func private @{symbol}({takes}) -> {kind} {{\n{lines}\n  }}\n"

"""Mathematical functions that StableHLO lacks, such as `erf`, written as private functions of StableHLO operations.

The bodies of these functions are the output of StableHLO's own passes for the CHLO dialect. They are stored as
templates in `emit/chlo/`, so that writing text needs no jaxlib. `python tools/chlo_templates.py` regenerates the
templates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

__all__ = ["chlo_function"]

_CONSTANT = re.compile(r"(%\w+) = stablehlo\.constant (dense<.*>) : tensor<SHAPE(.*)>")


@lru_cache(maxsize=64)
def _template(file: str) -> str:
    return resources.files("lowering.emit").joinpath("chlo", file).read_text()


def chlo_function(name: str, element: str, shape: Sequence[Any], symbol: str) -> str:
    """Return the text of a private function `@symbol` that computes the CHLO operation `name` for one tensor type.

    The tensor type has the element type `element`, such as "f64", and the shape `shape`. If an extent is symbolic, the
    function's first arguments are all extents, as scalars of i64. Its constants are then broadcast to the shape at run
    time.

    >>> print(chlo_function("erf", "f64", (2,), "erf_0").splitlines()[0])
      func.func private @erf_0(%arg0: tensor<2xf64>) -> tensor<2xf64> {
    """
    file = f"{name}_{element.strip('>').replace('<', '_')}.mlir"
    is_static = all(isinstance(extent, int) for extent in shape)
    extents = "".join(f"{extent}x" if isinstance(extent, int) else "?x" for extent in shape)
    body = _template(file).split("\n", 1)[1]
    count = 2 if "%arg1" in body else 1
    takes = [f"%arg{n}: tensor<{extents}{element}>" for n in range(count)]
    if not is_static:
        # The extents come first, because StableHLO's shape refinement accepts only leading scalars as extents.
        takes = [f"%n{axis}: tensor<i64>" for axis in range(len(shape))] + takes
        body = _shape_vector(len(shape)) + _CONSTANT.sub(
            r"\1_one = stablehlo.constant \2 : tensor<\3>\n"
            r"\1 = stablehlo.dynamic_broadcast_in_dim \1_one, %shape, dims = [] : "
            rf"(tensor<\3>, tensor<{len(shape)}xi64>) -> tensor<SHAPE\3>",
            body,
        )
    body = body.replace("SHAPE", extents)
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    head = f"func.func private @{symbol}({', '.join(takes)}) -> tensor<{extents}{element}>"
    return f"  {head} {{\n{lines}\n  }}\n"


def _shape_vector(rank: int) -> str:
    """Return StableHLO text that concatenates the scalar extents %n0, %n1, .. to the vector %shape."""
    lines = [
        f"%s{axis} = stablehlo.reshape %n{axis} : (tensor<i64>) -> tensor<1xi64>"
        for axis in range(rank)
    ]
    parts = ", ".join(f"%s{axis}" for axis in range(rank))
    types = ", ".join(["tensor<1xi64>"] * rank)
    lines.append(
        f"%shape = stablehlo.concatenate {parts}, dim = 0 : ({types}) -> tensor<{rank}xi64>"
    )
    return "\n".join(lines) + "\n"

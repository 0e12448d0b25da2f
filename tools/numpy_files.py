"""Write docs/numpy_files.md: examples of programs that are exported as Python files that need only NumPy.

python tools/numpy_files.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tenferro as tnf
import xla_peer

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "numpy_files.md"
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "examples" / "tropical")]

import digits  # noqa: E402  # because the examples are not a package
import ode_fit  # noqa: E402  # likewise
from tenferro_ext_tropical.paths import shortest_paths  # noqa: E402  # likewise

TOP = """# Programs as NumPy files

This page shows three complete files that `xla_peer.export(.., format="numpy")` [wrote](travel.md). Each file needs NumPy alone.
`python tools/numpy_files.py` writes this page.
"""
NODES = 4


def misfit(rates: Any, data: Any) -> Any:
    """Return the sum of the squared relative differences between the data and the solution with these rates."""
    states = ode_fit.solution(rates)[ode_fit.EVERY - 1 :: ode_fit.EVERY]
    return tnf.sum(((states - data) / data) ** 2)


def length(lengths: Any) -> Any:
    """Return the length of the shortest path from the first node of a graph to its last node."""
    return shortest_paths(lengths)[0, -1]


def section(title: str, text: str, function: Callable[..., Any], *specs: Any) -> str:
    """Return a section of the page: a title, a text, and the function exported as a NumPy file."""
    source = xla_peer.export(function, *specs, format="numpy").text
    source = re.sub(r"Written by tenferro \S+;", "Written by tenferro;", source)
    return f"\n## {title}\n\n{text}\n\n```py\n{source.rstrip()}\n```\n"


def page() -> str:
    """Return the text of docs/numpy_files.md."""
    spec = tnf.TensorSpec
    weights, _, _ = digits.load()
    rates = dict.fromkeys(ode_fit.TRUTH, spec((), "float64"))
    states = spec((ode_fit.STEPS // ode_fit.EVERY, 2), "float64")
    return TOP + "".join(
        [
            section(
                "A classifier of digits",
                "The file computes the forward pass of [examples/digits.py](../examples/digits.py), for any number `n` of images.",
                digits.probabilities,
                weights,
                spec(("n", 64), "uint8"),
            ),
            section(
                "A shortest path, and the roads that it takes",
                f"The file computes the length of the path among {NODES} nodes, by powers of a matrix in the min-plus algebra "
                "of `examples/tropical`. The gradient of the length is 1 at each edge of the path.",
                tnf.value_and_grad(length),
                spec((NODES, NODES), "float64"),
            ),
            section(
                "The fit of a differential equation, and its gradient",
                "The file computes the misfit of [examples/ode_fit.py](../examples/ode_fit.py), and its gradient by reverse "
                "mode through the 300 steps of Runge and Kutta's method.",
                tnf.value_and_grad(misfit),
                rates,
                states,
            ),
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())

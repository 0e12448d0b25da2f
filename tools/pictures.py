"""Draw docs/images: the pages of docs/seeing.md's program and a parity report, as a browser shows them.

python tools/pictures.py
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from browser import BROWSER, shown

import tenferro as tnf
from lowering import lower_to_stablehlo
from tenferro.types import unflatten
from xla_peer import ParityReport, XlaExecutor, check_parity

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"


def shot(page: str, name: str, width: int, height: int) -> None:
    """Write one picture."""
    if BROWSER is None:
        raise SystemExit("pictures: chromium is not installed")
    with tempfile.TemporaryDirectory() as folder:
        size, target = f"--window-size={width},{height}", f"--screenshot={IMAGES / name}"
        shown(page, Path(folder), size, target)
    print(f"{name}: {(IMAGES / name).stat().st_size} bytes")


class FaultyCompiler:
    """A peer that takes every tanh for a sine, for a picture of what is said then."""

    platform = "a faulty compiler"

    def __init__(self) -> None:
        self.xla = XlaExecutor()

    def run(self, program: Any, *arrays: Any) -> Any:
        """As an executor does."""
        module = lower_to_stablehlo(program)
        text = module.text.replace("stablehlo.tanh", "stablehlo.sine")
        executable = self.xla.compile_module(replace(module, text=text))
        leaves = [self.xla.put(leaf) for leaf in program.check_arguments(arrays)]
        return unflatten(program.out_tree, [self.xla.get(y) for y in executable(*leaves)])


# Under a name of its own, because the picture shows the line.
MODEL = """
def attention(q, k, v):
    weights = tnf.softmax(q @ k.T / 4)
    mixed = weights @ v
    return {"weights": weights, "mixed": tnf.tanh(mixed)}
"""


def verdict() -> ParityReport:
    """A report that finds a planted fault."""
    q, k, v = np.random.default_rng(0).normal(size=(3, 8, 16)).astype("float32")
    names: dict[str, Any] = {"tnf": tnf}
    exec(compile(MODEL, "model.py", "exec"), names)
    return check_parity(names["attention"], q, k, v, executor=FaultyCompiler())


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs/seeing.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    for block in code[:1]:
        exec(compile(block, "seeing.md", "exec"), names)
    step, w, x = names["step"], names["w"], names["x"]
    shot(step.to_html(), "program.png", 980, 760)
    shot(step.profile(w, x).to_html(), "profile.png", 980, 760)
    shot(verdict().to_html(), "parity.png", 1180, 215)


if __name__ == "__main__":
    main()

"""Draw docs/images: the pages of docs/seeing.md's program and a parity report, as a browser shows them.

python tools/pictures.py
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from browser import BROWSER, shown

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


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs/seeing.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    for block in code[:1]:
        exec(compile(block, "seeing.md", "exec"), names)
    step, w, x = names["step"], names["w"], names["x"]
    shot(step.to_html(), "program.png", 980, 760)
    shot(step.profile(w, x).to_html(), "profile.png", 980, 760)


if __name__ == "__main__":
    main()

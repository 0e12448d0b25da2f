"""Draw docs/images in a browser: the web pages that docs/seeing.md shows, and the tops of README.md and of the site.

python tools/pictures.py             draws all pictures; first build the site in build/docs by `make docs`
python tools/pictures.py --screens   draws only README.md and the site, at the sizes of two screens
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from browser import BROWSER, shown
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"


def shot(page: str, name: str, width: int, height: int, *options: str) -> None:
    """Write a screenshot of a page to docs/images; `options` are further command-line options of the browser."""
    if BROWSER is None:
        raise SystemExit("pictures: chromium is not installed")
    with tempfile.TemporaryDirectory() as folder:
        size, target = f"--window-size={width},{height}", f"--screenshot={IMAGES / name}"
        shown(page, Path(folder), size, target, *options)
    print(f"{name}: {(IMAGES / name).stat().st_size} bytes")


SCREENS = {1280: 800, 390: 844}
"""Height for each width of a screen, in pixels: a desktop computer's and a telephone's."""
STYLE = """body { font: 16px/1.5 -apple-system, Segoe UI, Helvetica, Arial, sans-serif; margin: 0 auto; max-width: 900px;
padding: 16px; } pre { background: #f6f8fa; padding: 16px; overflow: auto; font-size: 85%; } code { font-size: 85%; }
img { max-width: 100%; } table { border-collapse: collapse; display: block; overflow: auto; }
td, th { border: 1px solid #d1d9e0; padding: 6px 13px; }"""
"""Style sheet that imitates sites that show README files: wide tables and code blocks scroll horizontally."""


def screens() -> None:
    """Draw the tops of README.md and of the site, once for each size of screen."""
    site = ROOT / "build" / "docs" / "index.html"
    text = MarkdownIt("commonmark").enable("table").render((ROOT / "README.md").read_text())
    meta = "<meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    (IMAGES / "screens").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        readme = Path(folder) / "readme.html"
        readme.write_text(f"{meta}<base href='{ROOT.as_uri()}/'><style>{STYLE}</style>{text}")
        for name, page in (("readme", readme), ("site", site)):
            for width, height in SCREENS.items():
                # Show the page in a frame, because a browser window cannot be as narrow as a telephone's screen.
                frame = (
                    f"<body style='margin:0'><iframe src='{page.as_uri()}' width={width} height={height}"
                    " style='border:0'></iframe>"
                )
                files = "--allow-file-access-from-files"
                shot(frame, f"screens/{name}-{width}.png", width, height, files)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    screens()
    if "--screens" in sys.argv:
        return
    code = re.findall(r"```python\n(.*?)```", (ROOT / "docs/seeing.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    for block in code[:1]:
        exec(compile(block, "seeing.md", "exec"), names)
    step, w, x = names["step"], names["w"], names["x"]
    shot(step.to_html(), "program.png", 980, 760)
    shot(step.profile(w, x).to_html(), "profile.png", 980, 760)


if __name__ == "__main__":
    main()

"""Draw docs/images/floors.svg, a picture of the layers of the packages.

The layers are those of the import contracts in pyproject.toml; the texts are the first lines of the docstrings.

python tools/floors.py [--check]
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "floors.svg"
WIDTH, HEIGHT, GAP, MARGIN = 900, 34, 6, 16
COLOURS = {"xla_peer": "#d7e3f4", "lowering": "#dcecd9", "tenferro": "#f6ead2"}


@dataclass(frozen=True)
class Room:
    """A package or module in the picture, and the first line of its docstring."""

    module: str
    text: str

    @property
    def package(self) -> str:
        """Top-level package of the module, such as `tenferro`."""
        return self.module.partition(".")[0]


def room(module: str) -> Room:
    """Return the module with the first line of its docstring; a prefix that ends with a colon is removed."""
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    first = (ast.get_docstring(ast.parse(file.read_text())) or "").splitlines()[0]
    text = re.sub(r"`", "", first).rstrip(".").partition(": ")
    return Room(module, (text[2] or text[0]).strip())


def floors() -> list[list[Room]]:
    """Return the packages of each layer, from top to bottom.

    Packages of one layer do not import each other. The lowest layer is the module that defines the errors.
    """
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    layers = {
        contract["name"]: contract["layers"] for contract in contracts if "layers" in contract
    }
    above = [
        name for name in layers["xla_peer above lowering above tenferro"] if name != "tenferro"
    ]
    names = [*above, *layers["The layers of tenferro"]]
    rows = [[each.strip(" ()") for each in floor.split("|")] for floor in names]
    rows = [[each for each in row if (ROOT / each.replace(".", "/")).is_dir()] for row in rows]
    return [[room(each) for each in row] for row in [*rows, ["tenferro.errors"]] if row]


def picture() -> str:
    """Return the SVG text of the picture."""
    rows = floors()
    height = len(rows) * (HEIGHT + GAP) + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-label="The floors of the packages, from the top down" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, row in enumerate(rows):
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        y = MARGIN + number * (HEIGHT + GAP)
        for place, each in enumerate(row):
            x = MARGIN + place * (width + GAP)
            lines.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" rx="4" '
                f'fill="{COLOURS[each.package]}" stroke="#888"/>'
            )
            name = each.module.removeprefix("tenferro.")
            lines.append(
                f'<text x="{x + 12:.1f}" y="{y + 22}" font-size="14" font-weight="bold">{escape(name)}</text>'
            )
            indent = 135 if len(row) == 1 else 80
            room_for = int((width - indent - 12) / 6.2)
            text = each.text if len(each.text) <= room_for else each.text[: room_for - 1] + "…"
            lines.append(
                f'<text x="{x + indent:.1f}" y="{y + 22}" font-size="12" fill="#333">{escape(text)}</text>'
            )
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Write the picture; with `--check`, exit with a message if the existing picture differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        if not PICTURE.exists() or PICTURE.read_text() != picture():
            sys.exit(
                "docs/images/floors.svg is not what tools/floors.py draws: python tools/floors.py"
            )
    else:
        PICTURE.write_text(picture())


if __name__ == "__main__":
    main()

"""Parsers of command line options that describe meshes, cuts and speeds of links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tenferro.errors import InvalidConfigError

__all__ = ["read_cuts", "read_links", "read_mesh"]

UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SPEED = re.compile(r"([\d.]+(?:e\d+)?) ?([kMGT]?)(B|bit|b)(?:/s|ps)")


def read_mesh(text: str) -> dict[str, int]:
    """Parse the option `--mesh`, and return the sizes of the mesh's axes by name.

    >>> read_mesh("data=64,model=8")
    {'data': 64, 'model': 8}

    Raises:
        InvalidConfigError: the text is not a list of NAME=SIZE.
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and size.isdigit() and int(size) for name, _, size in pairs):
        raise InvalidConfigError(
            f"--mesh {text or '(missing)'}: expected sizes such as data=64,model=8"
        )
    return {name: int(size) for name, _, size in pairs}


def read_cuts(words: Sequence[str]) -> dict[str, list[Any]]:
    """Parse the option `--cut`, and return the entries of a `PartitionSpec` for each input or result that it names.

    >>> read_cuts(["x=data", "w=-,model", "table=data+model"])
    {'x': ['data'], 'w': [None, 'model'], 'table': [['data', 'model']]}

    Raises:
        InvalidConfigError: a word is not NAME=AXES.
    """
    cuts: dict[str, list[Any]] = {}
    for word in words:
        name, equals, axes = word.rpartition("=")
        if not equals or not name or not axes:
            raise InvalidConfigError(
                f"--cut {word}: expected NAME=AXES, such as x=data or w=-,model"
            )
        cuts[name] = [
            None if axis == "-" else axis.split("+") if "+" in axis else axis
            for axis in axes.split(",")
        ]
    return cuts


def read_links(words: Sequence[str]) -> float | dict[str, float] | None:
    """Parse speeds of links between devices, and return bytes per second: one number, or a number for each mesh axis.

    Return None if there are no words.

    >>> read_links(["100GB/s"]), read_links(["data=400Gbit/s", "model=900GB/s"]), read_links([])
    (100000000000.0, {'data': 50000000000.0, 'model': 900000000000.0}, None)

    Raises:
        InvalidConfigError: a word is not a speed, or only some words name an axis.
    """
    speeds: dict[str, float] = {}
    for word in words:
        axis, _, speed = word.rpartition("=")
        match = SPEED.fullmatch(speed)
        if match is None or (not axis and len(words) > 1):
            raise InvalidConfigError(
                f"--link {word}: expected a speed such as 100GB/s, or data=100GB/s"
            )
        scale = 1.0 if match[3] == "B" else 0.125
        speeds[axis] = float(match[1]) * UNITS[match[2]] * scale
    return speeds.get("") or speeds or None

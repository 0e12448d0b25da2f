"""Write the tables of docs/platforms.md from the files that define which platforms and versions are supported.

    python tools/support.py             writes the tables
    python tools/support.py --check     fails if the page has other tables

Versions are read from pyproject.toml and from the target `oldest-environment` of the Makefile, processors from
tools/portability.py. The tests that other systems skip are read from tests/selections/systems.toml.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "platforms.md"
BLOCK = re.compile(r"<!-- support -->\n.*?<!-- end -->\n", re.DOTALL)
NAMES = {"numpy": "NumPy", "scipy": "SciPy", "jax": "jax and jaxlib", "llvmlite": "llvmlite"}


def project() -> dict[str, Any]:
    """Parse pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirement(name: str) -> str:
    """Return the condition on the versions of a package in pyproject.toml, such as ">=2.1"."""
    table = project()["project"]
    lists = [table["dependencies"], *table["optional-dependencies"].values()]
    for each in (text for texts in lists for text in texts):
        if match := re.match(rf"{name}\s*([<>=!][^;]*)", each.strip()):
            return match[1].strip()
    raise ValueError(f"pyproject.toml requires no {name}")


def bounds(specifier: str) -> tuple[str, str, list[str]]:
    """Return the lowest supported version, the lowest newer version that is unsupported, and the excluded versions.

    The second value is "" if no newer version is excluded.

    >>> bounds(">=0.8,<0.13,!=0.10.2")
    ('0.8', '0.13', ['0.10.2'])
    """
    parts = [part.strip() for part in specifier.split(",")]
    lowest = next(part[2:] for part in parts if part.startswith(">="))
    above = next((part[1:] for part in parts if re.match(r"<[^=]", part)), "")
    return lowest, above, [part[2:] for part in parts if part.startswith("!=")]


def previous(version: str) -> str:
    """Return the preceding minor version.

    >>> previous("0.13")
    '0.12'
    """
    major, minor = version.split(".")[:2]
    return f"{major}.{int(minor) - 1}"


def pythons() -> list[str]:
    """Return the supported versions of Python, the oldest first, as the classifiers in pyproject.toml state them."""
    prefix = "Programming Language :: Python :: "
    listed = [
        each.removeprefix(prefix) for each in project()["project"]["classifiers"] if prefix in each
    ]
    return sorted((each for each in listed if "." in each), key=lambda v: int(v.split(".")[1]))


def versions() -> list[str]:
    """Return the table rows with the versions of Python and of the libraries."""
    newest = project()["tool"]["tenferro"]["newest"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    tried = dict(
        re.findall(
            r"'(\w+)==([\d.]+?)(?:\.\*)?'", makefile[makefile.index("oldest-environment: ##") :]
        )
    )
    every = pythons()
    rows = [
        "| | oldest | newest | tried by `make oldest` |",
        "| --- | --- | --- | --- |",
        f"| Python | {every[0]} | {every[-1]} | 3.11 or 3.12 |",
    ]
    for name, title in NAMES.items():
        lowest, above, excluded = bounds(requirement(name))
        last = previous(above) if above and name not in newest else newest[name]
        without = f", without {' and '.join(sorted(excluded))}" if excluded else ""
        rows.append(f"| {title} | {lowest} | {last}{without} | {tried[name]} |")
    return rows


def systems() -> list[str]:
    """Return the table rows of the operating systems.

    Each row has the numbers of test files and test functions that the system skips.
    """
    declared = tomllib.loads(
        (ROOT / "tests" / "selections" / "systems.toml").read_text(encoding="utf-8")
    )
    skipped = {
        kind: Counter("function" if "::" in name else "file" for name in names)
        for kind, names in declared.items()
    }

    def told(*kinds: str) -> str:
        count: Counter[str] = sum((skipped[kind] for kind in kinds), Counter())
        tests = "one test" if count["function"] == 1 else f"{count['function']} tests"
        return f"the core, without {count['file']} files and {tests} of `tests/selections/systems.toml`"

    return [
        "| system | tests |",
        "| --- | --- |",
        "| Linux, x86-64 | all, by `.ci/run` |",
        f"| macOS, ARM | {told('linux')} |",
        f"| Windows, x86-64 | {told('linux', 'posix')} |",
    ]


def processors() -> list[str]:
    """Return the table rows of the processors, from the settings in tools/portability.py."""
    tree = ast.parse((ROOT / "tools" / "portability.py").read_text(encoding="utf-8"))
    settings = [
        [ast.literal_eval(argument) for argument in node.args[:3]]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Setting"
    ]
    return [
        "| processor | LLVM's name | XLA's instruction set |",
        "| --- | --- | --- |",
        *[f"| {name} | {llvm} | {xla} |" for name, llvm, xla in settings],
    ]


def text() -> str:
    """Return the generated part of the page, which begins and ends with an HTML comment."""
    tables = [
        "\n".join(versions()),
        "The workflow in `.github/workflows/ci.yml` runs the tests on three systems:",
        "\n".join(systems()),
        "`make portability` runs the tests that depend on the processor as if on each of these:",
        "\n".join(processors()),
    ]
    return "<!-- support -->\n" + "\n\n".join(tables) + "\n<!-- end -->\n"


def main() -> None:
    """Write the tables; with `--check`, compare them with the page instead."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    page = PAGE.read_text(encoding="utf-8")
    written = BLOCK.sub(lambda _: text(), page)
    if parser.parse_args().check:
        if written != page:
            sys.exit("docs/platforms.md is not up to date: python tools/support.py")
    else:
        PAGE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()

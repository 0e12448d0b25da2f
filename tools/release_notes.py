"""Write the release notes of a version from the files in changes/ (fragments), by towncrier's conventions.

    python tools/release_notes.py           prints a draft of the next version's notes
    python tools/release_notes.py --check   checks the fragments, and the files that state the version
    python tools/release_notes.py --write   moves the fragments into CHANGELOG.md, and dates CITATION.cff
    python tools/release_notes.py --tag     commits the notes and tags the version, without pushing

Each fragment describes one change. It is a file `<area>-<slug>.<kind>.md` with one or two sentences, and contains no
measurement. `make release` checks the fragments, writes the notes, builds the distributions, and tags the version.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = {
    "added": "What you can do now",
    "changed": "What changed for you",
    "fixed": "What was wrong",
}
"""Heading of the notes for each kind of fragment."""
MAX_LINES = 40
MAX_SENTENCES = 2
NAME = re.compile(r"[a-z0-9_]+(?:-[a-z0-9_]+)*\.(?:added|changed|fixed)\.md")
MARK = "<!-- notes -->\n"
"""Comment in CHANGELOG.md below which new notes are inserted."""
MEASUREMENT = re.compile(
    r"\b\d+(?:\.\d+)?\s*(?:ns|us|µs|ms|s|seconds?|minutes?|kB|MB|GB|%|x faster|times (?:faster|slower))(?!\w)"
    r"|\b0\.\d+ of\b|\btakes? (?:half|a (?:third|quarter|fifth|tenth)) ",
    re.IGNORECASE,
)


def fragments(root: Path = ROOT) -> list[Path]:
    """Return the paths of the fragments, sorted by name, which begins with the area."""
    return sorted(path for path in (root / "changes").iterdir() if path.name != "README.md")


def problems(name: str, text: str) -> Iterator[str]:
    """Yield each way in which a fragment breaks the rules.

    >>> list(problems("ad-loops.added.md", "Differentiate loops."))
    []
    >>> list(problems("ad-loops.added.md", "Loops take 3 ms."))
    ['ad-loops.added.md: "3 ms" is a measurement: it belongs to a page or a commit body']
    """
    if not NAME.fullmatch(name):
        yield f"{name}: expected <area>-<slug>.{{added,changed,fixed}}.md"
    body = " ".join(text.split())
    prose = re.sub(r"`[^`]*`", "_", body)
    if not body:
        yield f"{name}: empty"
    elif body[-1] not in ".!?`)" or body.startswith(("-", "*", "#")):
        yield f"{name}: expected sentences, without a bullet or a heading"
    if len(re.findall(r"[.!?](?=\s+[A-Z`_]|$)", prose)) > MAX_SENTENCES:
        yield f"{name}: expected at most {MAX_SENTENCES} sentences"
    if match := MEASUREMENT.search(prose):
        yield f'{name}: "{match[0]}" is a measurement: it belongs to a page or a commit body'


def notes(version: str, date: str, root: Path = ROOT) -> str:
    """Return the section of a version for CHANGELOG.md; each kind that has fragments gets a heading."""
    lines = [f"## {version} ({date})"]
    for kind, heading in KINDS.items():
        items = [path for path in fragments(root) if path.name.endswith(f".{kind}.md")]
        if items:
            lines += ["", f"### {heading}", ""]
            lines += [f"- {' '.join(path.read_text(encoding='utf-8').split())}" for path in items]
    return "\n".join(lines) + "\n"


def version_of(root: Path = ROOT) -> str:
    """Read the version of the package from its source."""
    source = (root / "tenferro" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', source, re.MULTILINE)
    if match is None:
        raise SystemExit('tenferro/__init__.py: expected a line __version__ = ".."')
    return match[1]


def check(root: Path = ROOT) -> list[str]:
    """Return a message for each violation of the rules for fragments, and for each file that states another version."""
    lines = [
        line
        for path in fragments(root)
        for line in problems(path.name, path.read_text(encoding="utf-8"))
    ]
    version = version_of(root)
    if f"\nversion: {version}\n" not in (root / "CITATION.cff").read_text(encoding="utf-8"):
        lines.append(f"CITATION.cff: expected version: {version}, as in tenferro/__init__.py")
    return lines


def write(root: Path = ROOT, date: str | None = None) -> None:
    """Move the text of the fragments into CHANGELOG.md, delete them, and set the date in CITATION.cff.

    Raises:
        SystemExit: there are no fragments, the version has notes already, or the notes exceed `MAX_LINES`.
    """
    version = version_of(root)
    date = date or datetime.datetime.now(datetime.UTC).date().isoformat()
    changelog, citation = root / "CHANGELOG.md", root / "CITATION.cff"
    text = changelog.read_text(encoding="utf-8")
    if f"\n## {version} " in text:
        raise SystemExit(f"CHANGELOG.md has notes of {version}: set the next version")
    paths = fragments(root)
    if not paths:
        raise SystemExit("changes/ has no fragments")
    section = notes(version, date, root)
    if len(section.splitlines()) > MAX_LINES:
        raise SystemExit(
            f"the notes have {len(section.splitlines())} lines, at most {MAX_LINES}: join fragments"
        )
    if MARK not in text:
        raise SystemExit(f"CHANGELOG.md: expected the line {MARK.strip()}")
    changelog.write_text(text.replace(MARK, f"{MARK}\n{section}", 1), encoding="utf-8")
    dated = re.sub(
        r"^date-released: .*$",
        f"date-released: {date}",
        citation.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    citation.write_text(dated, encoding="utf-8")
    for path in paths:
        path.unlink()


def _git(*words: str, root: Path = ROOT) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, check=True, capture_output=True, text=True
    ).stdout


def tag(root: Path = ROOT) -> str:
    """Commit the notes, and tag them as v<version>; nothing is pushed. Return the tag.

    Raises:
        SystemExit: the tag exists, or there are uncommitted changes other than the notes.
    """
    name = f"v{version_of(root)}"
    if _git("tag", "--list", name, root=root).strip():
        raise SystemExit(f"the tag {name} exists")
    changed = [line[3:] for line in _git("status", "--porcelain", root=root).splitlines()]
    others = [
        path
        for path in changed
        if path not in ("CHANGELOG.md", "CITATION.cff") and not path.startswith("changes/")
    ]
    if others:
        raise SystemExit(f"commit these first: {', '.join(others)}")
    _git("add", "CHANGELOG.md", "CITATION.cff", "changes", root=root)
    _git("commit", "--message", f"release: write the notes of {name[1:]}", root=root)
    _git("tag", "--annotate", name, "--message", f"tenferro {name[1:]}", root=root)
    return name


def main() -> None:
    """Print a draft of the notes; with an option, check, write or tag instead."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("check", "write", "tag"):
        parser.add_argument(f"--{name}", action="store_true")
    arguments = parser.parse_args()
    if lines := check():
        sys.exit("\n".join(lines))
    if arguments.write:
        write()
    if arguments.tag:
        print(f"tagged {tag()}; `git push --tags` publishes it")
    if not (arguments.check or arguments.write or arguments.tag):
        print(notes(version_of(), "unreleased"), end="")


if __name__ == "__main__":
    main()

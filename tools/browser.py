"""Headless Chromium, with which tools draw pictures and tests load pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--virtual-time-budget=4000",
]


def shown(page: str, folder: Path, *options: str) -> str:
    """Load a page in the browser, with further command-line options, and return what the browser prints."""
    source = folder / "page.html"
    source.write_text(page, "utf-8")
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={folder / 'profile'}", *options, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout

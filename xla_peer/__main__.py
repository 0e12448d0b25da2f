"""`python -m xla_peer doctor [--json] [platform ..]`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from xla_peer.diagnosis import doctor

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `doctor`, and print its report.

    The exit status is 0 if a platform works and no installed platform fails, 1 otherwise, and 2 for invalid arguments.
    """
    parser = argparse.ArgumentParser(prog="python -m xla_peer")
    commands = parser.add_subparsers(dest="command", required=True)
    examine = commands.add_parser(
        "doctor", help="which platforms work here, and what would make them"
    )
    examine.add_argument(
        "platforms", nargs="*", help="names, or paths of PJRT plugins; none is all"
    )
    examine.add_argument("--json", action="store_true", help="the report as JSON")
    options = parser.parse_args(arguments)
    report = doctor(options.platforms)
    print(json.dumps(report.to_dict(), indent=2) if options.json else report)
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())

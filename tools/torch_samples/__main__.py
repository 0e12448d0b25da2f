"""`make torch-samples`: compare tenferro with PyTorch on PyTorch's own operator samples.

An interrupted run is resumed.

python -m tools.torch_samples [--only NAME] [--samples N] [--peer] [--write]
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from pathlib import Path


def main() -> int:
    """Run the samples; return 1 if a difference has no entry that explains it, and 2 if PyTorch is missing."""
    parser = argparse.ArgumentParser(prog="python -m tools.torch_samples", description=__doc__)
    parser.add_argument(
        "--only", action="append", help="this function of tenferro; may be repeated"
    )
    parser.add_argument(
        "--samples", type=int, default=12, help="at most, of an operator at a dtype"
    )
    parser.add_argument("--peer", action="store_true", help="through PJRT, in place of natively")
    parser.add_argument("--write", action="store_true", help="write docs/torch_samples.md")
    parser.add_argument("--folder", type=Path, default=Path("build/torch_samples"))
    options = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print(
            "PyTorch is not installed: make torch-samples installs it in an environment of its own"
        )
        return 2
    warnings.simplefilter("ignore")  # because PyTorch's samples call deprecated functions
    from tools.torch_samples.campaign import Campaign
    from tools.torch_samples.page import write_page

    executor = None
    if options.peer:
        import xla_peer

        executor = xla_peer.XlaExecutor()
    options.folder.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(options.folder / "records.jsonl", options.samples)
    failures = 0
    for record in campaign.run(options.only, executor):
        for failure in record["failures"]:
            failures += 1
            print("{function} by {torch} {variant} {dtype}".format(**record), failure, flush=True)
    if options.write:
        write_page(campaign.records)
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())

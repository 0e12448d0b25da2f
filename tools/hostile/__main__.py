"""`make hostile`: read 20,000 damaged files (mutants) of all kinds. An interrupted run is resumed."""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.hostile.campaign import FAILURES, Campaign
from tools.hostile.seeds import written_seeds


def main() -> int:
    """Run a campaign of mutants; return 1 if a reader crashed, hung, or raised an error that is not tenferro's."""
    parser = argparse.ArgumentParser(prog="python -m tools.hostile", description=__doc__)
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", help="only this kind; may be given again")
    parser.add_argument("--folder", type=Path, default=Path("build/hostile"))
    options = parser.parse_args()
    folder = options.folder.resolve() / f"seed_{options.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(folder, written_seeds(folder / "seeds"), options.seed)
    print(f"seed {options.seed}, {options.mutants} mutants, in {folder}", flush=True)
    for count, record in enumerate(campaign.run(range(options.mutants), options.kind), 1):
        if record["outcome"] in FAILURES:
            print("{number} {kind}: {outcome}: {words}".format(**record), flush=True)
        if count % 1000 == 0:
            print(f"{count} read", flush=True)
    print(campaign.table())
    return int(any([record["outcome"] in FAILURES for record in campaign.outcomes.values()]))


if __name__ == "__main__":
    raise SystemExit(main())

"""`make mutants`: run the tests against mutants, copies of the sources with one line edited.

An interrupted run is resumed. Run `make mutants-map` first: it records which tests run each line of the sources.
"""

from __future__ import annotations

import argparse
import os
from itertools import islice
from pathlib import Path

from tools.mutants.campaign import Campaign, equivalents, mutants_of
from tools.mutants.columns import FOLDERS, units_within
from tools.mutants.copies import copy_tree
from tools.mutants.tests_of_lines import Recorded, recorded_units, units_of
from tools.mutants.trials import preload

CHECKOUT = Path(__file__).parents[2]
EQUIVALENTS = Path(__file__).with_name("equivalents.toml")


def record(folder: Path, tests: list[str]) -> int:
    """Record which lines each test runs.

    If `tests` is empty, all tests are recorded, else the tests in the named files and folders.
    """
    preload()
    tree = folder / "tree_0"
    copy_tree(CHECKOUT, tree)
    units = units_of(tree)
    if tests:
        units = units_within(units, tests)
    for unit, count, seconds in recorded_units(tree, folder / "map", units):
        print(f"{unit}: {count} tests, {seconds:.0f} s", flush=True)
    return 0


def campaign_of(folder: Path, seed: int, worker: int) -> Campaign:
    """Return the campaign of one worker, which edits a separate copy of the tree.

    All workers read the record of the tests of each line that was made in the copy of worker 0.
    """
    tree = folder / f"tree_{worker}"
    copy_tree(CHECKOUT, tree)
    recorded = Recorded(folder / "tree_0", folder / "map")
    recorded.require(tree)
    return Campaign(tree, recorded, folder / f"seed_{seed}.jsonl", equivalents(EQUIVALENTS))


def run(folder: Path, folders: list[str], seed: int, count: int, workers: int) -> int:
    """Test `count` mutants in `workers` processes; return 1 if a mutant survived, which means that no test failed."""
    preload()
    children = []
    for worker in range(workers):
        child = os.fork()
        if not child:
            campaign = campaign_of(folder, seed, worker)
            mutants = list(islice(mutants_of(campaign.tree, folders, seed), count))
            for outcome in campaign.run(mutants, range(worker, count, workers)):
                print("{number} {outcome} by {by} {test} {seconds} s".format(**outcome), flush=True)
            os._exit(0)
        children.append(child)
    failed = [os.waitpid(child, 0)[1] for child in children]
    campaign = campaign_of(folder, seed, 0)
    print(campaign.report())
    verdicts = [campaign.verdict(record) for record in campaign.outcomes.values()]
    return int(any(failed) or "survived" in verdicts)


def main() -> int:
    """Run the subcommand: `map` records which tests run each line, `run` tests mutants."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("what", choices=("map", "run"))
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", action="append", choices=FOLDERS, help="a folder; may be given again"
    )
    parser.add_argument(
        "--tests", action="append", help="of the map: a file or a folder; may be given again"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/mutants"))
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if options.what == "map":
        return record(folder, options.tests or [])
    return run(
        folder, options.only or list(FOLDERS), options.seed, options.mutants, options.workers
    )


if __name__ == "__main__":
    raise SystemExit(main())

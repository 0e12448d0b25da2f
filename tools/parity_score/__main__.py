"""`make parity-score`: count the seeded faults that the parity check finds, and the correct rewrites that it rejects.

The run consists of parts of `PART` trials; each part has its own seed. Trials run in child processes, because XLA may
end its process, which counts as an outcome. The outcomes are recorded, so that an interrupted run is resumed. The
page is written from the records.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tools.parity_score.faults import Edit, faults
from tools.parity_score.page import summary, write_page
from tools.parity_score.programs import Subject, subjects
from tools.parity_score.rewrites import FLAGS, rewrites
from tools.parity_score.trials import fault_trial, rewrite_trial
from xla_peer import XlaExecutor

ROOT = Path(__file__).parents[2]
PAGE, COUNTS = Path("docs", "verdicts.md"), Path("docs", "verdicts.json")
PART = 500
"""Number of faulty modules in a part, and number of rewrites. A part consists of the trials with one seed."""
BATCH = 50
"""Number of trials per child process. When a child ends, the memory of XLA's executables is freed."""
SILENCE = 600
"""Seconds without an outcome after which a child process is killed. XLA may have entered an endless loop."""
STARTING = 900
"""Maximum time until a child process begins its first trial, in seconds.

It is long, because a busy machine starts children slowly.
"""
READY = "ready"
"""Line that a child process prints when it is ready for its first trial."""
ENDLESS = 30
"""Maximum processor time of a trial, in seconds. A fault may make a loop endless."""


def edits_of(kind: str, subject: Subject) -> list[Edit]:
    """Return all edits of a subject: faults if `kind` is "faults", else rewrites."""
    if kind == "faults":
        return list(faults(subject.text))
    return [*rewrites(subject.text), *subject.rewrites]


def drawn(kind: str, seed: int, count: int, of: str = "") -> list[tuple[int, int, str]]:
    """Draw the trials of a seed.

    Each is a tuple: the number of its subject, the number of its edit, and the name of XLA's options.
    """
    every = subjects(of)
    sizes = [len(edits_of(kind, subject)) for subject in every]
    rng = np.random.default_rng([seed, kind == "faults"])
    chosen: list[tuple[int, int, str]] = []
    able = [number for number, size in enumerate(sizes) if size]
    flags = ["", *FLAGS] if kind == "rewrites" else [""]
    for _ in range(count if able else 0):
        subject = int(rng.choice(able))
        options = str(rng.choice(flags))
        # One in four trials with options runs the module without an edit; the edit number is -1.
        edit = -1 if options and rng.random() < 0.25 else int(rng.integers(sizes[subject]))
        chosen.append((subject, edit, options))
    return chosen


def child(kind: str, seed: int, count: int, of: str = "") -> None:
    """Run trials in a child process and print their outcomes.

    Their numbers are read from standard input, one per line.
    """
    every, trials = subjects(of), drawn(kind, seed, count, of)
    peer = XlaExecutor("cpu", notices=False)
    signal.signal(signal.SIGPROF, stop)
    print(READY, flush=True)
    for line in sys.stdin:
        number = int(line)
        subject, edit_number, options = trials[number]
        record: dict[str, Any] = {"number": number, "program": every[subject].name}
        record["of"] = every[subject].kind
        edit = None if edit_number < 0 else edits_of(kind, every[subject])[edit_number]
        record |= {"kind": edit.kind if edit else "as it is", "line": edit.line if edit else 0}
        try:
            signal.setitimer(signal.ITIMER_PROF, ENDLESS)
            if kind == "faults":
                assert edit is not None
                record |= fault_trial(every[subject], edit, peer)
            else:
                text = every[subject].text if edit is None else edit.text
                record |= {"options": options} | rewrite_trial(
                    every[subject], text, peer, record["kind"]
                )
        except EndlessError:
            record |= {"outcome": "endless"}
        except Exception as error:
            record |= {"outcome": "failed", "words": f"{type(error).__name__}: {error}"[:300]}
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(json.dumps(record), flush=True)


class EndlessError(KeyboardInterrupt):
    """Error that ends a trial that exceeds its processor time."""


def stop(number: int, frame: Any) -> None:
    """Handle the signal that a trial has used up its processor time: end it by an error."""
    raise EndlessError


def run(kind: str, seed: int, count: int, path: Path, until: float, of: str = "") -> None:
    """Run the trials of a seed whose outcomes are not in the file `path` yet, until the time `until`."""
    trials = drawn(kind, seed, count, of)
    done = {record["number"] for record in outcomes(path)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a thread for each child process
        waiting = []
        for options in sorted({options for _, _, options in trials}):
            rest = [n for n in range(len(trials)) if n not in done and trials[n][2] == options]
            # Sort by subject. A child process then imports and runs the module of a subject once for several trials.
            rest.sort(key=lambda n: trials[n][0])
            for start in range(0, len(rest), BATCH):
                batch = rest[start : start + BATCH]
                waiting.append(
                    pool.submit(_children, kind, seed, count, batch, options, path, until, of)
                )
        for future in waiting:
            future.result()


def _children(
    kind: str,
    seed: int,
    count: int,
    numbers: list[int],
    options: str,
    path: Path,
    until: float,
    of: str = "",
) -> None:
    """Run the trials with these numbers in a child process, until the time `until`.

    If the child ends early, record this as the outcome of its current trial, and continue with a new child.
    """
    environment = {**os.environ, "XLA_FLAGS": FLAGS.get(options, "")}
    command = [
        sys.executable,
        "-m",
        "tools.parity_score",
        "--child",
        kind,
        "--seed",
        str(seed),
        "--count",
        str(count),
        "--of",
        of,
    ]
    while numbers and time.monotonic() < until:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT,
            env=environment,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            process.stdin.write("".join(f"{number}\n" for number in numbers).encode())
            process.stdin.close()
            done, is_silent = _noted(process, path)
            process.kill()
        rest = numbers[done:]
        if rest:
            # A child that stopped answering is in an endless loop of machine code, which the alarm cannot interrupt.
            # It was killed.
            outcome = "endless" if is_silent else "ended"
            record = {
                "number": rest[0],
                "outcome": outcome,
                "words": f"status {process.returncode}",
            }
            with path.open("a") as file:
                file.write(json.dumps(record | {"options": options}) + "\n")
        numbers = rest[1:]


def _noted(process: Any, path: Path) -> tuple[int, bool]:
    """Write the outcomes of a child process to a file as they arrive.

    Return their number, and whether the child stopped answering.
    """
    done, patience, pending = 0, STARTING, b""
    while True:
        line, end, rest = pending.partition(b"\n")
        if not end:
            if not select.select([process.stdout], [], [], patience)[0]:
                return done, True
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return done, False
            pending += data
            continue
        pending, patience = rest, SILENCE
        if line == READY.encode():
            continue
        if not line.endswith(b"}"):
            return done, False
        with path.open("a") as file:
            file.write(f"{line.decode()}\n")
        done += 1


def outcomes(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the recorded outcomes. An interrupted run may have left a truncated line, which is skipped."""
    if path.exists():
        for line in path.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)


def main() -> int:
    """Run the trials of all parts, and write the counts and the page after each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="faults, and as many rewrites")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first part")
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "parity_score")
    parser.add_argument("--of", default="", help="subjects of this kind alone, such as quantising")
    parser.add_argument("--child", choices=["faults", "rewrites"])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE} and {COUNTS}")
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.seed, arguments.count, arguments.of)
        return 0
    is_kept = arguments.write and not arguments.of
    parts = json.loads((ROOT / COUNTS).read_text()) if is_kept and (ROOT / COUNTS).exists() else []
    until = time.monotonic() + 60 * arguments.minutes
    seeds = range(arguments.seed, arguments.seed + -(-arguments.count // PART))
    for seed in (seed for seed in seeds if seed not in {part["seed"] for part in parts}):
        size = min(PART, arguments.count)
        records = _records(seed, size, arguments.folder, until, arguments.of)
        if is_kept and min(map(len, records.values())) < size:
            break  # the part is incomplete and is not counted; the next run completes it
        parts.append(summary(seed, version("jaxlib"), **records))
        if is_kept:
            (ROOT / COUNTS).write_text(json.dumps(parts, indent=1) + "\n")
            (ROOT / PAGE).write_text(write_page(parts))
    print(write_page(parts))
    return 0


def _records(
    seed: int, count: int, folder: Path, until: float, of: str
) -> dict[str, list[dict[str, Any]]]:
    """Run the faults and the rewrites of one part, and return their outcomes."""
    folder.mkdir(parents=True, exist_ok=True)
    records: dict[str, list[dict[str, Any]]] = {}
    for kind in ("faults", "rewrites"):
        suffix = f"_{of.replace(' ', '_')}" if of else ""
        path = folder / f"{kind}_{seed}_{count}{suffix}.jsonl"
        run(kind, seed, count, path, until, of)
        records[kind] = list(outcomes(path))
    return records


if __name__ == "__main__":
    raise SystemExit(main())

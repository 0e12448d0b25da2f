"""Search for the release of jaxlib in which the outcome of a case changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tenferro.errors import InvalidConfigError
from xla_peer.opinions import AdapterExecutor, Environments, jaxlib_adapter
from xla_peer.watch.cases import Case
from xla_peer.watch.table import Entry
from xla_peer.watch.watching import judged

__all__ = ["Bisection", "bisect", "releases_between"]


@dataclass(frozen=True)
class Bisection:
    """Result of a bisection: two consecutive releases with different outcomes.

    Attributes:
        last: the release before the change.
        first: the release after `last`, with a different outcome.
        entries: the outcome of each release that was run.
    """

    last: str
    first: str
    entries: dict[str, Entry]

    def __str__(self) -> str:
        return (
            f"jaxlib {self.last}: {self.entries[self.last]}\n"
            f"jaxlib {self.first}: {self.entries[self.first]}\n"
            f"the outcome changes in {self.first}; {len(self.entries)} releases were run"
        )


def bisect(
    case: Case,
    releases: Sequence[str],
    run: Callable[[Case, str], Entry] | None = None,
    environments: Environments | None = None,
) -> Bisection:
    """Find a release in which the outcome of a case changes, by bisection.

    The outcomes of the first and the last release must differ. If the outcome changes several times, one of these
    changes is found.

    Args:
        case: see `Case`.
        releases: releases of jaxlib, in order.
        run: a function that returns the outcome of the case with a release. By default, the case runs in an environment
            in which that jaxlib is installed.
        environments: the folder of environments, which is used if `run` is None.

    Raises:
        InvalidConfigError: there are fewer than two releases, or the first and the last have the same outcome.
        PlatformUnavailableError: an environment cannot be created.
    """
    if len(releases) < 2:
        raise InvalidConfigError(
            f"bisect: two releases or more, got {', '.join(releases) or 'none'}"
        )
    folder = environments or Environments()
    ask = run or (lambda case, release: _outcome(case, release, folder))
    entries = {release: ask(case, release) for release in (releases[0], releases[-1])}
    start, end = (entries[release].state for release in (releases[0], releases[-1]))
    if start == end:
        raise InvalidConfigError(
            f"bisect: {case.name} is {start} with {releases[0]} and with {releases[-1]}; the outcomes must differ"
        )
    low, high = 0, len(releases) - 1
    while high - low > 1:
        middle = (low + high) // 2
        entries[releases[middle]] = ask(case, releases[middle])
        if entries[releases[middle]].state == start:
            low = middle
        else:
            high = middle
    return Bisection(releases[low], releases[high], entries)


def _outcome(case: Case, release: str, environments: Environments) -> Entry:
    python = environments.python([f"jaxlib=={release}"])
    with AdapterExecutor(jaxlib_adapter(python, f"jaxlib {release}")) as executor:
        return judged(case, executor, names_passes=False)


def releases_between(versions: Sequence[str], since: str, until: str) -> list[str]:
    """Return the releases from `since` to `until`, both included, without release candidates.

    Args:
        versions: all versions of a package, in order.

    Raises:
        InvalidConfigError: `since` or `until` is not among the releases, or `until` precedes `since`.

    >>> releases_between(["0.9.1", "0.9.2", "0.10.0rc1", "0.10.0"], "0.9.1", "0.10.0")
    ['0.9.1', '0.9.2', '0.10.0']
    """
    final = [version for version in versions if all(part.isdigit() for part in version.split("."))]
    missing = [version for version in (since, until) if version not in final]
    if missing:
        raise InvalidConfigError(f"no release {', '.join(missing)}; there are {', '.join(final)}")
    start, end = final.index(since), final.index(until)
    if start > end:
        raise InvalidConfigError(f"--since {since} is after --until {until}")
    return final[start : end + 1]

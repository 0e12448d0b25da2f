"""A pytest plugin, registered on installation: fixtures that check parity, gradients and extensions.

    def test_layer(assert_parity, check_grads):
        assert_parity(layer, x, w, grad=True)     # native against PJRT, within rounding
        check_grads(layer, (x, w), order=2)       # against differences, in forward and reverse mode

    def test_entropy(assert_extension):
        assert_extension(Entropy(), [p], rules=rules, runtime=runtime)

`--tenferro-platform cuda` runs the same tests on another platform. A summary line shows the number of checks and the
largest difference relative to its bound. `--tenferro-cache FOLDER` omits checks that agreed before and have not
changed. `--tenferro-watch` writes a table of tests by verdict and version of jaxlib.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

__all__ = ["assert_extension", "assert_parity", "check_grads", "tenferro_executor", "tenferro_peer"]


@dataclass
class Tally:
    """Counts of the checks that the fixtures made in this run.

    Attributes:
        platform: the platform of parity checks.
        parity, grads, extensions: the number of checks of each kind.
        worst: the largest difference, relative to its bound, and where it occurred.
        cached: the number of checks that were omitted because they agreed before and have not changed.
    """

    platform: str
    parity: int = 0
    grads: int = 0
    extensions: int = 0
    worst: tuple[float, str] = (0.0, "")
    cached: int = 0

    def line(self) -> str:
        """Return the summary line, or "" if nothing was checked."""
        counts = {"parity": self.parity, "gradient": self.grads, "extension": self.extensions}
        said = ", ".join(
            f"{count} {what} check{'s' if count > 1 else ''}"
            for what, count in counts.items()
            if count
        )
        if self.parity:
            said += f" on {self.platform}"
        if self.cached:
            said += f", {self.cached} of them unchanged"
        share, location = self.worst
        if said and location:
            said += f"; the nearest to its bound was {location}, at {share:.0%}"
        return said


TALLY = pytest.StashKey[Tally]()
CACHE = pytest.StashKey[Any]()
PROPERTY = "tenferro verdicts"
"""Name of the test property that contains the verdicts of a test. pytest-xdist passes it to the controlling process."""
WATCH_FILE = "tenferro-watch.md"
NEEDS_JAXLIB = "parity needs jaxlib: pip install '.[xla]' in tenferro's checkout"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tenferro-platform`, `--tenferro-cache` and `--tenferro-watch`."""
    group = parser.getgroup("tenferro")
    group.addoption(
        "--tenferro-cache",
        default=None,
        metavar="FOLDER",
        help="where assert_parity keeps which checks agreed, and leaves out those that did not change",
    )
    group.addoption(
        "--tenferro-watch",
        nargs="?",
        const=WATCH_FILE,
        default=None,
        metavar="FILE",
        help="write a table of tests by verdict and version of jaxlib in Markdown, and as JSON beside it; columns of "
        f"other versions stay (default: {WATCH_FILE})",
    )
    group.addoption(
        "--tenferro-platform",
        default="cpu",
        metavar="PLATFORM",
        help="where assert_parity and check_grads run the other path: cpu, cuda, rocm, tpu, or the path "
        "of a PJRT plugin (default: cpu)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Create a tally for this run."""
    config.stash[TALLY] = Tally(str(config.getoption("--tenferro-platform")))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the summary line if the fixtures were used, and write the table of `--tenferro-watch`."""
    watch = config.getoption("--tenferro-watch")
    if watch is not None:
        verdicts = _verdicts(terminalreporter.stats)
        write_watch(Path(watch), verdicts)
        terminalreporter.write_line(f"tenferro: {len(verdicts)} tests in {watch}")
    line = config.stash[TALLY].line()
    if line:
        terminalreporter.write_line(f"tenferro: {line}")


@pytest.fixture(scope="session")
def tenferro_executor(pytestconfig: pytest.Config) -> Any:
    """Return the `XlaExecutor` of `--tenferro-platform`.

    If jaxlib is missing, tests that use the fixture are skipped.
    """
    pytest.importorskip("jaxlib", reason=NEEDS_JAXLIB)
    # The module is imported by name, because `xla_peer` is optional and is a layer above this package.
    peer = importlib.import_module("xla_peer")
    return peer.XlaExecutor(pytestconfig.stash[TALLY].platform, notices=False)


@pytest.fixture(scope="session")
def tenferro_peer(request: pytest.FixtureRequest) -> Any:
    """Return the executor of `assert_parity`. It runs in a separate process unless TENFERRO_ISOLATED is `off`."""
    pytest.importorskip("jaxlib", reason=NEEDS_JAXLIB)
    isolated = importlib.import_module("xla_peer.isolated")
    if not isolated.isolated_by_default():
        return request.getfixturevalue("tenferro_executor")
    return isolated.IsolatedExecutor(request.config.stash[TALLY].platform, notices=False)


@pytest.fixture
def assert_parity(request: pytest.FixtureRequest, tenferro_peer: Any) -> Callable[..., None]:
    """Return a function that fails, with a short report, unless native execution and XLA agree.

    Its parameters are those of `xla_peer.check_parity`. On failure, a shrunk reproduction and the whole report are
    written to `tmp_path`. Functions of JAX are imported. XLA runs in a separate process, so that a crash fails only
    this test. `isolated=False` runs XLA in this process. With `--tenferro-cache`, a check that agreed before is omitted
    if the program's text, the arguments, the options and the versions of all packages are unchanged.
    """
    peer, tally = importlib.import_module("xla_peer"), request.config.stash[TALLY]
    caching = importlib.import_module("xla_peer.parity.verdict_cache")
    tracing = importlib.import_module("xla_peer.tracing")
    folder = request.config.getoption("--tenferro-cache")
    if CACHE not in request.config.stash:
        request.config.stash[CACHE] = caching.VerdictCache(folder)
    cache = request.config.stash[CACHE]

    def note(verdicts: tuple[str, ...], share: float, name: str) -> None:
        tally.parity += 1
        request.node.user_properties.append((PROPERTY, list(verdicts)))
        if tally.worst[0] < share < math.inf:
            tally.worst = (share, f"{name} in {request.node.nodeid}")

    def check(fn_or_program: Any, *arrays: Any, **options: Any) -> None:
        __tracebackhide__ = True
        program, key = fn_or_program, None
        if folder is not None:
            program = tracing.traced(fn_or_program, *arrays)
            leaves = program.check_arguments(arrays)
            key = cache.key(program, leaves, options, tally.platform)
            before = cache.get(key)
            if before is not None:
                tally.cached += 1
                note(*before)
                return
        if options.get("isolated") is False:
            options.setdefault("executor", request.getfixturevalue("tenferro_executor"))
        options.setdefault("executor", tenferro_peer)
        report = peer.check_parity(program, *arrays, **options)
        shares = [(output.share, output.name) for output in report.outputs]
        share, name = max([each for each in shares if each[0] < math.inf], default=(0.0, ""))
        verdicts = tuple([output.verdict for output in report.outputs])
        note(verdicts, share, name)
        if report.ok:
            cache.put(key, caching.CachedVerdict(verdicts, share, name))
            return
        place = request.getfixturevalue("tmp_path") / "divergence"
        place.mkdir(exist_ok=True)
        (place / "report.txt").write_text(f"{report}\n")
        report.save(place)
        pytest.fail(f"\n{report.short()}\nfiles: {place}", pytrace=False)

    return check


def _verdicts(stats: dict[str, list[Any]]) -> dict[str, str]:
    """Return, for each test that checked parity, the verdicts of its outputs, without duplicates."""
    words: dict[str, list[str]] = {}
    for reports in stats.values():
        for report in reports:
            for name, verdicts in getattr(report, "user_properties", ()):
                if name == PROPERTY:
                    words.setdefault(report.nodeid, []).extend(verdicts)
    return {test: ", ".join(sorted(set(each))) for test, each in words.items()}


def write_watch(path: Path, verdicts: dict[str, str]) -> None:
    """Write the table of tests by version of jaxlib to a file. Its columns for other versions are kept.

    Args:
        path: the path of the Markdown page. A JSON file beside it has the same content, which the next call reads.
        verdicts: the verdicts of this run, by the name of the test.
    """
    from tenferro.files import replacing  # because few runs need the module

    data_path = path.with_suffix(".json")
    try:
        table = json.loads(data_path.read_text())["versions"]
        table = {str(version): dict(column) for version, column in table.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        table = {}
    try:
        version = metadata.version("jaxlib")
    except metadata.PackageNotFoundError:
        version = "missing"
    table[version] = {**table.get(version, {}), **verdicts}
    tests = sorted({test for column in table.values() for test in column})
    versions = sorted(
        table, key=lambda version: [int(x) for x in version.split(".") if x.isdigit()]
    )
    rows = [["test", *[f"jaxlib {version}" for version in versions]], ["---"] * (len(versions) + 1)]
    rows += [
        [f"`{test}`", *[table[version].get(test, "") for version in versions]] for test in tests
    ]
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    for place, text in (
        (path, "\n".join(lines)),
        (data_path, json.dumps({"versions": table}, indent=2)),
    ):
        with replacing(place) as file:
            file.write(f"{text}\n".encode())


@pytest.fixture
def check_grads(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that fails unless derivatives are right. Its parameters are those of `tenferro.check_grads`.

    If `--tenferro-platform` is not cpu, the derivatives are also computed on that platform.
    """
    import tenferro as tnf  # because few runs need the module

    tally = request.config.stash[TALLY]

    def check(fn: Any, args: tuple[Any, ...], **options: Any) -> None:
        __tracebackhide__ = True
        if tally.platform != "cpu":
            options.setdefault("executor", request.getfixturevalue("tenferro_executor"))
        tnf.check_grads(fn, args, **options)
        tally.grads += 1

    return check


@pytest.fixture
def assert_extension(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Return a function that fails, with the report, unless an op obeys the rules for extensions.

    Its parameters are those of `tenferro.extension.check_extension`.
    """
    from tenferro.extension import check_extension  # because few runs need the module

    def check(op: Any, sample_inputs: Any, **options: Any) -> None:
        report = check_extension(op, sample_inputs, **options)
        request.config.stash[TALLY].extensions += 1
        assert report.ok, f"\n{report}"

    return check

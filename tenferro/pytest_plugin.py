"""A pytest plugin, registered on installation: fixtures that check parity, gradients and extensions.

    def test_layer(assert_parity, check_grads):
        assert_parity(layer, x, w, grad=True)     # native against PJRT, within rounding
        check_grads(layer, (x, w), order=2)       # against differences, in forward and reverse mode

    def test_entropy(assert_extension):
        assert_extension(Entropy(), [p], rules=rules, runtime=runtime)

`--tenferro-platform cuda` runs the same tests on another platform, and a summary line has the number of
checks and the largest share of a bound.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

__all__ = ["assert_extension", "assert_parity", "check_grads", "tenferro_executor", "tenferro_peer"]


@dataclass
class Tally:
    """Counts of the fixtures' checks in this run.

    Attributes:
        parity, grads, extensions: numbers of checks.
        platform: of parity checks.
        worst: the largest difference, as a share of its bound, and its location.
    """

    platform: str
    parity: int = 0
    grads: int = 0
    extensions: int = 0
    worst: tuple[float, str] = (0.0, "")

    def line(self) -> str:
        """The summary line; empty when nothing was checked."""
        counts = {"parity": self.parity, "gradient": self.grads, "extension": self.extensions}
        said = ", ".join(
            f"{count} {what} check{'s' if count > 1 else ''}"
            for what, count in counts.items()
            if count
        )
        if self.parity:
            said += f" on {self.platform}"
        share, location = self.worst
        if said and location:
            said += f"; the nearest to its bound was {location}, at {share:.0%}"
        return said


TALLY = pytest.StashKey[Tally]()
NEEDS_JAXLIB = "parity needs jaxlib: pip install '.[xla]' in tenferro's checkout"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--tenferro-platform`."""
    parser.getgroup("tenferro").addoption(
        "--tenferro-platform",
        default="cpu",
        metavar="PLATFORM",
        help="where assert_parity and check_grads run the other path: cpu, cuda, rocm, tpu, or the path "
        "of a PJRT plugin (default: cpu)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """A tally for this run."""
    config.stash[TALLY] = Tally(str(config.getoption("--tenferro-platform")))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The summary line, where the fixtures were used."""
    line = config.stash[TALLY].line()
    if line:
        terminalreporter.write_line(f"tenferro: {line}")


@pytest.fixture(scope="session")
def tenferro_executor(pytestconfig: pytest.Config) -> Any:
    """The `XlaExecutor` of `--tenferro-platform`; the tests that use it are skipped where jaxlib is missing."""
    pytest.importorskip("jaxlib", reason=NEEDS_JAXLIB)
    # By name, because the package of the peer is above this one, and optional.
    peer = importlib.import_module("xla_peer")
    return peer.XlaExecutor(pytestconfig.stash[TALLY].platform, notices=False)


@pytest.fixture(scope="session")
def tenferro_peer(request: pytest.FixtureRequest) -> Any:
    """The executor of `assert_parity`: in a process of its own unless TENFERRO_ISOLATED is `off`."""
    pytest.importorskip("jaxlib", reason=NEEDS_JAXLIB)
    isolated = importlib.import_module("xla_peer.isolated")
    if not isolated.isolated_by_default():
        return request.getfixturevalue("tenferro_executor")
    return isolated.IsolatedExecutor(request.config.stash[TALLY].platform, notices=False)


@pytest.fixture
def assert_parity(request: pytest.FixtureRequest, tenferro_peer: Any) -> Callable[..., None]:
    """A function that fails, with the report, unless both paths agree.

    Its parameters are those of `xla_peer.check_parity`; on failure a reproduction is written to `tmp_path`. Functions of
    JAX are imported. XLA runs in a process of its own, so that a crash fails the test and no other;
    `isolated=False` runs it in this one.
    """
    peer, tally = importlib.import_module("xla_peer"), request.config.stash[TALLY]

    def check(fn_or_program: Any, *arrays: Any, **options: Any) -> None:
        __tracebackhide__ = True
        if options.get("isolated") is False:
            options.setdefault("executor", request.getfixturevalue("tenferro_executor"))
        options.setdefault("executor", tenferro_peer)
        report = peer.check_parity(fn_or_program, *arrays, **options)
        tally.parity += 1
        for output in report.outputs:
            if tally.worst[0] < output.share < math.inf:
                tally.worst = (output.share, f"{output.name} in {request.node.nodeid}")
        if not report.ok:
            message = f"\n{report}"
            if report.reproduction is not None:
                folder = request.getfixturevalue("tmp_path") / "divergence"
                message += f"\nreproduction: {report.reproduction.save(folder)}"
            pytest.fail(message, pytrace=False)

    return check


@pytest.fixture
def check_grads(request: pytest.FixtureRequest) -> Callable[..., None]:
    """A function that fails unless derivatives are right, with the parameters of `tenferro.check_grads`.

    With another `--tenferro-platform` than cpu, the derivatives are run there too.
    """
    import tenferro as tnf  # because a run without it should not load it

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
    """A function that fails, with the report, unless an op keeps the contract of extensions.

    Its parameters are those of `tenferro.extension.check_extension`.
    """
    from tenferro.extension import check_extension  # because a run without it should not load it

    def check(op: Any, sample_inputs: Any, **options: Any) -> None:
        report = check_extension(op, sample_inputs, **options)
        request.config.stash[TALLY].extensions += 1
        assert report.ok, f"\n{report}"

    return check

"""`verify`, which checks an artifact on any machine by the test vectors that the artifact contains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenferro.errors import InvalidConfigError
from tenferro.types import flatten, unflatten
from xla_peer.artifact import Artifact
from xla_peer.executor import XlaExecutor
from xla_peer.exporting import load
from xla_peer.parity.comparison import compare
from xla_peer.parity.report import ParityReport
from xla_peer.storage import installed_versions

__all__ = ["Verification", "verify"]


@dataclass(frozen=True)
class Verification:
    """Comparison of the results of an artifact with its test vectors; `print(verification)` shows a summary.

    Attributes:
        name: the artifact's name.
        platform: the platform that ran the artifact.
        reports: one report per test vector, which compares the recorded native results with the platform's results.
        versions: the versions of the packages that computed the vectors, by name.
        now: the versions of the installed packages, by name.
    """

    name: str
    platform: str
    reports: tuple[ParityReport, ...]
    versions: dict[str, str]
    now: dict[str, str]

    @property
    def ok(self) -> bool:
        """Whether every output of every vector agrees."""
        return all(report.ok for report in self.reports)

    def to_dict(self) -> dict[str, Any]:
        """Convert the report to dicts, lists, numbers and strings, for JSON."""
        return {
            "ok": self.ok,
            "name": self.name,
            "platform": self.platform,
            "versions": self.versions,
            "now": self.now,
            "reports": [report.to_dict() for report in self.reports],
        }

    def __repr__(self) -> str:
        return f"<Verification {self._verdict()}>"

    def _verdict(self) -> str:
        good = sum(report.ok for report in self.reports)
        return f"{self.name}: {good} of {len(self.reports)} test vectors agree on {self.platform}"

    def __str__(self) -> str:
        lines = [self._verdict()]
        lines += [str(report) for report in self.reports if not report.ok]
        if self.versions != self.now:
            lines.append(f"computed by {_listed(self.versions)}; here {_listed(self.now)}")
        return "\n".join(lines)


def verify(
    artifact: Any, platform: str | None = None, *, executor: XlaExecutor | None = None
) -> Verification:
    """Run an artifact and its gradient on all test vectors, and compare the results with the recorded results.

    Args:
        artifact: an `Artifact`, or the path of its file.
        platform: the platform that runs the artifact; by default the CPU if the artifact was exported for the CPU,
            else the artifact's first platform.
        executor: the executor that runs the artifact, instead of a platform.

    Raises:
        InvalidConfigError: the artifact has no test vectors, or was not exported for the platform.
        PlatformUnavailableError: the platform is not available.

    >>> import numpy as np, xla_peer
    >>> exported = xla_peer.export(lambda x: {"y": x * x}, np.ones(3), vectors=2, gradient=True)
    >>> print(verify(exported))
    <lambda>: 4 of 4 test vectors agree on cpu
    """
    whole = artifact if isinstance(artifact, Artifact) else load(artifact)
    if not whole.vectors:
        raise InvalidConfigError(
            f"verify: {whole.manifest.name} carries no test vectors; export it with vectors=3"
        )
    platforms = whole.manifest.platforms
    chosen = platform or ("cpu" if "cpu" in platforms else platforms[0])
    peer = XlaExecutor(chosen) if executor is None else executor
    parts = [whole] if whole.gradient is None else [whole, whole.gradient]
    reports = [report for part in parts for report in _reports(part, peer)]
    about = whole.vectors_about["versions"]
    now = {name: version for name, version in installed_versions().items() if name in about}
    recorded = {name: version for name, version in about.items() if name in now}
    return Verification(whole.manifest.name, peer.platform, tuple(reports), recorded, now)


def _reports(artifact: Artifact, executor: XlaExecutor) -> list[ParityReport]:
    manifest, reports = artifact.manifest, []
    for number, vector in enumerate(artifact.vectors):
        results, _ = flatten(
            artifact.run(*unflatten(manifest.in_tree, vector.inputs), executor=executor)
        )
        names = [name for name, _ in manifest.outputs]
        outputs = tuple([
            compare(name, y, z, *allowance)
            for name, y, z, allowance in zip(
                names, vector.outputs, results, vector.allowed, strict=True
            )
        ])  # fmt: skip
        reports.append(
            ParityReport(f"{manifest.name}, vector {number}", executor.platform, outputs)
        )
    return reports


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))

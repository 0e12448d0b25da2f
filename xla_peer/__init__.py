"""The XLA peer: runs programs through StableHLO and PJRT, and compares the results with native runs."""

from lowering import PartitionSpec
from tenferro.compile_cache import CompileCache, CompileCacheStats
from tenferro.counterparts import open_namespace
from xla_peer.aligned import empty
from xla_peer.artifact import Artifact
from xla_peer.diagnosis import DoctorReport, doctor
from xla_peer.executable import Executable
from xla_peer.executor import XlaExecutor
from xla_peer.exporting import export, load
from xla_peer.from_jax import from_jax
from xla_peer.golden import GoldenComparison, compare_golden, golden
from xla_peer.inside_jax import JaxFunction, to_jax
from xla_peer.isolated import IsolatedExecutor
from xla_peer.jax_export import export_for_jax
from xla_peer.mesh import Mesh, PartitionedProgram, load_partitioned, partition
from xla_peer.native import NativeFunction, NativeReport, native
from xla_peer.parity import (
    Digits,
    ErrorBound,
    ParityReport,
    TransformationReport,
    check_parity,
    check_transformation,
    digits,
    error_bound,
    judge,
)
from xla_peer.verification import Verification, verify

__all__ = [
    "Artifact",
    "CompileCache",
    "CompileCacheStats",
    "Digits",
    "DoctorReport",
    "ErrorBound",
    "Executable",
    "GoldenComparison",
    "IsolatedExecutor",
    "JaxFunction",
    "Mesh",
    "NativeFunction",
    "NativeReport",
    "ParityReport",
    "PartitionSpec",
    "PartitionedProgram",
    "TransformationReport",
    "Verification",
    "XlaExecutor",
    "check_parity",
    "check_transformation",
    "compare_golden",
    "digits",
    "doctor",
    "empty",
    "error_bound",
    "export",
    "export_for_jax",
    "from_jax",
    "golden",
    "judge",
    "load",
    "load_partitioned",
    "native",
    "partition",
    "to_jax",
    "verify",
]

open_namespace(globals(), __all__, "xla_peer")

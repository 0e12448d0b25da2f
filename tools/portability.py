"""Run the tests that depend on the processor as if on other processors.

The CPU determines which loops NumPy selects, for which instructions XLA and LLVM generate code, and which kernels
OpenBLAS runs. Results therefore differ in their last bits between machines, but the tolerances of the tests must hold
on all machines.

The tests are those with the marker `processor`. They run in child processes, which load this file as a pytest plugin.
The plugin restricts the instructions that LLVM may generate.

        python -m tools.portability                 uses the settings of all processors, one after the other
        python -m tools.portability --only Zen      uses only this setting
        python -m tools.portability --part 1/10     runs every tenth test
        python -m tools.portability --once          skips tests that an earlier run or setting covers

    With `--once`, all tests with the marker run only in the first setting. Later settings run only tests that are
    also marked `core`. If OpenBLAS uses kernels that were already tested, only tests of compiled code run. A setting
    is skipped if its kernels and vector instructions were already tested. Tests of XLA are skipped.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.levels import HAS_FLOAT16
from tests.selections import selection

ROOT = Path(__file__).parent.parent
CUT_DOWN_TO = "PORTABILITY_PROCESSOR"
"""Environment variable that names the processor to which a process is restricted."""
# Code of a child process. It prints the CPU features that NumPy uses, the kernels of OpenBLAS, and the instruction
# sets of XLA and LLVM.
PROBE = """
import hashlib, json, pathlib, sys, tempfile
import numpy as np
import threadpoolctl
from tools import portability

portability.cut_down_llvm()

x = np.linspace(0.0, 1.0, 1000)
with tempfile.TemporaryDirectory() as folder:
    import os
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + f" --xla_dump_to={folder}"
    import tenferro as tnf
    from xla_peer import XlaExecutor
    XlaExecutor("cpu").run(tnf.compile(lambda x: tnf.exp(x) * x + x, x), x)
    code = b"".join(p.read_bytes() for p in sorted(pathlib.Path(folder).glob("*obj-file*.o")))
    assert code, "XLA has dumped no machine code"
current = {
    variant["current"]
    for variants in np.lib.introspect.opt_func_info().values()
    for variant in variants.values()
}
blas = sorted({str(pool.get("architecture")) for pool in threadpoolctl.threadpool_info()})
digest = hashlib.sha256(code).hexdigest()
llvm = portability.llvm_processor()
print(json.dumps({"numpy": sorted(current), "blas": blas, "xla": digest, "llvm": llvm}))
"""


@dataclass(frozen=True)
class Setting:
    """A processor that is simulated on this machine, by disabling the CPU features that it lacks.

    Attributes:
        blas: OpenBLAS's name of the processor, which is also the name of the setting.
        llvm: LLVM's name of the processor.
        isa: XLA's name of the largest vector instruction set.
        numpy_has: NumPy's names of the features above SSE4.2 that the processor has, in older and newer versions of
        NumPy.
        llvm_has: LLVM's names of all features of the processor.
    """

    blas: str
    llvm: str
    isa: str
    numpy_has: frozenset[str]
    llvm_has: frozenset[str]

    def environment(self, features: Sequence[str]) -> dict[str, str]:
        """Return the environment variables that NumPy, OpenBLAS, XLA and this file read when a process starts."""
        return {
            "NPY_DISABLE_CPU_FEATURES": " ".join(self.cut(features)),
            "OPENBLAS_CORETYPE": self.blas,
            "OPENBLAS_NUM_THREADS": "1",
            "XLA_FLAGS": f"--xla_cpu_max_isa={self.isa}",
            CUT_DOWN_TO: self.blas,
        }

    def cut(self, features: Sequence[str]) -> list[str]:
        """Return the CPU features that NumPy must disable, because the simulated processor lacks them."""
        return [feature for feature in features if feature not in self.numpy_has]


NUMPY_AVX2 = frozenset({"X86_V3", "AVX", "F16C", "FMA3", "AVX2"})
NUMPY_AVX512 = frozenset({"X86_V4", "AVX512F", "AVX512CD", "AVX512_SKX"})
SSE4_2 = frozenset({
    "64bit", "cmov", "crc32", "cx16", "cx8", "fxsr", "mmx", "popcnt", "sahf",
    "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3",
})  # fmt: skip
"""Features of the Nehalem processor, by LLVM's names."""
AVX2 = SSE4_2 | {
    "aes", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "fsgsbase", "invpcid", "lzcnt", "movbe",
    "pclmul", "rdrnd", "xsave", "xsaveopt",
}  # fmt: skip
"""Features of the Haswell processor, by LLVM's names."""
SINCE = frozenset({"adx", "clflushopt", "prfchw", "rdseed", "xsavec", "xsaves"})
"""Features that Zen and Skylake have in addition to Haswell's, by LLVM's names."""
AVX512 = frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "clwb"})
"""Features that Skylake servers have, but Haswell and Zen lack, by LLVM's names."""
PEER = ("tests/xla_peer/", "tests/lowering/", "tests/test_examples.py", "tests/test_documents.py")
"""Tests that `--once` skips. XLA takes most of their time, and other tests cover what they compute natively."""
SETTINGS = [
    Setting("Haswell", "haswell", "AVX2", NUMPY_AVX2, AVX2),
    Setting("Zen", "znver2", "AVX2", NUMPY_AVX2, AVX2 | SINCE),
    Setting(
        "SkylakeX", "skylake-avx512", "AVX512", NUMPY_AVX2 | NUMPY_AVX512, AVX2 | SINCE | AVX512
    ),
    Setting("Nehalem", "nehalem", "SSE4_2", frozenset(), SSE4_2),
]


def llvm_processor() -> list[str]:
    """Return the name of the processor for which LLVM generates code, then its features.

    The list is empty without llvmlite.
    """
    if importlib.util.find_spec("llvmlite") is None:
        return []
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return [llvm.get_host_cpu_name(), *sorted([name for name, has in features.items() if has])]


def cut_down_llvm() -> None:
    """Restrict LLVM to the processor that the environment variable names; without the variable, do nothing."""
    settings = {setting.blas: setting for setting in SETTINGS}
    setting = settings.get(os.environ.get(CUT_DOWN_TO, ""))
    if setting is None or importlib.util.find_spec("llvmlite") is None:
        return
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    features.update({name: has and name in setting.llvm_has for name, has in features.items()})
    vars(llvm).update(
        get_host_cpu_name=lambda: setting.llvm, get_host_cpu_features=lambda: features
    )


def pytest_configure() -> None:
    """Restrict LLVM to the simulated processor before the tests of this process start."""
    cut_down_llvm()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark failed tests as skipped if they fail because XLA cannot convert float16 on the simulated processor."""
    report = yield
    error = str(call.excinfo.value) if call.excinfo else ""
    if not HAS_FLOAT16 and report.failed and "Failed to materialize symbols" in error:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), None, "XLA brings no conversions of float16")
    return report


def numpy_features() -> tuple[list[str], list[str]]:
    """Return two lists of CPU features: those that NumPy always requires, and those for which it selects loops here."""
    import numpy as np

    features = np.show_config(mode="dicts")["SIMD Extensions"]
    return list(features.get("baseline", [])), list(features.get("found", []))


def probe(environment: Mapping[str, str]) -> dict[str, object]:
    """Start a process with these environment variables; return the instruction sets and libraries that it reports."""
    command = [sys.executable, "-c", PROBE]
    lines = subprocess.run(
        command,
        env={**os.environ, **environment},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return json.loads(lines[-1])


def without_effect(
    setting: Setting, cut: Sequence[str], here: Mapping[str, Any], there: Mapping[str, Any]
) -> list[str]:
    """Return the libraries that still use CPU features that the simulated processor lacks.

    Args:
        cut: the features of NumPy that the setting disables, and the other features that the processor lacks.
        here: what `probe` returned for this process.
        there: what `probe` returned for a process in the setting.
    """
    without = []
    if {*there["numpy"]} & {*cut}:
        without.append("NumPy")
    if {*cut} & (NUMPY_AVX2 | NUMPY_AVX512) and there["xla"] == here["xla"]:
        without.append("XLA")
    if here["llvm"] and (
        {*there["llvm"][1:]} - setting.llvm_has or there["llvm"][0] != setting.llvm
    ):
        without.append("LLVM")
    # The OpenBLAS in the wheels of NumPy and SciPy has no kernels for Zen, so it uses Haswell's.
    if there["blas"] not in ([setting.blas], ["Haswell"] if setting.blas == "Zen" else []):
        without.append("OpenBLAS")
    return without


def vector_instructions(about: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the kernels of OpenBLAS, and the vector instructions of XLA and LLVM, that `probe` returned."""
    features = [name for name in about["llvm"][1:] if name.startswith(("avx", "f16c", "fma"))]
    return about["blas"], about["xla"], features


def main() -> int:
    """Run the tests as if on every processor; return 0 if all pass and every restriction had an effect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/1", metavar="I/N", help="one of N parts of the tests")
    parser.add_argument("--only", action="append", choices=[each.blas for each in SETTINGS])
    parser.add_argument("--once", action="store_true", help="leave out what was computed before")
    options = parser.parse_args()
    baseline, features = numpy_features()
    here = probe({})
    print(f"this processor: {here}", flush=True)
    failed, tested = [], [vector_instructions(here)] if options.once else []
    for setting in SETTINGS:
        if options.only and setting.blas not in options.only:
            continue
        if setting.isa == "AVX512" and not {*features} & NUMPY_AVX512:
            print(f"{setting.blas}: this processor has no AVX-512")
            continue
        environment = setting.environment(features)
        there = probe(environment)
        print(f"{setting.blas}: {there}", flush=True)
        more = (NUMPY_AVX2 | NUMPY_AVX512) & {*baseline}
        cut = setting.cut([*features, *more])
        if without := without_effect(setting, cut, here, there):
            print(f"{setting.blas}: no effect on {', '.join(without)}")
            failed.append(setting.blas)
        if vector_instructions(there) in tested:
            print(f"{setting.blas}: its kernels and vector instructions were tested already")
            continue
        marker = "compiled" if there["blas"] in [blas for blas, *_ in tested] else "processor"
        if len(tested) > 1:  # with --once, later settings run only core tests
            marker += " and core"
        tests = selection.read(marker.partition(" ")[0])
        files = sorted({selection.file_of(test) for test in tests})
        if options.once:
            files = [file for file in files if not file.startswith(PEER)]
        tested += [vector_instructions(there)] if options.once else []
        arguments = ["-n", "2", "--dist", "worksteal", "--part", options.part, "-m", marker]
        command = [sys.executable, "-m", "pytest", "-p", "tools.portability", *arguments, *files]
        if subprocess.run(command, env={**os.environ, **environment}, cwd=ROOT).returncode:
            failed.append(setting.blas)
    print(f"failed as if on {', '.join(dict.fromkeys(failed))}" if failed else "passed on all")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

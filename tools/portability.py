"""Run the numerical tests as if on processors with smaller vectors, and see that the settings have an effect.

NumPy chooses its loops by what the processor has, XLA and LLVM compile for it, and OpenBLAS has a kernel for each:
results differ in their last bits from machine to machine, and tolerances must hold on all. The processes of the tests
load this file as a plugin of pytest, which cuts down what LLVM makes code for.

    python tools/portability.py             both settings, one after the other
    python tools/portability.py --part 1/10  every tenth test
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
CUT_DOWN_TO = "PORTABILITY_PROCESSOR"
"""The variable with the name of a setting."""
TESTS = [
    "tests/ad",
    "tests/api",
    "tests/exec",
    "tests/ext",
    "tests/ops",
    "tests/passes",
    "tests/xla_peer/test_fuzz.py",
    "tests/xla_peer/test_parity.py",
    "tests/xla_peer/test_verification.py",
]

# Printed by a process of its own: what NumPy dispatches on, which kernels OpenBLAS has, XLA's machine code.
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
    """A processor that this one is cut down to."""

    name: str
    numpy_has: frozenset[str]
    llvm_has: frozenset[str]
    blas: str

    def environment(self, found: list[str]) -> dict[str, str]:
        """Variables that NumPy, OpenBLAS, XLA and this file read when a process starts."""
        cut = [feature for feature in found if feature not in self.numpy_has]
        return {
            "NPY_DISABLE_CPU_FEATURES": " ".join(cut),
            "OPENBLAS_CORETYPE": self.blas,
            "OPENBLAS_NUM_THREADS": "1",
            "XLA_FLAGS": f"--xla_cpu_max_isa={self.name}",
            CUT_DOWN_TO: self.name,
        }


SSE4_2 = frozenset({
    "64bit", "cmov", "crc32", "cx16", "cx8", "fxsr", "mmx", "popcnt", "sahf",
    "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3",
})  # fmt: skip
"""LLVM's names of what Nehalem has."""
AVX2 = SSE4_2 | {
    "aes", "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "fsgsbase", "invpcid", "lzcnt", "movbe",
    "pclmul", "rdrnd", "xsave", "xsaveopt",
}  # fmt: skip
"""LLVM's names of what Haswell has."""
SETTINGS = [
    # NumPy's names before and after it dispatches on levels.
    Setting("AVX2", frozenset({"X86_V3", "AVX", "F16C", "FMA3", "AVX2"}), AVX2, "Haswell"),
    Setting("SSE4_2", frozenset(), SSE4_2, "Nehalem"),
]


def llvm_processor() -> list[str]:
    """The processor that LLVM makes code for, and its features; nothing without llvmlite."""
    if importlib.util.find_spec("llvmlite") is None:
        return []
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return [llvm.get_host_cpu_name(), *sorted([name for name, has in features.items() if has])]


def cut_down_llvm() -> None:
    """Have LLVM make code for the processor of the setting that this process runs in."""
    settings = {setting.name: setting for setting in SETTINGS}
    setting = settings.get(os.environ.get(CUT_DOWN_TO, ""))
    if setting is None or importlib.util.find_spec("llvmlite") is None:
        return
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    features.update({name: has and name in setting.llvm_has for name, has in features.items()})
    vars(llvm).update(get_host_cpu_name=setting.blas.lower, get_host_cpu_features=lambda: features)


def pytest_configure() -> None:
    """Before the tests of a process."""
    cut_down_llvm()


def found_features() -> list[str]:
    """What NumPy dispatches on and this processor has, above the baseline that NumPy was built for."""
    import numpy as np

    config = np.show_config(mode="dicts")
    return list(config["SIMD Extensions"].get("found", []))


def probe(environment: Mapping[str, str]) -> dict[str, object]:
    """What a process in this environment computes with."""
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


def main() -> int:
    """0 where the tests pass in every setting, and every setting had an effect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", default="1/1", metavar="I/N", help="one of N parts of the tests")
    part = parser.parse_args().part
    found = found_features()
    here = probe({})
    print(f"this processor: {here}", flush=True)
    failed = False
    for setting in SETTINGS:
        environment = setting.environment(found)
        if not environment["NPY_DISABLE_CPU_FEATURES"]:
            print(f"{setting.name}: NumPy finds nothing above it here")
            continue
        cut = probe(environment)
        print(f"{setting.name}: {cut}", flush=True)
        names = ["numpy", "xla", *(["llvm"] if here["llvm"] else [])]
        without = [name for name in names if cut[name] == here[name]]
        if cut["blas"] != [setting.blas]:
            without.append("blas")
        if without:
            print(f"{setting.name}: no effect on {', '.join(without)}")
            failed = True
        arguments = ["-n", "2", "--dist", "worksteal", "--part", part, *TESTS]
        command = [sys.executable, "-m", "pytest", "-p", "tools.portability", *arguments]
        failed |= (
            subprocess.run(command, env={**os.environ, **environment}, cwd=ROOT).returncode != 0
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""A program that needs more memory than is allowed must raise an error, and the process must continue."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits are set from /proc")
def test_results_without_memory_are_errors() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.xla_peer.starved"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "passed\n"


WITHOUT_THREADS = """
import threading
import numpy as np
import tenferro as tnf
import lowering
from xla_peer import XlaExecutor, check_parity

def refuse(thread):
    raise RuntimeError("can't start new thread")

threading.Thread.start = refuse
x = np.ones(8)
program = tnf.compile(lambda x: tnf.linalg.solve(tnf.sin(x) * tnf.eye(8), x), x)
text = lowering.lower_to_stablehlo(program).text
xla = XlaExecutor("cpu")
for each in (program, lowering.import_stablehlo(text)):
    for _ in range(2):
        np.testing.assert_allclose(xla.run(each, x), 1 / np.sin(x))
assert check_parity(program, x).ok
print("passed")
"""


def test_programs_run_where_python_has_no_threads() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THREADS],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "passed\n", done.stderr


NOT_LOADED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "jaxlib.xla_client" or name.startswith("jaxlib._jax"):
            raise ImportError("cannot map the library")
sys.meta_path.insert(0, Refuse())
from tenferro import errors
from xla_peer import XlaExecutor
try:
    XlaExecutor("cpu")
except errors.PlatformUnavailableError as error:
    print(error)
"""


def test_jax_that_is_installed_and_cannot_be_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NOT_LOADED], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout == "jax cannot be loaded: cannot map the library\n", done.stderr

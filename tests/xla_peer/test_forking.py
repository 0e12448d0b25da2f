"""If a process forks while PJRT is running, the child must raise an error, and not hang."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, warnings
import numpy as np
import tenferro as tnf
from tenferro import errors
from xla_peer import XlaExecutor
{before}
program = tnf.compile(lambda x: tnf.exp(x), np.ones(3))
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    calls = {calls}
    for call in calls:
        try:
            call()
            print("no error", flush=True)
            os._exit(1)
        except errors.PlatformUnavailableError as error:
            assert "forked" in str(error)
    program.run(np.ones(3))
    {works}
    os._exit(0)
_, status = os.waitpid(child, 0)
{after}
print("status", os.waitstatus_to_exitcode(status))
"""


def outcome(**parts: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(**parts)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def test_what_was_made_before_is_refused_in_the_child() -> None:
    before = (
        "xla = XlaExecutor('cpu'); p = tnf.compile(lambda x: x * 2, np.ones(3));"
        "exe = xla.compile(p); b = xla.put(np.ones(3)); exe(b); xla.run(p, np.ones(3))"
    )
    calls = (
        "[lambda: exe(b), lambda: xla.run(p, np.ones(3)), lambda: xla.run(program, np.ones(3)),"
        " lambda: XlaExecutor('cpu'), lambda: xla.put(np.ones(3))]"
    )
    after = "exe(b); xla.run(program, np.ones(3))"
    found = outcome(before=before, calls=calls, works="pass", after=after)
    assert found.endswith("status 0\n"), found


def test_a_client_of_jaxs_counts_too() -> None:
    before = "import jax; jax.numpy.ones(3).block_until_ready()"
    found = outcome(before=before, calls="[lambda: XlaExecutor('cpu')]", works="pass", after="")
    assert found.endswith("status 0\n"), found


def test_forking_first_is_fine() -> None:
    works = "XlaExecutor('cpu').run(program, np.ones(3))"
    found = outcome(before="", calls="[]", works=works, after="")
    assert found.endswith("status 0\n"), found

"""Bytecode read by a process of its own: MLIR ends the process over some that is malformed.

The child gives the module as text, which this process then parses; text that is valid UTF-8 gives errors,
and never ends a process.
"""

from __future__ import annotations

import subprocess
import sys

from lowering.mlir_bindings import MlirDiagnosticError

__all__ = ["text_of_bytecode"]

SECONDS = 120.0
SCRIPT = """
import sys
from lowering import mlir_bindings
try:
    text = mlir_bindings.text_of(sys.stdin.buffer.read())
except mlir_bindings.MlirDiagnosticError as error:
    for message, place in error.diagnostics:
        sys.stderr.write(f"{message} ({place})\\n")
    sys.exit(3)
sys.stdout.buffer.write(text.encode())
"""


def text_of_bytecode(data: bytes) -> str:
    """The text of bytecode or of a portable artifact.

    Raises:
        MlirDiagnosticError: what is neither; with MLIR's messages, where it could still give them.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=data,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise MlirDiagnosticError([(f"not read within {SECONDS:.0f} s", "bytecode")]) from None
    if done.returncode == 0:
        return done.stdout.decode()
    said = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
    if done.returncode != 3:
        said = f"malformed: the parser ended with {said.splitlines()[-1]}"
    raise MlirDiagnosticError([(said, "bytecode")])

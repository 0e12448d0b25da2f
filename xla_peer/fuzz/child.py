"""XLA in a child process: what ends the compiler ends the child, and is a finding."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import weakref
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from lowering import StableHloModule, lower_to_stablehlo
from tenferro.errors import BackendFailureError
from tenferro.program import GraphProgram

__all__ = ["ChildExecutor", "ModuleInChild", "serve"]

LONGEST = 300.0
"""Seconds that one module may take, so that a compiler that never ends is a finding too."""
KEPT = 32
"""Executables that a child keeps: a search runs the same programs again on other arrays."""
COMMAND = (sys.executable, "-c", "from xla_peer.fuzz.child import serve; serve()")


class ChildExecutor:
    """Runs programs and modules through XLA in a process of its own, started again where it ended.

    Args:
        platform: as of `XlaExecutor`.
        seconds: that one module may take to compile and run.
        command: what starts the child.

    >>> import tenferro as tnf
    >>> program = tnf.compile(lambda x: x + x, np.ones(2))
    >>> with ChildExecutor() as executor:
    ...     executor.run(program, np.ones(2))
    array([2., 2.])
    """

    notices = False

    def __init__(
        self, platform: str = "cpu", seconds: float = LONGEST, command: Sequence[str] = COMMAND
    ) -> None:
        self.platform, self.seconds, self.command = platform, seconds, command
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: Any = None

    def __enter__(self) -> ChildExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def run(self, program: GraphProgram, *arrays: Any) -> Any:
        """The program's results, as of `XlaExecutor.run`.

        Raises:
            BackendFailureError: XLA could not compile or run it, ended the process, or took too long.
        """
        leaves = program.check_arguments(arrays)
        module = lower_to_stablehlo(program.specialize_to(leaves), self.platform)
        return program.pack(self.outputs(module, leaves))

    def compile_module(self, module: StableHloModule) -> ModuleInChild:
        """The module, compiled when it is run."""
        return ModuleInChild(self, module)

    def outputs(self, module: StableHloModule, leaves: Sequence[Any]) -> list[Any]:
        """The outputs of a module.

        Raises:
            BackendFailureError: see `run`.
        """
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump((self.platform, module, list(leaves)), process.stdin)
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self.seconds)
        try:
            answer = pickle.load(process.stdout) if ready else None
        except EOFError:
            answer = None
        if answer is None:
            raise BackendFailureError(self._ended(bool(ready)))
        if isinstance(answer, str):
            raise BackendFailureError(answer)
        return answer

    def close(self) -> None:
        """End the child."""
        if self._ending is not None:
            self._ending()
        self._process = self._ending = None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            pipe = subprocess.PIPE
            process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe)
            self._process, self._ending = process, weakref.finalize(self, _end, process)
        return self._process

    def _ended(self, by_itself: bool) -> str:
        process = self._process
        assert process is not None
        status = process.wait() if by_itself else 0
        self.close()
        if not by_itself:
            return f"XLA took longer than {self.seconds:g} s over a module"
        return f"XLA ended its process over a module, with status {status}"


class ModuleInChild:
    """A module that a child compiles and runs."""

    def __init__(self, executor: ChildExecutor, module: StableHloModule) -> None:
        self.executor, self.module = executor, module

    def run_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """Its outputs; see `ChildExecutor.outputs`."""
        return self.executor.outputs(self.module, leaves)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def serve() -> None:
    """Answer requests on the standard streams until there are none; what XLA prints goes to the error stream."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: BinaryIO = sys.stdin.buffer
    compiled: dict[str, Any] = {}
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_answer(compiled, *request), answers)
        answers.flush()


def _answer(
    compiled: dict[str, Any], platform: str, module: StableHloModule, leaves: list[Any]
) -> list[Any] | str:
    """The outputs, or the words of the error; `compiled` has the executables of the last texts."""
    from xla_peer.executor import XlaExecutor  # because only the child starts XLA

    key = f"{platform}\n{module.plain_text}"
    try:
        if key not in compiled:
            compiled[key] = XlaExecutor(platform, notices=False).compile_module(module)
        if len(compiled) > KEPT:
            del compiled[next(iter(compiled))]
        return [np.asarray(y) for y in compiled[key].run_leaves(leaves)]
    except BackendFailureError as error:
        return str(error)

"""XLA in a child process: a crash of the compiler ends the child, and is a finding.

Its memory may be damaged then, so that only plain data go to and fro: a document in JSON, and an archive of arrays.
"""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
import weakref
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from lowering import StableHloModule, lower_to_stablehlo
from tenferro.archives import opened_archive
from tenferro.errors import BackendFailureError, PlatformUnavailableError
from tenferro.program import GraphProgram
from tenferro.types import DType, TensorSpec
from xla_peer.storage import Arrays, restored, stored

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
        request = {
            "platform": self.platform,
            "text": module.text,
            "plain_text": module.plain_text,
            "trusted": module.trusted,
            "input_names": module.input_names,
            "output_names": module.output_names,
            "input_specs": list(map(str, module.input_specs)),
            "output_specs": list(map(str, module.output_specs)),
        }
        ready: list[Any] = [process.stdout]
        try:
            _send(process.stdin, request, leaves)
            ready, _, _ = select.select([process.stdout], [], [], self.seconds)
            answer = _received(process.stdout) if ready else None
        except (
            EOFError,
            BrokenPipeError,
        ):  # because it ended over this module, or after the last one
            answer = None
        if answer is None:
            raise BackendFailureError(self._ended(bool(ready)))
        document, outputs = answer
        if document["error"]:
            raise BackendFailureError(document["error"])
        return outputs

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
    """Answer requests on the standard streams until they end; output of XLA goes to the error stream."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests: IO[bytes] = sys.stdin.buffer
    compiled: dict[str, Any] = {}
    while True:
        try:
            request, leaves = _received(requests)
        except EOFError:
            return
        answer = _answer(compiled, request["platform"], _module_of(request), leaves)
        if isinstance(answer, str):
            _send(answers, {"error": answer}, [])
        else:
            _send(answers, {"error": ""}, answer)


def _module_of(request: Any) -> StableHloModule:
    return StableHloModule(
        request["text"],
        request["plain_text"],
        request["platform"],
        input_specs=tuple(map(TensorSpec.parse, request["input_specs"])),
        output_specs=tuple(map(TensorSpec.parse, request["output_specs"])),
        input_names=tuple(request["input_names"]),
        output_names=tuple(request["output_names"]),
        trusted=request["trusted"],
    )


def _send(stream: IO[bytes], document: dict[str, Any], arrays: Sequence[Any]) -> None:
    """Write a document and arrays, each after its length."""
    plain = list(map(np.asarray, arrays))
    document = document | {"dtypes": [DType.of(x.dtype).value for x in plain]}
    archive = io.BytesIO()
    np.savez(archive, **{str(number): stored(x) for number, x in enumerate(plain)})
    for part in (json.dumps(document).encode(), archive.getvalue()):
        stream.write(len(part).to_bytes(8, "little"))
        stream.write(part)
    stream.flush()


def _received(stream: IO[bytes]) -> tuple[dict[str, Any], list[Any]]:
    """Read a document and arrays written by `_send`.

    Raises:
        EOFError: the stream ends before that.
    """
    parts: list[bytes] = []
    for _ in range(2):
        size = int.from_bytes(_exactly(stream, 8), "little")
        parts.append(_exactly(stream, size))
    document = json.loads(parts[0])
    with opened_archive(io.BytesIO(parts[1]), "an answer") as archive:
        arrays = Arrays(archive)
        outputs = [
            restored(arrays[str(number)], DType(name))
            for number, name in enumerate(document["dtypes"])
        ]
    return document, outputs


def _exactly(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError(f"{size} bytes were announced, and {len(content)} came")
    return content


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
    except (BackendFailureError, PlatformUnavailableError) as error:
        return str(error)

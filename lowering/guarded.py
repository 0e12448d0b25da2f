"""MLIR operations on modules of unknown origin, in a separate process with limits.

MLIR may abort its process or corrupt its memory on damaged bytecode, and on some valid text. So the user's process
never passes such a module to MLIR. In the user's process the module is only text, bytes or plain data:

- A worker process forks for each operation. One fork converts bytecode to text. The text is not trusted either, because
  the fork's memory may be damaged. So the next operation runs in another fork.
- Text that a fork has parsed, verified and compiled without failure is passed to PJRT in the user's process, where the
  same code behaves in the same way.
- Trees of operations are transferred as JSON, which Python parses.

A fork is not a sandbox: it has the user's permissions.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tenferro.errors
from lowering.mlir_bindings import MlirDiagnosticError
from lowering.module_operations import OPERATIONS
from tenferro.errors import TenferroError, UnsupportedError

__all__ = ["Limits", "last_words", "perform"]

HELP = "a module of your own has no limits with trusted=True"

# The worker process creates the packages `lowering` and `tenferro` as empty modules. Their `__init__.py` files would
# import everything, and the worker would start in 0.7 s instead of 0.2 s.
START = """
import sys, types
sys.path[:] = {path!r}
for name, place in {packages!r}:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [place]
from lowering.reading_process import serve
serve()
"""


@dataclass(frozen=True)
class Limits:
    """Limits on the resources for reading a module.

    Attributes:
        cpu_seconds: processor time.
        wall_seconds: elapsed time.
        memory: number of bytes that the process may allocate after its start; enforced on Linux only.
        largest_reply: maximum size of the result, in bytes.
    """

    cpu_seconds: int
    wall_seconds: float
    memory: int
    largest_reply: int

    @classmethod
    def of_size(cls, size: int) -> Limits:
        """Return limits that suffice for a well-formed module of `size` bytes.

        >>> Limits.of_size(1000).cpu_seconds, Limits.of_size(50_000_000).cpu_seconds
        (4, 404)
        """
        cpu_seconds = 4 + 8 * (size // 1_000_000)
        return cls(
            cpu_seconds=cpu_seconds,
            wall_seconds=30.0 + 4 * cpu_seconds,
            memory=(512 << 20) + 32 * size,
            largest_reply=(16 << 20) + 32 * size,
        )

    @classmethod
    def of_compilation(cls, size: int) -> Limits:
        """Return limits that suffice to compile a well-formed module of `size` bytes."""
        cpu_seconds = 60 + 60 * (size // 1_000_000)
        return cls(
            cpu_seconds=cpu_seconds,
            wall_seconds=30.0 + 4 * cpu_seconds,
            memory=(2 << 30) + 64 * size,
            largest_reply=1 << 20,
        )


def perform(
    operation: str,
    module: str | bytes,
    *arguments: Any,
    trusted: bool,
    limits: Limits | None = None,
) -> Any:
    """Perform an operation of `lowering.module_operations` on a module.

    Args:
        operation: a name in `lowering.module_operations.OPERATIONS`, such as "bytecode".
        arguments: further arguments of the operation.
        trusted: perform the operation in the calling process, which a malformed module may crash.
        limits: limits of the worker's fork; by default those of `Limits.of_size`.

    Raises:
        MlirDiagnosticError: MLIR refused the module, or reading it crashed the worker process or exceeded the limits.
        UnsupportedError: the module is not trusted, and the system lacks `os.fork`.
        TenferroError, ImportError: the error that the operation raised in the worker process.
    """
    if trusted:
        return OPERATIONS[operation].perform(module, *arguments)
    if not hasattr(os, "fork"):
        raise UnsupportedError(
            "modules of others are read in a process of their own, which needs os.fork; give trusted=True "
            "for one that you made yourself"
        )
    data = module.encode(errors="surrogatepass") if isinstance(module, str) else module
    limits = limits or Limits.of_size(len(data))
    request = {"operation": operation, "arguments": arguments, **asdict(limits)}
    reply, ending = _PROCESS.ask(json.dumps(request).encode(), data, limits.wall_seconds + 30)
    words = _ending_words(ending, limits)
    if words:
        raise MlirDiagnosticError([(words, f"{operation} of {len(data)} bytes")])
    end = 16 + int.from_bytes(reply[:8], "little")
    _raise_error(json.loads(reply[16:end]), limits)
    return OPERATIONS[operation].decode(reply[end:])


def _ending_words(ending: dict[str, Any], limits: Limits) -> str:
    """Return a message that says why a fork sent no complete reply; "" if the reply is complete."""
    number, said = ending["signal"], ending["said"]
    if ending["ending"] == "late":
        return f"it took longer than {limits.wall_seconds:g} s; {HELP}"
    if ending["ending"] == "large":
        return f"what it stands for is more than {limits.largest_reply} bytes"
    if (
        number in (0, signal.SIGKILL) and ending["complete"]
    ):  # the fork exceeded a limit, but only after it had sent its complete reply
        return ""
    if number == signal.SIGXCPU:
        return f"it took more than {limits.cpu_seconds} s of processor time; {HELP}"
    name = signal.Signals(number).name if number else "an error"
    words = f"its process, which had {limits.memory >> 20} MiB of memory, ended by {name}"
    return f"{words}: {said}" if said else words


def _raise_error(error: dict[str, Any], limits: Limits) -> None:
    """Raise the error that the fork reported in its reply; do nothing if `error` is empty."""
    if not error:
        return
    kind = error["kind"]
    if kind == "MlirDiagnosticError":
        raise MlirDiagnosticError(
            [(message, location) for message, location in error["diagnostics"]]
        )
    if kind == "ImportError":
        raise ImportError(error["message"])
    if kind == "MemoryError":
        raise MlirDiagnosticError(
            [(f"it took more than {limits.memory >> 20} MiB; {HELP}", "memory")]
        )
    error_class = getattr(tenferro.errors, kind, None) if kind in tenferro.errors.__all__ else None
    if isinstance(error_class, type) and issubclass(error_class, TenferroError):
        raise error_class(error["message"])
    raise MlirDiagnosticError([(f"malformed: {error['message']}", "module")])


class ReadingProcess:
    """Owner of the worker process, which performs MLIR operations for all threads of the calling process.

    The worker starts at the first request and ends with the calling process. A fork of the calling process starts its
    own worker.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._messages: Any = None

    def ask(self, request: bytes, module: bytes, seconds: float) -> tuple[bytes, dict[str, Any]]:
        """Send a request, and return the reply and a dictionary that says how the worker's fork ended.

        Raises:
            MlirDiagnosticError: the worker process ended, or sent no complete reply within `seconds`.
        """
        sizes = b"".join([len(part).to_bytes(8, "little") for part in (request, module)])
        with self._lock:
            try:
                self._send([sizes + request, module])
                return self._receive(time.monotonic() + seconds)
            except EOFError as error:
                words = self._last_words() or str(error)
                self._end()
                raise MlirDiagnosticError(
                    [(f"the process that reads modules ended: {words}", "process")]
                ) from None
            except BaseException:  # otherwise the next request would receive the rest of this reply
                self._end()
                raise

    def _send(self, parts: list[bytes]) -> None:
        try:
            self._write(parts)
        except BrokenPipeError:  # an idle worker process exits after some time
            self._end()
            self._write(parts)

    def _write(self, parts: list[bytes]) -> None:
        process = self._process or self._start()
        assert process.stdin is not None
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[process.stdin.write(view) :]

    def _start(self) -> subprocess.Popen[bytes]:
        here = Path(__file__).parent
        packages = [("lowering", str(here)), ("tenferro", str(Path(tenferro.__file__).parent))]
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115  because it lives as long as the process
        self._process = subprocess.Popen(
            # -P keeps Python from importing files of the working directory, which may be as untrusted as the module.
            [sys.executable, "-P", "-c", START.format(path=sys.path, packages=packages)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            bufsize=0,
        )
        return self._process

    def _receive(self, deadline: float) -> tuple[bytes, dict[str, Any]]:
        pieces: list[bytes] = []
        while piece := self._piece(deadline):
            pieces.append(piece)
        ending = json.loads(self._piece(deadline))
        reply = b"".join(pieces)
        sizes = [int.from_bytes(reply[offset : offset + 8], "little") for offset in (0, 8)]
        ending["complete"] = len(reply) == 16 + sum(sizes)
        ending["said"] = "" if ending["complete"] else self._last_words()
        return reply, ending

    def _piece(self, deadline: float) -> bytes:
        return self._read(int.from_bytes(self._read(8, deadline), "little"), deadline)

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        handle, data = self._process.stdout.fileno(), bytearray()
        while len(data) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                raise EOFError("it does not answer")
            piece = os.read(handle, size - len(data))
            if not piece:
                raise EOFError("without a word")
            data += piece
        return bytes(data)

    def _last_words(self) -> str:
        return last_words(os.pread(self._messages.fileno(), 1 << 16, 0))

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        self._close(process)

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        for stream in (process.stdin, process.stdout, self._messages):
            if stream is not None:
                stream.close()

    def end(self) -> None:
        """End the worker process; the next request starts a new worker."""
        with self._lock:
            self._end()

    def abandon(self) -> None:
        """Forget the worker process without ending it.

        Each new fork of the calling process calls this method, because the worker belongs to the parent of the fork.
        """
        self._lock = threading.Lock()
        process, self._process = self._process, None
        if process is not None:
            process.returncode = (
                0  # the worker is no child of this process, so `Popen` must not wait for it
            )
            self._close(process)


def last_words(data: bytes) -> str:
    r"""Return the last line that a process wrote on standard error; lines of a stack trace are skipped.

    >>> last_words(b"F0000 Check failed: n >= 0\n*** SIGABRT ***\n    @ 0x7f00 main\n")
    'F0000 Check failed: n >= 0'
    """
    lines = [line.strip()[:300] for line in data.decode(errors="replace").split("\n")]
    return next((x for x in reversed(lines) if x and not x.startswith(("@", "***"))), "")


_PROCESS = ReadingProcess()
atexit.register(_PROCESS.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PROCESS.abandon)

"""Child process that runs XLA. It is kept between requests, and replaced by a new child if it ends.

The child imports the needed modules once and forks a worker, which starts PJRT. If XLA ends the worker, the child
forks another worker, which is much faster than importing the modules again.

Only text and the bytes of arrays are exchanged, because a worker's memory may be corrupt. A request consists of a
JSON document and arrays, in memory that both processes map. One pipe carries the size of a request to the worker, and
another the answer. The child reads no standard input, and its output goes to a file. It has its own process group, so
that Ctrl-C reaches only the parent, and it exits when the parent has exited.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import numpy as np

import tenferro.errors
from lowering.guarded import last_words
from tenferro.errors import BackendFailureError, PeerEndedError, TenferroError, UnsupportedError
from tenferro.forks import call_in_child
from tenferro.types import TensorSpec
from xla_peer.shared_arrays import SharedArrays, layout

__all__ = ["LONGEST_ANSWER", "REQUEST", "SHARED_PROCESS", "Limits", "PeerProcess"]

START = """
import sys
sys.path[:] = {path!r}
from xla_peer.peer_server import serve
serve({requests}, {answers}, {memory}, {parent})
"""
REQUEST = struct.Struct("<4Q")
"""Layout of a request in the pipe: the request's number, the size of the shared memory, the document's offset and size.
"""
LONGEST_ANSWER = 1 << 20
"""Maximum size of an answer, in bytes."""
EXHAUSTED = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "bad_alloc", "Cannot allocate")
"""Words in messages of XLA, LLVM and the C++ runtime about exhausted memory."""
ATTEMPTS = 3
"""Maximum number of times that a request is sent if workers end before reading it."""
STARTING = 300.0
"""Maximum time to start a child, in seconds."""
KEPT_BYTES = 64 << 20
"""Maximum size of the shared memory that is reused by later requests, in bytes."""


class Limits(NamedTuple):
    """Bounds on one request.

    Attributes:
        timeout: maximum time for the request, in seconds.
        memory_limit: maximum number of bytes that the worker may allocate for the request; None for no limit. Only
            Linux enforces the limit.
    """

    timeout: float = 300.0
    memory_limit: int | None = None


class PeerProcess:
    """A child process that answers the requests of all threads; the first request starts it.

    The child ends at `close` or with this process; a process forked from this one starts its own child.

    Args:
        script: Python code that the child runs, a format string with the fields `path`, `requests`, `answers`,
            `memory` and `parent`.

    Attributes:
        worker: id of the process that runs XLA; 0 if there is none.
        script: the Python code that the child runs.
        starts: the number of workers that were started.
    """

    def __init__(self, script: str = START) -> None:
        self.script = script
        self.starts = 0
        self._forget()
        _living.add(self)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self.worker = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._memory: SharedArrays | None = None
        self._streams: list[IO[bytes]] = []
        self._finalizer: Any = None

    def ask(
        self,
        document: dict[str, Any],
        arrays: Sequence[Any],
        results: Sequence[TensorSpec],
        limits: Limits,
        stage: str,
    ) -> tuple[dict[str, Any], list[Any]]:
        """Send a request with arrays; return the answer, and result arrays of the types `results`.

        Raises:
            PeerEndedError: the worker ended, took too long, or ran out of memory.
            BackendFailureError, PlatformUnavailableError, InvalidConfigError: see `XlaExecutor`.
            UnsupportedError: the system lacks `os.fork`.
        """
        leaves = [np.asarray(x) for x in arrays]
        specs = [*[TensorSpec(x.shape, x.dtype) for x in leaves], *results]
        offsets, size = layout(specs)
        places = [[str(spec), offset] for spec, offset in zip(specs, offsets, strict=True)]
        content = json.dumps(
            document
            | {
                "limit": limits.memory_limit,
                "inputs": places[: len(leaves)],
                "outputs": places[len(leaves) :],
            }
        ).encode()
        with self._lock:
            try:
                memory = self._started()
                memory.resize(max(size + len(content), min(memory.size, KEPT_BYTES)))
                for x, offset, spec in zip(leaves, offsets, specs, strict=False):
                    memory.view(offset, spec)[...] = x
                memory.write(size, content)
                answer = self._answer(memory.size, size, len(content), limits.timeout, stage)
                _raise_error(answer.get("error"), stage)
                outputs = zip(offsets[len(leaves) :], results, strict=True)
                return answer, [memory.view(n, spec).copy() for n, spec in outputs]
            except TenferroError:
                raise
            except (
                BaseException
            ):  # otherwise the next request would receive the late answer to this request
                self._end()
                raise

    def close(self) -> None:
        """End the child process; the next request starts a new child."""
        with self._lock:
            self._end()

    def abandon(self) -> None:
        """Drop the reference to the child process, in a forked process, to whose parent the child belongs."""
        process, streams = self._process, self._streams
        if self._finalizer is not None:
            self._finalizer.detach()
        if process is not None:
            process.returncode = 0  # because the process is not a child of this one
        for stream in streams:
            stream.close()
        self._forget()

    # ---- the child -------------------------------------------------------------------------------

    def _started(self) -> SharedArrays:
        """Start a worker that waits for a request, and return the memory shared with it.

        Raises:
            PeerEndedError: no worker can be started.
        """
        if self._process is not None and self._process.poll() is not None:
            self._end()  # the child was killed, so its worker ends, too
        if self._process is not None:
            try:
                while self._is_readable(0.0):  # a worker ended after its last answer
                    self._follow(self._message(time.monotonic() + STARTING))
            except (EOFError, TimeoutError, ValueError):
                self._end()
        if self._process is None:
            self._start()
        try:
            while not self.worker:
                self._follow(self._message(time.monotonic() + STARTING))
        except (EOFError, TimeoutError, ValueError):
            raise self._lost("starting") from None
        assert self._memory is not None
        return self._memory

    def _start(self) -> None:
        if not hasattr(os, "fork"):
            raise UnsupportedError(
                "running XLA in a child process needs os.fork, which this system lacks; isolated=False runs XLA in "
                "this process"
            )
        memory = SharedArrays()
        here, theirs = os.pipe(), os.pipe()
        handles = {"requests": here[0], "answers": theirs[1], "memory": memory.handle}
        messages = tempfile.TemporaryFile("a+b")  # noqa: SIM115  because it lives as long as the child
        script = self.script.format(path=sys.path, parent=os.getpid(), **handles)
        try:
            process = subprocess.Popen(
                # -P keeps Python from importing files of the current folder, which may be as untrusted as the module.
                [sys.executable, "-P", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                pass_fds=tuple(handles.values()),
                process_group=0,
            )
        finally:
            os.close(here[0])
            os.close(theirs[1])
        requests, answers = os.fdopen(here[1], "wb", 0), os.fdopen(theirs[0], "rb", 0)
        streams: list[IO[bytes]] = [requests, answers, messages]
        self._process, self._memory, self._streams = process, memory, streams
        self._finalizer = weakref.finalize(self, _end, process, streams)

    def _answer(
        self, mapped: int, offset: int, size: int, timeout: float, stage: str
    ) -> dict[str, Any]:
        """Tell the worker to read the request in the shared memory, and return the answer.

        Raises:
            PeerEndedError: the worker ended, or took too long.
        """
        os.ftruncate(self._streams[2].fileno(), 0)
        deadline = time.monotonic() + timeout
        message: dict[str, Any] = {}
        try:
            for _ in range(ATTEMPTS):
                self._number += 1
                self._streams[0].write(REQUEST.pack(self._number, mapped, offset, size))
                begun = False
                while True:
                    message = self._message(deadline)
                    self._follow(message)
                    if "ended" in message:
                        break
                    begun |= message.get("begun") == self._number
                    if message.get("number") == self._number:
                        return message
                if begun:
                    raise self._worker_ended(message["ended"], stage)
                # The worker ended before it read the request, so the request is sent to the next worker.
            error = self._worker_ended(message["ended"], "starting")
            self._end()  # the pipe to the child may still contain the last request
            raise error
        except TimeoutError:
            if self.worker:
                os.kill(self.worker, signal.SIGKILL)
            self.worker = 0  # so that the next request waits for a new worker
            raise PeerEndedError("timeout", stage, f"{timeout:g} s") from None
        except TenferroError:
            raise
        except (EOFError, BrokenPipeError, ValueError):
            raise self._lost(stage) from None

    def _worker_ended(self, status: int, stage: str) -> PeerEndedError:
        said = self._said()
        is_exhausted = any(words in said for words in EXHAUSTED)
        return PeerEndedError("out of memory" if is_exhausted else _ending(status), stage, said)

    def _follow(self, message: dict[str, Any]) -> None:
        """Update `worker` and `starts` from a message of the child.

        Raises:
            PlatformUnavailableError: the child cannot import JAX.
        """
        if "number" not in message:
            _raise_error(message.get("error"), "starting")
        if "ended" in message:
            self.worker = 0
        if "worker" in message:
            self.worker = int(message["worker"])
            self.starts += 1

    def _message(self, deadline: float) -> dict[str, Any]:
        """Read the next message of the child.

        Raises:
            EOFError: the child has ended.
            TimeoutError: no message arrives before the deadline.
            ValueError: the message is not a JSON object.
        """
        size = int.from_bytes(self._bytes(8, deadline), "little")
        if size > LONGEST_ANSWER:
            raise ValueError("an answer is short")
        message = json.loads(self._bytes(size, deadline))
        if not isinstance(message, dict):
            raise ValueError("an answer is an object")
        return message

    def _bytes(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            if not self._is_readable(deadline - time.monotonic()):
                raise TimeoutError
            piece = os.read(self._streams[1].fileno(), size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _is_readable(self, seconds: float) -> bool:
        """Return whether the child sends data within the given time."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._streams[1], selectors.EVENT_READ)
            return bool(selector.select(max(0.0, seconds)))

    def _said(self) -> str:
        return last_words(os.pread(self._streams[2].fileno(), 1 << 16, 0))

    def _lost(self, stage: str) -> PeerEndedError:
        """Create the error for a child that ended, or sent an invalid answer."""
        process = self._process
        assert process is not None
        said = self._said()
        try:
            ending = _ending(process.wait(1))
        except subprocess.TimeoutExpired:
            ending = "a damaged answer"
        self._end()
        return PeerEndedError(ending, stage, said)

    def _end(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
        if self._memory is not None:
            self._memory.close()
        self._process = self._memory = self._finalizer = None
        self._streams = []
        self.worker = 0


_living: weakref.WeakSet[PeerProcess] = weakref.WeakSet()


def _abandon() -> None:
    for process in list(_living):
        process.abandon()


call_in_child(_abandon)

SHARED_PROCESS = PeerProcess()
"""Child process that all executors without the argument `process` share; `SHARED_PROCESS.close()` ends it."""


def _ending(status: int) -> str:
    """Return a description of a process's exit status: the signal that ended it, or its exit code."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _end(process: subprocess.Popen[bytes], streams: Sequence[IO[bytes]]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # also ends its worker
    process.wait()
    for stream in streams:
        stream.close()


def _raise_error(error: Any, stage: str) -> None:
    """Raise the error that an answer reports; without an error, do nothing."""
    if not error:
        return
    kind, message = str(error["kind"]), str(error["message"])
    if kind == "MemoryError" or any(words in message for words in EXHAUSTED):
        raise PeerEndedError("out of memory", stage, message.splitlines()[0][:300])
    if "custom call" in message.lower() and "register" in message.lower():
        message += (
            "\n  a custom call that this process registered is known to it alone: isolated=False"
        )
    named = getattr(tenferro.errors, kind, None) if kind in tenferro.errors.__all__ else None
    error_class: type[TenferroError] = BackendFailureError
    if isinstance(named, type) and issubclass(named, TenferroError) and named is not PeerEndedError:
        error_class = named
    raise error_class(message).at(error.get("source"))

"""Main program of the child process that `PeerProcess` starts: it compiles and runs modules until its parent ends."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import threading
import time
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from lowering import StableHloModule
from tenferro.errors import TenferroError
from tenferro.types import TensorSpec
from xla_peer import pjrt
from xla_peer.executable import Executable
from xla_peer.executor import XlaExecutor
from xla_peer.peer_process import LONGEST_ANSWER, REQUEST
from xla_peer.shared_arrays import SharedArrays

__all__ = ["Server", "serve"]

KEPT = 64
"""Maximum number of executables that a worker keeps."""


def serve(requests: int, answers: int, memory: int, parent: int) -> None:
    """Fork a worker that answers requests, and the next after it ends, until the parent ends or closes its pipe.

    Args:
        requests, answers: handles of the pipes.
        memory: the handle of the shared memory.
        parent: the id of the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        pjrt.modules()  # before the fork, because the import takes long
        pjrt.initialize_lapack()
    except TenferroError as error:
        _say(answers, _error(type(error).__name__, error.text(), None))
        return
    warnings.simplefilter("ignore")  # because JAX warns of forks, although it has no threads yet
    while True:
        worker = os.fork()
        if worker == 0:
            _work(requests, answers, memory)
            os._exit(0)
        _say(answers, {"worker": worker})
        status = _waited(worker, parent)
        if status is None:
            os.kill(worker, signal.SIGKILL)
        if not status:
            return
        # Unread requests are discarded before the end is reported, because the parent then sends them again.
        os.set_blocking(requests, False)
        with contextlib.suppress(BlockingIOError):
            os.read(requests, 1 << 16)
        os.set_blocking(requests, True)
        _say(answers, {"ended": status})


def _waited(worker: int, parent: int) -> int | None:
    """Wait for a worker, and return its exit status, negative for a signal; None if the parent ends first."""
    while os.getppid() == parent:
        signal.sigtimedwait({signal.SIGCHLD}, 0.5)
        pid, status = os.waitpid(worker, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
    return None


def _say(answers: int, message: dict[str, Any]) -> None:
    """Send a message to the parent, without buffering."""
    content = json.dumps(message).encode()
    with contextlib.suppress(BrokenPipeError):  # the parent has ended
        os.write(answers, len(content).to_bytes(8, "little") + content)


def _work(requests: int, answers: int, memory: int) -> None:
    """Answer requests until the pipe of requests is closed."""
    starter = os.getppid()
    threading.Thread(target=_end_with, args=(starter,), daemon=True).start()
    server = Server(SharedArrays(memory))
    while True:
        header = os.read(requests, REQUEST.size)
        if len(header) < REQUEST.size:
            return
        number, mapped, offset, size = REQUEST.unpack(header)
        _say(answers, {"begun": number})
        server.memory.remap(mapped)
        answer = server.answer(json.loads(server.memory.read(offset, size)))
        _say(answers, answer | {"number": number})


def _end_with(starter: int) -> None:
    """End this process when its parent has ended, even while XLA runs."""
    while os.getppid() == starter:
        time.sleep(0.5)
    os._exit(0)


class Server:
    """Handler of requests in a worker, with caches of executors and executables."""

    def __init__(self, memory: SharedArrays) -> None:
        self.memory = memory
        self.executors: dict[str, XlaExecutor] = {}
        self.compiled: OrderedDict[int, Executable] = OrderedDict()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Perform a request, whose operation is `name`, `compile` or `run`, and return the answer."""
        limits = _limited(request["limit"])
        try:
            return getattr(self, f"_{request['operation']}")(request)
        except TenferroError as error:
            return _error(type(error).__name__, error.text(), error.source)
        except MemoryError as error:
            return _error("MemoryError", str(error) or "Python had none", None)
        finally:
            if limits is not None:
                resource.setrlimit(resource.RLIMIT_AS, limits)

    def _name(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"platform": self._executor(request).platform}

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        module = StableHloModule(
            request["text"],
            request["plain_text"],
            request["platform"],
            input_specs=tuple(map(TensorSpec.parse, request["input_specs"])),
            output_specs=tuple(map(TensorSpec.parse, request["output_specs"])),
            input_names=tuple(request["input_names"]),
            output_names=tuple(request["output_names"]),
            trusted=True,  # a crash of this process does not harm the parent
        )
        constants = [np.array(x) for x in self._arrays(request["inputs"])]
        compiled = self._executor(request).compile_module(module, constants=constants)
        self.compiled[request["number"]] = compiled
        if len(self.compiled) > KEPT:
            self.compiled.popitem(last=False)
        return {}

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        compiled = self.compiled.get(request["number"])
        if compiled is None:
            return {"unknown": True}
        self.compiled.move_to_end(request["number"])
        compiled.run_leaves(self._arrays(request["inputs"]), self._arrays(request["outputs"]))
        return {}

    def _executor(self, request: dict[str, Any]) -> XlaExecutor:
        options = request["executor"]
        key = json.dumps(options, sort_keys=True)
        if key not in self.executors:
            self.executors[key] = XlaExecutor(**options, notices=False)
        return self.executors[key]

    def _arrays(self, places: list[list[Any]]) -> list[Any]:
        return [self.memory.view(offset, TensorSpec.parse(spec)) for spec, offset in places]


def _error(kind: str, message: str, source: str | None) -> dict[str, Any]:
    """Create an answer that reports an error; a long message is shortened to fit into an answer."""
    return {"error": {"kind": kind, "message": message[: LONGEST_ANSWER // 16], "source": source}}


def _limited(memory_limit: int | None) -> tuple[int, int] | None:
    """Limit the additional memory of this process in bytes; return the previous limits."""
    pages = Path("/proc/self/statm")
    if memory_limit is None or not pages.exists():
        return None
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(pages.read_text().split()[0]) * resource.getpagesize()
    limit = used + memory_limit
    if before[1] != resource.RLIM_INFINITY:
        limit = min(limit, before[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    return before

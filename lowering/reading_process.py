"""The worker process of `lowering.guarded`, which forks a child for every request.

The worker has one thread, imports only MLIR's bindings, and never passes a module to MLIR itself. A fork takes 3 ms;
starting an interpreter would take 200 ms. If a module corrupts a fork's memory, the next fork is not affected.

A request consists of two lengths of eight bytes each, a JSON document of the first length, and a module of the second.
The reply has the same format: two lengths, an error as JSON, and a result. It is sent in pieces, each preceded by the
length of the piece in eight bytes. An empty piece marks the end. The piece after it says how the fork ended.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from lowering import mlir_bindings
from lowering.module_operations import OPERATIONS
from tenferro.errors import TenferroError

__all__ = ["reply_of", "serve"]

IDLE_SECONDS = 600.0
PIECE = 1 << 18


def serve() -> None:
    """Answer requests on standard input until it ends, or no request comes for `IDLE_SECONDS`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the parent process
    with suppress(ImportError):  # every fork will report the error in its reply
        mlir_bindings.context().enable_multithreading(False)
    gc.collect()
    gc.freeze()
    while select.select([0], [], [], IDLE_SECONDS)[0]:
        sizes = _read(16)
        if len(sizes) < 16:
            return
        request = json.loads(_read(int.from_bytes(sizes[:8], "little")))
        module = _read(int.from_bytes(sizes[8:], "little"))
        _send(json.dumps(_forked(request, module)).encode())


def _read(size: int) -> bytearray:
    """Read `size` bytes of standard input, or fewer at its end."""
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count = os.readv(0, [view[filled : filled + PIECE]])
        if count == 0:
            return data[:filled]
        filled += count
    return data


def _write(handle: int, data: Any) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view[:PIECE]) :]


def _send(piece: bytes) -> None:
    _write(1, len(piece).to_bytes(8, "little"))
    _write(1, piece)


def _forked(request: dict[str, Any], module: bytearray) -> dict[str, Any]:
    """Perform a request in a fork, and send its reply to the parent process.

    Return a dictionary with "ending", the result of `_forward`, and "signal", the signal that ended the fork, or 0.
    """
    os.ftruncate(2, 0)
    source, sink = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            os.close(source)
            _limit(request)
            _write(sink, reply_of(request, bytes(module)))
            status = 0
        finally:
            os._exit(status)
    os.close(sink)
    try:
        ending = _forward(source, request["wall_seconds"], request["largest_reply"])
    finally:
        os.close(source)
        os.kill(process, signal.SIGKILL)  # the fork may still run, after too much time or output
        _, status = os.waitpid(process, 0)
    return {"ending": ending, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}


def _forward(source: int, seconds: float, largest: int) -> str:
    """Forward the data of a pipe to the parent process, then an empty piece.

    Return "end" at the end of the data, "late" after `seconds`, or "large" after more than `largest` bytes.
    """
    deadline, total, ending = time.monotonic() + seconds, 0, "end"
    while True:
        if not select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
            ending = "late"
            break
        piece = os.read(source, PIECE)
        total += len(piece)
        if total > largest:
            ending = "large"
            break
        if not piece:
            break
        _send(piece)
    _send(b"")
    return ending


def _limit(request: dict[str, Any]) -> None:
    """Limit the resources of this process, and redirect its standard input and output to the null device."""
    if hasattr(
        os, "sched_setaffinity"
    ):  # XLA would start a thread for each core, and each thread needs memory
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:4])
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: request["cpu_seconds"],
        resource.RLIMIT_FSIZE: 1 << 20,
        resource.RLIMIT_DATA: _data_bytes() + request["memory"],
    }
    for limit, bound in bounds.items():
        hard = resource.getrlimit(limit)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        # Only the soft limit is lowered, which makes the system send a signal that names the limit. Beyond a hard
        # limit, the system would send SIGKILL, which names none.
        resource.setrlimit(limit, (bound, hard))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _data_bytes() -> int:
    """Return the number of bytes that RLIMIT_DATA already counts for this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:  # systems without this file do not apply RLIMIT_DATA to mmap either
        return 0


def _freed() -> int:
    """Return the number of bytes that this process has freed since its peak: peak memory minus current memory."""
    try:
        with open("/proc/self/status") as file:
            sizes = dict(line.split(":", 1) for line in file)
        return 1024 * (int(sizes["VmPeak"].split()[0]) - int(sizes["VmSize"].split()[0]))
    except OSError:  # systems without this file do not apply RLIMIT_DATA to mmap either
        return 0


def reply_of(request: dict[str, Any], module: bytes) -> bytes:
    """Perform the requested operation on a module, and return the reply: its error and result, encoded as bytes."""
    operation = OPERATIONS[request["operation"]]
    error: dict[str, Any] = {}
    result = b""
    try:
        content = module.decode() if operation.takes_text else module
        result = operation.encode(operation.perform(content, *request["arguments"]))
    except mlir_bindings.MlirDiagnosticError as refusal:
        error = {"kind": "MlirDiagnosticError", "diagnostics": refusal.diagnostics}
    except (TenferroError, ImportError) as refusal:
        error = {"kind": type(refusal).__name__, "message": str(refusal)}
    except MemoryError:
        error = {"kind": "MemoryError", "message": ""}
    except Exception as failure:  # MLIR's bindings raise errors of various classes, for example for names that are not UTF-8
        error = {"kind": "", "message": f"{type(failure).__name__}: {failure}"}
        # When memory is exhausted, the bindings may return NULL without setting an exception. Python then raises
        # SystemError.
        if isinstance(failure, SystemError) and _freed() > request["memory"] // 4:
            error = {"kind": "MemoryError", "message": ""}
    parts = [json.dumps(error).encode(), result]
    return b"".join([*[len(part).to_bytes(8, "little") for part in parts], *parts])


if __name__ == "__main__":
    sys.exit(serve())

"""The server of `lowering.guarded`: a process that forks a child for every module.

The server has one thread, imports only MLIR's bindings, and never reads a module itself. A fork takes 3 ms;
starting an interpreter would take 200. If a module corrupts a fork's memory, the next fork is not affected.

A request consists of the lengths of its two parts, eight bytes each, a JSON document, and the module. The reply
has the same format; its parts are an error and the result. The reply is sent in pieces, each preceded by its
length in eight bytes, then an empty piece and the exit status of the fork.
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # because Ctrl-C is meant for the parent
    with suppress(ImportError):  # every fork will report it
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
    """Perform a request in a fork, and send its reply; return how the fork ended."""
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
        os.kill(process, signal.SIGKILL)  # the fork has finished, or must not continue
        _, status = os.waitpid(process, 0)
    return {"ending": ending, "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}


def _forward(source: int, seconds: float, largest: int) -> str:
    """Forward the data of a pipe, then an empty piece; return "end", "late" or "large"."""
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
    """Limit the resources of this process, and close the file descriptors that it does not write to."""
    if hasattr(os, "sched_setaffinity"):  # because XLA starts threads on each core
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
        # The hard limit is unchanged, because exceeding it sends SIGKILL without a message.
        resource.setrlimit(limit, (bound, hard))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _data_bytes() -> int:
    """Return the number of bytes that RLIMIT_DATA already counts for this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:  # on systems without it, mmap ignores the limit, too
        return 0


def _freed() -> int:
    """Return the peak memory of this process minus its current memory, in bytes."""
    try:
        with open("/proc/self/status") as file:
            sizes = dict(line.split(":", 1) for line in file)
        return 1024 * (int(sizes["VmPeak"].split()[0]) - int(sizes["VmSize"].split()[0]))
    except OSError:  # on systems without it, mmap ignores the limit, too
        return 0


def reply_of(request: dict[str, Any], module: bytes) -> bytes:
    """Perform an operation, and encode its result or error as bytes."""
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
    except (
        Exception
    ) as failure:  # because MLIR's bindings raise various errors for names that are not UTF-8
        error = {"kind": "", "message": f"{type(failure).__name__}: {failure}"}
        # When memory is exhausted, the bindings may return NULL without setting an exception; Python
        # then raises this one.
        if isinstance(failure, SystemError) and _freed() > request["memory"] // 4:
            error = {"kind": "MemoryError", "message": ""}
    parts = [json.dumps(error).encode(), result]
    return b"".join([*[len(part).to_bytes(8, "little") for part in parts], *parts])


if __name__ == "__main__":
    sys.exit(serve())

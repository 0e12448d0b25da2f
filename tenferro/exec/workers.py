"""The threads that an executor works with."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from tenferro.exec.aligned import aligned_bytes, rounded

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Workers", "shared"]

LARGEST_SCRATCH = 1 << 26
"""Bytes that a thread keeps."""


class Workers:
    """A pool of threads that is made when first needed.

    Args:
        threads: how many work at once; None takes the machine's cores.
    """

    def __init__(self, threads: int | None) -> None:
        self.count = _cores() if threads is None else threads
        self._blas_threads: int | None = None
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._local = threading.local()

    def share(self, work: Callable[[int, int], None], rows: int, step: int, alone: bool) -> None:
        """Call work(start, stop) on parts of `rows` that are multiples of `step`, all at once."""
        tiles = -(-rows // step)
        count = 1 if alone else min(self.count, tiles)
        if count <= 1:
            work(0, rows)
            return
        cuts = [min(rows, step * (tiles * i // count)) for i in range(count + 1)]
        pool = self._threads()
        futures: list[Future[None]] = [pool.submit(work, a, b) for a, b in pairwise(cuts[1:])]
        try:
            work(cuts[0], cuts[1])
        finally:
            for future in futures:
                future.exception()  # so that nothing writes to a result after this returns
        for future in futures:
            future.result()

    def scratch(self, sizes: Sequence[int]) -> list[Any]:
        """Arrays of so many bytes each, which are this thread's until it asks again."""
        rooms = list(map(rounded, sizes))
        piece = getattr(self._local, "piece", None)
        if piece is None or piece.size < sum(rooms):
            piece = aligned_bytes(sum(rooms))
            if piece.size <= LARGEST_SCRATCH:
                self._local.piece = piece
        ends = list(accumulate(rooms, initial=0))
        return [piece[start : start + size] for start, size in zip(ends, sizes, strict=False)]

    def blas_is_threaded(self) -> bool:
        """Whether NumPy's BLAS shares its work among threads by itself, as it does unless told otherwise."""
        if self._blas_threads is None:
            self._blas_threads = _blas_threads()
        return self._blas_threads > 1

    def _threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor  # because importing it takes long

                self._pool = ThreadPoolExecutor(max(self.count - 1, 1), "tenferro")
                if hasattr(os, "register_at_fork"):
                    mine = weakref.ref(self)
                    os.register_at_fork(after_in_child=lambda: _abandon(mine()))
            return self._pool

    def abandon(self) -> None:
        """Forget the threads of the parent, in a process that was forked."""
        self._pool = None


def shared(
    workers: Workers | None, work: Callable[[int, int], None], rows: int, step: int = 1
) -> None:
    """Call work(start, stop) on parts of `rows`, by the threads there are."""
    if workers is None:
        work(0, rows)
    else:
        workers.share(work, rows, step, alone=False)


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _blas_threads() -> int:
    """Those of the BLAS that NumPy is linked with; where that is not OpenBLAS, the most of any loaded one."""
    from threadpoolctl import OpenBLASController, threadpool_info  # because few products are large

    # Its symbols are found through the module that is linked with it. All else that is loaded need not be
    # looked at then, which takes a tenth of a second beside other frameworks.
    linked = OpenBLASController(filepath=import_module("numpy._core._multiarray_umath").__file__)
    if linked.num_threads is not None:
        return linked.num_threads
    counts = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(counts, default=1)


def _abandon(workers: Workers | None) -> None:
    if workers is not None:
        workers.abandon()

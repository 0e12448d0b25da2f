"""Number of BLAS threads: one where more threads slow programs down, and several for large matrices in loops.

NumPy and SciPy each include a separate OpenBLAS, with threads that spin until the next call. For matrices of a few
hundred rows, threads cost more time than they save. While the threads of one library spin, the other library and the
executor cannot use the cores of these threads.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tenferro.forks import call_in_child

__all__ = ["NUMPYS", "SCIPYS", "BlasThreads", "extension_spec", "one_blas_thread"]


_IS_LEFT_ALONE = os.environ.get("TENFERRO_BLAS_THREADS") == "leave"
PTHREADS = 1
"""Value of `openblas_get_parallel` for pthreads. All threads of the process then share one number of BLAS threads."""


class BlasThreads:
    """A context in which the BLAS library of `module` has one thread.

    Afterwards, the number of threads of the library is restored. Inside `several`, the library has more threads, unless
    another thread is inside the plain context meanwhile.

    Both contexts are reentrant, from any number of threads. The setting belongs to the process, so other callers of the
    library get the same number of threads meanwhile. If the environment contains `TENFERRO_BLAS_THREADS=leave`, the
    contexts do nothing.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self._threads: Callable[[], int] = _none
        self._set_threads: Callable[[int], Any] = _none
        self._is_found = False
        self._forget()
        call_in_child(self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._inside = list[int]()
        self._before = 1

    def __enter__(self) -> None:
        self._enter(1)

    def __exit__(self, *raised: object) -> None:
        self._leave(1)

    @contextmanager
    def several(self, count: int) -> Generator[None]:
        """Return a context in which BLAS has `count` threads."""
        self._enter(count)
        try:
            yield
        finally:
            self._leave(count)

    def _enter(self, count: int) -> None:
        with self._lock:
            if not self._is_found and not _IS_LEFT_ALONE:
                self._find()
            if not self._inside:
                self._before = self._threads()
            self._inside.append(count)
            self._settle()

    def _leave(self, count: int) -> None:
        with self._lock:
            self._inside.remove(count)
            self._settle()

    def _settle(self) -> None:
        """Set the smallest number of threads that an active context requests.

        Without one, restore the previous number.
        """
        wanted = min(self._inside, default=self._before)
        if self._threads() != wanted:
            self._set_threads(wanted)

    def _find(self) -> None:
        """Look up the functions that set the threads of OpenBLAS. Other libraries keep their threads."""
        from threadpoolctl import OpenBLASController  # because many programs have no large products

        # Look up symbols through the module that is linked with OpenBLAS. Scanning all loaded libraries takes a tenth
        # of a second if other frameworks are loaded.
        spec = extension_spec(self.module)
        symbols = ctypes.CDLL(spec.origin if spec else import_module(self.module).__file__)
        for name in OpenBLASController.check_symbols:
            # Call OpenBLAS's functions directly. Those of threadpoolctl take five times as long, and work from only one
            # thread.
            if (
                hasattr(symbols, name)
                and symbols[name.replace("num_threads", "parallel")]() == PTHREADS
            ):
                self._threads = symbols[name]
                self._set_threads = symbols[name.replace("get_num", "set_num")]
        self._is_found = True


def extension_spec(module: str) -> ModuleSpec | None:
    """Return the spec of an extension module, or None. The parent packages of the module are not imported.

    >>> extension_spec("scipy.linalg.no_such_module")
    """
    packages, _, name = module.rpartition(".")
    top, *inner = packages.split(".")
    package = find_spec(top) if top else None
    folders = package.submodule_search_locations if package is not None else None
    return PathFinder.find_spec(name, [str(Path(each, *inner)) for each in folders or ()])


def _none(*_: int) -> int:
    """Return 1, the number of threads to assume for a library other than OpenBLAS."""
    return 1


NUMPYS = BlasThreads("numpy._core._multiarray_umath")
SCIPYS = BlasThreads("scipy.linalg._fblas")


@contextmanager
def one_blas_thread() -> Generator[None]:
    """Return a context in which the BLAS of NumPy, and of SciPy if it is imported, has one thread.

    Runtimes of extensions use the context around calls that are too small to be shared. It affects only OpenBLAS
    without OpenMP, as in the wheels of NumPy and SciPy.

    >>> import numpy as np
    >>> with one_blas_thread():
    ...     np.linalg.det(2 * np.eye(3)).round()
    np.float64(8.0)
    """
    with NUMPYS, SCIPYS if SCIPYS.module in sys.modules else nullcontext():
        yield

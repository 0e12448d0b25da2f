"""The threads of BLAS, at rest where they hurt.

NumPy and SciPy each bring an OpenBLAS of their own, whose threads wait for the next call by spinning. For
matrices of some hundred rows they cost more than they bring, and those of the one library keep those of the
other from their cores, and the executor's.
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

__all__ = ["NUMPYS", "SCIPYS", "OneThread", "extension_spec", "one_blas_thread"]


_IS_LEFT_ALONE = os.environ.get("TENFERRO_BLAS_THREADS") == "leave"
PTHREADS = 1
"""What `openblas_get_parallel` gives for threads that all callers share."""


class OneThread:
    """A context in which the BLAS that a module is linked with works with one thread; afterwards it has those
    that it had.

    It is entered as often as one likes, by any number of threads. The setting is the process's: whoever else
    calls that BLAS meanwhile has one thread, too. With `TENFERRO_BLAS_THREADS=leave` in the environment it
    does nothing.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self._threads: Callable[[], int] = _none
        self._set_threads: Callable[[int], Any] = _none
        self._is_found = False
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 1

    def __enter__(self) -> None:
        with self._lock:
            if not self._is_found and not _IS_LEFT_ALONE:
                self._find()
            self._inside += 1
            count = self._threads()
            if count > 1:
                self._set_threads(1)
                self._before = count

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._before > 1:
                self._set_threads(self._before)
                self._before = 1

    def _find(self) -> None:
        """The functions of an OpenBLAS; another one's threads are left alone."""
        from threadpoolctl import OpenBLASController  # because many programs have no large products

        self._is_found = True
        # Its symbols are found through the module that is linked with it. All else that is loaded need not
        # be looked at then, which takes a tenth of a second beside other frameworks.
        spec = extension_spec(self.module)
        symbols = ctypes.CDLL(spec.origin if spec else import_module(self.module).__file__)
        for name in OpenBLASController.check_symbols:
            # By its own functions: the controller's take five times as long, and obey one thread only.
            if (
                hasattr(symbols, name)
                and symbols[name.replace("num_threads", "parallel")]() == PTHREADS
            ):
                self._threads = symbols[name]
                self._set_threads = symbols[name.replace("get_num", "set_num")]


def extension_spec(module: str) -> ModuleSpec | None:
    """Where an extension module lies, without importing the packages around it; None where it is not found.

    >>> extension_spec("scipy.linalg.no_such_module")
    """
    packages, _, name = module.rpartition(".")
    top, *inner = packages.split(".")
    package = find_spec(top) if top else None
    folders = package.submodule_search_locations if package is not None else None
    return PathFinder.find_spec(name, [str(Path(each, *inner)) for each in folders or ()])


def _none(*_: int) -> int:
    """Of a library that has no threads, or that we know nothing of."""
    return 1


NUMPYS = OneThread("numpy._core._multiarray_umath")
SCIPYS = OneThread("scipy.linalg._fblas")


@contextmanager
def one_blas_thread() -> Generator[None]:
    """A context in which the BLAS of NumPy, and of SciPy if that is imported, works with one thread each.

    Runtimes of extensions use it around calls that are too small to be shared. Only OpenBLAS without OpenMP,
    which is what the wheels of NumPy and SciPy bring, is told so.

    >>> import numpy as np
    >>> with one_blas_thread():
    ...     np.linalg.det(2 * np.eye(3)).round()
    np.float64(8.0)
    """
    with NUMPYS, SCIPYS if SCIPYS.module in sys.modules else nullcontext():
        yield

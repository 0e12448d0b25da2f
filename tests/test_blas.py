"""The executor must limit BLAS to one thread during a run, and then restore the previous number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
import scipy.linalg  # this also loads SciPy's own BLAS
from threadpoolctl import threadpool_info, threadpool_limits

import tenferro as tnf
from tenferro.blas import NUMPYS, SCIPYS, BlasThreads
from tenferro.extension import one_blas_thread


def counts() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["internal_api"] == "openblas"]


if not counts() or any(pool.get("threading_layer") == "openmp" for pool in threadpool_info()):
    pytest.skip("another BLAS than the wheels', which is left alone", allow_module_level=True)


@pytest.fixture(autouse=True)
def three_threads() -> Any:
    with threadpool_limits(3, user_api="blas"):
        yield


def test_one_thread_inside_and_afterwards_as_before() -> None:
    assert scipy.linalg
    assert set(counts()) == {3}
    with one_blas_thread():
        assert set(counts()) == {1}
        with one_blas_thread(), NUMPYS:
            assert set(counts()) == {1}
        assert set(counts()) == {1}
    assert set(counts()) == {3}
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        _ = 1 // 0
    assert set(counts()) == {3}


def test_it_is_left_alone_where_the_environment_says_so() -> None:
    code = """
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from tenferro.extension import one_blas_thread
with threadpool_limits(3, user_api="blas"), one_blas_thread():
    print({pool["num_threads"] for pool in threadpool_info() if pool["internal_api"] == "openblas"})
"""
    environment = {**os.environ, "TENFERRO_BLAS_THREADS": "leave"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "{3}\n"


def test_whoever_leaves_last_restores() -> None:
    entered, leave, left = threading.Event(), threading.Event(), threading.Event()

    def other() -> None:
        with one_blas_thread():
            entered.set()
            leave.wait()
        left.set()

    threading.Thread(target=other).start()
    entered.wait()
    with one_blas_thread():
        leave.set()
        left.wait()
        assert set(counts()) == {1}
    assert set(counts()) == {3}


def test_several_threads_unless_somebody_asks_for_one() -> None:
    with NUMPYS.several(2):
        assert set(counts()) == {2, 3}  # now NumPy's BLAS has 2 threads, and SciPy's still 3
        with NUMPYS.several(5):
            assert 2 in counts()
        with one_blas_thread():
            assert set(counts()) == {1}
        assert set(counts()) == {2, 3}
    with NUMPYS.several(5):
        assert set(counts()) == {5, 3}
    assert set(counts()) == {3}


@pytest.mark.parametrize("executor_threads", [1, 2])
@pytest.mark.parametrize(("size", "shares"), [(16, None), (200, False), (800, True)])
def test_loops_share_large_products_only(
    executor_threads: int, size: int, shares: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("llvmlite")
    wanted: list[int] = []
    monkeypatch.setattr(SCIPYS, "_set_threads", wanted.append)

    def loop(a: Any, x: Any) -> Any:
        return tnf.fori_loop(0, 3, lambda _, x: a @ x, x)

    a = np.eye(size) + 0j
    program = tnf.compile(loop, a, a[0])
    executor = tnf.GraphExecutor(threads=executor_threads, compiled=True)
    np.testing.assert_array_equal(executor.run(program, a, a[0]), a[0])
    if shares is None:  # for small products, OpenBLAS uses one thread anyway
        assert not wanted
    else:
        assert wanted[0] == (executor_threads if shares else 1)


def test_what_has_one_thread_keeps_it() -> None:
    with threadpool_limits(1, user_api="blas"):
        with one_blas_thread():
            assert set(counts()) == {1}
        assert set(counts()) == {1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_process_starts_anew() -> None:
    script = (
        "import os, sys\n"
        "from tenferro.blas import NUMPYS\n"
        "with NUMPYS:\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        with NUMPYS:\n"
        "            os._exit(7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7


def test_an_unknown_library_is_left_alone() -> None:
    with BlasThreads("math"):
        assert set(counts()) == {3}


def test_large_products_and_factorisations_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only large ops may set the number of BLAS threads.

    Setting it takes time, and BLAS uses one thread for small products anyway.
    """
    seen: list[int] = []
    monkeypatch.setattr(NUMPYS, "_threads", lambda: seen.append(1) or 3)

    def entered(fn: Any, *args: Any) -> bool:
        seen.clear()
        tnf.compile(fn, *args).run(*args)
        return bool(seen)

    small, large = np.eye(8), np.eye(400)
    for x, is_large in ((small, False), (large, True)):
        assert entered(lambda x: x @ x, x) is is_large
        assert entered(lambda x: x @ x @ x, x) is is_large
        assert entered(lambda x: (x @ x) + 1, x.astype("f4")) is is_large
        assert entered(lambda x: x @ x[0], x) is is_large
    assert not entered(tnf.linalg.cholesky, small)
    assert entered(tnf.linalg.cholesky, np.eye(200))


@pytest.mark.parametrize("family", ["cholesky", "qr", "svd", "eigh", "inv", "lu"])
def test_a_first_run_has_the_bits_of_later_ones(family: str) -> None:
    """The first run in a new process loads SciPy's BLAS.

    It must already use the number of threads of later runs, which determines the bits.
    """
    code = f"""
import sys
import numpy as np
import tenferro as tnf
x = np.random.default_rng(0).standard_normal((300, 300))
x = x @ x.T + 300 * np.eye(300)
function = getattr(tnf.linalg, "{family}")
program = tnf.compile(lambda x: tuple(tnf.tree.leaves(function(x))), x)
executor = tnf.GraphExecutor()
assert "scipy.linalg" not in sys.modules
first, *others = [executor.run(program, x) for _ in range(3)]
for other in others:
    for a, b in zip(first, other, strict=True):
        np.testing.assert_array_equal(a, b)
"""
    threads = {"OPENBLAS_NUM_THREADS": "3", "OMP_NUM_THREADS": "3"}
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **threads}, check=True)

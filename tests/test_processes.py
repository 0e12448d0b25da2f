"""Forks, and the end of a process, while other threads trace, compile and run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from functools import cached_property
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import compilations
from tenferro.compilations import until_compiled
from tenferro.exec.llvm import link
from tenferro.exec.runtime.memory import Pool
from tenferro.forks import call_in_child
from tenferro.program import BoundedCache

COMPILING = """
import os, signal, sys, threading, time
import numpy as np
import tenferro as tnf

x = np.linspace(0, 1, 7)

def loop(k):
    return lambda x: tnf.fori_loop(0, 3000, lambda i, c: tnf.sin(c) * 0.9 + x * k, x)

def compile_without_end(first):
    for k in range(10**6):
        tnf.jit(loop(k + first))(x)

for number in range(3):
    threading.Thread(target=compile_without_end, args=(number / 4,), daemon=True).start()
"""
FORKING = """
time.sleep(0.5)
for number in range(6):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        assert np.isfinite(tnf.jit(loop(-1 - number))(x)).all()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with status {status}"
os._exit(0)
"""
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX warns of forks
has_forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


def run(source: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, timeout=300, check=False
    )


@has_forks
def test_a_child_compiles_though_threads_of_its_parent_did() -> None:
    done = run(COMPILING + FORKING)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seconds", [0.2, 0.9, 1.0, 1.1])
def test_a_process_ends_while_daemon_threads_compile_and_run(seconds: float) -> None:
    done = run(COMPILING + f"time.sleep({seconds})")
    assert (done.returncode, done.stderr) == (0, "")


def test_the_end_waits_for_a_trace_in_a_daemon_thread() -> None:
    """If a daemon thread is tracing when the process ends, the process must wait for it, up to half a second."""
    done = run("""
import threading, time
import tenferro as tnf

def slow(x):
    begun.set()
    time.sleep(0.5)
    print("traced", flush=True)
    return x

begun = threading.Event()
threading.Thread(target=lambda: tnf.compile(slow, 1.0), daemon=True).start()
begun.wait()
""")
    assert (done.stdout, done.returncode) == ("traced\n", 0)


@has_forks
def test_a_fork_waits_for_a_compilation_in_another_thread() -> None:
    done = run("""
import os, threading, time
import tenferro as tnf

def slow(x):
    begun.set()
    time.sleep(0.5)
    ended.append(1)
    return x

begun, ended = threading.Event(), []
threading.Thread(target=lambda: tnf.compile(slow, 1.0)).start()
begun.wait()
if os.fork() == 0:
    assert ended
    tnf.compile(lambda x: x, 1.0)
    os._exit(0)
print(os.wait()[1])
tnf.compile(lambda x: x, 1.0)
""")
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr


def test_a_compilation_waits_for_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilations, "_may_begin", threading.Event())
    entered = threading.Event()

    def compile_now() -> None:
        with until_compiled():
            entered.set()

    thread = threading.Thread(target=compile_now)
    thread.start()
    assert not entered.wait(0.1)
    compilations._may_begin.set()
    thread.join()
    assert entered.is_set()


def held_elsewhere(lock: Any) -> threading.Event:
    """Hold a lock in another thread, until the test sets the returned event."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait()

    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    return release


def in_child(work: Any) -> int:
    """Call `work` in a forked child process, and return its exit status.

    SIGALRM ends the child after 20 seconds.
    """
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(20)
        work()
        os._exit(0)
    return os.waitpid(child, 0)[1]


@has_forks
def test_locks_of_caches_and_pools_are_free_in_a_child() -> None:
    cache: BoundedCache[int] = BoundedCache()
    pool = Pool(1 << 20)
    for owner, use in (
        (cache, lambda: cache.get("a", lambda: 1)),
        (pool, lambda: pool.release(pool.acquire(100))),
    ):
        release = held_elsewhere(owner._lock)
        try:
            assert in_child(use) == 0
        finally:
            release.set()


@has_forks
def test_a_value_that_another_thread_is_making_is_made_in_the_child() -> None:
    cache: BoundedCache[int] = BoundedCache()
    making, release = threading.Event(), threading.Event()

    def make() -> int:
        making.set()
        release.wait()
        return 1

    threading.Thread(target=lambda: cache.get("a", make), daemon=True).start()
    making.wait()
    try:
        assert in_child(lambda: cache.get("a", lambda: 2)) == 0
    finally:
        release.set()


@has_forks
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="properties have no locks any more")
def test_locks_of_cached_properties_are_free_in_a_child() -> None:
    descriptor: Any = vars(link.Linker)["processor"]
    assert isinstance(descriptor, cached_property)
    release = held_elsewhere(descriptor.lock)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        assert in_child(lambda: link.Linker().processor) == 0
    finally:
        release.set()


def test_methods_are_called_as_long_as_their_objects_live() -> None:
    class Owner:
        def renew(self) -> None: ...

    from tenferro import forks

    before = len(forks._methods)
    owner = Owner()
    call_in_child(owner.renew)
    assert len(forks._methods) == before + 1
    del owner
    assert len(forks._methods) == before


def test_compilations_inside_of_each_other_are_one() -> None:
    with until_compiled():
        with until_compiled():
            pass
        assert threading.get_ident() in compilations._compiling
    assert threading.get_ident() not in compilations._compiling


def test_threads_share_one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that start at the same time must share one engine.

    Compiled code is linked to addresses in the engine.
    """
    engines: list[object] = []

    def make() -> object:
        time.sleep(0.05)
        engines.append(object())
        return engines[-1]

    monkeypatch.setattr(link, "_engines", BoundedCache(1))
    monkeypatch.setattr(link, "_shared_engine", make)
    threads = [threading.Thread(target=link._shared) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engines) == 1


# ---- resources of LLVM ------------------------------------------------------------------------------


@pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
def test_what_llvm_holds_is_freed_with_its_owners() -> None:
    """LLVM's pass managers must be freed after their use, and its engines with the program and the executor."""
    import gc

    import llvmlite.binding as llvm

    def living(cls: type) -> int:
        gc.collect()
        return sum([isinstance(each, cls) and not each.closed for each in gc.get_objects()])

    disposed = []
    dispose = llvm.newpassmanagers.NewPassManager._dispose
    llvm.newpassmanagers.NewPassManager._dispose = lambda self: (disposed.append(1), dispose(self))
    try:
        x = np.ones(7)
        # The first run also compiles functions that all programs share. They are not counted.
        tnf.GraphExecutor(compiled=True).run(tnf.compile(looped(0.0), x), x)
        engines = living(llvm.ExecutionEngine)
        managers = len(disposed)
        for k in range(1, 4):
            executor, program = tnf.GraphExecutor(compiled=True), tnf.compile(looped(k), x)
            executor.run(program, x)
            executor.run(program, x)
            assert living(llvm.ExecutionEngine) > engines
            del executor, program
        assert living(llvm.ExecutionEngine) == engines
        assert len(disposed) > managers
        assert living(llvm.ModulePassManager) == 0
    finally:
        llvm.newpassmanagers.NewPassManager._dispose = dispose


def looped(k: float) -> Any:
    return lambda x: tnf.fori_loop(0, 3000, lambda i, c: tnf.sin(c) * (k + 0.5), x)

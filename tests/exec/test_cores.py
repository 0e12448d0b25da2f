"""Threads at work do not share a core as long as there are enough; the caller's are its own affair."""

import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from tenferro.exec.cores import Cores
from tenferro.exec.workers import Workers

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores, and a system that tells them apart",
)


def cores_of(workers: Workers) -> list[set[int]]:
    """Of each thread."""
    found: list[set[int]] = []
    all_at_work = threading.Barrier(workers.count, timeout=30)

    def work(start: int, stop: int) -> None:
        all_at_work.wait()
        found.append(os.sched_getaffinity(0))

    workers.share(work, workers.count)
    return found


def test_each_has_cores_of_its_own() -> None:
    before = os.sched_getaffinity(0)
    found = cores_of(Workers(len(before)))
    assert len(found) == len(before)
    assert all(len(cores) == 1 for cores in found)
    assert set.union(*found) == before


def test_fewer_threads_have_several_cores_each(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[int, list[int]] = {}
    threads = [SimpleNamespace(native_id=number) for number in range(2)]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4, 6, 7, 9})
    monkeypatch.setattr(
        os, "sched_setaffinity", lambda number, cores: given.update({number: cores})
    )
    Cores(threads).deal()  # type: ignore[arg-type]
    assert given == {0: [3, 6, 9], 1: [4, 7]}


def test_more_threads_than_cores_share_them() -> None:
    before = os.sched_getaffinity(0)
    found = cores_of(Workers(2 * len(before) + 1))
    assert len(found) == 2 * len(before) + 1
    assert all(len(cores) == 1 and cores <= before for cores in found)


def test_the_caller_keeps_its_cores() -> None:
    before = os.sched_getaffinity(0)
    seen: list[set[int]] = []
    main = threading.main_thread().native_id or 0
    Workers(2).share(lambda *_: seen.append(os.sched_getaffinity(main)), 2)
    with pytest.raises(ZeroDivisionError):
        Workers(2).share(lambda start, _: 1 // 0, 2)
    assert seen == [before, before]
    assert os.sched_getaffinity(0) == before


def test_threads_follow_the_caller() -> None:
    before = os.sched_getaffinity(0)
    workers = Workers(2)
    assert set.union(*cores_of(workers)) == before
    try:
        os.sched_setaffinity(0, {max(before)})
        assert cores_of(workers) == [{max(before)}] * 2
    finally:
        os.sched_setaffinity(0, before)
    assert set.union(*cores_of(workers)) == before


def test_a_system_that_forbids_it_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def forbidden(*args: object) -> None:
        asked.append(args)
        raise PermissionError

    done: list[int] = []
    workers = Workers(2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "sched_setaffinity", forbidden)
        for _ in range(3):
            workers.share(lambda start, _: done.append(start), 2)
    assert len(asked) == 1
    assert sorted(done) == [0, 0, 0, 1, 1, 1]


def test_other_systems_have_no_such_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    Cores([]).deal()


def test_callers_at_once() -> None:
    workers, found = Workers(2), list[float]()

    def call() -> None:
        for _ in range(50):
            x = np.zeros(64)

            def fill(start: int, stop: int, x: np.ndarray = x) -> None:
                x[start:stop] = 1

            workers.share(fill, 64)
            found.append(x.sum())

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [64.0] * 150

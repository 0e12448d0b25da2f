"""Threads at work do not share a core, and the caller's choice of cores is its own again afterwards."""

import os
import threading

import numpy as np
import pytest

from tenferro.exec.cores import Cores
from tenferro.exec.workers import Workers

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores, and a system that tells them apart",
)


def test_each_has_cores_of_its_own() -> None:
    before = os.sched_getaffinity(0)
    found: dict[str, set[int]] = {}

    def work(start: int, stop: int) -> None:
        x = np.ones(1 << 16)
        for _ in range(50):
            np.exp(x)
        found[threading.current_thread().name] = os.sched_getaffinity(0)

    Workers(len(before)).share(work, len(before), 1)
    assert len(found) == len(before)
    assert all(len(cores) == 1 for cores in found.values())
    assert set.union(*found.values()) == before
    assert os.sched_getaffinity(0) == before


def test_more_threads_than_cores_share_those_that_the_caller_leaves() -> None:
    before = os.sched_getaffinity(0)
    parts: list[set[int]] = []
    workers = Workers(2 * len(before) + 1)
    workers.share(lambda *_: parts.append(os.sched_getaffinity(0)), workers.count, 1)
    assert len(parts) == workers.count
    assert all(cores < before for cores in parts)


def test_the_caller_has_its_cores_again_after_an_error() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError):
        Workers(2).share(lambda start, _: 1 // 0, 2, 1)
    assert os.sched_getaffinity(0) == before


def test_a_caller_that_is_bound_to_one_core_stays_there() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {max(before)})
        Workers(2).share(lambda *_: None, 2, 1)
        assert os.sched_getaffinity(0) == {max(before)}
    finally:
        os.sched_setaffinity(0, before)


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
            workers.share(lambda start, _: done.append(start), 2, 1)
    assert len(asked) == 2  # to part, and to rejoin
    assert sorted(done) == [0, 0, 0, 1, 1, 1]


def test_callers_at_once_do_not_disturb_each_other() -> None:
    before = os.sched_getaffinity(0)
    workers, found = Workers(2), []

    def call() -> None:
        x = np.ones(1 << 14)
        for _ in range(50):
            workers.share(lambda *_: np.exp(x), 2, 1)
        found.append(os.sched_getaffinity(0))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [before] * 3


def test_other_systems_have_no_such_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    cores = Cores([])
    assert cores.own() == set()
    cores.part(set())
    cores.rejoin(set())

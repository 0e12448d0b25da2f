"""The folder of compiled executables is shared by processes.

Problems with the folder must never stop a program.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.exec.llvm.link import is_installed
from tenferro.private_folder import read_private_file
from xla_peer import CompileCache, XlaExecutor, doctor

pytest.importorskip("jax")

PROGRAM = tnf.compile(lambda x: tnf.sin(x) @ x, tnf.TensorSpec((3, 3), "float64"))
X = np.arange(9.0).reshape(3, 3)
EXPECTED = np.sin(X) @ X


def run(folder: Path, **options: Any) -> Any:
    xla = XlaExecutor("cpu", cache_dir=folder, **options)
    np.testing.assert_allclose(xla.run(PROGRAM, X), EXPECTED)
    return xla.compile_cache_stats()


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.xla"))


def test_a_second_executor_finds_it(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert (run(folder).misses, run(folder).hits) == (1, 1)
    (entry,) = entries(folder)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_second_process_finds_it(tmp_path: Path) -> None:
    code = (
        "import numpy as np, tenferro as tnf; from xla_peer import XlaExecutor;"
        "program = tnf.compile(lambda x: tnf.linalg.solve(x, x), tnf.TensorSpec((2, 2), 'float64'));"
        "xla = XlaExecutor(); print(xla.run(program, 2 * np.eye(2)).tolist());"
        "print(xla.compile_cache_stats().hits)"
    )
    shown = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TENFERRO_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split("\n")[:2]
        for _ in range(2)
    ]
    assert shown == [["[[1.0, 0.0], [0.0, 1.0]]", "0"], ["[[1.0, 0.0], [0.0, 1.0]]", "1"]]


def test_what_decides_an_executable_is_in_its_key(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path, optimization_level=0).misses == 1
    assert run(tmp_path, options={"xla_cpu_enable_fast_math": True}).misses == 1
    assert len(entries(tmp_path)) == 3


@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty", "garbage inside"])
def test_a_damaged_entry_is_made_anew(tmp_path: Path, damage: str) -> None:
    run(tmp_path)
    (entry,) = entries(tmp_path)
    content = entry.read_bytes()
    if damage == "truncated":
        entry.write_bytes(content[: len(content) // 2])
    elif damage == "foreign":
        entry.write_bytes(b"\x7fELF" + content)
    elif damage == "empty":
        entry.write_bytes(b"")
    else:
        cache = CompileCache(tmp_path)
        cache.store(entry.stem, b"whole, and no executable")
    assert run(tmp_path).rejected == 1
    assert run(tmp_path).hits == 1


def test_the_least_recently_used_goes(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path, max_bytes=1100)
    for number, name in enumerate("abc"):
        cache.store(name, bytes(300))
        os.utime(tmp_path / f"{name}.xla", (number, number))
    assert cache.load("a") == bytes(300)  # this makes "a" the most recently used entry
    cache.store("d", bytes(300))
    assert sorted(path.stem for path in entries(tmp_path)) == ["a", "c", "d"]
    assert cache.stats().evictions == 1
    cache.clear()
    assert entries(tmp_path) == []


def test_a_folder_that_vanishes_or_cannot_be_written(tmp_path: Path, monkeypatch: Any) -> None:
    folder = tmp_path / "cache"
    xla = XlaExecutor("cpu", cache_dir=folder)
    folder.rmdir()
    np.testing.assert_allclose(xla.run(PROGRAM, X), EXPECTED)
    assert xla.compile_cache_stats() is not None
    assert xla.compile_cache_stats().failed_writes == 1

    def full(*args: Any, **kwargs: Any) -> Any:
        raise OSError(28, "No space left on device")

    other = XlaExecutor("cpu", cache_dir=folder)
    for name in ("link", "replace"):
        monkeypatch.setattr(f"tenferro.files.os.{name}", full)
    np.testing.assert_allclose(other.run(PROGRAM, X), EXPECTED)
    assert other.compile_cache_stats().failed_writes == 1
    assert list(folder.iterdir()) == []


def test_folders_that_are_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(errors.InvalidConfigError, match="other users"):
        XlaExecutor("cpu", cache_dir=shared)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(errors.InvalidConfigError, match="cache_dir"):
        XlaExecutor("cpu", cache_dir=file)
    with pytest.raises(errors.InvalidConfigError, match="at least 1"):
        CompileCache(tmp_path / "c", max_bytes=0)


def safe(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True)
    return path


def linked(tmp_path: Path) -> Path:
    (tmp_path / "link").symlink_to(safe(tmp_path / "real"))
    return tmp_path / "link"


def below_a_folder_of_all(tmp_path: Path) -> Path:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    return safe(tmp_path / "open" / "mine")


def below_a_link_into_a_folder_of_all(tmp_path: Path) -> Path:
    (tmp_path / "link").symlink_to(below_a_folder_of_all(tmp_path).parent)
    return tmp_path / "link" / "mine"


def of_a_group(tmp_path: Path) -> Path:
    (tmp_path / "group").mkdir()
    (tmp_path / "group").chmod(0o770)
    return tmp_path / "group"


UNSAFE = {
    "is a link": linked,
    "every user can put": below_a_folder_of_all,
    "where every user": below_a_link_into_a_folder_of_all,
    "other users": of_a_group,
}


@pytest.mark.parametrize("match", UNSAFE)
def test_a_folder_that_others_can_change(tmp_path: Path, match: str) -> None:
    with pytest.raises(errors.InvalidConfigError, match=match):
        XlaExecutor("cpu", cache_dir=UNSAFE[match](tmp_path))


def file_in_its_place(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(b"kept")
    return tmp_path / "file"


UNUSABLE = {
    "is a link": linked,
    "File exists": file_in_its_place,
    "/proc/none": lambda _: Path("/proc/none"),
}


@pytest.mark.parametrize("match", UNUSABLE)
def test_a_folder_of_the_variable_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, match: str
) -> None:
    """If TENFERRO_CACHE_DIR names a folder that cannot be used, the first use must warn.

    The folder must not be touched.
    """
    folder = UNUSABLE[match](tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setenv("TENFERRO_CACHE_DIR", str(folder))
    monkeypatch.setattr("tenferro.process_warnings._warned", set[type[Warning]]())
    xla = XlaExecutor("cpu")
    with pytest.warns(errors.UnusableCacheWarning, match=f"TENFERRO_CACHE_DIR .*{match}"):
        np.testing.assert_allclose(xla.run(PROGRAM, X), EXPECTED)
    for executor in (xla, XlaExecutor("cpu")):  # there must be no second warning
        executor.cache_clear()
        np.testing.assert_allclose(executor.run(PROGRAM, X), EXPECTED)
        assert executor.compile_cache is not None
        assert match in executor.compile_cache.problem
        stats = executor.compile_cache.stats()
        assert (stats.hits, stats.failed_writes) == (0, stats.misses)
        executor.compile_cache.clear()
    assert sorted(tmp_path.rglob("*")) == before
    report = doctor(["cpu"])
    assert match in report.cache_problem
    assert f"TENFERRO_CACHE_DIR is not used: {report.cache_problem}" in str(report)
    assert report.ok


def test_a_folder_below_one_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(errors.InvalidConfigError, match=r"cache_dir: cache: .*No such file"):
        CompileCache("cache")
    monkeypatch.setenv("TENFERRO_CACHE_DIR", "cache")
    cache = tnf.GraphExecutor().compile_cache
    assert cache is None or "No such file" in cache.problem


def test_the_folder_of_the_variable_is_made_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENFERRO_CACHE_DIR", str(tmp_path / "cache"))
    xla = XlaExecutor("cpu")
    assert not [*tmp_path.iterdir()]
    xla.run(PROGRAM, X)
    assert len(entries(tmp_path / "cache")) == 1
    report = doctor(["cpu"])
    assert report.cache_problem == ""
    assert "not used" not in str(report)


@pytest.mark.skipif(not is_installed(), reason="llvmlite is not installed")
def test_tenferro_works_with_a_folder_that_cannot_be_used(tmp_path: Path) -> None:
    code = """
import warnings
warnings.simplefilter("error")
import numpy as np, tenferro as tnf
print(tnf.jit(lambda x: x + x)(np.ones(2)))
loop = lambda x: tnf.fori_loop(0, 3000, lambda i, c: tnf.sin(c) * 0.9 + x, x)
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as warned:
    for _ in range(3):
        results = [executor.run(tnf.compile(loop, np.ones(2)), np.ones(2))
                   for executor in (tnf.GraphExecutor(), tnf.GraphExecutor(compiled=True))]
assert np.array_equal(*results)
print([type(warning.message).__name__ for warning in warned])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TENFERRO_CACHE_DIR": str(file_in_its_place(tmp_path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[2. 2.]\n['UnusableCacheWarning']\n", done.stderr
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_a_sticky_parent_and_a_link_above_are_fine(tmp_path: Path) -> None:
    (tmp_path / "sticky").mkdir()
    (tmp_path / "sticky").chmod(0o1777)
    (tmp_path / "link").symlink_to(tmp_path / "sticky")
    cache = CompileCache(tmp_path / "link" / "mine")
    assert cache.folder == tmp_path / "sticky" / "mine"


def test_a_folder_of_another_user(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(errors.InvalidConfigError, match="belongs to user"):
        CompileCache(tmp_path)


@pytest.mark.skipif(
    not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files away"
)
def test_what_belongs_to_another_user_is_not_read(tmp_path: Path) -> None:
    theirs = safe(tmp_path / "theirs")
    cache = CompileCache(theirs)
    cache.store("key", b"executable")
    assert cache.load("key") == b"executable"
    entry = theirs / "key.xla"
    os.chown(entry, 12345, -1)
    assert cache.load("key") is None
    cache.store("key", b"executable")
    os.chown(theirs, 12345, -1)  # the owner changes after the cache has checked it
    assert cache.load("key") is None
    assert cache.stats().rejected == 2
    with pytest.raises(errors.InvalidConfigError, match="belongs to user 12345"):
        CompileCache(theirs)
    with pytest.raises(errors.InvalidConfigError, match=r"lies in .*theirs, which belongs to user"):
        CompileCache(theirs / "below")


def test_an_entry_that_others_can_write_to(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    cache.store("key", b"executable")
    (tmp_path / "key.xla").chmod(0o666)
    assert cache.load("key") is None
    assert cache.stats().rejected == 1


def test_an_entry_under_the_name_of_another(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    cache.store("key", b"executable")
    (tmp_path / "key.xla").rename(tmp_path / "other.xla")
    assert cache.load("other") is None
    assert cache.stats().rejected == 1


def test_a_link_to_an_entry(tmp_path: Path) -> None:
    cache, elsewhere = CompileCache(tmp_path / "here"), CompileCache(tmp_path / "elsewhere")
    elsewhere.store("key", b"executable")
    (tmp_path / "here" / "key.xla").symlink_to(tmp_path / "elsewhere" / "key.xla")
    assert cache.load("key") is None
    assert elsewhere.load("key") == b"executable"


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket"])
def test_an_entry_that_is_no_file(tmp_path: Path, kind: str, monkeypatch: Any) -> None:
    run(tmp_path)
    (entry,) = entries(tmp_path)
    entry.unlink()
    if kind == "folder":
        (entry / "full").mkdir(parents=True)
    elif kind == "pipe":
        os.mkfifo(entry, 0o600)
    else:
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short, so it is relative
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(entry.name)
    stats = run(tmp_path)
    assert stats.rejected == 1
    assert stats.failed_removals == stats.failed_writes == (kind == "folder")
    assert run(tmp_path).hits == (kind != "folder")


def test_what_cannot_be_removed_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "zz.xla" / "full").mkdir(parents=True)
    os.utime(tmp_path / "zz.xla", (0, 0))
    stats = run(tmp_path, cache_bytes=1)
    assert (stats.failed_removals, stats.evictions) == (1, 0)
    cache = CompileCache(tmp_path)
    cache.clear()
    assert [path.name for path in entries(tmp_path)] == ["zz.xla"]
    assert cache.stats().failed_removals == 1


def test_a_folder_that_nothing_can_be_removed_from(tmp_path: Path, monkeypatch: Any) -> None:
    """Removals that fail must be counted. They fail, for example, in a sticky folder that belongs to another user."""
    run(tmp_path)
    (entry,) = entries(tmp_path)
    entry.write_bytes(b"damaged")
    stale = tmp_path / "abc.0123456789abcdef.part"
    stale.write_bytes(b"")
    os.utime(stale, (0, 0))

    def refused(path: Path, *arguments: Any, **options: Any) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    for name in ("unlink", "remove", "rmdir"):
        monkeypatch.setattr(os, name, refused)
    monkeypatch.setattr(Path, "unlink", refused)
    stats = run(tmp_path)
    assert (stats.rejected, stats.hits, stats.evictions) == (1, 0, 0)
    assert stats.failed_removals == 2  # the removals of the entry and of the unfinished file
    assert run(tmp_path).hits == 1
    cache = CompileCache(tmp_path)
    cache.clear()
    assert cache.stats().failed_removals == len(entries(tmp_path)) == 1


def test_an_executable_that_cannot_be_serialised(tmp_path: Path, monkeypatch: Any) -> None:
    def refused(*arguments: Any) -> Any:
        raise errors.BackendFailureError("no")

    monkeypatch.setattr("xla_peer.pjrt.serialized", refused)
    assert run(tmp_path).failed_writes == 1


def test_writers_at_once(tmp_path: Path) -> None:
    """Several threads write the same entry at the same time, each with a separate executor.

    They must leave one valid entry.
    """
    with ThreadPoolExecutor(8) as pool:
        stats = list(pool.map(lambda _: run(tmp_path), range(16)))
    assert sum(s.rejected + s.failed_writes for s in stats) == 0
    assert len(entries(tmp_path)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [entries(tmp_path)[0].name]


def test_two_executors_share_a_folder_and_not_their_devices_memory(tmp_path: Path) -> None:
    one, two = XlaExecutor("cpu", cache_dir=tmp_path), XlaExecutor("cpu", cache_dir=tmp_path)
    y = two.compile(PROGRAM)(one.put(X))
    np.testing.assert_allclose(
        np.asarray(one.compile(PROGRAM)(two.put(np.asarray(X)))), np.asarray(y)
    )
    assert one.compile_cache_stats().hits + two.compile_cache_stats().hits == 1


KILLED = """
import sys, numpy as np, tenferro as tnf
from xla_peer import XlaExecutor
xla = XlaExecutor("cpu", cache_dir=sys.argv[1])
for n in range(1, 500):
    xla.run(tnf.compile(lambda x: x * n, np.ones(3)), np.ones(3))
    print(n, flush=True)
"""


def test_processes_that_are_killed_while_they_write(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(rng.uniform(0, 0.3))
        child.kill()
        child.communicate()
    xla = XlaExecutor("cpu", cache_dir=tmp_path)
    for n in range(1, 6):
        found = xla.run(tnf.compile(lambda x, n=n: x * n, np.ones(3)), np.ones(3))
        np.testing.assert_array_equal(found, np.full(3, float(n)))
    assert xla.compile_cache_stats().rejected == 0
    assert xla.compile_cache_stats().hits > 0


def test_what_killed_processes_leave_is_removed(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    old, new = [tmp_path / f"{name}.0123456789abcdef.part" for name in ("abc", "def")]
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache.store("key", b"executable")
    assert not old.exists()
    assert new.exists()


def test_an_entry_takes_the_memory_of_its_size(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    folder.mkdir(0o700)
    (folder / "entry").write_bytes(b"content")
    (folder / "entry").chmod(0o600)
    tracemalloc.start()
    try:
        assert read_private_file(folder, "entry", 1 << 30) == b"content"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()

"""The folder of executables: found again by other processes, and never fatal."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from xla_peer import CompileCache, XlaExecutor

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
    assert cache.load("a") == bytes(300)  # and is the latest now
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
    monkeypatch.setattr("tenferro.files.os.replace", full)
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


def test_writers_at_once(tmp_path: Path) -> None:
    """Many threads with executors of their own, as processes would be."""
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
    old, new = tmp_path / "abc.part", tmp_path / "def.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache.store("key", b"executable")
    assert not old.exists()
    assert new.exists()

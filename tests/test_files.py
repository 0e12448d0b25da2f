"""Files.

Only regular files of bounded size may be read, and written files must have the usual permissions.
"""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import socket
import stat
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.aligned import ALIGNMENT
from tenferro.archives import array_in, opened_archive, write_array
from tenferro.files import content_of, replacing, unfinished_files
from tenferro.ops.source import Constant
from xla_peer.command_line.inputs import read_inputs
from xla_peer.parity.divergence import save_reproduction

X = np.arange(3.0)


@pytest.fixture
def program_file(tmp_path: Path) -> Path:
    path = tmp_path / "program.tnf"
    tnf.save(tnf.compile(lambda x: x + np.ones(3), X), path)
    return path


def rewritten(path: Path, compression: int = zipfile.ZIP_STORED, **members: Any) -> Path:
    """Replace some members of a zip file; return the path of the file."""
    with zipfile.ZipFile(path) as archive:
        contents: dict[str, Any] = {name: archive.read(name) for name in archive.namelist()}
    contents |= members
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return path


def document_of(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("program.json"))


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


# ---- kinds of files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [content_of, tnf.load, lambda path: read_inputs([path], ["x"])])
def test_only_regular_files_are_read(door: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "device.npz").symlink_to("/dev/zero")
    for name, word in (("pipe", "a pipe"), ("folder", "a folder"), ("device", "a device")):
        with pytest.raises(errors.InvalidConfigError, match=word):
            door(str(tmp_path / f"{name}.npz"))
    with pytest.raises(FileNotFoundError):
        door(str(tmp_path / "absent.npz"))


def test_a_pipe_with_a_writer_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    handle = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with pytest.raises(errors.InvalidConfigError, match="no file"):
            content_of(tmp_path / "pipe")
    finally:
        os.close(handle)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_written_files_have_the_mode_of_the_umask(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        program = tnf.compile(lambda x: x + 1, X)
        tnf.save(program, tmp_path / "program.tnf")
        assert stat.S_IMODE((tmp_path / "program.tnf").stat().st_mode) == mode
        with replacing(tmp_path / "private", 0o600) as file:
            file.write(b"")
        assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == mode & 0o600
    finally:
        os.umask(before)


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(0o640)
    with replacing(path) as file:
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_bytes() == b"new"


def refuse_unnamed(monkeypatch: pytest.MonkeyPatch, number: int = errno.EOPNOTSUPP) -> None:
    """Make `os.open` reject unnamed files (O_TMPFILE), as it does on some file systems."""
    opened = os.open

    def refuse(path: Any, flags: int, mode: int = 0o777) -> int:
        if flags & UNNAMED == UNNAMED:
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)


UNNAMED = getattr(os, "O_TMPFILE", 0) or -1


def has_unnamed_files(folder: Path) -> bool:
    """Return whether the system and the file system of a folder support unnamed files."""
    try:
        os.close(os.open(folder, os.O_RDWR | os.O_TMPFILE))
    except (AttributeError, OSError):
        return False
    return True


WRITE_HALF = """
import sys, time
from tenferro.files import replacing
with replacing(sys.argv[1]) as file:
    for _ in range(50):
        file.write(bytes(1 << 20))
    file.flush()
    print("half", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("is_new", [False, True])
def test_a_killed_process_leaves_nothing(tmp_path: Path, is_new: bool) -> None:
    if not has_unnamed_files(tmp_path):
        pytest.skip("no unnamed files here")
    target = tmp_path / "target"
    if not is_new:
        target.write_bytes(b"old")
    command = [sys.executable, "-c", WRITE_HALF, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"half\n"
        assert [path.name for path in tmp_path.iterdir()] == ["target"][is_new:]
        writer.kill()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"][is_new:]


def test_a_new_file_gets_no_other_name_before(tmp_path: Path, monkeypatch: Any) -> None:
    if not has_unnamed_files(tmp_path):
        pytest.skip("no unnamed files here")
    monkeypatch.setattr(os, "replace", None)
    with replacing(tmp_path / "new") as file:
        file.write(b"new")
        assert not [*tmp_path.iterdir()]
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("refusal", ["no unnamed files", "old kernel", "no links", "other system"])
def test_where_files_have_names_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise PermissionError(errno.EPERM, "no links")

    if refusal == "no links":
        monkeypatch.setattr(os, "link", refuse)
        monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, refuse})
    elif refusal == "other system":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    else:
        refuse_unnamed(monkeypatch, errno.EISDIR if refusal == "old kernel" else errno.EOPNOTSUPP)
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    old.chmod(0o640)
    before = os.umask(0o027)
    try:
        for target in (old, new):
            with replacing(target) as file:
                file.write(b"written" * 100_000)
    finally:
        os.umask(before)
    for target in (old, new):
        assert target.read_bytes() == b"written" * 100_000
        assert stat.S_IMODE(target.stat().st_mode) == 0o640
    with pytest.raises(ZeroDivisionError), replacing(old) as file:
        file.write(bytes(1 // 0))
    assert sorted([path.name for path in tmp_path.iterdir()]) == ["new", "old"]
    assert old.read_bytes() == b"written" * 100_000


@pytest.mark.parametrize("is_unnamed", [False, True])
def test_a_disk_that_is_full_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_unnamed: bool
) -> None:
    """If the final rename of a file fails, the error must reach the caller, and the old file must be unchanged."""

    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if not is_unnamed:
        refuse_unnamed(monkeypatch)
    (tmp_path / "target").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"), replacing(tmp_path / "target") as file:
        file.write(b"new")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_unfinished_files_of_a_target_are_removed_when_it_is_written(tmp_path: Path) -> None:
    middle = "0123456789abcdef"
    long = "n" * 100
    gone = [f"target.{middle}.part", f"{long[:40]}.{middle}.part"]
    kept = [
        f"other.{middle}.part", f"atarget.{middle}.part", f"target.{middle}.part.x", "target.part",
        f"target.{middle[:-1]}.part", f"target.{middle[:-1]}X.part", f"target.a.{middle}.part", "targetX",
    ]  # fmt: skip
    for name in gone + kept:
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (0, 0))
    young, folder, link = [tmp_path / f"target.{digit * 16}.part" for digit in "abc"]
    young.write_bytes(b"half")
    folder.mkdir()
    os.utime(folder, (0, 0))
    link.symlink_to(kept[0])
    os.utime(link, (0, 0), follow_symlinks=False)
    for name in ("target", long):
        with replacing(tmp_path / name) as file:
            file.write(b"new")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {*kept, "target", long, young.name, folder.name, link.name}


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_unfinished_files_of_another_user_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = tmp_path / "target.0123456789abcdef.part"
    unfinished.write_bytes(b"half")
    os.utime(unfinished, (0, 0))
    assert unfinished_files(tmp_path, "target") == unfinished_files(tmp_path) == [unfinished]
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert unfinished_files(tmp_path, "target") == []
    with replacing(tmp_path / "target") as file:
        file.write(b"new")
    assert unfinished.exists()


PROGRAM = tnf.compile(lambda x: x + np.ones(3), X)
WRITERS: list[Any] = [
    lambda path: tnf.save(PROGRAM, path),
    lambda path: tnf.tree.save({"x": X}, path),
    lambda path: xla_peer.export(PROGRAM, path=path, largest_constant=0, vectors=1, gradient=True),
    lambda path: xla_peer.export_for_jax(PROGRAM, path=path),
]


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_is_followed(write: Any, tmp_path: Path) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    (tmp_path / "there" / "old").write_bytes(b"old")
    for name in ("old", "new"):
        link, named = tmp_path / "here" / f"{name}.mlir", tmp_path / "there" / name
        link.symlink_to(Path("..") / "there" / name)
        write(link)
        assert link.is_symlink()
        assert not named.is_symlink()
        assert len(named.read_bytes()) > 3
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"old", "new"}


@pytest.mark.parametrize("write", WRITERS)
def test_only_regular_files_are_written(write: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short, so it is relative
    os.mkfifo("pipe.mlir")
    Path("folder.mlir").mkdir()
    Path("link.mlir").symlink_to("pipe.mlir")
    Path("circle.mlir").symlink_to("circle.mlir")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.mlir")
    before = {path: path.lstat().st_ino for path in tmp_path.iterdir()}
    for name, words in (
        ("pipe", "is a pipe"), ("folder", "is a folder"), ("link", "is a pipe"), ("socket", "a socket"),
        ("circle", "is not written: Too many levels"), ("n" * 300, "is not written: File name too long"),
    ):  # fmt: skip
        with pytest.raises(errors.InvalidConfigError, match=words):
            write(f"{name}.mlir")
    assert {path: path.lstat().st_ino for path in tmp_path.iterdir()} == before


def test_nothing_is_written_where_one_file_of_several_cannot_be(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gradient.mlir")
    with pytest.raises(errors.InvalidConfigError, match="is a pipe"):
        WRITERS[2](tmp_path / "model.mlir")
    os.mkfifo(tmp_path / "module.mlir")
    with pytest.raises(errors.InvalidConfigError, match="is a pipe"):
        save_reproduction(tmp_path, PROGRAM, [X], "text")
    assert {path.name for path in tmp_path.iterdir()} == {"model.gradient.mlir", "module.mlir"}


@pytest.mark.parametrize("path", [None, 3, 2.5, "", "a\0b", "\ud800"])
@pytest.mark.parametrize("door", [content_of, tnf.tree.load, *WRITERS[:2]])
def test_what_names_no_file(door: Any, path: Any) -> None:
    # For an empty name, the error may be another one: readers report a missing file.
    with pytest.raises((errors.InvalidConfigError, FileNotFoundError), match=r"No such|is not"):
        door(path)


def test_names_may_be_bytes(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "program.tnf")
    tnf.save(PROGRAM, path)
    assert tnf.load(path).run(X).tolist() == [1, 2, 3]


# ---- sizes of decompressed members ---------------------------------------------------------------------


def test_a_bomb_is_refused_before_it_is_unpacked(program_file: Path) -> None:
    tracemalloc.start()
    try:
        blanks = rewritten(
            program_file, zipfile.ZIP_DEFLATED, **{"program.json": b" " * (80 << 20)}
        )
        tracemalloc.reset_peak()
        with pytest.raises(errors.InvalidConfigError, match=r"unpacks to \d+ bytes, at most"):
            tnf.load(blanks)
        with pytest.raises(errors.InvalidConfigError, match=r"unpacks to \d+ bytes, at most"):
            read_inputs([str(blanks.rename(blanks.with_suffix(".npz")))], ["x"])
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_caller_sets_the_limit(program_file: Path) -> None:
    assert tnf.load(program_file, limit=10_000).run(X).tolist() == [1, 2, 3]
    with pytest.raises(errors.InvalidConfigError, match="at most 100"):
        tnf.load(program_file, limit=100)
    blanks = document_of(program_file) | {"name": " " * (8 << 20)}
    rewritten(program_file, zipfile.ZIP_DEFLATED, **{"program.json": json.dumps(blanks)})
    with pytest.raises(errors.InvalidConfigError, match=r"program.json unpacks to"):
        tnf.load(program_file)
    assert tnf.load(program_file, limit=10 << 20).run(X).tolist() == [1, 2, 3]


@contextmanager
def bounded_memory(most: int) -> Generator[None]:
    """Require that Python and NumPy allocate at most `most` bytes in the body of a `with` statement."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] <= most
    finally:
        tracemalloc.stop()


SIZES = [32 << 20, pytest.param(300 << 20, marks=pytest.mark.sweep)]


@pytest.mark.parametrize("size", SIZES)
def test_a_constant_is_held_once(size: int, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).random(size // 8)
    path = tmp_path / "large.tnf"
    program = tnf.compile(lambda x: x + weights, tnf.TensorSpec(weights.shape, "f8"))
    fingerprint = program.fingerprint
    with bounded_memory(24 << 20):
        tnf.save(program, path)
    del program  # otherwise loading would reuse the equal constant in memory
    gc.collect()
    with bounded_memory(size + (6 << 20)):
        loaded = tnf.load(path)
        str(loaded)
    assert loaded.fingerprint == fingerprint
    constant = next(step.op for step in loaded.instructions if isinstance(step.op, Constant))
    np.testing.assert_array_equal(constant.array, weights)
    assert not constant.array.flags.writeable
    assert not constant.array.ctypes.data % ALIGNMENT


# The child process reads its peak from /proc. The maximum of getrusage includes the memory of the parent at the fork.
LOADING = """
import re, sys, tenferro
def most():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
before = most()
tenferro.load(sys.argv[1])
print(most() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc says what a process held")
@pytest.mark.parametrize("size", [64 << 20, pytest.param(300 << 20, marks=pytest.mark.sweep)])
def test_a_process_that_loads_a_program_holds_it_once(size: int, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).integers(0, 1 << 60, size // 8)
    path = tmp_path / "large.tnf"
    tnf.save(tnf.compile(lambda x: x + weights, tnf.TensorSpec(weights.shape, "i8")), path)
    ended = subprocess.run(
        [sys.executable, "-c", LOADING, path], capture_output=True, text=True, check=True
    )
    assert size <= int(ended.stdout) << 10 <= size + (16 << 20)


@pytest.mark.parametrize("size", SIZES)
def test_inputs_are_held_once(size: int, tmp_path: Path) -> None:
    array = np.random.default_rng(0).random(size // 8).reshape(2, -1)
    path = tmp_path / "inputs.npz"
    np.savez(path, x=array, y=array[:, :2])
    with bounded_memory(size + (6 << 20)):
        (x, y) = read_inputs([str(path)], ["x", "y"]).named.values()
    np.testing.assert_array_equal(x, array)
    np.testing.assert_array_equal(y, array[:, :2])


@pytest.mark.parametrize("size", SIZES)
def test_constants_of_artifacts_are_held_once(size: int, tmp_path: Path) -> None:
    weights = np.random.default_rng(0).random(size // 8)
    path = tmp_path / "model.mlir"
    xla_peer.export(lambda x: x + weights, np.float64(1), path=path, largest_constant=0)
    with bounded_memory(size + (6 << 20)):
        loaded = xla_peer.load(path, trusted=True)
    (constant,) = loaded.constants.values()
    np.testing.assert_array_equal(constant, weights)


def test_members_that_lie_over_each_other(program_file: Path) -> None:
    content = bytearray(program_file.read_bytes())
    directory = content.rindex(b"PK\x01\x02")
    end = content.rindex(b"PK\x05\x06")
    entry = bytes(content[directory:end])
    content[end:end] = entry * 50
    end += 50 * len(entry)
    for place in (8, 10):
        content[end + place : end + place + 2] = (52).to_bytes(2, "little")
    size = int.from_bytes(content[end + 12 : end + 16], "little") + 50 * len(entry)
    content[end + 12 : end + 16] = size.to_bytes(4, "little")
    program_file.write_bytes(content)
    with pytest.raises(errors.InvalidConfigError, match="overlap"):
        tnf.load(program_file)


def test_other_compressions_are_not_read(program_file: Path) -> None:
    for compression in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        rewritten(program_file, compression)
        with pytest.raises(errors.InvalidConfigError, match="neither stored nor deflated"):
            tnf.load(program_file)
    rewritten(program_file, zipfile.ZIP_DEFLATED)
    assert tnf.load(program_file).run(X).tolist() == [1, 2, 3]


# ---- arrays ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [np.float64(2.5).reshape(()), np.zeros((0, 3), "i4"), np.arange(6.0).reshape(2, 3),
     np.asfortranarray(np.arange(24).reshape(2, 3, 4)), np.arange(5)[::-2], np.array("text"),
     np.array([True, False]), np.arange(300_000, dtype="c8")],
)  # fmt: skip
def test_arrays_come_back(array: Any, tmp_path: Path) -> None:
    path = tmp_path / "arrays.zip"
    with zipfile.ZipFile(path, "w") as archive:
        write_array(archive, "x", array)
    for compressed in (False, True):
        if compressed:
            np.savez_compressed(path.with_suffix(".npz"), x=array)
            path = path.with_suffix(".npz")
        with path.open("rb") as file, opened_archive(file, "it") as archive:
            read = archive.array("x")
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array)
        assert read.flags.writeable
        assert not read.nbytes or not read.ctypes.data % ALIGNMENT


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npy(np.ones(3)).replace(b"(3,)", b"(9,)"), "takes 72 bytes, the file has 24"),
        (npy(np.ones(3)).replace(b"(3,), }      ", b"(1<<60,), }  "), "is not an array"),
        (npy(np.ones(3)).replace(b"(3,), }       ", b"(9999999,), } "), "takes 79999992 bytes"),
        (npy(np.ones(3)).replace(b"(3,), }", b"(-3,),}"), "is not an array"),
        (npy(np.ones(3)) + b"more", "takes 24 bytes, the file has 28"),
        (npy(np.ones(3))[:-1], "takes 24 bytes, the file has 23"),
        (npy(np.ones(3))[:20], "is not an array"),
        (npy(np.ones(3)).replace(b"'<f8'", b"'|O' "), "never read"),
        (npy(np.ones(3)).replace(b"'<f8'", b"[[[[["), "is not an array"),
        (
            npy(np.ones(0)).replace(b"'<f8'", b"'<U0'").replace(b"(0,)", b"(9,)"),
            "is not an array: <U0",
        ),
        (b"\x93NUMPY\x09\x00", "is not an array"),
        (b"\x93NUMPY\x02\x00\xf0\xff\xff\xff" + b" " * 100, "its format is 2.0, expected 1.0"),
        (b"", "is not an array"),
    ],
)
def test_malformed_arrays(content: bytes, words: str, program_file: Path) -> None:
    with pytest.raises(errors.InvalidConfigError, match=words):
        array_in(io.BytesIO(content), len(content), "x.npy")
    place = program_file.with_suffix(".npy")
    place.write_bytes(content)
    with pytest.raises(errors.InvalidConfigError, match=words):
        read_inputs([str(place)], ["x"])
    with pytest.raises(errors.TenferroError):
        tnf.load(rewritten(program_file, **{"constants/0.npy": content}))


# ---- documents -----------------------------------------------------------------------------------------


def nested(kind: str, depth: int) -> Any:
    tree: Any = 0
    for _ in range(depth):
        tree = {kind: [tree]}
    return tree


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"input_names": []}, "1 inputs have the names"),
        ({"input_names": ["x", "y"]}, "1 inputs have the names"),
        ({"output_names": ["a", "b"]}, "1 outputs have the names"),
        ({"output_names": "a"}, "1 outputs have the names"),
        ({"outputs": [-1]}, "are not all defined"),
        ({"outputs": [7]}, "are not all defined"),
        ({"guards": [["n", "is like", "3", "", None]]}, "a guard's relation must be one of"),
        ({"guards": [["n^9999*m^9999", "==", "(n+m)^3000", "", None]]}, "exponent"),
        ({"inputs": ["f64[(n+m+k+l+p+q)^40,3]"]}, "too much work to expand for its length"),
        ({"inputs": [f"f64[{'1,' * 99_999}1]"]}, "100000 axes"),
        ({"in_tree": nested("tuple", 101)}, "100 containers inside each other"),
        ({"in_tree": nested("tuple", 5000)}, "no tenferro-program file"),
        ({"in_tree": {"namedtuple": "T", "fields": "a", "items": [0]}}, "not a named tuple"),
        ({"in_tree": {"namedtuple": "T", "fields": ["def"], "items": [0]}}, "not a named tuple"),
        ({"in_tree": {"namedtuple": "T", "fields": [f"f{i}" for i in range(20_000)],
                      "items": [0] * 20_000}}, "20000 fields, at most 1000"),
    ],
)  # fmt: skip
def test_malformed_documents(change: Any, words: str, program_file: Path) -> None:
    text = dumped(document_of(program_file) | change)
    rewritten(program_file, **{"program.json": text})
    with pytest.raises(errors.InvalidConfigError, match=words):
        tnf.load(program_file)


def dumped(document: Any) -> str:
    """Return a document as JSON, even if it contains a tree that is nested too deeply for Python's writer."""
    try:
        return json.dumps(document)
    except RecursionError:
        deep = '{"tuple":[' * 5000 + "0" + "]}" * 5000
        return json.dumps(document | {"in_tree": None}).replace(
            '"in_tree": null', f'"in_tree":{deep}'
        )


def test_booleans_of_other_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "program.tnf"
    tnf.save(tnf.compile(lambda x: x & np.array([True, False]), np.ones(2, bool)), path)
    content = npy(np.array([True, False]))
    rewritten(path, **{"constants/0.npy": content[:-2] + b"\x07\x00"})
    with pytest.raises(errors.InvalidConfigError, match="neither 0 nor 1"):
        tnf.load(path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "file"
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*nowhere'$"), replacing(target):
        pass

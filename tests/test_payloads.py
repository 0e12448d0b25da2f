"""Unusual payloads in saved programs. Each field of each op gets each of many values.

For any value, tenferro must reject the file, or else print the program and lower it or raise an error. It must take
little time and memory.
"""

from __future__ import annotations

import json
import signal
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import lowering
import tenferro as tnf
from tenferro.dispatch.application import apply
from tenferro.ops.control import Scan
from tenferro.ops.structural import Reshape
from tests.counting import at_most
from tests.samples import SAMPLES
from tests.samples.families import FAMILY_SAMPLES

resource = pytest.importorskip("resource", reason="this system has no limits")
SECONDS = 60.0  # only endless cases exceed it: all others take far less
"""Maximum processor time for reading and using one file, in seconds."""
MEMORY = 1 << 30

Place = tuple[str | int, ...]


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


USUAL: tuple[Any, ...] = (
    -1, 10**9, 1 << 62, 1 << 63, 10**30, 0.5, "", None, True, {"float": "nan"}, {"dtype": "complex64"},
    {"dim": "n-7"}, {}, [], [0], [1 << 62], nested(500),
)  # fmt: skip
RARE: tuple[Any, ...] = (
    65, (1 << 63) - 1, -(1 << 63), 10**4000, "f64", {"float": "-inf"}, {"complex": ["nan", "0x1p1"]},
    {"scalar": ["uint8", "07"]}, {"dtype": "bool"}, {"dim": "n^9999*m"}, {"expression": "x0.0*x7.63"}, [-1, -1],
    nested(99), [0] * 1_000_000,
)  # fmt: skip
"""Values that are tested only in long runs, in the sweep."""


def longer(value: list[Any], size: int) -> Iterator[Any]:
    """Yield replacements for a list. One of them has a text of about `size` bytes."""
    first = value[0] if value else 0
    yield [first] * 65
    yield [first] * (size // (len(json.dumps(first)) + 2))
    yield value[:-1]
    yield [*value, first]
    yield value[::-1]
    for number in (-1, 1 << 62, 1 << 63):
        yield [number] * len(value)


def places(node: Any, path: Place = ()) -> Iterator[Place]:
    """Yield the path of each value in a document of nested objects and lists."""
    remaining = [(path, node)]
    while remaining:
        path, node = remaining.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            yield (*path, key)
            if isinstance(node[key], dict | list):
                remaining.append(((*path, key), node[key]))


def at(document: Any, path: Place) -> Any:
    for key in path:
        document = document[key]
    return document


def payload_places(document: Any) -> dict[Place, Place]:
    """Return the path of each value in a payload, by the keys in the path.

    Of several paths that differ only in list indices, only the first one is returned.
    """
    distinct: dict[Place, Place] = {}
    for path in places(document):
        if "payload" in path[:-1]:
            distinct.setdefault(tuple([key for key in path if isinstance(key, str)]), path)
    return distinct


class File:
    """A saved program whose JSON document a test can change."""

    def __init__(self, path: Path, program: Any) -> None:
        self.path = path
        tnf.save(program, path)
        with zipfile.ZipFile(path) as archive:
            self.members = {name: archive.read(name) for name in archive.namelist()}
        self.document = json.loads(self.members["program.json"])

    def write(self, place: Place, value: Any) -> None:
        holder = at(self.document, place[:-1])
        before, holder[place[-1]] = holder[place[-1]], value
        members = self.members | {"program.json": json.dumps(self.document).encode()}
        holder[place[-1]] = before
        with zipfile.ZipFile(self.path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)


def outcome(path: Path) -> str:
    """Read a file and use its program.

    Return the last stage that was reached, and the error. Only tenferro's errors are caught.
    """
    steps: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("printed", str),
        ("known", lambda program: program.fingerprint),
        ("lowered", lambda program: lowering.lower_to_stablehlo(program).text),
    )
    reached = "refused"
    try:
        program = tnf.load(path)
        reached = "loaded"
        for name, step in steps:
            step(program)
            reached = name
    except tnf.TenferroError as error:
        return f"{reached}: {type(error).__name__}"
    return reached


@pytest.fixture
def limits() -> Generator[None]:
    """Limit the processor time of a test by an alarm, and limit its memory."""

    def ring(*_: Any) -> None:
        raise AssertionError("still computing")

    before = signal.signal(signal.SIGPROF, ring)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    resource.setrlimit(resource.RLIMIT_DATA, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def read_with_others(programs: Iterable[Any], is_thorough: bool, path: Path) -> None:
    """Replace each value in the programs' payloads by other values, and read the files.

    Each key is edited only once.
    """
    met: set[Place] = set()
    for program in programs:
        file = File(path, program)
        assert outcome(path).startswith(("lowered", "known")), "its own file is refused"
        for name, place in payload_places(file.document).items():
            if name not in met:
                met.add(name)
                read_with_others_at(file, place, is_thorough)
        if not is_thorough:
            break


def read_with_others_at(file: File, place: Place, is_thorough: bool) -> None:
    value = at(file.document, place)
    others = [*USUAL, *(RARE if is_thorough else ())]
    if isinstance(value, list):
        others += longer(value, 1_000_000 if is_thorough else 5_000)
    for other in others:
        file.write(place, other)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # this timer counts processor time
        try:
            outcome(file.path)
        except Exception as error:
            error.add_note(f"{place}: {str(other)[:60]}")
            raise
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


thoroughly = pytest.mark.parametrize(
    "is_thorough", [False, pytest.param(True, marks=pytest.mark.sweep)]
)


def test_sequences_have_an_end() -> None:
    shape = (4,) * 300_000
    refusal = pytest.raises(
        tnf.errors.InvalidConfigError, match="shape has 300000 entries, at most"
    )
    with at_most(1_000_000), refusal:
        Reshape(shape)


@pytest.mark.parametrize("length", [(0,), 0.5, None, "n", -1, True])
def test_lengths_of_loops(length: Any) -> None:
    with pytest.raises(tnf.errors.InvalidConfigError, match="Scan: length must be"):
        Scan(None, length, 0, 0)


def program_of(op: Any, arrays: Sequence[Any]) -> Any:
    specs = [tnf.TensorSpec(array.shape, array.dtype) for array in arrays]
    return tnf.compile(lambda *xs: apply(op, *xs), *specs)


@thoroughly
@pytest.mark.parametrize("card", list(SAMPLES), ids=lambda card: card.__name__)
def test_payloads_of_ops(card: Any, is_thorough: bool, limits: None, tmp_path: Path) -> None:
    programs = (program_of(sample.op, sample.inputs) for sample in SAMPLES[card])
    read_with_others(programs, is_thorough, tmp_path / "program.tnf")


@thoroughly
@pytest.mark.parametrize("family", FAMILY_SAMPLES, ids=lambda family: family.__name__)
def test_payloads_of_families(family: Any, is_thorough: bool, limits: None, tmp_path: Path) -> None:
    programs = (tnf.compile(sample.fn, *sample.inputs) for sample in FAMILY_SAMPLES[family])
    read_with_others(programs, is_thorough, tmp_path / "program.tnf")


def test_unknown_names_in_payloads_are_refused_when_loaded(tmp_path: Path) -> None:
    programs = [program_of(sample.op, sample.inputs) for (sample, *_) in SAMPLES.values()]
    programs += [tnf.compile(sample.fn, *sample.inputs) for (sample, *_) in FAMILY_SAMPLES.values()]
    count = 0
    for program in programs:
        file = File(tmp_path / "program.tnf", program)
        for place in payload_places(file.document).values():
            if isinstance(at(file.document, place), str):
                for name in ("zz", ""):
                    file.write(place, name)
                    with pytest.raises(tnf.TenferroError):
                        tnf.load(file.path)
                count += 1
    assert count >= 20

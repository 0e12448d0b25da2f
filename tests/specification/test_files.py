"""Files: extension operations in saved programs."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro import errors
from tenferro.extension import HostReferenceRuntime, extension_family, register_extension
from tenferro.extension.ops import DotGeneral
from tenferro.program import families
from tests.specification.operations import Scale, X, compiled
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "files",
    "Files",
    "A file contains the family id and the payload of each operation. "
    "A payload that could not be restored is an error when the program is saved.",
)


class Kind(Enum):
    MAX = "max"
    MIN = "min"


@dataclass(frozen=True)
class Window:
    extents: tuple[int, ...]
    kind: Kind = Kind.MAX


@extension_family("specification", "saved", version=2, runtime=HostReferenceRuntime)
@dataclass(frozen=True)
class Saved(Scale):
    factor: Any = 2.0
    window: Window | None = None
    kind: Kind = Kind.MAX


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register `Saved` before a test, and remove all registrations of the test afterwards."""
    monkeypatch.setattr(families, "_REGISTERED", dict(families._registered()))
    register_extension(Saved.family)


def of_version(version: int, name: str = "versioned") -> Any:
    cls = dataclass(frozen=True)(type("Versioned", (Scale,), {"family": None}))
    return extension_family("specification", name, version=version)(cls)


def saved(op: Any, folder: Path) -> Path:
    tnf.save(compiled(op), folder / "program")
    return folder / "program"


def rewritten(path: Path, old: str, new: str) -> None:
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["program.json"] = contents["program.json"].replace(old.encode(), new.encode())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


@chapter.works(1, "A program with extension operations is equal after saving and loading.")
def test_round_trip(tmp_path: Path) -> None:
    loaded = tnf.load(saved(Saved(3.0), tmp_path))
    assert loaded.fingerprint == compiled(Saved(3.0)).fingerprint
    np.testing.assert_array_equal(loaded.run(X), 3 * X)


@chapter.works(2, "Equal programs are saved as equal bytes.")
def test_same_bytes(tmp_path: Path) -> None:
    first = saved(Saved(3.0), tmp_path).read_bytes()
    assert saved(Saved(3.0), tmp_path).read_bytes() == first


@chapter.works(3, "A file contains the family id verbatim.")
def test_verbatim(tmp_path: Path) -> None:
    with zipfile.ZipFile(saved(Saved(), tmp_path)) as archive:
        assert '"specification.saved.v2"' in archive.read("program.json").decode()


@chapter.table(
    "op",
    {
        4: Row("Enums in payloads are restored.", Saved(kind=Kind.MIN)),
        5: Row("Configuration objects in payloads are restored with their contents.", Saved(window=Window((2, 3), Kind.MIN))),
        6: Row("Dtypes in payloads are restored.", Saved(tnf.DType.BF16)),
        7: Row("Standard ops in payloads are restored.", Saved(DotGeneral((1,), (0,), (), ()))),
        8: Row("Numbers in payloads are restored with type, sign and bits.", Saved((1.5, -0.0, 1, True, np.float32(0.1), 1j))),
        9: Row("Strings, bytes and None in payloads are restored.", Saved(("a", b"bytes", None))),
        10: Row("NaN and infinities in payloads are restored.", Saved((float("nan"), float("-inf")))),
        11: Row("Frozensets in payloads are restored.", Saved(frozenset({1, "a"}))),
        12: Row("Symbols in payloads are restored.", Saved((tnf.SymDim("n") + 1,))),
    },
)  # fmt: skip
def test_payloads(op: Any, tmp_path: Path) -> None:
    (step,) = tnf.load(saved(op, tmp_path)).instructions
    assert step.op == compiled(op).instructions[0].op


@chapter.table(
    "factor, words",
    {
        13: Row("Saving a function in a payload is an error.", len, "payload of type"),
        14: Row("Saving a class in a payload is an error.", Window, "payload of type"),
    },
)
def test_payloads_that_are_refused(factor: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(errors.UnsupportedError, match=rf"saved\.v2.*{words}"):
        saved(Saved(factor), tmp_path)
    assert not list(tmp_path.iterdir())


@chapter.works(15, "Saving an object of a class that the operation does not declare is an error.")
def test_unnamed_classes(tmp_path: Path) -> None:
    class Local(Enum):
        ONE = 1

    with pytest.raises(errors.UnsupportedError, match=r"payload_classes = \(Local,\)"):
        saved(Saved(Local.ONE), tmp_path)


@chapter.works(16, "A field with `compare=False` and a default is not saved, and may be a cache.")
def test_fields_left_out(tmp_path: Path) -> None:
    @extension_family("specification", "caching", version=1)
    @dataclass(frozen=True)
    class Caching(Scale):
        plans: Any = field(default_factory=dict, compare=False)

    register_extension(Caching)
    op = Caching(2.0, {"plan": object()})
    (step,) = tnf.load(saved(op, tmp_path)).instructions
    assert step.op.op == op
    assert step.op.op.plans == {}


@chapter.works(17, "Saving a field with `compare=False` and without a default is an error.")
def test_fields_that_are_lost(tmp_path: Path) -> None:
    @extension_family("specification", "losing", version=1)
    @dataclass(frozen=True)
    class Losing(Scale):
        plan: Any = field(compare=False, kw_only=True)

    with pytest.raises(errors.UnsupportedError, match="plan of Losing is not compared"):
        saved(Losing(plan=object()), tmp_path)


@chapter.works(18, "Saving an op with its own `__eq__` and without `payload_fields` is an error.")
def test_hidden_payloads(tmp_path: Path) -> None:
    class Own(Scale):
        family_id = "specification.own.v1"

        def __init__(self, k: float) -> None:
            vars(self)["k"] = k

        def payload_eq(self, other: Any) -> bool:
            return vars(self) == vars(other)

        def payload_hash(self) -> int:
            return hash(vars(self)["k"])

    with pytest.raises(errors.UnsupportedError, match=r"own\.v1.*payload_fields"):
        saved(Own(7.0), tmp_path)


@chapter.works(19, "Loading a file with an unknown family is an error.")
def test_unknown_families(tmp_path: Path) -> None:
    path = saved(of_version(1)(), tmp_path)
    with pytest.raises(
        errors.UnsupportedError, match=r"extension: specification\.versioned\.v1: not registered"
    ):
        tnf.load(path)


@chapter.works(
    20,
    "On request a placeholder replaces an operation of an unknown family, and raises when it runs.",
)
def test_skipped_families(tmp_path: Path) -> None:
    path = saved(of_version(1)(), tmp_path)
    loaded = tnf.load(path, skip_missing_extensions=True)
    with pytest.raises(errors.UnsupportedError, match=r"versioned\.v1: not registered"):
        loaded.run(X)
    with pytest.raises(errors.TenferroError, match=r"versioned\.v1: not registered"):
        lowering.lower_to_stablehlo(loaded)


@chapter.works(21, "A placeholder keeps the payload and is saved as the original operation.")
def test_stand_ins_are_saved(tmp_path: Path) -> None:
    cls = of_version(1)
    path = saved(cls(5.0), tmp_path)
    tnf.save(tnf.load(path, skip_missing_extensions=True), tmp_path / "again")
    register_extension(cls)
    assert tnf.load(tmp_path / "again").instructions[0].op.op == cls(5.0)


@chapter.table(
    "written, known",
    {
        22: Row(
            "Loading a newer version of a family than the installed one is an error that gives both versions.",
            3,
            1,
        ),
        23: Row(
            "Loading an older version of a family than the installed one is an error that gives both versions.",
            1,
            3,
        ),
        24: Row("Versions are compared as numbers.", 9, 10),
    },
)
def test_versions(written: int, known: int, tmp_path: Path) -> None:
    register_extension(of_version(known))
    path = saved(of_version(written)(), tmp_path)
    words = f"version mismatch, graph has v{written}, runtime has v{known}"
    for skip in (False, True):
        with pytest.raises(errors.UnsupportedError, match=words):
            tnf.load(path, skip_missing_extensions=skip)


@chapter.works(25, "A malformed id in a file is an error before any lookup.")
def test_malformed_ids(tmp_path: Path) -> None:
    path = saved(of_version(1)(), tmp_path)
    rewritten(path, "specification.versioned.v1", "versioned")
    with pytest.raises(errors.MalformedFamilyIdError, match="'versioned'"):
        tnf.load(path, skip_missing_extensions=True)


@chapter.works(26, "An op whose types differ from those in the file is an error.")
def test_drift(tmp_path: Path) -> None:
    path = saved(of_version(1)(), tmp_path)
    cls = of_version(1)
    cls.infer_output_meta = lambda self, dtypes, shapes: [("float32", shapes[0])]
    register_extension(cls)
    with pytest.raises(errors.UnsupportedError, match=r"f32\[3\]"):
        tnf.load(path)


@chapter.works(27, "A file creates only objects of classes that the op's fields declare.")
def test_nothing_else_is_made(tmp_path: Path) -> None:
    path = saved(Saved(kind=Kind.MIN), tmp_path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("program.json").decode()
    name = next(part for part in text.split('"') if part.endswith("Kind"))
    rewritten(path, f'"{name}"', '"os.system"')
    with pytest.raises(errors.InvalidConfigError, match=r"os\.system"):
        tnf.load(path)


@chapter.works(
    28, "Operations that were lowered to composites are restored when the StableHLO is imported."
)
def test_composites() -> None:
    op = Saved((1.5, -0.0), Window((2,), Kind.MIN), Kind.MIN)
    module = lowering.lower_to_stablehlo(compiled(WithExpansion(op.factor)), extensions="composite")
    register_extension(WithExpansion)
    (step,) = lowering.import_stablehlo(module.text).instructions
    assert step.op.op == WithExpansion(op.factor)


@extension_family("specification", "composed", version=1)
@dataclass(frozen=True)
class WithExpansion(Scale):
    def lower_to_standard_ops(self, builder: Any, inputs: Any, *types: Any) -> Any:
        return inputs[0]


@chapter.works(29, "Programs with operations pickle.")
def test_pickles() -> None:
    import pickle

    again = pickle.loads(pickle.dumps(compiled(Saved(3.0))))
    np.testing.assert_array_equal(again.run(X), 3 * X)

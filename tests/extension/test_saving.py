"""Saved programs.

Loading must restore them exactly, families have versions, and hostile files must be rejected.
"""

from __future__ import annotations

import json
import mmap
import zipfile
from collections import namedtuple
from dataclasses import dataclass, field
from enum import Enum, Flag
from importlib import metadata
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import lowering
import tenferro as tnf
from tenferro import errors
from tenferro.archives import opened_archive
from tenferro.extension import (
    ExtensionOp,
    HostReferenceRuntime,
    apply,
    extension_family,
    register_extension,
    registered_families,
)
from tenferro.ops import STD_OPS
from tenferro.ops.contraction import DotGeneral
from tenferro.program import GraphProgram
from tests.ops.test_parity import program_of
from tests.samples import SAMPLES

Pair = namedtuple("Pair", ["left", "right"])  # because payloads may contain one
X = np.arange(1.0, 4.0)


def round_trip(program: GraphProgram, tmp_path: Path) -> GraphProgram:
    path = tmp_path / "program.tenferro"
    tnf.save(program, path)
    first = path.read_bytes()
    loaded = tnf.load(path)
    tnf.save(loaded, path)
    assert path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["program.tenferro"]
    return loaded


@pytest.mark.parametrize("card", STD_OPS, ids=lambda card: card.__name__)
def test_every_op_and_constant_comes_back(card: Any, tmp_path: Path) -> None:
    samples = list(SAMPLES[card])[:: max(1, len(SAMPLES[card]) // 12)]
    for constants in (False, True):
        program = program_of(samples, constants)
        loaded = round_trip(program, tmp_path)
        assert loaded.fingerprint == program.fingerprint
        assert str(loaded) == str(program)
        assert loaded.instructions == program.instructions


def test_named_tuples_fit_by_name_and_fields(tmp_path: Path) -> None:
    pair = Pair(np.full(2, 3.0), {"x": (np.ones(2),)})
    program = tnf.compile(lambda p: Pair(p.left - 2 * p.right["x"][0], [p]), pair)
    loaded = round_trip(program, tmp_path)

    def loss(p: Any) -> Any:
        return tnf.sum(loaded.run(p).left ** 2)

    slopes = Pair(np.full(2, 2.0), {"x": (np.full(2, -4.0),)})
    rows = Pair(np.ones((3, 2)), {"x": (np.ones((3, 2)),)})
    for run in (
        loaded.run,
        lambda p: tnf.GraphExecutor().run(loaded, p),
        tnf.jit(loaded.run),
        tnf.jit(lambda p: loaded.run(p)),
    ):
        for _ in range(2):
            result = run(pair)
            np.testing.assert_array_equal(result.left, [1.0, 1.0])
            assert (type(result).__name__, result._fields) == ("Pair", ("left", "right"))
            assert run(type(result)(*pair)).left.tolist() == [1.0, 1.0]
    for gradient in (tnf.grad(loss), tnf.grad(tnf.jit(loss))):
        assert tnf.tree.all(tnf.tree.map(np.array_equal, gradient(pair), slopes))
    y, pull = tnf.vjp(loaded.run, pair)
    (pulled,) = pull(Pair(y.left, [pair._replace(left=np.zeros(2), right={"x": (np.zeros(2),)})]))
    np.testing.assert_array_equal(pulled.left, y.left)
    np.testing.assert_array_equal(tnf.vmap(loaded.run)(rows).left, -np.ones((3, 2)))
    loaded.profile(pair, runs=1)


def test_other_named_tuples_do_not_fit(tmp_path: Path) -> None:
    loaded = round_trip(tnf.compile(lambda p: p.left, Pair(X, X)), tmp_path)
    classes = [("Other", "left right"), ("Pair", "right left"), ("Pair", "left")]
    others: list[Any] = [namedtuple(*each)(*[X] * len(each[1].split())) for each in classes]
    for other in (*others, (X, X), [X, X]):
        with pytest.raises(errors.ArityError, match=r"structure|takes 2 arrays"):
            loaded.run(other)


def test_a_carry_may_be_the_tuple_of_a_loaded_program(tmp_path: Path) -> None:
    pair = Pair(X, X)
    step = round_trip(tnf.compile(lambda p: Pair(p.left + p.right, p.right), pair), tmp_path).run
    np.testing.assert_array_equal(tnf.fori_loop(0, 3, lambda _, p: step(p), pair).left, 4 * X)
    np.testing.assert_array_equal(
        tnf.scan(lambda p, _: (step(p), None), pair, None, length=3)[0].left, 4 * X
    )
    np.testing.assert_array_equal(tnf.cond(True, step, lambda p: p, pair).left, 2 * X)


def test_trees_symbols_guards_and_text_come_back(tmp_path: Path) -> None:
    def fn(p: Any, x: Any) -> Any:
        y = p["w"][0] * x + np.array([1.5], ml_dtypes.bfloat16).astype("f4")
        return Pair(y[:2], {"b": (tnf.sum(y), None), "a": [y]})

    spec = tnf.TensorSpec(("n",), "f4")
    program = tnf.compile(fn, {"w": (spec,)}, tnf.TensorSpec(("m",), "f4"))
    loaded = round_trip(program, tmp_path)
    assert loaded.guards == program.guards
    assert loaded.input_names == program.input_names
    x = np.ones(3, "f4")
    result = loaded.run({"w": (x,)}, x)
    assert type(result).__name__ == "Pair"
    np.testing.assert_array_equal(result.left, [2.5, 2.5])
    assert result.right["b"][1] is None
    with pytest.raises(errors.GuardError):
        loaded.run({"w": (x,)}, np.ones(4, "f4"))
    specs = [spec, spec]
    shapes = [tnf.TensorSpec((3,), "f4")] * len(specs)
    assert (
        lowering.lower_to_stablehlo(loaded, specs=shapes).text
        == lowering.lower_to_stablehlo(program, specs=shapes).text
    )


def test_families_that_come_with_the_package(tmp_path: Path) -> None:
    program = tnf.compile(lambda x: (tnf.linalg.svd(x @ x.T).S, tnf.fft.fft(x)), np.ones((2, 3)))
    loaded = round_trip(program, tmp_path)
    x = np.arange(6.0).reshape(2, 3)
    for a, b in zip(program.run(x), loaded.run(x), strict=True):
        np.testing.assert_array_equal(a, b)


@extension_family("tenferro-tests", "unregistered", version=2)
@dataclass(frozen=True)
class Unregistered(ExtensionOp):
    axes: tuple[int, ...] = (1, 2)
    scale: float = float("-inf")

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]


def test_11_unregistered_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "program"
    tnf.save(tnf.compile(lambda x: apply(Unregistered(), x) + x, X), path)
    with zipfile.ZipFile(path) as archive:
        assert '"tenferro-tests.unregistered.v2"' in archive.read("program.json").decode()
    words = "extension: tenferro-tests.unregistered.v2: not registered"
    with pytest.raises(errors.UnsupportedError, match=words):
        tnf.load(path)
    loaded = tnf.load(path, skip_missing_extensions=True)
    with pytest.raises(errors.UnsupportedError, match=r"unregistered\.v2: not registered"):
        loaded.run(X)
    with pytest.raises(errors.ExtensionLoweringError, match=r"unregistered\.v2: not registered"):
        lowering.lower_to_stablehlo(loaded)
    again = tmp_path / "again"
    tnf.save(loaded, again)
    assert json.loads(zipfile.ZipFile(again).read("program.json"))["instructions"][0][
        "payload"
    ] == {"axes": [1, 2], "scale": {"float": "-inf"}}


def test_11_another_major_version_and_malformed_ids(tmp_path: Path) -> None:
    @extension_family("tenferro-tests", "versioned", version=1)
    @dataclass(frozen=True)
    class Old(Unregistered):
        pass

    @extension_family("tenferro-tests", "versioned", version=3)
    @dataclass(frozen=True)
    class New(Unregistered):
        pass

    register_extension(Old)
    path = tmp_path / "program"
    tnf.save(tnf.compile(lambda x: apply(New(), x), X), path)
    with pytest.raises(errors.UnsupportedError, match="graph has v3, runtime has v1"):
        tnf.load(path, skip_missing_extensions=True)
    rewritten(path, lambda text: text.replace("tenferro-tests.versioned.v3", "versioned"))
    with pytest.raises(errors.MalformedFamilyIdError):
        tnf.load(path, skip_missing_extensions=True)


def test_11_versions_are_numbers(tmp_path: Path) -> None:
    """Versions must be sorted as numbers. In every list of families, version 9 must come before version 10."""

    def of_version(version: int) -> Any:
        @extension_family("tenferro-tests", "counted", version=version)
        @dataclass(frozen=True)
        class Counted(Unregistered):
            pass

        return Counted

    three, nine, ten = map(of_version, (3, 9, 10))
    register_extension(ten)
    register_extension(nine)
    listed = [name for name in registered_families() if "tenferro-tests.counted." in name]
    assert listed == [nine.family_id, ten.family_id]
    program = tnf.compile(lambda x: apply(three(), apply(nine(), apply(ten(), x))), X)
    assert program.families == (three.family_id, nine.family_id, ten.family_id)
    tnf.save(program, tmp_path / "program")
    with pytest.raises(errors.UnsupportedError, match="graph has v3, runtime has v9, v10"):
        tnf.load(tmp_path / "program")


def test_11_a_factory_whose_op_is_another_one(tmp_path: Path) -> None:
    @extension_family("tenferro-tests", "drifted", version=1)
    @dataclass(frozen=True)
    class Drifted(Unregistered):
        pass

    class Factory:
        family_id = Drifted.family_id
        version = 1
        makes: Any = Drifted

        def instantiate(self, payload: Any) -> Any:
            return self.makes(**payload)

    class Wider(Drifted):
        def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
            return [("float32", input_shapes[0])]

    factory, path = Factory(), tmp_path / "program"
    register_extension(factory)
    program = tnf.compile(lambda x: apply(Drifted(), x), tnf.TensorSpec(("n",), "f8"))
    tnf.save(program, path)
    assert tnf.load(path).fingerprint == program.fingerprint
    factory.makes = Wider
    with pytest.raises(errors.UnsupportedError, match=r"gives \(f64\[n\]\), .* \(f32\[n\]\)"):
        tnf.load(path)
    factory.makes = Unregistered
    with pytest.raises(errors.UnsupportedError, match="not an op of that family"):
        tnf.load(path)


def test_an_op_that_its_factory_would_not_return_is_refused(tmp_path: Path) -> None:
    @extension_family("tenferro-tests", "derived", version=1, runtime=HostReferenceRuntime)
    @dataclass(frozen=True)
    class Base(Unregistered):
        factor: float = 2.0

        def eager_execute(self, inputs: Any) -> Any:
            return [inputs[0] * self.factor]

    @dataclass(frozen=True)
    class Derived(Base):
        def eager_execute(self, inputs: Any) -> Any:
            return [inputs[0] * self.factor + 1]

    def program(op: Any) -> GraphProgram:
        return tnf.compile(lambda x: apply(op, x), X)

    with pytest.raises(errors.UnsupportedError, match=r"of a Derived, .*, a Base; .* family id"):
        tnf.save(program(Derived(factor=3.0)), tmp_path / "program")
    register_extension(Base)
    with pytest.raises(errors.UnsupportedError, match=r"of a Derived, .*, a Base; .* family id"):
        tnf.save(program(Derived(factor=3.0)), tmp_path / "program")
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(round_trip(program(Base(factor=3.0)), tmp_path).run(X), X * 3)


def rewritten(path: Path, change: Any) -> None:
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["program.json"] = change(contents["program.json"].decode()).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: "[]",
        lambda text: text.replace("tenferro-program", "other"),
        lambda text: text.replace('"version":1', '"version":99'),
        lambda text: text.replace('"Add"', '"os.system"'),
        lambda text: text.replace('"payload":{}', '"payload":{"x":1}'),
        lambda text: text.replace('"inputs":[0,1]', '"inputs":[0,7]'),
        lambda text: text.replace('"inputs":[0,1]', '"inputs":[0,-1]'),
        lambda text: text.replace('"outputs":[2]', '"outputs":[5]'),
        lambda text: text.replace("f64[3]", "f64[4]"),
        lambda text: text.replace("f64[3]", "f64[3"),
        lambda text: text.replace('"constant":0', '"constant":3'),
        lambda text: text.replace('"dtype":"float64"', '"dtype":"float32"'),
        lambda text: text.replace('{"tuple":[0]}', '{"tuple":[1]}'),
        lambda text: text.replace('{"tuple":[0]}', '{"set":[0]}'),
    ],
)
def test_a_malformed_document_is_a_clear_error(change: Any, tmp_path: Path) -> None:
    path = tmp_path / "program"
    tnf.save(tnf.compile(lambda x: x + np.ones(3), X), path)
    rewritten(path, change)
    with pytest.raises(errors.TenferroError):
        tnf.load(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    for content in (b"", b"PK\x03\x04", b"nonsense" * 100):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(errors.InvalidConfigError, match="no tenferro-program file"):
            tnf.load(path)
    with pytest.raises(FileNotFoundError):
        tnf.load(tmp_path / "absent")
    pickled = tmp_path / "pickled"
    tnf.save(tnf.compile(lambda x: x + np.ones(3), X), pickled)
    with zipfile.ZipFile(pickled) as archive:
        document = archive.read("program.json")
    with zipfile.ZipFile(pickled, "w") as archive:
        archive.writestr("program.json", document)
        with archive.open("constants/0.npy", "w") as file:
            np.save(file, np.array([print], object), allow_pickle=True)
    with pytest.raises(errors.InvalidConfigError, match="pickle"):
        tnf.load(pickled)


def test_what_cannot_be_saved_leaves_no_file(tmp_path: Path) -> None:
    @extension_family("tenferro-tests", "unsaved", version=1)
    @dataclass(frozen=True)
    class Unsaved(Unregistered):
        function: Any = None

    program = tnf.compile(lambda x: apply(Unsaved(function=len), x), X)
    with pytest.raises(errors.UnsupportedError, match=r"unsaved\.v1"):
        tnf.save(program, tmp_path / "file")
    assert not list(tmp_path.iterdir())


class Point:
    """Entry point of an installed package, in the form in which `importlib.metadata` returns it."""

    name, value = "theirs", "their_package:families"

    def __init__(self, offered: Any) -> None:
        self.offered = offered

    def load(self) -> Any:
        if isinstance(self.offered, Exception):
            raise self.offered
        return self.offered


@extension_family("tenferro-tests", "offered", version=1)
@dataclass(frozen=True)
class Offered(ExtensionOp):
    pass


def test_what_packages_offer(monkeypatch: Any) -> None:
    from tenferro.extension import lookup_extension_factory

    offers: list[Any] = [[Offered]]
    monkeypatch.setattr(metadata, "entry_points", lambda group: map(Point, offers))
    assert lookup_extension_factory("tenferro-tests.other.v1") is None
    assert lookup_extension_factory(Offered.family_id) is not None
    for broken in (3, ImportError("no such module"), [int]):
        offers[:] = [broken]
        with pytest.raises(errors.RegistrationError, match=r"'theirs' .their_package:families"):
            lookup_extension_factory("tenferro-tests.other.v1")


class Kind(Enum):
    MAX = "max"
    MIN = "min"


class Sides(Flag):
    LEFT = 1
    RIGHT = 2


@dataclass(frozen=True)
class Window:
    extents: tuple[int, ...]
    kind: Kind = Kind.MAX
    scratch: Any = field(default=None, compare=False)


@extension_family("tenferro-tests", "configured", version=1)
@dataclass(frozen=True)
class Configured(ExtensionOp):
    """Op whose payload contains a configuration of enums, dataclasses and sets, as authors write them."""

    kind: Kind
    window: Window | None = None
    windows: tuple[Window, ...] = ()
    accumulated: Any = None
    dots: Any = None
    names: frozenset[str] = frozenset()
    sides: Sides = Sides.LEFT

    def infer_output_meta(self, input_dtypes: Any, input_shapes: Any) -> Any:
        return [(input_dtypes[0], input_shapes[0])]

    def eager_execute(self, inputs: Any) -> Any:
        return [inputs[0].copy()]

    def lower_to_standard_ops(self, builder: Any, inputs: Any, dtypes: Any, shapes: Any) -> Any:
        return inputs[0]


register_extension(Configured)
PAYLOADS = [
    Configured(Kind.MIN),
    Configured(Kind.MAX, Window((2, 3), Kind.MIN, scratch=object())),
    Configured(Kind.MAX, windows=(Window(()), Window((1,), Kind.MIN))),
    Configured(Kind.MAX, accumulated=tnf.DType.F32),
    Configured(Kind.MAX, accumulated=np.dtype("float32")),
    Configured(Kind.MAX, accumulated=np.dtype(ml_dtypes.bfloat16)),
    Configured(Kind.MAX, accumulated=(1.5, -0.0, b"bytes", None)),
    Configured(Kind.MAX, dots=DotGeneral((1,), (0,), (), ())),
    Configured(Kind.MAX, names=frozenset({"a", "b"})),
    Configured(Kind.MAX, sides=Sides.LEFT | Sides.RIGHT),
    Configured(Kind.MAX, sides=Sides(0)),
]


@pytest.mark.parametrize("op", PAYLOADS, ids=lambda op: str(PAYLOADS.index(op)))
def test_payloads_as_authors_write_them_come_back(op: Any, tmp_path: Path) -> None:
    program = tnf.compile(lambda x: apply(op, x), X)
    loaded = round_trip(program, tmp_path)
    assert loaded.fingerprint == program.fingerprint
    assert loaded.instructions[0].op.op == op
    module = lowering.lower_to_stablehlo(program, extensions="composite")
    again = lowering.import_stablehlo(module.text)
    assert again.instructions[0].op.op == op


def test_a_member_that_is_gone_is_named(tmp_path: Path) -> None:
    path = tmp_path / "program"
    tnf.save(tnf.compile(lambda x: apply(Configured(Kind.MIN), x), X), path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content.replace(b'"MIN"', b'"AVG"'))
    with pytest.raises(errors.InvalidConfigError, match="Kind has no member 'AVG'"):
        tnf.load(path)


def test_payloads_that_no_file_can_bring_back_are_refused(tmp_path: Path) -> None:
    class Local(Enum):
        ONE = 1

    @dataclass(frozen=True)
    class Losing:
        extent: int
        plan: Any = field(compare=False)

    for value, match in (
        (Local.ONE, r"payload_classes = \(Local,\)"),
        (Losing(1, None), "payload_classes"),
        (Window, "payload of type type"),
        (len, "payload of type builtin"),
    ):
        program = tnf.compile(lambda x, v=value: apply(Configured(Kind.MAX, accumulated=v), x), X)
        with pytest.raises(errors.UnsupportedError, match=match):
            tnf.save(program, tmp_path / "file")
    assert not list(tmp_path.iterdir())

    @extension_family("tenferro-tests", "listing", version=1)
    @dataclass(frozen=True)
    class Listing(Configured):
        payload_classes = (Local, Losing)

    @extension_family("tenferro-tests", "listing", version=1)
    @dataclass(frozen=True)
    class Unlisting(Configured):
        pass

    tnf.save(
        tnf.compile(lambda x: apply(Listing(Kind.MAX, accumulated=Local.ONE), x), X), tmp_path / "f"
    )
    register_extension(Unlisting)
    with pytest.raises(errors.InvalidConfigError, match="is no enum that the op"):
        tnf.load(tmp_path / "f")  # because the class Unlisting does not list the enum Local
    losing = tnf.compile(lambda x: apply(Listing(Kind.MAX, accumulated=Losing(1, None)), x), X)
    with pytest.raises(errors.UnsupportedError, match="plan of Losing is not compared"):
        tnf.save(losing, tmp_path / "g")


def test_large_constants_are_mapped_from_the_file(tmp_path: Path) -> None:
    first, second = np.arange(20_000.0).reshape(100, 200), np.arange(30_000, dtype="float32")
    small = np.arange(100.0)

    def function(x: Any) -> Any:
        return tnf.sum(x * first) + tnf.sum(x[0] * second) + tnf.sum(small * x[:100])

    path = tmp_path / "mapped.tnf"
    saved = tnf.compile(function, tnf.TensorSpec((200,), "float64"))
    tnf.save(saved, path)
    with path.open("rb") as file, opened_archive(file, "the file") as archive:
        arrays = [archive.mapped_array(f"constants/{number}") for number in range(3)]
    for array, expected in zip(arrays, (first, second, small), strict=True):
        assert array is not None
        owner: Any = array
        while not isinstance(owner, mmap.mmap):
            owner = owner.obj if isinstance(owner, memoryview) else owner.base
        assert array.ctypes.data % 64 == 0
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, expected)
    program = tnf.load(path, mapped=True)
    assert program.fingerprint == saved.fingerprint
    tnf.save(program, path)  # this overwrites the file that is still mapped
    x = np.ones(200)
    total = first.sum() + second.sum(dtype="f8") + small.sum()
    executor = tnf.GraphExecutor(compiled=False, segmented=False, passes=())
    np.testing.assert_allclose(executor.run(program, x), total, rtol=1e-6)
    assert tnf.load(path).fingerprint == saved.fingerprint


def test_members_that_are_not_aligned_or_are_compressed_are_read(tmp_path: Path) -> None:
    table = np.arange(10_001.0)
    tnf.save(tnf.compile(lambda x: x * table, table), tmp_path / "a.tnf")
    for number, method in enumerate((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED)):
        path = tmp_path / f"{number}.tnf"
        with zipfile.ZipFile(tmp_path / "a.tnf") as old, zipfile.ZipFile(path, "w") as new:
            new.writestr("x" * (number + 1), "", method)
            for name in old.namelist():
                new.writestr(name, old.read(name), method)
        np.testing.assert_array_equal(tnf.load(path, mapped=True).run(table), table**2)

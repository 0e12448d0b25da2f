"""Identity: when two operations are one."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.extension import (
    Extension,
    ExtensionOp,
    apply,
    check_extension,
    check_family_id,
    extension_family,
)
from tenferro.ops import ALL_OPS, STD_OPS
from tests.specification.operations import Scale, X, compiled, operation
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "identity",
    "Identity",
    "An operation of another package enters programs as one carrier, `Extension(op)`. "
    "Whether two carriers are the same operation is decided by the family id and the payload, and by nothing else.",
)
NAN = float("nan")


@extension_family("specification", "other_scale", version=1)
@dataclass(frozen=True)
class OtherScale(Scale):
    """Op with the same payload in another family."""


class Kind(Enum):
    MAX = 1
    MIN = 2


@dataclass(frozen=True)
class Config:
    axes: tuple[int, ...]
    scale: float = 1.0


# ---- the carrier ---------------------------------------------------------------------------------


@chapter.works(
    1, "An operation from outside takes part in every program as the one op `Extension(op)`."
)
def test_the_carrier() -> None:
    program = tnf.compile(lambda x: apply(Scale(), x + x), X)
    assert [type(i.op) for i in program.instructions][-1] is Extension
    np.testing.assert_array_equal(program.run(X), 4 * X)


@chapter.works(2, "It adds nothing to the vocabulary of standard ops.")
def test_the_vocabulary() -> None:
    assert Extension not in STD_OPS
    assert set(ALL_OPS) == {*STD_OPS, Extension}


@chapter.works(3, "Carriers are equal when the family ids and the payloads are.")
def test_equality() -> None:
    assert Extension(Scale(2.0)) == Extension(Scale(2.0))
    assert Extension(Scale(2.0)) != Extension(Scale(3.0))


@chapter.works(4, "Operations of different families are never equal, whatever their payloads are.")
def test_families_apart() -> None:
    assert Extension(Scale(2.0)) != Extension(OtherScale(2.0))

    class Never(Scale):
        family_id = "specification.never.v1"

        def payload_eq(self, other: Any) -> bool:
            raise AssertionError("the family id decides first")

    assert Extension(Never(2.0)) != Extension(Scale(2.0))


@chapter.works(5, "Equal operations have equal hashes, and the family is part of the hash.")
def test_hashes() -> None:
    assert hash(Extension(Scale(2.0))) == hash(Extension(Scale(2.0)))
    assert hash(Extension(Scale(2.0))) != hash(Extension(OtherScale(2.0)))
    assert hash(Extension(Scale(2.0))) != hash(Scale(2.0).payload_hash())


@chapter.works(6, "Equal operations on equal inputs are one instruction, also across calls.")
def test_interning() -> None:
    program = tnf.compile(lambda x: apply(Scale(), x) + apply(Scale(), x), X)
    assert [i.op.name for i in program.instructions] == [Scale.family_id, "Add"]


@chapter.works(
    7, "Which of two equal operations is executed makes no difference, however warm its caches are."
)
def test_interchangeable() -> None:
    @extension_family(
        "specification", "warm", version=1, runtime=tnf.extension.HostReferenceRuntime
    )
    @dataclass(frozen=True)
    class Warm(Scale):
        plans: dict[str, Any] = field(default_factory=dict, compare=False)

        def eager_execute(self, inputs: Any) -> Any:
            return [self.plans.setdefault("plan", self.factor) * inputs[0]]

    cold, warm = Warm(2.0), Warm(2.0)
    apply(warm, X)
    program = tnf.compile(lambda x: (apply(cold, x), apply(warm, x)), X)
    assert len(program.instructions) == 1
    np.testing.assert_array_equal(program.run(X)[1], 2 * X)


@chapter.works(8, "Two classes may share a family: identity lives on the operation, not its type.")
def test_two_classes_of_one_family() -> None:
    class Alike(ExtensionOp):
        family_id = Scale.family_id
        payload_eq = lambda self, other: getattr(other, "factor", 2.0) == 2.0
        payload_hash = lambda self: Scale(2.0).payload_hash()

    assert Extension(Alike()) == Extension(Scale(2.0))
    assert hash(Extension(Alike())) == hash(Extension(Scale(2.0)))
    assert Extension(Alike()) != Extension(Scale(3.0))


@chapter.works(9, "An operation and its carrier can be copied deeply, and the copies are equal.")
def test_copies() -> None:
    carrier = Extension(Scale((1.0, Config((0,)))))
    twin = copy.deepcopy(carrier)
    assert twin == carrier
    assert twin.op is not carrier.op


@chapter.works(10, "One program may be run by many threads at once.")
def test_threads() -> None:
    program = compiled(Scale(3.0))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda k: program.run(k * X), range(32)))
    np.testing.assert_array_equal(results, [3 * k * X for k in range(32)])


# ---- family ids ----------------------------------------------------------------------------------


@chapter.table(
    "family, is_valid",
    {
        11: Row("A family id is `<package>.<name>.v<major>`.", "package.name.v1", True),
        12: Row("A package's name in it may have hyphens.", "my-package.name.v1", True),
        13: Row("A package's name in it may have no spaces.", "my package.name.v1", False),
        14: Row("A family's version may be 0.", "A-b_c.d_e.v0", True),
        15: Row("A family's version has no leading zero.", "package.name.v01", False),
        16: Row("A family's version is an integer.", "package.name.vx", False),
        17: Row("What has no version is no family id.", "package.name", False),
        18: Row("What names no package is no family id.", ".name.v1", False),
        19: Row(
            "An operation's name in a family id is an ASCII identifier.",
            "package.na-me.v1",
            False,
            because="the advice is a rule here, so that a composite's symbol in StableHLO never needs quoting",
        ),
        20: Row("What is no string is no family id.", 3, False),
    },
)
def test_family_ids(family: Any, is_valid: bool) -> None:
    if is_valid:
        assert check_family_id(family) == family
    else:
        with pytest.raises(errors.MalformedFamilyIdError):
            check_family_id(family)


@chapter.works(21, "`extension_family` makes the id from its parts, as `FAMILY_ID`.")
def test_family_decorator() -> None:
    @extension_family("my-crate", "fft", version=1)
    class Fft(ExtensionOp): ...

    assert Fft.FAMILY_ID == Fft.family_id == "my-crate.fft.v1"


@chapter.works(22, "The id belongs to the family: it does not change with the payload.")
def test_family_of_instances() -> None:
    assert Scale(1.0).family_id == Scale((2, 3)).family_id == "specification.scale.v1"


@chapter.works(23, "A program whose operation has a malformed id is refused while it is traced.")
def test_malformed_ids_in_traces() -> None:
    op = operation("fine")
    op.family_id = "fine"
    with pytest.raises(errors.MalformedFamilyIdError, match="'fine'"):
        compiled(op)


# ---- payloads ------------------------------------------------------------------------------------


@chapter.table(
    "a, b",
    {
        24: Row("In a payload `True` is not `1`.", True, 1),
        25: Row("In a payload `1` is not `1.0`.", 1, 1.0),
        26: Row("In a payload `-0.0` is not `0.0`.", 0.0, -0.0),
        27: Row(
            "Tuples in payloads differ where their elements do, at any depth.",
            ((1, (0.0,)),),
            ((1, (-0.0,)),),
        ),
        28: Row(
            "Complex numbers in payloads differ where the sign of a zero does.",
            complex(0, 0.0),
            complex(0, -0.0),
        ),
        29: Row(
            "Configurations in payloads differ where a field does, by type too.",
            Config((1,), 1.0),
            Config((1,), 1),
        ),
        30: Row(
            "Frozensets in payloads differ where an element does, by type too.",
            frozenset([1]),
            frozenset([True]),
        ),
        31: Row("A number of NumPy in a payload is not Python's.", np.float64(1.0), 1.0),
        32: Row("Members of an enum are payloads.", Kind.MAX, Kind.MIN),
        33: Row("Dtypes are payloads.", tnf.DType.F32, tnf.DType.F64),
        34: Row("Symbols are payloads.", tnf.SymDim("n"), tnf.SymDim("m")),
    },
)
def test_payloads_apart(a: Any, b: Any) -> None:
    assert Extension(Scale(a)) != Extension(Scale(b))
    assert compiled(Scale(a)).fingerprint != compiled(Scale(b)).fingerprint


@chapter.table(
    "a, b",
    {
        35: Row("A NaN in a payload is itself.", NAN, float("nan")),
        36: Row(
            "A NaN is itself at any depth of a payload.",
            (Config((1,), NAN),),
            (Config((1,), -NAN),),
        ),
        37: Row(
            "The order of a frozenset in a payload is not seen.", frozenset("ab"), frozenset("ba")
        ),
        38: Row(
            "Symbolic arithmetic in payloads is compared by value.",
            tnf.SymDim("n") + 1,
            1 + tnf.SymDim("n"),
        ),
        39: Row("Equal configurations make equal payloads.", Config((2, 3)), Config((2, 3))),
    },
)
def test_payloads_alike(a: Any, b: Any) -> None:
    assert Extension(Scale(a)) == Extension(Scale(b))
    assert hash(Extension(Scale(a))) == hash(Extension(Scale(b)))
    assert compiled(Scale(a)).fingerprint == compiled(Scale(b)).fingerprint


@chapter.works(40, "A payload without a hash is refused, and the error says what to use instead.")
def test_unhashable_payloads() -> None:
    with pytest.raises(errors.InvalidConfigError, match=r"scale\.v1.*tuples instead of lists"):
        compiled(Scale([1]))


@chapter.works(41, "What is not compared, such as a plan, is no part of identity.")
def test_transient_state() -> None:
    @extension_family("specification", "planned", version=1)
    @dataclass(frozen=True)
    class Planned(Scale):
        plan: Any = field(default=None, compare=False)

    assert Extension(Planned(2.0, object())) == Extension(Planned(2.0, object()))
    assert hash(Extension(Planned(2.0, [1]))) == hash(Extension(Planned(2.0)))


@chapter.works(42, "A class that is no dataclass says by `payload_fields` what tells two apart.")
def test_payload_fields() -> None:
    class Times(Scale):
        def __init__(self, k: float) -> None:
            vars(self)["k"] = k

        def payload_fields(self) -> dict[str, Any]:
            return {"k": self.k}  # type: ignore[attr-defined]  # because it is set above

    assert Extension(Times(1.0)) == Extension(Times(1.0))
    assert Extension(Times(0.0)) != Extension(Times(-0.0))


@chapter.works(43, "Attributes of which it is not known whether they tell two apart are refused.")
def test_undeclared_attributes() -> None:
    op = operation("undeclared")
    op.k = 7.0
    with pytest.raises(errors.UnsupportedError, match=r"undeclared\.v1.*\bk\b.*payload_fields"):
        compiled(op)


@chapter.works(44, "Fingerprints of equal programs are equal in every process.")
def test_fingerprints_elsewhere() -> None:
    code = "from tests.specification.test_identity import *; print(compiled(MIXED).fingerprint)"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    there = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert there.stdout.strip() == compiled(MIXED).fingerprint


MIXED = Scale((frozenset("abc"), Config((1,), -0.0), Kind.MIN, NAN, 1j, tnf.DType.F16))


@chapter.differs(
    45,
    "The payload's hash is a number that `payload_hash()` gives; no hasher is handed in.",
    because="frozen dataclasses, enums and tuples need nothing written at all",
)
def test_hash_is_a_number() -> None:
    assert isinstance(Scale(2.0).payload_hash(), int)
    assert Scale(2.0).payload_hash() == Scale(2.0).payload_hash() != Scale(3.0).payload_hash()


@chapter.differs(
    46,
    "`payload_eq` recognises its own class by `isinstance`: there is no `as_any` to convert by.",
    because="Python's objects know their class",
)
def test_no_downcast() -> None:
    assert Scale(2.0).payload_eq(Scale(2.0))
    assert not Scale(2.0).payload_eq(OtherScale(2.0))
    assert not hasattr(ExtensionOp, "as_any")


@chapter.works(47, "An op whose hash changes from call to call is reported by `check_extension`.")
def test_unstable_hash() -> None:
    class Unstable(Scale):
        def payload_hash(self) -> int:
            return id(self)

    report = check_extension(Unstable(), [X])
    assert not report.ok
    assert "hash" in str(report)


@chapter.works(48, "Operations with effects stay apart although they are equal.")
def test_effects_stay_apart() -> None:
    counter = operation("effect", effects=True, eager_execute=lambda self, inputs: [inputs[0] + 1])
    program = tnf.compile(lambda x: (apply(counter, x), apply(counter, x)), X)
    assert [type(i.op) for i in program.instructions].count(Extension) == 2

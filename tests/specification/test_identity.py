"""Identity: equality of operations."""

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
    "An operation of another package is represented in programs by the op `Extension(op)`, its carrier. "
    "Two carriers are equal if the family ids and the payloads are equal.",
)
NAN = float("nan")


@extension_family("specification", "other_scale", version=1)
@dataclass(frozen=True)
class OtherScale(Scale):
    """Operation with the same payload as `Scale`, but of another family."""


class Kind(Enum):
    MAX = 1
    MIN = 2


@dataclass(frozen=True)
class Config:
    axes: tuple[int, ...]
    scale: float = 1.0


# ---- the carrier ---------------------------------------------------------------------------------


@chapter.works(1, "An extension operation is represented in a program by the op `Extension(op)`.")
def test_the_carrier() -> None:
    program = tnf.compile(lambda x: apply(Scale(), x + x), X)
    assert [type(i.op) for i in program.instructions][-1] is Extension
    np.testing.assert_array_equal(program.run(X), 4 * X)


@chapter.works(2, "An extension operation adds nothing to the vocabulary of standard ops.")
def test_the_vocabulary() -> None:
    assert Extension not in STD_OPS
    assert set(ALL_OPS) == {*STD_OPS, Extension}


@chapter.works(3, "Carriers are equal if their family ids and payloads are equal.")
def test_equality() -> None:
    assert Extension(Scale(2.0)) == Extension(Scale(2.0))
    assert Extension(Scale(2.0)) != Extension(Scale(3.0))


@chapter.works(4, "Operations of different families are never equal, even if their payloads are.")
def test_families_apart() -> None:
    assert Extension(Scale(2.0)) != Extension(OtherScale(2.0))

    class Never(Scale):
        family_id = "specification.never.v1"

        def payload_eq(self, other: Any) -> bool:
            raise AssertionError("the family id decides first")

    assert Extension(Never(2.0)) != Extension(Scale(2.0))


@chapter.works(5, "Equal operations have equal hashes, and the hash includes the family.")
def test_hashes() -> None:
    assert hash(Extension(Scale(2.0))) == hash(Extension(Scale(2.0)))
    assert hash(Extension(Scale(2.0))) != hash(Extension(OtherScale(2.0)))
    assert hash(Extension(Scale(2.0))) != hash(Scale(2.0).payload_hash())


@chapter.works(
    6, "Equal operations on equal inputs are merged into one instruction, also across calls."
)
def test_interning() -> None:
    program = tnf.compile(lambda x: apply(Scale(), x) + apply(Scale(), x), X)
    assert [i.op.name for i in program.instructions] == [Scale.family_id, "Add"]


@chapter.works(
    7,
    "It makes no difference which of two equal operations is executed, whatever is in its caches.",
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


@chapter.works(8, "Two classes may share a family: equality does not depend on the Python class.")
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


@chapter.works(10, "Several threads may run one program at the same time.")
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
        12: Row("The package name in a family id may contain hyphens.", "my-package.name.v1", True),
        13: Row(
            "The package name in a family id may not contain spaces.", "my package.name.v1", False
        ),
        14: Row("The version of a family may be 0.", "A-b_c.d_e.v0", True),
        15: Row("The version of a family has no leading zero.", "package.name.v01", False),
        16: Row("The version of a family is an integer.", "package.name.vx", False),
        17: Row("A family id without a version is malformed.", "package.name", False),
        18: Row("A family id without a package name is malformed.", ".name.v1", False),
        19: Row(
            "The name of the operation in a family id is an ASCII identifier.",
            "package.na-me.v1",
            False,
            because="the recommendation is a requirement here, so that a composite's symbol in StableHLO never needs quoting",
        ),
        20: Row("A family id that is not a string is malformed.", 3, False),
    },
)
def test_family_ids(family: Any, is_valid: bool) -> None:
    if is_valid:
        assert check_family_id(family) == family
    else:
        with pytest.raises(errors.MalformedFamilyIdError):
            check_family_id(family)


@chapter.works(21, "`extension_family` builds the id from its parts, as `FAMILY_ID` does.")
def test_family_decorator() -> None:
    @extension_family("my-crate", "fft", version=1)
    class Fft(ExtensionOp): ...

    assert Fft.FAMILY_ID == Fft.family_id == "my-crate.fft.v1"


@chapter.works(22, "The family id does not depend on the payload.")
def test_family_of_instances() -> None:
    assert Scale(1.0).family_id == Scale((2, 3)).family_id == "specification.scale.v1"


@chapter.works(23, "An operation with a malformed id is an error while it is traced.")
def test_malformed_ids_in_traces() -> None:
    op = operation("fine")
    op.family_id = "fine"
    with pytest.raises(errors.MalformedFamilyIdError, match="'fine'"):
        compiled(op)


# ---- payloads ------------------------------------------------------------------------------------


@chapter.table(
    "a, b",
    {
        24: Row("In a payload, `True` differs from `1`.", True, 1),
        25: Row("In a payload, `1` differs from `1.0`.", 1, 1.0),
        26: Row("In a payload, `-0.0` differs from `0.0`.", 0.0, -0.0),
        27: Row(
            "Tuples in payloads differ if their elements do, at any depth.",
            ((1, (0.0,)),),
            ((1, (-0.0,)),),
        ),
        28: Row(
            "Complex numbers in payloads differ if the signs of their zeros do.",
            complex(0, 0.0),
            complex(0, -0.0),
        ),
        29: Row(
            "Configuration objects in payloads differ if a field differs in value or type.",
            Config((1,), 1.0),
            Config((1,), 1),
        ),
        30: Row(
            "Frozensets in payloads differ if an element differs in value or type.",
            frozenset([1]),
            frozenset([True]),
        ),
        31: Row(
            "In a payload, a NumPy scalar differs from the equal Python number.",
            np.float64(1.0),
            1.0,
        ),
        32: Row("A payload may contain enum members.", Kind.MAX, Kind.MIN),
        33: Row("A payload may contain dtypes.", tnf.DType.F32, tnf.DType.F64),
        34: Row("A payload may contain symbols.", tnf.SymDim("n"), tnf.SymDim("m")),
    },
)
def test_payloads_apart(a: Any, b: Any) -> None:
    assert Extension(Scale(a)) != Extension(Scale(b))
    assert compiled(Scale(a)).fingerprint != compiled(Scale(b)).fingerprint


@chapter.table(
    "a, b",
    {
        35: Row("A NaN in a payload is equal to itself.", NAN, float("nan")),
        36: Row(
            "A NaN is equal to itself at any depth of a payload.",
            (Config((1,), NAN),),
            (Config((1,), -NAN),),
        ),
        37: Row(
            "The order of a frozenset in a payload does not matter.",
            frozenset("ab"),
            frozenset("ba"),
        ),
        38: Row(
            "Symbolic expressions in payloads are compared by value.",
            tnf.SymDim("n") + 1,
            1 + tnf.SymDim("n"),
        ),
        39: Row(
            "Payloads with equal configuration objects are equal.", Config((2, 3)), Config((2, 3))
        ),
    },
)
def test_payloads_alike(a: Any, b: Any) -> None:
    assert Extension(Scale(a)) == Extension(Scale(b))
    assert hash(Extension(Scale(a))) == hash(Extension(Scale(b)))
    assert compiled(Scale(a)).fingerprint == compiled(Scale(b)).fingerprint


@chapter.works(40, "An unhashable payload is an error that says what to use instead.")
def test_unhashable_payloads() -> None:
    with pytest.raises(errors.InvalidConfigError, match=r"scale\.v1.*tuples instead of lists"):
        compiled(Scale([1]))


@chapter.works(41, "Fields with `compare=False`, such as a plan, do not affect equality.")
def test_transient_state() -> None:
    @extension_family("specification", "planned", version=1)
    @dataclass(frozen=True)
    class Planned(Scale):
        plan: Any = field(default=None, compare=False)

    assert Extension(Planned(2.0, object())) == Extension(Planned(2.0, object()))
    assert hash(Extension(Planned(2.0, [1]))) == hash(Extension(Planned(2.0)))


@chapter.works(
    42, "A class that is not a dataclass lists the compared attributes in `payload_fields`."
)
def test_payload_fields() -> None:
    class Times(Scale):
        def __init__(self, k: float) -> None:
            vars(self)["k"] = k

        def payload_fields(self) -> dict[str, Any]:
            return {"k": self.k}  # type: ignore[attr-defined]  # set above

    assert Extension(Times(1.0)) == Extension(Times(1.0))
    assert Extension(Times(0.0)) != Extension(Times(-0.0))


@chapter.works(
    43, "An attribute that is neither compared nor excluded from comparison is an error."
)
def test_undeclared_attributes() -> None:
    op = operation("undeclared")
    op.k = 7.0
    with pytest.raises(errors.UnsupportedError, match=r"undeclared\.v1.*\bk\b.*payload_fields"):
        compiled(op)


@chapter.works(44, "Equal programs have equal fingerprints in every process.")
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
    "`payload_hash()` returns the hash of the payload; it takes no hasher.",
    because="frozen dataclasses, enums and tuples need no code for this",
)
def test_hash_is_a_number() -> None:
    assert isinstance(Scale(2.0).payload_hash(), int)
    assert Scale(2.0).payload_hash() == Scale(2.0).payload_hash() != Scale(3.0).payload_hash()


@chapter.differs(
    46,
    "`payload_eq` checks the class by `isinstance`: there is no `as_any` conversion.",
    because="Python objects carry their class",
)
def test_no_downcast() -> None:
    assert Scale(2.0).payload_eq(Scale(2.0))
    assert not Scale(2.0).payload_eq(OtherScale(2.0))
    assert not hasattr(ExtensionOp, "as_any")


@chapter.works(47, "`check_extension` reports an op whose hash changes from call to call.")
def test_unstable_hash() -> None:
    class Unstable(Scale):
        def payload_hash(self) -> int:
            return id(self)

    report = check_extension(Unstable(), [X])
    assert not report.ok
    assert "hash" in str(report)


@chapter.works(48, "Equal operations with effects are not merged.")
def test_effects_stay_apart() -> None:
    counter = operation("effect", effects=True, eager_execute=lambda self, inputs: [inputs[0] + 1])
    program = tnf.compile(lambda x: (apply(counter, x), apply(counter, x)), X)
    assert [type(i.op) for i in program.instructions].count(Extension) == 2

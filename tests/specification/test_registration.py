"""Registration of families and factories."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from tenferro import errors
from tenferro.extension import (
    ExtensionAdRule,
    ExtensionOp,
    ExtensionRuntime,
    Family,
    HostReferenceRuntime,
    apply,
    check_extension,
    extension_family,
    family_of,
    lookup_extension_factory,
    register_extension,
    registered_families,
)
from tenferro.program import families
from tests.specification.operations import Scale, X, compiled, operation
from tests.specification.statements import Chapter, Row

chapter = Chapter(
    "registration",
    "Registration",
    "A `Family` holds everything that a package defines for an operation: runtime, rules, lowering and batch rule. "
    "It is an attribute of the operation's class, or registered under its id.",
)


def family_class(name: str, version: int = 1, **members: Any) -> Any:
    """Return a dataclass for an op of the family `specification.<name>.v<version>`.

    The family is not registered yet.
    """
    cls = dataclass(frozen=True)(type(name, (Scale,), {"family": None, **members}))
    return extension_family("specification", name, version=version)(cls)


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the registrations of a test after the test."""
    monkeypatch.setattr(families, "_REGISTERED", dict(families._registered()))


@chapter.works(1, "An operation whose class has a `family` needs no registration.")
def test_carried_families() -> None:
    assert family_of(Scale()) is Scale.family
    assert lookup_extension_factory(Scale.family_id) is None
    np.testing.assert_array_equal(tnf.jit(lambda x: apply(Scale(), x))(X), 2 * X)


@chapter.works(2, "A registered family is found by its id.")
def test_registered_families() -> None:
    cls = family_class("by_id")
    with pytest.raises(errors.UnsupportedError, match=r"by_id\.v1: not registered"):
        apply(cls(), X)
    register_extension(Family(cls, HostReferenceRuntime))
    assert cls.family_id in registered_families()
    np.testing.assert_array_equal(apply(cls(), X), 2 * X)


@chapter.works(3, "Tracing an operation needs no registration.")
def test_tracing() -> None:
    assert compiled(family_class("traced")()).families == ("specification.traced.v1",)


@chapter.works(4, "Registering a second family with the same id is an error.")
def test_duplicates() -> None:
    cls = family_class("once")
    register_extension(cls)
    for again in (cls, Family(cls), family_class("once")):
        with pytest.raises(
            errors.DuplicateFamilyError, match=r"'specification\.once\.v1'.*registered"
        ):
            register_extension(again)


@chapter.works(5, "If several threads register one family, exactly one succeeds.")
def test_threads() -> None:
    cls = family_class("raced")
    outcomes: list[bool] = []

    def register() -> None:
        try:
            register_extension(cls)
            outcomes.append(True)
        except errors.DuplicateFamilyError:
            outcomes.append(False)

    threads = [threading.Thread(target=register) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [False] * 7 + [True]


@chapter.table(
    "family",
    {
        6: Row("Looking up an unregistered family returns None.", "nobody.knows.v1"),
        7: Row("Looking up a malformed id returns None.", "nobody"),
        8: Row("Looking up an empty id returns None.", ""),
    },
)
def test_lookups(family: str) -> None:
    assert lookup_extension_factory(family) is None


@chapter.works(9, "A registered factory is found by its id and creates operations.")
def test_factories() -> None:
    cls = family_class("made")
    register_extension(cls)
    factory = lookup_extension_factory(cls.family_id)
    assert factory is not None
    assert (factory.family_id, factory.version) == (cls.family_id, 1)
    assert factory.instantiate({"factor": 3.0}) == cls(3.0)


@chapter.differs(
    10,
    "A factory creates operations from payloads, by `instantiate(payload)`; there are no default operations.",
    because="a dataclass is its own factory, so that most packages write none",
)
def test_no_default_operations() -> None:
    register_extension(family_class("own_factory"))
    factory = lookup_extension_factory("specification.own_factory.v1")
    assert not hasattr(factory, "instantiate_default")


@chapter.works(11, "A factory whose version differs from the id's is rejected.")
def test_versions() -> None:
    class Newer:
        family_id, version = "specification.newer.v1", 2

        def instantiate(self, payload: Any) -> Any: ...

    with pytest.raises(errors.RegistrationError, match=r"newer\.v1: .* version 2, .* says 1"):
        register_extension(Newer())


@chapter.table(
    "entry, kind",
    {
        12: Row("Only families, dataclasses and factories can be registered.", 3, errors.RegistrationError),
        13: Row("Registering an object without an id is an error.", object(), errors.MalformedFamilyIdError),
        14: Row("Registering a factory without `instantiate` is an error.", type("F", (), {"family_id": "a.b.v1", "version": 1})(), errors.RegistrationError),
        15: Row("Registering a malformed id is an error.", type("F", (), {"family_id": "a.b", "version": 1, "instantiate": int})(), errors.MalformedFamilyIdError),
    },
)  # fmt: skip
def test_entries_that_are_refused(entry: Any, kind: Any) -> None:
    with pytest.raises(kind):
        register_extension(entry)


@chapter.table(
    "parts, words",
    {
        16: Row("A `runtime` that is not a runtime is rejected.", {"runtime": 3}, "no runtime"),
        17: Row("A runtime of another family is rejected.", {"runtime": HostReferenceRuntime("a.b.v1")}, "belongs to"),
        18: Row("A `rules` entry that is not a rule is rejected.", {"rules": Scale}, "no rules"),
        19: Row("A `lowering` that is not a lowering is rejected.", {"lowering": {"cpu": 3}}, "no lowering"),
        20: Row("A `batch` that is not a batch rule is rejected.", {"batch": 3}, "no batch"),
    },
)  # fmt: skip
def test_parts_that_are_refused(parts: Any, words: str) -> None:
    with pytest.raises(errors.RegistrationError, match=words):
        Family(Scale, **parts)


@chapter.works(21, "Two batch rules in one family are an error.")
def test_two_batch_rules() -> None:
    class Rule(ExtensionAdRule):
        def batch_rule(self, op: Any, builder: Any, inputs: Any, batched: Any) -> Any:
            return inputs[0]

    op = operation("batched_twice", rules=Rule, batch=Rule().batch_rule)
    with pytest.raises(errors.DuplicateFamilyError, match="two batch rules"):
        tnf.vmap(lambda x: apply(op, x))(np.ones((2, 3)))


@chapter.works(
    22, "Two runtimes for a family on one executor are an error, unless one replaces the other."
)
def test_two_runtimes() -> None:
    runtime = HostReferenceRuntime(Scale.family_id)
    with pytest.raises(errors.DuplicateFamilyError, match=r"scale\.v1"):
        tnf.GraphExecutor(runtimes=[runtime, runtime])
    executor = tnf.GraphExecutor(runtimes=[runtime])
    with pytest.raises(errors.DuplicateFamilyError, match="replace=True"):
        executor.register_runtime(runtime)
    executor.register_runtime(runtime, replace=True)


@chapter.works(23, "Registering a runtime with a malformed id is an error.")
def test_malformed_runtimes() -> None:
    with pytest.raises(errors.MalformedFamilyIdError):
        tnf.GraphExecutor(runtimes=[HostReferenceRuntime("scale")])
    with pytest.raises(errors.MalformedFamilyIdError):
        tnf.GraphExecutor().register_runtime(ExtensionRuntime())


@chapter.works(
    24, "Installed packages list their families under the entry-point group `tenferro.extensions`."
)
def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = family_class("installed")

    class Point:
        name, value = "theirs", "their_package:FAMILIES"

        def load(self) -> Any:
            return [Family(cls, HostReferenceRuntime)]

    groups = []
    monkeypatch.setattr(metadata, "entry_points", lambda group: groups.append(group) or [Point()])
    np.testing.assert_array_equal(apply(cls(), X), 2 * X)
    assert set(groups) == {"tenferro.extensions"}


@chapter.works(
    25,
    "An error names the package whose entry point is broken; families that are already loaded still work.",
)
def test_broken_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    class Point:
        name, value = "theirs", "their_package:FAMILIES"

        def load(self) -> Any:
            raise ImportError("no such module")

    monkeypatch.setattr(metadata, "entry_points", lambda group: [Point()])
    with pytest.raises(errors.RegistrationError, match=r"'theirs' .their_package:FAMILIES"):
        lookup_extension_factory("specification.absent.v1")
    np.testing.assert_array_equal(apply(Scale(), X), 2 * X)


@chapter.works(26, "Families are listed by version number, version 9 before version 10.")
def test_order_of_versions() -> None:
    for version in (10, 9):
        register_extension(family_class("counted", version))
    listed = [
        family for family in registered_families() if family.startswith("specification.counted.")
    ]
    assert listed == ["specification.counted.v9", "specification.counted.v10"]


@chapter.works(
    27,
    "Users of an operation pass no registry around: transforms, tools and the XLA peer find its family.",
)
def test_nothing_is_threaded() -> None:
    class Rule(ExtensionAdRule):
        def linearize(
            self, op: Any, builder: Any, primals: Any, outputs: Any, tangents: Any
        ) -> Any:
            return op.factor * tangents[0]

    @extension_family(
        "specification", "threadless", version=1, runtime=HostReferenceRuntime, rules=Rule
    )
    @dataclass(frozen=True)
    class Threadless(Scale):
        def lower_to_standard_ops(self, builder: Any, inputs: Any, *types: Any) -> Any:
            return builder.value(inputs[0]) * self.factor

    loss = lambda x: tnf.sum(apply(Threadless(3.0), x) ** 2)
    np.testing.assert_array_equal(tnf.jit(tnf.grad(loss))(X), 18 * X)
    assert tnf.check_grads(loss, (X,), order=2).ok
    assert xla_peer.check_parity(loss, X, grad=True).ok


@chapter.differs(
    28,
    "`apply` accepts arrays, eager tensors and traced tensors; there is no `apply_eager`.",
    because="a package writes its public function once",
)
def test_one_apply() -> None:
    import tenferro.extension

    assert not hasattr(tenferro.extension, "apply_eager")
    for x in (X, tnf.EagerRuntime().constant(X)):
        np.testing.assert_array_equal(tnf.asarray(apply(Scale(), x)), 2 * X)


@chapter.works(29, "An operation without a registered runtime cannot be executed.")
def test_nothing_is_invented() -> None:
    class Other(ExtensionOp):
        family_id = "specification.invented.v1"
        infer_output_meta = Scale.infer_output_meta

    with pytest.raises(errors.UnsupportedError, match=r"invented\.v1: not registered"):
        apply(Other(), X)


@chapter.works(
    30,
    "`check_extension` accepts an operation that keeps the contract, and reports what it checked.",
)
def test_reports() -> None:
    report = check_extension(Scale(), [X])
    assert report.ok
    assert "keeps the contract" in str(report)


@chapter.works(31, "The families that come with tenferro use the same interface.")
def test_own_families() -> None:
    program = tnf.compile(lambda x: (tnf.linalg.svdvals(x), tnf.fft.fft(x)), np.eye(2))
    assert program.families == ("tenferro.fft.v1", "tenferro.svd.v1")

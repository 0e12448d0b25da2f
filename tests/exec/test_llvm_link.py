"""Vector widths of machine code, by processor and trip counts."""

from __future__ import annotations

import platform
from types import SimpleNamespace
from typing import Any

import pytest

from tenferro.exec.llvm import link
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.python_calls import define_function
from tenferro.exec.llvm.tensor import Body, Memory
from tenferro.types import DType, TensorSpec

pytestmark = [
    pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed"),
    pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="of x86"),
]
AVX2 = {"avx": True, "avx2": True}
AVX512 = {**AVX2, "avx512f": True}
ICE_LAKE = {**AVX512, "avx512vbmi2": True}


class Features(dict[str, bool]):
    """Feature set, as LLVM returns it."""

    def flatten(self) -> str:
        return ",".join([f"+{name}" for name in self])


def registers(processor: str, *counts: int) -> str:
    """Return the registers of loops with this number of additions."""
    import llvmlite.binding as llvm  # because not all systems have it

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    code = Code(lanes=link.processor.__wrapped__().lanes)
    body = Body(code)
    for number, count in enumerate(counts):
        spec = TensorSpec.of((count,), DType.F64)
        x, y, z = (Memory(f"%{name}{number}", spec) for name in "xyz")

        def one(i: int | str, x: Memory = x, y: Memory = y, z: Memory = z) -> None:
            left, right = (body.stored(each).element((i,)) for each in (x, y))
            code.store(code.value("fadd", left, right), z.pointer, i, DType.F64)

        code.loop(1000, lambda _, one=one, count=count: code.loop(count, one))
    code.ret(0)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=3, cpu=processor)
    pointers = [f"%{name}{number}" for number in range(len(counts)) for name in "xyz"]
    define_function(code, pointers, (), "sums")
    module = link.optimised_module(code.module(), machine)
    adds = [line for line in machine.emit_assembly(module).splitlines() if "vaddpd" in line]
    assert adds
    return "zmm" if "zmm" in " ".join(adds) else "ymm"


@pytest.mark.parametrize(
    ("processor", "features", "counts", "kind"),
    [
        ("icelake-server", ICE_LAKE, (4096,), "zmm"),
        ("icelake-server", ICE_LAKE, (20,), "ymm"),
        ("icelake-server", ICE_LAKE, (24,), "zmm"),
        ("icelake-server", ICE_LAKE, (20, 4096), "zmm"),
        ("skylake-avx512", AVX512, (4096,), "ymm"),
        ("haswell", AVX2, (4096,), "ymm"),
    ],
)
def test_width_of_vectors(
    processor: str,
    features: dict[str, bool],
    counts: tuple[int, ...],
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    llvm: Any = pytest.importorskip("llvmlite.binding")
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: Features(features))
    assert registers(processor, *counts) == kind


def test_linkers_share_the_code_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    llvm: Any = pytest.importorskip("llvmlite.binding")
    processors: list[str] = []
    create = llvm.Target.create_target_machine

    def noted(self: Any, opt: int, cpu: str = "", **options: Any) -> Any:
        processors.extend([cpu] if cpu and opt == 3 else [])
        return create(self, opt=opt, cpu=cpu, **options)

    monkeypatch.setattr(llvm.Target, "create_target_machine", noted)
    link._machine.cache_clear()
    for number in (7, 8):
        code = Code()
        code.ret(number)
        define_function(code, (), (), "status")
        f = link.Linker().function("test", code.module())
        assert f() == number
    assert processors == [link.processor().name]


@pytest.mark.parametrize(
    ("codes", "chosen"),
    [
        ([b"one", b"two", b"three"], b"one"),
        ([b"call __truncdfhf2", b"two", b"three"], b"two"),
        ([b"__truncsfhf2 __extendhfsf2", b"call __extendhfsf2", b"three"], b"three"),
    ],
)
def test_the_first_module_that_calls_no_missing_function_is_used(
    codes: list[bytes], chosen: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The modules are in order of decreasing optimisation."""
    monkeypatch.setattr(link, "_modules", lambda *_: iter(codes))
    context: Any = SimpleNamespace(machine=SimpleNamespace(emit_object=lambda module: module))
    module: Any = None
    assert link._emitted(module, context) == chosen

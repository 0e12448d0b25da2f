"""Vector widths of machine code, and the choice whether LLVM's passes run before the first call."""

from __future__ import annotations

import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro.compile_cache import CompileCache
from tenferro.exec.llvm import link
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.ir import Module
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
    """Set of processor features with a method `flatten`, like the object that llvmlite returns."""

    def flatten(self) -> str:
        return ",".join([f"+{name}" for name in self])


def registers(processor: str, *counts: int) -> str:
    """Compile loops with these numbers of additions for a processor; return the kind of their vector registers."""
    import llvmlite.binding as llvm  # because llvmlite may be missing

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
    """The most optimised machine code that calls no missing function must be chosen."""
    monkeypatch.setattr(link, "_modules", lambda *_: iter(codes))
    context: Any = SimpleNamespace(machine=SimpleNamespace(emit_object=lambda module: module))
    module: Any = None
    assert link._emitted(module, context, is_optimised=True) == chosen


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list to which each compilation of a module appends whether LLVM's passes ran."""
    runs: list[bool] = []
    compiled = link._compiled

    def noted(module: Module, machine: Any, is_optimised: bool = True) -> Any:
        runs.append(is_optimised)
        return compiled(module, machine, is_optimised)

    monkeypatch.setattr(link, "_compiled", noted)
    return runs


def test_the_first_call_does_not_wait_for_passes(runs: list[bool]) -> None:
    x = np.random.default_rng(0).standard_normal(6)

    def short(x: Any) -> Any:
        return tnf.scan(lambda c, _: (tnf.sin(c) + x, tnf.sum(c * x)), x, length=500)

    def long(x: Any) -> Any:
        return tnf.scan(lambda c, _: (tnf.sin(c) + 1, None), x[0], length=8_000_000)[0]

    def until(x: Any) -> Any:
        return tnf.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] * x), (0, x))[1]

    for f, each in ((short, [False, True]), (long, [True]), (until, [True])):
        program, executor = tnf.compile(f, x), tnf.GraphExecutor("K")
        runs.clear()
        results = [tnf.tree.leaves(executor.run(program, x)) for _ in range(3)]
        assert runs == each
        for some in results[1:]:
            for y, z in zip(results[0], some, strict=True):
                assert y.tobytes() == z.tobytes()


def test_the_first_call_of_a_group_does_not_wait_for_passes(runs: list[bool]) -> None:
    x = np.random.default_rng(1).standard_normal((2000, 100))
    for f, each in (
        (lambda x: tnf.exp(-x * x) * x + 1, [False, True]),
        (lambda x: tnf.exp(x) / tnf.sum(tnf.exp(x), axis=1, keepdims=True), [False, True]),
        (lambda x: tnf.sum(tnf.exp(-x * x) * x + 1, axis=0), [False, True]),
        # For this sum, LLVM's passes choose the order of additions, so they must run before the first result.
        (lambda x: tnf.sum(tnf.exp(-x * x) * x + 1), [True]),
    ):
        program, executor = tnf.compile(f, x), tnf.GraphExecutor("K", compiled=True)
        runs.clear()
        ys = [executor.run(program, x) for _ in range(3)]
        assert runs == each
        assert ys[0].tobytes() == ys[1].tobytes() == ys[2].tobytes()


@pytest.mark.parametrize(
    ("instructions", "lines", "is_linked"),
    [
        # The estimate is that LLVM's passes take 5 ms plus 0.1 ms per line, and save 0.08 ns per executed instruction.
        (1, 0, True),
        (62_499_000, 0, True),
        (62_501_000, 0, False),
        (187_499_000, 100, True),
        (187_501_000, 100, False),
        (None, 100, False),
    ],
)
def test_short_functions_run_without_passes(
    instructions: int | None,
    lines: int,
    is_linked: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = list[bool]()

    def engine(linker: link.Linker, module: Module, is_optimised: bool = True) -> Any:
        compiled.append(is_optimised)
        return max if is_optimised else len

    monkeypatch.setattr(link, "_linked", lambda engine: engine)
    monkeypatch.setattr(link.Linker, "_engine", engine)
    linker, module = link.Linker(), Module(["line"] * lines, {})
    expected = len if is_linked else None
    assert [linker.baseline("test", module, instructions) for _ in range(3)] == [expected] * 3
    assert compiled == [False] * is_linked
    assert linker.function("test", module) is max
    assert linker.baseline("test", module, instructions) is None
    linker.cache_clear()
    assert linker.baseline("test", module, instructions) is expected
    assert linker.baseline("test", Module(["line"], {}), 1) is len
    linker.cache = CompileCache(tmp_path)
    assert linker.baseline("test", Module(["line"] * 2, {}), 1) is None


def test_the_second_call_of_a_step_waits_for_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_linked", lambda engine: engine)
    monkeypatch.setattr(
        link.Linker, "_engine", lambda _, module, is_optimised: max if is_optimised else len
    )
    linker = link.Linker()
    first, second = (link.LinkedFunction("test", Module(["line"], {}), linker) for _ in range(2))
    # Two steps share the code. The first call of each step must not wait for LLVM's passes.
    assert [step.linked(1) for step in (first, second)] == [len, len]
    assert [step.linked(1) for step in (second, first)] == [max, max]

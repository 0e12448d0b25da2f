"""Compilation and linking of LLVM IR for this processor.

llvmlite serialises calls of LLVM by a lock. A fork waits for that lock, because the child has no thread to release it.
"""

from __future__ import annotations

import platform
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.metadata import version
from typing import Any

from tenferro.compilations import hold_over_forks, until_compiled
from tenferro.compile_cache import CompileCache
from tenferro.exec.attempts import CompileLog, NotCompiledError
from tenferro.exec.llvm import array_function, blas, gamma, is_installed
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.ir import Module
from tenferro.program import BoundedCache

__all__ = [
    "LinkedFunction", "Linker", "Processor", "is_installed", "optimised_module", "processor"
]  # fmt: skip

PASS_TIME, PASS_TIME_PER_LINE = 5e6, 100e3
"""Estimated time of LLVM's passes and of each line of text in them, in nanoseconds."""
BASELINE_PENALTY = 0.08
"""Estimated time that an instruction takes longer without passes, in nanoseconds."""
CACHE_VERSION = 4
"""Version of the options and passes, in keys of the compilation cache."""
MISSING_BUILTINS = b"__truncdfhf2", b"__truncsfhf2", b"__extendhfsf2"
"""Functions of compiler-rt, which is not linked to code in memory."""
SCIPY_MODULES = (blas, gamma)
"""Modules with functions of SciPy, which is imported for the first text with their prefix."""


@cache
def _llvm() -> Any:
    """Import llvmlite's binding, and let forks wait for its lock."""
    import llvmlite.binding as llvm  # because loading LLVM takes long, and most programs need none

    hold_over_forks(llvm.ffi.lib._lock)  # pyright: ignore[reportPrivateUsage]  # because it has no public name
    return llvm


@dataclass(frozen=True)
class Processor:
    """Processor for which code is generated.

    name:            LLVM's name of the CPU
    features:        LLVM's feature string
    has_fma:         whether it has fused multiply-adds
    converts_halves: whether it converts between float16 and float32
    lanes:           number of float64 in its vectors; 512 bits on Ice Lake and later only, because earlier processors
                     lower their clock for them
    """

    name: str
    features: str
    has_fma: bool
    converts_halves: bool
    lanes: int

    def code(self) -> Code:
        """Return a builder for this processor."""
        return Code(self.has_fma, self.lanes, self.converts_halves)


@cache
def processor() -> Processor:
    """Return this processor; LLVM detects it in half a millisecond."""
    llvm = _llvm()
    features = llvm.get_host_cpu_features()
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    lanes = 8 if features.get("avx512vbmi2") else 4 if features.get("avx") else 2
    return Processor(
        llvm.get_host_cpu_name(),
        features.flatten(),
        is_arm or bool(features.get("fma")),
        is_arm or bool(features.get("f16c")),
        lanes,
    )


@cache
def _target() -> Any:
    """Return LLVM's target of this machine, initialised."""
    llvm = _llvm()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, address in array_function.addresses().items():
        llvm.add_symbol(name, address)
    return llvm.Target.from_default_triple()


@lru_cache(maxsize=4)
def _machine(processor: Processor, level: int) -> Any:
    """Return LLVM's code generator for a processor, whose construction takes two milliseconds.

    Threads may share it, because llvmlite serialises calls of LLVM.
    """
    return _target().create_target_machine(
        opt=level, cpu=processor.name, features=processor.features
    )


@cache
def _add_symbols(module: Any) -> None:
    """Register the symbols of a module of this package with LLVM, once."""
    llvm = _llvm()
    for name, address in module.addresses().items():
        llvm.add_symbol(name, address)


_engines: BoundedCache[Any] = BoundedCache(1)
"""Engine of the runtime functions. Of two engines, one would be freed while code is linked to it."""


def _shared() -> Any:
    """Return the engine of the runtime functions that all texts may call."""
    return _engines.get("shared", _shared_engine)


def _shared_engine() -> Any:
    llvm = _llvm()
    machine = _machine(processor(), 0)
    context = _Context(machine)
    engine = _in_memory(machine.emit_object(context.parsed(array_function.SHARED)))
    name = array_function.CHECK_SIGNALS
    llvm.add_symbol(name, engine.get_function_address(name))
    return engine


def _in_memory(code: bytes) -> Any:
    """Link an object file in memory and return its engine."""
    llvm = _llvm()
    # The engine owns and frees its target machine, which only links and needs no processor.
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), _target().create_target_machine(opt=0)
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _linked(engine: Any) -> Callable[..., int | None]:
    """Return `@f` of linked code as a function of arrays, addresses and integers."""
    caller = _shared().get_function_address(array_function.CALLER)
    return array_function.new_builtin(engine.get_function_address("f"), caller, engine)


class Linker:
    """Cache of linked functions, by the texts of their modules.

    Args:
        capacity: maximum number of functions.
        cache: compilation cache on disk.
        log: record of attempts.
    """

    def __init__(
        self, capacity: int = 256, cache: CompileCache | None = None, log: CompileLog | None = None
    ) -> None:
        self.functions: BoundedCache[Callable[..., int | None]] = BoundedCache(capacity)
        self._requested: BoundedCache[object] = BoundedCache(capacity)
        self.cache = cache
        self.log = CompileLog() if log is None else log
        self._refusal = ""

    @cached_property
    def processor(self) -> Processor:
        """Target processor of LLVM's text.

        Raises:
            NotCompiledError: llvmlite cannot be loaded.
        """
        if self._refusal:
            raise NotCompiledError(self._refusal)
        try:
            with self.log.attempt("program by LLVM"):
                return processor()
        except NotCompiledError as error:
            self._refusal = str(error)
            raise

    def function(self, kind: str, module: Module) -> Callable[..., int | None]:
        """Return `@f` of a module.

        Args:
            kind: name of the attempt in the log.

        Raises:
            NotCompiledError: LLVM fails.
        """

        def linked() -> Callable[..., int | None]:
            with self.log.attempt(kind), until_compiled():
                function = _linked(self._engine(module))
            self.log.count(kind)
            return function

        return self.functions.get(module.text, linked)

    def baseline(
        self, kind: str, module: Module, work: int | None
    ) -> Callable[..., int | None] | None:
        """Return `@f` of a module without LLVM's passes: compiled sooner, slower, and with the same bits.

        Args:
            work: estimated number of instructions of the call; None if it is unknown, or if the bits depend on the passes.

        Returns:
            None if the passes are estimated to save time in this call, if the module was requested before, or if
            optimised code is cached on disk.

        Raises:
            NotCompiledError: LLVM fails.
        """
        pass_time = PASS_TIME + PASS_TIME_PER_LINE * module.text.count("\n")
        if work is None or self.cache is not None or work * BASELINE_PENALTY > pass_time:
            return None
        first = object()
        if self._requested.get(module.text, lambda: first) is not first:
            return None
        with self.log.attempt(kind), until_compiled():
            function = _linked(self._engine(module, is_optimised=False))
        self.log.count(kind)
        return function

    def cache_clear(self) -> None:
        """Clear the cache; functions that are referenced elsewhere stay alive."""
        self.functions.clear()
        self._requested.clear()

    def _engine(self, module: Module, is_optimised: bool = True) -> Any:
        """Compile and link a module and return its engine."""
        _shared()
        for called in SCIPY_MODULES:
            if module.is_calling(called.PREFIX):
                _add_symbols(called)
        if is_optimised:
            return _in_memory(self._machine_code(module))
        return _in_memory(_compiled(module, _machine(self.processor, 0), is_optimised))

    def _machine_code(self, module: Module) -> bytes:
        """Return optimised machine code of a module, from the cache on disk if it is there."""
        cache, machine = self.cache, _machine(self.processor, 3)
        if cache is None:
            return _compiled(module, machine)
        processor = f"{self.processor.name} {self.processor.features}"
        versions = f"{CACHE_VERSION} {version('llvmlite')} {machine.triple} {processor}"
        key = cache.key([b"llvm", versions.encode(), module.text.encode()])
        code = None
        with suppress(NotCompiledError), self.log.attempt("function from the cache folder"):
            code = cache.load(key)
        if code is None:
            code = _compiled(module, machine)
            with suppress(NotCompiledError), self.log.attempt("function for the cache folder"):
                cache.store(key, code)
        return code


class LinkedFunction:
    """Function `@f` of a module, linked at its first call.

    Args:
        kind: name of the attempts in the log.

    Attributes:
        module: the module; as text once it is compiled by all passes.
        remark: remark beside the step in the printed schedule.
    """

    def __init__(self, kind: str, module: Module, linker: Linker) -> None:
        self.kind, self.module, self.linker = kind, module, linker
        self.remark, self._has_failed = "compiled", False
        self._function: Callable[..., int | None] | None = None

    def linked(self, work: int | None = None) -> Callable[..., int | None] | None:
        """Return the function for one call; None if LLVM fails.

        Args:
            work: estimated number of instructions of the call, which does not wait for LLVM's passes if it is short;
                None if it has to wait.
        """
        if self._function is None and not self._has_failed:
            try:
                baseline = self.linker.baseline(self.kind, self.module, work)
                if baseline is not None:
                    return baseline
                self._function = self.linker.function(self.kind, self.module)
                self.module = self.module.printed()
            except NotCompiledError as error:
                self._has_failed, self.remark = True, f"interpreted: {error.text()}"
        return self._function


def _compiled(module: Module, machine: Any, is_optimised: bool = True) -> bytes:
    """Return machine code, as an object file in memory.

    On processors that convert float16 without computing with it, LLVM 22 lowers some vectors of float16 to calls of
    `MISSING_BUILTINS`. The next, less optimised module is free of them.
    """
    context = _Context(machine)
    code = _emitted(module, context, is_optimised)
    context.free()
    return code


def _emitted(module: Module, context: _Context, is_optimised: bool) -> bytes:
    code = b""
    for parsed in _modules(module, context, is_optimised):
        code = context.machine.emit_object(parsed)
        if not any([name in code for name in MISSING_BUILTINS]):
            break
    return code


def optimised_module(module: Module, machine: Any) -> Any:
    """Return LLVM's module after the passes, in a context that stays alive."""
    return next(_modules(module, _Context(machine), is_optimised=True))


class _Context:
    """LLVM context of one text, freed after use; the global context would keep constants for ever.

    Modules have to be freed before their context. The garbage collector does not know this order, so a context stays
    alive if a traceback holds a module. Nothing here closes an object of llvmlite, because a signal handler that raises
    meanwhile would free it twice.
    """

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self._context = _llvm().create_context()
        self._context._owned = True  # so that llvmlite does not free it
        self._modules: list[weakref.ref[Any]] = []

    def free(self) -> None:
        """Free the context with this object, if no module is alive."""
        self._context._owned = any([module() is not None for module in self._modules])

    def parsed(self, text: str) -> Any:
        """Parse and verify a text and return its module."""
        module = _llvm().parse_assembly(text, self._context)
        self._modules.append(weakref.ref(module))
        module.triple = self.machine.triple
        module.verify()
        return module


def _modules(module: Module, context: _Context, is_optimised: bool) -> Iterator[Any]:
    """Yield LLVM's modules, each less optimised than the one before; the last one without passes.

    LLVM 22 vectorises some basic blocks so that a use precedes its definition, for which its code generator ends the
    process. Modules that do not verify after the passes are skipped.
    """
    for slp in (True, False) if is_optimised else ():
        optimised = _after_passes(module, context, slp)
        try:
            optimised.verify()
        except RuntimeError:
            continue
        yield optimised
    yield context.parsed(module.plain)


def _after_passes(module: Module, context: _Context, slp: bool) -> Any:
    """Return the module after the passes.

    Args:
        slp: whether to vectorise basic blocks, beside loops.
    """
    llvm = _llvm()
    parsed = context.parsed(module.text)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization, options.slp_vectorization = True, slp
    # Unrolling all loops doubles compile time; short ones in loops of the program ask for it by metadata.
    options.loop_unrolling = options.loop_interleaving = False
    builder = llvm.create_pass_builder(context.machine, options)
    passes = builder.getModulePassManager()
    try:
        passes.run(parsed, builder)
    finally:  # in llvmlite up to 0.50 its inherited `close` frees nothing
        if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:
            llvm.newpassmanagers.NewPassManager._dispose(passes)
    return parsed

"""Compilation of LLVM IR to machine code for this processor, and linking in memory.

llvmlite holds a lock during each call of LLVM. A fork waits for this lock, because the thread that would release it
does not exist in the child process.
"""

from __future__ import annotations

import platform
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
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
"""Estimated time of LLVM's passes in nanoseconds: a constant, and the time per line of text."""
BASELINE_PENALTY = 0.08
"""Estimated additional time of an instruction in code without passes, in nanoseconds."""
CACHE_VERSION = 5
"""Version of LLVM's options and passes in the keys of the compilation cache."""
MISSING_BUILTINS = b"__truncdfhf2", b"__truncsfhf2", b"__extendhfsf2"
"""Functions of the library compiler-rt, with which code in memory is not linked."""
SCIPY_MODULES = (blas, gamma)
"""Modules of this package that call functions of SciPy, which is imported when code first calls them."""


@cache
def _llvm() -> Any:
    """Import and return llvmlite's binding, and make forks wait for its lock."""
    import llvmlite.binding as llvm  # because loading LLVM takes long, and most programs need none

    hold_over_forks(llvm.ffi.lib._lock)  # pyright: ignore[reportPrivateUsage]  # because it has no public name
    return llvm


@dataclass(frozen=True)
class Processor:
    """Processor for which code is generated.

    Attributes:
        name: LLVM's name of the processor.
        features: LLVM's string of the processor's features.
        has_fma: whether it has fused multiply-add instructions.
        converts_halves: whether it has instructions that convert between float16 and float32.
        lanes: the number of float64 in its vectors. Vectors of 512 bits are used on Ice Lake and later processors only,
            because earlier processors lower their clock frequency for such vectors.
    """

    name: str
    features: str
    has_fma: bool
    converts_halves: bool
    lanes: int

    def code(self) -> Code:
        return Code(self.has_fma, self.lanes, self.converts_halves)


@cache
def processor() -> Processor:
    """Return the processor of this machine."""
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
    llvm = _llvm()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, address in array_function.addresses().items():
        llvm.add_symbol(name, address)
    return llvm.Target.from_default_triple()


@lru_cache(maxsize=4)
def _machine(processor: Processor, level: int) -> Any:
    """Return LLVM's code generator for a processor.

    Threads may share it, because llvmlite holds a lock during each call of LLVM.
    """
    return _target().create_target_machine(
        opt=level, cpu=processor.name, features=processor.features
    )


@cache
def _add_symbols(module: Any) -> None:
    """Tell LLVM, once, the addresses of the functions of a module in `SCIPY_MODULES`."""
    llvm = _llvm()
    for name, address in module.addresses().items():
        llvm.add_symbol(name, address)


_engines: BoundedCache[Any] = BoundedCache(1)
"""Cache of the only engine of the runtime functions; a second one would be freed although code is linked with it."""


def _shared() -> Any:
    """Return the engine of the runtime functions, which compiled code may call."""
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
    """Link an object file in memory, and return the engine that owns its code."""
    llvm = _llvm()
    # The engine frees its target machine, so it gets a new one, without a processor, because the engine only links.
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), _target().create_target_machine(opt=0)
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _linked(engine: Any) -> Callable[..., int | None]:
    """Return the function `@f` of linked code as a built-in function of arrays, addresses and integers."""
    caller = _shared().get_function_address(array_function.CALLER)
    return array_function.new_builtin(engine.get_function_address("f"), caller, engine)


class Linker:
    """Compiler and linker of modules, with a cache of functions by the text of the module.

    Args:
        capacity: the maximum number of cached functions.
        cache: the compilation cache on disk, or None.
    """

    def __init__(
        self, capacity: int = 256, cache: CompileCache | None = None, log: CompileLog | None = None
    ) -> None:
        self.functions: BoundedCache[Callable[..., int | None]] = BoundedCache(capacity)
        self._baselines: BoundedCache[Callable[..., int | None]] = BoundedCache(capacity)
        self.cache = cache
        self.log = CompileLog() if log is None else log
        self._refusal = ""

    @cached_property
    def processor(self) -> Processor:
        """The processor of this machine.

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
        """Return the function `@f` of a module, which is compiled and linked unless it is cached.

        Args:
            kind: the name in the executor's compile statistics.

        Raises:
            NotCompiledError: LLVM fails.
        """
        return self.functions.get(module.text, lambda: self._function(kind, module))

    def baseline(
        self, kind: str, module: Module, work: int | None
    ) -> Callable[..., int | None] | None:
        """Return the function `@f` of a module, compiled without LLVM's passes; it returns the same bits.

        Return None if the passes are estimated to save time in this call, or were run before, or if there is a cache on
        disk.

        Args:
            work: the estimated number of instructions of the call; None if it is unknown, or if the bits of the
                results depend on the passes.

        Raises:
            NotCompiledError: LLVM fails.
        """
        pass_time = PASS_TIME + PASS_TIME_PER_LINE * module.text.count("\n")
        if work is None or self.cache is not None or work * BASELINE_PENALTY > pass_time:
            return None
        if self.functions.find(module.text) is not None:
            return None
        return self._baselines.get(
            module.text, lambda: self._function(kind, module, is_optimised=False)
        )

    def _function(
        self, kind: str, module: Module, is_optimised: bool = True
    ) -> Callable[..., int | None]:
        with self.log.attempt(kind), until_compiled():
            function = _linked(self._engine(module, is_optimised))
        self.log.count(kind)
        return function

    def cache_clear(self) -> None:
        """Remove all functions from the cache; functions that are still referenced can be called."""
        self.functions.clear()
        self._baselines.clear()

    def _engine(self, module: Module, is_optimised: bool = True) -> Any:
        """Compile and link a module, and return the engine that owns its code."""
        _shared()
        for called in SCIPY_MODULES:
            if module.is_calling(called.PREFIX):
                _add_symbols(called)
        if is_optimised:
            return _in_memory(self._machine_code(module))
        return _in_memory(_compiled(module, _machine(self.processor, 0), is_optimised))

    def _machine_code(self, module: Module) -> bytes:
        """Return the optimised machine code of a module, from the cache on disk or compiled."""
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
    """Function `@f` of a module, which is linked when it is first called.

    Args:
        kind: name in the executor's compile statistics.

    Attributes:
        module: the module; to save memory, its text replaces its definitions once its optimised code is linked.
        remark: remark beside the step in the printed schedule.
    """

    def __init__(self, kind: str, module: Module, linker: Linker) -> None:
        self.kind, self.module, self.linker = kind, module, linker
        self.remark = "compiled"
        self._has_failed = self._was_called = False
        self._function: Callable[..., int | None] | None = None

    def linked(self, work: int | None = None) -> Callable[..., int | None] | None:
        """Return the function for one call; None if LLVM fails.

        Args:
            work: estimated number of instructions of the call, or None. If the first call is estimated to be short, it
                does not wait for LLVM's passes.
        """
        if self._function is None and not self._has_failed:
            try:
                if not self._was_called:
                    self._was_called = True
                    baseline = self.linker.baseline(self.kind, self.module, work)
                    if baseline is not None:
                        return baseline
                self._function = self.linker.function(self.kind, self.module)
                self.module = self.module.printed()
            except NotCompiledError as error:
                self._has_failed, self.remark = True, f"interpreted: {error.text()}"
        return self._function


def _compiled(module: Module, machine: Any, is_optimised: bool = True) -> bytes:
    """Return the machine code of a module, as the bytes of an object file.

    On processors that convert float16 but do not compute with it, LLVM 22 may lower vectors of float16 to calls of
    `MISSING_BUILTINS`. In this case the module is optimised less.
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
    """Return LLVM's module after the passes; its context is not freed."""
    return next(_modules(module, _Context(machine), is_optimised=True))


class _Context:
    """LLVM context for one module, which is freed after use; LLVM's global context would never free constants.

    LLVM's modules must be freed before their context. If a module is still referenced, for example by a traceback, the
    context is not freed. This class closes no object of llvmlite, because an object would be freed twice if a signal
    handler raised an exception meanwhile.
    """

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self._context = _llvm().create_context()
        self._context._owned = True  # so that llvmlite does not free it
        self._modules: list[weakref.ref[Any]] = []

    def free(self) -> None:
        """Let llvmlite free the context together with this object, unless a module is still alive."""
        self._context._owned = any([module() is not None for module in self._modules])

    def parsed(self, text: str) -> Any:
        module = _llvm().parse_assembly(text, self._context)
        self._modules.append(weakref.ref(module))
        module.triple = self.machine.triple
        module.verify()
        return module


def _modules(module: Module, context: _Context, is_optimised: bool) -> Iterator[Any]:
    """Yield LLVM's modules, each less optimised than the previous one; the last module is not optimised.

    LLVM 22 vectorises some basic blocks incorrectly, so that the use of a value precedes its definition. The code
    generator would abort the process. Therefore modules that are invalid after the passes are skipped.
    """
    pipelines = (_only_sroa,) if module.is_vectorised else (_all_passes, _without_slp)
    for pipeline in pipelines if is_optimised else ():
        optimised = _after_passes(module, context, pipeline)
        try:
            optimised.verify()
        except RuntimeError:
            continue
        yield optimised
    yield context.parsed(module.plain)


def _all_passes(machine: Any, slp: bool = True) -> tuple[Any, Any]:
    """Return LLVM's pipeline of optimisation level 2, and its pass builder.

    Args:
        slp: whether to vectorise basic blocks, in addition to loops.
    """
    llvm = _llvm()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization, options.slp_vectorization = True, slp
    # Unrolling all loops would double the compile time; metadata requests it for short loops in loops of the program.
    options.loop_unrolling = options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    return builder.getModulePassManager(), builder


_without_slp = partial(_all_passes, slp=False)


def _only_sroa(machine: Any) -> tuple[Any, Any]:
    """Return a pipeline of the pass that moves values from the stack to registers, and its pass builder."""
    llvm = _llvm()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    return passes, builder


def _after_passes(
    module: Module, context: _Context, pipeline: Callable[[Any], tuple[Any, Any]]
) -> Any:
    llvm = _llvm()
    parsed = context.parsed(module.text)
    passes, builder = pipeline(context.machine)
    try:
        passes.run(parsed, builder)
    finally:  # because in llvmlite up to 0.50, `passes.close` frees nothing
        if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:
            llvm.newpassmanagers.NewPassManager._dispose(passes)
    return parsed

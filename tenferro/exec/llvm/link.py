"""From text to a function: LLVM parses, optimises and links it for this processor.

llvmlite lets one thread into LLVM at a time, by a lock of its own. A fork waits for that lock, because nobody would
release it in the child.
"""

from __future__ import annotations

import ctypes
import platform
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.metadata import version
from typing import Any, Protocol

from tenferro.compilations import hold_over_forks, until_compiled
from tenferro.compile_cache import CompileCache
from tenferro.exec.attempts import CompileLog, NotCompiledError
from tenferro.exec.llvm import array_function, blas, gamma, is_installed, python_calls
from tenferro.exec.llvm.code import LATE, Code
from tenferro.exec.llvm.first_call import UNOPTIMISED, Work, for_first_call, passes, without_passes
from tenferro.forks import call_in_child
from tenferro.program import BoundedCache

__all__ = [
    "Convention",
    "Linked",
    "Linker",
    "OfArrays",
    "OfPointers",
    "Processor",
    "is_installed",
    "module_of",
    "processor",
]


VERSION = 3
"""Of how texts become machine code: options and passes."""
UNKNOWN = b"__truncdfhf2", b"__truncsfhf2", b"__extendhfsf2"
"""Functions of compilers' libraries, which are not there when code is linked in memory."""
SCIPYS = (blas, gamma)
"""Modules that call SciPy, which is imported for the first text with their prefix."""


class _Setup:
    """The lock of what is set up once in a process."""

    def __init__(self) -> None:
        self.renew_lock()
        call_in_child(self.renew_lock)

    def renew_lock(self) -> None:
        """Have a lock that is free."""
        self.lock = threading.RLock()


_setup = _Setup()


@cache
def _llvm() -> Any:
    """Import llvmlite's binding, and have forks wait for whoever is inside of LLVM."""
    import llvmlite.binding as llvm  # because loading LLVM takes long, and most programs need none

    hold_over_forks(llvm.ffi.lib._lock)  # pyright: ignore[reportPrivateUsage]  # because it has no public name
    return llvm


@dataclass(frozen=True)
class Processor:
    """The processor's features for machine code.

    name:                 LLVM's for it
    features:             what it has beside, in LLVM's words
    multiplies_and_adds:  whether it does in one instruction
    converts_halves:      whether it converts float16 to float32 and back
    lanes:                how many float64 its vectors hold, and the halves of the largest ones; vectors of 512 bits are
                          those of Ice Lake and later, because processors before lower their clocks for them
    """

    name: str
    features: str
    multiplies_and_adds: bool
    converts_halves: bool
    lanes: tuple[int, ...]

    def code(self) -> Code:
        """A function to be written for it."""
        return Code(self.multiplies_and_adds, self.lanes, self.converts_halves)


@cache
def processor() -> Processor:
    """This one; LLVM takes half a millisecond to say."""
    llvm = _llvm()
    features = llvm.get_host_cpu_features()
    is_arm = platform.machine().lower() in ("aarch64", "arm64")
    lanes = (8, 4) if features.get("avx512vbmi2") else (4,) if features.get("avx") else (2,)
    return Processor(
        llvm.get_host_cpu_name(),
        features.flatten(),
        is_arm or bool(features.get("fma")),
        is_arm or bool(features.get("f16c")),
        lanes,
    )


@cache
def _target() -> Any:
    """LLVM's target for code that runs here, once LLVM is ready to write it."""
    llvm = _llvm()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for module in (python_calls, array_function):
        _add_symbols(module)
    return llvm.Target.from_default_triple()


@lru_cache(maxsize=4)
def _machine(processor: Processor, level: int) -> Any:
    """LLVM's code generator for a processor; its tables take two milliseconds.

    Threads may share it: llvmlite calls LLVM in one at a time.
    """
    return _target().create_target_machine(
        opt=level, cpu=processor.name, features=processor.features
    )


@cache
def _add_symbols(module: Any) -> None:
    """Let LLVM know the addresses that a module of this package gives for names in texts."""
    llvm = _llvm()
    for name, address in module.addresses().items():
        llvm.add_symbol(name, address)


def _shared() -> Any:
    """Return the engine of functions that texts share, for LLVM to know their addresses.

    Threads must not make two, of which one would be freed: code is linked to the addresses of either.
    """
    with _setup.lock:
        return _shared_engine()


@cache
def _shared_engine() -> Any:
    llvm = _llvm()
    machine = _machine(processor(), 0)
    context = _Context(machine)
    module = context.parsed(python_calls.SHARED)
    module.link_in(context.parsed(array_function.SHARED))
    engine = _in_memory(machine.emit_object(module))
    for name in (python_calls.CHECK, python_calls.CALL):
        llvm.add_symbol(name, engine.get_function_address(name))
    return engine


def _in_memory(code: bytes) -> Any:
    """The engine of a linked object."""
    llvm = _llvm()
    # What links an object frees a machine of its own, which need not know the processor.
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(""), _target().create_target_machine(opt=0)
    )
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


class Convention(Protocol):
    """How `@f` of a text is called."""

    def linked(self, engine: Any) -> Callable[..., Any]:
        """The function of linked code."""
        ...


@dataclass(frozen=True)
class OfPointers:
    """`@f` takes pointers, then numbers, and gives a number; it is called without the interpreter's lock."""

    pointers: int
    numbers: int = 0

    def linked(self, engine: Any) -> Linked:
        """The function of linked code."""
        kinds = [*[ctypes.c_void_p] * self.pointers, *[ctypes.c_int64] * self.numbers]
        prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)
        return Linked(prototype(engine.get_function_address("f")), engine)


@dataclass(frozen=True)
class OfArrays:
    """`@f` takes the address of what arrays and integers are; it is called with the interpreter's lock, and what it
    raises is raised.
    """

    def linked(self, engine: Any) -> Callable[..., int | None]:
        """The function of linked code."""
        caller = _shared().get_function_address(array_function.CALLER)
        return array_function.built_in(engine.get_function_address("f"), caller, engine)


class Linked:
    """`@f` of a text, which lives as long as this.

    Attributes:
        address: where its code begins.
    """

    def __init__(self, plain: Callable[..., int], engine: Any) -> None:
        self._plain, self._engine = plain, engine
        self.address: int = engine.get_function_address("f")

    def __call__(self, *arguments: Any) -> int:
        """Its number."""
        return self._plain(*arguments)


class Linker:
    """Functions that have been linked, by their texts.

    Args:
        capacity: the maximum number of functions.
        cache: machine code of earlier processes, on disk.
        log: the record of attempts.
    """

    def __init__(
        self,
        capacity: int = 256,
        cache: CompileCache | None = None,
        log: CompileLog | None = None,
    ) -> None:
        self.functions: BoundedCache[Callable[..., Any]] = BoundedCache(capacity)
        self.cache = cache
        self.log = CompileLog() if log is None else log
        self._refusal = ""
        self._asked_for: BoundedCache[object] = BoundedCache(capacity)

    @cached_property
    def processor(self) -> Processor:
        """The processor of the texts.

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

    def function(
        self,
        kind: str,
        text: str,
        convention: Convention,
        is_optimised: bool = True,
    ) -> Callable[..., Any]:
        """Return `@f` of a text.

        Args:
            kind: what the text computes, as the log counts it.
            is_optimised: whether LLVM's passes are run.

        Raises:
            NotCompiledError: LLVM fails.
        """

        def linked() -> Callable[..., Any]:
            with self.log.attempt(kind), until_compiled():
                function = convention.linked(self._engine(text, is_optimised))
            self.log.count(kind)
            return function

        return self.functions.get(text, linked)

    def function_for_one_call(
        self, kind: str, text: str, work: Work | None, convention: Convention
    ) -> Callable[..., Any] | None:
        """The same without LLVM's passes: it is linked in a fraction of their time, is slower, and gives the same bits.

        Args:
            work: of the call, by estimate; None where nothing tells, and where the passes decide what the bits are.

        Returns:
            None where the passes pay at once, by an estimate; for a text that has been asked for before; and where a
            folder keeps optimised code for other processes.

        Raises:
            NotCompiledError: LLVM fails.
        """
        if work is None or self.cache is not None:
            return None
        first = object()
        if self._asked_for.get(text, lambda: first) is not first:
            return None
        with self.log.attempt(kind), until_compiled():
            plain = for_first_call(text, work, max(self.processor.lanes))
            if plain is None:
                return None
            function = convention.linked(self._engine(plain, is_optimised=False))
        self.log.count(kind)
        return function

    def parts(self, text: str) -> int:
        """After how many parts of a while loop, without LLVM's passes, it has taken longer than these would."""
        return max(1, round(passes(text) / (UNOPTIMISED * python_calls.PART)))

    def cache_clear(self) -> None:
        """Forget every function that nothing else holds."""
        self.functions.clear()
        self._asked_for.clear()

    def _engine(self, text: str, is_optimised: bool = True) -> Any:
        """The engine of a text's machine code."""
        _shared()
        for module in SCIPYS:
            if module.PREFIX in text:
                _add_symbols(module)
        if is_optimised:
            code = self._machine_code(text)
        else:
            code = _compiled(text, _machine(self.processor, 0), is_optimised=False)
        return _in_memory(code)

    def _machine_code(self, text: str) -> bytes:
        """Of this text for this processor, by an earlier process or now."""
        cache, machine = self.cache, _machine(self.processor, 3)
        if cache is None:
            return _compiled(text, machine)
        processor = f"{self.processor.name} {self.processor.features}"
        versions = f"{VERSION} {version('llvmlite')} {machine.triple} {processor}"
        key = cache.key([b"llvm", versions.encode(), text.encode()])
        code = None
        with suppress(NotCompiledError), self.log.attempt("function from the cache folder"):
            code = cache.load(key)
        if code is None:
            code = _compiled(text, machine)
            with suppress(NotCompiledError), self.log.attempt("function for the cache folder"):
                cache.store(key, code)
        return code


def _compiled(text: str, machine: Any, is_optimised: bool = True) -> bytes:
    """Machine code, as an object file in memory.

    Where the processor converts float16 and does not compute with it, LLVM 22 makes calls of `UNKNOWN` of some basic
    blocks with vectors of float16: the next module is free of them.
    """
    context = _Context(machine)
    code = _emitted(text, context, is_optimised)
    context.free()
    return code


def _emitted(text: str, context: _Context, is_optimised: bool) -> bytes:
    code = b""
    for module in _modules(text, context, is_optimised):
        code = context.machine.emit_object(module)
        if not any([name in code for name in UNKNOWN]):
            break
    return code


def module_of(text: str, machine: Any) -> Any:
    """LLVM's module of a text, after its passes, in a context that stays."""
    return next(_modules(text, _Context(machine), is_optimised=True))


class _Context:
    """A context of LLVM for one text, freed with what it keeps of it; the global one keeps constants for ever.

    Modules have to be freed before their context, of which the garbage collector knows nothing: a context stays where
    an exception's traceback holds a module. Nothing here closes an object of llvmlite, because a signal handler that
    raises meanwhile would have it freed twice.
    """

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self._context = _llvm().create_context()
        self._context._owned = True  # so that llvmlite frees it in no order of its own
        self._modules: list[weakref.ref[Any]] = []

    def free(self) -> None:
        """Free the context with this object, if no module is left."""
        self._context._owned = any([module() is not None for module in self._modules])

    def parsed(self, text: str) -> Any:
        """Return the module of a text."""
        module = _llvm().parse_assembly(text, self._context)
        self._modules.append(weakref.ref(module))
        module.triple = self.machine.triple
        module.verify()
        return module


def _modules(text: str, context: _Context, is_optimised: bool) -> Iterator[Any]:
    """Modules of a text, each with less done to it than the one before; the last one is as it was written.

    LLVM 22 vectorises some basic blocks so that a value is read before it is computed, for which its code generator
    ends the process: what the passes give is verified, and left out.
    """
    for basic_blocks in (True, False) if is_optimised else ():
        module = _after_passes(text, context, basic_blocks)
        try:
            module.verify()
        except RuntimeError:
            continue
        yield module
    yield context.parsed(without_passes(text))


def _after_passes(text: str, context: _Context, basic_blocks: bool) -> Any:
    """The module after the passes, which vectorise loops, and basic blocks where that is asked for."""
    llvm = _llvm()
    early, _, late = text.partition(LATE)
    module = context.parsed(early)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization, options.slp_vectorization = True, basic_blocks
    # Unrolled loops take twice as long to compile and, by the loops of the benchmarks, run no faster.
    options.loop_unrolling = options.loop_interleaving = False
    builder = llvm.create_pass_builder(context.machine, options)
    _run(builder.getModulePassManager(), module, builder)
    if late:
        module.link_in(context.parsed(late))
        inliner = llvm.create_new_module_pass_manager()
        inliner.add_always_inliner_pass()
        _run(inliner, module, builder)
    return module


def _run(passes: Any, module: Any, builder: Any) -> None:
    """Run a pass manager and free it, which llvmlite up to 0.50 does not: its class inherits a `close` that frees nothing."""
    llvm = _llvm()
    try:
        passes.run(module, builder)
    finally:
        if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:
            llvm.newpassmanagers.NewPassManager._dispose(passes)

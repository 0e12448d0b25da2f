"""`IsolatedExecutor`, which runs XLA in a separate process, so that a crash of XLA does not end this process."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowering import StableHloModule
from lowering.extensions import lowerings_in
from tenferro.errors import InvalidConfigError, NonStaticShapeError, PeerEndedError
from tenferro.program import BoundedCache, CacheStats, GraphProgram
from tenferro.tracebacks import public_methods
from tenferro.types import TreeDef
from xla_peer.executor import XlaExecutor
from xla_peer.known_faults import known_fault
from xla_peer.lowered import Lowered, LoweringSettings
from xla_peer.notices import noticed, notify_once
from xla_peer.peer_process import SHARED_PROCESS, Limits, PeerProcess

__all__ = [
    "ISOLATED_VARIABLE",
    "IsolatedExecutor",
    "IsolatedModule",
    "isolated_by_default",
    "isolated_peer",
]

ISOLATED_VARIABLE = "TENFERRO_ISOLATED"
"""Name of an environment variable. If its value is `off`, XLA runs in the calling process by default."""
LARGEST_TEXTS = 1 << 28
"""Maximum total size of the texts that an executor caches, in bytes."""

_numbers = itertools.count()


@public_methods
class IsolatedExecutor:
    """Executor that runs programs through XLA in a child process; a crash, a hang or exhausted memory raises an error.

    The first run starts the child, and a later run restarts it if it ended. Results equal those of an `XlaExecutor`
    with the same settings; arguments are copied to row-major order. Executors share one child unless `process` is
    given.

    Args:
        platform, device, precision, linalg, extensions, optimization_level, options, effects, notices: see
            `XlaExecutor`.
        timeout: maximum time for the compilation of a module, and for each run of it, in seconds.
        memory_limit: maximum number of bytes that one request may allocate; None for no limit. Only Linux enforces the
            limit.
        process: the child to use instead of the shared one.

    Raises:
        InvalidConfigError: the timeout or the memory limit is not above 0.
        PlatformUnavailableError: the platform is not available; the message names the available platforms.
        UnsupportedError: the system lacks `os.fork`.

    >>> import tenferro as tnf
    >>> program = tnf.compile(lambda x: x + x, np.ones(2))
    >>> IsolatedExecutor().run(program, np.ones(2))
    array([2., 2.])
    """

    def __init__(
        self,
        platform: str = "cpu",
        device: int = 0,
        *,
        precision: str = "highest",
        linalg: str = "library",
        extensions: str = "expand",
        optimization_level: int | None = None,
        options: Mapping[str, bool | int | str] | None = None,
        effects: str = "refuse",
        notices: bool = True,
        timeout: float = Limits().timeout,
        memory_limit: int | None = None,
        process: PeerProcess | None = None,
    ) -> None:
        if not timeout > 0:
            raise InvalidConfigError(
                f"IsolatedExecutor: timeout must be above 0 s, got {timeout!r}"
            )
        if memory_limit is not None and memory_limit <= 0:
            raise InvalidConfigError(
                f"IsolatedExecutor: memory_limit must be above 0, got {memory_limit!r}"
            )
        self.limits = Limits(timeout, memory_limit)
        self.notices = notices
        self.process = SHARED_PROCESS if process is None else process
        self.options: dict[str, Any] = {
            "platform": platform,
            "device": device,
            "precision": precision,
            "linalg": linalg,
            "extensions": extensions,
            "optimization_level": optimization_level,
            "options": dict(options or {}),
            "effects": effects,
        }
        self.platform = platform if platform == "cpu" else self._named()
        self.settings = LoweringSettings(self.platform, precision, linalg, extensions, effects)
        self._lowered: BoundedCache[IsolatedModule] = BoundedCache(
            256, LARGEST_TEXTS, lambda module: module.nbytes
        )
        if notices:
            notify_once(known_fault(self.platform))

    @classmethod
    def mirroring(
        cls,
        executor: XlaExecutor,
        timeout: float = Limits().timeout,
        memory_limit: int | None = None,
    ) -> IsolatedExecutor:
        """Create an executor that has the settings of an `XlaExecutor`, and runs in the shared child."""
        rebuild, _ = executor.__reduce__()
        options = {
            name: value
            for name, value in rebuild.keywords.items()
            if name in cls.__init__.__kwdefaults__
        }
        return cls(*rebuild.args, **options, timeout=timeout, memory_limit=memory_limit)

    def with_options(self, options: Mapping[str, bool | int | str]) -> IsolatedExecutor:
        """Create an executor that runs in the same child process, with additional debug options for XLA."""
        timeout, memory_limit = self.limits
        settings: dict[str, Any] = dict(self.options)
        settings["options"] = {**settings["options"], **options}
        return IsolatedExecutor(
            **settings,
            notices=self.notices,
            timeout=timeout,
            memory_limit=memory_limit,
            process=self.process,
        )

    def __repr__(self) -> str:
        return f"<IsolatedExecutor on {self.platform}:{self.options['device']}>"

    def __enter__(self) -> IsolatedExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child process, unless it is shared."""
        if self.process is not SHARED_PROCESS:
            self.process.close()

    def run(self, program: GraphProgram, *arrays: Any) -> Any:
        """Run a program on NumPy arrays, and return new arrays in the structure of its function's result.

        Raises:
            ArityError, DTypeError, ShapeError, GuardError: the arguments do not match the program's parameters.
            NonStaticShapeError: an extent depends on data.
            PeerEndedError: XLA ended its process, took too long, or ran out of memory.
            BackendFailureError: XLA could not compile or run the program.
        """
        leaves = program.check_arguments(arrays)
        shapes = tuple([leaf.shape for leaf in leaves])
        rules = lowerings_in(program, self.settings.lowered_for, self.settings.linalg_routines)
        module = self._lowered.get(
            (program.identity, shapes, rules),
            lambda: IsolatedModule(self, self.settings.lower(program, shapes), program.name),
        )
        return program.pack(module.run_leaves(leaves))

    def compile_module(
        self,
        module: StableHloModule,
        in_tree: TreeDef | None = None,
        out_tree: TreeDef | None = None,
        constants: Sequence[Any] = (),
    ) -> IsolatedModule:
        """Return an `IsolatedModule`, which is compiled at its first run; see `XlaExecutor.compile_module`.

        Args:
            in_tree, out_tree: as in `XlaExecutor.compile_module`; unused, because a child has no device arrays.
            constants: arrays for the last inputs.

        Raises:
            NonStaticShapeError: the module has symbolic extents.
        """
        if not module.is_static:
            raise NonStaticShapeError("compile_module: the module has symbolic extents; refine it")
        named = {str(number): array for number, array in enumerate(constants)}
        return IsolatedModule(self, Lowered(module, named, module.output_specs))

    def cache_stats(self) -> CacheStats:
        """Return the statistics of the cache of lowered programs."""
        return self._lowered.stats()

    def cache_clear(self) -> None:
        """Drop every lowered program."""
        self._lowered.clear()

    def _named(self) -> str:
        request = {"operation": "name", "executor": self.options}
        return str(self.process.ask(request, (), (), self.limits, "starting")[0]["platform"])


class IsolatedModule:
    """A module that the child process of an executor compiles and runs."""

    def __init__(
        self, executor: IsolatedExecutor, lowered: Lowered, name: str = "a module"
    ) -> None:
        self.executor, self.module, self.name = executor, lowered.module, name
        self._constants = list(lowered.constants.values())
        self._number = next(_numbers)

    @property
    def nbytes(self) -> int:
        """Size of the module's texts and constants, in bytes."""
        constants = sum([np.asarray(x).nbytes for x in self._constants])
        return len(self.module.text) + len(self.module.plain_text) + constants

    def run_leaves(self, leaves: Sequence[Any]) -> list[Any]:
        """Run the module on NumPy arrays, whose types are not checked, and return new arrays.

        Raises:
            PeerEndedError, BackendFailureError: see `IsolatedExecutor.run`.
        """
        executor, specs = self.executor, self.module.output_specs
        request = {"operation": "run", "number": self._number}
        ask, limits = executor.process.ask, executor.limits
        try:
            answer, outputs = ask(request, leaves, specs, limits, "running")
            while answer.get("unknown"):
                self._compile()
                answer, outputs = ask(request, leaves, specs, limits, "running")
        except PeerEndedError as error:
            error.module = self.module.plain_text
            raise
        return outputs

    def _compile(self) -> None:
        module, executor = self.module, self.executor
        request = {
            "operation": "compile",
            "number": self._number,
            "executor": executor.options,
            "platform": module.platform,
            "text": module.text,
            "plain_text": module.plain_text,
            "input_names": module.input_names,
            "output_names": module.output_names,
            "input_specs": list(map(str, module.input_specs)),
            "output_specs": list(map(str, module.output_specs)),
        }
        what = f"{self.name} for {executor.platform}"
        with noticed(f"compiling {what}", f"compiled {what}", executor.notices):
            executor.process.ask(request, self._constants, (), executor.limits, "compiling")


def isolated_by_default() -> bool:
    """Return whether checks run XLA in a separate process by default."""
    return os.environ.get(ISOLATED_VARIABLE) != "off"


def isolated_peer(executor: Any, isolated: bool | None) -> Any:
    """Return the executor with which a check runs XLA, in a separate process unless `isolated` is False.

    Args:
        executor: None for the CPU; an `XlaExecutor` is recreated in the child; other executors are returned unchanged.
        isolated: whether to use a separate process; None is True unless the variable TENFERRO_ISOLATED is `off`.
    """
    if isolated is None:
        isolated = isolated_by_default()
    if not isolated:
        return XlaExecutor() if executor is None else executor
    if executor is None:
        return IsolatedExecutor()
    return IsolatedExecutor.mirroring(executor) if type(executor) is XlaExecutor else executor

"""`XlaExecutor`: runs programs through StableHLO and PJRT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowering import PLATFORMS, StableHloModule, lower_to_stablehlo
from tenferro.errors import InvalidConfigError
from tenferro.program import BoundedCache, CacheStats, GraphProgram
from xla_peer import pjrt

__all__ = ["XlaExecutor"]


@dataclass(frozen=True)
class Compiled:
    """An executable and the module it was made from."""

    module: StableHloModule
    executable: Any


class XlaExecutor:
    """Lowers a program to StableHLO, compiles it once per shapes, and runs it on one device.

    Args:
        platform: "cpu", "cuda", "rocm", "tpu", or the name of a PJRT plugin.
        device: number of the device on that platform.
        precision: of dots whose op does not say; "highest" keeps float32 in float32.
        linalg: "library" for the platform's own routines, or "inline" for plain StableHLO.
        extensions: "expand" or "composite"; see `lowering.lower_to_stablehlo`.
        cache_size: how many executables are kept.

    Intermediate results keep the precision of their dtype (XLA's excess precision is off), so that
    results can be compared with the native ones.

    Raises:
        PlatformUnavailableError: names the platforms there are.
        InvalidConfigError: no such device.

    >>> import numpy as np, tenferro as tnf
    >>> program = tnf.compile(lambda x: x + x, tnf.TensorSpec((2,), "float64"))
    >>> XlaExecutor("cpu").run(program, np.array([1.0, 2.0]))
    array([2., 4.])
    """

    def __init__(
        self,
        platform: str = "cpu",
        device: int = 0,
        *,
        precision: str = "highest",
        linalg: str = "library",
        extensions: str = "expand",
        cache_size: int = 256,
    ) -> None:
        self.platform = platform
        self.precision = precision
        self.linalg = linalg
        self.extensions = extensions
        self._client = pjrt.client(platform)
        devices = self._client.local_devices()
        if isinstance(device, bool) or not 0 <= device < len(devices):
            raise InvalidConfigError(
                f"device {device} of platform {platform!r}: there are {len(devices)}"
            )
        self.device = devices[device]
        self._compiled: BoundedCache[Compiled] = BoundedCache(cache_size)

    def run(self, program: GraphProgram, *arrays: Any) -> Any:
        """NumPy in, NumPy out: the tree the program's function returns, of fresh arrays.

        Raises:
            ArityError, DTypeError, ShapeError, GuardError: arguments that do not fit.
            NonStaticShapeError: an extent that the data decide.
            BackendFailureError: XLA could not compile or run it.
        """
        leaves = program.check_arguments(arrays)
        compiled = self._executable(program, tuple([np.shape(leaf) for leaf in leaves]))
        buffers = [pjrt.put(leaf, self.device) for leaf in leaves]
        results = pjrt.execute(compiled.executable, buffers)
        return program.pack([pjrt.to_numpy(result) for result in results])

    def _executable(self, program: GraphProgram, shapes: tuple[Any, ...]) -> Compiled:
        return self._compiled.get((program, shapes), lambda: self._compile(program, shapes))

    def _compile(self, program: GraphProgram, shapes: tuple[Any, ...]) -> Compiled:
        static = program.specialize(program.bind(shapes))
        known = self.platform in PLATFORMS
        module = lower_to_stablehlo(
            static,
            self.platform if known else "cpu",
            self.precision,
            extensions=self.extensions,
            linalg=self.linalg if known else "inline",
        )
        options = {"xla_allow_excess_precision": False}
        return Compiled(
            module, pjrt.compile_module(self._client, self.device, module.text, options)
        )

    def cache_stats(self) -> CacheStats:
        """What the cache of executables has done."""
        return self._compiled.stats()

    def cache_clear(self) -> None:
        """Forget every executable."""
        self._compiled.clear()

"""Registry of adapters by name. An adapter is a Python function that runs StableHLO modules by another compiler."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tenferro.errors import InvalidConfigError, RegistrationError

__all__ = ["Adapter", "iree_adapter", "jaxlib_adapter", "register", "registered"]

ADAPTERS = Path(__file__).parent / "adapters"
"""Folder of the built-in adapters."""


@dataclass(frozen=True)
class Adapter:
    """Python function that compiles and runs a StableHLO module, and the interpreter that runs the function.

    Attributes:
        name: name of the compiler for tables.
        file: path of the Python file with the function; empty if the module is imported by its name.
        module: name of the Python module.
        function: name of the function in the module.
        python: path of the Python interpreter.
        has_passes: whether the function accepts debug options of XLA, and the file contains a function `stablehlo_of`.
    """

    name: str
    file: str
    module: str
    function: str = "run"
    python: str = sys.executable
    has_passes: bool = False

    @classmethod
    def of(cls, name: str, adapter: Callable[..., Any] | str, python: str = "") -> Adapter:
        """Create an adapter from a function, or from a text `file.py:function`.

        Raises:
            RegistrationError: another process cannot import the function, or the text does not have this form.
        """
        interpreter = python or sys.executable
        if isinstance(adapter, str):
            path, colon, function = adapter.rpartition(":")
            file = Path(path)
            if not colon or not function.isidentifier() or not file.is_file():
                raise RegistrationError(
                    f"adapter {name}: a text must be FILE.py:FUNCTION with a file that exists, got {adapter!r}"
                )
            return cls(name, str(file.resolve()), file.stem, function, interpreter)
        return cls._of_function(name, adapter, interpreter)

    @classmethod
    def _of_function(cls, name: str, adapter: Any, python: str) -> Adapter:
        if not inspect.isfunction(adapter) or "<" in adapter.__qualname__:
            raise RegistrationError(
                f"adapter {name}: another process runs it, and imports it by its name: give a function of a module "
                f"or FILE.py:FUNCTION, got {getattr(adapter, '__qualname__', type(adapter).__name__)}"
            )
        module = adapter.__module__
        if python == sys.executable and module != "__main__" and importlib.util.find_spec(module):
            return cls(name, "", module, adapter.__qualname__, python)
        file = inspect.getsourcefile(adapter)
        if file is None or not Path(file).is_file():
            raise RegistrationError(
                f"adapter {name}: {adapter.__qualname__} is not defined in a file"
            )
        return cls(name, str(Path(file).resolve()), Path(file).stem, adapter.__qualname__, python)


def jaxlib_adapter(python: str = "", name: str = "jaxlib") -> Adapter:
    """Return the adapter of jaxlib's CPU compiler, run by the interpreter `python`, by default the current one."""
    file = ADAPTERS / "jaxlib_cpu.py"
    return Adapter(name, str(file), file.stem, python=python or sys.executable, has_passes=True)


def iree_adapter(python: str = "", name: str = "IREE") -> Adapter:
    """Return the adapter of IREE's CPU compiler, run by the interpreter `python`, by default the current one."""
    file = ADAPTERS / "iree_cpu.py"
    return Adapter(name, str(file), file.stem, python=python or sys.executable)


BUILT_IN = {
    name: Adapter(name, str(ADAPTERS / f"{stem}.py"), stem)
    for name, stem in (
        ("IREE", "iree_cpu"),
        ("onnxruntime", "onnxruntime_cpu"),
        ("torch", "torch_cpu"),
        ("tvm", "tvm_cpu"),
    )
}
"""Adapters that need no registration; their packages must be installed in tenferro's environment."""

GROUP = "tenferro.opinions"
"""Name of the group of entry points by which installed packages register adapters."""

_registered: dict[str, Adapter] = {}


def register(name: str, adapter: Callable[..., Any] | str, *, python: str = "") -> Adapter:
    """Register an adapter by a name, for `tenferro watch --opinion NAME` and `registered`.

    An adapter is a function of a module and arrays: `adapter(module, arrays) -> arrays`. The module is StableHLO text,
    or bytes; the arrays are the arguments of `main`, in order. The adapter may raise any error, crash or hang, because
    each call runs in a separate process. The same file may have a function `version`, which returns the version of the
    compiler.

    Args:
        name: name of the compiler.
        adapter: a function of an importable module or of a file, or a text `file.py:function`.
        python: path of the Python interpreter that runs the adapter; by default the current one.

    Raises:
        RegistrationError: another adapter has this name, or the function is a lambda or an inner function.

    >>> register("interpreter", "no_such_file.py:run")
    Traceback (most recent call last):
    tenferro.errors.RegistrationError: adapter interpreter: a text must be FILE.py:FUNCTION with a file that exists, got \
'no_such_file.py:run'
    """
    chosen = Adapter.of(name, adapter, python)
    if _registered.setdefault(name, chosen) != chosen:
        raise RegistrationError(f"adapter {name}: the name is registered for {_registered[name]}")
    return chosen


def registered(names: Iterable[str] | None = None) -> list[Adapter]:
    """Return the adapters with the given names, in this order; by default all registered adapters.

    Installed packages register adapters as entry points of the group `tenferro.opinions`. `IREE`, `onnxruntime`,
    `torch` and `tvm` need no registration; using one that is not installed raises PlatformUnavailableError.

    Raises:
        InvalidConfigError: a name is not registered.
    """
    known_adapters = {
        point.name: Adapter(point.name, "", point.module, point.attr)
        for point in metadata.entry_points(group=GROUP)
    } | _registered
    chosen = list(known_adapters) if names is None else list(names)
    known_adapters = BUILT_IN | known_adapters
    missing = [name for name in chosen if name not in known_adapters]
    if missing:
        known = ", ".join(known_adapters)
        raise InvalidConfigError(
            f"no opinion {', '.join(missing)} is registered; registered: {known}"
        )
    return [known_adapters[name] for name in chosen]

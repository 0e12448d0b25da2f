"""Every error that tenferro raises, in one class hierarchy. Each error is also a builtin error that fits.

    >>> issubclass(ShapeError, ValueError) and issubclass(ShapeError, TenferroError)
    True

The situations that raise an error and the required texts are in docs/specification/failures.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = [
    "ADRuleUnsupportedError",
    "ArityError",
    "AxisError",
    "BackendFailureError",
    "CheckFailedError",
    "CompileWarning",
    "ConcretizationError",
    "DTypeError",
    "DataDependentShapeError",
    "DegenerateSpectrumError",
    "DisagreementWarning",
    "DuplicateFamilyError",
    "ExtensionLoweringError",
    "GradientMismatchError",
    "GuardError",
    "InvalidConfigError",
    "InvalidScheduleError",
    "LostDerivativeWarning",
    "MalformedFamilyIdError",
    "MissingCellError",
    "MissingNameError",
    "NonFiniteError",
    "NonStaticShapeError",
    "OutOfBoundsError",
    "PeerEndedError",
    "PlatformUnavailableError",
    "RegistrationError",
    "ShapeError",
    "TenferroError",
    "UnsupportedError",
    "UnusableCacheWarning",
    "show_internal_frames",
    "shows_internal_frames",
]


class TenferroError(Exception):
    """Base class of all errors. If the error concerns an op of a graph, `source` is the line of the user's code.

    >>> error = ShapeError("Add: x0 and x1 must have the same type")
    >>> print(error.at("model.py:12 in loss"))
    Add: x0 and x1 must have the same type
      at model.py:12 in loss
    """

    source: str | None = None

    def at(self, source: object) -> TenferroError:
        """Attach a line of the user's code, unless one is attached already.

        The first line that is attached is nearest to the fault.
        """
        if self.source is None and source:
            self.source = str(source)
        return self

    def text(self) -> str:
        """Return the message without the source line."""
        return super().__str__()

    def __str__(self) -> str:
        text = self.text()
        return f"{text}\n  at {self.source}" if self.source else text


class ShapeError(TenferroError, ValueError):
    """Ranks, extents, or axes do not fit the op's shape rule."""


class AxisError(ShapeError, IndexError):
    """The number of an axis is not smaller than the rank, or an axis is named twice."""


class OutOfBoundsError(TenferroError, IndexError):
    """A static index is outside the extent of the axis that it indexes."""


class NonStaticShapeError(ShapeError):
    """A number is required as an extent, but the program has only a bound or a symbol."""


class InvalidScheduleError(TenferroError, ValueError):
    """A schedule breaks a rule of the schedule language, for example because a planning step is wrong."""


class GuardError(ShapeError):
    """Two extents that must agree differ at run time."""


class DTypeError(TenferroError, TypeError):
    """The op does not accept a dtype, operands have different dtypes, or an array has a wrong dtype."""


class ConcretizationError(TenferroError, TypeError):
    """The value of a traced tensor was requested, but the tensor has no value until the program runs."""


class InvalidConfigError(TenferroError, ValueError):
    """An op's parameter, an argument or an option has an invalid value."""


class ArityError(InvalidConfigError, TypeError):
    """The number of operands, arguments, or results is wrong."""


class UnsupportedError(TenferroError, NotImplementedError):
    """The request is valid, but tenferro does not support it. The message names an alternative."""


class DataDependentShapeError(UnsupportedError, ConcretizationError):
    """A result's shape depends on elements that a trace does not have yet."""


class ADRuleUnsupportedError(UnsupportedError):
    """An active op or extension family has no derivative rule of the requested kind."""


class GradientMismatchError(TenferroError, AssertionError):
    """A derivative differs from the same derivative computed in another way. The message is the report."""


class BackendFailureError(TenferroError, RuntimeError):
    """A kernel, an extension's execution, or PJRT failed."""


class PeerEndedError(BackendFailureError):
    """The process that compiles and runs modules for a peer ended, took too long, or ran out of memory.

    Attributes:
        ending: how the process ended: `SIGSEGV` or another signal, `exit status 7`, `timeout` or `out of memory`.
        stage: what the process was doing: `starting`, `compiling` or `running`.
        said: the last line that the process wrote to its error stream. It may be empty.
        module: the StableHLO text of the module that the process was compiling or running. It may be empty.
        peer: the name of the compiler.

    >>> print(PeerEndedError("SIGSEGV", "running"))
    XLA ended its process while running a module: SIGSEGV
    """

    def __init__(
        self, ending: str, stage: str, said: str = "", module: str = "", peer: str = "XLA"
    ) -> None:
        self.ending, self.stage, self.said, self.module = ending, stage, said, module
        what = "its process" if stage == "starting" else f"its process while {stage} a module"
        self.peer = peer
        super().__init__(f"{peer} ended {what}: {ending}" + (f": {said}" if said else ""))


class DegenerateSpectrumError(BackendFailureError, ArithmeticError):
    """Singular vectors or eigenvectors have no derivative, because singular values or eigenvalues coincide."""


class CompileWarning(RuntimeWarning):
    """A part of a program could not be compiled. It is interpreted, which is slower."""


class NonFiniteError(BackendFailureError, ArithmeticError):
    """An op computed a NaN or an infinity from operands without one, under `check_finite`."""


class CheckFailedError(TenferroError, ValueError):
    """A condition of `tenferro.check` was not true when the program reached it."""


class PlatformUnavailableError(TenferroError, RuntimeError):
    """The requested platform is not available on this machine. The message names the available platforms."""


class ExtensionLoweringError(TenferroError, RuntimeError):
    """The expansion of an extension is malformed, or disagrees with the metadata that the extension declares."""


class RegistrationError(TenferroError, ValueError):
    """An extension factory could not be registered."""


class DuplicateFamilyError(RegistrationError):
    """The family id is registered already."""


class MalformedFamilyIdError(RegistrationError):
    """The family id is not `<package>.<name>.v<major>`."""


class DisagreementWarning(RuntimeWarning):
    """Two paths returned different results for the same arguments, and rounding does not explain the difference."""


class LostDerivativeWarning(RuntimeWarning):
    """A derivative is treated as zero because its rule is unavailable, as for a module read from a file."""


class UnusableCacheWarning(RuntimeWarning):
    """The folder that TENFERRO_CACHE_DIR names cannot be used, and every process compiles again."""


class MissingCellError(TenferroError, ImportError):
    """A table of implementations lacks an op, or has an op twice. The error is raised during import."""


class MissingNameError(TenferroError, AttributeError):
    """A namespace or a class has no such name.

    Args:
        owner: the namespace or the class that lacks the name.
        name: the missing name.
        hint: a function of `owner` and `name` that returns the hint. It is called when the message is read, because
            most look-ups of a missing name only ask whether the name exists.

    >>> print(MissingNameError("tnf", "sigmoid", lambda owner, name: "it is tnf.logistic here"))
    tnf has no 'sigmoid'; it is tnf.logistic here
    """

    def __init__(self, owner: str, name: str, hint: Callable[[str, str], str]) -> None:
        super().__init__(owner, name, hint)
        self.name = name

    def text(self) -> str:
        """Return the message with the hint, but without the source line."""
        owner, name, hint = self.args
        advice = hint(owner, name)
        return f"{owner} has no {name!r}" + (f"; {advice}" if advice else "")


class _Tracebacks:
    """The setting that determines whether tracebacks contain the frames of tenferro."""

    are_full: bool = os.environ.get("TENFERRO_TRACEBACK") == "full"


def show_internal_frames(show: bool = True) -> None:
    """Keep the frames of tenferro in tracebacks, or drop them, which is the default.

    By default, a traceback ends at the line of your code. When an exception leaves tenferro, frames of tenferro are
    dropped, and frames of your functions remain. With the environment variable `TENFERRO_TRACEBACK=full`, all frames
    are kept.

    >>> show_internal_frames()
    >>> shows_internal_frames()
    True
    >>> show_internal_frames(False)
    """
    _Tracebacks.are_full = show


def shows_internal_frames() -> bool:
    """Return whether tracebacks contain the frames of tenferro.

    >>> shows_internal_frames()
    False
    """
    return _Tracebacks.are_full

"""Addresses of functions that SciPy's Cython modules export in capsules."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from importlib.util import module_from_spec
from typing import Any

from tenferro.blas import extension_spec

__all__ = ["addresses"]


def addresses(module: str, names: Sequence[str]) -> list[int]:
    """Return the addresses of functions that a Cython module exports."""
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsules: dict[str, Any] = _import(module).__pyx_capi__
    return [pointer_of(capsules[name], name_of(capsules[name])) for name in names]


def _import(name: str) -> Any:
    """Import a module without its package, if possible; importing the package `scipy.linalg` takes 20 times as long."""
    spec = extension_spec(name)
    if spec is None or spec.loader is None:
        return import_module(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""`dir` of tenferro's modules, and the errors for names that do not exist."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest

import lowering
import tenferro as tnf
import xla_peer
from tenferro.counterparts import COUNTERPARTS

NAMESPACES: dict[str, Any] = {
    "tnf": tnf,
    **{f"tnf.{name}": getattr(tnf, name) for name in tnf.__all__ if isinstance(getattr(tnf, name), types.ModuleType)},
    "tnf.lax.linalg": tnf.lax.linalg,
    "lowering": lowering,
    "xla_peer": xla_peer,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMESPACES)
def test_dir_is_what_is_public(name: str) -> None:
    module = NAMESPACES[name]
    assert dir(module) == sorted(module.__all__)
    for member in module.__all__:
        getattr(module, member)


def test_dir_before_anything_is_loaded() -> None:
    script = "import tenferro as tnf; print(dir(tnf) == sorted(tnf.__all__), 'linalg' in vars(tnf))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "False"]


MODULES = ["fft", "lax", "linalg", "nn", "optim", "optimize", "random", "signal", "special", "stats", "tree"]  # fmt: skip


def test_modules_can_be_imported_by_name() -> None:
    """It must be possible to import each public module by its name.

    A new process, which has not loaded the module yet, does so.
    """
    script = "\n".join(
        [
            "import pickle, sys, types",
            *[f"import tenferro.{name}" for name in MODULES],
            "from tenferro.random import normal",
            "import tenferro as tnf",
            f"for name in {MODULES}:",
            "    module = getattr(tnf, name)",
            "    assert module is sys.modules[f'tenferro.{name}'], name",
            "    for member in vars(module).values():",
            "        if isinstance(member, types.FunctionType) and not member.__name__.startswith('_'):",
            "            assert pickle.loads(pickle.dumps(member)) is member, member",
            "assert tnf.random.normal is normal",
        ]
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    names = [name for name in tnf.__all__ if isinstance(getattr(tnf, name), types.ModuleType)]
    assert sorted(names) == sorted([*MODULES, "errors", "extension"])


def test_a_module_is_loaded_on_first_use_only() -> None:
    script = "import sys, tenferro as tnf; print('tenferro.random' in sys.modules, tnf.random is sys.modules['tenferro.random'])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]


def told(owner: Any, name: str) -> str:
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert isinstance(caught.value, tnf.errors.MissingNameError)
    return str(caught.value)


def test_every_counterpart_exists() -> None:
    for table in COUNTERPARTS.values():
        for counterpart in table.values():
            for path in re.findall(r"(?:tnf|lowering|xla_peer)(?:\.\w+)+", counterpart):
                first, *rest = path.split(".")
                value = NAMESPACES[first]
                for part in rest:
                    value = getattr(value, part)


def test_every_member_of_tensors_exists() -> None:
    traced = tnf.TracedTensor
    for counterpart in COUNTERPARTS["x"].values():
        for name in re.findall(r"\bx\.(\w+)", counterpart):
            assert hasattr(traced, name) or hasattr(tnf.EagerTensor, name), counterpart


def test_names_of_other_libraries() -> None:
    """If only another library has a name, the error must name tenferro's counterpart."""
    for shown, table in COUNTERPARTS.items():
        for name in table:
            if shown != "x" and not hasattr(NAMESPACES[shown], name):
                message = told(NAMESPACES[shown], name)
                assert message.startswith(f"{shown} has no {name!r}; ")
                assert message.endswith(" here") or "not needed" in message


def test_names_of_another_namespace() -> None:
    assert told(tnf, "cholesky") == "tnf has no 'cholesky'; it is tnf.linalg.cholesky here"
    assert told(tnf.linalg, "arange") == "tnf.linalg has no 'arange'; it is tnf.arange here"
    assert (
        told(tnf, "check_parity") == "tnf has no 'check_parity'; it is xla_peer.check_parity here"
    )


def test_slips() -> None:
    assert told(tnf, "cumulative_summ").startswith(
        "tnf has no 'cumulative_summ'; did you mean tnf.cumulative_sum"
    )
    assert (
        told(tnf.linalg, "choleski")
        == "tnf.linalg has no 'choleski'; did you mean tnf.linalg.cholesky?"
    )
    assert told(tnf, "Qxyzzy") == "tnf has no 'Qxyzzy'"
    assert pickle.loads(pickle.dumps(tnf.errors.MissingNameError("tnf", "x", told))).args[1] == "x"


def test_methods() -> None:
    traced: list[Any] = []
    tnf.compile(lambda x: traced.append(x) or x, np.ones(3))
    eager = tnf.EagerRuntime().constant(np.ones(3))
    for x, shown in ((traced[0], "TracedTensor"), (eager, "EagerTensor")):
        assert (
            told(x, "unsqueeze")
            == f"{shown} has no 'unsqueeze'; it is tnf.expand_dims(x, axis) here"
        )
        assert told(x, "exp") == f"{shown} has no 'exp'; it is tnf.exp(x) here"
        assert "tensors are values" in told(x, "add_")
        assert not hasattr(x, "exp")
        assert not {"exp", "unsqueeze"} & set(dir(x))
        assert {"reshape", "T", "shape", "__add__"} <= set(dir(x))
        assert "XlaExecutor" in told(x, "cuda")
    assert "while it is traced" in told(traced[0], "numpy")
    assert "tnf.stop_gradient(x)" in told(traced[0], "detach")


def test_the_line_of_a_missing_method() -> None:
    def f(x: Any) -> Any:
        return x.unsqueeze(0)

    with pytest.raises(
        tnf.errors.MissingNameError, match=r"tnf\.expand_dims.*\n  at .*test_names\.py:\d+ in f"
    ):
        tnf.jit(f)(np.ones(3))


def test_a_dtype_of_pytorch() -> None:
    dtype = type("dtype", (), {"__module__": "torch", "__repr__": lambda self: "torch.float32"})()
    with pytest.raises(tnf.errors.DTypeError, match=r"torch\.float32.*x\.numpy\(\)"):
        tnf.TensorSpec((2,), dtype)


def test_what_is_no_array() -> None:
    for call in (lambda: tnf.random.key("a"), lambda: tnf.exp(object()), lambda: tnf.add(1.0, {1})):
        with pytest.raises(tnf.errors.DTypeError, match=r"holds no numbers|neither"):
            call()

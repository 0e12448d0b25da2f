"""`golden` must list the values of a module by name.

`compare_golden` must find the first wrong value in a dump.
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

import xla_peer
from lowering.importing import import_values
from tenferro import errors
from xla_peer.cli import app

TEXT = """#loc1 = loc("model.py":9:1)
func.func private @f(%a: tensor<2xf64>) -> tensor<2xf64> {
  %0 = stablehlo.sine %a : tensor<2xf64>
  return %0 : tensor<2xf64>
}
func.func @main(%x: tensor<2xf64>, %k: tensor<i32>) -> (tensor<2xf64>, tensor<2xf64>) {
  %cst = stablehlo.constant dense<2.0> : tensor<2xf64> loc("model.py":3:1)
  %0 = stablehlo.multiply %x, %cst : tensor<2xf64>
  %1 = call @f(%0) : (tensor<2xf64>) -> tensor<2xf64>
  %same = stablehlo.multiply %x, %cst : tensor<2xf64>
  %dead = stablehlo.cosine %x : tensor<2xf64> loc(fused["a(b", #loc1])
  %2 = stablehlo.logistic %1 : tensor<2xf64>
  %3:2 = "stablehlo.sort"(%2, %0) ({
    ^bb0(%p: tensor<f64>, %q: tensor<f64>, %r: tensor<f64>, %s: tensor<f64>):
      %c = stablehlo.compare LT, %p, %q : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<2xf64>, tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>)
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %4:2 = stablehlo.while(%i = %c0, %v = %3#0) : tensor<i32>, tensor<2xf64>
    cond {
      %t = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.sine %v : tensor<2xf64>
      stablehlo.return %n, %w : tensor<i32>, tensor<2xf64>
    }
  return %4#1, %3#1 : tensor<2xf64>, tensor<2xf64>
}
"""
X, K = np.array([0.5, 2.0]), np.int32(3)


def expected() -> dict[str, Any]:
    """Return all values of `TEXT` by name. They are computed with NumPy, from the definitions of the operations."""
    doubled = X * 2
    called = np.sin(doubled)
    curve = 1 / (1 + np.exp(-called))
    order = np.argsort(curve)
    return {
        "%cst": np.full(2, 2.0),
        "%0": doubled,
        "%1": called,
        "%same": doubled,
        "%dead": np.cos(X),
        "%2": curve,
        "%3#0": curve[order],
        "%3#1": doubled[order],
        "%c0": np.int32(0),
        "%4#0": np.int32(3),
        "%4#1": np.sin(np.sin(np.sin(curve[order]))),
    }


def test_every_value_has_its_name_its_line_and_its_value() -> None:
    values = xla_peer.golden(TEXT, [X, K])
    wanted = expected()
    assert list(values) == list(wanted)
    for name, y in values.items():
        np.testing.assert_allclose(y, wanted[name], rtol=1e-14)
        assert y.dtype == wanted[name].dtype
    _, named = import_values(TEXT)
    lines = TEXT.split("\n")
    for value in named:
        assert lines[value.line - 1].strip().startswith(value.name.partition("#")[0])
        assert "loc(" not in value.text


def test_some_values() -> None:
    assert list(xla_peer.golden(TEXT, [X, K], until="%same")) == ["%cst", "%0", "%1", "%same"]
    assert list(xla_peer.golden(TEXT, [X, K], only=["%4#1", "%0"])) == ["%0", "%4#1"]
    with pytest.raises(errors.InvalidConfigError, match=r"no value %9; main has %cst"):
        xla_peer.golden(TEXT, [X, K], only=["%9"])
    with pytest.raises(errors.ArityError):
        xla_peer.golden(TEXT, [X])


def test_a_file_has_all_values_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "all.npz"
    assert xla_peer.golden(TEXT, [X, K], path) == {}
    with np.load(path, allow_pickle=False) as file:
        for name, y in xla_peer.golden(TEXT, [X, K]).items():
            np.testing.assert_array_equal(file[name], y)
        assert json.loads(file["lines.json"])["%0"][0] == 8
    assert xla_peer.compare_golden(TEXT, [X, K], path).ok
    with pytest.raises(errors.InvalidConfigError, match="npz"):
        xla_peer.golden(TEXT, [X, K], tmp_path / "all.npy")
    with pytest.raises(OSError, match="absent"):
        xla_peer.golden(TEXT, [X, K], tmp_path / "absent" / "all.npz")


def test_narrow_floats_go_through_files(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<2xbf16>) -> tensor<2xbf16> {
  %y = stablehlo.add %x, %x : tensor<2xbf16>
  return %y : tensor<2xbf16>
}"""
    x = np.array([1.5, 3.0], ml_dtypes.bfloat16)
    path = tmp_path / "all.npz"
    xla_peer.golden(text, [x], path)
    comparison = xla_peer.compare_golden(text, [x], path)
    assert [output.verdict for output in comparison.outputs] == ["equal"]


def test_a_file_is_written_while_values_are_computed(tmp_path: Path) -> None:
    """Values must be written and freed as soon as they are computed.

    A chain of a hundred values must need the memory of a few.
    """
    steps = "\n".join([
        f"  %{n + 1} = stablehlo.add %{n}, %{n} : tensor<100000xf64>" for n in range(100)
    ])  # fmt: skip
    text = f"""func.func @main(%x: tensor<100000xf64>) -> tensor<100000xf64> {{
  %0 = stablehlo.negate %x : tensor<100000xf64>
{steps}
  return %100 : tensor<100000xf64>
}}"""
    x = np.ones(100000)
    xla_peer.golden(text, [x], until="%1")
    tracemalloc.start()
    try:
        xla_peer.golden(text, [x], tmp_path / "all.npz")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "all.npz").stat().st_size > 100 * x.nbytes
    assert peak < 20 * x.nbytes


def test_the_first_value_that_is_wrong_is_named() -> None:
    dump = xla_peer.golden(TEXT, [X, K])
    for name in ("%1", "%2", "%4#1"):
        dump[name] = dump[name] * (1 + 1e-9)
    comparison = xla_peer.compare_golden(TEXT, [X, K], dump)
    assert not comparison.ok
    assert comparison.first is not None
    value, output = comparison.first
    assert (value.name, value.line, output.verdict) == ("%1", 9, "wrong: dump")
    assert "line 9: %1 = call @f(%0)" in str(comparison)
    assert comparison.to_dict()["first"] == {"name": "%1", "line": 9}
    partial = xla_peer.compare_golden(TEXT, [X, K], {"%2": expected()["%2"], "other": X})
    assert partial.ok
    assert len(partial.missing) == 10
    assert "1 values compared, 10 not in the dump: all agree" in str(partial)


def test_dumps_that_do_not_fit() -> None:
    with pytest.raises(errors.InvalidConfigError, match="none of the dump's names"):
        xla_peer.compare_golden(TEXT, [X, K], {"y": X})
    with pytest.raises(errors.DTypeError, match=r"%0 is f64\[2\], got float32"):
        xla_peer.compare_golden(TEXT, [X, K], {"%0": X.astype("f4")})
    with pytest.raises(errors.ShapeError, match=r"%0 is f64\[2\], got shape \[1\]"):
        xla_peer.compare_golden(TEXT, [X, K], {"%0": X[:1]})


def test_open_extents_are_refused() -> None:
    text = """func.func @main(%x: tensor<?xf64>, %n: tensor<1xi32>) -> tensor<?xf64> {
  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<?xf64>, tensor<1xi32>) -> tensor<?xf64>
  return %0 : tensor<?xf64>
}"""
    with pytest.raises(errors.UnsupportedError, match=r"dynamic_reshape.*lose their names"):
        xla_peer.golden(text, [X, np.array([2], "i4")])


def test_the_command_line(tmp_path: Path) -> None:
    module, inputs, out = (tmp_path / name for name in ("m.mlir", "x.npz", "all.npz"))
    module.write_text(TEXT)
    np.savez(inputs, x=X, k=K)
    command = ["golden", str(module), "--inputs", str(inputs)]
    done = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert CliRunner().invoke(app, [*command, "--diff", str(out)]).exit_code == 0
    shown = CliRunner().invoke(app, [*command, "--until", "1", "--only", "%0"])
    assert "%0" in shown.output
    assert "%cst" not in shown.output
    wrong = dict(xla_peer.golden(TEXT, [X, K]))
    wrong["%2"] = wrong["%2"] + 1e-6
    np.savez(tmp_path / "wrong.npz", **wrong)
    done = CliRunner().invoke(app, [*command, "--diff", str(tmp_path / "wrong.npz"), "--json"])
    assert done.exit_code == 1
    assert json.loads(done.output)["first"]["name"] == "%2"


BRANCHES = """func.func private @g(%a: tensor<2xf64>) -> tensor<2xf64> {
  %0 = stablehlo.sine %a : tensor<2xf64>
  return %0 : tensor<2xf64>
}
func.func @main(%x: tensor<2xf64>, %p: tensor<i1>, %n: tensor<i32>) -> (tensor<2xf64>, tensor<2xf64>) {
  %0 = "stablehlo.if"(%p) ({
    %a = stablehlo.negate %x : tensor<2xf64>
    stablehlo.return %a : tensor<2xf64>
  }, {
    %a = func.call @g(%x) : (tensor<2xf64>) -> tensor<2xf64>
    stablehlo.return %a : tensor<2xf64>
  }) : (tensor<i1>) -> tensor<2xf64>
  %1 = "stablehlo.case"(%n) ({
    stablehlo.return %0 : tensor<2xf64>
  }, {
    %b = stablehlo.cosine %0 : tensor<2xf64>
    stablehlo.return %b : tensor<2xf64>
  }) : (tensor<i32>) -> tensor<2xf64>
  return %0, %1 : tensor<2xf64>, tensor<2xf64>
}
"""


def test_values_inside_have_the_way_to_them(tmp_path: Path) -> None:
    """With `inside`, values of loops must be listed by iteration.

    Values of `main` must equal those that are listed without `inside`.
    """
    values = xla_peer.golden(TEXT, [X, K], inside=True)
    outer = xla_peer.golden(TEXT, [X, K])
    assert [name for name in values if "/" not in name] == list(outer)
    for name, y in outer.items():
        np.testing.assert_array_equal(values[name], y)
    np.testing.assert_array_equal(values["%1/@f/%0"], values["%1"])
    assert [bool(values[f"%4/{n}/cond/%t"]) for n in range(4)] == [True, True, True, False]
    assert [int(values[f"%4/{n}/%n"]) for n in range(3)] == [1, 2, 3]
    np.testing.assert_allclose(values["%4/1/%w"], np.sin(np.sin(values["%3#0"])), 1e-15)
    assert list(values).index("%4/2/%w") < list(values).index("%4#0")
    chosen = xla_peer.golden(TEXT, [X, K], only=["%4/1", "%0"], inside=True)
    assert list(chosen) == ["%0", "%4/1/cond/%t", "%4/1/%one", "%4/1/%n", "%4/1/%w"]
    assert list(xla_peer.golden(TEXT, [X, K], until="%4/0/%n", inside=True))[-1] == "%4/0/%n"
    with pytest.raises(errors.InvalidConfigError, match="no value %4/7/%w in this run"):
        xla_peer.golden(TEXT, [X, K], tmp_path / "none.npz", only=["%4/7/%w"], inside=True)
    assert not (tmp_path / "none.npz").exists()
    with pytest.raises(errors.ShapeError, match=r"f64\[2\] in the module, got f64\[3\]"):
        xla_peer.golden(TEXT, [np.ones(3), K], inside=True)


@pytest.mark.parametrize(("p", "n"), [(True, 0), (False, 1), (False, 7)])
def test_values_inside_of_branches(p: bool, n: int) -> None:
    values = xla_peer.golden(BRANCHES, [X, np.bool_(p), np.int32(n)], inside=True)
    inside = {"%0/true/%a": -X} if p else {"%0/false/%a/@g/%0": np.sin(X), "%0/false/%a": np.sin(X)}
    last = {f"%1/{min(n, 1)}/%b": np.cos(np.sin(X))} if n else {}
    wanted = {**inside, "%0": -X if p else np.sin(X), **last}
    wanted["%1"] = np.cos(wanted["%0"]) if n else wanted["%0"]
    assert list(values) == list(wanted)
    for name, y in wanted.items():
        np.testing.assert_allclose(values[name], y, 1e-15)


def test_the_first_value_inside_that_is_wrong_is_named(tmp_path: Path) -> None:
    """The named value must be one that is wrong although its operands are right.

    Values that are computed from wrong operands must not be named.
    """
    dump = xla_peer.golden(TEXT, [X, K], inside=True)
    assert xla_peer.compare_golden(TEXT, [X, K], dump, inside=True).ok
    dump["%4/1/%w"] = dump["%4/1/%w"] * (1 + 1e-9)
    dump["%4/2/%w"] = np.nextafter(np.sin(dump["%4/1/%w"]), 9)
    dump["%4#1"] = dump["%4/2/%w"]
    np.savez(tmp_path / "theirs.npz", **dump)
    comparison = xla_peer.compare_golden(TEXT, [X, K], tmp_path / "theirs.npz", inside=True)
    assert comparison.first is not None
    assert (comparison.first[0].name, comparison.first[0].line) == ("%4/1/%w", 26)
    verdicts = {output.name: output.verdict for output in comparison.outputs}
    assert verdicts["%4/1/%w"] == "wrong: dump"
    assert verdicts["%4/2/%w"] == "rounding"
    wrong = {"%4/1/%w": dump["%4/1/%w"].astype("f4")}
    with pytest.raises(errors.DTypeError, match=r"%4/1/%w is f64\[2\], got float32"):
        xla_peer.compare_golden(TEXT, [X, K], wrong, inside=True)
    with pytest.raises(errors.InvalidConfigError, match="is a value of the run"):
        xla_peer.compare_golden(TEXT, [X, K], {"%9": X}, inside=True)
    module, inputs = tmp_path / "m.mlir", tmp_path / "x.npz"
    module.write_text(TEXT)
    np.savez(inputs, x=X, k=K)
    command = ["golden", str(module), "--inputs", str(inputs), "--inside", "--json"]
    done = CliRunner().invoke(app, [*command, "--diff", str(tmp_path / "theirs.npz")])
    assert done.exit_code == 1
    assert json.loads(done.output)["first"] == {"name": "%4/1/%w", "line": 26}


@pytest.mark.parametrize("dtype", ["float64", "int32", "float16"])
def test_a_dump_of_another_dtype_is_refused_by_its_dtype(dtype: str, tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.negate %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    x = np.ones(4, np.float32)
    path = tmp_path / "dump.npz"
    dump: dict[str, Any] = {"%0": np.ones(4, dtype)}
    np.savez(path, **dump)
    with pytest.raises(errors.DTypeError, match=rf"%0 is f32\[4\], got {dtype} in the dump"):
        xla_peer.compare_golden(text, [x], path)


@pytest.mark.parametrize("inside", [False, True])
def test_a_file_that_is_no_archive_is_refused_by_its_name(inside: bool, tmp_path: Path) -> None:
    path = tmp_path / "dump.npz"
    path.write_text("no archive")
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { %0 = stablehlo.negate %x : tensor<f32> return %0 : tensor<f32> }"
    with pytest.raises(errors.InvalidConfigError, match=r"dump\.npz is not an \.npz file"):
        xla_peer.compare_golden(text, [np.float32(1)], path, inside=inside)

"""Edge cases of the import: all forms of counted loops, random bits word by word, and joined regions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import RandomAlgorithm

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, importing, lower_to_stablehlo
from tenferro import errors
from tenferro.ops.control import ControlOp, Scan, While
from tests.pairs import in_turn
from xla_peer import XlaExecutor

XLA = XlaExecutor()
COUNTED = """
func.func @main(%x: tensor<f64>) -> (tensor<{kind}>, tensor<f64>) {{
  %start = stablehlo.constant dense<{start}> : tensor<{kind}>
  %bound = stablehlo.constant dense<{bound}> : tensor<{kind}>
  %r:2 = stablehlo.while(%i = %start, %y = %x) : tensor<{kind}>, tensor<f64>
  cond {{
    %p = stablehlo.compare {direction}, {operands} : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %s = stablehlo.constant dense<{step}> : tensor<{kind}>
    %j = stablehlo.{change} : tensor<{kind}>
    %t = stablehlo.sine %y : tensor<f64>
    %z = stablehlo.add %t, %x : tensor<f64>
    stablehlo.return %j, %z : tensor<{kind}>, tensor<f64>
  }}
  return %r#0, %r#1 : tensor<{kind}>, tensor<f64>
}}
"""
COMPARISONS = {
    "LT": lambda i, n: i < n,
    "LE": lambda i, n: i <= n,
    "GT": lambda i, n: i > n,
    "GE": lambda i, n: i >= n,
    "NE": lambda i, n: i != n,
}
# Each entry has the direction of the comparison, whether the bound is its first operand, the start, the bound, the
# step, and the number of iterations.
LOOPS = [
    ("LT", False, 0, 5, 1, 5),
    ("LT", False, 0, 5, 2, 3),
    ("LT", False, 0, 6, 2, 3),
    ("LE", False, 1, 5, 2, 3),
    ("LE", False, 1, 6, 2, 3),
    ("GT", False, 5, 0, -1, 5),
    ("GT", False, 5, 0, -2, 3),
    ("GE", False, 6, 0, -2, 4),
    ("NE", False, 2, 8, 3, 2),
    ("NE", False, 8, 2, -3, 2),
    ("GT", True, 0, 5, 1, 5),
    ("GE", True, 1, 5, 2, 3),
    ("LT", True, 5, 0, -1, 5),
    ("LE", True, 6, 0, -2, 4),
    ("NE", True, 0, 3, 1, 3),
    ("LT", False, 5, 5, 1, 0),
    ("LT", False, 7, 5, 1, 0),
    ("LE", False, 5, 5, 1, 1),
    ("NE", False, 4, 4, 1, 0),
]


def counted(direction: str, is_flipped: bool, start: int, bound: int, step: int, kind: str, change: str) -> str:  # fmt: skip
    return COUNTED.format(
        direction=direction,
        operands="%bound, %i" if is_flipped else "%i, %bound",
        start=start,
        bound=bound,
        step=abs(step) if change == "subtract %i, %s" else step,
        kind=kind,
        change=change,
    )


@pytest.mark.parametrize("kind", ["i32", "i64", "ui32", "i8"])
@pytest.mark.parametrize("loop", LOOPS, ids=str)
def test_counted_loops_are_scans(loop: Any, kind: str) -> None:
    direction, is_flipped, start, bound, step, iterations = loop
    changes = ["add %i, %s", "add %s, %i"] if step > 0 else ["add %i, %s", "subtract %i, %s"]
    if kind == "ui32" and start + iterations * step < 0:
        return  # because the last value of the counter would wrap
    if kind == "ui32" and step < 0:
        changes = ["subtract %i, %s"]
    for change in changes:
        text = counted(direction, is_flipped, start, bound, step, kind, change)
        program = import_stablehlo(text)
        (op,) = [i.op for i in program.instructions if isinstance(i.op, ControlOp)] or [None]
        assert op is None if not iterations and op is None else isinstance(op, Scan)
        assert op is None or op.length == iterations
        i, y = program.run(np.float64(0.4))
        n, wanted = start, 0.4
        for _ in range(iterations):
            n, wanted = n + step, math.sin(wanted) + 0.4
        assert int(i) == n
        assert abs(float(y) - wanted) < 1e-14


CARRIED = """
func.func @main(%x: tensor<f64>) -> (tensor<f64>, tensor<2xi64>) {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %end = stablehlo.constant dense<4> : tensor<i64>
  %pair = stablehlo.constant dense<[3, 9]> : tensor<2xi64>
  %half = stablehlo.constant dense<0.5> : tensor<f64>
  %r:5 = stablehlo.while(%i = %zero, %n = %end, %a = %pair, %h = %half, %y = %x)
      : tensor<i64>, tensor<i64>, tensor<2xi64>, tensor<f64>, tensor<f64>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %s = stablehlo.constant dense<1> : tensor<i64>
    %j = stablehlo.add %i, %s : tensor<i64>
    %z = stablehlo.multiply %y, %h : tensor<f64>
    stablehlo.return %j, %n, %a, %h, %z : tensor<i64>, tensor<i64>, tensor<2xi64>, tensor<f64>, tensor<f64>
  }
  return %r#4, %r#2 : tensor<f64>, tensor<2xi64>
}
"""


def test_a_bound_that_is_carried_unchanged_beside_other_constants() -> None:
    program = import_stablehlo(CARRIED)
    (op,) = [i.op for i in program.instructions if isinstance(i.op, ControlOp)]
    assert isinstance(op, Scan)
    assert op.length == 4
    y, pair = program.run(np.float64(16.0))
    assert float(y) == 1.0
    np.testing.assert_array_equal(pair, [3, 9])


CHOSEN = """
func.func @main(%x: tensor<5xf64>) -> tensor<f64> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %start = stablehlo.constant dense<0.25> : tensor<f64>
  %r:3 = stablehlo.while(%i = %zero, %v = %x, %y = %start) : tensor<i32>, tensor<5xf64>, tensor<f64>
  cond {{
    %p = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %slope = stablehlo.constant dense<{slope}> : tensor<i32>
    %first = stablehlo.constant dense<{first}> : tensor<i32>
    %none = stablehlo.constant dense<0> : tensor<i32>
    %other = stablehlo.multiply %i, %slope : tensor<i32>
    %side = stablehlo.add %other, %first : tensor<i32>
    %c = stablehlo.compare {direction}, {operands} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %back = stablehlo.subtract %four, %i : tensor<i32>
    %k = stablehlo.select %c, %i, %back : tensor<i1>, tensor<i32>
    %e = stablehlo.dynamic_slice %v, %k, sizes = [1] : (tensor<5xf64>, tensor<i32>) -> tensor<1xf64>
    %s = stablehlo.reshape %e : (tensor<1xf64>) -> tensor<f64>
    %t = stablehlo.sine %y : tensor<f64>
    %z = stablehlo.add %t, %s : tensor<f64>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %v, %z : tensor<i32>, tensor<5xf64>, tensor<f64>
  }}
  return %r#2 : tensor<f64>
}}
"""


@pytest.mark.parametrize("is_flipped", [False, True])
@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "EQ", "NE"])
def test_a_comparison_that_never_changes_chooses_the_slices_of_a_scan(
    direction: str, is_flipped: bool
) -> None:
    """For t = 0 .. 4, the loop reads x[t] if `slope * t + first` compares with 0 as `direction` says, else x[4 - t].

    If the comparison has the same value in all iterations, the imported loop must scan over x.
    """
    compare = {"EQ": lambda i, n: i == n, **COMPARISONS}[direction]
    x = np.random.default_rng(3).normal(size=5)
    for slope in (-1, 0, 1):
        for first in (-5, -4, -1, 0, 1, 4, 5):
            operands = "%none, %side" if is_flipped else "%side, %none"
            text = CHOSEN.format(direction=direction, slope=slope, first=first, operands=operands)
            program = import_stablehlo(text)
            wanted, chosen = 0.25, set[bool]()
            for t in range(5):
                side = slope * t + first
                holds = compare(0, side) if is_flipped else compare(side, 0)
                chosen.add(holds)
                wanted = math.sin(wanted) + x[t if holds else 4 - t]
            assert abs(float(program.run(x)) - wanted) < 1e-14
            (op,) = [i.op for i in program.instructions if isinstance(i.op, ControlOp)]
            assert isinstance(op, Scan)
            assert (op.num_consts == 0) == (len(chosen) == 1), (slope, first)


ALONG = """
func.func @main(%x: tensor<{extent}xf32>, %y: tensor<5xf32>) -> (tensor<f32>, tensor<5xf32>) {{
  %start = stablehlo.constant dense<{start}> : tensor<i32>
  %end = stablehlo.constant dense<{end}> : tensor<i32>
  %a0 = stablehlo.constant dense<0.5> : tensor<f32>
  %r:3 = stablehlo.while(%i = %start, %a = %a0, %s = %y) : tensor<i32>, tensor<f32>, tensor<5xf32>
  cond {{
    %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    {turn}
    %e = stablehlo.dynamic_slice %x, %k, sizes = [1] : (tensor<{extent}xf32>, tensor<i32>) -> tensor<1xf32>
    %f = stablehlo.reshape %e : (tensor<1xf32>) -> tensor<f32>
    %b = stablehlo.add %a, %a : tensor<f32>
    %c = stablehlo.add %b, %f : tensor<f32>
    %t = stablehlo.dynamic_update_slice %s, %e, %l : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
    stablehlo.return %j, %c, %t : tensor<i32>, tensor<f32>, tensor<5xf32>
  }}
  return %r#1, %r#2 : tensor<f32>, tensor<5xf32>
}}
"""
SHIFTED = "%o = stablehlo.constant dense<{}> : tensor<i32> %{} = stablehlo.{} : tensor<i32> "


@pytest.mark.parametrize("extent", [1, 2, 4])
@pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 1), (3, 4), (0, 2), (0, 4), (1, 5), (1, 6)])  # fmt: skip
@pytest.mark.parametrize("shift", [0, -1, -3])
def test_a_loop_goes_along_what_it_reads_from_end_to_end(
    start: int, end: int, extent: int, shift: int
) -> None:
    """The loop must scan over the array that it reads only if it reads all of it and no index is clamped."""
    turn = SHIFTED.format(shift, "k", "add %i, %o") + "%l = stablehlo.add %i, %i : tensor<i32>"
    program = import_stablehlo(ALONG.format(start=start, end=end, extent=extent, turn=turn))
    x, y = np.arange(1, extent + 1, dtype="f4"), -np.arange(1, 6, dtype="f4")
    total, wanted = 0.5, y.copy()
    for i in range(start, end):
        read = x[min(max(i + shift, 0), extent - 1)]
        total = 2 * total + read
        wanted[min(2 * i, 4)] = read
    found = program.run(x, y)
    assert found[0] == total
    np.testing.assert_array_equal(found[1], wanted)
    loops = [i.op for i in program.instructions if isinstance(i.op, Scan)]
    if end > start:
        (loop,) = loops
        gone_along = len(loop.body.program.input_slots) - loop.num_consts - loop.num_carry
        assert gone_along == (start + shift == 0 and end - start == extent)
        assert not loop.reverse


# Each entry has the indices that iteration i reads and writes, then the number of input slices and of stacked outputs
# of the imported scan, and whether it runs backwards.
WAYS: dict[str, tuple[str, Any, Any, int, int, bool]] = {
    "forwards both": ("i", lambda i: i, lambda i: i, 1, 1, False),
    "backwards both": ("v", lambda i: 4 - i, lambda i: 4 - i, 1, 1, True),
    "read forwards, written backwards": ("iv", lambda i: i, lambda i: 4 - i, 1, 0, False),
    "read backwards, written forwards": ("vi", lambda i: 4 - i, lambda i: i, 0, 1, False),
    "read at one place": ("oi", lambda i: 4, lambda i: i, 0, 1, False),
    "read at one place, written backwards": ("ov", lambda i: 4, lambda i: 4 - i, 0, 1, True),
    "read backwards, written at one place": ("vo", lambda i: 4 - i, lambda i: 4, 1, 0, True),
}


@pytest.mark.parametrize("name", WAYS)
def test_what_goes_the_other_way_is_indexed(name: str) -> None:
    places, read, written, xs, stacked, reverse = WAYS[name]
    turn = SHIFTED.format(4, "v", "subtract %o, %i")
    turn += "%n = stablehlo.constant dense<0> : tensor<i32> "
    for result, place in zip("kl", (places[0], places[-1]), strict=True):
        turn += f"%{result} = stablehlo.add %{place}, %n : tensor<i32> "
    program = import_stablehlo(ALONG.format(start=0, end=5, extent=5, turn=turn))
    x, y = np.arange(1, 6, dtype="f4"), -np.arange(1, 6, dtype="f4")
    total, wanted = 0.5, y.copy()
    for i in range(5):
        total = 2 * total + x[read(i)]
        wanted[written(i)] = x[read(i)]
    found = program.run(x, y)
    assert found[0] == total
    np.testing.assert_array_equal(found[1], wanted)
    (loop,) = [i.op for i in program.instructions if isinstance(i.op, Scan)]
    body = loop.body.program
    assert len(body.input_slots) - loop.num_consts - loop.num_carry == xs
    assert len(body.output_slots) - loop.num_carry == stacked
    assert loop.reverse == reverse


@pytest.mark.parametrize(("narrow", "name", "least", "most"), [("i8", "i1", -128, 127), ("ui8", "u1", 0, 255), ("i16", "i2", -(2**15), 2**15 - 1)])  # fmt: skip
@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("is_up", [True, False])
def test_indices_that_wrap_around_are_no_lines(
    narrow: str, name: str, least: int, most: int, is_up: bool, beyond: int
) -> None:
    """Iteration i reads x[i] if i + first is above the middle of the dtype's range, else x[4 - i].

    The sum may wrap, so that the comparison does not have the same value in all iterations.
    """
    first = most - 4 + beyond if is_up else least + 4 + beyond
    middle = (least + most) // 2
    change = "add %first, %w" if is_up else "subtract %first, %w"
    turn = (
        f"%w = stablehlo.convert %i : (tensor<i32>) -> tensor<{narrow}> "
        f"%first = stablehlo.constant dense<{first}> : tensor<{narrow}> "
        f"%g = stablehlo.{change} : tensor<{narrow}> "
        f"%h = stablehlo.constant dense<{middle}> : tensor<{narrow}> "
        f"%q = stablehlo.compare GT, %g, %h : (tensor<{narrow}>, tensor<{narrow}>) -> tensor<i1> "
        + SHIFTED.format(4, "v", "subtract %o, %i")
        + "%k = stablehlo.select %q, %i, %v : tensor<i1>, tensor<i32> "
        "%l = stablehlo.add %o, %o : tensor<i32>"
    )
    program = import_stablehlo(ALONG.format(start=0, end=5, extent=5, turn=turn))
    x, y = np.arange(1, 6, dtype="f4"), np.zeros(5, "f4")
    total, chosen = 0.5, []
    for i in range(5):
        number = first + i if is_up else first - i
        number = (number - least) % (most - least + 1) + least
        chosen.append(number > middle)
        total = 2 * total + x[i if chosen[-1] else 4 - i]
    assert program.run(x, y)[0] == total
    (loop,) = [i.op for i in program.instructions if isinstance(i.op, Scan)]
    gone_along = len(loop.body.program.input_slots) - loop.num_consts - loop.num_carry
    assert gone_along == (len(set(chosen)) == 1)


def test_loops_that_data_end_or_that_wrap_around_are_while_loops() -> None:
    forms = [
        counted("EQ", False, 0, 0, 1, "i32", "add %i, %s"),
        counted("LT", False, 0, 5, 0, "i32", "add %i, %s"),
        counted("LT", False, 120, 127, 5, "i8", "add %i, %s"),
        counted("NE", False, 0, 5, 2, "i32", "add %i, %s"),
        counted("LT", False, 1, 40, 1, "i32", "multiply %i, %i").replace("%s = ", "%unused = "),
    ]
    for text in forms:
        program = import_stablehlo(text)
        (op,) = [i.op for i in program.instructions if isinstance(i.op, ControlOp)]
        assert isinstance(op, While), text


# ---- random bits -------------------------------------------------------------------------------------


@in_turn("dtype", ["uint8", "uint16", "uint32", "uint64"], "algorithm", list(RandomAlgorithm))
def test_random_bits_are_those_of_jax(dtype: str, algorithm: RandomAlgorithm) -> None:
    """The random bits and the final state must equal JAX's.

    JAX compiles the module that the test imports.
    """
    states = [[0, 0], [2**40 + 5, 7], [2**63 + 3, 2**64 - 2], [1, 2**32 - 1]]
    for shape in [(), (3,), (2, 5), (5, 7, 3)]:

        def bits(state: Any, shape: tuple[int, ...] = shape) -> Any:
            return jax.lax.rng_bit_generator(state, shape, dtype, algorithm)

        with jax.enable_x64(True):
            program = xla_peer.from_jax(bits, np.array(states[0], "u8"))
            for state in states:
                array = np.array(state, "u8")
                results = zip(program.run(array), jax.jit(bits)(array), strict=True)
                for y, expected in results:
                    np.testing.assert_array_equal(y, expected, err_msg=f"{shape} {state}")


@pytest.mark.parametrize("state", [[5, 2**64 - 1, 0], [5, 2**64 - 2, 2**64 - 1], [7, 3, 9]])
def test_random_bits_of_a_longer_state(state: list[int]) -> None:
    """A state of three numbers must yield XLA's bits.

    The third number is the upper half of the counter, which must carry over.
    """
    text = """
    func.func @main(%s: tensor<3xui64>) -> (tensor<3xui64>, tensor<9xui32>) {
      %t, %v = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<3xui64>) -> (tensor<3xui64>, tensor<9xui32>)
      return %t, %v : tensor<3xui64>, tensor<9xui32>
    }
    """
    array = np.array(state, "u8")
    program = import_stablehlo(text)
    ours = lower_to_stablehlo(program)
    module = replace(ours, text=text, plain_text=text, trusted=False)
    expected = XLA.compile_module(module)(XLA.put(array))
    for y, each in zip(program.run(array), expected, strict=True):
        np.testing.assert_array_equal(y, XLA.get(each))


@pytest.mark.parametrize(
    ("kind", "dtype"), [("i8", "i1"), ("i16", "i2"), ("i32", "i4"), ("i64", "i8"), ("f16", "f2"), ("f32", "f4"), ("f64", "f8")]
)  # fmt: skip
def test_random_bits_as_numbers_of_another_kind(kind: str, dtype: str) -> None:
    """Random signed integers and floats must have the bits of random unsigned integers of the same width."""
    text = """func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<5x{}>) {{
      %t, %v = stablehlo.rng_bit_generator %s, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5x{}>)
      return %t, %v : tensor<2xui64>, tensor<5x{}>
    }}"""
    state, word = np.array([3, 11], "u8"), f"ui{8 * np.dtype(dtype).itemsize}"
    found = import_stablehlo(text.format(kind, kind, kind)).run(state)
    plain = import_stablehlo(text.format(word, word, word)).run(state)
    assert found[1].dtype == np.dtype(dtype)
    assert found[1].tobytes() == plain[1].tobytes()
    assert found[0].tobytes() == plain[0].tobytes()


@pytest.mark.parametrize("state", ["1xui64", "4xui64", "2xui32", "3xi64"])
def test_states_of_another_kind_are_refused(state: str) -> None:
    text = f"""func.func @main(%s: tensor<{state}>) -> tensor<5xui32> {{
      %t, %v = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<{state}>) -> (tensor<{state}>, tensor<5xui32>)
      return %v : tensor<5xui32>
    }}"""
    with pytest.raises(
        errors.UnsupportedError, match=r"a state of .*; ui64\[2\] and ui64\[3\] are known"
    ):
        import_stablehlo(text)


def test_bits_of_a_type_without_bits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    text = """func.func @main(%s: tensor<2xui64>) -> tensor<2xui64> {
      %t, %v = stablehlo.rng_bit_generator %s, algorithm = DEFAULT
        : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5x!stablehlo.token>)
      return %t : tensor<2xui64>
    }"""
    with pytest.raises(errors.UnsupportedError, match="bits of type tensor"):
        import_stablehlo(text)


def test_sorts_by_other_comparators_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sorting network has a vector of indices in each round, so huge extents would exhaust the memory."""
    monkeypatch.setattr(importing, "is_jaxlib_installed", lambda: False)
    text = """func.func @main(%x: tensor<4294967296xf32>) -> tensor<4294967296xf32> {
      %y = "stablehlo.sort"(%x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.sine %a : tensor<f32>
          %p = stablehlo.compare LT, %c, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
      }) : (tensor<4294967296xf32>) -> tensor<4294967296xf32>
      return %y : tensor<4294967296xf32>
    }"""
    with pytest.raises(errors.UnsupportedError, match="at most 32768 are sorted"):
        import_stablehlo(text)


# ---- calls in JAX's modules ----------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", ["approx_max_k", "approx_min_k"])
def test_approximate_largest_elements_are_the_exact_ones(name: str, axis: int) -> None:
    x = np.random.default_rng(1).permutation(42).reshape(6, 7).astype("f4")
    call = lambda x: getattr(jax.lax, name)(x, 3, reduction_dimension=axis)
    values, places = xla_peer.from_jax(call, x).run(x)
    order = np.argsort(-x if name == "approx_max_k" else x, axis=axis, kind="stable")
    first = np.take(order, range(3), axis=axis)
    np.testing.assert_array_equal(places, first)
    np.testing.assert_array_equal(values, np.take_along_axis(x, first, axis))


@pytest.mark.parametrize("kind", ["bool", "int8", "uint16", "int64", "float16", "float32"])
def test_products_of_other_kinds(kind: str) -> None:
    """Products of bools must be logical, and integers must wrap.

    float16 must accumulate in the dtype that the module requests.
    """
    rng = np.random.default_rng(2)
    x, y = (
        rng.integers(0, 2 if kind == "bool" else 9, shape).astype(kind)
        for shape in ((3, 4), (4, 2))
    )
    with jax.enable_x64(True):
        wanted = np.asarray(jnp.matmul(x, y))
        program = xla_peer.from_jax(jnp.matmul, x, y)
    result = program.run(x, y)
    assert result.dtype == wanted.dtype
    np.testing.assert_array_equal(result, wanted)
    if kind == "bool":
        np.testing.assert_array_equal(result, (x.astype(int) @ y.astype(int)) > 0)
        many = xla_peer.from_jax(jnp.matmul, np.ones((1, 256), bool), np.ones((256, 1), bool))
        assert many.run(np.ones((1, 256), bool), np.ones((256, 1), bool)).item() is True
    wide = jax.lax.dot(x, y, preferred_element_type="float32") if kind == "float16" else None
    if wide is not None:
        program = xla_peer.from_jax(
            lambda x, y: jax.lax.dot(x, y, preferred_element_type="float32"), x, y
        )
        assert program.run(x, y).dtype == np.float32
        np.testing.assert_array_equal(program.run(x, y), np.asarray(wide))


def test_pieces_of_two_scatters_at_once() -> None:
    """A region that sets one operand and adds to another must be an error.

    A region that does only one of these to both operands must be imported.
    """
    x = np.arange(6.0)
    places = np.array([[1], [1], [4]])
    updates = np.array([10.0, 20.0, 30.0])
    for name in ("add", "multiply", "min", "max", "set"):
        f = lambda x, u, name=name: getattr(x.at[places[:, 0]], name)(u)
        with jax.enable_x64(True):
            wanted = np.asarray(f(jnp.asarray(x), jnp.asarray(updates)))
        program = xla_peer.from_jax(f, x, updates)
        np.testing.assert_array_equal(program.run(x, updates), wanted)
        assert tnf.GraphExecutor(compiled=False).run(program, x, updates).dtype == wanted.dtype

"""A sort in the total order of floats must be read as one op.

The order is -NaN < -inf < .. < -0 < 0 < .. < inf < NaN.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tenferro as tnf
import xla_peer
from lowering import import_stablehlo, lower_to_stablehlo
from tenferro.ops.reduction import Sort, TopK
from tenferro.ops.structural import Concatenate

NAN = np.float32(np.nan)
X = np.array([np.inf, NAN, -NAN, -np.inf, 3, -0.0, 0.0, -3, NAN, 0.0, -0.0, -NAN], "f4")
FORMS = {"f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8"}
LETTERS = "abcdef"


def rank(x: Any) -> list[tuple[bool, int]]:
    """Return a key for each float, such that keys are in the total order of the floats.

    A key has the sign and the magnitude as an integer.
    """
    x = np.asarray(x)
    words = x.view(f"u{x.itemsize}")
    top = 8 * x.itemsize - 1
    parts = [(int(w) >> top, int(w) & ((1 << top) - 1)) for w in words]
    return [(not sign, -size if sign else size) for sign, size in parts]


def order_of(x: Any, descending: bool) -> Any:
    """Return the indices of the elements in sorted order.

    Equal elements keep their order, even in a descending sort.
    """
    ranks = rank(x)
    return np.array(sorted(range(len(x)), key=ranks.__getitem__, reverse=descending))


def top_k_of(form: str, k: int, n: int) -> str:
    return f"""func.func @main(%x: tensor<{n}x{form}>) -> (tensor<{k}x{form}>, tensor<{k}xi32>) {{
  %v, %p = chlo.top_k(%x, k = {k}) : tensor<{n}x{form}> -> (tensor<{k}x{form}>, tensor<{k}xi32>)
  return %v, %p : tensor<{k}x{form}>, tensor<{k}xi32>
}}"""


def sort_of(kinds: list[str], body: str, n: int = len(X)) -> str:
    """Return a module that sorts %x0, %x1, .. by a comparator.

    The arguments of the comparator are %a, %b for %x0, then %c, %d for %x1, and so on.
    """
    tensors = [f"tensor<{n}x{kind}>" for kind in kinds]
    takes = ", ".join(f"%x{i}: {t}" for i, t in enumerate(tensors))
    scalars = [f"%{LETTERS[i]}: tensor<{kinds[i // 2]}>" for i in range(2 * len(kinds))]
    given = ", ".join(f"%x{i}" for i in range(len(kinds)))
    results = f"%0:{len(kinds)}" if len(kinds) > 1 else "%0"
    made = ", ".join(f"%0#{i}" for i in range(len(kinds))) if len(kinds) > 1 else "%0"
    types = ", ".join(tensors)
    return f"""func.func @main({takes}) -> ({types}) {{
  {results} = "stablehlo.sort"({given}) <{{dimension = 0 : i64, is_stable = true}}> ({{ ^bb0({", ".join(scalars)}):
    {body}
  }}) : ({types}) -> ({types})
  return {made} : {types}
}}"""


def compared(direction: str, kind: str = "f32", names: str = "ab", result: str = "r") -> str:
    pair = ", ".join(f"%{name}" for name in names)
    return f"%{result} = stablehlo.compare {direction}, {pair}, TOTALORDER : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1>"


RETURNED = "stablehlo.return %r : tensor<i1>"


def bits(x: Any) -> Any:
    return np.asarray(x).view(f"u{np.asarray(x).itemsize}")


def both(program: Any, *inputs: Any) -> list[Any]:
    results = [program.run(*inputs), xla_peer.XlaExecutor().run(program, *inputs)]
    return [r if isinstance(r, tuple) else (r,) for r in results]


@pytest.mark.parametrize("form", FORMS)
def test_top_k(form: str) -> None:
    x = X.astype(FORMS[form])
    assert (np.signbit(x) == np.signbit(X)).all()
    order = order_of(x, descending=True)[:7]
    for values, places in both(import_stablehlo(top_k_of(form, 7, len(x))), x):
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(bits(values), bits(x[order]))


@pytest.mark.parametrize("target", ["mhlo.topk", "TopK"])
@pytest.mark.parametrize("largest", [True, False])
def test_calls_of_top_k(target: str, largest: bool) -> None:
    text = f"""func.func @main(%x: tensor<12xf32>) -> (tensor<5xf32>, tensor<5xi32>) {{
  %0:2 = stablehlo.custom_call @{target}(%x) {{mhlo.attributes = {{k = 5 : i64, largest = {str(largest).lower()}}},
    mhlo.version = 1 : i64}} : (tensor<12xf32>) -> (tensor<5xf32>, tensor<5xi32>)
  return %0#0, %0#1 : tensor<5xf32>, tensor<5xi32>
}}"""
    values, places = import_stablehlo(text).run(X)
    order = order_of(X, descending=largest)[:5]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(bits(values), bits(X[order]))


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 3, 0), (2, 0, 0)])
def test_top_k_of_nothing(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    text = top_k_of("f32", k, n).replace(f"tensor<{n}x", f"tensor<{m}x{n}x")
    text = text.replace(f"tensor<{k}x", f"tensor<{m}x{k}x") if n != k else text
    values, places = import_stablehlo(text).run(np.zeros((m, n), "f4"))
    assert values.shape == places.shape == (m, k)


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("form", FORMS)
def test_one_operand(direction: str, form: str) -> None:
    program = import_stablehlo(sort_of([form], f"{compared(direction, form)} {RETURNED}"))
    x = X.astype(FORMS[form])
    wanted = bits(x[order_of(x, direction == "GT")])
    for (found,) in both(program, x):
        np.testing.assert_array_equal(bits(found), wanted)
    assert sum(isinstance(i.op, Sort) for i in program.instructions) == 1


@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_several_operands(direction: str) -> None:
    """One operand is the key. There may be any number of other operands, of any dtype."""
    program = import_stablehlo(sort_of(["f32", "i32", "f32"], f"{compared(direction)} {RETURNED}"))
    others = np.arange(len(X), dtype="i4"), np.linspace(0, 1, len(X), dtype="f4")
    order = order_of(X, direction == "GT")
    for found in both(program, X, *others):
        for y, x in zip(found, (X, *others), strict=True):
            np.testing.assert_array_equal(bits(y), bits(x[order]))
    assert sum(isinstance(i.op, Sort) for i in program.instructions) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_lowered_again_it_is_the_sort_that_it_was(direction: str, form: str) -> None:
    """Lowering an imported sort must write the original sort.

    The text must not contain the integer keys that the op may use.
    """
    given = sort_of([form, "i32"], compared(direction, form) + RETURNED)
    program = import_stablehlo(given)
    text = lower_to_stablehlo(program).text
    assert f"compare {direction}, %a0, %b0, TOTALORDER" in text
    assert text.count('"stablehlo.sort"') == 1
    assert "bitcast_convert" not in text
    assert lower_to_stablehlo(import_stablehlo(text)).text == text
    y = X.astype(FORMS[form])
    places = np.arange(len(y), dtype="i4")
    order = order_of(y, direction == "GT")
    found, places = xla_peer.XlaExecutor().run(program, y, places)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(bits(found), bits(y[order]))


def test_integers_in_the_total_order_that_are_read() -> None:
    body = (
        """%r = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> """
    )
    text = f"""func.func @main(%x: tensor<12xf32>) -> (tensor<12xi32>, tensor<12xf32>) {{
  %w = stablehlo.bitcast_convert %x : (tensor<12xf32>) -> tensor<12xi32>
  %c = stablehlo.constant dense<31> : tensor<12xi32>
  %s = stablehlo.shift_right_arithmetic %w, %c : tensor<12xi32>
  %l = stablehlo.constant dense<2147483647> : tensor<12xi32>
  %m = stablehlo.and %s, %l : tensor<12xi32>
  %k = stablehlo.xor %w, %m : tensor<12xi32>
  %0:2 = "stablehlo.sort"(%k, %x) <{{dimension = 0 : i64, is_stable = true}}> ({{
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %p: tensor<f32>, %q: tensor<f32>): {body} {RETURNED}
  }}) : (tensor<12xi32>, tensor<12xf32>) -> (tensor<12xi32>, tensor<12xf32>)
  return %0#0, %0#1 : tensor<12xi32>, tensor<12xf32>
}}"""
    program = import_stablehlo(text)
    assert "TOTALORDER" in lower_to_stablehlo(program).text
    x = X[order_of(X, descending=False)]
    words = x.view("i4")
    for integers, found in both(program, X):
        np.testing.assert_array_equal(integers, words ^ ((words >> 31) & 0x7FFFFFFF))
        np.testing.assert_array_equal(bits(found), bits(x))
    other = text.replace("dense<31>", "dense<30>")
    assert "TOTALORDER" not in lower_to_stablehlo(import_stablehlo(other)).text


def test_two_keys() -> None:
    """A comparator may have two keys.

    Here the first key is ascending. For equal first keys, the second key is descending.
    """
    body = (
        f"{compared('LT', names='ab', result='s')} {compared('EQ', names='ab', result='e')} "
        f"{compared('GT', names='cd', result='t')} %u = stablehlo.and %e, %t : tensor<i1> "
        f"%r = stablehlo.or %s, %u : tensor<i1> {RETURNED}"
    )
    program = import_stablehlo(sort_of(["f32", "f32"], body, 144))
    x, y = np.repeat(X, 12), np.tile(X, 12)
    first, second = rank(x), rank(y)
    order = np.array(
        sorted(sorted(range(144), key=second.__getitem__, reverse=True), key=first.__getitem__)
    )
    for found in both(program, x, y):
        for z, v in zip(found, (x, y), strict=True):
            np.testing.assert_array_equal(bits(z), bits(v[order]))
    assert sum(isinstance(i.op, Sort) for i in program.instructions) == 2


def test_descending_with_places_is_the_top() -> None:
    """The first elements of a descending sort with indices must be read as TopK.

    StableHLO expands chlo.top_k to this form.
    """
    text = """func.func @main(%x: tensor<2x12xf32>) -> (tensor<2x5xf32>, tensor<2x5xi32>) {
  %i = stablehlo.iota dim = 1 : tensor<2x12xi32>
  %0:2 = "stablehlo.sort"(%x, %i) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %r = stablehlo.compare GT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %r : tensor<i1>
  }) : (tensor<2x12xf32>, tensor<2x12xi32>) -> (tensor<2x12xf32>, tensor<2x12xi32>)
  %v = stablehlo.slice %0#0 [0:2, 0:5] : (tensor<2x12xf32>) -> tensor<2x5xf32>
  %p = stablehlo.slice %0#1 [0:2, 0:5] : (tensor<2x12xi32>) -> tensor<2x5xi32>
  return %v, %p : tensor<2x5xf32>, tensor<2x5xi32>
}"""
    program = import_stablehlo(text)
    x = np.stack([X, X[::-1]])
    orders = np.stack([order_of(row, descending=True)[:5] for row in x])
    for values, places in both(program, x):
        np.testing.assert_array_equal(places, orders)
        np.testing.assert_array_equal(bits(values), bits(np.take_along_axis(x, orders, 1)))
    assert {i.op.k for i in program.instructions if isinstance(i.op, TopK)} == {5}


def test_gradients_reach_the_values() -> None:
    x = np.array([2.0, -1.0, 5.0, 0.5], "f4")
    w = np.arange(1, 5, dtype="f4")
    for direction, wanted in (("LT", [3, 1, 4, 2]), ("GT", [2, 4, 1, 3])):
        program = import_stablehlo(sort_of(["f32"], f"{compared(direction)} {RETURNED}", 4))
        found = tnf.grad(lambda x, p=program: tnf.sum(w * p(x)))(x)
        np.testing.assert_array_equal(found, wanted)
    top = import_stablehlo(top_k_of("f32", 2, 4))
    found = tnf.grad(lambda x: tnf.sum(w[:2] * top(x)[0]))(x)
    np.testing.assert_array_equal(found, [2, 0, 1, 0])


def test_text_does_not_grow_with_the_extent() -> None:
    """The text must not contain a network of comparisons.

    The index tables of a network would need 457 MB here.
    """
    program = import_stablehlo(sort_of(["f32"], f"{compared('LT')} {RETURNED}", 100_000))
    assert len(lower_to_stablehlo(program).text) < 5_000
    x = np.random.default_rng(0).standard_normal(100_000).astype("f4")
    np.testing.assert_array_equal(program.run(x), np.sort(x))


def test_zeros_alone_told_apart_is_another_order() -> None:
    """A comparator that treats NaN as equal but zeros as different has neither NumPy's order nor the total order.

    It must therefore be interpreted.
    """
    body = (
        "%n = stablehlo.constant dense<0x7FC00000> : tensor<f32> "
        "%e = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        "%f = stablehlo.compare NE, %b, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1> "
        "%p = stablehlo.select %e, %n, %a : tensor<i1>, tensor<f32> "
        "%q = stablehlo.select %f, %n, %b : tensor<i1>, tensor<f32> "
        f"{compared('LT', names='pq')} {RETURNED}"
    )
    found = import_stablehlo(sort_of(["f32"], body)).run(X)
    clean = np.where(np.isnan(X), NAN, X)
    order = order_of(clean, descending=False)
    np.testing.assert_array_equal(bits(found), bits(X[order]))


def one_compared(direction: str, pair: str, kind: str, result: str) -> str:
    x, y = pair.split()
    return f"%{result} = stablehlo.compare {direction}, %{x}, %{y} : (tensor<{kind}>, tensor<{kind}>) -> tensor<i1> "


@pytest.mark.parametrize("is_outside", [False, True], ids=["inside", "outside"])
@pytest.mark.parametrize(
    ("kind", "low", "high", "between"),
    [
        ("f32", 1000.0, 1400.0, 1200.0), ("f32", 999.0, 1001.0, 1000.0), ("f32", -40.0, -30.0, -35.0),
        ("f64", 1e5, 1e5 + 2**-30, 1e5 + 2**-31), ("f16", 0.25, 0.3125, 0.28125),
        ("bf16", 512.0, 520.0, 516.0), ("i32", 1000, 1400, 1200), ("i32", 999, 1001, 1000),
        ("i8", -100, -98, -99), ("ui8", 99, 101, 100),
    ],
)  # fmt: skip
def test_numbers_between_two_constants_go_first(
    kind: str, low: float, high: float, between: float, is_outside: bool
) -> None:
    """A comparator may read constants.

    Here the numbers between two constants come first, even if the constants are very close.
    """
    constants = (
        f"%low = stablehlo.constant dense<{low}> : tensor<{kind}> "
        f"%high = stablehlo.constant dense<{high}> : tensor<{kind}> "
    )
    body = "" if is_outside else constants
    for name in "ab":
        body += one_compared("GT", f"{name} low", kind, f"l{name}")
        body += one_compared("LT", f"{name} high", kind, f"h{name}")
        body += f"%s{name} = stablehlo.and %l{name}, %h{name} : tensor<i1> "
    body += one_compared("LT", "a b", kind, "less")
    body += "%d = stablehlo.xor %sa, %sb : tensor<i1> "
    body += f"%r = stablehlo.select %d, %sa, %less : tensor<i1>, tensor<i1> {RETURNED}"
    text = sort_of([kind], body, 5)
    text = text.replace('%0 = "', f'{constants}\n  %0 = "') if is_outside else text
    dtype = FORMS.get(kind) or kind.replace("ui", "u").replace("8", "1").replace("32", "4")
    x = np.array([7, high, low, between, 1], dtype)
    assert len(set(x.tolist())) == 5
    wanted = [between, *sorted(set(x.tolist()) - {between})]
    assert import_stablehlo(text).run(x).tolist() == wanted


COMPARATORS: dict[str, tuple[str, str, list[str], Any]] = {
    "up": ("f32", one_compared("LT", "a b", "f32", "r"), ["Sort"], lambda v: v),
    "up, sides exchanged": ("f32", one_compared("GT", "b a", "f32", "r"), ["Sort"], lambda v: v),
    "down": ("f32", one_compared("GT", "a b", "f32", "r"), ["Reverse", "Sort", "Reverse"], lambda v: -v),
    "down, of integers": ("i32", one_compared("LT", "b a", "i32", "r"), ["Reverse", "Sort", "Reverse"], lambda v: -v),
    "up, and a number that changes nothing": (
        "i32",
        "%c = stablehlo.constant dense<3> : tensor<i32> "
        + one_compared("LT", "a b", "i32", "s") + one_compared("LT", "a c", "i32", "t")
        + one_compared("GE", "a c", "i32", "u")
        + "%v = stablehlo.or %t, %u : tensor<i1> %r = stablehlo.and %s, %v : tensor<i1> ",
        ["Sort"], lambda v: v,
    ),
    "five first": (
        "i32",
        "%c = stablehlo.constant dense<5> : tensor<i32> "
        + one_compared("EQ", "a c", "i32", "p") + one_compared("NE", "b c", "i32", "n")
        + one_compared("NE", "a c", "i32", "o") + one_compared("LT", "a b", "i32", "s")
        + "%t = stablehlo.and %p, %n : tensor<i1> %u = stablehlo.and %n, %s : tensor<i1> "
        "%r = stablehlo.or %t, %u : tensor<i1> ",
        [], lambda v: (v != 5, v),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARATORS)
def test_comparators_and_the_ops_that_they_are(name: str) -> None:
    kind, body, ops, key = COMPARATORS[name]
    program = import_stablehlo(sort_of([kind], f"{body} {RETURNED}", 7))
    found = [i.op.name for i in program.instructions]
    assert found == ops if ops else "Sort" not in found
    for seed in range(3):
        x = np.random.default_rng(seed).permutation([5, 3, -2, 5, 9, 0, 3])
        x = x.astype(FORMS.get(kind, "i4"))
        assert program.run(x).tolist() == sorted(x.tolist(), key=key)


@pytest.mark.parametrize("stable", ["true", "false"])
@pytest.mark.parametrize("n", [*range(1, 10), 16, 17])
def test_a_network_sorts_any_number_of_pairs(n: int, stable: str) -> None:
    """Numbers are sorted by their last digit. In a stable sort, numbers with equal digits must keep their order."""
    digit = "".join(f"%m{v} = stablehlo.remainder %{v}, %ten : tensor<i32> " for v in "ab")
    body = (
        f"%ten = stablehlo.constant dense<10> : tensor<i32> {digit} "
        f"{one_compared('LT', 'ma mb', 'i32', 'r')} {RETURNED}"
    )
    text = sort_of(["i32", "f32"], body, n).replace("is_stable = true", f"is_stable = {stable}")
    x = np.random.default_rng(n).integers(0, 40, n).astype("i4")
    y = np.arange(n, dtype="f4")
    program = import_stablehlo(text)
    keys, places = program.run(x, y)
    order = np.argsort(x % 10, kind="stable")
    if stable == "true":
        np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(keys % 10, (x % 10)[order])
    np.testing.assert_array_equal(keys, x[places.astype(int)])
    depth = (n - 1).bit_length()
    rounds = depth * (depth + 1) // 2
    moves = [i.op for i in program.instructions if isinstance(i.op, Concatenate)]
    # Each round of the network permutes both operands. In a stable sort, each round but the last also permutes the
    # indices.
    assert len(moves) == 2 * rounds + (max(0, rounds - 1) if stable == "true" else 0)

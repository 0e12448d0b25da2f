"""Compiled functions must be as accurate as declared, in particular near arguments where the formula changes."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.llvm import link
from tenferro.exec.llvm.code import Code
from tenferro.exec.llvm.functions import FUNCTIONS, SINGLE_ULPS, call
from tenferro.exec.llvm.ir import Value
from tenferro.types import DType
from tests.exec.compiled_loops import in_a_loop, run_as_written_and_optimised
from tests.exec.llvm_verifier import lines_of

pytestmark = pytest.mark.skipif(not link.is_installed(), reason="llvmlite is not installed")
POINTS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 88.7, -103.9, 709.78, 710.0, 1e308,
          -745.1, -746.0, -1e308, 5e-324, -5e-324, 2.2e-308, -2.2e-308, 1e-40, -1e-40, 22.0, -22.0, 36.7, 60.0]  # fmt: skip
PAIRED = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 5e-324, -5e-324, 1e-310,
          3e-290, 1e12, 1e300, -1e300, 2.0**53 - 1, 1 - 2.0**53]  # fmt: skip
TURNS = ("sin", "cos", "tan")
WORST = [-8.664460182189941, -0.116646908223629, 5.959629883074802e-39, 1.0716678389144363e-06,
         0.00024371496692765504, 0.0312384981662035, 0.06222136318683624, 0.1716422587633133,
         0.17341288924217224, 0.3465818762779236, 0.34658846259117126, 0.3466293215751648, 0.35335227847099304,
         0.4136671721935272, 0.42808669805526733, 0.5003829002380371, 0.5907893180847168, 0.7859416007995605,
         0.8829905390739441, 1.0018575191497803, 1.0537488460540771, 1.3808921575546265, 3.176166534423828,
         6.581908226013184, 11.781094551086426, 13.351300239562988, 44.01531219482422, 83.25244903564453,
         2188.90478515625]  # fmt: skip
"""Arguments at which float32 functions have their largest errors, found by `make accuracy` among all bit patterns."""
CALLS: dict[str, Callable[..., Any]] = {
    "logistic": tnf.nn.sigmoid,
    "sinh": tnf.sinh,
    "cosh": tnf.cosh,
    "asinh": tnf.arcsinh,
    "acosh": tnf.arccosh,
    "atanh": tnf.arctanh,
    "asin": tnf.arcsin,
    "acos": tnf.arccos,
    "atan": tnf.arctan,
    "atan2": tnf.arctan2,
    "erf": tnf.special.erf,
    "erfc": tnf.special.erfc,
    "erfinv": tnf.special.erfinv,
    "cbrt": tnf.cbrt,
    "hypot": lambda x, y: tnf.abs(tnf.lax.complex(x, y)),
    "pow": tnf.power,
}
ODD = (
    "expm1",
    "log1p",
    "tanh",
    "sin",
    "tan",
    "sinh",
    "asinh",
    "atanh",
    "asin",
    "atan",
    "erf",
    "cbrt",
)


def arguments(name: str) -> tuple[np.ndarray, ...]:
    """Return an array of test arguments for each parameter of a function."""
    if FUNCTIONS[name].arity == 1:
        return (_numbers(name),)
    rng = np.random.default_rng(0)
    grid = [each.ravel() for each in np.meshgrid(PAIRED, PAIRED)]
    signs = rng.choice([-1.0, 1.0], (2, 200))
    everywhere = signs * np.exp2(rng.uniform(-1074, 1023, (2, 200)))
    if name != "pow":
        pairs = [everywhere, signs * np.exp2(rng.uniform(-3, 3, (2, 200)))]
    else:
        # Bases of ordinary and all magnitudes, and near 1; exponents for which results have all magnitudes.
        bases = [
            rng.uniform(0, 40, 200),
            np.abs(everywhere[0]),
            1 + signs[0] * np.exp2(rng.uniform(-50, -1, 200)),
        ]
        pairs = [np.array([base, rng.uniform(-745, 709, 200) / np.log(base)]) for base in bases]
        whole = rng.integers(-40, 40, 200).astype(float)
        pairs += [np.array([-bases[0], whole]), np.array([bases[0], rng.uniform(-3, 3, 200)])]
    return tuple([np.concatenate(each) for each in zip(grid, *pairs, strict=True)])


def _numbers(name: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    sign = rng.choice([-1.0, 1.0], 400)
    near_zero = sign * np.exp2(rng.uniform(-1070, 0, 400))
    # exp rounds x / ln(2) to an integer, which changes at odd multiples of ln(2) / 2. log scales its argument by a
    # power of two, which changes at sqrt(2) 2^k.
    steps = np.log(2) * (np.arange(-60, 60) + 0.5)
    roots = np.sqrt(2.0) * np.exp2(np.arange(-40, 40))
    around = np.concatenate([roots, np.nextafter(roots, 0), np.nextafter(roots, 9e9)])
    usual = [rng.uniform(-40, 40, 400), rng.uniform(-1, 1, 400), near_zero, steps]
    positive = [np.exp2(rng.uniform(-1074, 1024, 400)), 1 + near_zero, around]
    # The reduced arguments of sin, cos and tan are zero at multiples of pi / 2, and change sign at those of pi / 4.
    halves = np.pi / 4 * np.concatenate([np.arange(-200, 200), rng.integers(-600000, 600000, 400)])
    limit = 2.0**19 + np.array([-1e-10, 0.0, 1e-10, 1.0, 1e4, 1e10, 1e22])
    iterations = [halves, np.nextafter(halves, 9e9), rng.uniform(-6e5, 6e5, 400), limit, -limit]
    several = {
        "exp": [*usual, rng.uniform(-745, 709.7, 400)],
        "log": positive,
        "log1p": [*positive, near_zero, around - 1, rng.uniform(-1, 1, 400)],
        **{step: [*usual, *iterations] for step in TURNS},
        "logistic": [*usual, rng.uniform(-745, 0, 400)],
        "sinh": [*usual, rng.uniform(-710.5, 710.5, 400)],
        "cosh": [*usual, rng.uniform(-710.5, 710.5, 400)],
        "asinh": [*usual, *positive, 2.0**60 + near_zero],
        "acosh": [*positive, 1 + np.abs(near_zero), rng.uniform(1, 40, 400)],
        "atanh": [near_zero, rng.uniform(-1, 1, 400), sign * (1 - np.abs(near_zero) / 2)],
        "atan": [*usual, *positive, np.sqrt(2) - 1 + near_zero / 9, np.sqrt(2) + 1 + near_zero / 9],
        "asin": [
            near_zero,
            rng.uniform(-1, 1, 400),
            sign * (1 - np.abs(near_zero) / 2),
            0.5 * sign + near_zero / 9,
        ],
        "erf": [*usual, rng.uniform(-6, 6, 800), sign + near_zero / 9],
        "erfc": [
            *usual,
            rng.uniform(-6, 6, 400),
            rng.uniform(0, 28, 800),
            0.5 * sign + near_zero / 9,
        ],
        "cbrt": [*usual, *positive],
    }
    several["acos"] = several["asin"]
    several["erfinv"] = several["atanh"]
    several["expm1"] = [*usual, rng.uniform(34, 39, 400)]  # near 37, e^x + 1 begins to round to e^x
    return np.concatenate([POINTS, WORST, *several.get(name, usual)])


def exact_pair(name: str, x: float, y: float) -> Any:
    """Return f(x, y) with many digits; for zeros, infinities and NaN, the C standard's result, by Python's `math`."""
    special = getattr(math, name)
    usual = math.isfinite(x) and math.isfinite(y) and x != 0 and y != 0
    if usual and name != "pow":
        return getattr(mpmath, name)(x, y)
    if usual and (x > 0 or y == math.floor(y)):
        size = mpmath.mpf(abs(x)) ** mpmath.mpf(y)
        return -size if x < 0 and y % 2 == 1 else size
    if name == "pow" and x == 0 and y < 0:
        return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
    try:
        return mpmath.mpf(special(x, y))
    except ValueError:
        return mpmath.nan


UNDEFINED: dict[str, Callable[[float], bool]] = {
    "asin": lambda x: abs(x) > 1,
    "acos": lambda x: abs(x) > 1,
    "atanh": lambda x: abs(x) > 1,
    "erfinv": lambda x: abs(x) > 1,
    "acosh": lambda x: x < 1,
}


def exactly(name: str, x: float) -> Any:
    """Return f(x) with many digits; the result may also be an infinity or NaN."""
    if name in UNDEFINED and UNDEFINED[name](x):
        return mpmath.nan
    if name in ("atanh", "erfinv") and abs(x) == 1:
        return math.copysign(math.inf, x)
    if name == "cbrt" and np.isfinite(x):
        return mpmath.sign(x) * mpmath.cbrt(abs(x))
    if name == "cbrt":
        return mpmath.mpf(x)
    if np.isnan(x) or (name in ("log", "log1p") and x < (-1 if name == "log1p" else 0)):
        return mpmath.nan
    if np.isinf(x) and name in TURNS:
        return mpmath.nan
    if name in ("log", "log1p") and x == (-1 if name == "log1p" else 0):
        return -mpmath.inf
    if name == "erfc":
        return mpmath.erfc(min(x, 100.0))  # because mpmath overflows for larger x
    if name == "logistic":
        return 1 / (1 + mpmath.exp(-mpmath.mpf(x)))
    return getattr(mpmath, name)(mpmath.mpf(x))


def error(y: float, exact: Any, dtype: Any) -> float:
    """Return the error of y in units in the last place of `exact`."""
    if mpmath.isnan(exact):
        return 0.0 if np.isnan(y) else np.inf
    largest = float(np.finfo(dtype).max)
    if abs(exact) > largest:
        # A value that exceeds the largest float may be rounded to infinity or to the largest float.
        return (
            0.0
            if np.isinf(y) and (y > 0) == (exact > 0)
            else float(abs(exact) / largest - 1) * 2**54
        )
    if not np.isfinite(y):
        return np.inf
    size = abs(float(exact))
    spacing = float(np.spacing(np.array(size).astype(dtype))) if size else 0.0
    return float(
        abs(mpmath.mpf(y) - exact) / max(spacing, float(np.finfo(dtype).smallest_subnormal))
    )


NEARER = {
    "exp": 0.6, "expm1": 0.86, "log": 0.62, "log1p": 0.73, "tanh": 1.55, "logistic": 1.48, "sin": 0.75, "cos": 0.76,
    "tan": 2.07, "sinh": 1.49, "cosh": 0.95, "asinh": 0.83, "acosh": 0.81, "atanh": 0.66, "asin": 0.55, "acos": 0.51,
    "atan": 0.52, "atan2": 0.52, "erf": 0.95, "erfc": 2.95, "erfinv": 1.68, "cbrt": 0.65, "hypot": 0.94, "pow": 0.6,
}  # fmt: skip
"""Largest errors of float64 functions at the test arguments, in units in the last place, on all processors."""


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_the_bound(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with np.errstate(over="ignore"):
        xs = [x.astype(dtype) for x in arguments(name)]
    values = [values_of(name, xs, contracts=False, monkeypatch=monkeypatch)]
    if link.processor().has_fma:
        values.append(values_of(name, xs, contracts=True, monkeypatch=monkeypatch))
    bound = SINGLE_ULPS if dtype is np.float32 else FUNCTIONS[name].ulps
    nearer = SINGLE_ULPS if dtype is np.float32 else NEARER[name]
    assert nearer <= bound
    with mpmath.workdps(400 if name in TURNS else 40):
        for number, each in enumerate(zip(*[x.tolist() for x in xs], strict=True)):
            exact = exactly(name, *each) if len(xs) == 1 else exact_pair(name, *each)
            is_c_librarys = name in TURNS and abs(each[0]) >= 2.0**19
            for y in [float(many[number]) for many in values]:
                assert error(y, exact, dtype) <= (bound if is_c_librarys else nearer), (each, y)
                if name in ODD and each[0] == 0:
                    assert np.signbit(y) == np.signbit(each[0])
                if len(xs) == 2 and exact == 0:
                    assert np.signbit(y) == np.signbit(_signed_zero(name, *each)), (each, y)


def values_of(
    name: str, xs: list[np.ndarray], contracts: bool, monkeypatch: pytest.MonkeyPatch
) -> np.ndarray:
    """Run a function in a compiled loop, with fused multiply-adds if `contracts`."""
    function = CALLS.get(name, getattr(tnf, name, None))
    assert function is not None

    def turned(*xs: Any) -> Any:
        return tnf.fori_loop(0, 1, lambda i, y: function(y, *xs[1:]), xs[0])

    executor, processor = tnf.GraphExecutor("K", compiled=True), link.processor()
    first = [x[:3] for x in xs]
    with monkeypatch.context() as patch:
        patch.setattr(link, "processor", lambda: replace(processor, has_fma=contracts))
        many = run_as_written_and_optimised(executor, tnf.compile(turned, *xs), *xs)
        few = run_as_written_and_optimised(executor, tnf.compile(turned, *first), *first)
        np.testing.assert_array_equal(few, many[:3])
    return many


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("contracts", [False, True])
def test_functions_are_odd_or_even(
    dtype: Any, contracts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Odd and even functions must be symmetric in every bit; odd functions must return tiny arguments unchanged."""
    processor = link.processor()
    contracts = contracts and processor.has_fma
    monkeypatch.setattr(link, "processor", lambda: replace(processor, has_fma=contracts))
    rng = np.random.default_rng(0)
    x = [rng.uniform(0, 1, 300), 1 - rng.uniform(0, 1e-2, 1000), rng.uniform(0, 30, 300)]
    tiny = np.exp2(rng.uniform(-1074 if dtype is np.float64 else -149, -28, 300))
    x = np.concatenate([*x, tiny, [np.finfo(dtype).smallest_subnormal]]).astype(dtype)
    names = [*[name for name in ODD if name not in ("expm1", "log1p")], "cos", "cosh"]
    functions = [CALLS.get(name) or getattr(tnf, name) for name in names]
    results = in_a_loop(lambda x: [f(x) for f in functions], np.array([x, -x]))
    for name, (y, z) in zip(names, results, strict=True):
        np.testing.assert_array_equal(z, y if name in ("cos", "cosh") else -y, err_msg=name)
        if name in ODD and name not in ("cbrt", "erf"):
            own = len(x) - len(tiny) - 1
            np.testing.assert_array_equal(y[own:], x[own:], err_msg=name)


def _signed_zero(name: str, x: float, y: float) -> float:
    function = {"atan2": math.atan2, "hypot": math.hypot, "pow": math.pow}[name]
    return function(x, y)


@pytest.mark.parametrize("name", TURNS)
def test_along_two_lanes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result must be right whichever lane has a large argument, for which the C library is called."""
    narrow = replace(link.processor(), lanes=2)
    monkeypatch.setattr(link, "processor", lambda: narrow)
    x = np.linspace(-9.0, 9.0, 3 * 41).reshape(3, 41)
    x[1, 7:10] = 1e22, 3e300, -1e17
    (y,) = [in_a_loop(getattr(tnf, name), x)]
    np.testing.assert_allclose(y, getattr(np, name)(x), rtol=1e-13, atol=1e-15)


def test_coefficients_are_reproducible() -> None:
    """The stored coefficients must equal those that tools/polynomials.py computes."""
    tool = Path(__file__).parents[2] / "tools" / "polynomials.py"
    assert subprocess.run([sys.executable, str(tool), "--check"], check=False).returncode == 0


BOUNDS = {
    1.0: "exp log log1p sin cos asin acos atan atan2 cbrt pow",
    1.5: "expm1 erf hypot",
    2.0: "cosh asinh atanh",
    2.5: "tanh logistic tan sinh acosh",
    3.0: "erfinv",
    5.0: "erfc",
}


def test_bounds_are_not_loosened() -> None:
    """The declared error bounds must be those in `BOUNDS`."""
    bounds = {name: bound for bound, names in BOUNDS.items() for name in names.split()}
    assert {name: function.ulps for name, function in FUNCTIONS.items()} == bounds
    assert SINGLE_ULPS == 0.52
    arities = {name: function.arity for name, function in FUNCTIONS.items()}
    assert arities == {name: 2 if name in ("atan2", "hypot", "pow") else 1 for name in bounds}


A, B = Value("%a", "double"), Value("%b", "double")


def instructions(text: str) -> int:
    """Return the number of instructions in the text of an LLVM function that consists of one basic block."""
    head, entry, *lines, end = text.splitlines()
    assert (head[-1], entry, end) == ("{", "entry:", "}")
    return len(lines)


def test_functions_are_written_once_and_where_they_are_called() -> None:
    code = Code(True, 8)
    assert call(code, "exp", DType.F64, A) == "%v1"
    (text,) = map(str, code.functions.values())
    assert text.startswith(
        "define internal double @tenferro_exp(double %x) alwaysinline nounwind {\n"
    )
    assert lines_of(code) == ["  %v1 = call double @tenferro_exp(double %a)"]
    assert code.work == instructions(text)
    call(code, "exp", DType.F64, B)
    assert lines_of(code)[1:] == ["  %v2 = call double @tenferro_exp(double %b)"]
    assert (list(code.functions), code.work) == (["tenferro_exp"], 2 * instructions(text))
    call(code, "atan2", DType.F64, A, B)
    head = str(code.functions["tenferro_atan2"]).partition("\n")[0]
    assert (
        head
        == "define internal double @tenferro_atan2(double %x, double %y) alwaysinline nounwind {"
    )
    assert lines_of(code)[2:] == ["  %v3 = call double @tenferro_atan2(double %a, double %b)"]


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_float32_functions_are_evaluated_in_float64(dtype: DType) -> None:
    code = Code(True, 8)
    a, b = (Value(name, "float") for name in ("%a", "%b"))
    y, z = call(code, "pow", dtype, a, b), call(code, "hypot", dtype, a, b)
    assert lines_of(code) == [
        "  %v1 = fpext float %a to double",
        "  %v2 = fpext float %b to double",
        "  %v3 = call double @tenferro_pow(double %v1, double %v2)",
        "  %v4 = fptrunc double %v3 to float",
        "  %v5 = fpext float %a to double",
        "  %v6 = fpext float %b to double",
        "  %v7 = call double @tenferro_hypot(double %v5, double %v6)",
        "  %v8 = fptrunc double %v7 to float",
    ]
    assert (y, z) == ("%v4", "%v8")


def test_functions_of_bounded_arguments_have_vector_variants() -> None:
    """A function of bounded arguments must have a vector version, which tests its arguments."""
    code = Code(True, 8)
    call(code, "tan", DType.F64, A)
    assert lines_of(code) == [
        "  %v1 = call double @tenferro_tan(double %a) "
        '"vector-function-abi-variant"="_ZGV_LLVM_N8v_tenferro_tan(tenferro_tan_8)"'
    ]
    (one,) = map(str, code.functions.values())
    several = str(code.vector_functions["tenferro_tan_8"])
    facts = "noinline nounwind willreturn readnone {"
    assert [text.partition("\n")[0] for text in (one, several)] == [
        f"define internal double @tenferro_tan(double %x) {facts}",
        f"define internal <8 x double> @tenferro_tan_8(<8 x double> %x) {facts}",
    ]
    assert code.work == instructions(one)
    limit = "0x4120000000000000"  # 2^19 as the bits of a double
    assert one.count("call double @tan(double %x)") == 1
    assert re.search(rf"fcmp olt double %v\d+, {limit}\n", one)
    assert several.count("call double @tenferro_tan(double %v") == 8
    assert several.count("call i1 @llvm.vector.reduce.and.v8i1(<8 x i1> %v") == 1
    assert re.findall(r"extractelement .* %x, i64 (\d)", several) == [*map(str, range(8))]
    assert f", double {limit}>\n" in several
    assert str(code.declared["tan"]) == "declare double @tan(double)"
    assert "[ptr @tenferro_tan_8]" in code.module().text

"""Control flow, natively and through PJRT, must have the values and derivatives of JAX and of unrolled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optree
import pytest

import lowering
import tenferro as tnf
from tenferro import errors
from tenferro.ad import while_reversal
from tenferro.ops.control import Scan
from tenferro.types import DType
from xla_peer import XlaExecutor, check_parity

jax.config.update("jax_enable_x64", True)

W = np.random.default_rng(0).normal(size=(3, 3)) * 0.5
XS = np.random.default_rng(1).normal(size=(5, 3))
X = np.random.default_rng(2).normal(size=3)


def rnn(n: Any, f: Any) -> Callable[..., Any]:
    def fn(w: Any, h: Any, xs: Any) -> Any:
        return f.scan(lambda h, x: (n.tanh(w @ h + x), n.sum(h * x)), h, xs)

    return fn


def backwards(n: Any, f: Any) -> Callable[..., Any]:
    def fn(w: Any, h: Any, xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            h, i = c
            return (n.sin(w @ h) * x["x"], i + 1), {"h": h * i, "s": x["x"][0]}

        (last, _), ys = f.scan(body, (h, 0), {"x": xs}, reverse=True)
        return last, ys

    return fn


def nested(n: Any, f: Any) -> Callable[..., Any]:
    """Return a function with a conditional inside a loop inside a scan. All three bodies read the outer variable w."""

    def fn(w: Any, h: Any, xs: Any) -> Any:
        def body(h: Any, x: Any) -> Any:
            def inner(i: Any, v: Any) -> Any:
                bigger = n.sum(v * x) > 0.1
                return f.cond(bigger, lambda v: w @ v, lambda v: n.cos(v) * w[0] + i, v)

            after = f.fori_loop(0, 3, inner, h)
            return after, n.sum(after**2)

        return f.scan(body, h, xs)

    return fn


def switched(n: Any, f: Any) -> Callable[..., Any]:
    def fn(w: Any, h: Any, xs: Any) -> Any:
        branches = [lambda v: v * 2.0, n.sin, lambda v: w @ v]
        return f.scan(
            lambda c, x: ((c[0] + 1, f.switch(c[0], branches, c[1]) + x), None), (0, h), xs
        )[0][1]

    return fn


def mapped(n: Any, f: Any) -> Callable[..., Any]:
    return lambda w, h, xs: f.map(lambda x: {"a": w @ x, "b": n.sum(x * h)}, xs)


def prefixes(n: Any, f: Any) -> Callable[..., Any]:
    def fn(w: Any, h: Any, xs: Any) -> Any:
        return f.associative_scan(lambda a, b: n.tanh(a) * b, n.sin(xs @ w) * h, axis=0)

    return fn


FUNCTIONS = [rnn, backwards, nested, switched, mapped, prefixes]
each_function = pytest.mark.parametrize("make", FUNCTIONS, ids=lambda make: make.__name__)


class jax_lax:  # because it takes the place of a module
    """JAX's control flow functions, under the names of tenferro's."""

    scan = staticmethod(jax.lax.scan)
    cond = staticmethod(jax.lax.cond)
    switch = staticmethod(jax.lax.switch)
    map = staticmethod(jax.lax.map)
    fori_loop = staticmethod(jax.lax.fori_loop)
    while_loop = staticmethod(jax.lax.while_loop)
    associative_scan = staticmethod(jax.lax.associative_scan)


def assert_close(ours: Any, theirs: Any, tolerance: float = 1e-12) -> None:
    left, right = optree.tree_leaves(ours), jax.tree_util.tree_leaves(theirs)
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def loss(n: Any, fn: Any) -> Callable[..., Any]:
    """Return a function that computes a weighted sum of all float results of `fn`.

    Every result has a different weight, so that exchanged results would change the sum.
    """

    def value(*args: Any) -> Any:
        leaves = optree.tree_leaves(fn(*args))
        floats = [y for y in leaves if "f" in str(y.dtype)]
        return sum(n.sum(n.sin(y * (i + 1.0))) for i, y in enumerate(floats))

    return value


@each_function
def test_values_are_jaxs(make: Any) -> None:
    expected = jax.jit(make(jnp, jax_lax))(W, X, XS)
    assert_close(make(tnf, tnf)(W, X, XS), expected)
    assert_close(tnf.jit(make(tnf, tnf))(W, X, XS), expected)


@each_function
def test_gradients_are_jaxs(make: Any) -> None:
    expected = jax.jit(jax.grad(loss(jnp, make(jnp, jax_lax)), (0, 1, 2)))(W, X, XS)
    ours = loss(tnf, make(tnf, tnf))
    assert_close(tnf.grad(ours, (0, 1, 2))(W, X, XS), expected)
    assert_close(tnf.jit(tnf.grad(ours, (0, 1, 2)))(W, X, XS), expected)


@each_function
def test_pushed_tangents_are_jaxs(make: Any) -> None:
    primals, dots = (W, X, XS), (np.cos(W), np.ones(3), XS**2)
    pushed = jax.jit(lambda primals, dots: jax.jvp(loss(jnp, make(jnp, jax_lax)), primals, dots))
    expected = pushed(primals, dots)
    assert_close(tnf.jvp(loss(tnf, make(tnf, tnf)), primals, dots), expected)


@pytest.mark.parametrize("make", [rnn, nested], ids=lambda make: make.__name__)
def test_second_derivatives_are_jaxs(make: Any) -> None:
    expected = jax.jit(jax.hessian(loss(jnp, make(jnp, jax_lax)), 1))(W, X, XS)
    ours = loss(tnf, make(tnf, tnf))
    assert_close(tnf.hessian(ours, 1)(W, X, XS), expected, 1e-10)
    twice = tnf.jacrev(tnf.grad(ours, 1), 1)
    assert_close(twice(W, X, XS), expected, 1e-10)


@each_function
def test_batches_are_jaxs(make: Any) -> None:
    many, wide = np.stack([X, -X, 2 * X, X**2]), np.stack([W, 2 * W])

    @jax.jit
    def theirs(many: Any, wide: Any) -> Any:
        slopes = jax.vmap(jax.grad(loss(jnp, make(jnp, jax_lax))), (None, 0, None))(W, many, XS)
        by_state = jax.vmap(make(jnp, jax_lax), (None, 0, None))(W, many, XS)
        return by_state, slopes, jax.vmap(make(jnp, jax_lax), (0, None, None))(wide, X, XS)

    expected, slopes, by_weights = theirs(many, wide)
    assert_close(tnf.vmap(make(tnf, tnf), (None, 0, None))(W, many, XS), expected)
    ours = tnf.vmap(tnf.grad(loss(tnf, make(tnf, tnf))), (None, 0, None))
    assert_close(ours(W, many, XS), slopes, 1e-10)
    assert_close(tnf.vmap(make(tnf, tnf), (0, None, None))(wide, X, XS), by_weights)


@each_function
def test_both_peers_agree_with_gradients(make: Any) -> None:
    report = check_parity(make(tnf, tnf), W, X, XS, grad=True)
    assert report.ok, str(report)


@each_function
def test_eager_tensors_give_the_same(make: Any) -> None:
    runtime = tnf.EagerRuntime()
    w = runtime.variable(W)
    y = loss(tnf, make(tnf, tnf))(w, X, XS)
    y.backward()
    assert_close(w.grad.numpy(), tnf.grad(loss(tnf, make(tnf, tnf)))(W, X, XS))


@each_function
def test_programs_come_back_from_files(make: Any, tmp_path: Any) -> None:
    program = tnf.compile(tnf.value_and_grad(loss(tnf, make(tnf, tnf))), W, X, XS)
    path = tmp_path / "program.tenferro"
    tnf.save(program, path)
    loaded = tnf.load(path)
    assert loaded.fingerprint == program.fingerprint
    assert str(loaded) == str(program)
    assert_close(loaded.run(W, X, XS), program.run(W, X, XS), 0)


# ---- while ----------------------------------------------------------------------------------------


def newton(n: Any, f: Any) -> Callable[[Any], Any]:
    """Return a function that computes the square root by Newton's method, in a while loop that ends at convergence."""

    def fn(a: Any) -> Any:
        state = (a, a * 0 + 1.0, 0)
        return f.while_loop(
            lambda s: n.abs(s[1] * s[1] - s[0]) > 1e-13 * s[0],
            lambda s: (s[0], 0.5 * (s[1] + s[0] / s[1]), s[2] + 1),
            state,
        )[1:]

    return fn


def test_while_goes_on_as_long_as_jaxs() -> None:
    for a in (0.5, 2.0, 1e6):
        assert_close(newton(tnf, tnf)(a), newton(jnp, jax_lax)(a), 1e-15)
    many = np.array([0.5, 2.0, 1e6])
    assert_close(tnf.vmap(newton(tnf, tnf))(many), jax.vmap(newton(jnp, jax_lax))(many), 1e-15)
    assert check_parity(newton(tnf, tnf), 3.0).ok


def test_while_forward() -> None:
    (root, _), (root_dot, _) = tnf.jvp(newton(tnf, tnf), (4.0,), (1.0,))
    assert_close((root, root_dot), (2.0, 0.25))
    slope = tnf.jacfwd(lambda a: newton(tnf, tnf)(a)[0])
    assert_close(slope(4.0), 0.25)
    second = tnf.jacfwd(tnf.jacfwd(lambda a: tnf.while_loop(lambda v: v < 50, lambda v: v**2, a)))
    assert_close(second(3.0), 12 * 3.0**2)


def squared(steps: int | None) -> Callable[[Any], Any]:
    """Return a function that squares its argument until it is at least 50.

    After k iterations its value is x^(2^k), so that the derivative shows the number of iterations.
    """
    return lambda x: tnf.while_loop(lambda v: v < 50.0, lambda v: v * v, x, max_steps=steps)


@pytest.mark.parametrize("executor", [None, XlaExecutor()], ids=["natively", "XLA"])
@pytest.mark.parametrize("steps", [3, None])
def test_a_while_in_reverse(steps: int | None, executor: Any) -> None:
    f = squared(steps)
    derivatives = tnf.jit(
        lambda x: (
            f(x),
            tnf.grad(f)(x),
            tnf.grad(tnf.grad(f))(x),
            tnf.jvp(tnf.grad(f), (x,), (1.0,))[1],
        ),
        executor=executor,
    )
    for x, power in ((60.0, 1), (8.0, 2), (3.0, 4), (1.7, 8)):
        first = power * x ** (power - 1)
        second = power * (power - 1) * x ** (power - 2)
        assert_close(derivatives(x), (x**power, first, second, second))


@pytest.mark.parametrize("trip_count", [0, 1, 2, 3, 4, 5, 9, 23])
def test_a_while_whose_states_do_not_fit_is_computed_again(
    trip_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A while loop whose states do not fit into its buffer must recompute them.

    Here the buffer holds only two states.
    """
    monkeypatch.setattr(while_reversal, "MAX_ROWS", 2)
    monkeypatch.setattr(while_reversal, "MIN_ROWS", 2)
    x = np.array([0.3, -1.1])
    c = np.array([0.4, 0.2])

    def last(x: Any, c: Any, n: Any) -> Any:
        body = lambda state: (state[0] + c * tnf.sin(state[0]), state[1] + 1)
        return tnf.while_loop(lambda state: state[1] < n, body, (x, 0))[0]

    x_bar, c_bar = tnf.jit(
        lambda n: tnf.grad(lambda x, c: tnf.sum(last(x, c, n)), argnums=(0, 1))(x, c)
    )(np.int64(trip_count))
    by_x, by_c = np.ones(2), np.zeros(2)
    for _ in range(trip_count):
        by_x, by_c = by_x * (1 + c * np.cos(x)), by_c * (1 + c * np.cos(x)) + np.sin(x)
        x = x + c * np.sin(x)
    assert_close((x_bar, c_bar), (by_x, by_c))


def test_whiles_in_reverse_with_constants_that_have_no_tangent() -> None:
    def last(w: Any, p: Any, q: Any) -> Any:
        return tnf.while_loop(lambda c: c < 40.0, lambda c: tnf.exp(c * p) * q + c + w, w)

    w, p, q = 0.5, 0.13, 0.2
    c, by_w = w, 1.0
    while c < 40.0:
        slope = np.exp(c * p) * q * p + 1
        c, by_w = np.exp(c * p) * q + c + w, slope * by_w + 1
    assert_close(tnf.jit(tnf.grad(last))(w, p, q), by_w)


def test_whiles_in_reverse_nest_and_batch() -> None:
    def inner(v: Any) -> Any:
        return tnf.while_loop(lambda w: w < 50.0, lambda w: w * w, v)

    def outer(x: Any) -> Any:
        return tnf.while_loop(lambda v: v < 1e5, lambda v: inner(v) * x, x)

    def by_hand(x: float) -> float:
        """Return the derivative of x^k, the result of the loops.

        The integer k is computed by running the loops by hand.
        """
        v, k = x, 1
        while v < 1e5:
            while v < 50.0:
                v, k = v * v, 2 * k
            v, k = v * x, k + 1
        return k * x ** (k - 1)

    xs = np.array([60.0, 8.0, 3.0])
    expected = [by_hand(x) for x in xs]
    assert_close([tnf.grad(outer)(x) for x in xs], expected)
    assert_close(tnf.vmap(tnf.grad(outer))(xs), np.array(expected))


@pytest.mark.parametrize("executor", [None, XlaExecutor()], ids=["natively", "XLA"])
def test_a_bounded_while_that_does_not_end_is_nan(executor: Any) -> None:
    f = squared(2)
    made = tnf.jit(lambda x: (f(x), tnf.grad(f)(x), tnf.jvp(f, (x,), (1.0,))[1]), executor=executor)
    assert np.isnan(made(1.7)).all()
    assert np.isfinite(made(3.0)).all()
    assert np.isnan(squared(0)(3.0))
    assert squared(0)(60.0) == 60.0


def test_check_finite_names_a_bounded_while_that_does_not_end() -> None:
    program = tnf.compile(squared(2), 1.7)
    with pytest.raises(errors.NonFiniteError, match="Div"):
        tnf.GraphExecutor(check_finite=True).run(program, 1.7)


def test_a_bounded_while_has_any_carry() -> None:
    """The carry of a while loop with a bound must allow any tensors.

    Here they are a counter, a bool, a complex tensor, an empty tensor, and a tensor that needs no derivative.
    """

    def run(w: Any, z: Any) -> Any:
        def body(c: Any) -> Any:
            i, _, z, empty, far = c
            return i + 1, i < 2, z * w, empty * 2.0, far + 1.0

        start = (0, True, z, np.ones((0, 2)), np.zeros(2))
        return tnf.while_loop(lambda c: c[1], body, start, max_steps=6)

    z = np.array([1.0 + 2.0j])
    i, going, last, empty, far = tnf.jit(run)(1.5, z)
    assert (int(i), bool(going), empty.shape) == (3, False, (0, 2))
    assert_close(far, np.full(2, 3.0))
    assert_close(last, 1.5**3 * z)
    grad_w = tnf.grad(lambda w: tnf.real(run(w, z)[2][0]))(1.5)
    assert_close(grad_w, 3 * 1.5**2)


def test_a_bounded_while_keeps_infinities_and_signs_of_zero() -> None:
    for x in (complex(np.inf, 0.5), complex(-0.0, -0.0), -0.0, np.inf, 1e-320):
        kept = tnf.while_loop(lambda v: tnf.real(v) > np.inf, lambda v: v + v, x, max_steps=1)
        assert np.asarray(kept).tobytes() == np.asarray(x).tobytes()


def test_bounded_whiles_nest_and_batch() -> None:
    """Nested bounded while loops must work in a batch.

    n iterations of an inner loop of two iterations compute x^(2 n), and n differs between the slices of the batch.
    """

    def power(n: Any, x: Any) -> Any:
        def body(c: Any) -> Any:
            i, v = c
            twice = tnf.while_loop(
                lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * x), (0, v), max_steps=3
            )
            return i + 1, twice[1]

        return tnf.while_loop(lambda c: c[0] < n, body, (0, 1.0), max_steps=4)[1]

    trip_count = np.array([0, 1, 4])
    expected = 2 * trip_count * 1.3 ** (2 * trip_count - 1.0)
    slopes = tnf.vmap(tnf.grad(power, argnums=1), in_axes=(0, None))(trip_count, 1.3)
    assert_close(slopes, expected)
    total = tnf.grad(lambda x: tnf.sum(tnf.vmap(power, in_axes=(0, None))(trip_count, x)))(1.3)
    assert_close(total, expected.sum())


def test_newtons_root_in_reverse() -> None:
    def root(a: Any) -> Any:
        return tnf.while_loop(
            lambda s: tnf.abs(s * s - a) > 1e-13 * a,
            lambda s: 0.5 * (s + a / s),
            1.0 + a * 0,
            max_steps=20,
        )

    assert_close(tnf.grad(root)(4.0), 0.25)
    assert check_parity(tnf.grad(root), 4.0).ok
    kept = tnf.grad(lambda x: tnf.while_loop(
        lambda v: v < 50.0, tnf.checkpoint(lambda v: v * v), x, max_steps=5))(3.0)  # fmt: skip
    assert_close(kept, 4 * 3.0**3)


def test_a_bounded_loop_between_tensors_in_reverse() -> None:
    slope = tnf.jit(
        tnf.grad(lambda x, n: tnf.fori_loop(0, n, lambda i, v: v * x + i, x, max_steps=5))
    )
    for n in (0, 3, 5):
        v, dot = 2.0, 1.0
        for i in range(n):
            v, dot = v * 2.0 + i, dot * 2.0 + v
        assert_close(slope(2.0, np.int64(n)), dot)
    assert np.isnan(slope(2.0, np.int64(6)))


def test_a_loop_whose_bounds_are_tensors_is_a_while() -> None:
    total = tnf.jit(lambda n, x: tnf.fori_loop(0, n, lambda i, v: v + x[i], 0.0))
    assert_close(total(np.int64(3), np.arange(5.0)), 3.0)
    assert_close(total(np.int64(-3), np.arange(5.0)), 0.0)
    slope = tnf.jit(lambda n: tnf.grad(lambda x: total(n, x))(np.arange(5.0)))
    assert_close(slope(np.int64(3)), np.array([1.0, 1.0, 1.0, 0.0, 0.0]))
    assert_close(slope(np.int64(-3)), np.zeros(5))


def test_a_constant_beside_the_variable_does_not_make_a_while_active() -> None:
    def fn(x: Any) -> Any:
        n = tnf.while_loop(lambda i: i < 5, lambda i: i + 2, 0)
        return x * tnf.astype(n, tnf.float64)

    assert_close(tnf.grad(fn)(3.0), 6.0)


# ---- recomputed and stored values ----------------------------------------------------------------------


def loops(program: Any) -> list[Any]:
    return [step for step in program.instructions if isinstance(step.op, Scan)]


def test_a_gradient_is_two_loops() -> None:
    program = tnf.compile(tnf.value_and_grad(loss(tnf, rnn(tnf, tnf))), W, X, XS)
    first, second = loops(program)
    assert (first.op.reverse, second.op.reverse) == (False, True)


def test_what_nothing_needs_is_not_computed() -> None:
    def fn(xs: Any) -> Any:
        last, ys = tnf.scan(
            lambda c, x: ((c[0] + x, tnf.exp(c[1])), {"a": tnf.sin(x), "b": c[0]}), (0.0, 1.0), xs
        )
        return last[0], ys["a"]

    (step,) = loops(tnf.compile(fn, np.ones(4)))
    names = [inner.op.name for inner in step.op.body.program.instructions]
    assert sorted(names) == ["Add", "Sin"]
    assert step.op.num_carry == 1


def doubled_beside_infinite_slopes(loop: Any, x: Any) -> Any:
    """Return 8 x, computed by a loop with a second carry.

    The second carry has an infinite derivative in every iteration. No output depends on it, so the gradient of 8 x
    must not become NaN.
    """
    return loop(lambda s: (s[0] * 2, tnf.sqrt(s[0] - s[0])), (x, x))[0]


def in_nested_scans(body: Any, carry: Any) -> Any:
    one = lambda s, _: (body(s), None)
    return tnf.scan(
        lambda s, _: (tnf.scan(one, s, None, length=1)[0], None), carry, None, length=3
    )[0]


@tnf.custom_jvp
def twice(x: Any) -> Any:
    return x + x


twice.defjvp(lambda primals, tangents: (2 * primals[0], 2 * tangents[0]))

LOOPS: dict[str, Any] = {
    "scan": lambda body, carry: tnf.scan(lambda s, _: (body(s), None), carry, None, length=3)[0],
    "scan back": lambda body, carry: tnf.scan(
        lambda s, _: (body(s), s[1]), carry, None, length=3, reverse=True
    )[0],
    "scan of a rule": lambda body, carry: tnf.scan(
        lambda s, _: ((twice(s[0]), body(s)[1]), None), carry, None, length=3
    )[0],
    "nested scans": in_nested_scans,
    "fori_loop": lambda body, carry: tnf.fori_loop(0, 3, lambda i, s: body(s), carry),
    "while_loop": lambda body, carry: tnf.while_loop(
        lambda s: s[2] < 3, lambda s: (*body(s), s[2] + 1), (*carry, 0)
    ),
    "while_loop, bounded": lambda body, carry: tnf.while_loop(
        lambda s: s[2] < 3, lambda s: (*body(s), s[2] + 1), (*carry, 0), max_steps=4
    ),
    "a while_loop that its carry ends": lambda body, carry: tnf.while_loop(
        lambda s: s[1] > 0, lambda s: (s[0] * 2, tnf.sqrt((s[0] - 4 * s[0] / 4) ** 2), s[2] / 2),
        (*carry, carry[0]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_a_carry_that_goes_nowhere_has_no_slope(name: str) -> None:
    x = np.float64(2.0)
    fn = lambda x: doubled_beside_infinite_slopes(LOOPS[name], x)
    factor = 2.0 if "ends" in name else 8.0
    assert tnf.grad(fn)(x) == factor
    assert XlaExecutor().run(tnf.compile(tnf.grad(fn), x), x) == factor
    squared = lambda x: fn(x) ** 2
    assert tnf.grad(tnf.grad(squared))(x) == 2 * factor**2
    rows = tnf.grad(lambda x: tnf.sum(tnf.vmap(fn)(x)))(np.array([2.0, 3.0]))
    np.testing.assert_array_equal(rows, [factor, factor])


def test_a_matrix_that_does_not_change_is_not_stacked() -> None:
    def fn(w: Any, h: Any) -> Any:
        return tnf.sum(tnf.scan(lambda h, _: (tnf.tanh(w @ h), None), h, None, length=7)[0])

    first, second = loops(tnf.compile(tnf.grad(fn), W, X))
    stacked = [s.size for s in first.op.body.output_specs[first.op.num_carry :]]
    assert max(stacked) == 3
    assert second.op.num_consts >= 1


def kept(fn: Any) -> int:
    """Return the number of elements that one iteration of the forward loop stacks for the backward pass."""
    first = loops(tnf.compile(tnf.grad(fn), X))[0].op
    return sum(s.size for s in first.body.output_specs[first.num_carry :])


def test_what_is_cheaply_made_again_is_not_stacked() -> None:
    """Values that are cheap to compute must be recomputed, not stacked.

    An elimination step stacks only a row and a column. Their product and the masks are recomputed.
    """
    n = 12

    def eliminated(a: Any) -> Any:
        def step(k: Any, a: Any) -> Any:
            below = tnf.arange(n) > k
            column = tnf.where(below, a[:, k] / a[k, k], 0.0)
            return a - column[:, None] * tnf.where(below, a[k], 0.0)[None, :]

        return tnf.sum(tnf.fori_loop(0, n, step, a) ** 2)

    a = np.random.default_rng(0).standard_normal((n, n)) + n * np.eye(n)
    slope = tnf.compile(tnf.grad(eliminated), a)
    loops = [step.op for step in slope.instructions if isinstance(step.op, Scan)]
    assert len(loops) == 2
    stacked = loops[0].body.output_specs[loops[0].num_carry :]
    assert all(spec.size <= n for spec in stacked), stacked
    direction, h = np.random.default_rng(1).standard_normal((n, n)), 1e-6
    difference = (eliminated(a + h * direction) - eliminated(a - h * direction)) / (2 * h)
    np.testing.assert_allclose(np.sum(slope.run(a) * direction), difference, rtol=1e-7)


def test_a_checkpoint_inside_keeps_the_carry_alone() -> None:
    def body(h: Any, _: Any) -> Any:
        return tnf.sin(tnf.exp(tnf.cos(tnf.tanh(h)))), None

    def whole(body: Any) -> Any:
        return lambda h: tnf.sum(tnf.scan(body, h, None, length=4)[0])

    assert kept(whole(tnf.checkpoint(body))) == 3
    assert kept(whole(body)) > 6
    assert_close(tnf.grad(whole(tnf.checkpoint(body)))(X), tnf.grad(whole(body))(X))


def test_a_derivative_of_the_users_own_holds_inside() -> None:
    @tnf.custom_vjp
    def clipped(x: Any) -> Any:
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, bar: (tnf.clip(bar, -0.5, 0.5),))

    def rolled(a: Any) -> Any:
        return tnf.scan(lambda c, x: (clipped(c * a) + x, None), 1.0, np.ones(3))[0]

    def written_out(a: Any) -> Any:
        c: Any = 1.0
        for _ in range(3):
            c = clipped(c * a) + 1.0
        return c

    assert_close(tnf.grad(rolled)(2.0), tnf.grad(written_out)(2.0))
    stopped = tnf.grad(
        lambda a: tnf.scan(lambda c, x: (tnf.stop_gradient(c) * a, None), 1.0, np.ones(3))[0]
    )
    assert_close(stopped(2.0), 4.0)


def with_rules(n: Any, t: Any) -> dict[str, Callable[..., Any]]:
    """Return functions of two numbers with custom derivatives.

    The derivatives are wrong on purpose, which shows that they are used.
    """
    custom_jvp, custom_vjp = t.custom_jvp, t.custom_vjp

    @custom_jvp
    def pushed(x: Any, y: Any) -> Any:
        return n.sin(x) * y

    pushed.defjvp(lambda p, dots: (pushed(*p), 3.0 * dots[0] * n.cos(p[0]) + dots[1]))

    @custom_vjp
    def pulled(x: Any, y: Any) -> Any:
        return n.sin(x) * y, n.cos(x)

    pulled.defvjp(
        lambda x, y: (pulled(x, y), (x, y)),
        lambda kept, bar: (5.0 * bar[0] * kept[1] + bar[1], bar[0] * kept[0]),
    )

    stop_gradient = getattr(t, "stop_gradient", None) or t.lax.stop_gradient
    return {
        "custom_jvp": pushed,
        "custom_vjp": lambda x, y: pulled(x, y)[0],
        "custom_vjp, second result": lambda x, y: pulled(x, y)[1],
        "stop_gradient": lambda x, y: x * stop_gradient(n.sin(x * y)) + y,
        "checkpoint": t.checkpoint(lambda x, y: n.sin(n.exp(x)) * y),
    }


PLACES: dict[str, Callable[[Any, Any], Callable[..., Any]]] = {
    "alone": lambda f, rule: rule,
    "scan": lambda f, rule: (
        lambda x, y: f.scan(lambda c, _: (rule(c, y), c * y), x, None, length=3)[0]
    ),
    "cond": lambda f, rule: (
        lambda x, y: f.cond(x > 0.2, lambda x: rule(x, y) * 2.0, lambda x: x * y, x)
    ),
    "scan of cond": lambda f, rule: (
        lambda x, y: f.scan(
            lambda c, i: (f.cond(i > c, lambda: rule(c, y), lambda: c * y), c), x, np.arange(3.0)
        )[0]
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rule", with_rules(jnp, jax))
def test_rules_of_the_users_own_hold_in_loops_and_batches(rule: str, place: str) -> None:
    theirs = PLACES[place](jax_lax, with_rules(jnp, jax)[rule])
    ours = PLACES[place](tnf, with_rules(tnf, tnf)[rule])

    @jax.jit
    def derivatives(x: Any, xs: Any, y: Any) -> Any:
        slopes = jax.vmap(jax.grad(theirs, (0, 1)), (0, None))(xs, y)
        of_sum = jax.grad(lambda xs, y: jnp.sum(jax.vmap(theirs, (0, None))(xs, y)), (0, 1))
        return jax.grad(theirs, (0, 1))(x, y), slopes, of_sum(xs, y)

    gradient, slopes, expected = derivatives(0.4, X, 0.7)
    assert_close(tnf.grad(ours, (0, 1))(0.4, 0.7), gradient)
    assert_close(tnf.vmap(tnf.grad(ours, (0, 1)), (0, None))(X, 0.7), slopes)
    summed = tnf.grad(lambda x, y: tnf.sum(tnf.vmap(ours, (0, None))(x, y)), (0, 1))
    assert_close(summed(X, 0.7), expected)
    assert_close(tnf.jit(summed)(X, 0.7), expected)


def test_a_conditional_runs_one_branch() -> None:
    f = tnf.jit(lambda x: tnf.cond(x > 0, tnf.log, lambda x: x * 0, x))
    assert f(-1.0) == 0
    checked = tnf.jit(
        lambda x: tnf.cond(x > 0, tnf.log, lambda x: x * 0, x),
        executor=tnf.GraphExecutor(check_finite=True),
    )
    assert checked(-1.0) == 0
    assert tnf.grad(lambda x: tnf.cond(x > 0, tnf.sqrt, lambda x: x * 3, x))(-1.0) == 3


def test_the_line_inside_a_loop_is_told() -> None:
    executor = tnf.GraphExecutor(check_finite=True)
    program = tnf.compile(
        lambda x: tnf.scan(lambda c, _: (tnf.log(c), None), x, None, length=5)[0], 2.0
    )
    with pytest.raises(errors.NonFiniteError, match=r"test_control\.py"):
        executor.run(program, 2.0)


def test_loops_keep_the_text_short() -> None:
    def recurrence(a: Any, xs: Any) -> Any:
        return tnf.sum(tnf.scan(lambda c, x: (tnf.sin(a * c + x), c), 0.0, xs)[1])

    program = tnf.compile(tnf.value_and_grad(recurrence), 2.0, np.ones(1000))
    text = lowering.lower_to_stablehlo(program).text
    assert text.count("\n") < 200
    lowering.lower_to_stablehlo(program).verify()


def test_symbolic_extents() -> None:
    def fn(w: Any, xs: Any) -> Any:
        last, ys = tnf.scan(lambda h, x: (tnf.tanh(w @ h + x), h), tnf.zeros_like(xs[0]), xs)
        again = tnf.fori_loop(0, xs.shape[0], lambda i, h: tnf.sin(w @ h) * i, last)
        return again, tnf.cond(tnf.sum(again) > 0, lambda: ys, lambda: -ys)

    specs = tnf.TensorSpec(("n", "n"), "f8"), tnf.TensorSpec(("t", "n"), "f8")
    for each in (fn, tnf.grad(lambda w, xs: tnf.sum(fn(w, xs)[1]) + tnf.sum(fn(w, xs)[0]))):
        program = tnf.compile(each, *specs)
        fixed = tnf.compile(each, W, XS)
        assert_close(program.run(W, XS), fixed.run(W, XS), 1e-14)
        assert_close(XlaExecutor("cpu").run(program, W, XS), fixed.run(W, XS))
        module = lowering.lower_to_stablehlo(program, symbolic=True)
        module.verify()
        module.refined([(3, 3), (5, 3)])
    with pytest.raises(errors.GuardError):
        tnf.compile(lambda a, b: tnf.scan(lambda c, x: (c, x[0] + x[1]), 0.0, (a, b)),
                    tnf.TensorSpec(("n",), "f8"), tnf.TensorSpec(("m",), "f8")).run(
            np.ones(2), np.ones(3)
        )  # fmt: skip


def test_symbols_alone_decide_a_loop() -> None:
    spec = tnf.TensorSpec(("n",), "f8")

    def fn(x: Any) -> Any:
        last = tnf.fori_loop(1, x.shape[0], lambda i, v: tnf.sin(v) * i, 1.5)
        zeros = tnf.cond(True, lambda: tnf.zeros(x.shape), lambda: tnf.ones(x.shape))
        return last, tnf.scan(lambda c, _: (c + 1, c), 0.0, length=x.shape[0])[1], zeros

    def slope(x: Any) -> Any:
        start = tnf.sum(x) + 0.5
        return tnf.grad(lambda v: tnf.fori_loop(1, x.shape[0], lambda i, v: tnf.sin(v) * i, v))(
            start
        )

    for each in (fn, slope):
        program = tnf.compile(each, spec)
        for n in (0, 1, 4):
            fixed = tnf.compile(each, np.ones(n))
            assert_close(program.run(np.ones(n)), fixed.run(np.ones(n)), 0)
            assert_close(XlaExecutor("cpu").run(program, np.ones(n)), fixed.run(np.ones(n)))


def test_extensions_inside_run_on_both_peers() -> None:
    def fn(a: Any, xs: Any) -> Any:
        eye = 3 * np.eye(3)
        return tnf.scan(lambda h, x: (tnf.linalg.solve(eye + a * x[:, None], h), tnf.sum(h)), X, xs)

    report = check_parity(fn, 0.3, XS, grad=True)
    assert report.ok, str(report)
    program = tnf.compile(fn, 0.3, XS)
    lowering.lower_to_stablehlo(program, linalg="inline").verify()
    lowering.lower_to_stablehlo(program, extensions="composite").verify()


def test_results_are_memory_of_their_own() -> None:
    x = np.ones(3)
    for result in (
        tnf.scan(lambda c, _: (c, None), x, None, length=0)[0],
        tnf.scan(lambda c, _: (c, None), x, None, length=2)[0],
        tnf.cond(True, lambda v: v, lambda v: v, x),
        tnf.while_loop(lambda v: False, lambda v: v, x),
    ):
        result[0] = 5.0
        assert x[0] == 1.0


def test_numbers_take_the_dtype_in_which_they_come_back() -> None:
    half = np.ones(3, np.float32)
    last, ys = tnf.scan(lambda c, x: (c + x, 1.5), 0, half)
    assert (last.dtype, ys.dtype) == (np.float32, np.float64)
    assert tnf.cond(True, lambda x: x, lambda x: 0, half[0]).dtype == np.float32
    assert tnf.while_loop(lambda c: c < 3, lambda c: c + half[0], 0).dtype == np.float32
    assert tnf.fori_loop(np.int32(0), 3, lambda i, v: v + i, 0).dtype == np.int32


def test_map_in_batches() -> None:
    xs = np.arange(14.0).reshape(7, 2)
    for size in (1, 3, 7, 20):
        assert_close(
            tnf.map(lambda x: {"a": x @ x, "b": x}, xs, batch_size=size),
            {"a": (xs**2).sum(1), "b": xs},
        )
    assert tnf.map(lambda x: x @ x, np.ones((0, 2)), batch_size=3).shape == (0,)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_is_the_loop(n: int, reverse: bool) -> None:
    xs = np.random.default_rng(n).integers(0, 9, (2, n, 3))
    found = (
        tnf.associative_scan(lambda a, b: a * 10 + b * 0 + b, xs * 0 + 1, reverse, axis=1)
        if n
        else xs
    )
    theirs = jax.lax.associative_scan(jnp.maximum, xs, reverse=reverse, axis=1)
    assert_close(tnf.associative_scan(tnf.maximum, xs, reverse=reverse, axis=1), theirs)
    assert found.shape == xs.shape


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], list[str]]] = {
    "xs of different lengths": (
        lambda: tnf.scan(lambda c, x: (c, x), 0.0, (np.ones(3), np.ones(4))),
        errors.ShapeError,
        ["scan", "3", "4"],
    ),
    "length against xs": (
        lambda: tnf.scan(lambda c, x: (c, x), 0.0, np.ones(3), length=4),
        errors.ShapeError,
        ["length is 4"],
    ),
    "no length": (
        lambda: tnf.scan(lambda c, x: (c, x), 0.0),
        errors.InvalidConfigError,
        ["length"],
    ),
    "negative length": (
        lambda: tnf.scan(lambda c, x: (c, x), 0.0, length=-1),
        errors.InvalidConfigError,
        ["at least 0"],
    ),
    "xs of rank 0": (
        lambda: tnf.scan(lambda c, x: (c, x), 0.0, 1.0),
        errors.ShapeError,
        ["leading axis"],
    ),
    "no pair": (
        lambda: tnf.scan(lambda c, x: c, 0.0, np.ones(3)),
        errors.ArityError,
        ["(carry, y)"],
    ),
    "another structure": (
        lambda: tnf.scan(lambda c, x: ((c, c), x), 0.0, np.ones(3)),
        errors.ArityError,
        ["structure"],
    ),
    "another shape": (
        lambda: tnf.scan(lambda c, x: ({"a": c["a"] + np.ones(2)}, x), {"a": 0.0}, np.ones(3)),
        errors.ShapeError,
        ["carry['a']", "f64[2]", "f64[]"],
    ),
    "another dtype": (
        lambda: tnf.scan(lambda c, x: (tnf.astype(c, "f4"), x), np.ones(2), np.ones(3)),
        errors.DTypeError,
        ["f32[2]", "f64[2]"],
    ),
    "branches of different shapes": (
        lambda: tnf.cond(True, lambda: 1.0, lambda: np.ones(2)),
        errors.ShapeError,
        ["cond", "true_fun", "false_fun"],
    ),
    "branches of different structures": (
        lambda: tnf.cond(True, lambda: (1.0, 2.0), lambda: 1.0),
        errors.ArityError,
        ["structure"],
    ),
    "a predicate that is not a scalar": (
        lambda: tnf.cond(np.ones(2) > 0, lambda: 1.0, lambda: 1.0),
        errors.ShapeError,
        ["bool[2]"],
    ),
    "a condition that is not a scalar": (
        lambda: tnf.while_loop(lambda c: np.ones(2) > 0, lambda c: c, 0.0),
        errors.ShapeError,
        ["cond_fun"],
    ),
    "a complex predicate": (
        lambda: tnf.cond(1j, lambda: 1.0, lambda: 1.0),
        errors.DTypeError,
        ["cond", "bool or a real number", "c128[]"],
    ),
    **{
        f"a condition of {name}": (
            lambda goes_on=goes_on: tnf.while_loop(goes_on, lambda c: c - 1, 3.0),
            errors.DTypeError,
            ["cond_fun", "bool", spec],
        )
        for name, goes_on, spec in (
            ("floats", lambda c: c, "f64[]"),
            ("integers", lambda c: tnf.astype(c, "int32"), "i32[]"),
            ("Python numbers", lambda c: 0.0, "f64[]"),
        )
    },
    "an index that is not an integer": (
        lambda: tnf.switch(1.0, [lambda: 1.0, lambda: 2.0]),
        errors.DTypeError,
        ["switch"],
    ),
    "no branches": (lambda: tnf.switch(1, []), errors.InvalidConfigError, ["branches"]),
    "bounds that are not integers": (
        lambda: tnf.fori_loop(0.0, 3, lambda i, v: v, 1.0),
        errors.DTypeError,
        ["lower"],
    ),
    "a bound that the counter cannot reach": (
        lambda: tnf.fori_loop(np.int8(0), 200, lambda i, v: v + i, 0),
        errors.DTypeError,
        ["upper", "200", "int8"],
    ),
    "bounds of no common dtype": (
        lambda: tnf.fori_loop(np.uint64(0), np.int64(3), lambda i, v: v, 0),
        errors.DTypeError,
        ["lower", "upper"],
    ),
    "a number that takes one dtype after the other": (
        lambda: tnf.while_loop(
            lambda c: False, lambda c: tnf.astype(c, "f4" if c.dtype == tnf.float64 else "f8"), 0.0
        ),
        errors.DTypeError,
        ["carry", "f32", "f64"],
    ),
    "a bound that is not an integer": (
        lambda: tnf.while_loop(lambda c: c < 1, lambda c: c + 1, 0.0, max_steps=True),
        errors.InvalidConfigError,
        ["while_loop", "max_steps", "True"],
    ),
    "a negative bound": (
        lambda: tnf.while_loop(lambda c: c < 1, lambda c: c + 1, 0.0, max_steps=-1),
        errors.InvalidConfigError,
        ["max_steps", "-1"],
    ),
    "a bound on a loop over integers": (
        lambda: tnf.while_loop(lambda c: c < 1, lambda c: c + 1, 0, max_steps=2),
        errors.InvalidConfigError,
        ["NaN", "i64[]", "max_steps"],
    ),
    "a bound on a fixed number of iterations": (
        lambda: tnf.fori_loop(0, 3, lambda i, v: v, 0.0, max_steps=2),
        errors.InvalidConfigError,
        ["max_steps=2", "leave it out"],
    ),
    "an associative scan of different extents": (
        lambda: tnf.associative_scan(lambda a, b: a, (np.ones(3), np.ones(4))),
        errors.ShapeError,
        ["3", "4"],
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case: tuple[Callable[[], Any], type[Exception], list[str]]) -> None:
    attempt, kind, words = case
    with pytest.raises(kind) as caught:
        attempt()
    for word in words:
        assert word in str(caught.value)


def test_the_gradient_of_a_conditional_computes_nothing_twice() -> None:
    """In a program of value and gradient, each branch must compute its sine, cosine and exponentials only once."""

    def chosen(x: Any, i: Any) -> Any:
        branches = [lambda x: tnf.exp(tnf.sin(x)), lambda x: tnf.exp(tnf.exp(x)), lambda x: x]
        return tnf.switch(i, branches, x)

    text = str(tnf.compile(tnf.value_and_grad(chosen), np.float64(0.3), np.int32(0)))
    assert [text.count(f" = {op} ") for op in ("Sin", "Cos", "Exp")] == [1, 1, 3]


# ---- batches of conditionals ------------------------------------------------------------------------


def rooted(t: Any) -> Any:
    return tnf.cond(t > 0, tnf.sqrt, tnf.sin, t)


def picked(t: Any) -> Any:
    branches = [tnf.sin, tnf.sqrt, lambda u: tnf.log(u) * u]
    return tnf.switch(tnf.astype(t > 0, "int32") + tnf.astype(t > 3, "int32"), branches, t)


def rolled(t: Any) -> Any:
    def body(c: Any, _: Any) -> Any:
        return tnf.cond(c > 0.5, lambda u: tnf.sqrt(u - 0.5), lambda u: u * 0.9 + 0.1, c), None

    return tnf.scan(body, t, length=3)[0]


def nested_choice(t: Any) -> Any:
    inner = lambda u: tnf.cond(u > 2, lambda v: tnf.sqrt(v - 2) * u, tnf.log, u)
    return tnf.cond(t > 0, inner, lambda u: u * u, t)


def bounded(t: Any) -> Any:
    return tnf.while_loop(lambda v: v > 1, lambda v: tnf.sqrt(v - 1.0), t, max_steps=4)


def unbounded(t: Any) -> Any:
    return tnf.while_loop(lambda v: v > 1, lambda v: tnf.sqrt(v - 1.0), t)


def ruled(t: Any) -> Any:
    @tnf.custom_jvp
    def root(x: Any) -> Any:
        return tnf.sqrt(x)

    root.defjvp(lambda p, t: (root(p[0]), t[0] / (2 * root(p[0]))))
    return tnf.cond(t > 0, lambda u: tnf.checkpoint(root)(u) * u, tnf.stop_gradient, t)


CONDITIONALS = [rooted, picked, rolled, nested_choice, bounded, unbounded, ruled]
CHOSEN = np.array([4.0, -1.0, 0.2, 0.9, 2.3])


@pytest.mark.parametrize("fn", CONDITIONALS)
def test_the_branch_not_taken_is_not_in_the_gradient_of_a_batch(fn: Any) -> None:
    first, second = (
        np.array([slope(t) for t in CHOSEN]) for slope in (tnf.grad(fn), tnf.grad(tnf.grad(fn)))
    )
    assert np.isfinite([first, second]).all()
    total = lambda z: tnf.sum(tnf.vmap(fn)(z))
    program = tnf.compile(tnf.grad(total), CHOSEN)
    by_rows = lambda z: tnf.sum(tnf.vmap(tnf.vmap(fn))(tnf.reshape(z, (1, 5))))
    for gradient in (
        program.run(CHOSEN),
        XlaExecutor().run(program, CHOSEN),
        tnf.jvp(tnf.vmap(fn), (CHOSEN,), (np.ones(5),))[1],
        tnf.vmap(tnf.grad(fn))(CHOSEN),
        tnf.grad(by_rows)(CHOSEN),
        np.diagonal(tnf.jacrev(tnf.vmap(fn))(CHOSEN)),
        np.diagonal(tnf.jacfwd(tnf.vmap(fn))(CHOSEN)),
    ):
        np.testing.assert_allclose(gradient, first, rtol=1e-12)
    for gradient in (
        tnf.grad(lambda z: tnf.sum(tnf.grad(total)(z)))(CHOSEN),
        tnf.grad(lambda z: tnf.sum(tnf.vmap(tnf.grad(fn))(z)))(CHOSEN),
        np.diagonal(tnf.hessian(total)(CHOSEN)),
    ):
        np.testing.assert_allclose(gradient, second, rtol=1e-11)


@pytest.mark.parametrize("place", ["captured", "passed"])
def test_what_slices_share_gets_the_gradient_of_those_that_take_its_branch(place: str) -> None:
    def of(t: Any, w: Any) -> Any:
        if place == "captured":
            return tnf.cond(t > 0, lambda u: tnf.sqrt(u * w[0]), lambda u: w[1] * u, t)
        return tnf.cond(t > 0, lambda u, w: tnf.sqrt(u * w[0]), lambda u, w: w[1] * u, t, w)

    w = np.array([2.0, 3.0])
    total = lambda w: tnf.sum(tnf.vmap(of, (0, None))(CHOSEN, w))
    expected = sum(tnf.grad(of, 1)(t, w) for t in CHOSEN)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(tnf.grad(total)(w), expected, rtol=1e-13)
    second = sum(tnf.hessian(lambda w, t=t: of(t, w))(w) for t in CHOSEN)
    np.testing.assert_allclose(tnf.hessian(total)(w), second, rtol=1e-12)


def test_a_batch_of_conditionals_computes_each_branch_once() -> None:
    def ops(fn: Any) -> list[str]:
        return [step.op.name for step in tnf.compile(fn, CHOSEN).instructions]

    total = lambda z: tnf.sum(tnf.vmap(rooted)(z))
    counted = ("Sqrt", "Sin", "Cos", "Select")
    plain, derived = ops(tnf.vmap(rooted)), ops(tnf.value_and_grad(total))
    assert [plain.count(name) for name in counted] == [1, 1, 0, 1]
    assert [derived.count(name) for name in counted] == [1, 1, 1, 2]


@pytest.mark.parametrize("dtype", ["int2", "uint4", "int4"])
def test_narrow_integers_count_and_choose(dtype: str) -> None:
    index, last = (np.asarray(n).astype(DType.of(dtype).dtype) for n in (0, 1))
    assert tnf.switch(last, [lambda x: x + 1, lambda x: x * 2], 3.0) == 6
    assert tnf.fori_loop(index, last, lambda i, x: x + 1, 0.0) == 1
    with pytest.raises(errors.DTypeError, match="upper is 100, and the loop counts in"):
        tnf.fori_loop(index, 100, lambda i, x: x + 1, 0.0)

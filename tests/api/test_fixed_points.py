"""Solvers of equations: values and derivatives must equal closed forms, NumPy, JAX, or finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from xla_peer import XlaExecutor

jax.config.update("jax_enable_x64", True)

A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.2], [0.5, -0.2, 2.0]])
M = A + np.array([[0.0, 0.7, -0.3], [0.1, 0.0, 0.9], [-0.6, 0.2, 0.0]])
B = np.array([1.0, 2.0, -0.5])


def conjugate_gradients(n: Any, lax: Any) -> Callable[..., Any]:
    """Return a conjugate gradient solver.

    It has a while loop, which reverse mode cannot differentiate, so that gradients must come from the implicit rule.
    """

    def solve(matvec: Any, b: Any) -> Any:
        def turn(state: Any) -> Any:
            x, r, p, i = state
            q = matvec(p)
            step = n.sum(r * r) / n.sum(p * q)
            after = r - step * q
            return x + step * p, after, after + n.sum(after * after) / n.sum(r * r) * p, i + 1

        start = (0 * b, b, b, 0)
        return lax.while_loop(lambda s: (n.sum(s[1] * s[1]) > 1e-26) & (s[3] < 20), turn, start)[0]

    return solve


def newton(n: Any, f: Any) -> Callable[..., Any]:
    """Return a root finder by Newton's method. It converges if the guess is above the root."""

    def solve(g: Any, guess: Any) -> Any:
        def step(state: Any) -> Any:
            x, i = state
            return x - g(x) / f.jvp(g, (x,), (n.ones_like(x),))[1], i + 1

        lax = tnf.lax if f is tnf else jax.lax
        return lax.while_loop(lambda s: (abs(g(s[0])) > 1e-13) & (s[1] < 40), step, (guess, 0))[0]

    return solve


def direct(matvec: Any, b: Any) -> Any:
    return tnf.linalg.solve(tnf.jacfwd(matvec)(b), b)


def richardson(matvec: Any, b: Any) -> Any:
    """Solve A x = b by the iteration x <- x + w (b - A x).

    It is a while loop, which reverse mode cannot differentiate.
    """
    start = (0 * b, 0)
    return tnf.while_loop(
        lambda s: s[1] < 200, lambda s: (s[0] + 0.2 * (b - matvec(s[0])), s[1] + 1), start
    )[0]


def symmetric_solution(n: Any, lax: Any) -> Callable[..., Any]:
    solve = conjugate_gradients(n, lax)
    return lambda a, b: lax.custom_linear_solve(lambda x: a @ x, b, solve, symmetric=True)


SYMMETRIC = symmetric_solution(tnf, tnf.lax)
JAX_SYMMETRIC = symmetric_solution(jnp, jax.lax)


def general_solution(a: Any, b: Any) -> Any:
    return tnf.custom_linear_solve(lambda x: a @ x, b, richardson, richardson)


def square_root(a: Any) -> Any:
    scalar = newton(tnf, tnf)
    return tnf.custom_root(lambda x: x * x - a, a + 1.0, scalar, lambda g, y: y / g(1.0))


def curved(n: Any, solution: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loss that depends nonlinearly on the solution of the system, and directly on b."""
    return lambda a, b: n.sum(n.sin(solution(a, b)) * n.exp(b))


# ---- linear systems ------------------------------------------------------------------------------


def test_the_solution_is_that_of_the_system() -> None:
    np.testing.assert_allclose(SYMMETRIC(A, B), np.linalg.solve(A, B), rtol=1e-12)
    np.testing.assert_allclose(tnf.jit(general_solution)(M, B), np.linalg.solve(M, B), rtol=1e-12)


def test_tangents_solve_the_same_system() -> None:
    rng = np.random.default_rng(0)
    a_dot, b_dot = rng.normal(size=A.shape), rng.normal(size=B.shape)
    x, x_dot = tnf.jvp(general_solution, (M, B), (a_dot, b_dot))
    np.testing.assert_allclose(x, np.linalg.solve(M, B), rtol=1e-12)
    np.testing.assert_allclose(x_dot, np.linalg.solve(M, b_dot - a_dot @ x), rtol=1e-12)


def test_cotangents_solve_the_transposed_system() -> None:
    x, pull = tnf.vjp(general_solution, M, B)
    a_bar, b_bar = pull(np.array([1.0, -2.0, 0.5]))
    adjoint = np.linalg.solve(M.T, np.array([1.0, -2.0, 0.5]))
    np.testing.assert_allclose(b_bar, adjoint, rtol=1e-12)
    np.testing.assert_allclose(a_bar, -np.outer(adjoint, x), rtol=1e-12)


def test_gradients_are_those_of_jax() -> None:
    ours, theirs = curved(tnf, SYMMETRIC), curved(jnp, JAX_SYMMETRIC)
    wanted = jax.jit(jax.grad(theirs, (0, 1)))(A, B)
    for mine, other in zip(tnf.grad(ours, (0, 1))(A, B), wanted, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)


def test_second_derivatives_are_those_of_the_inverse() -> None:
    inverse, weights = np.linalg.inv(M), np.exp(B)
    x = inverse @ B
    mixed = inverse.T * (np.cos(x) * weights)
    wanted = -inverse.T @ np.diag(np.sin(x) * weights) @ inverse + mixed + mixed.T
    wanted += np.diag(np.sin(x) * weights)
    loss = curved(tnf, general_solution)
    for outer in (tnf.jacfwd, tnf.jacrev):
        for inner in (tnf.jacfwd, tnf.jacrev):
            np.testing.assert_allclose(outer(inner(loss, 1), 1)(M, B), wanted, atol=1e-11)


def test_the_second_derivative_by_the_matrix_is_that_of_the_direct_solver() -> None:
    ours, wanted = curved(tnf, general_solution), curved(tnf, tnf.linalg.solve)
    a_dot = np.random.default_rng(1).normal(size=M.shape)
    slope = lambda loss: tnf.jvp(lambda a: tnf.grad(loss)(a, B), (M,), (a_dot,))[1]
    np.testing.assert_allclose(slope(ours), slope(wanted), atol=1e-11)


def test_complex_systems_have_the_adjoint_of_the_solution() -> None:
    c, b = M[:2, :2] + 1j * A[:2, 1:], np.array([1.0 + 2.0j, -0.5j])

    def solve(matvec: Any, b: Any) -> Any:
        return tnf.linalg.solve(tnf.jacfwd(matvec, holomorphic=True)(b), b)

    def loss(c: Any, b: Any) -> Any:
        x = tnf.custom_linear_solve(lambda x: c @ x, b, solve, solve)
        return tnf.sum(tnf.abs(x) ** 2)

    x = np.linalg.solve(c, b)
    adjoint = np.linalg.solve(c.conj().T, 2 * x)
    c_bar, b_bar = tnf.grad(loss, (0, 1))(c, b)
    np.testing.assert_allclose(b_bar, adjoint, rtol=1e-12)
    np.testing.assert_allclose(c_bar, -np.outer(adjoint, x.conj()), rtol=1e-12)


def test_vectors_may_be_trees() -> None:
    def solution(s: Any, b: Any) -> Any:
        def matvec(v: Any) -> Any:
            return {"a": s * v["a"] + v["c"][0], "c": [3.0 * v["c"][0] - v["a"]]}

        def solve(matvec: Any, b: Any) -> Any:
            # `matvec` applied to the two unit vectors returns the columns of the 2 x 2 matrix. Cramer's rule then
            # solves the system.
            one = matvec({"a": 1.0, "c": [0.0]})
            two = matvec({"a": 0.0, "c": [1.0]})
            det = one["a"] * two["c"][0] - two["a"] * one["c"][0]
            x = (two["c"][0] * b["a"] - two["a"] * b["c"][0]) / det
            return {"a": x, "c": [(one["a"] * b["c"][0] - one["c"][0] * b["a"]) / det]}

        return tnf.custom_linear_solve(matvec, b, solve, solve)

    def loss(s: Any, b: Any) -> Any:
        x = solution(s, b)
        return x["a"] * x["c"][0]

    s, b = 2.0, {"a": 1.0, "c": [4.0]}
    x = np.linalg.solve([[s, 1.0], [-1.0, 3.0]], [1.0, 4.0])
    adjoint = np.linalg.solve(np.array([[s, 1.0], [-1.0, 3.0]]).T, x[::-1])
    s_bar, b_bar = tnf.grad(loss, (0, 1))(s, b)
    np.testing.assert_allclose(loss(s, b), x[0] * x[1])
    np.testing.assert_allclose(s_bar, -adjoint[0] * x[0])
    np.testing.assert_allclose([b_bar["a"], b_bar["c"][0]], adjoint)


def test_aux_is_handed_on_as_a_constant() -> None:
    def solve(matvec: Any, b: Any) -> Any:
        x = direct(matvec, b)
        return x, {"norm": tnf.sum(x * x), "turns": 7}

    def solution(b: Any) -> Any:
        return tnf.custom_linear_solve(lambda x: M @ x, b, solve, solve, has_aux=True)

    x, aux = solution(B)
    np.testing.assert_allclose(aux["norm"], np.sum(np.linalg.solve(M, B) ** 2))
    traced_x, traced = tnf.jit(solution)(B)
    np.testing.assert_allclose(traced_x, x)
    assert traced["turns"] == 7
    gradient = tnf.grad(lambda b: tnf.sum(solution(b)[0]) + solution(b)[1]["norm"])(B)
    np.testing.assert_allclose(gradient, np.linalg.solve(M.T, np.ones(3)))


# ---- roots ---------------------------------------------------------------------------------------


def test_the_square_root_has_the_derivatives_of_one() -> None:
    a = 4.0
    np.testing.assert_allclose(square_root(a), 2.0)
    np.testing.assert_allclose(tnf.grad(square_root)(a), 0.25, rtol=1e-12)
    np.testing.assert_allclose(tnf.jvp(square_root, (a,), (3.0,))[1], 0.75, rtol=1e-12)
    np.testing.assert_allclose(tnf.hessian(square_root)(a), -1 / 32, rtol=1e-12)
    third = tnf.grad(tnf.grad(tnf.grad(square_root)))(a)
    np.testing.assert_allclose(third, 3 / 256, rtol=1e-12)


def test_the_initial_guess_has_no_derivative() -> None:
    def root(guess: Any) -> Any:
        return tnf.custom_root(
            lambda x: x * x - 2.0, guess, newton(tnf, tnf), lambda g, y: y / g(1.0)
        )

    assert tnf.grad(root)(3.0) == 0.0


def implicit_number(n: Any, f: Any, lax: Any) -> Callable[..., Any]:
    """Return the solution x of x + tanh(a x) / 4 = b, as a function of a and b."""

    def solution(a: Any, b: Any) -> Any:
        return lax.custom_root(
            lambda x: x + n.tanh(a * x) / 4 - b, b, newton(n, f), lambda g, y: y / g(1.0)
        )

    return solution


def test_roots_have_the_derivatives_of_jax() -> None:
    ours = implicit_number(tnf, tnf, tnf.lax)
    theirs = implicit_number(jnp, jax, jax.lax)
    a, b = 1.5, 0.7
    wanted = jax.jit(lambda a, b: (theirs(a, b), jax.hessian(theirs, (0, 1))(a, b)))(a, b)
    np.testing.assert_allclose(ours(a, b), wanted[0], rtol=1e-13)
    np.testing.assert_allclose(
        np.array(tnf.hessian(ours, (0, 1))(a, b)), np.array(wanted[1]), rtol=1e-10
    )


def test_systems_of_equations_have_the_derivatives_of_the_implicit_function() -> None:
    def solution(a: Any, b: Any) -> Any:
        def solve(g: Any, guess: Any) -> Any:
            turn = lambda s: (s[0] - g(s[0]), s[1] + 1)
            return tnf.while_loop(lambda s: s[1] < 120, turn, (guess, 0))[0]

        return tnf.custom_root(lambda x: x + tnf.tanh(a @ x) / 8 - b, b, solve, direct)

    x, x_dot = tnf.jvp(solution, (M, B), (A, np.ones(3)))
    np.testing.assert_allclose(x + np.tanh(M @ x) / 8, B, rtol=1e-13)
    slope = np.diag(1 - np.tanh(M @ x) ** 2) / 8
    jacobian = np.eye(3) + slope @ M
    np.testing.assert_allclose(x_dot, np.linalg.solve(jacobian, 1 - slope @ A @ x), rtol=1e-12)
    adjoint = np.linalg.solve(jacobian.T, np.cos(x))
    loss = lambda a, b: tnf.sum(tnf.sin(solution(a, b)))
    a_bar, b_bar = tnf.grad(loss, (0, 1))(M, B)
    np.testing.assert_allclose(b_bar, adjoint, rtol=1e-12)
    np.testing.assert_allclose(a_bar, -np.outer(slope @ adjoint, x), atol=1e-15)
    gradient, h = tnf.grad(loss, 1), 1e-5
    ahead, behind = gradient(M, B + h * x), gradient(M, B - h * x)
    np.testing.assert_allclose(
        tnf.hessian(loss, 1)(M, B) @ x, (ahead - behind) / (2 * h), rtol=1e-7
    )


def test_a_tangent_may_be_solved_by_a_loop_in_a_linear_solve() -> None:
    def root(a: Any, b: Any) -> Any:
        return tnf.custom_root(
            lambda x: a @ x - b,
            b,
            lambda _, b: tnf.stop_gradient(tnf.linalg.solve(a, b)),
            lambda g, y: tnf.custom_linear_solve(g, y, richardson, richardson),
        )

    x = np.linalg.solve(M, B)
    adjoint = np.linalg.solve(M.T, np.cos(x))
    a_bar, b_bar = tnf.grad(lambda a, b: tnf.sum(tnf.sin(root(a, b))), (0, 1))(M, B)
    np.testing.assert_allclose(b_bar, adjoint, rtol=1e-12)
    np.testing.assert_allclose(a_bar, -np.outer(adjoint, x), rtol=1e-12)


# ---- fixed points --------------------------------------------------------------------------------


def softmax_point(w: Any, c: Any) -> Any:
    return tnf.fixed_point(lambda x: tnf.nn.softmax(w @ x + c), np.full(3, 1 / 3))


def test_a_fixed_point_of_softmax_has_the_derivatives_of_the_implicit_function() -> None:
    w = 0.3 * M
    x = softmax_point(w, B)
    for _ in range(3):
        z = np.exp(w @ x + B)
        np.testing.assert_allclose(x, z / z.sum(), rtol=1e-13)
    slope = np.diag(x) - np.outer(x, x)
    wanted = np.linalg.solve(np.eye(3) - slope @ w, slope)
    np.testing.assert_allclose(tnf.jacfwd(softmax_point, 1)(w, B), wanted, atol=1e-12)
    np.testing.assert_allclose(tnf.jacrev(softmax_point, 1)(w, B), wanted, atol=1e-12)
    h, second = 1e-5, tnf.hessian(softmax_point, 1)(w, B)
    ahead, behind = (tnf.jacrev(softmax_point, 1)(w, B + step * x) for step in (h, -h))
    np.testing.assert_allclose(second @ x, (ahead - behind) / (2 * h), atol=1e-9)


def test_a_fixed_point_may_be_a_tree_of_several_dtypes() -> None:
    def point(a: Any) -> Any:
        return tnf.fixed_point(
            lambda v: {"x": 0.5 * tnf.cos(v["x"]) * a, "y": 0.25j * v["y"] + v["x"]},
            {"x": 0.0, "y": np.zeros(2, np.complex128)},
        )

    v = point(0.8)
    np.testing.assert_allclose(v["x"], 0.4 * np.cos(v["x"]))
    np.testing.assert_allclose(v["y"], np.full(2, v["x"] / (1 - 0.25j)))
    x_dot = 0.5 * np.cos(v["x"]) / (1 + 0.4 * np.sin(v["x"]))
    slope = tnf.grad(lambda a: point(a)["x"] + tnf.sum(tnf.imag(point(a)["y"])))(0.8)
    np.testing.assert_allclose(slope, x_dot * (1 + 2 * np.imag(1 / (1 - 0.25j))), rtol=1e-12)


def test_what_does_not_settle_is_nan() -> None:
    growing = lambda a: tnf.fixed_point(lambda x: a * x + 1.0, 0.0, max_steps=50)
    assert np.isnan(growing(2.0))
    assert np.isnan(tnf.grad(growing)(2.0))
    np.testing.assert_allclose(tnf.grad(growing)(0.25), 1 / 0.75**2)
    assert np.isnan(tnf.fixed_point(lambda x: 0.99 * x + 1.0, 0.0, max_steps=5))
    loose = tnf.fixed_point(lambda x: 0.5 * x + 1.0, 0.0, rtol=0.0, atol=0.3)
    assert loose == 1.75


# ---- solutions inside other transforms -----------------------------------------------------------


def repeated(solution: Callable[..., Any]) -> Callable[..., Any]:
    def fn(a: Any, b: Any) -> Any:
        return tnf.sum(
            tnf.scan(lambda c, x: (solution(a, tnf.sin(c) + x), None), b, np.ones((2, 3)))[0]
        )

    return fn


def test_inside_of_loops_they_close_over_what_is_differentiated() -> None:
    ours, wanted = repeated(general_solution), repeated(tnf.linalg.solve)
    for mine, other in zip(
        tnf.grad(ours, (0, 1))(M, B), tnf.grad(wanted, (0, 1))(M, B), strict=True
    ):
        np.testing.assert_allclose(mine, other, atol=1e-12)
    np.testing.assert_allclose(
        tnf.grad(tnf.checkpoint(ours), 1)(M, B), tnf.grad(wanted, 1)(M, B), atol=1e-12
    )
    np.testing.assert_allclose(tnf.hessian(ours, 1)(M, B), tnf.hessian(wanted, 1)(M, B), atol=1e-10)


def test_a_choice_and_a_while_loop_take_them() -> None:
    def fn(a: Any, b: Any) -> Any:
        chosen = tnf.cond(tnf.sum(b) > 0, lambda: general_solution(a, b), lambda: b)
        return tnf.sum(chosen * chosen)

    x = np.linalg.solve(M, B)
    np.testing.assert_allclose(tnf.grad(fn, 1)(M, B), np.linalg.solve(M.T, 2 * x), rtol=1e-12)

    def iterated(b: Any) -> Any:
        step = lambda s: (general_solution(M, s[0]), s[1] + 1)
        return tnf.while_loop(lambda s: s[1] < 2, step, (b, 0))[0]

    inverse = np.linalg.inv(M)
    np.testing.assert_allclose(tnf.jacfwd(iterated)(B), inverse @ inverse, rtol=1e-10)


def test_batches_of_solutions_have_gradients() -> None:
    a = np.array([1.0, 4.0, 9.0])
    np.testing.assert_allclose(tnf.vmap(square_root)(a), np.sqrt(a))
    np.testing.assert_allclose(tnf.vmap(tnf.grad(square_root))(a), 0.5 / np.sqrt(a))
    np.testing.assert_allclose(
        tnf.grad(lambda a: tnf.sum(tnf.vmap(square_root)(a)))(a), 0.5 / np.sqrt(a)
    )
    bs = np.stack([B, 2 * B, B - 1])
    x = np.linalg.solve(M, bs.T)
    loss = lambda m: tnf.sum(tnf.vmap(general_solution, (None, 0))(m, bs))
    wanted = -np.outer(np.linalg.solve(M.T, np.ones(3)), x.sum(axis=1))
    np.testing.assert_allclose(tnf.grad(loss)(M), wanted, rtol=1e-11)


def test_a_batch_differs_in_what_the_equation_alone_reads() -> None:
    def root(a: Any) -> Any:
        s = tnf.sin(a)
        return tnf.custom_root(lambda x: x - 3.0 * s, 3.0, lambda _, x: x, lambda g, y: y / g(1.0))

    a = np.array([0.3, 1.0])
    gradient = tnf.grad(lambda a: tnf.sum(tnf.vmap(root)(a)))(a)
    np.testing.assert_allclose(gradient, 3.0 * np.cos(a))


def test_a_tangent_rule_may_solve() -> None:
    @tnf.custom_jvp
    def solved(b: Any) -> Any:
        return tnf.stop_gradient(tnf.linalg.solve(M, b))

    solved.defjvp(lambda xs, dots: (solved(*xs), general_solution(M, *dots)))
    gradient = tnf.grad(lambda b: tnf.sum(solved(b)))(B)
    np.testing.assert_allclose(gradient, np.linalg.solve(M.T, np.ones(3)), rtol=1e-12)
    bs = np.stack([B, 2 * B])
    batched = tnf.grad(lambda bs: tnf.sum(tnf.vmap(solved)(bs)[0]))(bs)
    np.testing.assert_allclose(batched[0], np.linalg.solve(M.T, np.ones(3)), rtol=1e-12)
    np.testing.assert_array_equal(batched[1], np.zeros(3))


def test_through_xla_they_are_what_they_are_natively() -> None:
    executor = XlaExecutor()
    fn = tnf.value_and_grad(curved(tnf, SYMMETRIC), (0, 1))
    value, (a_bar, b_bar) = tnf.jit(fn, executor=executor)(A, B)
    native, (a_native, b_native) = fn(A, B)
    np.testing.assert_allclose(value, native, rtol=1e-12)
    np.testing.assert_allclose(a_bar, a_native, atol=1e-12)
    np.testing.assert_allclose(b_bar, b_native, atol=1e-12)
    np.testing.assert_allclose(tnf.grad(square_root, executor=executor)(4.0), 0.25, rtol=1e-12)


def test_extents_may_be_symbols() -> None:
    specs = tnf.TensorSpec(("n", "n"), "float64"), tnf.TensorSpec(("n",), "float64")
    program = tnf.compile(tnf.grad(lambda a, b: tnf.sum(general_solution(a, b)), 1), *specs)
    np.testing.assert_allclose(program.run(M, B), np.linalg.solve(M.T, np.ones(3)), rtol=1e-12)
    np.testing.assert_allclose(program.run(M[:2, :2], B[:2]), np.linalg.solve(M[:2, :2].T, [1, 1]))


def test_the_tape_takes_them_as_one_operation() -> None:
    runtime = tnf.EagerRuntime()
    a, b = runtime.variable(M), runtime.variable(B)
    tnf.sum(general_solution(a, b)).backward()
    adjoint = np.linalg.solve(M.T, np.ones(3))
    wanted = -np.outer(adjoint, np.linalg.solve(M, B))
    np.testing.assert_allclose(np.asarray(b.grad), adjoint, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(a.grad), wanted, rtol=1e-12)
    closed_over = runtime.variable(M)
    tnf.sum(general_solution(closed_over, B)).backward()
    np.testing.assert_allclose(np.asarray(closed_over.grad), wanted, rtol=1e-12)


def test_prints_inside_do_not_stand_in_the_way_of_derivatives(capsys: Any) -> None:
    def solution(b: Any) -> Any:
        def matvec(x: Any) -> Any:
            tnf.debug_print("at {}", x)
            return M @ x

        return tnf.custom_linear_solve(matvec, b, lambda _, b: tnf.linalg.solve(M, b), direct)

    gradient = tnf.grad(lambda b: tnf.sum(solution(b)))(B)
    np.testing.assert_allclose(gradient, np.linalg.solve(M.T, np.ones(3)), rtol=1e-12)


def test_equal_derivatives_share_a_program() -> None:
    gradient = tnf.grad(lambda b: tnf.sum(general_solution(M, b)))
    gradient(B), gradient(2 * B)
    assert gradient.cache_stats().misses == 1


def test_the_solver_runs_once_for_a_value_and_once_for_a_gradient() -> None:
    program = tnf.compile(tnf.value_and_grad(curved(tnf, SYMMETRIC), 1), A, B)
    loops = [step for step in program.instructions if step.op.name == "While"]
    assert len(loops) == 2


# ---- refusals ------------------------------------------------------------------------------------


def test_reverse_mode_asks_for_transpose_solve() -> None:
    def fn(b: Any) -> Any:
        return tnf.custom_linear_solve(lambda x: M @ x, b, richardson)

    x_dot = tnf.jvp(fn, (B,), (B,))[1]
    np.testing.assert_allclose(x_dot, np.linalg.solve(M, B), rtol=1e-12)
    with pytest.raises(errors.ADRuleUnsupportedError, match="there is no transpose_solve"):
        tnf.grad(lambda b: tnf.sum(fn(b)))(B)


def test_a_loop_for_the_tangent_is_transposed() -> None:
    """The rule of the tangent is a linear solve. For the gradient, the transpose of this solve must be used."""

    def fn(b: Any) -> Any:
        return tnf.custom_root(
            lambda x: M @ x - b, b, lambda _, b: tnf.linalg.solve(M, b), richardson
        )

    gradient = tnf.grad(lambda b: tnf.sum(fn(b)))(B)
    np.testing.assert_allclose(gradient, np.linalg.solve(M.T, np.ones_like(B)), rtol=1e-12)


def test_a_map_that_is_not_linear_is_refused_in_reverse() -> None:
    def fn(b: Any) -> Any:
        return tnf.sum(tnf.custom_linear_solve(lambda x: x * x, b, lambda _, b: b, lambda _, b: b))

    with pytest.raises(errors.InvalidConfigError, match="is not linear"):
        tnf.grad(fn)(B)


def test_results_of_another_structure_are_refused() -> None:
    solve = lambda _, b: b
    with pytest.raises(errors.ArityError, match=r"solve\(\.\.\) must have the structure of b"):
        tnf.custom_linear_solve(lambda x: x, B, lambda _, b: (b, b))
    with pytest.raises(errors.ArityError, match=r"matvec\(\.\.\) must have the structure of b"):
        tnf.jit(lambda b: tnf.custom_linear_solve(lambda x: [x], b, solve))(B)
    with pytest.raises(errors.ShapeError, match=r"f\(\.\.\) must be f64\[3\].*got f64\[2\]"):
        tnf.jit(lambda b: tnf.custom_root(lambda x: x[:2], b, solve, solve))(B)
    with pytest.raises(errors.DTypeError, match=r"solve\(\.\.\) must be f64\[3\].*got f32\[3\]"):
        tnf.custom_root(lambda x: x, B, lambda _, x: x.astype(np.float32), solve)
    with pytest.raises(errors.ArityError, match=r"solve must return \(x, aux\), got ndarray"):
        tnf.custom_root(lambda x: x, B, solve, solve, has_aux=True)
    with pytest.raises(errors.ShapeError, match=r"tangent_solve\(\.\.\) must be f64\[3\]"):
        tnf.jit(lambda b: tnf.custom_root(lambda x: x, b, solve, lambda _, y: y[0]))(B)
    with pytest.raises(errors.ShapeError, match="the argument of the linear map must be"):
        tnf.jit(lambda b: tnf.custom_root(lambda x: x, b, solve, lambda g, y: g(1.0) * y))(B)
    with pytest.raises(errors.ShapeError, match=r"fixed_point: f\(\.\.\) must be f64\[3\]"):
        tnf.fixed_point(tnf.sum, B)


def test_what_is_no_unknown_or_no_function_is_refused() -> None:
    solve = lambda _, b: b
    with pytest.raises(errors.DTypeError, match="is not a tensor"):
        tnf.custom_linear_solve(lambda x: x, "text", solve)
    with pytest.raises(errors.DTypeError, match=r"initial_guess is i64.*float or complex"):
        tnf.custom_root(lambda x: x, 3, solve, solve)
    with pytest.raises(
        errors.InvalidConfigError, match="tangent_solve must be a function, got None"
    ):
        tnf.custom_root(lambda x: x, 3.0, solve, None)  # pyright: ignore[reportArgumentType]  # because it raises
    with pytest.raises(
        errors.InvalidConfigError, match="max_steps must be an integer from 1, got 0"
    ):
        tnf.fixed_point(tnf.cos, 1.0, max_steps=0)
    with pytest.raises(errors.InvalidConfigError, match="tolerances must be at least 0"):
        tnf.fixed_point(tnf.cos, 1.0, rtol=-1.0)

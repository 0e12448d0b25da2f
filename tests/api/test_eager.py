"""For every op and in typical code, eager tensors must have the values and gradients of traced programs."""

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import tenferro as tnf
from tenferro import errors
from tenferro.dispatch import apply
from tenferro.types import DType
from tests.ad.cases import Case, cases
from tests.samples import SAMPLES

RT = tnf.EagerRuntime()


@pytest.mark.parametrize("card", SAMPLES)
def test_values_are_those_of_arrays(card: Any) -> None:
    for sample in SAMPLES[card]:
        given = [RT.constant(x) for x in sample.inputs]
        if not given:
            continue
        for y, z in zip(apply(sample.op, *given), apply(sample.op, *sample.inputs), strict=True):
            assert type(y) is tnf.EagerTensor
            assert not y.is_tracked
            assert (y.dtype, y.shape) == (DType.of(z.dtype), z.shape)
            assert y.numpy().tobytes() == z.tobytes()


CASES = cases({DType.F64, DType.C64}, 1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_those_of_traces(case: Case) -> None:
    xs = [RT.variable(x) for x in case.primals]
    ys = case.fn(*xs)
    rng = np.random.default_rng(0)
    seeds = [rng.standard_normal(y.shape).astype(y.dtype.dtype) for y in ys]
    _, pull = tnf.vjp(case.fn, *case.primals)
    wanted = pull(tuple(seeds))
    for y, seed in zip(ys, seeds, strict=True):
        if y.is_tracked:
            y.backward(seed)
    for x, bar in zip(xs, wanted, strict=True):
        found = np.zeros_like(bar) if x.grad is None else x.grad.numpy()
        assert found.dtype == bar.dtype
        np.testing.assert_allclose(found, bar, rtol=1e-12, atol=1e-12)


def test_gradients_add_up_until_they_are_cleared() -> None:
    x = RT.variable([1.0, 2.0])
    for _ in range(2):
        tnf.sum(x * x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 8.0]
    assert not x.grad.is_tracked
    x.clear_grad()
    assert x.grad is None
    x.backward(seed=[1.0, 1.0])
    assert x.grad.tolist() == [1.0, 1.0]


def test_nothing_is_noted_while_nothing_is_tracked() -> None:
    x = RT.constant([1.0, 2.0])
    y = tnf.exp(x) * 2.0
    assert y.record is None
    v = RT.variable([1.0, 2.0])
    assert (v * x).is_tracked
    assert not (v.detach() * x).is_tracked
    assert not tnf.stop_gradient(v * x).is_tracked
    assert not (v > 1.0).is_tracked
    with pytest.raises(errors.InvalidConfigError, match="no variable led"):
        tnf.sum(y).backward()


def test_the_tape_goes_with_the_tensors() -> None:
    x = RT.variable(np.ones(3))
    y = x * 2.0
    z = tnf.sum(y)
    middle, result = weakref.ref(y), weakref.ref(z)
    del y
    z.backward()
    z.backward()
    assert x.grad.tolist() == [4.0, 4.0, 4.0]
    del z
    gc.collect()
    assert middle() is result() is None


def test_a_loop_of_steps_makes_one_program() -> None:
    rt = tnf.EagerRuntime()
    w = rt.variable(np.zeros(3))
    x, target = np.eye(3), np.array([1.0, 2.0, 3.0])
    for _ in range(50):
        tnf.sum((rt.constant(x) @ w - target) ** 2).backward()
        w = rt.variable(w.numpy() - 0.1 * w.grad.numpy())
    assert np.allclose(w.numpy(), target, atol=1e-3)
    assert rt.cache_stats().misses == 1
    assert rt.cache_stats().hits == 49
    rt.cache_clear()
    assert rt.cache_stats().entries == 0


def test_transforms_of_eager_tensors_are_noted_in_turn() -> None:
    x = RT.variable([1.0, 2.0])
    g = tnf.grad(lambda a: tnf.sum(a**3))(x)
    assert g.tolist() == [3.0, 12.0]
    tnf.sum(g).backward()
    assert x.grad.tolist() == [6.0, 12.0]
    w = RT.variable(2.0)
    closed = tnf.grad(lambda a: tnf.sum(tnf.sin(w * a)))(np.array([0.5, 1.5]))
    tnf.sum(closed).backward()
    a = np.array([0.5, 1.5])
    assert np.allclose(w.grad.numpy(), np.sum(np.cos(2 * a) - 2 * a * np.sin(2 * a)))
    y, pull = tnf.vjp(lambda a: a * a, x)
    assert y.tolist() == [1.0, 4.0]
    assert pull(x)[0].tolist() == [2.0, 8.0]
    assert tnf.jit(lambda a: a * 2)(x).is_tracked
    assert tnf.vmap(lambda a: a * a)(x).tolist() == [1.0, 4.0]


def test_a_trace_does_not_swallow_gradients() -> None:
    w = RT.variable([1.0, 2.0])
    with pytest.raises(errors.InvalidConfigError, match="its gradient lost"):
        tnf.compile(lambda a: a * w, np.ones(2))
    fixed = tnf.compile(lambda a: a * w.detach(), np.ones(2))
    assert fixed.run(np.ones(2)).tolist() == [1.0, 2.0]

    @tnf.custom_jvp
    def own(a: Any) -> Any:
        return a * a

    own.defjvp(lambda primals, tangents: (own(*primals), 7.0 * tangents[0]))
    tnf.sum(own(w)).backward()
    assert w.grad is not None
    assert w.grad.tolist() == [7.0, 7.0]
    assert tnf.vjp(own, w)[1](w)[0].tolist() == [7.0, 14.0]


def test_long_chains_need_no_stack() -> None:
    x = y = RT.variable([1.0])
    for _ in range(5_000):
        y = y * 1.0001
    tnf.sum(y).backward()
    assert np.allclose(x.grad.numpy(), 1.0001**5_000)
    del y
    gc.collect()


def test_seeds_must_fit() -> None:
    x = RT.variable([1.0, 2.0])
    with pytest.raises(errors.ShapeError, match="not a real scalar"):
        (x * x).backward()
    with pytest.raises(errors.ShapeError, match="must be f64"):
        (x * x).backward(np.ones(3))
    with pytest.raises(errors.DTypeError, match="must be f64"):
        (x * x).backward(np.ones(2, np.float32))
    with pytest.raises(errors.DTypeError, match="not a real scalar"):
        tnf.sum(x * 1j).backward()
    with pytest.raises(errors.DTypeError, match="no derivatives"):
        RT.variable([1, 2])
    other = tnf.EagerRuntime().variable([1.0, 2.0])
    with pytest.raises(errors.InvalidConfigError, match="two EagerRuntimes"):
        x + other


def test_extensions_run_and_are_differentiated() -> None:
    a = RT.variable([[2.0, 1.0], [1.0, 3.0]])
    tnf.linalg.slogdet(a)[1].backward()
    np.testing.assert_allclose(a.grad.numpy(), np.linalg.inv(a.numpy()).T)
    b = RT.variable(np.ones((2, 2)))
    tnf.sum(tnf.einsum("ij,jk,kl->il", b, b, b)).backward()
    assert b.grad.shape == (2, 2)


def test_tensors_are_values() -> None:
    given = np.array([1.0, 2.0])
    x = RT.variable(given)
    given[0] = 5.0
    assert x.tolist() == [1.0, 2.0]
    assert not np.asarray(x).flags.writeable
    assert np.array(x).flags.writeable
    with pytest.raises(errors.InvalidConfigError, match="not assigned"):
        x[0] = 3.0
    assert copy.copy(x).is_tracked
    assert np.from_dlpack(RT.constant([1.0])).tolist() == [1.0]
    assert (float(x[1]), int(RT.constant(3)), bool(RT.constant(1.0)), len(x)) == (2.0, 3, True, 2)
    assert [10, 20, 30][RT.constant(1)] == 20
    assert f"{RT.constant(2.5):.2f}" == "2.50"
    assert (repr(x), str(x)) == ("EagerTensor([1., 2.])", "[1. 2.]")
    assert isinstance(np.exp(x), tnf.EagerTensor)
    assert isinstance(np.ones(2) * x, tnf.EagerTensor)


def test_copies_and_pickles() -> None:
    rt = tnf.EagerRuntime()
    x, c = rt.variable([1.0, 2.0]), rt.constant(np.arange(3, dtype="int8"))
    again = copy.deepcopy(x)
    assert again is not x
    assert again.runtime is rt
    assert again.is_variable
    tnf.sum(again * x).backward()
    assert again.grad.tolist() == [1.0, 2.0]
    first, second, both = pickle.loads(pickle.dumps((x, c, x)))
    assert first is both
    assert first.runtime is second.runtime is not rt
    assert (first.tolist(), first.is_variable) == ([1.0, 2.0], True)
    assert (second.tolist(), second.dtype) == ([0, 1, 2], tnf.int8)
    assert (first * second[0]).is_tracked
    for attempt in (copy.deepcopy, pickle.dumps):
        with pytest.raises(errors.InvalidConfigError, match="detach"):
            attempt(x * 2.0)
        attempt((x * 2.0).detach())
    own = tnf.EagerRuntime(tnf.AdContext())
    with pytest.raises(errors.InvalidConfigError, match="of its own"):
        pickle.dumps(own.constant(1.0))


def test_numbers_beside_tensors_keep_their_sign_and_kind() -> None:
    x = RT.constant(np.array([1.0, -1.0], np.float32))
    zeros = [x / 0.0, x / -0.0, x * True, x * 1, x * 1.0]
    assert [y.tolist() for y in zeros[:2]] == [[np.inf, -np.inf], [-np.inf, np.inf]]
    assert {y.dtype for y in zeros} == {tnf.float32}
    assert (RT.constant([True]) * True).dtype == tnf.bool
    assert (RT.constant([True]) * 1).dtype == tnf.int64
    assert np.isnan((x * float("nan")).numpy()).all()
    with pytest.raises(errors.DTypeError, match="fit"):
        RT.constant(np.array([1], np.int8)) + 1000


def test_plans_are_kept_counted_and_dropped() -> None:
    rt = tnf.EagerRuntime()
    x = rt.constant(np.ones(3))
    for _ in range(5):
        tnf.exp(x)
    stats = rt.plan_stats()
    assert (stats.entries, stats.hits, stats.misses) == (1, 4, 1)
    rt.cache_clear()
    assert rt.plan_stats().entries == 0


def test_warnings_stay_as_they_were() -> None:
    x = RT.constant([-1.0, 0.0])
    assert np.isnan(tnf.log(x).numpy()[0])
    with pytest.warns(RuntimeWarning):
        np.log(np.array([-1.0]))


def test_assignment_leaves_what_was_computed_before() -> None:
    v = RT.variable([1.0, 2.0, 3.0])
    x, c = v * 1.0, RT.constant([1.0, 10.0, 100.0])
    before = x * x * c
    row = x[:2]
    x[0] = 5.0
    c[...] = 7.0
    x[1:] = v[:2] * 2.0
    assert x.tolist() == [5.0, 2.0, 4.0]
    assert row.tolist() == [1.0, 2.0]
    tnf.sum(before + x).backward()
    assert v.grad.tolist() == [2.0 + 2.0, 40.0 + 2.0, 600.0]
    given = np.zeros(2)
    shared = RT.adopt(given)
    shared[0] = 1.0
    assert given.tolist() == [0.0, 0.0]
    mask = RT.constant([True, False, True])
    c[mask] = RT.constant([0.0, 1.0])
    assert c.tolist() == [0.0, 7.0, 1.0]
    with pytest.raises(errors.DTypeError, match="astype"):
        c[0] = 1j

"""Copies to another layout must keep all elements, and large copies must be split among threads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tenferro.exec.kernels import copying
from tenferro.exec.kernels.copying import MIN_TILED_BYTES, Copy, Dense, fastest_axis
from tenferro.exec.kernels.transposition import Transposition, transposition_of
from tenferro.exec.runtime.memory import Pool
from tenferro.exec.runtime.resources import Resources
from tenferro.exec.runtime.threads import Workers

SHAPES = [
    (2,) * 12,
    (3, 5, 2, 7, 2, 3, 4),
    (40, 70),
    (130, 3, 129),
    (2, 3000),
    (3000, 2),
    (17, 1, 19, 1, 23),
    (1100, 2, 3),
    (5,),
    (0, 4),
    (),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_permutation_is_copied(
    shape: tuple[int, ...], order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "MIN_TILED_BYTES", 0)
    rng = np.random.default_rng(0)
    dense = Dense(order, Resources(Workers(2), Pool(0)))
    for dtype in ("float64", "int8", "complex128"):
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        for perm in [tuple(range(x.ndim))[::-1], *[rng.permutation(x.ndim) for _ in range(4)]]:
            view = x.transpose(perm)
            if view.ndim and rng.random() < 0.5:
                view = np.flip(view, rng.integers(view.ndim))
            copy = dense(view)
            assert copy.flags.c_contiguous if order == "C" else copy.flags.f_contiguous
            assert copy.dtype == view.dtype
            assert not np.may_share_memory(copy, x)
            assert np.array_equal(copy, view)


def test_repeated_elements_and_gaps_are_copied() -> None:
    x = np.arange(6000.0).reshape(60, 100)
    copies = {order: Dense(order) for order in ("C", "F")}
    for view in (np.broadcast_to(x[:, :1, None], (60, 100, 30)), x[::3, ::7], x[::-2, ::-1].T):
        for dense in copies.values():
            assert np.array_equal(dense(view), view)


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_arrays_are_copied_on_threads(order: str) -> None:
    """Large copies must be split among threads, even if both layouts are equal."""
    dense = Dense(order, Resources(Workers(2), Pool(0)))
    x = np.arange(1_600_000.0)
    for view in (
        x.reshape(800, 2000)[::-1],
        x[::-1],
        x.reshape(100, 20, 800)[:, ::2],
        x.reshape(800, 2000).T,
    ):
        copy = dense(view)
        assert not np.may_share_memory(copy, x) or copy is view
        assert np.array_equal(copy, view)


class Parts(Workers):
    """Workers that record, for each call of `parallel_for`, the maximum number of parts."""

    def __init__(self) -> None:
        super().__init__(1)
        self.counts: list[int] = []

    def parallel_for(self, work: Callable[[int, int], None], rows: int, step: int = 1) -> None:
        self.counts.append(rows)
        super().parallel_for(work, rows, step)


def turned(*shape: int) -> Any:
    """Return an uninitialised column-major array of this shape."""
    return np.empty(shape[::-1]).T


@pytest.mark.parametrize(
    ("shape", "dtype", "merged", "run"),
    [
        ((5,), "f8", [5], 0),
        ((3, 4, 5), "f8", [60], 0),
        ((1, 4, 1), "f8", [4], 0),
        ((1, 1), "f8", [], 0),
    ],
)
def test_contiguous_axes_are_merged(
    shape: tuple[int, ...], dtype: str, merged: list[int], run: int
) -> None:
    x = np.empty(shape, dtype)
    copy = Copy(np.empty(shape, dtype), x)
    assert (copy.shape, copy.run) == (merged, run)


@pytest.mark.parametrize(
    ("shape", "perm", "merged", "run"),
    [
        ((6, 5, 4), (2, 1, 0), [4, 5, 6], 0),
        ((6, 5, 4), (1, 0, 2), [5, 6, 4], 32),
        ((6, 5, 8), (1, 0, 2), [5, 6, 8], 64),
        ((6, 5, 9), (1, 0, 2), [5, 6, 9], 0),
        ((6, 5, 4, 2), (1, 0, 2, 3), [5, 6, 8], 64),
        ((6, 5, 4, 3), (2, 3, 0, 1), [12, 30], 0),
        ((6, 1, 5, 4), (2, 1, 0, 3), [5, 6, 4], 32),
    ],
)
def test_short_common_runs_are_elements(
    shape: tuple[int, ...], perm: tuple[int, ...], merged: list[int], run: int
) -> None:
    x = np.arange(np.prod(shape, dtype=float)).reshape(shape).transpose(perm)
    out = np.empty(x.shape)
    copy = Copy(out, x)
    assert (copy.shape, copy.run) == (merged, run)
    copy(out, x)
    assert np.array_equal(out, x)
    rows = Copy(np.empty((6, 4)), np.empty((6, 8))[:, :4])
    assert (rows.shape, rows.run) == ([6, 4], 32)
    wide = np.zeros((*x.shape, 2))[..., 0]  # the elements are 16 bytes apart, not contiguous
    assert Copy(out, wide).run == 0
    assert Copy(wide, x).run == 0


@pytest.mark.parametrize(
    ("x", "axis"),
    [
        (np.zeros((3, 4)), 1), (np.zeros((3, 4)).T, 0), (np.zeros((3, 4))[:, ::-1], 1), (np.zeros(()), 0),
        (np.broadcast_to(np.zeros((3, 1)), (3, 4)), 0), (np.broadcast_to(np.zeros(4), (3, 4)), 1),
        (np.broadcast_to(np.zeros((3, 100))[:, :1], (3, 4)), 0),
        (np.lib.stride_tricks.sliding_window_view(np.zeros(9), 4), 0),
        (np.lib.stride_tricks.sliding_window_view(np.zeros(9), 7), 1),
    ],
)  # fmt: skip
def test_the_fastest_axis_has_the_smallest_stride(x: Any, axis: int) -> None:
    """Axes of stride 0 must be ignored. Among axes of equal smallest stride, the longest axis must be returned."""
    assert fastest_axis(x) == axis


def test_only_large_results_are_borrowed_from_the_pool() -> None:
    memory = Pool(0)
    dense = Dense("F", Resources(memory=memory))
    for count, new in ((MIN_TILED_BYTES // 8 - 1, 0), (MIN_TILED_BYTES // 8, 1)):
        x = np.arange(float(count))
        assert np.array_equal(dense(x), x)
        assert memory.stats().new == new


def test_how_few_layouts_are_copied_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "MIN_TILED_BYTES", 0)
    planned: list[tuple[int, ...]] = []

    def counted(out: Any, x: Any) -> Copy:
        planned.append(x.shape)
        return Copy(out, x)

    monkeypatch.setattr(copying, "Copy", counted)
    dense = Dense("C")
    arrays = [np.arange(2.0 * n).reshape(2, n).T for n in range(1, 10)]
    for x in (*arrays[:8], *arrays[:8]):
        assert np.array_equal(dense(x), x)
    assert planned == [x.shape for x in arrays[:8]]
    dense(arrays[8])
    assert planned[8:] == [arrays[8].shape]
    halves = np.arange(16, dtype="f4").reshape(2, 8)[:, ::2].T
    assert (halves.shape, halves.strides) == (arrays[3].shape, arrays[3].strides)
    for x in (arrays[8], arrays[3], arrays[3][::-1], halves):
        assert np.array_equal(dense(x), x)
    # Arrays with other strides or another item size need another plan. A full cache must drop its oldest plan.
    assert planned[9:] == [arrays[3].shape] * 2
    dense(arrays[0])
    assert planned[11:] == [arrays[0].shape]


class RecordingTransposer:
    """Transposer whose functions copy nothing. It records the ranges of rows that they were asked to copy."""

    def __init__(self) -> None:
        self.requests, self.done = 0, list[tuple[int, int]]()

    def function(self, transposition: Any) -> Any:
        self.requests += 1
        return lambda x, y, first, last: self.done.append((first, last)), 6


def whole_lines(*shape: int, shift: int = 0) -> Any:
    """Return an array of zeros whose memory begins `shift` bytes after the start of a cache line."""
    nbytes = 8 * int(np.prod(shape))
    memory = np.zeros(nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + shift
    return memory[start : start + nbytes].view("f8").reshape(shape)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_streamed_transpositions_are_shared_among_threads(
    is_streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, out = turned(16, 64), whole_lines(16, 64)
    monkeypatch.setattr(copying, "MIN_TILED_BYTES", x.nbytes)
    monkeypatch.setattr(copying, "MIN_STREAMED_BYTES", x.nbytes + (not is_streamed))
    workers, transposer = Parts(), RecordingTransposer()
    resources = Resources(workers, Pool(0), transposer=transposer.function)
    copy = Copy(out, x)
    assert copy.transposition is not None
    assert copy.transposition.is_streamed is is_streamed
    for requests in (1, 2):
        copy(out, x, resources)
        assert transposer.requests == requests
    assert transposer.done == [(0, 6)] * 2
    assert workers.counts == ([6] * 2 if is_streamed else [])
    for shift in (8, 32):
        copy(whole_lines(16, 64, shift=shift), x, resources)
    assert transposer.requests == 2
    monkeypatch.setattr(copying, "MIN_TILED_BYTES", x.nbytes + 1)
    assert Copy(out, x).transposition is None


def in_lines(
    rows: Any, columns: Any, *outer: tuple[int, int, int], itemsize: int = 8
) -> Transposition:
    return Transposition(itemsize, outer, rows, columns, True)


LAST = (2, 1, 0)
TRANSPOSITIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Transposition | None]] = {
    "a line of columns is enough": (
        (64, 3, 8),
        LAST,
        in_lines(((64, 24),), ((8, 192),), (3, 8, 64)),
    ),
    "columns of two axes": ((64, 3, 4), LAST, in_lines(((64, 12),), ((3, 64), (4, 192)))),
    "rows of two axes": ((4, 4, 8), LAST, in_lines(((4, 8), (4, 32)), ((8, 16),))),
    "rows of one axis, although two would do": (
        (8, 4, 8),
        LAST,
        in_lines(((8, 32),), ((8, 32),), (4, 8, 8)),
    ),
    "a long table of rows": ((4, 1024, 8), LAST, in_lines(((1024, 8), (4, 8192)), ((8, 4096),))),
    "a longer table of rows": ((4, 1026, 8), LAST, None),
    "one long run of rows": ((8192, 8), (1, 0), in_lines(((8192, 8),), ((8, 8192),))),
    "a long table of columns": ((8, 1024, 4), LAST, in_lines(((8, 4096),), ((1024, 8), (4, 8192)))),
    "a longer table of columns": ((8, 1025, 4), LAST, None),
    "four columns": ((64, 4), (1, 0), in_lines(((64, 4),), ((4, 64),))),
    "three columns": ((64, 3), (1, 0), None),
    "partial cache lines": ((63, 8), (1, 0), None),
    "a single axis": ((64,), (0,), None),
    "the same order": ((64, 64), (0, 1), None),
}


@pytest.mark.parametrize("name", TRANSPOSITIONS)
def test_transpositions_have_whole_cache_lines_and_short_tables(name: str) -> None:
    shape, perm, transposition = TRANSPOSITIONS[name]
    x = np.empty(shape).transpose(perm)
    assert transposition_of(np.empty(x.shape), x) == transposition


def test_results_are_streamed_by_their_size() -> None:
    for rows in (256, 512):
        x = np.empty((rows, 512)).T
        transposition = Copy(np.empty(x.shape), x).transposition
        assert transposition is not None
        assert transposition.is_streamed == (x.nbytes >= copying.MIN_STREAMED_BYTES)


@pytest.mark.parametrize(
    ("itemsize", "fewest"),
    [(1, 4), (2, 4), (3, 0), (4, 4), (8, 4), (12, 0), (16, 4), (32, 2), (64, 1), (128, 0)],
)
def test_supported_element_sizes(itemsize: int, fewest: int) -> None:
    for count in (1, 2, 3, 4):
        x = np.empty((64, count), f"V{itemsize}").T
        transposition = transposition_of(np.empty(x.shape, x.dtype), x)
        is_transposed = fewest > 0 and count >= fewest
        expected = in_lines(((64, count),), ((count, 64),), itemsize=itemsize)
        assert transposition == (expected if is_transposed else None)


def test_fields_of_records_are_not_transposed() -> None:
    records = np.zeros((64, 8), [("x", "f8"), ("n", "i4")])["x"].T
    assert transposition_of(np.empty(records.shape), records) is None

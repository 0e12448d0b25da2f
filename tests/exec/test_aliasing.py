"""An array must count as overlapping the address ranges of arrays exactly if NumPy finds an overlap."""

import numpy as np
import pytest

import tenferro as tnf
from tenferro.exec.kernels import aliasing
from tenferro.exec.kernels.aliasing import AddressRanges


@pytest.mark.parametrize("few", [0, 3, 1000])
def test_memory_is_taken_where_an_array_lies_in_it(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aliasing, "MAX_SCANNED", few)
    rng = np.random.default_rng(0)
    for _ in range(200):
        whole = np.zeros(60)
        views: list[np.ndarray] = []
        for _ in range(12):
            a, b = sorted(rng.integers(0, 61, 2))
            views.append(whole[a:b][:: rng.choice([1, 2, -1, -3])])
        ranges = AddressRanges(views[:4])
        for index in range(4, 12):
            wanted = any(np.may_share_memory(views[index], other) for other in views[:index])
            assert ranges.overlaps(views[index]) == wanted
            assert not ranges.overlaps(np.zeros(5))
            ranges.add(views[index])


def test_results_are_nobody_elses_memory() -> None:
    def views(x: tnf.TracedTensor, y: tnf.TracedTensor) -> list[tnf.TracedTensor]:
        z = tnf.exp(x)
        rows = [z[i] for i in range(40)]
        return [*rows, x[1], x[1], z, z.T, tnf.cos(y).T, y, y.T]

    x, y = np.ones((40, 3)), np.ones((5, 4))
    program = tnf.compile(views, x, y)
    for order in ("C", "F", "K"):
        executor = tnf.GraphExecutor(order=order)
        for _ in range(3):
            found = executor.run(program, x, y)
            for i, one in enumerate(found):
                assert one.flags.writeable
                assert not any(np.may_share_memory(one, other) for other in (x, y, *found[:i]))

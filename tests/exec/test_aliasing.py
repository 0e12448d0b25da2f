"""Results share no memory with arguments or each other."""

import numpy as np

import tenferro as tnf


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

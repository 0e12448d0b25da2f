"""Generation of a random program and its arguments from a seed and a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from tenferro.errors import TenferroError
from tenferro.ops import STD_OPS
from tenferro.program import GraphProgram
from xla_peer.fuzz.pool import Pool
from xla_peer.fuzz.proposals import PROPOSALS, NotProposed
from xla_peer.parity.shrinking import Case

__all__ = ["random_case"]

CARDS = [card for card in STD_OPS if not isinstance(PROPOSALS[card], NotProposed)]
LARGEST = 4096
"""Maximum number of elements of a value in a random program."""


def random_case(seed: int, number: int, most_ops: int = 12) -> Case:
    """Generate case number `number` of the stream of random cases that `seed` determines."""
    rng = np.random.default_rng([seed, number])
    pool = Pool(rng)
    wanted = pool.integer(1, most_ops)
    count = 0
    while count < wanted:
        card: Any = pool.choice(CARDS)
        propose: Any = PROPOSALS[card]
        before = len(pool.graph.types)
        try:
            op, operands = propose(card, pool)
            pool.values += pool.graph.add(op, tuple(operands))
        except (TenferroError, LookupError):
            continue  # the op rejects the drawn payload
        if any(pool.spec(v).size > LARGEST for v in range(before, len(pool.graph.types))):
            pool.values = [v for v in pool.values if pool.spec(v).size <= LARGEST]
        count += 1
    outputs = _results(pool)
    program = GraphProgram.from_graph(
        pool.graph,
        outputs,
        name=f"fuzz_{seed}_{number}",
        inputs=[value for value, _ in pool.parameters],
    )
    return Case(program, tuple([array for _, array in pool.parameters]))


def _results(pool: Pool) -> list[int]:
    """Return the values that no op uses.

    With these values as outputs of the program, every op affects an output.
    """
    operands = {value for step in pool.graph.instructions for value in step.inputs}
    return [value for value in pool.values if value not in operands] or pool.values[-1:]

"""Fit a Hodgkin-Huxley cable to recorded voltages with equinox, diffrax and optax: by `jax.jit`, and natively.

python examples/cable_fit.py             fits natively
python examples/cable_fit.py jit         fits by jax.jit
python examples/cable_fit.py both        fits both ways, and prints the times of the first step and of a later step

The model is an equinox module, diffrax solves it with checkpointed reverse mode, and optax optimises it. The two
versions differ only in the decorator: `native` replaces `jax.jit`.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_peer import native

try:
    import diffrax
    import equinox as eqx
    import optax
except ModuleNotFoundError as missing:
    print(f"cable_fit.py needs {missing.name}: pip install '.[examples]'")
    sys.exit(0)

COMPARTMENTS, AXIAL, STEP, END = 8, 0.5, 0.05, 12.0
STEPS = 15


class Cable(eqx.Module):
    """Conductances of a cable, stored as logarithms to keep them positive."""

    log_sodium: Any
    log_potassium: Any
    log_leak: Any
    compartments: int = eqx.field(static=True)

    def __call__(self, t: Any, state: Any, current: Any) -> Any:
        """Return the time derivatives of the voltages (in mV) and of the gates; `t` is in ms."""
        v, m, h, n = state
        am, bm = 0.1 * (v + 40) / (1 - jnp.exp(-(v + 40) / 10)), 4 * jnp.exp(-(v + 65) / 18)
        ah, bh = 0.07 * jnp.exp(-(v + 65) / 20), 1 / (1 + jnp.exp(-(v + 35) / 10))
        an, bn = 0.01 * (v + 55) / (1 - jnp.exp(-(v + 55) / 10)), jnp.exp(-(v + 65) / 80) / 8
        ionic = jnp.exp(self.log_sodium) * m**3 * h * (v - 50)
        ionic += jnp.exp(self.log_potassium) * n**4 * (v + 77)
        ionic += jnp.exp(self.log_leak) * (v + 54.3)
        ends = jnp.pad(v, 1, mode="edge")
        axial = AXIAL * (ends[2:] - 2 * v + ends[:-2])
        injected = jnp.where((t > 1.02) & (t < 3.02), current, 0.0)
        rate = axial - ionic + jnp.zeros(self.compartments).at[0].set(injected)
        return rate, am * (1 - m) - bm * m, ah * (1 - h) - bh * h, an * (1 - n) - bn * n


def simulate(cable: Cable, current: Any) -> Any:
    """Return the voltages at the far end of the cable, ten for each millisecond."""
    rest = jnp.full(cable.compartments, -65.0)
    start = rest, rest * 0 + 0.053, rest * 0 + 0.596, rest * 0 + 0.318
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(cable),
        diffrax.Heun(),
        t0=0.0,
        t1=END,
        dt0=STEP,
        y0=start,
        args=current,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, END, 121)),
        throw=False,
        max_steps=int(END / STEP) + 2,
    )
    assert solution.ys is not None
    return solution.ys[0][:, -1]


def loss(cable: Cable, currents: Any, recorded: Any) -> Any:
    """Return the mean squared difference between simulated and recorded voltages, over all currents and times."""
    return jnp.mean((jax.vmap(simulate, (None, 0))(cable, currents) - recorded) ** 2)


OPTIMISER = optax.adam(0.05)


def step(cable: Cable, state: Any, currents: Any, recorded: Any) -> Any:
    """Take a step of the fit: return the new cable, the new state of the optimiser, and the loss before the step."""
    value, gradient = eqx.filter_value_and_grad(loss)(cable, currents, recorded)
    updates, state = OPTIMISER.update(gradient, state, cable)
    return eqx.apply_updates(cable, updates), state, value


def cable_of(sodium: float, potassium: float, leak: float) -> Cable:
    """Return a cable with these conductances, in mS/cm^2."""
    logarithms = [np.log(g).astype("float32") for g in (sodium, potassium, leak)]
    return Cable(*logarithms, compartments=COMPARTMENTS)


def fit(transform: Any) -> tuple[Cable, list[float], list[float]]:
    """Fit the cable with `step` compiled by `transform`; return the cable, the losses, and the seconds of each step."""
    currents = np.array([100.0, 150.0], "float32")
    recorded = np.asarray(jax.vmap(simulate, (None, 0))(cable_of(120.0, 36.0, 0.3), currents))
    cable = cable_of(100.0, 30.0, 0.2)
    state = OPTIMISER.init(eqx.filter(cable, eqx.is_array))
    compiled = transform(step)
    losses: list[float] = []
    seconds: list[float] = []
    for _ in range(STEPS):
        begun = time.perf_counter()
        cable, state, value = compiled(cable, state, currents, recorded)
        losses.append(float(value))
        seconds.append(time.perf_counter() - begun)
    return cable, losses, seconds


def main() -> None:
    """Fit natively, by jax.jit or both, as the command line says, and print the results."""
    which = sys.argv[1] if len(sys.argv) > 1 else "native"
    names = {"native": ["native"], "jit": ["jit"], "both": ["jit", "native"]}[which]
    transforms = {"native": native, "jit": jax.jit}
    times: dict[str, tuple[float, float]] = {}
    for name in names:
        cable, losses, seconds = fit(transforms[name])
        assert losses[-1] < losses[0]
        times[name] = seconds[0], statistics.median(seconds[1:])
        shown = [float(np.exp(g)) for g in (cable.log_sodium, cable.log_potassium, cable.log_leak)]
        print(
            f"{name}: loss {losses[0]:.1f} to {losses[-1]:.2f}, conductances {np.round(shown, 2)}"
        )
    if which == "both":
        first, later = (times["native"][k] / times["jit"][k] for k in (0, 1))
        print(
            f"native takes {first:.2f} of jit's time for the first step, {later:.2f} for a later one"
        )


if __name__ == "__main__":
    main()

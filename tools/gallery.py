"""Draw docs/images/gallery, which has plots of the results of the examples, as SVG files.

python tools/gallery.py [NAME ..]
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

import numpy as np

import tenferro as tnf

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "gallery"
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 560, 300, 58, 40, 34, 16
COLOURS = ("#1f5fa8", "#c8502b", "#3f8f4f", "#8a5fb0")
TICKS = 5


@dataclass(frozen=True)
class Series:
    """Named points in the plane. They are drawn as dots, or joined by a line."""

    name: str
    x: Any
    y: Any
    kind: Literal["line", "points"] = "line"


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers that divide the range from `low` to `high` into about `TICKS` intervals."""
    step = 10.0 ** np.floor(np.log10((high - low) / TICKS))
    step *= next(k for k in (1, 2, 5, 10) if (high - low) / (k * step) <= TICKS + 1)
    return [float(k * step) for k in range(int(np.ceil(low / step)), int(high // step) + 1)]


def plotted(series: Sequence[Series], x_label: str, y_label: str, title: str) -> str:
    """Plot all series in one pair of axes, and return the plot as SVG text."""
    xs, ys = (np.concatenate([getattr(each, axis) for each in series]) for axis in "xy")
    (x0, x1), (y0, y1) = ((float(v.min()), float(v.max())) for v in (xs, ys))
    y0, y1 = y0 - 0.05 * (y1 - y0), y1 + 0.05 * (y1 - y0)

    def horizontal(x: float) -> float:
        return LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - BOTTOM - TOP)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tick in ticks(x0, x1):
        lines.append(
            f'<path d="M{horizontal(tick):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e4e4e4"/>'
        )
        lines.append(
            f'<text x="{horizontal(tick):.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{tick:g}</text>'
        )
    for tick in ticks(y0, y1):
        lines.append(f'<path d="M{LEFT} {up(tick):.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>')
        lines.append(
            f'<text x="{LEFT - 6}" y="{up(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        )
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        places = [(horizontal(float(x)), up(float(y))) for x, y in zip(each.x, each.y, strict=True)]
        if each.kind == "line":
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
            lines.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        else:
            dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
            lines.append(
                f'<path d="{dots}" stroke="{colour}" stroke-width="{3 if len(places) > 200 else 5}" stroke-linecap="round" opacity="0.55"/>'
            )
    names = "".join(
        f'<tspan fill="{COLOURS[number % len(COLOURS)]}" dx="14">{escape(each.name)}</tspan>'
        for number, each in enumerate(series)
    )
    lines.append(f'<text x="{LEFT - 14}" y="20">{names}</text>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    lines += [
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{escape(y_label)}</text>',
        "</svg>",
        "",
    ]
    return "\n".join(lines)


def example(name: str) -> dict[str, Any]:
    """Run an example, and return its global names.

    An example may import another example.
    """
    if (folder := str(ROOT / "examples")) not in sys.path:
        sys.path.insert(0, folder)
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))


def ode_fit() -> str:
    """Plot the measured data, and the solution of the differential equation with the fitted rates."""
    names = example("ode_fit")
    data = names["measured"]()
    curve = np.asarray(tnf.jit(names["solution"])(names["fitted"](data)))
    times = names["STEP"] * np.arange(1, len(curve) + 1)
    when = times[names["EVERY"] - 1 :: names["EVERY"]]
    return plotted(
        [
            Series("prey, fitted", times, curve[:, 0]),
            Series("predators, fitted", times, curve[:, 1]),
            Series("prey, measured", when, data[:, 0], "points"),
            Series("predators, measured", when, data[:, 1], "points"),
        ],
        "time",
        "number",
        "Lotka and Volterra's equations, fitted",
    )


def hmc() -> str:
    """Plot samples of a Markov chain, drawn by Hamiltonian Monte Carlo."""
    samples, _ = tnf.jit(example("hmc")["chain"])(tnf.random.key(0))
    x, y = np.asarray(samples).T
    return plotted([Series("samples", x, y, "points")], "x", "y", "Samples of a bent density")


def heat_capacity() -> str:
    """Plot the heat capacity of the Ising model, computed as a second derivative, and Onsager's exact solution."""
    names = example("heat_capacity")
    betas = np.linspace(0.2, 0.7, 26)
    strip = np.array([float(names["heat_capacity"](beta)) for beta in betas])
    fine = np.array([beta for beta in np.linspace(0.2, 0.7, 101) if abs(beta - 0.4406868) > 2e-3])
    exact = np.array([names["onsager_heat_capacity"](beta) for beta in fine])
    return plotted(
        [
            Series("infinite lattice, Onsager", fine, exact),
            Series("strip, second derivative", betas, strip, "points"),
        ],
        "inverse temperature",
        "heat capacity",
        "Heat capacity of the Ising model",
    )


def ground_state() -> str:
    """Plot the error of a matrix-product state's energy after each iteration of the minimisation."""
    names = example("tensor_networks")
    above: list[float] = []
    energy, exact = tnf.jit(names["chain_energy"]), names["chain_exact"]()
    start = names["chain_start"]()
    tnf.optimize.minimize(
        names["chain_energy"],
        start,
        method="L-BFGS-B",
        callback=lambda tensors: above.append(float(energy(tensors)) - exact),
        options={"maxiter": 150},
    )
    y = np.log10(np.maximum(above, 1e-12))
    return plotted(
        [Series("20 sites, bond 6", np.arange(1, len(y) + 1), y)],
        "step of L-BFGS",
        "log10 of energy above exact",
        "Ground state of the transverse-field Ising chain",
    )


def transformer() -> str:
    """Plot the training loss of a small transformer."""
    losses = np.asarray(example("transformer")["train"]())
    return plotted(
        [Series("loss", np.arange(len(losses)), losses)],
        "step",
        "loss",
        "Training of a transformer",
    )


def shortest_paths() -> str:
    """Plot towns and roads, and the roads of the shortest path: those with a nonzero gradient of the path's length."""
    import tenferro_ext_tropical as tropical

    rng = np.random.default_rng(3)
    towns = rng.uniform(0, 10, (24, 2))
    distance = np.linalg.norm(towns[:, None] - towns, axis=-1)
    roads = np.where(distance < 3.4, distance, np.inf)
    ends = int(towns.sum(1).argmin()), int(towns.sum(1).argmax())
    gradient = tnf.grad(lambda w: tropical.shortest_paths(w)[ends])(roads)
    edges = [(i, j) for i in range(24) for j in range(i) if np.isfinite(roads[i, j])]
    on_the_way = [(i, j) for i, j in np.argwhere(np.asarray(gradient) > 0.5) if i != j]
    way = [towns[ends[0]]]
    here = ends[0]
    while here != ends[1]:
        here = next(j for i, j in on_the_way if i == here)
        way.append(towns[here])
    net = np.concatenate([np.linspace(towns[i], towns[j], 24) for i, j in edges])
    x, y = np.array(way).T
    return plotted(
        [
            Series("roads", net[:, 0], net[:, 1], "points"),
            Series("shortest way, by the gradient", x, y),
            Series("towns", towns[:, 0], towns[:, 1], "points"),
        ],
        "km",
        "km",
        "Shortest way between two towns",
    )


PICTURES: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (ode_fit, hmc, heat_capacity, ground_state, transformer, shortest_paths)
}


def main(names: Sequence[str]) -> None:
    """Draw the named plots; without names, all plots."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in names or PICTURES:
        (TARGET / f"{name}.svg").write_text(PICTURES[name]())
        print(f"{name}: {(TARGET / f'{name}.svg').stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])

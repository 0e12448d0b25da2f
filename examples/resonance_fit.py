"""Fit a resonance on a falling background to the counts of a detector, with error bars.

Events are counted in bins of energy. A bin of width 1 GeV at the energy E expects

    mu(E) = signal BW(E; mass, width) + background (1 + slope (E - 91 GeV)),

events, with the Breit-Wigner line BW(E) = (width / 2 pi) / ((E - mass)^2 + width^2 / 4), in 1/GeV. The counts n have
Poisson distributions, so -log L = sum(mu - n log mu), up to a constant. L-BFGS-B minimises this function of a tree of
parameters within bounds; one program computes value and gradient. The Hessian at the minimum is the Fisher
information. The square roots of the diagonal of its inverse are the error bars.

Units: mass and width in GeV, signal in 1000 events, background in 10 events / GeV, slope in 1/GeV.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tenferro as tnf

ENERGIES = np.arange(71.5, 111.5)
TRUTH = {"mass": 91.2, "width": 2.5, "signal": 5.0, "background": {"level": 4.0, "slope": -0.015}}
START = {"mass": 90.0, "width": 4.0, "signal": 2.0, "background": {"level": 2.0, "slope": 0.0}}
LOWER = {"mass": 80.0, "width": 0.1, "signal": 0.0, "background": {"level": 0.1, "slope": -0.04}}
UPPER = {"mass": 100.0, "width": 20.0, "signal": None, "background": {"level": None, "slope": 0.04}}
UNITS = {
    "mass": "GeV", "width": "GeV", "signal": "1000 events",
    "background.level": "10 events / GeV", "background.slope": "1 / GeV",
}  # fmt: skip


def expected(p: Any) -> Any:
    """Return the expected number of events in each bin."""
    line = p["width"] / (2 * np.pi) / ((ENERGIES - p["mass"]) ** 2 + p["width"] ** 2 / 4)
    level, slope = p["background"]["level"], p["background"]["slope"]
    return 1000 * p["signal"] * line + 10 * level * (1 + slope * (ENERGIES - 91.0))


def surprise(p: Any, counts: Any) -> Any:
    """Return -log L, the negative log likelihood, up to a constant."""
    mu = expected(p)
    return tnf.sum(mu - counts * tnf.log(mu))


def error_bars(p: Any, counts: Any) -> Any:
    """Return the standard deviation of each parameter, in a tree like that of the parameters."""
    vector, unravel = tnf.tree.ravel(p)
    information = tnf.hessian(lambda x: surprise(unravel(x), counts))(vector)
    return unravel(np.sqrt(np.diag(np.linalg.inv(information))))


def main() -> None:
    counts = np.random.default_rng(2).poisson(expected(TRUTH)).astype(float)
    fit = tnf.optimize.minimize(
        surprise, START, args=(counts,), method="L-BFGS-B", bounds=(LOWER, UPPER),
        options={"ftol": 1e-14, "gtol": 1e-6},
    )  # fmt: skip
    errors = error_bars(fit.x, counts)
    print(f"{int(counts.sum())} events, -log L = {fit.fun:.3f} after {fit.nfev} evaluations")
    pulls = []
    for (path, value), error, true in zip(
        tnf.tree.leaves_with_path(fit.x),
        tnf.tree.leaves(errors),
        tnf.tree.leaves(TRUTH),
        strict=True,
    ):
        name = tnf.tree.keystr(path, simple=True, separator=".")
        pulls.append((value - true) / error)
        print(
            f"{name:17} {value:9.4f} +- {error:.4f} {UNITS[name]:15} "
            f"(true {true}, off by {pulls[-1]:+.1f} error bars)"
        )
    # The pulls (errors divided by error bars) of a valid fit are normally distributed: 1 of 16,000 exceeds 4.
    assert max(np.abs(pulls)) < 4
    # No bound may limit the fit: the gradient must be negligible compared with its change over one error bar.
    slopes = tnf.tree.leaves(tnf.grad(surprise)(fit.x, counts))
    assert max(np.abs(np.array(slopes) * tnf.tree.leaves(errors))) < 1e-2
    # One error bar away from the minimum, -log L increases by 1/2 if the other parameters are fitted again. They are
    # not fitted again here, so it increases by more.
    for i in range(len(pulls)):
        vector, unravel = tnf.tree.ravel(fit.x)
        vector = np.array(vector)
        vector[i] += tnf.tree.leaves(errors)[i]
        assert surprise(unravel(vector), counts) - fit.fun > 0.4


if __name__ == "__main__":
    main()

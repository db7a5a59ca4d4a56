"""Deterministic logs and feature tables of any size, in the tutorial's shape, with the true click probabilities apart.

    summary = simulate(SimulationSpec(days=3, impressions=100_000), "data/simulated")

Needs numpy and pyarrow only. ``ctr_samples.simulator.truth`` tells how good a model can be on the result.

    spec.py, seeds.py, wall_clock.py      what to simulate, its randomness and its time
    world.py, click_probability.py        users, articles and the true click probability
    feed.py, repeats.py, reactions.py     what is shown, shown again and done
    simulation.py, summary.py             the simulation and its counts
    log_lines.py, log_files.py            the logs
    profiles.py, feature_tables.py        the feature tables
    truth.py                              the best possible AUC, and the table of true probabilities
    nights.py                             ways to break a night's logs
"""

from ctr_samples.simulator.simulation import simulate
from ctr_samples.simulator.spec import SimulationSpec
from ctr_samples.simulator.summary import SimulationSummary

__all__ = ["SimulationSpec", "SimulationSummary", "simulate"]

"""Deterministic logs and feature tables of any size, in the tutorial's format, with true click probabilities.

    summary = simulate(SimulationSpec(days=3, impressions=100_000), "data/simulated")

Needs only numpy and pyarrow. ``ctr_samples.simulator.truth`` computes the best AUC that a model can reach.

    spec.py, wall_clock.py                specification with its randomness, and time
    world.py, click_probability.py        users, articles, true click probabilities
    feed.py, reactions.py                 impressions and actions
    simulation.py                         simulation, repeats and counts
    log_lines.py, log_files.py            log lines and files
    profiles.py, feature_tables.py        feature tables
    truth.py                              best possible AUC, table of true probabilities
    nights.py                             faults in the logs of a day
"""

from ctr_samples.simulator.simulation import SimulationSummary, simulate
from ctr_samples.simulator.spec import SimulationSpec

__all__ = ["SimulationSpec", "SimulationSummary", "simulate"]

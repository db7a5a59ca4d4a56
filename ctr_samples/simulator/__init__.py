"""Deterministic logs and feature tables of any size, in the tutorial's shape, with the true click probabilities apart.

    summary = simulate(SimulationSpec(days=3, impressions=100_000), "data/simulated")

Needs numpy and pyarrow only. ``ctr_samples.simulator.truth`` tells how good a model can be on the result.

    spec.py, seeds.py, clock.py     what to simulate, its randomness and its time
    world.py, clicks.py             users, articles and the true click probability
    feed.py, repeats.py, actions.py what is shown, shown again and done
    run.py, summary.py              the simulation and its counts
    log_lines.py, tables.py, profiles.py, output.py     the files that it writes
    truth.py                        the best possible AUC, and the table of true probabilities
    nights.py                       ways to break a night's logs
"""

from ctr_samples.simulator.run import simulate
from ctr_samples.simulator.spec import SimulationSpec
from ctr_samples.simulator.summary import SimulationSummary

__all__ = ["SimulationSpec", "SimulationSummary", "simulate"]

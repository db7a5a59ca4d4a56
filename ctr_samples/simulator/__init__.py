"""Deterministic logs and feature tables of any size, in the tutorial's shape, with the true click probabilities apart.

    summary = simulate(SimulationSpec(days=3, impressions=100_000), "data/simulated")

Needs numpy and pyarrow only. ``ctr_samples.simulator.truth`` tells how good a model can be on the result.
"""

from ctr_samples.simulator.run import simulate
from ctr_samples.simulator.spec import SimulationSpec
from ctr_samples.simulator.summary import SimulationSummary

__all__ = ["SimulationSpec", "SimulationSummary", "simulate"]

"""Frames as the sources of a run."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from ctr_samples.config import JobConfig
from ctr_samples.samples.inputs.listing import SourceFrame
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.samples.watches.all import Watches


def inputs_of(config: JobConfig, span: Span, frames: Mapping[str, DataFrame], *, watched: bool = False) -> Inputs:
    """Return inputs whose sources are literal frames, by name."""
    sources = {name: SourceFrame(name, rows, (), None) for name, rows in frames.items()}
    return Inputs(config, span, sources, Watches.of(config, span, active=watched))

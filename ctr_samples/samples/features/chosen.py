"""A configuration with some of its features. Pure; needs no Spark."""

from __future__ import annotations

from collections.abc import Collection

from ctr_samples.config import JobConfig


def only_features(config: JobConfig, names: Collection[str]) -> JobConfig:
    """Reduce a configuration to some features, the parts of their crosses, and the views and histories they need."""
    needed = set(config.graph.needed(*[f"features.{name}" for name in names]))
    kinds = {
        kind: {name: part for name, part in getattr(config, kind).items() if f"{kind}.{name}" in needed}
        for kind in ("features", "views", "histories")
    }
    return config.model_copy(update=kinds)

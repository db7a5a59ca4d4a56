"""The YAML file that says everything about a sample set: its models, its loader and its plan in words."""

from ctr_samples.config.explain import explain
from ctr_samples.config.features import Feature, Fitted, Vocabulary
from ctr_samples.config.loading import LoadedConfig, load_config
from ctr_samples.config.models import (
    Aggregates,
    DailyCounts,
    History,
    Impressions,
    JobConfig,
    Label,
    Output,
    Sampling,
    Source,
    Split,
    View,
)
from ctr_samples.config.quality import Limits, Quality

__all__ = [
    "Aggregates",
    "DailyCounts",
    "Feature",
    "Fitted",
    "History",
    "Impressions",
    "JobConfig",
    "Label",
    "Limits",
    "LoadedConfig",
    "Output",
    "Quality",
    "Sampling",
    "Source",
    "Split",
    "View",
    "Vocabulary",
    "explain",
    "load_config",
]

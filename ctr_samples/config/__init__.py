"""The configuration file, which describes a whole sample set: models, loading, and the plan in words.

::

    job.py                  root
    source.py  view.py      unions of kinds, told apart by their keys; kinds.py reports entries that mix two kinds
    order.py                order of samples, and a split that does not cut requests
    grain.py                checks of what depends on a run's period: options of one grain, and the days to read
    impressions.py          impressions, with their split and sampling
    label.py  history.py  counting.py  output.py  quality.py  served.py
    feature.py              features, vocabularies and fitted state
    rules.py                which keys of one part need or exclude each other
    references.py, feature_checks.py    checks across the file
    loading.py              loading of YAML into the models
    bases.py                loading of what differs from another configuration
    document.py                         line numbers and plain values
    masking.py              values from the environment: kept out of output, and compared without being written
    sentences.py, problems.py           errors as sentences
    base.py, units.py                   shared parts of the models
    explain.py              plan in words
"""

from ctr_samples.config.counting import Aggregates, DailyCounts
from ctr_samples.config.explain import explain
from ctr_samples.config.feature import Feature, Fitted, Vocabulary
from ctr_samples.config.history import History
from ctr_samples.config.impressions import Impressions, Sampling, Split
from ctr_samples.config.job import JobConfig
from ctr_samples.config.label import ActionLabel, Label, RowLabel
from ctr_samples.config.loading import LoadedConfig, load_config
from ctr_samples.config.output import KeptPartials, Output
from ctr_samples.config.quality import Limits, Quality
from ctr_samples.config.served import Served
from ctr_samples.config.source import (
    CatalogSource,
    ColumnarSource,
    CsvSource,
    DatabaseSource,
    FileSource,
    JsonSource,
    Source,
    TextSource,
)
from ctr_samples.config.view import CountingView, DailyCountView, EventView, SnapshotView, StaticView, View, WindowView

__all__ = [
    "ActionLabel",
    "Aggregates",
    "CatalogSource",
    "ColumnarSource",
    "CountingView",
    "CsvSource",
    "DailyCountView",
    "DailyCounts",
    "DatabaseSource",
    "EventView",
    "Feature",
    "FileSource",
    "Fitted",
    "History",
    "Impressions",
    "JobConfig",
    "JsonSource",
    "KeptPartials",
    "Label",
    "Limits",
    "LoadedConfig",
    "Output",
    "Quality",
    "RowLabel",
    "Sampling",
    "Served",
    "SnapshotView",
    "Source",
    "Split",
    "StaticView",
    "TextSource",
    "View",
    "Vocabulary",
    "WindowView",
    "explain",
    "load_config",
]

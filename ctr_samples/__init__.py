"""Training-ready TFRecord shards from impression and click logs, built by a nightly PySpark job."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctr_samples.dataframes import as_of_join, attribute_labels, join_history, windowed_aggregates
    from ctr_samples.job.preview import preview
    from ctr_samples.tfrecord.public import register, write_tfrecord

__version__ = "0.2.0"

__all__ = [
    "__version__",
    "as_of_join",
    "attribute_labels",
    "join_history",
    "preview",
    "register",
    "windowed_aggregates",
    "write_tfrecord",
]

_PLACES = {
    "ctr_samples.dataframes": ("as_of_join", "attribute_labels", "join_history", "windowed_aggregates"),
    "ctr_samples.job.preview": ("preview",),
    "ctr_samples.tfrecord.public": ("register", "write_tfrecord"),
}


def __getattr__(name: str) -> Any:
    """Import modules that need Spark on first use, since many callers of this package do not have or want Spark."""
    for place, names in _PLACES.items():
        if name in names:
            return getattr(import_module(place), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

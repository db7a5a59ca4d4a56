"""Training-ready TFRecord shards from impression and click logs, by a nightly PySpark job."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctr_samples.tfrecord.public import register, write_tfrecord

__version__ = "0.1.0"

__all__ = ["__version__", "register", "write_tfrecord"]


def __getattr__(name: str) -> Any:
    """Import what needs Spark only when it is asked for: many who import this package have none or want none."""
    if name in ("register", "write_tfrecord"):
        from ctr_samples.tfrecord import public

        return getattr(public, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Training-ready TFRecord shards from impression and click logs, by a nightly PySpark job."""

__version__ = "0.1.0"

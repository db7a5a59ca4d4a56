"""The command line. Each command imports what it needs, so that ``ctr-samples --help`` starts no Spark and no TensorFlow."""

from ctr_samples.cli.app import app, main
from ctr_samples.cli.errors import errors_in_words
from ctr_samples.cli.fitted import fit
from ctr_samples.cli.generation import generate

__all__ = ["app", "errors_in_words", "fit", "generate", "main"]

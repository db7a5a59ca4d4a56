"""What is fitted on training days: vocabularies, and where the fitted state is kept."""

from __future__ import annotations

from pydantic import Field

from ctr_samples.config.base import Model


class Vocabulary(Model):
    """Ids for tokens, fitted by `ctr-samples fit`: 0 is padding, 1 a missing value, then the OOV buckets, then the tokens.

    A token keeps its id for ever; new ones are added at the end. Features that name the same vocabulary share its ids.
    """

    capacity: int = Field(
        ge=1, le=100_000_000, description="How many tokens there is room for: the embedding table never grows."
    )
    min_count: int = Field(1, ge=1, description="How often a token must occur in the fitted days.")
    oov_buckets: int = Field(1, ge=1, le=1_000_000, description="Tokens without an id share this many, by a hash.")

    @property
    def buckets(self) -> int:
        """Number of ids, thus rows of an embedding table."""
        return 2 + self.oov_buckets + self.capacity


class Fitted(Model):
    """Where vocabularies, moments and quantiles are kept. `ctr-samples fit` makes the next version from training days."""

    path: str = Field(min_length=1, description="A directory, or hdfs://, s3://, gs://, az:// and a prefix.")
    days: int = Field(1, ge=1, le=366, description="How many days to fit on, the last of which is that of `--through`.")

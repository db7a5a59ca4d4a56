"""Output section: destination and format of the samples, retention, and partial results for later runs."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator

from ctr_samples.config.base import Model, Name, from_home
from ctr_samples.config.units import Duration, Size


class Retention(Model):
    """What the next run of a day keeps of earlier ones; manifests are always kept."""

    generations: int = Field(3, ge=1, description="Generations of a day whose shards are kept.")
    longest_run: Duration = Field(
        timedelta(hours=24),
        ge=timedelta(hours=1),
        description="Longer than any run, and than any training job that reads a generation after it was replaced.",
    )


class Output(Model):
    """Where the samples go and in what form."""

    path: str = Field(min_length=1, description="A directory, or hdfs://, s3://, gs://, az:// and a prefix.")
    layout: Literal["columns", "dense", "sparse", "sequence", "legacy_121"] = Field(
        "columns",
        description="`columns`: one tf.Feature for each feature; `dense`: one float vector of all; `sparse`: indices and "
        "values of all; `sequence`: a SequenceExample whose ragged features are FeatureLists; `legacy_121`: the raw float64 "
        "bytes of 121 numbers, and `label`.",
    )
    compression: Literal["none", "gzip", "zlib"] = Field("none", description="Compression of each shard as a whole.")
    engine: Literal["native", "tensorflow"] = Field(
        "native",
        description="`tensorflow` writes the same bytes with tf.train.Example and tf.io.TFRecordWriter, "
        "many times more slowly; executors then need TensorFlow.",
    )
    shard_size: Size = Field(128 * 2**20, ge=4096, description="A shard is closed once it reaches this size.")
    order: Literal["impression", "request"] | list[Name] = Field(
        "impression",
        description="The order of samples in the shards. `impression`: by a hash of the impression, so that neighbours have "
        "nothing in common. `request`: the impressions of a request are adjacent, so that gzip needs half to a quarter of the "
        "space; a request has one `impressions.request` and user or, without an id, one user and time. A list of keys, such as "
        "`[session]` or `[user, time]`: samples with equal keys are adjacent.",
    )
    partitions: int = Field(8, ge=1, le=100_000, description="How many tasks write; each makes at least one shard.")
    retention: Retention = Field(Retention(), description="What is kept of earlier runs of a day.")
    ids: Literal["pseudonyms", "raw"] = Field(
        "pseudonyms",
        description="How users, requests and all other keys but what was shown are named on the page, in its numbers and "
        "in the manifest. The samples stay as they are.",
    )
    ids_salt: str | None = Field(
        None,
        min_length=1,
        description="A secret, as `${NAME}`, for making the pseudonyms; default: `name`, with which anyone who can list all "
        "ids can reverse them.",
    )

    @property
    def by_request(self) -> bool:
        """Whether samples with equal keys are adjacent."""
        return self.order != "impression"

    @field_validator("order")
    @classmethod
    def _each_key_once(cls, value: str | list[str]) -> str | list[str]:
        if isinstance(value, list) and (not value or len(set(value)) < len(value)):
            raise ValueError("expected `impression`, `request`, or a list of different keys such as `[session]`")
        return value

    @field_validator("path")
    @classmethod
    def _no_template(cls, value: str) -> str:
        if re.search(r"\{[^}]*\}", value):
            raise ValueError("expected no template: the day's directory dt=... is made below it")
        return from_home(value)


class KeptPartials(Model):
    """Where partial results of finished days are kept, which a run reads instead of the logs that long windows reach."""

    path: str = Field(min_length=1, description="A directory, or hdfs://, s3://, gs://, az:// and a prefix.")
    keep: Duration = Field(
        timedelta(days=7),
        ge=timedelta(days=1),
        description="How long partial results stay that the last run does not reach, for runs of earlier days.",
    )

    @field_validator("path")
    @classmethod
    def _from_home(cls, value: str) -> str:
        return from_home(value)

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
        description="Longer than any run, and than any training that reads a [replaced "
        "generation](operations.md#retention).",
    )


class Output(Model):
    """Where the samples go and in what form."""

    path: str = Field(min_length=1, description="A place.")
    layout: Literal["columns", "dense", "sparse", "sequence", "legacy_121"] = Field(
        "columns",
        description="[How features become records](features.md#layouts).",
    )
    compression: Literal["none", "gzip", "zlib"] = Field("none", description="Of each shard as a whole.")
    engine: Literal["native", "tensorflow"] = Field(
        "native",
        description="`tensorflow` writes the same bytes by tf.io.TFRecordWriter, many times more slowly; executors then "
        "need TensorFlow.",
    )
    shard_size: Size = Field(128 * 2**20, ge=4096, description="The size at which a shard is closed.")
    order: Literal["impression", "request"] | list[Name] = Field(
        "impression",
        description="The order of samples in the shards: by a hash of the impression; or with the impressions of a "
        "request, or those with equal values of a list of keys, adjacent. See [order by "
        "request](by-request.md).",
    )
    partitions: int = Field(
        8, ge=1, le=100_000, description="Tasks that write, each at least one shard ([sizing](operations.md#sizing))."
    )
    retention: Retention = Field(Retention(), description="What is kept of earlier runs of a day.")
    ids: Literal["pseudonyms", "raw"] = Field(
        "pseudonyms",
        description="How keys but what was shown are named on pages and in manifests "
        "([pseudonyms](report.md#pseudonyms)).",
    )
    ids_salt: str | None = Field(
        None,
        min_length=1,
        description="A secret, as `${NAME}`, for pseudonyms; default: `name`, with which whoever can list all ids can "
        "reverse them.",
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

    path: str = Field(min_length=1, description="A place.")
    keep: Duration = Field(
        timedelta(days=7),
        ge=timedelta(days=1),
        description="How long results stay that the last run did not reach, for runs of earlier days.",
    )

    @field_validator("path")
    @classmethod
    def _from_home(cls, value: str) -> str:
        return from_home(value)

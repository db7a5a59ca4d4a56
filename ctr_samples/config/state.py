"""What is kept from one run to the next, so that long windows cost no more than short ones."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field, field_validator

from ctr_samples.config.base import Model, from_home
from ctr_samples.config.units import Duration


class State(Model):
    """Where partial results of finished days are kept, which a run reads instead of the logs that windows and histories
    reach."""

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

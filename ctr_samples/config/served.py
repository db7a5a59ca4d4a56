"""The ``served`` section: where the service logs what it served, and how much it may differ from the samples."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from ctr_samples.config.base import Model, Name
from ctr_samples.config.units import Duration

_Share = Annotated[float, Field(ge=0, le=1)]


class ServedLimits(Model):
    """Shares beyond which `ctr-samples compare-served` ends with exit code 3."""

    different: _Share = Field(
        0.01, description="Of the values of a feature, those that differ or are on one side only."
    )
    not_served: _Share = Field(0.05, description="Of the samples, those without a served line.")
    no_sample: _Share = Field(0.05, description="Of the served lines, those without a sample.")


class Served(Model):
    """The log of what a service served, for `ctr-samples compare-served`. Columns are names, or paths such as
    `features.age` into nested columns. Changes no byte of the samples."""

    id: str | None = Field(
        None, description="The column with the id of the impression; default: `impression_id`, or none with `keys`."
    )
    keys: dict[Name, str] = Field(
        {},
        description="Without an id: the columns of keys of impressions, or of `request`. With `time`, the nearest "
        "impression is taken.",
    )
    time: str | None = Field(
        None, description="The column with the time of serving: ISO 8601 with a zone, or seconds, ms or µs since 1970."
    )
    within: Duration = Field(timedelta(seconds=1), description="How far it may be from the impression's.")
    columns: dict[Name, str] = Field({}, description="Columns of features with another name in the log.")
    tolerance: dict[Name, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        {},
        description="The largest difference of two numbers of a feature that count as near; default: four steps of "
        "float32. Ids are equal or not.",
    )
    limits: ServedLimits = Field(ServedLimits(), description="How much may differ.")

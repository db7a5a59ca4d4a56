"""Log counts by day or over sliding windows."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field, field_validator

from ctr_samples.config.base import Expression, Model, Name
from ctr_samples.config.units import Duration, format_duration


class Rate(Model):
    """A smoothed rate of two counts: (count + prior * strength) / (of + strength)."""

    count: Name = Field(description="The numerator, one of `counts`.")
    of: Name = Field(description="The denominator, one of `counts`.")
    prior: float = Field(ge=0, le=1, description="The rate without any history.")
    strength: float = Field(gt=0, description="How many observations the prior is worth.")


class DailyCounts(Model):
    """A feature table counted from a log: one row for each key and day, over the `days` that end with that day."""

    days: int = Field(ge=1, le=366, description="Calendar days.")
    counts: dict[Name, Expression] = Field(min_length=1, description="Which rows are counted.")
    rates: dict[Name, Rate] = Field({}, description="Rates of two counts.")

    @property
    def column_names(self) -> list[str]:
        """Columns available to features."""
        return [*self.counts, *self.rates]


class Aggregates(Model):
    """Features counted from a log over sliding windows: `<name>_<window>`, such as `clicks_1h` or `ctr_7d`.

    A window ends with the last step that was over, and known, before the impression: actions of the current step are not
    counted. Without any action in a window, counts, sums and distinct counts are 0 and a rate is its prior.
    """

    windows: tuple[Duration, ...] = Field(min_length=1, description="Lengths, such as `[1h, 7d]`.")
    step: Duration = Field(
        timedelta(minutes=1),
        ge=timedelta(milliseconds=1),
        description="The resolution in time, which divides a day; `1d` is a day of `timezone`.",
    )
    counts: dict[Name, Expression] = Field({}, description="Which rows are counted.")
    sums: dict[Name, Expression] = Field(
        {}, description="Numbers to add up, exact to nine places; rows without one add nothing."
    )
    distinct: dict[Name, Expression] = Field(
        {}, description="Text or integers, of which each value counts once; exact."
    )
    rates: dict[Name, Rate] = Field({}, description="Rates of two counts.")

    @field_validator("windows")
    @classmethod
    def _each_once(cls, value: tuple[timedelta, ...]) -> tuple[timedelta, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a window is listed twice; remove one")
        return value

    @property
    def longest(self) -> timedelta:
        """Length of the longest window."""
        return max(self.windows)

    @property
    def column_names(self) -> list[str]:
        """Columns available to features."""
        names = [*self.counts, *self.sums, *self.distinct, *self.rates]
        return [windowed(name, window) for name in names for window in self.windows]


def windowed(name: str, window: timedelta) -> str:
    """Return the column name of an aggregate over a window, such as ``clicks_7d``."""
    return f"{name}_{format_duration(window)}"

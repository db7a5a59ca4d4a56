"""The ``quality`` section: thresholds for day-to-day change beyond which a run warns or refuses to publish."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator, model_validator

from ctr_samples.config.base import Model, Name


class Limits(Model):
    """The limits of one check; `null` means never, and a limit that is left out keeps its default. `off` in place of both
    switches the check off."""

    warn: float | None = Field(None, ge=0, description="Above this the run warns and publishes.")
    fail: float | None = Field(None, ge=0, description="Above this the run publishes nothing.")
    without: tuple[str, ...] = Field(
        (),
        description="What the check passes over: features, views or labels, such as a raw time, which moves every day.",
    )


class KeyLimits(Limits):
    """Limits of what one key may have."""

    key: Name = Field("user", description="A name under `impressions.keys`.")


def _limits(warn: float | None, fail: float | None, description: str) -> Any:
    return Field(Limits(warn=warn, fail=fail), description=description)


class Quality(Model):
    """The checks of each day, by name. Those that compare look at the last published day, and `volume`, `rate`, `silent_hours`,
    `hours` and `age` also at the last one of the same weekday. Three standard deviations of the noise of
    small counts are subtracted before a figure is compared with its limit."""

    volume: Limits = _limits(1.5, 2.5, "How many times more or fewer samples than on the day before or a week ago.")
    too_few: Limits = _limits(0, None, "1 if train, or the largest split, has fewer than 1,000 samples.")
    rate: Limits = _limits(1.25, 1.6, "How many times higher or lower the mean of a label is, likewise.")
    silent_hours: Limits = _limits(0, 1, "Hours without impressions or clicks that should have had some.")
    hours: Limits = _limits(0.1, 0.25, "Share of the impressions that are in other hours of the day.")
    one_class: Limits = _limits(
        None, 0, "1 if all samples of train, or of the largest split, have one and the same label."
    )
    missing: Limits = _limits(0.15, 0.3, "Rise of the share of rows without a value of a feature, or with its default.")
    constant: Limits = _limits(0, None, "1 if a feature has one value only; fails where it had more on the day before.")
    nonfinite: Limits = _limits(0, 0.01, "Rise of the share of NaN and infinite values of a feature.")
    distribution: Limits = _limits(
        0.1, 0.3, "Drift of a numeric feature: Jensen-Shannon divergence in bits, from 0 to 1."
    )
    scale: Limits = _limits(
        3, 10, "How many times larger or smaller the quartiles of a numeric feature became, all three, 0 left out."
    )
    values: Limits = _limits(0.1, 0.25, "Drift of an id feature: the greatest change of the share of a value.")
    stability: Limits = _limits(0.25, 1.0, "Drift of an id feature: the population stability index of its values.")
    matched: Limits = _limits(
        0.15,
        0.3,
        "Fall of the share of samples that find a row of a view; on a first day the share that finds none, if it is over half.",
    )
    age: Limits = _limits(
        1.3,
        1.7,
        "How many times older, and at least an hour, the rows of a view with a `ttl` are, or the newest tenth of them.",
    )
    leak: Limits = _limits(
        0.9, 0.97, "AUC of a feature alone, or of its presence: too good to be known before the click."
    )
    bias: Limits = _limits(
        0.9,
        None,
        "Correlation of a feature with one that has a `bias`.",
    )
    heavy_user: KeyLimits = Field(
        KeyLimits(warn=0.05, fail=0.2),
        description="Share of the samples of one user, or of one value of another `key`.",
    )
    dropped: Limits = _limits(0.05, 0.2, "Rise of the share of impressions that are dropped, for each reason.")
    orphans: Limits = _limits(0.1, 0.3, "Rise of the share of a label's actions that find no impression.")
    funnel: Limits = _limits(0.01, None, "Share of the positives of a label that lack the label that it comes `after`.")
    identical: Limits = _limits(0.1, 0.4, "Rise of the share of samples that equal another sample in all features.")
    conflicting: Limits = _limits(0.1, 0.4, "Rise of the share of those whose labels differ.")
    same_ids: Limits = _limits(
        0,
        1e-6,
        "Share of the samples with the id of another one: by chance a pair in a month of 10⁹ a day.",
    )
    contract: Limits = _limits(0, None, "1 if the contract differs: the two days cannot be read together.")

    @model_validator(mode="before")
    @classmethod
    def _over_defaults(cls, value: Any) -> Any:
        """Fill in the default of a limit that is not set, as in `rate: {fail: 3}`."""
        if not isinstance(value, dict):
            return value
        return {name: _over(cls.model_fields[name].default, given) if name in cls.model_fields else given
                for name, given in value.items()}  # fmt: skip

    @field_validator("*")
    @classmethod
    def _in_order(cls, limits: Limits) -> Limits:
        if limits.warn is not None and limits.fail is not None and limits.warn > limits.fail:
            raise ValueError("`warn` is above `fail`, so it would never warn; expected the smaller of the two")
        return limits


def _over(default: Limits, given: Any) -> Any:
    if given == "off":
        return {"warn": None, "fail": None}
    return {**default.model_dump(), **given} if isinstance(given, dict) else given

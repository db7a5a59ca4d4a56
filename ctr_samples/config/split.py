"""Which samples are for training and which for evaluation, and which negatives stay."""

from __future__ import annotations

from pydantic import Field, model_validator

from ctr_samples.config.base import Model, Name


class Split(Model):
    """Which samples are held out for evaluation, by a stable hash or by time."""

    eval: float = Field(0.1, ge=0, lt=1, description="Share of the hash range that goes to eval.")
    test: float = Field(0.0, ge=0, lt=1, description="Share of the hash range that goes to a third split, test.")
    by: Name = Field(
        "impression",
        description="A name under `impressions.keys`, `request` or `impression`: all samples of one such key go to the same "
        "split. `time`: the last part goes to eval.",
    )
    eval_from: str | None = Field(
        None,
        pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|[0-9]{4}-[0-9]{2}-[0-9]{2}(T([01][0-9]|2[0-3]):[0-5][0-9])?)$",
        description="With `by: time`: where eval begins, in the zone of the configuration: a time such as `20:00`; with "
        "`grain: all` a day or a time of a day, such as `2019-06-05` or `2019-06-05T20:00`.",
    )

    @model_validator(mode="after")
    def _shares_or_time(self) -> Split:
        if (self.by == "time") != (self.eval_from is not None):
            raise ValueError("`by: time` needs `eval_from`, such as `eval_from: '20:00'`; other splits take none")
        if self.by == "time" and self.model_fields_set & {"eval", "test"}:
            raise ValueError("`by: time` takes no shares: remove `eval` and `test`")
        if self.eval + self.test >= 1:
            raise ValueError("`eval` and `test` leave nothing to train on; their sum must be less than 1")
        return self


class Sampling(Model):
    """Drops negatives of train, which are samples whose labels are all 0. Adds the feature `sample_weight`."""

    negatives: float = Field(gt=0, le=1, description="Share of the negatives that stays; each then weighs 1 / share.")
    salt: str = Field("negatives", description="Another text keeps other negatives.")

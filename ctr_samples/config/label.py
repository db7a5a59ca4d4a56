"""Labels: the actions that a model predicts."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator, model_validator

from ctr_samples.config.base import Expression, Model, Name
from ctr_samples.config.units import Duration

_INHERITED = "Default, in the impressions' source: the same as there."


class Label(Model):
    """An action after an impression that a model should predict."""

    source: Name = Field(description="A name under `sources`.")
    where: Expression | None = Field(None, description="Which rows are these actions.")
    window: Duration = Field(description="How long after the impression an action still counts (inclusive).")
    time: Expression | None = Field(
        None, description=f"When the action happened. {_INHERITED} Required in any other source."
    )
    user: Expression | None = Field(
        None, description=f"The user's key. {_INHERITED} In any other source: no match by user."
    )
    article: Expression | None = Field(
        None, description=f"The article's key. {_INHERITED} Required in any other source."
    )
    request: Expression | None = Field(
        None, description=f"The request's id. {_INHERITED} In any other source: no match by request."
    )
    skew: Duration = Field(
        timedelta(),
        description="How long before its impression an action may be logged, since clocks disagree; only if no earlier "
        "impression claims it.",
    )
    value: Expression | None = Field(None, description="The number to reduce; required by `sum`, `max` and `first`.")
    reduce: Literal["any", "sum", "max", "first"] = Field(
        "any",
        description="`any`: 1 if there was such an action; the others reduce `value`, and `first` takes that of the earliest "
        "action.",
    )
    orphans: Literal["drop", "quarantine"] = Field(
        "quarantine",
        description="Actions without an impression are counted; `quarantine` also keeps up to 100 of them in the manifest.",
    )

    @field_validator("orphans", mode="before")
    @classmethod
    def _nothing_is_invented(cls, value: object) -> object:
        if value == "synthesize":
            raise ValueError(
                "expected 'drop' or 'quarantine': an impression made from a click would have no position "
                "and no list, and would always be clicked, so a model would learn to recognise it by what it lacks"
            )
        return value

    @model_validator(mode="after")
    def _value_fits_reduce(self) -> Label:
        if self.skew > timedelta(hours=1):
            raise ValueError("found more than 1h in `skew`, expected the few seconds by which clocks disagree")
        if (self.value is None) != (self.reduce == "any"):
            raise ValueError("`reduce: sum`, `max` and `first` need `value`; `reduce: any` takes none")
        return self

"""Histories: the last actions of a user or a different key before each impression."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from ctr_samples.config.base import Expression, Model, Name
from ctr_samples.config.units import Age, Duration


class History(Model):
    """The last actions of the user, or of another key, before an impression, newest first, each item once, without those of the
    impression's request.

    It has `items`, `ages_s` (seconds from the action to the impression), a list for each of `columns`, `length` and `matched`
    (whether there is any). A feature made from a list is `ragged`, or has a `shape` to which the list is cut or padded at the
    end. In the impressions' source, `time`, `key`, `item` and `request` are those of the impressions unless you say otherwise.
    """

    source: Name = Field(description="A name under `sources`.")
    where: Expression | None = Field(None, description="Which rows are these actions.")
    time: Expression | None = Field(None, description="When it happened.")
    on: Name = Field("user", description="Whose actions they are: a name under `impressions.keys`.")
    key: Expression | None = Field(None, description="That key of an action.")
    user: Expression | None = Field(None, description="The same as `key`, where the history is the user's.")
    item: Expression | None = Field(
        None, description="What was acted on, text or an integer; by default what was shown."
    )
    request: Expression | None = Field(None, description="Its request, to leave out the impression's own.")
    last: int = Field(ge=1, le=1000, description="How many items.")
    within: Age = Field(description="The greatest age (inclusive).")
    available_after: Duration | None = Field(None, description="How long after it happened it is known.")
    available_time: Expression | None = Field(None, description="Instead: when it was known to the system.")
    columns: dict[Name, Expression] = Field({}, description="More lists: a value of each action.")

    @property
    def delay(self) -> timedelta:
        """Delay between an action and its availability."""
        return self.available_after or timedelta()

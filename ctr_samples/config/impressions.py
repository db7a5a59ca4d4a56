"""Impressions: what was shown, the grain of a sample."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ctr_samples.config.base import Expression, Model, Name
from ctr_samples.config.units import Duration


class Impressions(Model):
    """Where impressions come from: one row, or one list of articles, shown to one user at one time."""

    source: Name = Field(description="A name under `sources`.")
    where: Expression | None = Field(None, description="Which rows are impressions.")
    time: Expression = Field(description="When the article was shown.")
    user: Expression | None = Field(None, description="The user's key; user views need it.")
    article: Expression = Field(description="The article's key.")
    request: Expression | None = Field(None, description="A request id that actions carry too.")
    position: Expression | None = Field(
        None, description="Its place in the list shown; with `explode` it is the place in the column."
    )
    explode: Literal["article"] | None = Field(
        None, description="`article`: the column holds a list (an array, or text such as `[18577, 14299]`)."
    )
    dedup: Duration | None = Field(
        None,
        description="Without `request`: an impression this soon after the previous one of the same user and article is a "
        "repeat.",
    )
    skip_above: Name | None = Field(
        None,
        description="A label with `reduce: any`: in a list with one, impressions below its last position are dropped, since "
        "the user may never have scrolled that far.",
    )
    columns: dict[Name, Expression] = Field({}, description="More columns to carry along, as `impression.<name>`.")

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Impressions:
        if self.user is None and self.request is None:
            raise ValueError("needs `user` or `request`, to tell impressions apart")
        if self.explode and self.position is not None:
            raise ValueError("`explode` gives the position; remove `position`")
        if self.request is not None and self.dedup is not None:
            raise ValueError("`dedup` has no effect with `request`: within a request an article counts once; remove it")
        if self.skip_above is not None and self.explode is None and self.position is None:
            raise ValueError("`skip_above` needs positions: set `explode` or `position`")
        return self

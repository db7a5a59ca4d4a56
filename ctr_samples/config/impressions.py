"""Impressions, which become samples, with the split into train and eval and the sampling of negatives."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ctr_samples.config.base import OWN_COLUMNS, Expression, Model, Name
from ctr_samples.config.units import Duration

_SHOWN = ("article", "item")
"""Default names of the key that identifies the shown item."""


class Impressions(Model):
    """Where impressions come from: one row, or one list of articles, shown to one user at one time."""

    source: Name = Field(description="A name under `sources`.")
    where: Expression | None = Field(None, description="Which rows are impressions.")
    time: Expression = Field(description="When it was shown.")
    keys: dict[Name, Expression] = Field(
        {},
        description="[Keys](logs.md#keys) by names of your choice: `{user: uid, item: item_id, query: lower(q)}`. Views, "
        "histories, labels and splits refer to these names, features to `impression.<name>`. A null key "
        "matches nothing.",
    )
    user: Expression | None = Field(None, description="The same as `keys.user`.")
    article: Expression | None = Field(None, description="The same as `keys.article`.")
    shown: Name | None = Field(
        None,
        description="The key of what was shown, by default `article` or `item`: an impression without it is dropped and "
        "counted.",
    )
    request: Expression | None = Field(None, description="A request id that actions carry too.")
    position: Expression | None = Field(
        None,
        description="Its place in the list shown; with `explode: article` its place in the column. A number that no "
        "32-bit integer holds is no place.",
    )
    explode: Literal["article"] | None = Field(
        None,
        description="The column of articles holds a list (an array, or text such as `[18577, 14299]`). For other lists "
        "see `sources.<name>.explode`.",
    )
    identity: Literal["keys", "row"] = Field(
        "keys",
        description="What makes its id: request and keys, with the time where there is no request; or `row`: each row is "
        "an impression of its own, equal rows too.",
    )
    dedup: Duration | None = Field(
        None,
        description="An impression this soon after the previous one with the same keys, and the same `request`, is a "
        "repeat, and dropped. See [which repeat stays](logs.md#which-repeat-stays), also without this key.",
    )
    skip_above: Name | None = Field(
        None,
        description="A label with `reduce: any`, or of the row: in a list with one, impressions below its last position "
        "are dropped, which the user may never have seen.",
    )
    columns: dict[Name, Expression] = Field({}, description="More columns, as `impression.<name>`.")
    rates_by: tuple[Name, ...] = Field(
        (),
        description="Keys, `columns` or `position` with few values: the page shows the rate of the first 0/1 label for "
        "each value.",
    )

    @property
    def entities(self) -> dict[str, str]:
        """All keys with their expressions, starting with `user` and `article`."""
        short = {name: getattr(self, name) or self.keys.get(name) for name in ("user", "article")}
        first = {name: text for name, text in short.items() if text is not None}
        return first | {name: text for name, text in self.keys.items() if name not in first}

    @property
    def keys_and_request(self) -> dict[str, str]:
        """Expressions on which views may be joined and actions matched: all keys, then the request, if any."""
        return self.entities | ({} if self.request is None else {"request": self.request})

    @property
    def repeats_by_day(self) -> bool:
        """Whether an impression repeats any earlier one of its request and local day."""
        return self.request is not None and self.dedup is None and self.identity == "keys"

    @property
    def shown_key(self) -> str | None:
        """The key that identifies the shown item, or None if there is no such key."""
        return self.shown or next((name for name in _SHOWN if name in self.entities), None)

    @property
    def column_names(self) -> list[str]:
        """All columns of an impression, in order."""
        first, last = OWN_COLUMNS[:2], OWN_COLUMNS[2:]
        return [*first, *self.entities, *last, *self.columns]


class Split(Model):
    """Which samples are held out for evaluation, by a stable hash or by time."""

    eval: float = Field(0.1, ge=0, lt=1, description="Share of the hash range that goes to eval.")
    test: float = Field(0.0, ge=0, lt=1, description="Share for a third split.")
    by: Name = Field(
        "impression",
        description="What stays together: a name under `impressions.keys`, `request` or `impression`. `time`: the last "
        "part goes to eval. A request is a request id and a user or, without an id, a user and a time; with "
        "`eval_from`, requests that begin in the last part go to eval, and [midnight may cut "
        "one](by-request.md#what-can-go-wrong).",
    )
    eval_from: str | None = Field(
        None,
        pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|[0-9]{4}-[0-9]{2}-[0-9]{2}(T([01][0-9]|2[0-3]):[0-5][0-9])?)$",
        description="With `by: time` or `request`: where eval begins, a time such as `20:00`; with `grain: all` a day or "
        "a time of a day, such as `2019-06-05T20:00`.",
    )

    @property
    def needs_beginnings(self) -> bool:
        """Whether the time of the first impression of a request decides the split."""
        return self.by == "request" and self.eval_from is not None

    @property
    def leaves_all_to_train(self) -> bool:
        """Whether there is no split but train."""
        return self.eval_from is None and self.eval + self.test == 0


class Cap(Model):
    """At most so many samples of train of one key in a run. A null key has no cap."""

    key: Name = Field("user", description="A name under `impressions.keys`.")
    samples: int = Field(ge=1, description="How many stay; which ones, a hash decides.")


class Sampling(Model):
    """Drops samples of train, and adds the feature `sample_weight`, which undoes it: one kept sample stands for so many.
    `negatives` is for samples whose labels are all 0; `rate` says it for each sample."""

    negatives: float | None = Field(None, gt=0, le=1, description="Share of the negatives that stays.")
    rate: Expression | None = Field(
        None,
        description="Instead: the share that stays, above 0 and up to 1, over labels and `impression.<name>`s, such as "
        "`if(clicked = 1, 1, 0.1)`.",
    )
    cap: Cap | None = Field(None, description="At most so many samples of a key.")
    weight: Expression | None = Field(None, description="A factor of the weight, at least 0, over the same.")
    by: Literal["impression", "request"] = Field(
        "impression",
        description="`request`: the samples of a request with one rate stay or go together.",
    )
    salt: str = Field("negatives", description="Another text keeps other samples.")

    @property
    def has_rules(self) -> bool:
        """Whether more than one share of all negatives decides."""
        return self.negatives is None

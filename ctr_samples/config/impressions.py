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
        description="Any number of keys, by names of your choice: `{user: uid, item: item_id, query: lower(q)}`. Views, "
        "histories, labels and splits refer to these names, features to `impression.<name>`. A null key matches nothing.",
    )
    user: Expression | None = Field(None, description="The same as `keys.user`.")
    article: Expression | None = Field(None, description="The same as `keys.article`.")
    shown: Name | None = Field(
        None,
        description="The key that names what was shown: an impression without it is dropped and counted. Default: `article` or "
        "`item`, if there is such a key.",
    )
    request: Expression | None = Field(None, description="A request id that actions carry too.")
    position: Expression | None = Field(
        None,
        description="Its place in the list shown; with `explode` it is the place in the column. A number beyond 2,147,483,647, "
        "or below -2,147,483,648, is no place.",
    )
    explode: Literal["article"] | None = Field(
        None,
        description="`article`: the column holds a list (an array, or text such as `[18577, 14299]`). For lists of anything "
        "else see `sources.<name>.explode`.",
    )
    identity: Literal["keys", "row"] = Field(
        "keys",
        description="What makes the id of an impression: its request and keys, with its time where there is no request; or "
        "`row`, all columns of the source: each row is an impression of its own, equal rows too.",
    )
    dedup: Duration | None = Field(
        None,
        description="An impression this soon after the previous one with the same keys, and of the same `request`, is a "
        "repeat. Default: with `request`, any later one of the same request and day is; without, one at the same instant. "
        "The earliest stays; of one instant that with the least `position`, then one by its content. See "
        "[which repeat stays](logs.md#which-repeat-stays).",
    )
    skip_above: Name | None = Field(
        None,
        description="A label with `reduce: any`, or of the row: in a list with one, impressions below its last position are "
        "dropped, since the user may never have scrolled that far.",
    )
    columns: dict[Name, Expression] = Field({}, description="More columns to carry along, as `impression.<name>`.")
    rates_by: tuple[Name, ...] = Field(
        (),
        description="Names of keys, of `columns`, or `position`: the page shows the rate of the first 0/1 label for each of "
        "their values. For few values, such as those of an experiment.",
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
    test: float = Field(0.0, ge=0, lt=1, description="Share of the hash range that goes to a third split, test.")
    by: Name = Field(
        "impression",
        description="A name under `impressions.keys`, `request` or `impression`: all samples of one such key go to the same "
        "split. A request is a request id and a user or, without an id, a user and a time. `time`: the last part goes to eval. "
        "`request` with `eval_from`: so do requests that begin in the last part; each day is judged by its own impressions, so "
        "the parts of a request that midnight cuts may go to different splits.",
    )
    eval_from: str | None = Field(
        None,
        pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|[0-9]{4}-[0-9]{2}-[0-9]{2}(T([01][0-9]|2[0-3]):[0-5][0-9])?)$",
        description="With `by: time` or `by: request`: where eval begins, in the zone of the configuration: a time such as "
        "`20:00`; with `grain: all` a day or a time of a day, such as `2019-06-05` or `2019-06-05T20:00`.",
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

    negatives: float | None = Field(
        None, gt=0, le=1, description="Share of the negatives that stays; each then weighs 1 / share."
    )
    rate: Expression | None = Field(
        None,
        description="Instead of `negatives`: the share that stays, above 0 and up to 1, as an SQL expression over labels and "
        "`impression.<name>`s, such as `if(clicked = 1, 1, 0.1)`.",
    )
    cap: Cap | None = Field(None, description="At most so many samples of one user, or of another key.")
    weight: Expression | None = Field(
        None, description="A number by which the weight is multiplied: an expression as for `rate`, at least 0."
    )
    by: Literal["impression", "request"] = Field(
        "impression",
        description="`request`: one hash for all samples of a request, so that those with one rate stay or go together. A "
        "request is that of `split.by`.",
    )
    salt: str = Field("negatives", description="Another text keeps other samples.")

    @property
    def has_rules(self) -> bool:
        """Whether more than one share of all negatives decides."""
        return self.negatives is None

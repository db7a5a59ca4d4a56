"""pydantic models of the configuration file. Unknown keys fail; every model is frozen.

What one key can say about itself is checked here; what ties keys together is checked in ``references``.
"""

from __future__ import annotations

import math
import os
import re
from datetime import timedelta
from typing import Annotated, Literal
from zoneinfo import available_timezones

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ctr_samples.config.base import Expression, Model, Name, Scalar, as_text
from ctr_samples.config.features import Feature, Fitted, Vocabulary
from ctr_samples.config.quality import Quality
from ctr_samples.config.units import Duration, Size, format_duration

Entity = Literal["user", "article", "user_article"]


def _from_home(path: str) -> str:
    # Neither Spark nor an object store knows `~`; they would make a directory of that name.
    return os.path.expanduser(path) if path.startswith("~/") else path


class BadRecords(Model):
    """How many lines or impressions of a source may be unreadable before the run is refused."""

    max_rate: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Greatest share of malformed lines, of impressions without a readable time or article, of impossible "
        "times, and of rows of a view without key or time, from 0 to 1.",
    )


class JdbcPartition(Model):
    """How a table of a database is read by several tasks: by ranges of a column. All rows are read, whatever the bounds."""

    column: str = Field(min_length=1, description="A number, date or timestamp that is spread evenly.")
    lower: Scalar = Field(description="Where the first range ends, roughly; as the database writes it.")
    upper: Scalar = Field(description="Where the last range begins, roughly.")
    count: int = Field(ge=2, le=1000, description="How many tasks, and connections, read it.")


class Source(Model):
    """One input: files of a format under a path, a table that the catalog knows, or a table of a database."""

    format: Literal["json", "csv", "parquet", "orc", "table", "jdbc"] = Field(description="How the input is stored.")
    path: str | None = Field(
        None,
        min_length=1,
        description="A file or directory; `{date}` stands for each day that is read. A directory `dt={date}` gives the rows a "
        "column `dt`, a date, where the files have none of that name.",
    )
    table: str | None = Field(
        None,
        min_length=1,
        description="For `format: table`: `db.name` of a Hive, Iceberg or Delta table. jdbc: its name.",
    )
    date_column: str | None = Field(
        None,
        min_length=1,
        description="For `table` and `jdbc`: a column that holds the day, a date or yyyy-MM-dd; only the days needed are read.",
    )
    url: str | None = Field(
        None, pattern=r"^jdbc:", description="jdbc: the database, such as `jdbc:postgresql://db/shop`."
    )
    query: str | None = Field(None, min_length=1, description="jdbc: instead of `table`, a SELECT for the database.")
    user: str | None = Field(None, min_length=1, description="jdbc: who reads it.")
    password: str | None = Field(
        None, min_length=1, description="jdbc: only as `${NAME}`, from the environment; it is written nowhere."
    )
    driver: str | None = Field(None, min_length=1, description="jdbc: the driver's class, if its jar does not say it.")
    partition: JdbcPartition | None = Field(None, description="jdbc: read it by several tasks.")
    schema_: str | None = Field(
        None,
        alias="schema",
        description="Columns and types as in `CREATE TABLE`; required for json and csv, and with `optional`.",
    )
    optional: bool = Field(
        False,
        description="If nothing is there at all, read it as empty with the columns of `schema`, and warn: a feature table that "
        "is not made yet. What is there is read as always.",
    )
    header: bool = Field(
        False,
        description="csv: the first line holds the names, by which the columns of `schema` are found, in any order.",
    )
    by_position: bool = Field(
        False,
        description="csv with `header: true`: pass over the names; the columns are those of `schema` in their order.",
    )
    rename: dict[Annotated[str, BeforeValidator(as_text)], Annotated[str, Field(min_length=1)]] = Field(
        {},
        description='csv with `header: true`: name in the first line -> column of `schema`, as in `{"user:token": user, '
        '"": row}`; `""` is a column without a name.',
    )
    delimiter: str = Field(",", min_length=1, description="csv: what separates the columns.")
    days_before: int = Field(0, ge=0, le=3660, description="Days before the run date that are read too.")
    days_after: int = Field(0, ge=0, le=366, description="Days after the run date that are read too (late clicks).")
    bad_records: BadRecords = Field(BadRecords(), description="json and csv: what to do with malformed lines.")

    @field_validator("path")
    @classmethod
    def _only_the_date_template(cls, value: str | None) -> str | None:
        for template in re.findall(r"\{[^}]*\}", value or ""):
            if template != "{date}":
                raise ValueError(f"the only template in a path is {{date}}, not {template}")
        return value and _from_home(value)

    @model_validator(mode="after")
    def _place_fits_format(self) -> Source:
        if self.format == "jdbc":
            return self._of_a_database()
        if any(v is not None for v in (self.url, self.query, self.user, self.password, self.driver, self.partition)):
            raise ValueError("`url`, `query`, `user`, `password`, `driver` and `partition` are for `format: jdbc`")
        if self.format == "table":
            if self.table is None or self.path is not None:
                raise ValueError("`format: table` needs `table` and no `path`")
        elif self.path is None or self.table is not None:
            raise ValueError(f"`format: {self.format}` needs `path` and no `table`")
        elif self.date_column is not None:
            raise ValueError("`date_column` is for `table` and `jdbc`; for files put `{date}` into the path")
        if (self.rename or self.by_position) and (self.format != "csv" or not self.header):
            raise ValueError("`rename` and `by_position` are for `format: csv` with `header: true`")
        if self.rename and self.by_position:
            raise ValueError("`rename` has no effect with `by_position`; remove one")
        if self.format in ("json", "csv") and self.schema_ is None:
            raise ValueError(f"`format: {self.format}` needs `schema`, so that types never depend on one day's data")
        if self.optional and self.schema_ is None:
            raise ValueError("`optional` needs `schema`: the columns of a source that is not there")
        return self

    def _of_a_database(self) -> Source:
        if self.url is None or (self.table is None) == (self.query is None) or self.path is not None:
            raise ValueError("`format: jdbc` needs `url` and either `table` or `query`, and no `path`")
        if self.schema_ is not None:
            raise ValueError("`format: jdbc` takes no `schema`: the database knows its types; cast them in `query`")
        if self.optional:
            raise ValueError("`optional` is for files and for `format: table`; let a `query` give no rows instead")
        return self

    @property
    def by_name(self) -> bool:
        """Whether the columns of CSV are those that the first line names."""
        return self.header and not self.by_position

    @property
    def is_dated(self) -> bool:
        """True when a day's data can be addressed without reading the others."""
        return "{date}" in (self.path or "") or self.date_column is not None


class Impressions(Model):
    """Where impressions come from: one row, or one list of articles, shown to one user at one time."""

    source: Name = Field(description="A name under `sources`.")
    where: Expression | None = Field(None, description="Which rows are impressions.")
    time: Expression = Field(description="When the article was shown.")
    user: Expression | None = Field(None, description="The user's key; without it there are no user views.")
    article: Expression = Field(description="The article's key.")
    request: Expression | None = Field(None, description="A request id that actions carry too.")
    position: Expression | None = Field(None, description="Its place in the list shown; from the list if exploded.")
    explode: Literal["article"] | None = Field(
        None, description="`article`: the column holds a list (an array, or text such as `[18577, 14299]`)."
    )
    dedup: Duration | None = Field(
        None,
        description="Without `request`: an impression this soon after the one before of the same user and article is a repeat.",
    )
    skip_above: Name | None = Field(
        None,
        description="A label of `reduce: any`: in a list with one, impressions below the last such position are dropped, since "
        "the user may never have come so far.",
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
            raise ValueError("`skip_above` needs to know positions: set `explode` or `position`")
        return self


class Label(Model):
    """An action after an impression that a model shall predict."""

    source: Name = Field(description="A name under `sources`.")
    where: Expression | None = Field(None, description="Which rows are these actions.")
    window: Duration = Field(description="How long after the impression an action still counts (inclusive).")
    time: Expression | None = Field(
        None,
        description="When it happened. Default, in the impressions' source: as there. In another source it is needed.",
    )
    user: Expression | None = Field(
        None, description="Default, in the impressions' source: as there. In another source: no match by user."
    )
    article: Expression | None = Field(
        None, description="Default, in the impressions' source: as there. In another source it is needed."
    )
    request: Expression | None = Field(
        None, description="Default, in the impressions' source: as there. In another source: no match by request."
    )
    skew: Duration = Field(
        timedelta(),
        description="How long before its impression an action may come, since clocks disagree; only one that no earlier "
        "impression takes.",
    )
    value: Expression | None = Field(None, description="A number to reduce; needed by `sum`, `max` and `first`.")
    reduce: Literal["any", "sum", "max", "first"] = Field(
        "any", description="`any`: 1 if there was one; else of `value`. `first`: that of the earliest action."
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
                "and no list, and would always be clicked, so a model would learn to tell it by what it lacks"
            )
        return value

    @model_validator(mode="after")
    def _value_fits_reduce(self) -> Label:
        if self.skew > timedelta(hours=1):
            raise ValueError("found more than 1h in `skew`, expected the seconds by which clocks disagree")
        if (self.value is None) != (self.reduce == "any"):
            raise ValueError("`reduce: sum`, `max` and `first` need `value`; `reduce: any` takes none")
        return self


class Rate(Model):
    """A smoothed rate of two counts: (count + prior * strength) / (of + strength)."""

    count: Name = Field(description="The numerator, a name under `counts`.")
    of: Name = Field(description="The denominator, a name under `counts`.")
    prior: float = Field(ge=0, le=1, description="The rate of an entity without any history.")
    strength: float = Field(gt=0, description="How many observations the prior is worth.")


class DailyCounts(Model):
    """A feature table counted from a log: one row for each key and day, over the `days` that end with that day."""

    days: int = Field(ge=1, le=366, description="Length of the counting window in calendar days.")
    counts: dict[Name, Expression] = Field(min_length=1, description="Name -> which rows are counted.")
    rates: dict[Name, Rate] = Field({}, description="Name -> smoothed rate of two counts.")

    @property
    def column_names(self) -> list[str]:
        """The columns that features can be made from."""
        return [*self.counts, *self.rates]


class Aggregates(Model):
    """Features counted from a log over sliding windows: `<name>_<window>`, such as `clicks_1h` or `ctr_7d`.

    A window ends with the last step that was over, and known, before the impression: an action of a step that is still running
    is not counted. Without any action in a window, counts, sums and distinct values are 0 and a rate is its prior.
    """

    windows: tuple[Duration, ...] = Field(min_length=1, description="Lengths, such as `[1h, 7d]`.")
    step: Duration = Field(
        timedelta(minutes=1),
        ge=timedelta(milliseconds=1),
        description="How finely time is cut: windows are whole steps, and a step divides a day. `1d` is a day of `timezone`.",
    )
    counts: dict[Name, Expression] = Field({}, description="Name -> which rows are counted.")
    sums: dict[Name, Expression] = Field(
        {}, description="Name -> a number to add up, exact to nine places; rows without one add nothing."
    )
    distinct: dict[Name, Expression] = Field(
        {}, description="Name -> text or integers of which each counts once; exact."
    )
    rates: dict[Name, Rate] = Field({}, description="Name -> smoothed rate of two counts.")

    @field_validator("windows")
    @classmethod
    def _each_once(cls, value: tuple[timedelta, ...]) -> tuple[timedelta, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a window stands there twice; remove one")
        return value

    @model_validator(mode="after")
    def _windows_are_steps(self) -> Aggregates:
        if timedelta(days=1) % self.step:
            raise ValueError(
                f"`step: {format_duration(self.step)}` does not divide a day; take one such as 1m, 15m, 1h or 1d"
            )
        for window in self.windows:
            if window % self.step or not window:
                raise ValueError(
                    f"the window {format_duration(window)} is not a whole number of steps of {format_duration(self.step)}"
                )
        if not (self.counts or self.sums or self.distinct):
            raise ValueError("needs `counts`, `sums` or `distinct`")
        return self

    @property
    def longest(self) -> timedelta:
        """How far back the longest window reaches."""
        return max(self.windows)

    @property
    def column_names(self) -> list[str]:
        """The columns that features can be made from."""
        names = [*self.counts, *self.sums, *self.distinct, *self.rates]
        return [windowed(name, window) for name in names for window in self.windows]


def windowed(name: str, window: timedelta) -> str:
    """The column of an aggregate over a window: ``clicks_7d``."""
    return f"{name}_{format_duration(window)}"


class View(Model):
    """A timestamped feature table of one entity, joined as of each impression."""

    source: Name = Field(description="A name under `sources`.")
    entity: Entity = Field(description="Whose features they are.")
    key: Expression = Field(description="The entity's key in the source; of `user_article` the user's.")
    article_key: Expression | None = Field(None, description="For `entity: user_article`: the article's key.")
    where: Expression | None = Field(None, description="Which rows to use.")
    event_time: Expression | None = Field(None, description="When a row became true.")
    available_time: Expression | None = Field(
        None, description="When a row was known to the system; it is seen from that instant on."
    )
    available_after: Duration | None = Field(None, description="Instead: this long after the event time.")
    ttl: Duration | Literal["unbounded"] | None = Field(
        None,
        description="The greatest age of a row, relative to each impression (inclusive). Needed, but with `static` and "
        "`aggregates`, which take none; at least a day and the delay where rows come by day (`snapshot`, `daily_counts`).",
    )
    inclusive: bool = Field(
        False,
        description="Also use a row whose event time equals the impression's; it must be known by then.",
    )
    sequence: Expression | None = Field(
        None, description="What orders rows of equal times, such as a version number: the greatest wins."
    )
    tombstone: Expression | None = Field(
        None, description="Which rows say that the entity has no features from then on."
    )
    snapshot: Expression | None = Field(
        None,
        description="Instead of `event_time`: the day of a table that is written whole each day. An entity that is not in the "
        "latest published one has no features.",
    )
    publish_delay: Duration | None = Field(
        None, description="With `snapshot`: how long after the midnight that ends its day it is there."
    )
    method: Literal["union", "intervals", "snapshots"] | None = Field(
        None, description="How it is joined; default: what the planner finds best. The samples are the same."
    )
    static: bool = Field(False, description="The table has no times; you vouch that it never changes.")
    daily_counts: DailyCounts | None = Field(None, description="Count the source by day instead of using its rows.")
    aggregates: Aggregates | None = Field(
        None, description="Count the source over sliding windows instead of using its rows."
    )

    @model_validator(mode="after")
    def _times_are_complete(self) -> View:
        if (self.entity == "user_article") != (self.article_key is not None):
            raise ValueError("`entity: user_article` needs `article_key` beside `key`, and no other entity takes it")
        if self.aggregates is not None:
            return self._of_windows()
        if self.static:
            return self._without_times()
        if self.snapshot is not None:
            return self._of_snapshots()
        if self.event_time is None:
            raise ValueError("`event_time` is missing; a table that never changes says `static: true` instead")
        self._with_ttl()
        if self.publish_delay is not None or self.method == "snapshots":
            raise ValueError("`publish_delay` and `method: snapshots` are for views with `snapshot`")
        if self.available_time is not None and self.available_after is not None:
            raise ValueError("give `available_time` or `available_after`, not both")
        if self.daily_counts is not None and self.available_time is not None:
            raise ValueError("`daily_counts` takes `available_after`: a counted day has no `available_time` column")
        if self.daily_counts is not None and (self.sequence or self.tombstone):
            raise ValueError("`daily_counts` takes no `sequence` and no `tombstone`: its rows are counted")
        return self

    def _without_times(self) -> View:
        times = (
            self.event_time,
            self.available_time,
            self.available_after,
            self.ttl,
            self.snapshot,
            self.publish_delay,
        )
        if any(t is not None for t in times) or self.daily_counts is not None:
            raise ValueError("`static: true` takes no times, no `ttl` and no `daily_counts`")
        if self.sequence or self.tombstone or self.method:
            raise ValueError("`static: true` takes no `sequence`, no `tombstone` and no `method`")
        return self

    def _of_snapshots(self) -> View:
        times = (self.event_time, self.available_time, self.available_after)
        if any(t is not None for t in times) or self.daily_counts is not None or self.inclusive:
            raise ValueError(
                "`snapshot` takes no `event_time`, `available_time`, `available_after`, `inclusive` or `daily_counts`; "
                "say when it is there with `publish_delay`"
            )
        return self._with_ttl()

    def _of_windows(self) -> View:
        others = (self.available_time, self.ttl, self.sequence, self.tombstone, self.snapshot, self.publish_delay)
        if self.event_time is None:
            raise ValueError("`aggregates` needs `event_time`, when an action happened")
        if any(o is not None for o in others) or self.inclusive or self.static or self.daily_counts is not None:
            raise ValueError(
                "`aggregates` takes `event_time` and `available_after` and no other clock, order, `ttl` or `daily_counts`: its "
                "windows say what counts"
            )
        if self.method == "snapshots":
            raise ValueError("`method: snapshots` is for views with `snapshot`")
        return self

    def _with_ttl(self) -> View:
        if self.ttl is None:
            raise ValueError("`ttl` is missing; say how old a row may be, or `ttl: unbounded`")
        if problem := self.too_short(self.snapshot is not None or self.daily_counts is not None):
            raise ValueError(problem)
        return self

    def too_short(self, daily: bool) -> str | None:
        """What is wrong with a `ttl` that a row exceeds before it is known or, in a `daily` table, before the next one is."""
        key, delay = "available_after", self.available_after or timedelta()
        if self.snapshot is not None:
            key, delay = "publish_delay", self.publish_delay or timedelta()
        oldest = delay + (timedelta(days=1) if daily else timedelta())
        if not isinstance(self.ttl, timedelta) or self.ttl >= oldest:
            return None
        found = f"found `ttl: {format_duration(self.ttl)}` with `{key}: {format_duration(delay)}`"
        if not daily:
            return f"{found}: a row would be too old before it is known; expected a longer `ttl`"
        return (
            f"{found}: the newest row is {format_duration(oldest)} old when the next day's becomes known, so some hours of "
            f"each day would have no features; set `ttl: {math.ceil(oldest / timedelta(days=1))}d` or longer"
        )


class History(Model):
    """The user's last actions before an impression, newest first, each item once, without those of the impression's request.

    It has `items`, `ages_s` (seconds from the action to the impression), one list for each of `columns`, `length` and `matched`
    (whether there is any). A feature made from a list has a `shape`, for which it is cut or padded at the end, or is `ragged`.
    """

    source: Name = Field(description="A name under `sources`.")
    where: Expression | None = Field(None, description="Which rows are these actions.")
    time: Expression | None = Field(
        None, description="When it happened. Default, in the impressions' source: as there."
    )
    user: Expression | None = Field(None, description="Default, in the impressions' source: as there.")
    item: Expression | None = Field(
        None, description="What was acted on: text or an integer. Default, in the impressions' source: the article."
    )
    request: Expression | None = Field(
        None, description="To leave out the impression's own request. Default, in the impressions' source: as there."
    )
    last: int = Field(ge=1, le=1000, description="How many items.")
    within: Duration | Literal["unbounded"] = Field(description="The greatest age of an action (inclusive).")
    available_after: Duration | None = Field(None, description="How long after it happened an action is known.")
    columns: dict[Name, Expression] = Field({}, description="More lists: name -> one value of each action.")

    @model_validator(mode="after")
    def _knows_some_action(self) -> History:
        after = self.available_after or timedelta()
        if isinstance(self.within, timedelta) and self.within < after:
            raise ValueError(
                f"found `within: {format_duration(self.within)}` with `available_after: {format_duration(after)}`: an action "
                "would be too old before it is known; expected a longer `within`"
            )
        return self


class Split(Model):
    """Which samples are kept apart for evaluation, by a stable hash or by time."""

    eval: float = Field(0.1, ge=0, lt=1, description="Share of the hash range that goes to eval.")
    test: float = Field(0.0, ge=0, lt=1, description="Share of the hash range that goes to a third split, test.")
    by: Literal["user", "article", "request", "impression", "time"] = Field(
        "impression",
        description="All samples of one such key go to the same split. `time`: the last hours of the day go to eval.",
    )
    eval_from: str | None = Field(
        None,
        pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$",
        description="With `by: time`: from when on, such as `20:00`, in the zone of the configuration.",
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
    """Leaves out negatives of train: samples all of whose labels are 0. Adds the feature `sample_weight`."""

    negatives: float = Field(gt=0, le=1, description="Share of the negatives that stays; each then weighs 1 / share.")
    salt: str = Field("negatives", description="Another text chooses other negatives.")


class Retention(Model):
    """What the next run of a day leaves of earlier ones; manifests always stay."""

    generations: int = Field(3, ge=1, description="Generations of a day whose shards stay.")
    longest_run: Duration = Field(
        timedelta(hours=24),
        ge=timedelta(hours=1),
        description="Longer than any run, and than any training job that reads a generation after it was replaced.",
    )


class Output(Model):
    """Where the samples go and in what form."""

    path: str = Field(min_length=1, description="A directory, or hdfs://, s3://, gs://, az:// and a prefix.")
    layout: Literal["columns", "dense", "sparse", "sequence", "legacy_121"] = Field(
        "columns",
        description="`columns`: one tf.Feature for each feature; `dense`: one float vector of all; `sparse`: indices and "
        "values of all; `sequence`: a SequenceExample whose ragged features are FeatureLists; `legacy_121`: the raw float64 "
        "bytes of 121 numbers, and `label`.",
    )
    compression: Literal["none", "gzip", "zlib"] = Field("none", description="Of each shard as a whole.")
    engine: Literal["native", "tensorflow"] = Field(
        "native",
        description="`tensorflow` writes the same bytes with tf.train.Example and tf.io.TFRecordWriter, "
        "many times more slowly; executors then need TensorFlow.",
    )
    shard_size: Size = Field(128 * 2**20, ge=4096, description="A shard is closed once it has this size.")
    partitions: int = Field(8, ge=1, le=100_000, description="How many tasks write; each makes at least one shard.")
    retention: Retention = Field(Retention(), description="What stays of earlier runs of a day.")
    ids: Literal["pseudonyms", "raw"] = Field(
        "pseudonyms",
        description="How users and requests are named on the page, in its numbers and in the manifest. The samples "
        "stay as they are.",
    )
    ids_salt: str | None = Field(
        None,
        min_length=1,
        description="A secret, as `${NAME}`, that the pseudonyms are made with; default: `name`, with which whoever "
        "can list all ids can tell them.",
    )

    @field_validator("path")
    @classmethod
    def _no_template(cls, value: str) -> str:
        if re.search(r"\{[^}]*\}", value):
            raise ValueError("expected no template: the day's directory dt=... is made below it")
        return _from_home(value)


class JobConfig(Model):
    """A whole sample set."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$", description="A short name for manifests and logs.")
    timezone: str = Field(description="Zone of days and of times without a zone, such as Asia/Shanghai.")
    sources: dict[Name, Source] = Field(min_length=1, description="The inputs, by a name of your choice.")
    impressions: Impressions = Field(description="What was shown: the grain of a sample.")
    labels: dict[Name, Label] = Field(min_length=1, description="What shall be predicted.")
    views: dict[Name, View] = Field({}, description="The feature tables to join, as of each impression.")
    histories: dict[Name, History] = Field({}, description="The user's last actions before each impression.")
    features: dict[Name, Feature] = Field(min_length=1, description="What a sample has, in this order.")
    vocabularies: dict[Name, Vocabulary] = Field({}, description="Ids for tokens, by a name of your choice.")
    fitted: Fitted | None = Field(None, description="Where vocabularies, moments and quantiles are kept.")
    split: Split = Field(Split(), description="Train, eval and test.")
    sampling: Sampling | None = Field(None, description="Fewer negatives to train on.")
    output: Output = Field(description="Where the samples go.")
    quality: Quality = Field(Quality(), description="How much a day may differ from the ones before.")

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        # Java, which reads the times, does not know every name without a slash, such as `localtime` or `Factory`.
        if value not in available_timezones() or not ("/" in value or value in ("UTC", "GMT")):
            raise ValueError("expected a zone of the IANA database, such as UTC or Asia/Shanghai")
        return value

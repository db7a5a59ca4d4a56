"""What a request is, and that neither an order nor a split cuts one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import Impressions, JobConfig
from ctr_samples.config.order import order_problems
from ctr_samples.periods import parse_period
from ctr_samples.samples.features.row import IMPRESSION, split_name
from ctr_samples.samples.labels.plans import impression_reach
from ctr_samples.samples.period import EVER, Reach, Span
from ctr_samples.samples.requests import BEGINNING, request_hash, with_beginning
from ctr_samples.samples.sampling import split_column
from tests.support.literal_frames import literal
from tests.support.marks import slow_except
from tests.support.orders import config

DAY = Span.of(date(2019, 6, 5), "UTC")
MIDNIGHT = datetime(2019, 6, 5, tzinfo=UTC)
SCHEMA = "impression_id bigint, impression_time timestamp, user string, session string, item string, request string"
HALF = {"by": "request", "eval": 0.5}


def log() -> list[tuple[Any, ...]]:
    """Impressions of 6 users in 5 sessions, with 8 request ids, at 12 hours of the day. Each of these may be null."""
    chance = random.Random(5)
    return [
        (
            number,
            MIDNIGHT + timedelta(hours=2 * chance.randrange(12)),
            chance.choice([None, *"uvwxyz"]),
            chance.choice([None, *"abcde"]),
            f"i{chance.randrange(40)}",
            chance.choice([None, None, *"12345678"]),
        )
        for number in range(900)
    ]


def job_of(
    order: Any = "impression",
    split: dict[str, Any] = HALF,
    keys: Sequence[str] = ("user", "session", "item"),
    request: str | None = "r",
) -> JobConfig:
    return config(order, {key: key for key in keys}, request, split=split)


def is_accepted(job: JobConfig) -> bool:
    return not [*order_problems(job)]


def with_splits(spark: SparkSession, jobs: Sequence[JobConfig]) -> pd.DataFrame:
    """The log with the split of each impression, a column for each configuration, named by its place."""
    rows = literal(spark, log(), SCHEMA)
    names = [F.col(name) for name in rows.columns]
    for number, job in enumerate(jobs):
        if job.split.needs_beginnings:
            own = with_beginning(job, rows).withColumn(IMPRESSION, F.struct(*names, BEGINNING))
            rows = own.withColumn(str(number), split_name(split_column(job, DAY))).drop(IMPRESSION, BEGINNING)
    others = {
        str(number): split_name(split_column(job, DAY))
        for number, job in enumerate(jobs)
        if not job.split.needs_beginnings
    }
    return rows.withColumn(IMPRESSION, F.struct(*names)).withColumns(others).drop(IMPRESSION).toPandas()


def together(rows: pd.DataFrame, keys: Sequence[str]) -> pd.Series:
    """What rows with equal keys share. A row of which all keys but the time are null is alone."""
    columns = ["impression_time" if key == "time" else key for key in keys]
    known = [column for column in columns if column != "impression_time"] or columns
    shared = rows[columns].astype(str).agg(" ".join, axis=1)
    return shared.where(rows[known].notna().any(axis=1), "alone " + rows["impression_id"].astype(str))


def requests_of(rows: pd.DataFrame, job: JobConfig) -> pd.Series:
    """The request of each row: an id and a user or, without an id, the visit."""
    visits = together(rows, job.visit_keys)
    if job.impressions.request is None:
        return visits
    users = ["user"] if "user" in job.impressions.entities else []
    return together(rows, ["request", *users]).where(rows["request"].notna(), visits)


def groups_of(rows: pd.DataFrame, job: JobConfig) -> pd.Series:
    """What the order keeps together."""
    return together(rows, job.output.order) if isinstance(job.output.order, list) else requests_of(rows, job)


def cut(rows: pd.DataFrame, groups: pd.Series, split: str) -> int:
    """Number of groups that are in several splits."""
    return int((rows.groupby(groups)[split].nunique() > 1).sum())


ORDERS: list[Any] = [
    "request",
    ["user"],
    ["session"],
    ["item"],
    ["time"],
    ["request"],
    ["user", "request"],
    ["request", "time"],
    ["user", "time"],
    ["session", "time"],
    ["user", "session"],
    ["session", "request"],
    ["time", "session", "user"],
    ["user", "request", "time"],
]
SPLITS: list[dict[str, Any]] = [
    *[{"by": by, "eval": 0.5} for by in ("request", "user", "session", "item", "impression")],
    {"by": "time", "eval_from": "12:00"},
    {"by": "request", "eval_from": "12:00"},
    {"eval": 0.0},
]


def jobs_with(keys: Sequence[str], request: str | None) -> list[JobConfig]:
    """All orders with all splits that know their keys."""
    known = {*keys, "time", *(["request"] if request else [])}
    orders = [order for order in ORDERS if order == "request" or {*order} <= known]
    splits = [split for split in SPLITS if split.get("by", "request") in {*known, "request", "impression"}]
    return [job_of(order, split, keys, request) for order in orders for split in splits]


@pytest.mark.thorough
@pytest.mark.parametrize("keys", [("user", "session", "item"), ("session", "item")])
@pytest.mark.parametrize("request_id", slow_except(["r"], ["r", None]))
def test_a_split_is_accepted_if_it_cuts_nothing_that_the_order_keeps_together(
    spark: SparkSession, keys: Sequence[str], request_id: str | None
) -> None:
    jobs = [job for job in jobs_with(keys, request_id) if job.split.by != "request" or is_accepted(job)]
    rows = with_splits(spark, jobs)
    with_id = rows[rows["request"].notna()] if request_id else rows  # without one, a list may cut a visit
    for number, job in enumerate(jobs):
        said, split = f"{job.output.order} {job.split}", str(number)
        cuts = cut(rows, groups_of(rows, job), split)
        assert is_accepted(job) == (cuts == 0), said
        if job.split.by == "request":
            assert cut(with_id, requests_of(with_id, job), split) == 0, said
            assert {*rows[split]} == {"train", "eval"}, said


BY_LISTS: list[tuple[str, Any, str]] = [
    ("user", "request", "user"),
    ("user", ["user"], "user"),
    ("user", ["user", "session"], "user"),
    ("request", ["user", "request"], "request"),
]
"""What a split is by, an order, and the key without which that order may change the split of a sample."""
JOBS = {
    "plain": job_of(),
    "late": job_of(split={"by": "request", "eval_from": "12:00"}),
    "ordered by request": job_of("request"),
    "ordered by a list": job_of(["request"]),
    **{f"split by {by}": job_of(split={"by": by, "eval": 0.5}) for by in ("user", "request")},
    **{f"split by {by} of {order}": job_of(order, {"by": by, "eval": 0.5}) for by, order, _ in BY_LISTS},
}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> pd.DataFrame:
    """The log with the splits of all of JOBS, by their names."""
    return with_splits(spark, list(JOBS.values())).rename(columns={str(n): name for n, name in enumerate(JOBS)})


def test_the_first_impression_of_a_request_and_its_user_decides_whether_it_begins_late(rows: pd.DataFrame) -> None:
    first = rows.groupby(requests_of(rows, JOBS["late"]))["impression_time"].transform("min")
    assert (rows["late"] == "eval").tolist() == (first >= pd.Timestamp(2019, 6, 5, 12)).tolist()


@pytest.mark.parametrize(("by", "order", "without"), BY_LISTS)
def test_a_list_or_a_null_key_may_change_the_split_of_samples_without_that_key(
    rows: pd.DataFrame, by: str, order: Any, without: str
) -> None:
    moved = rows[rows[f"split by {by}"] != rows[f"split by {by} of {order}"]]
    assert moved[without].isna().all()
    assert len(moved) > 20


def test_a_split_by_request_is_the_same_in_the_order_by_request(rows: pd.DataFrame) -> None:
    assert rows["plain"].tolist() == rows["ordered by request"].tolist()
    differs = rows["plain"] != rows["ordered by a list"]
    assert differs[rows["request"].notna()].any()  # a list without the user


def test_a_placeholder_is_one_request_of_each_user(spark: SparkSession) -> None:
    of_users: dict[str, list[str | None]] = {"three": ["u", "v", "w"], "one": ["u", "u", "u"], "nobody": [None] * 3}
    shown = [
        (n, MIDNIGHT + timedelta(hours=n), user, name, f"i{n}", "-")
        for name, users in of_users.items()
        for n, user in enumerate(users * 4)
    ]
    hashes = [
        request_hash(job_of("request", keys=keys), F.col).alias(name)
        for name, keys in (("known", ("user", "item")), ("unknown", ("item",)))
    ]
    found = spark.createDataFrame(shown, SCHEMA).select("session", *hashes).toPandas().groupby("session").nunique()
    assert found["known"].to_dict() == {"three": 3, "one": 1, "nobody": 1}
    assert found["unknown"].to_dict() == {"three": 1, "one": 1, "nobody": 1}


def test_only_a_time_may_put_the_parts_of_a_request_that_midnight_cuts_into_two_splits(spark: SparkSession) -> None:
    parts = [
        (date(2019, 6, 5), datetime(2019, 6, 5, 23, 59, 30, tzinfo=UTC)),
        (date(2019, 6, 6), datetime(2019, 6, 6, 0, 0, 30, tzinfo=UTC)),
    ]
    splits: dict[str, dict[str, Any]] = {"a time": {"by": "request", "eval_from": "20:00"}, "a share": HALF}
    chosen = []
    for name, split in splits.items():
        for number, (day, at) in enumerate(parts):
            job = job_of(split=split)
            log = with_beginning(job, literal(spark, [(number, at, "u", "s", f"i{number}", "r1")], SCHEMA))
            column = split_name(split_column(job, Span.of(day, "UTC"))).alias("split")
            chosen.append(log.select(F.struct("*").alias(IMPRESSION)).select(F.lit(name).alias("name"), column))
    found = reduce(DataFrame.union, chosen).collect()
    assert {name: {row.split for row in found if row.name == name} for name in splits} == {
        "a time": {"eval", "train"},
        "a share": {"train"},
    }


def test_what_an_hour_shows_may_repeat_what_its_request_showed_since_midnight() -> None:
    shown = Impressions(source="log", time="at", request="request", article="item")
    config = JobConfig.model_construct(impressions=shown, labels={}, timezone="Asia/Kolkata")
    for hour, before in (("2019-06-05T00", 0), ("2019-06-05T13", 13)):
        span = Span.of(parse_period(hour), "Asia/Kolkata")
        assert impression_reach(config, span) == Reach(timedelta(hours=before), timedelta())
    assert impression_reach(config, EVER) == Reach(timedelta(), timedelta())

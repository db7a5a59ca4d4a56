"""What a request is, and that neither an order nor a split cuts one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.config.order import order_problems
from ctr_samples.samples.features.row import IMPRESSION
from ctr_samples.samples.period import Span
from ctr_samples.samples.requests import BEGINNING, request_hash, with_beginning
from ctr_samples.samples.sampling import split_column
from tests.support.marks import slow_except
from tests.support.orders import config

Frame = Callable[..., DataFrame]
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


def with_splits(frame: Frame, jobs: Sequence[JobConfig]) -> pd.DataFrame:
    """The log with the split of each impression, a column for each configuration, named by its place."""
    rows = frame(SCHEMA, log())
    names = [F.col(name) for name in rows.columns]
    for number, job in enumerate(jobs):
        if job.split.needs_beginnings:
            own = with_beginning(job, rows).withColumn(IMPRESSION, F.struct(*names, BEGINNING))
            rows = own.withColumn(str(number), split_column(job, DAY)).drop(IMPRESSION, BEGINNING)
    others = {str(number): split_column(job, DAY) for number, job in enumerate(jobs) if not job.split.needs_beginnings}
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
    frame: Frame, keys: Sequence[str], request_id: str | None
) -> None:
    jobs = [job for job in jobs_with(keys, request_id) if job.split.by != "request" or is_accepted(job)]
    rows = with_splits(frame, jobs)
    with_id = rows[rows["request"].notna()] if request_id else rows  # without one, a list may cut a visit
    for number, job in enumerate(jobs):
        said, split = f"{job.output.order} {job.split}", str(number)
        cuts = cut(rows, groups_of(rows, job), split)
        assert is_accepted(job) == (cuts == 0), said
        if job.split.by == "request":
            assert cut(with_id, requests_of(with_id, job), split) == 0, said
            assert {*rows[split]} == {"train", "eval"}, said


def test_users_who_share_a_request_id_have_a_split_of_their_own(frame: Frame) -> None:
    rows = with_splits(frame, [job_of()])
    assert cut(rows, requests_of(rows, job_of()), "0") == 0
    known = rows[rows["request"].notna()]
    assert cut(known, known["request"], "0") == known["request"].nunique()


def test_the_first_impression_of_a_request_and_its_user_decides_whether_it_begins_late(frame: Frame) -> None:
    late = job_of(split={"by": "request", "eval_from": "12:00"})
    rows = with_splits(frame, [late])
    first = rows.groupby(requests_of(rows, late))["impression_time"].transform("min")
    assert (rows["0"] == "eval").tolist() == (first >= pd.Timestamp(2019, 6, 5, 12)).tolist()


@pytest.mark.parametrize(
    ("by", "order", "without"),
    [
        ("user", "request", "user"),
        ("user", ["user"], "user"),
        ("user", ["user", "session"], "user"),
        ("request", ["user", "request"], "request"),
    ],
)
def test_a_list_or_a_null_key_may_change_the_split_of_samples_without_that_key(
    frame: Frame, by: str, order: Any, without: str
) -> None:
    split = {"by": by, "eval": 0.5}
    rows = with_splits(frame, [job_of(split=split), job_of(order, split)])
    moved = rows[rows["0"] != rows["1"]]
    assert moved[without].isna().all()
    assert len(moved) > 20


def test_a_split_by_request_is_the_same_in_the_order_by_request(frame: Frame) -> None:
    rows = with_splits(frame, [job_of(), job_of("request"), job_of(["request"])])
    assert rows["0"].tolist() == rows["1"].tolist()
    assert (rows["0"] != rows["2"])[rows["request"].notna()].any()  # a list without the user


@pytest.mark.parametrize(
    ("keys", "users", "requests"),
    [
        (("user", "item"), ["u", "v", "w"], 3),
        (("user", "item"), ["u", "u", "u"], 1),
        (("user", "item"), [None, None, None], 1),
        (("item",), ["u", "v", "w"], 1),
    ],
)
def test_a_placeholder_is_one_request_of_each_user(
    frame: Frame, keys: Sequence[str], users: Sequence[str | None], requests: int
) -> None:
    rows = [(n, MIDNIGHT + timedelta(hours=n), user, None, f"i{n}", "-") for n, user in enumerate(users * 4)]
    hashes = frame(SCHEMA, rows).select(request_hash(job_of("request", keys=keys), F.col))
    assert hashes.distinct().count() == requests


@pytest.mark.parametrize(
    ("split", "splits"),
    [({"by": "request", "eval_from": "20:00"}, {"eval", "train"}), (HALF, {"train"})],
)
def test_only_a_time_may_put_the_parts_of_a_request_that_midnight_cuts_into_two_splits(
    frame: Frame, split: dict[str, Any], splits: set[str]
) -> None:
    parts = [
        (date(2019, 6, 5), "2019-06-05 23:59:30"),
        (date(2019, 6, 6), "2019-06-06 00:00:30"),
    ]
    job, found = job_of(split=split), set()
    for number, (day, at) in enumerate(parts):
        rows = with_beginning(job, frame(SCHEMA, [(number, at, "u", "s", f"i{number}", "r1")]))
        shown = rows.select(F.struct("*").alias(IMPRESSION))
        found |= {row[0] for row in shown.select(split_column(job, Span.of(day, "UTC"))).collect()}
    assert found == splits

"""Nights that chance draws: their samples from partial results have the bytes of those from the logs.

``RANDOM_NIGHTS=60 RANDOM_NIGHTS_FROM=100`` draws sixty, with the seeds from 100 on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import InputError
from ctr_samples.job.many_days import Backfill
from ctr_samples.periods import Period, hours_of, span_of
from ctr_samples.quality.checks import CHECKS
from tests.job.partial_days import KNOWN, write_document, write_log
from tests.support.whole_runs import made

FIRST = int(os.environ.get("RANDOM_NIGHTS_FROM", "1"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("RANDOM_NIGHTS", "3")))
BEFORE = 46
"""How many days of the log a run reads: the longest window, the longest delay, and more."""

ZONES = {
    "UTC": ["2019-06-05", "1999-12-31", "2020-02-29"],
    "Asia/Kathmandu": ["2019-06-05"],
    "Australia/Lord_Howe": ["2019-04-07", "2019-10-06"],  # by half an hour
    "America/St_Johns": ["2019-03-10", "2019-11-03"],
    "America/Sao_Paulo": ["2018-11-04", "2018-02-18"],  # at midnight
    "America/Havana": ["2019-03-10", "2019-11-03"],
    "Africa/Casablanca": ["2019-05-05", "2019-06-09"],
    "Pacific/Apia": ["2011-12-29", "2011-12-31"],  # without the 30th
    "Europe/Stockholm": ["2019-03-31", "2019-10-27"],
}
"""Days on which the clocks change, or the calendar does something."""

STEPS = {"1m": 1, "10m": 10, "30m": 30, "1h": 60, "3h": 180, "12h": 720, "1d": 1440}
WINDOWS = {"10m": 10, "1h": 60, "3h": 180, "1d": 1440, "2d": 2880, "3d": 4320, "7d": 10080, "30d": 43200, "40d": 57600}
DELAYS = [None, None, "1s", "10m", "26h", "3d"]
NOTHING_SHOWN = "sources.log has no impressions on "
WHERE = [None, None, "kind = 'click'", "kind <> 'click'", "paid > 0"]


BY_REQUEST: dict[str, Any] = {"output": {"order": "request"}, "split": {"by": "request"}}


@dataclass(frozen=True)
class Nights:
    """What chance draws: a configuration, the days that have a log, and the runs, each with what becomes of the log before."""

    chance: random.Random
    zone: str
    day: date
    format: str
    config: dict[str, Any]

    @classmethod
    def of(cls, seed: int) -> Nights:
        chance = random.Random(seed)
        zone = chance.choice(list(ZONES))
        day = date.fromisoformat(chance.choice(ZONES[zone])) + timedelta(days=chance.choice([-1, 0, 0, 1, 2, 8, 31]))
        views = dict(chance.sample(list(_views(chance)), chance.choice([0, 1, 1, 2])))
        histories = dict(chance.sample(list(_histories(chance)), chance.choice([0, 1, 1] if views else [1, 2])))
        shown = chance.choice([{"request": "request"}, {"dedup": "10s"}, {"identity": "row"}])
        form = chance.choice(["json", "json", "parquet"])
        config = {
            "grain": chance.choice(["day", "day", "day", "hour"]),
            "timezone": zone,
            "impressions": shown,
            "labels": {"clicked": {"source": "log", "where": "kind = 'click'", "window": chance.choice(["1h", "1d"])}},
            "views": views,
            "histories": histories,
            "features": dict(_features(chance, views, histories)),
        }
        by_request = random.Random(f"order {seed}").choice([{}, BY_REQUEST])
        return cls(chance, zone, day, form, {key: value for key, value in config.items() if value} | by_request)

    def write_logs(self, root: Path) -> None:
        """The logs: of most days around the night, and of some where a window or a history may begin."""
        for n in range(-BEFORE, 4):
            if self.chance.random() < (0.9 if n > -3 else 0.07):
                self.write_log(root, n)
        self.write_log(root, 0)
        self.write_log(root, 1)

    def write_log(self, root: Path, n: int) -> None:
        """The log of the day so many days after that of the night, which it may have already."""
        rows = self.chance.choice([3, 30, 60, 60])
        write_log(
            root,
            self.day + timedelta(days=n),
            self.zone,
            self.chance.randrange(1000),
            rows,
            self.format,
            years_off=0.02,
        )

    def write_config(self, root: Path, out: str) -> Path:
        return write_document(root, out, self.config, BEFORE, self.format)

    def periods(self) -> Iterator[Period]:
        """One night, or two."""
        for n in self.chance.choice([[0], [0, 1], [1, 0]]):
            day = self.day + timedelta(days=n)
            hours = list(hours_of(day, self.zone))  # none of the day that Samoa left out
            if hours:
                yield day if self.config["grain"] == "day" else self.chance.choice(hours)

    def known_by(self, period: Period) -> datetime | None:
        """No time, or one after the period began."""
        start, _ = span_of(period, self.zone) or (None, None)
        assert start is not None
        after = self.chance.choice([0, 1, 3600.5, 86400, 100_000])
        return self.chance.choice([None, None, None, start + timedelta(seconds=after)])


def _views(chance: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """A view of each kind that is kept."""
    step = chance.choice(list(STEPS))
    fitting = [window for window, minutes in WINDOWS.items() if minutes % STEPS[step] == 0]
    windows = chance.sample(fitting, min(len(fitting), chance.choice([1, 2, 3])))
    yield (
        "counted",
        _view(
            chance,
            aggregates={
                "windows": windows,
                "step": step,
                "counts": {"shown": "kind = 'shown'", "clicks": "kind = 'click'"},
                "sums": chance.choice([{}, {"paid": "paid", "whole": "cast(paid as bigint)"}]),
                "distinct": chance.choice([{}, {"users": "user"}, {"items": "item", "requests": "request"}]),
                "rates": {"ctr": {"count": "clicks", "of": "shown", "prior": 0.1, "strength": 5}},
            },
        ),
    )
    counts = {"days": chance.choice([1, 2, 30, 40]), "counts": {"clicks": "kind = 'click'", "all": "true"}}
    yield "daily", _view(chance, ttl=chance.choice(["30d", "45d", "unbounded"]), daily_counts=counts)
    ttl = chance.choice(["8d", "30d", "unbounded"])
    last = {
        "tombstone": chance.choice([None, "paid = -7.25"]),
        "sequence": chance.choice([None, "pmod(hash(paid), 3)"]),
    }
    yield "last", _view(chance, ttl=ttl, inclusive=chance.choice([True, False]), **last)
    yield "reported", _view(chance, ttl=ttl, **last) | {"available_time": KNOWN, "available_after": None}


def _view(chance: random.Random, **own: Any) -> dict[str, Any]:
    keys = [("article", "item", None), ("user", "user", None), ("user_article", "user", "item")]
    entity, key, article = chance.choice(keys)
    view = {"source": "log", "entity": entity, "key": key, "article_key": article, "event_time": "t"}
    return view | {"available_after": chance.choice(DELAYS), "where": chance.choice(WHERE)} | own


def _histories(chance: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in ("one", "two"):
        delay = chance.choice(DELAYS)
        yield (
            name,
            {
                "source": "log",
                **chance.choice([{"on": "article", "item": "user"}, {"on": "user"}]),
                "where": chance.choice(WHERE),
                "last": chance.choice([1, 2, 3, 10]),
                "within": chance.choice(["5d", "40d", "unbounded", *([] if delay else ["1h", "1d"])]),
                "available_after": delay,
                "columns": chance.choice([{}, {"paid": "paid", "sort": "kind"}]),
            },
        )


def _features(
    chance: random.Random, views: dict[str, Any], histories: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each view and history one feature with all that it has."""
    for name, view in views.items():
        if counted := view.get("aggregates"):
            names = [measure for kind in ("counts", "sums", "distinct", "rates") for measure in counted[kind]]
            columns = [f"{measure}_{window}" for measure in names for window in counted["windows"]]
        elif "daily_counts" in view:
            columns = list(view["daily_counts"]["counts"])
        else:
            columns = chance.choice([["paid", "kind"], []])
        yield f"of_{name}", _as_text([f"{name}.{column}" for column in (*columns, "age_s", "matched")])
    for name, history in histories.items():
        yield f"of_{name}", _as_text([f"{name}.{column}" for column in ("items", "ages_s", *history["columns"])])


def _as_text(columns: list[str]) -> dict[str, Any]:
    named = ", ".join(f"{column} as {column.replace('.', '_')}" for column in columns)
    return {"expr": f"to_json(struct({named}))", "dtype": "string", "default": "none"}


def samples(spark: SparkSession, path: Path, period: Period, known_by: datetime | None) -> list[tuple[str, int, bytes]]:
    """The shards of a period, made now; none of one that is refused since nothing was shown."""
    try:
        return made(spark, path, period, force=True, known_by=known_by).shards
    except InputError as error:
        if NOTHING_SHOWN not in str(error):
            raise
        return []


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nights_by_chance_have_the_same_bytes_from_partial_results(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    nights = Nights.of(seed)
    nights.write_logs(tmp_path)
    plain, kept = (nights.write_config(tmp_path, out) for out in ("plain", "kept"))
    print(plain.read_text())  # noqa: T201 (seen when a test fails)
    for period in nights.periods():
        if isinstance(period, date) and nights.chance.random() < 0.3:
            days = [day for n in (-2, -1) if log_of(tmp_path, day := period + timedelta(days=n), nights.format)]
            backfill = Backfill(spark, load_config(kept), days, accept=CHECKS, parallel=2, keep_going=True)
            assert all(NOTHING_SHOWN in str(day.error or NOTHING_SHOWN) for day in backfill.outcomes())
        known_by = nights.known_by(period)
        expected = samples(spark, plain, period, known_by)
        assert samples(spark, kept, period, known_by) == expected, (period, known_by)
        nights.write_log(tmp_path, nights.chance.choice([-30, -3, -2, -1, 0]))


def log_of(root: Path, day: date, kind: str) -> bool:
    """Whether a day has a log."""
    return (root / f"log/{day}.{kind}").exists()

"""Labels, histories and views with one key share a shuffle, and the samples are those of other plans."""

from __future__ import annotations

import random
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from ctr_samples.config import load_config
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.period import Span
from ctr_samples.samples.views import joiner
from ctr_samples.samples.views.as_of.planning import JoinLimits
from tests.support.frames_as_inputs import inputs_of
from tests.support.literal_frames import Frame

DAY = date(2019, 6, 5)
NOON = datetime(2019, 6, 5, 12, tzinfo=UTC)
COMMON = """
name: shuffles
timezone: UTC
impressions:
  source: log
  where: kind = 'shown'
  time: at
  keys: {user: user, item: item}
  dedup: 5s
  columns: {own: kind, joined: kind, rated: kind, left: kind}
  rates_by: [rated]
split: {eval: 0.2, by: user}
output: {path: out, partitions: 2}
sources:
  log: {format: json, path: unused, schema: "id STRING"}
  profiles: {format: json, path: unused, schema: "id STRING"}
"""
CONFIG = """
labels: {clicked: {source: log, where: kind = 'click', window: 30m, skew: 1m, match: LABEL}}
views: {user: {source: profiles, on: user, key: user, event_time: at, ttl: 2h, method: METHOD}}
histories: {recent: {source: log, on: KEY, where: kind = 'click', last: 3, within: 3h}}
features:
  score: {from: user.score, dtype: int64, default: -1}
  recent: {from: recent.items, dtype: string, ragged: true}
"""


@pytest.fixture
def frames(frame: Frame) -> dict[str, DataFrame]:
    rng = random.Random(11)
    users, items = ["", "a", "b", "c", None], ["x", "y", "z", None]

    def at() -> datetime:
        return NOON + timedelta(minutes=rng.randrange(-200, 200))

    log = [(rng.choice(users), rng.choice(items), rng.choice(["shown", "shown", "click"]), at()) for _ in range(500)]
    profiles = [(rng.choice(users), at(), n) for n in range(60)]
    return {
        "log": frame("user string, item string, kind string, at timestamp", log),
        "profiles": frame("user string, at timestamp, score bigint", profiles),
    }


def planned(tmp_path: Path, text: str, frames: dict[str, DataFrame]) -> tuple[DataFrame, str]:
    """Return the samples of a configuration that goes on after the common part, and their plan."""
    path = tmp_path / "shuffles.yaml"
    path.write_text(COMMON.rstrip() + text)
    inputs = inputs_of(load_config(path).config, Span.of(DAY, "UTC"), frames)
    rows = SampleBuilder(inputs).build().samples.rows(inputs.watches.tasks)
    return rows, rows._jdf.queryExecution().analyzed().toString()


def made(
    tmp_path: Path, frames: dict[str, DataFrame], method: str, key: str = "user", label: str = "[[user, item]]"
) -> tuple[int, set[Any]]:
    """Return the number of shuffles of blocks, and the samples."""
    text = CONFIG.replace("METHOD", method).replace("KEY", key).replace("LABEL", label)
    rows, plan = planned(tmp_path, text, frames)
    kept = rows.select("impression_id", "clicked", "score", "recent").collect()
    found = {(row.impression_id, row.clicked, row.score, *row.recent) for row in kept}
    return plan.count("RepartitionByExpression [_key"), found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "label", "by_shuffle", "by_broadcast"),
    [
        ("user", "[[user, item]]", 2, 2),  # one by user, and one into the final order
        pytest.param(
            "item", "[[user, item]]", 3, 2, marks=pytest.mark.slow
        ),  # labels and history by item, view by user
        pytest.param("user", "[[item]]", 3, 3, marks=pytest.mark.slow),  # labels by item, history and view by user
    ],
)
def test_labels_a_history_and_a_view_of_one_key_share_a_shuffle(
    tmp_path: Path, frames: dict[str, DataFrame], key: str, label: str, by_shuffle: int, by_broadcast: int
) -> None:
    shuffles, samples = made(tmp_path, frames, "union", key, label)
    assert shuffles == by_shuffle
    assert len(samples) > 150
    assert {clicked for _, clicked, *_ in samples} == {0, 1}
    assert made(tmp_path, frames, "intervals", key, label) == (by_broadcast, samples), "a broadcast view moves nothing"


@pytest.mark.thorough
def test_impressions_of_hot_users_are_spread_after_they_have_their_labels(
    tmp_path: Path, frames: dict[str, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, samples = made(tmp_path, frames, "union")
    limits = JoinLimits(measured_bytes=0, rows_of_a_hot_key=1, sample=1.0)
    monkeypatch.setattr(joiner, "JoinLimits", lambda broadcast_bytes: limits)
    assert made(tmp_path, frames, "union") == (3, samples), "labels and history by user, view, final order"


NARROW = """
labels: {clicked: {source: log, where: kind = 'click', window: 30m}}
views: {user: {source: profiles, on: user, key: user, event_time: at, ttl: 2h}}
features:
  own: {expr: length(impression.own), dtype: int64}
  joined: {expr: "length(impression.JOINED) + coalesce(user.score, 0)", dtype: int64}
"""


def test_impressions_take_only_those_of_their_columns_along_that_something_needs_later(
    tmp_path: Path, frames: dict[str, DataFrame]
) -> None:
    rows, _ = planned(tmp_path, NARROW, frames)
    plan = rows._jdf.queryExecution().optimizedPlan().toString()
    [handed] = [line for line in plan.splitlines() if "AS _integers" in line and "_shown" in line]
    assert {"own", "joined", "rated", "left"} & {*re.findall(r"_shown (\w+)#\d+[,\]]", handed)} == {"joined", "rated"}
    [values] = {tuple(row) for row in rows.select("own", "joined").where("joined = 5").distinct().collect()}
    assert values == (5, 5)


WIDE = """
  pages: {format: json, path: unused, schema: "id STRING"}
labels: {clicked: {source: log, where: kind = 'click', window: 30m, match: [[user, item]]}}
views:
  user: {source: profiles, on: user, key: user, event_time: at, ttl: 2h, method: METHOD}
  page: {source: pages, on: item, key: item, event_time: at, ttl: 2h, method: OTHER}
features:
  likes: {expr: "coalesce(user.wide[impression.item], -1)", dtype: int64}
  liked: {expr: "coalesce(page.wide[impression.user], -1)", dtype: int64}
  both: {expr: "size(user.wide) + size(page.wide) + coalesce(user.score, 0)", dtype: int64, default: -9}
"""
BROADCAST, SHUFFLE = "intervals", "union"


@pytest.fixture
def wide(frame: Frame, frames: dict[str, DataFrame]) -> dict[str, DataFrame]:
    rng = random.Random(12)

    def rows(keys: list[str], others: list[str]) -> list[tuple[Any, ...]]:
        maps: list[dict[str, int] | None] = [{}, None, *[{one: rng.randrange(9) for one in others} for _ in range(5)]]
        times = [NOON + timedelta(minutes=rng.randrange(-200, 200)) for _ in range(60)]
        return [(rng.choice(keys), at, number, rng.choice(maps)) for number, at in enumerate(times)]

    kind = "at timestamp, score bigint, wide map<string,int>"
    profiles = frame(f"user string, {kind}", rows(["", "a", "b", "c"], ["x", "y"]))
    return {**frames, "profiles": profiles, "pages": frame(f"item string, {kind}", rows(["x", "y", "z"], ["a", "b"]))}


def with_maps(tmp_path: Path, frames: dict[str, DataFrame], methods: tuple[str, str]) -> tuple[int, set[Any]]:
    """Return how often Spark explodes runs of impressions, and the samples."""
    rows, plan = planned(tmp_path, WIDE.replace("METHOD", methods[0]).replace("OTHER", methods[1]), frames)
    found = {tuple(row) for row in rows.select("impression_id", "clicked", "likes", "liked", "both").collect()}
    return plan.count("Generate inline(_each"), found


@pytest.mark.thorough
def test_impressions_share_the_maps_of_the_view_that_is_joined_last(tmp_path: Path, wide: dict[str, DataFrame]) -> None:
    runs, samples = with_maps(tmp_path, wide, (BROADCAST, BROADCAST))
    assert runs == 0, "no impression moves to its row"
    for column in (2, 3, 4):
        assert len({sample[column] for sample in samples}) > 3
    assert with_maps(tmp_path, wide, (SHUFFLE, BROADCAST)) == (1, samples)
    assert with_maps(tmp_path, wide, (SHUFFLE, SHUFFLE))[1] == samples
    assert with_maps(tmp_path, wide, (BROADCAST, SHUFFLE))[1] == samples

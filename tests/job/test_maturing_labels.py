"""Days whose labels become final: the features of the first run, the labels of now, and the bytes of a run that joins all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.config.explain import explain
from ctr_samples.job import reuse
from ctr_samples.job.reuse import seen_on
from ctr_samples.periods import Hour
from ctr_samples.samples.inputs.clocks import clocks_of
from ctr_samples.samples.period import Span
from ctr_samples.shards import FeaturesFrom
from tests.support.literal_frames import literal
from tests.support.whole_runs import Made, Told, made, make_unreadable, planned, write_config, write_rows

DAY, NEXT = date(2019, 6, 5), date(2019, 6, 6)
TAKEN = FeaturesFrom(1)

CONFIG = """
name: maturing
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/{date}.json
    days_before: 2
    days_after: 1
    bad_records: {max_rate: 0.5}
    schema: t string, kind string, user string, item string, place int, paid double
  users:
    format: json
    path: ROOT/users/{date}.json
    days_before: 2
    schema: since string, user string, city string, scores array<double>, words array<string>
impressions: {source: log, where: kind = 'shown', time: t, user: user, article: item, dedup: 10s, position: place}
labels:
  clicked: {source: log, where: kind = 'click', window: 2h}
  paid: {source: log, where: kind = 'buy', window: 1d, value: paid, reduce: sum}
views:
  item:
    source: log
    entity: article
    key: item
    event_time: t
    available_after: 5m
    aggregates:
      windows: [1h, 1d]
      counts: {clicks: kind = 'click', all: 'true'}
      rates: {ctr: {count: clicks, of: all, prior: 0.1, strength: 3}}
  profile: {source: users, entity: user, key: user, event_time: since, ttl: 2d}
histories:
  clicked_items: {source: log, where: kind = 'click', user: user, item: item, last: 3, within: 2d}
features:
  clicks: {from: item.clicks_1d, dtype: int64}
  ctr: {from: item.ctr_1h, dtype: float32}
  place: {from: impression.position, dtype: int64}
  last: {from: clicked_items.items, dtype: int64, shape: [3], hash_buckets: 100}
split: {eval: 0.25, test: 0.25}
output: {path: ROOT/OUT, partitions: 2, shard_size: 4096}
"""
FORMS = {
    "": "  city: {from: profile.city, dtype: string, nulls: omit}\n",
    "columns": """  scores: {from: profile.scores, dtype: float32, shape: [2], fill: -1, nulls: omit}
  words: {from: profile.words, dtype: string, ragged: true, nulls: omit}
  grid: {expr: "concat(profile.scores, profile.scores)", dtype: float32, shape: [2, 2], fill: 0, nulls: omit}
  rows: {expr: "array(array(item.ctr_1d, 1D / 3), array(2D, 3D))", dtype: float32, shape: [2, 2]}
  tensor: {expr: "array(array(item.ctr_1d, 1D / 3), array(2D, 3D))", dtype: float32, shape: [2, 2], encoding: tensor}
  raw: {expr: "array(item.clicks_1d, 7)", dtype: int64, shape: [2], encoding: raw}
""",
    "dense": "  age: {expr: profile.age_s / 7, dtype: float32}\n",
    "sparse": """  age: {expr: profile.age_s / 7, dtype: float32}
  bucket: {from: item.clicks_1d, dtype: int64, boundaries: [1, 5]}
""",
    "sequence": """  words: {from: profile.words, dtype: string, ragged: true, nulls: omit}
  lists: {expr: "array(item.clicks_1d, 7)", dtype: int64, ragged: true}
""",
}
"""More features, by the layout that they are for; there are some for any."""
Change = Mapping[str, str]
"""Texts of the configuration, and what stands in their places."""
UNCHANGED: Change = {}
BY_USER = {
    "split: {eval: 0.25, test: 0.25}\noutput: {": "split: {by: user, eval: 0.25, test: 0.25}\noutput: {order: [user], "
}
"""Samples of a user are adjacent."""


def configured(root: Path, out: str, layout: str = "", change: Change = UNCHANGED, *, partials: bool = True) -> Path:
    """The configuration of what is written to ``out``."""
    text = CONFIG.replace("split:", f"{FORMS[layout]}split:").replace("4096", f"4096, layout: {layout or 'columns'}")
    return write_config(root, out, f"{text}partials: {{path: ROOT/partials}}\n" if partials else text, change)


def row(day: date, minutes: float, kind: str, n: int, paid: float | None = None) -> dict[str, Any]:
    """Something that happened so many minutes after midnight; ``n`` says to whom, and of what."""
    at = datetime(day.year, day.month, day.day) + timedelta(minutes=minutes)
    return {"t": f"{at:%F %T.%f}", "kind": kind, "user": f"u{n % 5}", "item": f"i{n % 7}", "place": n % 4, "paid": paid}


def write_log(root: Path, day: date, *more: dict[str, Any]) -> None:
    """An impression every ten minutes; each third is clicked five minutes later, each fifth paid for 1000 minutes later."""
    rows = [row(day, 10 * n + 7, "shown", n) for n in range(144)]
    clicks = [row(day, 10 * n + 12, "click", n) for n in range(0, 144, 3)]
    late = [row(day, (10 * n + 1007) % 1440, "buy", n, n / 3) for n in range(0, 144, 5)]
    bad = [{**row(day, 5, "click", 1), "t": None}, {**row(day, 6, "click", 1), "item": None}]
    write_rows(root / f"log/{day}.json", [*rows, *clicks, *late, *bad, *more])


def write_users(root: Path, day: date, city: str = "Lund") -> None:
    """What is known of users from a day on: sometimes nothing, sometimes lists with nothing in them."""
    lists = [{"scores": [0.1, None], "words": []}, {"scores": None, "words": ["a", "\u00e5"]}, {"scores": [1.5, 2.5]}]
    rows = [
        {"since": f"{day} 06:00:00", "user": f"u{n}", "city": [city, None, ""][n % 3], **lists[n % 3]} for n in range(4)
    ]
    write_rows(root / f"users/{day}.json", rows)


def write_days(root: Path) -> None:
    """The logs of a day and of two days before it."""
    for n in range(-2, 1):
        write_log(root, DAY + timedelta(days=n))
    for n in (-1, 0):
        write_users(root, DAY + timedelta(days=n))


def without_earlier(spark: SparkSession, root: Path, layout: str = "", change: Change = UNCHANGED) -> Made:
    """The day by a run that joins all and has no partial results."""
    return made(spark, configured(root, "plain", layout, change, partials=False), DAY)


@pytest.fixture(scope="module")
def nights(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A directory with a first run of the day, when the log of the next day was not there, and a copy of it."""
    root, copy = (tmp_path_factory.mktemp(name) for name in ("nights", "copy"))
    write_days(root)
    assert not made(spark, configured(root, "kept"), DAY).manifest.label_mature
    shutil.copytree(root, copy, dirs_exist_ok=True)
    return root, copy


@pytest.fixture
def night(nights: tuple[Path, Path]) -> Path:
    """The directory as the first run left it; the configuration is `kept.yaml`."""
    root, copy = nights
    shutil.rmtree(root)
    shutil.copytree(copy, root)
    return root


@pytest.mark.slow
def test_labels_become_final_with_the_features_of_the_first_run_and_the_bytes_of_a_full_one(
    spark: SparkSession, night: Path
) -> None:
    write_log(night, NEXT, {**row(DAY, 0, "click", 1), "t": None})
    expected = without_earlier(spark, night)
    oldest = night / f"log/{DAY - timedelta(days=2)}.json"
    make_unreadable(oldest, *night.glob("users/*.json"), *night.glob("partials/**/*.parquet"))
    again = made(spark, night / "kept.yaml", DAY)
    manifest = again.manifest
    assert again.shards == expected.shards
    assert again.facts == expected.facts
    assert again.measured == expected.measured
    assert len(again.shards) > 6, "no shard was closed before the last"
    assert (manifest.features_from, manifest.generation, manifest.label_mature) == (TAKEN, 2, True)
    assert manifest.plan == (), "a plan of joins was kept that were not made"
    flips = {"against": 1, "flipped_to_1": 5, "flipped_to_0": 0, "changed": 0, "new": 0, "gone": 0}
    assert manifest.labels["paid"]["flips"] == flips
    assert "The features are those of generation 1; only labels are made anew." in again.summary


def replaced(change: Change) -> Callable[[Path], object]:
    """A change of the configuration."""
    return lambda root: configured(root, "kept", change=change)


def shorten(root: Path) -> None:
    """Cut a shard short."""
    shard = min(root.glob("kept/dt=*/data/*/train/*.tfrecord"))
    shard.write_bytes(shard.read_bytes()[:-1])


def came(minutes: float, kind: str, **more: Any) -> Callable[[Path], object]:
    """A row that came with the log of the next day."""
    return lambda root: write_log(root, NEXT, {**row(DAY, minutes, kind, 1), **more})


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a changed log": (
        lambda root: write_log(root, DAY, row(DAY, 5, "shown", 1)),
        "the source log has changed by more than new days",
    ),
    "another order": (replaced(BY_USER), "`split` and `output` changed"),
    "a shard that was cut short": (shorten, "so its features are gone"),
    "a late action": (came(1430, "click"), "1 row(s) that came to the source log since then matter to `views.item`"),
    "a late impression": (
        came(1439, "shown"),
        "1 row(s) that came to the source log since then matter to `impressions`",
    ),
}


@pytest.mark.thorough
def test_all_is_joined_anew_by_another_release_or_if_asked_to(
    spark: SparkSession, night: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(night, NEXT)
    loaded = load_config(night / "kept.yaml")
    assert planned(spark, loaded, DAY, "`--force` was given") == FeaturesFrom(1, "`--force` was given")
    monkeypatch.setattr(reuse, "RELEASE", "0.0.0")
    assert planned(spark, loaded, DAY).why == "`release` changed"


@pytest.mark.thorough
@pytest.mark.parametrize("name", CHANGES)
def test_after_other_changes_all_is_joined_anew(spark: SparkSession, night: Path, name: str) -> None:
    change, reason = CHANGES[name]
    write_log(night, NEXT)
    change(night)
    features = planned(spark, load_config(night / "kept.yaml"), DAY)
    assert features.generation == 1
    assert reason in features.why


@pytest.mark.slow
def test_a_run_that_joins_anew_has_the_bytes_of_a_full_one(spark: SparkSession, night: Path) -> None:
    change, reason = CHANGES["a late action"]
    change(night)
    again = made(spark, night / "kept.yaml", DAY)
    assert reason in again.features_from.why
    assert again.shards == without_earlier(spark, night).shards


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("split: ", "sampling: {negatives: 0.5}\nsplit: ", "`sampling` left out samples"),
        ("place}\nlabels", "place, skip_above: clicked}\nlabels", "`skip_above` left out impressions"),
    ],
)
def test_impressions_that_were_left_out_by_their_labels_are_joined(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    loaded = load_config(configured(tmp_path, "kept", change={old: new}))
    assert f"  a later run that makes labels final joins all anew: {reason}" in explain(loaded.config)
    plain = explain(load_config(configured(tmp_path, "kept")).config)
    assert "  a later run that makes labels final takes the features of the first" in plain


def test_a_row_matters_if_it_is_true_and_known_before_the_day_ends(spark: SparkSession, tmp_path: Path) -> None:
    reported = {"event_time: since": "event_time: timestamp(since), available_time: timestamp(city)"}
    config, day = load_config(configured(tmp_path, "kept", change=reported)).config, Span.of(DAY, "UTC")
    matters = {
        ("2019-06-05 23:59:59", "2019-06-05 23:59:59.999999"): True,
        ("2019-06-05 23:59:59", "2019-06-06 00:00:00"): False,
        ("2019-06-06 00:00:00", "2019-06-05 12:00:00"): False,
        ("2019-06-02 23:59:59", "2019-06-05 12:00:00"): False,
        ("2019-06-05 12:00:00", None): False,
    }
    rows = literal(spark, [(*times, "u1") for times in matters], "since string, city string, user string")
    (seen,) = seen_on(day, config, clocks_of(config, day, "users", "views", rows)).values()
    assert [(row.since, row.city) for row in rows.where(seen).collect()] == [
        times for times, is_seen in matters.items() if is_seen
    ]


LATE = (
    row(DAY, 1439, "buy", 1),  # it is not known before the day ends
    row(DAY, 600, "buy", 1) | {"item": None},
    row(DAY, 0, "click", 1) | {"t": None},
    row(DAY, -1500, "shown", 1) | {"item": None},  # an impression of the evening before
)
"""Rows that matter to nothing."""


@pytest.mark.slow
def test_only_features_of_a_table_that_changed_are_made_beside_those_of_the_first_run(
    spark: SparkSession, night: Path
) -> None:
    write_log(night, NEXT, *LATE)
    loaded = load_config(night / "kept.yaml")
    assert planned(spark, loaded, DAY) == TAKEN
    write_users(night, DAY, "Oslo")
    again = made(spark, loaded, DAY)
    assert again.features_from == FeaturesFrom(1, features=("clicks", "ctr", "place", "last"))
    assert again.shards == without_earlier(spark, night).shards


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["a changed shard", "an impression that nobody has looked for"])
def test_what_is_found_out_by_the_tasks_leads_to_a_run_that_joins_all(
    spark: SparkSession, night: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(night, NEXT)
    if damage == "a changed shard":
        shard = min(night.glob("kept/dt=*/data/*/train/part-00000-*.tfrecord"))
        content = bytearray(shard.read_bytes())
        content[100] ^= 1
        shard.write_bytes(content)
    else:
        monkeypatch.setattr(reuse, "_looked_at", lambda *_: ("", {}))
        write_log(night, NEXT, row(DAY, 1439, "shown", 1))
    told = Told()
    again = made(spark, night / "kept.yaml", DAY, reporter=told)
    assert any(text.startswith("The features of the generation before cannot be used") for text in told.warnings)
    assert again.features_from.why
    assert again.shards == without_earlier(spark, night).shards


GZIP = {"partitions: 2": "partitions: 2, compression: gzip"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "change"), [("columns", GZIP), ("dense", GZIP), ("sparse", GZIP), ("sequence", GZIP), ("", BY_USER)]
)
def test_records_of_each_layout_are_those_of_a_full_run(
    spark: SparkSession, tmp_path: Path, layout: str, change: Change
) -> None:
    write_days(tmp_path)
    path = configured(tmp_path, "kept", layout, change)
    first = made(spark, path, DAY)
    write_log(tmp_path, NEXT)
    again = made(spark, path, DAY)
    assert (again.features_from, again.manifest.label_mature) == (TAKEN, True)
    assert again.shards == without_earlier(spark, tmp_path, layout, change).shards
    assert again.manifest.order == first.manifest.order
    if change == BY_USER:
        assert again.manifest.order is not None
        assert again.manifest.order.size > 2


@pytest.mark.slow
def test_an_hour_takes_features_too(spark: SparkSession, tmp_path: Path) -> None:
    write_days(tmp_path)
    hour, by_hour = Hour(DAY, 23), {"timezone: UTC": "timezone: UTC\ngrain: hour"}
    path = configured(tmp_path, "kept", change=by_hour)
    made(spark, path, hour)
    write_log(tmp_path, NEXT)
    assert planned(spark, load_config(path), hour) == TAKEN

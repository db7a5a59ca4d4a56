"""Days whose labels become final: the features of the first run, the labels of now, and the bytes of a run that joins all."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from ctr_samples.config import load_config
from ctr_samples.config.explain import explain
from ctr_samples.job import planning, reuse
from ctr_samples.job import run as job
from ctr_samples.job.many_days import Backfill
from ctr_samples.job.reuse import seen_on
from ctr_samples.job.summary import run_summary
from ctr_samples.periods import Hour, Period
from ctr_samples.quality.checks import CHECKS
from ctr_samples.samples.inputs.clocks import clocks_of
from ctr_samples.samples.period import Span
from ctr_samples.shards import DayOutput, FeaturesFrom, Manifest, latest_manifest, open_storage
from ctr_samples.sparksql.observations import Silent
from tests.job.partial_days import measured, shards_of
from tests.support.marks import slow_except

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
BY_USER = {
    "old": "split: {eval: 0.25, test: 0.25}\noutput: {",
    "new": "split: {by: user, eval: 0.25, test: 0.25}\noutput: {order: [user], ",
}
"""A change of the configuration: samples of a user are adjacent."""


def write_config(
    root: Path, out: str, layout: str = "", *, old: str = "", new: str = "", partials: bool = True
) -> Path:
    """The configuration of what is written to ``out``, with ``new`` for ``old``."""
    text = CONFIG.replace("split:", f"{FORMS[layout]}split:")
    assert old in text
    text = text.replace(old, new, 1) if old else text
    text = text.replace("ROOT", str(root)).replace("OUT", out).replace("4096", f"4096, layout: {layout or 'columns'}")
    path = root / f"{out}.yaml"
    path.write_text(f"{text}partials: {{path: {root}/partials}}\n" if partials else text)
    return path


def row(day: date, minutes: float, kind: str, n: int, paid: float | None = None) -> dict[str, Any]:
    """Something that happened so many minutes after midnight; ``n`` says to whom, and of what."""
    at = datetime(day.year, day.month, day.day) + timedelta(minutes=minutes)
    return {"t": f"{at:%F %T.%f}", "kind": kind, "user": f"u{n % 5}", "item": f"i{n % 7}", "place": n % 4, "paid": paid}


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(one)}\n" for one in rows))


def write_log(root: Path, day: date, *more: dict[str, Any]) -> None:
    """An impression every ten minutes; each third is clicked five minutes later, each fifth paid for 1000 minutes later."""
    rows = [row(day, 10 * n + 7, "shown", n) for n in range(144)]
    clicks = [row(day, 10 * n + 12, "click", n) for n in range(0, 144, 3)]
    late = [row(day, (10 * n + 1007) % 1440, "buy", n, n / 3) for n in range(0, 144, 5)]
    bad = [{**row(day, 5, "click", 1), "t": None}, {**row(day, 6, "click", 1), "item": None}]
    write_lines(root / f"log/{day}.json", [*rows, *clicks, *late, *bad, *more])


def write_users(root: Path, day: date, city: str = "Lund") -> None:
    """What is known of users from a day on: sometimes nothing, sometimes lists with nothing in them."""
    lists = [{"scores": [0.1, None], "words": []}, {"scores": None, "words": ["a", "\u00e5"]}, {"scores": [1.5, 2.5]}]
    rows = [
        {"since": f"{day} 06:00:00", "user": f"u{n}", "city": [city, None, ""][n % 3], **lists[n % 3]} for n in range(4)
    ]
    write_lines(root / f"users/{day}.json", rows)


def write_days(root: Path) -> None:
    """The logs of a day and of two days before it."""
    for n in range(-2, 1):
        write_log(root, DAY + timedelta(days=n))
    for n in (-1, 0):
        write_users(root, DAY + timedelta(days=n))


def made(spark: SparkSession, path: Path, of: Period = DAY, **how: Any) -> tuple[list[bytes], Manifest]:
    """The shards of the day by a run of now, and its manifest."""
    config = load_config(path)
    result = job.run(spark, config, of, accept=CHECKS, **how)
    assert result.published
    return shards_of(result.manifest, Path(config.config.output.path)), result.manifest


@pytest.fixture(scope="module")
def nights(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A directory with a first run of the day, when the log of the next day was not there, and a copy of it."""
    root, copy = (tmp_path_factory.mktemp(name) for name in ("nights", "copy"))
    write_days(root)
    # What it keeps is no part of this: features are taken from any run.
    _, first = made(spark, write_config(root, "kept", partials=False))
    assert not first.label_mature
    write_config(root, "kept")
    shutil.copytree(root, copy, dirs_exist_ok=True)
    return root, copy


@pytest.fixture
def night(nights: tuple[Path, Path]) -> Path:
    """The directory as the first run left it; the configuration is `kept.yaml`."""
    root, copy = nights
    shutil.rmtree(root)
    shutil.copytree(copy, root)
    return root


def make_unreadable(*paths: Path) -> None:
    """Nobody may look into these files, which seem to be the same."""
    for path in paths:
        times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
        path.write_bytes(b"\x00" * path.stat().st_size)
        os.utime(path, ns=times)


@pytest.mark.slow
def test_labels_become_final_with_the_features_of_the_first_run_and_the_bytes_of_a_full_one(
    spark: SparkSession, night: Path
) -> None:
    write_log(night, NEXT)
    bytes_of_all, _ = made(spark, write_config(night, "plain", partials=False))
    make_unreadable(*night.glob("users/*.json"))
    shards, manifest = made(spark, night / "kept.yaml")
    assert shards == bytes_of_all
    assert len(shards) > 6, "no shard was closed before the last"
    assert (manifest.features_from, manifest.generation, manifest.label_mature) == (TAKEN, 2, True)
    assert manifest.plan == (), "a plan of joins was kept that were not made"
    assert manifest.labels["paid"]["flips"] == {
        "against": 1,
        "flipped_to_1": 5,
        "flipped_to_0": 0,
        "changed": 0,
        "new": 0,
        "gone": 0,
    }
    summary = Console(width=200, file=io.StringIO(), record=True)
    summary.print(run_summary(manifest, open_storage(night / "kept"), published=True))
    assert "The features are those of generation 1; only labels are made anew." in summary.export_text()


@pytest.mark.slow
def test_labels_become_final_in_the_order_by_request_too(spark: SparkSession, tmp_path: Path) -> None:
    write_days(tmp_path)
    _, first = made(spark, write_config(tmp_path, "kept", **BY_USER))
    write_log(tmp_path, NEXT)
    bytes_of_all, _ = made(spark, write_config(tmp_path, "plain", partials=False, **BY_USER))
    shards, manifest = made(spark, tmp_path / "kept.yaml")
    assert shards == bytes_of_all
    assert (manifest.features_from, manifest.label_mature) == (TAKEN, True)
    assert manifest.order == first.order
    assert manifest.order is not None
    assert manifest.order.size > 2


Change = Callable[[Path], object]


def replaced(old: str, new: str) -> Change:
    """A change of the configuration."""
    return lambda root: write_config(root, "kept", old=old, new=new)


def shorten(root: Path) -> None:
    """Cut a shard short."""
    shard = min(root.glob("kept/dt=*/data/*/train/*.tfrecord"))
    shard.write_bytes(shard.read_bytes()[:-1])


def came(minutes: float, kind: str, **more: Any) -> Change:
    """A row that came with the log of the next day."""
    return lambda root: write_log(root, NEXT, {**row(DAY, minutes, kind, 1), **more})


CHANGES: dict[str, tuple[Change, str]] = {
    "a changed log": (
        lambda root: write_log(root, DAY, row(DAY, 5, "shown", 1)),
        "the source log has changed by more than new days",
    ),
    "another order": (replaced(**BY_USER), "`split` and `output` changed"),
    "a shard that was cut short": (shorten, "so its features are gone"),
    "a late action": (came(1430, "click"), "1 row(s) that came to the source log since then matter to `views.item`"),
    "a late impression": (
        came(1439, "shown"),
        "1 row(s) that came to the source log since then matter to `impressions`",
    ),
}
LATER: dict[str, Change] = {
    "an action that is not known before the day ends": came(1439, "buy"),
    "an action without a time": came(0, "click", t=None),
    "an action without a key": came(600, "buy", item=None),
    "an impression of the evening before": came(-1500, "shown", item=None),
}


def planned(spark: SparkSession, path: Path, why_joined: str = "") -> FeaturesFrom:
    """Where a run of now would take its features from."""
    loaded = load_config(path)
    with planning.planning(spark, loaded):
        prepared = planning.Prepared.of(spark, loaded, DAY, Silent())
        config, storage = loaded.config, open_storage(loaded.config.output.path)
        output = DayOutput.open(storage, DAY, config.name, planning.retention_of(config))
        features_from = reuse.kind_of_run(prepared, output, why_joined).features_from
    assert features_from is not None
    return features_from


@pytest.mark.thorough
@pytest.mark.parametrize("name", slow_except(["a late action"], CHANGES))
def test_all_is_joined_anew_after(spark: SparkSession, night: Path, name: str) -> None:
    change, reason = CHANGES[name]
    write_log(night, NEXT)
    change(night)
    features = planned(spark, night / "kept.yaml")
    assert features.generation == 1
    assert reason in features.why


def test_all_is_joined_anew_by_another_release_or_if_asked_to(
    spark: SparkSession, night: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(night, NEXT)
    assert planned(spark, night / "kept.yaml", "`--force` was given") == FeaturesFrom(1, "`--force` was given")
    monkeypatch.setattr(reuse, "RELEASE", "0.0.0")
    assert planned(spark, night / "kept.yaml").why == "`release` changed"


@pytest.mark.slow
@pytest.mark.parametrize("name", LATER)
def test_features_are_those_of_the_first_run_in_spite_of(spark: SparkSession, night: Path, name: str) -> None:
    LATER[name](night)
    assert planned(spark, night / "kept.yaml") == TAKEN


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
    loaded = load_config(write_config(tmp_path, "kept", old=old, new=new))
    assert f"  a later run that makes labels final joins all anew: {reason}" in explain(loaded.config)
    plain = explain(load_config(write_config(tmp_path, "kept")).config)
    assert "  a later run that makes labels final takes the features of the first" in plain


def test_a_row_matters_if_it_is_true_and_known_before_the_day_ends(spark: SparkSession, tmp_path: Path) -> None:
    reported = {"old": "event_time: since", "new": "event_time: timestamp(since), available_time: timestamp(city)"}
    config, day = load_config(write_config(tmp_path, "kept", **reported)).config, Span.of(DAY, "UTC")
    matters = {
        ("2019-06-05 23:59:59", "2019-06-05 23:59:59.999999"): True,
        ("2019-06-05 23:59:59", "2019-06-06 00:00:00"): False,
        ("2019-06-06 00:00:00", "2019-06-05 12:00:00"): False,
        ("2019-06-02 23:59:59", "2019-06-05 12:00:00"): False,
        ("2019-06-05 12:00:00", None): False,
    }
    rows = spark.createDataFrame([(*times, "u1") for times in matters], "since string, city string, user string")
    (seen,) = seen_on(day, config, clocks_of(config, day, "users", "views", rows)).values()
    assert [(row.since, row.city) for row in rows.where(seen).collect()] == [
        times for times, is_seen in matters.items() if is_seen
    ]


class _Warnings(Silent):
    """A reporter that remembers the warnings."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_run_that_joins_anew_has_the_bytes_of_a_full_one(spark: SparkSession, night: Path, name: str) -> None:
    change, reason = CHANGES[name]
    write_log(night, NEXT)
    change(night)
    shards, manifest = made(spark, night / "kept.yaml")
    assert reason in manifest.features_from.why
    new = {"another order": BY_USER}.get(name, {})
    assert shards == made(spark, write_config(night, "plain", partials=False, **new))[0]


@pytest.mark.slow
def test_features_of_a_table_that_changed_are_made_beside_those_of_the_first_run(
    spark: SparkSession, night: Path
) -> None:
    write_log(night, NEXT)
    write_users(night, DAY, "Oslo")
    shards, manifest = made(spark, night / "kept.yaml")
    assert manifest.features_from == FeaturesFrom(1, features=("clicks", "ctr", "place", "last"))
    assert shards == made(spark, write_config(night, "plain", partials=False))[0]


@pytest.mark.slow
def test_rows_that_matter_to_nothing_change_no_feature(spark: SparkSession, night: Path) -> None:
    late = [row(DAY, 1439, "buy", 1), {**row(DAY, 600, "buy", 1), "item": None}, {**row(DAY, 0, "click", 1), "t": None}]
    write_log(night, NEXT, *late)
    shards, manifest = made(spark, night / "kept.yaml")
    assert manifest.features_from == TAKEN
    assert shards == made(spark, write_config(night, "plain", partials=False))[0]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["a changed shard", "a shard of others", "an impression that nobody has looked for"])
def test_what_is_found_out_by_the_tasks_leads_to_a_run_that_joins_all(
    spark: SparkSession, night: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted(night.glob("kept/dt=*/data/*/train/part-00000-*.tfrecord"))[:2]
    write_log(night, NEXT)
    if damage == "a changed shard":
        content = bytearray(first.read_bytes())
        content[100] ^= 1
        first.write_bytes(content)
    elif damage == "a shard of others":
        monkeypatch.setattr(reuse, "check_shards", lambda *_: None)
        shutil.copyfile(second, first)
    else:
        monkeypatch.setattr(reuse, "_looked_at", lambda *_: ("", {}))
        write_log(night, NEXT, row(DAY, 1439, "shown", 1))
    reporter = _Warnings()
    shards, manifest = made(spark, night / "kept.yaml", reporter=reporter)
    assert any(text.startswith("The features of the generation before cannot be used") for text in reporter.texts)
    assert manifest.features_from.why
    assert shards == made(spark, write_config(night, "plain", partials=False))[0]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["columns", "dense", "sparse", "sequence"])
def test_records_of_each_layout_are_those_of_a_full_run(spark: SparkSession, tmp_path: Path, layout: str) -> None:
    write_days(tmp_path)
    gzip = {"old": "partitions: 2", "new": "partitions: 2, compression: gzip"}
    path = write_config(tmp_path, "kept", layout, **gzip)
    made(spark, path)
    write_log(tmp_path, NEXT)
    shards, manifest = made(spark, path)
    assert manifest.features_from == TAKEN
    assert shards == made(spark, write_config(tmp_path, "plain", layout, partials=False, **gzip))[0]


@pytest.mark.slow
def test_manifest_and_metrics_are_those_of_a_run_that_joins_all(spark: SparkSession, tmp_path: Path) -> None:
    write_days(tmp_path)
    kept, plain = (write_config(tmp_path, out, partials=False) for out in ("kept", "plain"))
    for path in (kept, plain):
        made(spark, path)
    write_config(tmp_path, "kept")
    write_log(tmp_path, NEXT, {**row(DAY, 0, "click", 1), "t": None})
    both = []
    for path in (kept, plain):
        _, manifest = made(spark, path, force=path == plain)
        both.append((manifest, measured(Path(load_config(path).config.output.path), manifest)))
    (one, of_one), (other, of_other) = both
    assert one.features_from == TAKEN
    assert of_one == of_other
    assert (one.views, one.labels, one.accounting) == (other.views, other.labels, other.accounting)
    assert one.inputs == other.inputs


@pytest.mark.slow
def test_a_run_for_final_labels_reads_of_the_log_only_the_days_near_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_days(tmp_path)
    path = write_config(tmp_path, "kept")
    made(spark, path)
    write_log(tmp_path, NEXT)
    bytes_of_all, _ = made(spark, write_config(tmp_path, "plain", partials=False))
    make_unreadable(tmp_path / f"log/{DAY - timedelta(days=2)}.json", *tmp_path.glob("partials/**/*.parquet"))
    shards, manifest = made(spark, path)
    assert (manifest.features_from, shards) == (TAKEN, bytes_of_all)


@pytest.mark.slow
def test_many_days_by_one_command_take_the_features_that_are_there(spark: SparkSession, tmp_path: Path) -> None:
    write_days(tmp_path)
    path = write_config(tmp_path, "kept")
    made(spark, path)
    write_log(tmp_path, NEXT)
    write_users(tmp_path, NEXT)
    outcomes = list(Backfill(spark, load_config(path), [DAY, NEXT], accept=CHECKS, parallel=2).outcomes())
    assert [outcome.became for outcome in outcomes] == ["published", "published"]
    manifest = latest_manifest(open_storage(tmp_path / "kept"), DAY)
    assert manifest is not None
    assert manifest.features_from == TAKEN


@pytest.mark.slow
def test_an_hour_takes_features_too(spark: SparkSession, tmp_path: Path) -> None:
    write_days(tmp_path)
    form: dict[str, Any] = {"old": "timezone: UTC", "new": "timezone: UTC\ngrain: hour"}
    path, hour = write_config(tmp_path, "kept", **form), Hour(DAY, 23)
    made(spark, path, of=hour)
    write_log(tmp_path, NEXT)
    shards, manifest = made(spark, path, of=hour)
    assert manifest.features_from == TAKEN
    assert shards == made(spark, write_config(tmp_path, "plain", partials=False, **form), of=hour)[0]

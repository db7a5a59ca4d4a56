"""Tables whose rows end, snapshots, and text that looks like something else: what is served is that of a run made otherwise."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import Served as ServedConfig
from ctr_samples.config import load_config
from ctr_samples.errors import InputError
from ctr_samples.job import run as job
from ctr_samples.quality.checks import CHECKS
from ctr_samples.readers import iter_batches
from tests.served.served_day import DAY, START, compared

pytestmark = pytest.mark.slow

SHOWN, USERS = 800, 30
BEGIN = START.timestamp()
CONFIG = """
name: shapes
timezone: UTC
sources:
  log: {format: json, path: DIR/log.json, schema: "at DOUBLE, u STRING, zip STRING, since STRING, born BIGINT"}
  rows: {format: json, path: DIR/rows.json, schema: "u STRING, at DOUBLE, no BIGINT, gone BOOLEAN, upto DOUBLE, v DOUBLE"}
  days: {format: json, path: DIR/days.json, schema: "u STRING, day STRING, v DOUBLE"}
impressions:
  source: log
  time: timestamp_millis(bigint(at * 1000))
  keys: {user: u}
  columns: {zip: zip, since: since, born: born}
labels: {none: {expr: "false"}}
views:
  step: {source: rows, on: user, key: u, event_time: "timestamp_seconds(bigint(at))", sequence: no, AFTER_STEP}
  left: {source: rows, on: user, key: u, event_time: "timestamp_seconds(bigint(at) + no)", TOMB AFTER_LEFT}
  deal: {source: rows, on: user, key: u, event_time: "timestamp_seconds(bigint(at) + no)", END AFTER_DEAL}
  seen: {source: days, on: user, key: u, snapshot: "date(day)", ttl: 9d, PUBLISHED}
features:
  step: {from: step.v, dtype: float32, default: -1}
  left: {from: left.v, dtype: float32, default: -1}
  deal: {from: deal.v, dtype: float32, default: -1}
  seen: {from: seen.v, dtype: float32, default: -1}
  zip: {from: impression.zip, dtype: string}
  since: {from: impression.since, dtype: string}
  born: {from: impression.born, dtype: int64}
split: {eval: 0.1}
output: {path: DIR/OUT, partitions: 2}
"""
RIGHT = {
    "AFTER_STEP": "ttl: 20d",
    "TOMB": "tombstone: gone,",
    "AFTER_LEFT": "ttl: 20d",
    "END": "valid_to: timestamp_seconds(bigint(upto)),",
    "AFTER_DEAL": "ttl: 20d",
    "PUBLISHED": "publish_delay: 3h",
}
LATE = {
    **RIGHT,
    "AFTER_STEP": "ttl: 20d, available_after: 1h",
    "AFTER_LEFT": "ttl: 20d, available_after: 2h",
    "END": "valid_to: timestamp_seconds(bigint(upto)), closed_available: timestamp_seconds(bigint(upto) + 1800),",
    "AFTER_DEAL": "ttl: 20d, available_after: 30m",
    "PUBLISHED": "publish_delay: 9h",
}
ENDLESS = {**RIGHT, "TOMB": "", "END": ""}


def lines_of(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where, rng = tmp_path_factory.mktemp("shapes"), random.Random(39)
    users = [f"{n:05}" for n in range(USERS)]
    rows: list[dict[str, Any]] = []
    for user in users:
        at = BEGIN - 86400
        while at < BEGIN + 86400:
            upto = at + rng.uniform(1800, 9000)
            rows += [{"u": user, "at": at, "no": no, "gone": rng.random() < 0.3, "upto": upto, "v": rng.random() * 9 + 1}
                     for no in (1, 0)]  # fmt: skip
            at += rng.uniform(3600, 14400)
    days = [
        {"u": user, "day": str(DAY - timedelta(days=back)), "v": rng.random()}
        for back in (1, 2, 3)
        for user in users
        if rng.random() < 0.8
    ]
    log = [
        {"at": round(BEGIN + rng.uniform(0, 86399), 3), "u": rng.choice(users), "zip": f"0{n:04}", "since": "2018-08-14",
         "born": 1_500_000_000 + n}
        for n in range(SHOWN)
    ]  # fmt: skip
    for name, of in (("rows", rows), ("days", days), ("log", log)):
        (where / f"{name}.json").write_text(lines_of(of))
    for out, parts in (("out", RIGHT), ("late", LATE), ("endless", ENDLESS)):
        text = CONFIG.replace("OUT", out)
        for name, part in parts.items():
            text = text.replace(name, part)
        (where / f"{out}.yaml").write_text(text.replace("DIR", str(where)))
        job.run(spark, load_config(where / f"{out}.yaml"), DAY, accept=CHECKS)
    return where


@pytest.fixture
def lines(root: Path) -> list[dict[str, Any]]:
    """What a service without faults logs."""
    found = []
    for split in ("train", "eval"):
        for batch in iter_batches(root / "out", date=DAY, split=split, batch_size=4096):
            ids = batch.keys["impression_id"].tolist()
            columns = {name: batch.features[name].tolist() for name in ("born", "zip", "since")}
            found += [
                dict(zip(("impression_id", *columns), row, strict=True))
                for row in zip(ids, *columns.values(), strict=True)
            ]
    shown = {line["born"]: line for line in map(json.loads, (root / "log.json").read_text().splitlines())}
    text = lambda value: value.decode() if isinstance(value, bytes) else value  # noqa: E731
    return [{k: text(v) for k, v in {**shown[line["born"]], **line}.items()} for line in found]


def shards(root: Path, out: str) -> Path:
    """A copy of the shards of a run, which is a log of tf.Examples."""
    log = root / f"{out}_log"
    log.mkdir()
    for number, shard in enumerate(sorted(root.glob(f"{out}/dt=*/data/*/*/*.tfrecord"))):
        shutil.copy(shard, log / f"{number}.tfrecord")
    return log


def test_late_stores_whose_rows_end_are_named_with_their_delays(spark: SparkSession, root: Path) -> None:
    found = compared(spark, root / "out.yaml", shards(root, "late"), ServedConfig(), propose=True)
    differing = {name for name, one in found.features.items() if one.differ}
    assert differing == {"step", "left", "deal", "seen"}
    for name, delay in (("step", "1h"), ("left", "2h"), ("deal", "30m"), ("seen", "6h")):
        cause = found.features[name].causes[0]
        assert cause.name == "late row", (name, found.features[name].causes)
        assert f"{delay} late" in cause.sentence
        assert cause.share > 0.98
    assert "`closed_available`" in found.features["deal"].causes[0].sentence
    settings = {one.view: {one.setting: one.available_after} for one in found.proposals}
    assert settings["seen"] == {"publish_delay": "9h"}
    assert settings["left"] == {"available_after": "2h"}


def test_a_service_that_ignores_tombstones_and_ends_is_named(spark: SparkSession, root: Path) -> None:
    found = compared(spark, root / "out.yaml", shards(root, "endless"), ServedConfig())
    assert {name for name, one in found.features.items() if one.differ} == {"left", "deal"}
    for name in ("left", "deal"):
        (cause,) = found.features[name].causes
        assert cause.name == "ended row"
        assert cause.share > 0.95  # rows that ended before the day are not tried


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("by_keys", [False, True])
def test_text_that_looks_like_numbers_and_dates_stays_text(
    spark: SparkSession, root: Path, lines: list[dict[str, Any]], form: str, by_keys: bool
) -> None:
    frame, path = pd.DataFrame(lines), root / f"served.{form}"
    frame.to_csv(path, index=False) if form == "csv" else path.write_text(lines_of(lines))
    served = ServedConfig(keys={"user": "u"}, time="at", within=timedelta(seconds=1)) if by_keys else ServedConfig()
    found = compared(spark, root / "out.yaml", path, served, causes=False)
    assert found.coverage.matched > 0.99 * SHOWN
    assert {name: one.differ for name, one in found.features.items()} == {"zip": 0, "since": 0, "born": 0}


def test_ids_are_never_near_even_beside_a_number_that_is_not_whole(
    spark: SparkSession, root: Path, lines: list[dict[str, Any]]
) -> None:
    path = root / "near.json"
    path.write_text(lines_of({**line, "born": line["born"] + (0.5 if n == 7 else 3)} for n, line in enumerate(lines)))
    found = compared(spark, root / "out.yaml", path, ServedConfig(), causes=False)
    assert found.features["born"].differ == SHOWN


def test_a_column_that_only_some_files_have_is_compared(
    spark: SparkSession, root: Path, lines: list[dict[str, Any]]
) -> None:
    (root / "parts").mkdir()
    (root / "parts/a.json").write_text(
        lines_of({"impression_id": one["impression_id"], "zip": one["zip"]} for one in lines[:5])
    )
    (root / "parts/b.json").write_text(lines_of({**one, "born": 2 * one["born"]} for one in lines[5:]))
    found = compared(spark, root / "out.yaml", root / "parts", ServedConfig(), causes=False).features["born"]
    assert (found.different, found.only_offline) == (SHOWN - 5, 5)


Change = Callable[[int, dict[str, Any]], dict[str, Any]]


def noise(number: int, line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "born": line["born"] + number % 5 + 1}


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda n, line: {**line, "born": None if n % 4 == 0 else line["born"]}, "no value"),
        (lambda n, line: {**line, "born": line["born"] + 1}, "shift"),
        (noise, None),
    ],
)
def test_nothing_served_a_shift_and_noise_are_told_apart(
    spark: SparkSession, root: Path, lines: list[dict[str, Any]], change: Change, cause: str | None
) -> None:
    path = root / "changed.json"
    path.write_text(lines_of(change(n, line) for n, line in enumerate(lines)))
    found = compared(spark, root / "out.yaml", path, ServedConfig()).features["born"]
    assert [one.name for one in found.causes] == ([] if cause is None else [cause])
    assert found.unexplained == (1 if cause is None else 0)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("cut.json.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03K", "cut.json.gz is no whole gzip file"),
        ("none.json.gz", b'{"impression_id": 1}', "none.json.gz is no whole gzip file"),
        ("lost.json", b'{"impression_id": 1e18, "born": 1}\n', "floats, in which ids lose their last digits"),
        ("inside.json", b'{"impression_id": {"id": 1}, "born": 1}\n', "expected the `impression_id` of the samples"),
        ("struct.json", b'{"impression_id": 1, "zip": {"code": 1}}\n', "the column 'zip' is struct<.*; expected text"),
    ],
)
def test_files_that_cannot_be_compared_are_refused_in_a_sentence(
    spark: SparkSession, root: Path, name: str, content: bytes, why: str
) -> None:
    (root / name).write_bytes(content)
    with pytest.raises(InputError, match=why):
        compared(spark, root / "out.yaml", root / name, ServedConfig(), causes=False)

"""A changed configuration: features that are made from the same are read back, and the shards are those of a full run."""

from __future__ import annotations

import json
import random
import re
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from ctr_samples.cli.app import app
from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.job.fit import fit
from ctr_samples.job.foreseen import changes, foreseen
from ctr_samples.job.forget import find, forget
from ctr_samples.job.origins import Origins, differences
from ctr_samples.job.published import listed_features
from ctr_samples.job.run import RunResult
from ctr_samples.quality.checks import CHECKS
from ctr_samples.readers import iter_batches
from ctr_samples.shards import Manifest, check_shards, latest_manifest, open_storage
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.generation_history import rollback
from ctr_samples.sparksql.observations import Silent
from tests.job.partial_days import facts, measured
from tests.support.marks import slow_except

DAY = date(2019, 6, 5)
START = 1559692800
CONFIG = """
name: reused
timezone: UTC
sources:
  log: {format: json, path: ROOT/log.json, schema: "at BIGINT, rid STRING, u STRING, i BIGINT, words ARRAY<STRING>"}
  clicks: {format: json, path: ROOT/clicks.json, schema: "at BIGINT, u STRING, i BIGINT"}
  users: {format: json, path: ROOT/users.json, schema: "u STRING, at BIGINT, age DOUBLE, city STRING"}
  items: {format: json, path: ROOT/items.json, schema: "i BIGINT, price DOUBLE, vector ARRAY<DOUBLE>"}
impressions:
  source: log
  time: timestamp_seconds(at)
  keys: {user: u, item: i}
  request: rid
  columns: {words: words}
labels:
  clicked: {source: clicks, keys: {user: u, item: i}, time: timestamp_seconds(at), window: 1h}
views:
  user: {source: users, on: user, key: u, event_time: timestamp_seconds(at), ttl: 30d}
  item: {source: items, on: item, key: i, static: true}
  shown:
    source: log
    on: item
    key: i
    event_time: timestamp_seconds(at)
    aggregates: {windows: [1h], step: 10m, counts: {all: "true"}}
histories:
  last: {source: clicks, time: timestamp_seconds(at), user: u, item: i, last: 3, within: 2d}
vocabularies:
  cities: {capacity: 9}
fitted: {path: ROOT/fitted}
features:
  age: {from: user.age, dtype: float32}
  city: {from: user.city, vocabulary: cities, dtype: int64}
  vector: {from: item.vector, dtype: float32, shape: [2]}
  words: {from: impression.words, dtype: string, ragged: true}
  price: {from: item.price, dtype: float32, nulls: omit}
  shown: {from: shown.all_1h, dtype: int64}
  last: {from: last.items, dtype: int64, shape: [3], hash_buckets: 100}
split: {eval: 0.25}
output: {path: ROOT/OUT, partitions: 2}
"""


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    where, rng = tmp_path_factory.mktemp("reused"), random.Random(40)
    at = lambda: START + rng.randrange(-86400, 86400)  # noqa: E731
    tables: dict[str, list[dict[str, Any]]] = {
        "log": [
            {"at": START + 60 * n, "rid": f"r{n // 3}", "u": f"u{rng.randrange(9)}", "i": rng.randrange(7),
             "words": rng.sample(["a", "b", "ü", ""], rng.randrange(4))}
            for n in range(-700, 1400)
        ],
        "users": [{"u": f"u{n}", "at": at(), "age": rng.choice([None, 20.0 + n]), "city": rng.choice(["x", "y", None])}
                  for n in range(8) for _ in range(3)],
        "items": [{"i": n, "price": rng.choice([None, 1.5 * n]), "vector": [n / 7, -n]} for n in range(6)],
    }  # fmt: skip
    shown = tables["log"]
    tables["clicks"] = [{"at": one["at"] + 30, "u": one["u"], "i": one["i"]} for one in rng.sample(shown, 300)]
    for name, rows in tables.items():
        (where / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (where / "c.yaml").write_text(CONFIG.replace("ROOT", str(where)).replace("OUT", "fitting"))
    fit(spark, load_config(where / "c.yaml"), DAY - timedelta(days=1))
    return where


def made(spark: SparkSession, root: Path, text: str, out: str, *, force: bool = False) -> RunResult:
    (root / f"{out}.yaml").write_text(text.replace("ROOT", str(root)).replace("OUT", out))
    return job.run(spark, load_config(root / f"{out}.yaml"), DAY, accept=CHECKS, force=force)


def content(manifest: Manifest) -> list[tuple[str, int, int, int]]:
    return sorted((s.split, s.partition, s.records, s.crc32c) for s in manifest.shards)


AGE = "  age: {from: user.age, dtype: float32}\n"
EVERY = {"age", "city", "vector", "words", "price", "shown", "last"}
LABEL = "beside another label"
CHANGES: dict[str, tuple[str, str, set[str]]] = {
    "added": ("split:", "  more: {from: user.city, dtype: int64, hash_buckets: 50}\nsplit:", EVERY),
    "dropped": ("  price: {from: item.price, dtype: float32, nulls: omit}\n", "", EVERY - {"price"}),
    "renamed": ("  age: {from", "  years: {from", EVERY - {"age"} | {"years"}),
    "copied": ("split:", "  copy: {from: user.age, dtype: float32}\nsplit:", EVERY | {"copy"}),
    "moved to the end": ("split:", "  age: {from: user.age, dtype: float32}\nsplit:", EVERY),
    "with another default": ("user.age, dtype: float32", "user.age, dtype: float32, default: 7", EVERY - {"age"}),
    "of another shape": ("shape: [3], hash", "shape: [2], hash", EVERY - {"last"}),
    "over another view": ("ttl: 30d", "ttl: 6h", EVERY - {"age", "city"}),
    "with another window": ("windows: [1h]", "windows: [1h, 6h]", EVERY - {"shown"}),
    LABEL: ("window: 1h", "window: 10m", EVERY),
    "and two at once": (
        AGE,
        "  years: {from: user.age, dtype: float32, default: 3}\n  x: {from: item.price, dtype: float32}\n",
        EVERY - {"age"},
    ),
    "crossed": ("split:", "  both: {cross: [city, shown], dtype: int64, hash_buckets: 99}\nsplit:", EVERY),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("change", slow_except(["added"], CHANGES))
def test_a_changed_feature_is_made_and_the_others_are_read(spark: SparkSession, root: Path, change: str) -> None:
    old, new, kept = CHANGES[change]
    text = CONFIG.replace(AGE, "" if change == "moved to the end" else AGE).replace(old, new)
    out = f"out_{list(CHANGES).index(change)}"
    made(spark, root, CONFIG, out)
    result = made(spark, root, text, out)
    assert result.published
    assert result.manifest.features_from is not None
    taken = result.manifest.features_from
    made_now = set(load_config(root / f"{out}.yaml").config.features) - kept
    assert (set(taken.features), taken.labels) == ((kept, False) if made_now else (set(), change != LABEL))
    whole = made(spark, root, text, f"{out}_whole")
    assert content(result.manifest) == content(whole.manifest)
    mine, theirs = (facts(m) for m in (result.manifest, whole.manifest))
    assert mine == theirs
    of_mine, of_whole = (
        measured(root / name, m) for name, m in ((out, result.manifest), (f"{out}_whole", whole.manifest))
    )
    assert without_sketches(of_mine) == without_sketches(of_whole)


def without_sketches(facts: Any) -> Any:
    """Facts without those that vary from run to run."""
    if not isinstance(facts, dict):
        return facts
    return {k: without_sketches(one) for k, one in facts.items() if k not in ("cdf", "quantiles", "auc", "canaries")}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("eval: 0.25", "eval: 0.5"),
        *slow_except(
            (),
            [
                ("columns: {words: words}", "where: u <> 'u1'\n  columns: {words: words}"),
                ("partitions: 2", "partitions: 3"),
                ("timezone: UTC", "timezone: Asia/Shanghai"),
            ],
        ),
    ],
)
def test_other_samples_or_another_order_are_made_whole(spark: SparkSession, root: Path, old: str, new: str) -> None:
    out = f"other_{abs(hash(new)) % 1000}"
    made(spark, root, CONFIG, out)
    assert made(spark, root, CONFIG.replace(old, new), out).manifest.features_from.why


@pytest.mark.slow
def test_a_forced_run_makes_all(spark: SparkSession, root: Path) -> None:
    made(spark, root, CONFIG, "forced")
    more = CONFIG.replace("split:", "  more: {from: user.city, dtype: int64, hash_buckets: 50}\nsplit:")
    assert made(spark, root, more, "forced", force=True).manifest.features_from.why


@pytest.mark.slow
def test_a_generation_whose_shards_are_gone_is_made_whole(spark: SparkSession, root: Path) -> None:
    made(spark, root, CONFIG, "gone")
    manifest = latest_manifest(open_storage(root / "gone"), DAY)
    assert manifest is not None
    (root / "gone" / manifest.shards[0].path).unlink()
    more = CONFIG.replace("split:", "  more: {from: user.city, dtype: int64, hash_buckets: 50}\nsplit:")
    assert made(spark, root, more, "gone").manifest.features_from.why


@pytest.mark.thorough
def test_a_dry_run_says_what_a_run_would_read_make_and_leave_out(spark: SparkSession, root: Path) -> None:
    made(spark, root, CONFIG, "dry")
    text = CONFIG.replace("ttl: 30d", "ttl: 6h").replace(
        CHANGES["dropped"][0], "  more: {from: item.price, dtype: int64}\n"
    )
    (root / "dry_new.yaml").write_text(text.replace("ROOT", str(root)).replace("OUT", "dry"))
    loaded = load_config(root / "dry_new.yaml")
    one = foreseen(spark, loaded, DAY, Silent())
    assert (one.what, set(one.taken)) == ("makes features and labels", {"vector", "words", "shown", "last"})
    assert one.made == {"age": ["views.user"], "city": ["views.user"], "more": ["new"]}
    assert (set(one.joined), one.dropped, one.seconds is None) == ({"user", "item"}, ["price"], True)
    assert one.reads > 0
    done = CliRunner().invoke(app, ["generate", "-c", str(root / "dry_new.yaml"), "-d", str(DAY), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "features.more is made: new." in done.stdout
    assert "features.price is left out." in done.stdout
    assert len(list((root / "dry").glob("dt=*/data/*"))) == 1, "a dry run wrote"
    differ = CliRunner().invoke(app, ["config", "diff", str(root / "dry.yaml"), str(root / "dry_new.yaml")])
    assert differ.stdout.splitlines() == [
        "features.age is made from other values: `views.user`.",
        "features.city is made from other values: `views.user`.",
        "features.more is new.",
        "features.price is left out.",
    ]


@pytest.mark.thorough
def test_a_dry_run_tells_a_published_day_a_new_one_and_one_with_other_samples(spark: SparkSession, root: Path) -> None:
    made(spark, root, CONFIG, "dry_days")
    plain = load_config(root / "dry_days.yaml")
    assert foreseen(spark, plain, DAY, Silent()).what == "is published as it is"
    text = CONFIG.replace(CHANGES["dropped"][0], "").replace("ROOT", str(root)).replace("OUT", "dry_days")
    (root / "dry_dropped.yaml").write_text(text)
    assert foreseen(spark, load_config(root / "dry_dropped.yaml"), DAY, Silent()).what == "joins nothing"
    other = foreseen(spark, load_config(root / "dry_days.yaml", ["split.eval=0.5"]), DAY, Silent())
    assert (other.what, other.why, other.seconds is not None) == ("makes everything", "`split` changed", True)
    assert list(
        changes(plain, load_config(root / "dry_days.yaml", ["split.eval=0.5", "labels.clicked.window=2h"]))
    ) == [
        "Other samples, or another order: `split`. Each day is made anew.",
        "labels.clicked is made from other values: `label`.",
    ]


@pytest.mark.some(1)
@pytest.mark.parametrize("changed", ["log", "clicks"])
def test_a_label_is_made_from_actions_and_from_the_impressions_that_can_take_them(changed: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG.replace("ROOT", str(tmp_path)).replace("OUT", "of_labels"))
    config = load_config(tmp_path / "c.yaml").config
    files = {"log": "a", "clicks": "a", "users": "a", "items": "a"}
    before, now = (Origins.of(config, files, "", "1", files | more) for more in ({}, {changed: "b"}))
    assert differences(now.labels["clicked"], before.labels["clicked"]) == [f"files of {changed}"]
    assert (now.rows, now.features) == (before.rows, before.features)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before the action", "before the publish"])
def test_a_run_that_was_killed_while_it_read_back_leaves_the_day_and_runs_again(
    spark: SparkSession, root: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = f"killed_{when.rsplit(maxsplit=1)[-1]}"
    first = made(spark, root, CONFIG, out)
    text = CONFIG.replace(CHANGES["dropped"][0], "")
    with monkeypatch.context() as patch:
        patch.setattr(job, "write_shards" if when == "before the action" else "judge", stop)
        with pytest.raises(KeyboardInterrupt):
            made(spark, root, text, out)
    storage = open_storage(root / out)
    assert latest_manifest(storage, DAY) == first.manifest
    check_shards(storage, first.manifest.shards)
    again = made(spark, root, text, out)
    assert again.manifest.features_from is not None
    assert again.manifest.features_from.labels
    assert content(again.manifest) == content(made(spark, root, text, f"{out}_whole").manifest)


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_features_are_listed_with_their_bytes_coverage_and_since_when(spark: SparkSession, root: Path) -> None:
    plain = CONFIG.replace("vocabulary: cities", "hash_buckets: 9")
    plain = plain.replace("vocabularies:\n  cities: {capacity: 9}\nfitted: {path: ROOT/fitted}\n", "")
    before = plain.replace(AGE, "  age: {from: user.age, dtype: float32, default: 3}\n").replace(
        *CHANGES["dropped"][:2]
    )
    (root / "listed.yaml").write_text(before.replace("ROOT", str(root)).replace("OUT", "listed"))
    job.run(spark, load_config(root / "listed.yaml"), DAY - timedelta(days=1), accept=CHECKS)
    newest = made(spark, root, plain, "listed").manifest
    found = {one.name: one for one in listed_features(open_storage(root / "listed"), newest)}
    assert list(found) == list(load_config(root / "listed.yaml").config.features)
    days = {name: (one.since[-2:], one.same_since[-2:]) for name, one in found.items()}
    assert days == {**dict.fromkeys(EVERY, ("04", "04")), "age": ("04", "05"), "price": ("05", "05")}
    shares = [one.share for one in found.values() if one.share is not None]
    assert len(shares) == len(EVERY)
    assert 0.3 < sum(shares) < 1
    assert (found["age"].joined, found["words"].joined, found["last"].joined) == (
        ("views.user",),
        (),
        ("histories.last",),
    )
    assert found["city"].made_from == "user.city, ids of 9"
    assert found["age"].coverage is not None
    assert 0.5 < found["age"].coverage < 1
    done = CliRunner().invoke(app, ["features", str(root / "listed")])
    assert done.exit_code == 0, done.output
    assert re.search(r"age +2019-06-04 +2019-06-05", done.stdout)


SECOND: dict[str, tuple[tuple[str, str], ...]] = {
    "with another label": (("window: 1h", "window: 10m"),),
    "with fewer negatives": (("split:", "sampling: {negatives: 0.3}\nsplit:"),),
    "by rules": (("split:", "sampling: {rate: 'if(clicked = 1, 1, 0.4)', cap: {key: item, samples: 90}}\nsplit:"),),
    "by a rule over a column": (("split:", "sampling: {rate: 'if(size(impression.words) > 1, 0.5, 1)'}\nsplit:"),),
    "with fewer negatives, another label and features": (
        ("split:", "  more: {from: user.city, dtype: int64, hash_buckets: 50}\nsampling: {negatives: 0.3}\nsplit:"),
        ("window: 1h", "window: 10m"),
        (AGE, ""),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("second", slow_except(["with another label"], SECOND))
def test_a_second_set_takes_features_from_the_first_one(spark: SparkSession, root: Path, second: str) -> None:
    text, out = CONFIG, f"second_{[*SECOND].index(second)}"
    for old, new in SECOND[second]:
        text = text.replace(old, new)
    made(spark, root, CONFIG, "first")
    result = made(spark, root, f"from_samples: {root}/first\n{text}", out).manifest
    taken = result.features_from
    assert taken is not None
    assert (taken.why, taken.path, taken.labels) == ("", f"{root}/first", second == "with fewer negatives")
    assert f"of {root}/first" in taken.described
    whole = made(spark, root, text, f"{out}_whole").manifest
    assert content(result) == content(whole)
    assert (result.accounting, result.sampling, result.order) == (whole.accounting, whole.sampling, whole.order)
    assert measured(root / out, result)["samples"] == measured(root / f"{out}_whole", whole)["samples"]
    assert len(list((root / "first").glob("dt=*/data/*"))) == 1, "the first set was written into"
    shutil.rmtree(root / out)
    dry = foreseen(spark, load_config(root / f"{out}.yaml"), DAY, Silent())
    assert set(dry.taken) == EVERY - set(dry.dropped)
    assert dry.dropped == (["age"] if AGE in [old for old, _ in SECOND[second]] else [])


@pytest.mark.slow
def test_a_sampled_second_set_takes_a_feature_more(spark: SparkSession, root: Path) -> None:
    made(spark, root, CONFIG, "first")
    few = f"from_samples: {root}/first\n{CONFIG}sampling: {{negatives: 0.3}}\n"
    made(spark, root, few, "few_more")
    more = few.replace("split:", "  more: {from: user.city, dtype: int64, hash_buckets: 50}\nsplit:")
    result = made(spark, root, more, "few_more").manifest
    whole = made(spark, root, more.replace(f"from_samples: {root}/first\n", ""), "few_more_whole").manifest
    assert content(result) == content(whole)


@pytest.mark.slow
def test_a_second_set_of_other_impressions_is_made_whole(spark: SparkSession, root: Path) -> None:
    made(spark, root, CONFIG, "first")
    other = f"from_samples: {root}/first\n{CONFIG}".replace("eval: 0.25", "eval: 0.5")
    entry = made(spark, root, other, "second_other").manifest.features_from
    assert entry is not None
    assert entry.why == "`split` changed"
    assert made(spark, root, f"from_samples: {root}/nothing\n{CONFIG}", "second_alone").manifest.features_from is None


@pytest.mark.slow
def test_after_a_rollback_features_are_those_of_the_generation_that_is_current(spark: SparkSession, root: Path) -> None:
    more = CONFIG.replace(*CHANGES["added"][:2])
    made(spark, root, CONFIG, "back")
    made(spark, root, CONFIG.replace("ttl: 30d", "ttl: 6h"), "back")
    rollback(open_storage(root / "back"), DAY, 1, datetime.now(UTC), "aaaaaaaa")
    result = made(spark, root, more, "back").manifest
    assert result.features_from is not None
    assert (result.features_from.generation, set(result.features_from.features)) == (3, EVERY)
    assert content(result) == content(made(spark, root, more, "back_whole").manifest)


@pytest.mark.slow
def test_forgotten_users_never_come_back_through_a_generation(spark: SparkSession, root: Path) -> None:
    made(spark, root, CONFIG, "forgot")
    storage = open_storage(root / "forgot")
    [first, *_] = iter_batches(root / "forgot", date=DAY, split="train", batch_size=1)
    gone = [str(int(first.keys["impression_id"][0]))]
    found = find(storage, DAY, "impression_id", gone)
    assert forget(storage, found, "impression_id", gone, Retention()).samples == 1
    entry = made(spark, root, CONFIG.replace(CHANGES["dropped"][0], ""), "forgot").manifest.features_from
    assert entry is not None
    assert entry.why == "users were forgotten in it"

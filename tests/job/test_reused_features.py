"""A changed configuration: features that are made from the same are read back, and the shards are those of a full run."""

from __future__ import annotations

import random
import re
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.job import run as job
from ctr_samples.job.fit import fit
from ctr_samples.job.foreseen import changes, foreseen
from ctr_samples.job.forget import find, forget
from ctr_samples.job.origins import Origins, differences
from ctr_samples.job.published import listed_features
from ctr_samples.shards import check_shards, open_storage
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.generation_history import rollback
from ctr_samples.sparksql.observations import Silent
from tests.support.command_line import invoke
from tests.support.marks import slow_except
from tests.support.whole_runs import Made, made, planned, write_config, write_rows

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
        write_rows(where / f"{name}.json", rows)
    fit(spark, load_config(write_config(where, "fitting", CONFIG)), DAY - timedelta(days=1))
    return where


def day_of(spark: SparkSession, root: Path, out: str, text: str, **how: Any) -> Made:
    """The day by a configuration, in a set of samples."""
    return made(spark, write_config(root, out, text), DAY, **how)


@pytest.fixture(scope="module")
def first(spark: SparkSession, root: Path) -> Made:
    """The day by the configuration as it stands."""
    return day_of(spark, root, "first", CONFIG)


def copied(first: Made, out: str) -> Made:
    """The same in another set of samples, with a configuration of its own."""
    root = first.output.parent
    write_config(root, out, CONFIG)
    shutil.copytree(first.output, root / out)
    return Made.newest(root / out, DAY)


def content(day: Made) -> list[tuple[str, int, bytes]]:
    return sorted(day.shards)


def without_sketches(facts: Any) -> Any:
    """Facts without those that vary from run to run."""
    if not isinstance(facts, dict):
        return facts
    return {k: without_sketches(one) for k, one in facts.items() if k not in ("cdf", "quantiles", "auc", "canaries")}


def check_whole(spark: SparkSession, root: Path, day: Made, text: str) -> Made:
    """A day has the bytes of one that is made whole, which is returned."""
    whole = day_of(spark, root, f"{day.output.name}_whole", text)
    assert content(day) == content(whole)
    return whole


MORE = ("split:", "  more: {from: user.city, dtype: int64, hash_buckets: 50}\nsplit:")
"""A feature more."""
WITH_MORE = CONFIG.replace(*MORE)


AGE = "  age: {from: user.age, dtype: float32}\n"
EVERY = {"age", "city", "vector", "words", "price", "shown", "last"}
LABEL = "beside another label"
CHANGES: dict[str, tuple[str, str, set[str]]] = {
    "added": (*MORE, EVERY),
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
def test_a_changed_feature_is_made_and_the_others_are_read(
    spark: SparkSession, root: Path, first: Made, change: str
) -> None:
    old, new, kept = CHANGES[change]
    text = CONFIG.replace(AGE, "" if change == "moved to the end" else AGE).replace(old, new)
    out = f"out_{list(CHANGES).index(change)}"
    copied(first, out)
    again = day_of(spark, root, out, text)
    assert again.published
    taken = again.features_from
    made_now = set(load_config(root / f"{out}.yaml").config.features) - kept
    assert (set(taken.features), taken.labels) == ((kept, False) if made_now else (set(), change != LABEL))
    whole = check_whole(spark, root, again, text)
    assert again.facts == whole.facts
    assert without_sketches(again.measured) == without_sketches(whole.measured)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new"), [("eval: 0.25", "eval: 0.5"), *slow_except((), [("partitions: 2", "partitions: 3")])]
)
def test_other_samples_or_another_order_are_made_whole(
    spark: SparkSession, root: Path, first: Made, old: str, new: str
) -> None:
    out = f"other_{abs(hash(new)) % 1000}"
    copied(first, out)
    changed = write_config(root, f"{out}_new", CONFIG, {old: new, "OUT": out})
    assert planned(spark, load_config(changed), DAY).why


@pytest.mark.thorough
def test_a_dry_run_says_what_a_run_would_read_make_and_leave_out(spark: SparkSession, root: Path, first: Made) -> None:
    copied(first, "dry")
    text = CONFIG.replace("ttl: 30d", "ttl: 6h").replace(
        CHANGES["dropped"][0], "  more: {from: item.price, dtype: int64}\n"
    )
    changed = write_config(root, "dry_new", text, {"OUT": "dry"})
    loaded = load_config(changed)
    one = foreseen(spark, loaded, DAY, Silent())
    assert (one.what, set(one.taken)) == ("makes features and labels", {"vector", "words", "shown", "last"})
    assert one.made == {"age": ["views.user"], "city": ["views.user"], "more": ["new"]}
    assert (set(one.joined), one.dropped, one.seconds is None) == ({"user", "item"}, ["price"], True)
    assert one.reads > 0
    done = invoke("generate", "-c", changed, "-d", DAY, "--dry-run")
    assert done.exit_code == 0, done.output
    assert "features.more is made: new." in done.stdout
    assert "features.price is left out." in done.stdout
    assert len(list((root / "dry").glob("dt=*/data/*"))) == 1, "a dry run wrote"
    differ = invoke("config", "diff", root / "dry.yaml", changed)
    assert differ.stdout.splitlines() == [
        "features.age is made from other values: `views.user`.",
        "features.city is made from other values: `views.user`.",
        "features.more is new.",
        "features.price is left out.",
    ]


@pytest.mark.thorough
def test_a_dry_run_tells_a_published_day_a_new_one_and_one_with_other_samples(
    spark: SparkSession, root: Path, first: Made
) -> None:
    copied(first, "dry_days")
    plain = load_config(root / "dry_days.yaml")
    assert foreseen(spark, plain, DAY, Silent()).what == "is published as it is"
    dropped = write_config(root, "dry_dropped", CONFIG, {CHANGES["dropped"][0]: "", "OUT": "dry_days"})
    assert foreseen(spark, load_config(dropped), DAY, Silent()).what == "joins nothing"
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
    config = load_config(write_config(tmp_path, "of_labels", CONFIG)).config
    files = {"log": "a", "clicks": "a", "users": "a", "items": "a"}
    before, now = (Origins.of(config, files, "", "1", files | more) for more in ({}, {changed: "b"}))
    assert differences(now.labels["clicked"], before.labels["clicked"]) == [f"files of {changed}"]
    assert (now.rows, now.features) == (before.rows, before.features)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before the action", "before the publish"])
def test_a_run_that_was_killed_while_it_read_back_leaves_the_day_and_runs_again(
    spark: SparkSession, root: Path, first: Made, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = f"killed_{when.rsplit(maxsplit=1)[-1]}"
    before = copied(first, out)
    text = CONFIG.replace(CHANGES["dropped"][0], "")
    step = "write_shards" if when == "before the action" else "pass_gate"
    with monkeypatch.context() as patch:
        patch.setattr(job, step, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            day_of(spark, root, out, text)
    assert Made.newest(root / out, DAY).manifest == before.manifest
    check_shards(open_storage(root / out), before.manifest.shards)
    again = day_of(spark, root, out, text)
    assert again.features_from.labels
    check_whole(spark, root, again, text)


@pytest.mark.slow
def test_features_are_listed_with_their_bytes_coverage_and_since_when(spark: SparkSession, root: Path) -> None:
    plain = CONFIG.replace("vocabulary: cities", "hash_buckets: 9")
    plain = plain.replace("vocabularies:\n  cities: {capacity: 9}\nfitted: {path: ROOT/fitted}\n", "")
    before = plain.replace(AGE, "  age: {from: user.age, dtype: float32, default: 3}\n").replace(
        *CHANGES["dropped"][:2]
    )
    made(spark, write_config(root, "listed", before), DAY - timedelta(days=1))
    newest = day_of(spark, root, "listed", plain).manifest
    found = {one.name: one for one in listed_features(open_storage(root / "listed"), newest)}
    assert list(found) == list(load_config(root / "listed.yaml").config.features)
    days = {name: (one.since[-2:], one.same_since[-2:]) for name, one in found.items()}
    assert days == {**dict.fromkeys(EVERY, ("04", "04")), "age": ("04", "05"), "price": ("05", "05")}
    shares = [one.share for one in found.values() if one.share is not None]
    assert len(shares) == len(EVERY)
    assert 0.3 < sum(shares) < 1
    joined = {name: found[name].joined for name in ("age", "words", "last")}
    assert joined == {"age": ("views.user",), "words": (), "last": ("histories.last",)}
    assert found["city"].made_from == "user.city, ids of 9"
    assert found["age"].coverage is not None
    assert 0.5 < found["age"].coverage < 1
    done = invoke("features", root / "listed")
    assert done.exit_code == 0, done.output
    assert re.search(r"age +2019-06-04 +2019-06-05", done.stdout)


FROM_FIRST = "from_samples: ROOT/first\n"
SECOND: dict[str, tuple[tuple[str, str], ...]] = {
    "with another label": (("window: 1h", "window: 10m"),),
    "with fewer negatives": (("split:", "sampling: {negatives: 0.3}\nsplit:"),),
    "by rules": (("split:", "sampling: {rate: 'if(clicked = 1, 1, 0.4)', cap: {key: item, samples: 90}}\nsplit:"),),
    "by a rule over a column": (("split:", "sampling: {rate: 'if(size(impression.words) > 1, 0.5, 1)'}\nsplit:"),),
    "with fewer negatives, another label and features": (
        MORE,
        ("split:", "sampling: {negatives: 0.3}\nsplit:"),
        ("window: 1h", "window: 10m"),
        (AGE, ""),
    ),
}


@pytest.mark.usefixtures("first")
@pytest.mark.thorough
@pytest.mark.parametrize("second", slow_except(["with another label"], SECOND))
def test_a_second_set_takes_features_from_the_first_one(spark: SparkSession, root: Path, second: str) -> None:
    text, out = CONFIG, f"second_{[*SECOND].index(second)}"
    for old, new in SECOND[second]:
        text = text.replace(old, new)
    result = day_of(spark, root, out, FROM_FIRST + text)
    taken = result.features_from
    assert (taken.why, taken.path, taken.labels) == ("", f"{root}/first", second == "with fewer negatives")
    assert f"of {root}/first" in taken.described
    whole = check_whole(spark, root, result, text)
    for fact in ("accounting", "sampling", "order"):
        assert getattr(result.manifest, fact) == getattr(whole.manifest, fact)
    assert result.measured["samples"] == whole.measured["samples"]
    assert len(list((root / "first").glob("dt=*/data/*"))) == 1, "the first set was written into"
    shutil.rmtree(root / out)
    dry = foreseen(spark, load_config(root / f"{out}.yaml"), DAY, Silent())
    assert set(dry.taken) == EVERY - set(dry.dropped)
    assert dry.dropped == (["age"] if AGE in [old for old, _ in SECOND[second]] else [])


@pytest.mark.usefixtures("first")
@pytest.mark.slow
def test_a_sampled_second_set_takes_a_feature_more(spark: SparkSession, root: Path) -> None:
    few = f"{CONFIG}sampling: {{negatives: 0.3}}\n"
    day_of(spark, root, "few_more", FROM_FIRST + few)
    more = few.replace(*MORE)
    check_whole(spark, root, day_of(spark, root, "few_more", FROM_FIRST + more), more)


@pytest.mark.usefixtures("first")
@pytest.mark.slow
def test_a_second_set_of_other_impressions_is_made_whole(spark: SparkSession, root: Path) -> None:
    other = FROM_FIRST + CONFIG.replace("eval: 0.25", "eval: 0.5")
    assert day_of(spark, root, "second_other", other).features_from.why == "`split` changed"
    alone = day_of(spark, root, "second_alone", f"from_samples: ROOT/nothing\n{CONFIG}")
    assert alone.manifest.features_from is None


@pytest.mark.slow
def test_after_a_rollback_features_are_those_of_the_generation_that_is_current(
    spark: SparkSession, root: Path, first: Made
) -> None:
    copied(first, "back")
    day_of(spark, root, "back", CONFIG.replace("ttl: 30d", "ttl: 6h"))
    rollback(open_storage(root / "back"), DAY, 1, datetime.now(UTC), "aaaaaaaa")
    again = day_of(spark, root, "back", WITH_MORE)
    assert (again.features_from.generation, set(again.features_from.features)) == (3, EVERY)
    check_whole(spark, root, again, WITH_MORE)


@pytest.mark.slow
def test_forgotten_users_never_come_back_through_a_generation(spark: SparkSession, root: Path, first: Made) -> None:
    before = copied(first, "forgot")
    storage = open_storage(root / "forgot")
    gone = [str(before.samples[0]["impression_id"])]
    found = find(storage, DAY, "impression_id", gone)
    assert forget(storage, found, "impression_id", gone, Retention()).samples == 1
    again = day_of(spark, root, "forgot", CONFIG.replace(CHANGES["dropped"][0], ""))
    assert again.features_from.why == "users were forgotten in it"

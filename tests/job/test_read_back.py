"""A day that is made again after a changed configuration: what is read back has the bytes of a run that makes everything.

Logs, tables, configurations and changes are drawn by chance, with ties, repeats and nulls.
``RANDOM_CHANGES=60 RANDOM_CHANGES_FROM=100`` draws sixty, with the seeds from 100 on.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.config.masking import digests
from ctr_samples.job.fit import fit
from ctr_samples.job.foreseen import changes
from ctr_samples.job.origins import Origins, differences
from ctr_samples.job.planning import why_stale
from ctr_samples.samples.training_rows import count_days
from ctr_samples.shards import FeaturesFrom
from tests.support.manifests import manifest
from tests.support.whole_runs import Made, made, planned, write_rows

FIRST = int(os.environ.get("RANDOM_CHANGES_FROM", "1"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("RANDOM_CHANGES", "6")))
DAY = date(2019, 6, 5)
START = 1559692800
SAMPLES = 120

Document = dict[str, Any]

SOURCES: Document = {
    "log": "at BIGINT, rid STRING, u STRING, i BIGINT, place INT, price DOUBLE, color STRING, good INT",
    "clicks": "at BIGINT, u STRING, i BIGINT",
    "items": "i BIGINT, at BIGINT, price DOUBLE, color STRING, size BIGINT",
    "users": "u STRING, age DOUBLE, city STRING, level BIGINT",
    "deals": "i BIGINT, at BIGINT, until BIGINT, cut DOUBLE, sort STRING",
}
BASE: Document = {
    "name": "changes",
    "timezone": "${ZONE}",
    "impressions": {
        "source": "log",
        "where": "i < ${MOST}",
        "time": "timestamp_seconds(at)",
        "keys": {"user": "u", "item": "i"},
        "request": "rid",
        "position": "place",
        "columns": {"price": "price * ${FACTOR}", "color": "color"},
    },
    "labels": {
        "clicked": {
            "source": "clicks",
            "keys": {"user": "u", "item": "i"},
            "time": "timestamp_seconds(at)",
            "window": "${WINDOW}",
        },
        "good": {"expr": "good = 1"},
    },
    "views": {
        "item": {
            "source": "items",
            "on": "item",
            "key": "i",
            "event_time": "timestamp_seconds(at)",
            "where": "size < ${LARGEST} or size is null",
            "ttl": "30d",
        },
        "user": {"source": "users", "on": "user", "key": "u", "static": True},
        "deal": {
            "source": "deals",
            "on": "item",
            "key": "i",
            "event_time": "timestamp_seconds(at)",
            "valid_to": "timestamp_seconds(until)",
            "ttl": "unbounded",
        },
    },
    "split": {"eval": 0.25},
    "output": {"partitions": 2},
}
VALUES = {"ZONE": "UTC", "MOST": "9", "FACTOR": "1.5", "WINDOW": "1h", "LARGEST": "6"}
OTHERS = {
    "ZONE": ["Europe/Berlin"],
    "MOST": ["7"],
    "FACTOR": ["2", "10.25"],
    "WINDOW": ["30m", "2h"],
    "LARGEST": ["4", "100"],
}
NUMBERS = [
    "item.price", "`item`.`price` + item.size", "user.age", "user.level", "deal.cut", "impression.price",
    "impression['price']",
]  # fmt: skip
TEXTS = ["item.color", "upper(item.color) || item.size", "user.city", "deal.sort", "impression.color"]


def feature(chance: random.Random) -> Document:
    """A feature of any kind, over any of the rows."""
    kind = chance.choice(["number", "number", "id", "scaled", "of several"])
    if kind == "id":
        return {"expr": chance.choice(TEXTS), "dtype": "int64", "hash_buckets": 1000}
    if kind == "of several":
        parts = f"{chance.choice(NUMBERS)} * ${{FACTOR}} + {chance.choice(NUMBERS)}"
        return {"expr": f"cast({parts} as double)", "dtype": "float32"}
    number = {"expr": f"cast({chance.choice(NUMBERS)} as double)", "dtype": "float32"}
    return {**number, "scale": "standardise"} if kind == "scaled" else number


def added(chance: random.Random, config: Document, _: dict[str, str]) -> None:
    config["features"][f"more_{chance.randrange(10**6)}"] = feature(chance)


def dropped(chance: random.Random, config: Document, _: dict[str, str]) -> None:
    if len(config["features"]) > 1:
        del config["features"][chance.choice([*config["features"]])]


def renamed(chance: random.Random, config: Document, _: dict[str, str]) -> None:
    old = chance.choice([*config["features"]])
    names = {name: f"new_{name}" if name == old else name for name in config["features"]}
    config["features"] = {names[name]: one for name, one in config["features"].items()}


def copied(chance: random.Random, config: Document, _: dict[str, str]) -> None:
    name = chance.choice([*config["features"]])
    config["features"][f"copy_of_{name}"] = deepcopy(config["features"][name])


def in_another_order(chance: random.Random, config: Document, _: dict[str, str]) -> None:
    names = [*config["features"]]
    chance.shuffle(names)
    config["features"] = {name: config["features"][name] for name in names}


def with_a_column_more(chance: random.Random, config: Document, _: dict[str, str]) -> None:
    config["impressions"]["columns"]["n"] = chance.choice(["good", "price", "concat(color, price)"])
    config["features"]["of_n"] = {"expr": "impression.n", "dtype": "int64", "hash_buckets": 1000}


def with_another_row_label(chance: random.Random, config: Document, _: dict[str, str]) -> None:
    config["labels"]["good"] = {"expr": chance.choice(["price > 2", "color = 'red'", "place = 1"])}


def without_a_label(_: random.Random, config: Document, __: dict[str, str]) -> None:
    config["labels"].pop("good", None)


def in_another_environment(chance: random.Random, _: Document, values: dict[str, str]) -> None:
    name = chance.choice([*OTHERS])
    values[name] = chance.choice(OTHERS[name])


def sampled(chance: random.Random, config: Document, _: dict[str, str]) -> None:
    config["sampling"] = chance.choice(
        [{"negatives": 0.5}, {"rate": "if(clicked = 1, 1, 0.4)"}, {"rate": "if(impression.price > 3, 0.5, 1)"}]
    )


CHANGES: list[Callable[[random.Random, Document, dict[str, str]], None]] = [
    added, added, dropped, renamed, copied, in_another_order, with_a_column_more, with_another_row_label,
    without_a_label, in_another_environment, in_another_environment, sampled,
]  # fmt: skip


def write_inputs(root: Path, chance: random.Random) -> None:
    """Logs of three days and tables, in which some rows differ in no key and no time."""
    colors = ["red", "blue", "grün", "", None]
    ends = [None, START + 40_000]
    price = lambda: chance.choice([None, 0.5, 1.0, 2.5, 7.25])  # noqa: E731
    tables: dict[str, list[Document]] = {
        "items": [
            {"i": i, "at": at, "price": price(), "color": chance.choice(colors), "size": chance.choice([None, 1, 3, 5])}
            for i in range(8)
            for at in chance.sample(range(START - 190_000, START + 80_000, 10_000), 5)
            for _ in range(chance.choice([1, 1, 2, 3]))
        ],
        "users": [
            {"u": f"u{n}", "age": chance.choice([None, 20.5]), "city": chance.choice(colors), "level": chance.choice([None, 1])}
            for n in range(7)
            for _ in range(chance.choice([1, 1, 2]))
        ],
        "deals": [
            {"i": i, "at": START - 250_000, "until": chance.choice(ends), "cut": price(), "sort": chance.choice(colors)}
            for i in range(6)
            for _ in range(chance.choice([1, 1, 2]))
        ],
    }  # fmt: skip
    for day in range(-2, 2):
        shown = []
        for n in range(SAMPLES):
            row = {
                "at": START + 86400 * day + 60 * chance.randrange(1440), "rid": chance.choice([f"r{day}_{n // 3}", None]),
                "u": f"u{chance.randrange(9)}", "i": chance.randrange(9), "place": n % 3,
                "price": price() if day > -2 else 100.0 * n, "color": chance.choice(colors), "good": chance.randrange(2),
            }  # fmt: skip
            shown.append(row)
            if chance.random() < 0.5:  # a repeat that differs, or does not
                other = {"price": price(), "color": chance.choice(colors), "good": chance.randrange(2)}
                shown.append(row | dict(chance.sample([*other.items()], chance.choice([0, 1, 3]))))
        tables[f"log/{DAY + timedelta(days=day)}"] = chance.sample(shown, len(shown))
        clicks = chance.sample(shown, SAMPLES // 4)
        tables[f"clicks/{DAY + timedelta(days=day)}"] = [
            {"at": one["at"] + chance.choice([20, 2000, 5000]), "u": one["u"], "i": one["i"]} for one in clicks
        ]
    for name, rows in tables.items():
        write_rows(root / f"{name}.json", rows)


def written(root: Path, name: str, config: Document) -> Path:
    """The file of a configuration, with the views that its features need."""
    texts = " ".join(one.get("expr") or one["from"] for one in config["features"].values()).lower()
    views = {view: one for view, one in config["views"].items() if view in re.split(r"\W+", texts)}
    used = {"log", *[one["source"] for one in (*views.values(), *config["labels"].values()) if "source" in one]}
    dated = {"path": f"{root}/NAME/{{date}}.json", "days_before": 1, "days_after": 1}
    sources = {
        source: {"format": "json", "schema": schema}
        | {k: v.replace("NAME", source) if k == "path" else v for k, v in dated.items() if source in ("log", "clicks")}
        | ({} if source in ("log", "clicks") else {"path": f"{root}/{source}.json"})
        for source, schema in SOURCES.items()
        if source in used
    }
    output = {**config["output"], "path": f"{root}/{name}"}  # set anew for each run
    fitted = {"fitted": {"path": f"{root}/fitted"}} if has_fitted(config) else {}
    document = {**config, "sources": sources, "views": views, "output": output, **fitted}
    path = root / f"{name}.yaml"
    path.write_text(json.dumps(document))
    return path


def has_fitted(config: Document) -> bool:
    """Whether a feature is fitted."""
    return any("scale" in one for one in config["features"].values())


def day_of(
    spark: SparkSession,
    path: Path,
    out: str,
    values: Mapping[str, str] = VALUES,
    *,
    fitted: int = 0,
    force: bool = False,
) -> Made:
    """The samples of the day, perhaps after what is not fitted yet was fitted so many days before it."""
    loaded = load_config(path, [f"output.path={path.parent / out}"], values)
    if fitted and has_fitted(json.loads(path.read_text())):
        fit(spark, loaded, DAY - timedelta(days=fitted))
    return made(spark, loaded, DAY, force=force)


def check_read_back(
    spark: SparkSession, root: Path, before: Document, now: Document, others: Mapping[str, str] = VALUES
) -> tuple[Made, Made]:
    """Make a day by one configuration, then by another configuration and environment: reading back, and as a whole."""
    first = day_of(spark, written(root, "first", before), "first", fitted=2)
    path = written(root, "now", now)
    again = day_of(spark, path, "first", others, fitted=1)
    whole = day_of(spark, path, "whole", others, force=True)
    assert again.shards == whole.shards, again.features_from
    expected = whole.facts
    if not again.features_from.why and again.manifest.sampling != first.manifest.sampling:
        # Of the samples that are left, nobody counted what matches in a view that was not joined again.
        expected["views"] = {name: of for name, of in expected["views"].items() if name in again.manifest.views}
    assert again.facts == expected, again.features_from
    return first, again


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_read_back_after_changes_by_chance_has_the_bytes_of_a_whole_run(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    write_inputs(tmp_path, chance)
    before = deepcopy(BASE) | {"features": {f"f{n}": feature(chance) for n in range(chance.choice([2, 3, 5]))}}
    now, others = deepcopy(before), dict(VALUES)
    chosen = [chance.choice(CHANGES) for _ in range(chance.choice([1, 1, 2, 3]))]
    for change in chosen:
        change(chance, now, others)
    print([change.__name__ for change in chosen], others, json.dumps(now["features"], indent=1))  # noqa: T201
    check_read_back(spark, tmp_path, before, now, others)
    loaded = [load_config(tmp_path / f"{name}.yaml", environ=others) for name in ("first", "now")]
    list(changes(*loaded))


def of(*names: str) -> Document:
    """Features with the numbers or texts of columns, named after them."""
    return {
        name.replace(".", "_"): {"expr": name, "dtype": "string" if name.endswith("color") else "float32"}
        for name in names
    }


def few_shown(**more: Any) -> list[Document]:
    row = {"place": 1, "price": 1.0, "color": "red", "good": 1, **more}
    return [{"at": START + 60 * n, "rid": f"r{n}", "u": f"u{n}", "i": n % 8, **row} for n in range(40)]


RED, BLUE = {"price": 1.0, "color": "red", "good": 1}, {"price": 1001.0, "color": "blue", "good": 0}


def both(rows: Sequence[Document]) -> list[Document]:
    """Each row twice: red, and blue with a price above 1000."""
    return [{**row, **of, "price": of["price"] + n} for n, row in enumerate(rows) for of in (RED, BLUE)]


@pytest.fixture
def tied(tmp_path: Path) -> Path:
    """A log of a day, each line twice, and a table with two rows of each key and time."""
    write_rows(tmp_path / f"log/{DAY}.json", both(few_shown()))
    write_rows(tmp_path / f"clicks/{DAY}.json", [{"at": START + 30, "u": "u0", "i": 0}])
    items = both([{"i": i, "at": START - 3600} for i in range(8)])
    write_rows(tmp_path / "items.json", [{k: v for k, v in row.items() if k != "good"} for row in items])
    return tmp_path


def are_of_one_row(day: Made, price: str, other: str) -> bool:
    """Whether the price and the colour of each sample, or its label that is 1 for red, come from the same row."""
    return all((price < 1000) == (other in (b"red", 1)) for price, other in day.values(price, other))


def config_of(features: Document, **more: Any) -> Document:
    return deepcopy(BASE) | {"features": features} | more


def foreseen_after(
    spark: SparkSession, root: Path, now: Document, others: Mapping[str, str] = VALUES, out: str = "first"
) -> FeaturesFrom:
    """What a run by another configuration would take of the day, which is left as it is."""
    return planned(spark, load_config(written(root, "now", now), [f"output.path={root / out}"], others), DAY)


@pytest.mark.thorough
def test_all_features_of_a_sample_come_from_one_of_the_rows_that_tie(spark: SparkSession, tied: Path) -> None:
    item = BASE["views"]["item"]
    views = {"item": item, "static": {"source": "items", "on": "item", "key": "i", "static": True}}
    views["ending"] = {**item, "valid_to": "timestamp_seconds(at + 999999)"}
    before = config_of(of(*[f"{view}.price" for view in views]), views=views)
    now = config_of(of(*[f"{view}.{column}" for view in views for column in ("price", "color")]), views=views)
    first = day_of(spark, written(tied, "first", before), "first")
    assert {name: view["ties"] for name, view in first.manifest.views.items()} == dict.fromkeys(views, 8)
    assert foreseen_after(spark, tied, now).features == ()
    of_other_set = foreseen_after(spark, tied, now | {"from_samples": f"{tied}/first"}, out="second")
    assert (of_other_set.features, of_other_set.path) == ((), f"{tied}/first")
    again = day_of(spark, written(tied, "now", now), "first")
    assert all(are_of_one_row(again, f"{view}_price", f"{view}_color") for view in views)


@pytest.mark.thorough
def test_a_sample_and_its_labels_come_from_one_of_the_lines_that_tie(spark: SparkSession, tied: Path) -> None:
    before = config_of(of("impression.price"), views={}, labels={"good": {"expr": "good = 1"}})
    before["impressions"] = {**before["impressions"], "columns": {"price": "price"}}
    with_color = {"impressions": {**before["impressions"], "columns": {"price": "price", "color": "color"}}}
    first = day_of(spark, written(tied, "first", before), "first")
    assert first.manifest.tied_repeats == first.manifest.accounting["repeated"] == 40
    for change in (
        {"features": of("impression.price", "impression.color"), **with_color},
        {"labels": {"good": {"expr": "color = 'red'"}}, **with_color},
        {"labels": {"good": {"expr": "price < 1000"}}, "sampling": {"negatives": 0.9}},
    ):
        assert "columns that tell repeats apart" in foreseen_after(spark, tied, before | change).why
    sampled = day_of(spark, written(tied, "now", before | change), "first")
    assert are_of_one_row(sampled, "impression_price", "good")


@pytest.mark.thorough
def test_a_day_without_ties_is_read_back_when_columns_are_added(spark: SparkSession, tied: Path) -> None:
    write_rows(tied / f"log/{DAY}.json", [*few_shown(**RED), *few_shown(**RED)])
    items = [{"i": i, "at": START - 60 * n, "price": n, "color": "red"} for i in range(8) for n in (1, 2, 2)]
    write_rows(tied / "items.json", items)
    before = config_of(of("item.price", "impression.price"))
    now = config_of(of("item.price", "impression.price", "item.color", "impression.color", "impression.n"))
    now["impressions"]["columns"] = {**now["impressions"]["columns"], "n": "good"}
    first, again = check_read_back(spark, tied, before, now)
    counted = first.manifest
    assert (counted.views["item"]["ties"], counted.tied_repeats, counted.accounting["repeated"]) == (0, 0, 40)
    assert again.features_from.features == ("item_price", "impression_price")


@pytest.mark.thorough
def test_columns_that_tell_no_row_apart_now_may_do_so_with_a_column_more(spark: SparkSession, tied: Path) -> None:
    """The prices tie in no row, so the day is read back; with colours they do, so a size makes both anew."""
    item = {"at": START - 60, "price": 1.0}
    colors = [("red", 1), ("blue", 2), ("green", 3)]
    write_rows(tied / "items.json", [{"i": i, **item, "color": c, "size": n} for i in range(8) for c, n in colors])
    day_of(spark, written(tied, "one", config_of(of("item.price"))), "first")
    second = day_of(spark, written(tied, "two", config_of(of("item.price", "item.color"))), "first")
    assert (second.features_from.features, second.manifest.views["item"]["ties"]) == (("item_price",), 16)
    assert foreseen_after(spark, tied, config_of(of("item.price", "item.color", "item.size"))).features == ()


CHANGED = {
    "FACTOR": ("1.5", "features.impression_price"),
    "LARGEST": ("2", "features.item_price"),
    "WINDOW": ("15s", ""),
    "MOST": ("3", "`impressions` changed, with the value of ${MOST}"),
    "ZONE": ("Asia/Tokyo", "`timezone`"),
}
"""A changed value of each variable, and what a run says that it changes."""


@pytest.mark.thorough
def test_a_changed_value_of_the_environment_is_a_changed_configuration(spark: SparkSession, tied: Path) -> None:
    write_rows(tied / f"log/{DAY}.json", few_shown())
    sizes = [{"i": i, "at": START - 3600, "price": i + 1.0, "color": "red", "size": i} for i in range(8)]
    write_rows(tied / "items.json", sizes)
    config, others = config_of(of("impression.price", "item.price")), VALUES | {"FACTOR": "15"}
    path = written(tied, "now", config)
    first, again = (day_of(spark, path, "first", values) for values in (VALUES, others))
    assert (again.manifest.generation, {*again.values("impression_price")}) == (2, {(15.0,)})
    then, now = first.manifest.environment, again.manifest.environment
    assert {*VALUES.values()}.isdisjoint(then.values())
    assert [key for key in VALUES if then[key] != now[key]] == ["FACTOR"]
    more = config_of(of("impression.price", "item.price", "item.color"))
    assert foreseen_after(spark, tied, more, others).features == ("impression_price", "item_price")
    for name, (value, found) in CHANGED.items():
        kept = foreseen_after(spark, tied, config, others | {name: value})
        assert not kept.labels, "samples of another environment were taken"
        loaded = load_config(path, [f"output.path={tied}/first"], others | {name: value})
        stale = why_stale(spark, loaded, again.manifest)
        assert stale[0] == f"the value of ${{{name}}} changed, or is not known of then"
        assert found in kept.why or found in stale[1]


@pytest.mark.thorough
def test_a_feature_scales_by_what_was_fitted_for_its_own_name(spark: SparkSession, tied: Path) -> None:
    for back, scale in ((0, 1.0), (1, 1.0), (2, 50.0)):
        rows = [{**row, "at": row["at"] - 86400 * back, "price": scale * n} for n, row in enumerate(few_shown())]
        write_rows(tied / f"log/{DAY - timedelta(days=back)}.json", rows)
        write_rows(tied / f"clicks/{DAY - timedelta(days=back)}.json", [{"at": START + 30, "u": "u0", "i": 0}])
    scaled = {"expr": "cast(impression.price as double)", "dtype": "float32", "scale": "standardise"}
    before = config_of({"scaled": scaled, **of("impression.price")})
    copied = config_of({**before["features"], "other": scaled})
    for back, config in ((2, before), (1, copied)):  # so each has moments of a day of its own
        fit(spark, load_config(written(tied, "fitting", config), environ=VALUES), DAY - timedelta(days=back))
    day_of(spark, written(tied, "before", before), "first")
    renamed = config_of({"other": scaled, **of("impression.price")})
    assert foreseen_after(spark, tied, renamed).features == ("impression_price",)
    path = written(tied, "now", copied)
    again, whole = (day_of(spark, path, out, force=out == "whole") for out in ("first", "whole"))
    assert again.shards == whole.shards
    assert again.features_from.features == ("scaled", "impression_price")


@pytest.mark.thorough
def test_what_is_fitted_is_counted_over_the_rows_that_samples_see(spark: SparkSession, tied: Path) -> None:
    both_columns = config_of(of("item.price", "item.color"), split={"eval": 0})
    plain = day_of(spark, written(tied, "plain", both_columns), "plain")
    token = {"from": "item.color", "dtype": "int64", "vocabulary": "colors"}
    vocabulary = {"vocabularies": {"colors": {"capacity": 9}}, "fitted": {"path": f"{tied}/fitted"}}
    fitted = config_of({**of("item.price"), "item_color": token}, split={"eval": 0}, **vocabulary)
    counted = count_days(spark, load_config(written(tied, "fitting", fitted), environ=VALUES).config, [DAY], None)
    seen = Counter(color for (color,) in plain.values("item_color"))
    assert {token.encode(): count for token, count in counted.tokens["colors"].tokens} == seen
    assert set(seen) == {b"red", b"blue"}


def test_what_older_releases_made_otherwise_is_made_anew_and_the_rest_is_equal(tmp_path: Path) -> None:
    config = config_of(
        {
            **of("item.price", "impression.price"),
            "best": {"expr": "array(item.price)", "dtype": "float32", "top_k": 1, "ragged": True},
            "token": {"from": "item.color", "dtype": "int64", "vocabulary": "colors"},
            "own": {"from": "impression.color", "dtype": "int64", "vocabulary": "colors"},
            "hashed": {"from": "impression.color", "dtype": "int64", "hash_buckets": 9},
        },
        vocabularies={"colors": {"capacity": 9}},
        fitted={"path": f"{tmp_path}/fitted"},
    )
    document = json.loads(written(tmp_path, "plain", config).read_text())
    files = {name: {"fingerprint": "f"} for name in document["sources"]}
    facts_of_then = {"config": document, "inputs": files, "fingerprint": "0" * 64}
    before, now = (
        Origins.of_manifest(
            manifest(**facts_of_then, tied_repeats=tied, environment=digests(VALUES, "changes")), VALUES
        )
        for tied in (None, 0)
    )
    assert before is not None
    assert now is not None
    assert differences(now.rows, before.rows) == [
        "columns that tell repeats apart",
        "what repeats an impression of a request",
    ]
    changed = [name for name in now.features if differences(now.features[name], before.features[name])]
    assert changed == ["best", "token"]

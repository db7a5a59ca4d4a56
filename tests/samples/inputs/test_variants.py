"""Columns of type VARIANT, whose fields differ from row to row: where they may be used, and what refuses them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import ExpressionError
from ctr_samples.job.checking import problems
from ctr_samples.sparksql import session
from ctr_samples.sparksql.columns import content_hash
from ctr_samples.sparksql.expressions import compile_expression
from ctr_samples.sparksql.session import run_session
from tests.support.command_line import invoke
from tests.support.literal_frames import literal
from tests.support.whole_runs import made, write_config, write_rows

HAS_COLON = pyspark.__version__ >= "4.1"
"""Whether a colon takes a field of a variant."""
DAY = date(2019, 6, 5)
CONFIG = """
name: variants
timezone: UTC
sources:
  log: {format: FORMAT, path: "ROOT/log"SCHEMA}
  items: {format: json, path: ROOT/items.json, schema: "i STRING, at STRING, about VARIANT"}
impressions:
  source: log
  where: variant_get(payload, '$.kind', 'string') = 'shown'
  time: variant_get(payload, '$.at', 'string')
  user: "variant_get(payload, '$.user', 'string')"
  article: "variant_get(payload, '$.item', 'string')"
  columns: {payload: payload, more: "variant_get(payload, '$.more')"}
  identity: keys
labels:
  clicked:
    {source: log, where: "variant_get(payload, '$.kind', 'string') = 'click'", window: 1h,
     time: "variant_get(payload, '$.at', 'string')"}
views:
  item: {source: items, entity: article, key: i, event_time: at, ttl: unbounded}
features:
  price: {expr: "variant_get(impression.payload, '$.price', 'double')", dtype: float32}
  tags: {expr: "try_variant_get(impression.payload, '$.tags', 'array<string>')", dtype: string, ragged: true}
  brand: {expr: "variant_get(item.about, '$.brand', 'string')", dtype: string}
  about: {expr: "concat(to_json(item.about), variant_get(impression.payload, '$.user', 'string'))", dtype: string}
  more:
    {dtype: int64,
     expr: "coalesce(variant_get(impression.more, '$.x', 'int'), 0) + coalesce(variant_get(item.about, '$.size', 'int'), 0)"}
output: {path: ROOT/out, partitions: 1}
"""
ROWS: list[dict[str, Any]] = [
    {"kind": "shown", "at": "2019-06-05 10:00:00", "user": "u1", "item": "i1", "price": 2.5, "tags": ["a", "b"]},
    {"kind": "shown", "at": "2019-06-05 11:00:00", "user": "u2", "item": "i2", "price": 3, "tags": "none"},
    {"kind": "shown", "at": "2019-06-05 12:00:00", "user": "u3", "item": "no row", "price": 4, "more": {"x": 7}},
    {"kind": "shown", "at": "2019-06-05 13:00:00", "user": "u4", "item": "a row without it", "price": 5},
    {"kind": "click", "at": "2019-06-05 11:10:00", "user": "u2", "item": "i2"},
]


EXPECTED = [
    {"price": 2.5, "tags": [b"a", b"b"], "brand": b"x", "about": b'{"brand":"x","size":1}u1', "more": 1, "clicked": 0},
    {"price": 3.0, "tags": [], "brand": b"", "about": b'["y"]u2', "more": 0, "clicked": 1},
    {"price": 4.0, "tags": [], "brand": b"", "about": b"", "more": 7, "clicked": 0},
    {"price": 5.0, "tags": [], "brand": b"", "about": b"", "more": 0, "clicked": 0},
]
SHREDDED = {
    "spark.sql.variant.writeShredding.enabled": "true",
    "spark.sql.variant.forceShreddingSchemaForTest": "kind string, price double, tags array<string>",
}


def samples(spark: SparkSession, root: Path, form: str, schema: str = "", **changes: str) -> list[dict[str, object]]:
    """The samples of a log, by price, without their ids and splits."""
    found = made(spark, configured(root, form, schema, changes), DAY, force=True).samples
    return sorted(
        ({name: value for name, value in sample.items() if name not in ("impression_id", "split")} for sample in found),
        key=lambda sample: sample["price"],
    )


def configured(root: Path, form: str, schema: str, changes: Mapping[str, str]) -> Path:
    items = [
        {"i": "i1", "at": "2019-06-04 00:00:00", "about": {"size": 1, "brand": "x"}},
        {"i": "i2", "at": "2019-06-04 00:00:00", "about": ["y"]},
        {"i": "a row without it", "at": "2019-06-04 00:00:00"},
    ]
    write_rows(root / "items.json", items)
    return write_config(root, "variants", CONFIG, {"FORMAT": form, "SCHEMA": schema, **changes})


PAYLOADS = [{"payload": row} for row in ROWS]
OF_PAYLOADS = ", schema: payload VARIANT"


@pytest.mark.thorough
def test_fields_of_json_lines_are_read_as_variants(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "log", PAYLOADS)
    assert samples(spark, tmp_path, "json", OF_PAYLOADS, **{"identity: keys": "identity: row"}) == EXPECTED


@pytest.mark.thorough
def test_parquet_files_give_the_same_samples_and_ids_however_they_store_variants(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only compiled code reads parts.
    monkeypatch.setitem(session._SETTINGS, "spark.sql.codegen.factoryMode", "FALLBACK")
    write_parquet(spark, tmp_path / "log", SHREDDED)
    assert samples(spark, tmp_path, "parquet") == EXPECTED
    (file,) = (tmp_path / "log").glob("*.parquet")
    assert "typed_value" in str(pq.read_schema(file))
    write_parquet(spark, tmp_path / "whole", {})
    stored = [run_session(spark, "UTC").read.parquet(f"{tmp_path}/{name}") for name in ("log", "whole")]
    shredded, whole = ({row[0] for row in rows.select(content_hash(rows)).collect()} for rows in stored)
    assert (len(shredded), shredded) == (5, whole)


def write_parquet(spark: SparkSession, path: Path, settings: dict[str, str]) -> None:
    writing = spark.newSession()
    for key, value in settings.items():
        writing.conf.set(key, value)
    rows = literal(writing, [(json.dumps(row),) for row in ROWS], "text string")
    rows.selectExpr("parse_json(text) AS payload").coalesce(1).write.parquet(str(path))


OF_DAYS = {
    '/log"': '/log/{date}.json", days_before: 1, days_after: 1',
    "features:": """  seen:
    {source: log, where: "variant_get(payload, '$.kind', 'string') = 'click'", entity: user,
     key: "variant_get(payload, '$.user', 'string')", event_time: "variant_get(payload, '$.at', 'string')", ttl: unbounded}
histories:
  recent:
    {source: log, where: "variant_get(payload, '$.kind', 'string') = 'click'", last: 3, within: 1d, on: user,
     time: "variant_get(payload, '$.at', 'string')", key: "variant_get(payload, '$.user', 'string')",
     item: "variant_get(payload, '$.item', 'string')", columns: {p: payload}}
features:
  seen: {expr: "variant_get(seen.payload, '$.at', 'string')", dtype: string}
  recent: {expr: "transform(recent.p, x -> variant_get(x, '$.at', 'string'))", dtype: string, ragged: true}
""",
    "output:": "partials: {path: ROOT/partials}\noutput:",
}


@pytest.mark.slow
def test_views_and_histories_carry_variants_and_keep_them_for_later_runs(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("2019-06-04", "2019-06-05"):
        rows = [{"payload": {**row, "at": row["at"].replace("2019-06-05", day)}} for row in ROWS]
        write_rows(tmp_path / f"log/{day}.json", rows)
    seen = {"seen": b"2019-06-04 11:10:00", "recent": [b"2019-06-04 11:10:00"]}
    expected = [{**one, **(seen if one["clicked"] else {"seen": b"", "recent": []})} for one in EXPECTED]
    assert samples(spark, tmp_path, "json", OF_PAYLOADS, **OF_DAYS) == expected
    assert {file.name[:4] for file in tmp_path.rglob("partials/**/*.parquet")} == {"rows", "acti"}
    assert samples(spark, tmp_path, "json", OF_PAYLOADS, **OF_DAYS) == expected


@pytest.mark.thorough
def test_an_explanation_shows_variants_as_json(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "log", PAYLOADS)
    config = configured(tmp_path, "json", OF_PAYLOADS, {})
    for user, item, shown in (
        ("u1", "i1", """{'about': '{"brand":"x","size":1}'}"""),
        ("u4", "a row without it", "{'about': None}"),
        ("u3", "no row", """more: '{"x":7}'"""),
    ):
        told = invoke("explain", "--config", config, "--date", DAY, "--user", user, "--article", item)
        assert (told.exit_code, shown in told.stdout) == (0, True), told.stdout + told.stderr


WHOLE = {
    "dtype: float32}": """dtype: float32}
  raw: {from: impression.payload, hash_buckets: 9, dtype: int64}
  list: {expr: 'array(item.about)', ragged: true, dtype: string}""",
    "user: \"variant_get(payload, '$.user', 'string')\"": "user: \"variant_get(payload, '$.user')\"",
    "variant_get(payload, '$.kind', 'string') = 'click'": "variant_get(payload, '$.kind')",
    "event_time: at": "event_time: about",
}


@pytest.mark.thorough
def test_a_whole_variant_is_no_feature_key_condition_or_time(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "log", PAYLOADS)
    config = load_config(configured(tmp_path, "json", OF_PAYLOADS, WHOLE))
    found = [problem.partition(": ")[2] for problem in problems(spark, config)]
    take = "take a field of it, as in variant_get"
    assert found == [
        "impressions.user: variant_get(payload, '$.user') is variant, expected a key: text or an integer; "
        f"{take}(variant_get(payload, '$.user'), '$.field', 'string').",
        "labels.clicked.where: variant_get(payload, '$.kind') is variant, expected a condition; "
        f"{take}(variant_get(payload, '$.kind'), '$.field', 'string').",
        f"views.item.event_time: about is variant, expected a time; {take}(about, '$.field', 'string').",
        f"features.raw: found variant, expected a value of one type; {take}(impression.payload, '$.field', 'string').",
        f"features.list: found array<variant>, expected a value of one type; {take}(array(item.about), '$.field', 'string').",
    ]


FIELDS: dict[str, object] = {
    "variant_get(v, '$.a', 'int')": 1,
    "try_variant_get(v, '$.b', 'int')": None,
    "variant_get(v, '$.b.c', 'string')": "x",
    "is_variant_null(variant_get(v, '$.a'))": False,
    "to_json(v)": '{"a":1,"b":{"c":"x"},"l":[2,3]}',
    "try_parse_json('{') IS NULL": True,
    "variant_get(to_variant_object(named_struct('n', 2)), '$.n', 'int')": 2,
    "transform(variant_get(v, '$.l', 'array<variant>'), x -> x::int)": [2, 3],
    **({"v:b.c::string": "x", "v:l[1]::int": 3} if HAS_COLON else {}),
}
OF_THE_DAY = "would become a time on the day of the run"
REFUSED = {
    "schema_of_variant(v)": "here: the function schema_of_variant is not allowed",
    "variant_get(v, '$.at', 'timestamp')": "to_timestamp(variant_get(x, '$.at', 'string'), 'yyyy-MM-dd HH:mm:ss')",
    "try_variant_get(v, '$.at', 'timestamp_ntz')": f"{OF_THE_DAY}; give the format",
    "variant_get(v, '$.l', 'array<struct<at: timestamp>>')": OF_THE_DAY,
    "transform(array(v), x -> variant_get(x, '$.at', 'timestamp'))": OF_THE_DAY,
    "variant_get(v, '$.at')::timestamp": OF_THE_DAY,
    **({"v:at::timestamp": OF_THE_DAY} if HAS_COLON else {}),
}


def test_fields_of_a_variant_are_taken_but_for_what_depends_on_the_day_or_on_how_it_is_stored(
    spark: SparkSession,
) -> None:
    variant = spark.sql("""SELECT parse_json('{"b": {"c": "x"}, "a": 1, "l": [2, 3]}') AS v""")
    found = variant.select([compile_expression(variant, text, "here") for text in FIELDS]).first()
    assert dict(zip(FIELDS, found, strict=True)) == FIELDS
    for text, sentence in REFUSED.items():
        with pytest.raises(ExpressionError, match=re.escape(sentence)):
            compile_expression(variant, text, "here")

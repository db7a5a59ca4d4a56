"""``config --check``: everything that does not fit the inputs, at once, with the line of the file."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.job.checking import problems
from tests.support.command_line import invoke

CONFIG = """\
name: checked
timezone: UTC
sources:
  log:
    format: json
    path: ROOT/log/{date}.json
    schema: t string, kind string, user string, item string, price double
  items: {format: csv, header: true, path: ROOT/items.csv, schema: "id bigint, brand string, since string"}
impressions:
  source: log
  where: kind = 'shown'
  time: t
  user: user
  article: item
  columns: {price: price}
labels:
  clicked: {expr: kind = 'click'}
views:
  item: {source: items, on: article, key: id, event_time: since, ttl: unbounded}
features:
  price: {from: impression.price, dtype: float32}
  brand: {from: item.brand, dtype: int64, hash_buckets: 16}
output: {path: ROOT/out}
"""


def configured(root: Path, *changes: tuple[str, str]) -> LoadedConfig:
    """The configuration with some texts replaced, beside its logs; no line moves."""
    (root / "log").mkdir()
    for day in (4, 5):
        line = '{"t": "2019-06-05 10:00:00", "kind": "shown", "user": "u", "item": "1", "price": 2.5}'
        (root / f"log/2019-06-0{day}.json").write_text(f"{line}\n")
    (root / "items.csv").write_text("id,brand,since\n1,blue,2019-06-01\n")
    text = CONFIG
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = root / "checked.yaml"
    path.write_text(text.replace("ROOT", str(root)))
    return load_config(path)


def found(spark: SparkSession, loaded: LoadedConfig) -> list[str]:
    """The problems without the directory of the file."""
    return [problem.replace(f"{Path(loaded.path).parent}/", "") for problem in problems(spark, loaded)]


def test_a_configuration_that_fits_has_no_problem(spark: SparkSession, tmp_path: Path) -> None:
    assert found(spark, configured(tmp_path)) == []


def test_a_misspelt_column_and_a_function_that_is_not_allowed_are_told_with_their_lines(
    spark: SparkSession, tmp_path: Path
) -> None:
    loaded = configured(
        tmp_path, ("time: t\n", "time: tt\n"), ("from: impression.price", "expr: sleep(impression.price)")
    )
    assert found(spark, loaded) == [
        "checked.yaml:12: impressions.time: there is no column 'tt'; did you mean 't'?",
        "checked.yaml:21: features.price.expr: the function sleep is not allowed; did you mean 'slice'?",
    ]


def test_each_thing_that_is_wrong_is_told_once(spark: SparkSession, tmp_path: Path) -> None:
    loaded = configured(
        tmp_path,
        ("where: kind = 'shown'", "where: kind"),
        ("{price: price}", "{price: cost}"),
        ("kind = 'click'}", "kind + price}"),
        ("key: id", "key: array(id)"),
        ("event_time: since", "event_time: id"),
        ("item.brand", "item.brnd"),
    )
    assert [re.sub(r": .*", "", problem.partition(": ")[2]) for problem in found(spark, loaded)] == [
        "impressions.where",
        "impressions.columns.price",
        "labels.clicked.expr",
        "views.item.event_time",
        "views.item.key",
        "features.brand.from",
    ]


def test_every_source_that_cannot_be_read_is_told(spark: SparkSession, tmp_path: Path) -> None:
    loaded = configured(tmp_path, ("items.csv", "nothing.csv"), ("/log/{date}", "/lag/{date}"))
    first, second = found(spark, loaded)
    assert first.startswith("checked.yaml:4: sources.log: there is no ")
    assert second.startswith("checked.yaml:8: sources.items: there is no ")


def test_a_date_column_that_is_not_there_or_names_no_day_is_told(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("create or replace global temp view days as select 1 id, 20190605 day, 'blue' brand, '2019-06-01' since")
    items = '{format: csv, header: true, path: ROOT/items.csv, schema: "id bigint, brand string, since string"}'
    told = (
        "expected a date, a timestamp, or text such as 2019-06-05. Name another column, or make a date of it in a view or a "
        "query."
    )
    for column, problem in {
        "day": f"'day' of global_temp.days is of type int; {told}",
        "dt": "global_temp.days has no column 'dt'.",
    }.items():
        root = tmp_path / column
        root.mkdir()
        loaded = configured(root, (items, f"{{format: table, table: global_temp.days, date_column: {column}}}"))
        assert found(spark, loaded) == [f"checked.yaml:8: sources.items.date_column: {problem}"]


def test_a_header_without_a_column_of_the_schema_is_told(spark: SparkSession, tmp_path: Path) -> None:
    (problem,) = found(spark, configured(tmp_path, ("brand string", "label string"), ("item.brand", "item.label")))
    assert problem.startswith("checked.yaml:8: sources.items: the first line of ")
    assert "has no column 'label'" in problem


def test_what_is_fitted_need_not_be_there(spark: SparkSession, tmp_path: Path) -> None:
    fitted = "fitted: {path: ROOT/fitted}\nvocabularies: {brand: {capacity: 100}}\noutput:"
    loaded = configured(tmp_path, ("hash_buckets: 16", "vocabulary: brand"), ("output:", fitted))
    assert found(spark, loaded) == []


def test_the_command_tells_all_problems_and_ends_with_2(spark: SparkSession, tmp_path: Path) -> None:
    loaded = configured(tmp_path, ("time: t\n", "time: price\n"))
    result = invoke("config", "--check", "--config", loaded.path)
    assert result.exit_code == 2
    assert f"{loaded.path}:12: impressions.time: price is double, expected a time" in result.stderr


def test_the_command_says_that_the_inputs_fit(spark: SparkSession, tmp_path: Path) -> None:
    loaded = configured(tmp_path)
    result = invoke("config", "--check", "--config", loaded.path)
    assert result.stdout == f"{loaded.path} fits its inputs.\n"

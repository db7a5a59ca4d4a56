"""``config --check``: everything that does not fit the inputs, at once, with the line of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.job.checking import problems
from tests.support.command_line import invoke
from tests.support.whole_runs import write_config, write_rows

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
    row = {"t": "2019-06-05 10:00:00", "kind": "shown", "user": "u", "item": "1", "price": 2.5}
    for day in (4, 5):
        write_rows(root / f"log/2019-06-0{day}.json", [row])
    (root / "items.csv").write_text("id,brand,since\n1,blue,2019-06-01\n")
    assert all(CONFIG.count(old) == 1 for old, _ in changes)
    return load_config(write_config(root, "checked", CONFIG, dict(changes)))


NO_DAY = (
    "expected a date, a timestamp, or text such as 2019-06-05. Name another column, or make a date of it in a view or a "
    "query."
)
ITEMS = '{format: csv, header: true, path: ROOT/items.csv, schema: "id bigint, brand string, since string"}'
FITTED = "fitted: {path: ROOT/fitted}\nvocabularies: {brand: {capacity: 100}}\noutput:"
CASES: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "what is fitted need not be there": ([("hash_buckets: 16", "vocabulary: brand"), ("output:", FITTED)], []),
    "each thing that is wrong is told once, with its line": (
        [
            ("where: kind = 'shown'", "where: kind"),
            ("{price: price}", "{price: cost}"),
            ("kind = 'click'}", "kind + price}"),
            ("key: id", "key: array(id)"),
            ("event_time: since", "event_time: id"),
            ("item.brand", "item.brnd"),
        ],
        [
            "11: impressions.where",
            "15: impressions.columns.price",
            "17: labels.clicked.expr",
            "19: views.item.event_time",
            "19: views.item.key",
            "22: features.brand.from",
        ],
    ),
    "a misspelt column and a function that is not allowed are told": (
        [("time: t\n", "time: tt\n"), ("from: impression.price", "expr: sleep(impression.price)")],
        [
            "12: impressions.time: there is no column 'tt'; did you mean 't'?",
            "21: features.price.expr: the function sleep is not allowed; did you mean 'slice'?",
        ],
    ),
    "every source that cannot be read is told": (
        [("items.csv", "nothing.csv"), ("/log/{date}", "/lag/{date}")],
        ["4: sources.log: there is no ", "8: sources.items: there is no "],
    ),
    "a column that names no day is told": (
        [(ITEMS, "{format: table, table: global_temp.days, date_column: day}")],
        [f"8: sources.items.date_column: 'day' of global_temp.days is of type int; {NO_DAY}"],
    ),
    "a date column that is not there is told": (
        [(ITEMS, "{format: table, table: global_temp.days, date_column: dt}")],
        ["8: sources.items.date_column: global_temp.days has no column 'dt'."],
    ),
    "a header without a column of the schema is told": (
        [("brand string", "label string"), ("item.brand", "item.label")],
        ["8: sources.items: the first line of ROOT/items.csv has no column 'label'"],
    ),
}


@pytest.mark.some(3)
@pytest.mark.parametrize("what", CASES)
def test_everything_that_does_not_fit_the_inputs_is_told_at_once(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    spark.sql("create or replace global temp view days as select 1 id, 20190605 day, 'blue' brand, '2019-06-01' since")
    changes, expected = CASES[what]
    loaded = configured(tmp_path, *changes)
    found = [problem.replace("file:" + str(tmp_path), "ROOT") for problem in problems(spark, loaded)]
    assert len(found) == len(expected), "\n".join(found)
    for problem, beginning in zip(found, expected, strict=True):
        assert problem.startswith(f"{loaded.path}:{beginning}")


def test_the_command_tells_all_problems_and_ends_with_2_or_says_that_the_inputs_fit(
    spark: SparkSession, tmp_path: Path
) -> None:
    loaded = configured(tmp_path, ("time: t\n", "time: price\n"))
    result = invoke("config", "--check", "--config", loaded.path)
    assert result.exit_code == 2
    assert f"{loaded.path}:12: impressions.time: price is double, expected a time" in result.stderr
    result = invoke("config", "--check", "--config", configured(tmp_path).path)
    assert result.stdout == f"{loaded.path} fits its inputs.\n"

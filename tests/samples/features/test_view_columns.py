"""The columns of views that a join carries, found by Spark, and those that the graph says are read, found without it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import JobConfig, load_config
from ctr_samples.samples.features.row import view_columns
from tests.support.project import PROJECT

CONFIGURATIONS = sorted(path.name for path in (PROJECT / "conf").glob("*.yaml") if path.name != "production.yaml")
COLUMNS = ("price", "color", "id")
"""Of any source."""


def read_by_the_graph(config: JobConfig, view: str) -> set[str]:
    """The columns of a view that features and the keys of other views read, in lower case."""
    graph = config.graph
    read = [graph.reads[part].get(f"views.{view}", frozenset()) for part in graph.reads]
    return {column for columns in read for column in (COLUMNS if columns is None else columns)} - {"age_s", "matched"}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_both_find_the_same_columns(spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOUTIAO_LOGS", "logs")
    config = load_config(PROJECT / "conf" / name).config
    found = view_columns(spark, config, lambda source: COLUMNS)
    assert {view: {column.lower() for column in columns} for view, columns in found.items()} == {
        view: read_by_the_graph(config, view) for view in config.views
    }

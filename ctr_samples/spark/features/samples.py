"""The whole row of a sample: its features, labels, weight and id, where it goes, and its place in the order of the day."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.config.names import SAMPLE_WEIGHT, VIEW_METADATA
from ctr_samples.spark.columns import stable_hash
from ctr_samples.spark.expressions import referenced_paths
from ctr_samples.spark.features.columns import feature_column
from ctr_samples.spark.features.contracts import columns_contract
from ctr_samples.spark.features.ids import id_column, with_joined_ids
from ctr_samples.spark.features.layouts import layout_columns
from ctr_samples.vocabulary import FittedState

IMPRESSION = "impression"
"""Column that holds an impression as a struct while views are joined to it."""

SPLIT = "_split"
SHUFFLE = "_shuffle"
"""Columns of a sample that are not in the record: where it goes, and its place in the order of the day."""

HOUR = "_hour"
USER = "_user"
"""And what is measured beside the record: the hour of the impression in the zone of the session, and the user as text."""


def view_columns(spark: SparkSession, config: JobConfig) -> dict[str, list[str]]:
    """The columns that features need of each view: all that is carried through the joins."""
    needed: dict[str, list[str]] = {name: [] for name in config.views}
    for name, feature in config.features.items():
        source = "from" if feature.from_ else "expr"
        for key, text in ((source, feature.from_ or feature.expr), ("at", feature.at)):
            for path in referenced_paths(spark, text, f"features.{name}.{key}") if text else ():
                view, column = path[0], path[1] if len(path) > 1 else ""
                if view in needed and column not in VIEW_METADATA and column not in needed[view]:
                    needed[view].append(column)
    return needed


def make_samples(
    joined: DataFrame, config: JobConfig, split: Column, weight: Column | None = None, state: FittedState | None = None
) -> DataFrame:
    """Columns of the contract in its order, then those beside the record. Column expressions and small joins only."""
    joined = with_joined_ids(joined, config, state)
    contract = columns_contract(config, state)
    # What a feature may be made from, and no label. Only the schema matters for checking expressions, and an empty table
    # is analysed faster than the joins below.
    sources = [IMPRESSION, *config.views, *config.histories]
    ids = [id_column(name) for name in config.features if id_column(name) in joined.columns]
    blank = joined.sparkSession.createDataFrame([], joined.select(*sources, *ids).schema)
    columns = [
        feature_column(blank, name, feature, config, state, config.histories).alias(name)
        for name, feature in config.features.items()
    ]
    labels = [F.col(name) for name in contract.names("label", "mask")]
    impression_id = F.col(f"{IMPRESSION}.impression_id")
    rows = joined.select(
        *columns,
        *labels,
        *([] if weight is None else [weight.alias(SAMPLE_WEIGHT)]),
        impression_id.alias("impression_id"),
        split.alias(SPLIT),
        stable_hash("shuffle", [impression_id]).alias(SHUFFLE),
        F.hour(f"{IMPRESSION}.impression_time").cast("tinyint").alias(HOUR),
        F.col(f"{IMPRESSION}.user").cast("string").alias(USER),
    )
    return rows.select(*layout_columns(rows, contract, config.output.layout), SPLIT, SHUFFLE, HOUR, USER)

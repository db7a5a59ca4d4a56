"""Build the complete row of a sample: features, labels, weight, id, split, and position in the order of the day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig
from ctr_samples.config.base import SAMPLE_WEIGHT, VIEW_METADATA
from ctr_samples.contract import ExampleContract
from ctr_samples.samples.features.contracts import columns_contract
from ctr_samples.samples.features.ids import JoinedIds, id_column, joined_ids, with_joined_ids
from ctr_samples.samples.features.layouts import layout_columns
from ctr_samples.samples.features.one_feature import feature_column
from ctr_samples.sparksql.columns import stable_hash
from ctr_samples.sparksql.expressions import referenced_paths
from ctr_samples.vocabulary import NOTHING_FITTED, FittedState

IMPRESSION = "impression"
"""Column that holds an impression as a struct while views are joined to it."""

_ID = f"{IMPRESSION}.impression_id"

SPLIT = "_split"
REQUEST = "_request"
SHUFFLE = "_shuffle"
"""Columns of a sample outside the record: its split, and the hashes of its request and of its id, which order the day."""

HOUR = "_hour"
USER = "_user"
"""Columns used only for measurements: the impression's hour in the session time zone, and a key such as the user."""


def view_columns(spark: SparkSession, config: JobConfig) -> dict[str, list[str]]:
    """Return the columns of each view that features or join keys of other views need. Joins carry only these columns."""
    needed: dict[str, list[str]] = {name: [] for name in config.views}
    for name in config.features:
        for path in _references(spark, config, name):
            view, column = path[0], path[1] if len(path) > 1 else ""
            if view in needed and column not in VIEW_METADATA and column not in needed[view]:
                needed[view].append(column)
    for part in [part for view in config.views.values() for part in view.joined_on]:
        view, *fields = part.split(".")
        if fields and fields[0] not in needed[view]:
            needed[view].append(fields[0])
    return needed


def _references(spark: SparkSession, config: JobConfig, name: str) -> Iterator[Sequence[str]]:
    """Yield the references in a feature's expressions: a column, or a view with the fields of one of its columns."""
    feature = config.features[name]
    source = "from" if feature.from_ else "expr"
    for key, text in ((source, feature.from_ or feature.expr), ("at", feature.at)):
        if text:
            yield from referenced_paths(spark, text, f"features.{name}.{key}")


def with_place(impressions: DataFrame, split: Column, request: Column) -> DataFrame:
    """Add the ``split`` (text) of each impression, the hash of its ``request``, and a hash of its id."""
    return impressions.withColumns({SPLIT: split, REQUEST: request, SHUFFLE: stable_hash("shuffle", [F.col(_ID)])})


def order_of(config: JobConfig) -> tuple[str, ...]:
    """Return the columns that order the samples of a split. The first one also decides the partition."""
    return (REQUEST, SHUFFLE) if config.output.by_request else (SHUFFLE,)


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Columns of a sample, checked against the source types before any join.

    ``ids`` are joined first, ``features`` has one column per feature, and ``record`` is the complete row in its layout.
    """

    contract: ExampleContract
    ids: Sequence[JoinedIds]
    features: Mapping[str, Column]
    record: Sequence[Column]

    @classmethod
    def of(cls, blank: DataFrame, config: JobConfig, state: FittedState | None) -> Self:
        """Build the columns over an empty frame with structs for the impression, each view and each history, but no
        labels.

        Raises InputError if the data do not have the configured type or form.
        """
        contract = columns_contract(config, state)
        ids = joined_ids(blank, config, state or NOTHING_FITTED)
        typed = blank.select("*", *[F.lit(None).cast("bigint").alias(id_column(joined.feature)) for joined in ids])
        features = {
            name: feature_column(typed, name, feature, config, state, config.histories)
            for name, feature in config.features.items()
        }
        row = typed.select(*[column.alias(name) for name, column in features.items()])
        return cls(contract, ids, features, layout_columns(row, contract, config.output.layout))

    @property
    def moves(self) -> bool:
        """Whether making features may shuffle rows, because a vocabulary may be too large to broadcast."""
        return any(not joined.is_broadcast for joined in self.ids)

    def make_early(self, joined: DataFrame) -> DataFrame:
        """Add a column for each feature to the rows, for use by :meth:`make`."""
        return with_joined_ids(joined, self.ids).withColumns({_made(name): of for name, of in self.features.items()})

    def make(
        self,
        joined: DataFrame,
        weight: Column | None = None,
        heavy: str | None = None,
        also: Mapping[str, Column] = MappingProxyType({}),
    ) -> DataFrame:
        """Return the contract's columns in order, then the columns outside the record. Uses only expressions and small
        joins.

        ``joined`` has the rows of :func:`with_place` with all views and histories, or with the features of
        :meth:`make_early` instead. ``heavy`` is the impression key whose shares are measured. ``also`` has further
        columns over ``joined``, which are appended.
        """
        found = set(joined.columns)
        left = {name: column for name, column in self.features.items() if _made(name) not in found}
        features = [(left[name] if name in left else F.col(_made(name))).alias(name) for name in self.features]
        weights = [] if weight is None else [weight.alias(SAMPLE_WEIGHT)]
        more = [column.alias(name) for name, column in also.items()]
        rows = with_joined_ids(joined, [ids for ids in self.ids if ids.feature in left])
        rows = rows.select(*features, *weights, *self._beside_features(heavy), *more)
        return rows.select(*self.record, SPLIT, REQUEST, SHUFFLE, HOUR, USER, *also)

    def make_without_features(self, placed: DataFrame, heavy: str | None = None) -> DataFrame:
        """Return the columns of :meth:`make` that need only labelled rows of :func:`with_place`."""
        return placed.select(*self._beside_features(heavy))

    def _beside_features(self, heavy: str | None) -> list[Column]:
        return [
            *[F.col(name) for name in self.contract.names("label", "mask")],
            F.col(_ID).alias("impression_id"),
            F.col(SPLIT),
            F.col(REQUEST),
            F.col(SHUFFLE),
            F.hour(f"{IMPRESSION}.impression_time").cast("tinyint").alias(HOUR),
            (F.lit(None) if heavy is None else F.col(f"{IMPRESSION}.{heavy}")).cast("string").alias(USER),
        ]


def _made(name: str) -> str:
    """Return the column name of a feature that is computed before the rest."""
    return f"_feature_{name}"

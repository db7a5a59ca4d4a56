"""The whole row of a sample: features, labels, weight and id, its split, and its place in the order of the day."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from ctr_samples.vocabulary import FittedState

IMPRESSION = "impression"
"""Column that holds an impression as a struct while views are joined to it."""

_ID = f"{IMPRESSION}.impression_id"

SPLIT = "_split"
SHUFFLE = "_shuffle"
"""Columns of a sample that are not in the record: its split, and its place in the order of the day."""

HOUR = "_hour"
USER = "_user"
"""Columns that are only measured: the hour of the impression in the zone of the session, and a key, such as the user's."""


def view_columns(spark: SparkSession, config: JobConfig) -> dict[str, list[str]]:
    """The columns that features, and the keys of other views, need of each view: all that is carried through the joins."""
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


def _used_together(spark: SparkSession, config: JobConfig) -> list[set[str]]:
    """Each feature with its views and histories, and the features that it crosses: :attr:`SampleColumns.together`."""
    groups = []
    for name, feature in config.features.items():
        roots = {path[0] for path in _references(spark, config, name)}
        views, histories = ([root for root in roots if root in part] for part in (config.views, config.histories))
        own = paths("features", (name, *(feature.cross or ())))
        groups.append(own | paths("views", views) | paths("histories", histories))
    return groups


def paths(part: str, names: Iterable[str]) -> set[str]:
    """Names in a part of the configuration as their paths in it, such as ``views.user``."""
    return {f"{part}.{name}" for name in names}


def _references(spark: SparkSession, config: JobConfig, name: str) -> Iterator[Sequence[str]]:
    """What the expressions of a feature name: a column, or a view with the fields of one of its columns."""
    feature = config.features[name]
    source = "from" if feature.from_ else "expr"
    for key, text in ((source, feature.from_ or feature.expr), ("at", feature.at)):
        if text:
            yield from referenced_paths(spark, text, f"features.{name}.{key}")


def with_place(impressions: DataFrame, split: Column) -> DataFrame:
    """Impressions with their ``split`` (text) and their place in the order of the day, which is a hash of their id."""
    return impressions.withColumns({SPLIT: split, SHUFFLE: stable_hash("shuffle", [F.col(_ID)])})


def in_final_order(rows: DataFrame, partitions: int) -> DataFrame:
    """Impressions of :func:`with_place`, spread over partitions and sorted, both by hash: the same on every run.

    So samples of one user or hour lie far apart, and a reader needs only a small shuffle buffer.
    """
    # By split, then by hash. One number decides nearly all comparisons, which Spark then makes without looking at the rows.
    unsigned = F.col(SHUFFLE).bitwiseXOR(F.lit(-(2**63)))
    number = F.when(F.col(SPLIT) == "eval", -1).when(F.col(SPLIT) == "test", 0).otherwise(1) * F.lit(2**62)
    spread = rows.repartition(partitions, F.col(SHUFFLE))
    return spread.sortWithinPartitions(number + F.shiftrightunsigned(unsigned, 2), SHUFFLE, _ID)


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """What a sample is made of: checked against the types of its sources, before anything is joined.

    ``ids`` are joined first; ``features`` are one column for each feature; ``record`` what the layout makes of a whole row.
    ``together`` is what must be at hand at the same time, by its paths in the configuration, such as ``views.user``.
    """

    contract: ExampleContract
    together: Sequence[set[str]]
    ids: Sequence[JoinedIds]
    features: Mapping[str, Column]
    record: Sequence[Column]

    @classmethod
    def of(cls, blank: DataFrame, config: JobConfig, state: FittedState | None) -> Self:
        """The columns over a frame without rows: structs of the impression, of each view and of each history, and no label.

        InputError if the data have another type or form than the configuration says.
        """
        contract = columns_contract(config, state)
        together = _used_together(blank.sparkSession, config)
        ids = joined_ids(blank, config, state)
        typed = blank.select("*", *[F.lit(None).cast("bigint").alias(id_column(joined.feature)) for joined in ids])
        features = {
            name: feature_column(typed, name, feature, config, state, config.histories)
            for name, feature in config.features.items()
        }
        row = typed.select(*[column.alias(name) for name, column in features.items()])
        return cls(contract, together, ids, features, layout_columns(row, contract, config.output.layout))

    @property
    def moving(self) -> list[str]:
        """The features that may move rows as they are made: their vocabulary may be too large to be broadcast."""
        return [joined.feature for joined in self.ids if not joined.is_broadcast]

    def make_some(self, joined: DataFrame, names: Collection[str]) -> DataFrame:
        """The rows with some of the features in columns beside all others, where :meth:`make` finds them.

        A crossed feature goes with those that it crosses.
        """
        rows = with_joined_ids(joined, [ids for ids in self.ids if ids.feature in names])
        return rows.withColumns({_made(name): self.features[name] for name in names})

    def make(
        self,
        joined: DataFrame,
        weight: Column | None = None,
        heavy: str | None = None,
        also: Mapping[str, Column] = MappingProxyType({}),
    ) -> DataFrame:
        """Columns of the contract in its order, then those beside the record. Column expressions and small joins only.

        ``joined`` are rows of :func:`with_place` with all views and histories, or with features of :meth:`make_some` in their
        stead; ``heavy`` is the key of the impressions whose shares are measured. ``also`` are further columns over ``joined``,
        which come last.
        """
        found = set(joined.columns)
        left = {name: column for name, column in self.features.items() if _made(name) not in found}
        features = [(left[name] if name in left else F.col(_made(name))).alias(name) for name in self.features]
        weights = [] if weight is None else [weight.alias(SAMPLE_WEIGHT)]
        more = [column.alias(name) for name, column in also.items()]
        rows = with_joined_ids(joined, [ids for ids in self.ids if ids.feature in left])
        rows = rows.select(*features, *weights, *self._beside_features(heavy), *more)
        return rows.select(*self.record, SPLIT, SHUFFLE, HOUR, USER, *also)

    def make_without_features(self, placed: DataFrame, heavy: str | None = None) -> DataFrame:
        """The columns of :meth:`make` that need nothing but labelled rows of :func:`with_place`."""
        return placed.select(*self._beside_features(heavy))

    def _beside_features(self, heavy: str | None) -> list[Column]:
        return [
            *[F.col(name) for name in self.contract.names("label", "mask")],
            F.col(_ID).alias("impression_id"),
            F.col(SPLIT),
            F.col(SHUFFLE),
            F.hour(f"{IMPRESSION}.impression_time").cast("tinyint").alias(HOUR),
            (F.lit(None) if heavy is None else F.col(f"{IMPRESSION}.{heavy}")).cast("string").alias(USER),
        ]


def _made(name: str) -> str:
    """The column of a feature that is made before the others."""
    return f"_feature_{name}"

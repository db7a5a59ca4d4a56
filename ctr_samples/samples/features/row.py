"""The columns of a sample, and the rows over which each feature is computed.

A feature of one view is computed over the rows of the view, before the join, and one of the impression where its log is
read. Only a feature of several of these, of a history, or of the age of a row needs the joined rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from ctr_samples.config import JobConfig
from ctr_samples.config.base import VIEW_METADATA
from ctr_samples.contract import ExampleContract
from ctr_samples.graph import dotted
from ctr_samples.samples.columnar.blocks import Item
from ctr_samples.samples.columnar.stages import Stage
from ctr_samples.samples.features.contracts import columns_contract
from ctr_samples.samples.features.direct import DirectFeature
from ctr_samples.samples.features.one_feature import feature_column
from ctr_samples.samples.features.pairs import PAIRS, PairValues
from ctr_samples.samples.features.values import JoinedIds, ids_in, joined_ids, with_ids, with_joined_ids
from ctr_samples.sparksql.expressions import referenced_paths
from ctr_samples.vocabulary import NOTHING_FITTED, FittedState

IMPRESSION = "impression"
"""Column that holds an impression as a struct while views are joined to it."""

SPLIT = "_split"
REQUEST = "_request"
SHUFFLE = "_shuffle"
"""Columns of a sample outside the record: the number of its split, and the hashes of its request and of its id, which order
the day.
"""

SPLITS = ("eval", "test", "train")
"""The splits in their order. Samples have the number of theirs, which is smaller than its name."""
TRAIN = SPLITS.index("train")


def split_name(number: Column) -> Column:
    """Return the name of a split, given its number."""
    return F.array(*map(F.lit, SPLITS))[number]


AGE = "age_s"
"""Field of a view's struct that depends on the impression, unlike all others."""

WEIGHT = "_weight"
"""Weight of a labelled impression, if rules decide which samples stay."""

HOUR = "_hour"
USER = "_user"
"""Columns used only for measurements: the impression's hour in the session time zone, and a key such as the user."""


def value_of(name: str) -> str:
    """Return the column with the text of a column of impressions by whose values rates are counted."""
    return f"_by {name}"


def view_columns(
    spark: SparkSession, config: JobConfig, columns_of: Callable[[str], Sequence[str]]
) -> dict[str, list[str]]:
    """Return the columns of each view that features or join keys of other views need. Joins carry only these columns.

    A feature of a whole view needs all columns of its source, which ``columns_of`` returns. Names are equal in any case.
    """
    needed: dict[str, dict[str, str]] = {name: {} for name in config.views}
    references = [path for name in config.features for path in _references(spark, config, name)]
    keys = [part.split(".") for view in config.views.values() for part in view.joined_on if "." in part]
    for view, *fields in [*references, *keys]:
        if view not in needed:
            continue
        counted = config.views[view].counted
        spelled = {} if counted is None else {column.lower(): column for column in counted.column_names}
        for column in fields[:1] or spelled.values() or columns_of(config.views[view].source):
            if column.lower() not in VIEW_METADATA:
                needed[view].setdefault(column.lower(), spelled.get(column.lower(), column))
    return {view: list(columns.values()) for view, columns in needed.items()}


def _references(spark: SparkSession, config: JobConfig, name: str) -> Iterator[Sequence[str]]:
    """Yield the references in a feature's expressions: a column, or a view with the fields of one of its columns."""
    structs = {one.lower(): one for one in (IMPRESSION, *config.views, *config.histories)}
    for key, text in config.features[name].texts.items():
        for root, *fields in referenced_paths(spark, text, f"features.{name}.{key}"):
            yield structs.get(root.lower(), root), *fields


def order_of(config: JobConfig) -> tuple[str, ...]:
    """Return the columns that order the samples of a split. The first one also decides the partition."""
    return (REQUEST, SHUFFLE) if config.output.by_request else (SHUFFLE,)


ROWS = ""
"""Home of a feature that is computed over joined rows. Other homes are :data:`IMPRESSION` and the names of views."""


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Features of a sample, checked against the source types before any join.

    ``features`` has one column per feature, over a frame with structs for the impression, each view and each history,
    and with the ids of ``ids``; ``kinds`` has their types, ``homes`` the rows over which each is computed, and ``paths``
    the references of each to the structs. Those made of two sources are first computed by ``pairs``, so that the columns
    have the references of ``computed`` instead. The ``direct`` ones need no expression over joined rows.
    """

    contract: ExampleContract
    ids: Sequence[JoinedIds]
    features: Mapping[str, Column]
    kinds: StructType
    homes: Mapping[str, str]
    paths: Mapping[str, Sequence[Sequence[str]]]
    crosses: Mapping[str, Sequence[str]]
    pairs: PairValues
    computed: Mapping[str, Sequence[Sequence[str]]]
    direct: Mapping[str, DirectFeature]

    @classmethod
    def of(cls, blank: DataFrame, config: JobConfig, state: FittedState | None) -> Self:
        """Build the columns over an empty frame with structs for the impression, each view and each history, but no labels.

        Raises InputError if the data do not have the configured type or form.
        """
        contract = columns_contract(config, state)
        pairs = PairValues.of(config.features, blank.schema)
        blank = blank.withColumn(PAIRS, F.lit(None).cast(pairs.kinds)) if pairs.pairs else blank
        ids = joined_ids(blank, config, state or NOTHING_FITTED)
        typed = with_ids(blank, dict.fromkeys(one.feature for one in ids))
        features = {
            name: feature_column(typed, name, feature, config, state, config.histories)
            for name, feature in config.features.items()
        }
        kinds = typed.select(*[column.alias(name) for name, column in features.items()]).schema
        crosses = {name: feature.cross or () for name, feature in config.features.items()}
        spark = blank.sparkSession
        own = {name: list(_references(spark, config, name)) for name in config.features}
        of_columns = {name: [(PAIRS, name)] if name in pairs.pairs else some for name, some in own.items()}
        parts = {name: (name, *others) for name, others in crosses.items()}
        paths = {name: [path for part in some for path in own[part]] for name, some in parts.items()}
        computed = {name: [path for part in some for path in of_columns[part]] for name, some in parts.items()}
        homes = {name: _home(some, config) for name, some in computed.items()}
        direct = {}
        for name in [name for name, home in homes.items() if home == ROWS]:
            path = (PAIRS, name) if name in pairs.pairs else dotted(config.features[name].from_ or "")
            if found := DirectFeature.of(name, config.features[name], path, blank.schema, config.histories):
                direct[name] = found
        return cls(contract, ids, features, kinds, homes, paths, crosses, pairs, computed, direct)

    def at(self, home: str) -> tuple[str, ...]:
        """Return the features that are computed over the rows of a home."""
        return tuple(name for name, of in self.homes.items() if of == home)

    def fields_of(self, struct: str) -> set[str] | None:
        """Return the fields of a struct that features over joined rows need, in lower case, or None if they need all."""
        return _fields_of(struct, [path for name in self.at(ROWS) for path in self.paths[name]])

    def handed(self) -> dict[str, set[str] | None]:
        """Return the structs that columns over joined rows refer to, with the fields of :meth:`fields_of`."""
        paths = [path for name in self.at(ROWS) for path in self.computed[name]]
        return {struct: _fields_of(struct, paths) for struct in dict.fromkeys(path[0] for path in paths)}

    def wide_fields(self, struct: str, kind: StructType) -> list[str]:
        """Return the lists and maps of a struct that features over joined rows need, unless they need all of it."""
        needed = self.fields_of(struct) or ()
        return [
            field.name
            for field in kind
            if field.name.lower() in needed and isinstance(field.dataType, ArrayType | MapType)
        ]

    def with_direct(self, stage: Stage) -> Stage:
        """Add the values of two sources to joined rows, and the direct features."""
        stage = self.pairs.add_to(stage)
        if not self.direct:
            return stage
        added = [StructField(made(name), self.kinds[name].dataType) for name in self.direct]
        return stage.then(partial(_with_direct, self.direct), StructType([*stage.kind, *added]))

    def but_direct(self) -> Self:
        """Return the columns that rows of :meth:`with_direct` lack."""
        left = {name: home for name, home in self.homes.items() if name not in self.direct}
        return replace(self, homes=left, pairs=_NO_PAIRS)

    def moves(self, home: str) -> bool:
        """Whether computing the features of a home may shuffle its rows, because a vocabulary is too large to broadcast."""
        return any(not one.is_broadcast for one in self._ids(self.at(home)))

    def add(self, rows: DataFrame, home: str) -> DataFrame:
        """Add a column for each feature of a home, with the name :func:`made`. Uses only expressions and joins with
        vocabularies. ``rows`` has the structs that the features refer to.
        """
        whole = self.pairs.over(rows) if home == ROWS and PAIRS not in rows.columns else rows
        with_ids = with_joined_ids(whole, self._ids(self.at(home)))
        return with_ids.select(*rows.columns, *[self.features[name].alias(made(name)) for name in self.at(home)])

    def where(self, is_sample: Column) -> Self:
        """Return the columns with nulls in the rows that are no samples, in which no expression is evaluated."""
        ids = [replace(one, token=F.when(is_sample, one.token)) for one in self.ids]
        features = {name: F.when(is_sample, column) for name, column in self.features.items()}
        return replace(self, ids=ids, features=features)

    def add_to_one(self, row: DataFrame, homes: Iterable[str]) -> DataFrame:
        """Like :meth:`add`, for a single row, whose tokens are looked up here. Runs a Spark job if there are any."""
        names = [name for home in homes for name in self.at(home)]
        with_its_ids = with_ids(row, ids_in(row, self._ids(names)))
        return with_its_ids.select(*row.columns, *[self.features[name].alias(made(name)) for name in names])

    def _ids(self, names: Iterable[str]) -> list[JoinedIds]:
        parts = {part for name in names for part in (name, *self.crosses[name])}
        return [one for one in self.ids if one.feature in parts]


_NO_PAIRS = PairValues(StructType(), {})
NO_FEATURES = SampleColumns(ExampleContract(()), (), {}, StructType(), {}, {}, {}, _NO_PAIRS, {}, {})


_VALUES = 1 << 23
"""Values of direct features that are made at once."""


def _with_direct(direct: Mapping[str, DirectFeature], items: Iterable[Item]) -> Iterator[Item]:
    """Add direct features to rows. Runs on executors."""
    most = max(1, _VALUES // sum(max(1, feature.size) for feature in direct.values()))
    for item in items:
        if not isinstance(item, pa.RecordBatch):
            yield item
            continue
        for start in range(0, item.num_rows, most):
            rows = item.slice(start, most)
            made_of = {made(name): feature.over(rows) for name, feature in direct.items()}
            yield pa.RecordBatch.from_arrays([*rows.columns, *made_of.values()], [*rows.schema.names, *made_of])


def _fields_of(struct: str, paths: Iterable[Sequence[str]]) -> set[str] | None:
    own = [path for path in paths if path[0] == struct]
    return None if any(len(path) == 1 for path in own) else {path[1].lower() for path in own}


def _home(paths: Sequence[Sequence[str]], config: JobConfig) -> str:
    """Return the rows over which a feature with some references is computed."""
    roots = {path[0] for path in paths} or {IMPRESSION}
    if len(roots) > 1 or any(len(path) == 1 for path in paths):
        return ROWS
    (root,) = roots
    if root == IMPRESSION:
        return root
    return root if root in config.views and all(path[1].lower() != AGE for path in paths) else ROWS


def made(name: str) -> str:
    """Return the column name of a feature before the samples are complete."""
    return f"_feature_{name}"

"""Joins of views to impressions: rows with the same key meet in one shuffle, or small views are handed to every task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from ctr_samples.samples.columnar.blocks import PLACE, Counts, Item, SideTables, rows_of
from ctr_samples.samples.columnar.columns import BATCH, Integers, integers, place_of_texts, there, whole
from ctr_samples.samples.columnar.stages import Shuffle, Stage, as_they_are, in_arrow
from ctr_samples.samples.views.as_of.matching import EVENT, KNOWN, AsOf, Snapshots, ViewRows
from ctr_samples.samples.views.as_of.planning import NONE_HOT, HotKeys, Join

IMPRESSION = "impression"
_BYTES_OF_A_BATCH = 32 << 20


def join_by_shuffle(
    left: Stage,
    joins: Sequence[Join],
    partitions: int,
    hot: HotKeys = NONE_HOT,
    wide: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Stage:
    """Add a struct for each view, all of which are joined on the same key. Lazy.

    ``left`` has a struct ``impression``. Impressions that lie by the key already are not moved again, and share the
    ``wide`` fields of a row of the view.
    """
    kinds = {join.how.name: join.kind for join in joins}
    return join_rows(left, [join.how for join in joins], kinds, _rows_of(joins, partitions), partitions, hot, wide)


def join_rows(
    left: Stage,
    views: Sequence[AsOf],
    kinds: Mapping[str, StructType],
    rows: Sequence[Stage],
    partitions: int,
    hot: HotKeys = NONE_HOT,
    wide: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Stage:
    """Add the structs of :func:`join_by_shuffle`, given their types, the rows of each view, and then the snapshots of each
    snapshot view in every place.
    """
    on = views[0].on
    assert all(view.on == on for view in views), "views of one shuffle have one key"
    placed = placed_by(left, on, partitions, "views", hot)
    shared = {name: tuple(fields) for name, fields in wide.items() if fields and placed is left}
    here = tuple(replace(view, shared=shared.get(view.name, ())) for view in views)
    beside = [*[hot.placed(stage, partitions) for stage in rows[: len(views)]], *rows[len(views) :]]
    joined = placed.then_with(beside, partial(_JoinHere, here), _with_views(left.kind, kinds))
    return replace(joined, shared={**joined.shared, **shared})


def placed_by(left: Stage, on: tuple[str, ...], partitions: int, name: str, hot: HotKeys = NONE_HOT) -> Stage:
    """Return impressions that lie by a key, in partitions of which several share a ``hot`` key."""
    if left.lies_by(on, partitions) and not hot.keys:
        return left
    by = on if not hot.keys else ()
    place = partial(_place_of_key, on, hot, partitions)
    return Stage(Shuffle((left,), (place,), partitions, as_they_are, name, by), left.kind)


def _rows_of(joins: Sequence[Join], partitions: int) -> list[Stage]:
    """Return the rows of views, and the snapshots of each snapshot view in every place."""
    frames = [join.ready() for join in joins]
    to_each = F.explode(F.sequence(F.lit(0).cast("bigint"), F.lit(partitions - 1).cast("bigint"))).alias(PLACE)
    snapshots = [
        frame.select(EVENT, KNOWN).distinct().select("*", to_each)
        for join, frame in zip(joins, frames, strict=True)
        if join.how.snapshot
    ]
    return [Stage.of(frame) for frame in (*frames, *snapshots)]


def join_by_broadcast(left: Stage, joins: Sequence[Join]) -> Stage:
    """Add a struct for each view, whose rows every task gets. Moves no impressions. Runs a Spark job for the rows."""
    small = SmallViews.of(joins)
    return reduce(small.join, [join.how.name for join in joins], left)


def _with_views(kind: StructType, views: Mapping[str, StructType]) -> StructType:
    return StructType([*kind, *[StructField(name, of) for name, of in views.items()]])


@dataclass(frozen=True, slots=True)
class _JoinHere:
    """Joins views whose rows lie beside the impressions, batch by batch. Runs on an executor.

    The tables of ``number`` are the rows of each view, and the snapshots of each snapshot view.
    """

    views: tuple[AsOf, ...]
    number: int

    def __call__(self, items: Iterable[Item]) -> Iterator[Item]:
        counts = Counts()
        views: Sequence[ViewRows] = ()
        for item in items:
            if isinstance(item, SideTables) and item.number == self.number:
                views = self._sorted(item.tables, counts)
            elif isinstance(item, pa.RecordBatch):
                rows = pa.Table.from_batches([item])
                yield from with_views(rows, [Matches.among(rows, view, counts) for view in views])
            else:
                yield item
        yield counts

    def _sorted(self, tables: Sequence[pa.Table], counts: Counts) -> list[ViewRows]:
        snapshots = iter(tables[len(self.views) :])
        known = [Snapshots.of(how, next(snapshots)) if how.snapshot else None for how in self.views]
        each = zip(self.views, tables, known, strict=False)
        return [ViewRows.of(how, table, snapshots, counts) for how, table, snapshots in each]


@dataclass(frozen=True, slots=True)
class Matches:
    """The row of a view that each of some impressions sees, or -1, and the times of the impressions."""

    view: ViewRows
    rows: Integers
    times: Integers

    @classmethod
    def among(cls, impressions: pa.Table, view: ViewRows, counts: Counts | None = None) -> Matches:
        """Find the rows. Runs on executors. ``counts`` receives the matches, unless None."""
        times = integers(pc.struct_field(whole(impressions[IMPRESSION]), "impression_time"))
        keys = key_among(impressions, view.how.on)
        if keys.type != view.keys.type:
            keys, view = keys.cast(pa.string()), replace(view, keys=view.keys.cast(pa.string()))
        found = view.match(keys, times)
        if counts is not None:
            view.count(keys.null_count, found, times, counts)
        return cls(view, found, times)


def with_views(
    rows: pa.Table, found: Sequence[Matches], only: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Add the structs of views to impressions, with ``only`` some of their columns. Runs on executors.

    A row of a view may be wide, and many impressions see it, so that the batches are cut by their size.
    """
    each = sum(one.view.bytes_of_a_row for one in found)
    most = max(1, min(BATCH, _BYTES_OF_A_BATCH // (each + 1)))
    for start in range(0, rows.num_rows, most):
        some, here = rows.slice(start, most), slice(start, start + most)
        for one in found:
            some = some.append_column(one.view.how.name, one.view.structs(one.rows[here], one.times[here], only))
        yield from some.combine_chunks().to_batches()


def key_among(rows: pa.Table, on: Sequence[str]) -> pa.Array:
    """Return the key of each row, from its impression and the views that are joined already. Null if a part is null.

    See :func:`ctr_samples.sparksql.columns.joint_key`.
    """
    parts = [_part(rows, part) for part in on]
    if len(parts) == 1:
        return parts[0]
    texts = [part.cast(pa.string()) for part in parts]
    lengths = [_lengths(text).cast(pa.string()) for text in texts[:-1]]
    pieces = [piece for length, text in zip(lengths, texts, strict=False) for piece in (length, ":", text)]
    return whole(pc.binary_join_element_wise(*pieces, texts[-1], ""))


def _lengths(text: pa.Array) -> pa.Array:
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(
            [None if one is None else _length(one) for one in text.cast(pa.binary()).to_pylist()], pa.int32()
        )
    return pc.utf8_length(text)


def _length(text: bytes) -> int:
    try:
        return len(text.decode())
    except UnicodeDecodeError:
        return -len(text)


def _part(rows: pa.Table, part: str) -> pa.Array:
    first, *fields = part.split(".") if "." in part else (IMPRESSION, part)
    column = reduce(_field, fields, whole(rows[first]))
    return column.cast(pa.int64()) if pa.types.is_integer(column.type) else column


def _field(struct: pa.Array, name: str) -> pa.Array:
    """Return a field of a struct, by its name in any case."""
    return pc.struct_field(struct, [[one.lower() for one in struct.type.names].index(name.lower())])


def _place_of_key(on: Sequence[str], hot: HotKeys, partitions: int, batch: pa.RecordBatch) -> Integers:
    """Place impressions by the key of a view; those without the key by their id. Runs on executors."""
    rows = pa.Table.from_batches([batch])
    ids = integers(pc.struct_field(whole(rows[IMPRESSION]), "impression_id"))
    keys = key_among(rows, on).cast(pa.string())
    places = hot.spread(place_of_texts([keys]), keys, ids, partitions)
    return np.where(there(keys), places, ids)


@dataclass(slots=True)
class _Blocks:
    """Blocks of small views, with the number of the view, and the sorted rows once they were made."""

    blocks: list[tuple[int, bytes]]
    ready: Mapping[str, ViewRows] | None = None


@dataclass(frozen=True, slots=True)
class SmallViews:
    """Views whose rows every task has. Pickled for executors, which fetch the rows once for each Python worker."""

    views: tuple[AsOf, ...]
    kinds: tuple[pa.Schema, ...]
    structs: Mapping[str, StructType]
    blocks: Broadcast[_Blocks]

    @classmethod
    def of(cls, joins: Sequence[Join]) -> SmallViews:
        """Read the rows of views, in one Spark job."""
        frames = [join.ready().withColumn(PLACE, F.lit(0).cast("bigint")) for join in joins]
        kinds = tuple(in_arrow(frame.schema) for frame in frames)
        cut = [Stage.of(frame).blocks(number, 1) for number, frame in enumerate(frames)]
        every = reduce(DataFrame.unionByName, cut)
        blocks = [(row["frame"], bytes(row["block"])) for row in every.select("frame", "block").collect()]
        broadcast = every.sparkSession.sparkContext.broadcast(_Blocks(blocks))
        structs = {join.how.name: join.kind for join in joins}
        return cls(tuple(join.how for join in joins), kinds, structs, broadcast)

    def join(self, left: Stage, view: str, only: Collection[str] | None = None) -> Stage:
        """Add the struct of a view. ``only`` has the columns that a later step needs; matches are not counted then."""
        kind = self.structs[view]
        if only is not None:
            kind = StructType([field for field in kind if field.name in {*only, "age_s", "matched"}])
        return left.counted(partial(self._joined, view, only), _with_views(left.kind, {view: kind}))

    def _joined(
        self, view: str, only: Collection[str] | None, rows: pa.RecordBatch, counts: Counts
    ) -> Iterator[pa.RecordBatch]:
        """Add the struct of a view to a batch. Runs on executors."""
        impressions = pa.Table.from_batches([rows])
        found = Matches.among(impressions, self.rows()[view], counts if only is None else None)
        return with_views(impressions, [found], only)

    def irregular(self) -> Counts:
        """Return the counts of the irregular rows of the views. Runs on the driver."""
        counts = Counts()
        for number, how in enumerate(self.views):
            ViewRows.of(how, self._table(number), counts=counts)
        return counts

    def _table(self, number: int) -> pa.Table:
        blocks = [rows_of(pa.py_buffer(block)) for of, block in self.blocks.value.blocks if of == number]
        return pa.Table.from_batches(blocks) if blocks else self.kinds[number].empty_table()

    def rows(self) -> Mapping[str, ViewRows]:
        """Return the rows of each view, sorted once in each Python worker. Runs on executors."""
        blocks = self.blocks.value
        if blocks.ready is None:
            blocks.ready = {how.name: ViewRows.of(how, self._table(n)) for n, how in enumerate(self.views)}
        return blocks.ready

"""Stages: frames brought together by key, and steps in Python that Spark runs in one pass. Lazy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from ctr_samples.errors import InputError
from ctr_samples.samples.columnar.blocks import BLOCK, KEY, PLACE, Counts, Gather, Item, Place, Scatter, Task
from ctr_samples.samples.columnar.columns import batches, integers, there, usual
from ctr_samples.sparksql.columns import INTEGERS, quoted
from ctr_samples.sparksql.observations import Observations
from ctr_samples.sparksql.releases import arrow_schema

Step = Callable[[Iterable[Item]], Iterator[Item]]

Fields = Mapping[str, Collection[str] | None]
"""Struct columns and some of their fields. None, or no entry, stands for all fields."""

_COUNTED = "_counted"


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Rows of several stages that one shuffle of blocks brings together by their places, for a task on each partition.

    ``places`` has, for each stage, the column with the place of a row, or what returns the places of a batch: any two rows
    with equal places meet in one task. ``task`` gets the rows of a partition as one table for each stage. The sizes of the
    partitions are counted under ``name``, if given.

    ``by`` has the key of impressions in whose :func:`place_of` rows lie, if there is one: rows of other frames that are
    placed by it can come :meth:`along` in the same shuffle, for later steps. ``beside`` has the number of stages for each
    such step. Raises InputError for a column that Spark cannot hand over to Python.
    """

    stages: tuple[Stage, ...]
    places: tuple[Place, ...]
    partitions: int
    task: Task
    name: str | None = None
    by: tuple[str, ...] = ()
    beside: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for stage in self.stages:
            in_arrow(stage.kind)

    def along(self, stages: Sequence[Stage]) -> Shuffle:
        """Let the rows of other stages, which have the column of places, come along for the next step."""
        places = (*self.places, *[PLACE] * len(stages))
        return replace(self, stages=(*self.stages, *stages), places=places, beside=(*self.beside, len(stages)))

    def frame(self) -> DataFrame:
        """Return the blocks."""
        pairs = zip(self.stages, self.places, strict=True)
        cut = [stage.blocks(number, self.partitions, place) for number, (stage, place) in enumerate(pairs)]
        return reduce(DataFrame.unionByName, cut).repartition(self.partitions, F.col(KEY))

    def gather(self) -> Gather:
        """Return the step that reads the blocks."""
        return Gather(self.task, [in_arrow(stage.kind) for stage in self.stages], self.name, self.beside)


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows of a frame after steps in Python, which follow each other in one task. ``kind`` is the type of the rows.

    The ``shared`` fields of structs are numbers of rows of a view
    (:meth:`~ctr_samples.samples.columnar.columns.Picked.shared`). Only
    :func:`~ctr_samples.samples.columnar.aside.with_columns` can take such rows out of Python.
    """

    source: DataFrame | Shuffle
    kind: StructType
    steps: tuple[Step, ...] = ()
    shared: Mapping[str, Collection[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: DataFrame) -> Stage:
        """Return the rows of a frame, unchanged."""
        return cls(frame, frame.schema)

    def then(self, step: Step, kind: StructType) -> Stage:
        """Return the rows after another step, which runs on executors."""
        return replace(self, kind=kind, steps=(*self.steps, step))

    def lies_by(self, key: tuple[str, ...], partitions: int) -> bool:
        """Whether impressions with equal keys lie in one of the partitions, in the place of the key's text."""
        return isinstance(self.source, Shuffle) and (self.source.by, self.source.partitions) == (key, partitions)

    def then_with(self, stages: Sequence[Stage], step: Callable[[int], Step], kind: StructType) -> Stage:
        """Return the rows after a step that also gets the rows of other stages, which come along in the last shuffle.

        ``step`` gets the number of its :class:`SideTables`.
        """
        assert isinstance(self.source, Shuffle), "rows come along in a shuffle"
        source = self.source.along(stages)
        return replace(self, source=source, kind=kind, steps=(*self.steps, step(len(source.beside) - 1)))

    def each(self, change: Callable[[pa.RecordBatch], pa.RecordBatch], kind: StructType) -> Stage:
        """Return the rows after a change to each batch, which runs on executors."""
        return self.then(partial(_each, change), kind)

    def counted(self, change: Callable[[pa.RecordBatch, Counts], Iterable[pa.RecordBatch]], kind: StructType) -> Stage:
        """Return the rows after a change to each batch, which runs on executors and counts rows of its task."""
        return self.then(partial(_counted, change), kind)

    def with_fields(self, fields: Fields) -> Stage:
        """Return the rows with only some fields of some struct columns."""
        kind = narrowed(self.kind, fields)
        if kind == self.kind:
            return self
        left = {name: [one for one in some if _is_left(one, fields.get(name))] for name, some in self.shared.items()}
        shared = {name: some for name, some in left.items() if some}
        return replace(self.each(partial(with_fields, fields=fields), kind), shared=shared)

    def blocks(self, frame: int, partitions: int, place: Place = PLACE) -> DataFrame:
        """Return the rows as blocks, marked with the number of their ``frame``."""
        return self._mapped(Scatter(frame, partitions, place), BLOCK)

    def task(self, last: Step) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return what a task does with the rows of its partition, or with their blocks: all steps, and then a last one."""
        assert not self.shared, "shared fields stay in Python"
        first = (self.source.gather(),) if isinstance(self.source, Shuffle) else ()
        return _InOne((*first, *self.steps, last))

    def _mapped(self, last: Step, kind: StructType | str) -> DataFrame:
        if isinstance(self.source, Shuffle):
            return self.source.frame().mapInArrow(self.task(last), kind)
        rows, first = _packed(self.source)
        return rows.mapInArrow(replace(self, steps=(*first, *self.steps)).task(last), kind)

    def rows(self, counted: TaskCounts | None = None) -> DataFrame:
        """Return the rows as a frame. ``counted`` receives the counts of the tasks, once the frame was computed."""
        if isinstance(self.source, DataFrame) and not self.steps:
            return self.source
        if counted is None:
            return self._mapped(_without_counts, self.kind)
        kind = StructType([StructField(field.name, field.dataType) for field in self.kind]).add(_COUNTED, StringType())
        return counted.on(self._mapped(partial(_carriers, self.kind), kind))


class TaskCounts:
    """The counts of all tasks of a run, collected in its last stage. Lives on the driver."""

    def __init__(self, *, active: bool = True) -> None:
        self._observations = Observations(active=active)
        self._before = Counts()

    def include(self, counts: Counts) -> None:
        """Add what was counted before the stages run."""
        self._before.include(counts)

    def on(self, rows: DataFrame) -> DataFrame:
        """Collect the counts among rows, and return the rows without them."""
        observed = self._observations.on(rows, {"tasks": {_COUNTED: F.collect_list(_COUNTED)}})
        return observed.where(F.col(_COUNTED).isNull()).drop(_COUNTED)

    def result(self) -> Counts:
        """Return the counts. Call it after the action."""
        every = Counts()
        every.include(self._before)
        for values in self._observations.values("tasks"):
            for text in values.get(_COUNTED, ()):
                every.include(Counts.from_json(text))
        return every


def as_they_are(tables: list[pa.Table], counts: Counts) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, as the task of a :class:`Shuffle` for later steps. Runs on executors."""
    return batches(tables.pop())


def place_of(parts: Sequence[Column]) -> Column:
    """Return the place of a key: a hash of its parts as text, so that keys of different types meet. See
    :func:`~ctr_samples.samples.columnar.columns.place_of_texts`.
    """
    return F.xxhash64(*[part.cast("string") for part in parts])


def in_arrow(kind: StructType) -> pa.Schema:
    """Return the Arrow schema of rows. Raises InputError for a column that Spark cannot hand over to Python."""
    try:
        return arrow_schema(kind)
    except PySparkTypeError:
        name, what = next(_unknown(kind))
        raise InputError(
            f"The column {name} is {what.simpleString()}, which Spark cannot hand over to Python; leave it out, or cast it, "
            "for example to text."
        ) from None


def _unknown(kind: StructType) -> Iterator[tuple[str, DataType]]:
    """Yield the columns, or the fields of struct columns, that have no Arrow type."""
    for column in kind:
        if isinstance(column.dataType, StructType):
            yield from _unknown(column.dataType)
            continue
        try:
            arrow_schema(StructType([column]))
        except PySparkTypeError:
            yield column.name, column.dataType


@dataclass(frozen=True, slots=True)
class _InOne:
    """Runs several steps in one task."""

    steps: tuple[Step, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return reduce(lambda items, step: step(items), self.steps, usual(batches))


_PACKED = "_integers"


def _packed(rows: DataFrame) -> tuple[DataFrame, list[Step]]:
    """Return rows with all integers in one list, and the step that makes columns of them again, if there are several.

    After each row that it hands over, Spark computes the size of each column, which takes longer than writing the row.
    """
    kinds = arrow_schema(StructType([field for field in rows.schema if isinstance(field.dataType, INTEGERS)]))
    if len(kinds) < 2:
        return rows, []
    others = [quoted(name) for name in rows.columns if name not in kinds.names]
    numbers = F.array(*[F.col(quoted(name)).cast("bigint") for name in kinds.names])
    return rows.select(*others, numbers.alias(_PACKED)), [partial(_unpacked, rows.columns, kinds)]


def _unpacked(names: Sequence[str], kinds: pa.Schema, items: Iterable[Item]) -> Iterator[Item]:
    """Make columns of :func:`_packed` integers. Runs on executors."""
    for rows in items:
        assert isinstance(rows, pa.RecordBatch)
        values = rows.column(_PACKED).flatten()
        numbers = integers(values).reshape(-1, len(kinds))
        absent = ~there(values).reshape(-1, len(kinds)) if values.null_count else None
        columns = {name: rows.column(name) for name in rows.schema.names} | {
            kind.name: pa.array(numbers[:, place], kind.type, mask=None if absent is None else absent[:, place])
            for place, kind in enumerate(kinds)
        }
        yield pa.RecordBatch.from_arrays([columns[name] for name in names], list(names))


def narrowed(kind: StructType, fields: Fields) -> StructType:
    """Return the type of rows with only some fields of some struct columns. A struct without any is left out."""
    return StructType([left for field in kind for left in _narrowed(field, fields.get(field.name))])


def _narrowed(field: StructField, names: Collection[str] | None) -> list[StructField]:
    if names is None:
        return [field]
    assert isinstance(field.dataType, StructType)
    kept = [one for one in field.dataType if _is_left(one.name, names)]
    return [StructField(field.name, StructType(kept), field.nullable)] if kept else []


def _each(change: Callable[[pa.RecordBatch], pa.RecordBatch], items: Iterable[Item]) -> Iterator[Item]:
    """Change each batch, and pass counts on."""
    return (change(item) if isinstance(item, pa.RecordBatch) else item for item in items)


def _counted(
    change: Callable[[pa.RecordBatch, Counts], Iterable[pa.RecordBatch]], items: Iterable[Item]
) -> Iterator[Item]:
    """Change each batch, pass counts on, and yield those of the task."""
    counts = Counts()
    for item in items:
        if isinstance(item, pa.RecordBatch):
            yield from change(item, counts)
        else:
            yield item
    yield counts


def with_fields(rows: pa.RecordBatch, fields: Fields) -> pa.RecordBatch:
    """Return the rows of :func:`narrowed`. Runs on executors."""
    columns = {name: _with_fields(rows.column(name), fields.get(name)) for name in rows.schema.names}
    return pa.RecordBatch.from_pydict({name: column for name, column in columns.items() if column is not None})


def _with_fields(column: pa.Array, names: Collection[str] | None) -> pa.Array | None:
    if names is None:
        return column
    kept = [name for name in column.type.names if _is_left(name, names)]
    return pa.StructArray.from_arrays([pc.struct_field(column, [name]) for name in kept], kept) if kept else None


def _is_left(name: str, names: Collection[str] | None) -> bool:
    return names is None or name.lower() in {one.lower() for one in names}


def _without_counts(items: Iterable[Item]) -> Iterator[Item]:
    return (item for item in items if isinstance(item, pa.RecordBatch))


def _carriers(kind: StructType, items: Iterable[Item]) -> Iterator[pa.RecordBatch]:
    """Add a column for counts, and a last row without other values for the counts of the task."""
    names, counts = [*kind.names, _COUNTED], Counts()
    # Spark wants batches of one type, and it may write times in a zone of its own.
    types = [field.type for field in arrow_schema(kind)]
    for item in items:
        if isinstance(item, Counts):
            counts.include(item)
        elif isinstance(item, pa.RecordBatch):
            types = [column.type for column in item.columns]
            yield pa.RecordBatch.from_arrays([*item.columns, pa.nulls(item.num_rows, pa.string())], names)
    nothing = [pa.nulls(1, one) for one in types]
    yield pa.RecordBatch.from_arrays([*nothing, pa.array([counts.to_json()])], names)

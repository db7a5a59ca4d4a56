"""Convert a directory of images to a published table. Runs on the driver; one Spark job reads each image once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as PrintedTable
from rich.text import Text

from ctr_samples.converters.images.folders import ImageFolders, find_folders
from ctr_samples.converters.images.tasks import FIRST, SPLIT, ImageTask, Tally
from ctr_samples.errors import AccountingError, InputError, UsageError
from ctr_samples.shards import Receipt, Table, TableManifest, check_receipts, open_storage
from ctr_samples.shards.naming import MANIFESTS_OF_TABLE, generation_name
from ctr_samples.sparksql.failures import expected_errors
from ctr_samples.sparksql.observations import Progress
from ctr_samples.sparksql.session import make_active, run_session
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.writing import WritePlan, commit, new_run_id, plan_writing

_SHOWN = 20
"""Maximum number of classes to print."""

Unreadable = Literal["fail", "skip"]
Mode = Literal["errorifexists", "overwrite"]

_RECORD = StructType(
    [
        StructField("image", BinaryType()),
        *[StructField(name, LongType()) for name in ("height", "width", "depth", "label")],
        *[StructField(name, StringType()) for name in ("label_name", "path", "key")],
    ]
)


@dataclass(frozen=True, slots=True)
class ImageReport:
    """The result of a run. ``classes`` maps each class, in order of label ids, to its numbers of train and validation
    images.

    ``unreadable`` counts skipped files, ``first`` lists a few of them with the reason, and ``beside`` lists files
    outside the class folders.
    """

    output: str
    generation: int
    manifest: str
    classes: Mapping[str, tuple[int, int]]
    shards: int
    unreadable: int
    first: tuple[tuple[str, str], ...]
    beside: tuple[str, ...]

    @property
    def images(self) -> int:
        """Number of records in both splits."""
        return sum(map(sum, self.classes.values()))

    def render(self) -> RenderableType:
        """Render the summary for stderr."""
        headline = Text.assemble(
            ("Published ", "bold green"),
            (f"{self.images:,} images", "bold"),
            f" of {len(self.classes):,} classes in {self.shards:,} shard(s) to {self.output}, generation {self.generation}",
        )
        lines = []
        if self.unreadable:
            lines.append(f"{self.unreadable:,} file(s) cannot be read and were skipped, such as")
            lines += [f"  {path} {reason}" for path, reason in self.first]
        if self.beside:
            lines.append(
                f"{len(self.beside):,} file(s) are in no class folder and were skipped, such as {self.beside[0]}"
            )
        return Group("", headline, self._classes(), *map(Text, lines))

    def _classes(self) -> PrintedTable:
        table = PrintedTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("label", "class", "train", "validation"):
            table.add_column(heading, justify="left" if heading == "class" else "right")
        for label, (name, counts) in enumerate(list(self.classes.items())[:_SHOWN]):
            table.add_row(str(label), Text(name), *(f"{count:,}" for count in counts))
        if len(self.classes) > _SHOWN:
            table.add_row("", f"… and {len(self.classes) - _SHOWN:,} more", "", "")
        train, validation = map(sum, zip(*self.classes.values(), strict=True))
        table.add_row("", "all", f"{train:,}", f"{validation:,}")
        return table


def write_images(
    spark: SparkSession,
    path: str,
    output: str,
    *,
    validation: float = 0.1,
    unreadable: Unreadable = "fail",
    max_unreadable_rate: float = 0.01,
    mode: Mode = "errorifexists",
    shard_size: int = 128 * 2**20,
    progress: Progress | None = None,
) -> ImageReport:
    """Write ``path/CLASS/IMAGE`` as records with the file's bytes, size and class, in two partitions by ``split``.

    A file that is not a complete JPEG or PNG fails the run. With ``unreadable="skip"`` it is skipped, as long as such
    files are at most ``max_unreadable_rate`` of all files. An image's bytes determine its split and its position in the
    split. Class names are stored in the manifest, in the metadata of the column ``label``. Raises InputError for
    invalid input, AccountingError for counts that do not balance, and the errors of :meth:`Table.commit`. Nothing is
    published then.
    """
    _check_arguments(validation, max_unreadable_rate)
    session = run_session(spark, "UTC")
    # By default each file counts as 4 MiB of work, so thirty thumbnails would fill a task.
    session.conf.set("spark.sql.files.openCostInBytes", str(64 << 10))
    try:
        with expected_errors():
            folders = find_folders(session, path)
            plan = _plan(folders, output, mode, shard_size)
            allowed = max_unreadable_rate if unreadable == "skip" else 0.0
            _check_unreadable(folders, len(folders.refused), folders.refused, allowed)
            return _write(session, folders, plan, validation, allowed, progress or Progress.of(session))
    finally:
        make_active(spark)


def _check_arguments(validation: float, max_unreadable_rate: float) -> None:
    if find_spec("PIL") is None:
        raise UsageError("Reading images needs Pillow, which is not installed; run `pip install ctr-samples[images]`.")
    for name, value in (("validation", validation), ("max_unreadable_rate", max_unreadable_rate)):
        if not 0 <= value < 1:
            raise UsageError(f"{name} is {value:g}; expected a share from 0 up to, but not including, 1.")


def _plan(folders: ImageFolders, output: str, mode: Mode, shard_size: int) -> WritePlan:
    storage = open_storage(output)
    url = f"file:{storage.url}" if storage.url.startswith("/") else storage.url
    if f"{url}/".startswith(f"{folders.url}/"):
        raise UsageError(f"{output} is inside {folders.root}, where it would be a class; write to another directory.")
    if mode == "errorifexists" and Table(storage).current() is not None:
        raise InputError(f"{output} exists already; choose another directory, or the mode overwrite.")
    options = Options(
        (output,),
        shard_size=shard_size,
        partition_columns=StructType([StructField(SPLIT, StringType())]),
        first_write=mode == "errorifexists",
    )
    schema = StructType([*_RECORD, StructField(SPLIT, StringType())])
    plan = plan_writing(options, schema, "overwrite" if mode == "overwrite" else "append")
    return replace(plan, schema=_with_names(plan.schema, list(folders.classes)))


def _with_names(schema: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Add the class name of each label id to the manifest's schema."""
    fields = [{**f, "metadata": {"names": names}} if f["name"] == "label" else f for f in schema["fields"]]
    return {**schema, "fields": fields}


def _write(
    spark: SparkSession,
    folders: ImageFolders,
    plan: WritePlan,
    validation: float,
    allowed: float,
    progress: Progress,
) -> ImageReport:
    labels = {name: label for label, name in enumerate(folders.classes)}
    partitions = max(1, math.ceil(folders.bytes / plan.shard_size))
    task = ImageTask(plan, labels, validation, progress)
    rows = _in_final_order(folders.files, partitions).mapInArrow(task, "receipt string, tally string").collect()
    receipts = [Receipt.from_json(row["receipt"]) for row in rows]
    check_receipts(receipts, partitions)
    tally = _merged(folders, [Tally.from_json(row["tally"]) for row in rows])
    _check_all_seen(folders, tally)
    _check_unreadable(folders, tally.unreadable, tally.first, allowed)
    _check_classes(folders, tally)
    shards = tuple(shard for receipt in receipts for shard in receipt.shards)
    return _report(Table(plan.storage), commit(plan, new_run_id(), shards), folders, tally)


def _in_final_order(files: DataFrame, partitions: int) -> DataFrame:
    """Distribute and sort images by the hash of their bytes. The order is the same on every run and mixes the classes
    well.
    """
    keyed = files.select("path", F.sha2("content", 256).alias("key"), "content")
    return keyed.repartition(partitions, "key").sortWithinPartitions("key", "path")


def _merged(folders: ImageFolders, tallies: Sequence[Tally]) -> Tally:
    """Sum the counts of all tasks, plus the refused files, which no task reads."""
    whole = Tally({name: [0, 0] for name in folders.classes}, len(folders.refused), list(folders.refused))
    for tally in tallies:
        for name, counts in tally.classes.items():
            whole.classes[name] = [a + b for a, b in zip(whole.classes[name], counts, strict=True)]
        whole.unreadable += tally.unreadable
        whole.first += tally.first
    whole.first.sort()
    return whole


def _check_all_seen(folders: ImageFolders, tally: Tally) -> None:
    written = sum(map(sum, tally.classes.values()))
    if written + tally.unreadable != folders.count:
        raise AccountingError(
            f"{folders.root} has {folders.count:,} files, but {written:,} were written and {tally.unreadable:,} cannot be "
            "read; nothing was published. Run again when no one changes the directory."
        )


def _check_unreadable(folders: ImageFolders, count: int, first: Sequence[tuple[str, str]], allowed: float) -> None:
    if count > allowed * folders.count:
        some = "; ".join(f"{path} {reason}" for path, reason in first[:FIRST])
        raise InputError(
            f"{folders.root}: {count:,} of {folders.count:,} files cannot be read as images, more than the "
            f"{allowed:.2%} that may be skipped: {some}. Correct or remove them, or allow more to be skipped."
        )


def _check_classes(folders: ImageFolders, tally: Tally) -> None:
    for name, counts in tally.classes.items():
        if not any(counts):
            raise InputError(
                f"{folders.root}: the class folder {name} has no image that can be read; fill it, or remove it."
            )


def _report(table: Table, published: TableManifest, folders: ImageFolders, tally: Tally) -> ImageReport:
    location = table.storage.locate(f"{MANIFESTS_OF_TABLE}/{generation_name(published.generation)}")
    return ImageReport(
        output=table.storage.url,
        generation=published.generation,
        manifest=location,
        classes={name: cast(tuple[int, int], tuple(counts)) for name, counts in tally.classes.items()},
        shards=len(published.shards),
        unreadable=tally.unreadable,
        first=tuple(tally.first[:FIRST]),
        beside=folders.beside,
    )

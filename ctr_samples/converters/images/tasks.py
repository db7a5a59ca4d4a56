"""Code that runs in each task: decode its images once, write the complete images, count the unreadable files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

import pyarrow as pa

from ctr_samples.shards import ShardWriter
from ctr_samples.sparksql.observations import Progress
from ctr_samples.tfrecord.partitions import directory_of
from ctr_samples.tfrecord.writing import WritePlan

TRAIN, VALIDATION = "train", "validation"
SPLIT = "split"
"""Partition column of the table."""
FIRST = 5
"""Maximum number of unreadable images that a task reports with the reason."""


@dataclass(slots=True)
class Tally:
    """The image counts of one task: train and validation images per class, and unreadable images."""

    classes: dict[str, list[int]] = field(default_factory=dict)
    unreadable: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, split: str) -> None:
        """Count a written image."""
        self.classes.setdefault(name, [0, 0])[split == VALIDATION] += 1

    def refuse(self, path: str, reason: str) -> None:
        """Count an unreadable image."""
        self.unreadable += 1
        if len(self.first) < FIRST:
            self.first.append((path, reason))

    def to_json(self) -> str:
        """Serialize to one line that :meth:`from_json` reads back."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the output of :meth:`to_json`."""
        tally = cls(**json.loads(text))
        tally.first = [(path, reason) for path, reason in tally.first]
        return tally


def split_of(key: str, validation: float) -> str:
    """Return the split for a sha256. Identical images get the same split, however often and wherever they occur."""
    return VALIDATION if int(key[:16], 16) < validation * 2**64 else TRAIN


@dataclass(frozen=True, slots=True)
class ImageTask:
    """Writes one partition of ``path``, ``key``, ``content``. Runs on an executor, once per attempt.

    Any error except an unreadable image fails the attempt, and its open files stay invisible. Only results that reach
    the driver count.
    """

    plan: WritePlan
    labels: Mapping[str, int]
    validation: float
    progress: Progress

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows and yield one row, so that the receipt and the tally come from the same attempt."""
        tally = Tally()
        with self.plan.writer() as writer:
            for batch in batches:
                self._write(writer, batch, tally)
            receipt = writer.close()
        self.progress.samples.add(sum(shard.records for shard in receipt.shards))
        self.progress.shards.add(len(receipt.shards))
        yield pa.RecordBatch.from_pydict({"receipt": [receipt.to_json()], "tally": [tally.to_json()]})

    def _write(self, writer: ShardWriter, batch: pa.RecordBatch, tally: Tally) -> None:
        from ctr_samples.converters.images.image_checks import UnreadableImage, size_of

        rows: dict[str, list[tuple[object, ...]]] = {TRAIN: [], VALIDATION: []}
        columns = (batch.column(name).to_pylist() for name in ("path", "key"))
        for i, (path, key) in enumerate(zip(*columns, strict=True)):
            name = path.split("/")[0]
            try:
                size = size_of(memoryview(batch.column("content")[i].as_buffer()))
            except UnreadableImage as error:
                tally.refuse(path, str(error))
                continue
            split = split_of(key, self.validation)
            rows[split].append((i, size.height, size.width, size.depth, self.labels[name], name, path, key))
            tally.add(name, split)
        for split, some in rows.items():
            if some:
                writer.write(_records(batch, some), directory_of((SPLIT,), (split,)))


def _records(batch: pa.RecordBatch, rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    """Return the columns of the record, in contract order."""
    indices, *values = zip(*rows, strict=True)
    columns = {"image": batch.column("content").take(pa.array(indices))}
    for name, column in zip(("height", "width", "depth", "label", "label_name", "path", "key"), values, strict=True):
        columns[name] = pa.array(column)
    return pa.RecordBatch.from_pydict(columns)

"""The reader for streaming queries. Reads each file, and each shard added to a table, once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from ctr_samples.errors import InputError
from ctr_samples.tfrecord.catalog import find
from ctr_samples.tfrecord.files import DataFile
from ctr_samples.tfrecord.options import Options
from ctr_samples.tfrecord.reading import TfrecordReader
from ctr_samples.tfrecord.settings import Packing


class TfrecordStreamReader(DataSourceStreamReader):
    """Reads new files at the paths. Lives in a separate process as long as the query; copies of it read in tasks.

    An offset lists every file returned so far, so that a query restarted from its checkpoint continues where it
    stopped. As with Spark's own file sources, a file replaced under the same name is not read again.
    """

    def __init__(self, options: Options, schema: StructType, packing: Packing) -> None:
        """Check the schema. Raises ContractError, naming the first column that records cannot provide."""
        self._options = options
        self._schema = schema
        self._packing = packing
        self._reader = self._look()
        self._last: frozenset[str] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before the first file."""
        return {"files": []}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the option ``maxFilesPerTrigger`` as a limit. Called by Spark since 4.2."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

        most = self._options.max_files
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """Return the offset with all existing files. Before 4.2, Spark passes neither the batch's start offset nor a
        limit.
        """
        given = list(start["files"]) if start else []
        known = set(given)
        new = [place for place in self._there() if place not in known and (self._last is None or place in self._last)]
        return {"files": given + new[: getattr(limit, "max_files", None)]}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Limit a query with the trigger AvailableNow to the files that exist now."""
        self._last = frozenset(self._there())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan tasks for the files between two offsets. Raises InputError if a file is gone."""
        known = set(start["files"])
        there = self._there()
        wanted = [place for place in end["files"] if place not in known]
        gone = [place for place in wanted if place not in there]
        if gone:
            raise InputError(
                f"{len(gone)} file(s) that the stream planned to read are gone, such as {gone[0]}; restore them, or start the "
                "stream with a new checkpoint."
            )
        return self._reader.tasks_of([there[place] for place in wanted])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Decode the files of a task. Runs on an executor, once per attempt."""
        return self._reader.read(partition)

    def _there(self) -> dict[str, DataFile]:
        return {file.location: file for file in self._look().files}

    def _look(self) -> TfrecordReader:
        return TfrecordReader(find(self._options), self._schema, self._options, self._packing)


with suppress(ImportError):  # Spark 4.2
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

    SupportsTriggerAvailableNow.register(TfrecordStreamReader)

"""What the faults are tried on: the nightly job into a day's directory, and the format tfrecord into a table, also by a stream.

Each has a first generation; a second run meets the faults.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from ctr_samples.config import LoadedConfig, load_config
from ctr_samples.job import run as job
from tests.faults.published_day import check_whole_day, generations
from tests.faults.rows_to_append import FIRST, SECOND, append
from tests.faults.rows_to_stream import BATCHES, add_file, stream
from tests.faults.shard_files import Shards, hashes_of_files, manifests_in, numbers_in, orphans_in
from tests.support.fault_plan import Faults
from tests.support.known_day import DAY
from tests.support.project import PROJECT


class DisturbedOutput(Protocol):
    """A directory that is written into, and how to judge it."""

    path: Path
    faults: Faults

    @property
    def arguments(self) -> list[str]:
        """What spark-submit is given to write the second generation."""

    def write(self, spark: SparkSession) -> None:
        """Write the second generation in this process."""

    def check_still_first(self) -> None:
        """Readers see the first generation, whole."""

    def check_second(self) -> Shards:
        """Readers see the second generation, everything exactly once, and the first is intact. Gives the new shards."""

    def orphans(self) -> list[tuple[int, int]]:
        """Partition and attempt of each complete shard that no manifest names."""


class DisturbedDay:
    """A day of the nightly job; both generations have the same samples."""

    def __init__(self, path: Path, config: Path) -> None:
        self.path, self.config, self.faults = path, config, Faults(path)
        self._files = hashes_of_files(path)
        self._first = generations(path)[1]

    @property
    def loaded(self) -> LoadedConfig:
        return load_config(self.config, [f"output.path={self.path}"])

    @property
    def arguments(self) -> list[str]:
        job = [str(PROJECT / "jobs/generate_samples.py"), "--config", str(self.config), "--date", DAY.isoformat()]
        return [*job, "--force", "--set", f"output.path={self.path}"]

    def write(self, spark: SparkSession) -> None:
        job.run(spark, self.loaded, DAY, force=True)

    def check_still_first(self) -> None:
        assert check_whole_day(self.path, generation=1) == self._first
        assert self._files.items() <= hashes_of_files(self.path).items()

    def check_second(self) -> Shards:
        second = check_whole_day(self.path, generation=2)
        assert second["run_id"] != self._first["run_id"]
        assert _contents(second) == _contents(self._first)
        assert self._files.items() <= hashes_of_files(self.path).items()
        return list(second["shards"])

    def orphans(self) -> list[tuple[int, int]]:
        return orphans_in(self.path, generations(self.path).values())


class DisturbedTable:
    """A table that rows are appended to."""

    def __init__(self, path: Path) -> None:
        self.path, self.faults = path, Faults(path)
        self._files = hashes_of_files(path)

    @property
    def arguments(self) -> list[str]:
        return [str(Path(__file__).with_name("rows_to_append.py")), str(self.path)]

    def write(self, spark: SparkSession) -> None:
        append(spark, self.path, SECOND)

    def check_still_first(self) -> None:
        assert sorted(self._manifests()) == [1]
        assert numbers_in(self.path, self._manifests()[1]["shards"]) == Counter(FIRST)
        assert self._files.items() <= hashes_of_files(self.path).items()

    def check_second(self) -> Shards:
        first, second = self._manifests()[1], self._manifests()[2]
        assert sorted(self._manifests()) == [1, 2]
        assert not second["complete"]  # it names what is new
        assert numbers_in(self.path, first["shards"] + second["shards"]) == Counter([*FIRST, *SECOND])
        assert self._files.items() <= hashes_of_files(self.path).items()
        return list(second["shards"])

    def orphans(self) -> list[tuple[int, int]]:
        return orphans_in(self.path, self._manifests().values())

    def _manifests(self) -> dict[int, dict[str, Any]]:
        return manifests_in(self.path / "_manifests")


class DisturbedStream:
    """A table that a stream writes into. It is at its second micro-batch; the second run has that one and a third."""

    def __init__(self, path: Path, spark: SparkSession) -> None:
        self.path, self.faults = path, Faults(path)
        self.files, self.checkpoint = path.with_name("files"), path.with_name("checkpoint")
        self.files.mkdir()
        add_file(self.files, 0)
        self.write(spark)
        add_file(self.files, 1)
        add_file(self.files, 2)
        self._first_files = hashes_of_files(path)

    @property
    def arguments(self) -> list[str]:
        script = str(Path(__file__).with_name("rows_to_stream.py"))
        return [script, str(self.files), str(self.path), str(self.checkpoint)]

    def write(self, spark: SparkSession) -> None:
        stream(spark, self.files, self.path, self.checkpoint)

    def check_still_first(self) -> None:
        self.check_batches(1)

    def check_second(self) -> Shards:
        self.check_batches(3)
        return [shard for number in (2, 3) for shard in self._manifests()[number]["shards"]]

    def check_batches(self, count: int) -> None:
        """Readers see so many micro-batches, each by one commit, every row exactly once."""
        assert sorted(self._manifests()) == list(range(1, count + 1))
        for number, manifest in self._manifests().items():
            assert manifest["complete"] is (number == 1)
            assert numbers_in(self.path, manifest["shards"]) == Counter(BATCHES[number - 1])
            assert list(manifest["streams"].values()) == [number - 1]
        assert self._first_files.items() <= hashes_of_files(self.path).items()

    def batches_that_spark_knows(self) -> set[int]:
        """Those whose end Spark has noted; it does not run them again."""
        return {int(note.name) for note in (self.checkpoint / "commits").iterdir() if note.name.isdigit()}

    def orphans(self) -> list[tuple[int, int]]:
        return orphans_in(self.path, self._manifests().values())

    def _manifests(self) -> dict[int, dict[str, Any]]:
        return manifests_in(self.path / "_manifests")


def _contents(manifest: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What is equal for two runs that wrote the same bytes."""
    return [(s["split"], s["partition"], s["records"], s["crc32c"]) for s in manifest["shards"]]

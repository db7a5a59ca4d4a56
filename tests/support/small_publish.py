"""The smallest publish that has everything, two partitions and two splits, as a day or as a table; and what readers see.

Partial results, whose readers are runs, are in ``small_state.py``.

Each run has a number from which all its rows follow, so that a reader can tell a whole run from a mixture.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from ctr_samples.codec import ExampleDecoder, RecordReader
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.crc32c import crc32c
from ctr_samples.descriptions import contract_json
from ctr_samples.errors import PublishConflict, PublishUnknown, StorageError
from ctr_samples.records.write import shard_writer
from ctr_samples.shards import DayOutput, Manifest, Receipt, Shard, Storage, check_receipts, latest_manifest, publish
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.naming import MANIFESTS_OF_TABLE, manifests_directory, run_directory
from ctr_samples.shards.table import Table, TableWrite
from tests.support.small_state import make_days, put_first, remove_days, repair_days, runs_of_state

DAY = date(2019, 6, 5)
RETENTION = Retention()
PARTITIONS = 2
KILLED_RUN = "20190606T010000-000000ff"
CONTRACT = ExampleContract((FeatureSpec("row", "int64"), FeatureSpec("clicked", "int64", role="label", nulls="fail")))
ROWS_OF_RUN_1 = [103, 100, 101, 102, 113, 110, 111, 112]
"""Partition 0 before 1, and in each eval (one row) before train (three)."""


def rows_of(run: int) -> list[int]:
    """The rows of a run in published order."""
    return [row + 100 * (run - 1) for row in ROWS_OF_RUN_1]


def run_name(run: int) -> str:
    """A run id that sorts by the run's number."""
    return f"20190606T020000-{run:08x}"


def publish_day(storage: Storage, run: int) -> None:
    """What a run does with a day's samples, by the objects that it uses, without Spark."""
    output = DayOutput.open(storage, DAY, "small", RETENTION)
    this_run = output.begin(datetime(2019, 6, 6, 2, tzinfo=UTC), f"{run:08x}")
    shards = this_run.shards(_receipts(storage, this_run.directory, run), PARTITIONS)
    this_run.write({"contract.json": contract_json(CONTRACT)})
    manifest = this_run.manifest(
        created_at="2019-06-06T02:00:00+00:00",
        fingerprint="",
        compression="none",
        contract={**CONTRACT.to_dict(), "fingerprint": CONTRACT.fingerprint},
        config={},
        inputs={},
        shards=shards,
        accounting={"impressions": 8, "samples": 8},
        views={},
        labels={},
        label_mature=True,
        versions={},
    )
    this_run.publish(manifest)


def by_another_run(manifest: Manifest, run: str, **changes: Any) -> Manifest:
    """A literal manifest as a run would have made it whose files are in its own directory of the day."""
    made = replace(manifest, run_id=run, **changes)
    directory, other = (run_directory(one.day, one.run_id) for one in (manifest, made))
    return replace(made, shards=tuple(replace(s, path=s.path.replace(directory, other)) for s in made.shards))


def publish_literal(storage: Storage, manifest: Manifest) -> None:
    """Publish a manifest whose shards need only be there."""
    put_shards(storage, manifest)
    publish(storage, manifest)


def put_shards(storage: Storage, manifest: Manifest) -> None:
    """Zeros in the place of the shards that a literal manifest names."""
    for shard in manifest.shards:
        with storage.new_file(shard.path) as file:
            file.write(bytes(shard.bytes))


def append(storage: Storage, run: int) -> None:
    """What Spark's data source does for one append."""
    _write_table(storage, run, "append")


def create(storage: Storage, run: int) -> None:
    """What ``write_tfrecord`` does for a table that is not to be there yet."""
    _write_table(storage, run, "create")


def create_or_append(storage: Storage, run: int) -> None:
    """What comes after a creation: another one, which a table that readers see must refuse; then its rows are appended."""
    seen = runs_of_table(storage)
    try:
        create(storage, run)
    except PublishConflict:
        assert seen
        append(storage, run)
    else:
        assert not seen


def overwrite(storage: Storage, run: int) -> None:
    """What Spark's data source does for one overwrite."""
    _write_table(storage, run, "overwrite")


def overwrite_partitions(storage: Storage, run: int) -> None:
    """What ``write_tfrecord`` does where only the partitions of the rows are replaced: here all that there are."""
    _write_table(storage, run, "overwrite_partitions")


def runs_of_day(storage: Storage) -> list[int]:
    """The run whose samples readers of the day see, if any; fails on anything that is not one whole run."""
    manifest = latest_manifest(storage, DAY)
    _check_contiguous(storage.names(manifests_directory(DAY)), manifest.generation if manifest else 0)
    if manifest is None:
        return []
    runs = _whole_runs(storage, manifest.shards)
    assert [run_name(run) for run in runs] == [manifest.run_id]
    return runs


def runs_of_table(storage: Storage) -> list[int]:
    """The runs whose rows readers of the table see, oldest first; fails on anything but whole runs."""
    manifest = Table(storage).current()
    names = [name for name in storage.names(MANIFESTS_OF_TABLE) if name.endswith(".json")]
    _check_contiguous(names, manifest.generation if manifest else 0)
    return _whole_runs(storage, manifest.shards) if manifest else []


@dataclass(frozen=True, slots=True)
class Scenario:
    """A publish to be disturbed: run 1 where ``before`` says so, then run 2, disturbed, then run 3 to see that it can.

    Run 3 is another such publish, if ``go_on`` does not say how it differs. ``after`` is what readers see once a run has
    published on top of what they saw. Unless it ``tells``, an error may mean either. ``writes`` are those of run 2.
    """

    publish: Callable[[Storage, int], None]
    runs_seen: Callable[[Storage], list[int]]
    after: Callable[[list[int], int], list[int]]
    before: bool = True
    go_on: Callable[[Storage, int], None] | None = None
    tells: bool = True
    writes: int = 7
    commits: tuple[str, ...] = ("link", "put")

    def prepare(self, storage: Storage) -> None:
        """Publish what stands there before."""
        if self.before:
            self.publish(storage, 1)
        if self.before and self.publish is publish_day:
            killed = f"{run_directory(DAY, KILLED_RUN)}/train/part-00000-9-0badf00d.tfrecord"
            storage.put_new(killed, b"for clean-up")
            if "://" not in storage.url:  # a bucket's times cannot be set
                os.utime(storage.locate(killed), (0, 0))

    @property
    def old(self) -> list[int]:
        """What readers see before run 2."""
        return [1] if self.before else []


def replaces(seen: list[int], run: int) -> list[int]:
    """A run takes the place of what readers saw."""
    return [run]


def adds(seen: list[int], run: int) -> list[int]:
    """A run is added to what readers saw."""
    return [*seen, run]


def fills(seen: list[int], run: int) -> list[int]:
    """A run makes what is missing up to its own day."""
    return [*range(1, run + 1)]


def empties(seen: list[int], run: int) -> list[int]:
    """Run 2 removes all; others make what is missing."""
    return [] if run == 2 else fills(seen, run)


SCENARIOS = {
    # Writes: two of the probe, four shards, the manifest; of a day the contract too.
    "first day": Scenario(publish_day, runs_of_day, replaces, before=False, writes=8),
    "day again": Scenario(publish_day, runs_of_day, replaces, writes=8),
    "create": Scenario(create, runs_of_table, adds, before=False, go_on=create_or_append),
    "first table": Scenario(append, runs_of_table, adds, before=False),
    "append": Scenario(append, runs_of_table, adds),
    "overwrite": Scenario(overwrite, runs_of_table, replaces),
    "overwrite partitions": Scenario(overwrite_partitions, runs_of_table, replaces),
    "partial": Scenario(make_days, runs_of_state, fills, tells=False, writes=3),
    "damaged partial": Scenario(repair_days, runs_of_state, fills, tells=False, writes=3),
    "old partial": Scenario(remove_days, runs_of_state, empties, tells=False, writes=0, commits=("unlink", "delete")),
}
CONTROLS = {"partial put first": replace(SCENARIOS["partial"], publish=put_first, go_on=make_days)}
"""Wrong ways, which must be seen to fail."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the publisher itself believes of run 2, and what it said."""

    published: bool | None
    message: str = ""

    def allowed(self, scenario: Scenario) -> list[list[int]]:
        """What readers may see if the publisher is right."""
        old, new = scenario.old, scenario.after(scenario.old, 2)
        return [old, new] if self.published is None else [new] if self.published else [old]


def outcome_of(scenario: Scenario, storage: Storage) -> Outcome:
    """Publish run 2 on a store that fails; other errors than these are not expected of that."""
    try:
        scenario.publish(storage, 2)
    except PublishUnknown as error:
        return Outcome(None, str(error))
    except StorageError as error:
        if not scenario.tells:
            return Outcome(None, str(error))
        return Outcome("is published and can be read, but is not marked with _SUCCESS" in str(error), str(error))
    return Outcome(True)


def check_and_go_on(scenario: Scenario, storage: Storage, allowed: list[list[int]]) -> list[int]:
    """Readers see one of ``allowed``, and the next run publishes on top of it; what they saw before that."""
    seen = scenario.runs_seen(storage)
    assert seen in allowed
    (scenario.go_on or scenario.publish)(storage, 3)
    assert scenario.runs_seen(storage) == scenario.after(seen, 3)
    return seen


def _write_table(storage: Storage, run: int, mode: Any) -> None:
    table = Table(storage)
    table.check_writable(run_name(run))
    shards = _written(storage, "", run)
    table.commit(TableWrite(run_name(run), mode, CONTRACT.record, shards, contract=CONTRACT.to_dict()))


def _written(storage: Storage, directory: str, run: int) -> tuple[Shard, ...]:
    receipts = _receipts(storage, directory, run)
    check_receipts(receipts, PARTITIONS)
    return tuple(shard for receipt in receipts for shard in receipt.shards)


def _receipts(storage: Storage, directory: str, run: int) -> list[Receipt]:
    receipts = []
    for partition in range(PARTITIONS):
        with shard_writer(storage, directory, CONTRACT, partition=partition, attempt=run) as writer:
            first = 100 * run + 10 * partition
            writer.write(_batch([first, first + 1, first + 2]), "train")
            writer.write(_batch([first + 3]), "eval")
        receipts.append(writer.close())
    return receipts


def _batch(rows: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"row": rows, "clicked": [row % 2 for row in rows]})


def _check_contiguous(names: list[str], latest: int) -> None:
    assert names == [f"{generation:08d}.json" for generation in range(1, latest + 1)]


def _whole_runs(storage: Storage, shards: Iterable[Shard]) -> list[int]:
    rows = [row for shard in shards for row in _rows(storage, shard)]
    runs = [row // 100 for row in rows[:: len(ROWS_OF_RUN_1)]]
    assert rows == [row for run in runs for row in rows_of(run)]
    return runs


def _rows(storage: Storage, shard: Shard) -> list[int]:
    data = storage.read(shard.path)
    assert (len(data), crc32c(data)) == (shard.bytes, shard.crc32c)
    decoder = ExampleDecoder(CONTRACT)
    with storage.open(shard.path) as file:
        decoded = [decoder.decode(chunk.buffer).to_pydict() for chunk in RecordReader(file)]
    rows = [row for part in decoded for row in part["row"]]
    clicks = [click for part in decoded for click in part["clicked"]]
    assert clicks == [row % 2 for row in rows]
    return rows

"""A table of shards, as written by Spark's ``tfrecord`` format. Supports appends and overwrites.

::

    part-00003-17-1a2b3c4d.tfrecord           or below country=US/
    _manifests/00000001.json
    _SUCCESS

As with a day's samples, creating a manifest publishes the shards it lists. The manifest of an append lists only the new
shards. Every sixteenth manifest, and each full or partial overwrite, lists all shards. So a reader opens only a few
small files, and no later manifest lists a replaced shard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, Self

from ctr_samples.contract import ExampleContract, RecordType
from ctr_samples.errors import ContractError, DamagedFile, InputError, PublishConflict, StorageError
from ctr_samples.shards import generations
from ctr_samples.shards.manifest import Shard, disagreement_of_shards
from ctr_samples.shards.naming import (
    MANIFESTS_OF_TABLE,
    GenerationNumber,
    Instant,
    generation_name,
    is_shard_name,
    is_staged_name,
)
from ctr_samples.shards.publish import check_shards, check_store
from ctr_samples.shards.sealed import Form, read_sealed, sealed
from ctr_samples.shards.storage import NameTaken, Storage
from ctr_samples.typed import Count

TABLE_FORMAT = "ctr-samples table 1"
_FORM = Form(TABLE_FORMAT, "a manifest of a table", "restore it")
_COMPLETE_EVERY = 16
WriteMode = Literal["append", "create", "overwrite", "overwrite_partitions"]
_TRIES = 100
"""Maximum number of attempts to commit while other writers are faster."""


@dataclass(frozen=True, slots=True)
class TableWrite:
    """Changes that one write makes to a table.

    ``create`` as ``mode`` is an append to a table that does not exist yet; ``overwrite_partitions`` replaces the
    partitions of the new shards. ``schema`` describes the columns for readers. ``stream`` is a stream id and a batch
    number; a batch is committed once, however often it is tried.
    """

    run_id: str
    mode: WriteMode
    record_type: RecordType
    shards: tuple[Shard, ...]
    schema: Mapping[str, Any] = field(default_factory=dict)
    contract: Mapping[str, Any] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    stream: tuple[str, int] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableManifest:
    """One generation of a table. If ``complete``, ``shards`` lists all shards that readers see; otherwise only the new
    shards.

    ``schemas`` and ``contracts`` cover all writes, deduplicated, oldest first. ``streams`` maps each stream to its last
    batch.
    """

    generation: GenerationNumber
    run_id: str
    parent: str | None
    created_at: Instant
    complete: bool
    record_type: RecordType
    partition_by: tuple[str, ...]
    schemas: tuple[Mapping[str, Any], ...]
    contracts: tuple[Mapping[str, Any], ...]
    shards: tuple[Shard, ...]
    streams: Mapping[str, Count]
    versions: Mapping[str, str]
    format: str = TABLE_FORMAT
    checksum: str = field(default="", compare=False)

    @property
    def records(self) -> int:
        """Total number of records in the listed shards."""
        return sum(s.records for s in self.shards)

    def to_json(self) -> bytes:
        """Serialize to sealed, indented JSON in declared order."""
        return sealed(asdict(self))

    @classmethod
    def from_json(cls, data: bytes, location: str) -> Self:
        """Parse the output of :meth:`to_json`. Raises DamagedFile, naming ``location``, for an unknown or altered
        manifest.
        """
        return read_sealed(cls, data, location, _FORM)


Fits = Callable[[TableManifest], None]
"""Raises an error if the rows of a write do not fit a table. Shards know no columns, so the writer brings it."""


def next_manifest(current: TableManifest | None, write: TableWrite, created_at: str) -> TableManifest:
    """Apply a write to a table's current manifest. Both ``current`` and the result are complete."""
    base = None if write.mode == "overwrite" else current
    streams = dict(current.streams) if current else {}
    if write.stream:
        streams[write.stream[0]] = write.stream[1]
    return TableManifest(
        generation=current.generation + 1 if current else 1,
        run_id=write.run_id,
        parent=current.run_id if current else None,
        created_at=created_at,
        complete=True,
        record_type=write.record_type,
        partition_by=write.partition_by,
        schemas=_distinct(base.schemas if base else (), write.schema),
        contracts=_distinct(base.contracts if base else (), write.contract),
        shards=(_kept(base, write) if base else ()) + write.shards,
        streams=streams,
        versions=write.versions,
    )


def on_disk(manifest: TableManifest, write: TableWrite) -> TableManifest:
    """Return the manifest to store for a generation, with all shards or, for most appends, only the new shards."""
    replaces = write.mode in ("overwrite", "overwrite_partitions")
    complete = replaces or manifest.generation % _COMPLETE_EVERY in (0, 1)
    return manifest if complete else replace(manifest, complete=False, shards=write.shards)


def _refusal(current: TableManifest, write: TableWrite) -> str | None:
    """Return the reason why the rows cannot be added to the table, or None if they can."""
    for has, there, new in (
        ("has records of type", current.record_type, write.record_type),
        ("is partitioned by", list(current.partition_by) or "nothing", list(write.partition_by) or "nothing"),
    ):
        if there != new:
            return f"{has} {there}, but this write {has} {new}; use another directory, or overwrite the table"
    return None


class Table:
    """A directory of shards in a store. Methods run on the driver (for Spark's data source, in a separate process)."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def current(self) -> TableManifest | None:
        """Return the state that readers see, with all shards in one manifest, or None before the first generation."""
        generation = generations.latest(self.storage, MANIFESTS_OF_TABLE)
        return self.at(generation) if generation else None

    def at(self, generation: int) -> TableManifest:
        """Return the state that readers see at a generation. Raises DamagedFile if a generation that it builds on is
        missing.
        """
        newest = oldest = self._read(generation)
        parts = [newest.shards]
        while not oldest.complete:
            oldest = self._read(oldest.generation - 1)
            parts.append(oldest.shards)
        shards = tuple(shard for part in reversed(parts) for shard in part)
        if len({shard.path for shard in shards}) < len(shards):
            twice = f"two of the generations {oldest.generation} to {generation} list the same shard"
            raise DamagedFile(f"{self.storage.locate(MANIFESTS_OF_TABLE)} contradicts itself: {twice}; restore it.")
        return replace(newest, complete=True, shards=shards)

    def check_writable(self, run_id: str) -> None:
        """Raise an error if the directory contains foreign files or the store lacks reliable create-only puts. Runs
        before any other work.
        """
        if self.current() is None:
            self._check_own()
        check_store(self.storage, f"{MANIFESTS_OF_TABLE}/{run_id}")
        with suppress(StorageError):  # only cleanup needs the right to delete
            self.storage.delete_directory(f"{MANIFESTS_OF_TABLE}/{run_id}")

    def check(self, current: TableManifest, write: TableWrite, fits: Fits) -> None:
        """Raise an error unless a write can change the table that is there. Called before the work and in the commit.

        Raises PublishConflict for a table that should not exist yet, InputError for rows of another kind, and the
        errors of ``fits``.
        """
        if write.mode == "create":
            raise PublishConflict(
                f"Run {current.run_id} published to {self.storage.url} first; this run published nothing. "
                "Choose another directory, or append or overwrite."
            )
        if write.mode != "overwrite":
            if wrong := _refusal(current, write):
                raise InputError(f"{self.storage.url} {wrong}.")
            fits(current)

    def commit(self, write: TableWrite, fits: Fits = lambda _: None) -> TableManifest:
        """Publish a write and return the state that readers now see.

        Checks the shards right before the put. A stream batch that is already committed changes nothing. If another
        writer is faster, an append goes after its shards, and an overwrite replaces them (partition by partition if the
        mode says so), each after another :meth:`check` of what is there by then. An overwrite then removes the replaced
        files. Raises the errors of :func:`ctr_samples.shards.generations.put` and of :meth:`check`, and DamagedFile for
        a missing shard.
        """
        for _ in range(_TRIES):
            current = self.current()
            if current and _has_batch(current, write):
                return current
            if current:
                self.check(current, write, fits)
                generations.following(current.generation, self.storage.locate(MANIFESTS_OF_TABLE))
            manifest = next_manifest(current, write, datetime.now(UTC).isoformat(timespec="seconds"))
            data = on_disk(manifest, write).to_json()
            _sound(
                data, f"Nothing was published: the manifest for generation {manifest.generation} of {self.storage.url}"
            )
            check_shards(self.storage, write.shards)  # right before the put: a cleanup may have run in between
            try:
                generations.put(self.storage, MANIFESTS_OF_TABLE, manifest.generation, data, write.run_id)
            except PublishConflict:
                continue
            self._finish(current, manifest)
            return manifest
        raise PublishConflict(f"{_TRIES} other writers of {self.storage.url} were faster; run this write again.")

    def _finish(self, before: TableManifest | None, after: TableManifest) -> None:
        """Write ``_SUCCESS`` and delete replaced shards once readers see the new generation. Ignores store errors."""
        with suppress(NameTaken, StorageError):
            self.storage.put_new("_SUCCESS", b"")
        listed = {shard.path for shard in after.shards}
        for shard in before.shards if before else ():
            if shard.path not in listed:
                with suppress(StorageError):
                    self.storage.delete(shard.path)

    def _read(self, generation: int) -> TableManifest:
        path = f"{MANIFESTS_OF_TABLE}/{generation_name(generation)}"
        location = self.storage.locate(path)
        try:
            manifest = _sound(self.storage.read(path), location)
        except FileNotFoundError:
            raise DamagedFile(f"{location} is missing, though a later generation builds on it; restore it.") from None
        if manifest.generation != generation:
            raise generations.misplaced(
                location,
                f"generation {manifest.generation}",
                "A table cannot go back to an earlier generation; `ctr-samples rollback` is for a day's samples.",
            )
        return manifest

    def _check_own(self) -> None:
        files = [file.path for file in self.storage.files("")]
        others = [path for path in files if not _is_own(path)]
        if others:
            raise InputError(
                f"{self.storage.url} holds {len(others)} file(s) that ctr-samples did not write, such as {others[0]}; "
                "expected an empty or new directory. Write to another one, or move these away."
            )


def _sound(data: bytes, location: str) -> TableManifest:
    """Parse a manifest and check its consistency. Raises DamagedFile if it is invalid."""
    manifest = TableManifest.from_json(data, location)
    try:
        contracts = [ExampleContract.from_dict(dict(document)) for document in manifest.contracts]
    except ContractError as error:
        raise DamagedFile(f"{location} has a contract that cannot be read. {error}") from None
    others = [contract.record for contract in contracts if contract.record != manifest.record_type]
    wrong = disagreement_of_shards(manifest.shards, "")
    if others:
        wrong = f"its records are of type {manifest.record_type}, but a contract has type {others[0]}"
    if wrong:
        raise DamagedFile(f"{location} contradicts itself: {wrong}; restore it.")
    return manifest


def _is_own(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return path.startswith(f"{MANIFESTS_OF_TABLE}/") or is_shard_name(name) or is_staged_name(name)


def _kept(current: TableManifest, write: TableWrite) -> tuple[Shard, ...]:
    """Return the existing shards that a write keeps."""
    if write.mode != "overwrite_partitions":
        return current.shards
    replaced = {_directory(shard) for shard in write.shards}
    return tuple(shard for shard in current.shards if _directory(shard) not in replaced)


def _directory(shard: Shard) -> str:
    return shard.path.rpartition("/")[0]


def _has_batch(current: TableManifest, write: TableWrite) -> bool:
    return write.stream is not None and current.streams.get(write.stream[0], -1) >= write.stream[1]


def _distinct(known: tuple[Mapping[str, Any], ...], new: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return known if new in known or not new else (*known, new)

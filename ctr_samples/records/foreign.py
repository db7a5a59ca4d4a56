"""TFRecord files of any program, not listed in any manifest: find the files, check for damage, infer features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

from ctr_samples.codec import EncodedBatch, ExampleDecoder, SchemaSurvey
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, DamagedFile, InputError, StorageError
from ctr_samples.records.paths import FilePattern, existing_place, is_hidden, single_file
from ctr_samples.records.read import found_reader
from ctr_samples.shards import CheckedFile, Storage, open_storage
from ctr_samples.shards.naming import needs_manifests

SAMPLE = 10_000
"""Default number of records to inspect per sampled file."""
_SAMPLED_FILES = 10
_THREADS = 8
Located = tuple[str, EncodedBatch]
"""File location, and a chunk of the file's records."""


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A listed file. ``split`` is empty, since the purpose of its records is unknown.

    After a check, ``records`` counts the records before the first damage, which ``damage`` describes.
    """

    path: str
    bytes: int
    records: int = 0
    split: str = ""
    damage: str = ""


@dataclass(frozen=True, slots=True)
class ForeignRecords:
    """Files at a path, with the same interface as a published day."""

    title: str
    storage: Storage
    shards: tuple[ForeignFile, ...]

    def of_split(self, split: str | None) -> tuple[ForeignFile, ...]:
        """Return all files. Raises InputError if ``split`` is set, since the files have no splits."""
        if split is not None:
            raise InputError(f"{self.title} has no split {split!r}, as no manifest lists its files; leave out --split.")
        return self.shards

    def verified(self, on_bytes: Callable[[int], None] = lambda _: None) -> ForeignRecords:
        """Count the records of each file, and describe the first damage of each damaged file."""
        with ThreadPoolExecutor(_THREADS) as threads:
            return replace(self, shards=tuple(threads.map(partial(_checked, self.storage, on_bytes), self.shards)))

    @property
    def damage(self) -> tuple[str, ...]:
        """One sentence per damaged file. Empty before :meth:`verified` is called."""
        return tuple(file.damage for file in self.shards if file.damage)

    def sound(self) -> ForeignRecords:
        """Keep only the files without damage."""
        return replace(self, shards=tuple(file for file in self.shards if not file.damage))

    def chunks(self, limit: int | None = SAMPLE) -> Iterator[Located]:
        """Yield records with their file's location: all, or the first ``limit`` records of each evenly sampled file."""
        for file in self.shards if limit is None else _spread(self.shards):
            yield from _first_of(self.storage, [file], limit)

    def contract(self, limit: int | None = SAMPLE) -> ExampleContract:
        """Infer a contract from :meth:`chunks`. Raises ContractError if records have no features or conflicting types.

        Reads the records twice. ``nulls`` is ``fail`` for a feature present in all records, else ``omit``.
        """
        shaped = self.layout(limit)
        return _with_missing(shaped, _decoded(self.chunks(limit), shaped))

    def layout(self, limit: int | None = SAMPLE) -> ExampleContract:
        """Infer a contract from a single pass over the records. Assumes that any feature may be missing."""
        return _layout_of(self.chunks(limit), self.title)

    def batches(self, contract: ExampleContract, limit: int | None = SAMPLE) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the records of :meth:`chunks` as Arrow batches, file by file."""
        for _, chunks in groupby(self.chunks(limit), key=itemgetter(0)):
            yield _decoded(chunks, contract)

    def first_examples(self, count: int) -> list[dict[str, Any]]:
        """Return the first examples, as name -> value or list of values. Examples are empty dicts if no record has a
        feature.
        """
        chunks = list(_first_of(self.storage, self.shards, count))
        if not _surveyed(chunks).names():
            return [{} for _, chunk in chunks for _ in range(len(chunk))]
        contract = _layout_of(chunks, self.title)
        return [row for batch in _decoded(chunks, contract) for row in batch.to_pylist()]


def _first_of(storage: Storage, files: Sequence[ForeignFile], count: int | None) -> Iterator[Located]:
    """Yield the first ``count`` records across all files, or all. Raises DamagedFile, naming the file."""
    for file in files:
        for chunk in _chunks_of(storage, file):
            yield _on_one_line(storage.locate(file.path)), chunk if count is None else _cut(chunk, count)
            if count is not None:
                count -= min(count, len(chunk))
            if count == 0:
                return


def _layout_of(chunks: Iterable[Located], title: str) -> ExampleContract:
    """Infer a contract. A feature has a fixed shape if it has the same number of values in every record.

    The records are SequenceExamples if any record has feature lists.
    """
    survey = _surveyed(chunks)
    sequences = any(survey.seen[name].sequence for name in survey.names())
    shaped = [_shaped(spec, survey) for spec in survey.contract().features]
    if not shaped:
        raise ContractError(f"{title} has no record with a feature; expected Examples or SequenceExamples.")
    return ExampleContract(tuple(shaped), "sequence_example" if sequences else "example")


def _with_missing(contract: ExampleContract, batches: Iterable[pa.RecordBatch]) -> ExampleContract:
    missing: set[str] = set()
    for batch in batches:
        missing |= {name for name, column in zip(batch.schema.names, batch.columns, strict=True) if column.null_count}
    features = (spec if spec.name in missing else replace(spec, nulls="fail") for spec in contract.features)
    return replace(contract, features=tuple(features))


def _surveyed(chunks: Iterable[Located]) -> SchemaSurvey:
    """Survey each file separately, since a survey counts record positions from its own start."""
    whole = SchemaSurvey("sequence_example")
    for location, some in groupby(chunks, key=itemgetter(0)):
        survey = SchemaSurvey("sequence_example")
        try:
            for _, chunk in some:
                survey.add(chunk)
            survey.check_keys()
        except (ContractError, DamagedFile) as error:
            raise error if str(error).startswith(location) else type(error)(f"{location}: {error}") from error
        whole.merge(survey)
    return whole


def _decoded(chunks: Iterable[Located], contract: ExampleContract) -> Iterator[pa.RecordBatch]:
    decoder = ExampleDecoder(contract, strict=False)
    for location, chunk in chunks:
        try:
            yield decoder.decode_frames(chunk.buffer, chunk.offsets)
        except (ContractError, DamagedFile) as error:
            raise type(error)(f"{location}: {error}") from error


def find_foreign(path: str) -> ForeignRecords | None:
    """Find the TFRecord files of a path: a file, a glob, or a directory without hidden files.

    Returns None if there are no files, or if any file belongs to a sample set or table, whose manifests must be used.
    """
    place = existing_place(path)
    storage = open_storage(place.root)
    sizes = {file.path: file.size for file in storage.files(place.fixed) if file.path}
    if any(needs_manifests(place.in_full(name)) for name in sizes):
        return None
    if not any(map(place.has, sizes)):
        sizes = {}
        with suppress(InputError, StorageError):
            storage, _, sizes = single_file(storage, place)
        place = FilePattern(place.root)
    files = [ForeignFile(name, sizes[name]) for name in sorted(sizes) if _is_data(name, place)]
    return ForeignRecords(_on_one_line(path), storage, tuple(files)) if files else None


def _on_one_line(location: str) -> str:
    """Format a location for messages, escaping invisible characters such as a line feed in a file name."""
    return location if location.isprintable() else ascii(location)[1:-1]


def _is_data(name: str, place: FilePattern) -> bool:
    return place.has(name) and not is_hidden(name[len(place.fixed) :].removeprefix("/"))


def _chunks_of(storage: Storage, file: ForeignFile) -> Iterator[EncodedBatch]:
    location = _on_one_line(storage.locate(file.path))
    try:
        with storage.open(file.path) as raw:
            yield from found_reader(raw, file.path, None, lambda: storage.open(file.path))
    except FileNotFoundError:
        raise DamagedFile(f"{location} is gone; list the files again.") from None
    except DamagedFile as error:
        raise DamagedFile(f"{location}: {error}") from error


def _checked(storage: Storage, on_bytes: Callable[[int], None], file: ForeignFile) -> ForeignFile:
    location = _on_one_line(storage.locate(file.path))
    records = 0
    try:
        with storage.open(file.path) as raw:
            for chunk in found_reader(CheckedFile(raw, on_bytes), file.path, None, lambda: storage.open(file.path)):
                records += len(chunk)
    except FileNotFoundError:
        return replace(file, damage=f"{location} is gone; list the files again.")
    except DamagedFile as error:
        return replace(file, records=records, damage=f"{location}: {error}")
    except StorageError as error:  # the other files are still worth checking
        return replace(file, damage=str(error))
    return replace(file, records=records)


def _spread(files: Sequence[ForeignFile]) -> list[ForeignFile]:
    count = min(len(files), _SAMPLED_FILES)
    return [files[number * len(files) // count] for number in range(count)]


def _cut(chunk: EncodedBatch, count: int) -> EncodedBatch:
    offsets = chunk.offsets[: count + 1]
    return EncodedBatch(chunk.buffer[: offsets[-1]], offsets)


def _shaped(spec: FeatureSpec, survey: SchemaSurvey) -> FeatureSpec:
    """Set a fixed shape if the feature has the same positive number of values in every record."""
    seen = survey.seen[spec.name]
    if spec.shape is None and seen.fewest == seen.most > 0:
        return replace(spec, shape=(seen.most,))
    return spec

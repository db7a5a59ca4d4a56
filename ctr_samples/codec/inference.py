"""Infer features from records, for data without a contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ctr_samples.codec.encoder import EncodedBatch
from ctr_samples.codec.layout import BROKEN, BYTES, FLOAT, INT64, NEED_VALUES, REASON, STATUS_SIZE, Surveyed
from ctr_samples.codec.machine_code import decoders
from ctr_samples.contract import DType, ExampleContract, FeatureSpec, RecordType
from ctr_samples.errors import ContractError, DamagedFile

DTYPES: dict[int, DType] = {BYTES: "bytes", FLOAT: "float32", INT64: "int64"}


@dataclass(frozen=True, slots=True)
class SeenFeature:
    """Kinds found under a key (one bit each), and the minimum and maximum number of values per feature.

    ``binary`` is set if any value is not UTF-8. ``both`` is set if the key occurs both in contexts and in feature
    lists.
    """

    sequence: bool
    kinds: int
    fewest: int
    most: int
    binary: bool = False
    both: bool = False

    def joined(self, other: SeenFeature) -> SeenFeature:
        """Merge the findings about a key from two surveys."""
        return SeenFeature(
            self.sequence or other.sequence,
            self.kinds | other.kinds,
            min(self.fewest, other.fewest),
            max(self.most, other.most),
            self.binary or other.binary,
            self.both or other.both or self.sequence != other.sequence,
        )


class SchemaSurvey:
    """Surveys the features of records. Can be pickled: executors may survey files and the driver :meth:`merge` the
    results.

    A feature that always has exactly one value is a scalar; any other feature is a variable-length list. Keys whose
    features never have a kind are omitted, since their type is unknown.
    """

    def __init__(self, record: RecordType = "example") -> None:
        self.record: RecordType = record
        self.seen: dict[str, SeenFeature] = {}
        self._records = 0
        self._bytes = 0

    def add(self, chunk: EncodedBatch) -> None:
        """Survey every record of ``chunk``, which follows the previous chunks of a file.

        Raises DamagedFile, with the record's number and position in the file, for a malformed message.
        """
        if self.record == "byte_array":
            return
        sequences = self.record == "sequence_example"
        keys, done = _survey(chunk, sequences)
        if done < len(chunk):  # the broken record has left its own keys behind
            keys, _ = _survey(EncodedBatch(chunk.buffer, chunk.offsets[: done + 1]), sequences)
        for name, feature in keys:
            if isinstance(name, bytes):
                raise self._wrong(chunk, _first_with(name, chunk, sequences), f"has a key that is not UTF-8, {name!r}")
            self._note(name, feature)
        if done < len(chunk):
            raise self._wrong(chunk, done, "has valid checksums but is not a well-formed message")
        self._records += len(chunk)
        self._bytes += int(chunk.offsets[-1] - chunk.offsets[0])

    def merge(self, other: SchemaSurvey) -> None:
        """Add the findings of ``other``."""
        for name, feature in other.seen.items():
            self._note(name, feature)

    def names(self) -> list[str]:
        """Return the sorted keys with at least one kind."""
        return sorted(name for name, feature in self.seen.items() if feature.kinds)

    def check_keys(self) -> None:
        """Raise ContractError for an empty key, which cannot be a feature name."""
        if "" in self.seen:
            raise ContractError("A record has a feature with an empty key, which can be no name.")

    def conflicts(self) -> dict[str, str]:
        """Return the keys with conflicting types, mapped to the types stored under each key."""
        return {name: kinds for name in self.names() if (kinds := _conflict(self.seen[name]))}

    def binary_names(self) -> frozenset[str]:
        """Return the keys whose bytes are not text: at least one value is not UTF-8."""
        return frozenset(name for name, feature in self.seen.items() if feature.binary)

    def contract(self, names: Collection[str] | None = None) -> ExampleContract:
        """Return the contract of all features, or of ``names``, sorted by name.

        Raises ContractError if a feature has conflicting types.
        """
        if self.record == "byte_array":
            return ExampleContract((FeatureSpec("byteArray", "bytes"),), "byte_array")
        chosen = None if names is None else frozenset(names)
        wanted = [name for name in self.names() if chosen is None or name in chosen]
        conflicts = self.conflicts()
        if conflicting := [f"{name!r} ({conflicts[name]})" for name in wanted if name in conflicts]:
            raise ContractError(
                f"Values of several kinds are stored under {', '.join(conflicting)}; read the data without these."
            )
        return ExampleContract(tuple(_spec(name, self.seen[name]) for name in wanted), self.record)

    def _wrong(self, chunk: EncodedBatch, row: int, problem: str) -> DamagedFile:
        position = self._bytes + int(chunk.offsets[row] - chunk.offsets[0])
        return DamagedFile(
            f"Record {self._records + row} at byte {position} {problem}; its writer is at fault, or it is not a tf.Example: "
            "read it with the record type byte_array."
        )

    def _note(self, name: str, feature: SeenFeature) -> None:
        before = self.seen.get(name)
        self.seen[name] = feature if before is None else before.joined(feature)


def infer_contract(chunks: Iterable[EncodedBatch], record: RecordType = "example") -> ExampleContract:
    """Infer the contract of all records in ``chunks`` (from a ``RecordReader``). See :class:`SchemaSurvey`."""
    survey = SchemaSurvey(record)
    for chunk in chunks:
        survey.add(chunk)
    return survey.contract()


def _kinds(feature: SeenFeature) -> list[DType]:
    return [dtype for kind, dtype in DTYPES.items() if feature.kinds >> kind & 1]


def _conflict(feature: SeenFeature) -> str | None:
    if feature.both:
        return "in the context of some records and in the feature lists of others"
    return " and ".join(_kinds(feature)) if len(_kinds(feature)) > 1 else None


def _spec(name: str, feature: SeenFeature) -> FeatureSpec:
    scalar = feature.fewest == feature.most == 1
    return FeatureSpec(name, _kinds(feature)[0], () if scalar else None, sequence=feature.sequence)


def _first_with(name: bytes, chunk: EncodedBatch, sequences: bool) -> int:
    """Return the index of the first record with the given key."""
    for row in range(len(chunk) - 1):
        keys, _ = _survey(EncodedBatch(chunk.buffer, chunk.offsets[row : row + 2]), sequences)
        if any(key == name for key, _ in keys):
            return row
    return len(chunk) - 1


def _survey(chunk: EncodedBatch, sequences: bool) -> tuple[list[tuple[str | bytes, SeenFeature]], int]:
    """Return the keys in the records before the first malformed record, and the number of these records.

    A key that is not UTF-8 is returned as bytes.
    """
    data, offsets = chunk.buffer, np.ascontiguousarray(chunk.offsets, np.int64)
    keys = np.zeros((64, Surveyed.FIELDS), np.int64)
    status = np.zeros(STATUS_SIZE, np.int64)
    done = 0
    while done < len(chunk):
        status[Surveyed.ROOM] = len(keys)
        done = decoders().survey_records(
            keys.ctypes.data, sequences, data.ctypes.data, offsets.ctypes.data, done, len(chunk), status.ctypes.data
        )
        if status[REASON] == NEED_VALUES:
            keys.resize((2 * len(keys), Surveyed.FIELDS), refcheck=False)
        elif status[REASON] == BROKEN:
            break
    return [_seen(data, row) for row in keys[: status[Surveyed.USED]]], done


def _seen(data: npt.NDArray[np.uint8], row: npt.NDArray[np.int64]) -> tuple[str | bytes, SeenFeature]:
    begin = int(row[Surveyed.KEY]) - data.ctypes.data
    name: str | bytes = data[begin : begin + int(row[Surveyed.KEY_SIZE])].tobytes()
    with suppress(UnicodeDecodeError):
        name = name.decode()  # type: ignore[union-attr]
    feature = SeenFeature(
        bool(row[Surveyed.SEQUENCE]),
        int(row[Surveyed.KINDS]),
        int(row[Surveyed.FEWEST]),
        int(row[Surveyed.MOST]),
        bool(row[Surveyed.BINARY]),
    )
    return name, feature

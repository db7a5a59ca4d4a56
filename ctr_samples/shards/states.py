"""Versions of the fitted state in a store. Like manifests, each is written once and never changed.

versions/00000003.json            create-only; the highest number is authoritative
data/<run id>/<vocabulary>.parquet    tokens in order of their ids, and the version that added each token
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import date
from typing import Annotated, Any

import pyarrow as pa

from ctr_samples.errors import DamagedFile, InputError
from ctr_samples.shards import generations
from ctr_samples.shards.naming import GenerationNumber, Instant, RunDate, RunId, generation_name
from ctr_samples.shards.sealed import Form, read_sealed, sealed
from ctr_samples.shards.storage import Storage
from ctr_samples.typed import Count, Such
from ctr_samples.vocabulary import STATE_FORMAT, FittedMoments, FittedState, FittedVocabulary, Growth

VERSIONS = "versions"
_COLUMNS = pa.schema([("id", pa.int64()), ("token", pa.string()), ("since", pa.int32())])
_FORM = Form(STATE_FORMAT, "a version of a fitted state", "restore it, or fit afresh")


_SHARED = [part.name for part in fields(FittedState) if part.name != "vocabularies"]


@dataclass(frozen=True, slots=True)
class _File:
    """A vocabulary whose tokens are in a separate file."""

    file: str
    tokens: Count
    oov_buckets: Count
    capacity: Count
    fingerprint: str


@dataclass(frozen=True, slots=True)
class _Version:
    """The content of ``versions/00000003.json``."""

    name: str
    lineage: str
    version: GenerationNumber
    run_id: RunId
    created_at: Instant
    days: Annotated[tuple[RunDate, ...], Such(len, "a list of one or more days")]
    fingerprint: str
    declared: Mapping[str, Mapping[str, Any]]
    vocabularies: Mapping[str, _File]
    moments: Mapping[str, FittedMoments]
    boundaries: Mapping[str, tuple[float, ...]]
    growth: Mapping[str, Growth]
    format: int = STATE_FORMAT
    checksum: str = field(default="", compare=False)


def latest_state(storage: Storage) -> FittedState | None:
    """Return the newest version, or None before the first."""
    version = generations.latest(storage, VERSIONS)
    return _read(storage, version) if version else None


def state_before(storage: Storage, run_date: date) -> FittedState | None:
    """Return the newest version fitted only on days before ``run_date``, or None. No later version may be used for that
    day.
    """
    for version in range(generations.latest(storage, VERSIONS), 0, -1):
        head = _head(storage, version)
        if max(head.days) < run_date.isoformat():
            return _read(storage, version)
    return None


def require_state(storage: Storage, run_date: date) -> FittedState:
    """Like :func:`state_before`, but raises InputError if no version qualifies."""
    state = state_before(storage, run_date)
    if state is None:
        latest = latest_state(storage)
        there = "there is none" if latest is None else f"the newest was fitted through {latest.through}"
        raise InputError(
            f"{storage.url} has no fitted state from before {run_date}; {there}. Run `ctr-samples fit` through an earlier day."
        )
    return state


def publish_state(storage: Storage, state: FittedState) -> None:
    """Write the tokens, then put the version with one create-only request. Runs on the driver.

    Raises the errors of :func:`ctr_samples.shards.generations.put`, such as PublishConflict if another fit was faster.
    """
    before = {} if state.version == 1 else _since(storage, state.version - 1)
    files = {}
    for name, vocabulary in state.vocabularies.items():
        path = f"data/{state.run_id}/{name}.parquet"
        known = before.get(name, []) if state.lineage == before.get("", None) else []
        since = [*known, *[state.version] * (len(vocabulary.tokens) - len(known))]
        with storage.new_file(path) as file:
            file.write(_parquet(vocabulary, since))
        files[name] = path
    vocabularies = {
        name: _File(files[name], len(v.tokens), v.oov_buckets, v.capacity, v.fingerprint)
        for name, v in state.vocabularies.items()
    }
    head = _Version(**_shared(state), fingerprint=state.fingerprint, vocabularies=vocabularies)
    generations.put(storage, VERSIONS, state.version, sealed(asdict(head)), state.run_id)


def _shared(state: FittedState | _Version) -> dict[str, Any]:
    """Return the fields that the state and its version file have in common."""
    return {name: getattr(state, name) for name in _SHARED}


def _parquet(vocabulary: FittedVocabulary, since: list[int]) -> bytes:
    import pyarrow.parquet as pq

    first = vocabulary.first_id
    ids = range(first, first + len(vocabulary.tokens))
    table = pa.table({"id": list(ids), "token": list(vocabulary.tokens), "since": since}, _COLUMNS)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _table(storage: Storage, path: str) -> pa.Table:
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(storage.read(path))).cast(_COLUMNS)
        if any(column.null_count for column in table.columns):
            raise ValueError("a value is missing")
        return table
    except (FileNotFoundError, ValueError, pa.ArrowException) as error:
        location = storage.locate(path)
        raise DamagedFile(f"{location} cannot be read as a vocabulary ({error}); restore it, or fit afresh.") from None


def _since(storage: Storage, version: int) -> dict[str, Any]:
    """Return the version that added each token, by vocabulary. The key "" holds the lineage."""
    head = _head(storage, version)
    tables = {name: _table(storage, file.file) for name, file in head.vocabularies.items()}
    return {"": head.lineage, **{name: table.column("since").to_pylist() for name, table in tables.items()}}


def _head(storage: Storage, version: int) -> _Version:
    path = f"{VERSIONS}/{generation_name(version)}"
    location = storage.locate(path)
    try:
        head = read_sealed(_Version, storage.read(path), location, _FORM)
    except FileNotFoundError:
        raise DamagedFile(f"{location} is missing, though there are later versions; {_FORM.remedy}.") from None
    if head.version != version:
        raise generations.misplaced(
            location,
            f"version {head.version}",
            "Versions only grow: `ctr-samples fit --afresh` starts over, and `ctr-samples rollback` is for a day's samples.",
        )
    return head


def _read(storage: Storage, version: int) -> FittedState:
    head = _head(storage, version)
    vocabularies = {name: _vocabulary(storage, file) for name, file in head.vocabularies.items()}
    state = FittedState(**_shared(head), vocabularies=vocabularies)
    if state.fingerprint != head.fingerprint:
        location = storage.locate(f"{VERSIONS}/{generation_name(version)}")
        raise DamagedFile(
            f"{location} has the fingerprint {head.fingerprint}, but its parts hash to {state.fingerprint}; restore them, or "
            "fit afresh."
        )
    return state


def _vocabulary(storage: Storage, file: _File) -> FittedVocabulary:
    tokens = _table(storage, file.file).column("token").to_pylist()
    return FittedVocabulary(tuple(tokens), file.oov_buckets, file.capacity)

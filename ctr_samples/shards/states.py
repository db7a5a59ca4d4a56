"""Versions of the fitted state at a store: put once each, as manifests are, and never changed.

versions/00000003.json            create-only; the highest number is the truth
data/<run id>/<vocabulary>.parquet    the tokens in the order of their ids, and the version that brought each
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import Any

import pyarrow as pa

from ctr_samples.errors import DamagedFile, InputError
from ctr_samples.shards import generations
from ctr_samples.shards.naming import generation_name
from ctr_samples.shards.storage import Storage
from ctr_samples.vocabulary import STATE_FORMAT, FittedState, Growth, Moments, Vocabulary

VERSIONS = "versions"


def latest_state(storage: Storage) -> FittedState | None:
    """The newest version, or None before the first."""
    version = generations.latest(storage, VERSIONS)
    return _read(storage, version) if version else None


def state_before(storage: Storage, run_date: date) -> FittedState | None:
    """The newest version that looked at no day from ``run_date`` on, or None: only such a one may make samples of it."""
    for version in range(generations.latest(storage, VERSIONS), 0, -1):
        head = _head(storage, version)
        if max(head["days"]) < run_date.isoformat():
            return _read(storage, version)
    return None


def require_state(storage: Storage, run_date: date) -> FittedState:
    """As :func:`state_before`; InputError if there is none."""
    state = state_before(storage, run_date)
    if state is None:
        latest = latest_state(storage)
        there = "there is none" if latest is None else f"there are only ones that look at days up to {latest.through}"
        raise InputError(
            f"{storage.url} has no fitted state from before {run_date}; {there}. Run `ctr-samples fit` through an earlier day."
        )
    return state


def publish_state(storage: Storage, state: FittedState) -> None:
    """Write the tokens, then put the version with one create-only request. Runs on the driver.

    Raises as :func:`ctr_samples.shards.generations.put` does: PublishConflict when another fit was faster.
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
    said = {
        "format": STATE_FORMAT,
        "name": state.name,
        "lineage": state.lineage,
        "version": state.version,
        "run_id": state.run_id,
        "created_at": state.created_at,
        "days": list(state.days),
        "fingerprint": state.fingerprint,
        "declared": state.declared,
        "vocabularies": {
            name: {
                "file": files[name],
                "tokens": len(v.tokens),
                "oov_buckets": v.oov_buckets,
                "capacity": v.capacity,
                "fingerprint": v.fingerprint,
            }
            for name, v in state.vocabularies.items()
        },
        "moments": {name: asdict(m) for name, m in state.moments.items()},
        "boundaries": {name: list(b) for name, b in state.boundaries.items()},
        "growth": {name: asdict(g) for name, g in state.growth.items()},
    }
    data = (json.dumps(said, indent=1, ensure_ascii=False) + "\n").encode()
    generations.put(storage, VERSIONS, state.version, data, state.run_id)


def _parquet(vocabulary: Vocabulary, since: list[int]) -> bytes:
    import pyarrow.parquet as pq

    first = vocabulary.first_id
    table = pa.table(
        {
            "id": pa.array(range(first, first + len(vocabulary.tokens)), pa.int64()),
            "token": pa.array(vocabulary.tokens, pa.string()),
            "since": pa.array(since, pa.int32()),
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _table(storage: Storage, path: str) -> pa.Table:
    import pyarrow.parquet as pq

    try:
        return pq.read_table(io.BytesIO(storage.read(path)))
    except (FileNotFoundError, pa.ArrowException) as error:
        place = storage.locate(path)
        raise DamagedFile(f"{place} cannot be read as a vocabulary ({error}); restore it, or fit afresh.") from None


def _since(storage: Storage, version: int) -> dict[str, Any]:
    """For each vocabulary of a version the versions that brought its tokens; under "" its lineage."""
    head = _head(storage, version)
    tables = {name: _table(storage, said["file"]) for name, said in head["vocabularies"].items()}
    return {"": head["lineage"], **{name: table.column("since").to_pylist() for name, table in tables.items()}}


def _head(storage: Storage, version: int) -> dict[str, Any]:
    path = f"{VERSIONS}/{generation_name(version)}"
    place = storage.locate(path)
    try:
        said = json.loads(storage.read(path))
        if said["format"] != STATE_FORMAT:
            raise DamagedFile(
                f"{place} has format {said['format']!r}; this release reads format {STATE_FORMAT}. "
                "Install the ctr-samples release that wrote it, or a newer one."
            )
        return dict(said)
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{place} is not a version of a fitted state ({error}); restore it, or fit afresh.") from None


def _read(storage: Storage, version: int) -> FittedState:
    said = _head(storage, version)
    try:
        state = FittedState(
            name=said["name"],
            lineage=said["lineage"],
            version=said["version"],
            run_id=said["run_id"],
            created_at=said["created_at"],
            days=tuple(said["days"]),
            declared=said["declared"],
            vocabularies={name: _vocabulary(storage, part) for name, part in said["vocabularies"].items()},
            moments={name: Moments(**{k: tuple(v) for k, v in part.items()}) for name, part in said["moments"].items()},
            boundaries={name: tuple(part) for name, part in said["boundaries"].items()},
            growth={name: Growth(**part) for name, part in said["growth"].items()},
        )
    except (KeyError, TypeError, ValueError) as error:
        place = storage.locate(f"{VERSIONS}/{generation_name(version)}")
        raise DamagedFile(f"{place} is not a version of a fitted state ({error}); restore it, or fit afresh.") from None
    if state.fingerprint != said["fingerprint"]:
        place = storage.locate(f"{VERSIONS}/{generation_name(version)}")
        raise DamagedFile(
            f"{place} says the fingerprint {said['fingerprint']}, but its parts have {state.fingerprint}; restore them, or fit "
            "afresh."
        )
    return state


def _vocabulary(storage: Storage, said: Mapping[str, Any]) -> Vocabulary:
    tokens = _table(storage, said["file"]).column("token").to_pylist()
    return Vocabulary(tuple(tokens), said["oov_buckets"], said["capacity"])

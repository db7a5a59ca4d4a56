"""Searches samples, and everything else that a sample set wrote, for users. Reads only, without Spark."""

from __future__ import annotations

import html
import io
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from ctr_samples.config import JobConfig, LoadedConfig
from ctr_samples.config.document import filled
from ctr_samples.config.masking import digests, digests_in
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import CtrSamplesError, DamagedFile, InputError, UsageError
from ctr_samples.graph import SqlName, log_names, meet
from ctr_samples.job.gate import metrics_of_run
from ctr_samples.periods import Period
from ctr_samples.quality.measure.numbers import named
from ctr_samples.quality.pseudonyms import Pseudonyms, places_of_ids
from ctr_samples.records.without import values_among
from ctr_samples.samples.columnar.columns import texts as texts_of
from ctr_samples.shards import Manifest, Shard, Storage, generations, open_storage, read_manifest, require_manifest
from ctr_samples.shards.generations import last_forgotten
from ctr_samples.shards.naming import (
    METRICS,
    TRENDS,
    VOCABULARIES,
    is_shard_name,
    manifest_path,
    manifests_directory,
    run_directory,
)

MODEL = "assets.extra/training.json"
"""File of an exported model that names the runs whose samples it was trained on."""
_WORD = re.compile(r"[^\s<>\"'=,;:&()\[\]{}]+")
_KEYS = ("key", "_key")
"""Columns of partial results with the key of a view or a history."""
_JOINT = re.compile(r"(\d+):")
_OF_IDS = ("source", "time", "keys", "user", "article", "request", "position", "explode", "identity")
"""Keys of ``impressions`` that an impression id depends on."""
THREADS = 4
_LONGEST = 60
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Users:
    """Users by the ``ids`` of a ``key`` of impressions, such as ``user``, where the samples do not say whose they are."""

    key: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """A place that was searched, and what is ``left`` of the users there, or an empty text."""

    place: str
    left: str = ""


@dataclass(frozen=True)
class Search:
    """The search for users: samples whose ``column`` has one of the values of their day, and the ids of ``users``.

    ``users`` is None if the column itself has their ids, which then are the values of any day.
    """

    storage: Storage
    column: str
    values: Mapping[Period, Sequence[str]]
    users: Users | None = None

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Ids of the users. Empty if only impression ids are known."""
        if self.users is not None:
            return self.users.ids
        by_impression = any(self.column in id_columns(require_manifest(self.storage, day)) for day in self.values)
        return () if by_impression else tuple(dict.fromkeys(value for some in self.values.values() for value in some))

    def looked(self) -> Iterator[Looked]:
        """Yield each place, searched. Raises UsageError if an environment variable of a configuration is not set."""
        every: list[Manifest] = []
        for day in self.values:
            manifests = []
            for number in generations.numbers(self.storage, manifests_directory(day)):
                try:
                    manifests.append(read_manifest(self.storage, day, number))
                except DamagedFile as error:
                    yield Looked(manifest_path(day, number), f"it cannot be searched: {error}")
            every += manifests
            yield from self._of_shards(day, manifests)
            if self.ids:
                for manifest in manifests:
                    yield from self._of_run(manifest)
        if not self.ids:
            yield Looked("only the shards, because impression ids do not tell what names their users elsewhere")
            return
        if TRENDS in self.storage.names(""):
            names = {name: one for manifest in every for name, one in self._names(manifest).items()}
            yield _looked(TRENDS, partial(self._in_page, TRENDS, names))
        for path, configs in _places(every, "fitted").items():
            yield from self._of_fitted(path, set().union(*(self._vocabularies(config) for config in configs)))
        for path, configs in _places(every, "partials").items():
            yield from self._of_partials(path, configs[-1])

    def _of_shards(self, day: Period, manifests: Sequence[Manifest]) -> Iterator[Looked]:
        """Search all generations whose shards are there, the newest first, each shard once."""
        there, first = self.storage.names(run_directory(day, "").rstrip("/")), last_forgotten(self.storage, day)
        seen: set[str] = set()
        for manifest in reversed(manifests):
            unseen = [shard for shard in manifest.shards if shard.path not in seen]
            seen.update(shard.path for shard in unseen)
            if manifest.made_by not in there:
                continue
            place = f"{len(unseen):,} shard(s) of generation {manifest.generation} of {day}"
            try:
                if self._has_other_ids(manifest, manifests[-1]):
                    left = "its impression ids are made otherwise, so it cannot be searched"
                else:
                    left = _told(among_samples(self.storage, manifest, unseen, self.column, self.values[day]))
            except CtrSamplesError as error:
                if manifest is manifests[-1] and isinstance(error, UsageError):
                    raise
                left = f"they cannot be searched: {error}"
            if left and manifest.generation < first:
                left += "; no rollback restores it, and `ctr-samples clean --keep 1` removes it in a day"
            yield Looked(place, left)

    def _has_other_ids(self, manifest: Manifest, now: Manifest) -> bool:
        return self.column in id_columns(now) and ids_made_of(manifest) != ids_made_of(now)

    def _of_run(self, manifest: Manifest) -> Iterator[Looked]:
        """Search the manifest of a generation, and the files beside its shards."""
        names, places = self._names(manifest), _places_of_ids(manifest)
        path = manifest_path(manifest.day, manifest.generation)
        yield Looked(path, _told(names[one] for one in names.keys() & places.ids_in(None, manifest.labels)))
        if manifest.rollback is not None:
            return
        directory = f"{run_directory(manifest.day, manifest.made_by)}/"
        for file in self.storage.files(directory.rstrip("/")):
            name = file.path.removeprefix(directory)
            if is_shard_name(name.rpartition("/")[2]):
                continue
            if name == METRICS:
                yield _looked(file.path, partial(self._in_metrics, manifest))
            elif (vocabulary := vocabulary_of(name)) is None:
                yield _looked(file.path, partial(self._in_page, file.path, names))
            elif vocabulary in self._vocabularies(manifest.config):
                yield _looked(file.path, partial(self._in_vocabulary, file.path))

    def _in_metrics(self, manifest: Manifest) -> set[str]:
        names = self._names(manifest)
        metrics = metrics_of_run(self.storage, manifest.day, manifest.made_by)
        return {names[one] for one in names.keys() & _places_of_ids(manifest).ids_in(metrics, {})}

    def _in_page(self, path: str, names: Mapping[str, str]) -> set[str]:
        return _named(html.unescape(self.storage.read(path).decode(errors="replace")), names)

    def _in_vocabulary(self, path: str) -> set[str]:
        return set(self.storage.read(path).decode().split("\n")).intersection(self.ids)

    def _in_tokens(self, storage: Storage, path: str) -> set[str]:
        return set(_table(storage, path)["token"].to_pylist()).intersection(self.ids)

    def _vocabularies(self, config: Mapping[str, Any]) -> set[str]:
        return vocabularies_of(config, self.column, self.users)

    def _names(self, manifest: Manifest) -> dict[str, str]:
        """Return the ids of the users and their pseudonyms in files of a generation, each with its id."""
        places = _places_of_ids(manifest)
        told = ((one, form) for one in self.ids for form in (one, named(one.encode())))
        return {name: one for one, form in told for name in (form, places.of(form))}

    def _of_fitted(self, path: str, vocabularies: Collection[str]) -> Iterator[Looked]:
        storage = open_storage(path)
        for file in storage.files("data"):
            if file.path.rpartition("/")[2].removesuffix(".parquet") in vocabularies:
                yield _looked(storage.locate(file.path), partial(self._in_tokens, storage, file.path))

    def _of_partials(self, path: str, config: Mapping[str, Any]) -> Iterator[Looked]:
        """Search all results that are kept: keys, and text that is no number, which may be of anything else."""
        storage, sought = open_storage(path), read_for(config, self.column, self.users)
        for file in storage.files(""):
            if file.path.endswith(".parquet"):
                keyed = _is_keyed(config, file.path.partition("/")[0], sought)
                yield _looked(storage.locate(file.path), partial(self._in_rows, storage, file.path, keyed))

    def _in_rows(self, storage: Storage, path: str, keyed: bool) -> set[str]:
        table = _table(storage, path)
        texts, left = {one for one in self.ids if not one.isdigit()}, set[str]()
        while any(pa.types.is_struct(field.type) for field in table.schema):
            table = table.flatten()
        for name, column in zip(table.column_names, table.columns, strict=True):
            if pa.types.is_string(column.type) or pa.types.is_int64(column.type):
                wanted = set(self.ids) if keyed and name in _KEYS else texts
                left |= wanted.intersection(part for one in texts_of(column.unique()) for part in _parts(one or ""))
        return left


def _table(storage: Storage, path: str) -> pa.Table:
    return pq.read_table(io.BytesIO(storage.read(path)))


def _looked(place: str, search: Callable[[], Collection[str]]) -> Looked:
    try:
        return Looked(place, _told(search()))
    except (DamagedFile, FileNotFoundError, pa.ArrowException) as error:
        return Looked(place, f"it cannot be searched: {error}")


def _told(left: Iterable[str]) -> str:
    return f"{count:,} id(s)" if (count := len(set(left))) else ""


def _named(text: str, names: Mapping[str, str]) -> set[str]:
    """Return the users named in a text. Whole numbers are passed over, since pages are full of others."""
    words = set(_WORD.findall(text))
    there = (name for name in names if (name in words if _WORD.fullmatch(name) else name in text))
    return {names[name] for name in there if not name.isdigit()}


def _filled(manifest: Manifest) -> dict[str, Any]:
    def value_of(name: str, _: object) -> str:
        if name not in os.environ:
            raise UsageError(
                f"Generation {manifest.generation} of {manifest.run_date} was made with ${{{name}}}; set that variable, "
                "which leads to what is to be searched."
            )
        return os.environ[name]

    document: dict[str, Any] = filled(dict(manifest.config), value_of)
    return document


def _places_of_ids(manifest: Manifest) -> Pseudonyms:
    """Return where documents of a generation have ids, and how these are written."""
    try:
        return places_of_ids(JobConfig.model_validate(_filled(manifest)))
    except ValidationError:
        return Pseudonyms(manifest.name, frozenset(ExampleContract.from_dict(dict(manifest.contract)).names("feature")))


def _places(manifests: Iterable[Manifest], section: str) -> dict[str, list[dict[str, Any]]]:
    """Return the configurations with each `path` of a section, the newest last."""
    places: dict[str, list[dict[str, Any]]] = {}
    for config in map(_filled, manifests):
        of = config.get(section)
        if isinstance(of, Mapping) and of.get("path"):
            places.setdefault(str(of["path"]), []).append(config)
    return places


def _is_keyed(config: Mapping[str, Any], name: str, sought: set[SqlName]) -> bool:
    """Whether a view or a history is keyed by users, whose ids are made of ``sought`` in the log. True for one that is gone."""
    try:
        job = JobConfig.model_validate(config)
    except ValidationError:
        return True
    keys = job.impressions.keys_and_request
    theirs = {key for key in keys if meet(sought, log_names(config, f"impression.`{key}`"))}
    if name in job.histories:
        return job.histories[name].on in theirs
    return name not in job.views or any(key in theirs or "." in key for key in job.views[name].joined_on)


def _parts(key: str) -> list[str]:
    """Return a key, and the parts of a joint one (see ``joint_key``)."""
    parts, rest = [key], key
    while (length := _JOINT.match(rest)) and len(rest) >= length.end() + int(length[1]):
        parts.append(rest[length.end() : length.end() + int(length[1])])
        rest = rest[length.end() + int(length[1]) :]
    return [*parts, rest]


def models_with(search: Search, directories: Iterable[Path]) -> Iterator[str]:
    """Yield a sentence for each exported model below ``directories`` that was trained on samples of the users.

    If the samples of a run are gone, it had them if users were forgotten later. Raises InputError for a missing directory.
    """
    manifests: dict[str, Manifest] = {}
    for day in (day for day, values in search.values.items() if values):
        for number in generations.numbers(search.storage, manifests_directory(day)):
            with suppress(DamagedFile):
                manifest = read_manifest(search.storage, day, number)
                manifests.setdefault(manifest.made_by, manifest)
    for directory in directories:
        if not directory.is_dir():
            raise InputError(f"There is no directory {directory}; expected exported models, as `--export` writes them.")
        for file in sorted(directory.rglob(MODEL)):
            try:
                runs = dict(json.loads(file.read_text())["runs"])
            except (OSError, ValueError, KeyError, TypeError):
                yield f"{file} does not tell which runs its model was trained on."
                continue
            had = [day for day, run in runs.items() if run in manifests and _had_them(search, manifests[run])]
            if had:
                days = ", ".join(sorted(had))
                yield f"The model {file.parent.parent} was trained on samples of them of {days}; train it again."


def _had_them(search: Search, manifest: Manifest) -> bool:
    storage, day = search.storage, manifest.day
    if manifest.made_by in storage.names(run_directory(day, "").rstrip("/")):
        with suppress(UsageError, DamagedFile):
            return bool(among_samples(storage, manifest, manifest.shards, search.column, search.values[day]))
    return manifest.generation < last_forgotten(storage, day)


def _column(contract: ExampleContract, key: str) -> FeatureSpec:
    specs = {spec.name: spec for spec in contract.features}
    spec = specs.get(key)
    if spec is None:
        names = ", ".join(specs)
        raise UsageError(
            f"The samples have no column {key!r}; they have {names}. Users can be forgotten by a column only."
        )
    if spec.role not in ("feature", "key"):
        raise UsageError(f"The column {key!r} is a {spec.role}, which is no id. Give a column with an id as it is.")
    if spec.shape != () or spec.buckets is not None or spec.dtype not in ("string", "bytes", "int64"):
        raise UsageError(
            f"The column {key!r} does not tell users apart: it is {_said(spec)}. Give one with an id as it is."
        )
    return spec


def _said(spec: FeatureSpec) -> str:
    if spec.buckets is not None:
        return f"one of {spec.buckets:,} numbers, which several users share"
    return f"a list of {spec.dtype}" if spec.shape != () else f"a {spec.dtype}"


def among_samples(
    storage: Storage, manifest: Manifest, shards: Sequence[Shard], key: str, values: Sequence[str]
) -> frozenset[str]:
    """Return the values that the column ``key`` of a generation's shards has. Raises the errors of :func:`find`."""
    if not values:
        return frozenset()
    contract = ExampleContract.from_dict(dict(manifest.contract))
    ids = as_in_column(_column(contract, key), values)
    look = partial(values_among, storage, contract=contract, column=key, values=ids)
    with ThreadPoolExecutor(THREADS) as threads:
        there = set().union(*threads.map(look, shards))
    return frozenset(value for value, of_samples in zip(values, ids.to_pylist(), strict=True) if of_samples in there)


def as_in_column(spec: FeatureSpec, values: Sequence[str]) -> pa.Array:
    """Convert values to the type of the column. Raises UsageError for a value that the column cannot contain."""
    if spec.dtype != "int64":
        return pa.array([value.encode() for value in values], pa.binary())
    for value in values:
        if not re.fullmatch(r"-?[0-9]{1,19}", value) or int(value) not in _INT64:
            raise UsageError(
                f"The column {spec.name!r} has whole numbers of 64 bits, but a line of `--values` is {in_quotes(value)}. "
                "Expected digits alone. Nothing was published; correct the file and run again."
            )
    return pa.array(map(int, values), pa.int64())


def in_quotes(value: str) -> str:
    """Return a value of the file as quoted in errors."""
    return repr(value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…")


def id_columns(manifest: Manifest) -> list[str]:
    """Return the column with the impression id of each sample, in a list, which is empty if the layout has none."""
    return ExampleContract.from_dict(dict(manifest.contract)).names("key")[:1]


def ids_made_of(made_by: Manifest, loaded: LoadedConfig | None = None) -> dict[str, Any]:
    """Return the part of a generation's configuration that impression ids are made from, or of another configuration of its
    sample set. Equal logs then have equal ids.
    """
    config, environment = made_by.config, made_by.environment
    if loaded is not None:
        config = loaded.document
        environment = digests({n: v for n, v in loaded.deciding.items() if n in environment}, made_by.name)
    shown = config.get("impressions") or {}
    made = {key: shown.get(key) for key in _OF_IDS}
    whole_row = shown.get("identity") == "row"
    made |= {"again": shown.get("dedup") is not None and shown.get("request") is not None}
    made |= {"timezone": config.get("timezone"), "sources": config.get("sources") if whole_row else None}
    return {**made, "environment": digests_in(made, environment)}


def vocabularies_of(config: Mapping[str, Any], column: str, users: Users | None) -> set[str]:
    """Return the vocabularies with a feature of the same input as a column of the samples, or as the key of ``users``."""
    sought, features = read_for(config, column, users), config.get("features") or {}
    return {
        feature["vocabulary"]
        for feature in features.values()
        if feature.get("vocabulary") and meet(sought, log_names(config, *_texts(feature)))
    }


def read_for(config: Mapping[str, Any], column: str, users: Users | None) -> set[SqlName]:
    """Return what is read of the log, or of views, for a column of the samples, or for the key of ``users``."""
    texts = _texts((config.get("features") or {}).get(column) or {}) if users is None else [f"impression.`{users.key}`"]
    return log_names(config, *texts)


def _texts(feature: Mapping[str, Any]) -> list[str]:
    return [feature[key] for key in ("from", "expr", "at") if feature.get(key)]


def vocabulary_of(name: str) -> str | None:
    """Return the name of the vocabulary that a file beside the shards has, or None for another file."""
    return name.removeprefix(f"{VOCABULARIES}/").removesuffix(".txt") if name.startswith(f"{VOCABULARIES}/") else None

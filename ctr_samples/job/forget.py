"""Publishes the next generation of a day without the samples of some users, and vocabularies without their ids.

The users are in a file with one value in each line, exactly as in the samples. For samples that do not say whose they are,
Spark finds their impressions in the logs.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import JobConfig, LoadedConfig
from ctr_samples.config.document import filled
from ctr_samples.contract import ExampleContract
from ctr_samples.errors import DamagedFile, InputError, UsageError
from ctr_samples.job.forget_search import (
    THREADS,
    Users,
    among_samples,
    as_in_column,
    id_columns,
    ids_made_of,
    in_quotes,
    vocabularies_of,
    vocabulary_of,
)
from ctr_samples.job.gate import describe_anew
from ctr_samples.job.planning import planning
from ctr_samples.periods import Period, check_period
from ctr_samples.quality.measure.collecting import Collector, Wanted
from ctr_samples.quality.pseudonyms import ORPHAN_SAMPLE, Pseudonyms, pseudonyms_of
from ctr_samples.records.without import write_without
from ctr_samples.samples.columnar.columns import integers, shuffle_hashes
from ctr_samples.samples.impressions import cut_impressions
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.samples.inputs.watched import exploded, tasks_of_logs
from ctr_samples.samples.period import Span
from ctr_samples.shards import (
    DayOutput,
    Manifest,
    Receipt,
    Shard,
    Storage,
    generations,
    latest_manifest,
    read_manifest,
    require_manifest,
)
from ctr_samples.shards.clean import Retention
from ctr_samples.shards.generations import last_forgotten, mark_forgotten
from ctr_samples.shards.manifest import FORGOTTEN
from ctr_samples.shards.naming import CONTRACT, SCHEMA, manifests_directory, run_directory
from ctr_samples.shards.publish import check_shards
from ctr_samples.sparksql.observations import Reporter, Silent
from ctr_samples.sparksql.session import run_session

_PLACE = "_shuffle"
_EXPECTED = "`--values` names a file with one value in each line"
_QUOTES = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e\xab\xbb"
_AROUND = f"{_QUOTES}\ufeff\u200b\u200c\u200d\u2060"
"""Characters that other programs add around values: quotes and invisible marks."""
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class FoundValues:
    """The values found in a day's samples: in the published ``manifest`` and in earlier generations."""

    manifest: Manifest
    now: frozenset[str]
    before: frozenset[str]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The result for a day: the number of removed samples, and the published manifest."""

    manifest: Manifest
    samples: int


def find(storage: Storage, day: Period, key: str, values: Sequence[str]) -> FoundValues:
    """Search the column ``key`` of a day's samples for values, including earlier generations that could be restored.

    Runs on this machine, without Spark. An earlier generation whose impression ids are made otherwise counts as having
    all ids. Raises UsageError for a column that does not identify users, or for a value that the column cannot contain.
    """
    manifest = require_manifest(storage, day)
    now = among_samples(storage, manifest, manifest.shards, key, values)
    seen = {shard.path for shard in manifest.shards}
    before: set[str] = set()
    for earlier in _restorable(storage, manifest):
        if key in id_columns(manifest) and ids_made_of(earlier) != ids_made_of(manifest):
            before.update(values)
        unseen = [shard for shard in earlier.shards if shard.path not in seen]
        seen.update(shard.path for shard in unseen)
        with suppress(UsageError, DamagedFile):  # the column does not identify users, or a shard cannot be read
            before |= among_samples(storage, earlier, unseen, key, values)
    return FoundValues(manifest, now, frozenset(before))


def forget(
    storage: Storage,
    found: FoundValues,
    key: str,
    values: Sequence[str],
    retention: Retention,
    users: Users | None = None,
) -> Forgotten:
    """Publish a day without the samples whose column ``key`` has one of ``values``.

    Runs on this machine, without Spark. ``found`` is the result of :func:`find` for the day. Vocabularies lose the
    tokens of ``users``, or else the values. A day without such
    samples remains unchanged. Remaining records keep their bytes and order; the page and the metrics are recomputed
    from them. Earlier generations still have the removed samples. They can no longer be restored, and are deleted
    according to ``retention``. Raises the errors of :func:`find` and of a run.
    """
    manifest, day = found.manifest, found.manifest.day
    contract = ExampleContract.from_dict(dict(manifest.contract))
    if not found.now.intersection(values):
        if found.before.intersection(values):
            mark_forgotten(storage, day, manifest.generation)
            if latest_manifest(storage, day) != manifest:
                return forget(storage, find(storage, day, key, values), key, values, retention, users)
        return Forgotten(manifest, 0)
    sought = as_in_column(contract[key], values)
    output = DayOutput.open(storage, day, manifest.name, retention)
    if output.current != manifest:  # a concurrent run has published; use its samples
        return forget(storage, find(storage, day, key, values), key, values, retention, users)
    run = output.begin(datetime.now(UTC), secrets.token_hex(4))
    wanted = _wanted(contract, manifest)

    def written(shards: Sequence[Shard]) -> tuple[Receipt, str]:
        collector = Collector(wanted, shards[0].partition)
        receipt = write_without(
            storage,
            run.directory,
            shards,
            contract,
            lambda rows: pc.invert(pc.is_in(rows.column(key), sought)),
            lambda rows, split: collector.observe(_with_place(rows, wanted), split),
        )
        return receipt, collector.close()

    with ThreadPoolExecutor(THREADS) as threads:
        receipts, measures = zip(*threads.map(written, _partitions(manifest.shards)), strict=True)
    shards = tuple(shard for receipt in receipts for shard in receipt.shards)
    check_shards(storage, shards)
    tokens = values if users is None else users.ids
    run.write(_texts_beside(storage, manifest, vocabularies_of(manifest.config, key, users), set(tokens)))
    made = replace(
        _without(manifest, shards),
        generation=output.generation,
        run_id=run.run_id,
        parent=manifest.run_id,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        rollback=None,
    )
    describe_anew(storage, manifest, made, measures, wanted, _pseudonyms(manifest, contract))
    run.publish(made)
    return Forgotten(made, manifest.records - made.records)


def _restorable(storage: Storage, manifest: Manifest) -> Iterator[Manifest]:
    """Yield the earlier generations of a day that may still be restored and whose shards exist."""
    there = storage.names(run_directory(manifest.day, "").rstrip("/"))
    first = last_forgotten(storage, manifest.day)
    for number in generations.numbers(storage, manifests_directory(manifest.day)):
        if first <= number < manifest.generation:
            with suppress(DamagedFile):
                earlier = read_manifest(storage, manifest.day, number)
                if earlier.made_by in there:
                    yield earlier


def _partitions(shards: Sequence[Shard]) -> list[list[Shard]]:
    """Group the shards by partition, in order."""
    found: dict[int, list[Shard]] = defaultdict(list)
    for shard in shards:
        found[shard.partition].append(shard)
    return list(found.values())


def _wanted(contract: ExampleContract, manifest: Manifest) -> Wanted:
    flags = [name for name in contract.names("label") if name in manifest.labels]
    key = next(iter(contract.names("key")), None)
    tasks = len({shard.partition for shard in manifest.shards})
    wanted = Wanted(contract, next(iter(flags), None), key=key, tasks=tasks)
    return replace(wanted, place=_PLACE, by_request=True) if manifest.order is not None and key is not None else wanted


def _with_place(rows: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    """Add the hash of the impression to samples ordered by request, whose first rows are but a few requests."""
    if wanted.place is None:
        return rows
    return rows.append_column(wanted.place, pa.array(shuffle_hashes(integers(rows.column(wanted.key)))))


def _texts_beside(
    storage: Storage, manifest: Manifest, vocabularies: Collection[str], gone: Collection[str]
) -> dict[str, str]:
    """Return the contract, schema and vocabularies as text, by file name, and ``vocabularies`` without the tokens ``gone``.

    In other vocabularies, an equal token has a different meaning. Each token is replaced with a line that no token can
    equal, so that all other tokens keep their ids.
    """
    directory = f"{run_directory(manifest.day, manifest.made_by)}/"
    texts = {}
    for file in storage.files(directory.rstrip("/")):
        name = file.path.removeprefix(directory)
        if name in (CONTRACT, SCHEMA) or vocabulary_of(name) is not None:
            texts[name] = storage.read(file.path).decode()
        if vocabulary_of(name) in vocabularies:
            lines = enumerate(texts[name].split("\n"), 1)
            texts[name] = "\n".join(f"\0forgotten {n}" if line in gone else line for n, line in lines)
    return texts


def _pseudonyms(manifest: Manifest, contract: ExampleContract) -> Pseudonyms | None:
    """Return the pseudonyms of the run's configuration, or of all features if it is unreadable without its environment.

    The salt may be lost.
    """

    def value_of(name: str, _: object) -> str:
        return os.environ.get(name) or secrets.token_hex()

    try:
        return pseudonyms_of(JobConfig.model_validate(filled(dict(manifest.config), value_of)))
    except ValidationError:
        return Pseudonyms(secrets.token_hex(), frozenset(contract.names("feature")))


def _without(manifest: Manifest, shards: tuple[Shard, ...]) -> Manifest:
    """Return a manifest with fewer samples, and without examples of orphans, whose actions may belong to any user.

    The number of removed view matches is unknown; there are at most as many matches as samples.
    """
    records = sum(shard.records for shard in shards)
    counts = dict(manifest.accounting)
    counts[FORGOTTEN] = counts.get(FORGOTTEN, 0) + manifest.records - records
    views = {
        name: {**counts, "matched": min(counts["matched"], records)} if "matched" in counts else counts
        for name, counts in manifest.views.items()
    }
    labels = {
        name: {what: facts for what, facts in label.items() if what not in (ORPHAN_SAMPLE, "final", "funnel")}
        for name, label in manifest.labels.items()
    }
    sampling = {name: facts for name, facts in manifest.sampling.items() if name != "weights"}  # they count the removed
    accounting = {**counts, "samples": records}
    return replace(manifest, shards=shards, accounting=accounting, views=views, labels=labels, sampling=sampling)


def remaining(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each other location that may still contain the values, with instructions to remove them."""
    if config.get("fitted") and config.get("vocabularies"):
        yield (
            f"The fitted state in {_path(config, 'fitted')} may have them as tokens: once the logs lack them, run "
            "`ctr-samples fit --afresh`, then remove what older versions have below `data/` there."
        )
    if config.get("partials"):
        yield (
            f"What is kept of finished days in {_path(config, 'partials')} may have them: once the logs lack them, remove that "
            "directory, and the next run makes it anew."
        )


def _path(config: Mapping[str, Any], section: str) -> str:
    return str(config[section]["path"]) if isinstance(config[section], Mapping) else f"`{section}.path`"


@dataclass(frozen=True, slots=True)
class Values:
    """Values read from a file, each with the number of its first line."""

    file: str
    lines: dict[str, int]

    @classmethod
    def read(cls, file: Path) -> Values:
        r"""Read a file in UTF-8, with or without a byte order mark. Skips empty lines.

        Lines end at ``\n`` and ``\r\n``. Raises UsageError for a file that cannot be read or has no value.
        """
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise UsageError(f"Cannot read {file}: {why}. {_EXPECTED}.") from None
        if "\0" in text:
            raise UsageError(f"Cannot read {file}: it has a zero byte, so it is no text in UTF-8. {_EXPECTED}.")
        lines: dict[str, int] = {}
        for number, line in enumerate(re.split(r"\r?\n", text), 1):
            if line:
                lines.setdefault(line, number)
        if not lines:
            raise UsageError(f"{file} has no line; {_EXPECTED}.")
        return cls(str(file), lines)

    @property
    def looked_for(self) -> list[str]:
        """Everything to search for: the values and, for :meth:`check`, their parts without quotes, blanks and commas."""
        return list(dict.fromkeys([*self.lines, *(part for line in self.lines for part in _parts(line))]))

    def check(self, found: Collection[str], what: str = "sample") -> str | None:
        """Describe the values that no sample has, if any. ``found`` is the subset of :attr:`looked_for` in the samples.

        ``what`` names what was searched instead of samples.

        Raises UsageError for a quoted line, and for a line of which the samples contain only a part, since neither
        would match the intended users.
        """
        missing = {line: number for line, number in self.lines.items() if line not in found}
        for line, number in missing.items():
            if _is_quoted(line) or any(part in found for part in _parts(line)):
                raise UsageError(
                    f"No {what} has the value in line {number} of {self.file}, which is {in_quotes(line)}. Expected one "
                    f"value in each line as the {what}s have it, with no quotes, blanks or commas around it. Nothing was "
                    "published; correct the file and run again."
                )
        if not missing:
            return None
        numbers = ", ".join(map(str, list(missing.values())[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        lines = f"line {numbers}" if len(missing) == 1 else f"lines {numbers}"
        return f"{len(missing):,} of {len(self.lines):,} value(s) match no {what}: {lines} of {self.file}."


def _is_quoted(line: str) -> bool:
    bare = line.strip()
    return len(bare) > 1 and bare[0] in _QUOTES and bare[-1] in _QUOTES


def _parts(line: str) -> Iterator[str]:
    """Yield the values that a line may mean if it is not a plain value."""
    for part in (line, *re.split(r"[,;|\s]", line)):
        before, bare = "", part
        while bare != before:
            before, bare = bare, bare.strip().strip(_AROUND)
        if bare and bare != line:
            yield bare


Ids = Mapping[str, Sequence[int]]
"""Impression ids of a day, by the value of the key."""


def check_key(loaded: LoadedConfig, key: str, manifests: Iterable[Manifest]) -> None:
    """Raise UsageError unless ``key`` tells whose an impression is, and the samples' ids are made as configured."""
    shown = loaded.config.impressions
    keys = [name for name in shown.keys_and_request if name != shown.shown_key]
    if key not in keys:
        raise UsageError(
            f"`--key` is {key!r}, but with `--config` it is a key of impressions that says whose they are: "
            f"{', '.join(keys) or 'there is none'}. Without `--config` it is a column of the samples."
        )
    for manifest in manifests:
        which = f"Generation {manifest.generation} of {manifest.run_date}"
        if manifest.name != loaded.config.name:
            raise UsageError(
                f"{which} is of {manifest.name!r}, but {loaded.path} makes {loaded.config.name!r}; give its own configuration."
            )
        if not id_columns(manifest):
            raise UsageError(f"{which} has no impression ids, as `layout: legacy_121` has none; make the day again.")
        now, then = ids_made_of(manifest, loaded), ids_made_of(manifest)
        if others := [name for name in now if now[name] != then[name]]:
            raise UsageError(
                f"{which} has other impression ids than {loaded.path} makes, whose {' and '.join(others)} differ; give the "
                "configuration that it was made with."
            )


def impressions_of(
    spark: SparkSession,
    loaded: LoadedConfig,
    days: Iterable[Period],
    key: str,
    values: Sequence[str],
    reporter: Reporter | None = None,
) -> dict[Period, Ids]:
    """Find the impressions whose ``key`` is one of ``values``, by day, including those that are no samples.

    Runs a Spark job for each day, which reads only the log of impressions. Raises InputError if a day's log is gone.
    """
    config, reporter = loaded.config, reporter or Silent()
    shown = config.impressions
    source = config.sources[shown.source]
    found: dict[Period, Ids] = {}
    with planning(spark, loaded):
        session = run_session(spark, config.timezone)
        sought = F.broadcast(session.createDataFrame([(value,) for value in values], "_value string"))
        for day in days:
            reporter.stage(f"finding impressions of {day}")
            check_period(day, config.grain, config.timezone)
            span = Span.of(day, config.timezone)
            try:
                read = read_source(session, shown.source, source, day)
            except InputError as error:
                raise InputError(f"The users' impressions of {day} cannot be found. {error}") from None
            lines = read.frame
            if source.explode:
                lines = exploded(lines, source.explode, f"sources.{shown.source}.explode")
            impressions = cut_impressions(lines, shown, span, tasks_of_logs(session, [read.bytes])).where(
                F.col("impression_time").isNotNull() & span.contains(F.col("impression_time"))
            )
            theirs = impressions.join(sought, F.col(key).cast("string") == F.col("_value"), "inner")
            rows = theirs.select("_value", "impression_id").distinct().toArrow().to_pylist()
            ids: dict[str, list[int]] = defaultdict(list)
            for row in rows:
                ids[row["_value"]].append(row["impression_id"])
            found[day] = ids
    return found

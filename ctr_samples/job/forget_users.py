"""The users to forget: a file with one value in each line, exactly as in the samples, and their impressions in the logs, for
samples that do not say whose they are, which needs Spark.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ctr_samples.config import LoadedConfig
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job.forget import id_columns, ids_made_of, in_quotes
from ctr_samples.job.planning import planning
from ctr_samples.periods import Period, check_period
from ctr_samples.samples.impressions import cut_impressions
from ctr_samples.samples.inputs.sources import read_source
from ctr_samples.samples.inputs.watched import exploded
from ctr_samples.samples.period import Span
from ctr_samples.shards import Manifest
from ctr_samples.sparksql.observations import Reporter, Silent
from ctr_samples.sparksql.session import run_session

_EXPECTED = "`--values` names a file with one value in each line"
_QUOTES = "\"'`\u2018\u2019\u201a\u201c\u201d\u201e\xab\xbb"
_AROUND = f"{_QUOTES}\ufeff\u200b\u200c\u200d\u2060"
"""Characters that other programs add around values: quotes and invisible marks."""
_SHOWN = 10


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
                log = read_source(session, shown.source, source, day).frame
            except InputError as error:
                raise InputError(f"The users' impressions of {day} cannot be found. {error}") from None
            lines = exploded(log, source.explode, f"sources.{shown.source}.explode") if source.explode else log
            impressions = cut_impressions(lines, shown, span).where(
                F.col("impression_time").isNotNull() & span.contains(F.col("impression_time"))
            )
            theirs = impressions.join(sought, F.col(key).cast("string") == F.col("_value"), "inner")
            rows = theirs.select("_value", "impression_id").distinct().toArrow().to_pylist()
            ids: dict[str, list[int]] = defaultdict(list)
            for row in rows:
                ids[row["_value"]].append(row["impression_id"])
            found[day] = ids
    return found

"""The status of each day, and the page about many days."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from pydantic import ValidationError

from ctr_samples.config import JobConfig
from ctr_samples.config.document import filled
from ctr_samples.errors import DamagedFile, InputError, StorageError
from ctr_samples.job.gate import metrics_of_run, read_metrics
from ctr_samples.periods import WHOLE, Hour, Period, grain_of, newest_complete, periods_between, span_of, zone_of
from ctr_samples.quality.metrics import Finding, Metrics
from ctr_samples.quality.served import Served
from ctr_samples.quality.trends import DayPoint, Standing, figures_of, render
from ctr_samples.shards import Manifest, Storage, days_of, latest_manifest
from ctr_samples.shards.naming import REPORT, SERVED, TRENDS, run_directory
from ctr_samples.shards.published import refused_run

_AT_ONCE = 8
"""Number of manifests read in parallel. Most of the time is spent waiting for the storage."""


@dataclass(frozen=True, slots=True)
class DayStatus:
    """The status of a day: the published manifest, any run refused since, and any damage to the newest manifest."""

    day: Period
    manifest: Manifest | None = None
    refused: str | None = None
    """Run refused since the newest published run, or None."""
    damage: str = ""
    stale: tuple[str, ...] = ()
    """Reasons why a run would publish a new generation, if requested."""
    due: bool = False
    """Whether ``generate --due`` builds the day."""

    @property
    def sentence(self) -> str:
        """The status in words."""
        if self.damage:
            return f"damaged: {self.damage}"
        if self.manifest is None:
            return ("refused" if self.refused else "missing") + (", due" if self.due else "")
        parts = [
            "published",
            "" if self.manifest.label_mature else "labels not final",
            "due" if self.due else "",
            "a later run was refused" if self.refused else "",
            f"stale: {', '.join(self.stale)}" if self.stale else "",
        ]
        return ", ".join(filter(None, parts))


def statuses(
    storage: Storage, first: Period | None, last: Period | None, newest: int | None = None
) -> Iterator[DayStatus]:
    """Yield all days from ``first`` to ``last``, which default to the first and last directory.

    With ``newest``, yields at most that many days. For hourly samples yields all hours, for a whole log its single
    period. Raises InputError if there are no samples.
    """
    days = days_of(storage)
    if not days and (first is None or last is None):
        raise InputError(f"{storage.url} holds no samples; expected an output directory of `ctr-samples generate`.")
    if days == [WHOLE]:
        yield _status(storage, WHOLE)
        return
    there = set(days)
    periods = periods_between(first or days[0], last or days[-1], _timezone(storage, days))
    for day in periods if newest is None else periods[-newest:]:
        yield _status(storage, day) if day in there else DayStatus(day)


def due_days(storage: Storage, config: JobConfig, now: datetime) -> list[Period]:
    """Return the days that ``generate --due`` builds, in order: see :func:`is_due`."""
    days = {*days_of(storage), newest_complete(config.grain, config.timezone, now)}
    with ThreadPoolExecutor(_AT_ONCE, "manifest") as threads:
        found = threads.map(partial(_status, storage), sorted(days, key=str))
        return [status.day for status in found if is_due(status, config, now)]


def is_due(status: DayStatus, config: JobConfig, now: datetime) -> bool:
    """Whether a day is the newest complete day and unpublished, or its label windows closed after it was published.

    Rolled-back and damaged days require a manual decision.
    """
    if status.damage or grain_of(status.day) != config.grain:
        return False
    if status.manifest is None:
        return status.day == newest_complete(config.grain, config.timezone, now)
    if status.manifest.label_mature or status.manifest.rollback is not None:
        return False
    span = span_of(status.day, config.timezone)
    return span is not None and now >= span[1] + config.matures_after


def config_of_newest(days: Iterable[DayStatus]) -> JobConfig | None:
    """Return the configuration of the last manifest, without the run's environment, or None if there is no manifest."""
    for day in reversed(list(days)):
        if day.manifest is not None:
            with suppress(ValidationError):
                return JobConfig.model_validate(filled(dict(day.manifest.config), lambda name, _: f"${{{name}}}"))
            return None
    return None


def _timezone(storage: Storage, days: Sequence[Period]) -> str:
    """Return the time zone that defines the hours, from the newest readable manifest. Days need no time zone."""
    if isinstance(next(iter(days), None), Hour):
        for day in reversed(days):
            manifest = _status(storage, day).manifest
            if manifest is not None:
                return zone_of(manifest.config)
    return "UTC"


def _status(storage: Storage, day: Period) -> DayStatus:
    try:
        manifest = latest_manifest(storage, day)
        return DayStatus(day, manifest, refused_run(storage, day, manifest.run_id if manifest else ""))
    except (DamagedFile, StorageError) as error:
        return DayStatus(day, damage=str(error))


MOST_DAYS = 400


def trends_page(
    storage: Storage, first: Period | None, last: Period | None, newest: int = MOST_DAYS, *, root: str = ""
) -> str:
    """Return the page about the days from ``first`` to ``last``, or about the ``newest`` days.

    Raises InputError if there are no samples.

    ``root`` is the path from the page to the sample set; by default the page is in it. A day whose metrics cannot be
    read is shown without figures.
    """
    with ThreadPoolExecutor(_AT_ONCE, "metrics") as threads:
        points = list(threads.map(partial(_point, storage, root), statuses(storage, first, last, newest)))
    names = [name for name, _ in points if name]
    return render(names[-1] if names else "samples", [point for _, point in points])


def write_page(storage: Storage, page: str, name: str = TRENDS) -> str:
    """Write a page into the sample set, replacing an earlier page, and return its address."""
    with storage.new_file(name) as file:
        file.write(page.encode())
    return storage.locate(name)


def _point(storage: Storage, root: str, day: DayStatus) -> tuple[str, DayPoint]:
    """Return the name of the sample set as recorded by the day, and the day's point on the page."""
    if day.manifest is not None:
        return _published(storage, root, day, day.manifest)
    if day.refused:
        name, findings = "", tuple[Finding, ...]()
        try:
            metrics = metrics_of_run(storage, day.day, day.refused, distributions=False)
            name, findings = metrics.name, _not_passed(metrics)
        except (FileNotFoundError, StorageError, DamagedFile):
            pass
        page = f"{root}{run_directory(day.day, day.refused)}/{REPORT}"
        return name, DayPoint(str(day.day), "refused", day.sentence, page, findings=findings)
    return "", DayPoint(str(day.day), "damaged" if day.damage else "missing", day.sentence)


def _published(storage: Storage, root: str, day: DayStatus, manifest: Manifest) -> tuple[str, DayPoint]:
    try:
        metrics = read_metrics(storage, manifest, distributions=False)
    except (FileNotFoundError, StorageError, DamagedFile) as error:
        note = f"{day.sentence}, without metrics: {error}"
        return manifest.name, DayPoint(str(day.day), "passed", note, generation=manifest.generation)
    standing: Standing = metrics.verdict
    served, damage = _served(storage, manifest)
    return manifest.name, DayPoint(
        str(day.day),
        standing,
        day.sentence + (f", accepted: {', '.join(metrics.accepted)}" if metrics.accepted else "") + damage,
        f"{root}{run_directory(day.day, manifest.made_by)}/{REPORT}",
        manifest.generation,
        figures_of(metrics, manifest, served),
        _not_passed(metrics),
        frozenset(name for name, label in metrics.labels.items() if label.binary),
    )


def _served(storage: Storage, manifest: Manifest) -> tuple[Served | None, str]:
    """Return the comparison of a day with what was served, or None and, if there is one, why it cannot be read."""
    try:
        return Served.from_json(storage.read(f"{run_directory(manifest.day, manifest.made_by)}/{SERVED}")), ""
    except FileNotFoundError:
        return None, ""
    except StorageError as error:
        return None, f", without what was served: {error}"
    except ValueError:
        return None, f", without what was served: {SERVED} is damaged; run `ctr-samples compare-served` again"


def _not_passed(metrics: Metrics) -> tuple[Finding, ...]:
    return tuple(finding for finding in metrics.checks if finding.standing != "passed")

"""Metrics of published days: as a document, for Prometheus, and as a comparison of two days."""

from __future__ import annotations

from dataclasses import replace

from ctr_samples.errors import DamagedFile
from ctr_samples.job.gate import metrics_of_run, read_metrics
from ctr_samples.periods import Period
from ctr_samples.quality.drift import drifts
from ctr_samples.quality.metrics import Metrics
from ctr_samples.quality.prometheus import prometheus_text, refused_text
from ctr_samples.quality.report import render
from ctr_samples.shards import Manifest, Storage, published_days
from ctr_samples.shards.naming import METRICS
from ctr_samples.shards.published import (
    absent,
    chosen_manifest,
    file_of_run,
    last_refused_day,
    refused_after,
    refused_run,
)


def metrics_of(storage: Storage, manifest: Manifest) -> Metrics:
    """Read the metrics of a generation. Raises InputError if it has none."""
    try:
        return read_metrics(storage, manifest)
    except FileNotFoundError:
        raise absent(storage, manifest, METRICS) from None


def metrics_text(storage: Storage, manifest: Manifest) -> str:
    """Return ``metrics.json`` as it is, even if its format is unknown."""
    path = file_of_run(manifest.day, manifest.made_by, METRICS)
    try:
        return storage.read(path).decode()
    except FileNotFoundError:
        raise absent(storage, manifest, METRICS) from None
    except UnicodeDecodeError:
        raise DamagedFile(f"{storage.locate(path)} is not text; run the day again with --force.") from None


def for_prometheus(storage: Storage) -> str:
    """Return the metrics of the last published day, and the newest refused day.

    The refused day is later than the published day, or any day if none is published.
    """
    if not published_days(storage) and (days := last_refused_day(storage)):
        return refused_text(_name_of_refused(storage, days[-1]), days[-1])
    manifest = chosen_manifest(storage, None, None)
    refused = [day for day, _ in refused_after(storage, manifest, of_its_day=False)]
    return prometheus_text(metrics_of(storage, manifest)) + (
        refused_text(manifest.name, refused[-1]) if refused else ""
    )


def _name_of_refused(storage: Storage, day: Period) -> str:
    """Return the sample set of the newest refused run, or an empty string if its metrics cannot be read."""
    try:
        return metrics_of_run(storage, day, refused_run(storage, day, "") or "").name
    except (FileNotFoundError, DamagedFile):
        return ""


def compared(a: Metrics, storage: Storage, manifest: Manifest) -> str:
    """Render the page that compares a manifest with ``a``. The run itself may have used a different day for comparison."""
    b = metrics_of(storage, manifest)
    same_day = a.run_date == b.run_date
    names = [f"generation {day.generation}" if same_day else day.run_date for day in (a, b)]
    title = f"{b.name} {b.run_date + ', ' if same_day else ''}{names[1]} compared with {names[0]}"
    return render(replace(b, drift=drifts(b, a)), manifest, a, title=title)

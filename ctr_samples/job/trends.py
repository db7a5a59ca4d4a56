"""The page about many days of a sample set, from files that their runs wrote beside the samples. Needs no Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ctr_samples.errors import DamagedFile, StorageError
from ctr_samples.job.day_status import DayStatus, statuses
from ctr_samples.job.gate import metrics_of_run, read_metrics
from ctr_samples.periods import Period
from ctr_samples.quality.metrics import Finding, Metrics
from ctr_samples.quality.served import Served
from ctr_samples.quality.trends import DayPoint, Standing, figures_of, render
from ctr_samples.shards import Manifest, Storage
from ctr_samples.shards.naming import REPORT, SERVED, TRENDS, run_directory

MOST_DAYS = 400
_AT_ONCE = 8


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

"""How each day of a sample set stands, and what has changed since it was published."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import JobConfig, load_config
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job import run as job
from ctr_samples.job.day_status import due_days, statuses
from ctr_samples.job.planning import why_stale
from ctr_samples.shards import open_storage, publish
from ctr_samples.shards.generation_history import rollback
from tests.support.command_line import invoke
from tests.support.manifests import RUN, manifest
from tests.support.strange_files import STRANGE, replace_by
from tests.support.tiny_days import write_day, write_days

MONDAY = date(2019, 6, 3)


def sentences(root: Path, first: date | None = None, last: date | None = None) -> dict[str, str]:
    return {str(day.day): day.sentence for day in statuses(open_storage(root), first, last)}


def report_of_a_run(root: Path, day: str, run: str) -> None:
    directory = root / f"dt={day}/data/{run}"
    directory.mkdir(parents=True)
    (directory / "report.html").write_text("refused")


def test_each_day_between_the_first_and_the_last_has_a_status(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    publish(storage, manifest(run_date="2019-06-03"))
    report_of_a_run(tmp_path, "2019-06-03", RUN)
    publish(storage, manifest(run_date="2019-06-05", label_mature=False))
    report_of_a_run(tmp_path, "2019-06-06", "20190607T020000-aaaaaaaa")
    publish(storage, manifest(run_date="2019-06-07", run_id="20190608T020000-aaaaaaaa"))
    report_of_a_run(tmp_path, "2019-06-07", "20190608T020000-aaaaaaaa")
    report_of_a_run(tmp_path, "2019-06-07", "20190609T020000-bbbbbbbb")
    publish(storage, manifest(run_date="2019-06-08"))
    (tmp_path / "dt=2019-06-08/manifests/00000001.json").write_text("{}")
    damaged = sentences(tmp_path).pop("2019-06-08")
    assert damaged.startswith(f"damaged: {tmp_path}/dt=2019-06-08/manifests/00000001.json")
    assert sentences(tmp_path) == {
        "2019-06-03": "published",
        "2019-06-04": "missing",
        "2019-06-05": "published, labels not final",
        "2019-06-06": "refused",
        "2019-06-07": "published, a later run was refused",
        "2019-06-08": damaged,
    }


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("place", ["", "/manifests", "/data", "/manifests/00000002.json"])
def test_whatever_has_the_name_of_ours_is_told_of_its_day_alone(tmp_path: Path, place: str, kind: str) -> None:
    place = f"dt=2019-06-04{place}"
    for day in ("2019-06-03", "2019-06-05", *["2019-06-04"] * place.endswith("2.json")):
        publish(open_storage(tmp_path), manifest(run_date=day))
    (tmp_path / place).parent.mkdir(exist_ok=True)
    replace_by(kind, tmp_path / place)
    told = sentences(tmp_path)
    said = told.pop("2019-06-04")
    if place.endswith("2.json"):
        assert (said.startswith("damaged: "), place in said) == (True, True)
    else:
        assert said.startswith(("missing", "damaged: Cannot read "))
    assert told == {"2019-06-03": "published", "2019-06-05": "published"}


@pytest.mark.parametrize("timezone", ["Asia/Shanghai", "${TZ_OF_TESTS}", None], ids=str)
def test_hours_are_listed_although_the_newest_cannot_be_read_or_its_zone_is_not_known(
    tmp_path: Path, timezone: str | None
) -> None:
    for hour in ("2019-06-03T07", "2019-06-03T09", "2019-06-03T10"):
        publish(open_storage(tmp_path), manifest(run_date=hour, config={"timezone": timezone}))
    replace_by("an empty directory", tmp_path / "dt=2019-06-03/hour=10/manifests/00000001.json")
    told = sentences(tmp_path)
    assert told.pop("2019-06-03T10").startswith("damaged: ")
    assert told == {"2019-06-03T07": "published", "2019-06-03T08": "missing", "2019-06-03T09": "published"}


def test_the_range_may_be_wider_or_narrower_than_what_is_there(tmp_path: Path) -> None:
    for day in ("2019-06-04", "2019-06-05"):
        publish(open_storage(tmp_path), manifest(run_date=day))
    assert sentences(tmp_path, MONDAY) == {
        "2019-06-03": "missing",
        "2019-06-04": "published",
        "2019-06-05": "published",
    }
    assert sentences(tmp_path, None, date(2019, 6, 4)) == {"2019-06-04": "published"}
    with pytest.raises(UsageError, match="The last day is 2019-06-03, before the first, 2019-06-04"):
        sentences(tmp_path, None, MONDAY)
    with pytest.raises(InputError, match="holds no samples; expected an output directory"):
        sentences(tmp_path / "new", MONDAY)
    assert sentences(tmp_path / "new", MONDAY, MONDAY) == {"2019-06-03": "missing"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def windows(window: str, grain: str = "day", timezone: str = "UTC") -> JobConfig:
    """A configuration whose label has this window."""
    return JobConfig.model_validate(
        {
            "name": "tiny",
            "grain": grain,
            "timezone": timezone,
            "sources": {"log": {"format": "json", "path": "log", "schema": "t string"}},
            "impressions": {"source": "log", "time": "t", "user": "u", "article": "a"},
            "labels": {"clicked": {"source": "log", "where": "c", "window": window}},
            "features": {"x": {"from": "impression.user", "dtype": "string"}},
            "output": {"path": "out"},
        }
    )


def due(root: Path, config: JobConfig, now: str) -> list[str]:
    return [str(day) for day in due_days(open_storage(root), config, at(now))]


def test_the_newest_day_that_is_over_in_the_zone_is_due_until_it_is_published(tmp_path: Path) -> None:
    (tmp_path / "dt=2019-06-01/data").mkdir(parents=True)  # an earlier night that failed is not due
    assert due(tmp_path, windows("1h"), "2019-06-04 02:00") == ["2019-06-03"]
    report_of_a_run(tmp_path, "2019-06-03", RUN)
    assert due(tmp_path, windows("1h"), "2019-06-04 02:00") == ["2019-06-03"]
    publish(open_storage(tmp_path), manifest(run_date="2019-06-03"))
    assert due(tmp_path, windows("1h"), "2019-06-04 02:00") == []
    shanghai = windows("1h", timezone="Asia/Shanghai")
    assert due(tmp_path / "new", shanghai, "2019-06-03 16:00") == ["2019-06-03"]
    assert due(tmp_path / "new", shanghai, "2019-06-03 15:59") == ["2019-06-02"]


@pytest.mark.parametrize(
    ("window", "made"),
    [
        ("1h", ["2019-06-03", "2019-06-04", "2019-06-05"]),
        ("1d", ["2019-06-03", "2019-06-04"]),
        ("36h", ["2019-06-03"]),
        ("7d", []),
    ],
)
def test_a_day_is_due_again_once_its_windows_have_closed(tmp_path: Path, window: str, made: list[str]) -> None:
    storage = open_storage(tmp_path)
    publish(storage, manifest(run_date="2019-06-02"))
    for day in ("2019-06-03", "2019-06-04", "2019-06-05"):
        publish(storage, manifest(run_date=day, label_mature=False))
    assert due(tmp_path, windows(window), "2019-06-06 02:00") == made


def test_a_day_that_a_person_rolled_back_or_whose_manifest_is_damaged_is_not_due(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    for generation in (1, 2):
        publish(storage, manifest(run_date="2019-06-03", generation=generation, label_mature=False))
    rollback(storage, MONDAY, 1, at("2019-06-05 02:00"), "aaaaaaaa")
    publish(storage, manifest(run_date="2019-06-04"))
    (tmp_path / "dt=2019-06-04/manifests/00000001.json").write_text("{}")
    assert due(tmp_path, windows("1h"), "2019-06-05 02:00") == []


def test_hours_and_whole_logs_are_due_as_well(tmp_path: Path) -> None:
    autumn = windows("1h", "hour", "Europe/Berlin")
    assert due(tmp_path / "hours", autumn, "2019-06-03 05:30") == ["2019-06-03T06"]
    assert due(tmp_path / "hours", autumn, "2019-06-02 22:00") == ["2019-06-02T23"]
    assert due(tmp_path / "hours", autumn, "2019-10-27 01:59") == ["2019-10-27T02"]
    assert due(tmp_path / "hours", autumn, "2019-10-27 02:00") == ["2019-10-27T02b"]
    publish(open_storage(tmp_path / "hours"), manifest(run_date="2019-06-03T06", label_mature=False))
    assert due(tmp_path / "hours", autumn, "2019-06-03 05:30") == []
    assert due(tmp_path / "hours", autumn, "2019-06-03 06:30") == ["2019-06-03T06", "2019-06-03T07"]
    assert due(tmp_path / "whole", windows("1h", "all"), "2019-06-03 05:30") == ["all"]


def test_status_says_what_is_due_without_a_configuration_file(tmp_path: Path) -> None:
    config = windows("1h").model_dump(mode="json", by_alias=True, exclude_unset=True)
    publish(open_storage(tmp_path), manifest(run_date="2019-06-03", label_mature=False, config=config))
    told = invoke("status", str(tmp_path))
    assert told.exit_code == 0
    assert "published, labels not final, due" in told.stdout


@pytest.mark.thorough
def test_a_day_is_stale_once_its_inputs_or_its_configuration_changed_in_what_makes_samples(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write_days(tmp_path, MONDAY, 1)
    monday = job.run(spark, load_config(path), MONDAY).manifest

    def why(*changes: str) -> tuple[str, ...]:
        return why_stale(spark, load_config(path, changes), monday)

    assert why() == ()
    assert why("quality.rate.fail=9", "output.retention.generations=9", "output.ids=raw") == ()
    assert why("trends=30", f"partials={{path: {tmp_path}/partials}}") == ()
    assert why("output.partitions=2") == ("the configuration changed: output",)
    assert why("labels.clicked.window=2h") == ("the configuration changed: labels.clicked",)
    assert why("sources.log.path=/nowhere/{date}.json")[0].startswith(
        "a run would be refused: sources.log: there is no /nowhere/2019-06-03.json;"
    )
    assert not monday.label_mature
    write_day(tmp_path, date(2019, 6, 4))
    assert why("quality.rate.fail=9") == ("the input log changed", "the labels are final now")

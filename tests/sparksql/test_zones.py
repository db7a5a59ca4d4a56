"""Time zones in the databases of Python and of Java."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ctr_samples.errors import ConfigError
from ctr_samples.sparksql import zones
from ctr_samples.sparksql.session import run_session

DAY = date(2024, 6, 5)


@pytest.fixture
def older_zones(tmp_path: Path) -> Iterator[Path]:
    """A database of Python's own, for as long as a test runs."""
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    zoneinfo.ZoneInfo.clear_cache()
    yield tmp_path
    zoneinfo.reset_tzpath(to=before)
    zoneinfo.ZoneInfo.clear_cache()


def put(root: Path, name: str, like: str) -> None:
    """Write a zone with the rules of another one."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    found = next(
        path for folder in ("/usr/share/zoneinfo", *zoneinfo.TZPATH) if (path := Path(folder) / like).is_file()
    )
    (root / name).write_bytes(found.read_bytes())


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "America/St_Johns"])
def test_both_databases_agree_through_the_changes_of_a_year(spark: SparkSession, zone: str) -> None:
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2024, 2025))
    offsets = zones.python_offsets(zone, start, end)
    assert zones.java_offsets(spark, zone, start, end) == offsets
    assert len(offsets) == 366 * 24
    assert len(set(offsets)) == (2 if zone in ("Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns") else 1)
    zones.check_offsets(spark, zone, DAY, DAY)


def test_databases_with_other_rules_for_the_days_of_a_run_are_refused_with_both_releases(
    spark: SparkSession, older_zones: Path
) -> None:
    put(older_zones, "Europe/Berlin", like="Africa/Lagos")
    (older_zones / "+VERSION").write_text("1999z\n")
    release = zones.java_release(spark, "Europe/Berlin")
    said = (
        rf"timezone: Python on the driver \(1999z\) and the driver \({release}\) have other rules for Europe/Berlin: "
        r"2024-06-04 00:00:00 UTC is 2024-06-04 01:00:00 for one and 2024-06-04 02:00:00 for the other"
    )
    with pytest.raises(ConfigError, match=said):
        zones.check_offsets(spark, "Europe/Berlin", DAY, DAY)
    zones.check_offsets(spark, "Europe/Berlin", date(2024, 1, 10), date(2024, 1, 20))


def test_an_executor_with_other_rules_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session = run_session(spark, "America/St_Johns")
    told = list(zones._of_executors(session, "America/St_Johns", 0, 36_000))
    assert {tuple(offsets) for _, _, offsets in told} == {(-12_600,) * 10}
    assert {release for _, release, _ in told} == {*zones.zone_releases(spark, "America/St_Johns").values()}

    def others(*_: Any) -> Iterator[tuple[str, str, list[int]]]:
        yield "an executor on far", "1999z", [7200] * 72

    cluster = cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(master="yarn"), _jvm=cast(Any, spark)._jvm))
    monkeypatch.setattr(zones, "_of_executors", others)
    with pytest.raises(ConfigError, match=r"and an executor on far \(1999z\) have other rules for UTC"):
        zones.check_offsets(cluster, "UTC", DAY, DAY)


def test_a_zone_that_java_lacks_is_a_sentence(spark: SparkSession, older_zones: Path) -> None:
    put(older_zones, "Mars/Olympus", like="UTC")
    with pytest.raises(ConfigError, match=r"timezone: found Mars/Olympus, which Python knows .*, but not Java \(20"):
        run_session(spark, "Mars/Olympus")


def test_an_executor_tells_the_offsets_of_both_databases() -> None:
    rows = pa.RecordBatch.from_pylist([{"offsets": ["+05:45", "-03:30"], "versions": "{2025a=x}"}])
    (told,) = zones._told("UTC", 0, 7200, iter([rows]))
    assert [(row["release"], row["offsets"]) for row in told.to_pylist()] == [
        ("2025a", [20_700, -12_600]),
        (zones.python_release("UTC"), [0, 0]),
    ]

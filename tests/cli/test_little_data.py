"""Which commands start Spark for little data: the quick compiler, with which a large day would take longer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from ctr_samples.cli.generate import reads_little, spark_for
from ctr_samples.config import JobConfig, load_config
from ctr_samples.sparksql import session
from tests.support.tiny_days import write_days


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """Three days of logs of a few hundred bytes, in ``log/2019-06-03.json`` and so on."""
    return write_days(tmp_path, date(2019, 6, 3), 3)


def job(days: Path, *changes: str) -> JobConfig:
    return load_config(days, changes).config


def grown(path: Path, size: int) -> None:
    """Make a file larger without writing."""
    with path.open("ab") as file:
        file.truncate(size)


@pytest.mark.parametrize("path", ["{date}.json", "{date:%Y-%m}-{date:%d}.json", "{date}*"])
def test_small_files_are_little_data_however_they_are_named(days: Path, path: str) -> None:
    assert reads_little(job(days, f"sources.log.path={days.parent}/log/{path}"))
    assert reads_little(job(days, f"sources.log.path=file://{days.parent}/log/{path}"))
    assert reads_little(job(days, f"sources.log.path=file:{days.parent}/log/{path}"))


def test_the_files_of_all_days_count_together(days: Path) -> None:
    for day in (3, 4, 5):
        grown(days.parent / f"log/2019-06-0{day}.json", 5 << 20)
    assert reads_little(job(days))
    grown(days.parent / "log/2019-06-05.json", 7 << 20)
    assert not reads_little(job(days))


def test_thousands_of_files_are_not_little_data_however_small(days: Path) -> None:
    for number in range(4096):
        (days.parent / f"log/2019-06-03.{number}").touch()
    assert not reads_little(job(days, f"sources.log.path={days.parent}/log/{{date}}*"))


@pytest.mark.parametrize("path", ["s3a://bucket/log/{date}.json", "hdfs:///log/{date}.json", "nowhere/{date}.json"])
def test_data_that_is_not_seen_here_is_not_little(days: Path, path: str) -> None:
    assert not reads_little(job(days, f"sources.log.path={path}"))


def test_a_table_is_not_little_data(days: Path) -> None:
    table = "  log:\n    format: table\n    table: prod.log\n    date_column: day\n"
    days.write_text(re.sub(r"  log:\n    format: json\n    path: .*\n", table, days.read_text()))
    assert not reads_little(job(days))


class Started(Exception):
    """Raised instead of starting a JVM."""


@pytest.mark.parametrize(("size", "compiler"), [(1 << 10, "-XX:TieredStopAtLevel=1"), (17 << 20, "-XX:Tier4")])
def test_a_command_chooses_the_compiler_by_the_size_of_its_inputs(
    days: Path, monkeypatch: pytest.MonkeyPatch, size: int, compiler: str
) -> None:
    def start(settings: Mapping[str, str]) -> None:
        raise Started(settings["spark.driver.extraJavaOptions"])

    monkeypatch.setattr(session.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "_start_jvm", start)
    grown(days.parent / "log/2019-06-03.json", size)
    with pytest.raises(Started, match=compiler), spark_for(job(days), "test", Console(quiet=True)):
        pass

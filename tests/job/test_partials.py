"""Samples that are counted and listed from partial results: the same bytes as from the logs, whatever happens to both."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import InputError, StorageError
from ctr_samples.job.planning import read_inputs
from ctr_samples.periods import Hour
from ctr_samples.samples.partials import Partials, where_kept
from ctr_samples.samples.partials.kept import definition_of, keepable
from ctr_samples.samples.period import Span
from ctr_samples.shards import open_storage
from ctr_samples.shards.storage import LocalStorage
from ctr_samples.sparksql.observations import Silent
from tests.job.partial_days import DAY, both, check_alike, with_histories, with_views, write_document, write_logs
from tests.support.whole_runs import Made, Told, made, make_unreadable, write_config, write_rows

HISTORY_DAYS = (-41, -40, -39, -6, -5, -4, -3, -2, -1, 0, 1, 2)
"""Around a run: those that histories reach and those just before, and gaps between them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zone", "day", "step", "windows", "delay"),
    [
        ("UTC", DAY, "1m", ["1m", "1h", "2d"], "0s"),
        ("Europe/Stockholm", date(2019, 3, 31), "1h", ["3h", "7d", "39d"], "10m"),
        ("America/New_York", date(2019, 11, 3), "1d", ["1d", "3d", "30d"], "26h"),
        ("Asia/Kolkata", DAY, "15m", ["15m", "40d"], "3d"),
    ],
)
def test_samples_from_partial_results_have_the_bytes_of_samples_from_the_logs(
    spark: SparkSession, tmp_path: Path, zone: str, day: date, step: str, windows: list[str], delay: str
) -> None:
    edges = {int(window[:-1]) for window in windows if window.endswith("d")}
    write_logs(tmp_path, {-2, -1, 0, 1, 2, *[-edge - around for edge in edges for around in (0, 1)]}, day, zone)
    paths = both(tmp_path, with_views(zone=zone, step=step, windows=windows, delay=delay), before=45)
    nights = [day, day + timedelta(days=1)]
    check_alike(spark, *paths, *(nights if zone == "Asia/Kolkata" else nights[:1]))


@pytest.mark.slow
def test_an_hour_counts_and_lists_from_the_partial_results_of_the_days_before_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    day, zone = date(2019, 10, 27), "Europe/Stockholm"
    write_logs(tmp_path, HISTORY_DAYS, day, zone, rows=300)
    config = with_histories("late", "long", zone=zone, grain="hour", views=["item"])
    check_alike(spark, *both(tmp_path, config, before=45), Hour(day, 0), Hour(day, 2, again=True))
    kept = {place.name for place in (tmp_path / "partials").glob("item/*/*")}
    assert {f"dt={day + timedelta(days=n)}" for n in (-3, -2, -1)} <= kept
    assert f"dt={day}" not in kept


@pytest.mark.slow
def test_what_was_known_by_a_time_is_counted_and_listed_from_partial_results_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_logs(tmp_path, HISTORY_DAYS)
    paths = both(tmp_path, with_histories("late", "long", views=["item", "last"]), before=45)
    for known_by in (datetime(2019, 6, 5, 0, 0, 1, tzinfo=UTC), datetime(2019, 6, 5, 12, 34, tzinfo=UTC)):
        check_alike(spark, *paths, DAY, known_by=known_by)


COLUMNAR = """
name: columnar
timezone: UTC
sources: {log: {format: parquet, path: 'ROOT/log/{date}.parquet', days_before: 3, days_after: 1, bad_records: {max_rate: 1}}}
impressions: {source: log, where: kind = 'shown', time: t, user: user, article: item}
labels: {clicked: {source: log, where: kind = 'click', window: 1h}}
histories:
  clicked_before: {source: log, where: kind = 'click', last: 3, within: 2d}
features:
  items: {expr: to_json(clicked_before.items), dtype: string, default: none}
output: {path: ROOT/OUT, partitions: 1}
"""


@pytest.mark.slow
def test_an_impression_in_a_file_of_an_earlier_day_is_seen_though_only_clicks_of_it_are_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = {
        -1: [("click", "2019-06-04 12:00:00", "i1"), ("shown", "2019-06-05 09:00:00", "i2")],
        0: [("shown", "2019-06-05 10:00:00", "i3"), ("click", "2019-06-05 10:01:00", "i3")],
    }
    for n, log in rows.items():
        events = [{"kind": kind, "t": at, "item": item, "user": "u1"} for kind, at, item in log]
        write_rows(tmp_path / f"log/{DAY + timedelta(days=n)}.parquet", events)
    plain = write_config(tmp_path, "plain", COLUMNAR)
    kept = write_config(tmp_path, "kept", COLUMNAR + "partials: {path: ROOT/partials}\n")
    check_alike(spark, plain, kept, DAY)


def at(day: int, clock: str) -> int:
    """A time in June 2019, in microseconds since 1970."""
    return int(datetime.fromisoformat(f"2019-06-{day:02} {clock}+00:00").timestamp()) * 1_000_000


def test_a_log_is_read_where_one_of_its_uses_has_rows_near_the_day(tmp_path: Path) -> None:
    config = load_config(write_config(tmp_path, "columnar", COLUMNAR)).config
    times = {
        "long before": (1, (at(1, "00:00"), at(1, "23:59")), (at(1, "00:00"), at(2, "00:10"))),
        "one late click": (2, (at(2, "00:00"), at(2, "23:59")), (at(2, "00:00"), at(5, "00:00"))),
        "across the day": (3, (at(3, "00:00"), at(6, "08:00")), (at(6, "01:00"), at(6, "02:00"))),
        "within an hour": (7, (at(6, "01:00"), at(7, "23:59")), (at(6, "01:00"), at(7, "23:59"))),
        "later": (8, (at(8, "00:00"), at(8, "23:59")), (at(6, "01:01"), at(8, "23:59"))),
    }
    partials = [
        SimpleNamespace(day=f"2019-06-{day:02}", times={"impressions": shown, "labels": clicked})
        for day, shown, clicked in times.values()
    ]
    kept = SimpleNamespace(what=SimpleNamespace(source="log"), partials=partials)
    days = [date(2019, 6, day) for day in range(1, 9)]
    inputs = SimpleNamespace(
        config=config, span=Span.of(DAY, "UTC"), days_around=lambda _: [DAY], days_of_log=lambda _: days
    )
    near = Partials(None, config, DAY, (kept,))._near(inputs, "log")  # type: ignore[arg-type]
    assert [day.day for day in near] == [2, 3, 4, 5, 6, 7]  # 4 to 6 have no partial results


@pytest.fixture(scope="module")
def first_night(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A night that has kept partial results of four days, with a copy of its directory beside it."""
    root = tmp_path_factory.mktemp("nights") / "night"
    write_logs(root, range(-3, 1))
    first = made(spark, write_document(root, "kept", with_views("item")), DAY)
    shutil.copytree(root, root.with_name("copy"))
    return first


@pytest.fixture
def night(first_night: Made) -> tuple[Path, list[Any]]:
    """The configuration of that night, and its shards. It is put back into its place, which its partial results know."""
    root = first_night.output.parent
    shutil.rmtree(root)
    shutil.copytree(root.with_name("copy"), root)
    return root / "kept.yaml", first_night.shards


def from_partials(spark: SparkSession, path: Path, **how: Any) -> tuple[list[Any], str]:
    """The shards of another run, and what its manifest says of partial results."""
    again = made(spark, path, DAY, force=True, **how)
    return again.shards, again.manifest.plan[-1]


@pytest.mark.slow
def test_only_a_day_whose_log_changed_is_counted_again(spark: SparkSession, night: tuple[Path, list[Any]]) -> None:
    path, before = night
    write_logs(path.parent, [-1], seed=1, rows=90)
    shards, told = from_partials(spark, path)
    assert told == "item is counted from partial results of 4 day(s); this run made those of 1"
    assert shards == made(spark, write_document(path.parent, "plain", with_views("item")), DAY).shards != before


@pytest.mark.slow
def test_a_partial_result_that_was_changed_is_named_and_made_anew(
    spark: SparkSession, night: tuple[Path, list[Any]]
) -> None:
    path, before = night
    changed, shorter = sorted((path.parent / "partials").rglob("steps-*.parquet"))[-2:]
    data = changed.read_bytes()
    changed.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    shorter.write_bytes(shorter.read_bytes()[:-1])
    reporter = Told()
    shards, told = from_partials(spark, path, reporter=reporter)
    assert shards == before
    told_of = [text.split()[0] for text in reporter.warnings if "it is made anew" in text]
    assert told_of == [str(shorter), str(changed)]
    assert told == "item is counted from partial results of 4 day(s); this run made those of 1"


@pytest.mark.slow
def test_other_windows_count_from_the_same_partial_results_and_other_expressions_do_not(
    spark: SparkSession, night: tuple[Path, list[Any]]
) -> None:
    path, _ = night
    config = with_views("item", windows=["1h", "3d"])
    write_document(path.parent, "kept", config)
    assert from_partials(spark, path)[1] == "item is counted from partial results of 4 day(s)"
    config["views"]["item"]["aggregates"]["distinct"] = {"users": "upper(user)"}
    write_document(path.parent, "kept", config)
    assert from_partials(spark, path)[1].endswith("this run made those of 4")


def test_a_partial_result_belongs_to_the_types_of_the_columns_that_it_was_made_from(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = load_config(write_document(tmp_path, "kept", with_views("item"), form="parquet")).config
    (tmp_path / "log").mkdir()

    def definition(paid: pa.DataType, request: pa.DataType) -> str:
        row = {"t": ["2019-06-05 10:00:00"], "kind": ["shown"], "user": ["u"], "item": ["i"]}
        table = pa.table(row | {"paid": pa.array([1], paid), "request": pa.array([1], request)})
        for day in (DAY - timedelta(days=1), DAY):
            pq.write_table(table, tmp_path / f"log/{day}.parquet")
        inputs = read_inputs(spark, config, DAY, Silent(), watched=False)
        (item,) = keepable(inputs)
        return definition_of(inputs, item)

    before = definition(pa.int32(), pa.int32())
    assert definition(pa.int32(), pa.int64()) == before
    assert definition(pa.int64(), pa.int32()) != before


@pytest.mark.slow
def test_a_night_reads_of_the_log_only_its_own_day_and_its_neighbours(
    spark: SparkSession, night: tuple[Path, list[Any]]
) -> None:
    path, before = night
    make_unreadable(*(path.parent / f"log/{DAY + timedelta(days=n)}.json" for n in (-3, -2)))
    assert from_partials(spark, path)[0] == before


def test_a_store_that_refuses_to_remove_old_partial_results_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / f"partials/item/{'0' * 16}/dt=2019-01-01/{'0' * 16}.json"
    old.parent.mkdir(parents=True)
    old.write_text("{}")
    os.utime(old, (0, 0))
    config = load_config(write_document(tmp_path, "kept", with_views("item"))).config
    monkeypatch.setattr(LocalStorage, "delete", Mock(side_effect=StorageError("Permission denied.")))
    warnings: list[str] = []
    Partials(open_storage(tmp_path / "partials"), config, DAY, ()).clean(datetime.now(UTC), warnings.append)
    assert warnings == ["Could not remove old partial results: Permission denied."]


def outcome(spark: SparkSession, path: Path, limit: str = "1") -> dict[str, Any] | str:
    """What the manifest of a night counts, or the sentence that refuses it."""
    path.write_text(re.sub(r'"max_rate": [\d.]+', f'"max_rate": {limit}', path.read_text()))
    try:
        manifest = made(spark, path, DAY, force=True).manifest
    except InputError as error:
        return str(error)
    # There is one run before, or none.
    labels = {name: {**label, "flips": None} for name, label in manifest.labels.items()}
    facts = {key: getattr(manifest, key) for key in ("accounting", "inputs", "views", "label_mature")}
    return {"labels": labels, **facts}


def missing_times(root: Path, day: date) -> None:
    """A log of a day of which one impression has a time."""
    row = {"t": None, "kind": "shown", "user": "u1", "item": "i1", "request": None, "paid": 0.1}
    write_rows(root / f"log/{day}.json", [{**row, "t": at} for at in (f"{day} 12:00:00", *[None] * 88)])


def torn_lines(root: Path, day: date) -> None:
    """Thirty malformed lines at the end of a day's log of sixty."""
    with (root / f"log/{day}.json").open("a") as log:
        log.write("{\n" * 30)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "age"), [(None, 0), (missing_times, 1), (missing_times, 2), (torn_lines, 1), (torn_lines, 2)]
)
def test_a_night_counts_and_refuses_the_same_with_and_without_partial_results(
    spark: SparkSession, tmp_path: Path, broken: Callable[[Path, date], None] | None, age: int
) -> None:
    form, years_off = ("json", 0) if broken else ("parquet", 0.05)
    write_logs(tmp_path, range(-3, 2), form=form, years_off=years_off)
    day = DAY - timedelta(days=age)
    if broken:
        broken(tmp_path, day)
    plain, kept = both(tmp_path, with_views("item", "daily"), before=31, form=form)
    counted = outcome(spark, plain)
    assert outcome(spark, kept) == outcome(spark, kept) == counted
    assert isinstance(counted, dict)
    lines = {None: (None, None), missing_times: (329, 0), torn_lines: (330, 30)}[broken]
    assert (counted["inputs"]["log"].get("lines"), counted["inputs"]["log"].get("malformed")) == lines
    refused = outcome(spark, plain, limit="0.33")  # is less than what the logs have, but not as a whole
    assert outcome(spark, kept, limit="0.33") == refused
    assert isinstance(refused, str)
    if broken is torn_lines:
        assert refused.startswith(f"sources.log: 30 of 90 lines in the log of {day} are malformed (33.33%), more than")
        broken_log = tmp_path / f"log/{day}.json"
        broken_log.write_text(broken_log.read_text().replace("{\n", ""))
        assert outcome(spark, kept, limit="0.33") == outcome(spark, plain, limit="0.33") != refused


@pytest.mark.slow
def test_an_impression_without_a_time_belongs_to_the_day_of_its_log(spark: SparkSession, tmp_path: Path) -> None:
    write_logs(tmp_path, range(-3, 2))
    missing_times(tmp_path, DAY - timedelta(days=2))
    config = with_views("item", windows=["1h"])
    few, many = (outcome(spark, write_document(tmp_path, "plain", config, before=n)) for n in (1, 3))
    assert isinstance(few, dict)
    assert isinstance(many, dict)
    assert few["accounting"] == many["accounting"]
    assert few["labels"] == many["labels"]
    assert 0 < few["accounting"]["no_time"] < 10


@pytest.mark.thorough
def test_a_run_and_its_explanation_say_where_counts_come_from(
    spark: SparkSession, night: tuple[Path, list[Any]]
) -> None:
    path, _ = night
    write_logs(path.parent, [-1], seed=1)
    inputs = read_inputs(spark, load_config(path).config, DAY, Silent(), watched=False)
    assert re.fullmatch(
        rf"3 of 4 finished day\(s\) from partial results in {path.parent}/partials, the last made 20.+; "
        "the others from the log",
        where_kept(inputs, "item", DAY) or "",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zone", "day", "by_request", "views"),
    [
        ("Europe/Stockholm", date(2019, 3, 31), True, ["daily"]),
        ("UTC", DAY, False, []),
        ("Asia/Kolkata", DAY, True, []),
    ],
)
def test_histories_from_partial_results_are_those_from_the_logs(
    spark: SparkSession, tmp_path: Path, zone: str, day: date, by_request: bool, views: list[str]
) -> None:
    write_logs(tmp_path, HISTORY_DAYS, day, zone)
    paths = both(tmp_path, with_histories(zone=zone, by_request=by_request, views=views), before=45)
    nights = [day, day + timedelta(days=1)]
    check_alike(spark, *paths, *(nights if views else nights[:1]))


@pytest.mark.slow
def test_a_run_needs_no_log_of_the_days_whose_actions_were_kept(spark: SparkSession, tmp_path: Path) -> None:
    write_logs(tmp_path, range(-4, 2))
    plain, kept = both(tmp_path, with_histories("late"), before=45)
    Partials.prepare(read_inputs(spark, load_config(kept).config, DAY, Silent()), DAY, Silent())
    expected = made(spark, plain, DAY).shards
    make_unreadable(*(tmp_path / f"log/{DAY + timedelta(days=n)}.json" for n in (-4, -3)))
    from_partials = made(spark, kept, DAY)
    assert from_partials.shards == expected
    assert from_partials.manifest.plan[-1] == "late is listed from partial results of 4 day(s)"

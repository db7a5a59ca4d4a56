"""Many days in one session: their order, what a day that cannot be made means for the others, and the table at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from io import StringIO
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from rich.console import Console

from ctr_samples.config import load_config
from ctr_samples.config.masking import masked, masking, remember
from ctr_samples.errors import GateRefused, InputError, PublishConflict, PublishUnknown, UsageError
from ctr_samples.job import many_days
from ctr_samples.job.gate import read_metrics
from ctr_samples.job.many_days import Backfill, DayOutcome, worst_exit_code
from ctr_samples.job.run import RunResult
from ctr_samples.job.summary import DayLine, days_table
from ctr_samples.quality.metrics import Generation
from ctr_samples.shards import open_storage
from ctr_samples.sparksql.observations import Reporter, Silent
from tests.support.manifests import manifest
from tests.support.tiny_days import write_days

DAYS = [date(2019, 6, day) for day in (3, 4, 5, 6)]
FIRST, SECOND, THIRD, FOURTH = DAYS

Run = Callable[..., RunResult]


@pytest.fixture
def backfill(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Backfill]:
    """A backfill of four days, each of which is ``run(day, before_verdict)``."""

    def make(run: Run, **how: Any) -> Backfill:
        monkeypatch.setattr(many_days, "run", lambda spark, loaded, day, **more: run(day, more["before_verdict"]))
        return Backfill(spark, MagicMock(), DAYS, **how)

    return make


def published(day: date) -> RunResult:
    return RunResult(manifest(run_date=day.isoformat()), published=True)


def scripted(waits: Mapping[date, Event], tells: Mapping[date, Event], errors: Mapping[date, Exception]) -> Run:
    """Days that are made as the script says: each tells that it is written, waits for others, and fails or is judged."""

    def run(day: date, before_verdict: Callable[[], None]) -> RunResult:
        if day in tells:
            tells[day].set()
        if day in waits:
            assert waits[day].wait(60)
        if day in errors:
            raise errors[day]
        before_verdict()
        return published(day)

    return run


REFUSED = GateRefused("Nothing was published: too few clicks.")


def refused_on_the_second(day: date, before_verdict: Callable[[], None]) -> RunResult:
    before_verdict()
    if day == SECOND:
        raise REFUSED
    return published(day)


def became(outcomes: Iterator[DayOutcome]) -> list[str]:
    return [outcome.became for outcome in outcomes]


@pytest.mark.parametrize("parallel", [1, 3])
def test_after_a_day_that_was_refused_the_later_ones_are_not_tried_unless_it_is_to_keep_going(
    backfill: Callable[..., Backfill], parallel: int
) -> None:
    days = backfill(refused_on_the_second, parallel=parallel)
    assert became(days.outcomes()) == ["published", "refused", "not tried", "not tried"]
    days = backfill(refused_on_the_second, parallel=parallel, keep_going=True)
    assert became(days.outcomes()) == ["published", "refused", "published", "published"]


def test_a_day_is_judged_when_all_days_before_it_are_done(backfill: Callable[..., Backfill]) -> None:
    written, done = {day: Event() for day in DAYS}, list[date]()

    def last_is_written_first(day: date, before_verdict: Callable[[], None]) -> RunResult:
        if day != FOURTH:
            assert written[FOURTH].wait(60)
        written[day].set()
        before_verdict()
        done.append(day)
        return published(day)

    assert became(backfill(last_is_written_first, parallel=4).outcomes()) == ["published"] * 4
    assert done == DAYS


def test_a_later_day_that_fails_first_keeps_no_earlier_one_from_being_published(
    backfill: Callable[..., Backfill],
) -> None:
    third_failed = Event()
    waits, errors = dict.fromkeys((FIRST, SECOND, FOURTH), third_failed), {THIRD: InputError("there is no log")}
    days = backfill(scripted(waits, {THIRD: third_failed}, errors), parallel=3)
    assert became(days.outcomes()) == ["published", "published", "refused", "not tried"]


def test_a_day_that_was_written_before_an_earlier_one_was_refused_is_not_published(
    backfill: Callable[..., Backfill],
) -> None:
    third_is_written = Event()
    run = scripted({SECOND: third_is_written}, {THIRD: third_is_written}, {SECOND: REFUSED})
    assert became(backfill(run, parallel=3).outcomes()) == ["published", "refused", "not tried", "not tried"]


def test_a_person_who_stops_it_gets_what_was_done_and_the_jobs_of_the_others_are_cancelled(
    backfill: Callable[..., Backfill], monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, cancelled = Event(), Event()
    run = scripted({SECOND: cancelled}, {SECOND: writing}, {SECOND: RuntimeError("the job was cancelled")})
    days = backfill(run, parallel=2)
    monkeypatch.setattr(SparkContext, "cancelJobsWithTag", lambda context, tag: cancelled.set())
    outcomes = days.outcomes()
    assert next(outcomes).became == "published"
    assert writing.wait(60)
    cast(Any, outcomes).close()
    assert cancelled.is_set()


def test_a_thread_masks_the_values_that_its_starter_remembers(backfill: Callable[..., Backfill]) -> None:
    said = []

    def run(day: date, before_verdict: Callable[[], None]) -> RunResult:
        said.append(masked("hush-hush"))
        return published(day)

    with masking():
        remember({"WORD": "hush-hush"})
        list(backfill(run).outcomes())
    assert said == ["${WORD}"] * 4


def test_a_check_that_does_not_exist_cannot_be_accepted_on_any_day(backfill: Callable[..., Backfill]) -> None:
    with pytest.raises(UsageError, match="There is no check 'rat' to accept"):
        list(backfill(refused_on_the_second, accept=["rat"]).outcomes())


@pytest.mark.parametrize(
    ("errors", "code"),
    [
        ([], 0),
        ([PublishConflict("another was first"), GateRefused("too few clicks")], 3),
        ([UsageError("no such check"), GateRefused("too few clicks")], 2),
        ([ValueError("a defect"), UsageError("no such check")], 1),
        ([ValueError("a defect"), PublishUnknown("no answer"), GateRefused("too few clicks")], 5),
    ],
)
def test_the_exit_code_is_that_of_the_worst_day(errors: list[Exception], code: int) -> None:
    outcomes = [DayOutcome(FIRST, "published"), *(DayOutcome(SECOND, "failed", error=error) for error in errors)]
    assert worst_exit_code(outcomes) == code


def shown(*lines: DayLine) -> list[list[str]]:
    """The cells of the table, by line."""
    console = Console(file=StringIO(), width=200)
    console.print(days_table(lines))
    text = cast(StringIO, console.file).getvalue()
    return [line.split() for line in text.splitlines() if line.strip() and set(line.strip()) != {"─"}]


def test_the_table_has_a_line_for_each_day() -> None:
    contract = {"features": [{"name": "clicked", "dtype": "int64"}, {"name": "read_ms", "dtype": "float32"}]}
    shard = SimpleNamespace(split="train", records=400, label_sums={"clicked": 26, "read_ms": 1e6})
    day = replace(
        manifest(run_date="2019-06-03", labels={"clicked": {}, "read_ms": {}}, quality={"verdict": "warned"}),
        contract=contract,
        shards=cast(Any, (shard,)),
    )
    assert shown(DayLine(FIRST, day, "published", 6.25), DayLine(SECOND, None, "not tried")) == [
        ["day", "generation", "samples", "clicked", "verdict", "seconds"],
        ["2019-06-03", "1", "400", "6.50%", "warned", "6.2", "published"],
        ["2019-06-04", "not", "tried"],
    ]


class FirstWaits(Silent):
    """Keeps the first day from its verdict until the second is written."""

    def __init__(self, day: date, second_is_written: Event) -> None:
        self.day, self.written = day, second_is_written

    def stage(self, text: str) -> None:
        if self.day == SECOND and text == "waiting for the days before":
            self.written.set()
        if self.day == FIRST and text == "waiting for the days before":
            assert self.written.wait(120)


@pytest.mark.slow
def test_days_at_once_are_compared_with_the_day_before_as_one_after_the_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    loaded, written = load_config(write_days(tmp_path, FIRST, 5)), Event()

    @contextmanager
    def reporter_of(day: date) -> Iterator[Reporter]:
        yield FirstWaits(day, written)

    outcomes = list(Backfill(spark, loaded, DAYS, parallel=2, reporter_of=reporter_of).outcomes())
    assert [(outcome.became, outcome.error) for outcome in outcomes] == [("published", None)] * 4
    made = [cast(Any, outcome.manifest) for outcome in outcomes]
    assert [day.records for day in made] == [24] * 4
    assert [day.label_sum("clicked") for day in made] == [4] * 4
    metrics = [read_metrics(open_storage(tmp_path / "out"), day) for day in made]
    before = [None, *(Generation(str(day), 1) for day in DAYS[:-1])]
    assert [day.reference.previous_day for day in metrics] == before
    again = list(Backfill(spark, loaded, DAYS, parallel=2).outcomes())
    assert [(outcome.became, outcome.manifest) for outcome in again] == [("unchanged", day) for day in made]

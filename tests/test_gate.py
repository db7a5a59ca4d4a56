"""What the gate does with a day: its documents, its references, its verdict. Without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.config import Quality
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import GateRefused, UsageError
from ctr_samples.gate import (
    Inspection,
    check_accepted,
    inspect,
    last_before,
    last_same_weekday,
    refuse,
    with_verdict,
    write_pages,
)
from ctr_samples.quality.collecting import Collector, Wanted
from ctr_samples.shards import Manifest, Shard, Storage, latest_manifest, open_storage, publish
from ctr_samples.shards.naming import run_directory

CONTRACT = ExampleContract(
    (
        FeatureSpec("age", "float32"),
        FeatureSpec("clicked", "int64", role="label"),
        FeatureSpec("impression_id", "int64", role="key"),
    )
)
WANTED = Wanted(CONTRACT, "clicked", key="impression_id")


def task(*, clicks: int = 300, rows: int = 3000, age: float = 20.0) -> str:
    """What a task returns that wrote rows of train, the first of them clicked."""
    collector = Collector(WANTED, 0)
    batch = pa.RecordBatch.from_pydict(
        {
            "age": pa.array(age + np.arange(rows, dtype=np.float32) % 50),
            "clicked": pa.array((np.arange(rows) < clicks).astype(np.int64)),
            "impression_id": pa.array(np.arange(rows)),
        }
    )
    collector.observe(batch, "train")
    return collector.close()


def manifest(day: str, generation: int = 1) -> Manifest:
    run = f"{day.replace('-', '')}T020000-0000000{generation}"
    shard = Shard(f"dt={day}/data/{run}/train/part-00000-0-0000000a.tfrecord", "train", 0, 3000, 7, 0, {"clicked": 300})
    return Manifest(
        name="tiny",
        run_date=day,
        generation=generation,
        run_id=run,
        parent=None,
        created_at="2019-06-06T02:00:00+00:00",
        fingerprint="",
        compression="none",
        contract={**CONTRACT.to_dict(), "fingerprint": CONTRACT.fingerprint},
        config={},
        inputs={},
        shards=(shard,),
        accounting={"impressions": 3000, "samples": 3000},
        views={},
        labels={"clicked": {"actions": 300, "orphans": 0}},
        label_mature=True,
        versions={},
    )


def published(storage: Storage, day: str, said: str, generation: int = 1, accept: tuple[str, ...] = ()) -> Inspection:
    one = manifest(day, generation)
    inspection = inspect(storage, one, [said], WANTED, Quality(), accept)
    write_pages(storage, run_directory(one.day, one.run_id), one, inspection)
    storage.put_new(one.shards[0].path, b"records")
    publish(storage, with_verdict(one, inspection))
    return inspection


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def test_a_day_like_the_one_before_passes_and_says_with_what_it_was_compared(storage: Storage) -> None:
    published(storage, "2019-06-04", task())
    inspection = published(storage, "2019-06-05", task(clicks=310))
    assert inspection.metrics["verdict"] == "passed"
    assert inspection.metrics["reference"]["previous_day"] == {"run_date": "2019-06-04", "generation": 1}
    assert inspection.metrics["drift"] == {"age": pytest.approx(0, abs=0.02)}


def test_a_day_that_lost_two_thirds_of_its_clicks_is_refused_in_three_lines(storage: Storage) -> None:
    published(storage, "2019-06-04", task(clicks=600))
    today = manifest("2019-06-05")
    inspection = inspect(storage, today, [task(clicks=200)], WANTED, Quality())
    with pytest.raises(GateRefused) as refusal:
        refuse(storage, "dt=2019-06-05/data/x", inspection, timedelta(hours=24))
    what, where, how = str(refusal.value).splitlines()
    assert what == (
        "Nothing was published: The mean of clicked is 0.06667, on 2019-06-04 it was 0.2; rate is 2.34, allowed 1.6."
    )
    assert where.startswith("Look at ")
    assert where.endswith("dt=2019-06-05/data/x/report.html; the samples stay for 24 hours.")
    assert how.startswith("If the day is right as it is, run it again with --accept rate,")
    assert refusal.value.exit_code == 3


def test_what_was_accepted_is_published_and_recorded(storage: Storage) -> None:
    published(storage, "2019-06-04", task(clicks=600))
    today = manifest("2019-06-05")
    inspection = inspect(storage, today, [task(clicks=200)], WANTED, Quality(), ["rate", "leak"])
    refuse(storage, "x", inspection, timedelta(hours=24))
    quality = with_verdict(today, inspection).quality
    assert (quality["verdict"], quality["accepted"]) == ("warned", ["rate"])
    assert [(one["check"], one["severity"]) for one in quality["found"]] == [("rate", "fail")]


def test_only_checks_that_exist_can_be_accepted() -> None:
    check_accepted(["rate"])
    with pytest.raises(UsageError, match="no check 'clicks' to accept; there are volume, too_few, rate"):
        check_accepted(["rate", "clicks"])


def test_units_that_changed_are_found(storage: Storage) -> None:
    published(storage, "2019-06-04", task())
    found = inspect(storage, manifest("2019-06-05"), [task(age=20_000)], WANTED, Quality()).refusing
    assert [one.check for one in found] == ["distribution", "scale"]


def test_the_newest_generation_of_the_last_published_day_is_the_reference(storage: Storage) -> None:
    published(storage, "2019-06-01", task())
    published(storage, "2019-06-02", task(clicks=100))
    published(storage, "2019-06-02", task(clicks=300), generation=2)
    before = last_before(storage, date(2019, 6, 5))
    assert before is not None
    assert (before["run_date"], before["generation"]) == ("2019-06-02", 2)
    assert last_before(storage, date(2019, 6, 1)) is None
    assert last_before(storage, date(2019, 6, 12)) is None


@pytest.mark.parametrize("text", ["", "{", '{"format": 1}'])
def test_a_reference_that_cannot_be_read_is_none(storage: Storage, tmp_path: Path, text: str) -> None:
    published(storage, "2019-06-04", task())
    (metrics,) = tmp_path.glob("dt=*/data/*/metrics.json")
    metrics.write_text(text)
    assert last_before(storage, date(2019, 6, 5)) is None


def test_the_page_and_the_numbers_stand_beside_the_shards(storage: Storage, tmp_path: Path) -> None:
    published(storage, "2019-06-04", task())
    (directory,) = tmp_path.glob("dt=*/data/*")
    assert sorted(path.name for path in directory.iterdir()) == [
        "metrics.json",
        "report.html",
        "statistics.pbtxt",
        "train",
    ]
    assert json.loads((directory / "metrics.json").read_text())["samples"] == {"train": 3000}
    assert "tiny" in (directory / "report.html").read_text()


def test_a_manifest_keeps_its_verdict(storage: Storage) -> None:
    published(storage, "2019-06-04", task())
    there = latest_manifest(storage, date(2019, 6, 4))
    assert there is not None
    assert there.quality == {"verdict": "passed", "found": [], "accepted": []}
    assert replace(there, quality={}) == manifest("2019-06-04")


def test_a_day_without_samples_is_refused_like_any_other(storage: Storage) -> None:
    published(storage, "2019-06-04", task())
    inspection = inspect(storage, manifest("2019-06-05"), [Collector(WANTED, 0).close()], WANTED, Quality())
    assert [one.check for one in inspection.refusing] == ["volume"]
    assert inspection.metrics["drift"] == {}


def test_a_broken_day_that_was_accepted_is_not_the_next_reference(storage: Storage) -> None:
    published(storage, "2019-06-04", task(clicks=600))
    published(storage, "2019-06-05", task(clicks=100), accept=("rate",))
    assert [
        one.check for one in inspect(storage, manifest("2019-06-06"), [task(clicks=100)], WANTED, Quality()).refusing
    ] == ["rate"]
    assert inspect(storage, manifest("2019-06-06"), [task(clicks=600)], WANTED, Quality()).refusing == []


def test_what_was_accepted_twice_in_a_row_is_how_days_are_from_now_on(storage: Storage) -> None:
    published(storage, "2019-06-04", task(clicks=600))
    published(storage, "2019-06-05", task(clicks=100), accept=("rate",))
    published(storage, "2019-06-06", task(clicks=110), accept=("rate",))
    before = last_before(storage, date(2019, 6, 7))
    assert before is not None
    assert before["run_date"] == "2019-06-06"


def test_the_last_sound_day_of_the_same_weekday_is_at_most_four_weeks_back(storage: Storage) -> None:
    published(storage, "2019-05-09", task())
    published(storage, "2019-05-30", task(clicks=1), accept=("rate",))
    found = last_same_weekday(storage, date(2019, 6, 6))
    assert found is not None
    assert found["run_date"] == "2019-05-09"
    assert last_same_weekday(storage, date(2019, 6, 13)) is None

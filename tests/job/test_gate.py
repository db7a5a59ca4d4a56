"""What the gate does with a day: its documents, its references, its verdict. Without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from jsonschema import validate

from ctr_samples.config import Quality
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import GateRefused, UsageError
from ctr_samples.job.gate import (
    check_accepted,
    last_before,
    last_same_weekday,
    measured_of,
    metrics_of_run,
    pass_gate,
    read_metrics,
)
from ctr_samples.quality.measure.collecting import Collector, Wanted
from ctr_samples.quality.measure.merging import Measures
from ctr_samples.quality.metrics import Generation, Measured, Metrics
from ctr_samples.quality.pseudonyms import Pseudonyms
from ctr_samples.shards import Manifest, Shard, Storage, latest_manifest, open_storage, publish
from ctr_samples.shards.naming import run_directory
from tests.support.manifests import manifest as small_manifest
from tests.support.project import PROJECT

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
    return small_manifest(
        CONTRACT,
        run_date=day,
        generation=generation,
        run_id=run,
        shards=(shard,),
        labels={"clicked": {"actions": 300, "orphans": 0}},
    )


def measured(one: Manifest, measures: str) -> Measured:
    return measured_of(one, Measures.of([measures]), WANTED)


def judged(storage: Storage, day: str, measures: str, generation: int = 1, accept: tuple[str, ...] = ()) -> Manifest:
    """The manifest of a day with its verdict; GateRefused says why there is none."""
    one = manifest(day, generation)
    return pass_gate(storage, one, measured(one, measures), Quality(), accept)


def published(storage: Storage, day: str, measures: str, generation: int = 1, accept: tuple[str, ...] = ()) -> Metrics:
    one = judged(storage, day, measures, generation, accept)
    storage.put_new(one.shards[0].path, b"records")
    publish(storage, one)
    return read_metrics(storage, one)


def blocking(storage: Storage, day: str, measures: str) -> list[str]:
    """The checks that a refused day failed."""
    with pytest.raises(GateRefused):
        judged(storage, day, measures)
    metrics = metrics_of_run(storage, manifest(day).day, manifest(day).run_id)
    return [finding.check for finding in metrics.checks if finding.standing == "blocks"]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def test_a_day_like_the_one_before_passes_and_says_with_what_it_was_compared(storage: Storage) -> None:
    published(storage, "2019-06-04", task())
    metrics = published(storage, "2019-06-05", task(clicks=310))
    assert (metrics.verdict, metrics.requests) == ("passed", None)
    assert metrics.reference.previous_day == Generation("2019-06-04", 1)
    assert metrics.drift == {"age": pytest.approx(0, abs=0.02)}
    there = latest_manifest(storage, date(2019, 6, 5))
    assert there is not None
    assert there.quality == {"verdict": "passed", "found": [], "accepted": []}
    assert replace(there, quality={}) == manifest("2019-06-05")


def test_a_day_that_lost_two_thirds_of_its_clicks_is_refused_in_three_lines_and_on_its_page(storage: Storage) -> None:
    published(storage, "2019-06-04", task(clicks=600))
    today = manifest("2019-06-05")
    with pytest.raises(GateRefused) as refusal:
        pass_gate(storage, today, measured(today, task(clicks=200)), Quality(), kept_for=timedelta(hours=36))
    what, where, how = str(refusal.value).splitlines()
    assert what == (
        "Nothing was published: The mean of clicked is 0.06667 (0.2 on 2019-06-04); rate is 2.34, the limit is 1.6."
    )
    assert where.startswith("See ")
    assert where.endswith(f"dt=2019-06-05/data/{today.run_id}/report.html; the samples are kept for 36 hours.")
    assert how == "If the day is correct, run it again with --accept rate, or change `quality` in the configuration."
    assert refusal.value.exit_code == 3
    page = storage.read(f"{run_directory(today.day, today.run_id)}/report.html").decode()
    assert "Nothing was published; readers still see the previous samples." in page
    assert metrics_of_run(storage, today.day, today.run_id).verdict == "refused"
    assert latest_manifest(storage, today.day) is None


def test_what_was_accepted_is_published_and_recorded(storage: Storage) -> None:
    published(storage, "2019-06-04", task(clicks=600))
    quality = judged(storage, "2019-06-05", task(clicks=200), accept=("rate", "leak")).quality
    assert (quality["verdict"], quality["accepted"]) == ("warned", ["rate"])
    assert [(one["check"], one["severity"]) for one in quality["found"]] == [("rate", "fail")]
    metrics = metrics_of_run(storage, date(2019, 6, 5), manifest("2019-06-05").run_id)
    assert [finding.check for finding in metrics.checks if finding.standing == "accepted"] == ["rate"]


def test_what_does_not_block_is_a_warning(storage: Storage) -> None:
    published(storage, "2019-06-04", task(clicks=600))
    warnings: list[str] = []
    today = manifest("2019-06-05")
    found = pass_gate(storage, today, measured(today, task(clicks=380)), Quality(), warn=warnings.append).quality
    sentence = "The mean of clicked is 0.1267 (0.2 on 2019-06-04); rate is 1.3, the limit is 1.25."
    assert warnings == [sentence]
    assert found["found"] == [{"check": "rate", "subject": "clicked", "severity": "warn", "sentence": sentence}]


def test_ids_of_users_are_written_under_other_names(storage: Storage) -> None:
    names = Pseudonyms("salt", frozenset({"age"}))
    today = manifest("2019-06-04")
    pass_gate(storage, today, names.applied(measured(today, task())), Quality())
    assert read_metrics(storage, today).features["age"].splits["train"].cdf is None


def test_only_checks_that_exist_can_be_accepted() -> None:
    check_accepted(["rate"])
    with pytest.raises(UsageError, match="no check 'clicks' to accept; expected one of age, bias, conflicting"):
        check_accepted(["rate", "clicks"])


def test_the_newest_generation_of_the_last_published_day_is_the_reference(storage: Storage) -> None:
    published(storage, "2019-06-01", task())
    published(storage, "2019-06-02", task(clicks=200))
    published(storage, "2019-06-02", task(clicks=300), generation=2)
    before = last_before(storage, date(2019, 6, 5))
    assert before is not None
    assert before.named == Generation("2019-06-02", 2)
    assert last_before(storage, date(2019, 6, 1)) is None
    assert last_before(storage, date(2019, 6, 12)) is None


@pytest.mark.parametrize("text", [None, "", "{", '{"format": 1}', '{"format": 3}'])
def test_a_reference_that_cannot_be_read_is_passed_over(storage: Storage, tmp_path: Path, text: str | None) -> None:
    published(storage, "2019-06-03", task())
    published(storage, "2019-06-04", task())
    (metrics,) = tmp_path.glob("dt=2019-06-04/data/*/metrics.json")
    metrics.unlink()
    if text is not None:
        metrics.write_text(text)
    before = last_before(storage, date(2019, 6, 5))
    assert before is not None
    assert before.run_date == "2019-06-03"


def test_a_day_without_samples_is_refused_with_numbers_like_any_other(storage: Storage, tmp_path: Path) -> None:
    published(storage, "2019-06-04", task())
    assert blocking(storage, "2019-06-05", Collector(WANTED, 0).close()) == ["volume"]
    today = manifest("2019-06-05")
    assert metrics_of_run(storage, today.day, today.run_id).drift == {}
    document = json.loads((tmp_path / run_directory(today.day, today.run_id) / "metrics.json").read_text())
    validate(document, json.loads((PROJECT / "ctr_samples/quality/metrics.schema.json").read_text()))


def test_a_broken_day_that_was_accepted_is_not_the_next_reference(storage: Storage) -> None:
    published(storage, "2019-06-04", task(clicks=600))
    published(storage, "2019-06-05", task(clicks=100), accept=("rate",))
    assert blocking(storage, "2019-06-06", task(clicks=100)) == ["rate"]
    assert published(storage, "2019-06-06", task(clicks=600), generation=2).verdict == "passed"


def test_what_was_accepted_twice_in_a_row_is_how_days_are_from_now_on(storage: Storage) -> None:
    published(storage, "2019-06-04", task(clicks=600))
    published(storage, "2019-06-05", task(clicks=100), accept=("rate",))
    published(storage, "2019-06-06", task(clicks=110), accept=("rate",))
    before = last_before(storage, date(2019, 6, 7))
    assert before is not None
    assert before.run_date == "2019-06-06"


def test_the_last_sound_day_of_the_same_weekday_is_at_most_four_weeks_back(storage: Storage) -> None:
    published(storage, "2019-05-09", task())
    published(storage, "2019-05-30", task(clicks=1), accept=("rate",))
    found = last_same_weekday(storage, date(2019, 6, 6))
    assert found is not None
    assert found.run_date == "2019-05-09"
    assert last_same_weekday(storage, date(2019, 6, 13)) is None


def test_a_refused_day_tells_its_warnings_too(storage: Storage) -> None:
    first = replace(manifest("2019-06-05"), labels={"clicked": {"actions": 300, "orphans": 300, "shift": None}})
    said: list[str] = []
    with pytest.raises(GateRefused, match=r"All 3,000 train samples have clicked = 0\."):
        pass_gate(storage, first, measured(first, task(clicks=0)), Quality(), warn=said.append)
    assert any(sentence.startswith("100.0% of the 300 actions of clicked match no impression") for sentence in said)

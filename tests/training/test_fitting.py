"""A fit on published samples learns what is there to learn, and refuses what it cannot learn from."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import ContractError, DamagedFile, InputError, UsageError
from ctr_samples.training.exporting import evaluate_export
from ctr_samples.training.fit_options import FitOptions, days_between
from ctr_samples.training.fitting import fit
from tests.support.small_days import CONTRACT, RUN, published, rows
from tests.support.tampering import keep_only, rewrite

DAY, NEXT, BACK = "2019-06-05", "2019-06-06", "2019-10-27"
LATER = "20190607T020000-bbbbbbbb"
OTHER = ExampleContract(tuple(replace(f, buckets=9) if f.name == "city" else f for f in CONTRACT.features))


def fitted(samples: Path, **more: Any) -> Any:
    options = {"samples": str(samples), "days": (DAY,), "epochs": 10, "batch_size": 32, **more}
    report = fit(FitOptions(**options))
    assert report is not None
    return report


def text_of(report: Any) -> str:
    console = Console(width=120, file=io.StringIO())
    console.print(report.render())
    return str(console.file.getvalue())


@pytest.fixture
def two_days(tmp_path: Path) -> Path:
    for day in (DAY, NEXT):
        published(tmp_path, CONTRACT, lambda split, first: rows(first, 50), day=day)
    return tmp_path


@pytest.mark.thorough
def test_a_logistic_regression_beats_the_constant_on_both_splits(samples: Path) -> None:
    report = fitted(samples)
    assert {name: scores.samples for name, scores in report.splits.items()} == {"train": 400, "eval": 100}
    for scores in report.splits.values():
        assert scores.auc > 0.8
        assert scores.beats_constant
        assert scores.calibration == pytest.approx(1, abs=0.1)
    text = text_of(report)
    assert "Trained a logistic regression on 2019-06-05: 8 weights, 130 steps" in text
    assert "The model does not use name." in text
    assert "A split has only 46 positive(s) of clicked: this run demonstrates the pipeline" in text
    assert "WARNING" not in text


@pytest.mark.slow
def test_the_next_day_is_scored_as_a_whole(two_days: Path) -> None:
    report = fitted(two_days, epochs=1)
    assert {name: scores.samples for name, scores in report.splits.items()} == {"train": 400, "eval": 100, NEXT: 500}
    both = fitted(two_days, epochs=1, days=(DAY, NEXT))
    assert {name: scores.samples for name, scores in both.splits.items()} == {"train": 800, "eval": 200}


@pytest.mark.thorough
def test_weights_make_up_for_the_negatives_that_were_left_out(samples: Path, weighted_samples: Path) -> None:
    whole = fitted(samples, epochs=1)
    kept = fitted(weighted_samples, label="clicked")
    assert kept.splits["train"].samples < 0.75 * whole.splits["train"].samples
    for split in ("train", "eval"):  # what always saying the click rate costs, is what it costs over all impressions
        assert kept.splits[split].constant_log_loss == pytest.approx(whole.splits[split].constant_log_loss, rel=0.02)
        assert kept.splits[split].beats_constant
    assert kept.weights == whole.weights, "the weight of a sample is no feature of it"


@pytest.mark.thorough
def test_only_samples_whose_mask_is_one_count(tmp_path: Path) -> None:
    def masked(split: str, first: int) -> pa.RecordBatch:
        batch = rows(first, 50)
        final = pa.array([int(city < 2) for city in batch["city"].to_pylist()], pa.int64())
        return batch.append_column("clicked__final", final)

    contract = ExampleContract((*CONTRACT.features, FeatureSpec("clicked__final", "int64", role="mask", nulls="fail")))
    published(tmp_path, contract, masked)
    report = fitted(tmp_path, masks=("clicked__final",), epochs=2)
    for split, numbers in (("train", range(400)), ("eval", range(400, 500))):
        clicked = [n for n in numbers if n % 4 < 2 and rows(n, 1)["clicked"][0].as_py()]
        assert (report.splits[split].samples, report.splits[split].positives) == (len(numbers) // 2, len(clicked))
    rate = report.splits["train"].positives / 200
    loss = -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    assert report.splits["train"].constant_log_loss == pytest.approx(loss)


@pytest.mark.thorough
def test_a_part_without_a_sample_that_counts_is_not_scored(tmp_path: Path) -> None:
    def masked(split: str, first: int) -> pa.RecordBatch:
        batch = rows(first, 50).append_column("clicked__final", pa.array([int(split == "train")] * 50, pa.int64()))
        weights = [0.0 if n % 4 == 3 else 1.0 for n in range(first, first + 50)]
        return batch.append_column("sample_weight", pa.array(weights, pa.float32()))

    specs = FeatureSpec("clicked__final", "int64", role="mask"), FeatureSpec("sample_weight", "float32", role="weight")
    published(tmp_path, ExampleContract((*CONTRACT.features, *specs)), masked)
    report = fitted(tmp_path, masks=("clicked__final",), epochs=1)
    assert {name: scores.samples for name, scores in report.splits.items()} == {"train": 300}
    assert "eval is not scored: none of its samples has all masks and a weight above 0." in text_of(report)
    report = fitted(tmp_path, epochs=1)
    assert {name: scores.samples for name, scores in report.splits.items()} == {"train": 300, "eval": 75}


def test_a_mask_that_is_not_there_or_that_calibration_cannot_use_is_refused(weighted_samples: Path) -> None:
    with pytest.raises(InputError, match="no mask 'clicked' for 'clicked'; the samples have read_ms__mask"):
        fitted(weighted_samples, label="clicked", masks=("clicked",))
    with pytest.raises(UsageError, match="`calibrate` corrects for all samples, but `masks` leave out some"):
        fitted(weighted_samples, label="clicked", masks=("read_ms__mask",), calibrate=True)


@pytest.mark.slow
def test_a_model_that_is_no_better_than_a_constant_is_said_to_be(tmp_path: Path) -> None:
    def by_chance(split: str, first: int) -> pa.RecordBatch:
        batch = rows(first, 50)
        clicks = [int(hash((first + i) * 7919) % 97 < 20) for i in range(50)]
        place = batch.schema.get_field_index("clicked")
        return batch.set_column(place, "clicked", pa.array(clicks, pa.int64()))

    published(tmp_path, CONTRACT, by_chance)
    report = fitted(tmp_path, model="deepfm", epochs=40, learning_rate=0.05)
    assert report.splits["train"].beats_constant
    assert not report.splits["eval"].beats_constant
    assert "WARNING: on eval the model has a log loss of" in text_of(report)


def test_what_cannot_be_trained_on_is_named_before_anything_is_read(samples: Path, two_days: Path) -> None:
    for wrong, message in (
        ({"label": "shared"}, "There is no 0/1 label 'shared'; the samples have clicked."),
        ({"days": ("2019-06-07",)}, "has no samples of 2019-06-07; it has 2019-06-05 to 2019-06-05"),
        ({"eval_date": "2019-06-07"}, "has no samples of 2019-06-07"),
    ):
        with pytest.raises(InputError, match=message):
            fitted(samples, **wrong)
    for wrong, message in (
        ({"model": "forest"}, "There is no model 'forest'; expected one of logistic, fm, wide_deep, deepfm."),
        ({"epochs": 0}, "`epochs` is 0; expected a whole number, 1 or more, or None."),
        ({"export": "s3://models/ctr"}, "`export` is s3://models/ctr; expected a directory in a file system"),
        ({"eval_date": DAY}, "The evaluation day 2019-06-05 is also a training day"),
        ({"eval_date": "all"}, "The evaluation day all overlaps the training day 2019-06-05; choose another one."),
        ({"eval_date": f"{DAY}T07"}, "The evaluation day 2019-06-05T07 overlaps the training day 2019-06-05"),
        ({"days": (DAY, f"{DAY}T07")}, "2019-06-05T07 lies in 2019-06-05, so its samples would be read twice"),
    ):
        with pytest.raises(UsageError, match=message):
            fitted(samples, **wrong)
    with pytest.raises(UsageError, match="The last day is 2019-06-04, before the first, 2019-06-05"):
        days_between("out", DAY, "2019-06-04")
    assert days_between("out", "2019-02-27", "2019-03-01") == ("2019-02-27", "2019-02-28", "2019-03-01")


def test_days_without_both_kinds_of_labels_or_without_a_train_split_are_refused(tmp_path: Path) -> None:
    def never(split: str, first: int) -> pa.RecordBatch:
        batch = rows(first, 50)
        place = batch.schema.get_field_index("clicked")
        return batch.set_column(place, "clicked", pa.array([0] * 50, pa.int64()))

    published(tmp_path, CONTRACT, never)
    with pytest.raises(InputError, match="of 2019-06-05 has 0 positives of 'clicked' in 400 samples"):
        fitted(tmp_path)
    manifest = tmp_path / f"dt={DAY}/manifests/00000001.json"
    splits = [shard["split"] for shard in json.loads(manifest.read_text())["shards"]]
    rewrite(manifest, keep_only(*[place for place, split in enumerate(splits) if split == "eval"]))
    with pytest.raises(InputError, match="has no split 'train' on 2019-06-05; it has eval"):
        fitted(tmp_path)


@pytest.mark.thorough
def test_a_day_of_another_contract_is_refused_to_train_on_and_to_score(two_days: Path) -> None:
    def with_more_ids(document: dict[str, Any]) -> None:
        document["contract"]["features"][2]["buckets"] = 9

    rewrite(two_days / f"dt={NEXT}/manifests/00000001.json", with_more_ids)
    with pytest.raises(ContractError, match="with different contracts"):
        fitted(two_days, days=(DAY, NEXT))
    with pytest.raises(ContractError, match="The contract of 2019-06-06 differs from that of 2019-06-05"):
        fitted(two_days, eval_date=NEXT)
    report = fitted(two_days, epochs=1)
    assert list(report.splits) == ["train", "eval"]
    assert "2019-06-06 is not scored: its contract differs from that of 2019-06-05." in text_of(report)


@pytest.mark.thorough
def test_days_that_are_republished_during_the_training_are_trained_on_and_scored_as_they_were(two_days: Path) -> None:
    def republish(done: int, _: int) -> None:
        if done == 1:
            for day in (DAY, NEXT):
                published(
                    two_days, OTHER, lambda _, first: rows(first, 30), day=day, run=LATER, generation=2, parent=RUN
                )

    options = FitOptions(samples=str(two_days), days=(DAY,), epochs=2, batch_size=32)
    report = fit(options, on_step=republish)
    assert report is not None
    assert report.steps == 26
    assert {name: scores.samples for name, scores in report.splits.items()} == {"train": 400, "eval": 100, NEXT: 500}


@pytest.mark.parametrize("option", ["checkpoints", "export"])
def test_a_place_that_cannot_be_written_is_named_before_the_training(
    samples: Path, tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        options = FitOptions(**{"samples": str(samples), "days": (DAY,), option: str(place)})
        with pytest.raises(
            UsageError, match=rf"Nothing can be written to {place} \(.*\); choose another `--{option}`."
        ):
            fit(options, on_step=lambda *_: pytest.fail("it was trained"))


@pytest.mark.thorough
def test_hours_are_those_of_the_clocks_of_the_samples(tmp_path: Path) -> None:
    for hour in ("T01", "T02", "T02b", "T03"):
        zone = {"timezone": "Europe/Berlin"}
        published(tmp_path, CONTRACT, lambda split, first: rows(first, 50), day=f"{BACK}{hour}", config=zone)
    hours = days_between(str(tmp_path), f"{BACK}T01", f"{BACK}T03")
    assert hours == tuple(f"{BACK}{hour}" for hour in ("T01", "T02", "T02b", "T03"))
    report = fitted(tmp_path, days=hours[:2], epochs=1)
    assert {name: scores.samples for name, scores in report.splits.items()} == {
        "train": 800,
        "eval": 200,
        hours[2]: 500,
    }
    with pytest.raises(InputError, match="has no samples of 2019-10-27T00"):
        days_between(str(tmp_path), f"{BACK}T00", f"{BACK}T03")


@pytest.mark.thorough
def test_a_model_is_scored_on_a_day_that_was_built_by_the_hour(tmp_path: Path) -> None:
    for hour in (f"{DAY}T22", f"{DAY}T23", f"{NEXT}T00", f"{NEXT}T01"):
        published(tmp_path, CONTRACT, lambda split, first: rows(first, 50), day=hour)
    report = fitted(tmp_path, eval_date=NEXT, epochs=1, export=str(tmp_path / "model"))
    assert report.splits[NEXT].samples == 1000
    scores = evaluate_export(report.exported, str(tmp_path), date=NEXT, split="eval")
    assert scores.samples == 200


@pytest.mark.thorough
def test_an_export_is_scored_on_the_samples_that_count(tmp_path: Path) -> None:
    def masked(split: str, first: int) -> pa.RecordBatch:
        final = pa.array([int(n % 3 > 0) for n in range(50)], pa.int64())
        weights = pa.array([float(n % 5) for n in range(50)], pa.float32())
        return rows(first, 50).append_column("clicked__final", final).append_column("sample_weight", weights)

    specs = FeatureSpec("clicked__final", "int64", role="mask"), FeatureSpec("sample_weight", "float32", role="weight")
    published(tmp_path / "out", ExampleContract((*CONTRACT.features, *specs)), masked)
    place = tmp_path / "model"
    (place / "\N{SUPERSCRIPT TWO}").mkdir(parents=True)
    report = fitted(tmp_path / "out", masks=("clicked__final",), epochs=1, export=str(place))
    assert report.exported == str(place / "1")
    for split, trained in report.splits.items():
        scores = evaluate_export(report.exported, str(tmp_path / "out"), date=DAY, split=split)
        assert (scores.samples, scores.positives) == (trained.samples, trained.positives)
        for name in ("log_loss", "constant_log_loss", "auc", "calibration"):
            assert getattr(scores, name) == pytest.approx(getattr(trained, name), abs=1e-6), f"{split} {name}"
    published(tmp_path / "other", CONTRACT, lambda split, first: rows(first, 50))
    with pytest.raises(InputError, match=f"samples of {DAY} have no 'clicked__final', which the model .* was trained"):
        evaluate_export(report.exported, str(tmp_path / "other"), date=DAY, split="eval")


def test_a_record_that_is_damaged_ends_the_training_with_the_sentence_that_says_where(tmp_path: Path) -> None:
    published(tmp_path, CONTRACT, lambda split, first: rows(first, 50))
    shard = next((tmp_path / f"dt={DAY}/data/{RUN}/train").iterdir())
    content = bytearray(shard.read_bytes())
    content[200] ^= 1
    shard.write_bytes(content)
    with pytest.raises(DamagedFile, match=f"^{shard} is damaged after . records: .*run the day again.$"):
        fitted(tmp_path)


@pytest.mark.slow
def test_checkpoints_of_another_training_are_refused_and_damaged_ones_named(samples: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first = fitted(samples, checkpoints=str(kept), epochs=1)
    assert (first.steps, sorted(p.name for p in kept.glob("*.index"))) == (13, ["ckpt-13.index"])
    with pytest.raises(
        UsageError, match="of a training with batch_size 32, but this one has 64; use the same arguments"
    ):
        fitted(samples, checkpoints=str(kept), batch_size=64)
    again = fitted(samples, checkpoints=str(kept), epochs=1)  # nothing is left to do
    assert again.splits == first.splits
    assert fitted(samples, checkpoints=str(kept), epochs=2).steps == 26
    with pytest.raises(UsageError, match=rf"`epochs` is 1, but {kept} has a model of 2 epochs; give as many or more"):
        fitted(samples, checkpoints=str(kept), epochs=1)
    data = kept / "ckpt-26.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(DamagedFile, match="ckpt-26 cannot be read .* to resume from the one before"):
        fitted(samples, checkpoints=str(kept), epochs=3)


@pytest.mark.slow
def test_a_loss_that_was_still_falling_is_told(samples: Path) -> None:
    short, long = fitted(samples, epochs=2), fitted(samples, epochs=1)
    assert len(short.losses) == 2
    assert short.losses[1] < short.losses[0]
    assert any(note.startswith("The loss was still falling in the last epoch, from 0.") for note in short.notes())
    assert long.losses == ()
    flat = replace(short, losses=(0.3, 0.29999))
    assert not any("falling" in note for note in flat.notes())


def test_each_model_brings_its_own_number_of_epochs() -> None:
    assert FitOptions(samples="x", days=(DAY,)).passes == 15
    assert FitOptions(samples="x", days=(DAY,), model="deepfm").passes == 5
    assert FitOptions(samples="x", days=(DAY,), epochs=2).passes == 2

"""An exported model says of serialized records and of raw features what it said in training, with all that surrounds it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec, ModelSteps
from ctr_samples.errors import ContractError, InputError, UsageError
from ctr_samples.readers import load_dataset
from ctr_samples.readers.sample_set import open_samples
from ctr_samples.shards import Manifest, open_storage
from ctr_samples.training.exporting import Exported, evaluate_export, made_from
from ctr_samples.training.fit_options import FitOptions
from ctr_samples.training.fit_report import FitReport
from ctr_samples.training.fitting import fit
from tests.support.manifests import manifest
from tests.support.small_days import CONTRACT as SMALL
from tests.support.small_days import RUN, published, rows

pytestmark = pytest.mark.slow

DAY = "2019-06-05"
KEPT = 0.1
CONTRACT = ExampleContract(
    (
        FeatureSpec("number", "float32", nulls="fail"),
        FeatureSpec("price", "float32", model=ModelSteps(clip=(0.0, 50.0), log1p=True, shift=(1.0,), scale=(2.0,))),
        FeatureSpec("bucket", "float32", buckets=4, model=ModelSteps(boundaries=(0.0, 0.5))),
        FeatureSpec("city", "bytes", buckets=6, nulls="fail", model=ModelSteps(vocabulary="cities")),
        FeatureSpec("places", "bytes", None, buckets=6, nulls="fail", model=ModelSteps(vocabulary="cities")),
        FeatureSpec("tags", "int64", (3,), buckets=9, nulls="fail"),
        FeatureSpec("words", "int64", None, buckets=7, nulls="fail"),
        FeatureSpec("raw", "float64", (2,), nulls="fail", encoding="raw"),
        FeatureSpec("tensor", "float32", (2, 2), nulls="fail", encoding="tensor"),
        FeatureSpec("title", "bytes", nulls="fail"),
        FeatureSpec("clicked", "int64", role="label", nulls="fail"),
        FeatureSpec("sample_weight", "float32", role="weight", nulls="fail"),
        FeatureSpec("impression_id", "int64", role="key", nulls="fail"),
    )
)


def shown(split: str, first: int) -> pa.RecordBatch:
    """2,000 impressions with a click rate of about 0.1; of the negatives of train a tenth is kept."""
    rng = np.random.default_rng([first, split == "train"])
    count = 2000
    number, city = rng.normal(size=count), rng.integers(0, 4, count)
    clicked = rng.random(count) < 1 / (1 + np.exp(2.9 - 1.2 * number - 0.5 * (city == 1)))
    kept = clicked | (split != "train") | (rng.random(count) < KEPT)
    columns: dict[str, Any] = {
        "number": pa.array(number, pa.float32()),
        "price": pa.array([None if n % 7 == 0 else float(n % 90) - 9 for n in range(count)], pa.float32()),
        "bucket": pa.array(np.where(number > 1, np.nan, number), pa.float32()),
        "city": pa.array([["", "ulm", "bonn", "nowhere"][c] for c in city]),
        "places": pa.array([["bonn", "ulm", "far"][: n % 4] for n in range(count)]),
        "tags": pa.array([[n % 8 + 1, n % 3, 0] for n in range(count)]),
        "words": pa.array([list(range(1, n % 6)) for n in range(count)], pa.list_(pa.int64())),
        "raw": pa.array([[n / 7, -n] for n in range(count)], pa.list_(pa.float64())),
        "tensor": pa.array([[[n, 1], [2, -n]] for n in range(count)], pa.list_(pa.list_(pa.float32()))),
        "title": pa.array([f"t{n}" for n in range(count)]),
        "clicked": pa.array(clicked.astype(int), pa.int64()),
        "sample_weight": pa.array(np.where(clicked | (split != "train"), 1.0, 1 / KEPT), pa.float32()),
        "impression_id": pa.array(range(count), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns).filter(pa.array(kept))


class Trained(NamedTuple):
    root: Path
    report: FitReport


@pytest.fixture(scope="module")
def down_sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("down_sampled")
    published(root, CONTRACT, shown, sampling={"rate": KEPT})
    open_storage(root).put_new(f"dt={DAY}/data/{RUN}/vocabularies/cities.txt", b"ulm\nbonn\nkiel\n")
    return root


@pytest.fixture(scope="module", params=["weights", "calibrate"])
def trained(request: pytest.FixtureRequest, down_sampled: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A model that was trained with weights, and one that was trained without and is corrected."""
    report = fit(
        FitOptions(
            samples=str(down_sampled),
            days=(DAY,),
            model="deepfm",
            epochs=4,
            batch_size=128,
            calibrate=request.param == "calibrate",
            export=str(tmp_path_factory.mktemp("export")),
        )
    )
    assert report is not None
    return Trained(down_sampled, report)


def test_the_exported_model_scores_records_as_the_training_did(trained: Trained) -> None:
    assert trained.report.exported is not None
    for split, trained_scores in trained.report.splits.items():
        scores = evaluate_export(trained.report.exported, str(trained.root), date=DAY, split=split)
        assert (scores.samples, scores.positives) == (trained_scores.samples, trained_scores.positives)
        assert scores.constant_log_loss == trained_scores.constant_log_loss
        for name in ("log_loss", "auc", "calibration"):
            assert getattr(scores, name) == pytest.approx(getattr(trained_scores, name), abs=1e-6), f"{split} {name}"


def test_features_and_records_give_equal_probabilities(trained: Trained) -> None:
    import tensorflow as tf

    loaded = tf.saved_model.load(trained.report.exported)
    features, *_ = next(iter(load_dataset(str(trained.root), date=DAY, split="eval", batch_size=20)))
    given = {}
    for name, value in features.items():
        if isinstance(value, tf.RaggedTensor):
            given |= {f"{name}.values": value.values, f"{name}.row_splits": value.row_splits}
        elif name != "title":
            given[name] = value
    by_features = loaded.signatures["features"](**given)["probability"]
    shard = open_samples(str(trained.root), date=DAY, split="eval").shards[0]
    records = next(iter(tf.data.TFRecordDataset(str(trained.root / shard.path)).batch(20)))
    by_records = loaded.signatures["serving_default"](examples=records)["probability"]
    assert by_features.shape == by_records.shape == (20,)
    np.testing.assert_array_equal(by_features, by_records)


def test_a_record_without_label_and_weight_is_served_as_one_with_them(trained: Trained) -> None:
    import tensorflow as tf

    predict = tf.saved_model.load(trained.report.exported).signatures["serving_default"]
    shard = open_samples(str(trained.root), date=DAY, split="eval").shards[0]
    record = next(iter(tf.data.TFRecordDataset(str(trained.root / shard.path)))).numpy()
    example = tf.train.Example.FromString(record)
    for name in ("clicked", "sample_weight", "impression_id", "title"):
        del example.features.feature[name]
    both = predict(examples=tf.constant([record, example.SerializeToString()]))["probability"].numpy()
    assert both[0] == both[1]


def test_both_ways_of_correcting_are_calibrated_where_nothing_was_left_out(trained: Trained) -> None:
    train, held = trained.report.splits["train"], trained.report.splits["eval"]
    assert train.positives / train.samples > 0.4
    assert held.positives / held.samples < 0.12
    for scores in (train, held):
        assert scores.calibration == pytest.approx(1, abs=0.12)
        assert scores.beats_constant
    for part in held.bins[5:]:  # the upper half of the predictions; below there are too few clicks
        assert part.predicted == pytest.approx(part.observed, rel=0.4)


def test_a_version_is_added_behind_those_that_are_there_and_says_what_it_was_trained_on(trained: Trained) -> None:
    assert trained.report.exported is not None
    root = Path(trained.report.exported).parent
    (root / "7").mkdir()
    options = FitOptions(samples=str(trained.root), days=(DAY,), epochs=1, export=str(root))
    report = fit(options)
    assert report is not None
    assert report.exported == str(root / "8")
    assert sorted(path.name for path in root.iterdir()) == ["1", "7", "8"]
    assert f'"2019-06-05": "{RUN}"' in (root / "8/assets.extra/training.json").read_text()


def test_what_is_no_export_is_named(down_sampled: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no exported model .* expected a version, such as export/1"):
        evaluate_export(str(tmp_path), str(down_sampled), date=DAY, split="eval")


def test_one_correction_for_several_labels_or_rates_is_refused(weighted_samples: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="corrects for one label, but the samples were chosen by clicked, read_ms"):
        fit(FitOptions(samples=str(weighted_samples), days=(DAY,), label="clicked", calibrate=True))
    for day, rate in ((DAY, 0.1), ("2019-06-06", 0.2)):
        published(tmp_path, SMALL, lambda split, first: rows(first, 50), day=day, sampling={"rate": rate})
    with pytest.raises(UsageError, match="corrects for one sampling rate, but the days have 0.1, 0.2"):
        fit(FitOptions(samples=str(tmp_path), days=(DAY, "2019-06-06"), calibrate=True))


def test_a_model_is_compared_with_itself_and_with_a_worse_one_on_the_same_samples(trained: Trained) -> None:
    def against(model: str, epochs: int) -> FitReport:
        options = FitOptions(samples=str(trained.root), days=(DAY,), model="deepfm", epochs=epochs, against=model)
        report = fit(options)
        assert report is not None
        return report

    assert trained.report.exported is not None
    worse = against(trained.report.exported, 1).differences["eval"]
    assert worse.auc is not None
    assert worse.auc_error is not None
    assert -0.5 < worse.auc < 0
    assert 0 < worse.auc_error < 0.1
    assert worse.log_loss_error is not None


def test_a_model_that_needs_other_features_or_predicts_another_label_is_not_compared(trained: Trained) -> None:
    assert trained.report.exported is not None
    exported = Exported.load(trained.report.exported)
    other = [replace(spec, buckets=7) if spec.name == "city" else spec for spec in CONTRACT.features]
    with pytest.raises(ContractError, match=r"have another feature 'city', which the model .* uses"):
        exported.check(ExampleContract(tuple(other)), "clicked", DAY_ONE)
    fewer = [spec for spec in CONTRACT.features if spec.name != "tags"]
    with pytest.raises(ContractError, match=r"do not have the feature 'tags'"):
        exported.check(ExampleContract(tuple(fewer)), "clicked", DAY_ONE)
    with pytest.raises(ContractError, match="predicts 'clicked', expected 'read'"):
        exported.check(CONTRACT, "read", DAY_ONE)
    without = replace(exported, about={"label": "clicked"})
    with pytest.raises(ContractError, match="does not tell its features"):
        without.check(CONTRACT, "clicked", DAY_ONE)


def day(**config: Any) -> Manifest:
    return manifest(CONTRACT, config={"impressions": {}, **config})


DAY_ONE = day()
DEFINED = {
    "features": {
        "price": {"from": "item.price", "dtype": "float32"},
        "city": {"from": "impression.town", "vocabulary": "cities"},
        "tags": {"cross": ["price", "city"]},
    },
    "views": {"item": {"source": "items", "ttl": "1d"}},
    "impressions": {"columns": {"town": "lower(town)"}},
}


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({}, set()),
        ({"views": {"item": {"source": "items", "ttl": "2d"}}}, {"price", "tags"}),
        ({"views": {"item": DEFINED["views"]["item"], "other": {}}}, set()),
        ({"impressions": {"columns": {"town": "upper(town)"}}}, {"city", "tags"}),
        ({"features": DEFINED["features"] | {"price": {"from": "item.price", "clip": [0, 1]}}}, {"price", "tags"}),
    ],
)
def test_a_feature_that_is_made_from_other_values_is_another_one(changes: dict[str, Any], changed: set[str]) -> None:
    before, now = (made_from(day(**one), DEFINED["features"]) for one in (DEFINED, DEFINED | changes))
    assert {name for name in before if before[name] != now[name]} == changed


def test_ids_of_another_fitted_state_are_another_feature(trained: Trained) -> None:
    before = day(**DEFINED)
    state = {"lineage": "a", "version": 2, "fingerprint": "f"}
    after = replace(before, contract={**before.contract, "state": state})
    then, now = (made_from(one, DEFINED["features"]) for one in (before, after))
    assert {name for name in then if then[name] != now[name]} == {"city", "tags"}
    assert trained.report.exported is not None
    exported = Exported.load(trained.report.exported)
    about = {**exported.about, "made_from": then}
    with pytest.raises(
        ContractError, match="'city' of the samples is made from other values than the one that the model"
    ):
        replace(exported, about=about).check(CONTRACT, "clicked", after)

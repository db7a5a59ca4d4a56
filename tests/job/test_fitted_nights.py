"""Vocabularies, moments and quantiles over three nights: what grows, what stays, and what is left to the model."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract, FeatureSpec, ModelSteps
from ctr_samples.errors import ConfigError, InputError, PublishConflict, UsageError
from ctr_samples.job import run as job
from ctr_samples.job.fit import fit
from ctr_samples.shards import open_storage
from ctr_samples.shards.states import latest_state, publish_state, state_before
from ctr_samples.training.preparation import FeatureSteps
from ctr_samples.vocabulary import FittedState
from tests.job.three_nights import CONFIG, write_logs
from tests.support.whole_runs import Made, made, write_config

pytestmark = pytest.mark.slow

DAYS = [date(2019, 6, day) for day in (3, 4, 5)]


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    write_logs(folder / "logs")
    write_config(folder, "nights", CONFIG)
    return folder


@pytest.fixture(scope="module")
def versions(spark: SparkSession, nights: Path) -> list[FittedState]:
    """The state after each of the three days."""
    loaded = load_config(nights / "nights.yaml")
    return [fit(spark, loaded, day) for day in DAYS]


@pytest.fixture(scope="module")
def runs(spark: SparkSession, nights: Path, versions: list[FittedState]) -> list[Made]:
    """Samples of the second and third day, made after all three were fitted."""
    return [made(spark, nights / "nights.yaml", day) for day in DAYS[1:]]


def test_known_tokens_keep_their_ids_new_ones_take_the_next_and_the_growth_of_each_night_is_told(
    nights: Path, versions: list[FittedState]
) -> None:
    table = pq.read_table(nights / f"state/data/{versions[2].run_id}/cities.parquet").to_pydict()
    assert table == {"id": [3, 4, 5, 6], "token": ["Oslo", "Lund", "Kiel", "Bonn"], "since": [1, 1, 2, 3]}
    assert [state.vocabularies["cities"].tokens for state in versions] == [
        ("Oslo", "Lund"),
        ("Oslo", "Lund", "Kiel"),
        ("Oslo", "Lund", "Kiel", "Bonn"),
    ]
    assert [state.version for state in versions] == [1, 2, 3]
    assert len({state.lineage for state in versions}) == 1
    assert len({state.fingerprint for state in versions}) == 3
    first, second, third = (state.growth["cities"] for state in versions)
    # `words` shares the vocabulary: the first three rows of a day have 0, 1 and 2 words.
    assert (first.before, first.added, first.occurrences, first.covered) == (0, 2, 9, 8)  # one Rome is too few
    assert (second.before, second.added, second.coverage) == (2, 1, 1.0)
    assert (third.before, third.added, third.left_out, third.occurrences, third.covered) == (3, 1, 0, 8, 7)


def test_moments_and_quantiles_are_fitted_once_and_never_to_the_split_that_is_evaluated(
    versions: list[FittedState],
) -> None:
    assert all("Atlantis" not in state.vocabularies["cities"].tokens for state in versions)
    assert versions[0].moments["price"].count == (6,)
    assert versions[0].moments["price"].mean == (2.5,)
    assert versions[0].moments == versions[2].moments
    assert versions[0].boundaries == versions[2].boundaries == {"price_bucket": (2.0,)}


def test_a_day_is_made_with_what_was_fitted_before_it_even_when_later_versions_exist(runs: list[Made]) -> None:
    assert [day.manifest.contract["state"]["version"] for day in runs] == [1, 2]
    # Kiel has no id before it was fitted: the OOV bucket 2. Oslo is 3, Lund 4, then Kiel 5; a missing city is 1.
    second, third = (day.values("split", "city") for day in runs)
    assert [city for split, city in second if split == "train"] == [2, 2, 3, 4, 4, 4]
    assert [city for split, city in third if split == "train"] == [1, 2, 2, 2, 4, 5]
    assert [city for split, city in third if split == "eval"] == [2] * 4
    # Numbers are scaled and cut by the first night.
    found = [row for row in runs[0].values("price", "price_bucket", "split") if row[2] == "train"]
    assert [bucket for _, bucket, _ in found] == [1, 1, 2, 2, 2, 2]
    expected = [(n - 2.5) / (35 / 12) ** 0.5 for n in range(6)]
    assert [price for price, *_ in found] == pytest.approx(expected, abs=1e-6)


def test_days_of_one_lineage_have_one_contract_and_their_vocabulary_beside_the_shards(runs: list[Made]) -> None:
    second, third = (day.manifest.contract for day in runs)
    assert second["fingerprint"] == third["fingerprint"]
    sizes = {f["name"]: f["buckets"] for f in second["features"]}
    assert sizes["city"] == sizes["words"] == 8  # padding, missing, one OOV bucket, room for five tokens
    assert sizes["price_bucket"] == 3
    beside = runs[1].directory
    assert (beside / "vocabularies/cities.txt").read_text() == "Oslo\nLund\nKiel\n"
    files = "contract.json eval metrics.json report.html schema.pbtxt statistics.pbtxt train vocabularies"
    assert sorted(path.name for path in beside.iterdir()) == files.split()


def test_no_version_that_saw_a_day_is_given_to_that_day_so_the_first_cannot_be_made(
    spark: SparkSession, nights: Path, versions: list[FittedState]
) -> None:
    storage = open_storage(nights / "state")
    for day in DAYS:
        state = state_before(storage, day)
        assert state is None or state.through < day
    assert state_before(storage, date(2019, 6, 6)) == versions[2] == latest_state(storage)
    with pytest.raises(InputError, match="has no fitted state from before 2019-06-03; the newest was fitted through"):
        job.run(spark, load_config(nights / "nights.yaml"), DAYS[0])


def test_a_day_is_fitted_once_and_a_version_put_once(
    spark: SparkSession, nights: Path, versions: list[FittedState]
) -> None:
    with pytest.raises(UsageError, match="version 3, fitted through 2019-06-05, so the next one must end later"):
        fit(spark, load_config(nights / "nights.yaml"), DAYS[2])
    late = replace(versions[2], run_id="20190607T000000-ffffffff")
    with pytest.raises(PublishConflict, match="published .* first"):
        publish_state(open_storage(nights / "state"), late)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "oov_buckets: 1",
            "oov_buckets: 2",
            "vocabularies.cities: the configuration says oov_buckets: 2, capacity: 5, but version 2 of the fitted state ",
        ),
        ("quantiles: 2", "quantiles: 4", "features.price_bucket: the configuration says"),
        (
            "scale: standardise",
            "scale: standardise, log1p: true",
            "begin a new lineage with `ctr-samples fit --afresh`",
        ),
    ],
)
def test_a_state_that_does_not_fit_its_configuration_is_refused(
    spark: SparkSession, nights: Path, versions: list[FittedState], old: str, new: str, message: str
) -> None:
    changed = load_config(write_config(nights, "changed", CONFIG, {old: new}))
    with pytest.raises(ConfigError, match=message):
        job.run(spark, changed, DAYS[2])


def test_a_new_lineage_begins_with_new_ids_and_another_contract(spark: SparkSession, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    loaded = load_config(write_config(tmp_path, "nights", CONFIG))
    fit(spark, loaded, DAYS[0])
    before = job.run(spark, loaded, DAYS[2]).manifest
    afresh = fit(spark, loaded, DAYS[1], days=1, afresh=True)
    after = job.run(spark, loaded, DAYS[2]).manifest
    assert afresh.version == 2
    assert afresh.vocabularies["cities"].tokens == ("Lund", "Kiel")
    assert before.contract["fingerprint"] != after.contract["fingerprint"]


def test_a_vocabulary_that_is_new_begins_with_the_next_version(spark: SparkSession, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    alone = {
        "  words: {from: impression.words, dtype: int64, vocabulary: cities, ragged: true}\n": "",
        "  price_bucket: {from: impression.price, dtype: int64, quantiles: 2}\n": "",
    }
    fit(spark, load_config(write_config(tmp_path, "nights", CONFIG, alone)), DAYS[0])
    wider = load_config(write_config(tmp_path, "nights", CONFIG))
    with pytest.raises(
        ConfigError,
        match=r"features.price_bucket: .* version 1 of the fitted state does not have it. Run `ctr-samples fit`",
    ):
        job.run(spark, wider, DAYS[1])
    state = fit(spark, wider, DAYS[1])
    assert state.vocabularies["cities"].tokens == ("Oslo", "Lund", "Kiel")
    assert state.boundaries == {"price_bucket": (2.0,)}


def test_what_would_spoil_a_fit_for_ever_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    log = tmp_path / "logs/2019-06-03.json"
    # A line break would move the lines of vocabularies/cities.txt, and one infinite price would make every mean infinite.
    log.write_text(log.read_text().replace('"Oslo"', '"Os\\nlo"').replace('"price": 5.0', '"price": Infinity'))
    pair = (
        "  pair: {expr: 'array(impression.price, 1D, 2D)', dtype: float32, shape: [2], pad: true, scale: standardise}\n"
    )
    path = write_config(tmp_path, "nights", CONFIG, {"vocabularies:\n": f"{pair}vocabularies:\n"})
    state = fit(spark, load_config(path), DAYS[0])
    assert state.vocabularies["cities"].tokens == ("Lund",)
    assert state.growth["cities"].occurrences == 9
    assert (state.moments["price"].count, state.moments["price"].mean) == ((5,), (2.0,))
    assert (state.moments["pair"].count, state.moments["pair"].mean) == ((5, 6), (2.0, 1.0))
    assert state.boundaries == {"price_bucket": (2.0,)}


def test_days_without_training_rows_fit_nothing(spark: SparkSession, nights: Path, tmp_path: Path) -> None:
    early = write_config(tmp_path, "nights", CONFIG, {"'20:00'": "'00:00'", "ROOT/logs": f"{nights}/logs"})
    with pytest.raises(InputError, match="There are no training impressions from 2019-06-03 to 2019-06-03 to fit on"):
        fit(spark, load_config(early), DAYS[0])


WORDS = "  words: {from: impression.words, dtype: int64, vocabulary: cities, ragged: true}\n"
IN_THE_MODEL = """\
  price_m: {from: impression.price, dtype: float32, clip: [1, 4], log1p: true, scale: min_max, computed: model}
  price_s: {from: impression.price, dtype: float32, clip: [1, 4], log1p: true, scale: min_max}
  bucket_m: {from: impression.price, dtype: float32, quantiles: 3, computed: model}
  bucket_s: {from: impression.price, dtype: int64, quantiles: 3}
  city_m: {from: impression.city, dtype: string, vocabulary: cities, computed: model}
  words: {from: impression.words, dtype: int64, vocabulary: cities, ragged: true}
  words_m: {from: impression.words, dtype: string, vocabulary: cities, ragged: true, computed: model}
"""


def test_the_model_computes_what_the_job_would_have_written(spark: SparkSession, tmp_path: Path) -> None:
    import tensorflow as tf

    write_logs(tmp_path / "logs")
    loaded = load_config(write_config(tmp_path, "nights", CONFIG, {WORDS: IN_THE_MODEL}))
    fit(spark, loaded, date(2019, 6, 4), days=2)
    day = made(spark, loaded, date(2019, 6, 5))
    contract = ExampleContract.from_dict(dict(day.manifest.contract))
    tokens = (day.directory / "vocabularies/cities.txt").read_text().splitlines()

    files = [str(day.output / shard.path) for shard in day.manifest.of_split("train")]
    records = [record.numpy() for record in tf.data.TFRecordDataset(files)]
    kinds = {"int64": tf.int64, "float32": tf.float32, "bytes": tf.string}
    specs = {
        spec.name: tf.io.RaggedFeature(kinds[spec.dtype])
        if spec.shape is None
        else tf.io.FixedLenFeature(spec.shape, kinds[spec.dtype])
        for spec in contract.features
    }
    computed = FeatureSteps(contract, {"cities": tokens})(tf.io.parse_example(records, specs))

    assert computed["price_m"].dtype == tf.float32
    np.testing.assert_array_equal(computed["price_m"].numpy(), computed["price_s"].numpy())
    assert computed["bucket_m"].numpy().tolist() == computed["bucket_s"].numpy().tolist()
    assert sorted(computed["bucket_s"].numpy()) == [1, 2, 2, 3, 3, 3]
    assert computed["city_m"].numpy().tolist() == computed["city"].numpy().tolist()
    assert 1 in computed["city_m"].numpy()  # the missing city
    assert computed["words_m"].to_list() == computed["words"].to_list()


def test_a_number_that_32_bits_do_not_hold_lies_above_the_boundary_that_it_equals() -> None:
    import tensorflow as tf

    prices = [0.1, 0.7, 2.3, 19.99]  # 0.7 and 19.99 are less as float32 than as double
    contract = ExampleContract((FeatureSpec("price", "float32", model=ModelSteps(boundaries=tuple(prices))),))
    made = FeatureSteps(contract, {})({"price": tf.constant([*prices, float("nan")])})
    assert made["price"].numpy().tolist() == [2, 3, 4, 5, 0]


def test_a_vocabulary_that_is_not_given_is_asked_for() -> None:
    contract = ExampleContract((FeatureSpec("city", "bytes", model=ModelSteps(vocabulary="cities")),))
    with pytest.raises(InputError, match="needs the tokens of the vocabulary 'cities'; give the lines of vocabularies"):
        FeatureSteps(contract, {})

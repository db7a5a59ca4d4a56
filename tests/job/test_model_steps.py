"""What is left to the model gives the same numbers there as it would in the sample."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract, FeatureSpec, ModelSteps
from ctr_samples.errors import InputError
from ctr_samples.job.fit import fit
from ctr_samples.training.preparation import FeatureSteps
from tests.job.three_nights import CONFIG, write_logs
from tests.support.whole_runs import made, write_config

pytestmark = pytest.mark.slow

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

from __future__ import annotations

from typing import Any, Literal

import pytest

from ctr_samples.quality.feature_facts import Curve, FeatureFacts, Kind, Lengths, TopValue
from ctr_samples.quality.statistics import statistics_pbtxt
from tests.support.measured_day import column, tiny_day


def feature(kind: Kind, dtype: Literal["int64", "float32", "bytes"], **measured: Any) -> FeatureFacts:
    return FeatureFacts(kind, dtype, (), {"train": column(10, nulls=2, zeros=1, **measured)})


METRICS = tiny_day(
    10,
    features={
        "age": feature(
            "number", "float32", min=0.0, max=4.0, mean=2.0, std=1.5, quantiles={"0.5": 2.0},
            cdf=Curve((0.0, 2.0, 4.0), (0.0, 0.25, 0.5), (0.25, 0.5, 1.0)),
        ),
        'a "b"\n': feature("text", "bytes", top=(TopValue("x{", 0.75, 0.1),)),
        "tags": feature("id", "int64", lengths=Lengths(0, 3, 0.8), distinct=3.2, top=()),
    },
)  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        'path { step: "age" }',
        "mean: 2.0\n",
        "median: 2.0\n",
        "buckets { low_value: 0.0 high_value: 0.0 sample_count: 2.0 }",
        "buckets { low_value: 2.0 high_value: 4.0 sample_count: 4.0 }",
        'top_values { value: "x{" frequency: 6.0 }',
        "unique: 3\n",
        r'path { step: "a \"b\"\n" }',
    ],
)
def test_numbers_have_moments_and_a_histogram_and_texts_their_most_frequent_values(line: str) -> None:
    assert line in statistics_pbtxt(METRICS.samples, METRICS.features)


def test_tensorflow_metadata_reads_all_of_it() -> None:
    statistics = pytest.importorskip("tensorflow_metadata.proto.v0.statistics_pb2")
    from google.protobuf import text_format

    (train,) = text_format.Parse(
        statistics_pbtxt(METRICS.samples, METRICS.features), statistics.DatasetFeatureStatisticsList()
    ).datasets
    age, text, tags = train.features
    assert (train.name, train.num_examples) == ("train", 10)
    assert (age.num_stats.common_stats.num_missing, age.num_stats.num_zeros, age.num_stats.max) == (2, 1, 4.0)
    assert text.path.step[0] == 'a "b"\n'
    assert (tags.string_stats.unique, tags.string_stats.common_stats.max_num_values) == (3, 3)

"""What runs that take samples from a generation write into their manifests. Without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from ctr_samples.config import load_config
from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.errors import UnusableFeatures
from ctr_samples.job.kinds import TakeFewerSamples, TakeSamples
from ctr_samples.job.reuse import _tells_all
from ctr_samples.samples.sampling import DOWN_SAMPLED
from ctr_samples.shards import Manifest, Shard
from tests.support.manifests import manifest
from tests.support.tiny_days import write_days

CONTRACT = ExampleContract((FeatureSpec("clicked", "int64", role="label"),))
CONFIG = {"name": "tiny", "views": {"item": {}}}


def of_samples(records: int, **more: Any) -> Manifest:
    shard = Shard("dt=2019-06-05/data/x/train/part-00000-0-0000000a.tfrecord", "train", 0, records, 7, 0, {})
    return manifest(CONTRACT, config=CONFIG, shards=(shard,), labels={"clicked": {"actions": 3}}, **more)


BEFORE = of_samples(
    9,
    views={"item": {"matched": 4, "match_rate": 0.5, "unusable": 1, "implausible": 0}},
    accounting={"impressions": 12, "samples": 9, "repeated": 3},
    sampling={},
)
TAKEN: dict[str, Any] = {"storage": MagicMock(), "clocks": {}, "names": None, "changed": {}, "views": frozenset()}


def test_samples_that_are_taken_keep_the_counts_of_their_generation() -> None:
    made = TakeSamples(BEFORE, **TAKEN, metrics=None).completed(of_samples(9, accounting={"samples": 9}))
    assert (made.views, made.accounting, made.labels) == (BEFORE.views, BEFORE.accounting, BEFORE.labels)


def test_of_fewer_samples_nobody_counted_what_matches() -> None:
    now = of_samples(6, accounting={"samples": 6, DOWN_SAMPLED: 3}, sampling={"rate": 0.5})
    made = TakeFewerSamples(BEFORE, **TAKEN, metrics=None, few=True).completed(now)
    assert made.views == {}
    assert made.accounting == {"impressions": 12, "samples": 6, "repeated": 3, DOWN_SAMPLED: 3}
    assert made.sampling == {"rate": 0.5}


@pytest.mark.parametrize("kind", [TakeSamples, TakeFewerSamples])
def test_a_run_that_lost_samples_starts_over(kind: type[TakeSamples]) -> None:
    now = of_samples(8, accounting={"samples": 8})
    with pytest.raises(UnusableFeatures, match="8 of its 9 samples were read"):
        replace(kind(BEFORE, **TAKEN, metrics=None), few=kind is TakeFewerSamples).completed(now)


def test_samples_that_sampling_leaves_out_are_not_lost_and_others_are() -> None:
    now = of_samples(6, accounting={"samples": 6, DOWN_SAMPLED: 2}, sampling={"rate": 0.5})
    with pytest.raises(UnusableFeatures, match="6 of its 7 samples were read"):
        TakeFewerSamples(BEFORE, **TAKEN, metrics=None, few=True).completed(now)


def test_records_tell_which_samples_stay_if_their_ids_alone_decide_and_nothing_else_is_counted(tmp_path: Path) -> None:
    path = write_days(tmp_path, date(2019, 6, 5), 0)
    for tells, *keys in (
        (True, "sampling={negatives: 0.5}"),
        (False,),
        (False, "sampling={rate: 'if(clicked = 1, 1, 0.5)'}"),
        (False, "sampling={negatives: 0.5, by: request}", "impressions.request=user"),
        (False, "sampling={negatives: 0.5}", "impressions.request=user", "output.order=request", "split={by: request}"),
        (False, "sampling={negatives: 0.5}", "labels.clicked.masks=[final]"),
        (
            False,
            "sampling={negatives: 0.5}",
            "labels.bought={source: log, where: kind = 'buy', window: 1h, after: clicked}",
        ),
    ):
        assert _tells_all(load_config(path, keys).config) is tells, keys

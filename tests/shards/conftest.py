"""A storage on disk, a bucket behind loopback, and one literal manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.shards import Manifest, Shard, Storage, open_storage
from tests.support.bucket_fixtures import s3, s3_server
from tests.support.disk_fixtures import unsynced
from tests.support.manifests import RUN
from tests.support.manifests import manifest as small_manifest

__all__ = ["s3", "s3_server", "unsynced"]

CONTRACT = ExampleContract((FeatureSpec("clicked", "float32", role="label", nulls="fail"),))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "out")


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Each kind of store in turn."""
    if request.param == "directory":
        return open_storage(tmp_path / "out")
    request.getfixturevalue("s3")
    return open_storage("s3://lake/samples")


@pytest.fixture
def manifest() -> Manifest:
    """Generation 1 of 2019-06-05 by run ...-aaaaaaaa: three shards in two splits."""
    directory = f"dt=2019-06-05/data/{RUN}"
    return small_manifest(
        CONTRACT,
        name="toutiao_ctr",
        fingerprint="f0" * 32,
        config={"name": "toutiao_ctr", "timezone": "Asia/Shanghai", "title": "头条"},
        inputs={"actions": {"files": 3, "fingerprint": None}},
        shards=(
            Shard(f"{directory}/eval/part-00000-7-00000001.tfrecord", "eval", 0, 2, 5, 0xE3069283, {"clicked": 1}),
            Shard(f"{directory}/train/part-00000-7-00000002.tfrecord", "train", 0, 8, 9, 1, {"clicked": 3}),
            Shard(f"{directory}/train/part-00001-8-00000003.tfrecord", "train", 1, 6, 7, 2, {"clicked": 0.5}),
        ),
        accounting={"impressions": 20, "samples": 16, "deduplicated": 4},
        views={"user_profile": {"matched": 12}},
        labels={"clicked": {"positives": 4}},
        versions={"ctr_samples": "0.1.0"},
        seconds=12.5,
    )

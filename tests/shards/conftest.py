"""A storage on disk, a bucket behind loopback, and one literal manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from manifests import RUN
from manifests import manifest as small_manifest
from moto.server import ThreadedMotoServer

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.shards import Manifest, Shard, Storage, open_storage

pytest.register_assert_rewrite("small_publish", "small_state")

BUCKET = "lake"
CONTRACT = ExampleContract((FeatureSpec("clicked", "float32", role="label", nulls="fail"),))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path / "out")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Any]:
    """An S3 in this process, on a free port; a boto3 client looks at the bucket from outside."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket=BUCKET)
    yield client
    client.close()
    server.stop()


@pytest.fixture
def s3(s3_server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The bucket ``lake``, empty, with its endpoint and credentials in the environment."""
    for variable, value in {
        "AWS_ENDPOINT_URL": s3_server.meta.endpoint_url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(variable, value)
    for page in s3_server.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):  # a page has at most 1,000 names
        for item in page.get("Contents", []):
            s3_server.delete_object(Bucket=BUCKET, Key=item["Key"])
    return s3_server


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

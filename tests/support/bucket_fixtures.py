"""A bucket behind loopback, for the tests that read and write one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "lake"


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

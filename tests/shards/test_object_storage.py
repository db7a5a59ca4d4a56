"""Buckets, against an S3 on loopback: uploads that complete or never appear, puts that create or conflict."""

from __future__ import annotations

import io
import logging
import os
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError

from ctr_samples.errors import StorageError
from ctr_samples.shards import Storage, open_storage
from ctr_samples.shards.storage import interface, objects
from tests.shards.files import write

MIB = 2**20


@pytest.fixture
def bucket(s3: Any) -> Storage:
    return open_storage("s3://lake/samples")


def keys(s3: Any) -> list[str]:
    return [item["Key"] for item in s3.list_objects_v2(Bucket="lake").get("Contents", [])]


def test_an_object_over_the_multi_part_threshold_arrives_whole(s3: Any, bucket: Storage) -> None:
    data = os.urandom(12 * MIB)
    write(bucket, "large", data)
    assert s3.head_object(Bucket="lake", Key="samples/large")["ETag"].strip('"').endswith("-2")  # two parts
    assert bucket.size("large") == 12 * MIB
    assert bucket.read("large") == data
    with bucket.open("large") as file:
        assert b"".join(iter(lambda: file.read(5 * MIB), b"")) == data


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("s3://lake/samples", "samples/d/x"),
        ("s3://lake/samples/", "samples/d/x"),
        ("s3a://lake/samples", "samples/d/x"),
        ("s3://lake", "d/x"),
        ("s3://lake/", "d/x"),
    ],
)
def test_every_form_of_a_place_means_the_same_and_not_its_neighbour(s3: Any, url: str, key: str) -> None:
    storage = open_storage(url)
    storage.put_new("d/x", b"1")
    assert keys(s3) == [key]
    assert storage.locate("d/x") == f"s3://lake/{key}"
    assert (storage.names(""), storage.names("d"), storage.read("d/x")) == (["d"], ["x"], b"1")
    assert open_storage("s3://lake/sample").names("") == []


def test_one_connection_serves_all_calls(bucket: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.put_new("x", b"1")
    monkeypatch.delenv("AWS_ENDPOINT_URL")  # a new one would not find the way
    assert (bucket.read("x"), bucket.size("x"), bucket.names("")) == (b"1", 1, ["x"])


@pytest.mark.parametrize("size", [5, 12 * MIB])
def test_a_bucket_that_does_not_exist_is_a_storage_error_in_one_line(s3: Any, size: int) -> None:
    storage = open_storage("s3://no-such-bucket/samples")
    for call in (
        lambda: write(storage, "x", bytes(size)),
        lambda: storage.put_new("x", b""),
        lambda: storage.names("d"),
    ):
        with pytest.raises(StorageError) as caught:
            call()
        message = str(caught.value)
        assert message.startswith(
            ("Cannot write s3://no-such-bucket/samples/x: ", "Cannot read s3://no-such-bucket/samples/d: ")
        )
        assert message.endswith(
            "(The specified bucket does not exist). Check the store and the rights on it, then run again."
        )
        assert "\n" not in message


def test_a_store_without_its_account_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(StorageError, match=r"Cannot read az://c/x/d: .*Account must be specified"):
        open_storage("az://c/x").names("d")


def test_an_error_in_mid_read_is_a_storage_error(bucket: Storage, s3: Any) -> None:
    write(bucket, "x", bytes(20 * MIB))
    with bucket.open("x") as file:
        assert len(file.read(MIB)) == MIB
        s3.put_object(Bucket="lake", Key="samples/x", Body=b"short")  # what is gone stands for any failed request
        with pytest.raises(StorageError, match="Cannot read s3://lake/samples/x: "):
            file.read()


def test_an_object_is_read_in_few_large_requests(bucket: Storage, caplog: pytest.LogCaptureFixture) -> None:
    write(bucket, "x", bytes(20 * MIB))
    with caplog.at_level(logging.INFO, "werkzeug"), bucket.open("x") as file:
        assert isinstance(file, io.BufferedReader)
        while file.read(100_000):
            pass
    requests = [message for message in caplog.messages if "GET /lake/samples/x HTTP" in message]
    assert len(requests) == 3  # of 8 MiB each


def test_a_process_that_was_forked_from_one_that_used_the_store_is_told_so(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interface, "_first_used", {"obstore": os.getpid() + 1})
    with pytest.raises(
        StorageError, match="s3://lake/x cannot be reached: this process was forked from one that had used obstore"
    ):
        open_storage("s3://lake/x").read("a")


def test_a_create_only_put_is_tried_some_times_and_then_told(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put, tries = obstore.put, []

    def reset(*given: Any, **more: Any) -> Any:
        tries.append(given[1])
        if len(tries) <= failures:
            raise GenericError("the connection was reset")
        return put(*given, **more)

    monkeypatch.setattr(obstore, "put", reset)
    monkeypatch.setattr(objects, "_PAUSES", (0.0, 0.0))
    storage, failures = open_storage("s3://lake/samples"), 1
    storage.put_new("m/1.json", b"first")
    assert (tries, storage.read("m/1.json")) == (["m/1.json"] * 2, b"first")
    tries.clear()
    failures = 3
    with pytest.raises(StorageError, match="the connection was reset"):
        storage.put_new("m/2.json", b"first")
    assert len(tries) == 3
    assert storage.names("m") == ["1.json"]

"""Stores that say no: one error, in one sentence, that tells no secret."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ctr_samples.errors import StorageError
from ctr_samples.shards import Storage, check_store, open_storage
from tests.support import ceph
from tests.support.ceph import Gateway
from tests.support.hadoop import FileSystem

MIB = 2**20
Call = Callable[[Storage], object]


def write(storage: Storage, size: int) -> None:
    with storage.new_file("d/x") as file:
        file.write(bytes(size))


PUTTING: dict[str, Call] = {
    "put_new": lambda storage: storage.put_new("d/x", b"1"),
    "new_file": lambda storage: write(storage, 5),
    "new_file in parts": lambda storage: write(storage, 12 * MIB),
    "check_store": lambda storage: check_store(storage, "d"),
}
DELETING: dict[str, Call] = {
    "delete": lambda storage: storage.delete("d/y"),
    "delete_directory": lambda storage: storage.delete_directory("d"),
}
READING: dict[str, Call] = {
    "read": lambda storage: storage.read("d/x"),
    "open": lambda storage: storage.open("d/x").read(),
    "size": lambda storage: storage.size("d/x"),
}
LISTING: dict[str, Call] = {
    "names": lambda storage: storage.names("d"),
    "files": lambda storage: storage.files("d"),
}
CALLS = PUTTING | DELETING | READING | LISTING


def refusal(call: Call, storage: Storage) -> str:
    with pytest.raises(StorageError) as caught:
        call(storage)
    message = str(caught.value)
    assert "\n" not in message
    assert "\\n" not in message
    assert len(message) < 400, message
    assert message.startswith(("Cannot read ", "Cannot write "))
    assert storage.url in message
    assert message.endswith(" Check the store and the rights on it, then run again.")
    return message


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_wrong_secret_is_refused_and_not_told(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    wrong = "wrong-secret-of-the-tests"
    for variable, value in ceph.environ(gateway.port, secret=wrong).items():
        monkeypatch.setenv(variable, value)
    message = refusal(call, open_storage(f"s3://{ceph.BUCKET}/refused"))
    for secret in (wrong, ceph.SECRET, ceph.KEY, "Signature"):
        assert secret not in message
    assert "SignatureDoesNotMatch" in message or "403" in message or "denied" in message


# To read, to stat or to delete what lies in no bucket is the same as where nothing lies.
@pytest.mark.parametrize("call", (PUTTING | LISTING).values(), ids=PUTTING | LISTING)
def test_a_bucket_that_does_not_exist_is_named(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    for variable, value in gateway.environ.items():
        monkeypatch.setenv(variable, value)
    assert "s3://no-such-bucket/" in refusal(call, open_storage("s3://no-such-bucket/samples"))


@pytest.fixture
def of_someone_else(file_system: FileSystem, place_in: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A directory of HDFS with a file, which the user ``stranger`` may neither read nor write."""
    from hdfs_native import Client

    url = place_in("HDFS")
    open_storage(url).put_new("d/x", b"1")
    Client(file_system.url).set_permission(url.removeprefix(file_system.url), 0o700)
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    return url


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_directory_of_someone_else_is_refused_with_the_reason(of_someone_else: str, call: Call) -> None:
    assert "Permission denied: user=stranger" in refusal(call, open_storage(of_someone_else))

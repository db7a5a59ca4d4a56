"""Storage in S3, GCS and Azure through obstore."""

from __future__ import annotations

import io
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, BinaryIO

from ctr_samples.errors import StorageError
from ctr_samples.shards.storage.interface import (
    NameTaken,
    Sink,
    StoredFile,
    check_process,
    checked,
    plain,
    reading,
    writing,
)

_UPLOADS = 4
"""Number of 10 MB parts that an open object may hold in memory during upload."""
_PAUSES = (0.05, 0.2, 0.8, 3.0)
"""Seconds before a create-only put is repeated: obstore itself repeats none that may have happened."""
_READ_AHEAD = 8 << 20
"""Bytes per read request. Large, since the first byte of each request takes tens of milliseconds."""


class ObjectStorage:
    """A bucket and a prefix. Objects appear when their upload completes; an upload aborted by an error never appears.

    The parts of an aborted upload stay in the bucket, invisible but billed, until a lifecycle rule removes them.
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._store: Any = None

    def __repr__(self) -> str:
        return f"ObjectStorage({self.url!r})"

    def __reduce__(self) -> tuple[type[ObjectStorage], tuple[str]]:
        return ObjectStorage, (self.url,)

    @contextmanager
    def new_file(self, path: str) -> Iterator[Sink]:
        """See the interface."""
        import obstore

        location = self.locate(path)
        with writing(location):
            writer = obstore.open_writer(self._connect(), path, max_concurrency=_UPLOADS)
        yield _ObjectSink(writer, location)
        with writing(location):
            writer.close()  # not reached after an error: an incomplete upload never appears

    def put_new(self, path: str, data: bytes) -> None:
        """See the interface. A store may take a put and answer that it failed, or answer that the object exists without
        having one. So after any answer but success, what is there decides. If nothing is, the put is repeated.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError

        location, store = self.locate(path), self._connect()
        for pause in (*_PAUSES, None):
            try:
                with writing(location):
                    obstore.put(store, path, data, mode="create", use_multipart=False)
                return
            except StorageError as error:
                taken = isinstance(error.__cause__, AlreadyExistsError | PreconditionError)
                try:
                    there = self.read(path)
                except FileNotFoundError:
                    if pause is None or not (taken or isinstance(error.__cause__, GenericError)):
                        raise error from None
                    time.sleep(pause)
                except StorageError:
                    raise error from None
                else:
                    if taken or there != data:
                        raise NameTaken(location) from None
                    return

    def read(self, path: str) -> bytes:
        """See the interface."""
        import obstore

        with reading(self.locate(path)):
            return bytes(obstore.get(self._connect(), path).bytes())

    def open(self, path: str) -> BinaryIO:
        """See the interface."""
        import obstore

        location = self.locate(path)
        with reading(location):
            reader = obstore.open_reader(self._connect(), path, buffer_size=_READ_AHEAD)
        return io.BufferedReader(_ObjectSource(reader, location), 1 << 20)

    def size(self, path: str) -> int:
        """See the interface."""
        import obstore

        with reading(self.locate(path)):
            return int(obstore.head(self._connect(), path)["size"])

    def modified(self, path: str) -> datetime:
        """See the interface."""
        import obstore

        with reading(self.locate(path)):
            return obstore.head(self._connect(), path)["last_modified"]

    def names(self, directory: str) -> list[str]:
        """See the interface."""
        import obstore

        with reading(self.locate(directory)):
            listing = obstore.list_with_delimiter(self._connect(), directory or None)
            if not listing["objects"] and not listing["common_prefixes"]:
                check_is_store(self.url, self._connect())
            paths = [item["path"] for item in listing["objects"]] + list(listing["common_prefixes"])
            return sorted(path.rstrip("/").rsplit("/", 1)[-1] for path in paths)

    def files(self, directory: str) -> list[StoredFile]:
        """See the interface."""
        import obstore

        with reading(self.locate(directory)):
            items = [item for page in obstore.list(self._connect(), directory or None) for item in page]
            if not items:
                check_is_store(self.url, self._connect())
            files = [StoredFile(item["path"], item["size"], item["last_modified"]) for item in items]
            return sorted(files, key=lambda file: file.path)

    def delete(self, path: str) -> None:
        """See the interface."""
        import obstore

        with writing(self.locate(path)), suppress(FileNotFoundError):
            obstore.delete(self._connect(), path)

    def delete_directory(self, path: str) -> None:
        """See the interface."""
        import obstore

        paths = [file.path for file in self.files(path)]
        with writing(self.locate(path)):
            if paths:
                obstore.delete(self._connect(), paths)

    def locate(self, path: str) -> str:
        """See the interface. obstore rejects names with control characters."""
        return f"{self.url}/{checked(plain(path))}"

    def _connect(self) -> Any:
        """Connect in the process that uses the connection, since it survives neither forking nor pickling."""
        check_process("obstore", self.url)
        if self._store is None:
            self._store = connected(self.url)
        return self._store


class _ObjectSink:
    """An obstore writer that adds the object's location to errors."""

    def __init__(self, writer: Any, location: str) -> None:
        self._writer = writer
        self._location = location

    def write(self, data: memoryview | bytes) -> int:
        check_process("obstore", self._location)
        with writing(self._location):
            return int(self._writer.write(data))


class _ObjectSource(io.RawIOBase):
    """A reader for an object, as a raw binary file."""

    def __init__(self, reader: Any, location: str) -> None:
        self._reader = reader
        self._location = location

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        check_process("obstore", self._location)
        with reading(self._location):
            data = memoryview(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)


PATIENT: Any = {
    # Each wait is random but at least the first one, so the time limit is reached before the number of retries.
    "backoff": {"init_backoff": timedelta(seconds=0.5), "max_backoff": timedelta(seconds=15), "base": 3},
    "max_retries": 1000,
    "retry_timeout": timedelta(seconds=150),
}
"""Retry settings for a store that is briefly unavailable (503, slow down) or resets connections. Credentials must stay
valid as long.
"""

HTTP: Any = {
    "allow_http": True,  # The endpoint decides whether plain http is used, as in a private network.
    "connect_timeout": timedelta(seconds=5),
    "timeout": timedelta(seconds=30),
}
"""Time limits for one request, including its body of at most 10 MB."""

AT_FIRST: Any = {"retry_config": {"max_retries": 0}, "client_options": {**HTTP, "timeout": timedelta(seconds=20)}}
"""Settings for the first request of a process, which is tried twice. A store that hangs is reported within 40 s."""

_NO_CREDENTIALS = re.compile(
    r"/latest/api/token|/latest/meta-data|metadata\.google\.internal|/computeMetadata|/metadata/identity|169\.254\.16|"
    r"MissingCredentials|missing credential|MissingSecretAccessKey|MissingAccessKeyId|Missing\w*Key\b",
    re.IGNORECASE,
)

_FOR_THE_MOMENT = re.compile(r"status code: (?:429|500|502|503|504)|kind: (?:Timeout|Connect|Interrupted|Request)")

_TO_SET = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "abfs": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "abfss": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


def connected(url: str) -> Any:
    """Connect to the store of a URL after it has answered a first request. Runs once in each process that uses the
    store.
    """
    import obstore

    try:
        impatient = obstore.store.from_url(url, **AT_FIRST)
        patient = obstore.store.from_url(url, client_options=HTTP, retry_config=PATIENT)
    except obstore.exceptions.BaseError as error:
        _tell_missing_credentials(url, str(error))
        raise
    for last in (False, True):
        answer = _failure_of_head(impatient)
        _tell_missing_credentials(url, answer)
        if "kind: Timeout" not in answer:
            break
        if last:
            seconds = AT_FIRST["client_options"]["timeout"].total_seconds()
            raise StorageError(
                f"{url} does not answer: two requests had no reply within {seconds:g} s each. Check the endpoint "
                "(AWS_ENDPOINT_URL) and the network, then run again."
            )
    return patient


def check_is_store(url: str, store: Any) -> None:
    """Raise StorageError if an empty listing came from something other than a store, such as a proxy's web page.

    A web page answers for every name; a store reports that an unused name does not exist.
    """
    import obstore

    answer = _failure_of_head(obstore.store.from_url(url, **AT_FIRST))
    if _FOR_THE_MOMENT.search(answer):
        answer = _failure_of_head(store)
    if not re.match(
        r"NotFoundError|FileNotFoundError|PermissionDeniedError|PermissionError|UnauthenticatedError", answer
    ):
        raise StorageError(
            f"{url} answers like a web page or proxy, not like a store: it lists nothing, and claims to hold a name that was "
            "never used. Check the endpoint (AWS_ENDPOINT_URL) and the proxy settings."
        )


def _failure_of_head(store: Any) -> str:
    """Request an unused name and return the error text, or an empty string if the store claims that the name exists."""
    import obstore

    try:
        obstore.head(store, f".nothing-{uuid.uuid4().hex}")
    except (obstore.exceptions.BaseError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _tell_missing_credentials(url: str, error: str) -> None:
    if _NO_CREDENTIALS.search(error):
        scheme = url.partition(":")[0]
        raise StorageError(
            f"There are no credentials for {url}: set {_TO_SET.get(scheme, 'those of the store')}, or run where the "
            "machine has a role that may use it (no metadata service gave any)."
        )

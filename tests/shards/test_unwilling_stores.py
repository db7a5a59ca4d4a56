"""Endpoints that refuse for a while, hang, ask for credentials or are no stores; timeouts are made small."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ctr_samples.errors import StorageError
from ctr_samples.shards import open_storage, published_days
from ctr_samples.shards.storage import objects

EMPTY = (
    b'<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>lake</Name><Prefix/>'
    b"<KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"
)
PAGES = [b"<!DOCTYPE html><html><body>Log in</body></html>", b"<html><head/><body><p>Log in</p></body></html>"]

Reply = tuple[int, bytes]


class Endpoint(ThreadingHTTPServer):
    """Answers each request as ``replies`` says; None is no answer until the end of the test."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: Callable[[str, str], Reply | None] = lambda method, path: (200, EMPTY)
        self.requests: list[str] = []
        self.over = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def do_GET(self) -> None:
        self.server.requests.append(f"{self.command} {self.path}")
        reply = self.server.replies(self.command, self.path)
        if reply is None:
            self.server.over.wait()
            self.close_connection = True
            return
        self.send_response(reply[0])
        self.send_header("Content-Length", str(len(reply[1])))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply[1])

    do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    short = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    monkeypatch.setitem(objects.PATIENT, "backoff", short)
    monkeypatch.setitem(objects.PATIENT, "max_retries", 20)
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        login = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "k",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_REGION": "us-east-1",
        }
        for name, value in {**login, "NO_PROXY": "127.0.0.1", "AWS_METADATA_ENDPOINT": url}.items():
            monkeypatch.setenv(name, value)
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def missing(method: str) -> Reply:
    return (404, b"") if method == "HEAD" else (200, EMPTY)


def test_a_store_that_refuses_for_the_moment_is_asked_again_for_at_least_two_minutes() -> None:
    backoff = objects.PATIENT["backoff"]
    assert objects.PATIENT["retry_timeout"] >= timedelta(minutes=2)
    # Each wait is at least the first one: the retries do not end before the time.
    assert objects.PATIENT["max_retries"] * backoff["init_backoff"] >= timedelta(minutes=2)
    assert backoff["init_backoff"] < backoff["max_backoff"]
    assert objects.PATIENT["retry_timeout"] < timedelta(minutes=5)  # requests are not signed again


def test_a_store_that_hangs_is_told_within_a_minute() -> None:
    options = objects.AT_FIRST["client_options"]
    assert objects.AT_FIRST["retry_config"]["max_retries"] == 0
    assert 2 * options["timeout"] < timedelta(minutes=1)
    assert options["connect_timeout"] < options["timeout"]
    assert objects.HTTP["timeout"] < timedelta(minutes=1)


@pytest.mark.parametrize("status", [503, 500, 429])
def test_a_store_that_refuses_for_a_while_is_asked_until_it_answers(endpoint: Endpoint, status: int) -> None:
    left = [12]

    def replies(method: str, path: str) -> Reply:
        if method == "GET" and left[0]:
            left[0] -= 1
            return status, b"<Error><Code>SlowDown</Code></Error>"
        return missing(method)

    endpoint.replies = replies
    assert published_days(open_storage("s3://lake/samples")) == []
    assert left == [0]


@pytest.mark.parametrize("what", ["names", "read", "put"])
def test_a_store_that_never_answers_is_told(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setitem(objects.AT_FIRST["client_options"], "timeout", timedelta(milliseconds=200))
    endpoint.replies = lambda method, path: None
    storage = open_storage("s3://lake/samples")
    call = {
        "names": lambda: storage.names(""),
        "read": lambda: storage.read("a"),
        "put": lambda: storage.put_new("a", b""),
    }
    with pytest.raises(
        StorageError, match="s3://lake/samples does not answer: two requests had no reply within 0.2 s each"
    ):
        call[what]()
    assert len(endpoint.requests) == 2


@pytest.mark.parametrize(
    ("of_head", "page"), [(200, PAGES[0]), (405, PAGES[1]), (302, PAGES[0]), (501, PAGES[1]), (503, PAGES[0])]
)
def test_a_web_page_is_no_empty_listing(endpoint: Endpoint, of_head: int, page: bytes) -> None:
    endpoint.replies = lambda method, path: (of_head if method == "HEAD" else 200, page)
    storage = open_storage("s3://lake/samples")
    for listing in (storage.names, storage.files):
        with pytest.raises(StorageError, match="answers like a web page or proxy, not like a store"):
            listing("dt=2019-06-05")


def test_an_empty_bucket_is_empty(endpoint: Endpoint) -> None:
    endpoint.replies = lambda method, path: missing(method)
    storage = open_storage("s3://lake/samples")
    assert storage.names("") == []
    assert storage.files("") == []


@pytest.mark.parametrize("lacking", [("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ("AWS_SECRET_ACCESS_KEY",)])
def test_missing_credentials_are_said_to_be_missing_at_once(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, lacking: tuple[str, ...]
) -> None:
    for name in lacking:
        monkeypatch.delenv(name)
    endpoint.replies = lambda method, path: (404, b"")
    with pytest.raises(
        StorageError, match="no credentials for s3://lake/samples: set AWS_ACCESS_KEY_ID and AWS_SECRET"
    ):
        open_storage("s3://lake/samples").names("")
    assert len(endpoint.requests) <= 3

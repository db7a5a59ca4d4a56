"""Timeouts for a bucket. Reports three failures immediately: no answer, no credentials, or no store at the address."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

from ctr_samples.errors import StorageError

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

"""Open the storage for a path or URL."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

from ctr_samples.addresses import check_address
from ctr_samples.arguments import path_text
from ctr_samples.errors import UsageError
from ctr_samples.shards.storage.hdfs import HadoopStorage
from ctr_samples.shards.storage.interface import Storage
from ctr_samples.shards.storage.local import LocalStorage
from ctr_samples.shards.storage.objects import ObjectStorage

_BUCKETS = ("s3", "s3a", "gs", "az", "abfs", "abfss")


def open_storage(url: str | Path) -> Storage:
    """Return the storage for a path or an ``hdfs://``, ``s3://``, ``gs://`` or ``az://`` URL, with credentials from the
    environment.

    Raises UsageError for anything else. Accesses the store only when a method is called.
    """
    text = path_text("path", url)
    check_address(text)
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", text)
    scheme = match[1] if match else None
    if scheme is None:
        return LocalStorage(text)
    if scheme == "file":
        return LocalStorage(_path_of_file_url(text))
    if scheme == "hdfs":
        return HadoopStorage(_plain(text))
    if scheme in _BUCKETS and re.match(r"\w+://[^/]", text):
        return ObjectStorage(_plain(text).replace("s3a://", "s3://", 1))
    raise UsageError(
        f"{text}: cannot store to {scheme}; expected a directory, hdfs://, or s3://, gs://, az:// or abfss:// and a bucket."
    )


def _plain(text: str) -> str:
    """Return the URL. Reject characters that a library would cut or decode, silently writing samples elsewhere."""
    if special := re.search(r"[?#%]", text):
        raise UsageError(f"{text}: found {special[0]!r} in the URL; expected a plain name for the directory.")
    return text


def _path_of_file_url(text: str) -> str:
    """Return the path of a ``file:/a`` or ``file:///a`` URL."""
    match = re.fullmatch(r"file:(?://(?:localhost)?)?(/(?!/).*)", text)
    if match is None:
        raise UsageError(f"{text}: found no absolute path in the URL; expected the form file:///data/samples.")
    return unquote(match[1])

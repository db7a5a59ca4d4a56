"""Addresses of files and directories: what may not stand in one, and whether one lies in another."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from ctr_samples.day_paths import DayPath, pattern_of
from ctr_samples.errors import UsageError

CREDENTIALS_ELSEWHERE = (
    "the address holds credentials, which would be written into listings, plans and messages; leave them out, and give them "
    "to the store by its environment variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


def holds_credentials(address: str) -> bool:
    """Whether something like ``KEY:SECRET@`` stands before the bucket or host. A secret may hold any character, also ``/``."""
    match = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]*):/+(.*)", address, re.DOTALL)
    if match is None:
        return False
    scheme, rest = match[1].lower(), match[2]
    before, at, _ = rest.partition("@")
    if scheme in ("s3", "s3a", "s3n", "gs"):  # no name of a bucket has a colon or an `@`
        authority = rest.partition("/")[0]
        return ":" in authority or "@" in authority
    return bool(at) and ":" in re.sub(r"\{[^}]*\}", "", before)


def check_address(address: str) -> None:
    """Raise UsageError for an address with credentials; the message does not repeat it."""
    if holds_credentials(address):
        raise UsageError(f"{CREDENTIALS_ELSEWHERE[0].upper()}{CREDENTIALS_ELSEWHERE[1:]}.")


def overlap(read: str, written: str) -> str | None:
    """How what is written would come among what is read, or be replaced by it, in words; None where they are apart.

    ``read`` may name the day, and have globs; links, ``..`` and the ways to write a local path make no difference.
    """
    (store, pattern), (other, place) = _parts(DayPath(read).spread), _parts(written)
    if store != other or not all(_matches(one, name) for one, name in zip(pattern, place, strict=False)):
        return None
    if len(pattern) == len(place):
        return "is the same directory as"
    return "lies inside of" if len(place) > len(pattern) else "is above"


def check_apart(read: str, written: str) -> None:
    """Raise UsageError for an output that overlaps with an input."""
    if how := overlap(read, written):
        raise UsageError(f"The output {written} {how} the input {read}; choose a directory apart from it.")


def _parts(address: str) -> tuple[str, list[str]]:
    """The store, empty for this machine's files, and the names on the way from its root."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?$", address, re.DOTALL)
    scheme = match[1].lower() if match else "file"
    if match is None or scheme == "file":
        return "", _on_disk(address if match is None else unquote(match[3] or "/"))
    names = os.path.normpath(f"/{(match[3] or '').lstrip('/')}").split("/")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{match[2]}", [name for name in names if name]


def _on_disk(path: str) -> list[str]:
    """The names of a local path, its links followed as far as it is no pattern."""
    names = os.path.normpath(os.path.join(os.getcwd(), path)).split("/")
    fixed = next((i for i, name in enumerate(names) if _TOKEN.search(name)), len(names))
    real = os.path.realpath("/".join(names[:fixed]) or "/")
    return [name for name in [*real.split("/"), *names[fixed:]] if name]


_TOKEN = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[*?]")


def _matches(pattern: str, name: str) -> bool:
    """Whether a name of the output is one that the input's pattern reads; of braces any choice counts."""
    if pattern == name:
        return True
    kinds = {"*": ".*", "?": "."}
    tokens, plain = _TOKEN.findall(pattern), _TOKEN.split(pattern)
    regex = re.escape(plain[0])
    for token, text in zip(tokens, plain[1:], strict=True):
        any_text = "." if token.startswith("[") else ".*"
        regex += (pattern_of(token) or kinds.get(token, any_text)) + re.escape(text)
    return re.fullmatch(regex, name) is not None

"""Check the addresses of files and directories: reject embedded credentials and detect overlaps."""

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
    """Whether text like ``KEY:SECRET@`` precedes the bucket or host. A secret may contain any character, even ``/``."""
    match = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]*):/+(.*)", address, re.DOTALL)
    if match is None:
        return False
    scheme, rest = match[1].lower(), match[2]
    before, at, _ = rest.partition("@")
    if scheme in ("s3", "s3a", "s3n", "gs"):  # bucket names have no colon or `@`
        authority = rest.partition("/")[0]
        return ":" in authority or "@" in authority
    return bool(at) and ":" in re.sub(r"\{[^}]*\}", "", before)


def check_address(address: str) -> None:
    """Raise UsageError if an address contains credentials. The message does not repeat the address."""
    if holds_credentials(address):
        raise UsageError(f"{CREDENTIALS_ELSEWHERE[0].upper()}{CREDENTIALS_ELSEWHERE[1:]}.")


def overlap(read: str, written: str) -> str | None:
    """Describe how an output directory overlaps an input, or return None if they are separate.

    ``read`` may contain date templates and globs. Links, ``..`` and alternative spellings of a local path are resolved.
    """
    (store, pattern), (other, place) = _parts(DayPath(read).spread), _parts(written)
    if store != other or not all(_matches(one, name) for one, name in zip(pattern, place, strict=False)):
        return None
    if len(pattern) == len(place):
        return "is the same directory as"
    return "lies inside of" if len(place) > len(pattern) else "is above"


def check_apart(read: str, written: str) -> None:
    """Raise UsageError if an output overlaps an input."""
    if how := overlap(read, written):
        raise UsageError(f"The output {written} {how} the input {read}; choose a directory apart from it.")


def _parts(address: str) -> tuple[str, list[str]]:
    """Split an address into its store (empty for local files) and the path components below its root."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)?$", address, re.DOTALL)
    scheme = match[1].lower() if match else "file"
    if match is None or scheme == "file":
        return "", _on_disk(address if match is None else unquote(match[3] or "/"))
    names = os.path.normpath(f"/{(match[3] or '').lstrip('/')}").split("/")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}://{match[2]}", [name for name in names if name]


def _on_disk(path: str) -> list[str]:
    """Return the components of a local path, with links resolved up to the first template or glob."""
    names = os.path.normpath(os.path.join(os.getcwd(), path)).split("/")
    fixed = next((i for i, name in enumerate(names) if _TOKEN.search(name)), len(names))
    real = os.path.realpath("/".join(names[:fixed]) or "/")
    return [name for name in [*real.split("/"), *names[fixed:]] if name]


_TOKEN = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[*?]")


def _matches(pattern: str, name: str) -> bool:
    """Whether an output component matches an input pattern. Braces match any text."""
    if pattern == name:
        return True
    kinds = {"*": ".*", "?": "."}
    tokens, plain = _TOKEN.findall(pattern), _TOKEN.split(pattern)
    regex = re.escape(plain[0])
    for token, text in zip(tokens, plain[1:], strict=True):
        any_text = "." if token.startswith("[") else ".*"
        regex += (pattern_of(token) or kinds.get(token, any_text)) + re.escape(text)
    return re.fullmatch(regex, name) is not None

"""Addresses of files and directories: what may not stand in one."""

from __future__ import annotations

import re

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

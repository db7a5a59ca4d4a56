"""Values of ``${NAME}`` that can be compared with those of an earlier run, although none is written anywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ctr_samples.config.document import names

_COST = {"n": 2**14, "r": 8, "p": 1}
"""Cost of scrypt (RFC 7914): about 50 ms and 16 MiB, so that short values cannot be tried by the billion."""


def digests(values: Mapping[str, str], sample_set: str) -> dict[str, str]:
    """Return a slow hash of each value, as ``salt:hash`` in hex digits. The salt is that of a sample set, so that the hashes in
    its manifests can be compared.
    """
    salt = hashlib.sha256(sample_set.encode()).digest()[:16]
    return {name: _digest(value, salt) for name, value in values.items()}


def digests_in(node: Any, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of the values in a part of a configuration, as far as they are known."""
    return {name: environment[name] for name in sorted({*names(node)}) if name in environment}


def changed(needed: Iterable[str], values: Mapping[str, str], before: Mapping[str, str]) -> set[str]:
    """Return the ``needed`` names whose values are not surely those of the hashes ``before``."""
    return {name for name in needed if not _is_same(values.get(name), before.get(name))}


def _is_same(value: str | None, digest: str | None) -> bool:
    return value is not None and digest is not None and _digest(value, bytes.fromhex(digest[:32])) == digest


@lru_cache(maxsize=256)  # a run compares each value some three times, and writes it
def _digest(value: str, salt: bytes) -> str:
    return f"{salt.hex()}:{hashlib.scrypt(value.encode(), salt=salt, dklen=16, **_COST).hex()}"

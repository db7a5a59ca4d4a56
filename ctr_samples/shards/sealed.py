"""JSON documents that contain their own checksum, so that manual edits and transfer errors are detected.

``checksum`` is the SHA-256, in hex, of all other fields as JSON with sorted keys, without spaces, in UTF-8. It is not a
signature: anyone with write access to the store can compute it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ctr_samples.errors import DamagedFile
from ctr_samples.typed import typed

T = TypeVar("T")

CHECKSUM = "checksum"
_SHOWN = 80


def sealed(document: Mapping[str, Any]) -> bytes:
    """Serialize to indented JSON in the document's order, with its checksum as the last field."""
    plain = {key: value for key, value in document.items() if key != CHECKSUM}
    as_read = json.loads(json.dumps(plain))  # numeric keys become strings
    return (json.dumps({**plain, CHECKSUM: _checksum(as_read)}, indent=1, ensure_ascii=False) + "\n").encode()


@dataclass(frozen=True, slots=True)
class Form:
    """The format number of a document type, its name in errors, and the remedy for a damaged document."""

    format: object
    name: str
    remedy: str


def read_sealed(kind: type[T], data: bytes, location: str, form: Form) -> T:
    """Parse a document into a dataclass. Accepts a missing checksum, since older releases wrote none.

    Raises DamagedFile, naming ``location``, if the document is malformed, has another format, or was changed.
    """
    try:
        document = _opened(data)
        if document["format"] != form.format:
            raise DamagedFile(
                f"{location} has format {_shown(document['format'])}; this release reads format {form.format!r}. "
                "Install the ctr-samples release that wrote it, or a newer one."
            )
        broken = _broken_seal(document)
        read = typed(kind, document)
    except KeyError as error:
        raise DamagedFile(f"{location} is not {form.name} (it lacks {error}); {form.remedy}.") from None
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{location} is not {form.name} ({error}); {form.remedy}.") from None
    if broken:
        raise DamagedFile(f"{location} was changed after it was written: {broken}; {form.remedy}.")
    return read


def _opened(data: bytes) -> dict[str, Any]:
    document = json.loads(data, object_pairs_hook=_unique)
    if not isinstance(document, dict):
        raise ValueError(f"expected an object, found {type(document).__name__}")
    return document


def _broken_seal(document: Mapping[str, Any]) -> str | None:
    """Describe a mismatch between a document's checksum and its content. Return None if they match or the checksum is
    missing.
    """
    made = _checksum({key: value for key, value in document.items() if key != CHECKSUM})
    if document.get(CHECKSUM, made) == made:
        return None
    return f"its checksum is {_shown(document[CHECKSUM])}, but its content hashes to {made}"


def _checksum(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        twice = next(key for i, (key, _) in enumerate(pairs) if any(key == other for other, _ in pairs[:i]))
        raise ValueError(f"the key {twice!r} occurs twice")
    return document

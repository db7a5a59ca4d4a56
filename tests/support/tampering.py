"""Manifests that somebody changed who knows how they are sealed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctr_samples.contract import ExampleContract
from ctr_samples.shards.sealed import sealed


def resealed(document: dict[str, Any]) -> bytes:
    """A manifest whose checksum fits, and the fingerprint of its contract."""
    contract = document["contract"]
    return sealed(
        {**document, "contract": {**contract, "fingerprint": ExampleContract.from_dict(contract).fingerprint}}
    )


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the document of a manifest and seal it again."""
    document = json.loads(path.read_text())
    change(document)
    path.write_bytes(resealed(document))


def keep_only(*places: int) -> Callable[[dict[str, Any]], None]:
    """Leave some of the shards, and account for those."""

    def change(document: dict[str, Any]) -> None:
        document["shards"] = [document["shards"][place] for place in places]
        samples = sum(shard["records"] for shard in document["shards"])
        document["accounting"] = {"impressions": samples, "samples": samples}

    return change

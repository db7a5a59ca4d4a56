"""Manifests of days: a test says what matters to it, all else is small and agrees with itself."""

from __future__ import annotations

from typing import Any

from ctr_samples.contract import ExampleContract
from ctr_samples.shards import Manifest

DAY = "2019-06-05"
RUN = "20190606T020000-aaaaaaaa"
NO_FEATURES = ExampleContract(())


def manifest(contract: ExampleContract = NO_FEATURES, /, **changed: Any) -> Manifest:
    """Generation 1 of 2019-06-05, with a sample for each record of ``shards``; ``changed`` are fields of Manifest."""
    samples = sum(shard.records for shard in changed.get("shards", ()))
    fields: dict[str, Any] = {
        "name": "tiny",
        "run_date": DAY,
        "generation": 1,
        "run_id": RUN,
        "parent": None,
        "created_at": "2019-06-06T02:00:00+00:00",
        "fingerprint": "",
        "compression": "none",
        "contract": {**contract.to_dict(), "fingerprint": contract.fingerprint},
        "config": {},
        "inputs": {},
        "shards": (),
        "accounting": {"impressions": samples, "samples": samples},
        "views": {},
        "labels": {},
        "label_mature": True,
        "versions": {},
    }
    return Manifest(**{**fields, **changed})

"""Assemblers without published samples."""

from __future__ import annotations

from typing import Any

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.serving import Assembler
from tests.support.manifests import manifest


def small(features: dict[str, Any], others: tuple[FeatureSpec, ...] = (), **more: Any) -> Assembler:
    """An assembler of samples that nobody made."""
    specs = [
        FeatureSpec(name, one["dtype"], None if "ragged" in one else tuple(one.get("shape", ())))
        for name, one in features.items()
    ]
    config = {"timezone": "Asia/Kathmandu", "features": features, "views": {"item": {}}}
    return Assembler(manifest(ExampleContract((*specs, *others)), config=config), **more)

"""Assemblers without published samples."""

from __future__ import annotations

from typing import Any

from ctr_samples.contract import ExampleContract, FeatureSpec
from ctr_samples.serving import Assembler
from tests.support.manifests import manifest


def small(features: dict[str, Any], **more: Any) -> Assembler:
    """An assembler of samples that nobody made."""
    specs = [FeatureSpec(name, "int64", () if "ragged" not in feature else None) for name, feature in features.items()]
    config = {"timezone": "Asia/Kathmandu", "features": features, "views": {"item": {}}, **more}
    return Assembler(manifest(ExampleContract(tuple(specs)), config=config))

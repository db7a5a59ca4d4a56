"""Configurations that differ in the order of samples and in what tells requests apart."""

from __future__ import annotations

from typing import Any

from ctr_samples.config import JobConfig


def config(order: Any, keys: dict[str, str], request: str | None = None, **more: Any) -> JobConfig:
    return JobConfig.model_validate(
        {
            "name": "tiny",
            "timezone": "UTC",
            "sources": {"log": {"format": "parquet", "path": "log"}},
            "impressions": {"source": "log", "time": "at", "keys": keys, "request": request},
            "labels": {"click": {"source": "log", "where": "x", "window": "1h"}},
            "features": {"p": {"from": "impression.position", "dtype": "int64"}},
            "output": {"path": "out", "order": order},
            **more,
        }
    )

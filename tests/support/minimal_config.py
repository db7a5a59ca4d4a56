"""The smallest configuration, and what is said of one that is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ctr_samples.config import JobConfig, load_config
from ctr_samples.errors import ConfigError

MINIMAL = """\
name: tiny
timezone: UTC
sources:
  log: {format: parquet, path: log.parquet}
impressions:
  source: log
  time: at
  user: user_id
  article: article_id
labels:
  clicked: {source: log, where: click = 1, window: 30m}
features:
  position: {from: impression.position, dtype: int64}
output: {path: out}
"""


def minimal(**sections: Any) -> JobConfig:
    """The minimal configuration with whole sections in place of its own, or beside them."""
    return JobConfig.model_validate({**yaml.safe_load(MINIMAL), **sections})


def with_joins(views: Mapping[str, str], **sections: Any) -> JobConfig:
    """The minimal configuration with views, of which each has its entity, and the history ``recent``."""
    view = {"source": "log", "key": "k", "event_time": "t", "ttl": "1d"}
    return minimal(
        impressions={"source": "log", "time": "t", "article": "item", "user": "user"},
        views={name: {**view, "entity": entity} for name, entity in views.items()},
        histories={"recent": {"source": "log", "last": 3, "within": "1d"}},
        **sections,
    )


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return path


def problem(tmp_path: Path, text: str, *overrides: str, environ: dict[str, str] | None = None) -> str:
    """The message, with the file's path shortened to c.yaml."""
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides, environ or {})
    return str(caught.value).replace(str(path), "c.yaml")


def with_lines(**replaced: str) -> str:
    """The minimal file with whole sections in place of its own, or added at its end."""
    sections = dict(section.split(":", 1) for section in re.split(r"\n(?=\w)", MINIMAL.rstrip()))
    return "\n".join(f"{key}: {text.strip(' ')}" for key, text in (sections | replaced).items()) + "\n"


def with_view(keys: str, feature: str = "from: v.n") -> str:
    """The minimal file with a feature of a view of users that has these keys."""
    view = f"views:\n  v: {{source: log, entity: user, key: k, {keys}}}\noutput:"
    return MINIMAL.replace("output:", view).replace("features:", f"features:\n  n: {{{feature}, dtype: int64}}")

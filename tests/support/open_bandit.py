"""The real logs of the demo, which have a week of 10,000 impressions."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from ctr_samples.config import LoadedConfig, load_config
from tests.support.project import PROJECT

TUESDAY = date(2019, 11, 26)
"""It has 1,300 impressions, of which 6 were clicked."""


def open_bandit(output: Path, *overrides: str) -> LoadedConfig:
    """The configuration of the demo, with its samples in ``output``."""
    data = PROJECT / "data/open_bandit"
    inputs = [f"sources.log.path={data / 'log.parquet'}", f"sources.items.path={data / 'items.parquet'}"]
    return load_config(PROJECT / "conf/open_bandit.yaml", [*inputs, f"output.path={output}", *overrides])

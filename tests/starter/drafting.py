"""Drafts of logs, as files of configurations and as what the loader reads of them."""

from __future__ import annotations

from pathlib import Path

from typer.testing import Result

from ctr_samples.config import JobConfig, load_config
from ctr_samples.starter import Answers, Draft, as_yaml, draft, look_at
from ctr_samples.starter.tables import Table
from tests.support.command_line import invoke


def looked_at(*inputs: Path | str) -> list[Table]:
    """What `init` sees of files."""
    return look_at([str(one) for one in inputs], no_catalog)


def no_catalog(name: str) -> object:
    raise AssertionError(f"the catalog was asked for {name}")


def drafted(*inputs: Path | str, **said: str) -> Draft:
    """A draft for files; ``said`` are options that decide a question."""
    return draft(looked_at(*inputs), Answers({option: (one,) for option, one in said.items()}))


def config_of(root: Path, made: Draft) -> JobConfig:
    """The configuration of a draft, as the loader reads it from a file."""
    (root / "drafted.yaml").write_text(as_yaml(made.entries))
    return load_config(root / "drafted.yaml", [f"output.path={root / 'out'}"]).config


def init(*arguments: object) -> Result:
    return invoke("init", *map(str, arguments))

"""Progress: seen on a terminal, also behind spark-submit, and silent elsewhere."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Any

import pytest
from rich.console import Console

from ctr_samples import terminal
from ctr_samples.job.progress import RunProgress
from ctr_samples.terminal import stderr_console


@dataclass
class Count:
    value: int


@dataclass
class Counts:
    samples: Any
    shards: Any


def shown(console: Console) -> str:
    with RunProgress(console) as running:
        running.stage("joining and writing")
        running.writing(Counts(Count(12_345), Count(6)))
        running._progress.update(running._row, counts=running._counts(3, 8))
        running._progress.refresh()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_shows_stage_tasks_samples_and_shards() -> None:
    text = shown(Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None))
    assert "joining and writing" in text
    assert "3/8 tasks, 12,345 samples in 6 shards" in text


def test_without_a_terminal_nothing_is_shown() -> None:
    assert shown(Console(file=io.StringIO(), force_terminal=False)).strip() == ""


@pytest.mark.parametrize(
    ("behind", "found"),
    [("/dev/null", None), ("pipe:[123]", None), ("/home/you/night.log", None), ("/dev/pts/7", "/dev/pts/7")],
)
def test_the_terminal_of_spark_submit_is_found_behind_it(
    monkeypatch: pytest.MonkeyPatch, behind: str, found: str | None
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(os, "readlink", lambda path: behind)
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    assert terminal._terminal_behind_spark_submit() == found


def test_outside_spark_submit_errors_go_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    stderr_console().print("said")
    assert capsys.readouterr().err == "said\n"

"""Progress: seen on a terminal, also behind spark-submit, and silent elsewhere."""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from rich.console import Console

from ctr_samples.cli.terminal import Terminal, stderr_console
from ctr_samples.job.progress import RunProgress


@dataclass
class Count:
    value: int


@dataclass
class Counts:
    samples: Any
    shards: Any


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_stage_tasks_samples_and_shards_and_anything_else_nothing(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    assert isinstance(console.file, io.StringIO)
    with RunProgress(console) as progress:
        progress.stage("joining and writing")
        progress.writing(Counts(Count(12_345), Count(6)))
        progress.tasks(3, 8)
    text = console.file.getvalue()
    for part in ("joining and writing", "3/8 tasks, 12,345 samples in 6 shards"):
        assert (part in text) == terminal
    assert bool(text.strip()) == terminal


def test_each_of_several_days_has_a_line_while_it_is_made() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    assert isinstance(console.file, io.StringIO)
    with RunProgress(console) as progress:
        with progress.of_day(date(2019, 6, 3)) as first, progress.of_day(date(2019, 6, 4)) as second:
            first.stage("planning the joins")
            second.warn("there is no log")
            first.writing(Counts(Count(24), Count(1)))
            second.writing(Counts(Count(26), Count(2)))
            progress.tasks(3, 8)
            with progress.of_day(date(2019, 6, 5)):  # a new line is shown at once, with the others
                text = console.file.getvalue()
        progress.stage("3 of 3 days")
    assert "2019-06-03: planning the joins" in text
    assert "warning: 2019-06-04: there is no log" in text
    assert "3/8 tasks, 50 samples in 3 shards" in text
    assert "2019" not in console.file.getvalue().rpartition("3 of 3 days")[2]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_word_of_the_progress_is_cut_however_narrow_the_terminal(width: int) -> None:
    console = Terminal(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    assert isinstance(console.file, io.StringIO)
    with RunProgress(console) as progress, progress.of_day(date(2019, 6, 3)) as day:
        day.stage("waiting for the days before")
        progress.stage("0 of 3 days")
        progress.writing(Counts(Count(4_012_345), Count(1_234)))
        progress.tasks(1_203, 1_248, compiling=True)
        with progress.of_day(date(2019, 6, 4)):  # a new line is shown at once, with the others
            shown = console.file.getvalue()
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "\n", shown))]
    assert max(map(len, lines)) <= width
    assert "…" not in shown
    words = shown.split()
    for word in "2019-06-03: waiting for the days before 1203/1248 tasks, compiling the codec, once, 4,012,345".split():
        assert word in words


def test_under_spark_submit_messages_reach_the_terminal_that_it_was_started_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen, behind = os.openpty()
    os.set_blocking(screen, False)  # nothing on the screen is an error, not a wait
    name = os.ttyname(behind)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(os, "readlink", lambda path: name)
    console = stderr_console()
    console.print("hello")
    assert os.read(screen, 100) == b"hello\r\n"
    console.file.close()
    os.close(behind)
    os.close(screen)


@pytest.mark.parametrize("behind", ["/dev/null", "pipe:[123]", "/home/you/night.log", None])
def test_without_a_terminal_or_outside_spark_submit_messages_go_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], behind: str | None
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if behind:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
        monkeypatch.setattr(os, "readlink", lambda path: behind)
        monkeypatch.setattr(os, "access", lambda path, mode: True)
    stderr_console().print("hello")
    assert capsys.readouterr().err == "hello\n"

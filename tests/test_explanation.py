"""``ctr-samples explain``: what is printed of one impression, and that it agrees with what a run computes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from ctr_samples.cli import app
from ctr_samples.cli.explanation import report
from ctr_samples.config import load_config
from ctr_samples.errors import InputError
from ctr_samples.spark.day import Day
from ctr_samples.spark.evidence import Witness
from ctr_samples.spark.joining import ViewJoiner
from ctr_samples.spark.samples import SampleBuilder
from ctr_samples.spark.sources import SourceFrame
from ctr_samples.spark.witnesses import Witnesses

CONFIG = """
name: tiny
timezone: Europe/Stockholm
sources:
  log: {format: parquet, path: log}
  profiles: {format: parquet, path: profiles}
  items: {format: parquet, path: items}
impressions: {source: log, where: "action = 'shown'", time: at, user: user, article: article, dedup: 1m}
labels:
  clicked: {source: log, where: "action = 'click'", window: 30m}
views:
  profile: {source: profiles, entity: user, key: user, event_time: at, available_after: 10m, ttl: 1d}
  item: {source: items, entity: article, key: article, static: true}
features:
  score: {from: profile.score, dtype: int64}
  topic: {from: item.topic, dtype: string}
output: {path: out}
"""

LOG = [
    ("u1", "a", "shown", "2019-06-05 08:00:00"),
    ("u1", "a", "shown", "2019-06-05 08:00:30"),
    ("u1", "a", "shown", "2019-06-05 09:00:00"),
    ("u1", "a", "click", "2019-06-05 07:59:00"),
    ("u1", "a", "click", "2019-06-05 08:10:00"),
    ("u1", "a", "click", "2019-06-05 08:40:00"),
    ("u1", "a", "click", "2019-06-05 09:01:00"),
    ("u1", "b", "click", "2019-06-05 08:10:00"),
    ("u2", "a", "shown", "2019-06-05 08:00:00"),
    (None, "a", "shown", "2019-06-05 08:00:00"),
]
PROFILES = [
    ("u1", "2019-06-05 08:05:00", 5),
    ("u1", "2019-06-05 07:55:00", 4),
    ("u1", "2019-06-05 07:00:00", 3),
    ("u1", "2019-06-05 06:00:00", 2),
    ("u2", "2019-06-03 06:00:00", 1),
]

Frame = Callable[..., DataFrame]


@pytest.fixture
def witness(frame: Frame, spark: SparkSession, tmp_path: Path) -> Witness:
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG)
    frames = {
        "log": frame("user string, article string, action string, at timestamp", LOG),
        "profiles": frame("user string, at timestamp, score bigint", PROFILES),
        "items": frame("article string, topic string", [("a", "sport")]),
    }
    sources = {name: SourceFrame(name, rows, (), None) for name, rows in frames.items()}
    return Witness(load_config(path).config, sources, Day.of(date(2019, 6, 5), "Europe/Stockholm"))


def samples(witness: Witness) -> dict[tuple[str | None, str], tuple[int, int, int]]:
    """What a run makes: (user, local time) -> (impression id, score, clicked)."""
    from ctr_samples.spark.features import contract_of

    steps = ViewJoiner(witness.config, witness.sources, witness.day).plan()
    builder = SampleBuilder(witness.config, witness.sources, witness.day, Witnesses())
    ids = {r.impression.impression_id: r.impression for r in builder.labelled_impressions().collect()}
    made = builder.build(contract_of(witness.config), steps).collect()
    return {
        (ids[r.impression_id].user, f"{ids[r.impression_id].impression_time:%H:%M}"): (
            r.impression_id,
            r.score,
            r.clicked,
        )
        for r in made
    }


def test_an_explanation_says_what_was_taken_and_why_all_else_was_not(witness: Witness) -> None:
    made = samples(witness)
    first = next(found for found in made.values() if found[1:] == (3, 1) and found[0] != 0)
    evidence = witness.gather(first[0])
    said = "\n".join(report(evidence, ZoneInfo("Europe/Stockholm")))
    assert (
        said
        == f"""\
[bold]Impression {first[0]}[/bold] at 2019-06-05 10:00:00+02:00
  user: 'u1'
  article: 'a'
  request: None
  position: 0

[bold]Label clicked[/bold]: 1 of 4 action(s) of the same key and article count
  The same was shown 1 more time(s) near this day.
  [dim]✗[/dim] 2019-06-05 09:59:00+02:00: it came 1m 0s before the impression; the limit is 0s
  [green]✓[/green] 2019-06-05 10:10:00+02:00: it came 10m 0s after the impression, within 30m 0s (by user)
  [dim]✗[/dim] 2019-06-05 10:40:00+02:00: it came 40m 0s after the impression; the limit is 30m 0s
  [dim]✗[/dim] 2019-06-05 11:01:00+02:00: it belongs to impression {other(made, first[0])} by user, the last before \
it (2019-06-05 09:00:00+00:00)

[bold]View profile[/bold], key 'u1': 4 row(s)
  [dim]✗[/dim] 2019-06-05 10:05:00+02:00, known 2019-06-05 10:15:00+02:00: it became true 5m 0s after the impression
  [dim]✗[/dim] 2019-06-05 09:55:00+02:00, known 2019-06-05 10:05:00+02:00: it was true, but not known until 5m 0s after \
the impression
  [green]✓[/green] 2019-06-05 09:00:00+02:00, known 2019-06-05 09:10:00+02:00: the last row that was known, 1h 0m 0s old
      {{'score': 3}}
  [dim]✗[/dim] 2019-06-05 08:00:00+02:00, known 2019-06-05 08:10:00+02:00: there is a later row that was known too

[bold]View item[/bold], key 'a': 1 row(s)
  [green]✓[/green] a table without times: {{'topic': 'sport'}}"""
    )


def other(made: dict[tuple[str | None, str], tuple[int, int, int]], first: int) -> int:
    """The second impression of u1."""
    return next(found[0] for (user, _), found in made.items() if user == "u1" and found[0] != first)


def test_an_explanation_agrees_with_the_samples_of_a_run(witness: Witness) -> None:
    from ctr_samples.verdicts import judge_actions, judge_rows

    for impression_id, score, clicked in samples(witness).values():
        evidence = witness.gather(impression_id)
        label, view = evidence.labels["clicked"], evidence.views["profile"]
        taken = [v for v in judge_actions(evidence.shown, label.others, label.actions, label.rules) if v.taken]
        assert view.rules is not None
        rows = [v.what.values["score"] for v in judge_rows(evidence.shown.time, view.rows, view.rules) if v.taken]
        assert (int(bool(taken)), (rows or [0])[0]) == (clicked, score)


def test_an_impression_that_became_no_sample_is_explained_too_and_an_unknown_one_is_refused(witness: Witness) -> None:
    made = {found[0] for found in samples(witness).values()}
    from ctr_samples.spark.impressions import DROPPED, cut_impressions

    config = witness.config
    cut = cut_impressions(
        witness.sources["log"].frame, config.impressions, witness.day, config.labels["clicked"].window
    )
    (repeated,) = [r.impression_id for r in cut.collect() if r[DROPPED] == "repeated"]
    assert repeated not in made
    lines = list(report(witness.gather(repeated), ZoneInfo("UTC")))
    assert "  [yellow]It becomes no sample: repeated.[/yellow]" in lines
    with pytest.raises(InputError, match="There is no impression 5 between 2019-06-04 22:00:00"):
        witness.gather(5)


def test_the_command_needs_a_configuration_and_an_id() -> None:
    result = CliRunner().invoke(
        app, ["explain", "--config", "nowhere.yaml", "--date", "2019-06-05", "--impression-id", "-5"]
    )
    assert result.exit_code == 2
    assert "nowhere.yaml" in result.stderr

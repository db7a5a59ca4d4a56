"""``ctr-samples explain``: what is printed of one impression, and that it agrees with what a run computes."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ctr_samples.cli.explain import report
from ctr_samples.config import Sampling, load_config
from ctr_samples.errors import InputError
from ctr_samples.explain.gather import Gatherer, Sought
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.inputs.watched import Inputs
from ctr_samples.samples.period import Span
from ctr_samples.samples.watches.all import Watches
from tests.support.command_line import invoke
from tests.support.frames_as_inputs import inputs_of
from tests.support.literal_frames import Frame

pytestmark = pytest.mark.slow

CONFIG = """
name: tiny
timezone: Europe/Stockholm
sources:
  log: {format: parquet, path: log}
  profiles: {format: parquet, path: profiles}
  items: {format: parquet, path: items}
  pairs: {format: parquet, path: pairs}
impressions: {source: log, where: "action = 'shown'", time: at, user: user, article: article, dedup: 1m}
labels:
  clicked: {source: log, where: "action = 'click'", window: 30m}
views:
  profile: {source: profiles, entity: user, key: user, event_time: at, available_after: 10m, ttl: 1d}
  item: {source: items, entity: article, key: article, static: true}
  pair: {source: pairs, entity: user_article, key: user, article_key: article, event_time: at, ttl: 1d}
histories:
  recent: {source: log, where: "action = 'click'", last: 2, within: 2h, available_after: 1m, columns: {kind: action}}
features:
  recent: {expr: "array_join(recent.items, ',')", dtype: string}
  score: {from: profile.score, dtype: int64}
  topic: {from: item.topic, dtype: string}
  times: {from: pair.times, dtype: int64}
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
    ("u1", "c", "click", "2019-06-05 07:30:00"),
    ("u1", "d", "click", "2019-06-05 07:20:00"),
    ("u1", "a", "click", "2019-06-05 07:10:00"),
    ("u1", "e", "click", "2019-06-05 07:10:00"),
    ("u1", "e", "click", "2019-06-05 05:59:59"),
    ("u1", "g", "click", "2019-06-04 19:00:00"),
    ("u1", "f", "click", "2019-06-05 07:59:01"),
    ("u1", "f", "click", "2019-06-05 08:00:00"),
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

PAIRS = [
    ("u1", "a", "2019-06-05 07:59:00", 2),
    ("u1", "b", "2019-06-05 07:59:30", 7),
    ("u", "1a", "2019-06-05 07:00:00", 9),
]


@pytest.fixture
def gatherer(frame: Frame, spark: SparkSession, tmp_path: Path) -> Gatherer:
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG)
    frames = {
        "log": frame("user string, article string, action string, at timestamp", LOG),
        "profiles": frame("user string, at timestamp, score bigint", PROFILES),
        "pairs": frame("user string, article string, at timestamp, times bigint", PAIRS),
        "items": frame("article string, topic string", [("a", "sport")]),
    }
    config, day = load_config(path).config, Span.of(date(2019, 6, 5), "Europe/Stockholm")
    return Gatherer(inputs_of(config, day, frames))


Made = dict[tuple[str | None, str], tuple[int, int, int, str]]


def samples(gatherer: Gatherer) -> Made:
    """What a run makes: (user, local time) -> (impression id, score, clicked, recent items)."""
    builder = SampleBuilder(gatherer.inputs)
    ids = {r.impression.impression_id: r.impression for r in builder.labelled_impressions().collect()}
    made = builder.build().samples.rows(builder.inputs.watches.tasks).collect()
    return {
        (ids[r.impression_id].user, f"{ids[r.impression_id].impression_time:%H:%M}"): (
            r.impression_id,
            r.score,
            r.clicked,
            r.recent,
        )
        for r in made
    }


def test_an_explanation_says_what_was_taken_and_why_all_else_was_not(gatherer: Gatherer) -> None:
    made = samples(gatherer)
    first = next(found for found in made.values() if found[1:] == (3, 1, "a,c"))
    evidence = gatherer.gather(Sought(first[0]))
    said = "\n".join(report(evidence, "Europe/Stockholm"))
    assert (
        said
        == f"""\
[bold]Impression {first[0]}[/bold] at 2019-06-05 10:00:00+02:00
  user: 'u1'
  article: 'a'
  request: None
  position: 0

[bold]Label clicked[/bold]: 1 of 5 action(s) with the same keys count
  1 more impression(s) around this day share keys with it or these actions.
  [dim]✗[/dim] 2019-06-05 09:10:00+02:00: it came 50m 0s before the impression; the limit is 0s
  [dim]✗[/dim] 2019-06-05 09:59:00+02:00: it came 1m 0s before the impression; the limit is 0s
  [green]✓[/green] 2019-06-05 10:10:00+02:00: it came 10m 0s after the impression, within 30m 0s (by user and article)
  [dim]✗[/dim] 2019-06-05 10:40:00+02:00: it came 40m 0s after the impression; the limit is 30m 0s
  [dim]✗[/dim] 2019-06-05 11:01:00+02:00: it belongs to impression {other(made, first[0])} by user and article, the last \
before it (2019-06-05 11:00:00+02:00)

[bold]View profile[/bold], key 'u1': 4 row(s)
  [dim]✗[/dim] 2019-06-05 10:05:00+02:00, known 2019-06-05 10:15:00+02:00: it became true 5m 0s after the impression
  [dim]✗[/dim] 2019-06-05 09:55:00+02:00, known 2019-06-05 10:05:00+02:00: it was true, but not known until 5m 0s after \
the impression
  [green]✓[/green] 2019-06-05 09:00:00+02:00, known 2019-06-05 09:10:00+02:00: the latest known row, 1h 0m 0s old
      {{'score': 3}}
  [dim]✗[/dim] 2019-06-05 08:00:00+02:00, known 2019-06-05 08:10:00+02:00: a later row was known too

[bold]View item[/bold], key 'a': 1 row(s)
  [green]✓[/green] a table without times: {{'topic': 'sport'}}

[bold]View pair[/bold], key ('u1', 'a'): 1 row(s)
  [green]✓[/green] 2019-06-05 09:59:00+02:00: the latest known row, 1m 0s old
      {{'times': 2}}

[bold]History recent[/bold], user 'u1': 2 of 13 action(s), newest first
  [dim]✗[/dim] 2019-06-05 11:01:00+02:00 'a': it happened 1h 1m 0s after the impression
  [dim]✗[/dim] 2019-06-05 10:40:00+02:00 'a': it happened 40m 0s after the impression
  [dim]✗[/dim] 2019-06-05 10:10:00+02:00 'b': it happened 10m 0s after the impression
  [dim]✗[/dim] 2019-06-05 10:10:00+02:00 'a': it happened 10m 0s after the impression
  [dim]✗[/dim] 2019-06-05 10:00:00+02:00 'f': it happened at the same instant as the impression
  [dim]✗[/dim] 2019-06-05 09:59:01+02:00 'f': it was not known until 1s after the impression
  [green]✓[/green] 2019-06-05 09:59:00+02:00 'a': number 1, 1m 0s old {{'kind': 'click'}}
  [green]✓[/green] 2019-06-05 09:30:00+02:00 'c': number 2, 30m 0s old {{'kind': 'click'}}
  [dim]✗[/dim] 2019-06-05 09:20:00+02:00 'd': the history already has 2 later item(s)
  [dim]✗[/dim] 2019-06-05 09:10:00+02:00 'e': the history already has 2 later item(s)
  [dim]✗[/dim] 2019-06-05 09:10:00+02:00 'a': a later action on the same item counts
  [dim]✗[/dim] 2019-06-05 07:59:59+02:00 'e': it is 2h 0m 1s old; the limit is 2h 0m 0s
  [dim]✗[/dim] 2019-06-04 21:00:00+02:00 'g': it is 13h 0m 0s old; the limit is 2h 0m 0s"""
    )


def test_of_many_rejected_rows_and_actions_the_nearest_are_printed(
    gatherer: Gatherer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctr_samples.cli.explain._SHOWN_ROWS", 3)
    first = next(found for found in samples(gatherer).values() if found[3] == "a,c")
    lines = list(report(gatherer.gather(Sought(first[0])), "UTC"))
    profile = lines[next(i for i, line in enumerate(lines) if "View profile" in line) :]
    assert [re.findall(r"\d\d:\d\d:\d\d", line)[:1] for line in profile[1:5]] == [
        ["07:55:00"],
        ["07:00:00"],
        [],
        ["06:00:00"],
    ]
    assert profile[5] == "  … and 1 further away"
    history = lines[next(i for i, line in enumerate(lines) if "History recent" in line) :]
    assert [re.findall(r"\d\d:\d\d:\d\d", line)[0] if "✗" in line else "taken" for line in history[1:-1]] == [
        "08:10:00",
        "08:00:00",
        "07:59:01",
        "taken",
        "taken",
    ]
    assert history[-1] == "  … and 8 further away"


def other(made: Made, first: int) -> int:
    """The second impression of u1."""
    return next(found[0] for (user, _), found in made.items() if user == "u1" and found[0] != first)


def test_an_explanation_agrees_with_the_samples_of_a_run(gatherer: Gatherer) -> None:
    from ctr_samples.explain.rules import judge_actions, judge_history, judge_rows

    for impression_id, score, clicked, recent in samples(gatherer).values():
        evidence = gatherer.gather(Sought(impression_id))
        label, view = evidence.labels["clicked"], evidence.views["profile"]
        taken = [v for v in judge_actions(evidence.impression, label.others, label.actions, label.rules) if v.taken]
        assert view.rules is not None
        rows = [v.what.values["score"] for v in judge_rows(evidence.impression.time, view.rows, view.rules) if v.taken]
        history = evidence.histories["recent"]
        items = [
            v.what.item for v in judge_history(evidence.impression.time, history.actions, history.rules) if v.taken
        ]
        assert (int(bool(taken)), (rows or [0])[0], ",".join(items)) == (clicked, score, recent)


def test_an_impression_that_became_no_sample_is_explained_too_and_an_unknown_one_is_refused(gatherer: Gatherer) -> None:
    made = {found[0] for found in samples(gatherer).values()}
    from ctr_samples.samples.impressions import DROPPED, cut_impressions
    from ctr_samples.samples.labels.plans import impression_reach

    config = gatherer.config
    cut = cut_impressions(
        gatherer.inputs.uncounted("log"), config.impressions, gatherer.span, 2, impression_reach(config, gatherer.span)
    )
    (repeated,) = [r.impression_id for r in cut.collect() if r[DROPPED] == "repeated"]
    assert repeated not in made
    lines = list(report(gatherer.gather(Sought(repeated)), "UTC"))
    assert "  [yellow]It does not become a sample: repeated.[/yellow]" in lines
    with pytest.raises(InputError, match="There is no impression 5 between 2019-06-05 00:00:00"):
        gatherer.gather(Sought(5))


def test_the_command_needs_a_configuration_and_an_id() -> None:
    result = invoke("explain", "--config", "nowhere.yaml", "--date", "2019-06-05", "--impression-id", "-5")
    assert result.exit_code == 2
    assert "nowhere.yaml" in result.stderr


def test_an_impression_is_found_by_user_article_and_time(gatherer: Gatherer) -> None:
    with pytest.raises(InputError, match=r"There are 3 impressions of user 'u1' and article 'a' on the day"):
        gatherer.gather(Sought(keys={"user": "u1", "article": "a"}))
    nine = datetime(2019, 6, 5, 9, 1, tzinfo=UTC)
    assert gatherer.gather(Sought(keys={"user": "u1", "article": "a"}, at=nine)).impression.time == nine - timedelta(
        minutes=1
    )
    repeated = gatherer.gather(
        Sought(keys={"user": "u1", "article": "a"}, at=datetime(2019, 6, 5, 8, 0, 29, tzinfo=UTC))
    )
    assert repeated.dropped == "repeated"
    with pytest.raises(InputError, match="There is no impression of user 'u9' between"):
        gatherer.gather(Sought(keys={"user": "u9"}))


@pytest.mark.parametrize("sampling", [Sampling(negatives=1e-9), Sampling(rate="if(clicked = 1, 1, 1e-9)")])
def test_a_negative_that_sampling_leaves_out_is_explained_as_such(gatherer: Gatherer, sampling: Sampling) -> None:
    sampled = gatherer.config.model_copy(update={"sampling": sampling})
    watches = Watches.of(sampled, gatherer.span, active=False)
    few = Gatherer(Inputs(sampled, gatherer.span, gatherer.inputs.sources, watches))
    at = datetime(2019, 6, 5, 8, 0, tzinfo=UTC)
    assert few.gather(Sought(keys={"user": "u2", "article": "a"}, at=at)).dropped == "down_sampled"
    assert few.gather(Sought(keys={"user": "u1", "article": "a"}, at=at)).dropped is None


@pytest.mark.parametrize("keys", [[], ["--impression-id", "5", "--user", "u"]])
def test_the_command_needs_an_id_or_keys(tmp_path: Path, keys: list[str]) -> None:
    result = invoke("explain", "--config", "nowhere.yaml", "--date", "2019-06-05", *keys)
    assert (result.exit_code, result.stderr.strip()) == (
        2,
        "error: Give `--impression-id`, or the keys: `--user` and `--article`, or `--key` for each.",
    )

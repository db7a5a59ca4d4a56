"""A few samples without a run: the values that a run would give them, and nothing written."""

from __future__ import annotations

import json
import random
import re
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from ctr_samples.config import load_config
from ctr_samples.errors import InputError, UsageError
from ctr_samples.job.preview import ORIGIN, few_samples, preview
from ctr_samples.samples.builder import SampleBuilder
from ctr_samples.samples.period import Span
from tests.support.command_line import invoke
from tests.support.frames_as_inputs import inputs_of
from tests.support.literal_frames import Frame
from tests.support.open_bandit import TUESDAY
from tests.support.project import PROJECT
from tests.support.tiny_days import write_days
from tests.support.whole_runs import write_config

DAY = date(2019, 6, 5)

CONFIG = """
name: few
timezone: UTC
sources: {log: {format: parquet, path: a}, rows: {format: parquet, path: b}, snapshots: {format: parquet, path: c}}
impressions: {source: log, where: "kind = 'shown'", time: at, user: user, article: item, request: id}
labels:
  clicked: {source: log, where: "kind = 'click'", window: 2h}
  even: {expr: id % 2 = 0}
sampling: {negatives: 0.5}
views:
  profile: {source: rows, entity: user, key: user, event_time: at, valid_to: until, ttl: unbounded}
  pair: {source: rows, entity: user_article, key: user, article_key: item, event_time: at, ttl: 1d}
  item: {source: rows, entity: article, key: item, static: true}
  chain: {source: rows, on: item.n, key: n, static: true}
  daily: {source: snapshots, entity: article, key: item, snapshot: day, ttl: 3d}
  clicks:
    source: log
    where: kind = 'click'
    entity: article
    key: item
    event_time: at
    aggregates: {windows: [3h], step: 10m, counts: {n: "true"}}
histories:
  recent: {source: log, where: "kind = 'click'", last: 3, within: 6h}
features:
  profile: {from: profile.n, dtype: int64}
  pair: {from: pair.n, dtype: int64}
  item: {from: item.n, dtype: int64}
  chain: {from: chain.item, dtype: string}
  daily: {from: daily.n, dtype: int64}
  clicks: {from: clicks.n_3h, dtype: int64}
  recent: {expr: "array_join(recent.items, ',')", dtype: string}
split: {by: user, eval: 0.3}
output: {path: out}
"""


def stamp(minutes: int) -> str:
    return (datetime(2019, 6, 5) + timedelta(minutes=minutes, seconds=minutes % 60)).strftime("%Y-%m-%d %H:%M:%S")


RULES = "{rate: 'if(clicked = 1 or impression.user = ''u1'', 1, 0.5)', cap: {samples: 60}, weight: 1 + clicked}"


@pytest.fixture(params=["", "skip_above: clicked, position: second(at)", RULES])
def builder(request: pytest.FixtureRequest, frame: Frame, tmp_path: Path) -> SampleBuilder:
    """A random day; with lists of which what lies below the last click is left out, with rules, and without."""
    rng = random.Random(3)
    users, items = [f"u{n}" for n in range(6)], ["a", "b", "c", "d"]
    kinds = ["shown", "click"]
    log = [
        (n % 150, rng.choice(users), rng.choice(items), rng.choice(kinds), stamp(rng.randrange(1440)))
        for n in range(600)
    ]
    begun = [rng.randrange(-600, 1440) for _ in range(80)]
    rows = [
        (rng.choice(users), rng.choice(items), stamp(at), stamp(at + rng.randrange(1, 300)), n)
        for n, at in enumerate(begun)
    ]
    snapshots = [("a", "2019-06-03", 1), ("b", "2019-06-03", 2), ("b", "2019-06-04", 3)]
    frames = {
        "log": frame("id bigint, user string, item string, kind string, at timestamp", log),
        "rows": frame("user string, item string, at timestamp, until timestamp, n bigint", rows),
        "snapshots": frame("item string, day date, n bigint", snapshots),
    }
    rules = request.param == RULES
    text = CONFIG.replace("request: id}", f"request: id, {'' if rules else request.param}}}")
    path = write_config(tmp_path, "few", text.replace("{negatives: 0.5}", RULES) if rules else text)
    config, day = load_config(path).config, Span.of(DAY, "UTC")
    return SampleBuilder(inputs_of(config, day, frames))


@pytest.mark.slow
def test_a_few_samples_are_those_that_a_run_makes(builder: SampleBuilder) -> None:
    few = few_samples(builder, 7).collect()
    every = {row.impression_id: row for row in builder.build().samples.rows(builder.inputs.watches.tasks).collect()}
    assert len(few) == 7 < len(every)
    origins = [row[ORIGIN] for row in few]
    assert [row[:-1] for row in few] == [tuple(every[row.impression_id]) for row in few]
    for row, origin in zip(few, origins, strict=True):
        assert (origin.views.profile.matched or row.profile == 0, origin.views.item.age_s) == (True, None)
        if origin.views.clicks.matched:  # counted in steps of ten minutes, true a microsecond before a step ends
            began = origin.impression.impression_time - timedelta(seconds=origin.views.clicks.age_s)
            assert (began.minute % 10, began.second) == (9, 59)
    assert len({(row.profile, row.pair, row.chain, row.daily, row.recent) for row in few}) > 2
    assert len(few_samples(builder, 10_000).collect()) == len(every)


def call(output: Path, *more: str) -> Any:
    config, data = PROJECT / "conf/open_bandit.yaml", PROJECT / "data/open_bandit"
    places = [f"sources.{name}.path={data}/{name}.parquet" for name in ("log", "items")] + [f"output.path={output}"]
    changes = [part for place in places for part in ("--set", place)]
    return invoke("preview", "-c", config, "-d", TUESDAY, *changes, *more)


@pytest.mark.slow
def test_the_command_prints_samples_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    lines = call(tmp_path / "out", "--limit", "3", "--json").stdout.splitlines()
    samples = [json.loads(line) for line in lines]
    assert [list(sample)[:4] for sample in samples] == [["impression_id", "split", "clicked", "position"]] * 3
    table = call(tmp_path / "out", "--limit", "2")
    assert table.exit_code == 0, table.stderr
    assert "item_click_rate" in table.stdout
    assert "item_clicks.click_rate" in table.stdout
    assert re.search(
        r"view item_clicks +the row that was used +2019-11-26 00:00:00\+00:00, 1\dh", table.stdout.replace("│", " ")
    )
    assert set(samples[0]["origin"]["views"]) == {"item", "item_clicks"}
    assert str(samples[0]["impression_id"]) in call(tmp_path / "out", "--limit", "3").stdout
    assert not (tmp_path / "out").exists()


def test_the_call_in_the_document_of_the_api_runs_as_it_stands(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_days(tmp_path, DAY, 1).rename(tmp_path / "feed.yaml")
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```$", (PROJECT / "docs/api.md").read_text(), re.MULTILINE | re.DOTALL)
    exec(program, {"spark": spark})  # noqa: S102
    assert "impression_id" in capsys.readouterr().out


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("time", "said"),
    [
        ("t", ""),
        ("concat('x', t)", "concat('x', t) is 'x2019-06-05 00:10:00', for example; expected text such as"),
    ],
)
def test_a_day_without_an_impression_that_can_be_read_is_told_with_a_value(
    spark: SparkSession, tmp_path: Path, time: str, said: str
) -> None:
    path = write_days(tmp_path, DAY, 1)
    text = path.read_text().replace("time: t,", f'time: "{time}",')
    path.write_text(text if said else text.replace("kind = 'shown'", "kind = 'none'"))
    with pytest.raises(InputError, match="has no impression on the day that can be read") as error:
        preview(spark, path, DAY)
    assert f"impressions.time: {said}" in str(error.value) if said else "for example" not in str(error.value)


@pytest.mark.parametrize(
    ("config", "day", "sentence"),
    [
        ({"name": "x"}, "2019-06-05", "The configuration is {'name': 'x'}; expected the path of its file"),
        ("feed.yaml", "2019-13-05", "which is not in the calendar"),
        ("feed.yaml", datetime(2019, 6, 5), "expected a day such as '2019-11-26' or datetime.date"),
        ("feed.yaml", 20190605, "The date is 20190605; expected a day"),
    ],
)
def test_what_is_neither_a_configuration_nor_a_day_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Any, day: Any, sentence: str
) -> None:
    write_days(tmp_path, DAY, 1).rename(tmp_path / "feed.yaml")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=re.escape(sentence)):
        preview(MagicMock(SparkSession), config, day)

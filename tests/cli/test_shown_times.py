"""Whatever a person reads tells instants by the clocks of the configuration; what programs read stays in UTC."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.command_line import invoke

CONFIG = """
name: told
timezone: Asia/Kolkata
sources:
  log:
    format: json
    path: ROOT/log/{date}.json
    days_before: 1
    days_after: 1
    schema: t string, kind string, u string, i string
  rows: {format: json, path: ROOT/rows.json, schema: "u string, t string, n bigint, since timestamp"}
impressions:
  source: log
  where: kind = 'shown'
  time: t
  user: u
  article: i
labels: {clicked: {source: log, where: kind = 'click', window: 3h}}
views:
  row: {source: rows, entity: user, key: u, event_time: t, available_after: 1m, ttl: unbounded}
  last:
    source: log
    where: kind = 'click'
    entity: user
    key: u
    event_time: t
    aggregates: {windows: [12h], step: 1h, counts: {n: "true"}}
histories: {recent: {source: log, where: kind = 'click', last: 3, within: 12h}}
features:
  n: {from: row.n, dtype: int64}
  clicks: {from: last.n_12h, dtype: int64}
  since: {expr: unix_seconds(row.since), dtype: int64}
  recent: {expr: "array_join(recent.items, ',')", dtype: string}
partials: {path: ROOT/partials}
output: {path: ROOT/out, partitions: 1}
"""
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[A-Z]{1,4}\b|[+-]\d\d:?\d\d)?")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of a log, of which the last is cut, in times with offsets, which are those of no zone that is shown."""
    root = tmp_path_factory.mktemp("told")
    (root / "log").mkdir()
    for day, hours in (("2019-06-04", 24), ("2019-06-05", 24), ("2019-06-06", 0)):
        lines = [
            {"t": f"{day}T{hour:02}:{minute:02}:00+05:30", "kind": kind, "u": f"u{hour % 3}", "i": f"i{hour}-{minute}"}
            for hour in range(hours)
            for minute in (5, 20, 35, 50)
            for kind in (["shown", "click"] if hour % 2 else ["shown"])
        ]
        (root / f"log/{day}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = [{"u": f"u{n}", "t": "2019-06-04T17:00:00Z", "n": n, "since": "2019-06-04T17:00:00Z"} for n in range(3)]
    (root / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = root / "told.yaml"
    path.write_text(CONFIG.replace("ROOT", str(root)))
    return path


def instants(text: str) -> set[str]:
    """The ends of all instants in a text, which a terminal may have broken: their offsets."""
    return {found[-6:] for found in _INSTANT.findall(re.sub(r"\s+", " ", text))}


@pytest.mark.slow
def test_every_command_tells_instants_in_the_zone_of_the_configuration(spark: SparkSession, config: Path) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        result = invoke(*arguments)
        assert result.exit_code == code, result.output
        return result.output

    root, day = config.parent, ("-c", str(config), "-d", "2019-06-05")
    preview = json.loads(said("preview", *day, "-n", "1", "--json").splitlines()[-1])
    number = str(preview["impression_id"])
    assert instants(said("generate", *day)) <= {"+05:30"}
    texts = {
        "preview": said("preview", *day, "-n", "3"),
        "preview --json": json.dumps(preview),
        "known by": said("generate", *day, "--known-by", "2019-06-05 20:00:00", "--force"),
        "too early": said("generate", *day, "--known-by", "2019-06-01 20:00:00", code=2),
        "explain": said("explain", *day, "--impression-id", number),
        "which": said("explain", *day, "--key", "user=u1", code=3),
        "none": said("explain", *day, "--key", "user=nobody", code=3),
        "history": said("history", str(root / "out")),
        "page": Path(said("report", str(root / "out")).splitlines()[0]).read_text(),
    }
    assert {name: instants(text) for name, text in texts.items()} == {name: {"+05:30"} for name in texts}
    assert "'since': '2019-06-04 22:30:00+05:30'" in texts["explain"]
    metrics = said("report", str(root / "out"), "--metrics")
    assert instants(metrics) == {"+00:00"}

"""Simulated logs, and the ways in which a night goes wrong with them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ctr_samples.config import LoadedConfig, load_config

BEFORE, DAY, AFTER = "2019-06-05", "2019-06-06", "2019-06-07"

CONFIG = """
name: feed
timezone: Asia/Shanghai
sources:
  actions:
    format: json
    path: ROOT/user_action/dt={date}
    schema: >-
      actionTime STRING, readTime STRING,
      param STRUCT<action: STRING, userId: STRING, articleId: STRING, algorithmCombine: STRING>
    days_before: 1
    days_after: 1
    bad_records: {max_rate: 0.01}
  profiles: {format: parquet, path: "ROOT/user_profile/dt={date}", days_before: 5}
  vectors: {format: parquet, path: "ROOT/article_vector/dt={date}", days_before: 3}
  articles: {format: parquet, path: ROOT/article_profile}
impressions:
  {source: actions, where: param.action = 'exposure', time: actionTime, user: param.userId, article: param.articleId,
   explode: article, dedup: 30s, columns: {algorithm: param.algorithmCombine}}
labels:
  clicked: {source: actions, where: param.action = 'click', window: 30m}
  read_ms: {source: actions, where: param.action = 'read', window: 2h, value: readTime, reduce: sum}
views:
  user: {source: profiles, entity: user, key: user_id, event_time: updated_at, available_after: 10m, ttl: 5d}
  vector: {source: vectors, entity: article, key: article_id, event_time: trained_at, available_after: 30m, ttl: 3d}
  article: {source: articles, entity: article, key: article_id, event_time: published_at, ttl: unbounded}
features:
  channel: {from: article.channel_id, dtype: int64}
  position: {from: impression.position, dtype: int64}
  algorithm: {from: impression.algorithm, dtype: int64, hash_buckets: 64}
  gender: {expr: case user.gender when 'male' then 1 when 'female' then 2 else 0 end, dtype: int64}
  age: {from: user.age, dtype: float32}
  user_weights: {from: user.article_partial, dtype: float32, shape: [5], top_k: 5}
  article_age_h:
    expr: (unix_micros(impression.impression_time) - unix_micros(article.published_at)) / 3.6e9
    dtype: float32
  article_vector: {from: vector.articlevector, dtype: float32, shape: [100]}
split: {eval: 0.1, by: user}
output: {path: OUT, partitions: 2}
"""

Line = dict[str, Any]
Break = Callable[[Path], None]


def config_of(root: Path, out: Path) -> LoadedConfig:
    """The sample set of logs under ``root``, published to ``out``."""
    place = root / "feed.yaml"
    place.write_text(CONFIG.replace("ROOT", str(root)).replace("OUT", str(out)))
    return load_config(place)


def _lines(change: Callable[[Line], Line | list[Line] | None], day: str = DAY) -> Break:
    """Change each sound line of a day's log; None leaves it out."""

    def change_all(root: Path) -> None:
        for file in sorted((root / f"user_action/dt={day}").iterdir()):
            kept = []
            for text in file.read_text().splitlines():
                try:
                    line = json.loads(text)
                    changed = change(line)
                except (ValueError, KeyError, TypeError):
                    kept.append(text)
                    continue
                kept += [changed] if isinstance(changed, dict) else changed or []
            file.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in kept))

    return change_all


def _table(path: str, change: Callable[[pa.Table], pa.Table]) -> Break:
    """Change the tables under a path."""

    def change_all(root: Path) -> None:
        for file in sorted(root.glob(f"{path}/*.parquet")):
            pq.write_table(change(pq.read_table(file)), file)

    return change_all


def _kind(line: Line) -> str:
    return str(line["param"]["action"])


def _hour(line: Line) -> int:
    return int(line["actionTime"][11:13])


def _of(kind: str, change: Callable[[Line], Line | None]) -> Callable[[Line], Line | None]:
    return lambda line: change(line) if _kind(line) == kind else line


def _every(n: int) -> Callable[[Line], bool]:
    """True for one line in n, always the same ones."""
    return lambda line: sum(map(ord, line["actionTime"] + line["param"]["userId"])) % n == 0


def half_of_the_clicks_missing(root: Path) -> None:
    _lines(_of("click", lambda line: None if _every(2)(line) else line))(root)


def no_clicks_at_all(root: Path) -> None:
    for day in (DAY, AFTER):
        _lines(_of("click", lambda line: None), day)(root)


def clicks_of_the_evening_come_too_late(root: Path) -> None:
    _lines(_of("click", lambda line: None if _hour(line) >= 18 else line))(root)


def clicks_of_other_users(root: Path) -> None:
    _lines(_of("click", lambda line: _with(line, userId=str(int(line["param"]["userId"]) + 1))))(root)


def _with(line: Line, **param: str) -> Line:
    return {**line, "param": {**line["param"], **param}}


def two_thirds_of_the_impressions_missing(root: Path) -> None:
    _lines(_of("exposure", lambda line: line if _every(3)(line) else None))(root)


def three_hours_of_the_log_lost(root: Path) -> None:
    _lines(lambda line: None if 9 <= _hour(line) < 12 else line)(root)


def log_files_delivered_twice(root: Path) -> None:
    for file in sorted((root / f"user_action/dt={DAY}").iterdir()):
        shutil.copy(file, file.with_name(f"again-{file.name}"))


def times_in_utc(root: Path) -> None:
    """The log of the day is written eight hours behind; the file is the same one."""

    def behind(line: Line) -> Line:
        local = datetime.fromisoformat(line["actionTime"]) - timedelta(hours=8)
        return {**line, "actionTime": local.strftime("%Y-%m-%d %H:%M:%S")}

    for day in (DAY, AFTER):
        _lines(behind, day)(root)


def one_user_in_place_of_the_missing(root: Path) -> None:
    """A client that forgets its user sends 0."""
    _lines(lambda line: _with(line, userId="0") if _every(3)(line) else line)(root)


def algorithm_knows_the_click(root: Path) -> None:
    """A column of the log is filled in after the click."""
    log = [json.loads(text) for text in _sound(root)]
    clicked = {(line["param"]["userId"], line["param"]["articleId"]) for line in log if _kind(line) == "click"}

    def tell(line: Line) -> Line | list[Line]:
        if _kind(line) != "exposure":
            return line
        user, articles = line["param"]["userId"], line["param"]["articleId"].strip("[]").split(", ")
        return [
            _with(line, articleId=article, algorithmCombine="won" if (user, article) in clicked else "lost")
            for article in articles
        ]

    _lines(tell)(root)


def _sound(root: Path) -> list[str]:
    lines = [t for file in (root / f"user_action/dt={DAY}").iterdir() for t in file.read_text().splitlines()]
    return [text for text in lines if _is_sound(text)]


def _is_sound(text: str) -> bool:
    try:
        return _kind(json.loads(text)) != ""
    except (ValueError, KeyError, TypeError):
        return False


def a_new_algorithm_takes_over(root: Path) -> None:
    _lines(_of("exposure", lambda line: _with(line, algorithmCombine="brand new") if _every(2)(line) else line))(root)


def read_times_in_seconds(root: Path) -> None:
    def shorter(line: Line) -> Line:
        return {**line, "readTime": str(int(line["readTime"] or 0) // 1000)}

    for day in (DAY, AFTER):
        _lines(_of("read", shorter), day)(root)


def vectors_of_yesterday_again(root: Path) -> None:
    """The job that trains them failed, and the copy went on."""
    for file in (root / f"article_vector/dt={BEFORE}").iterdir():
        shutil.copy(file, root / f"article_vector/dt={DAY}" / file.name)


def vectors_of_zeros(root: Path) -> None:
    def zeros(table: pa.Table) -> pa.Table:
        values = pa.array([[0.0] * 100] * len(table))
        return table.set_column(table.schema.get_field_index("articlevector"), "articlevector", values)

    _table(f"article_vector/dt={DAY}", zeros)(root)


def vectors_of_nan(root: Path) -> None:
    def broken(table: pa.Table) -> pa.Table:
        values = [
            [float("nan")] * 100 if n % 4 == 0 else row for n, row in enumerate(table["articlevector"].to_pylist())
        ]
        return table.set_column(table.schema.get_field_index("articlevector"), "articlevector", pa.array(values))

    _table(f"article_vector/dt={DAY}", broken)(root)


def vectors_of_another_model(root: Path) -> None:
    """A scale of ten times, as after a change of the library that trains them."""

    def larger(table: pa.Table) -> pa.Table:
        values = [[10 * value for value in row] for row in table["articlevector"].to_pylist()]
        return table.set_column(table.schema.get_field_index("articlevector"), "articlevector", pa.array(values))

    _table(f"article_vector/dt={DAY}", larger)(root)


def _profiles(change: Callable[[pa.Table], pa.Table]) -> Break:
    """Profiles that were written anew, the history with them: what a broken upstream job leaves."""
    return _table("user_profile/dt=*", change)


def _replaced(column: str, values: Callable[[pa.Table], Any]) -> Callable[[pa.Table], pa.Table]:
    def replace(table: pa.Table) -> pa.Table:
        where = table.schema.get_field_index(column)
        return table.set_column(where, column, pa.array(values(table), table.schema.field(column).type))

    return replace


def ages_all_missing(root: Path) -> None:
    _profiles(_replaced("age", lambda table: [None] * len(table)))(root)


def ages_in_months(root: Path) -> None:
    months = _replaced("age", lambda table: [age and age * 12 for age in table["age"].to_pylist()])
    _profiles(months)(root)


def weights_in_thousandths(root: Path) -> None:
    def larger(table: pa.Table) -> Any:
        return [[(key, 1000 * weight) for key, weight in row or []] for row in table["article_partial"].to_pylist()]

    _profiles(_replaced("article_partial", larger))(root)


def everyone_is_male(root: Path) -> None:
    _profiles(_replaced("gender", lambda table: ["male"] * len(table)))(root)


def half_of_the_profiles_missing(root: Path) -> None:
    _profiles(lambda table: table.filter(pc.equal(pc.bit_wise_and(table["user_id"], 1), 0)))(root)


def articles_of_the_wrong_keys(root: Path) -> None:
    _table("article_profile", _replaced("article_id", lambda table: np.asarray(table["article_id"]) + 1_000_000))(root)


def channels_shifted_by_one(root: Path) -> None:
    _table("article_profile", _replaced("channel_id", lambda table: np.asarray(table["channel_id"]) % 25 + 1))(root)


def publication_in_milliseconds_taken_for_seconds(root: Path) -> None:
    """The age of an article comes out a thousand times too small."""

    def nearer(table: pa.Table) -> list[datetime]:
        now = datetime.fromisoformat(f"{DAY}T00:00:00+08:00")
        return [now - (now - time) / 1000 for time in table["published_at"].to_pylist()]

    _table("article_profile", _replaced("published_at", nearer))(root)


WAYS: list[tuple[Break, str]] = [
    (half_of_the_clicks_missing, "rate"),
    (no_clicks_at_all, "one_class"),
    (clicks_of_the_evening_come_too_late, "silent_hours"),
    (clicks_of_other_users, "orphans"),
    (two_thirds_of_the_impressions_missing, "volume"),
    (three_hours_of_the_log_lost, "silent_hours"),
    (log_files_delivered_twice, "dropped"),
    (times_in_utc, "hours"),
    (one_user_in_place_of_the_missing, "heavy_user"),
    (algorithm_knows_the_click, "leak"),
    (a_new_algorithm_takes_over, "values"),
    (read_times_in_seconds, "rate"),
    (vectors_of_yesterday_again, "age"),
    (vectors_of_zeros, "missing"),
    (vectors_of_nan, "nonfinite"),
    (vectors_of_another_model, "distribution"),
    (ages_all_missing, "constant"),
    (ages_in_months, "distribution"),
    (weights_in_thousandths, "distribution"),
    (everyone_is_male, "values"),
    (half_of_the_profiles_missing, "matched"),
    (articles_of_the_wrong_keys, "matched"),
    (channels_shifted_by_one, "stability"),
    (publication_in_milliseconds_taken_for_seconds, "distribution"),
]
"""Each way, and the check that has to find it."""

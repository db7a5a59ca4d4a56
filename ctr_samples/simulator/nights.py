"""Faults in simulated logs, as caused by a broken job, client or copy.

The truth table still describes the intact day.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ctr_samples.errors import UsageError

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Night:
    """Logs of one day in a simulation directory."""

    root: Path
    day: date

    @property
    def after(self) -> date:
        """Next day, whose log holds late actions."""
        return self.day + timedelta(days=1)

    def directory(self, table: str, day: date) -> Path:
        """Return the directory of a table for a day. Raise UsageError if it does not exist."""
        directory = self.root / table / f"dt={day}"
        if not directory.is_dir():
            raise UsageError(f"{directory} does not exist; expected a simulation of {self.day} and the day before.")
        return directory

    def sound_lines(self) -> Iterator[Line]:
        """Yield the valid log lines of the day."""
        for file in sorted(self.directory("user_action", self.day).iterdir()):
            for text in file.read_text().splitlines():
                if (line := _parsed(text)) is not None:
                    yield line

    def change_lines(self, change: Callable[[Line], Line | list[Line] | None], *days: date) -> None:
        """Change each valid log line of ``days``. None removes a line."""
        for day in days:
            for file in sorted((self.root / f"user_action/dt={day}").glob("*")):
                kept: list[str] = []
                for text in file.read_text().splitlines():
                    line = _parsed(text)
                    changed = text if line is None else change(line)
                    several = changed if isinstance(changed, list) else [changed]
                    kept += [
                        line if isinstance(line, str) else json.dumps(line) for line in several if line is not None
                    ]
                file.write_text("".join(f"{line}\n" for line in kept))

    def change_tables(self, pattern: str, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change the tables in directories that match a pattern."""
        for file in sorted(self.root.glob(f"{pattern}/*.parquet")):
            pq.write_table(change(pq.read_table(file)), file)

    def repeat_table(self, table: str) -> None:
        """Replace the day's files with the files of the day before, as if the job failed but the copy continued."""
        there = self.directory(table, self.day)
        before = sorted(self.directory(table, self.day - timedelta(days=1)).iterdir())
        shutil.rmtree(there)
        there.mkdir()
        for file in before:
            shutil.copy(file, there / file.name)


def _parsed(text: str) -> Line | None:
    try:
        line = json.loads(text)
        return line if isinstance(line["param"]["action"], str) else None
    except (ValueError, KeyError, TypeError):
        return None


def _every(n: int, line: Line) -> bool:
    """Select one of every ``n`` lines, always the same lines."""
    return sum(map(ord, line["actionTime"] + line["param"]["userId"])) % n == 0


def _hour(line: Line) -> int:
    return int(line["actionTime"][11:13])


def _with(line: Line, **param: str) -> Line:
    return {**line, "param": {**line["param"], **param}}


Way = Callable[[Night], None]


def _lines(change: Callable[[Line], Line | None], kind: str | None = None, *, late: bool = False) -> Way:
    """Change the day's lines, or those of one kind, and those of the day after if it holds ``late`` actions."""

    def changed(line: Line) -> Line | None:
        return change(line) if kind in (None, line["param"]["action"]) else line

    return lambda night: night.change_lines(changed, night.day, *([night.after] if late else ()))


def _column(tables: str, column: str, change: Callable[[list[Any]], list[Any]]) -> Way:
    """Change the values of a column in all tables of a pattern, which may name the day."""

    def changed(table: pa.Table) -> pa.Table:
        where = table.schema.get_field_index(column)
        values = pa.array(change(table[column].to_pylist()), table.schema.field(column).type)
        return table.set_column(where, column, values)

    return lambda night: night.change_tables(tables.format(day=night.day), changed)


def _log_files_delivered_twice(night: Night) -> None:
    for file in sorted(night.directory("user_action", night.day).iterdir()):
        shutil.copy(file, file.with_name(f"again-{file.name}"))


def _eight_hours_behind(line: Line) -> Line:
    local = datetime.fromisoformat(line["actionTime"]) - timedelta(hours=8)
    return {**line, "actionTime": local.strftime("%Y-%m-%d %H:%M:%S")}


def _algorithm_knows_the_click(night: Night) -> None:
    clicks = (line["param"] for line in night.sound_lines() if line["param"]["action"] == "click")
    clicked = {(click["userId"], click["articleId"]) for click in clicks}

    def tell(line: Line) -> Line | list[Line]:
        if line["param"]["action"] != "exposure":
            return line
        user, articles = line["param"]["userId"], line["param"]["articleId"].strip("[]").split(", ")
        outcomes = {article: "won" if (user, article) in clicked else "lost" for article in articles}
        return [_with(line, articleId=article, algorithmCombine=outcome) for article, outcome in outcomes.items()]

    night.change_lines(tell, night.day)


def _half_of_the_profiles_missing(night: Night) -> None:
    night.change_tables(PROFILES, lambda table: table.filter(pc.equal(pc.bit_wise_and(table["user_id"], 1), 0)))


def _publication_in_milliseconds(night: Night) -> None:
    midnight = datetime.fromisoformat(f"{night.day}T00:00:00+08:00")
    nearer = _column("article_profile", "published_at", lambda times: [midnight - (midnight - t) / 1000 for t in times])
    nearer(night)


PROFILES = "user_profile/dt=*"
"""Profiles of all days, since a broken upstream job rewrites the history too."""
VECTORS = "article_vector/dt={day}"

WAYS: dict[str, Way] = {
    # One of the two click log servers is down.
    "half_of_the_clicks_missing": _lines(lambda line: None if _every(2, line) else line, "click"),
    # The click log never arrives.
    "no_clicks_at_all": _lines(lambda line: None, "click", late=True),
    # The click log ends at 18:00.
    "clicks_of_the_evening_come_too_late": _lines(lambda line: None if _hour(line) >= 18 else line, "click"),
    # Clicks are logged under a different user's id.
    "clicks_of_other_users": _lines(lambda line: _with(line, userId=str(int(line["param"]["userId"]) + 1)), "click"),
    # Two thirds of the exposures are missing, but their clicks are logged.
    "two_thirds_of_the_impressions_missing": _lines(lambda line: line if _every(3, line) else None, "exposure"),
    # Nothing is logged from 9:00 to 12:00.
    "three_hours_of_the_log_lost": _lines(lambda line: None if 9 <= _hour(line) < 12 else line),
    # Each log file has a duplicate in the same directory.
    "log_files_delivered_twice": _log_files_delivered_twice,
    # Times are logged eight hours behind, in the same files.
    "times_in_utc": _lines(_eight_hours_behind, late=True),
    # A client that loses its user id sends 0 instead.
    "one_user_in_place_of_the_missing": _lines(lambda line: _with(line, userId="0") if _every(3, line) else line),
    # A log column is filled in after the click.
    "algorithm_knows_the_click": _algorithm_knows_the_click,
    # Half of the exposures come from a new algorithm.
    "a_new_algorithm_takes_over": _lines(
        lambda line: _with(line, algorithmCombine="brand new") if _every(2, line) else line, "exposure"
    ),
    # Reading times are in seconds instead of milliseconds.
    "read_times_in_seconds": _lines(
        lambda line: {**line, "readTime": str(int(line["readTime"] or 0) // 1000)}, "read", late=True
    ),
    # The day's profile changes are a copy of the day before.
    "profiles_of_yesterday_again": lambda night: night.repeat_table("user_profile"),
    # The day's vectors are a copy of the day before.
    "vectors_of_yesterday_again": lambda night: night.repeat_table("article_vector"),
    # All vectors of the day are zero.
    "vectors_of_zeros": _column(VECTORS, "articlevector", lambda rows: [[0.0] * 100] * len(rows)),
    # One article in four has a vector of NaN.
    "vectors_of_nan": _column(
        VECTORS,
        "articlevector",
        lambda rows: [[float("nan")] * 100 if n % 4 == 0 else row for n, row in enumerate(rows)],
    ),
    # Vectors are ten times larger, as after a change in the training library.
    "vectors_of_another_model": _column(
        VECTORS, "articlevector", lambda rows: [[10 * value for value in row] for row in rows]
    ),
    # No user has an age.
    "ages_all_missing": _column(PROFILES, "age", lambda ages: [None] * len(ages)),
    # Ages are in months instead of years.
    "ages_in_months": _column(PROFILES, "age", lambda ages: [age and age * 12 for age in ages]),
    # Topic weights are a thousand times too large.
    "weights_in_thousandths": _column(
        PROFILES, "article_partial", lambda rows: [[(key, 1000 * weight) for key, weight in row or []] for row in rows]
    ),
    # All users have the same gender.
    "everyone_is_male": _column(PROFILES, "gender", lambda genders: ["male"] * len(genders)),
    # Users with odd ids have no profile.
    "half_of_the_profiles_missing": _half_of_the_profiles_missing,
    # No article matches by id.
    "articles_of_the_wrong_keys": _column(
        "article_profile", "article_id", lambda ids: [one + 1_000_000 for one in ids]
    ),
    # Channel numbers are shifted by one.
    "channels_shifted_by_one": _column("article_profile", "channel_id", lambda ids: [one % 25 + 1 for one in ids]),
    # Article ages are a thousand times too small.
    "publication_in_milliseconds_taken_for_seconds": _publication_in_milliseconds,
}
"""Ways to break a night, by name: broken jobs, clients and copies."""


def check_way(way: str) -> None:
    """Raise UsageError for an unknown fault."""
    if way not in WAYS:
        raise UsageError(f"Unknown way to break a night: {way!r}; expected one of {', '.join(WAYS)}.")


def spoil(root: str | Path, day: date, way: str) -> None:
    """Apply one of the faults in :data:`WAYS` to the logs of a day.

    Faults in profiles and articles affect the whole table, not only the day. Raises UsageError for an unknown fault or
    a day without logs.
    """
    check_way(way)
    night = Night(Path(root), day)
    night.directory("user_action", day)
    WAYS[way](night)

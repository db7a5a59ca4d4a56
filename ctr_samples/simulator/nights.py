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

import numpy as np
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
        """Change each valid log line of ``days``, by default of the day itself. None removes a line."""
        for day in days or (self.day,):
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

    def change_column(self, pattern: str, column: str, values: Callable[[pa.Table], Any]) -> None:
        """Give a column of such tables other values of the same type."""

        def replaced(table: pa.Table) -> pa.Table:
            where = table.schema.get_field_index(column)
            return table.set_column(where, column, pa.array(values(table), table.schema.field(column).type))

        self.change_tables(pattern, replaced)

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


def _kind(line: Line) -> str:
    return str(line["param"]["action"])


def _hour(line: Line) -> int:
    return int(line["actionTime"][11:13])


def _of(kind: str, change: Callable[[Line], Line | None]) -> Callable[[Line], Line | None]:
    return lambda line: change(line) if _kind(line) == kind else line


def _with(line: Line, **param: str) -> Line:
    return {**line, "param": {**line["param"], **param}}


def _every(n: int, line: Line) -> bool:
    """Select one of every ``n`` lines, always the same lines."""
    return sum(map(ord, line["actionTime"] + line["param"]["userId"])) % n == 0


def half_of_the_clicks_missing(night: Night) -> None:
    """One of the two click log servers is down."""
    night.change_lines(_of("click", lambda line: None if _every(2, line) else line))


def no_clicks_at_all(night: Night) -> None:
    """The click log never arrives."""
    night.change_lines(_of("click", lambda line: None), night.day, night.after)


def clicks_of_the_evening_come_too_late(night: Night) -> None:
    """The click log ends at 18:00."""
    night.change_lines(_of("click", lambda line: None if _hour(line) >= 18 else line))


def clicks_of_other_users(night: Night) -> None:
    """Clicks are logged under a different user's id."""
    night.change_lines(_of("click", lambda line: _with(line, userId=str(int(line["param"]["userId"]) + 1))))


def two_thirds_of_the_impressions_missing(night: Night) -> None:
    """Two thirds of the exposures are missing, but their clicks are logged."""
    night.change_lines(_of("exposure", lambda line: line if _every(3, line) else None))


def three_hours_of_the_log_lost(night: Night) -> None:
    """Nothing is logged from 9:00 to 12:00."""
    night.change_lines(lambda line: None if 9 <= _hour(line) < 12 else line)


def log_files_delivered_twice(night: Night) -> None:
    """Each log file has a duplicate in the same directory."""
    for file in sorted(night.directory("user_action", night.day).iterdir()):
        shutil.copy(file, file.with_name(f"again-{file.name}"))


def times_in_utc(night: Night) -> None:
    """Times are logged eight hours behind, in the same files."""

    def behind(line: Line) -> Line:
        local = datetime.fromisoformat(line["actionTime"]) - timedelta(hours=8)
        return {**line, "actionTime": local.strftime("%Y-%m-%d %H:%M:%S")}

    night.change_lines(behind, night.day, night.after)


def one_user_in_place_of_the_missing(night: Night) -> None:
    """A client that loses its user id sends 0 instead."""
    night.change_lines(lambda line: _with(line, userId="0") if _every(3, line) else line)


def algorithm_knows_the_click(night: Night) -> None:
    """A log column is filled in after the click."""
    clicks = (line["param"] for line in night.sound_lines() if _kind(line) == "click")
    clicked = {(click["userId"], click["articleId"]) for click in clicks}

    def tell(line: Line) -> Line | list[Line]:
        if _kind(line) != "exposure":
            return line
        user, articles = line["param"]["userId"], line["param"]["articleId"].strip("[]").split(", ")
        outcomes = {article: "won" if (user, article) in clicked else "lost" for article in articles}
        return [_with(line, articleId=article, algorithmCombine=outcome) for article, outcome in outcomes.items()]

    night.change_lines(tell)


def a_new_algorithm_takes_over(night: Night) -> None:
    """Half of the exposures come from a new algorithm."""
    new = _of("exposure", lambda line: _with(line, algorithmCombine="brand new") if _every(2, line) else line)
    night.change_lines(new)


def read_times_in_seconds(night: Night) -> None:
    """Reading times are in seconds instead of milliseconds."""

    def shorter(line: Line) -> Line:
        return {**line, "readTime": str(int(line["readTime"] or 0) // 1000)}

    night.change_lines(_of("read", shorter), night.day, night.after)


def profiles_of_yesterday_again(night: Night) -> None:
    """The day's profile changes are a copy of the day before."""
    night.repeat_table("user_profile")


def vectors_of_yesterday_again(night: Night) -> None:
    """The day's vectors are a copy of the day before."""
    night.repeat_table("article_vector")


def _change_vectors(night: Night, change: Callable[[list[list[float]]], list[list[float]]]) -> None:
    vectors = f"article_vector/dt={night.day}"
    night.change_column(vectors, "articlevector", lambda table: change(table["articlevector"].to_pylist()))


def vectors_of_zeros(night: Night) -> None:
    """All vectors of the day are zero."""
    _change_vectors(night, lambda rows: [[0.0] * 100] * len(rows))


def vectors_of_nan(night: Night) -> None:
    """One article in four has a vector of NaN."""
    _change_vectors(night, lambda rows: [[float("nan")] * 100 if n % 4 == 0 else row for n, row in enumerate(rows)])


def vectors_of_another_model(night: Night) -> None:
    """Vectors are ten times larger, as after a change in the training library."""
    _change_vectors(night, lambda rows: [[10 * value for value in row] for row in rows])


PROFILES = "user_profile/dt=*"
"""Profiles of all days, since a broken upstream job rewrites the history too."""


def ages_all_missing(night: Night) -> None:
    """No user has an age."""
    night.change_column(PROFILES, "age", lambda table: [None] * len(table))


def ages_in_months(night: Night) -> None:
    """Ages are in months instead of years."""
    night.change_column(PROFILES, "age", lambda table: [age and age * 12 for age in table["age"].to_pylist()])


def weights_in_thousandths(night: Night) -> None:
    """Topic weights are a thousand times too large."""

    def larger(table: pa.Table) -> Any:
        return [[(key, 1000 * weight) for key, weight in row or []] for row in table["article_partial"].to_pylist()]

    night.change_column(PROFILES, "article_partial", larger)


def everyone_is_male(night: Night) -> None:
    """All users have the same gender."""
    night.change_column(PROFILES, "gender", lambda table: ["male"] * len(table))


def half_of_the_profiles_missing(night: Night) -> None:
    """Users with odd ids have no profile."""
    night.change_tables(PROFILES, lambda table: table.filter(pc.equal(pc.bit_wise_and(table["user_id"], 1), 0)))


def articles_of_the_wrong_keys(night: Night) -> None:
    """No article matches by id."""
    night.change_column("article_profile", "article_id", lambda table: np.asarray(table["article_id"]) + 1_000_000)


def channels_shifted_by_one(night: Night) -> None:
    """Channel numbers are shifted by one."""
    night.change_column("article_profile", "channel_id", lambda table: np.asarray(table["channel_id"]) % 25 + 1)


def publication_in_milliseconds_taken_for_seconds(night: Night) -> None:
    """Article ages are a thousand times too small."""

    def nearer(table: pa.Table) -> list[datetime]:
        midnight = datetime.fromisoformat(f"{night.day}T00:00:00+08:00")
        return [midnight - (midnight - time) / 1000 for time in table["published_at"].to_pylist()]

    night.change_column("article_profile", "published_at", nearer)


WAYS: dict[str, Callable[[Night], None]] = {
    way.__name__: way
    for way in (
        half_of_the_clicks_missing,
        no_clicks_at_all,
        clicks_of_the_evening_come_too_late,
        clicks_of_other_users,
        two_thirds_of_the_impressions_missing,
        three_hours_of_the_log_lost,
        log_files_delivered_twice,
        times_in_utc,
        one_user_in_place_of_the_missing,
        algorithm_knows_the_click,
        a_new_algorithm_takes_over,
        read_times_in_seconds,
        profiles_of_yesterday_again,
        vectors_of_yesterday_again,
        vectors_of_zeros,
        vectors_of_nan,
        vectors_of_another_model,
        ages_all_missing,
        ages_in_months,
        weights_in_thousandths,
        everyone_is_male,
        half_of_the_profiles_missing,
        articles_of_the_wrong_keys,
        channels_shifted_by_one,
        publication_in_milliseconds_taken_for_seconds,
    )
}


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
